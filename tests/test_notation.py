"""The table from formulas to tests in NOTATION.md names modules, oracles and tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE, ORACLE, TEST = (ROOT / folder for folder in ("probsfa", "tests/oracles", "tests"))
HEADER = ["what", "formula", "code", "oracle", "test"]


def rows():
    """Return the entries of every row, (what, formula, code, oracle, test)."""
    section = (ROOT / "NOTATION.md").read_text("utf-8").partition("\n## From formula to test\n")[2]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != HEADER and set(row) != {"---"}]


ROWS = rows()


@cache
def functions(path):
    """Return the names of the functions of a file."""
    return {
        node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
    }


def named(cell):
    """Return the files and functions of an entry: ``file.py`` or ``file.py::function``, in backticks."""
    return [tuple(name.split("::")) for name in re.findall(r"`([\w/]+\.py(?:::\w+)?)`", cell)]


def test_the_table_is_there():
    assert len(ROWS) > 50
    assert all(len(row) == len(HEADER) and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_exists(row):
    _, _, code, oracle, test = row
    assert named(code) and named(test)
    # These two columns contain only names, so that a misspelled name is an error.
    for cell in (code, test):
        assert len(named(cell)) == len(cell.split(", "))
    for folder, cell in ((CODE, code), (ORACLE, oracle), (TEST, test)):
        for file, *function in named(cell):
            assert (folder / file).is_file(), file
            assert set(function) <= functions(folder / file), (file, function)


def test_every_file_of_oracles_has_a_row():
    used = {ORACLE / file for row in ROWS for file, *_ in named(row[3])}
    assert used == {path for path in ORACLE.glob("*.py") if path.name != "__init__.py"}
