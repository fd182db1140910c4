"""Scores as text and as CSV."""

import numpy as np

from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.imputation import Comparison, Score


def test_tables():
    scores = [Score("mean", 1.0, 0.75, None, 0.01), Score("probabilistic SFA", 0.2541, 0.126, 0.905, 12.34)]
    comparison = Comparison("hidden, one by one", tuple(scores), np.ones((1, 1)), {})
    assert scores_as_text([comparison, comparison]).split("\n\n")[0].splitlines() == [
        "hidden, one by one",
        "                      RMSE    MAE  90 % covers  seconds",
        "  mean               1.000  0.750            -      0.0",
        "  probabilistic SFA  0.254  0.126       90.5 %     12.3",
    ]
    assert scores_as_csv([comparison]).splitlines() == [
        "hidden,method,rmse,mae,coverage,seconds",
        '"hidden, one by one",mean,1,0.75,,0.01',
        '"hidden, one by one",probabilistic SFA,0.2541,0.126,0.905,12.34',
    ]
