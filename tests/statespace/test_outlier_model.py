"""Gaussian models that treat gross outliers as missing, and data for which the default fit is one."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import probsfa
from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.datasets import hide_blocks, hide_values
from probsfa.statespace import default_model, estimator
from probsfa.statespace.learning.maximum_likelihood import InMemory, maximum_likelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.outlier_model import OutlierModel, far_from_adjacent, robust_scale_with_outliers


def ar1(rng, n_rows, decays):
    """Stationary AR(1) processes of unit variance (T, M)."""
    z = rng.standard_normal((n_rows, len(decays)))
    for t in range(1, n_rows):
        z[t] = decays * z[t - 1] + np.sqrt(1.0 - decays**2) * z[t]
    return z


def simulate(seed, n_rows=300, n_columns=5):
    rng = np.random.default_rng(seed)
    factors = ar1(rng, n_rows, np.array([0.95, 0.8])) @ rng.standard_normal((2, n_columns))
    return (
        factors + 0.5 * ar1(rng, n_rows, np.full(n_columns, 0.8)) + 0.2 * rng.standard_normal(factors.shape)
    )


def with_outliers(x):
    """Return the rows with three gross values and an artefact row, and the mask of these values."""
    is_outlier = np.zeros(x.shape, dtype=bool)
    is_outlier[[40, 90, 200], [0, 1, 0]] = True
    is_outlier[150] = True
    return np.where(is_outlier, x + 40.0, x), is_outlier


def as_sequences(x):
    return Sequences(x, (len(x),))


@pytest.fixture(scope="module")
def fitted():
    """The default fit to rows with outliers, these rows with missing values, and the outliers."""
    x, is_outlier = with_outliers(simulate(0))
    incomplete = np.where(hide_values(x, 0.1, random_state=0) & ~is_outlier, np.nan, x)
    return ProbabilisticSFA().fit(incomplete), incomplete, is_outlier


def test_columns_in_which_few_values_dominate(rng):
    x = rng.standard_normal((200, 4))
    x[50, 1] = 300.0  # one gross value
    x[:, 2] = rng.standard_t(1.2, 200)  # heavy tails
    x[:, 3] = np.repeat(rng.standard_normal(2), 100)  # a step between constant values
    scale = robust_scale_with_outliers(x, (200,))
    assert scale[1] > 0.0
    np.testing.assert_array_equal(scale[[0, 2, 3]], 0.0)
    far = far_from_adjacent(as_sequences(x), scale)
    np.testing.assert_array_equal(np.argwhere(far), [[50, 1]])


def test_outliers_are_found_and_left_out(fitted):
    model, incomplete, is_outlier = fitted
    assert isinstance(model._model, OutlierModel) and "outliers" in model.status_
    found = model._model.outliers(as_sequences(incomplete))
    np.testing.assert_array_equal(found, is_outlier & ~np.isnan(incomplete))


def test_methods_are_those_of_the_gaussian_model_without_the_outliers(fitted):
    model, incomplete, is_outlier = fitted
    rest = as_sequences(np.where(is_outlier, np.nan, incomplete))
    plain = LinearGaussianModel(replace(model._model.fitted, outlier_spread=None))
    np.testing.assert_array_equal(model.transform(incomplete), plain.factor_means(rest))
    np.testing.assert_array_equal(model.posterior(incomplete).means, plain.posterior(rest).means)
    assert model.log_likelihood(incomplete) == plain.log_likelihood(rest)
    forecast = plain.forecast(rest, [np.arange(1.0, 4.0)])[0]
    np.testing.assert_array_equal(model.forecast(incomplete, 3).std, forecast.std)
    filled, std = model.impute(incomplete, return_std=True)
    expected = plain.impute(rest, with_std=True)
    missing = np.isnan(incomplete)
    np.testing.assert_array_equal(filled[missing], expected.values[missing])
    np.testing.assert_array_equal(std[missing], expected.std[missing])


def test_observed_values_stay_as_they_are(fitted):
    model, incomplete, _ = fitted
    observed = ~np.isnan(incomplete)
    filled, std = model.impute(incomplete, return_std=True)
    np.testing.assert_array_equal(filled[observed], incomplete[observed])
    assert np.all(std[observed] == 0.0)
    drawn = model._model.draw_values(as_sequences(incomplete), 2, np.random.default_rng(0))
    np.testing.assert_array_equal(
        drawn[:, observed], np.broadcast_to(incomplete[observed], (2, observed.sum()))
    )


def test_outliers_have_the_largest_scores(fitted):
    model, incomplete, is_outlier = fitted
    scores = model.outlier_scores(incomplete)
    assert np.nanmin(scores[is_outlier]) > np.nanmax(scores[~is_outlier])


def test_the_fit_is_as_good_as_without_outliers():
    truth = simulate(1, 220)
    x, is_outlier = with_outliers(truth)
    hidden = hide_values(truth, 0.1, random_state=0) & ~is_outlier

    def error(values, **options):
        incomplete = np.where(hidden, np.nan, values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = ProbabilisticSFA(**options).fit(incomplete).impute(incomplete)
        return np.sqrt(np.mean((filled - truth)[hidden] ** 2))

    found, without = error(x), error(truth)
    assert found < 1.05 * without
    assert error(x, robust=False) > 1.5 * without


def test_without_outliers_the_fit_is_the_gaussian_one():
    x = simulate(2, 120, 3)
    x[::7, 1] = np.nan
    model, plain = (ProbabilisticSFA(robust=robust).fit(x) for robust in ("auto", False))
    np.testing.assert_array_equal(model.loadings_, plain.loadings_)
    assert type(model._model) is LinearGaussianModel and model.status_ == plain.status_


def with_bursts(rng):
    """Columns that share a factor, of which three rows dominate."""
    shared = rng.standard_normal(300)
    shared[[60, 130, 220]] = [25.0, -30.0, 20.0]
    x = shared[:, None] * np.array([1.0, -0.8, 1.2, 0.7]) + 0.1 * rng.standard_normal((300, 4))
    assert robust_scale_with_outliers(x, (300,)).any()
    return x


def test_bursts_in_all_columns_are_not_outliers():
    """Three rows dominate, in which columns predict each other."""
    x = with_bursts(np.random.default_rng(0))
    x[130, 2] = x[220, 0] = np.nan
    model = ProbabilisticSFA().fit(x)
    np.testing.assert_allclose(model.impute(x)[130, 2], -36.0, rtol=0.1)


def artefacts_with_a_common_pattern(seed):
    """Rows of which four have errors proportional to each other, and the rows without these errors."""
    rng = np.random.default_rng(seed)
    factors = ar1(rng, 800, np.array([0.9, 0.8, 0.6])) @ rng.standard_normal((3, 8))
    truth = factors + 0.2 * rng.standard_normal((800, 8))
    x = truth.copy()
    x[[100, 101, 250, 400]] += 40.0 * rng.standard_normal(8)
    return x, truth


@pytest.mark.parametrize("seed", [1, 2])
def test_artefact_rows_with_a_common_pattern_are_left_out(seed):
    """One factor can predict the errors of a column from those of others; all other rows are fitted worse."""
    x, truth = artefacts_with_a_common_pattern(seed)
    hidden = hide_blocks(x, 24, 0.1, random_state=0)
    incomplete = np.where(hidden, np.nan, x)
    error = (ProbabilisticSFA().fit(incomplete).impute(incomplete) - truth) / truth.std(axis=0)
    assert np.sqrt(np.mean(error[hidden] ** 2)) < 0.4


def test_the_model_of_all_values_is_fitted_once(monkeypatch):
    """A fit of the test for outliers is also a candidate, and is not fitted again."""
    x = with_bursts(np.random.default_rng(0))
    fits = []

    def counted(*args, **options):
        fits.append(maximum_likelihood(*args, **options))
        return fits[-1]

    monkeypatch.setattr(estimator, "maximum_likelihood", counted)
    reused = ProbabilisticSFA().fit(x)
    n_reused = len(fits)
    monkeypatch.setattr(default_model, "_without_outliers", lambda *args: (None, None))
    again = ProbabilisticSFA().fit(x)
    # Of the two fits of the test, one is reused.
    assert n_reused == (len(fits) - n_reused) + 1
    assert not isinstance(reused._model, OutlierModel) and reused.status_ == again.status_
    for name in ("decay", "loadings", "noise_variance", "offset"):
        np.testing.assert_array_equal(getattr(reused.params_, name), getattr(again.params_, name))


@pytest.mark.parametrize("interrupted_fit", [1, 2])
def test_an_interrupt_of_the_test_for_outliers_ends_the_fit(interrupted_fit):
    """The interrupted fit is returned, and no other fit is started."""
    x, _ = with_outliers(simulate(0, 220))
    fits = []

    def fit(sequences, options, size, start):
        model = ProbabilisticSFA(size.n_components, noise=options.noise, tol=5.0).fit(sequences.values)._model
        fits.append(model)
        return replace(model, fitted=replace(model.fitted, interrupted=len(fits) == interrupted_fit))

    options = FitOptions.of(ProbabilisticSFA()).check()
    data = InMemory(as_sequences(x))
    model = default_model.fit_default_model(data, options, fit, without_outliers=True)
    assert model.fitted.interrupted and len(fits) == interrupted_fit


def test_wide_data_without_outliers_are_tested_with_few_factors(rng, monkeypatch):
    """The test consists of two fits with 16 factors; then the candidates are fitted."""
    x = ar1(rng, 300, np.full(20, 0.9)) @ rng.standard_normal((20, 20))
    x[100] += 30.0 * np.abs(x).max()  # a factor that is large in this row only
    monkeypatch.setattr(default_model, "scores", lambda *args: np.ones(1))
    numbers = []

    def fit(sequences, options, size, start):
        numbers.append((size.n_components, options.noise))
        model = (
            ProbabilisticSFA(size.n_components, noise=options.noise, tol=50.0).fit(sequences.values)._model
        )
        return replace(model, fitted=replace(model.fitted, interrupted=len(numbers) == 3))

    options = FitOptions.of(ProbabilisticSFA()).check()
    default_model.fit_default_model(InMemory(as_sequences(x)), options, fit, without_outliers=True)
    assert numbers[:2] == [(16, "diagonal")] * 2
    assert numbers[2] == (0, "ar1")


def test_the_model_is_saved(fitted, tmp_path):
    model, incomplete, _ = fitted
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert isinstance(loaded._model, OutlierModel) and loaded.robust == "auto"
    np.testing.assert_array_equal(loaded.impute(incomplete), model.impute(incomplete))


def test_models_of_given_size_use_all_values():
    x, _ = with_outliers(simulate(0, 210, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, plain = (ProbabilisticSFA(1, robust=robust).fit(x) for robust in ("auto", False))
    np.testing.assert_array_equal(model.loadings_, plain.loadings_)
