"""Priors: shapes, errors, and the shrinkage prior by numerical integration over its scales."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy.integrate import quad
from scipy.stats import invgamma, kstest, norm

from probsfa.bayes import Priors, factorial_ar1_model
from probsfa.bayes.priors import SharedScaleNormal, expand_prior


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_shared_scale_integrates_the_scales_out(rng):
    loadings = rng.standard_normal((3, 2))
    wanted = 0.0
    for column in loadings.T:

        def joint(log_variance, column=column):
            v = np.exp(log_variance)
            return np.prod(norm.pdf(column, scale=np.sqrt(v))) * invgamma.pdf(v, 0.5, scale=0.5 * 0.3**2) * v

        wanted += np.log(quad(joint, -30.0, 30.0, limit=400)[0])
    found = SharedScaleNormal(0.3, 3, 2).log_prob(jnp.asarray(loadings))
    assert abs(float(found) - wanted) < 1e-6


def test_draws_of_shared_scale_have_its_density():
    drawn = np.asarray(SharedScaleNormal(0.3, 4, 2).sample(jax.random.key(0), (4000,)))
    # A column divided by its scale is multivariate Cauchy: each entry is Cauchy.
    assert kstest(drawn[:, 2, 1] / 0.3, "cauchy").pvalue > 1e-4
    # Its entries share their scale.
    assert np.corrcoef(np.log(np.abs(drawn[:, 0, 0])), np.log(np.abs(drawn[:, 1, 0])))[0, 1] > 0.2
    assert abs(np.corrcoef(np.log(np.abs(drawn[:, 0, 0])), np.log(np.abs(drawn[:, 0, 1])))[0, 1]) < 0.1


def test_a_scalar_prior_is_expanded_and_one_of_the_array_is_unchanged():
    assert expand_prior("offset", dist.Normal(0.0, 1.0), (3, 2)).event_shape == (3, 2)
    whole = dist.Normal(jnp.arange(3.0), 1.0)
    assert expand_prior("offset", whole, (3,)).event_shape == (3,)
    assert expand_prior("offset", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)), (3,)).event_shape == (3,)


@pytest.mark.parametrize(
    "prior", [dist.Normal(jnp.zeros(4), 1.0), dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2))]
)
def test_a_prior_of_another_shape_raises_with_its_name(prior):
    with pytest.raises(ValueError, match=r"prior.*offset.*\(.,\).*offset.*\(3,\)"):
        expand_prior("offset", prior, (3,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timescale": dist.Normal(0.0, 1.0)}, r"timescale=Normal\).*LogNormal\(2.3"),
        ({"timescale": dist.Uniform(-1e-3, 5.0)}, r"timescale=Uniform\)"),
        ({"timescale": dist.Poisson(3.0)}, r"timescale=Poisson\).*LogNormal\(2.3"),
        ({"noise_std": dist.Normal(jnp.zeros(3), 1.0)}, r"noise_std=Normal\): noise_std is positive"),
        ({"noise_std": dist.Delta(0.5)}, r"noise_std=Delta\).*noise.*noise="),
        (
            {"noise_variance": dist.Cauchy().expand((3,))},
            r"noise_variance=Cauchy\): .* InverseGamma\(2, 0.5\)",
        ),
        ({"offset": dist.Delta(0.0)}, r"offset=Delta\).*Normal\(0, 1\)"),
        ({"offset": dist.Delta(jnp.zeros(3)).to_event(1)}, r"offset=Delta\)"),
        ({"loadings": 1.0}, r"loadings=1.0\).*prior.*NumPyro.*Normal\(0, 1\)"),
        ({"timescale": None}, r"timescale=None\).*prior.*NumPyro"),
    ],
)
def test_an_invalid_prior_raises_with_a_valid_example(changes, message):
    with pytest.raises(ValueError, match=message):
        Priors(**changes)


@pytest.mark.parametrize(
    "prior",
    [
        dist.HalfCauchy(1.0),
        dist.Uniform(0.0, 5.0),
        dist.TruncatedNormal(0.0, 1.0, low=1.0),
        dist.LogNormal(jnp.zeros(3), 1.0).to_event(1),
        dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.ExpTransform()),
    ],
)
def test_priors_with_positive_support_are_valid_for_positive_parameters(prior):
    assert Priors(timescale=prior, noise_std=prior, noise_variance=prior).timescale is prior


def test_shrinkage_must_be_positive():
    with pytest.raises(ValueError, match=r"shrinkage.*got 0\.0"):
        Priors(shrinkage=0.0)


def test_density_of_the_model_is_the_sum_of_those_of_its_sites(rng):
    x, values = (
        rng.standard_normal((6, 2)),
        {
            "timescale": np.array([3.0]),
            "loadings": rng.standard_normal((2, 1)),
            "noise_variance": np.array([0.5, 0.7]),
            "offset": rng.standard_normal(2),
        },
    )
    priors = Priors(noise_variance=dist.InverseGamma(2.0, 0.5), timescale=dist.Gamma(2.0, 0.1))
    found, trace = log_density(factorial_ar1_model, (jnp.asarray(x), 1, priors), {}, values)
    wanted = (
        float(trace["observations"]["fn"].log_prob(x))
        + float(dist.Gamma(2.0, 0.1).log_prob(3.0))
        + norm.logpdf(values["loadings"]).sum()
        + invgamma.logpdf(values["noise_variance"], 2.0, scale=0.5).sum()
        + norm.logpdf(values["offset"]).sum()
    )
    assert abs(float(found) - wanted) < 1e-9
