"""Gaussian fits to binary values or counts warn once, and the warning names EmissionSFA."""

import warnings

import numpy as np
import pandas as pd
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace.columns import has_counts

RNG = np.random.default_rng(0)
N = 60


@pytest.mark.parametrize(
    "column, is_counts",
    [
        (RNG.random(N) < 0.3, True),
        (RNG.poisson(2.0, N), True),
        (np.where(RNG.random(N) < 0.4, 0, RNG.integers(0, 10_000, N)), True),
        (np.where(RNG.random(N) < 0.1, np.nan, RNG.poisson(2.0, N)), True),
        (RNG.standard_normal(N), False),
        (RNG.poisson(2.0, N) + 0.5, False),
        (RNG.poisson(2.0, N) - 3, False),
        (RNG.integers(0, 10_000, N), False),
        (np.zeros(N), False),
        (np.ones(N), False),
        (RNG.poisson(2.0, 30), False),
        (np.full(N, np.nan), False),
    ],
)
def test_columns_of_counts_are_detected(column, is_counts):
    assert has_counts(np.asarray(column, dtype=float)) == is_counts


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_counts_are_fitted_with_one_warning():
    walk = np.cumsum(RNG.standard_normal((N, 2)), axis=0)
    frame = pd.DataFrame({"wind": walk[:, 0], "calls": RNG.poisson(2.0, N), "open": RNG.random(N) < 0.5})
    with pytest.warns(UserWarning, match="Columns 'calls', 'open' contain.*EmissionSFA") as caught:
        ProbabilisticSFA(1, max_iter=3).fit(frame)
    assert sum("EmissionSFA" in str(one.message) for one in caught) == 1
    with pytest.warns(UserWarning, match="Column 0 contains"):
        ProbabilisticSFA(1, max_iter=3).fit(np.column_stack([RNG.random(N) < 0.5, walk]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_real_numbers_cause_no_warning():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*EmissionSFA")
        ProbabilisticSFA(1, max_iter=3).fit(np.cumsum(RNG.standard_normal((N, 2)), axis=0))
