"""Random walks and local linear trends: likelihoods of statsmodels, fits, and forecasts."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import gaussian_filter1d
from sklearn.exceptions import ConvergenceWarning

import probsfa
from probsfa import ProbabilisticSFA
from probsfa.statespace.engine.posterior import expected_statistics, log_likelihood, simulate
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, to_vector
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_of
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace, canonical
from probsfa.statespace.processes.trend import LocalLevel, LocalLinearTrend
from tests.statespace.support import to_panel

INITIAL_LINE_VARIANCE, INITIAL_SLOPE_VARIANCE = (
    1e12,
    1e8,
)  # initial variances, relative to the variance of steps of the slope


def random_walks(rng, n_rows=300, n_features=3, noise=0.3):
    """Simulate columns with a common random walk and white noise."""
    level = np.cumsum(rng.standard_normal(n_rows)) * 0.4
    return np.outer(level, [1.0, 0.5, -0.7][:n_features]) + noise * rng.standard_normal((n_rows, n_features))


def linear_trend(slope_step, ratio, noise, offset=0.0):
    """Return a local linear trend in one column; `slope_step` is the standard deviation of slope steps."""
    loadings = np.array([[slope_step * np.sqrt(INITIAL_LINE_VARIANCE), 0.0]])
    process = LocalLinearTrend(np.array([ratio]))
    return StateSpace(np.zeros(0), loadings, np.array([noise]), np.array([offset]), (process,))


def test_a_local_level_has_the_likelihood_of_statsmodels(rng):
    structural = pytest.importorskip("statsmodels.tsa.statespace.structural")
    y, (process,) = random_walks(rng)[:, 0], (LocalLevel(np.array([1e6])),)
    y[40:60] = np.nan
    params = StateSpace(np.zeros(0), np.array([[400.0]]), np.array([0.1]), np.array([0.5]), (process,))
    model = structural.UnobservedComponents(y - 0.5, "local level")
    model.ssm.initialize_known(np.zeros(1), np.array([[400.0**2]]))
    model.ssm.loglikelihood_burn = model.loglikelihood_burn = 0
    expected = model.loglike([0.1, 400.0**2 / 1e6])
    assert log_likelihood(params, to_panel([y[:, None]])) == pytest.approx(expected, rel=1e-9)


def test_a_local_linear_trend_has_the_likelihood_of_statsmodels(rng):
    """With unit time steps, statsmodels has the variances ``ratio - 1 / 6`` (level) and 1 (slope).

    The initial distributions differ, which changes the log-likelihood by a constant if the variance of the
    slope is the same.
    """
    structural = pytest.importorskip("statsmodels.tsa.statespace.structural")
    y = np.cumsum(np.cumsum(0.05 * rng.standard_normal(200))) + 0.3 * rng.standard_normal(200)
    differences = []
    for ratio, noise in ((2.0, 0.1), (20.0, 0.03), (0.5, 0.3)):
        found = log_likelihood(linear_trend(0.05, ratio, noise), to_panel([y[:, None]]))
        model = structural.UnobservedComponents(y, "local linear trend")
        slope = 0.05**2
        model.ssm.initialize_known(
            np.zeros(2), np.diag([INITIAL_LINE_VARIANCE, INITIAL_SLOPE_VARIANCE]) * slope
        )
        model.ssm.loglikelihood_burn = model.loglikelihood_burn = 0
        differences.append(found - model.loglike([noise, (ratio - 1.0 / 6.0) * slope, slope]))
    assert np.ptp(differences) < 1e-5


def test_random_walks_are_rotated_to_principal_axes(rng):
    """Rotated random walks have the same likelihood, and the same canonical form."""
    loadings = 1e5 * rng.standard_normal((4, 3))
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    models = [
        canonical(
            StateSpace(np.zeros(0), one, np.ones(4), np.zeros(4), (LocalLevel.arbitrary(3),)), np.ones(4)
        )
        for one in (loadings, loadings @ rotation)
    ]
    np.testing.assert_allclose(models[0].loadings, models[1].loadings, rtol=1e-9)
    between = models[0].loadings.T @ models[0].loadings
    assert np.abs(between - np.diag(np.diag(between))).max() < 1e-9 * between.max()
    assert models[0].state_layout.n_free(4) == 12 - 3


def test_steps_of_a_level_are_estimated(rng):
    x = random_walks(rng, 600)
    x[100:140, 0] = np.nan
    model = ProbabilisticSFA(0, trend="level").fit(x)
    np.testing.assert_allclose(model.trend_steps_[:, 0], [0.4, 0.2, 0.28], rtol=0.15)
    np.testing.assert_allclose(model.noise_variance_, 0.09, rtol=0.25)
    assert model.get_feature_names_out().tolist() == ["level0"]


def test_a_trend_is_imputed_along_its_slope_and_continued():
    rng = np.random.default_rng(0)
    line = 0.05 * np.arange(300.0) + np.cumsum(np.cumsum(0.002 * rng.standard_normal(300)))
    x = np.outer(line, [1.0, 0.6]) + 0.1 * rng.standard_normal((300, 2))
    incomplete = x.copy()
    incomplete[120:150] = np.nan
    model = ProbabilisticSFA(0, trend="linear").fit(incomplete)
    filled, std = model.impute(incomplete, return_std=True)
    errors = np.abs(filled - x)[120:150]
    assert np.sqrt(np.mean(errors**2)) < 0.3
    assert np.mean(errors < 1.645 * std[120:150]) > 0.8
    forecast = model.forecast(x, 20)
    slope = np.diff(forecast.means[:, 0])
    np.testing.assert_allclose(slope, slope[0], rtol=1e-6)  # a straight line
    assert np.all(np.diff(forecast.std[:, 0]) > 0.0)
    assert model.get_feature_names_out().tolist() == ["line0", "line0_slope"]


def test_simulated_trends_start_at_zero(rng):
    params = linear_trend(0.05, 2.0, 1e-12)
    drawn = np.array([simulate(params, 3, rng)[0][:, 0] for _ in range(500)])
    assert np.abs(drawn[:, 0]).max() < 1e-4
    # The variance of the level after two steps is 2 ratio + 2^3 / 3 times that of steps of the slope.
    assert np.var(drawn[:, 2]) == pytest.approx(0.05**2 * (4.0 + 8.0 / 3.0), rel=0.2)


@pytest.mark.parametrize("trend", ["cubic", -1, 1.5])
def test_trend_must_be_a_kind_or_a_number(trend):
    with pytest.raises(ValueError, match="trend must.*got"):
        ProbabilisticSFA(1, trend=trend).fit(np.random.default_rng(0).standard_normal((30, 2)))


def test_imputation_of_smooth_motion_is_better_than_splines():
    """Filtered noise is not a Matern process; blocks of 20 and 30 rows are missing."""
    rng = np.random.default_rng(0)
    paths = np.stack([gaussian_filter1d(rng.standard_normal(500), width)[100:-100] for width in (12, 18)], 1)
    x = paths / paths.std(axis=0) @ rng.standard_normal((2, 6)) + 0.02 * rng.standard_normal((300, 6))
    incomplete, t = x.copy(), np.arange(300)
    for d in range(6):
        incomplete[40 * d : 40 * d + 30, d] = np.nan
    incomplete[250:270] = np.nan
    hidden = np.isnan(incomplete)
    spline = np.column_stack([PchipInterpolator(t[~hidden[:, d]], x[~hidden[:, d], d])(t) for d in range(6)])
    model = ProbabilisticSFA(0, smooth=2, smoothness=2.5, noise="diagonal").fit(incomplete)
    filled, std = model.impute(incomplete, return_std=True)
    errors, of_spline = ((each - x)[hidden] for each in (filled, spline))
    assert np.sqrt(np.mean(errors**2)) < 0.3 * np.sqrt(np.mean(of_spline**2))
    assert np.mean(np.abs(errors) < 1.645 * std[hidden]) > 0.8
    names = model.get_feature_names_out().tolist()
    assert names[:3] == ["smooth0", "smooth0_velocity", "smooth0_acceleration"]


@pytest.mark.parametrize("kind", [LocalLevel, LocalLinearTrend])
@pytest.mark.parametrize("seed", range(3))
def test_information_on_loadings_of_trends_approximates_the_curvature(kind, seed):
    """They agree within a factor of ten, because the path of a trend differs from an average path."""
    rng = np.random.default_rng(seed)
    path = np.cumsum(rng.standard_normal(400))
    if kind is LocalLinearTrend:
        path = np.cumsum(path)
    scale, mixing = path.std(), np.array([1.0, -0.5, 0.7])
    x = np.outer((path - path.mean()) / scale, mixing) + 0.3 * rng.standard_normal((400, 3))
    loadings = np.zeros((3, kind.n_states))
    loadings[:, 0] = mixing / scale * kind.initial_std
    process = LocalLinearTrend(np.ones(1)) if kind is LocalLinearTrend else LocalLevel.arbitrary(1)
    params = StateSpace(np.zeros(0), loadings, np.full(3, 0.09), np.zeros(3), (process,))
    coordinates, panel = Coordinates(params.state_layout, NoiseVariances.diagonal(3), True), to_panel([x])
    vector, part = to_vector(coordinates, params), coordinates.slices[1]
    complete = complete_data_of(expected_statistics(params, panel), params, 1.0, centred=True)
    information = Metric(coordinates, params, complete).to_dense(0.0)[part, part]

    def value(i, j):
        moved = vector.copy()
        for signed in (i, j):
            k = part.start + abs(signed) - 1
            moved[k] += np.sign(signed) * 0.01 * abs(vector[k])
        return log_likelihood(from_vector(coordinates, moved, params), panel)

    curvature = -np.array(
        [
            [value(i, j) - value(i, -j) - value(-i, j) + value(-i, -j) for j in range(1, 4)]
            for i in range(1, 4)
        ]
    )
    curvature /= 4.0 * np.outer(*[0.01 * np.abs(vector[part])] * 2)
    ratios = np.linalg.eigvals(np.linalg.solve(curvature, information)).real
    assert np.all((ratios > 0.1) & (ratios < 10.0))


@pytest.mark.parametrize("trend", ["level", "linear"])
def test_loadings_of_trends_are_estimated(trend):
    """Fits from loadings that are ten times too small reach the same likelihood."""
    rng = np.random.default_rng(0)
    integrated = np.cumsum(np.convolve(rng.standard_normal(600), 0.95 ** np.arange(100))[:600])
    x = np.outer(integrated / integrated.std(), [1.0, -0.5, 0.8]) + 0.1 * rng.standard_normal((600, 3))
    model = ProbabilisticSFA(0, trend=trend).fit(x)
    small = model.params_.replace(loadings=0.1 * model.params_.loadings)
    again = ProbabilisticSFA(0, trend=trend, init=small).fit(x)
    assert model.converged_ and again.converged_
    assert again.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=1.0)


@pytest.mark.parametrize("options", [{"trend": 2}, {"trend": "linear"}, {"smooth": 1, "smoothness": 2.5}])
def test_models_of_every_kind_are_saved(rng, tmp_path, options):
    x = random_walks(rng, 80)
    with pytest.warns(ConvergenceWarning):
        model = ProbabilisticSFA(1, **options, max_iter=10).fit(x)
    model.save(tmp_path / "model")
    again = probsfa.load(tmp_path / "model")
    np.testing.assert_array_equal(again.posterior(x).means, model.posterior(x).means)
    assert again.get_params()["trend"] == model.trend and again.smoothness == model.smoothness


def test_a_trend_with_a_factor_is_summarized_by_its_steps(rng):
    """The diffuse initialization lowers the likelihood: a slow AR(1) factor alone would have a higher one."""
    x = random_walks(rng, 400)
    model = ProbabilisticSFA(1, trend="level", noise="diagonal").fit(x)
    np.testing.assert_allclose(model.trend_steps_[:, 0], [0.4, 0.2, 0.28], rtol=0.25)
    table = model.summary().to_frame()
    steps = table.loc["std of steps", "estimate"]
    np.testing.assert_array_equal(steps, model.trend_steps_[:, 0])
    assert set(table.loc["loading"].index) == {f"column {d}, factor 0" for d in range(3)}
