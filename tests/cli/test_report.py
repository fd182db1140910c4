"""Scores as text and as CSV; the progress bar."""

import io
import sys

import numpy as np
import pytest

from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.cli._screen import Screen
from probsfa.imputation import Comparison, Score


def test_scores_as_tables():
    scores = [Score("mean", 1.0, 0.75, None, 0.01), Score("probabilistic SFA", 0.2541, 0.126, 0.905, 12.34)]
    comparison = Comparison("hidden, one by one", tuple(scores), np.ones((1, 1)), {})
    assert scores_as_text([comparison, comparison]).split("\n\n")[0].splitlines() == [
        "hidden, one by one",
        "                      RMSE    MAE  coverage (90 %)  seconds",
        "  mean               1.000  0.750                -      0.0",
        "  probabilistic SFA  0.254  0.126           90.5 %     12.3",
    ]
    assert scores_as_csv([comparison]).splitlines() == [
        "hidden,method,rmse,mae,coverage,seconds",
        '"hidden, one by one",mean,1,0.75,,0.01',
        '"hidden, one by one",probabilistic SFA,0.2541,0.126,0.905,12.34',
    ]


@pytest.mark.parametrize("on_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(on_terminal, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: on_terminal
    monkeypatch.setattr(sys, "stderr", stream)
    if not on_terminal:
        monkeypatch.setitem(sys.modules, "tqdm", None)  # tqdm is optional
    with Screen().progress() as show:
        show(1, 4, "mean")
    assert ("mean" in stream.getvalue()) == on_terminal
