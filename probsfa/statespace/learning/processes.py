"""What learning knows of the processes that the latents are: the one place beside the engine's dynamics.

A latent is an AR(1) process of unit variance, ``z' = a z + sqrt(1 - a^2) e``. Here are the coordinates of its
decay, the score and the M-step by the expected moments of its transitions, its spectrum, from which come
Whittle's likelihood and the expected information, and what follows for steps and standard errors. All other
files of learning ask these functions for as many numbers as there are coordinates of the dynamics
(``Latents.n_dynamics``) and pass them on.

The coordinate of a decay is ``atanh a`` where rows are evenly sampled, a in (-1, 1), and ``log(-log a)``, the
logarithm of the rate, where they are not, a in (0, 1).
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import transition_over, transition_score
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.parameters import Latents, Parameters

__all__ = [
    "LatentSpectra",
    "curvature",
    "damping",
    "frequencies",
    "from_free",
    "latent_spectra",
    "longest_steps",
    "maximize_dynamics",
    "score",
    "standard_errors",
    "to_free",
    "within_range",
]

# Closest that a learned decay may come to one. 1 - a^2 must stay well above rounding, and a time scale of 1e8
# steps is a constant for any series there is.
SLOWEST_DECAY = 1.0 - 1e-8
FASTEST_DECAY = 1e-10

Sums = FloatArray | float

# ---------------------------------------------------------------------------------------- coordinates


def to_free(params: Parameters, *, evenly_sampled: bool) -> FloatArray:
    """Coordinates of the dynamics."""
    if evenly_sampled:
        return np.arctanh(np.clip(params.decay, -SLOWEST_DECAY, SLOWEST_DECAY))
    return np.log(-np.log(np.clip(params.decay, FASTEST_DECAY, SLOWEST_DECAY)))


def from_free(template: Parameters, free: FloatArray, *, evenly_sampled: bool) -> Parameters:
    """Parameters with the dynamics at given coordinates, and all else as in ``template``."""
    if evenly_sampled:
        decay = np.clip(np.tanh(free), -SLOWEST_DECAY, SLOWEST_DECAY)
    else:
        decay = np.clip(np.exp(-np.exp(free)), FASTEST_DECAY, SLOWEST_DECAY)
    return template._replace(decay=decay)


def within_range(params: Parameters, *, evenly_sampled: bool) -> Parameters:
    """Parameters brought to where the coordinates can express them: unevenly sampled, a decay is positive."""
    if evenly_sampled:
        return params
    return params._replace(decay=np.maximum(params.decay, 10.0 * FASTEST_DECAY))


def longest_steps(latents: Latents) -> FloatArray:
    """Longest step of one iteration in each coordinate."""
    return np.full(latents.n_dynamics, 1.0)


def _slope(decay: FloatArray, evenly_sampled: bool) -> FloatArray:
    """Derivative of the decay by its coordinate."""
    if evenly_sampled:
        return (1.0 - decay) * (1.0 + decay)
    return decay * np.log(decay)


def _ratio(decay: FloatArray, evenly_sampled: bool) -> FloatArray:
    """Derivative of ``atanh a`` by the coordinate."""
    return _slope(decay, evenly_sampled) / ((1.0 - decay) * (1.0 + decay))


def standard_errors(
    params: Parameters, errors: FloatArray, time_unit: float, *, evenly_sampled: bool
) -> dict[str, FloatArray]:
    """Standard errors of the dynamics by the delta method, from those of their coordinates.

    Parameters
    ----------
    params : Parameters
        Where the errors were taken.
    errors : ndarray
        Standard errors of the coordinates.
    time_unit : float
        Unit of time of the decays.
    evenly_sampled : bool
        Which coordinates they are.

    Returns
    -------
    dict of ndarray
        By the names they have in :class:`.StandardErrors`: ``decay`` and ``timescales``, both (K,), the
        latter NaN where the decay is not positive.
    """
    decay = np.abs(_slope(params.decay, evenly_sampled)) * errors
    positive = np.where(params.decay > 0.0, params.decay, np.nan)
    # timescale = -unit / log(a), so its derivative is unit / (a log(a)^2)
    return {"decay": decay, "timescales": time_unit * decay / (positive * np.log(positive) ** 2)}


# -------------------------------------------------------------------------------- score and M-step


def score(params: Parameters, gaps: FloatArray, stats: Statistics, *, evenly_sampled: bool) -> FloatArray:
    """Derivative of the log-likelihood by the coordinates, from the expected statistics at ``params``."""
    over = transition_over(params, gaps)
    by_step: Any = transition_score(
        over, stats.transitions, stats.innovation_power, stats.innovation_moments
    ).decay
    if evenly_sampled:
        return np.asarray(by_step[0] * over.innovation_variance[0])
    # d a^g = a^g g log(a) d log(-log a)
    return np.asarray(np.sum(by_step * over.decay * gaps[:, None] * np.log(params.decay), axis=0))


def maximize_dynamics(params: Parameters, stats: Statistics, gaps: FloatArray) -> Parameters:
    """M-step: the dynamics that maximise the expected log density of the transitions.

    Parameters
    ----------
    params : Parameters
        Parameters at which ``stats`` were taken.
    stats : Statistics
        Expected statistics.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.

    Returns
    -------
    params : Parameters
        With the dynamics changed, and nothing else.
    """
    over = np.asarray(transition_over(params, gaps).decay)
    # Second moments of (z_t-1, z_t) from those of the innovations.
    previous = stats.previous_power
    cross = stats.innovation_moments + over * previous
    current = stats.innovation_power + 2.0 * over * cross - over**2 * previous
    if gaps.shape[0] == 1 and gaps[0] == 1.0:
        n = float(stats.transitions[0])
        if n == 0.0:
            return params
        latents = zip(previous[0], cross[0], current[0], strict=True)
        return params._replace(decay=np.array([cubic_decay(n, p, c, q) for p, c, q in latents]))
    decay = [
        _uneven_decay(a, stats.transitions, previous[:, k], cross[:, k], current[:, k], gaps)
        for k, a in enumerate(params.decay)
    ]
    return params._replace(decay=np.array(decay))


def _expected_transition(a: FloatArray, n: Sums, previous: Sums, cross: Sums, current: Sums) -> FloatArray:
    """Expected log density of the transitions, without constants."""
    innovation = (1.0 - a) * (1.0 + a)
    return -0.5 * (n * np.log(innovation) + (current - 2.0 * a * cross + a**2 * previous) / innovation)


def cubic_decay(n: float, previous: float, cross: float, current: float) -> float:
    """Decay of one latent under unit stationary variance.

    Setting the derivative to zero gives ``n a^3 - cross a^2 + (previous + current - n) a - cross = 0``. At
    a = 1 and a = -1 the polynomial is ``E sum (z_t - z_t-1)^2`` and minus ``E sum (z_t + z_t-1)^2``, so
    there is always a root between.
    """
    roots = np.roots([n, -cross, previous + current - n, -cross])
    real = roots[np.abs(roots.imag) <= 1e-7].real
    inside = np.clip(
        np.append(real[np.abs(real) < 1.0], cross / max(previous, current)), -SLOWEST_DECAY, SLOWEST_DECAY
    )
    return float(inside[np.argmax(_expected_transition(inside, n, previous, cross, current))])


def _uneven_decay(
    a: float,
    transitions: FloatArray,
    previous: FloatArray,
    cross: FloatArray,
    current: FloatArray,
    gaps: FloatArray,
) -> float:
    """Decay of one latent seen at uneven times: a search over the logarithm of its rate."""

    def loss(log_rate: float) -> float:
        over = np.clip(np.exp(-np.exp(log_rate) * gaps), FASTEST_DECAY, SLOWEST_DECAY)
        return -float(np.sum(_expected_transition(over, transitions, previous, cross, current)))

    here = float(np.log(-np.log(a)))
    minimum = minimize_scalar(loss, bracket=(here - 0.1, here + 0.1), options={"xtol": 1e-10})
    best = float(minimum.x) if loss(float(minimum.x)) <= loss(here) else here
    return float(np.clip(np.exp(-np.exp(best)), FASTEST_DECAY, SLOWEST_DECAY))


# ----------------------------------------------------------------------------------------- spectra


def frequencies(params: Parameters, nodes_per_panel: int = 6) -> tuple[FloatArray, FloatArray]:
    """Quadrature nodes in (0, pi) and weights of mean one, dense where the spectra have their peaks.

    A latent's spectrum has a Lorentzian peak of width ``1 - |a|`` at 0, or at pi when ``a`` is negative.
    Gauss-Legendre panels whose width grows with the distance from the peak resolve it with a number of
    nodes that grows only with the logarithm of the narrowest width.
    """
    decay = params.decay
    edges = _panel_edges(decay[decay >= 0.0])
    mirrored = np.pi - _panel_edges(-decay[decay < 0.0])
    borders = np.unique(np.concatenate([edges, mirrored, [0.0, np.pi]]))
    nodes, weights = _gauss_legendre(nodes_per_panel)
    half = 0.5 * np.diff(borders)
    centre = 0.5 * (borders[1:] + borders[:-1])
    return (centre[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel() / np.pi


@cache
def _gauss_legendre(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (-1, 1)."""
    return np.polynomial.legendre.leggauss(n_nodes)


def _panel_edges(decay: FloatArray, ratio: float = 3.0) -> FloatArray:
    if decay.size == 0:
        return np.array([0.0, np.pi])
    narrowest = max(1.0 - float(decay.max()), 1e-9)
    n_panels = int(np.ceil(np.log(np.pi / (0.3 * narrowest)) / np.log(ratio)))
    return np.concatenate([[0.0], np.pi * ratio ** -np.arange(max(n_panels, 1), -1.0, -1.0)])


class LatentSpectra(NamedTuple):
    """Spectra ``f`` of the states at ``W`` frequencies, and their derivatives by the coordinates.

    The methods are what of these derivatives the information and Whittle's likelihood need, so that they
    alone know which coordinate moves which spectrum. ``weights`` (W,) are those of the frequencies, ``P`` the
    number of coordinates of the dynamics.

    Attributes
    ----------
    values : ndarray of shape (W, K)
        Spectrum of each state, whose mean over frequencies is its variance, one.
    slopes : ndarray of shape (W, K)
        Derivative of each by its latent's own coordinate.
    """

    values: FloatArray
    slopes: FloatArray

    def information(self, weights: FloatArray, g: FloatArray) -> FloatArray:
        """Mean of ``f'_j f'_k G_jk^2``: (P, P), for ``G`` (W, K, K)."""
        slopes = self.slopes
        return np.tensordot(weights, slopes[:, :, None] * slopes[:, None, :] * g**2, 1)

    def with_noise(self, weights: FloatArray, uh: FloatArray) -> FloatArray:
        """Mean of ``f'_j (U H)_dj^2``: (P, D), for ``U H`` (W, D, K)."""
        return np.tensordot(weights, self.slopes[:, None, :] * uh**2, 1).T

    def with_loadings(self, weights: FloatArray, h: FloatArray, g: FloatArray) -> FloatArray:
        """Mean of ``f'_j f_k H_bj G_jk``: (q, K, P), for ``H`` (W, q, K) and ``G`` (W, K, K)."""
        moved = self.slopes[:, :, None] * g * self.values[:, None, :]
        weighted = (weights[:, None, None] * h).transpose(2, 1, 0)
        return (weighted @ moved.transpose(1, 0, 2)).transpose(1, 2, 0)

    def gradient(
        self, weights: FloatArray, explained: FloatArray, band: NDArray[np.intp], power: FloatArray
    ) -> FloatArray:
        """Derivative (P,) of Whittle's likelihood.

        Parameters
        ----------
        weights : ndarray of shape (W,)
            Degrees of freedom of each band of frequencies.
        explained : ndarray of shape (M, K)
            ``C' S^-1 z`` of each row ``z`` of the periodogram's factors.
        band : ndarray of shape (M,)
            Band of each row.
        power : ndarray of shape (W, K)
            Diagonal of ``C' S^-1 C``.
        """
        observed = np.sum(self.slopes[band] * explained**2, axis=0)
        return np.asarray(0.5 * (observed - np.einsum("w,wk,wk->k", weights, self.slopes, power)))


def latent_spectra(params: Parameters, omega: FloatArray, *, evenly_sampled: bool) -> LatentSpectra:
    """Spectra of the unit-variance latents at frequencies ``omega`` (W,), and their derivatives."""
    decay = params.decay
    innovation = (1.0 - decay) * (1.0 + decay)
    # |1 - a exp(-iw)|^2 as a sum of positive terms, also where a is near -1 and w near pi.
    half = 0.5 * omega[:, None]
    size = np.abs(decay)
    transfer = (1.0 - size) ** 2 + 4.0 * size * np.where(decay >= 0.0, np.sin(half), np.cos(half)) ** 2
    spectrum = innovation / transfer
    slope = -2.0 * decay - 2.0 * (decay - np.cos(omega[:, None])) * spectrum
    return LatentSpectra(spectrum, spectrum * slope * _ratio(decay, evenly_sampled))


def damping(params: Parameters, n_rows: float, *, evenly_sampled: bool) -> FloatArray:
    """Information that so many transitions would have of the coordinates if the latents were observed."""
    decay = params.decay
    return n_rows * (1.0 + decay**2) * _ratio(decay, evenly_sampled) ** 2


def curvature(params: Parameters, gradient: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Curvature that the coordinates themselves have, in proportion to the gradient by them.

    Only where it shortens steps; see :class:`.Metric`.
    """
    # d^2 a / d s^2 over d a / d s is -2 a for a = tanh s, and 1 + log a for a = exp(-exp s).
    bend = 2.0 * params.decay if evenly_sampled else -1.0 - np.log(params.decay)
    return np.maximum(bend * gradient, 0.0)
