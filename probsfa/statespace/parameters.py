"""Parameters of the factorial AR(1) model.

The model of Turner & Sahani (2007, eqs. 6-9), with unit stationary variance (their section 4, after eq. 8)::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t
    x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

========= ================= ========= =====================================================
symbol    field             shape     meaning
========= ================= ========= =====================================================
``a``     decay             ``(K,)``  correlation of a latent with itself one step later
``C``     loadings          ``(D, K)`` how each latent shows in each feature
``r``     noise_variance    ``(D,)``  variance of the observation noise of each feature
``mu``    offset            ``(D,)``  mean of each feature
========= ================= ========= =====================================================

Beside these latents there may be some of two states each, in the last columns of the loadings. All have unit
stationary variance and no stationary covariance between their two states, so that the engine knows them only
by their transitions:

*rhythms*, damped oscillators. ``z`` is the real and ``z*`` the imaginary part of a complex AR(1) process::

    A(dt) = rho ** dt [[cos w dt, -sin w dt], [sin w dt, cos w dt]]

*smooth latents*, Gaussian processes with the Matern-3/2 kernel, whose paths have a derivative. ``z`` is the
value, ``z*`` the derivative in units of its standard deviation, which no column sees (Hartikainen & Sarkka
2010)::

    A(dt) = exp(-d) [[1 + d, d], [-d, 1 - d]],        d = sqrt(3) dt / timescale

The noise of the columns may have *memory*: beside ``n_t`` each column ``d`` then has an AR(1) process of unit
variance of its own, which no other column sees::

    x_t,d = mu_d + C_d z_t + s_d b_t,d + n_t,d,        b_d: b -> b ** dt, unit variance

The engine takes these as AR(1) latents with one loading each (:attr:`Parameters.state_space`).
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs

_NONE: FloatArray = np.zeros(0)
_NONE.flags.writeable = False
# Arrays that every model has.
_ALWAYS = ("decay", "loadings", "noise_variance", "offset")


class Latents(NamedTuple):
    """How many latents of each kind a model has, before there are parameters of them.

    The states come in this order: one for each AR(1) process, two for each rhythm, two for each smooth
    latent.

    Attributes
    ----------
    n_components : int
        Number of AR(1) processes, ``K``.
    n_rhythms : int, default=0
        Number of rhythms, ``R``.
    n_smooth : int, default=0
        Number of smooth latents, ``M``.
    """

    n_components: int
    n_rhythms: int = 0
    n_smooth: int = 0

    @property
    def n_pairs(self) -> int:
        """Number of latents that have two states."""
        return self.n_rhythms + self.n_smooth

    @property
    def n_states(self) -> int:
        """Dimension of the state, the columns of the loadings."""
        return self.n_components + 2 * self.n_pairs

    @property
    def n_dynamics(self) -> int:
        """Number of parameters of the dynamics: a decay or rate for each latent, and rhythms' frequencies."""
        return self.n_components + 2 * self.n_rhythms + self.n_smooth

    @property
    def n_seen(self) -> int:
        """Number of states that columns see: all but the derivatives of smooth latents."""
        return self.n_components + 2 * self.n_rhythms + self.n_smooth

    @property
    def seen(self) -> NDArray[np.intp]:
        """Which states columns see, shape (n_seen,)."""
        first = self.n_components + 2 * self.n_rhythms
        return np.concatenate([np.arange(first), np.arange(first, self.n_states, 2)])

    def n_free(self, n_features: int) -> int:
        """Number of free parameters of the latents, with their loadings on so many features.

        Unit variances and different decays leave no change of the latents free but their order and signs, and
        the phase of each rhythm.
        """
        return self.n_dynamics + self.n_seen * n_features - self.n_rhythms

    def without(self, others: "Latents") -> "Latents":
        """The latents that these are more than others."""
        return Latents(*(here - there for here, there in zip(self, others, strict=True)))

    @property
    def names(self) -> list[str]:
        """What the states of two-state latents are called, in their order."""
        return [
            *(f"rhythm{j}_{part}" for j in range(self.n_rhythms) for part in ("cos", "sin")),
            *(f"smooth{j}{part}" for j in range(self.n_smooth) for part in ("", "_velocity")),
        ]


def _none() -> FloatArray:
    """What a model without such latents or noise has of them."""
    return _NONE


@dataclass(frozen=True, eq=False, repr=False)
class Parameters:
    """Parameters of a model with ``K`` AR(1) factors, ``R`` cycles, ``M`` smooth factors, ``D`` columns.

    Immutable; :meth:`replace` returns changed parameters. Two instances are equal only if they are the same
    object: compare the arrays.

    Attributes
    ----------
    decay : ndarray of shape (K,)
        Lag-one autocorrelation of each AR(1) factor, inside (-1, 1).
    loadings : ndarray of shape (D, K + 2 R + 2 M)
        Observation matrix, in data units per standard deviation of a state. The second column of a smooth
        factor is zero.
    noise_variance : ndarray of shape (D,)
        Observation noise variance, in squared data units.
    offset : ndarray of shape (D,)
        Mean of the observations, in data units.
    rhythm_decay : ndarray of shape (R,)
        Damping of each cycle in one time step, ``rho`` inside (0, 1).
    rhythm_frequency : ndarray of shape (R,)
        Frequency of each cycle, ``w`` in radians per time step, positive.
    smooth_rate : ndarray of shape (M,)
        ``sqrt(3) / timescale`` of each smooth factor, per time step.
    memory_decay : ndarray of shape (D,) or (0,)
        Lag-one autocorrelation of the AR(1) noise of each column, inside (-1, 1); empty for white noise.
    memory_scale : ndarray of shape (D,) or (0,)
        Standard deviation of the AR(1) noise, in data units, zero or positive.

    Notes
    -----
    The modules of this package that use JAX register the class as a pytree, whose leaves are the nine arrays
    (:mod:`probsfa.statespace.engine.settings`). Arrays are not checked here, because JAX makes instances of
    what are no arrays; :func:`make_parameters` checks them.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    rhythm_decay: FloatArray = field(default_factory=_none)
    rhythm_frequency: FloatArray = field(default_factory=_none)
    smooth_rate: FloatArray = field(default_factory=_none)
    memory_decay: FloatArray = field(default_factory=_none)
    memory_scale: FloatArray = field(default_factory=_none)

    def __new__(cls, *arrays: FloatArray, **by_name: FloatArray) -> Self:  # noqa: ARG004
        """Make an instance.

        Pickles of versions in which this class was a tuple give the first four arrays here, and the others as
        the state; they never call ``__init__``.
        """
        made = super().__new__(cls)
        made.__dict__.update(zip(_ALWAYS, arrays, strict=False))
        return made

    def __iter__(self) -> Iterator[FloatArray]:
        """Iterate over decay, loadings, noise variance and offset; deprecated."""
        warnings.warn(
            "Parameters can no longer be unpacked in the next release. Use the attributes decay, loadings, "
            "noise_variance and offset.",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter([getattr(self, name) for name in _ALWAYS])

    def __repr__(self) -> str:
        """All arrays by name but those of kinds of latents or noise that the model lacks."""
        return f"Parameters({', '.join(f'{name}={array!r}' for name, array in self.to_arrays().items())})"

    def replace(self, **changes: Any) -> Self:
        """Return the same parameters with some arrays changed.

        Parameters
        ----------
        **changes : ndarray
            New arrays by the names of the attributes.

        Returns
        -------
        params : Parameters
        """
        return replace(self, **changes)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays by name; those of kinds of latents or noise that the model lacks are left out."""
        arrays = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: array for name, array in arrays.items() if name in _ALWAYS or np.size(array)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Self:
        """Return parameters from the arrays of :meth:`to_arrays`.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            Arrays by name. Those of kinds of latents or noise that the model lacks may be left out. Other
            names are ignored.

        Returns
        -------
        params : Parameters

        Raises
        ------
        ValueError
            If one of the arrays that every model has is missing.
        """
        missing = [name for name in _ALWAYS if name not in arrays]
        if missing:
            raise ValueError(f"arrays must contain {', '.join(_ALWAYS)}; {', '.join(missing)} missing.")
        return cls(**{one.name: arrays[one.name] for one in fields(cls) if one.name in arrays})

    @property
    def rhythm_periods(self) -> FloatArray:
        """Periods of the rhythms (R,), in time steps."""
        return 2.0 * np.pi / np.abs(self.rhythm_frequency)

    @property
    def smooth_timescales(self) -> FloatArray:
        """Time scales of the smooth latents (M,), in time steps."""
        return np.sqrt(3.0) / self.smooth_rate

    @property
    def rhythm_vectors(self) -> NDArray[np.complex128]:
        """Loadings of the rhythms as complex numbers (D, R).

        Of ``c z + c* z*`` the standard deviation is their size, and their angle is by how much the column
        follows one whose ``c*`` is zero.
        """
        first = self.n_components
        pairs = self.loadings[:, first : first + 2 * len(self.rhythm_decay)]
        return pairs[:, 0::2] + 1j * pairs[:, 1::2]

    @property
    def latents(self) -> Latents:
        """How many latents of each kind there are."""
        return Latents(len(self.decay), len(self.rhythm_decay), len(self.smooth_rate))

    @property
    def without_pairs(self) -> Self:
        """The AR(1) latents without rhythms and smooth ones, which have two states; noise and offset stay."""
        loadings = self.loadings[:, : self.n_components]
        return type(self)(self.decay, loadings, self.noise_variance, self.offset)

    @property
    def n_components(self) -> int:
        """Number of AR(1) latents, ``K``."""
        return int(self.decay.shape[0])

    @property
    def n_states(self) -> int:
        """Dimension of the state, the columns of the loadings."""
        return int(self.loadings.shape[1])

    @property
    def seen_loadings(self) -> FloatArray:
        """Loadings of the states that columns see (D, n_seen)."""
        return self.loadings[:, self.latents.seen] if len(self.smooth_rate) else self.loadings

    def with_seen_loadings(self, seen_loadings: FloatArray) -> Self:
        """The same parameters with other loadings of the states that columns see."""
        if not len(self.smooth_rate):
            return self.replace(loadings=seen_loadings)
        loadings = np.zeros((len(seen_loadings), self.latents.n_states))
        loadings[:, self.latents.seen] = seen_loadings
        return self.replace(loadings=loadings)

    @property
    def free_loadings(self) -> BoolArray:
        """Which loadings of the states that columns see (D, n_seen) are free.

        All but those that the rule of :func:`canonical` holds: one for each rhythm, whose phase is zero in
        one column. With the dynamics they are as many as :meth:`Latents.n_free` counts.
        """
        free = np.ones((self.n_features, self.latents.n_seen), dtype=bool)
        for j in range(len(self.rhythm_decay)):
            first = self.n_components + 2 * j
            held = np.argmin(np.abs(self.loadings[:, first + 1]) - np.abs(self.loadings[:, first]))
            free[held, first + 1] = False
        return free

    @property
    def n_features(self) -> int:
        """Number of observed features, ``D``."""
        return int(self.loadings.shape[0])

    @property
    def has_memory(self) -> bool:
        """Whether the noise of the columns has memory."""
        return len(self.memory_scale) > 0

    @property
    def memory_share(self) -> FloatArray:
        """Share of each column's variance, as the model has it, that is noise with memory (D,)."""
        own = self.memory_scale**2
        total = np.sum(self.seen_loadings**2, axis=1) + own + self.noise_variance
        return np.asarray(own / total)

    @property
    def state_space(self) -> Self:
        """The same model with white noise: the memories are AR(1) latents that one column sees each.

        They come after the other AR(1) latents, and before rhythms and smooth ones.
        """
        if not self.has_memory:
            return self
        k = self.n_components
        return type(self)(
            np.append(self.decay, self.memory_decay),
            np.hstack([self.loadings[:, :k], np.diag(self.memory_scale), self.loadings[:, k:]]),
            self.noise_variance,
            self.offset,
            self.rhythm_decay,
            self.rhythm_frequency,
            self.smooth_rate,
        )

    def with_memory_apart(self) -> Self:
        """The model of which this is the :attr:`state_space`: its last ``D`` AR(1) latents are memories."""
        k = self.n_components - self.n_features
        own = slice(k, self.n_components)
        return self.replace(
            decay=self.decay[:k],
            loadings=np.delete(self.loadings, own, axis=1),
            memory_decay=self.decay[own],
            memory_scale=np.abs(np.diagonal(self.loadings[:, own])),
        )

    @property
    def shared_states(self) -> NDArray[np.intp]:
        """Which states of :attr:`state_space` are those of the latents, and not memories."""
        return np.delete(
            np.arange(self.n_states + len(self.memory_scale)),
            slice(self.n_components, self.n_components + len(self.memory_scale)),
        )


def make_parameters(
    decay: ArrayLike,
    loadings: ArrayLike,
    noise_variance: ArrayLike,
    offset: ArrayLike = 0.0,
    *,
    memory_decay: ArrayLike | None = None,
    memory_scale: ArrayLike | None = None,
) -> Parameters:
    """Validate parameters and broadcast them to their full shapes.

    Parameters
    ----------
    decay : array-like of shape (K,)
        Values strictly inside (-1, 1).
    loadings : array-like of shape (D, K)
        Observation matrix.
    noise_variance : float or array-like of shape (D,)
        Strictly positive; a number means the same variance for all features.
    offset : float or array-like of shape (D,), default=0.0
        Mean of the observations.
    memory_decay : float or array-like of shape (D,), optional
        Lag-one autocorrelation of the AR(1) noise, inside (-1, 1), of each column or of all. None is white
        noise.
    memory_scale : float or array-like of shape (D,), optional
        Standard deviation of the AR(1) noise, not negative; required with `memory_decay`.

    Returns
    -------
    params : Parameters

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
    a = np.atleast_1d(np.asarray(decay, dtype=np.float64))
    c = np.asarray(loadings, dtype=np.float64)
    if a.ndim != 1:
        raise ValueError(f"decay must be one-dimensional, got shape {a.shape}.")
    if c.ndim != 2 or c.shape[1] != a.shape[0]:
        raise ValueError(
            f"loadings must have shape (n_features, {a.shape[0]}) to match decay, got shape {c.shape}."
        )
    n_features = c.shape[0]
    if (memory_decay is None) != (memory_scale is None):
        raise ValueError("memory_decay and memory_scale must be given together, or neither.")
    vectors = {}
    given = {"noise_variance": noise_variance, "offset": offset}
    if memory_decay is not None and memory_scale is not None:
        given |= {"memory_decay": memory_decay, "memory_scale": memory_scale}
    for name, value in given.items():
        vector = np.asarray(value, dtype=np.float64)
        if vector.shape not in ((), (n_features,)):
            raise ValueError(
                f"{name} must be a number or have shape ({n_features},), got shape {vector.shape}."
            )
        vectors[name] = np.array(np.broadcast_to(vector, (n_features,)))
    for name, value in (("decay", a), ("loadings", c), *vectors.items()):
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}.")
    for name, value in (("decay", a), ("memory_decay", vectors.get("memory_decay", a))):
        if np.any(np.abs(value) >= 1.0):
            raise ValueError(
                f"{name} must lie strictly inside (-1, 1), got {value[np.abs(value) >= 1.0][0]}."
            )
    if np.any(vectors.get("memory_scale", _NONE) < 0.0):
        raise ValueError(f"memory_scale must not be negative, got {vectors['memory_scale'].min()}.")
    if np.any(vectors["noise_variance"] <= 0.0):
        bad = int(np.flatnonzero(vectors["noise_variance"] <= 0.0)[0])
        raise ValueError(
            f"noise_variance must be positive, got {vectors['noise_variance'][bad]} for feature {bad}; "
            "the noise-free limit is ProbabilisticSFA(noise=0.0)."
        )
    return Parameters(a, c, **vectors)


def canonical(params: Parameters, scale: ArrayLike) -> Parameters:
    """Order the latents slowest first and fix their signs and phases.

    None of these changes the likelihood: latents may be permuted and flipped freely, and the two states of a
    rhythm turned. What the unit variance and the different decays leave open is fixed by the rule used all
    over the package. AR(1) latents come slowest first, rhythms that of the longest period first, smooth
    latents that of the longest time scale first. The column in which a rhythm has its largest amplitude, in
    units of `scale`, has the phase zero.

    Parameters
    ----------
    params : Parameters
        Parameters in any order.
    scale : array-like of shape (D,)
        Standard deviation of each feature, which makes loadings comparable between features.

    Returns
    -------
    params : Parameters
        Equivalent parameters in the canonical order, with canonical signs and phases.
    """
    units = np.asarray(scale, dtype=np.float64)
    params = params.replace(memory_scale=np.abs(params.memory_scale)) if params.has_memory else params
    order = np.argsort(-params.decay, kind="stable")
    if params.latents.n_pairs == 0:
        loadings = params.loadings[:, order]
        signs = canonical_signs(loadings, units)
        return params.replace(decay=params.decay[order], loadings=loadings * signs)
    k, n_rhythms = params.n_components, len(params.rhythm_decay)
    slow = params.loadings[:, :k][:, order]
    by_period = np.argsort(np.abs(params.rhythm_frequency), kind="stable")
    frequency = params.rhythm_frequency[by_period]
    pairs = params.loadings[:, k : k + 2 * n_rhythms].reshape(params.n_features, n_rhythms, 2)[:, by_period]
    # Turning backwards is turning forwards with the second state turned round.
    pairs = np.stack([pairs[..., 0], pairs[..., 1] * np.where(frequency < 0.0, -1.0, 1.0)], axis=2)
    by_timescale = np.argsort(params.smooth_rate, kind="stable")
    smooth = params.loadings[:, k + 2 * n_rhythms :: 2][:, by_timescale]
    smooth = smooth * canonical_signs(smooth, units)
    return params.replace(
        decay=params.decay[order],
        loadings=np.hstack(
            [
                slow * canonical_signs(slow, units),
                _with_phase_zero(pairs, units).reshape(params.n_features, 2 * n_rhythms),
                np.stack([smooth, np.zeros_like(smooth)], axis=2).reshape(params.n_features, -1),
            ]
        ),
        rhythm_decay=params.rhythm_decay[by_period],
        rhythm_frequency=np.abs(frequency),
        smooth_rate=params.smooth_rate[by_timescale],
    )


def _with_phase_zero(pairs: FloatArray, scale: FloatArray) -> FloatArray:
    """Loadings (D, R, 2) of rhythms, turned such that the phase is zero where the amplitude is largest."""
    vectors = pairs[..., 0] + 1j * pairs[..., 1]
    largest = np.argmax(np.abs(vectors) / scale[:, None], axis=0)
    at_largest = vectors[largest, np.arange(vectors.shape[1])]
    size = np.abs(at_largest)
    turned = vectors * np.where(size > 0.0, at_largest.conj() / np.where(size > 0.0, size, 1.0), 1.0)
    turned[largest, np.arange(vectors.shape[1])] = size  # exactly: no rounding in what is held at zero
    return np.stack([turned.real, turned.imag], axis=2)


def rescale(params: Parameters, shift: FloatArray, scale: FloatArray) -> Parameters:
    """Parameters of ``shift + scale * x`` from those of ``x``."""
    if params.has_memory:
        params = params.replace(memory_scale=params.memory_scale * scale)
    return params.replace(
        loadings=params.loadings * scale[:, None],
        noise_variance=params.noise_variance * scale**2,
        offset=shift + scale * params.offset,
    )


def with_more_latents(params: Parameters, new: Parameters) -> Parameters:
    """Parameters with the latents of both, kind by kind; noise and offset are those of the first."""
    parts = []
    for model in (params, new):
        borders = np.cumsum([model.n_components, 2 * len(model.rhythm_decay)])
        parts.append(np.split(model.loadings, borders, axis=1))
    return params.replace(
        decay=np.append(params.decay, new.decay),
        loadings=np.hstack([part for kind in zip(*parts, strict=True) for part in kind]),
        rhythm_decay=np.append(params.rhythm_decay, new.rhythm_decay),
        rhythm_frequency=np.append(params.rhythm_frequency, new.rhythm_frequency),
        smooth_rate=np.append(params.smooth_rate, new.smooth_rate),
    )
