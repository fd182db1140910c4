"""Labels: every mirror image of a draw gets the same one, and choosing one image changes no invariant."""

import itertools
import math

import jax
import numpy as np
import pytest

from probsfa.bayes.coordinates.symmetry import Anchor, log_images, log_weight
from probsfa.bayes.relabelling.matching import close_pairs, relabel
from tests.sampling import sparsely
from tests.tolerances import EXACT


def images(timescale, loadings):
    """All signed permutations of a draw."""
    k = len(timescale)
    for order in itertools.permutations(range(k)):
        for signs in itertools.product([1.0, -1.0], repeat=k):
            yield timescale[list(order)], loadings[:, list(order)] * np.array(signs)


@sparsely("k", [1, 2, 3], shown=[3])
def test_every_image_of_a_draw_gets_the_same_labels(rng, k):
    reference, at = rng.standard_normal((5, k)), rng.standard_normal(k)
    timescale, loadings = at + 0.1 * rng.standard_normal(k), reference + 0.1 * rng.standard_normal((5, k))
    spread = rng.uniform(0.5, 2.0, k), rng.uniform(0.5, 2.0, (5, k))
    stacked = [np.array(x) for x in zip(*images(timescale, loadings), strict=True)]
    found = relabel(*stacked, at, reference, *spread)
    for t, c in zip(found.latents(stacked[0], signed=False), found.latents(stacked[1]), strict=True):
        np.testing.assert_array_equal(t, timescale)
        np.testing.assert_array_equal(c, loadings)
    assert found.n_permuted == len(stacked[0]) * (1 - 1 / math.factorial(k))


def test_the_closest_image_is_chosen(rng):
    reference, at = rng.standard_normal((4, 3)), rng.standard_normal(3)
    timescale, loadings = rng.standard_normal(3), rng.standard_normal((4, 3))
    spread = rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 2.0, (4, 3))
    found = relabel(timescale[None], loadings[None], at, reference, *spread)

    def distance(t, c):
        return np.sum(((t - at) / spread[0]) ** 2) + np.sum(((c - reference) / spread[1]) ** 2)

    chosen = found.latents(timescale[None], signed=False)[0], found.latents(loadings[None])[0]
    assert distance(*chosen) <= min(distance(*image) for image in images(timescale, loadings)) + EXACT


@pytest.mark.parametrize("permuted", [True, False])
@sparsely("k", [1, 2, 3], shown=[3])
def test_weights_add_to_one_over_the_images(rng, k, permuted):
    draw, c = rng.standard_normal(k), rng.standard_normal((4, k))
    anchor = Anchor(
        rng.standard_normal(k),
        rng.standard_normal((4, k)),
        rng.uniform(0.5, 2.0, k) if not permuted else np.full(k, 0.7),
        rng.uniform(0.5, 2.0, (4, k)),
    )
    with jax.enable_x64(True):
        all_images = list(images(draw, c))
        if not permuted:
            all_images = [(t, x) for t, x in all_images if np.array_equal(t, draw)]
        total = sum(math.exp(log_weight(anchor, t, x, permuted)) for t, x in all_images)
    assert abs(total - 1.0) < EXACT
    assert abs(math.exp(log_images(k, permuted)) - len(all_images)) < 1e-9


@pytest.mark.parametrize("members", [(), (0,), (0, 2), (0, 1, 2)])
def test_images_that_are_one_point_of_the_coordinates_count_together(rng, members):
    """Over all images the weights add to the number of images that each point stands for."""
    k = 3
    anchor = Anchor(
        rng.standard_normal(k), rng.standard_normal((4, k)), np.full(k, 0.7), rng.uniform(0.5, 2.0, (4, k))
    )
    draw, c = rng.standard_normal(k), rng.standard_normal((4, k))
    with jax.enable_x64(True):
        weights = [
            math.exp(log_weight(anchor, t, x, True, np.array(members, dtype=int))) for t, x in images(draw, c)
        ]
    assert abs(sum(weights) - math.factorial(len(members)) * 2 ** len(members)) < EXACT
    if len(members) == k:
        np.testing.assert_allclose(weights, 1.0, atol=EXACT)


def test_latents_of_any_shape_are_relabelled(rng):
    draws = rng.standard_normal((3, 5, 4, 2))
    found = relabel(np.zeros((3, 2)), -np.tile(np.eye(2), (3, 1, 1)), np.zeros(2), np.eye(2)[:, ::-1])
    np.testing.assert_array_equal(found.latents(draws), -draws[..., ::-1])


def test_close_pairs_are_named_with_their_probability(rng):
    near = np.column_stack([np.full(1000, 2.0), np.full(1000, 1.0), np.tile([0.5, 1.5], 500)])
    assert close_pairs(near) == [(1, 2, 0.5)]
    assert close_pairs(near[:, :2]) == []
