"""Retraction for rotations of factors: equal to the step to first order, exact for pure rotations."""

import numpy as np
import pytest

from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.objective import rotate_along
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout
from probsfa.statespace.processes.matern import Matern32
from probsfa.statespace.processes.rhythm import Rhythm


def exponential(matrix):
    """Return the matrix exponential by scaling and squaring of its series."""
    small, term, total = matrix / 2.0**10, np.eye(len(matrix)), np.eye(len(matrix))
    for n in range(1, 12):
        term = term @ small / n
        total = total + term
    for _ in range(10):
        total = total @ total
    return total


def antisymmetric(rng, n):
    half = np.triu(rng.standard_normal((n, n)), 1)
    return half - half.T


def problem(rng, d, state_layout, n_ar1_noise=0):
    coordinates = Coordinates(state_layout, NoiseVariances.diagonal(d), True, n_ar1_noise)
    return coordinates, rng.standard_normal(coordinates.size), np.exp(rng.standard_normal(d))


def loadings_of(coordinates, vector):
    full = np.zeros((coordinates.n_features, coordinates.n_states))
    full[coordinates.has_loading] = vector[coordinates.slices[1]]
    return full


@pytest.mark.parametrize("d,k", [(6, 3), (3, 3), (3, 5), (4, 1)])
def test_a_rotation_of_the_basis_is_exact(rng, d, k):
    """Rotations of any angle leave the explained variance unchanged."""
    coordinates, vector, noise = problem(rng, d, StateLayout(k))
    loadings, generator = loadings_of(coordinates, vector), antisymmetric(rng, k)
    if k > d:  # a rotation in the row space of the loadings; other rotations do not change C
        row_space = np.linalg.svd(loadings / np.sqrt(noise)[:, None])[2][:d]
        generator = row_space.T @ antisymmetric(rng, d) @ row_space
    step = np.zeros(coordinates.size)
    step[coordinates.slices[1]] = (loadings @ generator).ravel()
    reached, rotation = rotate_along(coordinates, vector, step, noise)
    wanted = loadings @ exponential(generator)
    np.testing.assert_allclose(loadings_of(coordinates, reached), wanted, atol=1e-9)
    np.testing.assert_allclose(rotation.matrix @ rotation.matrix.T, np.eye(k), atol=1e-12)
    others = np.ones(coordinates.size, dtype=bool)
    others[coordinates.slices[1]] = False
    np.testing.assert_array_equal(reached[others], vector[others])


@pytest.mark.parametrize(
    "state_layout,n_ar1_noise",
    [(StateLayout(3), 0), (StateLayout(2, {Rhythm: 1, Matern32: 1}), 0), (StateLayout(7), 4)],
)
def test_any_step_is_the_same_to_first_order(rng, state_layout, n_ar1_noise):
    coordinates, vector, noise = problem(rng, 4, state_layout, n_ar1_noise)
    step = rng.standard_normal(coordinates.size)
    errors = []
    for length in (1e-2, 1e-3):
        reached, _ = rotate_along(coordinates, vector, length * step, noise)
        errors.append(np.abs(reached - vector - length * step).max())
    assert 0.0 < errors[1] < 0.02 * errors[0]


def test_the_rotation_minimizes_the_rest_of_the_step_in_units_of_the_noise(rng):
    """Compare with a regression of the step on all rotations."""
    coordinates, vector, noise = problem(rng, 6, StateLayout(3))
    step = 0.1 * rng.standard_normal(coordinates.size)
    root = 1.0 / np.sqrt(noise)[:, None]
    scaled, change = (root * loadings_of(coordinates, x) for x in (vector, step))
    basis = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        one = np.zeros((3, 3))
        one[i, j], one[j, i] = 1.0, -1.0
        basis.append(one)
    parts = np.linalg.lstsq(np.stack([(scaled @ one).ravel() for one in basis], axis=1), change.ravel())[0]
    generator = np.einsum("i,ijk->jk", parts, basis)
    _, rotation = rotate_along(coordinates, vector, step, noise)
    np.testing.assert_allclose(rotation.matrix, exponential(generator), atol=1e-10)


def test_ar1_noise_is_not_rotated_and_products_with_gradients_are_kept(rng):
    coordinates, vector, noise = problem(rng, 4, StateLayout(7), 4)
    step = rng.standard_normal(coordinates.size)
    reached, rotation = rotate_along(coordinates, vector, step, noise)
    ar1_noise = coordinates.ar1_noise_states
    np.testing.assert_array_equal(
        loadings_of(coordinates, reached)[:, ar1_noise], loadings_of(coordinates, vector + step)[:, ar1_noise]
    )
    gradient = rng.standard_normal(coordinates.size)
    assert rotation(step) @ rotation(gradient) == pytest.approx(step @ gradient, rel=1e-12)
    np.testing.assert_allclose(rotation.back(rotation(gradient)), gradient, rtol=1e-12, atol=1e-14)


def test_factors_without_loadings_do_not_rotate_others(rng):
    coordinates, vector, noise = problem(rng, 4, StateLayout(2))
    vector[coordinates.slices[1]] = 0.0
    step = rng.standard_normal(coordinates.size)
    reached, rotation = rotate_along(coordinates, vector, step, noise)
    np.testing.assert_allclose(reached, vector + step, rtol=1e-14)
    np.testing.assert_allclose(rotation.matrix, np.eye(2), atol=1e-14)
