"""Collapsed density by dense matrices, and invariance of the Hamiltonian Monte Carlo step."""

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

from probsfa.bayes import Priors
from probsfa.bayes.sampling.collapsed import HamiltonianStep, curvature_factor
from probsfa.bayes.sampling.gibbs import RobustProblem, _Chain
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace
from tests.statespace.support import to_panel

PRIORS = Priors(
    timescale=dist.LogNormal(1.0, 0.6),
    loadings=dist.Normal(0.3, 0.8),
    noise_std=dist.LogNormal(-0.5, 0.4),
    offset=dist.Normal(0.5, 1.0),
    degrees_of_freedom=dist.Gamma(9.0, 1.5),
)


def problem(rng, noise):
    """Return a chain for seven uneven rows of two columns with a missing value; times, data and weights."""
    times = [np.array([0.0, 1.0, 2.5, 3.0]), np.array([0.0, 0.5, 2.0])]
    x = [rng.standard_normal((len(one), 2)) for one in times]
    x[0][2, 1] = np.nan
    start = StateSpace(np.array([0.7, 0.4]), rng.standard_normal((2, 2)), np.full(2, 0.4), np.zeros(2))
    chain = _Chain(RobustProblem(to_panel(x, times), PRIORS, NoiseVariances(noise), start, 6.0), rng)
    weights = np.array(chain.panel.mask[:])
    weights[:7] *= rng.uniform(0.1, 1.5, (7, 2))
    return chain, times, x, weights


def by_dense_matrices(density, vector, times, x, weights, scale):
    """Return the log density of all values as one normal vector, plus the log prior of the coordinates."""
    params = density.to_parameters(vector, scale)
    value, first = 0.0, 0
    for when, rows in zip(times, x, strict=True):
        lag = np.abs(when[:, None] - when)
        covariance = sum(
            np.kron(a**lag, np.outer(c, c)) for a, c in zip(params.decay, params.loadings.T, strict=True)
        )
        row_weights = weights[first : first + len(when)]
        observed = ~np.isnan(rows).ravel()
        noise = (params.noise_variance / np.where(row_weights > 0.0, row_weights, 1.0)).ravel()
        covariance = (covariance + np.diag(noise))[np.ix_(observed, observed)]
        mean = np.tile(params.offset, len(when))[observed]
        value += scipy.stats.multivariate_normal(mean, covariance).logpdf(rows.ravel()[observed])
        first += len(when)
    log_timescale = np.log(-1.0 / np.log(params.decay))
    value += scipy.stats.norm(1.0, 0.6).logpdf(log_timescale).sum()
    value += scipy.stats.norm(0.3, 0.8).logpdf(params.loadings).sum()
    value += scipy.stats.norm(0.5, 1.0).logpdf(params.offset).sum()
    # Jacobian of loadings in units of the innovations.
    value -= 0.5 * len(params.offset) * np.sum(np.log(1.0 - params.decay**2))
    learned = [params.noise_variance[density.noise.groups.index(i)] for i in range(density.noise.n_free)]
    value += scipy.stats.norm(-1.0, 0.8).logpdf(np.log(learned)).sum()
    return value


@pytest.mark.parametrize("noise", [(0, 1), (0, 0), (-1, -1), (-1, 0)])
def test_density_without_factors_is_that_of_dense_matrices(rng, noise):
    chain, times, x, weights = problem(rng, noise)
    density, scale = chain.collapsed, np.array([0.3, 0.5])
    start = density.to_vector(chain.params)
    differences = []
    for _ in range(3):
        vector = start + 0.3 * rng.standard_normal(len(start))
        value, slope = density(vector, weights, scale)
        differences.append(value - by_dense_matrices(density, vector, times, x, weights, scale))
        steps = 1e-5 * np.eye(len(vector))
        wanted = [
            by_dense_matrices(density, vector + step, times, x, weights, scale)
            - by_dense_matrices(density, vector - step, times, x, weights, scale)
            for step in steps
        ]
        # Priors are interpolated linearly in a table.
        np.testing.assert_allclose(slope, np.array(wanted) / 2e-5, rtol=1e-4, atol=0.02)
    # Terms that depend on the weights only, and constants of the priors, are omitted.
    np.testing.assert_allclose(differences, differences[0], atol=1e-3)


def test_to_parameters_is_the_inverse_of_to_vector(rng):
    chain, *_ = problem(rng, (0, 1))
    params, density = chain.params, chain.collapsed
    back = density.to_parameters(density.to_vector(params), params.noise_variance)
    for name in ("decay", "loadings", "noise_variance", "offset"):
        np.testing.assert_allclose(getattr(back, name), getattr(params, name), rtol=1e-12)


def test_density_is_zero_outside_the_range_of_the_parameters(rng):
    chain, _, _, weights = problem(rng, (0, 1))
    vector = chain.collapsed.to_vector(chain.params)
    for place in (0, -1):
        far = vector.copy()
        far[place] = 200.0
        assert chain.collapsed(far, weights, chain.scale)[0] == -np.inf


def test_trajectories_leave_a_distribution_invariant(rng):
    """Combinations of a log-gamma and a hyperbolic secant variable, with a poor initial mass matrix."""
    mixed = np.array([[1.0, 0.5], [-0.4, 2.0]])

    def density(q):
        u, v = np.clip(mixed @ q, -500.0, 500.0)
        return 3.0 * u - np.exp(u) - np.logaddexp(v, -v), mixed.T @ [3.0 - np.exp(u), -np.tanh(v)]

    step = HamiltonianStep(np.diag([0.5, 2.0]))
    q, drawn = np.zeros(2), []
    for i in range(6500):
        q = step(density, q, rng, adapt=i < 500)
        drawn.append(q)
    assert 0.6 < step.n_accepted / 6500 < 0.97 and step.n_steps > 3 * 6500
    u, v = mixed @ np.array(drawn[500:]).T
    for values, wanted in (
        (np.exp(u), 3.0),
        (np.exp(2.0 * u), 12.0),
        (v, 0.0),
        (v**2, np.pi**2 / 4.0),
        (np.exp(u) * v, 0.0),
    ):
        means = values.reshape(40, -1).mean(axis=1)
        error = means.std(ddof=1) / np.sqrt(40)
        assert abs(means.mean() - wanted) < 4.5 * error and error < 0.05 * max(np.std(values), 1.0)


def test_the_mass_matrix_is_the_curvature_or_adapted(rng):
    axes = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    covariance = axes * [4.0, 1.0, 0.01, 0.25] @ axes.T
    precision = np.linalg.inv(covariance)

    def density(q):
        return -0.5 * q @ precision @ q, -precision @ q

    factor = curvature_factor(density, np.zeros(4))
    np.testing.assert_allclose(factor @ factor, covariance, atol=1e-6)
    step = HamiltonianStep(np.eye(4))
    q = np.zeros(4)
    for _ in range(400):
        q = step(density, q, rng, adapt=True)
    learned = step.factor @ step.factor.T
    assert np.linalg.cond(np.linalg.solve(learned, covariance)) < 0.2 * np.linalg.cond(covariance)


@pytest.mark.parametrize("log_timescale", [-8.0, 40.0])
def test_a_time_scale_whose_decay_rounds_to_zero_or_one_is_unchanged(log_timescale):
    """It could not be recovered from the decay, and the chain would never leave it."""
    chain, *_ = problem(np.random.default_rng(0), (0, 1))
    chain.hamiltonian = HamiltonianStep(np.eye(10))
    chain.log_timescale = np.array([log_timescale, 0.5])
    loadings = chain.loadings
    chain._draw_collapsed(False)
    assert chain.log_timescale.tolist() == [log_timescale, 0.5]
    assert np.array_equal(chain.loadings, loadings)
