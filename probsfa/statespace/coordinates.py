"""Free coordinates of the parameters, in which learning takes its steps.

decay            atanh a            (evenly sampled: a in (-1, 1))
                 log(-log a)        (unevenly sampled: a in (0, 1), the logarithm of the rate)
loadings         C
noise variance   log r              (one for each feature, one for all, or none when it is fixed)
offset           mu
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa.statespace.information import Blocks
from probsfa.statespace.panel import decay_over
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.statistics import Statistics

FloatArray = NDArray[np.float64]

# Closest that a decay may come to one: 1 - a^2 must stay well above rounding.
SLOWEST_DECAY = 1.0 - 1e-10
FASTEST_DECAY = 1e-10


class Coordinates(NamedTuple):
    """How parameters are laid out as one vector.

    Attributes
    ----------
    n_features, n_components : int
        ``D`` and ``K``.
    noise : {"diagonal", "isotropic", "fixed"}
        How many noise coordinates there are: ``D``, one or none.
    evenly_sampled : bool
        Which coordinate the decay has.
    """

    n_features: int
    n_components: int
    noise: Literal["diagonal", "isotropic", "fixed"]
    evenly_sampled: bool

    @property
    def n_noise(self) -> int:
        """Number of noise coordinates."""
        return {"diagonal": self.n_features, "isotropic": 1, "fixed": 0}[self.noise]

    @property
    def size(self) -> int:
        """Number of coordinates, which is the number of free parameters."""
        return self.n_components * (1 + self.n_features) + self.n_noise + self.n_features

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Where decay, loadings, noise and offset lie in the vector."""
        ends = np.cumsum(
            [0, self.n_components, self.n_components * self.n_features, self.n_noise, self.n_features]
        )
        decay, loadings, noise, offset = (
            slice(int(i), int(j)) for i, j in zip(ends[:-1], ends[1:], strict=True)
        )
        return decay, loadings, noise, offset


def to_vector(layout: Coordinates, params: Parameters) -> FloatArray:
    """Coordinates of parameters, shape (P,)."""
    log_noise = np.log(params.noise_variance)
    noise = {"diagonal": log_noise, "isotropic": log_noise[:1], "fixed": log_noise[:0]}[layout.noise]
    return np.concatenate(
        [_decay_to_free(layout, params.decay), params.loadings.ravel(), noise, params.offset]
    )


def from_vector(layout: Coordinates, vector: FloatArray, noise_variance: FloatArray) -> Parameters:
    """Parameters at given coordinates; ``noise_variance`` (D,) is used where the noise is fixed."""
    decay, loadings, noise, offset = (vector[part] for part in layout.slices)
    if layout.noise != "fixed":
        noise_variance = np.broadcast_to(np.exp(noise), (layout.n_features,))
    return Parameters(
        _decay_from_free(layout, decay),
        loadings.reshape(layout.n_features, layout.n_components),
        noise_variance,
        offset,
    )


def _decay_to_free(layout: Coordinates, decay: FloatArray) -> FloatArray:
    if layout.evenly_sampled:
        return np.arctanh(np.clip(decay, -SLOWEST_DECAY, SLOWEST_DECAY))
    return np.log(-np.log(np.clip(decay, FASTEST_DECAY, SLOWEST_DECAY)))


def _decay_from_free(layout: Coordinates, free: FloatArray) -> FloatArray:
    if layout.evenly_sampled:
        return np.clip(np.tanh(free), -SLOWEST_DECAY, SLOWEST_DECAY)
    return np.clip(np.exp(-np.exp(free)), FASTEST_DECAY, SLOWEST_DECAY)


def decay_slope(layout: Coordinates, decay: FloatArray) -> FloatArray:
    """Derivative of the decay by its free coordinate."""
    if layout.evenly_sampled:
        return (1.0 - decay) * (1.0 + decay)
    return decay * np.log(decay)


def score(layout: Coordinates, params: Parameters, gaps: FloatArray, stats: Statistics) -> FloatArray:
    """Gradient of the log-likelihood by the coordinates, shape (P,).

    By Fisher's identity it is the gradient of the expected complete-data log-likelihood, hence a function
    of the expected statistics at the same parameters (Olsson, Petersen & Lehn-Schioler 2007).
    """
    over = decay_over(params.decay, gaps)
    innovation = (1.0 - over) * (1.0 + over)
    by_step = (
        stats.transitions[:, None] * over
        + stats.innovation_moments
        - over * stats.innovation_power / innovation
    ) / innovation
    if layout.evenly_sampled:
        by_decay = by_step[0] * innovation[0]
    else:
        # d a^g = a^g log(a^g) d log(-log a)
        by_decay = np.sum(by_step * over * np.log(over), axis=0)
    r = params.noise_variance
    by_latent = stats.residual_moments / r[:, None]
    by_noise = 0.5 * (stats.residual_power / r - stats.counts)
    return _concatenate(layout, by_decay, by_latent[:, :-1], by_noise, by_latent[:, -1])


def pack_gradient(
    layout: Coordinates,
    params: Parameters,
    by_atanh_decay: FloatArray,
    by_loadings: FloatArray,
    by_log_noise: FloatArray,
    by_offset: FloatArray,
) -> FloatArray:
    """Gradient (P,) by the layout's coordinates from those by ``atanh a``, ``C``, ``log r`` and ``mu``."""
    by_decay = by_atanh_decay * _decay_ratio(layout, params.decay)
    return _concatenate(layout, by_decay, by_loadings, by_log_noise, by_offset)


def _concatenate(
    layout: Coordinates, decay: FloatArray, loadings: FloatArray, log_noise: FloatArray, offset: FloatArray
) -> FloatArray:
    noise = {"diagonal": log_noise, "isotropic": log_noise.sum(keepdims=True), "fixed": log_noise[:0]}
    return np.concatenate([decay, loadings.ravel(), noise[layout.noise], offset])


def _decay_ratio(layout: Coordinates, decay: FloatArray) -> FloatArray:
    """Derivative of ``atanh a`` by the layout's own coordinate of the decay."""
    return decay_slope(layout, decay) / ((1.0 - decay) * (1.0 + decay))


def strengthen_at_borders(
    layout: Coordinates, params: Parameters, info: FloatArray, gradient: FloatArray
) -> FloatArray:
    """Add to the information the curvature that the coordinates themselves have.

    Where the likelihood pushes a noise variance towards zero, or a decay towards one, the second derivative
    by its coordinate has a term proportional to the gradient, which the expected information lacks; without
    it steps towards the border are far too long. Only terms that shorten steps are added.
    """
    decay, _, noise, _ = layout.slices
    curvature = np.zeros(layout.size)
    curvature[noise] = np.maximum(-gradient[noise], 0.0)
    if layout.evenly_sampled:
        curvature[decay] = np.maximum(2.0 * params.decay * gradient[decay], 0.0)
    else:
        curvature[decay] = np.maximum(-gradient[decay], 0.0)
    return info + np.diag(curvature)


class Seen(NamedTuple):
    """How much of the latents the features have seen.

    Attributes
    ----------
    counts : ndarray of shape (D,)
        Observed entries of each feature.
    moments : ndarray of shape (D, K + 1, K + 1)
        Sum of the second moments of ``(z, 1)`` over the rows in which each feature is observed.
    total : ndarray of shape (K + 1, K + 1)
        The same over the rows in which anything is observed; its last entry is their number.
    """

    counts: FloatArray
    moments: FloatArray
    total: FloatArray

    @property
    def n_rows(self) -> float:
        """Number of rows in which anything is observed."""
        return float(self.total[-1, -1])


def information_matrix(layout: Coordinates, params: Parameters, blocks: Blocks, seen: Seen) -> FloatArray:
    """Expected information of the coordinates, shape (P, P), from that of one complete time step.

    A feature tells about the parameters as much as it has seen of the latents: its loadings and offset
    enter through the root of the second moments of ``(z, 1)`` over the rows in which it is observed,
    relative to those over all rows; its noise enters through their number. For a complete series these are
    identities, for one with long gaps they are far from it.
    """
    d, k = layout.n_features, layout.n_components
    share = np.sqrt(seen.counts / seen.n_rows)
    whitener = _symmetric_powers(seen.total, -0.5)
    roots = _symmetric_powers(whitener @ seen.moments @ whitener, 0.5)
    groups = _noise_groups(layout)
    decay, loadings, noise, offset = layout.slices
    # Blocks have the coordinate atanh a: change to the layout's own.
    ratio = _decay_ratio(layout, params.decay)

    # Information on (C_d, mu_d) of all pairs of features, with their roots on both sides.
    joint = np.zeros((d, k + 1, d, k + 1))
    joint[:, :k, :, :k] = blocks.loadings_loadings
    joint[:, k, :, k] = blocks.offset_offset
    joint = np.einsum("dij,djel,elm->diem", roots, joint, roots, optimize=True)
    to_roots = roots[:, :, :k]
    decay_joint = np.einsum("dij,adj->adi", to_roots, blocks.decay_loadings) * ratio[:, None, None]
    noise_joint = np.einsum("dij,dje->die", to_roots, blocks.loadings_noise * share)

    info = np.zeros((layout.size, layout.size))
    info[decay, decay] = blocks.decay_decay * np.outer(ratio, ratio)
    info[decay, noise] = (blocks.decay_noise * share * ratio[:, None]) @ groups
    info[noise, noise] = groups.T @ (blocks.noise_noise * np.outer(share, share)) @ groups
    info[decay, loadings] = decay_joint[:, :, :k].reshape(k, d * k)
    info[decay, offset] = decay_joint[:, :, k]
    info[loadings, loadings] = joint[:, :k, :, :k].reshape(d * k, d * k)
    info[loadings, offset] = joint[:, :k, :, k].reshape(d * k, d)
    info[offset, offset] = joint[:, k, :, k]
    info[loadings, noise] = noise_joint[:, :k].reshape(d * k, d) @ groups
    info[offset, noise] = noise_joint[:, k] @ groups
    for one, other in (
        (decay, noise),
        (decay, loadings),
        (decay, offset),
        (loadings, offset),
        (loadings, noise),
        (offset, noise),
    ):
        info[other, one] = info[one, other].T
    return seen.n_rows * info


def complete_information(layout: Coordinates, params: Parameters, seen: Seen) -> FloatArray:
    """Information there would be if the latents were seen: block diagonal, and the metric of an EM step."""
    d, k = layout.n_features, layout.n_components
    decay, loadings, noise, offset = layout.slices
    groups = _noise_groups(layout)
    slope = decay_slope(layout, params.decay)
    innovation = (1.0 - params.decay) * (1.0 + params.decay)
    info = np.zeros((layout.size, layout.size))
    info[decay, decay] = np.diag(seen.n_rows * (1.0 + params.decay**2) * (slope / innovation) ** 2)
    info[noise, noise] = groups.T @ np.diag(0.5 * seen.counts) @ groups
    scaled = seen.moments / params.noise_variance[:, None, None]
    at_loadings = np.arange(loadings.start, loadings.stop).reshape(d, k)
    at = np.concatenate([at_loadings, np.arange(offset.start, offset.stop)[:, None]], axis=1)
    info[at[:, :, None], at[:, None, :]] = scaled
    return info


def _symmetric_powers(matrices: FloatArray, power: float) -> FloatArray:
    """Symmetric power of positive semi-definite matrices (..., K, K); null directions stay null."""
    values, vectors = np.linalg.eigh(matrices)
    least = np.finfo(np.float64).eps * values[..., -1:]
    powers = np.where(values > least, np.maximum(values, least) ** power, 0.0)
    return (vectors * powers[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def _noise_groups(layout: Coordinates) -> FloatArray:
    """How the noise of the features follows from the noise coordinates: matrix (D, n_noise)."""
    if layout.noise == "diagonal":
        return np.eye(layout.n_features)
    return np.ones((layout.n_features, layout.n_noise))
