"""Options of a fit, and their validation."""

import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, TypeGuard

import numpy as np

from probsfa._times import TimeAxis, seconds_of
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import check_count, check_memory, check_option
from probsfa.statespace.learning.coordinates import PERIOD_RANGE, Limits
from probsfa.statespace.noise import STRUCTURES, TAILS, HeavyTails, NoiseVariances
from probsfa.statespace.noise.gaussian import (
    FORMER_FLOOR,
    MIN_KNOWN_NOISE,
    MIN_NOISE,
    MIN_WHITE_NOISE,
    WEAK_PRIOR,
    Noise,
)
from probsfa.statespace.parameters import Latents
from probsfa.statespace.processes import KINDS, Process
from probsfa.statespace.processes.rhythm import Rhythm

__all__ = [
    "FitOptions",
    "InitialProcesses",
    "Optimizer",
    "ProcessOptions",
    "check_bytes",
    "check_identified",
    "gain_worth_filling",
]

#: Names in `fixed` and their numbers of dimensions. An entry is a value, or None if it is learned.
FIXED = {"decays": 1, "loadings": 2, "noise": 1, "periods": 1}

# Types of durations.
_DURATIONS = (str, timedelta, np.timedelta64)

# Matrices of the size of a covariance that are in RAM at a time: a batch of rows, bands of a spectrum.
_N_MATRICES_IN_MEMORY = 600
# Default tolerance, in nats: a factor of the squared number of free parameters, and the maximum.
_TOL_PER_SQUARED_PARAMETER, _MAX_TOL = 2e-5, 0.5
# Tolerance of imputation in nats for each observed value, and the number of values above which it is used.
# Smaller gains do not visibly change imputed values but take most evaluations; fits to fewer values are fast.
_TOL_PER_VALUE, _MIN_VALUES_OF_TOL = 1e-4, 50_000
# The same for each free parameter. The log-likelihood at the maximum exceeds that of the true parameters by
# half a nat for each; a fit of more than a thousand parameters takes a hundred small steps that do not
# improve imputed values.
_TOL_PER_PARAMETER, _MIN_PARAMETERS_OF_TOL = 1e-3, 1_000


def gain_worth_filling(n_cells: int, n_parameters: int = 0) -> float | Literal["auto"]:
    """Return the tolerance of a fit for imputation: in nats, or "auto" for few values and parameters.

    Parameters
    ----------
    n_cells : int
        Number of observed values.
    n_parameters : int, default=0
        Number of free parameters of the model.
    """
    by_cells = _TOL_PER_VALUE * n_cells if n_cells > _MIN_VALUES_OF_TOL else 0.0
    by_parameters = _TOL_PER_PARAMETER * n_parameters if n_parameters > _MIN_PARAMETERS_OF_TOL else 0.0
    return max(by_cells, by_parameters) or "auto"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_variances(noise: tuple[float, ...]) -> None:
    """Raise a ValueError unless the known variances of all columns are positive."""
    bad = next(
        (j for j, variance in enumerate(noise) if not (np.isfinite(variance) and variance > 0.0)), None
    )
    if bad is not None:
        raise ValueError(
            f"noise must be positive, finite variances, one for each column; noise[{bad}] is "
            f"{noise[bad]!r}. The limit of no noise, in all columns, is noise=0.0."
        )


def as_noise(value: Any) -> Any:
    """Return several noise variances as a tuple, and any other value as it is."""
    if isinstance(value, (str, numbers.Real)) or value is None:
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return value
    return float(array) if array.ndim == 0 else tuple(array.tolist()) if array.ndim == 1 else value


def as_fixed(value: Any) -> dict[str, tuple[Any, ...]] | None:
    """Return fixed parameters as tuples of numbers, with None for parameters that are learned.

    Parameters
    ----------
    value : mapping or None
        Arrays by their names in :data:`FIXED`, NaN or None where a parameter is learned. Loadings may be
        boolean: true where they are learned, false where they are zero. Periods may be durations.

    Raises
    ------
    ValueError
        If a name is unknown, or an array has another number of dimensions.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"fixed must be a dictionary, or None; got {type(value).__name__}.")
    unknown = sorted(str(name) for name in set(value) - set(FIXED))
    if unknown:
        raise ValueError(f"fixed may contain {', '.join(FIXED)}; got {', '.join(unknown)}.")
    out: dict[str, tuple[Any, ...]] = {}
    for name, given in value.items():
        array = np.asarray(given, dtype=object)
        if array.ndim != FIXED[name]:
            raise ValueError(
                f"fixed[{name!r}] must have {FIXED[name]} dimension(s), NaN where it is learned; got shape "
                f"{array.shape}."
            )
        if array.size and all(isinstance(one, (bool, np.bool_)) for one in array.flat):
            if name != "loadings":
                raise ValueError(
                    f"fixed[{name!r}] must contain numbers, NaN where they are learned; got booleans."
                )
            array = np.where(array.astype(bool), np.nan, 0.0).astype(object)
        out[name] = _as_tuples(name, array)
    return out


def _as_tuples(name: str, array: Any) -> tuple[Any, ...]:
    """Return an array as nested tuples of floats, None for NaN; periods keep durations."""
    if array.ndim > 1:
        return tuple(_as_tuples(name, row) for row in array)
    durations = _DURATIONS if name == "periods" else ()
    out: list[Any] = []
    for one in array:
        if one is None or isinstance(one, durations):
            out.append(one)
            continue
        try:
            number = float(one)
        except (TypeError, ValueError):
            raise ValueError(f"fixed[{name!r}] must contain numbers; got {one!r}.") from None
        out.append(None if np.isnan(number) else number)
    return tuple(out)


def _as_array(value: tuple[Any, ...]) -> FloatArray:
    """Return nested tuples as an array, NaN for None."""
    return np.array(value, dtype=np.float64)


def _standardised_noise(variance: FloatArray, scale: FloatArray) -> FloatArray:
    """Return fixed variances (D,) in squared units of `scale` (D,), raised to the smallest allowed one."""
    return np.maximum(variance / scale**2, MIN_KNOWN_NOISE)


def _in_units(name: str, value: Any, axis: TimeAxis) -> float:
    """Return a period or time scale in the unit of the times."""
    if isinstance(value, _DURATIONS):
        seconds = seconds_of(value, name)
        if axis.kind != "dates":
            raise ValueError(
                f"{name} has the duration {value!r}, and X has no dates. Use numbers, in "
                f"{'rows' if axis.kind == 'rows' else 'the unit of times'}, or an index of dates."
            )
        number = seconds / axis.unit
    elif is_number(value):
        number = float(value)
    else:
        raise ValueError(f"{name} must contain numbers or durations such as '24h'; got {value!r}.")
    if not (np.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} must contain positive numbers; got {value!r}.")
    return number


# ------------------------------------------------------------------------------ options of processes


def _kinds(option: str) -> list[type[Process]]:
    return [kind for kind in KINDS if kind.option == option]


def words_of(option: str) -> tuple[str, ...]:
    """Return the words that are values of an option."""
    return tuple(kind.word for kind in _kinds(option) if kind.word)


def _variants(option: str) -> list[Any]:
    """Return the values of a second option, the default first."""
    return [value for kind in KINDS for name, value in kind.variant.items() if name == option]


_COUNTED = tuple(dict.fromkeys(kind.option for kind in KINDS))
_SECOND = tuple(dict.fromkeys(name for kind in KINDS for name in kind.variant))
_DEFAULTS = {**dict.fromkeys(_COUNTED, 0), **{name: _variants(name)[0] for name in _SECOND}}


class ProcessOptions(Mapping[str, Any]):
    """Values of the options of all kinds of processes, by name; immutable.

    Parameters
    ----------
    **values : int, str, tuple or array-like
        Values that are not the defaults: numbers of processes, initial times of each, or words. Times are
        stored as tuples.

    Raises
    ------
    ValueError
        If a value is neither a number nor times, for options with times.
    TypeError
        If there is no option of this name.
    """

    def __init__(self, **values: Any) -> None:
        unknown = sorted(values.keys() - _DEFAULTS.keys())
        if unknown:
            raise TypeError(f"there are no processes of the options {', '.join(unknown)}.")
        self._values = {**_DEFAULTS, **{name: _normalized(name, value) for name, value in values.items()}}

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return the options that an estimator has."""
        return cls(**{name: getattr(estimator, name) for name in _DEFAULTS if hasattr(estimator, name)})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        changed = (f"{name}={value!r}" for name, value in self.items() if value != _DEFAULTS[name])
        return f"ProcessOptions({', '.join(changed)})"

    def replace(self, **changes: Any) -> Self:
        """Return the options with other values."""
        return type(self)(**{**self._values, **changes})

    def count(self, name: str) -> int:
        """Return the number of processes of an option."""
        value = self[name]
        if isinstance(value, str):
            return 1
        return len(value) if isinstance(value, tuple) else int(value)

    @property
    def times(self) -> dict[str, tuple[Any, ...]]:
        """Initial times of processes, by option, for options with times instead of a number."""
        return {name: value for name, value in self.items() if isinstance(value, tuple)}

    def check(self) -> None:
        """Check all values.

        Raises
        ------
        ValueError
            The message names the option, its value and what is allowed.
        """
        for name in _COUNTED:
            if isinstance(self[name], str):
                check_option(name, self[name], words_of(name))
            else:
                value = self[name]
                check_count(name, len(value) if isinstance(value, tuple) else value, minimum=0)
        for name in _SECOND:
            known = _variants(name)
            if self[name] not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(str, known))}; got {self[name]!r}.")

    def kind(self, name: str) -> type[Process]:
        """Return the kind of the processes of an option."""
        value = self[name]
        for kind in _kinds(name):
            fits = kind.word == value if isinstance(value, str) else kind.counted
            if fits and all(self[other] == wanted for other, wanted in kind.variant.items()):
                return kind
        raise ValueError(f"{name} has no processes for {value!r}.")

    @property
    def counts(self) -> dict[type[Process], int]:
        """Number of processes of each requested kind."""
        return {self.kind(name): self.count(name) for name in _COUNTED}

    def started(self, time_unit: float, *, evenly_sampled: bool) -> dict[type[Process], Process]:
        """Return the processes of options with times, which must be numbers; see :meth:`.Process.of_times`.

        Parameters
        ----------
        time_unit : float
            Unit of time of the decays.
        evenly_sampled : bool
            Whether all rows are one unit of time apart.
        """
        found = {}
        for name, value in self.times.items():
            times: FloatArray = np.array(value, dtype=np.float64) / time_unit
            kind = self.kind(name)
            found[kind] = kind.of_times(times, evenly_sampled=evenly_sampled)
        return found


def _normalized(name: str, value: Any) -> Any:
    """Return a number of processes as an integer, and their times as a tuple; other values as they are."""
    what = next((kind.times for kind in _kinds(name) if kind.times), "")
    if not what:
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, _DURATIONS):
        return (value,)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise ValueError(f"{name} must be a number of factors, or a list of their {what}; got {value!r}.")


# ----------------------------------------------------------------------------------- options of a fit


class InitialProcesses(NamedTuple):
    """Initial values of processes from the options.

    ``frequencies`` are those of stochastic cycles in radians per unit of time, or None to detect them;
    ``processes`` are initial processes of other kinds.
    """

    frequencies: FloatArray | None = None
    processes: Mapping[type[Process], Process] = MappingProxyType({})


class Optimizer(NamedTuple):
    """Settings of the optimization of standardised data.

    Attributes
    ----------
    solver : {"auto", "em", "lbfgs"}
        Optimizer; "auto" is "lbfgs".
    max_iter : int
        Maximum number of likelihood evaluations.
    tol : float
        Expected gain at which to stop, in nats.
    n_init : int, default=1
        Number of complete runs; all but the first start at random, with `max_iter` evaluations each.
    one_start : bool, default=False
        Whether a fit with AR(1) noise starts only from the model with white noise.
    """

    solver: str
    max_iter: int
    tol: float
    n_init: int = 1
    one_start: bool = False


@dataclass(frozen=True)
class FitOptions:
    """Parameters of a fit, with the names and meanings they have in :class:`probsfa.ProbabilisticSFA`.

    Attributes
    ----------
    n_components : int or None
        Number of AR(1) latent factors; None to select it.
    noise : {"auto", "diagonal", "isotropic", "ar1"}, float or array-like (D,), default="auto"
        Structure of the noise: a variance for each column, one for all columns, or one for each column with
        AR(1) noise in addition; or known variances in squared data units, one for all columns or a tuple with
        one for each. "auto" is "diagonal" in a single fit; see :mod:`probsfa.statespace.default_model`.
    solver : {"auto", "lbfgs", "em"}, default="auto"
        Optimizer of the likelihood; "auto" is "lbfgs".
    max_iter : int, default=200
        Maximum number of likelihood evaluations.
    tol : float or "auto", default="auto"
        Expected gain of log-likelihood at which to stop, in nats.
    noise_floor : float or "auto", default="auto"
        Smallest noise variance, as a fraction of each column's variance.
    n_init : int, default=1
        Number of optimization runs; all but the first start from random parameters.
    processes : ProcessOptions
        Options of the processes beside AR(1) factors.
    noise_prior : {"weak"} or None, default="weak"
        Prior of the noise variances that are learned.
    robust : bool or {"cell", "row"}, default=False
        Whether noise is Student-t; with a weight for each value ("cell" or True) or for each row.
    fixed : dict or None, default=None
        Fixed parameters, as returned by :func:`as_fixed`.
    """

    n_components: int | None
    noise: str | float | tuple[float, ...] = "auto"
    solver: str = "auto"
    max_iter: int = 200
    tol: float | str = "auto"
    noise_floor: str | float = "auto"
    n_init: int = 1
    processes: ProcessOptions = field(default_factory=ProcessOptions)
    noise_prior: str | None = "weak"
    robust: bool | str = False
    fixed: dict[str, tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", as_noise(self.noise))
        object.__setattr__(self, "fixed", as_fixed(self.fixed))

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return the options of an estimator from its public parameters."""
        names = {one.name for one in fields(cls)} - {"processes"}
        values = {name: getattr(estimator, name) for name in names}
        # With robust="auto" the default model excludes outliers; each of its fits has Gaussian noise.
        automatic = isinstance(values["robust"], str) and values["robust"] == "auto"
        values["robust"] = False if automatic else values["robust"]
        return cls(**values, processes=ProcessOptions.of(estimator))

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> Self:
        """Return the options from the values of :attr:`plain`; other names are ignored."""
        processes = {name: values[name] for name in ProcessOptions() if name in values}
        others = {one.name: values[one.name] for one in fields(cls) if one.name in values}
        return cls(**others, processes=ProcessOptions(**processes))

    @property
    def plain(self) -> dict[str, Any]:
        """Values of all options by name, as for files."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "processes"}
        return {**own, **self.processes}

    def check(self) -> Self:
        """Check every option.

        Returns
        -------
        FitOptions
            The same options.

        Raises
        ------
        ValueError
            If an option is not valid; the message names it, its value and what is allowed.
        """
        self.processes.check()
        if self.n_components is not None:
            check_count("n_components", self.n_components, minimum=0)
        if self.noise_free and self.n_other_processes:
            raise ValueError(
                "noise=0.0 is slow feature analysis and does not support rhythms, smooth or trend. Use "
                "noise='diagonal', or a small variance."
            )
        check_count("max_iter", self.max_iter)
        check_count("n_init", self.n_init)
        if self.n_components == 0 and self.n_init > 1:
            raise ValueError(
                "n_init > 1 requires AR(1) factors, whose starts are random; n_components=0 has no such "
                "factors. Use n_init=1."
            )
        check_option("solver", self.solver, ("auto", "em", "lbfgs"))
        if self.noise_prior is not None:
            check_option("noise_prior", self.noise_prior, ("weak",))
        by_name = isinstance(self.robust, str) and self.robust in TAILS
        if not (by_name or isinstance(self.robust, (bool, np.bool_))):
            names = " or ".join(map(repr, TAILS))
            raise ValueError(f"robust must be 'auto', True, False, {names}; got {self.robust!r}.")
        if self.noise_free and self.robust:
            raise ValueError(
                "noise=0.0 and robust=True cannot be combined; robust=True requires noise='diagonal', "
                "'isotropic' or known variances."
            )
        if is_number(self.noise):
            if not (np.isfinite(self.noise) and self.noise >= 0.0):
                raise ValueError(f"noise must be a finite variance, zero or larger; got {self.noise!r}.")
        elif isinstance(self.noise, tuple) and self.noise:
            check_variances(self.noise)
        elif not isinstance(self.noise, str) or self.noise not in ("auto", "ar1", *STRUCTURES):
            names = ", ".join(map(repr, ("auto", *STRUCTURES, "ar1")))
            raise ValueError(
                f"noise must be {names}, a variance, or a variance for each column; got {self.noise!r}."
            )
        if self.fixed is not None:
            self._check_fixed(self.fixed)
        if self.tol != "auto" and not (is_number(self.tol) and self.tol > 0.0):
            raise ValueError(f"tol must be 'auto' or a positive number of nats; got {self.tol!r}.")
        floor = self.noise_floor
        if floor != "auto" and not (is_number(floor) and 0.0 < floor < 1.0):
            raise ValueError(
                f"noise_floor must be 'auto' or a fraction of the variance between 0 and 1; got {floor!r}."
            )
        return self

    @property
    def leaves_noise_open(self) -> bool:
        """Whether a fit may choose between white and AR(1) noise."""
        return self.noise == "auto" and self.n_components is None and not self.robust

    def with_noise_named(self) -> Self:
        """Return the options with "diagonal" noise in place of "auto", as a single fit uses it."""
        return replace(self, noise="diagonal") if self.noise == "auto" else self

    def _check_fixed(self, fixed: dict[str, tuple[Any, ...]]) -> None:
        if self.n_components is None:
            raise ValueError("fixed requires a number as n_components.")
        if self.noise_free:
            raise ValueError(
                "noise=0.0 is slow feature analysis in closed form and does not support fixed parameters."
            )
        latents = self.latents
        requested = {"decays": latents.n_components, "periods": self.processes.count("rhythms")}
        for name, size in requested.items():
            if name in fixed and len(fixed[name]) != size:
                raise ValueError(
                    f"fixed[{name!r}] has {len(fixed[name])} values; there are {size} such factors. Use NaN "
                    "for learned values."
                )
        if "loadings" in fixed and any(len(row) != latents.n_states for row in fixed["loadings"]):
            raise ValueError(
                f"fixed['loadings'] must have a column for each of the {latents.n_states} states, as "
                f"loadings_ has; got {len(fixed['loadings'][0])}."
            )
        for name in ("decays", "loadings", "noise"):
            values = _as_array(fixed.get(name, ()))
            if np.any(np.isinf(values)):
                raise ValueError(f"fixed[{name!r}] must contain finite numbers.")
        if "decays" in fixed and np.any(np.abs(_as_array(fixed["decays"])) >= 1.0):
            raise ValueError("fixed['decays'] must lie strictly inside (-1, 1).")
        if "noise" in fixed:
            if np.any(_as_array(fixed["noise"]) <= 0.0):
                raise ValueError("fixed['noise'] must contain positive variances.")
            if not self.separate_variances:
                raise ValueError(
                    "fixed['noise'] has variances of single columns, which requires noise='diagonal' or "
                    "'ar1'."
                )
        if None in fixed.get("periods", ()) and "rhythms" not in self.processes.times:
            raise ValueError(
                "fixed['periods'] has NaN for learned periods: pass their starting values as rhythms=."
            )

    def gain_worth_a_step(self, n_parameters: int) -> float:
        """Return the expected gain of a further step at which to stop, in nats.

        On average, the log-likelihood at the maximum exceeds that of the true parameters by half a nat for
        each free parameter (Wilks 1938); the tolerance is a small part of that. It is smaller for few
        parameters, which are more often interpreted and can be computed exactly at lower cost.
        """
        if not isinstance(self.tol, str):
            return self.tol
        return min(_TOL_PER_SQUARED_PARAMETER * n_parameters**2, _MAX_TOL)

    @property
    def latents(self) -> Latents:
        """Numbers of latent processes of each kind; requires that `n_components` is a number."""
        assert self.n_components is not None
        return Latents(int(self.n_components), self.processes.counts)

    @property
    def tails(self) -> HeavyTails | None:
        """Noise with heavy tails from which a fit starts; None for Gaussian noise."""
        if not self.robust:
            return None
        return TAILS[self.robust if isinstance(self.robust, str) else "cell"]

    @property
    def n_other_processes(self) -> int:
        """Number of processes beside AR(1) factors."""
        return sum(self.processes.counts.values())

    def with_times(self, axis: TimeAxis) -> Self:
        """Return the options with periods and time scales as numbers, in the unit of the times.

        Raises
        ------
        ValueError
            If a value is not positive, or is a duration although the times are not dates.
        """
        times: dict[str, tuple[Any, ...]] = {
            name: tuple(_in_units(name, one, axis) for one in values)
            for name, values in self.processes.times.items()
        }
        fixed = self.fixed
        if self.fixed is not None and "periods" in self.fixed:
            periods = tuple(
                None if one is None else _in_units("fixed['periods']", one, axis)
                for one in self.fixed["periods"]
            )
            fixed = {**self.fixed, "periods": periods}
            begin = times.get("rhythms", periods)
            times["rhythms"] = tuple(
                start if held is None else held for start, held in zip(begin, periods, strict=True)
            )
        return replace(self, processes=self.processes.replace(**times), fixed=fixed)

    def limits(self, scale: FloatArray, time_unit: float, *, evenly_sampled: bool) -> Limits | None:
        """Return the fixed parameters, and the ranges of periods around their initial values.

        Parameters
        ----------
        scale : ndarray of shape (D,)
            Unit of each standardised column.
        time_unit : float
            Unit of time of the decays.
        evenly_sampled : bool
            Whether all rows are one unit of time apart.

        Returns
        -------
        Limits or None
            Limits for the standardised data; None if there are none.

        Raises
        ------
        ValueError
            If the number of rows of the loadings or of variances in `fixed` is not the number of columns; or
            if a decay is not positive although rows are unevenly spaced.
        """
        periods = self.processes.times.get("rhythms", ())
        known = bool(periods) and all(is_number(period) for period in periods)
        if self.fixed is None and not known:
            return None
        latents, d = self.latents, scale.size
        frequencies = np.repeat([[-np.inf], [np.inf]], self.processes.count("rhythms"), axis=1)
        if known:
            start = 2.0 * np.pi * time_unit / np.array(periods, dtype=np.float64)
            frequencies = np.array([start / PERIOD_RANGE, start * PERIOD_RANGE])
            if evenly_sampled:
                frequencies[1] = np.minimum(frequencies[1], np.pi)
        fixed = self.fixed or {}
        if known and "periods" in fixed:
            held = np.array([one is not None for one in fixed["periods"]])
            frequencies = np.where(held, start, frequencies)
        parts = {
            "decays": np.full(latents.n_components, np.nan),
            "loadings": np.full((d, latents.n_states), np.nan),
            "noise": np.full(d, np.nan),
        }
        for name, free in parts.items():
            if name not in fixed:
                continue
            value = _as_array(fixed[name])
            if value.shape != free.shape:
                raise ValueError(f"fixed[{name!r}] has shape {value.shape}; it must be {free.shape}.")
            parts[name] = value
        if not evenly_sampled and np.any(parts["decays"] <= 0.0):
            raise ValueError("fixed['decays'] must be positive if rows are not evenly spaced.")
        loadings = parts["loadings"] / scale[:, None]
        unseen = np.setdiff1d(np.arange(latents.n_states), latents.seen)
        loadings[:, unseen] = np.nan
        noise = _standardised_noise(parts["noise"], scale)
        cycle_states = latents.states.get(Rhythm, slice(0, 0))
        return Limits(parts["decays"], loadings, noise, frequencies, cycle_states)

    def initial_processes(self, time_unit: float, *, evenly_sampled: bool) -> InitialProcesses:
        """Return the initial values of processes, for a model whose decays are over `time_unit`.

        Raises
        ------
        ValueError
            If rows are evenly sampled and a period is two rows or less.
        """
        initial = self.processes.started(time_unit, evenly_sampled=evenly_sampled)
        cycles = [process for kind, process in initial.items() if kind.sought]
        others = {kind: process for kind, process in initial.items() if not kind.sought}
        return InitialProcesses(
            np.concatenate([process.peaks[0] for process in cycles]) if cycles else None, others
        )

    def variances(self, n_features: int) -> NoiseVariances:
        """Return which columns share a variance of white noise, and which variances are known."""
        return NoiseVariances.of_option(self.noise, n_features)

    @property
    def separate_variances(self) -> bool:
        """Whether a separate variance of white noise is learned for each column."""
        return self.variances(2).separate

    @property
    def has_ar1_noise(self) -> bool:
        """Whether each column has AR(1) noise besides white noise."""
        return isinstance(self.noise, str) and self.noise == "ar1"

    @property
    def scales_by_feature(self) -> bool:
        """Whether columns are standardised separately; with isotropic noise one scale is used for all."""
        return self.separate_variances or isinstance(self.noise, tuple)

    @property
    def noise_free(self) -> bool:
        """Whether there is no noise at all, so that the fit is slow feature analysis."""
        return is_number(self.noise) and self.noise == 0.0

    @property
    def least_noise(self) -> float:
        """Smallest noise variance allowed, as a fraction of each column's variance."""
        if not isinstance(self.noise_floor, str):
            return float(self.noise_floor)
        return MIN_WHITE_NOISE if self.has_ar1_noise else MIN_NOISE

    @property
    def noise_floors(self) -> tuple[float, ...]:
        """Noise variances that are recognized as lower bounds, as fractions of a column's variance.

        With "auto", the second is the lower bound of earlier versions.
        """
        return (self.least_noise, FORMER_FLOOR) if self.noise_floor == "auto" else (self.least_noise,)

    def known_noise(self, scale: FloatArray) -> FloatArray | None:
        """Return known noise variances (D,) in squared units of `scale` (D,), raised to the smallest allowed.

        Raises
        ------
        ValueError
            If the variances are not one for each column.
        """
        given = self._given_noise(scale)
        return None if given is None else np.maximum(given, MIN_KNOWN_NOISE)

    def raised_noise(self, scale: FloatArray) -> BoolArray:
        """Return whether the known noise variance of each column (D,) is below the smallest allowed one."""
        given = self._given_noise(scale)
        return np.zeros(scale.size, dtype=bool) if given is None else given < MIN_KNOWN_NOISE

    def _given_noise(self, scale: FloatArray) -> FloatArray | None:
        if isinstance(self.noise, str):
            return None
        given = np.asarray(self.noise, dtype=np.float64)
        if given.ndim and given.size != scale.size:
            raise ValueError(f"noise has {given.size} variances; X has {scale.size} columns.")
        return given / scale**2

    def learned_noise(self, scale: FloatArray, resolution: FloatArray | float = 0.0) -> Noise:
        """Return constraints and prior of the noise variances, in squared units of `scale` (D,).

        With ``noise_floor="auto"`` variances are not below those that the resolution of columns implies.
        """
        known = self.known_noise(scale)
        minimum = np.maximum(self.least_noise, resolution if self.noise_floor == "auto" else 0.0)
        floor = np.broadcast_to(minimum, scale.shape).copy() if known is None else known
        held = None
        if self.fixed is not None and "noise" in self.fixed:
            held = _standardised_noise(_as_array(self.fixed["noise"]), scale)
        return Noise(self.variances(scale.size), floor, 0.0 if self.noise_prior is None else WEAK_PRIOR, held)


def check_identified(latents: Latents, n_observed: int) -> None:
    """Raise a ValueError if there are more latent factors of a kind than observed values to learn them from.

    Parameters
    ----------
    latents : Latents
        Numbers of latent processes of each kind.
    n_observed : int
        Number of observed values.
    """
    named = {"n_components": latents.n_components}
    named |= {kind.option: count for kind, count in latents.counts.items()}
    for name, count in named.items():
        if count > max(n_observed, 1):
            raise ValueError(
                f"{name}={count} is more than the {n_observed} observed values: the likelihood does not "
                "determine the factors. Use fewer."
            )


def check_bytes(n_states: int, available: int | None = None) -> None:
    """Raise a ValueError if a fit with so many states requires more RAM than this machine has.

    Parameters
    ----------
    n_states : int
        Number of states: of latent factors and of AR(1) noise.
    available : int, optional
        Bytes of RAM; those of the machine by default, without a check if the system does not report them.

    Raises
    ------
    ValueError
        If the required RAM, which the message states, is not available.
    """
    check_memory(
        8 * _N_MATRICES_IN_MEMORY * n_states**2,
        f"{n_states} states of latent factors and AR(1) noise require about {{size}}, for "
        f"{_N_MATRICES_IN_MEMORY} "
        f"matrices of {n_states} x {n_states} numbers",
        "Use fewer (n_components, rhythms, smooth).",
        available,
    )
