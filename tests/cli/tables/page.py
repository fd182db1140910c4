"""Table of the documentation: how the command reads each kind of input.

`python -m tests.cli.tables.page` writes it.
"""

import os
import tempfile
from pathlib import Path

from probsfa.cli._errors import CommandError
from probsfa.cli._parser import parse
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import read_input
from tests.cli.tables.cases import CASES, Case

PAGE = Path(__file__).resolve().parents[3] / "docs" / "command_line.md"
START, END = "<!-- begin of the generated table -->", "<!-- end of the generated table -->"


class _Notes(Screen):
    """A screen that collects notes and warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.notes.append(f"warning: {text}")


def generated() -> str:
    """Return the table for all cases."""
    rows = [f"| {_cell(case.kind)} | {_cell(_answer(case))} |" for case in CASES]
    return "\n".join([START, "| kind of input | report |", "|---|---|", *rows, END])


def current() -> str:
    """Return the table of the page."""
    page = PAGE.read_text(encoding="utf-8")
    return page[page.index(START) : page.index(END) + len(END)]


def _answer(case: Case) -> str:
    """Return the report of the command on a file, or its error."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("data.csv").write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
            screen = _Notes()
            read_input(parse(["impute", "data.csv", "--dry-run", *case.options]), screen)
        except CommandError as error:
            return f"error: {str(error).removeprefix('data.csv: ')}"
        finally:
            os.chdir(before)
    notes = (note.replace("data.csv: ", "") for note in screen.notes if note != "data: a, b")
    return "; ".join(notes)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(current(), generated()), encoding="utf-8")
