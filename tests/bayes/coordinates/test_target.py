"""The posterior density is the same function of the parameters in all coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from probsfa.bayes import Priors
from probsfa.bayes.coordinates.chart import choose_chart
from probsfa.bayes.coordinates.data import Chart, TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.model import Series
from probsfa.statespace.noise import NoiseVariances
from tests.bayes.support import D, K, small_problem
from tests.sampling import parametrize


def difference(target, data, values, rng):
    """Return the log density in the chart minus that without it and the log |det| of the Jacobian."""
    charted = data._replace(chart=choose_chart(target, values, data))
    assert charted.chart != Chart()
    vector = target.to_vector(values)
    vector = vector + 0.1 * rng.standard_normal(len(vector))
    with jax.enable_x64(True):

        def plain(x):
            """Return the vector of the same parameters without the chart."""
            free, _ = target.unravel(x, charted)
            scale = jnp.sqrt(-jnp.expm1(-2.0 / jnp.exp(free["timescale"])))
            parts = {**free, "loadings": free["loadings"] * scale}
            if target.softplus_scale is not None:
                ratio = jnp.exp(free["noise_std"]) / target.softplus_scale
                parts["noise_std"] = target.softplus_scale * jnp.log(jnp.expm1(ratio))
            return jnp.concatenate([parts[name].ravel() for name in target.sites])

        volume = np.linalg.slogdet(np.asarray(jax.jit(jax.jacobian(plain))(jnp.asarray(vector))))[1]
        ours = jax.jit(lambda x: target.potential(x, charted))(jnp.asarray(vector))
        theirs = jax.jit(lambda x: target.potential(plain(x), data))(jnp.asarray(vector))
        return float(ours - theirs + volume)


# In the last structure two columns share a variance, and one variance is known.
@parametrize(
    "noise",
    ["diagonal", "isotropic", None, NoiseVariances((0, 0, 1, -1))],
    quick=[NoiseVariances((0, 0, 1, -1))],
)
def test_density_does_not_depend_on_the_chart(rng, noise):
    target, data, values = small_problem(rng, noise=noise)
    chart = choose_chart(target, values, data)
    assert chart.rotation is not None and chart.offset_scale is not None
    assert abs(difference(target, data, values, rng)) < 1e-8


def test_factors_with_different_priors_are_not_rotated(rng):
    named = Priors(timescale=dist.LogNormal(jnp.array([1.0, 3.0]), 1.0))
    target, data, values = small_problem(rng, named)
    chart = choose_chart(target, values, data)
    assert chart.rotation is None and chart.offset_scale is not None
    assert abs(difference(target, data, values, rng)) < 1e-8


@parametrize(
    "priors",
    [
        Priors(noise_variance=dist.InverseGamma(2.0, 0.5)),
        Priors(shrinkage=0.5),
        Priors(offset=dist.StudentT(3.0)),
        Priors(offset=dist.Cauchy()),
    ],
)
def test_other_priors(rng, priors):
    target, data, values = small_problem(rng, priors)
    assert abs(difference(target, data, values, rng)) < 1e-8


def test_positive_loadings_and_offset_have_no_chart(rng):
    target, data, values = small_problem(
        rng, Priors(loadings=dist.HalfNormal(1.0), offset=dist.HalfNormal(1.0))
    )
    assert choose_chart(target, values, data) == Chart()


def test_hierarchical_models_have_rotations_but_no_offset_scale(rng):
    target, data, values = small_problem(rng)
    several = Target(K, NoiseVariances.diagonal(D), Priors(), n_sequences=2)
    twice = Series(*(np.stack([x, x]) for x in data.series[:3]), data.series.gaps)
    chart = choose_chart(several, {**values, "noise_spread": 0.1, "noise_deviation": 0.0}, TargetData(twice))
    assert chart.offset_scale is None
    for x, y in zip(chart.rotation, choose_chart(target, values, data).rotation, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("std", [1e-12, 1e-3, 0.1, 0.5, 30.0])
def test_log_noise_and_log_det_follow_from_the_softplus_coordinate(rng, std):
    target, data, values = small_problem(rng)
    assert target.softplus_scale == pytest.approx(np.exp(-2.0))
    vector = target.to_vector({**values, "noise_std": np.full(D, std)})
    part = target.slices["noise_std"]
    with jax.enable_x64(True):

        @jax.jit
        def log_std_and_volume(coordinate):
            values, volume = target.unravel(jnp.asarray(vector).at[part].set(coordinate), data)
            return values["noise_std"], volume

        at = jnp.asarray(vector[part])
        found, volume = log_std_and_volume(at)
        slopes = np.diag(jax.jit(jax.jacobian(lambda x: log_std_and_volume(x)[0]))(at))
        # At 100 the coordinate is the standard deviation.
        volume = volume - log_std_and_volume(jnp.full(D, 100.0))[1]
    np.testing.assert_allclose(found, np.log(std), rtol=1e-12)
    np.testing.assert_allclose(volume, np.sum(np.log(slopes)) + D * np.log(100.0), rtol=1e-10)


@pytest.mark.parametrize("prior", [dist.HalfNormal(1.0), dist.HalfCauchy(0.5), dist.Gamma(2.0, 3.0)])
def test_log_det_of_noise_coordinates_is_that_of_the_jacobian(rng, prior):
    """Coordinates are signed standard deviations, or logarithms if the density at zero is zero."""
    target, data, values = small_problem(rng, Priors(noise_std=prior, offset=dist.HalfNormal(1.0)))
    std = np.array([0.2, 0.5, 1.0, 3.0])
    vector = target.to_vector({**values, "noise_std": std, "offset": np.abs(values["offset"])})
    part = target.slices["noise_std"]
    with jax.enable_x64(True):

        def log_std_and_volume(coordinate):
            free, volume = target.unravel(jnp.asarray(vector).at[part].set(coordinate), data)
            return free["noise_std"], volume

        at = jnp.asarray(vector[part])
        found, volume = log_std_and_volume(at)
        slopes = np.diag(jax.jacobian(lambda x: log_std_and_volume(x)[0])(at))
        moved, volume_moved = log_std_and_volume(at + 0.3)
        slopes_moved = np.diag(jax.jacobian(lambda x: log_std_and_volume(x)[0])(at + 0.3))
    np.testing.assert_allclose(found, np.log(std), rtol=1e-12)
    assert np.all(moved != found)
    change = np.sum(np.log(slopes_moved) - np.log(slopes))
    np.testing.assert_allclose(volume_moved - volume, change, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("priors", "order", "signs"),
    [
        (Priors(), True, True),
        (Priors(shrinkage=0.5), True, True),
        (Priors(loadings=dist.HalfNormal(1.0)), False, False),
        (Priors(loadings=dist.Normal(jnp.array([0.0, 1.0]), 1.0)), False, False),
        (Priors(timescale=dist.LogNormal(jnp.array([1.0, 3.0]), 1.0)), False, True),
        (Priors(shrinkage=0.5, timescale=dist.LogNormal(jnp.array([1.0, 3.0]), 1.0)), False, True),
    ],
)
def test_symmetries_are_those_of_the_priors(rng, priors, order, signs):
    assert small_problem(rng, priors)[0].symmetry == (order, signs)
