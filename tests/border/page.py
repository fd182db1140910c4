"""The tables in the documentation of what estimators do with each kind of input.

`python -m tests.border.page` writes them.
"""

import re
import warnings
from pathlib import Path

from tests.border.cases import SECTIONS, Case

PAGE = Path(__file__).resolve().parents[2] / "docs" / "border.md"
START, END = "<!-- begin of the generated tables -->", "<!-- end of the generated tables -->"


def answer(case: Case) -> str:
    """What becomes of a case: its result, the warnings that came with it, or why it was refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = case.answer()
        except (ValueError, TypeError) as error:
            return f"refused: {error}"
    said = dict.fromkeys(str(warning.message) for warning in caught)
    return "; ".join([result, *(f"warning: {message}" for message in said if message != result)])


def generated() -> str:
    """The tables, made of what the estimators say to each case."""
    lines = [START]
    for title, cases in SECTIONS.items():
        lines += ["", f"## {title}", "", "| kind of input | what is done |", "|---|---|"]
        lines += [f"| {_cell(case.kind)} | {_cell(answer(case))} |" for case in cases]
    return "\n".join([*lines, "", END])


def current() -> str:
    """The tables that the page has."""
    page = PAGE.read_text(encoding="utf-8")
    return page[page.index(START) : page.index(END) + len(END)]


def without_figures(text: str) -> str:
    """The same with figures replaced that differ from machine to machine."""
    text = re.sub(r"this machine has \S+ GiB", "this machine has # GiB", text)
    return re.sub(r"\d+\.\d+(e-?\d+)?", "#", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(current(), generated()), encoding="utf-8")
