"""Expected statistics of the latents: what learning needs to know of a posterior.

They are sums over rows, so those of several parts of the data add up. Residuals are taken at the parameters
the posterior was computed with: as differences of raw second moments they would drown in rounding when the
noise is small (``r / var(x)`` below 1e-8), as sums of residuals they do not.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Statistics(NamedTuple):
    """Sums of expected moments at given parameters; ``y = (z, 1)`` and ``e = x - C z - mu``.

    Attributes
    ----------
    log_likelihood : float
        Log-likelihood at the parameters, in nats.
    counts : ndarray of shape (D,)
        Observed entries of each feature.
    residual_power : ndarray of shape (D,)
        Sum of ``E[e^2]`` over observed entries.
    residual_moments : ndarray of shape (D, K + 1)
        Sum of ``E[e y']``.
    latent_moments : ndarray of shape (D, K + 1, K + 1)
        Sum of ``E[y y']`` over the rows in which each feature is observed.
    total_moments : ndarray of shape (K + 1, K + 1)
        Sum of ``E[y y']`` over the rows in which anything is observed.
    transitions : ndarray of shape (U,)
        Number of transitions over each of the panel's ``gaps``.
    innovation_power : ndarray of shape (U, K)
        Sum of ``E[(z_t - a z_t-1)^2]`` over those transitions.
    innovation_moments : ndarray of shape (U, K)
        Sum of ``E[(z_t - a z_t-1) z_t-1]``.
    previous_power : ndarray of shape (U, K)
        Sum of ``E[z_t-1^2]``.
    """

    log_likelihood: float
    counts: FloatArray
    residual_power: FloatArray
    residual_moments: FloatArray
    latent_moments: FloatArray
    total_moments: FloatArray
    transitions: FloatArray
    innovation_power: FloatArray
    innovation_moments: FloatArray
    previous_power: FloatArray


class Moments(NamedTuple):
    """Posterior moments of ``T`` rows, as far as the sums need them.

    ``means`` (T, K); ``covariances`` (T, K K); ``variances`` (T, K), their diagonals; ``lag_one`` (T, K), the
    covariance of each latent with itself one row later.
    """

    means: Array
    covariances: Array
    variances: Array
    lag_one: Array


def row_weights(mask: Array) -> Array:
    """Mask of each feature and, last, of the rows in which anything is observed: (D + 1, T).

    Rows are along the last axis because sums over them are then products that run at full speed.
    """
    return jnp.concatenate([mask.T, jnp.any(mask > 0.0, axis=1).astype(mask.dtype)[None]])


def observation_statistics(
    values: Array, mask: Array, weights: Array, loadings: Array, offset: Array, moments: Moments
) -> tuple[Array, Array, Array, Array, Array]:
    """Sums that concern the observations: counts, residual power and moments, latent and total moments.

    ``weights`` are those of :func:`row_weights`.
    """
    means = moments.means
    n_steps, n_components = means.shape
    spread = (weights @ moments.covariances).reshape(-1, n_components, n_components)
    outer = (means[:, :, None] * means[:, None, :]).reshape(n_steps, -1)
    second = spread + (weights @ outer).reshape(-1, n_components, n_components)
    first = weights @ means
    counts = jnp.sum(weights, axis=1)
    latent = jnp.concatenate(
        [
            jnp.concatenate([second, first[:, :, None]], axis=2),
            jnp.concatenate([first[:, None, :], counts[:, None, None]], axis=2),
        ],
        axis=1,
    )
    residuals = mask * (values - offset - means @ loadings.T)
    loaded = jnp.einsum("dij,dj->di", spread[:-1], loadings)
    power = jnp.sum(residuals**2, axis=0) + jnp.einsum("di,di->d", loaded, loadings)
    crossed = jnp.concatenate([residuals.T @ means - loaded, jnp.sum(residuals, axis=0)[:, None]], axis=1)
    return counts[:-1], power, crossed, latent[:-1], latent[-1]


# Up to so many different gaps, sums over each are a product with their indicators.
_FEW_GAPS = 32


def transition_statistics(
    following: Array,
    gap_index: Array,
    n_gaps: int,
    moments: Moments,
    after: Array,
    after_variance: Array,
    backwards: Array | bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Sums that concern the dynamics, one row for each different gap between successive rows.

    ``following`` (T, K) and ``gap_index`` (T,) are those of the step from each row to the next; where no row
    follows the index is ``n_gaps``. ``after`` (K,) and ``after_variance`` (K,) are the moments of the state
    after the last row. Where the rows are in reverse order, ``backwards``, the next row is the earlier one.
    """
    means, variances, lag_one = moments.means, moments.variances, moments.lag_one
    later = jnp.concatenate([means[1:], after[None]])
    later_variances = jnp.concatenate([variances[1:], after_variance[None]])
    if backwards is not False:
        later, means = _swapped_if(backwards, later, means)
        later_variances, variances = _swapped_if(backwards, later_variances, variances)
    innovations = later - following * means
    crossed = innovations * means + lag_one - following * variances
    power = innovations**2 + later_variances - following * (2.0 * lag_one - following * variances)
    columns = (jnp.ones_like(following[:, :1]), power, crossed, means**2 + variances)
    if n_gaps <= _FEW_GAPS:
        which = (gap_index[:, None] == jnp.arange(n_gaps, dtype=gap_index.dtype)).astype(following.dtype)
        sums = [which.T @ column for column in columns]
    else:
        sums = [
            jnp.zeros((n_gaps + 1, column.shape[1]), column.dtype).at[gap_index].add(column)[:n_gaps]
            for column in columns
        ]
    return sums[0][:, 0], sums[1], sums[2], sums[3]


def _swapped_if(condition: Array | bool, first: Array, second: Array) -> tuple[Array, Array]:
    return jnp.where(condition, second, first), jnp.where(condition, first, second)
