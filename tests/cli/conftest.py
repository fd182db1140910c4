"""Commands with a stand-in for the estimator, so that they are tested separately."""

from types import SimpleNamespace

import pytest

import probsfa
import probsfa.statespace
from probsfa.cli import main
from tests.stand_in import StandIn


@pytest.fixture
def stand_in(monkeypatch):
    """Replace the estimator of the commands by the stand-in."""
    monkeypatch.setattr(probsfa.statespace, "ProbabilisticSFA", StandIn)
    monkeypatch.setitem(probsfa.__dict__, "load", StandIn.load)
    monkeypatch.setattr(StandIn, "calls", [])
    return StandIn


@pytest.fixture
def command(stand_in, tmp_path, monkeypatch, capfd):
    """Run `probsfa` in a new folder; return the exit code and the output."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            code = stop.code
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run
