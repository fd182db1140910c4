"""The NumPyro model: priors, and the distribution of the series given the parameters."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

from probsfa._renamed import renamed_arguments
from probsfa.bayes.distribution import FactorialAR1
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors, expand_prior
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.panel import Panel

#: Name of the observed site.
OBSERVATIONS = "observations"


class Series(NamedTuple):
    """Observations as arrays for the NumPyro model.

    Attributes
    ----------
    values : Array (T, D), or (S, T, D) for a hierarchical model of S sequences
        Observations; values are ignored where `mask` is False.
    mask : bool Array of the same shape
        True where observed.
    gap_index : int Array (T,), or (S, T)
        For each row, the position in `gaps` of the time since the previous row; ``len(gaps)`` for the first
        row of a sequence.
    gaps : Array (U,)
        The distinct times between rows, in steps.
    exog : Array (T, P), or (S, T, P), optional
        Covariates.
    """

    values: Any
    mask: Any
    gap_index: Any
    gaps: Any
    exog: Any = None


class NoiseModel(NamedTuple):
    """Variances of white noise: known ones, and learned ones with a lower bound.

    Attributes
    ----------
    structure : NoiseVariances
        Groups of columns that share a learned variance, and columns with known variances.
    known : float or Array (D,), optional
        Known variances; entries of columns with learned variances are ignored.
    min_variance : float or Array (D,), optional
        Lower bound of learned variances, imposed by :func:`at_least`.
    """

    structure: NoiseVariances
    known: Any = None
    min_variance: Any = None

    def column_values(self, by_group: Any) -> Any:
        """Return values per column (..., D) from values per group (..., F); 1 where the variance is known."""
        if self.structure.separate:
            return by_group
        groups = np.array(self.structure.groups)
        if not self.structure.n_free:
            return jnp.ones(groups.shape)
        values = jnp.asarray(by_group)[..., np.maximum(groups, 0)]
        return values if np.all(groups >= 0) else jnp.where(groups >= 0, values, 1.0)

    def restricted(self, by_column: Any) -> Any:
        """Return variances (..., D): free variances limited to the lower bound, and known variances."""
        is_free = np.array(self.structure.groups) >= 0
        variance = at_least(by_column, self.min_variance)
        return variance if np.all(is_free) else jnp.where(is_free, variance, self.known)


def from_panel(panel: Panel) -> Series:
    """Return the observations of a panel as a :class:`Series`."""
    return Series(panel.values[:], panel.mask[:] > 0.0, panel.gap_index, panel.gaps)


def as_series(X: Any) -> Series:
    """Return evenly sampled observations (T, D) or (S, T, D), NaN where missing, as a :class:`Series`."""
    values = jnp.asarray(X)
    mask = ~jnp.isnan(values)
    start = (jnp.arange(values.shape[-2]) == 0).astype(jnp.int32)
    index = jnp.broadcast_to(start, values.shape[:-1])
    return Series(jnp.where(mask, values, 0.0), mask, index, jnp.ones(1, values.dtype))


@renamed_arguments({"least_noise": "min_noise_variance"})
def factorial_ar1_model(
    X: Any,
    n_components: int = 2,
    priors: Priors | None = None,
    noise: Any = "diagonal",
    *,
    predict: bool = False,
    min_noise_variance: Any = None,
) -> Array:
    """Factorial AR(1) model for the samplers and guides of NumPyro.

    Sampled sites: ``timescale`` (K,), ``loadings`` (D, K), ``noise_std`` (F,) for F free variances,
    ``offset`` (D,), ``exog_coef`` (D, P) if there are covariates, and ``observations``. Deterministic sites:
    ``decay`` (K,) and ``noise_variance`` (D,). If `priors` has a prior of the noise variance,
    ``noise_variance`` (F,) is sampled instead of ``noise_std``. Known noise has no sites.

    Parameters
    ----------
    X : Array (T, D) with NaN where missing, Array (S, T, D), or Series
        One evenly sampled series; several for the hierarchical model, padded by NaN to equal lengths; or
        arrays with mask, times and covariates, as a :class:`Series`. The default priors assume standardized
        columns.
    n_components : int, default=2
        Number of factors.
    priors : Priors, optional
        By default ``Priors()``.
    noise : {"diagonal", "isotropic"}, Array (D,) or NoiseModel, default="diagonal"
        A noise variance for each column, one for all, or known variances.
    predict : bool, default=False
        Whether to draw observations, as for a prior predictive distribution, instead of conditioning on `X`.
    min_noise_variance : float or Array (D,), optional
        Smooth lower bound of the noise variance. Without it, the posterior may concentrate near zero noise
        variance (a Heywood case) if a column is an exact linear combination of other columns.

    Returns
    -------
    Array
        The observations.

    Notes
    -----
    With three dimensions the model is hierarchical: all sequences share time scales, loadings and offset.
    Column ``d`` of sequence ``s`` has the noise standard deviation ``noise_std_d exp(noise_spread e_sd)``;
    the standard normal ``e`` is the site ``noise_deviation``. With a prior of the noise variance, the site
    ``typical_noise_variance``, equal to ``noise_std_d**2``, replaces ``noise_std_d``. The order and the signs
    of the factors are not constrained, because constraints would truncate the posterior; use
    :func:`probsfa.bayes.relabel` after sampling.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from numpyro.infer import MCMC, NUTS
    >>> from probsfa.bayes import factorial_ar1_model
    >>> X = np.random.default_rng(0).standard_normal((30, 2))
    >>> with jax.enable_x64(True):
    ...     mcmc = MCMC(NUTS(factorial_ar1_model), num_warmup=20, num_samples=20, progress_bar=False)
    ...     mcmc.run(jax.random.key(0), X, n_components=1)
    >>> sorted(mcmc.get_samples())
    ['decay', 'loadings', 'noise_std', 'noise_variance', 'offset', 'timescale']
    """
    series = X if isinstance(X, Series) else as_series(X)
    priors = DEFAULT_PRIORS if priors is None else priors
    n_features = series.values.shape[-1]
    timescale = numpyro.sample("timescale", expand_prior("timescale", priors.timescale, (n_components,)))
    decay = numpyro.deterministic("decay", jnp.exp(-1.0 / timescale))
    loadings = numpyro.sample("loadings", priors.of_loadings(n_features, n_components))
    hierarchical = len(series.values.shape) == 3
    n_sequences = series.values.shape[0] if hierarchical else None
    if not isinstance(noise, NoiseModel):
        known_noise = None if isinstance(noise, str) else noise
        noise = NoiseModel(NoiseVariances.of_option(noise, n_features), known_noise, min_noise_variance)
    variance = sample_noise_variance(priors, noise, n_sequences)
    offset = numpyro.sample("offset", expand_prior("offset", priors.offset, (n_features,)))
    if series.exog is not None:
        offset = offset + sample_effects(priors, series)
    obs = None if predict else series.values
    if not hierarchical:
        given = _given_parameters(decay, loadings, variance, offset, series)
        return numpyro.sample(OBSERVATIONS, given, obs=obs)
    with numpyro.plate("sequence", series.values.shape[0]):
        given = _given_parameters(decay, loadings, variance, offset, series)
        return numpyro.sample(OBSERVATIONS, given, obs=obs)


def _given_parameters(
    decay: Array, loadings: Array, variance: Array, offset: Array, series: Series
) -> FactorialAR1:
    """Return the distribution of the series given the parameters."""
    return FactorialAR1(
        decay,
        loadings,
        variance,
        offset,
        mask=series.mask,
        gap_index=series.gap_index,
        gaps=series.gaps,
    )


def sample_effects(priors: Priors, series: Series) -> Array:
    """Sample the coefficients of the covariates; return their effects (..., T, D)."""
    shape = series.values.shape[-1], series.exog.shape[-1]
    coefficients = numpyro.sample("exog_coef", expand_prior("exog_coef", priors.exog_coef, shape))
    return jnp.asarray(series.exog) @ coefficients.T


def at_least(variance: Any, least: Any) -> Any:
    """Return noise variances with a smooth lower bound, ``sqrt(variance^2 + least^2)``.

    Variances above a million times `least` are unchanged: the relative difference would be below 1e-12.
    """
    if least is None:
        return variance
    return jnp.where(variance > 1e6 * least, variance, jnp.hypot(variance, least))


def sample_noise_variance(priors: Priors, noise: NoiseModel, n_sequences: int | None = None) -> Array:
    """Sample the sites of the noise; return its variance (D,) or (S, D)."""
    n_features, shape = noise.structure.n_features, (noise.structure.n_free,)
    if not noise.structure.n_free:
        known_variance = jnp.broadcast_to(jnp.asarray(noise.known), (n_features,))
        return (
            known_variance
            if n_sequences is None
            else jnp.broadcast_to(known_variance, (n_sequences, n_features))
        )
    if priors.noise_variance is None:
        variance = jnp.square(numpyro.sample("noise_std", expand_prior("noise_std", priors.noise_std, shape)))
    else:
        name = "noise_variance" if n_sequences is None else "typical_noise_variance"
        variance = numpyro.sample(name, expand_prior("noise_variance", priors.noise_variance, shape))
        if n_sequences is None:
            return noise.restricted(noise.column_values(variance))
    variance = noise.column_values(variance)
    if n_sequences is not None:
        spread = numpyro.sample("noise_spread", priors.noise_spread)
        unit = dist.Normal(0.0, 1.0).expand((n_sequences, n_features)).to_event(2)
        variance = variance * jnp.exp(2.0 * spread * numpyro.sample("noise_deviation", unit))
    return numpyro.deterministic("noise_variance", noise.restricted(variance))
