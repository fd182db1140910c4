"""What learning knows of the processes that the latents are: the one place beside the engine's dynamics.

A latent is an AR(1) process of unit variance, ``z' = a z + sqrt(1 - a^2) e``, a rhythm or a smooth latent
(:mod:`probsfa.statespace.parameters`). Here are the coordinates of their parameters, the score and the M-step
by the expected moments of their transitions, their spectra, from which come Whittle's likelihood and the
expected information, and what follows for steps and standard errors. All other files of learning ask these
functions for as many numbers as there are coordinates of the dynamics (``Latents.n_dynamics``) and pass them
on.

The coordinates are, in this order,

- of the decay of an AR(1) process ``atanh a`` where rows are evenly sampled, a in (-1, 1), and
  ``log(-log a)``, the logarithm of the rate, where they are not, a in (0, 1);
- of rhythms ``log(-log rho)`` of all, and then the frequencies ``w`` of all, which are free: a negative one
  is the same rhythm with its second state turned round;
- of a smooth latent the logarithm of the rate.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import (
    Transition,
    pair_score,
    rhythm_entries,
    smooth_entries,
    transition_over,
    transition_score,
)
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.limits import Limits
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
# Range of the rates of smooth latents: time scales from a small part of a step to 17,000 steps. Far slower
# ones leave their innovations, of the order of the cube of the rate, below rounding.
SLOWEST_RATE, FASTEST_RATE = 1e-4, 50.0

Sums = FloatArray | float


def _parts(latents: Latents) -> tuple[slice, slice, slice, slice]:
    """Where coordinates of decays, of rhythms' decays and frequencies, and of smooth rates lie."""
    ends = np.cumsum([0, latents.n_components, latents.n_rhythms, latents.n_rhythms, latents.n_smooth])
    first, second, third, fourth = (slice(int(i), int(j)) for i, j in zip(ends[:-1], ends[1:], strict=True))
    return first, second, third, fourth


# ---------------------------------------------------------------------------------------- coordinates


def to_free(params: Parameters, *, evenly_sampled: bool) -> FloatArray:
    """Coordinates of the dynamics."""
    if params.latents.n_pairs:
        return np.concatenate(
            [
                to_free(params.without_pairs, evenly_sampled=evenly_sampled),
                np.log(-np.log(np.clip(params.rhythm_decay, FASTEST_DECAY, SLOWEST_DECAY))),
                params.rhythm_frequency,
                np.log(np.clip(params.smooth_rate, SLOWEST_RATE, FASTEST_RATE)),
            ]
        )
    if evenly_sampled:
        return np.arctanh(np.clip(params.decay, -SLOWEST_DECAY, SLOWEST_DECAY))
    return np.log(-np.log(np.clip(params.decay, FASTEST_DECAY, SLOWEST_DECAY)))


def from_free(template: Parameters, free: FloatArray, *, evenly_sampled: bool) -> Parameters:
    """Parameters with the dynamics at given coordinates, and all else as in ``template``."""
    if template.latents.n_pairs:
        alone, rates, frequencies, smooth = (free[part] for part in _parts(template.latents))
        if evenly_sampled:  # those beyond are not told from those within
            frequencies = np.pi - np.mod(np.pi - frequencies, 2.0 * np.pi)
        return template.replace(
            decay=from_free(template.without_pairs, alone, evenly_sampled=evenly_sampled).decay,
            rhythm_decay=np.clip(np.exp(-np.exp(rates)), FASTEST_DECAY, SLOWEST_DECAY),
            rhythm_frequency=frequencies,
            smooth_rate=np.clip(np.exp(smooth), SLOWEST_RATE, FASTEST_RATE),
        )
    if evenly_sampled:
        decay = np.clip(np.tanh(free), -SLOWEST_DECAY, SLOWEST_DECAY)
    else:
        decay = np.clip(np.exp(-np.exp(free)), FASTEST_DECAY, SLOWEST_DECAY)
    return template.replace(decay=decay)


def within_range(params: Parameters, *, evenly_sampled: bool) -> Parameters:
    """Parameters brought to where the coordinates can express them: unevenly sampled, a decay is positive."""
    if evenly_sampled:
        return params
    return params.replace(decay=np.maximum(params.decay, 10.0 * FASTEST_DECAY))


def longest_steps(latents: Latents) -> FloatArray:
    """Longest step of one iteration in each coordinate."""
    steps = np.full(latents.n_dynamics, 1.0)
    steps[_parts(latents)[2]] = 0.05
    return steps


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
        latter NaN where the decay is not positive; ``rhythm_decays`` and ``rhythm_periods`` (R,);
        ``smooth_timescales`` (M,).
    """
    if params.latents.n_pairs:
        alone, rates, frequencies, smooth = (errors[part] for part in _parts(params.latents))
        rho, omega = params.rhythm_decay, params.rhythm_frequency
        return {
            **standard_errors(params.without_pairs, alone, time_unit, evenly_sampled=evenly_sampled),
            "rhythm_decays": np.abs(rho * np.log(rho)) * rates,
            "rhythm_periods": 2.0 * np.pi * time_unit / omega**2 * frequencies,
            "smooth_timescales": time_unit * np.sqrt(3.0) / params.smooth_rate * smooth,
        }
    decay = np.abs(_slope(params.decay, evenly_sampled)) * errors
    positive = np.where(params.decay > 0.0, params.decay, np.nan)
    # timescale = -unit / log(a), so its derivative is unit / (a log(a)^2)
    return {"decay": decay, "timescales": time_unit * decay / (positive * np.log(positive) ** 2)}


# -------------------------------------------------------------------------------- score and M-step


def score(params: Parameters, gaps: FloatArray, stats: Statistics, *, evenly_sampled: bool) -> FloatArray:
    """Derivative of the log-likelihood by the coordinates, from the expected statistics at ``params``."""
    over = transition_over(params, gaps)
    if params.latents.n_pairs:
        alone = score(params.without_pairs, gaps, _of_alone(stats, params), evenly_sampled=evenly_sampled)
        by = pair_score(over, stats.transitions, stats.innovation_power, stats.innovation_moments)
        n_rhythms = len(params.rhythm_decay)
        rhythms = rhythm_slopes(params.rhythm_decay, params.rhythm_frequency, gaps)
        smooth = smooth_slopes(params.smooth_rate, gaps)
        of_rhythms, of_smooth = slice(0, n_rhythms), slice(n_rhythms, None)
        by_pairs = [
            np.sum(by.by_matrix[:, pairs] * matrix + by.by_innovation[:, pairs] * innovation, axis=(0, 2, 3))
            for pairs, (matrix, innovation) in (*((of_rhythms, one) for one in rhythms), (of_smooth, smooth))
        ]
        return np.concatenate([alone, *by_pairs])
    by_step: Any = transition_score(
        over, stats.transitions, stats.innovation_power, stats.innovation_moments
    ).decay
    if evenly_sampled:
        return np.asarray(by_step[0] * over.innovation_variance[0])
    # d a^g = a^g g log(a) d log(-log a)
    return np.asarray(np.sum(by_step * over.decay * gaps[:, None] * np.log(params.decay), axis=0))


Slope = tuple[FloatArray, FloatArray]


def rhythm_slopes(decay: FloatArray, frequency: FloatArray, gaps: FloatArray) -> tuple[Slope, Slope]:
    """Derivatives of ``A`` and ``Q``, both (U, R, 2, 2), by the coordinates of decays and of frequencies."""
    shape = (len(gaps), len(decay), 2, 2)
    matrix = rhythm_entries(decay, frequency, gaps)[0].reshape(shape)
    elapsed = gaps[:, None, None, None]
    rate = elapsed * np.log(decay)[:, None, None]
    turned = np.array([[0.0, -1.0], [1.0, 0.0]]) @ matrix
    by_rate = rate * matrix, -2.0 * rate * np.exp(2.0 * rate) * np.eye(2)
    return by_rate, (elapsed * turned, np.zeros(shape))


def smooth_slopes(rate: FloatArray, gaps: FloatArray) -> Slope:
    """Derivatives of ``A`` and ``Q``, both (U, M, 2, 2), by the logarithms of the rates.

    ``d A = F A`` and ``d Q = 4 a a'`` with the drift ``F`` and the second column ``a`` of ``A``.
    """
    d = (rate * gaps[:, None])[:, :, None, None]
    matrix = smooth_entries(rate, gaps)[0].reshape(len(gaps), len(rate), 2, 2)
    drift = np.array([[0.0, 1.0], [-1.0, -2.0]])
    shocked = matrix[:, :, :, 1:]
    return d * (drift @ matrix), 4.0 * d * shocked * shocked.swapaxes(2, 3)


def _of_alone(stats: Statistics, params: Parameters) -> Statistics:
    """The statistics of transitions of the AR(1) latents alone."""
    names = ("innovation_power", "innovation_moments", "previous_power")
    return stats._replace(**{name: getattr(stats, name)[:, : params.n_components] for name in names})


class _PairMoments(NamedTuple):
    """Moments of the transitions of one pair over each gap, taken at a transition ``matrix`` (U, 2, 2).

    ``power``, ``moments`` and ``previous`` (U, 2, 2) are sums of ``E e e'``, ``E e z'`` and ``E z z'``, where
    ``e`` are the innovations.
    """

    counts: FloatArray
    matrix: FloatArray
    power: FloatArray
    moments: FloatArray
    previous: FloatArray

    @classmethod
    def of(cls, stats: Statistics, over: Transition, pair: int) -> "_PairMoments":
        """Those of a pair, counted from the first."""
        assert over.pairs is not None
        n = over.pairs.beside.shape[1]
        entries = slice(-2 * n + 4 * pair, -2 * n + 4 * pair + 4 or None)
        own = np.asarray(over.decay)[:, -n:][:, 2 * pair : 2 * pair + 2]
        beside = np.asarray(over.pairs.beside)[:, 2 * pair : 2 * pair + 2]
        matrix = np.stack([own[:, 0], beside[:, 0], beside[:, 1], own[:, 1]], axis=1)
        sums = (stats.innovation_power, stats.innovation_moments, stats.previous_power)
        return cls(
            stats.transitions,
            *(x.reshape(-1, 2, 2) for x in (matrix, *(each[:, entries] for each in sums))),
        )

    def expected(self, matrix: FloatArray, innovation: FloatArray) -> float:
        """Expected log density of the transitions, without constants, under others ``A`` and ``Q``."""
        change = matrix - self.matrix
        crossed = self.moments @ change.swapaxes(1, 2)
        power = self.power - crossed - crossed.swapaxes(1, 2)
        power = power + change @ self.previous @ change.swapaxes(1, 2)
        log_det = np.log(innovation[:, 0, 0] * innovation[:, 1, 1] - innovation[:, 0, 1] ** 2)
        within = np.einsum("uij,uji->u", np.linalg.inv(innovation), power)
        return -0.5 * float(self.counts @ log_det + within.sum())


def _maximize_rhythm(
    decay: float,
    frequency: float,
    data: _PairMoments,
    gaps: FloatArray,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[float, float]:
    """M-step of a rhythm: decay and frequency, which stays within a range.

    Evenly sampled, the frequency is the angle of ``E z' conj(z)``, ``z`` being the complex state, and the
    decay solves the cubic of an AR(1) process whose cross moment is its size; at the end of a range, the part
    of it along that angle.
    """
    if data.counts.sum() == 0.0:
        return decay, frequency
    if gaps.shape[0] == 1 and gaps[0] == 1.0:
        matrix, moments = data.matrix[0], data.moments[0]
        later = moments + matrix @ data.previous[0]
        current = data.power[0] + moments @ matrix.T + matrix @ later.T
        along, across = later[0, 0] + later[1, 1], later[1, 0] - later[0, 1]
        angle, cross = float(np.arctan2(across, along)), float(np.hypot(along, across))
        if not within[0] <= angle <= within[1]:
            angle = max(within, key=lambda limit: float(along * np.cos(limit) + across * np.sin(limit)))
            cross = float(along * np.cos(angle) + across * np.sin(angle))
        size = cubic_decay(
            2.0 * float(data.counts[0]), float(np.trace(data.previous[0])), cross, float(np.trace(current))
        )
        return max(size, FASTEST_DECAY), angle

    def loss(free: FloatArray) -> float:
        size = np.clip(np.exp(-np.exp(free[:1])), FASTEST_DECAY, SLOWEST_DECAY)
        entries = rhythm_entries(size, np.clip(free[1:], *within), gaps)
        return -data.expected(*(x.reshape(-1, 2, 2) for x in entries))

    here = np.array([np.log(-np.log(decay)), frequency])
    corners = here + np.array([[0.0, 0.0], [0.05, 0.0], [0.0, 0.05 * abs(frequency) + 1e-4]])
    close: Any = {"xatol": 1e-9, "fatol": 1e-9, "initial_simplex": corners}
    end = minimize(loss, here, method="Nelder-Mead", options=close)
    best = end.x if end.fun <= loss(here) else here
    size = float(np.clip(np.exp(-np.exp(best[0])), FASTEST_DECAY, SLOWEST_DECAY))
    return size, float(np.clip(best[1], *within))


def _maximize_smooth(rate: float, data: _PairMoments, gaps: FloatArray) -> float:
    """M-step of a smooth latent: a search over the logarithm of its rate."""
    if data.counts.sum() == 0.0:
        return rate

    def loss(log_rate: float) -> float:
        moved = np.clip(np.exp(np.array([log_rate])), SLOWEST_RATE, FASTEST_RATE)
        return -data.expected(*(x.reshape(-1, 2, 2) for x in smooth_entries(moved, gaps)))

    here = float(np.log(rate))
    minimum = minimize_scalar(loss, bracket=(here - 0.1, here + 0.1), options={"xtol": 1e-10})
    best = float(minimum.x) if loss(float(minimum.x)) <= loss(here) else here
    return float(np.clip(np.exp(best), SLOWEST_RATE, FASTEST_RATE))


def _maximize_pairs(
    params: Parameters, stats: Statistics, gaps: FloatArray, limits: Limits | None = None
) -> Parameters:
    """Parameters with the rhythms and smooth latents that maximise the expected log density."""
    over = transition_over(params, gaps)
    n_rhythms = len(params.rhythm_decay)

    def range_of(rhythm: int) -> tuple[float, float]:
        if limits is None:
            return -np.inf, np.inf
        return float(limits.frequencies[0, rhythm]), float(limits.frequencies[1, rhythm])

    rhythms = [
        _maximize_rhythm(float(rho), float(omega), _PairMoments.of(stats, over, j), gaps, range_of(j))
        for j, (rho, omega) in enumerate(zip(params.rhythm_decay, params.rhythm_frequency, strict=True))
    ]
    smooth = [
        _maximize_smooth(float(rate), _PairMoments.of(stats, over, n_rhythms + j), gaps)
        for j, rate in enumerate(params.smooth_rate)
    ]
    decays, frequencies = np.array(rhythms).reshape(-1, 2).T
    return params.replace(
        rhythm_decay=decays, rhythm_frequency=frequencies, smooth_rate=np.array(smooth, dtype=np.float64)
    )


def maximize_dynamics(
    params: Parameters, stats: Statistics, gaps: FloatArray, limits: Limits | None = None
) -> Parameters:
    """M-step: the dynamics that maximise the expected log density of the transitions.

    Parameters
    ----------
    params : Parameters
        Parameters at which ``stats`` were taken.
    stats : Statistics
        Expected statistics.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.
    limits : Limits, optional
        Decays that are held, and ranges of frequencies.

    Returns
    -------
    params : Parameters
        With the dynamics changed, and nothing else.
    """
    if params.latents.n_pairs:
        alone = maximize_dynamics(params.without_pairs, _of_alone(stats, params), gaps, limits)
        return _maximize_pairs(params, stats, gaps, limits).replace(decay=alone.decay)
    if limits is not None and limits.hold:
        learned = maximize_dynamics(params, stats, gaps).decay
        return params.replace(decay=np.where(np.isnan(limits.decays), learned, limits.decays))
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
        return params.replace(decay=np.array([cubic_decay(n, p, c, q) for p, c, q in latents]))
    decay = [
        _uneven_decay(a, stats.transitions, previous[:, k], cross[:, k], current[:, k], gaps)
        for k, a in enumerate(params.decay)
    ]
    return params.replace(decay=np.array(decay))


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
    nodes that grows only with the logarithm of the narrowest width. That of a rhythm has its peak at its
    frequency.
    """
    decay = np.concatenate([params.decay, np.exp(-params.smooth_rate)])
    edges = _panel_edges(decay[decay >= 0.0])
    mirrored = np.pi - _panel_edges(-decay[decay < 0.0])
    around = [
        np.clip(abs(frequency) + np.outer([-1.0, 1.0], _panel_edges(np.array([rho]))).ravel(), 0.0, np.pi)
        for rho, frequency in zip(params.rhythm_decay, params.rhythm_frequency, strict=True)
    ]
    borders = np.unique(np.concatenate([edges, mirrored, *around, [0.0, np.pi]]))
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
    """Spectra ``f`` of the states that columns see at ``W`` frequencies, and their derivatives.

    The methods are what of these derivatives the information and Whittle's likelihood need, so that they
    alone know which coordinate moves which spectrum. ``weights`` (W,) are those of the frequencies, ``P`` the
    number of coordinates of the dynamics, ``K`` that of the states.

    The two states of a rhythm have half the spectrum of the complex process each and half its mirror image.
    What makes the one follow the other, their cross spectrum, is left out: it is imaginary.

    Attributes
    ----------
    values : ndarray of shape (W, K)
        Spectrum of each state, whose mean over frequencies is its variance, one.
    slopes : ndarray of shape (W, E)
        Derivatives of spectra by coordinates: of each by its latent's own, or where there are ``states`` of
        the spectra of those by the ``coordinates``.
    states, coordinates : ndarray of shape (E,) or None, default=None
        Of which state, and by which coordinate; None where they are one to one.
    n_dynamics : int, default=0
        Number of coordinates, where they are not.
    """

    values: FloatArray
    slopes: FloatArray
    states: NDArray[np.intp] | None = None
    coordinates: NDArray[np.intp] | None = None
    n_dynamics: int = 0

    def of_states(self, numbers: FloatArray) -> FloatArray:
        """Numbers of states (..., K) for each derivative."""
        return numbers if self.states is None else numbers[..., self.states]

    def summed(self, numbers: FloatArray) -> FloatArray:
        """Numbers of derivatives (..., E) summed for each coordinate."""
        if self.coordinates is None:
            return numbers
        return numbers @ (self.coordinates[:, None] == np.arange(self.n_dynamics)).astype(np.float64)

    def information(self, weights: FloatArray, g: FloatArray) -> FloatArray:
        """Mean of ``f'_j f'_k G_jk^2``: (P, P), for ``G`` (W, K, K)."""
        slopes = self.slopes
        between = self.of_states(self.of_states(g).swapaxes(1, 2)).swapaxes(1, 2)
        by_entry = np.tensordot(weights, slopes[:, :, None] * slopes[:, None, :] * between**2, 1)
        return self.summed(self.summed(by_entry).T).T

    def with_noise(self, weights: FloatArray, uh: FloatArray) -> FloatArray:
        """Mean of ``f'_j (U H)_dj^2``: (P, D), for ``U H`` (W, D, K)."""
        by_entry = np.tensordot(weights, self.slopes[:, None, :] * self.of_states(uh) ** 2, 1)
        return self.summed(by_entry).T

    def with_loadings(self, weights: FloatArray, h: FloatArray, g: FloatArray) -> FloatArray:
        """Mean of ``f'_j f_k H_bj G_jk``: (q, K, P), for ``H`` (W, q, K) and ``G`` (W, K, K)."""
        beside = self.of_states(g.swapaxes(1, 2)).swapaxes(1, 2)
        moved = self.slopes[:, :, None] * beside * self.values[:, None, :]
        weighted = (weights[:, None, None] * self.of_states(h)).transpose(2, 1, 0)
        return self.summed((weighted @ moved.transpose(1, 0, 2)).transpose(1, 2, 0))

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
        observed = np.sum(self.slopes[band] * self.of_states(explained) ** 2, axis=0)
        expected = np.einsum("w,wk,wk->k", weights, self.slopes, self.of_states(power))
        return self.summed(np.asarray(0.5 * (observed - expected)))


def latent_spectra(params: Parameters, omega: FloatArray, *, evenly_sampled: bool) -> LatentSpectra:
    """Spectra of the unit-variance latents at frequencies ``omega`` (W,), and their derivatives."""
    if params.latents.n_pairs:
        return _spectra_of_all(params, omega, evenly_sampled)
    decay = params.decay
    innovation = (1.0 - decay) * (1.0 + decay)
    # |1 - a exp(-iw)|^2 as a sum of positive terms, also where a is near -1 and w near pi.
    half = 0.5 * omega[:, None]
    size = np.abs(decay)
    transfer = (1.0 - size) ** 2 + 4.0 * size * np.where(decay >= 0.0, np.sin(half), np.cos(half)) ** 2
    spectrum = innovation / transfer
    slope = -2.0 * decay - 2.0 * (decay - np.cos(omega[:, None])) * spectrum
    return LatentSpectra(spectrum, spectrum * slope * _ratio(decay, evenly_sampled))


def _spectra_of_all(params: Parameters, omega: FloatArray, evenly_sampled: bool) -> LatentSpectra:
    alone = latent_spectra(params.without_pairs, omega, evenly_sampled=evenly_sampled)
    rhythm, by_rate, by_frequency = _rhythm_spectrum(params.rhythm_decay, params.rhythm_frequency, omega)
    smooth, by_smooth = _smooth_spectrum(params.smooth_rate, omega)
    decays, rates, frequencies, smooth_rates = (
        np.arange(part.start, part.stop) for part in _parts(params.latents)
    )
    k = params.n_components
    first, second = (k + 2 * np.arange(len(rates)) + i for i in (0, 1))
    last = k + 2 * len(rates) + np.arange(len(smooth_rates))
    return LatentSpectra(
        np.hstack([alone.values, np.repeat(rhythm, 2, axis=1), smooth]),
        np.hstack([alone.slopes, by_rate, by_rate, by_frequency, by_frequency, by_smooth]),
        np.concatenate([decays, first, second, first, second, last]),
        np.concatenate([decays, rates, rates, frequencies, frequencies, smooth_rates]),
        params.latents.n_dynamics,
    )


def _rhythm_spectrum(
    decay: FloatArray, frequency: FloatArray, omega: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Spectrum (W, R) of either state of a rhythm, and its derivatives by the two coordinates."""
    values, by_rate, by_frequency = (np.zeros((len(omega), len(decay))) for _ in range(3))
    for sign in (1.0, -1.0):
        away = omega[:, None] - sign * frequency
        transfer = (1.0 - decay) ** 2 + 4.0 * decay * np.sin(0.5 * away) ** 2
        spectrum = (1.0 - decay) * (1.0 + decay) / transfer
        slope = (-2.0 * decay - 2.0 * (decay - np.cos(away)) * spectrum) / transfer
        values += 0.5 * spectrum
        by_rate += 0.5 * decay * np.log(decay) * slope
        by_frequency += sign * spectrum * decay * np.sin(away) / transfer
    return values, by_rate, by_frequency


def _smooth_spectrum(rate: FloatArray, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Spectrum (W, M) of the value of a smooth latent, and its derivative by the logarithm of the rate.

    The sum of ``(1 + d |h|) exp(-d |h| - i w h)`` over lags ``h``, written with positive terms where ``d`` is
    small: with ``a = exp(-d)``, ``s = 1 - cos w`` and ``t = (1 - a)^2 + 2 a s`` it is
    ``((1 - a)^2 (1 - a^2 + 2 d a) + 4 a^2 s (sinh d - d cosh d)) / t^2``.
    """
    d = rate
    a, short = np.exp(-d), -np.expm1(-d)
    s = 2.0 * np.sin(0.5 * omega[:, None]) ** 2
    level = -np.expm1(-2.0 * d) + 2.0 * d * a
    steep = np.where(d < 0.1, -(d**3) * (1.0 / 3.0 + d**2 / 30.0 + d**4 / 840.0), np.sinh(d) - d * np.cosh(d))
    top = short**2 * level + 4.0 * a**2 * s * steep
    bottom = short**2 + 2.0 * a * s
    by_top = (
        2.0 * a * short * level
        + short**2 * (2.0 * a**2 + 2.0 * a - 2.0 * d * a)
        - 4.0 * a**2 * s * (2.0 * steep + d * np.sinh(d))
    )
    by_bottom = 2.0 * a * short - 2.0 * a * s
    return top / bottom**2, d * (by_top / bottom**2 - 2.0 * top * by_bottom / bottom**3)


def damping(params: Parameters, n_rows: float, *, evenly_sampled: bool) -> FloatArray:
    """Information that so many transitions would have of the coordinates if the latents were observed."""
    if params.latents.n_pairs:
        rho, rate = params.rhythm_decay, params.smooth_rate
        spread = (1.0 - rho) * (1.0 + rho)
        by_matrix, by_innovation = (x[0] for x in smooth_slopes(rate, np.ones(1)))
        inverse = np.linalg.inv(smooth_entries(rate, np.ones(1))[1].reshape(-1, 2, 2))
        scaled = inverse @ by_innovation
        smooth = np.einsum("mij,mjk,mik->m", inverse, by_matrix, by_matrix)
        smooth += 0.5 * np.einsum("mij,mji->m", scaled, scaled)
        return np.concatenate(
            [
                damping(params.without_pairs, n_rows, evenly_sampled=evenly_sampled),
                2.0 * n_rows * (1.0 + rho**2) * (rho * np.log(rho) / spread) ** 2,
                2.0 * n_rows * rho**2 / spread,
                n_rows * smooth,
            ]
        )
    decay = params.decay
    return n_rows * (1.0 + decay**2) * _ratio(decay, evenly_sampled) ** 2


def curvature(params: Parameters, gradient: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Curvature that the coordinates themselves have, in proportion to the gradient by them.

    Only where it shortens steps; see :class:`.Metric`.
    """
    if params.latents.n_pairs:
        alone, rates, frequencies, smooth = (gradient[part] for part in _parts(params.latents))
        bent = np.maximum((-1.0 - np.log(params.rhythm_decay)) * rates, 0.0)
        of_alone = curvature(params.without_pairs, alone, evenly_sampled=evenly_sampled)
        return np.concatenate([of_alone, bent, np.zeros_like(frequencies), np.zeros_like(smooth)])
    # d^2 a / d s^2 over d a / d s is -2 a for a = tanh s, and 1 + log a for a = exp(-exp s).
    bend = 2.0 * params.decay if evenly_sampled else -1.0 - np.log(params.decay)
    return np.maximum(bend * gradient, 0.0)
