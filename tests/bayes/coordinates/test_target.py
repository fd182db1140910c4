"""The posterior density is the same function of the parameters in all coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from probsfa.bayes import Priors
from probsfa.bayes.coordinates.rotation import turn_back
from probsfa.bayes.coordinates.target import Chart, Data, Target
from probsfa.bayes.model import Series, as_series
from probsfa.bayes.relabelling.labels import merges
from probsfa.bayes.sampling.laplace import Whitening
from tests.sampling import sparsely

K, D = 2, 4


def setting(rng, priors=None, noise="diagonal"):
    """A target, data with holes, and values of all sites."""
    X = rng.standard_normal((500, D)).cumsum(axis=0)
    X[rng.random(X.shape) < 0.2] = np.nan
    with jax.enable_x64(True):
        series = as_series(X)
    values = {
        "timescale": np.array([4.0, 20.0]),
        "loadings": rng.standard_normal((D, K)),
        "noise_std": np.full(D if noise == "diagonal" else 1, 0.5),
        "noise_variance": np.full(D if noise == "diagonal" else 1, 0.25),
        "offset": rng.standard_normal(D),
    }
    target = Target(K, D, noise, priors if priors is not None else Priors())
    data = Data(series, np.full(D, 0.3) if noise == "fixed" else None)
    return target, data, values


def difference(target, data, values, rng):
    """Log density in the chart minus that in plain coordinates, with the volume of the map between them."""
    charted = data._replace(chart=target.chart(values, data))
    assert charted.chart != Chart()
    vector = target.to_vector(values)
    vector = vector + 0.1 * rng.standard_normal(len(vector))
    with jax.enable_x64(True):

        def plain(x):
            """Vector of the same parameters in plain coordinates."""
            free, _ = target.unravel(x, charted)
            scale = jnp.sqrt(-jnp.expm1(-2.0 / jnp.exp(free["timescale"])))
            parts = {**free, "loadings": free["loadings"] * scale}
            return jnp.concatenate([parts[name].ravel() for name in target.sites])

        volume = np.linalg.slogdet(np.asarray(jax.jit(jax.jacobian(plain))(jnp.asarray(vector))))[1]
        ours = jax.jit(lambda x: target.potential(x, charted))(jnp.asarray(vector))
        theirs = jax.jit(lambda x: target.potential(plain(x), data))(jnp.asarray(vector))
        return float(ours - theirs + volume)


@sparsely("noise", ["diagonal", "isotropic", "fixed"])
def test_density_does_not_depend_on_the_chart(rng, noise):
    target, data, values = setting(rng, noise=noise)
    chart = target.chart(values, data)
    assert chart.frame is not None and chart.level is not None
    assert abs(difference(target, data, values, rng)) < 1e-8


def test_priors_that_name_the_latents_are_not_rotated(rng):
    named = Priors(timescale=dist.LogNormal(jnp.array([1.0, 3.0]), 1.0))
    target, data, values = setting(rng, named)
    chart = target.chart(values, data)
    assert chart.frame is None and chart.level is not None
    assert abs(difference(target, data, values, rng)) < 1e-8


@sparsely(
    "priors",
    [
        Priors(noise_variance=dist.InverseGamma(2.0, 0.5)),
        Priors(shrinkage=0.5),
        Priors(offset=dist.StudentT(3.0)),
        Priors(offset=dist.Cauchy()),
    ],
)
def test_other_priors(rng, priors):
    target, data, values = setting(rng, priors)
    assert abs(difference(target, data, values, rng)) < 1e-8


def test_loadings_with_a_sign_have_plain_coordinates(rng):
    target, data, values = setting(rng, Priors(loadings=dist.HalfNormal(1.0), offset=dist.HalfNormal(1.0)))
    assert target.chart(values, data) == Chart()


def test_hierarchical_models_are_rotated_but_their_offset_is_plain(rng):
    target, data, values = setting(rng)
    several = Target(K, D, "diagonal", Priors(), n_sequences=2)
    twice = Series(*(np.stack([x, x]) for x in data.series[:3]), data.series.gaps)
    chart = several.chart({**values, "noise_spread": 0.1, "noise_deviation": 0.0}, Data(twice))
    assert chart.level is None
    for x, y in zip(chart.frame, target.chart(values, data).frame, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("gap", "known"), [(1.0, False), (0.0, True), (3.0, False)])
def test_a_maximum_where_two_time_scales_are_one_is_noticed(rng, gap, known):
    """There the density in the chart has a spike, in which a climb may end."""
    target, data, values = setting(rng)
    frame = target.chart(values, data).frame
    loadings = values["loadings"]
    coordinates, aligned = turn_back(frame, np.array([2.0, 2.0 + gap]), loadings)
    centre = target.to_vector(values)
    centre[target.slices["timescale"]] = coordinates
    centre[target.slices["loadings"]] = aligned.ravel()
    for std, merged in [(0.1, known), (3.0, True), (np.nan, True)]:
        whitening = Whitening(centre, std * np.eye(target.size), 0.0, 0)
        assert merges(target, frame, whitening) == merged
        assert not merges(target, None, whitening)
