"""What parameters say of their latents, before and after there are any."""

import numpy as np
import pytest

from probsfa.statespace.learning.coordinates import Coordinates, from_vector, to_vector
from probsfa.statespace.parameters import Latents, canonical, rescale, with_more_latents
from tests.oracles import statespace as oracle
from tests.statespace.support import to_parameters


@pytest.mark.parametrize("noise", ["diagonal", "isotropic", "fixed"])
def test_coordinates_are_counted_before_there_are_parameters(rng, noise):
    params = to_parameters(oracle.random_model(rng, 5, 3)._replace(noise=np.full(5, 0.3)))
    layout = Coordinates(5, Latents(3), noise, True)
    assert params.latents == layout.latents and params.n_states == layout.n_states == 3
    vector = to_vector(layout, params)
    assert vector.shape == (layout.size,)
    dynamics, loadings, _, _ = layout.slices
    assert vector[dynamics].shape == (layout.latents.n_dynamics,)
    # What the likelihood depends on: coordinates without those that the canonical rule holds.
    held = np.count_nonzero(~params.free_loadings)
    assert vector[loadings].shape == (params.free_loadings.size,)
    assert (
        layout.n_free == layout.size - held == 3 + 15 + {"diagonal": 5, "isotropic": 1, "fixed": 0}[noise] + 5
    )


def test_what_has_no_coordinate_is_the_templates(rng):
    params, other = (to_parameters(oracle.random_model(rng, 5, 3)) for _ in range(2))
    layout = Coordinates(5, Latents(3), "fixed", True)
    back = from_vector(layout, to_vector(layout, params), other)
    np.testing.assert_array_equal(back.noise_variance, other.noise_variance)
    for name in ("decay", "loadings", "offset"):
        np.testing.assert_allclose(getattr(back, name), getattr(params, name), rtol=1e-12)


def test_latents_are_added_to_those_there_are(rng):
    params, new = (to_parameters(oracle.random_model(rng, 4, k)) for k in (2, 3))
    both = with_more_latents(params, new)
    assert both.latents.without(params.latents) == new.latents == Latents(3)
    np.testing.assert_array_equal(both.decay, [*params.decay, *new.decay])
    np.testing.assert_array_equal(both.loadings, np.hstack([params.loadings, new.loadings]))
    np.testing.assert_array_equal(both.noise_variance, params.noise_variance)
    np.testing.assert_array_equal(both.offset, params.offset)


def test_canonical_parameters_are_an_equal_model(rng):
    """The covariance of successive observations is the same, in falling order of the decays."""
    params = to_parameters(oracle.random_model(rng, 4, 3))._replace(decay=np.array([-0.3, 0.9, 0.5]))
    found = canonical(params, np.ones(4))
    np.testing.assert_array_equal(found.decay, [0.9, 0.5, -0.3])
    for lag in (0, 1, 2):
        one, other = (p.loadings * p.decay**lag @ p.loadings.T for p in (params, found))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    scale, shift = rng.uniform(0.1, 10.0, 4), rng.standard_normal(4)
    back = rescale(rescale(params, shift, scale), -shift / scale, 1.0 / scale)
    for one, other in zip(back, params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
