"""Prior distributions of the parameters.

Priors refer to standardized data (columns of mean zero and variance one) and to the sampling step, so that
the defaults are independent of units. :func:`probsfa.bayes.factorial_ar1_model` converts them to sites.
"""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax, random
from jax.scipy.special import gammaln
from numpyro.distributions import constraints


def _timescale() -> dist.Distribution:
    return dist.LogNormal(2.3, 1.5)


def _loadings() -> dist.Distribution:
    return dist.Normal(0.0, 1.0)


def _noise_std() -> dist.Distribution:
    return dist.LogNormal(-1.0, 1.0)


def _offset() -> dist.Distribution:
    return dist.Normal(0.0, 1.0)


# Examples in messages, by parameter.
_POSITIVE = {
    "timescale": "LogNormal(2.3, 1.5)",
    "noise_std": "LogNormal(-1, 1)",
    "noise_variance": "InverseGamma(2, 0.5)",
    "noise_spread": "HalfNormal(0.5)",
    "degrees_of_freedom": "Gamma(2, 0.1)",
    "cycle_period": "LogNormal(2.7, 0.8)",
    "cycle_timescale": "LogNormal(3.4, 1)",
    "smooth_timescale": "LogNormal(2.3, 1)",
    "level_ratio": "LogNormal(0, 3)",
    "ar_noise_timescale": "LogNormal(1, 1)",
    "ar_noise_std": "LogNormal(-1, 1)",
}
_REAL = {
    "loadings": "Normal(0, 1)",
    "offset": "Normal(0, 1)",
    "exog_coef": "Normal(0, 1)",
    "level_steps": "Normal(0, 0.3)",
    "slope_steps": "Normal(0, 0.01)",
}


@dataclass(frozen=True, eq=False)
class Priors:
    """Priors of the model of :class:`probsfa.BayesianSFA`: AR(1) factors, loadings and noise.

    A prior is a NumPyro distribution of a single number, which applies to each entry of the parameter
    independently, or of an array with the shape of the parameter.

    Parameters
    ----------
    timescale : Distribution, default=LogNormal(2.3, 1.5)
        Time scale of a factor, ``-1 / log a``, in sampling steps: the median is 10, and 95 % lie between 0.5
        and 190. Positive.
    loadings : Distribution, default=Normal(0, 1)
        Loadings, in standard deviations of the columns. Not used with `shrinkage`.
    noise_std : Distribution, default=LogNormal(-1, 1)
        Standard deviation of the noise, in standard deviations of the columns: the median is 0.37, and 95 %
        lie between 0.05 and 2.6. Its density is zero at zero, which excludes Heywood cases, that is, factors
        that explain a column without noise (Martin & McDonald 1975).
    noise_variance : Distribution or None, default=None
        Variance of the noise, instead of `noise_std`: for example ``InverseGamma(2, 0.5)``.
    offset : Distribution, default=Normal(0, 1)
        Mean of the observations, relative to the column mean, in standard deviations of the columns.
    exog_coef : Distribution, default=Normal(0, 1)
        Coefficients of covariates: change of a column, in its standard deviations, for a change of a
        covariate by one of its standard deviations.
    shrinkage : float or None, default=None
        Automatic relevance determination: the loadings of each factor have a common scale, whose typical size
        is this number; the loadings of unnecessary factors shrink to zero (:class:`SharedScaleNormal`).
    noise_spread : Distribution, default=HalfNormal(0.5)
        Used by hierarchical models only: standard deviation, over sequences, of the logarithm of the noise
        standard deviation.
    cycle_period : Distribution, default=LogNormal(2.7, 0.8)
        Period of a stochastic cycle, in sampling steps: the median is 15, and 95 % lie between 3.1 and 71.
        Periods below 2 have a probability of 0.6 %.
    cycle_timescale : Distribution, default=LogNormal(3.4, 1)
        Time scale of the damping of a cycle, ``-1 / log rho``, in sampling steps: the median is 30, and 95 %
        lie between 4.2 and 213. Loadings of a cycle are normal with variance one half for each of its two
        states.
    smooth_timescale : Distribution, default=LogNormal(2.3, 1)
        Time scale of a smooth factor, in sampling steps: the median is 10, and 95 % lie between 1.4 and 71.
        Loadings are standard normal.
    level_steps : Distribution, default=Normal(0, 0.3)
        Loadings of a random walk (``trend="level"``): standard deviations of its steps in each column, with a
        sign. The absolute change of the level over 100 steps then has a median of 1.1 and a 95 % quantile of
        6.5 standard deviations of the column. The level at the start has a flat prior.
    slope_steps : Distribution, default=Normal(0, 0.01)
        Loadings of a local linear trend (``trend="linear"``): standard deviations of the steps of the slope
        in each column. The absolute deviation from a straight line after 100 steps then has a median of 2.1
        and a 95 % quantile of 13 standard deviations of the column.
    level_ratio : Distribution, default=LogNormal(0, 3)
        Variance of the steps of the level divided by the variance of the steps of the slope, for
        ``trend="linear"``: the median is 1, and 95 % lie between 0.003 and 360.
    ar_noise_timescale : Distribution, default=LogNormal(1, 1)
        Time scale of the AR(1) noise of a column, in sampling steps: the median is 2.7, and 95 % lie between
        0.4 and 19.
    ar_noise_std : Distribution, default=LogNormal(-1, 1)
        Standard deviation of the AR(1) noise, in standard deviations of the columns.
    degrees_of_freedom : Distribution, default=Gamma(2, 0.1)
        Used with ``robust=True`` only: degrees of freedom of Student-t noise, cut off below 2.1 and above
        1000 (Juarez & Steel 2010, doi:10.1198/jbes.2009.07145). With ``robust=True``, `noise_std` is the
        prior of the scale of the noise, or `noise_variance` is the prior of the squared scale.

    Raises
    ------
    ValueError
        If `shrinkage` is not positive; if a prior is not a NumPyro distribution with a density; or if the
        prior of a positive parameter allows negative numbers.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> from probsfa.bayes import Priors
    >>> slow = Priors(timescale=dist.LogNormal(4.0, 1.0), shrinkage=0.3)
    >>> slow.shrinkage
    0.3
    """

    timescale: Any = field(default_factory=_timescale)
    loadings: Any = field(default_factory=_loadings)
    noise_std: Any = field(default_factory=_noise_std)
    noise_variance: Any = None
    offset: Any = field(default_factory=_offset)
    exog_coef: Any = field(default_factory=lambda: dist.Normal(0.0, 1.0))
    shrinkage: float | None = None
    noise_spread: Any = field(default_factory=lambda: dist.HalfNormal(0.5))
    degrees_of_freedom: Any = field(default_factory=lambda: dist.Gamma(2.0, 0.1))
    cycle_period: Any = field(default_factory=lambda: dist.LogNormal(2.7, 0.8))
    cycle_timescale: Any = field(default_factory=lambda: dist.LogNormal(3.4, 1.0))
    smooth_timescale: Any = field(default_factory=lambda: dist.LogNormal(2.3, 1.0))
    level_steps: Any = field(default_factory=lambda: dist.Normal(0.0, 0.3))
    slope_steps: Any = field(default_factory=lambda: dist.Normal(0.0, 0.01))
    level_ratio: Any = field(default_factory=lambda: dist.LogNormal(0.0, 3.0))
    ar_noise_timescale: Any = field(default_factory=lambda: dist.LogNormal(1.0, 1.0))
    ar_noise_std: Any = field(default_factory=lambda: dist.LogNormal(-1.0, 1.0))

    def __post_init__(self) -> None:
        if self.shrinkage is not None and not self.shrinkage > 0.0:
            raise ValueError(f"shrinkage must be None or a positive scale; got {self.shrinkage!r}.")
        for name in (*_POSITIVE, *_REAL):
            prior = getattr(self, name)
            if prior is not None or name != "noise_variance":
                _check_prior(name, prior)

    def of_loadings(self, n_features: int, n_components: int) -> dist.Distribution:
        """Return the prior of the loadings, with event shape (D, K)."""
        if self.shrinkage is not None:
            return SharedScaleNormal(self.shrinkage, n_features, n_components)
        return expand_prior("loadings", self.loadings, (n_features, n_components))


def _check_prior(name: str, prior: Any) -> None:
    """Raise a ValueError unless a prior has a density, on positive numbers if the parameter is positive."""
    example = _POSITIVE.get(name, _REAL.get(name))
    if not isinstance(prior, dist.Distribution):
        raise ValueError(
            f"Priors({name}={prior!r}): a prior must be a distribution of NumPyro, for example {example}."
        )
    base: Any = prior
    while hasattr(base, "base_dist"):
        base = base.base_dist
    kind = type(base).__name__
    if isinstance(base, dist.Delta):
        advice = "Pass known noise variances as noise=. " if name.startswith("noise_") else ""
        raise ValueError(
            f"Priors({name}={kind}): a single value has no density. {advice}Use a narrow distribution of the "
            f"same family as {example}."
        )
    support: Any = prior.support
    if support.is_discrete:
        raise ValueError(
            f"Priors({name}={kind}): {name} is continuous. Use a density, for example {example}."
        )
    if name in _POSITIVE and any(
        np.any(support(np.full(prior.shape(), -size))) for size in np.logspace(-6.0, 6.0, 13)
    ):
        raise ValueError(
            f"Priors({name}={kind}): {name} is positive, and this prior allows negative numbers. Use a "
            f"distribution of positive numbers, for example {example}."
        )


#: The default priors; a single object, so that compiled programs are reused.
DEFAULT_PRIORS = Priors()


def expand_prior(name: str, prior: dist.Distribution, shape: tuple[int, ...]) -> dist.Distribution:
    """Return the prior of an array; `prior` is that of each entry, or already that of the array.

    Raises
    ------
    ValueError
        If the prior has another shape; the message names the parameter `name`.
    """
    prior_shape = prior.shape()
    if prior.event_shape == () and len(prior_shape) <= len(shape):
        try:
            expanded = prior.expand(shape)
        except ValueError:
            expanded = None
        if expanded is not None and expanded.shape() == shape:
            return expanded.to_event(len(shape))
    if prior_shape != shape:
        raise ValueError(
            f"The prior of {name} has shape {prior_shape}, but {name} has shape {shape}. Use a prior of a "
            f"single number, or one of shape {shape}."
        )
    return prior.to_event(len(prior.batch_shape)) if prior.batch_shape else prior


def check_normal_priors(priors: Priors) -> None:
    """Raise a ValueError unless loadings and offset have normal priors, as required by Gibbs sampling."""
    if priors.shrinkage is not None:
        raise ValueError(
            "robust=True requires a normal prior of the loadings; shrinkage changes it. Set shrinkage=None."
        )
    for name in ("loadings", "offset"):
        prior = getattr(priors, name)
        if type(prior) is not dist.Normal:
            raise ValueError(
                f"robust=True requires numpyro's Normal as the prior of {name}; got {type(prior).__name__}."
            )


class SharedScaleNormal(dist.Distribution):
    """Normal loadings with a scale for each factor, integrated out: automatic relevance determination.

    With ``s_k^2 ~ InverseGamma(1/2, scale^2 / 2)`` and ``C_dk ~ N(0, s_k^2)``, a column of loadings has a
    multivariate Cauchy distribution. The peak of this distribution at zero shrinks columns of unnecessary
    factors; its heavy tails hardly shrink other columns. Because the scales are integrated out, the posterior
    has no funnel.

    Parameters
    ----------
    scale : float
        Typical size of a loading.
    n_features, n_components : int
        ``D`` and ``K``.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.real_matrix
    pytree_data_fields = ("scale",)

    def __init__(
        self, scale: Any, n_features: int, n_components: int, *, validate_args: bool | None = None
    ) -> None:
        self.scale = scale
        super().__init__((), (n_features, n_components), validate_args=validate_args)

    def log_prob(self, value: Array) -> Array:
        """Log density of loadings (..., D, K)."""
        d = self.event_shape[0]
        shape_parameter = 0.5 * (1.0 + d)
        norm = gammaln(shape_parameter) - gammaln(0.5) - 0.5 * d * jnp.log(jnp.pi * jnp.square(self.scale))
        return jnp.sum(
            norm - shape_parameter * jnp.log1p(jnp.sum((value / self.scale) ** 2, axis=-2)), axis=-1
        )

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw the scales, then the loadings."""
        normal_key, scale_key = random.split(key)
        normals = random.normal(normal_key, (*sample_shape, *self.event_shape))
        # 1 / s^2 ~ Gamma(1/2, scale^2 / 2) has the distribution of (e / scale)^2 with a standard normal e.
        abs_normals = jnp.abs(random.normal(scale_key, (*sample_shape, 1, self.event_shape[1])))
        return (
            self.scale
            * normals
            / jnp.maximum(abs_normals, lax.convert_element_type(1e-30, abs_normals.dtype))
        )
