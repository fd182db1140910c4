"""The default number of factors and the default noise of a fit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.datasets import hide_blocks, hide_values, load_nyc_weather
from probsfa.imputation import LinearInterpolation
from probsfa.statespace.default_model import fit_default_model
from probsfa.statespace.learning.budget import ar1_noise_affordable
from probsfa.statespace.learning.maximum_likelihood import InMemory
from probsfa.statespace.learning.options import FitOptions


def ar1(rng, n_rows, decays):
    """Stationary AR(1) processes of unit variance (T, M)."""
    z = rng.standard_normal((n_rows, len(decays)))
    for t in range(1, n_rows):
        z[t] = decays * z[t - 1] + np.sqrt(1.0 - decays**2) * z[t]
    return z


def error_of(filled, complete, hidden):
    return np.sqrt(np.mean(((filled - complete) / np.nanstd(complete, axis=0))[hidden] ** 2))


def simulate_columns(rng, n_rows):
    """Simulate two factors of twenty columns, a slow process in each column, and white noise."""
    shared = ar1(rng, n_rows, np.array([0.7, 0.5])) @ rng.standard_normal((2, 20))
    return shared + ar1(rng, n_rows, np.full(20, 0.9)) + 0.1 * rng.standard_normal((n_rows, 20))


def test_processes_of_single_columns_get_ar1_noise(rng):
    complete = simulate_columns(rng, 200)
    hidden = hide_values(complete, 0.1, random_state=0)
    incomplete = np.where(hidden, np.nan, complete)
    model = ProbabilisticSFA().fit(incomplete)
    assert model.params_.has_ar1_noise and model.noise_decay_.shape == (20,)
    assert model.get_params()["noise"] == "auto" and "held-out values" in model.status_
    white = ProbabilisticSFA(noise="diagonal").fit(incomplete)
    errors = [error_of(one.impute(incomplete), complete, hidden) for one in (model, white)]
    assert errors[0] < errors[1]


def test_the_same_data_get_the_same_model(rng):
    incomplete = simulate_columns(rng, 60)[:, :3]
    incomplete[::9, 1] = np.nan
    one, other = (ProbabilisticSFA().fit(incomplete) for _ in range(2))
    np.testing.assert_array_equal(one.loadings_, other.loadings_)


def test_a_column_that_is_constant_in_the_comparison(rng):
    """The column varies only in the last rows, most of which are held out or not in the comparison."""
    x = simulate_columns(rng, 120)[:, :6]
    x[:118, 0] = 1.0
    model = ProbabilisticSFA().fit(x)
    assert np.all(np.isfinite(model.impute(np.where(hide_blocks(x, 5, random_state=0), np.nan, x))))


def test_the_simplest_of_equal_candidates_is_selected(rng):
    requested: list[tuple[str, int]] = []
    x = rng.standard_normal((60, 3)).cumsum(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = ProbabilisticSFA(1, max_iter=3).fit(x)._model

    def fit(sequences: Sequences, options: FitOptions, size, start):
        requested.append((options.noise, size.n_components))
        return real

    data = InMemory(Sequences(x, (60,)))
    model = fit_default_model(data, FitOptions.of(ProbabilisticSFA()).check(), fit)
    assert requested[-1] == requested[0] == ("ar1", 0)
    assert {noise for noise, _ in requested} == {"ar1", "diagonal"}
    assert "3 factors and AR(1) noise" in model.fitted.status


@pytest.mark.filterwarnings("ignore:Observed values left out")
def test_a_cycle_is_added_if_held_out_values_need_it():
    """A daily cycle keeps its phase in a block of 36 missing rows; predictions of AR(1) factors decay."""
    rng = np.random.default_rng(3)
    phases = rng.uniform(0.0, 2.0 * np.pi, 4)
    daily = np.cos(2.0 * np.pi * np.arange(600)[:, None] / 24.0 + phases)
    complete = daily + 0.5 * ar1(rng, 600, np.full(4, 0.9)) + 0.1 * rng.standard_normal((600, 4))
    hidden = np.zeros(complete.shape, dtype=bool)
    hidden[200:236] = hidden[400:436] = True
    incomplete = np.where(hidden, np.nan, complete)
    model = ProbabilisticSFA().fit(incomplete)
    assert model.rhythm_periods_[0] == pytest.approx(24.0, rel=0.01) and "1 cycle" in model.status_
    without = ProbabilisticSFA(4, noise="ar1").fit(incomplete)
    assert error_of(model.impute(incomplete), complete, hidden) < 0.8 * error_of(
        without.impute(incomplete), complete, hidden
    )


@pytest.mark.filterwarnings("ignore:Observed values left out")
def test_independent_random_walks_are_imputed_as_by_interpolation():
    walks = np.random.default_rng(5).standard_normal((300, 4)).cumsum(axis=0)
    hidden = hide_blocks(walks, 10, random_state=0)
    incomplete = np.where(hidden, np.nan, walks)
    model = ProbabilisticSFA().fit(incomplete)
    assert model.loadings_.shape == (4, 0)
    interpolated = LinearInterpolation().fill(incomplete).values
    assert error_of(model.impute(incomplete), walks, hidden) <= 1.02 * error_of(interpolated, walks, hidden)


def test_ar1_noise_of_all_columns_is_not_affordable_in_very_long_data():
    assert ar1_noise_affordable(9_000, 18)
    assert ar1_noise_affordable(5_000, 300)
    assert not ar1_noise_affordable(1_000_000, 18)


@pytest.mark.parametrize("requested", [{"n_components": 2}, {"noise": "diagonal"}, {"robust": True}])
def test_no_comparison_if_an_option_is_given(requested):
    x = load_nyc_weather(drop_impossible=True).data.to_numpy(float)[2000:2100, :5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        model = ProbabilisticSFA(max_iter=3, **requested).fit(x)
    assert not hasattr(model, "noise_decay_") and "held-out values" not in model.status_


def test_a_column_observed_once_does_not_prevent_the_comparison():
    """Its pattern of missing values, shifted in time, hides no values of other columns; single values do."""
    X = ar1(np.random.default_rng(0), 150, np.array([0.97, 0.6, 0.9, 0.8]))
    once = np.column_stack([X, np.full(len(X), np.nan)])
    once[3, 4] = 7.0
    assert "candidates" in ProbabilisticSFA().fit(once).status_.codes


@pytest.mark.parametrize("shape", [(2, 50), (3, 9), (4, 50), (7, 3)])
def test_data_with_too_few_values_to_hold_out_are_fitted(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.all(np.isfinite(ProbabilisticSFA().fit(X).loadings_))


def test_an_interrupt_while_cycles_are_compared_ends_the_fit():
    """The interrupted fit is returned, and no other fit is started."""
    t = np.arange(120)[:, None]
    x = np.cos(2.0 * np.pi * t / 24.0 + np.arange(3)) + 0.1 * np.random.default_rng(0).normal(size=(120, 3))
    calls: list[int] = []

    def fit(sequences: Sequences, options: FitOptions, size, start):
        calls.append(options.processes["rhythms"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = (
                ProbabilisticSFA(size.n_components, noise=options.noise, max_iter=5)
                .fit(sequences.values)
                ._model
            )
        return replace(model, fitted=replace(model.fitted, interrupted=bool(options.processes["rhythms"])))

    model = fit_default_model(InMemory(Sequences(x, (120,))), FitOptions.of(ProbabilisticSFA()).check(), fit)
    assert model.fitted.interrupted and calls[-1] == 1 and calls.count(1) == 1


@pytest.mark.parametrize(("n_rows", "n_columns", "seed"), [(10, 4, 9), (3, 6, 0), (6, 2, 1)])
def test_a_series_too_short_for_a_cycle_is_fitted_without_one(n_rows, n_columns, seed):
    X = np.cumsum(np.random.default_rng(seed).normal(size=(n_rows, n_columns)), axis=0)
    X[1, 0] = np.nan
    model = ProbabilisticSFA().fit(X)
    assert not hasattr(model, "rhythm_periods_")
    assert np.isfinite(model.impute(X)).all()


def test_the_memory_layout_does_not_change_the_fit(rng):
    """A fit that stops early amplifies rounding errors of its initial parameters."""
    X = rng.standard_normal((80, 3)).cumsum(axis=0)
    by_rows, by_columns = (ProbabilisticSFA(1, tol=5.0).fit(np.array(X, order=order)) for order in "CF")
    assert by_rows.log_likelihood_ == by_columns.log_likelihood_
