"""Tables of the documentation: results of estimators for each kind of input.

`python -m tests.input_validation.page` writes them.
"""

import re
import warnings
from pathlib import Path

from tests.input_validation.cases import SECTIONS, Case

PAGE = Path(__file__).resolve().parents[2] / "docs" / "input_validation.md"
START, END = "<!-- begin of the generated tables -->", "<!-- end of the generated tables -->"


def result_of(case: Case) -> str:
    """Return the result of a case, with its warnings, or its error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = case.result()
        except (ValueError, TypeError) as error:
            return f"error: {error}"
    messages = dict.fromkeys(str(warning.message) for warning in caught)
    return "; ".join([result, *(f"warning: {message}" for message in messages if message != result)])


def generated() -> str:
    """Return the tables for all cases."""
    lines = [START]
    for title, cases in SECTIONS.items():
        lines += ["", f"## {title}", "", "| kind of input | result |", "|---|---|"]
        lines += [f"| {_cell(case.kind)} | {_cell(result_of(case))} |" for case in cases]
    return "\n".join([*lines, "", END])


def current() -> str:
    """Return the tables of the page."""
    page = PAGE.read_text(encoding="utf-8")
    return page[page.index(START) : page.index(END) + len(END)]


def without_figures(text: str) -> str:
    """Return the text without numbers that depend on the machine."""
    text = re.sub(r"this machine has \S+ GiB", "this machine has # GiB", text)
    return re.sub(r"\d+\.\d+(e-?\d+)?", "#", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(current(), generated()), encoding="utf-8")
