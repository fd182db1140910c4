"""Student-t noise: inference equals dense definitions; properties of fits; and all methods."""

import types
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

import probsfa.statespace.student
from probsfa import ProbabilisticSFA, load
from probsfa._validation import Sequences
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import use_strategy
from probsfa.statespace.engine.posterior import expected_statistics, log_likelihood, smooth
from probsfa.statespace.learning import robust
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.options import Optimizer
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.noise.student import MAX_DEGREES, StudentNoise
from probsfa.statespace.noise.tails import LeftOut
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateLayout
from probsfa.statespace.prediction_errors import left_out_row_moments
from probsfa.statespace.student import bound_at, infer_weights, left_out_moments, value_moments, weights_at
from tests.oracles import statespace as oracle
from tests.oracles import student as definition
from tests.sampling import parametrize
from tests.statespace.support import mask_values, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT

STRATEGIES = ["recursions", "segmented", "scan", "core"]


def estimator_of(model, nu, **options):
    """Return an estimator with Student-t noise and given parameters."""
    options = {"robust": True, **options}
    return ProbabilisticSFA.from_parameters(*model, degrees_of_freedom=nu, **options)


def simulate_outliers(rng, model, n_rows, share=0.05, size=20.0):
    """Return a series, the series with gross errors in some of its values, and the mask of these values."""
    clean = oracle.simulate(rng, model, [n_rows])[0]
    where = rng.random(clean.shape) < share
    spikes = rng.choice([-1.0, 1.0], clean.shape) * rng.uniform(0.5, 1.5, clean.shape) * size
    return clean, np.where(where, clean + spikes * np.sqrt(model.noise), clean), where


# ---------------------------------------------------------------------------------- inference at weights


@pytest.fixture(scope="module")
def weighted():
    """A model, an incomplete series, weights of its values, and the posterior by the dense definition."""
    rng = np.random.default_rng(5)
    model = oracle.random_model(rng, 5, 3)
    x = mask_values(rng, oracle.simulate(rng, model, [41]), "scattered")[0]
    x[7] = np.nan
    weights = rng.gamma(1.5, 1.0, x.shape)
    weights[3] = 1e-6
    return model, x, weights, definition.weighted_posterior(model, x, weights)


@parametrize("strategy", STRATEGIES, quick=["recursions", "core"])
def test_weights_divide_noise_variances_in_every_strategy(weighted, strategy):
    model, x, weights, dense = weighted
    params, panel = to_parameters(model), to_panel([x])
    filled = np.zeros(panel.values.shape)
    filled[: len(x)] = np.where(np.isnan(x), 0.0, weights)
    panel = panel.weighted(filled)
    observed = ~np.isnan(x)
    # Densities to a power are not normalized.
    surplus = np.where(
        observed, 0.5 * np.log(weights) + 0.5 * (weights - 1.0) * np.log(2 * np.pi * model.noise), 0
    )
    with use_strategy(strategy):
        posterior, stats = smooth(params, panel), expected_statistics(params, panel)
        value = log_likelihood(params, panel)
    assert scaled_error(posterior.means, dense.means) < EXACT
    assert scaled_error(posterior.covariances, dense.covariances) < EXACT
    assert scaled_error(posterior.lag_one_covariances, dense.lag_one) < EXACT
    for each in (value, posterior.log_likelihood, stats.log_likelihood):
        assert each + surplus.sum() == pytest.approx(dense.log_likelihood, rel=EXACT)
    # Sums over observed values, by definition.
    power, moments = np.zeros(5), np.zeros((5, 4))
    for t, d in np.argwhere(observed):
        c, S = model.loadings[d], dense.covariances[t]
        error = x[t, d] - model.offset[d] - c @ dense.means[t]
        power[d] += weights[t, d] * (error**2 + c @ S @ c)
        moments[d] += weights[t, d] * np.append(error * dense.means[t] - S @ c, error)
    assert scaled_error(stats.residual_power, power) < EXACT
    assert scaled_error(stats.residual_moments, moments) < EXACT
    np.testing.assert_allclose(stats.counts, np.where(observed, weights, 0).sum(axis=0), rtol=1e-12)


# ---------------------------------------------------------------------------------------------- the bound


@pytest.mark.parametrize("by_row", [False, True])
def test_bound_is_that_of_the_definition(rng, by_row):
    model = oracle.random_model(rng, 3, 2)
    x = mask_values(rng, oracle.simulate(rng, model, [9]), "scattered")[0]
    x[4] = np.nan
    x[6, 1] = 30.0
    nu = 3.5
    params, panel, noise = to_parameters(model), to_panel([x]), StudentNoise(nu, by_row)
    # First with the optimal q(w) for an arbitrary q(z), then at the fixed point.
    weights = rng.gamma(2.0, 0.5, x.shape)
    dense = definition.weighted_posterior(model, x, weights)
    gammas = definition.best_gammas(model, x, dense, nu, by_row)
    filled = np.zeros(panel.values.shape)
    filled[:9] = np.where(np.isnan(x), 0.0, weights)
    moments = value_moments(params, panel.weighted(filled))
    assert bound_at(params, panel, moments, filled, noise) == pytest.approx(
        definition.bound(model, x, dense, gammas, nu), rel=EXACT
    )
    # With the optimal q(z) for these Gamma distributions.
    best = weights_at(noise, moments.squared_residuals(params, panel), panel)
    shared = np.full(x.shape, 1.0)
    for left_out, a, b in gammas:
        for position in left_out:
            shared[position] = a / b
    np.testing.assert_allclose(best.values[:9], np.where(np.isnan(x), 0.0, shared), rtol=1e-9)
    after = definition.weighted_posterior(model, x, shared)
    value = best.bound(params, panel, log_likelihood(params, panel.weighted(best.values)))
    assert value == pytest.approx(definition.bound(model, x, after, gammas, nu), rel=EXACT)
    inferred = infer_weights(params, panel, noise)
    assert np.all(np.diff(inferred.history) > -1e-9)
    assert inferred.bound >= value


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("outlier", [0.0, 15.0])
def test_bound_is_below_the_log_likelihood(rng, by_row, outlier):
    model = oracle.Model(np.array([0.8]), np.array([[1.0], [0.5]]), np.array([0.3, 0.5]), np.zeros(2))
    x = oracle.simulate(rng, model, [2])[0]
    x[1, 0] += outlier
    for nu in (2.5, 10.0):
        exact = definition.log_likelihood(model, x, nu, by_row)
        value = estimator_of(model, nu, robust="row" if by_row else "cell").log_likelihood(x)
        assert exact - 1.0 < value < exact


def test_gradient_at_given_weights_is_that_of_the_bound(rng):
    model = oracle.random_model(rng, 3, 1)
    panel, params = to_panel(oracle.simulate(rng, model, [30])), to_parameters(model)
    e_step = robust._WeightedEStep(panel)
    moments = value_moments(params, panel)
    e_step.set_weights(weights_at(StudentNoise(3.0), moments.squared_residuals(params, panel), panel))
    stats = e_step(params)
    by_log_noise = 0.5 * (stats.residual_power / params.noise_variance - stats.counts)
    for d in range(3):
        step = np.zeros(3)
        step[d] = 1e-5
        ends = [
            e_step(params.replace(noise_variance=params.noise_variance * np.exp(s * step))).log_likelihood
            for s in (1, -1)
        ]
        assert by_log_noise[d] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


# --------------------------------------------------------------------------------------- values left out


def test_density_of_values_left_out_is_the_integral_and_its_derivatives():
    errors, explained = np.array([0.2, -1.5, 4.0, 30.0]), np.array([0.5, 1e-3, 2.0, 0.3])
    columns, scales = np.array([0, 1, 1, 0]), np.array([0.4, 0.7])
    left_out = LeftOut(errors, explained, columns)
    for nu in (2.1, 4.0, 40.0, 300.0):
        value, by_scales, by_degrees = StudentNoise(nu).left_out_density(left_out, scales)
        by_definition = sum(
            np.log(definition.density(e, v, scales[j], nu))
            for e, v, j in zip(errors, explained, columns, strict=True)
        )
        assert value == pytest.approx(by_definition, abs=1e-5)
        step = 1e-5
        for j in range(2):
            moved = [scales * np.exp(s * step * (np.arange(2) == j)) for s in (1, -1)]
            ends = [StudentNoise(nu).left_out_density(left_out, one)[0] for one in moved]
            assert by_scales[j] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-6)
        ends = [StudentNoise(nu * np.exp(s * step)).left_out_density(left_out, scales)[0] for s in (1, -1)]
        assert by_degrees == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-4)


def test_values_left_out_are_those_of_the_dense_definition(weighted):
    model, x, weights, _ = weighted
    params, panel = to_parameters(model), to_panel([x])
    filled = np.zeros(panel.values.shape)
    filled[: len(x)] = np.where(np.isnan(x), 0.0, weights)
    means, explained = left_out_moments(params, panel, value_moments(params, panel.weighted(filled)), filled)
    assert np.array_equal(np.isnan(means), np.isnan(x))
    for row, column in np.argwhere(~np.isnan(x))[[2, 60, -1]]:
        without = x.copy()
        without[row, column] = np.nan
        dense = definition.weighted_posterior(model, without, weights)
        c = model.loadings[column]
        assert means[row, column] == pytest.approx(model.offset[column] + c @ dense.means[row], rel=1e-7)
        assert explained[row, column] == pytest.approx(c @ dense.covariances[row] @ c, rel=1e-7)


def test_rows_left_out_are_those_of_the_dense_definition(weighted):
    model, x, weights, _ = weighted
    params, panel = to_parameters(model), to_panel([x])
    filled = np.zeros(panel.values.shape)
    filled[: len(x)] = np.where(np.isnan(x), 0.0, weights)
    posterior = smooth(params, panel.weighted(filled))
    means, explained = left_out_row_moments(params, x, posterior.means, posterior.covariances, weights)
    for row in (0, 12, 40):
        without = x.copy()
        without[row] = np.nan
        dense = definition.weighted_posterior(model, without, weights)
        expected = model.offset + model.loadings @ dense.means[row]
        variances = np.einsum("di,ij,dj->d", model.loadings, dense.covariances[row], model.loadings)
        observed = ~np.isnan(x[row])
        np.testing.assert_allclose(means[row, observed], expected[observed], rtol=1e-7)
        np.testing.assert_allclose(explained[row, observed], variances[observed], rtol=1e-7)


@pytest.mark.parametrize("most", [2**17, 50])
def test_the_density_that_determines_tails_has_correct_derivatives(weighted, monkeypatch, most):
    """The density uses all values, or only some of many values."""
    model, x, weights, _ = weighted
    params, panel = to_parameters(model), to_panel([x])
    filled = np.zeros(panel.values.shape)
    filled[: len(x)] = np.where(np.isnan(x), 0.0, weights)
    losses = []

    def minimize(loss, start, **options):
        losses.append((loss, start))
        return types.SimpleNamespace(fun=0.0, x=start)

    monkeypatch.setattr(robust, "minimize", minimize)
    monkeypatch.setattr(robust, "_MAX_VALUES", most)
    noise = Noise(NoiseVariances.diagonal(5), np.full(5, 1e-6), prior=1e-2)
    robust.leave_one_out_tails(params, StudentNoise(), filled, panel, noise)
    loss, start = losses[0]
    numerical = [(loss(start + 1e-5 * e)[0] - loss(start - 1e-5 * e)[0]) / 2e-5 for e in np.eye(6)]
    np.testing.assert_allclose(loss(start)[1], numerical, rtol=1e-5, atol=1e-5)


@parametrize("nu", [3.0, 6.0])
def test_degrees_of_freedom_by_value_are_not_too_high(nu):
    """At the maximum of the lower bound, they would be 4.6 instead of 3, and 25 instead of 6."""
    series = make_slow_mixture(1500, 8, decay=[0.98, 0.9, 0.6], noise_variance=1e-9, random_state=0)
    noise = np.sqrt(0.3) * np.random.default_rng(0).standard_t(nu, series.data.shape)
    fitted = ProbabilisticSFA(3, robust=True).fit(series.data + noise)
    assert fitted.degrees_of_freedom_ == pytest.approx(nu, rel=0.15)
    assert fitted.noise_variance_.mean() == pytest.approx(0.3, rel=0.1)
    assert fitted.converged_


# -------------------------------------------------------------------------------------------------- the fit


@parametrize(
    ("n_rows", "n_features", "n_components", "robust_kind", "pattern"),
    [
        (2, 1, 1, "cell", "none"),
        (40, 2, 4, "row", "scattered"),
        (3, 2, 1, "row", "none"),
        (40, 1, 1, "cell", "empty rows"),
        (40, 4, 2, "cell", "scattered"),
        (17, 6, 1, "row", "first and last rows"),
    ],
    quick=2,
)
def test_the_bound_never_decreases(rng, n_rows, n_features, n_components, robust_kind, pattern):
    model = oracle.random_model(rng, n_features, min(n_components, 3))
    _, x, _ = simulate_outliers(rng, model, n_rows)
    x = mask_values(rng, [x], pattern)[0]
    x[0, np.isnan(x).all(axis=0)] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = ProbabilisticSFA(n_components, robust=robust_kind).fit(x)
    assert np.all(np.diff(fitted.history_) >= -1e-8 * abs(fitted.log_likelihood_))
    assert fitted.history_[-1] == pytest.approx(fitted.log_likelihood_)
    assert np.isfinite(fitted.impute(x)).all()


def test_the_bound_is_reported_without_the_prior_of_the_noise():
    """With noise variances near 1e-3, the log prior is about -0.2 nats."""
    rng = np.random.default_rng(2)
    [x] = oracle.simulate(rng, oracle.random_model(rng, 4, 1, 1e-3), [80])
    fitted = ProbabilisticSFA(1, robust=True, tol=1e-3).fit(x)
    assert fitted.history_[-1] == fitted.log_likelihood_
    assert fitted.log_likelihood(x) == pytest.approx(fitted.log_likelihood_, abs=1e-3)


@pytest.fixture(scope="module")
def recording():
    """A model, a series, this series with outliers, their mask, and two fits to the series with outliers."""
    rng = np.random.default_rng(3)
    model = oracle.Model(
        np.array([0.97, 0.7]), rng.standard_normal((6, 2)), rng.uniform(0.2, 0.5, 6), rng.standard_normal(6)
    )
    clean, x, where = simulate_outliers(rng, model, 400)
    return model, clean, x, where, ProbabilisticSFA(2).fit(x), ProbabilisticSFA(2, robust=True).fit(x)


def test_outliers_affect_the_gaussian_fit_more_than_the_robust_fit(recording):
    model, clean, x, where, gaussian, fitted = recording
    signal = oracle.joint_posterior(model, [clean[:60]]).means @ model.loadings.T

    def error(one):
        return np.sqrt(np.mean((one.transform(x)[:60] @ one.loadings_.T - signal) ** 2))

    assert error(fitted) < 0.5 * error(gaussian)
    np.testing.assert_allclose(fitted.decay_, model.decay, atol=0.08)
    assert "Student-t" in fitted.status_ and 2.1 <= fitted.degrees_of_freedom_ < 4.0
    assert fitted.log_likelihood(x) == pytest.approx(fitted.log_likelihood_, abs=1e-3)
    assert fitted.posterior(x).log_likelihood == pytest.approx(fitted.log_likelihood_, abs=1e-3)


def test_outlier_scores_rank_outliers_first_and_keep_missing_values_and_frames(recording):
    _, _, x, where, _, fitted = recording
    scores = fitted.outlier_scores(x)
    assert roc_auc_score(where.ravel(), scores.ravel()) > 0.99
    incomplete = x.copy()
    incomplete[5, 2] = np.nan
    frame = pd.DataFrame(incomplete, columns=list("abcdef"))
    with pytest.warns(UserWarning, match="feature names"):
        framed = fitted.outlier_scores(frame)
    assert framed.columns.tolist() == list("abcdef") and framed.isna().to_numpy().sum() == 1
    # Prediction of a missing value; the weights of other values are inferred without it.
    row, column = np.argwhere(where)[4]
    without = x.copy()
    without[row, column] = np.nan
    filled = fitted.impute(without)[row, column]
    posterior = fitted.posterior(without)
    c = fitted.loadings_[column]
    std = np.sqrt(c @ posterior.covariances[row] @ c + fitted.noise_variance_[column])
    assert scores[row, column] == pytest.approx(abs(x[row, column] - filled) / std, rel=0.02)


def test_gaussian_scores_are_errors_of_values_left_out(recording):
    _, _, x, _, gaussian, _ = recording
    without = x.copy()
    without[9, 1] = np.nan
    filled, std = gaussian.impute(without, return_std=True)
    expected = abs(x[9, 1] - filled[9, 1]) / std[9, 1]
    assert gaussian.outlier_scores(x)[9, 1] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("kind", ["cell", "row"])
def test_degrees_of_freedom_are_recovered(kind):
    rng = np.random.default_rng(1)
    model = oracle.Model(np.array([0.98]), rng.uniform(1.0, 2.0, (8, 1)), np.full(8, 1.0), np.zeros(8))
    x, _ = estimator_of(model, 4.0, robust=kind).sample(1000, random_state=0)
    fitted = ProbabilisticSFA(1, robust=kind).fit(x)
    assert fitted.degrees_of_freedom_ == pytest.approx(4.0, rel=0.15)
    np.testing.assert_allclose(fitted.noise_variance_, 1.0, rtol=0.25)


def test_units_of_columns_do_not_matter(recording):
    _, _, x, _, _, fitted = recording
    unit, shift = np.array([1e-6, 1.0, 1e5, 3.0, 0.1, 20.0]), np.array([0.0, 1e3, 0.0, -5.0, 0.0, 1.0])
    other = ProbabilisticSFA(2, robust=True).fit(x * unit + shift)
    np.testing.assert_allclose(other.decay_, fitted.decay_, rtol=1e-6)
    np.testing.assert_allclose(other.noise_variance_, fitted.noise_variance_ * unit**2, rtol=1e-5)
    assert other.degrees_of_freedom_ == pytest.approx(fitted.degrees_of_freedom_, rel=1e-5)
    assert other.log_likelihood_ == pytest.approx(fitted.log_likelihood_ - 400 * np.log(unit).sum(), abs=1e-3)
    np.testing.assert_allclose(other.outlier_scores(x * unit + shift), fitted.outlier_scores(x), rtol=1e-3)


def test_one_gross_value_does_not_determine_the_units(recording):
    _, clean, _, _, _, _ = recording
    x = clean.copy()
    x[100, 3] = 1e4
    plain, fitted = (ProbabilisticSFA(2, robust=True).fit(each) for each in (clean, x))
    np.testing.assert_allclose(fitted.decay_, plain.decay_, atol=0.02)
    np.testing.assert_allclose(fitted.transform(x), plain.transform(clean), atol=0.5)


def test_noise_with_many_degrees_of_freedom_is_normal(recording):
    model, clean, _, _, gaussian, _ = recording
    nearly_normal, gaussian_model = estimator_of(model, 1e9), ProbabilisticSFA.from_parameters(*model)
    assert nearly_normal.log_likelihood(clean) == pytest.approx(
        gaussian_model.log_likelihood(clean), rel=1e-7
    )
    np.testing.assert_allclose(nearly_normal.transform(clean), gaussian_model.transform(clean), atol=1e-6)
    results = nearly_normal.filter(clean), gaussian_model.filter(clean)
    np.testing.assert_allclose(results[0].means, results[1].means, atol=1e-6)
    np.testing.assert_allclose(results[0].covariances, results[1].covariances, atol=1e-6)
    np.testing.assert_allclose(results[0].row_log_likelihoods, results[1].row_log_likelihoods, atol=1e-5)
    fitted, normal = ProbabilisticSFA(2, robust=True).fit(clean), ProbabilisticSFA(2).fit(clean)
    assert fitted.degrees_of_freedom_ > 0.9 * MAX_DEGREES and "practically normal" in fitted.status_
    np.testing.assert_allclose(fitted.decay_, normal.decay_, atol=5e-3)
    np.testing.assert_allclose(fitted.transform(clean), normal.transform(clean), atol=0.05)


def test_a_column_of_mostly_equal_values_is_not_a_constant_with_outliers(rng):
    x = rng.standard_normal((200, 3))
    x[:, 2] = np.where(rng.random(200) < 0.8, 0.0, x[:, 2])
    fitted = ProbabilisticSFA(1, robust=True).fit(x)
    assert fitted.noise_variance_[2] > 0.05 * x[:, 2].var() and fitted.converged_
    assert "values of column 2 are equal" in fitted.status_


def test_tails_are_estimated_with_few_evaluations(rng, monkeypatch):
    """Tails maximize the density of leave-one-out errors; other parameters maximize the bound."""
    model = oracle.random_model(rng, 4, 1)
    _, x, _ = simulate_outliers(rng, model, 300)
    panel = to_panel([(x - np.median(x, axis=0)) / model.noise**0.5])
    evaluated = []

    def counted(params, panel, *n_draws):
        evaluated.append(params)
        return value_moments(params, panel, *n_draws)

    monkeypatch.setattr(robust, "value_moments", counted)
    monkeypatch.setattr(probsfa.statespace.student, "value_moments", counted)
    noise = Noise(NoiseVariances.diagonal(4), np.full(4, 1e-6))
    coordinates, optimizer = Coordinates(StateLayout(1), noise.variances, True), Optimizer("auto", 200, 0.1)
    result = robust.fit_robust(panel, coordinates, noise, optimizer, tails=StudentNoise())
    assert result.converged and len(evaluated) + result.n_evaluations < 150
    tails = result.tails
    weights = infer_weights(result.params, panel, tails).weights.values
    taken, scales = robust.leave_one_out_tails(result.params, tails, weights, panel, noise)
    moved = np.log(np.append(scales / result.params.noise_variance, taken.shape / tails.shape))
    assert np.abs(moved).max() < 0.03
    higher = robust.fit_robust(
        panel, coordinates, noise, optimizer, tails=tails, start=result.params, fix_tails=True
    )
    assert higher.log_likelihood == pytest.approx(result.log_likelihood, abs=0.1)


def test_interrupted_fit_keeps_the_best(rng):
    model = oracle.random_model(rng, 3, 1)
    _, x, _ = simulate_outliers(rng, model, 60)
    panel = to_panel([(x - x.mean(axis=0)) / x.std(axis=0)])
    noise = Noise(NoiseVariances.diagonal(3), np.full(3, 1e-9), 1e-4)
    reported = []

    def fit(report=None):
        return robust.fit_robust(
            panel,
            Coordinates(StateLayout(1), noise.variances, True),
            noise,
            Optimizer("auto", 50, 1e-2),
            tails=StudentNoise(),
            report=report,
        )

    def count(n, best):
        reported.append(best)

    complete = fit(count)
    assert complete.status == "converged" and complete.tails is not None

    for last in (2, len(reported) - 3):

        def stop(n, best, last=last):
            if n >= last:
                raise KeyboardInterrupt

        result = fit(stop)
        assert result.status == "interrupted" and result.tails is not None
        assert np.isfinite(result.log_likelihood) and result.log_likelihood <= max(reported) + 1e-6


# --------------------------------------------------------------------------------------------------- methods


def test_the_filter_gives_little_weight_to_an_outlier_in_the_last_row(recording):
    model, clean, _, _, _, _ = recording
    x = clean[:80].copy()
    x[79, 0] += 50.0
    fitted = estimator_of(model, 3.0)
    before, after = fitted.filter(x[:79]), fitted.filter(x)
    without = x.copy()
    without[79, 0] = np.nan
    np.testing.assert_allclose(after.means[79], fitted.filter(without).means[79], atol=0.05)
    plain = ProbabilisticSFA.from_parameters(*model)
    assert np.abs(plain.filter(x).means[79] - plain.filter(without).means[79]).max() > 1.0
    # Later rows do not change filtered means, and the filter can be resumed.
    np.testing.assert_allclose(after.means[:79], before.means, atol=1e-12)
    resumed = fitted.filter(x[79:], before.state)
    np.testing.assert_allclose(resumed.means[0], after.means[79], atol=1e-10)


def test_first_row_of_the_filter_is_the_fixed_point_of_that_row(recording):
    model, _, x, _, _, _ = recording
    for kind in ("cell", "row"):
        fitted = estimator_of(model, 3.0, robust=kind)
        filtered, posterior = fitted.filter(x[:1]), fitted.posterior(x[:1])
        np.testing.assert_allclose(filtered.means, posterior.means, atol=1e-3)
        assert filtered.log_likelihood == pytest.approx(posterior.log_likelihood, abs=1e-4)


def test_imputed_values_have_the_noise_variance_of_their_row(recording):
    model, clean, _, _, _, _ = recording
    x = clean[:50].copy()
    x[20, 1] = x[30, 2] = np.nan
    x[30, [0, 1, 3, 4, 5]] += 40.0
    for kind in ("cell", "row"):
        fitted = estimator_of(model, 4.0, robust=kind)
        _, std = fitted.impute(x, return_std=True)
        posterior = fitted.posterior(x)
        explained = fitted.loadings_[1] @ posterior.covariances[20] @ fitted.loadings_[1]
        if kind == "cell":
            assert std[20, 1] ** 2 == pytest.approx(explained + 2.0 * model.noise[1], rel=1e-9)
        else:  # the noise of a value has the inferred scale of its row
            assert explained < std[20, 1] ** 2 < explained + 1.5 * model.noise[1]
            assert std[30, 2] > 5.0 * std[20, 1]
        forecast = fitted.forecast(x, 500)
        far = np.sqrt(np.sum(model.loadings**2, axis=1) + 2.0 * model.noise)
        np.testing.assert_allclose(forecast.std[-1], far, rtol=1e-4)


@pytest.mark.parametrize("kind", ["cell", "row"])
def test_draws_have_the_moments_of_the_posterior(recording, kind):
    model, clean, _, _, _, _ = recording
    x = clean[:30].copy()
    x[10:14, 2] = np.nan
    fitted = estimator_of(model, 6.0, robust=kind)
    drawn = fitted.sample_posterior(x, 4000, of="values", n_steps=1, random_state=0)
    filled, std = fitted.impute(x, return_std=True)
    np.testing.assert_allclose(drawn[:, 10:14, 2].mean(axis=0), filled[10:14, 2], atol=6 * std.max() / 60)
    np.testing.assert_allclose(drawn[:, 10:14, 2].std(axis=0), std[10:14, 2], rtol=0.1)
    np.testing.assert_allclose(drawn[:, 30].std(axis=0), fitted.forecast(x, 1).std[0], rtol=0.1)
    np.testing.assert_array_equal(drawn[7, :10], x[:10])
    factors = fitted.sample_posterior(x, 2000, random_state=0)
    np.testing.assert_allclose(factors.std(axis=0), fitted.posterior(x).std, rtol=0.15)


@pytest.mark.parametrize("nu", [2.1, 7.0])
def test_normal_scores_are_those_of_the_definition(nu):
    errors = np.array([[0.0, -0.3, 2.0, 9.0, -40.0]])
    explained = np.array([[0.5, 1e-3, 2.0, 0.1, 1.0]])
    scores = StudentNoise(nu).scores(errors, explained, np.full(5, 0.4))
    for e, v, z in zip(errors[0], explained[0], scores[0], strict=True):
        tail = definition.distribution(-abs(e), v, 0.4, nu)
        assert norm.cdf(-abs(z)) == pytest.approx(tail, rel=1e-6)
        assert np.sign(z) == np.sign(e)


def test_normal_scores_in_rows_are_conditional_on_the_other_values(rng):
    """Given the other values of its row, a value has a t distribution (Ding 2016, eq. 4)."""
    errors, scale, mask = 2.0 * rng.standard_normal((3, 4)), rng.uniform(0.5, 2.0, 4), np.ones((3, 4))
    mask[1, 2] = mask[2, :3] = 0.0
    errors = np.where(mask > 0.0, errors, np.nan)
    squares = np.where(mask > 0.0, errors**2 / scale, 0.0)
    scores = StudentNoise(5.0, by_row=True).scores_in_rows(errors, np.zeros((3, 4)), scale, squares, mask)
    assert np.array_equal(np.isnan(scores), mask == 0.0)
    for i, j in np.argwhere(mask > 0.0):
        others = np.flatnonzero((mask[i] > 0.0) & (np.arange(4) != j))
        degrees = 5.0 + len(others)
        conditional_scale = np.sqrt(scale[j] * (5.0 + squares[i, others].sum()) / degrees)
        assert scores[i, j] == pytest.approx(
            norm.ppf(student_t.cdf(errors[i, j] / conditional_scale, degrees)), rel=1e-5
        )


def test_diagnose_detects_heavy_tails(recording):
    model = recording[0]
    fitted = estimator_of(model, 4.0)
    x, _ = fitted.sample(1000, random_state=2)
    diagnostics = fitted.diagnose(x)
    assert diagnostics.advice == ()
    for covered in diagnostics.covered(0.9).values():
        np.testing.assert_allclose(covered, 0.9, atol=0.06)


def test_forecasts_and_contributions_are_consistent_with_transform(recording):
    model, clean, _, _, _, _ = recording
    x = clean[:60].copy()
    x[-1, 0] += 50.0
    fitted = estimator_of(model, 3.0)
    last = fitted.transform(x)[-1]
    np.testing.assert_allclose(fitted.forecast(x, 1).latent_means[0], fitted.decay_ * last, rtol=1e-9)
    np.testing.assert_allclose(fitted.contributions(x)[-1], fitted.loadings_ * last, rtol=1e-9)


# ------------------------------------------------------------------------------------------ with AR(1) noise


@pytest.fixture(scope="module")
def ar1_model():
    """A model with AR(1) and Student-t noise, its state-space form for the oracle, and a series."""
    rng = np.random.default_rng(11)
    d, decay, scale = 3, np.array([0.8, 0.5, 0.3]), np.array([0.7, 0.5, 0.9])
    options = dict(
        decay=[0.95],
        loadings=rng.standard_normal((d, 1)),
        noise_variance=[0.1, 0.2, 0.3],
        offset=[1.0, 0.0, 2.0],
    )
    fitted = ProbabilisticSFA.from_parameters(
        **options, noise_decay=decay, noise_scale=scale, robust=True, degrees_of_freedom=3.0
    )
    model = oracle.Model(
        np.append(fitted.decay_, decay),
        np.hstack([fitted.loadings_, np.diag(scale)]),
        fitted.noise_variance_,
        fitted.mean_,
    )
    x = fitted.sample(25, random_state=1)[0]
    x[7, 1] += 25.0
    x[12] = x[18, 2] = np.nan
    return fitted, model, x


def test_ar1_noise_with_student_t_noise_equals_the_dense_definition(ar1_model):
    fitted, model, x = ar1_model
    inferred = fitted._model._infer(fitted._check(x, None, None))[1]
    weights = np.where(np.isnan(x), 1.0, inferred.weights.values[: len(x)])
    assert weights[7, 1] == weights.min() < 0.05
    dense = definition.weighted_posterior(model, x, weights)
    posterior = fitted.posterior(x)
    assert posterior.means.shape == (25, 1)
    assert scaled_error(posterior.means, dense.means[:, :1]) < EXACT
    assert scaled_error(posterior.covariances, dense.covariances[:, :1, :1]) < EXACT
    gammas = definition.best_gammas(model, x, dense, 3.0, by_row=False)
    assert fitted.log_likelihood(x) == pytest.approx(definition.bound(model, x, dense, gammas, 3.0), abs=1e-5)
    filled, std = fitted.impute(x, return_std=True)
    for row, column in ((12, 0), (18, 2)):
        c = model.loadings[column]
        assert filled[row, column] == pytest.approx(model.offset[column] + c @ dense.means[row])
        variance = c @ dense.covariances[row] @ c + 3.0 * model.noise[column]
        assert std[row, column] ** 2 == pytest.approx(variance)
    forecast = fitted.forecast(x, 3)
    steps = model.decay ** np.arange(1, 4)[:, None]
    assert scaled_error(forecast.means, model.offset + (steps * dense.means[-1]) @ model.loadings.T) < EXACT


def test_methods_of_ar1_noise_with_student_t_noise(ar1_model, tmp_path):
    fitted, model, x = ar1_model
    scores = fitted.outlier_scores(x)
    assert np.unravel_index(np.nanargmax(scores), x.shape) == (7, 1)
    filtered = fitted.filter(x)
    assert filtered.means.shape == (25, 1)
    resumed = fitted.filter(x[20:], fitted.filter(x[:20]).state)
    np.testing.assert_allclose(resumed.means, filtered.means[20:], atol=1e-10)
    assert fitted.sample_posterior(x, 3, random_state=0).shape == (3, 25, 1)
    drawn = fitted.sample_posterior(x, 4000, of="values", n_steps=1, random_state=0)
    filled, std = fitted.impute(x, return_std=True)
    assert drawn[:, 18, 2].mean() == pytest.approx(filled[18, 2], abs=6 * std[18, 2] / 60)
    assert fitted.diagnose(x).innovations.shape == x.shape
    assert fitted.contributions(x).shape == (25, 3, 2)
    fitted.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").outlier_scores(x), scores)


def test_ar1_noise_with_student_t_noise_is_better_than_either_alone():
    """Errors of factors and of missing values, if 5 % of the values are outliers."""
    rng = np.random.default_rng(0)
    truth = ProbabilisticSFA.from_parameters(
        [0.98, 0.9], rng.standard_normal((8, 2)), 0.1, noise_decay=0.8, noise_scale=np.sqrt(0.4)
    )
    clean, factors = truth.sample(600, random_state=0)
    hidden, off = rng.random(clean.shape) < 0.1, rng.random(clean.shape) < 0.05
    size = rng.choice([-1.0, 1.0], clean.shape) * rng.uniform(8.0, 30.0, clean.shape) * np.sqrt(0.5)
    x = np.where(hidden, np.nan, np.where(off, clean + size, clean))
    found = {
        (robust_kind, noise): ProbabilisticSFA(2, robust=robust_kind, noise=noise).fit(x)
        for robust_kind, noise in ((True, "ar1"), (False, "ar1"), (True, "diagonal"))
    }
    imputation_errors = {
        which: np.sqrt(np.mean((fitted.impute(x) - clean)[hidden] ** 2)) for which, fitted in found.items()
    }
    single = min(imputation_errors[False, "ar1"], imputation_errors[True, "diagonal"])
    assert imputation_errors[True, "ar1"] < 0.8 * single
    both = found[True, "ar1"]
    latent_errors = {
        which: np.sqrt(1.0 - np.corrcoef(fitted.transform(x)[:, 0], factors[:, 0])[0, 1] ** 2)
        for which, fitted in found.items()
    }
    assert latent_errors[True, "ar1"] < latent_errors[False, "ar1"]
    assert roc_auc_score(off[~hidden], both.outlier_scores(x)[~hidden]) > 0.99
    assert both.noise_decay_.mean() == pytest.approx(0.8, abs=0.12)
    assert np.all(np.diff(both.history_) >= -1e-8 * abs(both.log_likelihood_))


def test_saved_models_are_restored(recording, tmp_path):
    _, _, x, _, _, fitted = recording
    fitted.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert back.degrees_of_freedom_ == fitted.degrees_of_freedom_ and back.robust is True
    np.testing.assert_array_equal(back.transform(x), fitted.transform(x))


def test_unsupported_methods_and_options_are_refused(recording, rng):
    model, _, x, _, _, fitted = recording
    with pytest.raises(ValueError, match="robust.*got 'both'"):
        ProbabilisticSFA(1, robust="both").fit(x)
    with pytest.raises(ValueError, match=r"noise=0\.0 and robust=True cannot"):
        ProbabilisticSFA(1, robust=True, noise=0.0).fit(x)
    with pytest.raises(ValueError, match="in memory"):
        ProbabilisticSFA(1, robust=True).fit_stream(x)
    with pytest.raises(ValueError, match="robust=True.*together"):
        ProbabilisticSFA.from_parameters(*model, robust=True)
    with pytest.raises(ValueError, match=r"2\.1 or more"):
        estimator_of(model, 1.0)
    for method in (fitted.standard_errors, fitted.profile_timescale):
        with pytest.raises(ValueError, match="robust=True"):
            method(x)
    with_missing = x.copy()
    with_missing[-1, 0] = np.nan
    with pytest.raises(ValueError, match="robust=True"):
        fitted.news(x[:399], with_missing, (399, 0))


def test_a_gaussian_fit_deletes_degrees_of_freedom(recording):
    _, clean, x, _, _, _ = recording
    again = ProbabilisticSFA(2, robust=True).fit(x[:60]).set_params(robust=False).fit(clean[:60])
    assert not hasattr(again, "degrees_of_freedom_")


@parametrize(
    "options",
    [
        {"rhythms": [24.0], "tol": 0.1},  # the factor explains nothing, and converges slowly
        {"smooth": 1},
        {"noise": "isotropic"},
        {"noise": 0.3},
        {"noise": "ar1", "max_iter": 1000},  # the factor and AR(1) noise explain the same
    ],
    quick=0,
)
def test_robust_fits_support_other_processes_and_noise(rng, options):
    t = np.arange(240)
    x = np.stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24)], axis=1)
    x = x + 0.3 * rng.standard_normal((240, 2))
    x[50, 0] = x[90, 1] = 30.0
    fitted = ProbabilisticSFA(1, robust=True, **options).fit(x, times=1.0 * t)
    assert set(map(tuple, np.argwhere(fitted.outlier_scores(x, times=1.0 * t) > 20.0))) == {(50, 0), (90, 1)}
    assert np.all(np.diff(fitted.history_) >= -1e-8 * abs(fitted.log_likelihood_))


def test_uneven_times_and_sequences(rng):
    model = oracle.random_model(rng, 3, 1)
    times = [np.cumsum(rng.choice([0.5, 1.0, 2.0], n)) for n in (60, 30)]
    x = oracle.simulate(rng, model, [60, 30], times)
    x[1][10, 2] += 40.0
    fitted = ProbabilisticSFA(1, robust=True).fit(x, times=times)
    scores = fitted.outlier_scores(x, times=times)
    assert [one.shape for one in scores] == [(60, 3), (30, 3)]
    assert np.unravel_index(np.argmax(scores[1]), (30, 3)) == (10, 2)


def test_weights_of_a_panel_are_read_only():
    """The engine caches arrays: after a change in place, it could use old or new weights."""
    weights = np.ones((4, 2))
    panel = make_panel(Sequences(np.zeros((4, 2)), (4,)), pad=False).weighted(weights)
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 2.0
    assert panel.value_weights is weights


def test_columns_with_many_equal_values_are_repetitive(rng):
    """At least 40 % of the values, and at least three values, are equal; constant columns are excluded."""
    x = rng.standard_normal((20, 5))
    x[:9, 0] = 1.0
    x[:7, 1] = 1.0
    x[:, 2] = 1.0
    x[:, 3] = np.nan
    x[:5, 3] = [0.0, 0.0, 1.0, 2.0, 3.0]
    x[:, 4] = np.nan
    x[:6, 4] = [0.0, 0.0, 0.0, 1.0, 2.0, 3.0]
    np.testing.assert_array_equal(robust.repetitive_columns(to_panel([x])), [True, False, False, False, True])
