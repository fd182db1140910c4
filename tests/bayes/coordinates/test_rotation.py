"""Coordinates of rotations: inverse, Jacobian determinant, and invariance under signed permutations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.bayes.coordinates.rotation import align, choose_frame, diagonalize, make_frame, may_merge
from tests.sampling import parametrize

SHAPES = [(2, 2), (5, 2), (6, 3), (7, 5)]
DIAGONALIZED = jax.jit(diagonalize)  # one program; otherwise operations are compiled separately


def problem(rng, d, k, members=None, apart=0.3):
    """Return a frame, and time scales and loadings near its reference."""
    timescale, reference = 2.0 * rng.standard_normal(k), rng.standard_normal((d, k))
    members = np.arange(k) if members is None else np.array(members)
    frame = make_frame(timescale, reference, rng.uniform(0.5, 2.0, d), members)
    near = reference + apart * rng.standard_normal((d, k))
    return frame, timescale + apart * rng.standard_normal(k), near


def by_size(timescale, loadings):
    """Return factors in order of time scale, each with its largest loading positive."""
    order = np.argsort(timescale)
    loadings = np.asarray(loadings)[:, order]
    signs = np.sign(loadings[np.argmax(np.abs(loadings), axis=0), np.arange(len(order))])
    return np.asarray(timescale)[order], loadings * signs


def rotated(frame, timescale, loadings):
    """Return the parameters at coordinates, and the log determinant, as NumPy arrays."""
    with jax.enable_x64(True):
        found = DIAGONALIZED(frame, jnp.asarray(timescale), jnp.asarray(loadings))
        return tuple(np.asarray(x) for x in found)


@pytest.mark.parametrize("members", [None, (0, 2)])
@pytest.mark.parametrize(("d", "k"), [(6, 3), (7, 5)])
def test_some_or_all_factors_are_recovered(rng, d, k, members):
    frame, timescale, loadings = problem(rng, d, k, members)
    got = rotated(frame, *align(frame, timescale, loadings))
    for x, y in zip(by_size(*got[:2]), by_size(timescale, loadings), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-11)
    others = np.setdiff1d(np.arange(k), frame.members)
    np.testing.assert_array_equal(got[1][:, others], loadings[:, others])


@parametrize(("d", "k"), SHAPES)
def test_all_orders_and_signs_have_equal_coordinates(rng, d, k):
    frame, timescale, loadings = problem(rng, d, k)
    expected = align(frame, timescale, loadings)
    for order in itertools.islice(itertools.permutations(range(k)), 10):
        signs = rng.choice([-1.0, 1.0], k)
        got = align(frame, timescale[list(order)], loadings[:, list(order)] * signs)
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-11)


@parametrize(("d", "k"), SHAPES)
def test_coordinates_are_the_parameters_near_the_reference(rng, d, k):
    frame, _, _ = problem(rng, d, k)
    timescale = np.arange(k) * 0.7  # ascending, so that the members are in order
    frame = make_frame(timescale, frame.reference, np.ones(d), np.arange(k))
    changes = rng.standard_normal(k), rng.standard_normal((d, k))
    errors = []
    for step in (1e-3, 1e-4):
        near = timescale + step * changes[0], frame.reference + step * changes[1]
        got = align(frame, *near)
        errors.append(max(np.max(np.abs(x - y)) for x, y in zip(got, near, strict=True)))
    assert errors[1] < 0.02 * errors[0]  # errors are of second order


@parametrize("members", [None, (0, 1)], quick=[(0, 1)])
@parametrize(("d", "k"), SHAPES)
def test_log_determinant_is_that_of_the_numerical_jacobian(rng, d, k, members):
    frame, timescale, loadings = problem(rng, d, k, members)
    start = np.concatenate([x.ravel() for x in align(frame, timescale, loadings)])

    def flat(vector):
        t, c, _ = rotated(frame, vector[:k], vector[k:].reshape(d, k))
        return np.concatenate([t, c.ravel()])

    step = 1e-6
    moves = step * np.eye(len(start))
    jacobian = np.array([(flat(start + m) - flat(start - m)) / (2.0 * step) for m in moves])
    log_det = rotated(frame, start[:k], start[k:].reshape(d, k))[2]
    assert abs(log_det - np.linalg.slogdet(jacobian)[1]) < 1e-6


def test_the_process_is_continuous_at_equal_time_scales(rng):
    """On a line through equal time scales the covariance function of the observations is continuous."""
    frame, _, loadings = problem(rng, 5, 2)
    centre = align(frame, np.array([1.0, 1.0]), loadings)

    def covariances(shift):
        t, c, _ = rotated(frame, centre[0] + np.array([shift, -shift]), centre[1])
        decay = np.exp(-np.exp(-t))
        return [(c / (1.0 - decay**2) * decay**lag) @ c.T for lag in range(3)]

    for before, after in zip(covariances(-1e-6), covariances(1e-6), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-4)
    # The order of the factors changes there.
    assert not np.allclose(
        rotated(frame, centre[0] + [-1e-3, 1e-3], centre[1])[1],
        rotated(frame, centre[0] + [1e-3, -1e-3], centre[1])[1],
        atol=0.1,
    )


def test_factors_with_uncertain_loadings_are_not_rotated(rng):
    loadings = rng.standard_normal((6, 3)) * np.array([1.0, 1e-3, 1.0])
    timescale, noise = np.array([50.0, 1e4, 2.0]), np.full(6, 0.5)
    frame = choose_frame(timescale, np.log(timescale), loadings, loadings, noise, 1000)
    np.testing.assert_array_equal(frame.members, [2, 0])
    assert choose_frame(timescale, np.log(timescale), loadings, loadings, noise, 20) is None
    assert choose_frame(timescale[:1], np.zeros(1), loadings[:, :1], loadings[:, :1], noise, 1000) is None


def test_factors_whose_time_scales_may_be_equal_are_not_rotated(rng):
    loadings, noise = rng.standard_normal((6, 2)), np.full(6, 0.5)
    for ratio, known in [(1.0, False), (1.05, False), (2.0, True)]:
        timescale = np.array([10.0, 10.0 * ratio])
        frame = choose_frame(timescale, np.log(timescale), loadings, loadings, noise, 1000)
        assert (frame is not None) == known


def test_coordinates_without_aligned_loadings_have_no_density(rng):
    frame, timescale, loadings = problem(rng, 5, 2)
    centre = align(frame, timescale, loadings)
    assert np.isnan(rotated(frame, centre[0], -centre[1])[2])


@pytest.mark.parametrize("close", [(0, 1), (1, 2), ()])
def test_factors_may_merge_if_two_adjacent_time_scales_are_close(close):
    coordinate = np.array([0.0, 2.0, 4.0])
    if close:
        coordinate[close[1]] = coordinate[close[0]] + 0.01
    shuffled, members = coordinate[[2, 0, 1]], np.arange(3)
    assert may_merge(members, shuffled, np.full(3, 0.1)) == bool(close)
    assert may_merge(members, shuffled, np.full(3, 10.0))
