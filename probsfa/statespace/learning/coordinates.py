"""Unconstrained coordinates of the parameters for optimizers, and constraints of the parameters.

The vector of coordinates consists of four parts::

    dynamics         atanh a        evenly sampled rows, decay a in (-1, 1)
                     log(-log a)    unevenly sampled rows, a in (0, 1): the logarithm of the rate
                                    then the coordinates of other processes (Process.to_free)
    loadings         C              on the states that enter observations (not on velocities, for example)
    noise variance   log r          one for each group of columns that share a variance
    offset           mu

If columns have AR(1) noise, the modules of this package treat the noise processes as states
(:attr:`.StateSpace.state_space`). The noise processes are the last AR(1) processes. Each has one free
loading, on its column.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.engine.dynamics import block_slices, transition_over, transition_score
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout, StateSpace, canonical
from probsfa.statespace.processes import BlockMoments, Process, ar1
from probsfa.statespace.processes.base import closest_order, closest_signs
from probsfa.statespace.processes.rhythm import Rhythm

# ---------------------------------------------------------------------------------------------- constraints

#: An estimated period is at most this factor longer or shorter than its initial value.
PERIOD_RANGE = 1.25


class Limits(NamedTuple):
    """Fixed parameters and ranges of frequencies, for standardized data; NaN where a parameter is free.

    Attributes
    ----------
    decays : ndarray of shape (K,)
        Fixed decays of AR(1) factors.
    loadings : ndarray of shape (D, n_states)
        Fixed loadings; NaN for states that do not affect observations directly, such as velocities.
    noise : ndarray of shape (D,)
        Fixed variances of white noise.
    frequencies : ndarray of shape (2, R)
        Lowest and highest frequency of each stochastic cycle, in radians per time step. They are equal if the
        frequency is fixed, and infinite if it has no limits.
    cycle_states : slice
        States of the stochastic cycles.
    """

    decays: FloatArray
    loadings: FloatArray
    noise: FloatArray
    frequencies: FloatArray
    cycle_states: slice

    @property
    def any_fixed(self) -> bool:
        """Whether at least one parameter is fixed."""
        return self.n_fixed > 0

    @property
    def fixed_frequencies(self) -> BoolArray:
        """Mask (R,) of stochastic cycles with a fixed frequency."""
        return np.asarray(self.frequencies[0] == self.frequencies[1])

    @property
    def n_fixed(self) -> int:
        """Number of fixed parameters."""
        parts = (~np.isnan(part) for part in (self.decays, self.loadings, self.noise))
        return sum(int(np.count_nonzero(part)) for part in (*parts, self.fixed_frequencies))

    @property
    def fixed_phases(self) -> BoolArray:
        """Mask (R,) of cycles whose phase is determined by fixed loadings.

        A column in which both loadings of a cycle are fixed at zero does not determine its phase.
        """
        n_cycles = self.frequencies.shape[1]
        pairs = self.loadings[:, self.cycle_states].reshape(len(self.loadings), n_cycles, 2)
        both_zero = np.all(pairs == 0.0, axis=2)
        return np.asarray(np.any(~np.isnan(pairs) & ~both_zero[:, :, None], axis=(0, 2)))

    def frequency_bounds(self, process: Process) -> FloatArray | None:
        """Return the bounds (2, R) of frequencies if the process is a stochastic cycle, else None."""
        return self.frequencies if process.from_periodogram else None

    @property
    def frequencies_only(self) -> "Limits":
        """The same ranges of frequencies, with all other parameters free."""
        decays, loadings, noise = (np.full_like(part, np.nan) for part in self[:3])
        return Limits(decays, loadings, noise, *self[3:])


def impose_limits(params: StateSpace, limits: Limits) -> StateSpace:
    """Set parameters to their fixed values, after matching the latent processes to these values.

    For each kind of process, the order, signs and phases with the smallest distance to the fixed values are
    selected. If the new loadings explain less variance, the difference is added to the noise variance.

    Parameters
    ----------
    params : StateSpace
        Parameters of the standardized data, without AR(1) noise.
    limits : Limits
        Fixed parameters and ranges of frequencies.

    Returns
    -------
    params : StateSpace
    """
    k, d = params.n_components, params.n_features
    ar1_loadings, fixed = params.loadings[:, :k], limits.loadings[:, :k]
    decay_distances = (np.arctanh(limits.decays)[:, None] - np.arctanh(params.decay)) ** 2
    # The distance is the sum of squared differences of loadings, in variances of the columns, and 0.1 times
    # squared differences of atanh of the decays.
    order = closest_order(
        ar1_loadings, fixed, 0.1 * np.where(np.isnan(decay_distances), 0.0, decay_distances)
    )
    decay, ar1_loadings = params.decay[order], ar1_loadings[:, order]
    parts, processes = [ar1_loadings * closest_signs(ar1_loadings, fixed)], []
    for process in params.processes:
        fixed = limits.loadings[:, params.state_layout.states[type(process)]]
        closest, loadings = process.closest(
            params.loadings_of(process),
            fixed.reshape(d, len(process), process.n_states),
            limits.frequency_bounds(process),
        )
        processes.append(closest)
        parts.append(loadings.reshape(d, -1))
    loadings = np.where(np.isnan(limits.loadings), np.hstack(parts), limits.loadings)
    explained_before, explained = (np.sum(x**2, axis=1) for x in (params.loadings, loadings))
    noise = params.noise_variance + np.maximum(explained_before - explained, 0.0)
    return params.replace(
        decay=np.where(np.isnan(limits.decays), decay, limits.decays),
        loadings=loadings,
        noise_variance=np.where(np.isnan(limits.noise), noise, limits.noise),
        processes=tuple(processes),
    )


def canonical_where_free(params: StateSpace, scale: FloatArray, limits: Limits | None) -> StateSpace:
    """Return parameters in canonical form, as far as fixed parameters allow.

    If no parameter is fixed, see :func:`~probsfa.statespace.parameters.canonical`. If any parameter is fixed,
    the order of the latent processes does not change. The signs of processes and the phases of stochastic
    cycles are made canonical, except for processes with fixed loadings other than zero.

    Parameters
    ----------
    params : StateSpace
        Parameters with any signs.
    scale : ndarray of shape (D,)
        Standard deviation of each column.
    limits : Limits or None
        Fixed parameters, in any units.
    """
    if limits is None or not limits.any_fixed:
        return canonical(params, scale)
    k, loadings = params.n_components, params.loadings.copy()
    has_fixed_loadings = np.any(limits.loadings != 0.0, axis=0, where=~np.isnan(limits.loadings))
    free = np.flatnonzero(~has_fixed_loadings[:k])
    loadings[:, free] *= canonical_signs(loadings[:, free], scale)
    for process in params.processes:
        states = params.state_layout.states[type(process)]
        positions = np.arange(states.start, states.stop).reshape(len(process), process.n_states)
        for j in np.flatnonzero(~np.any(has_fixed_loadings[positions], axis=1)):
            _, rotated = process.select([j]).canonical(loadings[:, positions[[j]]], scale)
            loadings[:, positions[j]] = rotated[:, 0]
    scales = np.abs(params.noise_scale)
    return params.replace(loadings=loadings, **({"noise_scale": scales} if params.has_ar1_noise else {}))


# -------------------------------------------------------------------------------- dynamics of the processes

# Coordinates, score, M-step and spectra of the dynamics of all latent processes.
#
# The first coordinates are the decays of AR(1) factors (:mod:`probsfa.statespace.processes.ar1`). They are
# followed by the coordinates of each other kind of process (:meth:`.Process.to_free`): the first coordinate
# of all its processes, then the second. The number of coordinates is ``StateLayout.n_dynamics``. The
# modules of :mod:`probsfa.statespace.processes` define their meaning.


def _split_by_kind(params: StateSpace, numbers: FloatArray) -> Iterator[tuple[Process, FloatArray]]:
    """Yield each kind of process with its part (C, N) of a vector over the coordinates of the dynamics."""
    for process in params.processes:
        part = params.state_layout.coordinates[type(process)]
        yield process, numbers[part].reshape(process.n_free(), len(process))


# ---------------------------------------------------------------------------------------- coordinates


def dynamics_to_free(params: StateSpace, *, evenly_sampled: bool) -> FloatArray:
    """Return the coordinates of the dynamics."""
    decays = ar1.to_free(params.decay, evenly_sampled=evenly_sampled)
    return np.concatenate([decays, *(process.to_free().ravel() for process in params.processes)])


def dynamics_from_free(template: StateSpace, free: FloatArray, *, evenly_sampled: bool) -> StateSpace:
    """Return a copy of ``template`` with the dynamics at given coordinates."""
    decay = ar1.from_free(free[: template.n_components], evenly_sampled=evenly_sampled)
    if not template.processes:
        return template.replace(decay=decay)
    processes = tuple(
        process.at(free_of_process).evenly_sampled() if evenly_sampled else process.at(free_of_process)
        for process, free_of_process in _split_by_kind(template, free)
    )
    return template.replace(decay=decay, processes=processes)


def clip_decays(params: StateSpace, *, evenly_sampled: bool) -> StateSpace:
    """Raise decays to a small positive minimum if rows are unevenly sampled."""
    if evenly_sampled:
        return params
    return params.replace(decay=np.maximum(params.decay, 10.0 * ar1.MIN_DECAY))


def longest_steps(state_layout: StateLayout) -> FloatArray:
    """Return the longest step of one iteration in each coordinate of the dynamics."""
    others = [np.repeat(kind.longest_steps, count) for kind, count in state_layout.counts.items()]
    return np.concatenate([np.ones(state_layout.n_components), *others])


def longest_loading_steps(params: StateSpace) -> FloatArray:
    """Return the longest step of one iteration in the loadings on each loaded state (n_loaded_states,).

    For stationary processes, the longest step is one standard deviation of a column. Trends have a diffuse
    initial state, and their loadings are larger by orders of magnitude. For trends, the longest step is the
    largest absolute initial loading, at least one and at most ``longest_loading_step`` of the kind. With
    longer steps, the optimizer often ends at a lower likelihood.
    """
    state_layout = params.state_layout
    others = [
        np.full(len(kind.loaded_states) * count, kind.longest_loading_step)
        for kind, count in state_layout.counts.items()
    ]
    maximum = np.concatenate([np.ones(state_layout.n_components), *others])
    return np.clip(np.max(np.abs(params.nonzero_loadings), axis=0, initial=0.0), 1.0, maximum)


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
        Whether rows are evenly sampled, which determines the coordinates of decays.

    Returns
    -------
    dict of ndarray
        Standard errors by fitted attribute: ``decay_`` and ``timescales_``, both (K,), and attributes of
        other processes (:meth:`.Process.standard_errors`). Errors of time scales are NaN for decays that are
        not positive.
    """
    derivative = np.abs(ar1.decay_derivative(params.decay, evenly_sampled=evenly_sampled))
    decay = derivative * np.sqrt(np.diagonal(covariance)[: params.n_components])
    positive = np.where(params.decay > 0.0, params.decay, np.nan)
    # timescale = -unit / log(a), so its derivative is unit / (a log(a)^2)
    errors = {"decay_": decay, "timescales_": time_unit * decay / (positive * np.log(positive) ** 2)}
    for process in params.processes:
        part, shape = params.state_layout.coordinates[type(process)], (process.n_free(), len(process))
        blocks = np.einsum("cndn->cdn", covariance[part, part].reshape(*shape, *shape))
        attributes = [quantity.attribute for quantity in process.quantities if quantity.scale]
        errors |= dict(zip(attributes, process.standard_errors(blocks, time_unit), strict=True))
    return errors


# -------------------------------------------------------------------------------- score and M-step


def _split_blocks(params: StateSpace, terms: FloatArray) -> Iterator[FloatArray]:
    """Split sums over transitions (U, L): yield matrices (U, N, B, B) of each kind except AR(1) factors."""
    shapes = [(len(process), process.n_states) for process in params.processes]
    for (count, size), part in zip(shapes, block_slices(params.n_components, shapes), strict=True):
        yield terms[:, part].reshape(-1, count, size, size)


def dynamics_score(
    params: StateSpace, gaps: FloatArray, stats: Statistics, *, evenly_sampled: bool
) -> FloatArray:
    """Return the score of the coordinates from the expected statistics at ``params``."""
    k, ar1_transition = params.n_components, transition_over(params, gaps)._replace(groups=())
    power, moments = stats.innovation_power, stats.innovation_moments
    by_decay = np.asarray(
        transition_score(ar1_transition, stats.transitions, power[:, :k], moments[:, :k]).decay
    )
    if evenly_sampled:  # d a = (1 - a^2) d atanh(a)
        by_coordinate = np.asarray(by_decay[0] * ar1_transition.innovation_variance[0])
    else:  # d a^g = a^g g log(a) d log(-log a)
        by_coordinate = np.asarray(
            np.sum(by_decay * ar1_transition.decay * gaps[:, None] * np.log(params.decay), axis=0)
        )
    kinds = zip(params.processes, _split_blocks(params, power), _split_blocks(params, moments), strict=True)
    others = [process.score(gaps, stats.transitions, *sums).ravel() for process, *sums in kinds]
    return np.concatenate([by_coordinate, *others])


def maximize_dynamics(
    params: StateSpace, stats: Statistics, gaps: FloatArray, limits: Limits | None = None
) -> StateSpace:
    """M-step: return the dynamics that maximize the expected log density of the transitions.

    Parameters
    ----------
    params : StateSpace
        Parameters at which ``stats`` were computed.
    stats : Statistics
        Expected statistics.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.
    limits : Limits, optional
        Fixed decays, and ranges of frequencies.

    Returns
    -------
    params : StateSpace
        A copy with other dynamics.
    """
    k = params.n_components
    sums = stats.innovation_power, stats.innovation_moments, stats.previous_power
    decay_over_gap = np.asarray(transition_over(params, gaps).decay)
    # Second moments of (z_t-1, z_t), from moments of the innovations.
    power, moments, previous = (x[:, :k] for x in sums)
    cross = moments + decay_over_gap * previous
    current = power + 2.0 * decay_over_gap * cross - decay_over_gap**2 * previous
    decay = ar1.maximized(params.decay, stats.transitions, previous, cross, current, gaps)
    if limits is not None and limits.any_fixed:
        decay = np.where(np.isnan(limits.decays), decay, limits.decays)
    processes = []
    for process, *blocks in zip(params.processes, *(_split_blocks(params, x) for x in sums), strict=True):
        matrix, _ = process.transitions(gaps)
        block_moments = [
            BlockMoments(stats.transitions, matrix[:, j], *(x[:, j] for x in blocks))
            for j in range(len(process))
        ]
        bounds = None if limits is None else limits.frequency_bounds(process)
        processes.append(process.maximized(block_moments, gaps, bounds))
    return params.replace(decay=decay, processes=tuple(processes))


# ----------------------------------------------------------------------------------------- spectra


# Nodes and weights of Gauss-Legendre quadrature on (-1, 1), for each panel of frequencies.
_NODES = np.polynomial.legendre.leggauss(6)


def information_frequencies(params: StateSpace) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes in (0, pi), dense near peaks of the spectra, and their weights.

    The weights sum to one. The spectrum of an AR(1) process has a Lorentzian peak of width ``1 - |a|`` at 0,
    or at pi if ``a`` is negative. Other processes define their peaks in :attr:`.Process.peaks`. The widths of
    the Gauss-Legendre panels increase with the distance from the peak, so that the number of nodes is
    proportional to the logarithm of the narrowest width.
    """
    peaks, widths = (
        np.concatenate([np.zeros(0), *(process.peaks[i] for process in params.processes)]) for i in (0, 1)
    )
    at_zero = _panel_edges(np.append(params.decay[params.decay >= 0.0], 1.0 - widths[peaks == 0.0]))
    at_pi = np.pi - _panel_edges(-params.decay[params.decay < 0.0])
    at_peaks = [
        np.clip(peak + np.outer([-1.0, 1.0], _panel_edges(np.array([1.0 - width]))).ravel(), 0.0, np.pi)
        for peak, width in zip(peaks, widths, strict=True)
        if peak > 0.0
    ]
    edges = np.unique(np.concatenate([at_zero, at_pi, *at_peaks, [0.0, np.pi]]))
    nodes, weights = _NODES
    half_widths = 0.5 * np.diff(edges)[:, None]
    centres = 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (centres + half_widths * nodes).ravel(), (half_widths * weights).ravel() / np.pi


def _panel_edges(decay: FloatArray) -> FloatArray:
    """Return edges of panels from 0 to pi whose distances from 0 grow by a factor of three.

    The first panel is at most 0.3 times as wide as the narrowest peak, the peak of the largest decay.
    """
    if decay.size == 0:
        return np.array([0.0, np.pi])
    narrowest = max(1.0 - float(decay.max()), 1e-9)
    n_panels = int(np.ceil(np.log(np.pi / (0.3 * narrowest)) / np.log(3.0)))
    return np.concatenate([[0.0], np.pi * 3.0 ** -np.arange(max(n_panels, 1), -1.0, -1.0)])


class LatentSpectra(NamedTuple):
    """Spectra ``f`` of the ``K`` states with loadings at ``W`` frequencies, and their derivatives.

    Derivatives are with respect to the ``P`` coordinates of the dynamics. Only those that are not zero are
    stored, one column for each of ``E`` pairs of a state and a coordinate; a coordinate of a stochastic
    cycle, for example, changes the spectra of two states. The methods compute sums over the frequencies, with
    ``weights`` (W,), for the expected information and for Whittle's likelihood. Cross spectra between states
    of one process are neglected.

    Attributes
    ----------
    values : ndarray of shape (W, K)
        Spectrum of each state. For a stationary state, the mean over frequencies is the variance, one.
    derivatives : ndarray of shape (W, E)
        Derivatives of the spectra with respect to the coordinates.
    state_of_derivative, coordinate_of_derivative : ndarray of shape (E,) or None, default=None
        State and coordinate of each derivative. With None, state ``e`` has the coordinate ``e``.
    n_dynamics : int, default=0
        Number of coordinates ``P``; only used if ``coordinate_of_derivative`` is not None.
    """

    values: FloatArray
    derivatives: FloatArray
    state_of_derivative: NDArray[np.intp] | None = None
    coordinate_of_derivative: NDArray[np.intp] | None = None
    n_dynamics: int = 0

    def select_states(self, by_state: FloatArray) -> FloatArray:
        """Select from an array over states (..., K) the entry of the state of each derivative: (..., E)."""
        return by_state if self.state_of_derivative is None else by_state[..., self.state_of_derivative]

    def sum_by_coordinate(self, by_derivative: FloatArray) -> FloatArray:
        """Sum an array over derivatives (..., E) to an array over coordinates (..., P)."""
        if self.coordinate_of_derivative is None:
            return by_derivative
        has_coordinate = self.coordinate_of_derivative[:, None] == np.arange(self.n_dynamics)
        return by_derivative @ has_coordinate.astype(np.float64)

    def information(self, weights: FloatArray, g: FloatArray) -> FloatArray:
        """Return the sum (P, P) of ``f'_j f'_k G_jk^2`` over frequencies, for ``G`` (W, K, K)."""
        derivatives = self.derivatives
        g_of_derivatives = self.select_states(self.select_states(g).swapaxes(1, 2)).swapaxes(1, 2)
        by_derivatives = np.tensordot(
            weights, derivatives[:, :, None] * derivatives[:, None, :] * g_of_derivatives**2, 1
        )
        return self.sum_by_coordinate(self.sum_by_coordinate(by_derivatives).T).T

    def noise_cross_information(self, weights: FloatArray, uh: FloatArray) -> FloatArray:
        """Return the sum (P, D) of ``f'_j (U H)_dj^2`` over frequencies, for ``U H`` (W, D, K)."""
        by_derivative = np.tensordot(weights, self.derivatives[:, None, :] * self.select_states(uh) ** 2, 1)
        return self.sum_by_coordinate(by_derivative).T

    def loading_cross_information(self, weights: FloatArray, h: FloatArray, g: FloatArray) -> FloatArray:
        """Return the sum (q, K, P) of ``f'_j f_k H_bj G_jk`` over frequencies.

        ``H`` has shape (W, q, K), ``G`` (W, K, K).
        """
        g_of_derivatives = self.select_states(g.swapaxes(1, 2)).swapaxes(1, 2)
        derivative_g_spectrum = self.derivatives[:, :, None] * g_of_derivatives * self.values[:, None, :]
        weighted = (weights[:, None, None] * self.select_states(h)).transpose(2, 1, 0)
        by_derivative = (weighted @ derivative_g_spectrum.transpose(1, 0, 2)).transpose(1, 2, 0)
        return self.sum_by_coordinate(by_derivative)

    def whittle_gradient(
        self, weights: FloatArray, explained: FloatArray, band: NDArray[np.intp], power: FloatArray
    ) -> FloatArray:
        """Return the gradient (P,) of Whittle's log-likelihood with respect to the dynamics.

        ``S`` is the spectral matrix of the observations.

        Parameters
        ----------
        weights : ndarray of shape (W,)
            Degrees of freedom of each band of frequencies.
        explained : ndarray of shape (M, K)
            ``C' S^-1 z`` of each row ``z`` of :attr:`.Periodogram.rows`.
        band : ndarray of shape (M,)
            Band of each row.
        power : ndarray of shape (W, K)
            Diagonal of ``C' S^-1 C``.
        """
        observed = np.sum(self.derivatives[band] * self.select_states(explained) ** 2, axis=0)
        expected = np.einsum("w,wk,wk->k", weights, self.derivatives, self.select_states(power))
        return self.sum_by_coordinate(np.asarray(0.5 * (observed - expected)))


def latent_spectra(params: StateSpace, omega: FloatArray, *, evenly_sampled: bool) -> LatentSpectra:
    """Compute spectra of the states with loadings at frequencies ``omega`` (W,), and their derivatives."""
    values, derivatives = ar1.spectra(params.decay, omega, evenly_sampled=evenly_sampled)
    if not params.processes:
        return LatentSpectra(values, derivatives)
    all_values, all_derivatives = [values], [derivatives]
    states, coordinates = [np.arange(params.n_components)], [np.arange(params.n_components)]
    first_state = params.n_components
    for process in params.processes:
        values, derivatives = process.spectra(omega)  # (W, N, S) and (W, N, S, C)
        count, n_loaded_states = values.shape[1:]
        n_free, first_coordinate = process.n_free(), params.state_layout.coordinates[type(process)].start
        process_states = first_state + np.arange(count * n_loaded_states)
        process_coordinates = first_coordinate + np.arange(n_free * count).reshape(n_free, count)
        all_values.append(values.reshape(len(omega), -1))
        all_derivatives.append(derivatives.reshape(len(omega), -1))
        states.append(np.repeat(process_states, n_free))
        coordinates.append(np.repeat(process_coordinates.T[:, None], n_loaded_states, axis=1).ravel())
        first_state += count * n_loaded_states
    return LatentSpectra(
        np.hstack(all_values),
        np.hstack(all_derivatives),
        np.concatenate(states),
        np.concatenate(coordinates),
        params.state_layout.n_dynamics,
    )


def dynamics_damping(params: StateSpace, n_rows: float, *, evenly_sampled: bool) -> FloatArray:
    """Return the information of `n_rows` transitions between observed states on the coordinates."""
    decay = params.decay
    by_decays = n_rows * (1.0 + decay**2) * ar1.atanh_derivative(decay, evenly_sampled=evenly_sampled) ** 2
    return np.concatenate([by_decays, *(process.damping(n_rows).ravel() for process in params.processes)])


def dynamics_curvature(params: StateSpace, gradient: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Return the terms of minus the second derivative of the log-likelihood that depend on the gradient.

    These terms are proportional to the gradient. They exist because decays are nonlinear functions of the
    coordinates. Only positive terms, which shorten steps, are included; see :class:`.Metric`.
    """
    # (d^2 a / d s^2) / (d a / d s) is -2 a for a = tanh s, and 1 + log a for a = exp(-exp s).
    second_over_first = -2.0 * params.decay if evenly_sampled else 1.0 + np.log(params.decay)
    by_decays = np.maximum(-second_over_first * gradient[: params.n_components], 0.0)
    others = [
        process.curvature(process_gradient).ravel()
        for process, process_gradient in _split_by_kind(params, gradient)
    ]
    return np.concatenate([by_decays, *others])


# ------------------------------------------------------------------------------------------- all parameters


class Coordinates(NamedTuple):
    """Positions of all free parameters in one vector, and bounds of its entries.

    Attributes
    ----------
    state_layout : StateLayout
        Numbers of latent processes of each kind; AR(1) noise counts as AR(1) processes.
    variances : NoiseVariances
        Which columns share a noise variance, and which variances are known.
    evenly_sampled : bool
        Whether rows are evenly sampled, which determines the coordinates of the dynamics.
    n_ar1_noise : int, default=0
        Number of AR(1) processes that are noise of the columns, ``D`` or zero; they are the last processes.
    limits : Limits or None, default=None
        Fixed parameters and ranges of frequencies of the factors. Parameters of AR(1) noise are never fixed.
    """

    state_layout: StateLayout
    variances: NoiseVariances
    evenly_sampled: bool
    n_ar1_noise: int = 0
    limits: Limits | None = None

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return self.variances.n_features

    @property
    def any_fixed(self) -> bool:
        """Whether any parameter is fixed."""
        return self.limits is not None and self.limits.any_fixed

    @property
    def with_white_noise(self) -> "Coordinates":
        """The coordinates of the same model without AR(1) noise."""
        factors = self.state_layout.with_components(self.state_layout.n_components - self.n_ar1_noise)
        return self._replace(state_layout=factors, n_ar1_noise=0)

    @property
    def with_ar1_noise(self) -> "Coordinates":
        """The coordinates of the same model with AR(1) noise of each column."""
        extended = self.state_layout.with_components(self.state_layout.n_components + self.n_features)
        return self._replace(state_layout=extended, n_ar1_noise=self.n_features)

    @property
    def ar1_noise_states(self) -> slice:
        """States that are AR(1) noise."""
        return slice(self.state_layout.n_components - self.n_ar1_noise, self.state_layout.n_components)

    @property
    def has_loading(self) -> BoolArray:
        """Mask (D, n_states) of loadings with coordinates; False for AR(1) noise of other columns."""
        has_loading = np.ones((self.n_features, self.n_states), dtype=bool)
        if self.n_ar1_noise:
            has_loading[:, self.ar1_noise_states] = np.eye(self.n_features, dtype=bool)
        return has_loading

    @property
    def n_loadings(self) -> int:
        """Number of loadings that have coordinates."""
        return self.n_features * (self.n_states - self.n_ar1_noise) + self.n_ar1_noise

    @property
    def n_states(self) -> int:
        """Number of states with loadings."""
        return self.state_layout.n_loaded_states

    @property
    def n_noise(self) -> int:
        """Number of noise coordinates."""
        return self.variances.n_free

    @property
    def size(self) -> int:
        """Number of coordinates, ``P``."""
        return self.state_layout.n_dynamics + self.n_loadings + self.n_noise + self.n_features

    @property
    def n_free(self) -> int:
        """Number of identified free parameters: rotations that do not change the likelihood do not count."""
        n_of_factors = self.with_white_noise.state_layout.n_free(self.n_features)
        n = n_of_factors + 2 * self.n_ar1_noise + self.n_noise + self.n_features
        if self.limits is not None:
            # A fixed loading that only determines the phase of a cycle does not reduce the number of free
            # parameters.
            n += int(np.count_nonzero(self.limits.fixed_phases)) - self.limits.n_fixed
        return n

    @property
    def limits_of_states(self) -> Limits | None:
        """The constraints for all states, including AR(1) noise, which is free."""
        if self.limits is None or not self.n_ar1_noise:
            return self.limits
        decays, loadings, noise, frequencies, cycle_states = self.limits
        k, free_decays = len(decays), np.full(self.n_ar1_noise, np.nan)
        free_loadings = np.full((self.n_features, self.n_ar1_noise), np.nan)
        loadings_of_states = np.hstack([loadings[:, :k], free_loadings, loadings[:, k:]])
        shifted = slice(cycle_states.start + self.n_ar1_noise, cycle_states.stop + self.n_ar1_noise)
        return Limits(np.append(decays, free_decays), loadings_of_states, noise, frequencies, shifted)

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of each coordinate (P,); equal if the parameter is fixed."""
        lower, upper = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        limits = self.limits_of_states
        if limits is None:
            return lower, upper
        _, loadings, noise, _ = self.slices
        values = np.full(self.size, np.nan)
        decays = limits.decays
        values[: len(decays)] = np.arctanh(decays) if self.evenly_sampled else np.log(-np.log(decays))
        # Cycles are added to the model one by one; `limits` has ranges for all of them from the beginning.
        if Rhythm in self.state_layout.counts:
            n, end = self.state_layout.counts[Rhythm], self.state_layout.coordinates[Rhythm].stop
            lower[end - n : end], upper[end - n : end] = limits.frequencies[:, :n]
        if limits.any_fixed and limits.loadings.shape[1] == self.state_layout.n_states:
            values[loadings] = limits.loadings[:, self.state_layout.loaded_states][self.has_loading]
            values[noise] = np.log(self.variances.group_values(limits.noise))
        fixed = ~np.isnan(values)
        lower[fixed] = upper[fixed] = values[fixed]
        return lower, upper

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Slices of dynamics, loadings, noise and offset in the vector."""
        # Sums of integers, because a fit evaluates this thousands of times; np.cumsum took 7 % of its time.
        loadings = self.state_layout.n_dynamics
        noise = loadings + self.n_loadings
        offset = noise + self.n_noise
        end = offset + self.n_features
        return slice(0, loadings), slice(loadings, noise), slice(noise, offset), slice(offset, end)


def to_vector(coordinates: Coordinates, params: StateSpace) -> FloatArray:
    """Return the coordinates (P,) of parameters."""
    return np.concatenate(
        [
            dynamics_to_free(params, evenly_sampled=coordinates.evenly_sampled),
            params.nonzero_loadings[coordinates.has_loading],
            np.log(coordinates.variances.group_values(params.noise_variance)),
            params.offset,
        ]
    )


def from_vector(coordinates: Coordinates, vector: FloatArray, template: StateSpace) -> StateSpace:
    """Return the parameters at given coordinates; known variances are those of ``template``."""
    dynamics, free_loadings, noise, offset = (vector[part] for part in coordinates.slices)
    variance = coordinates.variances.column_values(np.exp(noise), template.noise_variance)
    params = dynamics_from_free(template, dynamics, evenly_sampled=coordinates.evenly_sampled)
    loadings = np.zeros((coordinates.n_features, coordinates.n_states))
    loadings[coordinates.has_loading] = free_loadings
    return params.with_nonzero_loadings(loadings).replace(noise_variance=variance, offset=offset)


def score(coordinates: Coordinates, params: StateSpace, gaps: FloatArray, stats: Statistics) -> FloatArray:
    """Return the gradient (P,) of the log-likelihood with respect to the coordinates.

    By Fisher's identity, this is the gradient of the expected complete-data log-likelihood, a function of the
    expected statistics at the same parameters (Olsson, Petersen & Lehn-Schioler 2007).
    """
    r = params.noise_variance
    by_factor = stats.residual_moments / r[:, None]
    by_noise = 0.5 * (stats.residual_power / r - stats.counts)
    by_dynamics = dynamics_score(params, gaps, stats, evenly_sampled=coordinates.evenly_sampled)
    return pack_gradient(
        coordinates,
        by_dynamics,
        by_factor[:, coordinates.state_layout.loaded_states],
        by_noise,
        by_factor[:, -1],
    )


def pack_gradient(
    coordinates: Coordinates,
    by_dynamics: FloatArray,
    by_loadings: FloatArray,
    by_log_noise: FloatArray,
    by_offset: FloatArray,
) -> FloatArray:
    """Concatenate gradients with respect to dynamics, ``C``, ``log r`` and ``mu`` to one vector (P,)."""
    by_variances = coordinates.variances.totals(by_log_noise)
    return np.concatenate([by_dynamics, by_loadings[coordinates.has_loading], by_variances, by_offset])
