"""Covariates in the Bayesian model, compared with joint normal distributions of all values."""

import copy
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.special import logsumexp

import probsfa
from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes import Priors
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.kinds import Kinds
from probsfa.bayes.packing import pack
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout
from tests.tolerances import EXACT

T, H, D, P, N = 40, 3, 2, 2, 600
EFFECTS = np.array([[2.0, -1.0], [0.5, 3.0]])


def joint(decay, loadings, noise, times):
    """Return the covariance (N D, N D) of values at times: AR(1) factors and white noise."""
    lag = np.abs(times[:, None] - times)
    whole = np.kron(np.eye(len(times)), np.diag(noise))
    for a, c in zip(decay, loadings.T, strict=True):
        whole += np.kron(a**lag, np.outer(c, c))
    return whole


@pytest.mark.parametrize("model", ["factors", "hierarchical", "AR(1) noise"])
def test_density_is_that_of_a_regression_with_correlated_errors(rng, model):
    times = np.cumsum(rng.uniform(0.5, 2.0, 12))
    X, U = rng.standard_normal((12, D)), rng.standard_normal((12, P))
    X[rng.random(X.shape) < 0.2] = np.nan
    parts = [slice(0, 7), slice(7, 12)] if model == "hierarchical" else [slice(0, 12)]
    lengths = tuple(one.stop - one.start for one in parts)
    rows = Sequences(X, lengths, np.concatenate([times[one] for one in parts]), exog=U)
    n_sequences = 2 if model == "hierarchical" else None
    kinds = Kinds(StateLayout(0), True) if model == "AR(1) noise" else None
    target = Target(1, NoiseVariances.of_option("diagonal", D), Priors(), n_sequences, kinds, P)
    values = {
        **dict(timescale=[6.0], loadings=[[0.8], [-0.5]], noise_std=[0.6, 0.4], offset=[0.3, -0.2]),
        **dict(noise_spread=0.2, noise_deviation=np.zeros((2, D)), exog_coef=np.zeros((D, P))),
        **dict(ar_noise_timescale=[2.0, 3.0], ar_noise_std=[0.5, 0.7]),
    }
    values = {name: np.asarray(value) for name, value in values.items()}

    def exact(coefficients):
        """Return the log density of the values plus the log prior density of the coefficients."""
        total = np.sum(scipy.stats.norm.logpdf(coefficients))
        for one in parts:
            whole = joint(np.exp([-1.0 / 6.0]), values["loadings"], values["noise_std"] ** 2, times[one])
            if kinds is not None:
                lag = np.abs(times[:, None] - times)
                for d, (scale, tau) in enumerate(zip([0.5, 0.7], [2.0, 3.0], strict=True)):
                    whole += np.kron(np.exp(-lag / tau), np.diag(np.eye(D)[d] * scale**2))
            observed = ~np.isnan(X[one]).ravel()
            mean = (values["offset"] + U[one] @ coefficients.T).ravel()
            total += scipy.stats.multivariate_normal.logpdf(
                X[one].ravel()[observed], mean[observed], whole[np.ix_(observed, observed)]
            )
        return total

    data = TargetData(pack(rows, model == "hierarchical"))
    place, tried = target.slices["exog_coef"], [rng.standard_normal((D, P)) for _ in range(3)]
    with jax.enable_x64(True):
        at = jax.jit(jax.value_and_grad(target.potential))
        found = []
        for coefficients in tried:
            vector = target.to_vector(values | {"exog_coef": coefficients})
            found.append(at(vector, data))
    wanted = np.array([exact(one) for one in tried])
    got = np.array([-float(value) for value, _ in found])
    np.testing.assert_allclose(got - got[0], wanted - wanted[0], rtol=EXACT, atol=1e-9)
    steps = 1e-5 * np.eye(D * P).reshape(-1, D, P)
    slope = [(exact(tried[0] + step) - exact(tried[0] - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(-np.asarray(found[0][1])[place], slope, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def data():
    """Observations with missing values, and covariates with H more rows, as DataFrames."""
    rng = np.random.default_rng(7)
    index = pd.RangeIndex(T + H)
    U = pd.DataFrame(
        {"load": 5.0 + rng.standard_normal(T + H), "trend": np.linspace(-1.0, 2.0, T + H)}, index
    )
    z = np.zeros(T)
    for t in range(1, T):
        z[t] = 0.8 * z[t - 1] + 0.6 * rng.standard_normal()
    X = 10.0 + U.to_numpy()[:T] @ EFFECTS.T + np.outer(z, [1.0, 0.7]) + 0.4 * rng.standard_normal((T, D))
    X[rng.random(X.shape) < 0.15] = np.nan
    X[-1] = np.nan
    return pd.DataFrame(X, columns=["a", "b"]), U


@pytest.fixture(scope="module")
def fitted(data):
    X, U = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianSFA(
            1, n_warmup=200, n_draws=N, n_chains=1, n_predictive=6, verbose=False, random_state=0
        )
        return model.fit(X, exog=U)


def by_draw(model, data):
    """Yield, for each draw of the mixture, mean and covariance of past and future values, C and a."""
    X, U = data
    chosen = np.unique(np.linspace(0, N - 1, 6).round().astype(int))
    for i in chosen:
        a, c, r, mu, b = (np.asarray(part[0, i]) for part in model.draws_)
        mean = mu + U.to_numpy() @ b.T
        yield mean.ravel(), joint(a, c, r, np.arange(T + H)), c, a


def conditional(mean, whole, values):
    observed = ~np.isnan(values)
    gain = np.linalg.solve(whole[np.ix_(observed, observed)], whole[observed]).T
    return mean + gain @ (values - mean)[observed], whole - gain @ whole[observed]


def test_methods_are_mixtures_of_regressions(fitted, data):
    X, U = data
    values = np.concatenate([X.to_numpy(), np.full((H, D), np.nan)]).ravel()
    parts = list(by_draw(fitted, data))
    given = [conditional(mean, whole, values) for mean, whole, *_ in parts]
    means = np.mean([mean for mean, _ in given], axis=0).reshape(T + H, D)
    variances = np.mean([np.diag(c) for _, c in given], axis=0) + np.var([m for m, _ in given], axis=0)
    imputed, std = fitted.impute(X, exog=U, return_std=True)
    np.testing.assert_allclose(imputed, means[:T], rtol=1e-9)
    missing = np.isnan(X.to_numpy())
    np.testing.assert_allclose(
        std.to_numpy()[missing], np.sqrt(variances.reshape(-1, D)[:T][missing]), rtol=1e-9
    )
    ahead = fitted.forecast(X, H, exog=U)
    np.testing.assert_allclose(ahead.means, means[T:], rtol=1e-9)
    np.testing.assert_allclose(ahead.std, np.sqrt(variances.reshape(-1, D)[T:]), rtol=1e-9)
    observed = ~np.isnan(values)
    logs = [
        scipy.stats.multivariate_normal.logpdf(
            values[observed], mean[observed], whole[np.ix_(observed, observed)]
        )
        for mean, whole, *_ in parts
    ]
    wanted = logsumexp(logs) - np.log(len(logs))
    assert abs(fitted.log_likelihood(X, exog=U) - wanted) < 1e-9 * abs(wanted)
    assert abs(fitted.filter(X, exog=U).log_likelihood - wanted) < 1e-9 * abs(wanted)
    factors = []
    for mean, whole, c, a in parts:
        cross = np.kron(a[0] ** np.abs(np.subtract.outer(np.arange(T), np.arange(T + H))), c[:, 0])
        factors.append(
            cross[:, observed] @ np.linalg.solve(whole[np.ix_(observed, observed)], (values - mean)[observed])
        )
    np.testing.assert_allclose(
        fitted.transform(X, exog=U).to_numpy()[:, 0], np.mean(factors, axis=0), rtol=1e-7, atol=1e-9
    )
    shares = fitted.contributions(X, exog=U)
    assert shares.shape == (T, D, 1 + P)
    np.testing.assert_allclose(shares[:, :, 1:], U.to_numpy()[:T, None, :] * fitted.exog_coef_, rtol=1e-12)
    scores, observed = fitted.outlier_scores(X, exog=U), ~np.isnan(X.to_numpy())
    assert np.array_equal(np.isfinite(scores), observed) and np.mean(scores.to_numpy()[observed] ** 2) < 3.0


def test_draws_have_the_effects_of_covariates(fitted, data):
    X, U = data
    drawn = fitted.sample_posterior(X, 400, of="values", n_steps=H, exog=U, random_state=0)
    ahead = copy.copy(fitted).set_params(n_predictive=N).forecast(X, H, exog=U)
    errors = (drawn[:, T:].mean(axis=0) - ahead.means) / ahead.std
    assert np.max(np.abs(errors.to_numpy())) < 4.0 / np.sqrt(400.0)
    low, _ = fitted.sample(50, exog=np.zeros((50, P)), random_state=1)
    high, _ = fitted.sample(50, exog=np.full((50, P), 10.0), random_state=1)
    np.testing.assert_allclose(high - low, np.broadcast_to((high - low)[0], high.shape), rtol=1e-9)
    of_draws = 10.0 * fitted.draws_.exog_coef[0].sum(axis=2)
    assert np.min(np.max(np.abs(of_draws - (high - low)[0]), axis=1)) < 1e-9


def test_coefficients_have_the_posterior_of_a_regression_given_the_other_parameters(fitted, data):
    X, U = data
    values, rows = X.to_numpy().ravel(), U.to_numpy()[:T]
    observed, centre = ~np.isnan(values), rows.mean(axis=0)
    design = np.kron(rows - centre, np.eye(D))[observed]
    prior = np.kron(np.diag(rows.std(axis=0) ** 2), np.diag(1.0 / np.nanvar(X.to_numpy(), axis=0)))
    means, variances = [], []
    for i in range(0, N, 6):
        a, c, r, mu, b = (np.asarray(part[0, i]) for part in fitted.draws_)
        whole = joint(a, c, r, np.arange(T))[np.ix_(observed, observed)]
        errors = (X.to_numpy() - mu - b @ centre).ravel()[observed]
        covariance = np.linalg.inv(design.T @ np.linalg.solve(whole, design) + prior)
        means.append(covariance @ design.T @ np.linalg.solve(whole, errors))
        variances.append(np.diag(covariance))
    # Law of total variance over the other parameters.
    std = np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0)).reshape(P, D).T
    wanted = np.mean(means, axis=0).reshape(P, D).T
    assert np.max(np.abs(fitted.exog_coef_ - wanted) / std) < 0.2
    np.testing.assert_allclose(fitted.draws_.exog_coef.std(axis=(0, 1)), std, rtol=0.15)
    assert list(fitted.exog_names_) == ["load", "trend"]


def test_results_name_covariates_and_survive_saving(fitted, data, tmp_path):
    X, U = data
    table = fitted.summary().to_frame().loc["coefficient"]
    np.testing.assert_allclose(table["estimate"], fitted.exog_coef_.ravel())
    assert table["std_error"].gt(0.0).all() and any("trend" in name for name in table.index)
    tree = fitted.to_datatree()
    assert list(tree["posterior"]["covariate"].to_numpy()) == ["load", "trend"]
    np.testing.assert_allclose(tree["posterior"]["exog_coef"], fitted.draws_.exog_coef)
    prior = tree["prior"]["exog_coef"] * U.to_numpy()[:T].std(axis=0) / np.nanstd(X, axis=0)[:, None]
    assert 0.8 < float(prior.std()) < 1.2
    fitted.save(tmp_path / "model.zip")
    again = probsfa.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.impute(X, exog=U), fitted.impute(X, exog=U))
    np.testing.assert_array_equal(again.exog_coef_, fitted.exog_coef_)
    assert abs(fitted.bic(X, exog=U) - again.bic(X, exog=U)) < 1e-9


def test_errors_name_the_argument_and_the_fix(fitted, data):
    X, U = data
    with pytest.raises(ValueError, match="exog is required.*'load', 'trend'"):
        fitted.impute(X)
    with pytest.raises(ValueError, match=r"robust=True is not supported with exog.*robust=False"):
        BayesianSFA(1, robust=True).fit(X, exog=U)
    with pytest.raises(ValueError, match="'load'.*constant"):
        BayesianSFA(1).fit(X, exog=U.assign(load=1.0))
