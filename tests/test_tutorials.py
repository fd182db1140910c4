"""The tutorials run, and what they claim at their ends holds."""

import os
import runpy
from pathlib import Path

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
