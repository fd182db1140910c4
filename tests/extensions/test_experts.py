"""Products of experts: dense Gaussians, numerical integrals, sampler, learning, and input validation."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import probsfa
from probsfa import SFA, ProbabilisticSFA
from probsfa.expansions import Concatenation, Identity, Polynomial, RadialBasis
from probsfa.extensions import ProductOfExpertsSFA
from probsfa.extensions.experts import learning
from probsfa.extensions.experts import model as expert_model
from probsfa.extensions.experts.learning import Data, Settings, from_vector, to_vector
from probsfa.extensions.experts.linear_rows import LinearBase, LinearRows
from probsfa.extensions.experts.model import ExpertModel
from probsfa.extensions.experts.potential import Features, GlobalExpert, ValueDensity
from probsfa.extensions.experts.sampling import (
    Columns,
    LogIntegral,
    Reference,
    State,
    Stepsize,
    log_integral,
    move,
    reflect,
)
from probsfa.statespace.parameters import StateSpace
from tests.oracles import experts as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT

# All rows of a series are inferred jointly; reordered or selected rows are a different series.
EXPECTED_FAILURES = ("check_methods_sample_order_invariance", "check_methods_subset_invariance")
QUICK = ProductOfExpertsSFA(1, n_chains=2, n_moves=1, n_leaps=3, max_iter=3, tol=1e6, random_state=0)
# One column and its square, as in figure 3 of the paper: the square is slow, the sign is not.
SQUARE = StateSpace(np.array([0.8]), np.array([[0.2], [0.7]]), np.array([0.6, 0.3]), np.array([0.1, 0.8]))
SQUARED = Features(Polynomial(2), np.zeros(2), np.ones(2), np.full(1, 1e-5))


@pytest.mark.exhaustive
@parametrize_with_checks(
    [QUICK],
    expected_failed_checks=lambda estimator: dict.fromkeys(EXPECTED_FAILURES, "rows are a time series"),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def short_chains(monkeypatch):
    """Reduce the burn-in, for tests that do not check a distribution."""
    monkeypatch.setattr(expert_model, "_N_BURN_IN", 10)


def random_parameters(rng, E=3, K=2):
    return StateSpace(
        rng.uniform(-0.5, 0.95, K),
        rng.standard_normal((E, K)),
        rng.uniform(0.2, 1.0, E),
        rng.standard_normal(E),
    )


def arrays_of(params):
    return tuple(params.to_arrays().values())


def differences(function, at, step=1e-5):
    """Return the gradient of a function at a vector by central differences."""
    offsets = step * np.eye(len(at))
    return np.array([(function(at + each) - function(at - each)) / (2.0 * step) for each in offsets])


# ------------------------------------------------------------------ the density


@pytest.mark.parametrize("lengths", [(1,), (2,), (4, 1, 3)])
@pytest.mark.parametrize("K", [1, 2, 4])
def test_global_expert_is_the_dense_gaussian(rng, lengths, K):
    params = random_parameters(rng, K=K)
    arrays = arrays_of(params)
    rows = rng.standard_normal((2, sum(lengths), 3))
    at = GlobalExpert(params, lengths).evaluate(rows)
    np.testing.assert_allclose(at.log_density, oracle.log_density(rows, *arrays, lengths), rtol=EXACT)
    deviations = (rows - params.offset).reshape(2, -1)
    gradient = -np.linalg.solve(oracle.covariance(*arrays[:3], lengths), deviations.T).T
    np.testing.assert_allclose(at.gradient.reshape(2, -1), gradient, atol=EXACT)
    first = lengths[0]
    np.testing.assert_allclose(at.means[0, :first], oracle.latent_means(rows[0, :first], *arrays), atol=EXACT)


def test_draws_of_factors_have_the_posterior_moments(rng):
    params = random_parameters(rng)
    rows = rng.standard_normal((1, 3, 3))
    expert = GlobalExpert(params, (3,))
    means = expert.evaluate(rows).means
    drawn = expert.draw_factors(np.repeat(means, 40_000, axis=0), rng)
    np.testing.assert_allclose(drawn.mean(axis=0), means[0], atol=6 / np.sqrt(40_000))
    # The posterior variance of a factor is its prior variance, one, minus the variance of its mean.
    total = oracle.covariance(params.decay, params.loadings, params.noise_variance, [3])
    cross = np.stack([params.decay[0] ** abs(t - 1) * params.loadings[:, 0] for t in range(3)]).ravel()
    posterior_variance = 1.0 - cross @ np.linalg.solve(total, cross)
    np.testing.assert_allclose(drawn[:, 1, 0].var(), posterior_variance, rtol=0.05)


def test_parameter_gradient_agrees_with_finite_differences(rng):
    params, lengths = random_parameters(rng), (3, 2)
    sets = rng.standard_normal((2, 4, 5, 3))

    def contrast(vector):
        arrays = arrays_of(from_vector(vector, 2))
        return np.subtract(*(oracle.log_density(rows, *arrays, lengths).mean() for rows in sets))

    expert = GlobalExpert(params, lengths)
    ours = np.subtract(*(expert.parameter_gradient(expert.evaluate(rows)) for rows in sets))
    np.testing.assert_allclose(ours, differences(contrast, to_vector(params)), atol=1e-7)


@pytest.mark.parametrize("noisy", [False, True])
def test_value_gradient_agrees_with_finite_differences(rng, noisy):
    features = Features.of(Polynomial(3).fit(np.zeros((1, 2))), rng.standard_normal((30, 2)))
    params = random_parameters(rng, E=9)
    free = rng.uniform(size=(5, 2)) < 0.6
    free[0] = [True, False]
    precision = np.where(rng.uniform(size=(5, 2)) < 0.5, 2.0, 0.0) if noisy else None
    density = ValueDensity(features, GlobalExpert(params, (5,)), rng.standard_normal((5, 2)), free, precision)
    free_values = rng.standard_normal((free.sum(), 2))
    value, gradient = density(free_values)
    for chain in range(2):
        expected = differences(
            lambda at, c=chain: density(np.repeat(at[:, None], 2, axis=1))[0][c], free_values[:, chain]
        )
        np.testing.assert_allclose(gradient[:, chain], expected, rtol=1e-5, atol=1e-4)
    rows = density.rows(free_values)
    np.testing.assert_array_equal(density.free_values(rows), free_values)
    expected = oracle.log_density(features(rows), *arrays_of(params), [5])
    if noisy:
        expected = expected - 0.5 * np.sum(
            np.where(free, precision, 0.0)
            * (rows - np.where(precision > 0, density.rows(free_values * 0 + density._noisy_observations), 0))
            ** 2,
            axis=(1, 2),
        )
    np.testing.assert_allclose(value, expected, rtol=EXACT)


@pytest.mark.parametrize("noisy", [False, True])
def test_reference_is_the_conditional_of_independent_columns(rng, noisy):
    columns = Columns(np.array([1.0, -2.0]), np.array([2.0, 0.5]), np.array([0.9, 0.3]))
    lengths, free = (3, 2), np.ones((5, 2), dtype=bool)
    values = rng.standard_normal((5, 2))
    observation_precision = None
    if noisy:
        observation_precision = np.where(rng.uniform(size=(5, 2)) < 0.5, 3.0, 0.0)
    else:
        free = np.array([[1, 0], [0, 1], [1, 1], [0, 1], [1, 1]], dtype=bool)
    reference = Reference(columns, lengths, values, free, observation_precision)
    # The dense covariance, in column-major order.
    total = np.zeros((10, 10))
    for d in range(2):
        for t in range(5):
            for u in range(5):
                is_same_sequence = (t < 3) == (u < 3)
                total[5 * d + t, 5 * d + u] = (
                    is_same_sequence * columns.variance[d] * columns.decay[d] ** abs(t - u)
                )
    mean = np.repeat(columns.mean, 5)
    positions = np.flatnonzero(free.T)
    if noisy:
        precision = np.linalg.inv(total) + np.diag(observation_precision.T.ravel())
        mean = mean + np.linalg.solve(precision, observation_precision.T.ravel() * (values.T.ravel() - mean))
    else:
        fixed_positions = np.setdiff1d(np.arange(10), positions)
        gain = total[np.ix_(positions, fixed_positions)] @ np.linalg.inv(
            total[np.ix_(fixed_positions, fixed_positions)]
        )
        mean = mean[positions] + gain @ (values.T.ravel()[fixed_positions] - mean[fixed_positions])
        precision = np.linalg.inv(
            total[np.ix_(positions, positions)] - gain @ total[np.ix_(fixed_positions, positions)]
        )
    np.testing.assert_allclose(reference.mean[:, 0], mean, atol=EXACT)
    vectors = rng.standard_normal((len(positions), 3))
    np.testing.assert_allclose(reference.solve(vectors), np.linalg.solve(precision, vectors), atol=EXACT)
    squares = np.einsum("fc,fg,gc->c", vectors, precision, vectors)
    np.testing.assert_allclose(2.0 * reference.half_square(vectors), squares, rtol=EXACT)
    value, gradient = reference(mean[:, None] + vectors)
    constant = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * len(positions) * np.log(2 * np.pi)
    np.testing.assert_allclose(value, constant - 0.5 * squares, rtol=EXACT)
    np.testing.assert_allclose(gradient, -precision @ vectors, atol=EXACT)
    drawn = reference.draw(40_000, rng)
    np.testing.assert_allclose(np.cov(drawn), np.linalg.inv(precision), atol=0.1)


# ------------------------------------------------------------------ the sampler


def two_rows(values=(np.nan, np.nan), noise=None):
    """The density of two rows of one column, and its reference."""
    values = np.array(values)[:, None]
    free = np.isnan(values) if noise is None else np.ones((2, 1), dtype=bool)
    precision = None if noise is None else np.where(np.isnan(values), 0.0, 1.0 / noise**2)
    columns = Columns(np.zeros(1), np.full(1, 1.5), np.full(1, 0.2))
    density = ValueDensity(SQUARED, GlobalExpert(SQUARE, (2,)), values, free, precision)
    return density, Reference(columns, (2,), values, free, precision)


def run(density, reference, n_chains, n_moves, rng, reflecting=False):
    state = State.at(density, reference.mean + reference.draw(n_chains, rng))
    step, draws = Stepsize(), []
    for i in range(n_moves):
        state, acceptance = move(density, state, reference, step.size, 6, rng)
        state = reflect(density, state, reference, rng) if reflecting else state
        if i < n_moves // 4:
            step.adapt(acceptance)
        else:
            draws.append(density.rows(state.free_values)[..., 0])
    return np.array(draws), acceptance


def check_moments(drawn, expected, functions):
    """Check means of functions of draws (moves, chains, 2) of independent chains, to six standard errors."""
    for function in functions:
        by_chain = function(drawn).mean(axis=0)
        error = by_chain.std() / np.sqrt(len(by_chain))
        assert abs(by_chain.mean() - expected(function)) < 6 * error
        assert error < 0.1 * max(1.0, abs(expected(function)))


MOMENTS = (
    lambda y: y[..., 0], lambda y: y[..., 0] ** 2, lambda y: y[..., 0] * y[..., 1],
    lambda y: y[..., 0] ** 2 * y[..., 1] ** 2, lambda y: (y[..., 0] > 0.5) * 1.0,
)  # fmt: skip


@pytest.mark.parametrize("reflecting", [False, True])
def test_samples_have_the_moments_of_numerical_integration(rng, reflecting):
    grid = oracle.Grid(SQUARED, *arrays_of(SQUARE))
    drawn, acceptance = run(*two_rows(), 200, 250, rng, reflecting)
    assert 0.6 < acceptance < 0.98
    check_moments(drawn, lambda f: grid.mean(lambda y: f(y[..., 0])), MOMENTS)


@pytest.mark.parametrize("noise", [None, 0.5])
def test_samples_given_a_value_have_the_moments_of_numerical_integration(rng, noise):
    grid = oracle.Grid(SQUARED, *arrays_of(SQUARE))
    drawn, _ = run(*two_rows((1.3, np.nan), noise), 200, 250, rng)
    if noise is None:
        logs = oracle.log_density(
            SQUARED(np.stack([np.full_like(grid.axis, 1.3), grid.axis], axis=1)[..., None]),
            *arrays_of(SQUARE),
            [2],
        )
        weights = np.exp(logs - logs.max())
        points = np.stack([np.full_like(grid.axis, 1.3), grid.axis], axis=1)
    else:
        points = grid.points[..., 0].reshape(-1, 2)
        weights = grid.weights.ravel() * np.exp(-0.5 * ((1.3 - points[:, 0]) / noise) ** 2)
    weights = weights / weights.sum()
    functions = (lambda y: y[..., 1], lambda y: y[..., 1] ** 2, lambda y: (y[..., 1] > 0.5) * 1.0)
    check_moments(drawn, lambda f: weights @ f(points), functions)


def test_integral_agrees_with_numerical_integration(rng):
    grid = oracle.Grid(SQUARED, *arrays_of(SQUARE))
    for values in ((np.nan, np.nan), (1.3, np.nan), (1.3, 0.2)):
        density, reference = two_rows(values)
        ours = log_integral(density, reference, n_chains=400, n_temperatures=30, n_leaps=6, rng=rng)
        if values == (1.3, np.nan):
            rows = np.stack([np.full_like(grid.axis, 1.3), grid.axis], axis=1)[..., None]
            expected = np.log(
                np.sum(np.exp(oracle.log_density(SQUARED(rows), *arrays_of(SQUARE), [2]))) * grid.step
            )
        elif values == (1.3, 0.2):
            expected = oracle.log_density(SQUARED(np.array(values)[:, None]), *arrays_of(SQUARE), [2])
        else:
            expected = grid.log_integral
        assert abs(ours.value - expected) < 6 * ours.error + EXACT
        assert ours.error < 0.05


def test_error_of_an_integral_includes_the_bias_of_few_temperatures():
    """Annealing from independent to correlated columns: the integral of the Gaussian density is one."""
    params = random_parameters(np.random.default_rng(1)).replace(decay=np.array([0.95, 0.7]))
    features = Features(Identity().fit(np.zeros((2, 3))), np.zeros(3), np.ones(3), np.ones(3))
    free, zeros = np.ones((40, 3), dtype=bool), np.zeros((40, 3))
    variance = np.sum(params.loadings**2, axis=1) + params.noise_variance
    columns = Columns(params.offset, variance, np.full(3, 0.5))
    density = ValueDensity(features, GlobalExpert(params, (40,)), zeros, free)
    reference = Reference(columns, (40,), zeros, free)
    for n_temperatures in (10, 40):
        estimates = [
            log_integral(
                density,
                reference,
                n_chains=8,
                n_temperatures=n_temperatures,
                n_leaps=6,
                rng=np.random.default_rng(seed),
            )
            for seed in range(4)
        ]
        assert all(abs(estimate.value) < 3.0 * estimate.error for estimate in estimates)
        value, lower, upper = np.mean([(each.value, each.lower, each.upper) for each in estimates], axis=0)
        assert lower < 0.0 < upper
        assert abs(value) < 0.3 * (upper - lower)


def test_estimate_is_the_root_of_the_equation_of_the_acceptance_ratio(rng):
    """Log density ratios with variance v have means v / 2 below and above the logarithm of the integral."""
    forward_sums, backward_sums = 3.0 - 0.5 + rng.standard_normal(300), 3.0 + 0.5 + rng.standard_normal(300)
    estimate = LogIntegral.of_log_ratios(forward_sums, backward_sums)
    assert abs(estimate.value - 3.0) < 4.0 * estimate.error and estimate.error < 0.15
    root = brentq(lambda c: np.sum(expit(forward_sums - c)) - np.sum(expit(c - backward_sums)), 0.0, 6.0)
    assert estimate.value == pytest.approx(root, abs=1e-10)
    assert LogIntegral.of_log_ratios(np.full(4, -np.inf), np.zeros(4)).error == np.inf


@pytest.mark.parametrize("noisy", [False, True])
def test_linear_base_is_the_dense_conditional(rng, noisy):
    params, lengths = random_parameters(rng), (3, 2)
    values = rng.standard_normal((5, 3))
    values[rng.uniform(size=(5, 3)) < 0.5] = np.nan
    noise = np.array([0.5, 0.7, 1.1]) if noisy else np.zeros(3)
    free = np.ones((5, 3), dtype=bool) if noisy else np.isnan(values)
    base = LinearBase(LinearRows(*arrays_of(params)[:4]), lengths, values, free, noise)
    total = oracle.covariance(params.decay, params.loadings, params.noise_variance, lengths)
    observed, mean = np.flatnonzero(~np.isnan(values.ravel())), np.tile(params.offset, 5)
    gain = total[:, observed] @ np.linalg.inv(
        total[np.ix_(observed, observed)] + np.diag(np.tile(noise**2, 5)[observed])
    )
    mean = mean + gain @ (values.ravel()[observed] - mean[observed])
    covariance = total - gain @ total[observed]
    # Values in column-major order, as in the sampler.
    order = np.arange(15).reshape(5, 3).T.ravel()
    positions = order[free.T.ravel()]
    mean, covariance = mean[positions], covariance[np.ix_(positions, positions)]
    free_values = rng.standard_normal((len(positions), 2))
    value, gradient = base(free_values)
    np.testing.assert_allclose(value, multivariate_normal.logpdf(free_values.T, mean, covariance), rtol=EXACT)
    expected_gradient = -np.linalg.solve(covariance, free_values - mean[:, None])
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-8)
    drawn = base.free_values(40_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=6 * np.sqrt(covariance.max() / 40_000))
    np.testing.assert_allclose(np.cov(drawn), covariance, atol=0.1)


# ------------------------------------------------------------------ learning


@parametrize("persistent", [True, False])
def test_gradient_of_long_chains_agrees_with_that_of_the_likelihood(rng, persistent):
    values = np.array([[1.1], [0.7]])

    def log_likelihood(vector):
        params = from_vector(vector, 1)
        grid = oracle.Grid(SQUARED, *arrays_of(params), n=300)
        return oracle.log_density(SQUARED(values), *arrays_of(params), [2]) - grid.log_integral

    expected = differences(log_likelihood, to_vector(SQUARE), step=1e-4) / 2  # per row
    data = Data(
        values, np.ones((2, 1), dtype=bool), (2,), Columns(np.zeros(1), np.ones(1), np.zeros(1)), np.zeros(1)
    )
    n_moves, n_rounds = (1, 400) if persistent else (30, 20)
    settings = Settings(400, n_moves, 6, persistent, 0.03, 10, 1e-3)
    chains = learning._Chains(SQUARED, data, SQUARE, settings, rng)
    for _ in range(30 if persistent else 1):
        chains.contrast(SQUARE)
    ours = np.array([chains.contrast(SQUARE)[0] for _ in range(n_rounds)])
    error = ours.std(axis=0) / np.sqrt(n_rounds)
    assert np.all(np.abs(ours.mean(axis=0) - expected) < 6 * (3 if persistent else 1) * error + 1e-6)
    assert np.all(error < 0.02)


def test_contrastive_divergence_is_an_ascent_direction_of_the_likelihood(rng):
    """With one move the result is not the gradient, but an ascent direction."""
    values = np.array([[1.1], [0.7]])

    def log_likelihood(vector):
        params = from_vector(vector, 1)
        return (
            oracle.log_density(SQUARED(values), *arrays_of(params), [2])
            - oracle.Grid(SQUARED, *arrays_of(params), n=300).log_integral
        )

    expected = differences(log_likelihood, to_vector(SQUARE), step=1e-4)
    data = Data(
        values, np.ones((2, 1), dtype=bool), (2,), Columns(np.zeros(1), np.ones(1), np.zeros(1)), np.zeros(1)
    )
    chains = learning._Chains(SQUARED, data, SQUARE, Settings(2000, 1, 6, False, 0.03, 10, 1e-3), rng)
    ours = np.mean([chains.contrast(SQUARE)[0] for _ in range(20)], axis=0)
    assert ours @ expected > 0.5 * np.linalg.norm(ours) * np.linalg.norm(expected)


def slow_square(seed, n=300):
    """Return a noisy column with slow scale and random signs (figure 3 of the paper), and the log scale."""
    rng = np.random.default_rng(seed)
    slow = np.zeros(n)
    for t in range(1, n):
        slow[t] = 0.95 * slow[t - 1] + np.sqrt(1 - 0.95**2) * rng.standard_normal()
    return (np.exp(0.35 * slow) * rng.choice([-1.0, 1.0], n) + 0.15 * rng.standard_normal(n))[:, None], slow


@pytest.fixture(scope="module")
def fitted():
    y, slow = slow_square(0)
    return ProductOfExpertsSFA(1, max_iter=150, tol=1.0, random_state=0).fit(y), y, slow


def test_samples_lie_on_the_parabola_as_the_width_goes_to_zero():
    y, _ = slow_square(0)
    plain = ProbabilisticSFA(1).fit(np.hstack([y, y**2])).sample(400, random_state=0)[0]
    distances = [np.sqrt(np.mean((plain[:, 1] - plain[:, 0] ** 2) ** 2))]
    for width in (0.3, 0.1, 0.0):
        model = ProductOfExpertsSFA(1, width=width, max_iter=20, tol=1e6, random_state=0).fit(y)
        drawn, _, expanded = model.sample(200, n_moves=100, expanded=True, random_state=0)
        distances.append(np.sqrt(np.mean((expanded[:, 1] - expanded[:, 0] ** 2) ** 2)))
        assert np.allclose(expanded[:, 0], drawn[:, 0]) == (width == 0.0)
    assert distances[0] > 1.0 and distances[0] > distances[1] > distances[2] > distances[3]
    assert distances[2] < 0.5 * distances[1] and distances[3] < 1e-12


def test_learning_increases_the_likelihood(fitted):
    model, y, _ = fitted
    start = clone(model).set_params(max_iter=1, learning_rate=1e-12, tol=1e6).fit(y)
    other = slow_square(1)[0][:100]
    (after, error), (before, other_error) = (
        each.log_likelihood(other, n_temperatures=50, return_error=True) for each in (model, start)
    )
    assert after - before > 0.05 * len(other)
    assert after - before > 2.0 * np.hypot(error, other_error)


def test_the_slow_scale_is_estimated_and_drawn(fitted):
    model, y, slow = fitted
    assert abs(np.corrcoef(model.transform(y)[:, 0], slow)[0, 1]) > 0.8
    # Ratios of scales from 300 rows vary by a tenth around 0.92, after 50 moves as after 1000; therefore
    # several short chains are used.
    drawn = np.concatenate([model.sample(300, n_moves=50, random_state=seed)[0] for seed in range(8)])
    # The scale is that of the data. Values near zero are rarer than under a Gaussian of this scale (20 %).
    assert np.sqrt(np.mean(drawn**2) / np.mean(y**2)) == pytest.approx(0.89, abs=0.15)
    assert np.mean(np.abs(drawn) < 0.25) < 0.13
    squares = drawn[:300, 0] ** 2
    assert np.corrcoef(squares[1:], squares[:-1])[0, 1] > 0.3


def test_model_without_an_expansion_is_the_linear_model():
    linear = ProbabilisticSFA.from_parameters([0.9], [[1.0], [-0.5]], [0.3, 0.4], [2.0, 0.0])
    X = linear.sample(60, random_state=0)[0]
    model = ProductOfExpertsSFA(1, expansion=Identity(), max_iter=60, random_state=0, tol=1.0).fit(X)
    same = ProbabilisticSFA.from_parameters(model.decay_, model.loadings_, model.noise_variance_, model.mean_)
    np.testing.assert_allclose(model.transform(X), same.transform(X), atol=1e-8)
    # log_potential is the density of standardized outputs.
    scales = len(X) * np.log(X.std(axis=0)).sum()
    np.testing.assert_allclose(model.log_potential(X) - scales, same.log_likelihood(X), atol=1e-7)
    X[10:15, 0] = np.nan
    for n_temperatures in (25, None):
        value, error = model.log_likelihood(X, n_temperatures=n_temperatures, return_error=True)
        assert abs(value - same.log_likelihood(X)) < 4 * error + 0.02
        assert error < 0.3
    old = clone(model)
    old.__dict__.update(model.__dict__)
    old._fitted = model._fitted._replace(linear=None)  # as in files of earlier versions
    value, error = old.log_likelihood(X, n_temperatures=50, return_error=True)
    assert abs(value - same.log_likelihood(X)) < 4 * error
    filled, std = model.impute(X, return_std=True, n_draws=800)
    expected, expected_std = same.impute(X, return_std=True)
    np.testing.assert_allclose(filled, expected, atol=0.2)
    np.testing.assert_allclose(std, expected_std, rtol=0.25, atol=1e-12)
    assert model.history_[-20:].mean() == pytest.approx(0.0, abs=0.5)


def test_slow_features_of_a_nonlinear_mixture():
    rng = np.random.default_rng(0)
    slow = ProbabilisticSFA.from_parameters([0.97], [[1.0]], 1e-6).sample(600, random_state=0)[1][:, 0]
    fast = rng.standard_normal(600)
    y = np.column_stack([slow + fast**2, fast]) + 0.1 * rng.standard_normal((600, 2))
    quadratic = SFA(1, expansion=Polynomial(2)).fit(y[:300])
    model = ProductOfExpertsSFA(2, max_iter=60, tol=1.0, random_state=0).fit(y[:300])
    ours, theirs = model.transform(y[300:])[:, 0], quadratic.transform(y[300:])[:, 0]
    delta = [np.mean(np.diff(z) ** 2) / z.var() for z in (ours, theirs)]
    assert delta[0] <= delta[1]
    right = [abs(np.corrcoef(z, slow[300:])[0, 1]) for z in (ours, theirs)]
    assert right[0] > 0.95 and right[0] > right[1] - 0.01


# ------------------------------------------------------------------ methods and input validation


def test_missing_values_are_drawn_on_the_manifold(fitted):
    model, y, _ = fitted
    y = y[35:75]
    hidden = y.copy()
    hidden[15:25] = np.nan
    filled, std = model.impute(hidden, return_std=True, n_draws=80)
    np.testing.assert_array_equal(filled[:15], y[:15])
    assert np.all(std[:15] == 0.0) and np.all(std[15:25] > 0.3)
    free_values = model.sample_posterior(hidden, 40, of="values", n_steps=5, random_state=0)
    assert free_values.shape == (40, 45, 1) and np.all(free_values[:, :15] == y[:15])
    # Absolute values are slow and as large as in adjacent rows; signs are random.
    adjacent_size = np.abs(np.concatenate([y[5:15], y[25:35]])).mean()
    np.testing.assert_allclose(np.mean(np.abs(free_values[:, 15:25])), adjacent_size, rtol=0.25)
    assert 0.2 < np.mean(free_values[:, 15:25] > 0.0) < 0.8
    assert model.posterior(hidden).std[15:25].mean() > model.posterior(y).std[15:25].mean()


def test_chains_reach_both_signs_of_each_missing_value(fitted):
    """Only the square is slow: missing values have either sign with similar probability, for any start."""
    model, y, _ = fitted
    hidden = y[40:75].copy()
    hidden[12:18] = np.nan
    free_values = [
        model.sample_posterior(hidden, 240, of="values", n_steps=1, random_state=seed)[:, 12:18, 0]
        for seed in range(2)  # draws of one chain are correlated
    ]
    positive = np.mean(np.concatenate(free_values) > 0.0, axis=0)
    assert np.all(positive > 0.15) and np.all(positive < 0.85)


def test_saved_and_loaded(fitted, tmp_path):
    model, y, _ = fitted
    model.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(y), model.transform(y))
    assert again.log_potential(y) == model.log_potential(y)
    assert isinstance(again._fitted, ExpertModel)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lists_frames_and_noise(rng, short_chains):
    X = rng.standard_normal((16, 2))
    model = clone(QUICK).set_params(observation_noise=0.2).fit([X[:6], X[6:]])
    parts, posteriors = model.transform([X[:6], X[6:]]), model.posterior([X[:6], X[6:]])
    for part, posterior, n_rows in zip(parts, posteriors, (6, 10), strict=True):
        assert part.shape == posterior.std.shape == (n_rows, 1)
        np.testing.assert_array_equal(part, posterior.means)
    assert list(model.get_feature_names_out()) == ["productofexpertssfa0"]
    assert [each.shape for each in model.sample_posterior([X[:6], X[6:]], 2)] == [(2, 6, 1), (2, 10, 1)]
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.iloc[3, 1] = np.nan
    filled = clone(QUICK).fit(frame).impute(frame, n_draws=4)
    assert list(filled.columns) == ["a", "b"] and not filled.isna().any().any()
    assert np.isfinite(model.score(X[:4]))


@pytest.mark.parametrize(  # rows, columns, factors
    ("n_rows", "D", "K", "some_missing"),
    [(2, 1, 1, False), (3, 1, 4, False), (8, 3, 2, True), (12, 2, 7, True), (12, 5, 1, False)],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_shape_is_fitted(rng, short_chains, n_rows, D, K, some_missing):
    X = rng.standard_normal((n_rows, D)) * rng.uniform(0.1, 10.0, D)
    if some_missing:
        X[n_rows // 2] = np.nan
        X[2, 0] = np.nan
    model = clone(QUICK).set_params(n_components=K).fit(X)
    assert np.all(np.isfinite(model.transform(X))) and np.all(np.isfinite(model.impute(X, n_draws=4)))
    assert np.all(np.isfinite(model.history_)) and np.all(np.abs(model.decay_) < 1.0)
    assert np.all(np.isfinite(model.sample(4, n_moves=3, random_state=0)[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components.*1"),
        ({"n_chains": 1.5}, "n_chains"),
        ({"width": -0.1}, "width"),
        ({"observation_noise": np.inf}, "observation_noise"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"tol": 0.0}, "tol"),
        ({"expansion": RadialBasis(5, random_state=0)}, "expansion"),
    ],
)
def test_errors_name_invalid_parameters(rng, options, message):
    with pytest.raises(ValueError, match=message):
        ProductOfExpertsSFA(**options).fit(rng.standard_normal((20, 2)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bounded_expansions_are_allowed_together_with_the_rows(rng):
    X = rng.standard_normal((30, 2))
    expansion = Concatenation([Identity(), RadialBasis(5, random_state=0)])
    model = clone(QUICK).set_params(expansion=expansion).fit(X)
    assert np.all(np.isfinite(model.transform(X)))


def test_errors_name_invalid_rows(rng, fitted):
    X = rng.standard_normal((20, 2))
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="[Cc]olumn"):
        clone(QUICK).fit(X)
    X = rng.standard_normal((4, 2))
    X[::2, 0] = X[1::2, 1] = np.nan
    with pytest.raises(ValueError, match="complete row"):
        clone(QUICK).fit(X)
    with pytest.raises(ValueError, match="X.*NaN.*log_potential requires complete rows"):
        fitted[0].log_potential(np.array([[1.0], [np.nan]]))
    with pytest.raises(ValueError, match="of must be"):
        fitted[0].sample_posterior(fitted[1], of="rows")


def test_an_interrupted_fit_is_usable(rng, monkeypatch):
    X = rng.standard_normal((40, 2))
    contrast, count = learning._Chains.contrast, [0]

    def interrupted(self, params):
        count[0] += 1
        if count[0] == 4:
            raise KeyboardInterrupt
        return contrast(self, params)

    monkeypatch.setattr(learning._Chains, "contrast", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted.*3"):
        model = clone(QUICK).set_params(max_iter=10).fit(X)
    assert not model.converged_ and model.n_iter_ == 3
    assert np.all(np.isfinite(model.transform(X)))


def test_max_iter_is_reported(rng):
    X = rng.standard_normal((40, 2)) ** 3
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        clone(QUICK).set_params(max_iter=8, tol=1e-9).fit(X)
