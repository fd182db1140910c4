"""The comparison: how cells are hidden, what each method makes of them, and how that is scored."""

import argparse

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

from probsfa.cli._comparison import (
    Comparison,
    Score,
    average,
    compare_methods,
    hide,
    hiders,
    score,
)
from probsfa.cli._errors import CommandError
from probsfa.cli._methods import (
    PROBABILISTIC,
    Filled,
    default_methods,
    fill_classic,
    fill_iterative,
    fill_linear,
    fill_mean,
    fill_with,
    make_model,
)
from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.cli._screen import Screen
from probsfa.cli.tables.clock import Clock
from probsfa.cli.tables.suspects import suspects
from probsfa.datasets import make_slow_mixture
from tests.tolerances import SPECTRAL

NAN = np.nan
EVEN = Clock(None, None, None, "")


@pytest.fixture
def series():
    return make_slow_mixture(200, 4, noise_variance=0.01, missing_fraction=0.1, random_state=0).data


def test_score_by_hand():
    truth = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0], [3.0, NAN]])
    seen = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, NAN], [NAN, NAN]])
    filled = Filled(np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 25.0], [4.0, 99.0]]))
    scales = np.std([0.0, 1.0, 2.0]), np.std([10.0, 20.0])
    errors = np.array([1.0 / scales[0], 5.0 / scales[1]])
    rmse, mae, coverage = score(truth, seen, filled)
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert mae == pytest.approx(np.mean(errors))
    assert coverage is None
    # The first error is 1 and the second 5: intervals of half width 1.645 and 1.645 hold the first.
    assert score(truth, seen, filled._replace(std=np.ones((4, 2))))[2] == 0.5


def test_coverage_of_honest_intervals():
    rng = np.random.default_rng(42)
    truth = rng.standard_normal((20_000, 2))
    seen = np.where(rng.random(truth.shape) < 0.5, NAN, truth)
    honest = Filled(np.where(np.isnan(seen), 0.0, truth), np.isnan(seen).astype(float))
    covered = score(truth, seen, honest)[2]
    assert abs(covered - 0.9) < 6.0 * np.sqrt(0.09 / np.isnan(seen).sum())


def test_errors_of_a_constant_column_count_as_they_are():
    truth = np.array([[1.0], [1.0], [4.0]])
    seen = np.array([[1.0], [1.0], [NAN]])
    assert score(truth, seen, Filled(np.ones((3, 1))))[:2] == (3.0, 3.0)


def test_nothing_hidden_is_refused():
    with pytest.raises(CommandError, match="too few observed cells"):
        score(np.ones((3, 2)), np.ones((3, 2)), Filled(np.ones((3, 2))))


def test_hiding_leaves_every_column_something():
    X = np.array([[1.0, 5.0], [2.0, NAN], [3.0, NAN], [4.0, 6.0]])
    hidden = np.array([[True, True], [False, False], [False, False], [False, False]])
    np.testing.assert_array_equal(hide(X, hidden), [[NAN, 5.0], [2.0, NAN], [3.0, NAN], [4.0, 6.0]])


def test_ways_of_hiding(series):
    single, blocks = hiders(200, fraction=0.2, block=10).items()
    assert single[0] == "20 % of the observed cells hidden, one by one"
    assert blocks[0] == "20 % of the observed cells hidden, in blocks of 10 rows"
    for _, hider in (single, blocks):
        hidden = hider(series, 0)
        assert 0.1 < hidden.sum() / (~np.isnan(series)).sum() < 0.3
    with pytest.raises(CommandError, match="--block must be at most the 200 rows"):
        hiders(200, fraction=0.2, block=201)


def test_mean(series):
    filled = fill_mean(series, EVEN).values
    np.testing.assert_allclose(filled, pd.DataFrame(series).fillna(pd.DataFrame(series).mean()))


def test_linear_interpolation_in_rows(series):
    expected = pd.DataFrame(series).interpolate(limit_direction="both")
    np.testing.assert_allclose(fill_linear(series, EVEN).values, expected, rtol=1e-12)


def test_linear_interpolation_in_time(series):
    times = np.cumsum(np.random.default_rng(1).integers(1, 9, len(series))).astype(float)
    expected = pd.DataFrame(series, index=times).interpolate("index", limit_direction="both")
    filled = fill_linear(series, Clock(times, None, None, "")).values
    np.testing.assert_allclose(filled, expected, rtol=1e-12)


def test_iterative_imputer_finds_what_depends_on_the_others():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 1))
    X = np.hstack([x, 2.0 * x + 1.0, -x])
    seen = X.copy()
    seen[5, 1] = seen[9, 0] = NAN
    np.testing.assert_allclose(fill_iterative(seen, EVEN).values, X, atol=1e-3)


def test_classic_sfa_keeps_the_slow_half(series):
    interpolated = fill_linear(series, EVEN).values
    centred = interpolated - interpolated.mean(axis=0)
    steps = np.diff(centred, axis=0)
    covariance = centred.T @ centred / len(centred)
    _, W = scipy.linalg.eigh(steps.T @ steps / len(steps), covariance)
    slow = centred @ W[:, :2] @ (covariance @ W[:, :2]).T + interpolated.mean(axis=0)
    expected = np.where(np.isnan(series), slow, series)
    np.testing.assert_allclose(fill_classic(series, EVEN).values, expected, rtol=SPECTRAL, atol=SPECTRAL)


def test_an_interrupted_fit_ends_the_comparison(stand_in, series, monkeypatch):
    from probsfa.statespace.learning.objective import STATUS_SENTENCES

    def fit(self, X, y=None, **options):
        self.status_ = STATUS_SENTENCES["interrupted"]
        return self

    monkeypatch.setattr(stand_in, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        fill_with(stand_in())(series, EVEN)


def test_an_estimator_as_a_method(stand_in, series):
    model = stand_in(n_components=3)
    times = np.linspace(0.0, 1.0, len(series)) ** 2
    filled = fill_with(model)(series, Clock(times, None, None, ""))
    np.testing.assert_allclose(filled.values, fill_mean(series, EVEN).values)
    assert np.all((filled.std > 0.0) == np.isnan(series))
    [call] = stand_in.calls
    np.testing.assert_array_equal(call.times, times)
    assert call.model is filled.model is not model


@pytest.mark.parametrize(("asked", "n_features", "n_components"), [(None, 4, 4), (None, 50, 20), (7, 4, 7)])
def test_default_model(stand_in, asked, n_features, n_components):
    args = argparse.Namespace(n_components=asked, max_iter=None, seed=5)
    model = make_model(args, n_features)
    assert (model.n_components, model.random_state, model.max_iter) == (n_components, 5, 60)


def test_all_methods_fill_the_same_holes_and_leave_the_rest(stand_in, series, capsys):
    ways = hiders(len(series), fraction=0.1, block=12)
    found = compare_methods(series, EVEN, default_methods(stand_in(2)), ways, [0, 1], Screen())
    assert [comparison.hidden for comparison in found] == list(ways)
    for comparison, hider in zip(found, ways.values(), strict=True):
        seen = hide(series, hider(series, 1))
        np.testing.assert_array_equal(comparison.seen, seen)
        assert [each.method for each in comparison.scores] == list(comparison.filled)
        for name, filled in comparison.filled.items():
            assert not np.isnan(filled.values).any()
            np.testing.assert_array_equal(filled.values[~np.isnan(seen)], seen[~np.isnan(seen)])
            assert (filled.std is not None) == (name == PROBABILISTIC)
    assert "probabilistic SFA" in capsys.readouterr().err  # progress


def test_average():
    scores = [Score("m", 1.0, 2.0, 0.8, 3.0), Score("m", 3.0, 4.0, 1.0, 5.0)]
    assert average(scores) == Score("m", 2.0, 3.0, 0.9, 4.0)
    assert average([Score("m", 1.0, 2.0, None, 3.0)]).coverage is None


def test_tables():
    scores = [Score("mean", 1.0, 0.75, None, 0.01), Score("probabilistic SFA", 0.2541, 0.126, 0.905, 12.34)]
    comparison = Comparison("hidden, one by one", scores, np.ones((1, 1)), {})
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


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 2.0, 3.5, -200.0, -200.0], [-200.0]),
        ([1.0, 2.0, 3.5, 9999.0, 9999.0, NAN], [9999.0]),
        ([-200.0, 1.0, 2.0, 3.0, 999.0, -200.0, 999.0], [999.0]),  # further off than -200
        ([1.0, 2.0, 3.5, -200.0], []),  # once: a wild reading
        ([0.0, 0.0, 0.0, 500.0, 1000.0], []),  # zero is a value
        ([1000.0, 1000.0, 1010.0, 1020.0], []),  # within the range of the others
        ([-99.9, -99.9, 1.0, 2.0], []),  # not whole
        ([5.0, 5.0, NAN], []),
    ],
)
def test_suspects(values, found):
    assert suspects(np.array(values)) == found
