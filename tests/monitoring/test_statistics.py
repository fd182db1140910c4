"""Statistics of control charts agree with dense Gaussians; contributions are reductions by single values."""

import numpy as np
import pytest
from scipy import stats

from probsfa import SFA, ProbabilisticSFA
from probsfa.monitoring.statistics import (
    convert_degrees_of_freedom,
    count_slow_factors,
    count_slower_features,
    factor_charts,
    slow_feature_charts,
)
from probsfa.statespace.filtering import row_errors
from tests.oracles import monitoring as oracle
from tests.oracles import statespace
from tests.sampling import parametrize
from tests.statespace.support import mask_values, uneven_times
from tests.tolerances import SPECTRAL

N = 9


def make_models(rng, ar1_noise=False):
    """Return an estimator and its parameters for the oracle, in which AR(1) noise is additional factors."""
    decay, loadings = np.array([0.95, 0.6, 0.2]), rng.standard_normal((4, 3))
    noise, offset = rng.uniform(0.1, 0.4, 4), rng.standard_normal(4)
    ar1_noise_parameters = (
        {"noise_decay": np.array([0.3, 0.5, 0.7, 0.8]), "noise_scale": np.full(4, 0.5)} if ar1_noise else {}
    )
    model = ProbabilisticSFA.from_parameters(decay, loadings, noise, offset, **ar1_noise_parameters)
    params = model.params_
    dense = statespace.Model(params.decay, params.loadings, params.noise_variance, params.offset)
    if ar1_noise:
        dense = dense._replace(
            decay=np.append(params.decay, params.noise_decay),
            loadings=np.hstack([params.loadings, np.diag(params.noise_scale)]),
        )
    return model, dense


def charts(model, x, n_slow, times=None):
    slow = np.arange(model.params_.n_states) < n_slow
    return factor_charts(model.filter(x, times=times), slow, np.isnan(x).all(axis=1))


def charts_of_slow_features(sfa, x):
    return slow_feature_charts(sfa, sfa.transform(x), x, 2)


def dense_statistic(dense, x, which, name, times=None):
    """Return a statistic of the oracle, converted to the tail probability of complete rows."""
    values, degrees = oracle.causal_charts(dense, x, which, times)[name]
    full = x.shape[1] if name == "residual" else len(which)
    return np.where(degrees > 0, convert_degrees_of_freedom(values, degrees, full), np.nan)


@parametrize(
    "missing", ["none", "scattered", "empty rows", "one column"], quick=["none", "scattered", "empty rows"]
)
@pytest.mark.parametrize("kind", ["even", "uneven", "AR(1) noise"])
def test_statistics_of_factors_agree_with_the_dense_gaussian(rng, missing, kind):
    model, dense = make_models(rng, ar1_noise=kind == "AR(1) noise")
    times = uneven_times(rng, [N])[0] if kind == "uneven" else None
    x = statespace.simulate(rng, dense, [N], None if times is None else [times])[0]
    [x] = mask_values(rng, [x], missing)
    charts_by_name = charts(model, x, 2, times)
    assert list(charts_by_name) == ["T2", "T2 fast", "S2", "S2 fast", "residual"]
    for name, chart in charts_by_name.items():
        which = [2] if "fast" in name else [0, 1]
        dense_values = dense_statistic(dense, x, which, name.split()[0], times)
        np.testing.assert_allclose(chart.values, dense_values, rtol=SPECTRAL, atol=1e-10, err_msg=name)


def test_statistics_of_factors_are_chi_squared_under_the_model(rng):
    model, _ = make_models(rng)
    X, _ = model.sample(6000, random_state=rng)
    X[rng.random(X.shape) < 0.2] = np.nan
    for name, chart in charts(model, X, 3).items():
        degrees = 4 if name == "residual" else 3
        values = chart.values[~np.isnan(chart.values)]
        # Values are correlated in time, so that only the mean and an upper quantile are tested.
        assert np.mean(values) == pytest.approx(degrees, rel=0.15), name
        assert np.mean(values > stats.chi2.ppf(0.95, degrees)) == pytest.approx(0.05, abs=0.02), name


@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_contributions_of_factors_are_reductions_by_single_values(rng, missing):
    model, dense = make_models(rng)
    [x] = mask_values(rng, statespace.simulate(rng, dense, [N]), missing)
    for name, chart in charts(model, x, 2).items():
        which = [2] if "fast" in name else [0, 1]
        reductions = chart.reductions()
        for t, j in [(4, 0), (4, 3), (N - 1, 1)]:

            def statistic(changed, name=name, which=which, t=t):
                return oracle.causal_charts(dense, changed, which)[name.split()[0]][0][t]

            if np.isnan(x[t, j]):
                assert reductions[t, j] == 0.0
                continue
            expected = statistic(x) - oracle.minimum_over_a_value(statistic, x, t, j)
            np.testing.assert_allclose(reductions[t, j], expected, rtol=1e-6, atol=1e-8, err_msg=name)


def test_errors_of_values_given_the_other_values_of_the_row(rng):
    """The error of a value is its part of the distance: without the value it is smaller by the square."""
    model, _ = make_models(rng)
    x, _ = model.sample(N, random_state=rng)
    whole = row_errors(model.filter(x))
    np.testing.assert_array_equal(whole.n_values, 4)
    for j in range(4):
        shorter = x.copy()
        shorter[5, j] = np.nan
        without = row_errors(model.filter(shorter))
        assert np.isnan(without.value_errors[5, j])
        np.testing.assert_allclose(
            whole.distances[5] - without.distances[5], whole.value_errors[5, j] ** 2, rtol=SPECTRAL
        )


def test_statistics_of_slow_features_by_loops(rng):
    X = rng.standard_normal((60, 3)).cumsum(axis=0) @ rng.standard_normal((3, 4)) + rng.standard_normal(
        (60, 4)
    )
    sfa = SFA(3).fit(X)
    x = X[20:32]
    charts_by_name = charts_of_slow_features(sfa, x)
    assert list(charts_by_name) == ["T2", "T2 fast", "S2", "S2 fast", "residual"]
    y = [[float(w @ (row - sfa.mean_)) for w in sfa.components_] for row in x]
    for t in range(len(x)):
        assert charts_by_name["T2"].values[t] == pytest.approx(y[t][0] ** 2 + y[t][1] ** 2)
        assert charts_by_name["T2 fast"].values[t] == pytest.approx(y[t][2] ** 2)
        if t == 0:
            assert np.isnan(charts_by_name["S2"].values[t])
            continue
        scaled_changes = [(y[t][k] - y[t - 1][k]) ** 2 / sfa.delta_values_[k] for k in range(3)]
        assert charts_by_name["S2"].values[t] == pytest.approx(scaled_changes[0] + scaled_changes[1])
        assert charts_by_name["S2 fast"].values[t] == pytest.approx(scaled_changes[2])
    errors = (x - sfa.inverse_transform(sfa.transform(x))) / X.std(axis=0)
    np.testing.assert_allclose(charts_by_name["residual"].values, np.sum(errors**2, axis=1))


def test_contributions_of_slow_features_are_reductions_by_single_values(rng):
    X = rng.standard_normal((60, 3)).cumsum(axis=0) @ rng.standard_normal((3, 4)) + rng.standard_normal(
        (60, 4)
    )
    sfa, x, t = SFA(3).fit(X), X[20:32], 7
    for name, chart in charts_of_slow_features(sfa, x).items():
        for j in range(4):

            def statistic(changed, name=name):
                return charts_of_slow_features(sfa, changed)[name].values[t]

            expected = statistic(x) - oracle.minimum_over_a_value(statistic, x, t, j)
            np.testing.assert_allclose(chart.reductions()[t, j], expected, rtol=1e-6, atol=1e-8)


def test_features_of_an_expansion_have_no_contributions(rng):
    from probsfa.expansions import Polynomial

    sfa = SFA(2, expansion=Polynomial(2)).fit(rng.standard_normal((120, 2)))
    charts_by_name = charts_of_slow_features(sfa, rng.standard_normal((5, 2)))
    assert list(charts_by_name) == ["T2", "S2"]
    with pytest.raises(ValueError, match="use no expansion"):
        charts_by_name["T2"].reductions()


@pytest.mark.parametrize("degrees", [1, 2, 5, 20])
def test_converted_values_have_nearly_the_same_tail_probability(degrees):
    values = stats.chi2.ppf([0.5, 0.9, 0.99, 0.999], degrees)
    expected = stats.chi2.ppf([0.5, 0.9, 0.99, 0.999], 20)
    converted = convert_degrees_of_freedom(values, np.full(4, degrees), 20)
    np.testing.assert_allclose(converted, expected, rtol=0.04)
    assert np.all(
        np.diff(convert_degrees_of_freedom(np.array([1.0, 1e3, 1e6, 1e12]), np.full(4, degrees), 20)) > 0
    )
    assert np.isnan(convert_degrees_of_freedom(np.array([0.0]), np.array([0]), 20)[0])


def test_slow_features_are_those_slower_than_the_fastest_column():
    assert count_slower_features(np.array([0.1, 0.5, 1.9]), np.array([0.3, 1.0])) == 2
    assert count_slower_features(np.array([1.5, 1.9]), np.array([0.3, 1.0])) == 1


def test_number_of_slow_factors_agrees_with_a_simulated_series(rng):
    """Compare with mean squared differences in a long simulated series."""
    model = ProbabilisticSFA.from_parameters(
        [0.95, 0.5, -0.9],
        [[1.0, 0.2, 0.1], [0.5, 0.1, 0.3]],
        [0.01, 0.01],
        noise_decay=0.5,
        noise_scale=0.3,
    )
    X, factors = model.sample(20_000, random_state=rng)
    change, variance = (np.mean(np.diff(a, axis=0) ** 2, axis=0) for a in (X, factors)), X.var(axis=0)
    of_columns, of_factors = change
    expected = np.count_nonzero(of_factors / factors.var(axis=0) <= np.max(of_columns / variance))
    assert count_slow_factors(model.params_) == expected == 2


@pytest.mark.parametrize(("noise", "n_slow"), [(2.0, 1), (4.0, 2)])
def test_white_noise_of_a_column_makes_it_fast(noise, n_slow):
    """Delta values are ``2 (1 - rho)``, with the correlation of adjacent rows, which is 0 for white noise."""
    decay, loadings = np.array([0.99, 0.3]), np.array([[1.0, 1.0], [1.0, 0.1]])
    model = ProbabilisticSFA.from_parameters(
        decay, loadings, [noise, 0.1], noise_decay=[0.9, 0.95], noise_scale=[0.3, 0.3]
    )
    lagged = loadings**2 @ decay + 0.3**2 * np.array([0.9, 0.95])
    variance = np.sum(loadings**2, axis=1) + 0.3**2 + np.array([noise, 0.1])
    fastest = np.max(2.0 * (1.0 - lagged / variance))
    assert count_slow_factors(model.params_) == np.count_nonzero(2.0 * (1.0 - decay) <= fastest) == n_slow


def test_ar1_noise_changes_variance_and_delta_value_of_a_column():
    decay, loadings, noise = np.array([0.9, 0.8]), np.array([[1.0, 0.1], [1.0, 0.1]]), np.full(2, 0.1)
    model = ProbabilisticSFA.from_parameters(
        decay, loadings, noise, noise_decay=[0.95, 0.95], noise_scale=[1.0, 1.0]
    )
    lagged, variance = loadings**2 @ decay + 0.95, np.sum(loadings**2, axis=1) + 1.0 + noise
    fastest = np.max(2.0 * (1.0 - lagged / variance))
    assert count_slow_factors(model.params_) == np.count_nonzero(2.0 * (1.0 - decay) <= fastest) == 1
