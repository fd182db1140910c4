"""The limit of no observation noise, where maximum likelihood is slow feature analysis.

With ``r = 0`` and as many latents as features, recognition is deterministic, ``z_t = W (x_t - mean)``, and
the likelihood is that of Turner & Sahani (2007), eq. 13. Up to edge terms of order 1/T (their eq. 18) it is
largest at the directions of slow feature analysis, with unit variances and ``a_k = 1 - delta_k / 2``. This
module takes that solution as it is: the square model is solved, and the slowest latents are the ones
reported.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._validation import Sequences
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import Posterior
from probsfa.statespace.prediction import Forecast, forecast

FloatArray = NDArray[np.float64]

# The decay of a drift comes as close to one as its delta value says, but not so close that 1 - a^2 is zero.
_SLOWEST = 1.0 - 1e-15


class NoiseFree(NamedTuple):
    """The square model without observation noise, on the ``R`` directions in which the data vary.

    Attributes
    ----------
    decay : ndarray of shape (R,)
        ``1 - delta / 2``, slowest first.
    components : ndarray of shape (R, D)
        Recognition weights, the directions of slow feature analysis.
    loadings : ndarray of shape (D, R)
        Generative weights; ``components @ loadings`` is the identity.
    mean : ndarray of shape (D,)
        Mean of the features.
    """

    decay: FloatArray
    components: FloatArray
    loadings: FloatArray
    mean: FloatArray

    @property
    def n_parameters(self) -> int:
        """Free parameters of the square model: decays, directions and mean within the data's span."""
        n_latents = self.decay.shape[0]
        return n_latents * (n_latents + 2)

    def parameters(self, n_components: int) -> Parameters:
        """Parameters of the slowest latents, with no noise."""
        zeros = np.zeros(self.mean.shape[0])
        return Parameters(self.decay[:n_components], self.loadings[:, :n_components], zeros, self.mean)


def noise_free(
    delta_values: FloatArray, components: FloatArray, loadings: FloatArray, mean: FloatArray
) -> NoiseFree:
    """Square model of a solution of slow feature analysis at full rank."""
    decay = np.clip(1.0 - 0.5 * delta_values, -_SLOWEST, _SLOWEST)
    # Covariances invert the directions up to the rounding of an eigenproblem; here they must invert them.
    inverse = np.asarray(np.linalg.solve((components @ loadings).T, loadings.T).T, dtype=np.float64)
    return NoiseFree(decay, components, inverse, mean)


def latents(model: NoiseFree, values: FloatArray) -> FloatArray:
    """Latents of complete rows, exactly: shape (N, R)."""
    return np.asarray((values - model.mean) @ model.components.T)


def row_log_likelihoods(model: NoiseFree, sequences: Sequences) -> FloatArray:
    """Log density of each row given the rows before it in its sequence, shape (N,).

    Where the data have lower rank than features, it is the density on their linear span.
    """
    z = latents(model, sequences.values)
    previous = np.zeros_like(z)
    previous[1:] = z[:-1]
    # A sequence starts from the stationary law: no decay from the row before.
    decay = np.where(sequences.starts[:, None], 0.0, model.decay)
    variance = (1.0 - decay) * (1.0 + decay)
    innovations = z - decay * previous
    log_density = -0.5 * (np.log(2.0 * np.pi * variance) + innovations**2 / variance)
    return np.asarray(log_density.sum(axis=1) - _log_volume(model.loadings))


def _log_volume(loadings: FloatArray) -> float:
    """Logarithm of the volume that the loadings give to a unit cube of latents."""
    n_features, n_latents = loadings.shape
    if n_features == n_latents:
        return float(np.linalg.slogdet(loadings)[1])
    return float(np.sum(np.log(np.linalg.svd(loadings, compute_uv=False))))


def posterior(model: NoiseFree, sequences: Sequences, n_components: int) -> Posterior:
    """Latents with no uncertainty, as a posterior."""
    n, k = sequences.n_rows, n_components
    return Posterior(
        latents(model, sequences.values)[:, :k],
        np.zeros((n, k, k)),
        np.zeros((max(n - 1, 0), k, k)),
        row_log_likelihoods(model, sequences),
    )


def forecast_rows(model: NoiseFree, last: FloatArray, n_steps: int, n_components: int) -> Forecast:
    """Forecast from the last row: observations from all latents, of which the slowest are reported."""
    size = model.decay.shape[0]
    params = model.parameters(size)
    z = latents(model, last[None])[0]
    full = forecast(params, z, np.zeros((size, size)), n_steps)
    return full._replace(
        latent_means=full.latent_means[:, :n_components], latent_std=full.latent_std[:, :n_components]
    )
