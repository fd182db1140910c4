"""Whitening, the rank rule, slow directions and signs."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from probsfa.linalg import canonical_signs, default_rank_tol, slow_directions, whiten
from tests.oracles.linalg import generalized_eigenvalues, sign_rule
from tests.tolerances import EXACT, SPECTRAL

SCALES = {
    "equal": np.ones(6),
    "tiny": np.full(6, 1e-8),
    "huge": np.full(6, 1e8),
    "mixed": 10.0 ** np.array([-8, -4, 0, 2, 5, 8]),
}


def spd(rng, n, rank=None):
    """Return a random covariance matrix with a spectrum between 0.1 and 10."""
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    eigenvalues = np.zeros(n)
    eigenvalues[: rank or n] = np.linspace(10, 0.1, rank or n)
    return (Q * eigenvalues) @ Q.T


@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("rank", [6, 4, 1])
def test_whitening_at_every_rank_and_scale(rng, rank, scales):
    B = spd(rng, 6, rank) * np.outer(scales, scales)
    W = whiten(B)
    assert W.rank == rank and W.matrix.shape == (6, rank)
    np.testing.assert_allclose(W.matrix.T @ B @ W.matrix, np.eye(rank), atol=EXACT)
    np.testing.assert_allclose(W.scales, np.sqrt(np.diag(B)), rtol=EXACT)


@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
def test_delta_values_are_the_generalized_eigenvalues(rng, scales):
    A, B = spd(rng, 6), spd(rng, 6)
    found = slow_directions(A * np.outer(scales, scales), B * np.outer(scales, scales))
    np.testing.assert_allclose(found.delta_values, generalized_eigenvalues(A, B), rtol=SPECTRAL)


@pytest.mark.parametrize("rank", [6, 4, 1])
def test_slow_directions_solve_the_problem_on_the_range(rng, rank):
    A, B = spd(rng, 6), spd(rng, 6, rank)
    found = slow_directions(A, B)
    W, deltas = found.weights, found.delta_values
    assert found.rank == rank and W.shape == (6, rank) and (np.diff(deltas) >= 0).all()
    np.testing.assert_allclose(W.T @ B @ W, np.eye(rank), atol=EXACT)
    np.testing.assert_allclose(W.T @ A @ W, np.diag(deltas), atol=EXACT * deltas.max())
    np.testing.assert_allclose(found.loadings, B @ W, atol=EXACT)
    # loadings @ weights.T is the projection onto the range of B
    np.testing.assert_allclose(found.loadings @ W.T @ B, B, atol=EXACT * 10)


def test_fewer_components_are_the_first_of_all_components(rng):
    A, B = spd(rng, 6), spd(rng, 6, 5)
    full, part = slow_directions(A, B), slow_directions(A, B, n_components=2)
    assert part.rank == 5
    np.testing.assert_allclose(part.delta_values, full.delta_values[:2], rtol=EXACT)
    np.testing.assert_allclose(part.weights, full.weights[:, :2], rtol=SPECTRAL, atol=SPECTRAL)


def problem_with_a_block(rng, deltas, covariance):
    """Return A and B with a known solution: A = B V diag(deltas) V' B with V' B V = 1."""
    root = np.linalg.cholesky(np.linalg.inv(covariance))
    V = root @ np.linalg.qr(rng.standard_normal(covariance.shape))[0]
    return covariance @ V @ np.diag(deltas) @ V.T @ covariance, V


@pytest.mark.parametrize("n_components", [None, 3])
@pytest.mark.parametrize("decorrelated", [False, True])
def test_a_block_of_equal_delta_values_does_not_depend_on_the_order_of_columns(
    rng, decorrelated, n_components
):
    """Outputs differed by several standard deviations; the oracle for their sizes needs no eigenvectors."""
    deltas = np.array([0.1, 0.5, 0.5, 0.5, 0.5, 2.0])
    B = np.diag(np.arange(1.0, 7.0)) if decorrelated else spd(rng, 6)
    A, V = problem_with_a_block(rng, deltas, B)
    found = slow_directions(A, B, n_components)
    np.testing.assert_allclose(found.delta_values, deltas[:n_components], rtol=EXACT)
    for _ in range(3):
        order = rng.permutation(6)
        other = slow_directions(A[np.ix_(order, order)], B[np.ix_(order, order)], n_components)
        np.testing.assert_allclose(other.weights, found.weights[order], atol=1e-9)
    reconstructed = B @ V[:, 1:5] @ V[:, 1:5].T @ B / np.sqrt(np.outer(np.diag(B), np.diag(B)))
    shares = np.sum((found.loadings / np.sqrt(np.diag(B))[:, None]) ** 2, axis=0)
    expected = np.linalg.eigvalsh(reconstructed)[::-1]
    np.testing.assert_allclose(shares[1:5], expected[: len(shares[1:5])], rtol=1e-8)
    np.testing.assert_allclose(found.weights.T @ B @ found.weights, np.eye(len(shares)), atol=EXACT)


def test_different_delta_values_have_separate_eigenvectors(rng):
    """Only rounding errors count as equal: values that differ by 1e-9 have separate eigenvectors."""
    deltas = 0.5 + 1e-9 * np.arange(6)
    A, V = problem_with_a_block(rng, deltas, spd(rng, 6))
    found = slow_directions(A, np.linalg.inv(V @ V.T))
    assert (np.diff(found.delta_values) > 0.5e-9).all()


def test_constant_columns_get_no_weight(rng):
    A, B = spd(rng, 6), spd(rng, 6)
    A[2] = A[:, 2] = B[2] = B[:, 2] = 0.0
    found = slow_directions(A, B)
    assert found.rank == 5
    assert not found.weights[2].any() and not found.loadings[2].any() and found.scales[2] == 0


def test_variance_floor_makes_columns_constant():
    B = np.diag([1.0, 1e-18])
    assert whiten(B).rank == 2
    assert whiten(B, variance_floor=[1e-16, 1e-16]).rank == 1
    assert whiten(B, variance_floor=2.0).rank == 0


def test_rank_tol_determines_the_rank():
    rho = 1 - 1e-9  # correlation matrix [[1, rho], [rho, 1]] has eigenvalues 2 and 1e-9
    B = np.array([[1.0, rho], [rho, 1.0]])
    assert whiten(B).rank == 2
    assert whiten(B, rank_tol=1e-8).rank == 1
    assert default_rank_tol(3) == 1e-12 and default_rank_tol(10_000) > 2e-11


def test_errors_name_the_rank():
    B = np.ones((3, 3))
    with pytest.raises(ValueError, match="n_components=2.*rank 1.*3"):
        slow_directions(np.eye(3), B, n_components=2)
    with pytest.raises(ValueError, match="n_components=4 exceeds"):
        slow_directions(np.eye(3), np.eye(3), n_components=4)  # no tolerance gives a fourth direction
    with pytest.raises(ValueError, match="constant"):
        slow_directions(np.eye(3), np.zeros((3, 3)))


def test_delta_values_are_not_negative():
    # rounding alone would give about -1e-17 here
    assert (slow_directions(-1e-17 * np.eye(2), np.eye(2)).delta_values == 0).all()


def test_signs_follow_the_rule(rng):
    loadings = rng.standard_normal((5, 7))
    scales = np.abs(rng.standard_normal(5)) * [1, 1, 0, 1, 1]
    np.testing.assert_array_equal(canonical_signs(loadings, scales), sign_rule(loadings, scales))


def test_near_ties_select_the_first_input_for_any_rounding_errors():
    for noise in (-1e-12, 0.0, 1e-12):
        assert canonical_signs([[1.0 + noise], [-1.0]], [1.0, 1.0]).tolist() == [1.0]
    assert canonical_signs([[1.0], [-1.001]], [1.0, 1.0]).tolist() == [-1.0]


def test_signs_without_any_correlation_are_positive():
    assert canonical_signs(np.zeros((3, 2)), np.ones(3)).tolist() == [1.0, 1.0]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_signs_undo_any_flip_and_ignore_units(seed, n):
    rng = np.random.default_rng(seed)
    loadings, flips = rng.standard_normal((n, 3)), rng.choice([-1.0, 1.0], 3)
    units = 10.0 ** rng.integers(-8, 9, n)
    reference = loadings * canonical_signs(loadings, np.ones(n))
    flipped = loadings * flips
    np.testing.assert_array_equal(flipped * canonical_signs(flipped * units[:, None], units), reference)


@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("n_components", [None, 3])
def test_delta_values_are_right_at_any_condition_number(rng, condition, n_components):
    """Both whitenings, that for well-conditioned covariances and the general one, agree with SciPy."""
    D = 40  # beyond the size up to which all directions are computed
    Q, _ = np.linalg.qr(rng.standard_normal((D, D)))
    A, B = spd(rng, D), (Q * np.geomspace(1, 1 / condition, D)) @ Q.T
    found = slow_directions(A, B, n_components)
    assert found.rank == D
    np.testing.assert_allclose(
        found.delta_values,
        scipy.linalg.eigh(A, B, eigvals_only=True)[:n_components],
        rtol=1e-8,
        atol=1e-15 * condition,
    )
    W = found.weights
    np.testing.assert_allclose(W.T @ B @ W, np.eye(W.shape[1]), atol=1e-12 + 1e-14 * condition)


def test_the_rank_of_a_nearly_singular_covariance_is_by_eigenvalues(rng):
    B = spd(rng, 6)
    B[:, 5] = B[:, 4] * (1 + 1e-13)
    B[5] = B[4] * (1 + 1e-13)
    assert slow_directions(np.eye(6), B).rank == 5
    assert slow_directions(np.eye(6), spd(rng, 6), rank_tol=0.5).rank < 6
