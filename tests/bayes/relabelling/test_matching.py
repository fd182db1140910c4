"""Relabelling: all images of a draw by signed permutations get the same labels."""

import math

import numpy as np
import pytest

from probsfa.bayes.relabelling.matching import close_pairs, relabel
from tests.bayes.support import images
from tests.tolerances import EXACT


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_image_of_a_draw_gets_the_same_labels(rng, k):
    reference, at = rng.standard_normal((5, k)), rng.standard_normal(k)
    timescale, loadings = at + 0.1 * rng.standard_normal(k), reference + 0.1 * rng.standard_normal((5, k))
    spread = rng.uniform(0.5, 2.0, k), rng.uniform(0.5, 2.0, (5, k))
    stacked = [np.array(x) for x in zip(*images(timescale, loadings), strict=True)]
    relabelling = relabel(*stacked, at, reference, *spread)
    for t, c in zip(relabelling.apply(stacked[0], signed=False), relabelling.apply(stacked[1]), strict=True):
        np.testing.assert_array_equal(t, timescale)
        np.testing.assert_array_equal(c, loadings)
    assert relabelling.n_permuted == len(stacked[0]) * (1 - 1 / math.factorial(k))


def test_the_closest_image_is_chosen(rng):
    reference, at = rng.standard_normal((4, 3)), rng.standard_normal(3)
    timescale, loadings = rng.standard_normal(3), rng.standard_normal((4, 3))
    spread = rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 2.0, (4, 3))
    relabelling = relabel(timescale[None], loadings[None], at, reference, *spread)

    def distance(t, c):
        return np.sum(((t - at) / spread[0]) ** 2) + np.sum(((c - reference) / spread[1]) ** 2)

    chosen = relabelling.apply(timescale[None], signed=False)[0], relabelling.apply(loadings[None])[0]
    assert distance(*chosen) <= min(distance(*image) for image in images(timescale, loadings)) + EXACT


def test_factors_of_any_shape_are_relabelled(rng):
    draws = rng.standard_normal((3, 5, 4, 2))
    relabelling = relabel(np.zeros((3, 2)), -np.tile(np.eye(2), (3, 1, 1)), np.zeros(2), np.eye(2)[:, ::-1])
    np.testing.assert_array_equal(relabelling.apply(draws), -draws[..., ::-1])
    with pytest.warns(FutureWarning, match="latents is now apply"):
        np.testing.assert_array_equal(relabelling.latents(draws), -draws[..., ::-1])


def test_close_pairs_have_the_probability_of_the_reverse_order(rng):
    near = np.column_stack([np.full(1000, 2.0), np.full(1000, 1.0), np.tile([0.5, 1.5], 500)])
    assert close_pairs(near) == [(1, 2, 0.5)]
    assert close_pairs(near[:, :2]) == []
    nearly_sure = np.column_stack([np.full(100, 1.0), np.repeat([0.5, 1.5], [3, 97])])
    assert close_pairs(nearly_sure) == close_pairs(nearly_sure[:, ::-1]) == []
