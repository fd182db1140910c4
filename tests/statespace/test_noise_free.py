"""Zero observation noise: slow feature analysis, to which models with noise converge."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import eigh, subspace_angles
from scipy.stats import multivariate_normal

from probsfa import SFA, ProbabilisticSFA
from tests.oracles import statespace as oracle
from tests.statespace.support import scaled_error
from tests.tolerances import EXACT


def mixture(rng, n_rows=120, shape=(5, 5)):
    """Simulate noise-free linear combinations of AR(1) factors; `shape` is (columns, factors)."""
    decay = np.array([0.99, 0.9, 0.7, 0.3, -0.2])[: shape[1]]
    loadings = np.linalg.qr(rng.standard_normal(shape))[0] * rng.uniform(0.5, 2.0, shape[1])
    model = oracle.Model(decay, loadings, np.zeros(shape[0]), rng.standard_normal(shape[0]))
    return model, oracle.simulate(rng, model, [n_rows])[0]


def literal_sfa(sequences):
    """Return delta values, directions and mean by the definition of slow feature analysis."""
    x = np.concatenate(sequences)
    mean = x.mean(axis=0)
    steps = np.concatenate([np.diff(s, axis=0) for s in sequences])
    B, A = (x - mean).T @ (x - mean) / len(x), steps.T @ steps / len(steps)
    delta, W = eigh(A, B)
    return delta, W, mean


@pytest.mark.parametrize("n_components", [1, 3, 5])
@pytest.mark.parametrize("kind", ["array", "list", "frame"])
def test_noise_zero_is_slow_feature_analysis(rng, n_components, kind):
    _, x = mixture(rng)
    X = {"array": x, "list": [x[:50], x[50:]], "frame": pd.DataFrame(x, columns=list("abcde"))}[kind]
    found, sfa = ProbabilisticSFA(n_components, noise=0.0).fit(X), SFA(n_components).fit(X)
    assert scaled_error(found.decay_, 1 - sfa.delta_values_ / 2) < EXACT
    assert scaled_error(found.loadings_, sfa.loadings_) < EXACT
    assert scaled_error(found.mean_, sfa.mean_) < EXACT
    ours, theirs = found.transform(X), sfa.transform(X)
    together = (np.concatenate(y) if kind == "list" else np.asarray(y) for y in (ours, theirs))
    assert scaled_error(*together) < EXACT
    assert np.all(found.noise_variance_ == 0.0)
    assert found.converged_ and "slow feature analysis" in found.status_


def test_noise_zero_is_the_definition(rng):
    """Directions, order and delta values equal those of the generalized eigenproblem."""
    _, x = mixture(rng)
    delta, W, mean = literal_sfa([x[:50], x[50:]])
    found = ProbabilisticSFA(5, noise=0.0).fit([x[:50], x[50:]])
    assert scaled_error(found.decay_, 1 - delta / 2) < EXACT
    y = np.concatenate(found.transform([x[:50], x[50:]]))
    signs = np.sign(np.sum(y * ((x - mean) @ W), axis=0))
    assert scaled_error(y * signs, (x - mean) @ W) < 1e-9


def test_likelihood_is_that_of_the_factors_and_the_volume(rng):
    """log p(x) = sum log p(z) - log|det C| per row; each sequence begins with the stationary distribution."""
    _, x = mixture(rng, 40, (3, 3))
    found = ProbabilisticSFA(3, noise=0.0).fit([x[:15], x[15:]])
    C, a = found.loadings_, found.decay_
    total = 0.0
    for s in (x[:15], x[15:]):
        z = np.linalg.solve(C, (s - found.mean_).T).T
        total += multivariate_normal.logpdf(z[0], cov=np.eye(3))
        for t in range(1, len(z)):
            total += multivariate_normal.logpdf(z[t], mean=a * z[t - 1], cov=np.diag(1 - a**2))
        total -= len(s) * np.linalg.slogdet(C)[1]
    assert found.log_likelihood_ == pytest.approx(total, rel=EXACT)
    assert found.log_likelihood([x[:15], x[15:]]) == pytest.approx(total, rel=EXACT)
    assert found.score([x[:15], x[15:]]) == pytest.approx(total / 40, rel=EXACT)


def test_the_posterior_of_complete_rows_has_no_uncertainty(rng):
    _, x = mixture(rng)
    found = ProbabilisticSFA(2, noise=0.0).fit(x)
    posterior = found.posterior(x)
    np.testing.assert_array_equal(posterior.means, found.transform(x))
    assert np.all(posterior.covariances == 0) and np.all(posterior.std == 0)
    assert posterior.lag_one_covariances.shape == (119, 2, 2)
    assert posterior.log_likelihood == pytest.approx(found.log_likelihood_, rel=EXACT)
    filled, std = found.impute(x, return_std=True)
    np.testing.assert_array_equal(filled, x)
    assert np.all(std == 0)
    np.testing.assert_array_equal(found.sample_posterior(x, 2)[1], posterior.means)


def test_forecast_uses_all_directions_and_reports_the_slowest(rng):
    _, x = mixture(rng)
    found, full = (ProbabilisticSFA(k, noise=0.0).fit(x) for k in (2, 5))
    forecast = found.forecast(x, 3)
    assert forecast.latent_means.shape == (3, 2) and forecast.means.shape == (3, 5)
    z, a, C = full.transform(x)[-1], full.decay_, full.loadings_
    for h in (1, 2, 3):
        np.testing.assert_allclose(forecast.means[h - 1], full.mean_ + C @ (a**h * z), rtol=1e-9)
        np.testing.assert_allclose(forecast.std[h - 1] ** 2, C**2 @ (1 - a ** (2 * h)), rtol=1e-9)
    np.testing.assert_allclose(forecast.latent_means[0], a[:2] * z[:2], rtol=1e-9)


def test_samples_determine_their_factors(rng):
    _, x = mixture(rng)
    drawn, factors = ProbabilisticSFA(2, noise=0.0, random_state=0).fit(x).sample(7)
    assert drawn.shape == (7, 5) and factors.shape == (7, 2)
    # Without noise, the rows determine the factors.
    found = ProbabilisticSFA(2, noise=0.0).fit(x)
    np.testing.assert_allclose(found.transform(drawn), factors, atol=1e-8)


def test_units_of_columns_change_the_likelihood_by_their_volume(rng):
    """Column scales from 1e-8 to 1e8 change the log-likelihood only by the logarithm of the volume."""
    _, x = mixture(rng)
    scale = 10.0 ** np.array([-8, -4, 0, 4, 8])
    one, other = (ProbabilisticSFA(2, noise=0.0).fit(data) for data in (x, x * scale))
    expected = one.log_likelihood_ - 120 * np.sum(np.log(scale))
    assert other.log_likelihood_ == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(other.decay_, one.decay_, rtol=1e-9)
    np.testing.assert_allclose(other.transform(x * scale), one.transform(x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "add_column", [lambda x: np.column_stack([x, x[:, 0]]), lambda x: np.column_stack([x, np.ones(len(x))])]
)
def test_rank_deficient_data_keep_their_solution(rng, add_column):
    """A duplicated or constant column adds no direction."""
    _, x = mixture(rng)
    found, plain = (ProbabilisticSFA(2, noise=0.0).fit(data) for data in (add_column(x), x))
    assert scaled_error(found.decay_, plain.decay_) < 1e-8
    assert scaled_error(found.transform(add_column(x)), plain.transform(x)) < 1e-7
    assert np.isfinite(found.log_likelihood_) and np.isfinite(found.forecast(add_column(x), 2).std).all()


def largest_angle(one, other):
    """Largest angle between outputs of the same rank, in radians."""
    return max(subspace_angles(one[:, [k]], other[:, [k]])[0] for k in range(one.shape[1]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_with_noise_converge_to_the_limit(rng):
    """As the noise decreases, directions converge to slow feature analysis up to terms of order 1 / T."""
    n_rows = 440
    _, x = mixture(rng, n_rows, (3, 3))
    limit = ProbabilisticSFA(3, noise=0.0).fit(x)
    factors_by_noise = []
    for noise in (1e-1, 1e-3, 1e-6, 1e-10):
        general = ProbabilisticSFA(3, noise=noise * x.var(axis=0).mean()).fit(x)
        assert np.all(np.isfinite(general.decay_)) and np.isfinite(general.log_likelihood_)
        factors_by_noise.append((x - x.mean(axis=0)) @ np.linalg.inv(general.loadings_).T)
    steps = [largest_angle(y, factors_by_noise[-1]) for y in factors_by_noise[:-1]]
    assert steps[0] > steps[1] > steps[2] and steps[2] < 0.5 * steps[1]
    # Edge terms rotate two directions by an angle of order 1 / T, divided by the difference of their decays.
    apart = -np.diff(limit.decay_).max()
    assert largest_angle(factors_by_noise[-1], limit.transform(x)) < 5.0 / (n_rows * apart)
    assert general.decay_ == pytest.approx(limit.decay_, abs=5.0 / n_rows)


def test_likelihoods_with_noise_converge_to_the_limit(rng):
    """At the same parameters, the likelihood with noise of 1e-24 equals the noise-free likelihood."""
    _, x = mixture(rng, 10, (3, 3))
    found = ProbabilisticSFA(3, noise=0.0).fit(x)
    model = oracle.Model(found.decay_, found.loadings_, np.full(3, 1e-24), found.mean_)
    expected = oracle.exact_posterior(model, [x]).log_likelihood
    assert found.log_likelihood_ == pytest.approx(expected, rel=1e-8)


def test_ar1_mixtures_have_delta_two_times_one_minus_a(rng):
    """Over a long series the delta values are 2 (1 - a), so the decays are the model's."""
    decay = np.array([0.95, 0.6, 0.1])
    model = oracle.Model(decay, np.linalg.qr(rng.standard_normal((3, 3)))[0], np.zeros(3), np.zeros(3))
    x = oracle.simulate(rng, model, [20_000])[0]
    found = ProbabilisticSFA(3, noise=0.0).fit(x)
    # The lag-one correlation of an AR(1) has the variance (1 - a^2) / T.
    assert np.all(np.abs(found.decay_ - decay) < 6 * np.sqrt((1 - decay**2) / 20_000) + 1e-3)


def test_the_error_about_missing_values_does_not_suggest_impute(rng):
    x = rng.standard_normal((30, 2))
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="complete rows.*noise='diagonal'") as caught:
        ProbabilisticSFA(1, noise=0.0).fit(x)
    assert "impute" not in str(caught.value)
