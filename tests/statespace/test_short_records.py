"""Noise that a fit chooses where cells are few for as many latents as columns."""

import warnings

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.datasets import hide_cells, load_nyc_weather, make_slow_mixture
from probsfa.statespace.columns import column_moments
from probsfa.statespace.short_records import few_data


def columns_of(counts, n_rows, constant=()):
    values = np.full((n_rows, len(counts)), np.nan)
    for j, count in enumerate(counts):
        values[:count, j] = 1.0 if j in constant else np.arange(count)
    return column_moments(Sequences(values, (n_rows,)))


@pytest.mark.parametrize(
    ("counts", "few"),
    [
        ([299] * 6, True),
        ([300] * 6, False),
        ([100, 499, 300, 300, 300, 299], True),  # on average
        ([50] * 2, False),  # two columns have little to share
        ([100] * 60, False),  # eighty states: memories of all columns would take long
    ],
)
def test_few_data_are_few_cells_for_many_columns(counts, few):
    n_rows = max(counts)
    assert few_data(columns_of(counts, n_rows)) == few
    # A constant column has cells, which tell nothing.
    assert few_data(columns_of([*counts, n_rows], n_rows, constant=[len(counts)])) == few


@pytest.fixture(scope="module")
def short():
    """Ten days of the weather's first nine columns, a tenth of the cells hidden; and what was there."""
    whole = load_nyc_weather(drop_impossible=True).data.to_numpy(float)[2000:2240, :9]
    return np.where(hide_cells(whole, 0.1, random_state=0), np.nan, whole), whole


def test_memory_is_taken_where_straight_lines_come_near_and_the_criterion_says_so(short):
    """As many latents as columns fill these days worse."""
    seen, whole = short
    model, white = ProbabilisticSFA().fit(seen), ProbabilisticSFA(noise="diagonal").fit(seen)
    assert model.noise_decay_.shape == (9,) and model.get_params()["noise"] == "auto"
    assert f"noise='auto' took noise with memory: BIC {model.bic(seen):.6g}" in model.status_
    assert f"against {white.bic(seen):.6g} of white noise and 9 latents" in model.status_
    assert model.bic(seen) < white.bic(seen)
    hidden = np.isnan(seen) & ~np.isnan(whole)
    errors = [((one.impute(seen) - whole) / np.nanstd(whole, axis=0))[hidden] for one in (model, white)]
    assert np.mean(errors[0] ** 2) < np.mean(errors[1] ** 2)


def test_white_noise_stays_where_straight_lines_are_far_behind():
    x = make_slow_mixture(150, 6, decay=[0.5, 0.3], noise_variance=0.05, random_state=0).data
    x[::7, 2] = np.nan
    model = ProbabilisticSFA().fit(x)
    assert not hasattr(model, "noise_decay_") and "noise='auto'" not in model.status_


@pytest.mark.parametrize("asked", [{"n_components": 2}, {"noise": "diagonal"}, {"robust": True}])
def test_white_noise_stays_where_something_was_asked_for(asked, short):
    model = ProbabilisticSFA(max_iter=3, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        model.fit(short[0])
    assert not hasattr(model, "noise_decay_") and "noise='auto'" not in model.status_
