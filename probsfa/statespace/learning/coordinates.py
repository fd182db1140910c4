"""Unconstrained coordinates of the parameters for optimizers, and limits of the parameters.

dynamics         atanh a            (evenly sampled: a in (-1, 1))
                 log(-log a)        (unevenly sampled: a in (0, 1), the logarithm of the rate)
                 and those of stochastic cycles and smooth processes (:meth:`.Process.to_free`)
loadings         C, for observed states; for AR(1) noise only the scale in its own column
noise variance   log r              (one for each group of columns that share it)
offset           mu

If columns have AR(1) noise, parameters in this package are those of the state space
(:attr:`.StateSpace.state_space`): the noise processes are the last AR(1) processes, and their loadings on
other columns are zero.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.engine.dynamics import block_slices, transition_over, transition_score
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import Latents, StateSpace, canonical
from probsfa.statespace.processes import BlockMoments, Process, ar1
from probsfa.statespace.processes.base import closest_order, closest_signs
from probsfa.statespace.processes.rhythm import Rhythm

# --------------------------------------------------------------------------------------------------- limits

# Fixed parameters, and ranges of the periods that are learned.

#: Maximum ratio of an estimated period to its initial value, or of the initial value to the estimate.
PERIOD_RANGE = 1.25


class Limits(NamedTuple):
    """Limits of parameters of the standardised data; NaN where a parameter is free.

    Attributes
    ----------
    decays : ndarray of shape (K,)
        Fixed decays of AR(1) factors.
    loadings : ndarray of shape (D, n_states)
        Fixed loadings; NaN for velocities of smooth processes, which are not observed.
    noise : ndarray of shape (D,)
        Fixed variances of white noise.
    frequencies : ndarray of shape (2, R)
        Lowest and highest frequency of each stochastic cycle, in radians; equal if fixed, infinite without
        limit.
    rhythms : slice
        States of the stochastic cycles.
    """

    decays: FloatArray
    loadings: FloatArray
    noise: FloatArray
    frequencies: FloatArray
    rhythms: slice

    @property
    def hold(self) -> bool:
        """Whether any parameter is fixed."""
        return self.n_held > 0

    @property
    def held_frequencies(self) -> BoolArray:
        """Stochastic cycles (R,) whose frequency is fixed."""
        return np.asarray(self.frequencies[0] == self.frequencies[1])

    @property
    def n_held(self) -> int:
        """Number of fixed parameters."""
        parts = (~np.isnan(part) for part in (self.decays, self.loadings, self.noise))
        return sum(int(np.count_nonzero(part)) for part in (*parts, self.held_frequencies))

    @property
    def fixed_phases(self) -> BoolArray:
        """Cycles (R,) whose phase is determined by fixed loadings that are not zero for both states."""
        n = self.frequencies.shape[1]
        pairs = self.loadings[:, self.rhythms].reshape(len(self.loadings), n, 2)
        silent = np.all(pairs == 0.0, axis=2)
        return np.asarray(np.any(~np.isnan(pairs) & ~silent[:, :, None], axis=(0, 2)))

    def within(self, process: Process) -> FloatArray | None:
        """Return the limits of the frequencies of a kind of process, or None."""
        return self.frequencies if process.sought else None

    @property
    def of_periods(self) -> "Limits":
        """The limits of the frequencies alone."""
        free = [np.full_like(part, np.nan) for part in self[:3]]
        return Limits(free[0], free[1], free[2], *self[3:])


def imposed(params: StateSpace, limits: Limits) -> StateSpace:
    """Return the parameters closest to given ones that satisfy limits.

    The order, signs and phases of the latent processes of each kind are those closest to the fixed values.
    Explained variance that is lost by fixing loadings is added to the noise.

    Parameters
    ----------
    params : StateSpace
        Parameters of the standardised data, without AR(1) noise.
    limits : Limits
        Fixed parameters and ranges of periods.

    Returns
    -------
    params : StateSpace
    """
    power_before, k, d = np.sum(params.loadings**2, axis=1), params.n_components, params.n_features
    slow, held = params.loadings[:, :k], limits.loadings[:, :k]
    differences = (np.arctanh(limits.decays)[:, None] - np.arctanh(params.decay)) ** 2
    # Weight of squared distances of decays, relative to those of loadings in standard deviations of the
    # columns.
    order = closest_order(slow, held, 0.1 * np.where(np.isnan(differences), 0.0, differences))
    decay = params.decay[order]
    parts, processes = [slow[:, order] * closest_signs(slow[:, order], held)], []
    for process in params.processes:
        process_limits = limits.loadings[:, params.latents.states[type(process)]].reshape(
            d, len(process), process.n_states
        )
        closest, loadings = process.closest(
            params.loadings_of(process), process_limits, limits.within(process)
        )
        processes.append(closest)
        parts.append(loadings.reshape(d, -1))
    loadings = np.hstack(parts)
    free = np.isnan(limits.loadings)
    loadings = np.where(free, loadings, limits.loadings)
    lost_power = np.maximum(power_before - np.sum(loadings**2, axis=1), 0.0)
    noise = params.noise_variance + lost_power
    return params.replace(
        decay=np.where(np.isnan(limits.decays), decay, limits.decays),
        loadings=loadings,
        noise_variance=np.where(np.isnan(limits.noise), noise, limits.noise),
        processes=tuple(processes),
    )


def canonical_where_free(params: StateSpace, scale: FloatArray, limits: Limits | None) -> StateSpace:
    """Return parameters in canonical form, with fixed parameters unchanged.

    If any parameter is fixed, latent processes keep their order. Signs, and phases of stochastic cycles, are
    those of :func:`~probsfa.statespace.parameters.canonical` for processes whose loadings are free or fixed
    at zero.

    Parameters
    ----------
    params : StateSpace
        Parameters with any signs.
    scale : ndarray of shape (D,)
        Standard deviation of each column.
    limits : Limits or None
        Fixed parameters, in any units.
    """
    if limits is None or not limits.hold:
        return canonical(params, scale)
    k, loadings = params.n_components, params.loadings.copy()
    has_fixed_loadings = np.any(limits.loadings != 0.0, axis=0, where=~np.isnan(limits.loadings))
    free = np.flatnonzero(~has_fixed_loadings[:k])
    loadings[:, free] *= canonical_signs(loadings[:, free], scale)
    for process in params.processes:
        states = params.latents.states[type(process)]
        positions = np.arange(states.start, states.stop).reshape(len(process), process.n_states)
        for j in np.flatnonzero(~np.any(has_fixed_loadings[positions], axis=1)):
            single, rotated = process.chosen([j]).canonical(loadings[:, positions[[j]]], scale)
            del single
            loadings[:, positions[j]] = rotated[:, 0]
    scales = np.abs(params.memory_scale)
    return params.replace(loadings=loadings, **({"memory_scale": scales} if params.has_ar1_noise else {}))


# -------------------------------------------------------------------------------- dynamics of the processes

# Dynamics of all latent processes for the fit: coordinates, score, M-step, spectra.
#
# The coordinates of the decays of AR(1) factors come first (:mod:`probsfa.statespace.processes.ar1`), then
# those of each other kind of process (:meth:`.Process.to_free`): the first coordinate of all its processes,
# then the second. All other modules of this package treat them as a vector of ``Latents.n_dynamics`` numbers;
# only the kinds of processes define their meaning.


def _of_each(params: StateSpace, numbers: FloatArray) -> Iterator[tuple[Process, FloatArray]]:
    """Iterate over the kinds of processes, each with its part (C, N) of a vector over all coordinates."""
    where = params.latents.coordinates
    for process in params.processes:
        yield process, numbers[where[type(process)]].reshape(process.n_free(), len(process))


# ---------------------------------------------------------------------------------------- coordinates


def dynamics_to_free(params: StateSpace, *, evenly_sampled: bool) -> FloatArray:
    """Return the coordinates of the dynamics."""
    decays = ar1.to_free(params.decay, evenly_sampled=evenly_sampled)
    return np.concatenate([decays, *(process.to_free().ravel() for process in params.processes)])


def dynamics_from_free(template: StateSpace, free: FloatArray, *, evenly_sampled: bool) -> StateSpace:
    """Return the parameters of ``template`` with the dynamics at the given coordinates."""
    decay = ar1.from_free(free[: template.n_components], evenly_sampled=evenly_sampled)
    if not template.processes:
        return template.replace(decay=decay)
    processes = tuple(
        process.at(free_of_process).evenly_sampled() if evenly_sampled else process.at(free_of_process)
        for process, free_of_process in _of_each(template, free)
    )
    return template.replace(decay=decay, processes=processes)


def within_range(params: StateSpace, *, evenly_sampled: bool) -> StateSpace:
    """Move parameters into the range of the coordinates: with uneven sampling, decays are positive."""
    if evenly_sampled:
        return params
    return params.replace(decay=np.maximum(params.decay, 10.0 * ar1.MIN_DECAY))


def longest_steps(latents: Latents) -> FloatArray:
    """Return the longest step of one iteration in each coordinate."""
    others = [np.repeat(kind.longest_steps, count) for kind, count in latents.counts.items()]
    return np.concatenate([np.ones(latents.n_components), *others])


def longest_loading_steps(params: StateSpace) -> FloatArray:
    """Return the longest step of one iteration in a loading on each observed state (n_seen,).

    It is one standard deviation of a column. Loadings of processes with a diffuse start are larger by orders
    of magnitude that depend on the data: steps are at most the largest one at the start of the optimization.
    Longer ones often end at a lower likelihood.
    """
    latents = params.latents
    others = [
        np.full(len(kind.seen) * count, kind.longest_loading_step) for kind, count in latents.counts.items()
    ]
    limits = np.concatenate([np.ones(latents.n_components), *others])
    return np.clip(np.max(np.abs(params.seen_loadings), axis=0, initial=0.0), 1.0, limits)


def dynamics_standard_errors(
    params: StateSpace, covariance: FloatArray, time_unit: float, *, evenly_sampled: bool
) -> dict[str, FloatArray]:
    """Compute standard errors of the dynamics from the covariance of their coordinates by the delta method.

    Parameters
    ----------
    params : StateSpace
        Parameters at which the covariance was computed.
    covariance : ndarray
        Covariance matrix of the coordinates.
    time_unit : float
        Unit of time of the decays.
    evenly_sampled : bool
        Whether the coordinates are those of even sampling.

    Returns
    -------
    dict of ndarray
        Standard errors by fitted attribute: ``decay_`` and ``timescales_``, both (K,), the latter NaN for
        decays that are not positive; and those of other kinds (:meth:`.Process.standard_errors`).
    """
    slope = np.abs(ar1.slope(params.decay, evenly_sampled=evenly_sampled))
    decay = slope * np.sqrt(np.diagonal(covariance)[: params.n_components])
    positive = np.where(params.decay > 0.0, params.decay, np.nan)
    # timescale = -unit / log(a), so its derivative is unit / (a log(a)^2)
    found = {"decay_": decay, "timescales_": time_unit * decay / (positive * np.log(positive) ** 2)}
    where = params.latents.coordinates
    for process in params.processes:
        process_errors, shape = where[type(process)], (process.n_free(), len(process))
        blocks = np.einsum("cndn->cdn", covariance[process_errors, process_errors].reshape(*shape, *shape))
        have = [each.attribute for each in process.quantities if each.scale]
        found |= dict(zip(have, process.standard_errors(blocks, time_unit), strict=True))
    return found


# -------------------------------------------------------------------------------- score and M-step


def _of_blocks(params: StateSpace, terms: FloatArray) -> Iterator[FloatArray]:
    """Split sums over transitions (U, L) by kind, except AR(1) factors, into matrices (U, N, B, B)."""
    shapes = [(len(process), process.n_states) for process in params.processes]
    for (count, size), states in zip(shapes, block_slices(params.n_components, shapes), strict=True):
        yield terms[:, states].reshape(-1, count, size, size)


def dynamics_score(
    params: StateSpace, gaps: FloatArray, stats: Statistics, *, evenly_sampled: bool
) -> FloatArray:
    """Return the score of the coordinates from the expected statistics at ``params``."""
    k, ar1_transition = params.n_components, transition_over(params, gaps)._replace(groups=())
    power, moments = stats.innovation_power, stats.innovation_moments
    by_decay = np.asarray(
        transition_score(ar1_transition, stats.transitions, power[:, :k], moments[:, :k]).decay
    )
    if evenly_sampled:
        by_free = np.asarray(by_decay[0] * ar1_transition.innovation_variance[0])
    else:  # d a^g = a^g g log(a) d log(-log a)
        by_free = np.asarray(
            np.sum(by_decay * ar1_transition.decay * gaps[:, None] * np.log(params.decay), axis=0)
        )
    of_each = zip(params.processes, _of_blocks(params, power), _of_blocks(params, moments), strict=True)
    others = [process.score(gaps, stats.transitions, *sums).ravel() for process, *sums in of_each]
    return np.concatenate([by_free, *others])


def maximize_dynamics(
    params: StateSpace, stats: Statistics, gaps: FloatArray, limits: Limits | None = None
) -> StateSpace:
    """M-step: return the dynamics that maximize the expected log density of the transitions.

    Parameters
    ----------
    params : StateSpace
        Parameters at which ``stats`` were taken.
    stats : Statistics
        Expected statistics.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.
    limits : Limits, optional
        Decays held fixed, and ranges of frequencies.

    Returns
    -------
    params : StateSpace
        The same with changed dynamics.
    """
    k = params.n_components
    sums = stats.innovation_power, stats.innovation_moments, stats.previous_power
    decay_over_gap = np.asarray(transition_over(params, gaps).decay)
    # Second moments of (z_t-1, z_t) from those of the innovations.
    power, moments, previous = (x[:, :k] for x in sums)
    cross = moments + decay_over_gap * previous
    current = power + 2.0 * decay_over_gap * cross - decay_over_gap**2 * previous
    decay = ar1.maximized(params.decay, stats.transitions, previous, cross, current, gaps)
    if limits is not None and limits.hold:
        decay = np.where(np.isnan(limits.decays), decay, limits.decays)
    processes = []
    for process, *blocks in zip(params.processes, *(_of_blocks(params, x) for x in sums), strict=True):
        matrix, _ = process.transitions(gaps)
        data = [
            BlockMoments(stats.transitions, matrix[:, j], *(x[:, j] for x in blocks))
            for j in range(len(process))
        ]
        processes.append(process.maximized(data, gaps, None if limits is None else limits.within(process)))
    return params.replace(decay=decay, processes=tuple(processes))


# ----------------------------------------------------------------------------------------- spectra


def information_frequencies(params: StateSpace, nodes_per_panel: int = 6) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes in (0, pi) and weights with mean one, dense around peaks of the spectra.

    The spectrum of an AR(1) process has a Lorentzian peak of width ``1 - |a|`` at 0, or at pi when ``a`` is
    negative; other kinds define theirs in ``Process.peaks``. The widths of the Gauss-Legendre panels increase
    with the distance from the peak, so that the number of nodes grows only with the logarithm of the
    narrowest width.
    """
    centres, width = [np.zeros(0)], [np.zeros(0)]
    for process in params.processes:
        of_kind = process.peaks
        centres.append(of_kind[0])
        width.append(of_kind[1])
    where, widths = np.concatenate(centres), np.concatenate(width)
    slow = params.decay[params.decay >= 0.0]
    edges = _panel_edges(np.append(slow, 1.0 - widths[where == 0.0]))
    mirrored = np.pi - _panel_edges(-params.decay[params.decay < 0.0])
    around = [
        np.clip(peak + np.outer([-1.0, 1.0], _panel_edges(np.array([1.0 - peak_width]))).ravel(), 0.0, np.pi)
        for peak, peak_width in zip(where, widths, strict=True)
        if peak > 0.0
    ]
    borders = np.unique(np.concatenate([edges, mirrored, *around, [0.0, np.pi]]))
    nodes, weights = _gauss_legendre(nodes_per_panel)
    half_widths = 0.5 * np.diff(borders)
    centre = 0.5 * (borders[1:] + borders[:-1])
    return (centre[:, None] + half_widths[:, None] * nodes).ravel(), (
        half_widths[:, None] * weights
    ).ravel() / np.pi


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
    """Spectra ``f`` of the states with loadings at ``W`` frequencies, and their derivatives.

    The methods compute products of these derivatives for the information and for Whittle's likelihood.
    ``weights`` (W,) are those of the frequencies, ``P`` is the number of coordinates of the dynamics, ``K``
    that of the states.

    Cross spectra between states of one process are neglected.

    Attributes
    ----------
    values : ndarray of shape (W, K)
        Spectrum of each state, whose mean over frequencies is its variance, one.
    slopes : ndarray of shape (W, E)
        Derivatives of spectra by coordinates: of each state by its own, or, if ``states`` is set, of
        the spectrum of ``states[e]`` by ``coordinates[e]``.
    states, coordinates : ndarray of shape (E,) or None, default=None
        State and coordinate of each derivative; None if they are one to one.
    n_dynamics : int, default=0
        Number of coordinates, used if they are not one to one.
    """

    values: FloatArray
    slopes: FloatArray
    states: NDArray[np.intp] | None = None
    coordinates: NDArray[np.intp] | None = None
    n_dynamics: int = 0

    def of_states(self, numbers: FloatArray) -> FloatArray:
        """Return values of states (..., K) for each derivative."""
        return numbers if self.states is None else numbers[..., self.states]

    def summed(self, numbers: FloatArray) -> FloatArray:
        """Sum values of derivatives (..., E) for each coordinate."""
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
        """Return the derivative (P,) of Whittle's likelihood.

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


def latent_spectra(params: StateSpace, omega: FloatArray, *, evenly_sampled: bool) -> LatentSpectra:
    """Return spectra of the states with loadings at frequencies ``omega`` (W,), and their derivatives."""
    values, slopes = ar1.spectra(params.decay, omega, evenly_sampled=evenly_sampled)
    if not params.processes:
        return LatentSpectra(values, slopes)
    all_values, all_slopes = [values], [slopes]
    states, coordinates = [np.arange(params.n_components)], [np.arange(params.n_components)]
    first, where = params.n_components, params.latents.coordinates
    for process in params.processes:
        of_states, by_free = process.spectra(omega)  # (W, N, S) and (W, N, S, C)
        count, n_seen = of_states.shape[1:]
        own = first + np.arange(count * n_seen).reshape(count, n_seen)
        free = where[type(process)].start + np.arange(process.n_free() * count).reshape(
            process.n_free(), count
        )
        all_values.append(of_states.reshape(len(omega), -1))
        all_slopes.append(by_free.reshape(len(omega), -1))
        states.append(np.repeat(own.ravel(), process.n_free()))
        coordinates.append(np.repeat(free.T[:, None], n_seen, axis=1).ravel())
        first += count * n_seen
    return LatentSpectra(
        np.hstack(all_values),
        np.hstack(all_slopes),
        np.concatenate(states),
        np.concatenate(coordinates),
        params.latents.n_dynamics,
    )


def dynamics_damping(params: StateSpace, n_rows: float, *, evenly_sampled: bool) -> FloatArray:
    """Return the information of `n_rows` transitions on the coordinates if the states were observed."""
    decay = params.decay
    of_decays = n_rows * (1.0 + decay**2) * ar1.ratio(decay, evenly_sampled=evenly_sampled) ** 2
    return np.concatenate([of_decays, *(process.damping(n_rows).ravel() for process in params.processes)])


def dynamics_curvature(params: StateSpace, gradient: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Return the second-derivative terms of the coordinates, which are proportional to the gradient.

    Only terms that shorten steps are included; see :class:`.Metric`.
    """
    # d^2 a / d s^2 over d a / d s is -2 a for a = tanh s, and 1 + log a for a = exp(-exp s).
    bend = 2.0 * params.decay if evenly_sampled else -1.0 - np.log(params.decay)
    of_decays = np.maximum(bend * gradient[: params.n_components], 0.0)
    others = [
        process.curvature(process_gradient).ravel()
        for process, process_gradient in _of_each(params, gradient)
    ]
    return np.concatenate([of_decays, *others])


# ------------------------------------------------------------------------------------------- all parameters


class Coordinates(NamedTuple):
    """Layout of the parameters as one vector.

    Attributes
    ----------
    latents : Latents
        Numbers of latent processes of each kind; AR(1) noise counts as AR(1) processes.
    variances : NoiseVariances
        Which columns share a noise variance, and which variances are known.
    evenly_sampled : bool
        Whether rows are evenly sampled, which determines the coordinates of the dynamics.
    n_ar1_noise : int, default=0
        Number of AR(1) processes, at the end, that are noise of the columns: ``D`` or zero.
    limits : Limits or None, default=None
        Fixed parameters and ranges of periods; without AR(1) noise, whose parameters are never fixed.
    """

    latents: Latents
    variances: NoiseVariances
    evenly_sampled: bool
    n_ar1_noise: int = 0
    limits: Limits | None = None

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return self.variances.n_features

    @property
    def holds(self) -> bool:
        """Whether any parameter is fixed."""
        return self.limits is not None and self.limits.hold

    @property
    def with_white_noise(self) -> "Coordinates":
        """The layout of the same latent processes with white noise."""
        alone = self.latents.with_components(self.latents.n_components - self.n_ar1_noise)
        return self._replace(latents=alone, n_ar1_noise=0)

    @property
    def with_ar1_noise(self) -> "Coordinates":
        """The layout of the same latent processes with AR(1) noise of each column."""
        more = self.latents.with_components(self.latents.n_components + self.n_features)
        return self._replace(latents=more, n_ar1_noise=self.n_features)

    @property
    def ar1_noise_states(self) -> slice:
        """Which of the states are AR(1) noise."""
        return slice(self.latents.n_components - self.n_ar1_noise, self.latents.n_components)

    @property
    def has_loading(self) -> BoolArray:
        """Which loadings (D, n_states) of the observed states have coordinates."""
        loaded = np.ones((self.n_features, self.n_states), dtype=bool)
        if self.n_ar1_noise:
            loaded[:, self.ar1_noise_states] = np.eye(self.n_features, dtype=bool)
        return loaded

    @property
    def n_loadings(self) -> int:
        """Number of loadings that have coordinates."""
        return self.n_features * (self.n_states - self.n_ar1_noise) + self.n_ar1_noise

    @property
    def n_states(self) -> int:
        """Number of observed states, whose loadings have coordinates."""
        return self.latents.n_seen

    @property
    def n_noise(self) -> int:
        """Number of noise coordinates."""
        return self.variances.n_free

    @property
    def size(self) -> int:
        """Number of coordinates, ``P``."""
        return self.latents.n_dynamics + self.n_loadings + self.n_noise + self.n_features

    @property
    def n_free(self) -> int:
        """Number of free parameters that change the likelihood."""
        alone = self.with_white_noise.latents.n_free(self.n_features)
        n = alone + 2 * self.n_ar1_noise + self.n_noise + self.n_features
        if self.limits is not None:  # fixed loadings determine phases, which are then not free
            n += int(np.count_nonzero(self.limits.fixed_phases)) - self.limits.n_held
        return n

    @property
    def limits_of_states(self) -> Limits | None:
        """The limits of all states, including AR(1) noise."""
        if self.limits is None or not self.n_ar1_noise:
            return self.limits
        decays, loadings, noise, frequencies, rhythms = self.limits
        k, free = len(decays), np.full(self.n_ar1_noise, np.nan)
        between = np.full((self.n_features, self.n_ar1_noise), np.nan)
        full = np.hstack([loadings[:, :k], between, loadings[:, k:]])
        moved = slice(rhythms.start + self.n_ar1_noise, rhythms.stop + self.n_ar1_noise)
        return Limits(np.append(decays, free), full, noise, frequencies, moved)

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest value of each coordinate (P,), equal if it is fixed."""
        lower, upper = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        limits = self.limits_of_states
        if limits is None:
            return lower, upper
        _, loadings, noise, _ = self.slices
        values = np.full(self.size, np.nan)
        decays = limits.decays
        values[: len(decays)] = np.arctanh(decays) if self.evenly_sampled else np.log(-np.log(decays))
        # A start may have fewer stochastic cycles: they are detected one after the other.
        if Rhythm in self.latents.counts:
            n, end = self.latents.counts[Rhythm], self.latents.coordinates[Rhythm].stop
            lower[end - n : end], upper[end - n : end] = limits.frequencies[:, :n]
        if limits.hold and limits.loadings.shape[1] == self.latents.n_states:
            values[loadings] = limits.loadings[:, self.latents.seen][self.has_loading]
            values[noise] = np.log(self.variances.of_groups(limits.noise))
        held = ~np.isnan(values)
        lower[held] = upper[held] = values[held]
        return lower, upper

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Slices of dynamics, loadings, noise and offset in the vector."""
        # Plain integers, because a fit reads this thousands of times; np.cumsum took 7 % of its time.
        first = self.latents.n_dynamics
        second = first + self.n_loadings
        third = second + self.n_noise
        fourth = third + self.n_features
        return slice(0, first), slice(first, second), slice(second, third), slice(third, fourth)


def to_vector(layout: Coordinates, params: StateSpace) -> FloatArray:
    """Return the coordinates (P,) of parameters."""
    return np.concatenate(
        [
            dynamics_to_free(params, evenly_sampled=layout.evenly_sampled),
            params.seen_loadings[layout.has_loading],
            np.log(layout.variances.of_groups(params.noise_variance)),
            params.offset,
        ]
    )


def from_vector(layout: Coordinates, vector: FloatArray, template: StateSpace) -> StateSpace:
    """Return the parameters at given coordinates; others, as known variances, are from ``template``."""
    dynamics, loadings, noise, offset = (vector[part] for part in layout.slices)
    variance = layout.variances.of_columns(np.exp(noise), template.noise_variance)
    moved = dynamics_from_free(template, dynamics, evenly_sampled=layout.evenly_sampled)
    loadings_of_observed = np.zeros((layout.n_features, layout.n_states))
    loadings_of_observed[layout.has_loading] = loadings
    return moved.with_seen_loadings(loadings_of_observed).replace(noise_variance=variance, offset=offset)


def score(layout: Coordinates, params: StateSpace, gaps: FloatArray, stats: Statistics) -> FloatArray:
    """Return the gradient (P,) of the log-likelihood with respect to the coordinates.

    By Fisher's identity it is the gradient of the expected complete-data log-likelihood, hence a function
    of the expected statistics at the same parameters (Olsson, Petersen & Lehn-Schioler 2007).
    """
    r = params.noise_variance
    by_latent = stats.residual_moments / r[:, None]
    by_noise = 0.5 * (stats.residual_power / r - stats.counts)
    by_dynamics = dynamics_score(params, gaps, stats, evenly_sampled=layout.evenly_sampled)
    return pack_gradient(layout, by_dynamics, by_latent[:, layout.latents.seen], by_noise, by_latent[:, -1])


def pack_gradient(
    layout: Coordinates,
    by_dynamics: FloatArray,
    by_loadings: FloatArray,
    by_log_noise: FloatArray,
    by_offset: FloatArray,
) -> FloatArray:
    """Concatenate gradients of dynamics' coordinates, ``C``, ``log r`` and ``mu`` to one vector (P,)."""
    by_variances = layout.variances.totals(by_log_noise)
    return np.concatenate([by_dynamics, by_loadings[layout.has_loading], by_variances, by_offset])
