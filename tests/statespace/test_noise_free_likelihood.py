"""The likelihood without noise (Turner & Sahani 2007), exact and without edge terms, and the two maxima."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import minimize

from probsfa import SFA, ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import (
    noise_free_log_likelihood,
    noise_free_maximum_likelihood,
)
from probsfa.statespace.innovations import make_innovation_parameters
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import scaled_error
from tests.tolerances import EXACT


def series(n_rows, decay=(0.95, 0.7, 0.2), seed=0):
    """Return three columns that are linear combinations of three factors, without noise."""
    return make_slow_mixture(n_rows, 3, decay=decay, noise_variance=0.0, random_state=seed).data


def parameters(rng, size=3):
    decay = np.array([0.9, -0.4, 0.6])[:size]
    weights = np.linalg.qr(rng.standard_normal((size, size)))[0] * rng.uniform(0.5, 2.0, size)
    variances = rng.uniform(0.2, 5.0, size)
    return make_innovation_parameters(decay, weights, variances, 0.0, rng.standard_normal(size))


def literal_moments(x):
    """Return A and B as defined in the paper after eq. 17."""
    steps = np.diff(x, axis=0)
    return steps.T @ steps / (len(x) - 1), x.T @ x / len(x)


@pytest.mark.parametrize("lengths", [[2], [9], [5, 1, 4]])
@pytest.mark.parametrize("first", ["stationary", "any"])
def test_exact_is_the_joint_gaussian(rng, lengths, first):
    theta = parameters(rng)
    v = None if first == "stationary" else np.array([0.3, 5.0, 1.0])
    x = [2.0 * rng.standard_normal((n, 3)) for n in lengths]
    expected = oracle.innovation_log_likelihood(*theta[:3], theta.offset, x, v)
    assert noise_free_log_likelihood(x, theta, first_variance=v).exact == pytest.approx(expected, rel=EXACT)
    stacked = noise_free_log_likelihood(np.concatenate(x), theta, first_variance=v, lengths=lengths)
    assert stacked.exact == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("lengths", [[2], [9], [5, 1, 4]])
@pytest.mark.parametrize("first", ["stationary", "any"])
def test_edge_terms_are_the_difference(rng, lengths, first):
    """The difference of eqs. 13 and 19 is the sum of the edge terms, each computed by its own formula."""
    theta = parameters(rng)
    v = None if first == "stationary" else np.array([0.3, 5.0, 1.0])
    x = [2.0 * rng.standard_normal((n, 3)) for n in lengths]
    likelihood = noise_free_log_likelihood(x, theta, first_variance=v)
    assert likelihood.exact == pytest.approx(likelihood.without_edges + likelihood.edge_terms, rel=EXACT)
    assert likelihood.edge_terms == pytest.approx(
        likelihood.first_variance + likelihood.edge_rows + likelihood.missing_difference, rel=EXACT
    )


def test_identities_of_the_sums(rng):
    """Eqs. 15-17 of the paper, with A and B as defined there."""
    x = rng.standard_normal((11, 3))
    T = len(x)
    A, B = literal_moments(x)
    first, last = np.outer(x[0], x[0]), np.outer(x[-1], x[-1])
    np.testing.assert_allclose(x[1:].T @ x[1:], T * B - first, atol=1e-12)
    np.testing.assert_allclose(x[:-1].T @ x[:-1], T * B - last, atol=1e-12)
    cross = x[1:].T @ x[:-1]
    np.testing.assert_allclose(cross + cross.T, 2 * T * B - (T - 1) * A - first - last, atol=1e-12)


def test_closed_form_is_equation_19(rng):
    """Eq. 19 with A and B of the paper, and eq. 18 with the constant that the paper omits."""
    theta = parameters(rng)._replace(offset=np.zeros(3))
    x = rng.standard_normal((9, 3))
    T = len(x)
    A, B = literal_moments(x)
    W, lam, s2 = theta.weights, theta.decay, theta.innovation_variance
    volume = T * np.log(abs(np.linalg.det(W))) - 0.5 * T * np.sum(np.log(2 * np.pi * s2))
    edges = np.outer(x[0], x[0]) + np.outer(x[-1], x[-1])
    eq19, eq18 = volume, volume + 0.5 * np.sum(np.log(1 - lam**2))
    for n in range(3):
        w = W[n]
        eq19 -= T / (2 * s2[n]) * w @ (B * (1 - lam[n]) ** 2 + A * lam[n]) @ w
        inner = B * (1 - lam[n]) ** 2 + (T - 1) / T * A * lam[n] + lam[n] * (1 - lam[n]) / T * edges
        eq18 -= T / (2 * s2[n]) * w @ inner @ w
    likelihood = noise_free_log_likelihood(x, theta)
    assert likelihood.without_edges == pytest.approx(eq19, rel=EXACT)
    assert likelihood.exact == pytest.approx(eq18, rel=EXACT)


def numerical_maximum(x, decay, rng, field, starts=4):
    """Return the weights that maximize the likelihood at fixed decays, by a general optimizer."""
    offset = x.mean(axis=0)

    def negative(flat):
        theta = make_innovation_parameters(decay, flat.reshape(3, 3), 1.0, 0.0, offset)
        return -getattr(noise_free_log_likelihood(x, theta), field) / len(x)

    begin = [rng.standard_normal(9) for _ in range(starts)]
    ends = [minimize(negative, w, options={"gtol": 1e-7}) for w in begin]
    return min(ends, key=lambda end: end.fun).x.reshape(3, 3)


@parametrize("decay", [(-0.7, 0.4, -0.2), (0.9, 0.5, 0.1), (0.1, 0.6, 0.3)])
def test_directions_do_not_depend_on_the_decays(rng, decay):
    """For any decays the directions are those of SFA, slower for larger decays (text after eq. 23)."""
    x = series(200)
    W = numerical_maximum(x, np.array(decay), rng, "without_edges")
    sfa = SFA().fit(x).components_
    order = np.argsort(np.argsort(-np.array(decay)))
    overlap = np.abs(W @ np.linalg.inv(sfa))  # rows in the space of the slow features
    overlap /= np.linalg.norm(overlap, axis=1, keepdims=True)
    assert np.max(np.abs(overlap - np.eye(3)[order])) < 1e-4


@pytest.mark.parametrize("decay", [(0.9, 0.5, 0.1), (-0.7, 0.4, -0.2)])
def test_maximum_without_edges_is_equations_22_and_23(decay):
    """Outputs and their differences are uncorrelated, with the variances of eq. 22."""
    x = series(300)
    s2, a = np.array([2.0, 0.3, 1.0]), np.array(decay)
    theta = noise_free_maximum_likelihood(x, a, s2)
    A, B = literal_moments(x - x.mean(axis=0))
    outputs, steps = theta.weights @ B @ theta.weights.T, theta.weights @ A @ theta.weights.T
    right = np.diag(s2 / (1 - a) ** 2) - (a / (1 - a) ** 2) * steps
    np.testing.assert_allclose(outputs, right, atol=1e-9 * np.max(outputs))
    np.testing.assert_allclose(steps, np.diag(np.diag(steps)), atol=1e-9 * np.max(steps))
    np.testing.assert_array_equal(np.argsort(np.diag(steps) / np.diag(outputs)), np.argsort(-a))


def test_learned_decays_without_edges_are_those_of_the_noise_free_fit():
    x = series(300)
    theta = noise_free_maximum_likelihood(x)
    fitted = ProbabilisticSFA(3, noise=0.0).fit(x)
    assert scaled_error(theta.decay, fitted.decay_) < EXACT
    assert scaled_error(theta.unit_variance().loadings, fitted.loadings_) < EXACT
    A, B = literal_moments(x - x.mean(axis=0))
    assert scaled_error(theta.decay, 1 - eigh(A, B, eigvals_only=True) / 2) < EXACT


def test_scaling_of_slow_feature_analysis_is_the_limit_of_small_decays():
    """Eq. 24: with sigma^2 = 1 - lambda^2, outputs become white as decays converge to zero."""
    x = series(300)
    centred = x - x.mean(axis=0)
    off = []
    for size in (1e-2, 1e-4, 1e-6):
        theta = noise_free_maximum_likelihood(x, size * np.array([3.0, 2.0, 1.0]))
        y = centred @ theta.weights.T
        off.append(np.max(np.abs(y.T @ y / len(y) - np.eye(3))))
        first_order = 1 + theta.decay * (2 - SFA().fit(x).delta_values_)
        np.testing.assert_allclose(np.mean(y**2, axis=0), first_order, atol=20 * (3 * size) ** 2)
    np.testing.assert_allclose(np.array(off[1:]) / off[:-1], 1e-2, rtol=0.1)


@pytest.mark.parametrize("decay", [None, (0.8, 0.5, -0.1)])
@pytest.mark.parametrize("lengths", [[60], [25, 20, 15]])
def test_the_exact_maximum_is_stationary_and_higher(rng, decay, lengths):
    """Central differences of the exact likelihood with respect to weights and estimated decays are zero."""
    x = series(60)
    exact = noise_free_maximum_likelihood(x, decay, edge_terms=True, lengths=lengths)
    closed = noise_free_maximum_likelihood(x, decay, lengths=lengths)

    def value(theta):
        return noise_free_log_likelihood(x, theta, lengths=lengths).exact

    best = value(exact)
    assert best > value(closed)
    h = 1e-4
    moves = [np.eye(9)[i].reshape(3, 3) for i in range(9)]
    moves += [rng.standard_normal((3, 3)) for _ in range(5)]
    for move in moves:
        up, down = (
            value(exact._replace(weights=(np.eye(3) + s * h * move) @ exact.weights)) for s in (1, -1)
        )
        assert abs(up - down) / (2 * h) < 1e-5 and max(up, down) <= best + 1e-10
    if decay is None:
        for k in range(3):
            up, down = (value(exact._replace(decay=exact.decay + s * h * np.eye(3)[k])) for s in (1, -1))
            assert abs(up - down) / (2 * h) < 1e-2 and max(up, down) <= best + 1e-10


def test_exact_maximum_is_the_numerical_one(rng):
    x = series(60)
    decay = np.array([0.8, 0.5, -0.1])
    W = numerical_maximum(x, decay, rng, "exact")
    exact = noise_free_maximum_likelihood(x, decay, 1.0, edge_terms=True)
    signs = np.sign(np.sum(W * exact.weights, axis=1))
    assert scaled_error(signs[:, None] * W, exact.weights) < 1e-4


def test_maxima_approach_each_other_like_one_over_length():
    """T times the distance of the maxima is bounded while T increases by a factor of 100."""
    rotations, decays, gains = [], [], []
    for n in (1_000, 10_000, 100_000):
        worst = np.zeros(3)
        for seed in range(5):
            x = series(n, decay=(0.9, 0.6, 0.1), seed=seed)
            closed, exact = (noise_free_maximum_likelihood(x, edge_terms=e) for e in (False, True))
            rotation = np.max(np.abs(exact.weights @ np.linalg.inv(closed.weights) - np.eye(3)))
            gain = noise_free_log_likelihood(x, exact).exact - noise_free_log_likelihood(x, closed).exact
            worst = np.maximum(worst, [rotation, np.max(np.abs(exact.decay - closed.decay)), gain])
        rotations.append(n * worst[0])
        decays.append(n * worst[1])
        gains.append(n * worst[2])
    # Maxima over five draws vary by small factors; for a distance of order 1/sqrt(T) they would grow tenfold.
    for scaled in (rotations, decays, gains):
        assert 0.2 < scaled[2] / scaled[0] < 5.0


def test_columns_in_any_units():
    """Units of the columns change only the weights, by their inverse."""
    x, units = series(200), np.array([1e-6, 1.0, 1e6])
    for edge_terms in (False, True):
        one, other = (noise_free_maximum_likelihood(d, edge_terms=edge_terms) for d in (x, x * units))
        assert scaled_error(other.decay, one.decay) < 1e-9
        assert scaled_error(other.weights * units, one.weights) < 1e-7


@pytest.mark.parametrize("decay", [(0.3, 0.299, 0.298), (0.3, 0.3 - 1e-6, 0.1), (0.999, 0.998, 0.99)])
@pytest.mark.parametrize("n_rows", [30, 500])
def test_maxima_with_similar_decays_are_found(rng, decay, n_rows):
    """The maximum is far from slow feature analysis; likelihoods at other weights are lower."""
    x = series(n_rows)
    top = noise_free_maximum_likelihood(x, decay, edge_terms=True)
    best = noise_free_log_likelihood(x, top).exact
    for move in rng.standard_normal((20, 3, 3)):
        for h in (1e-4, 1e-2, 0.3):
            moved = top._replace(weights=(np.eye(3) + h * move) @ top.weights)
            assert noise_free_log_likelihood(x, moved).exact < best


@pytest.mark.parametrize(
    ("X", "arguments", "match"),
    [
        (np.ones((1, 3)), {}, "two rows"),
        (np.full((9, 3), np.nan), {}, "NaN.*requires complete rows"),
        (series(20)[:, [0, 1, 1]], {}, "2 directions.*3 columns"),
        (np.column_stack([series(20), np.full(20, 0.1)]), {}, "3 directions.*4 columns"),
        (series(20), {"decay": [0.5, 0.1]}, r"decay.*\(3,\)"),
        (series(20), {"decay": [0.5, 0.5, 0.1]}, "different values"),
        (series(20), {"decay": [0.5, 1.5, 0.1]}, r"inside \(-1, 1\)"),
        (series(20), {"innovation_variance": -1.0}, "innovation_variance"),
        ([np.zeros((2, 1)), np.ones((2, 1))], {}, "change"),
        ((-1.0) ** np.arange(20)[:, None], {}, "alternates"),
        ((-1.0) ** np.arange(21)[:, None], {"decay": [-0.999]}, "exceeds 4"),
    ],
)
def test_data_without_a_maximum_are_refused(X, arguments, match):
    with pytest.raises(ValueError, match=match):
        noise_free_maximum_likelihood(X, **arguments)


def test_the_likelihood_refuses_invalid_input(rng):
    theta, x = parameters(rng), series(20)
    with pytest.raises(ValueError, match=r"\bX\b.*2.*3"):
        noise_free_log_likelihood(x[:, :2], theta)
    with pytest.raises(ValueError, match="params.*noise"):
        noise_free_log_likelihood(x, theta._replace(noise_variance=np.full(3, 0.1)))
    with pytest.raises(ValueError, match=r"first_variance.*got \[1\.0, 0\.0, 1\.0\]"):
        noise_free_log_likelihood(x, theta, first_variance=[1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="two rows"):
        noise_free_log_likelihood(x[:2], theta, lengths=[1, 1])
