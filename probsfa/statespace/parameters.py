"""Parameters of the dynamic factor model.

The model of Turner & Sahani (2007, eqs. 6-9), with unit stationary variance (their section 4, after eq. 8)::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t
    x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

====== ============== ========== ========================================
symbol field          shape      meaning
====== ============== ========== ========================================
``a``  decay          ``(K,)``   lag-one autocorrelation of each factor
``C``  loadings       ``(D, S)`` loading of each state on each column
``r``  noise_variance ``(D,)``   variance of the white noise of each column
``mu`` offset         ``(D,)``   mean of each column
====== ============== ========== ========================================

A model may also have cycles, smooth factors and trends (:mod:`probsfa.statespace.processes`), whose states
follow those of the AR(1) factors. The noise of the columns may be autocorrelated. In addition to ``n_t``,
each column ``d`` then has an idiosyncratic AR(1) process ``b_d`` of unit variance::

    x_t,d = mu_d + C_d z_t + s_d b_t,d + n_t,d,   b_t,d = g_d b_t-1,d + sqrt(1 - g_d^2) e_t,d

with ``s_d`` = `noise_scale` and ``g_d`` = `noise_decay`. In the state-space form, these processes are AR(1)
factors with one loading each (:attr:`StateSpace.state_space`).
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import FrozenInstanceError
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._renamed import renamed_arguments, renamed_attribute, with_new_names
from probsfa._times import timescales_from_decay
from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.noise import TAILS
from probsfa.statespace.noise.gaussian import OF_AR1_NOISE, OF_WHITE_NOISE
from probsfa.statespace.processes import KINDS, Process
from probsfa.statespace.processes.ar1 import OF_AR1
from probsfa.statespace.processes.matern import Matern32, Matern52
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.quantities import Quantity

_EMPTY: FloatArray = np.zeros(0)
_EMPTY.flags.writeable = False
# Names of the arrays of each model, and of the arrays of AR(1) noise.
_COMMON_ARRAYS = ("decay", "loadings", "noise_variance", "offset")
_AR1_NOISE_ARRAYS = ("noise_decay", "noise_scale")
_ALL_ARRAYS = frozenset((*_COMMON_ARRAYS, *_AR1_NOISE_ARRAYS))
#: Map from array names of earlier versions, also in saved files and pickles, to new names.
RENAMED_ARRAYS: Mapping[str, str] = {"memory_decay": "noise_decay", "memory_scale": "noise_scale"}
# Maximum number of values of an array in a description.
_MAX_SHOWN = 8


class StateLayout:
    """Numbers of latent processes of each kind.

    The states of AR(1) factors come first, then those of the kinds in the order of
    :data:`~probsfa.statespace.processes.KINDS`.

    Parameters
    ----------
    n_components : int
        Number of AR(1) factors, ``K``.
    counts : mapping of type to int, optional
        Numbers of processes of other kinds.
    """

    def __init__(self, n_components: int, counts: Mapping[type[Process], int] | None = None) -> None:
        self.n_components = int(n_components)
        counts = counts or {}
        self.counts = {kind: int(counts[kind]) for kind in KINDS if counts.get(kind, 0)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateLayout) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        others = "".join(f", {kind.__name__}: {count}" for kind, count in self.counts.items())
        return f"StateLayout({self.n_components}{others})"

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.n_components, tuple(self.counts.items())

    def with_components(self, n_components: int) -> "StateLayout":
        """Return the same layout with another number of AR(1) factors."""
        return StateLayout(n_components, self.counts)

    @property
    def n_other_processes(self) -> int:
        """Number of processes that are not AR(1) factors."""
        return sum(self.counts.values())

    @property
    def n_from_periodogram(self) -> int:
        """Number of processes whose initial parameters are estimated from the periodogram."""
        return sum(count for kind, count in self.counts.items() if kind.from_periodogram)

    @property
    def n_from_ar1(self) -> int:
        """Number of processes whose initial parameters are converted from an AR(1) factor."""
        return self.n_other_processes - self.n_from_periodogram

    @cached_property
    def n_states(self) -> int:
        """Dimension of the state, which is the number of columns of the loadings."""
        return self.n_components + sum(kind.n_states * count for kind, count in self.counts.items())

    @cached_property
    def n_dynamics(self) -> int:
        """Number of free parameters of the dynamics."""
        return self.n_components + sum(kind.n_free() * count for kind, count in self.counts.items())

    @cached_property
    def n_loaded_states(self) -> int:
        """Number of states with loadings; derivatives of smooth factors, for example, have none."""
        return self.n_components + sum(len(kind.loaded_states) * count for kind, count in self.counts.items())

    @cached_property
    def loaded_states(self) -> NDArray[np.intp]:
        """Indices of the states with loadings, shape (n_loaded_states,)."""
        parts = [np.arange(self.n_components)]
        for kind, states in self.states.items():
            by_process = np.arange(states.start, states.stop).reshape(-1, kind.n_states)
            parts.append(by_process[:, list(kind.loaded_states)].ravel())
        indices = np.concatenate(parts)
        indices.flags.writeable = False  # the object is cached
        return indices

    @cached_property
    def stationary(self) -> BoolArray:
        """Mask (n_states,) of states that have loadings and are stationary; trends are not stationary."""
        is_stationary = np.zeros(self.n_states, dtype=bool)
        is_stationary[self.loaded_states] = True
        for kind, states in self.states.items():
            is_stationary[states] &= kind.stationary
        return is_stationary

    @cached_property
    def states(self) -> dict[type[Process], slice]:
        """Slice of the states of each kind of process."""
        slices, first = {}, self.n_components
        for kind, count in self.counts.items():
            slices[kind] = slice(first, first + kind.n_states * count)
            first += kind.n_states * count
        return slices

    @cached_property
    def coordinates(self) -> dict[type[Process], slice]:
        """Slice of each kind of process in the vector of free coordinates, after those of the decays."""
        slices, first = {}, self.n_components
        for kind, count in self.counts.items():
            slices[kind] = slice(first, first + kind.n_free() * count)
            first += kind.n_free() * count
        return slices

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each process, in the order of the states."""
        other_sizes = (size for kind, count in self.counts.items() for size in (kind.n_states,) * count)
        return (*(1,) * self.n_components, *other_sizes)

    @property
    def n_rotated(self) -> int:
        """Number of angles by which states can be rotated without a change of the likelihood."""
        return sum(kind.n_rotated(count) for kind, count in self.counts.items())

    def n_free(self, n_features: int) -> int:
        """Return the number of free parameters of the processes and their loadings on `n_features` columns.

        All loadings of AR(1) factors are free, because AR(1) factors of unit variance with different decays
        are identified up to their order and signs.
        """
        return self.n_dynamics + self.n_loaded_states * n_features - self.n_rotated

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of AR(1) factors, followed by the number of processes of each other kind."""
        return self.n_components, *(self.counts.get(kind, 0) for kind in KINDS)

    def without(self, others: "StateLayout") -> "StateLayout":
        """Return the layout with the differences of the numbers of processes, which may be negative."""
        differences = {kind: self.counts.get(kind, 0) - others.counts.get(kind, 0) for kind in KINDS}
        return StateLayout(self.n_components - others.n_components, differences)

    @property
    def names(self) -> list[str]:
        """Names of the states that are not AR(1) factors."""
        return [name for kind, count in self.counts.items() for name in kind.labels(count)]


class StateSpace:
    """A state-space model: its latent processes, their loadings on the columns, noise and offset.

    The model has ``K`` AR(1) factors, processes of other kinds, and ``D`` columns. :meth:`describe` returns
    it as text, :meth:`to_arrays` as arrays by name. Instances are immutable; :meth:`replace` returns a
    changed copy. ``==`` compares identity; compare the arrays instead.

    Parameters
    ----------
    decay : ndarray of shape (K,)
        Lag-one autocorrelation of each AR(1) factor, inside (-1, 1).
    loadings : ndarray of shape (D, S)
        Observation matrix, in data units per standard deviation of a state. Entries are zero for states that
        do not affect the columns directly, such as the derivatives of smooth processes.
    noise_variance : ndarray of shape (D,)
        Observation noise variance, in squared data units.
    offset : ndarray of shape (D,)
        Mean of the observations, in data units.
    processes : sequence of Process, optional
        Cycles, smooth factors and trends: one object for all processes of a kind.
    noise_decay : ndarray of shape (D,) or (0,), optional
        Lag-one autocorrelation of the AR(1) noise of each column, inside (-1, 1); empty for white noise.
    noise_scale : ndarray of shape (D,) or (0,), optional
        Standard deviation of the AR(1) noise, in data units, zero or positive.
    **arrays : ndarray
        Arrays of cycles, smooth factors and trends by the names of :meth:`to_arrays`, instead of `processes`.

    Attributes
    ----------
    processes : tuple of Process
        Cycles, smooth factors and trends, in the order of their states.

    Notes
    -----
    The modules of this package that use JAX register the class as a pytree, whose leaves are the arrays
    (:mod:`probsfa.statespace.engine.settings`). Arrays are not validated here, because JAX creates instances
    whose leaves are not arrays; :func:`make_parameters` validates them.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    processes: tuple[Process, ...]
    noise_decay: FloatArray
    noise_scale: FloatArray

    @renamed_arguments(RENAMED_ARRAYS)
    def __init__(
        self,
        decay: FloatArray,
        loadings: FloatArray,
        noise_variance: FloatArray,
        offset: FloatArray,
        processes: Iterator[Process] | tuple[Process, ...] = (),
        *,
        noise_decay: FloatArray = _EMPTY,
        noise_scale: FloatArray = _EMPTY,
        **arrays: FloatArray,
    ) -> None:
        processes = tuple(processes) or _processes_of(arrays)
        self.__dict__.update(
            decay=decay,
            loadings=loadings,
            noise_variance=noise_variance,
            offset=offset,
            processes=tuple(
                sorted((one for one in processes if len(one)), key=lambda one: KINDS.index(type(one)))
            ),
            noise_decay=noise_decay,
            noise_scale=noise_scale,
        )

    def __new__(cls, *arrays: Any, **by_name: Any) -> Self:  # noqa: ARG004
        """Create an instance.

        In earlier versions this class was a tuple. Pickles of these versions pass the first four arrays to
        ``__new__`` and the other arrays to ``__setstate__``, without a call of ``__init__``.
        """
        instance = super().__new__(cls)
        instance.__dict__.update(zip(_COMMON_ARRAYS, arrays, strict=False))
        return instance

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"parameters cannot be changed; use replace({name}=...).")

    def __setstate__(self, state: Any) -> None:
        """Restore an instance from a pickle.

        In pickles of earlier versions the arrays of processes are attributes of this class, and some arrays
        have other names.
        """
        if not isinstance(state, dict):
            state = {name: value for part in state if part for name, value in part.items()}
        state = with_new_names(state, RENAMED_ARRAYS)
        common = {name: state.get(name, self.__dict__.get(name)) for name in _COMMON_ARRAYS}
        optional = {name: state[name] for name in ("processes", *_AR1_NOISE_ARRAYS) if name in state}
        arrays = {name: state[name] for kind in KINDS for name in kind.names.values() if name in state}
        self.__init__(**common, **optional, **arrays)  # type: ignore[misc]

    def __iter__(self) -> Iterator[FloatArray]:
        """Iterate over decay, loadings, noise variance and offset; deprecated."""
        warnings.warn(
            "Unpacking a StateSpace is deprecated and will fail in version 2.0. Use the attributes decay, "
            "loadings, noise_variance and offset.",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter([getattr(self, name) for name in _COMMON_ARRAYS])

    def __repr__(self) -> str:
        """Return the arrays of the model by name."""
        return f"StateSpace({', '.join(f'{name}={array!r}' for name, array in self.to_arrays().items())})"

    def replace(self, **changes: Any) -> Self:
        """Return the same parameters with some arrays changed.

        Parameters
        ----------
        **changes : ndarray
            New arrays by the names of :meth:`to_arrays`, or new `processes`.

        Returns
        -------
        params : StateSpace
        """
        if changes.keys() <= _ALL_ARRAYS:
            changed = object.__new__(type(self))
            changed.__dict__.update(self.__dict__, **changes)
            return changed
        changes = with_new_names(changes, RENAMED_ARRAYS, stacklevel=2)
        arrays = {name: changes.get(name, getattr(self, name)) for name in _ALL_ARRAYS}
        processes = changes.get("processes", self.processes)
        changes_of_processes = {
            name: value for name, value in changes.items() if name not in {*_ALL_ARRAYS, "processes"}
        }
        if changes_of_processes:
            arrays_of_processes = {name: array for one in processes for name, array in one.arrays().items()}
            processes = _processes_of({**arrays_of_processes, **changes_of_processes})
        return type(self)(**arrays, processes=processes)

    def describe(self) -> str:
        """Return the processes, the noise and their parameters as text, in one line each.

        Examples
        --------
        >>> from probsfa.statespace import make_parameters
        >>> print(make_parameters([0.9, 0.5], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 0.1).describe())
        3 columns, 2 states
        2 AR(1): decay 0.9, 0.5
        white noise: noise_variance 0.1, 0.1, 0.1
        """

        def values(name: str, array: FloatArray) -> str:
            shown = ", ".join(f"{value:.6g}" for value in np.ravel(array)[:_MAX_SHOWN])
            return f"{name} {shown}{', ...' if np.size(array) > _MAX_SHOWN else ''}"

        lines = [f"{self.n_features} columns, {self.n_states} states"]
        if self.n_components:
            lines.append(f"{self.n_components} AR(1): {values('decay', self.decay)}")
        for one in self.processes:
            arrays = "; ".join(values(name, array) for name, array in one.arrays().items())
            lines.append(f"{len(one)} {type(one).__name__}: {arrays}")
        lines.append(f"white noise: {values('noise_variance', self.noise_variance)}")
        if self.has_ar1_noise:
            arrays = "; ".join(values(name, getattr(self, name)) for name in _AR1_NOISE_ARRAYS)
            lines.append(f"AR(1) noise of each column: {arrays}")
        return "\n".join(lines)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays of the model by name."""
        arrays = {name: getattr(self, name) for name in _COMMON_ARRAYS}
        arrays |= {name: array for one in self.processes for name, array in one.arrays().items()}
        return arrays | {
            name: getattr(self, name) for name in _AR1_NOISE_ARRAYS if np.size(getattr(self, name))
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Self:
        """Return parameters from the arrays of :meth:`to_arrays`.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            Arrays by name. Arrays of processes that the model does not have may be omitted. Other names are
            ignored.

        Returns
        -------
        params : StateSpace

        Raises
        ------
        ValueError
            If an array that every model has is missing.
        """
        missing = [name for name in _COMMON_ARRAYS if name not in arrays]
        if missing:
            raise ValueError(
                f"arrays must contain {', '.join(_COMMON_ARRAYS)}; {', '.join(missing)} missing."
            )
        arrays = with_new_names(arrays, RENAMED_ARRAYS, stacklevel=2)
        names = (
            *_COMMON_ARRAYS,
            *_AR1_NOISE_ARRAYS,
            *(name for kind in KINDS for name in kind.names.values()),
        )
        selected: Any = {name: arrays[name] for name in names if name in arrays}
        return cls(**selected)

    def of_kind(self, kind: type[Process]) -> Process | None:
        """Return all processes of one type, such as cycles (``Rhythm``); None if the model has none."""
        return next((one for one in self.processes if type(one) is kind), None)

    def loadings_of(self, process: Process) -> FloatArray:
        """Return the loadings (D, n, B) of the ``n`` processes of one kind, with ``B`` states each."""
        states = self.state_layout.states[type(process)]
        return self.loadings[:, states].reshape(self.n_features, len(process), process.n_states)

    @property
    def rhythm_decay(self) -> FloatArray:
        """Damping factor of each stochastic cycle over one time step (R,)."""
        rhythms = self.of_kind(Rhythm)
        return _EMPTY if rhythms is None else rhythms.decay  # type: ignore[attr-defined]

    @property
    def rhythm_frequency(self) -> FloatArray:
        """Frequency of each stochastic cycle (R,), in radians per time step."""
        rhythms = self.of_kind(Rhythm)
        return _EMPTY if rhythms is None else rhythms.frequency  # type: ignore[attr-defined]

    @property
    def smooth_rate(self) -> FloatArray:
        """``sqrt(3) / timescale`` of each Matern-3/2 process (M,), per time step."""
        smooth = self.of_kind(Matern32)
        return _EMPTY if smooth is None else smooth.rate  # type: ignore[attr-defined]

    @property
    def rhythm_periods(self) -> FloatArray:
        """Periods of the stochastic cycles (R,), in time steps."""
        return 2.0 * np.pi / np.abs(self.rhythm_frequency)

    @property
    def smooth_timescales(self) -> FloatArray:
        """Time scales of the smooth processes (M,), in time steps."""
        smooth = self.of_kind(Matern32) or self.of_kind(Matern52)
        return _EMPTY if smooth is None else smooth.timescales  # type: ignore[attr-defined]

    @property
    def state_layout(self) -> StateLayout:
        """Numbers of latent processes of each kind."""
        return _factors(len(self.decay), *((type(one), len(one)) for one in self.processes))

    @property
    def ar1_factors_only(self) -> Self:
        """The model of the AR(1) factors with white noise, without other processes."""
        loadings = self.loadings[:, : self.n_components]
        return type(self)(self.decay, loadings, self.noise_variance, self.offset)

    @property
    def n_components(self) -> int:
        """Number of AR(1) factors, ``K``."""
        return int(self.decay.shape[0])

    @property
    def n_states(self) -> int:
        """Dimension of the state, which is the number of columns of the loadings."""
        return int(self.loadings.shape[1])

    @property
    def nonzero_loadings(self) -> FloatArray:
        """Loadings (D, n_loaded_states) of the states with loadings; loadings of other states are zero."""
        state_layout = self.state_layout
        has_all = state_layout.n_loaded_states == state_layout.n_states
        return self.loadings if has_all else self.loadings[:, state_layout.loaded_states]

    def with_nonzero_loadings(self, nonzero_loadings: FloatArray) -> Self:
        """Return the same parameters with other :attr:`nonzero_loadings`."""
        state_layout = self.state_layout
        if state_layout.n_loaded_states == state_layout.n_states:
            return self.replace(loadings=nonzero_loadings)
        loadings = np.zeros((len(nonzero_loadings), state_layout.n_states))
        loadings[:, state_layout.loaded_states] = nonzero_loadings
        return self.replace(loadings=loadings)

    @property
    def free_loadings(self) -> BoolArray:
        """Mask of the free :attr:`nonzero_loadings` (D, n_loaded_states).

        Loadings that :func:`canonical` fixes are not free. For each stochastic cycle this is one loading,
        because the phase is zero in one column. All loadings of random walks are free in this mask, but
        :meth:`StateLayout.n_free` subtracts the angles of their rotations.
        """
        is_free = np.ones((self.n_features, self.state_layout.n_states), dtype=bool)
        for one in self.processes:
            states = self.state_layout.states[type(one)]
            is_free[:, states] = one.free_loadings(self.loadings_of(one)).reshape(self.n_features, -1)
        return is_free[:, self.state_layout.loaded_states]

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return int(self.loadings.shape[0])

    @property
    def has_ar1_noise(self) -> bool:
        """Whether the noise of the columns is autocorrelated."""
        return len(self.noise_scale) > 0

    latents = renamed_attribute("StateSpace.latents", "state_layout")
    has_memory = renamed_attribute("StateSpace.has_memory", "has_ar1_noise")
    memory_decay = renamed_attribute("StateSpace.memory_decay", "noise_decay")
    memory_scale = renamed_attribute("StateSpace.memory_scale", "noise_scale")
    memory_share = renamed_attribute("StateSpace.memory_share", "noise_share")

    @property
    def noise_share(self) -> FloatArray:
        """Share of AR(1) noise in the variance of each column (D,); the variance excludes trends."""
        variance = self.noise_scale**2
        total = np.sum(self.stationary_loadings**2, axis=1) + variance + self.noise_variance
        return np.asarray(variance / total)

    @property
    def stationary_loadings(self) -> FloatArray:
        """Loadings of the states with loadings and a stationary variance."""
        return self.loadings[:, self.state_layout.stationary]

    @property
    def state_space(self) -> Self:
        """The state-space form of the model, in which the AR(1) noise of each column is an AR(1) factor.

        These factors follow the other AR(1) factors and precede processes of other kinds.
        """
        if not self.has_ar1_noise:
            return self
        k = self.n_components
        return type(self)(
            np.append(self.decay, self.noise_decay),
            np.hstack([self.loadings[:, :k], np.diag(self.noise_scale), self.loadings[:, k:]]),
            self.noise_variance,
            self.offset,
            self.processes,
        )

    def without_ar1_noise_states(self) -> Self:
        """Invert :attr:`state_space`: return the model whose AR(1) noise is the last ``D`` AR(1) factors."""
        k = self.n_components - self.n_features
        noise = slice(k, self.n_components)
        return self.replace(
            decay=self.decay[:k],
            loadings=np.delete(self.loadings, noise, axis=1),
            noise_decay=self.decay[noise],
            noise_scale=np.abs(np.diagonal(self.loadings[:, noise])),
        )

    @property
    def shared_states(self) -> NDArray[np.intp]:
        """Indices of the states in :attr:`state_space` that are not AR(1) noise of the columns."""
        return np.delete(
            np.arange(self.n_states + len(self.noise_scale)),
            slice(self.n_components, self.n_components + len(self.noise_scale)),
        )


@cache
def _factors(n_components: int, *counts: tuple[type[Process], int]) -> StateLayout:
    """Return a layout; cached, because a fit reads :attr:`StateSpace.state_layout` ten thousand times."""
    return StateLayout(n_components, dict(counts))


def _processes_of(arrays: Mapping[str, FloatArray]) -> tuple[Process, ...]:
    """Return processes from arrays by name; each kind of process requires all of its arrays."""
    remaining, processes = dict(arrays), []
    for kind in KINDS:
        fields = {field: remaining.pop(name) for field, name in kind.names.items() if name in remaining}
        if fields and any(np.size(array) for array in fields.values()):
            processes.append(kind(**fields))
    if remaining:
        raise TypeError(f"there are no parameters named {', '.join(sorted(remaining))}.")
    return tuple(processes)


@renamed_arguments(RENAMED_ARRAYS)
def make_parameters(
    decay: ArrayLike,
    loadings: ArrayLike,
    noise_variance: ArrayLike,
    offset: ArrayLike = 0.0,
    *,
    noise_decay: ArrayLike | None = None,
    noise_scale: ArrayLike | None = None,
) -> StateSpace:
    """Validate parameters and broadcast them to their full shapes.

    Parameters
    ----------
    decay : array-like of shape (K,)
        Values strictly inside (-1, 1).
    loadings : array-like of shape (D, K)
        Observation matrix.
    noise_variance : float or array-like of shape (D,)
        Strictly positive; a number means the same variance for all columns.
    offset : float or array-like of shape (D,), default=0.0
        Mean of the observations.
    noise_decay : float or array-like of shape (D,), optional
        Lag-one autocorrelation of the AR(1) noise of each column, or one number for all columns, inside
        (-1, 1); None for white noise.
    noise_scale : float or array-like of shape (D,), optional
        Standard deviation of the AR(1) noise, zero or positive; required with `noise_decay`.

    Returns
    -------
    params : StateSpace

    Raises
    ------
    ValueError
        If shapes do not agree, or a value is not finite or outside its range.

    Examples
    --------
    >>> from probsfa.statespace import make_parameters
    >>> params = make_parameters([0.9, 0.5], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 0.1)
    >>> params.n_features, params.n_components
    (3, 2)
    """
    decays = np.atleast_1d(np.asarray(decay, dtype=np.float64))
    matrix = np.asarray(loadings, dtype=np.float64)
    if decays.ndim != 1:
        raise ValueError(f"decay must be one-dimensional, got shape {decays.shape}.")
    if matrix.ndim != 2 or matrix.shape[1] != decays.size:
        raise ValueError(
            f"loadings must have shape (n_features, {decays.size}) to match decay, got shape {matrix.shape}."
        )
    n_features = matrix.shape[0]
    if (noise_decay is None) != (noise_scale is None):
        raise ValueError("noise_decay and noise_scale must be set together. Pass both of them, or neither.")
    arguments = {"noise_variance": noise_variance, "offset": offset}
    if noise_decay is not None and noise_scale is not None:
        arguments |= {"noise_decay": noise_decay, "noise_scale": noise_scale}
    vectors = {}
    for name, argument in arguments.items():
        vector = np.asarray(argument, dtype=np.float64)
        if vector.shape not in ((), (n_features,)):
            raise ValueError(
                f"{name} must be a number or have shape ({n_features},), got shape {vector.shape}."
            )
        vectors[name] = np.array(np.broadcast_to(vector, (n_features,)))
    for name, array in (("decay", decays), ("loadings", matrix), *vectors.items()):
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}.")
    for name, array in (("decay", decays), ("noise_decay", vectors.get("noise_decay", decays))):
        if np.any(np.abs(array) >= 1.0):
            raise ValueError(
                f"{name} must lie strictly inside (-1, 1), got {array[np.abs(array) >= 1.0][0]}."
            )
    if np.any(vectors.get("noise_scale", _EMPTY) < 0.0):
        raise ValueError(f"noise_scale must be zero or positive, got {vectors['noise_scale'].min()}.")
    if np.any(vectors["noise_variance"] <= 0.0):
        column = int(np.flatnonzero(vectors["noise_variance"] <= 0.0)[0])
        raise ValueError(
            f"noise_variance must be positive, got {vectors['noise_variance'][column]} for column {column}; "
            "for the noise-free limit use ProbabilisticSFA(noise=0.0)."
        )
    return StateSpace.from_arrays({"decay": decays, "loadings": matrix, **vectors})


def canonical(params: StateSpace, scale: ArrayLike) -> StateSpace:
    """Order the factors, slowest first, and fix their signs and phases.

    The likelihood does not change if factors are permuted or change sign, or if the two states of a
    stochastic cycle are rotated. This function selects one of the equivalent models. AR(1) factors are sorted
    by decay. The phase of a stochastic cycle is zero in the column in which it has its largest amplitude, in
    units of `scale`. Rules of other processes: :meth:`.Process.canonical`.

    Parameters
    ----------
    params : StateSpace
        Parameters in any order.
    scale : array-like of shape (D,)
        Standard deviation of each column, which makes loadings comparable between columns.

    Returns
    -------
    params : StateSpace
        Equivalent parameters in the canonical order, with canonical signs and phases.
    """
    units = np.asarray(scale, dtype=np.float64)
    params = params.replace(noise_scale=np.abs(params.noise_scale)) if params.has_ar1_noise else params
    order = np.argsort(-params.decay, kind="stable")
    ar1_loadings = params.loadings[:, : params.n_components][:, order]
    parts, processes = [ar1_loadings * canonical_signs(ar1_loadings, units)], []
    for one in params.processes:
        ordered, loadings = one.canonical(params.loadings_of(one), units)
        processes.append(ordered)
        parts.append(loadings.reshape(params.n_features, -1))
    return params.replace(decay=params.decay[order], loadings=np.hstack(parts), processes=tuple(processes))


def rescale(params: StateSpace, shift: FloatArray, scale: FloatArray) -> StateSpace:
    """Return the parameters for data ``shift + scale * x``, given those for data ``x``."""
    if params.has_ar1_noise:
        params = params.replace(noise_scale=params.noise_scale * scale)
    return params.replace(
        loadings=params.loadings * scale[:, None],
        noise_variance=params.noise_variance * scale**2,
        offset=shift + scale * params.offset,
    )


def with_more_factors(params: StateSpace, new: StateSpace) -> StateSpace:
    """Return parameters with the processes of both models, and noise and offset of the first model."""
    parts = [params.loadings[:, : params.n_components], new.loadings[:, : new.n_components]]
    processes = []
    for kind in KINDS:
        of_kind = [(model, one) for model in (params, new) if (one := model.of_kind(kind)) is not None]
        parts += [model.loadings_of(one).reshape(model.n_features, -1) for model, one in of_kind]
        if of_kind:
            first, *second = (one for _, one in of_kind)
            processes.append(first.concatenate(second[0]) if second else first)
    return params.replace(
        decay=np.append(params.decay, new.decay), loadings=np.hstack(parts), processes=tuple(processes)
    )


def select_processes(params: StateSpace, selected: Mapping[type[Process], NDArray[np.intp]]) -> StateSpace:
    """Return parameters with all AR(1) factors, and the selected processes of other kinds, by index."""
    parts, processes = [params.loadings[:, : params.n_components]], []
    for one in params.processes:
        index = selected.get(type(one), np.arange(len(one)))
        processes.append(one.select(index))
        parts.append(params.loadings_of(one)[:, index].reshape(params.n_features, -1))
    return params.replace(loadings=np.hstack(parts), processes=tuple(processes))


# ------------------------------------------------------------------------------------ fitted attributes

_COEFFICIENTS = Quantity("exog_coef_", "coefficient", "data", ("column", "covariate"), "linear")
_MEAN = Quantity("mean_", "mean", "data", ("column",), "linear", "offset")
_LOADINGS = Quantity("loadings_", "loading", "data", ("column", "state"), "linear")


def _by_attribute(*groups: Iterable[Quantity]) -> Mapping[str, Quantity]:
    return {one.attribute: one for group in groups for one in group}


#: Quantities of all models by attribute.
QUANTITIES: Mapping[str, Quantity] = _by_attribute(
    (_COEFFICIENTS,),
    OF_AR1,
    *(kind.quantities for kind in KINDS),
    OF_AR1_NOISE,
    *(tails.quantities for tails in TAILS.values()),
    (_MEAN,),
    OF_WHITE_NOISE,
    (_LOADINGS,),
)


def fitted_attributes(params: StateSpace, time_unit: float) -> dict[str, Any]:
    """Return the fitted attributes of the processes and the noise of a model, by name.

    Parameters
    ----------
    params : StateSpace
        Parameters in data units.
    time_unit : float
        Unit of time of the decays.
    """
    attributes = {
        "decay_": params.decay,
        "timescales_": timescales_from_decay(params.decay, time_unit),
        "loadings_": params.loadings,
        "noise_variance_": params.noise_variance,
        "mean_": params.offset,
    }
    for one in params.processes:
        values = one.attributes(params.loadings_of(one), time_unit)
        attributes |= {each.attribute: value for each, value in zip(one.quantities, values, strict=True)}
    if params.has_ar1_noise:
        timescales = timescales_from_decay(params.noise_decay, time_unit)
        values = params.noise_decay, timescales, params.noise_scale, params.noise_share
        attributes |= {each.attribute: value for each, value in zip(OF_AR1_NOISE, values, strict=True)}
    return attributes
