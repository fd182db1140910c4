"""Initial values with fixed parameters: closest order, signs and phases."""

import numpy as np

from probsfa.statespace.learning.coordinates import Limits, impose_limits
from probsfa.statespace.parameters import StateSpace


def limits_of(loadings, n_components, n_rhythms=0):
    n_features = len(loadings)
    frequencies = np.repeat([[-np.inf], [np.inf]], n_rhythms, axis=1)
    return Limits(
        np.full(n_components, np.nan),
        loadings,
        np.full(n_features, np.nan),
        frequencies,
        slice(n_components, n_components + 2 * n_rhythms),
    )


def test_a_factor_of_the_opposite_sign_is_matched_to_fixed_loadings():
    params = StateSpace(
        np.array([0.9, 0.5]), np.array([[0.3, -0.8], [0.2, 0.1], [-0.4, 0.6]]), np.ones(3), np.zeros(3)
    )
    fixed = np.full((3, 2), np.nan)
    fixed[0, 0], fixed[2, 0] = 0.8, -0.6
    found = impose_limits(params, limits_of(fixed, 2))
    np.testing.assert_array_equal(found.decay, [0.5, 0.9])
    np.testing.assert_allclose(found.loadings, [[0.8, 0.3], [-0.1, 0.2], [-0.6, -0.4]])


def test_a_cycle_has_the_fixed_phase(rng):
    """All columns are rotated by the angle that brings the fixed loadings to their values."""
    angle = 2.0 * np.pi * 17 / 72
    pair = rng.standard_normal((4, 2))
    rotated = pair @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    fixed = np.full((4, 2), np.nan)
    fixed[:2] = rotated[:2]
    params = StateSpace(
        np.zeros(0), pair, np.ones(4), np.zeros(4),
        rhythm_decay=np.array([0.99]), rhythm_frequency=np.array([0.5]),
    )  # fmt: skip
    np.testing.assert_allclose(impose_limits(params, limits_of(fixed, 0, 1)).loadings, rotated, rtol=1e-12)
