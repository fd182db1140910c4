"""The tutorials run, and what they claim at their ends holds."""

import ast
import os
import runpy
from pathlib import Path

import pytest

from tests.sampling import sparsely

FOLDER = Path(__file__).resolve().parents[1] / "tutorials"
SCRIPTS = sorted(FOLDER.glob("*.py"))


@sparsely("script", SCRIPTS, ids=lambda path: path.stem)
def test_tutorial(script, monkeypatch, capsys):
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    try:
        runpy.run_path(str(script))
    finally:
        plt.close("all")
    assert capsys.readouterr().out


def test_there_are_tutorials():
    assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_cell_ends_in_a_value_that_a_notebook_would_print(script):
    """Notebooks show the value of the last line of a cell; that of a plot is an object's address."""
    for cell in script.read_text().split("\n# %%")[1:]:
        body = ast.parse("#" + cell).body  # the rest of the line of the marker is a comment
        if body and isinstance(body[-1], ast.Expr):
            assert ast.unparse(body[-1]).startswith("print("), ast.unparse(body[-1])
