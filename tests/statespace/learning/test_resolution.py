"""Noise floors by the resolution of columns."""

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace.columns import resolution_variance


def variance(*columns):
    """Return the variance of rounding errors of one sequence."""
    values = np.column_stack(columns)
    return resolution_variance(Sequences(values, (len(values),), None, False, None))


def test_quantised_frozen_and_exact_columns():
    """The bound is that of rounding, smaller for frozen columns, and nearly zero for exact ones."""
    rng = np.random.default_rng(0)
    fine, exact = np.round(rng.standard_normal(500), 1), rng.standard_normal(500)
    frozen = np.where(np.arange(500) < 250, 0.0, 3.0)
    of_fine, of_frozen, of_exact = variance(fine, frozen, exact)
    np.testing.assert_allclose(of_fine, 0.1**2 / 12.0, rtol=1e-9)
    # The error of interpolation next to the step is 1.5.
    np.testing.assert_allclose(of_frozen, 0.01 * (2 * 1.5**2 / 498) / 1.5, rtol=1e-9)
    assert of_exact < 1e-8


def test_rounded_columns_have_at_least_the_noise_of_rounding():
    """If a factor reproduces a rounded column, its noise variance is that of the rounding errors."""
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.standard_normal(400))
    X = np.round(np.column_stack([walk, walk + np.cumsum(rng.standard_normal(400))]), 1)
    model = ProbabilisticSFA(2, noise_prior=None).fit(X)
    assert np.all(model.noise_variance_ >= (1.0 - 1e-9) * 0.1**2 / 12.0)
