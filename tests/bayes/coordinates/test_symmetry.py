"""The weight that selects one of the equivalent modes."""

import math

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from probsfa.bayes.coordinates import symmetry
from probsfa.bayes.coordinates.symmetry import SymmetryReference
from tests.bayes.support import images
from tests.tolerances import EXACT

#: One program; otherwise each operation would be compiled separately.
log_weight = jax.jit(symmetry.log_weight, static_argnums=3)


@pytest.mark.parametrize("permuted", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_weights_sum_to_one_over_the_images(rng, k, permuted):
    draw, c = rng.standard_normal(k), rng.standard_normal((4, k))
    reference = SymmetryReference(
        rng.standard_normal(k),
        rng.standard_normal((4, k)),
        rng.uniform(0.5, 2.0, k) if not permuted else np.full(k, 0.7),
        rng.uniform(0.5, 2.0, (4, k)),
    )
    with jax.enable_x64(True):
        all_images = list(images(draw, c))
        if not permuted:
            all_images = [(t, x) for t, x in all_images if np.array_equal(t, draw)]
        total = sum(math.exp(log_weight(reference, t, x, permuted)) for t, x in all_images)
    assert abs(total - 1.0) < EXACT


def test_weights_of_several_modes_sum_to_one_and_select_the_modes(rng):
    timescales, loadings = rng.standard_normal((2, 2)), 3.0 * rng.standard_normal((2, 4, 2))
    widths = rng.uniform(0.1, 0.5, (2, 1, 1))
    reference = SymmetryReference(
        timescales, loadings, np.repeat(widths[:, 0], 2, axis=1), np.ones((2, 4, 2)) * widths
    )
    draw, c = rng.standard_normal(2), rng.standard_normal((4, 2))
    with jax.enable_x64(True):
        total = sum(math.exp(log_weight(reference, t, x, True)) for t, x in images(draw, c))
        chosen = [
            math.exp(log_weight(reference, *mode, True)) for mode in zip(timescales, loadings, strict=True)
        ]
    assert abs(total - 1.0) < EXACT
    np.testing.assert_allclose(chosen, 1.0, atol=1e-6)


def test_the_weight_of_several_modes_is_a_ratio_of_normal_densities(rng):
    """The densities are those around the modes, and those around all of their images."""
    reference = SymmetryReference(
        rng.standard_normal((2, 2)),
        rng.standard_normal((2, 4, 2)),
        np.array([[0.5, 0.5], [1.5, 1.5]]),
        np.array([0.4, 2.0])[:, None, None] * np.ones((2, 4, 2)),
    )
    draw, c = rng.standard_normal(2), rng.standard_normal((4, 2))

    def log_density(timescale, loadings):
        return [
            norm.logpdf(timescale, *one[::2]).sum() + norm.logpdf(loadings, *one[1::2]).sum()
            for one in zip(*reference, strict=True)
        ]

    total = logsumexp([log_density(*image) for image in images(draw, c)])
    with jax.enable_x64(True):
        found = float(log_weight(reference, draw, c, True))
    assert found == pytest.approx(logsumexp(log_density(draw, c)) - total, abs=EXACT)


@pytest.mark.parametrize("members", [(), (0,), (0, 2), (0, 1, 2)])
def test_images_with_equal_coordinates_are_all_selected(rng, members):
    """The sum of the weights over all images is the number of images with equal coordinates."""
    k = 3
    reference = SymmetryReference(
        rng.standard_normal(k), rng.standard_normal((4, k)), np.full(k, 0.7), rng.uniform(0.5, 2.0, (4, k))
    )
    draw, c = rng.standard_normal(k), rng.standard_normal((4, k))
    with jax.enable_x64(True):
        weights = [
            math.exp(log_weight(reference, t, x, True, np.array(members, dtype=int)))
            for t, x in images(draw, c)
        ]
    assert abs(sum(weights) - math.factorial(len(members)) * 2 ** len(members)) < EXACT
    if len(members) == k:
        np.testing.assert_allclose(weights, 1.0, atol=EXACT)
