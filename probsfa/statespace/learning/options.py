"""Options of a fit, and their validation."""

import numbers
import warnings
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
from probsfa.statespace.parameters import StateLayout
from probsfa.statespace.processes import KINDS, Process
from probsfa.statespace.processes.rhythm import Rhythm

__all__ = [
    "FitOptions",
    "InitialProcesses",
    "Optimizer",
    "ProcessOptions",
    "check_fit_memory",
    "check_identified",
    "imputation_tolerance",
]

#: Names of the entries of `fixed`, and the number of dimensions of each array.
FIXED_DIMENSIONS = {"decays": 1, "loadings": 2, "noise": 1, "periods": 1}

# Types of durations.
_DURATIONS = (str, timedelta, np.timedelta64)

# Number of K-by-K matrices, for ``K`` states, that a fit has in RAM at the same time: one for each row of a
# batch, or for each band of a spectrum.
_N_MATRICES_IN_MEMORY = 600
# The default tolerance, in nats, is the first number times the squared number of free parameters, at most the
# second number.
_TOL_PER_SQUARED_PARAMETER, _MAX_TOL = 2e-5, 0.5
# Fits for imputation to more than `_MIN_VALUES_OF_TOL` values have at least the tolerance `_TOL_PER_VALUE`,
# in nats for each observed value. Steps with smaller gains require most evaluations, and hardly change
# imputed values. Fits to fewer values are fast.
_TOL_PER_VALUE, _MIN_VALUES_OF_TOL = 1e-4, 50_000
# Fits for imputation with more than `_MIN_PARAMETERS_OF_TOL` free parameters have at least the tolerance
# `_TOL_PER_PARAMETER`, in nats for each parameter. The log-likelihood at the maximum exceeds the
# log-likelihood at the true parameters by half a nat for each parameter. A fit of more than a thousand
# parameters has a hundred small steps that do not improve imputed values.
_TOL_PER_PARAMETER, _MIN_PARAMETERS_OF_TOL = 1e-3, 1_000


def imputation_tolerance(n_values: int, n_parameters: int = 0) -> float | Literal["auto"]:
    """Return the tolerance of a fit for imputation: in nats, or "auto" for few values and parameters.

    Parameters
    ----------
    n_values : int
        Number of observed values.
    n_parameters : int, default=0
        Number of free parameters of the model.
    """
    by_values = _TOL_PER_VALUE * n_values if n_values > _MIN_VALUES_OF_TOL else 0.0
    by_parameters = _TOL_PER_PARAMETER * n_parameters if n_parameters > _MIN_PARAMETERS_OF_TOL else 0.0
    return max(by_values, by_parameters) or "auto"


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a real number; bool values do not count as numbers."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_variances(noise: tuple[float, ...]) -> None:
    """Raise a ValueError unless the known variances of all columns are positive and finite."""
    bad = next(
        (j for j, variance in enumerate(noise) if not (np.isfinite(variance) and variance > 0.0)), None
    )
    if bad is not None:
        raise ValueError(
            f"noise must contain a positive, finite variance for each column; noise[{bad}] is "
            f"{noise[bad]!r}. For a model without noise in any column, use noise=0.0."
        )


def as_noise(value: Any) -> Any:
    """Convert an array of noise variances to a tuple, or to a float if it has no axes."""
    if isinstance(value, (str, numbers.Real)) or value is None:
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return value
    return float(array) if array.ndim == 0 else tuple(array.tolist()) if array.ndim == 1 else value


def as_fixed(value: Any) -> dict[str, tuple[Any, ...]] | None:
    """Return fixed parameters as tuples of numbers, with None for free parameters.

    Parameters
    ----------
    value : mapping or None
        Arrays by their names in :data:`FIXED_DIMENSIONS`, NaN or None where a parameter is free. Loadings may
        be boolean: true for free loadings, false for zero. Periods may be durations.

    Raises
    ------
    ValueError
        If a name is unknown, or an array has a wrong number of dimensions or contains other types.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"fixed must be a dictionary, or None; got {type(value).__name__}.")
    unknown = sorted(str(name) for name in set(value) - set(FIXED_DIMENSIONS))
    if unknown:
        raise ValueError(f"fixed may contain {', '.join(FIXED_DIMENSIONS)}; got {', '.join(unknown)}.")
    out: dict[str, tuple[Any, ...]] = {}
    for name, given in value.items():
        array = np.asarray(given, dtype=object)
        if array.ndim != FIXED_DIMENSIONS[name]:
            raise ValueError(
                f"fixed[{name!r}] must have {FIXED_DIMENSIONS[name]} dimension(s); got shape {array.shape}. "
                "Use NaN for values to estimate."
            )
        if array.size and all(isinstance(entry, (bool, np.bool_)) for entry in array.flat):
            if name != "loadings":
                raise ValueError(
                    f"fixed[{name!r}] must contain numbers; got booleans. Use NaN for values to estimate."
                )
            array = np.where(array.astype(bool), np.nan, 0.0).astype(object)
        out[name] = _as_tuples(name, array)
    return out


def _as_tuples(name: str, array: Any) -> tuple[Any, ...]:
    """Return an array as nested tuples of floats, None for NaN; durations of periods are unchanged."""
    if array.ndim > 1:
        return tuple(_as_tuples(name, row) for row in array)
    durations = _DURATIONS if name == "periods" else ()
    out: list[Any] = []
    for entry in array:
        if entry is None or isinstance(entry, durations):
            out.append(entry)
            continue
        try:
            number = float(entry)
        except (TypeError, ValueError):
            raise ValueError(f"fixed[{name!r}] must contain numbers; got {entry!r}.") from None
        out.append(None if np.isnan(number) else number)
    return tuple(out)


def _as_array(value: tuple[Any, ...]) -> FloatArray:
    """Return nested tuples as an array, NaN for None."""
    return np.array(value, dtype=np.float64)


def _standardized_variances(variance: FloatArray, scale: FloatArray) -> FloatArray:
    """Return fixed variances (D,) divided by ``scale**2``, raised to the minimum of known variances."""
    return np.maximum(variance / scale**2, MIN_KNOWN_NOISE)


def _in_time_units(name: str, value: Any, axis: TimeAxis) -> float:
    """Return a period or time scale as a number, in the unit of the times."""
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
    """Return the kinds of processes of an option."""
    return [kind for kind in KINDS if kind.option == option]


def named_values(option: str) -> tuple[str, ...]:
    """Return the strings that are values of an option, such as "level" for `trend`."""
    return tuple(kind.named_value for kind in _kinds(option) if kind.named_value)


def _variants(option: str) -> list[Any]:
    """Return the values of an option that selects a variant of a kind, the default first."""
    return [value for kind in KINDS for name, value in kind.variant.items() if name == option]


# Options for numbers of processes, such as `rhythms`, and options for variants of processes, such as
# `smoothness`.
_REQUESTS = tuple(dict.fromkeys(kind.option for kind in KINDS))
_VARIANTS = tuple(dict.fromkeys(name for kind in KINDS for name in kind.variant))
_DEFAULTS = {**dict.fromkeys(_REQUESTS, 0), **{name: _variants(name)[0] for name in _VARIANTS}}


class ProcessOptions(Mapping[str, Any]):
    """Values of the options of all kinds of processes, by name; immutable.

    Parameters
    ----------
    **values : int, str, tuple or array-like
        Values other than the defaults: a number of processes, a list of initial periods or time scales, or a
        string. Lists are stored as tuples.

    Raises
    ------
    ValueError
        If an option accepts a number or a list, and its value is neither.
    TypeError
        If an option does not exist.
    """

    def __init__(self, **values: Any) -> None:
        unknown = sorted(values.keys() - _DEFAULTS.keys())
        if unknown:
            raise TypeError(f"Options of processes are {', '.join(_DEFAULTS)}; got {', '.join(unknown)}.")
        self._values = {**_DEFAULTS, **{name: _normalized(name, value) for name, value in values.items()}}

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return the values of the options that are parameters of an estimator."""
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
        """Return a copy with some values changed."""
        return type(self)(**{**self._values, **changes})

    def count(self, name: str) -> int:
        """Return the number of processes of an option."""
        value = self[name]
        if isinstance(value, str):
            return 1
        return len(value) if isinstance(value, tuple) else int(value)

    @property
    def times(self) -> dict[str, tuple[Any, ...]]:
        """Initial periods or time scales by option, for options whose value is a list of them."""
        return {name: value for name, value in self.items() if isinstance(value, tuple)}

    def check(self) -> None:
        """Check all values.

        Raises
        ------
        ValueError
            The message names the option, its value and what is allowed.
        """
        for name in _REQUESTS:
            value = self[name]
            if isinstance(value, str):
                check_option(name, value, named_values(name))
            else:
                check_count(name, len(value) if isinstance(value, tuple) else value, minimum=0)
        for name in _VARIANTS:
            variants = _variants(name)
            if self[name] not in variants:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(str, variants))}; got {self[name]!r}."
                )

    def kind(self, name: str) -> type[Process]:
        """Return the kind of the processes of an option."""
        value = self[name]
        for kind in _kinds(name):
            matches = kind.named_value == value if isinstance(value, str) else kind.accepts_count
            if matches and all(self[option] == variant for option, variant in kind.variant.items()):
                return kind
        raise ValueError(f"{name} has no processes for {value!r}.")

    @property
    def counts(self) -> dict[type[Process], int]:
        """Number of processes of each requested kind."""
        return {self.kind(name): self.count(name) for name in _REQUESTS}

    def initial(self, time_unit: float, *, evenly_sampled: bool) -> dict[type[Process], Process]:
        """Return initial processes for lists of periods and time scales; see :meth:`.Process.of_times`.

        The lists must contain numbers, not durations.

        Parameters
        ----------
        time_unit : float
            Unit of time of the decays.
        evenly_sampled : bool
            Whether all rows are one unit of time apart.
        """
        processes = {}
        for name, value in self.times.items():
            times: FloatArray = np.array(value, dtype=np.float64) / time_unit
            kind = self.kind(name)
            processes[kind] = kind.of_times(times, evenly_sampled=evenly_sampled)
        return processes


def _normalized(name: str, value: Any) -> Any:
    """Return a number as int and a list as tuple if the option accepts lists, else the value unchanged."""
    times = next((kind.times for kind in _kinds(name) if kind.times), "")
    if not times:
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, _DURATIONS):
        return (value,)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise ValueError(f"{name} must be a number of factors, or a list of their {times}; got {value!r}.")


# ----------------------------------------------------------------------------------- options of a fit


class InitialProcesses(NamedTuple):
    """Initial values of processes from the options.

    Attributes
    ----------
    frequencies : ndarray of shape (R,) or None, default=None
        Frequencies of stochastic cycles in radians per time step; None to detect them.
    processes : mapping of type to Process
        Initial processes of other kinds.
    """

    frequencies: FloatArray | None = None
    processes: Mapping[type[Process], Process] = MappingProxyType({})


class Optimizer(NamedTuple):
    """Settings of the optimizer for standardized data.

    Attributes
    ----------
    solver : {"auto", "em", "lbfgs"}
        Algorithm; "auto" is "lbfgs".
    max_iter : int
        Maximum number of likelihood evaluations.
    tol : float
        Expected gain at which to stop, in nats.
    one_start : bool, default=False
        Whether a fit with AR(1) noise has only one initial model, the fit with white noise.
    """

    solver: str
    max_iter: int
    tol: float
    one_start: bool = False


@dataclass(frozen=True)
class FitOptions:
    """Parameters of a fit, with names and meanings as in :class:`probsfa.ProbabilisticSFA`.

    Attributes
    ----------
    n_components : int or None
        Number of AR(1) latent factors; None to select it.
    noise : {"auto", "diagonal", "isotropic", "ar1"}, float or array-like (D,), default="auto"
        Structure of the noise. "diagonal": a variance for each column. "isotropic": one variance for all
        columns. "ar1": a variance for each column, and AR(1) noise. "auto": "diagonal", unless the number of
        factors and the noise are selected together (:mod:`probsfa.statespace.default_model`). Numbers are
        known variances in squared data units: one for all columns, or one for each.
    solver : {"auto", "lbfgs", "em"}, default="auto"
        Optimizer of the likelihood; "auto" is "lbfgs".
    max_iter : int, default=200
        Maximum number of likelihood evaluations.
    tol : float or "auto", default="auto"
        The fit ends if the expected gain of a further step is less than this number of nats.
    noise_floor : float or "auto", default="auto"
        Smallest noise variance, as a fraction of each column's variance.
    processes : ProcessOptions
        Options of processes other than AR(1) factors.
    noise_prior : {"weak"} or None, default="weak"
        Prior of the noise variances that are estimated.
    robust : bool or {"cell", "row"}, default=False
        Whether noise is Student-t, with a weight for each value ("cell" or True) or for each row ("row").
    fixed : dict or None, default=None
        Fixed parameters, as returned by :func:`as_fixed`.
    """

    n_components: int | None
    noise: str | float | tuple[float, ...] = "auto"
    solver: str = "auto"
    max_iter: int = 200
    tol: float | str = "auto"
    noise_floor: str | float = "auto"
    processes: ProcessOptions = field(default_factory=ProcessOptions)
    noise_prior: str | None = "weak"
    robust: bool | str = False
    fixed: dict[str, tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", as_noise(self.noise))
        object.__setattr__(self, "fixed", as_fixed(self.fixed))

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return the options of an estimator from its parameters."""
        if estimator.n_init != "deprecated":
            warnings.warn(
                "n_init is ignored and will be removed in version 2.0. Pass other starting points as init=.",
                FutureWarning,
                stacklevel=2,
            )
        names = {option.name for option in fields(cls)} - {"processes"}
        values = {name: getattr(estimator, name) for name in names}
        # With robust="auto", outliers may be excluded from the data, and the noise of each fit is Gaussian.
        if isinstance(values["robust"], str) and values["robust"] == "auto":
            values["robust"] = False
        return cls(**values, processes=ProcessOptions.of(estimator))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the options from the values of :attr:`as_dict`; other names are ignored."""
        processes = {name: values[name] for name in ProcessOptions() if name in values}
        others = {option.name: values[option.name] for option in fields(cls) if option.name in values}
        return cls(**others, processes=ProcessOptions(**processes))

    @property
    def as_dict(self) -> dict[str, Any]:
        """Values of all options by name, for files."""
        others = {
            option.name: getattr(self, option.name) for option in fields(self) if option.name != "processes"
        }
        return {**others, **self.processes}

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
        check_option("solver", self.solver, ("auto", "em", "lbfgs"))
        if self.noise_prior is not None:
            check_option("noise_prior", self.noise_prior, ("weak",))
        is_name = isinstance(self.robust, str) and self.robust in TAILS
        if not (is_name or isinstance(self.robust, (bool, np.bool_))):
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
    def selects_noise(self) -> bool:
        """Whether the noise, white or AR(1), is selected together with the number of factors."""
        return self.noise == "auto" and self.n_components is None and not self.robust

    def with_default_noise(self) -> Self:
        """Return the options with "diagonal" noise instead of "auto"."""
        return replace(self, noise="diagonal") if self.noise == "auto" else self

    def _check_fixed(self, fixed: dict[str, tuple[Any, ...]]) -> None:
        if self.n_components is None:
            raise ValueError("fixed requires n_components to be an integer; got None.")
        if self.noise_free:
            raise ValueError(
                "noise=0.0 is slow feature analysis in closed form and does not support fixed parameters."
            )
        state_layout = self.state_layout
        requested = {"decays": state_layout.n_components, "periods": self.processes.count("rhythms")}
        for name, size in requested.items():
            if name in fixed and len(fixed[name]) != size:
                raise ValueError(
                    f"fixed[{name!r}] has {len(fixed[name])} values; it must have {size}, one for each "
                    "factor. Use NaN for values to estimate."
                )
        if "loadings" in fixed and any(len(row) != state_layout.n_states for row in fixed["loadings"]):
            raise ValueError(
                f"fixed['loadings'] must have a column for each of the {state_layout.n_states} states, as "
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
                    "fixed['noise'] contains a variance for each column, which requires noise='diagonal' or "
                    "noise='ar1'."
                )
        if None in fixed.get("periods", ()) and "rhythms" not in self.processes.times:
            raise ValueError(
                "fixed['periods'] has NaN for periods to estimate: pass their initial values as rhythms=."
            )

    def tolerance(self, n_parameters: int) -> float:
        """Return the expected gain of a further step at which a fit ends, in nats.

        On average, the log-likelihood at the maximum exceeds the log-likelihood at the true parameters by
        half a nat for each free parameter (Wilks 1938). The default tolerance is a small part of this
        difference. It is smaller for models with few parameters, which are more often interpreted and are
        faster to fit.
        """
        if not isinstance(self.tol, str):
            return self.tol
        return min(_TOL_PER_SQUARED_PARAMETER * n_parameters**2, _MAX_TOL)

    @property
    def state_layout(self) -> StateLayout:
        """Numbers of latent processes of each kind; requires that `n_components` is a number."""
        assert self.n_components is not None
        return StateLayout(int(self.n_components), self.processes.counts)

    @property
    def tails(self) -> HeavyTails | None:
        """Initial noise with heavy tails; None for Gaussian noise."""
        if not self.robust:
            return None
        return TAILS[self.robust if isinstance(self.robust, str) else "cell"]

    @property
    def n_other_processes(self) -> int:
        """Number of processes that are not AR(1) factors."""
        return sum(self.processes.counts.values())

    def with_times(self, axis: TimeAxis) -> Self:
        """Return the options with periods and time scales as numbers in the unit of the times.

        Raises
        ------
        ValueError
            If a value is not positive, or is a duration although the times are not dates.
        """
        times: dict[str, tuple[Any, ...]] = {
            name: tuple(_in_time_units(name, value, axis) for value in values)
            for name, values in self.processes.times.items()
        }
        fixed = self.fixed
        if self.fixed is not None and "periods" in self.fixed:
            fixed_periods = tuple(
                None if period is None else _in_time_units("fixed['periods']", period, axis)
                for period in self.fixed["periods"]
            )
            fixed = {**self.fixed, "periods": fixed_periods}
            initial_periods = times.get("rhythms", fixed_periods)
            times["rhythms"] = tuple(
                initial if period is None else period
                for initial, period in zip(initial_periods, fixed_periods, strict=True)
            )
        return replace(self, processes=self.processes.replace(**times), fixed=fixed)

    def limits(self, scale: FloatArray, time_unit: float, *, evenly_sampled: bool) -> Limits | None:
        """Return the fixed parameters, and the ranges of periods around their initial values.

        Parameters
        ----------
        scale : ndarray of shape (D,)
            Unit of each standardized column.
        time_unit : float
            Unit of time of the decays.
        evenly_sampled : bool
            Whether all rows are one unit of time apart.

        Returns
        -------
        Limits or None
            Constraints for the standardized data; None if there are neither fixed parameters nor initial
            periods.

        Raises
        ------
        ValueError
            If loadings or variances in `fixed` do not have one row for each column; or if a decay is not
            positive although rows are unevenly spaced.
        """
        periods = self.processes.times.get("rhythms", ())
        has_periods = bool(periods) and all(is_number(period) for period in periods)
        if self.fixed is None and not has_periods:
            return None
        state_layout, d = self.state_layout, scale.size
        frequencies = np.repeat([[-np.inf], [np.inf]], self.processes.count("rhythms"), axis=1)
        if has_periods:
            initial = 2.0 * np.pi * time_unit / np.array(periods, dtype=np.float64)
            frequencies = np.array([initial / PERIOD_RANGE, initial * PERIOD_RANGE])
            if evenly_sampled:
                frequencies[1] = np.minimum(frequencies[1], np.pi)
        fixed = self.fixed or {}
        if has_periods and "periods" in fixed:
            is_fixed = np.array([period is not None for period in fixed["periods"]])
            frequencies = np.where(is_fixed, initial, frequencies)
        arrays = {
            "decays": np.full(state_layout.n_components, np.nan),
            "loadings": np.full((d, state_layout.n_states), np.nan),
            "noise": np.full(d, np.nan),
        }
        for name, free in arrays.items():
            if name not in fixed:
                continue
            value = _as_array(fixed[name])
            if value.shape != free.shape:
                raise ValueError(f"fixed[{name!r}] has shape {value.shape}; it must be {free.shape}.")
            arrays[name] = value
        if not evenly_sampled and np.any(arrays["decays"] <= 0.0):
            raise ValueError("fixed['decays'] must be positive if rows are not evenly spaced.")
        loadings = arrays["loadings"] / scale[:, None]
        without_loadings = np.setdiff1d(np.arange(state_layout.n_states), state_layout.loaded_states)
        loadings[:, without_loadings] = np.nan
        noise = _standardized_variances(arrays["noise"], scale)
        cycle_states = state_layout.states.get(Rhythm, slice(0, 0))
        return Limits(arrays["decays"], loadings, noise, frequencies, cycle_states)

    def initial_processes(self, time_unit: float, *, evenly_sampled: bool) -> InitialProcesses:
        """Return the initial values of processes, with frequencies and rates per `time_unit`.

        Raises
        ------
        ValueError
            If rows are evenly sampled and a period is two rows or less.
        """
        initial = self.processes.initial(time_unit, evenly_sampled=evenly_sampled)
        cycles = [process for kind, process in initial.items() if kind.from_periodogram]
        others = {kind: process for kind, process in initial.items() if not kind.from_periodogram}
        return InitialProcesses(
            np.concatenate([process.peaks[0] for process in cycles]) if cycles else None, others
        )

    def variances(self, n_features: int) -> NoiseVariances:
        """Return the structure of the variances of white noise: shared and known variances."""
        return NoiseVariances.of_option(self.noise, n_features)

    @property
    def separate_variances(self) -> bool:
        """Whether a separate variance of white noise is estimated for each column."""
        return self.variances(2).separate

    @property
    def has_ar1_noise(self) -> bool:
        """Whether each column has AR(1) noise besides white noise."""
        return isinstance(self.noise, str) and self.noise == "ar1"

    @property
    def scales_by_feature(self) -> bool:
        """Whether each column is divided by its own scale; isotropic noise requires a common scale."""
        return self.separate_variances or isinstance(self.noise, tuple)

    @property
    def noise_free(self) -> bool:
        """Whether there is no noise, so that the fit is slow feature analysis."""
        return is_number(self.noise) and self.noise == 0.0

    @property
    def min_noise(self) -> float:
        """Lower bound of estimated noise variances, as a fraction of each column's variance."""
        if not isinstance(self.noise_floor, str):
            return float(self.noise_floor)
        return MIN_WHITE_NOISE if self.has_ar1_noise else MIN_NOISE

    @property
    def noise_floors(self) -> tuple[float, ...]:
        """Noise variances that are treated as lower bounds, as fractions of a column's variance.

        With "auto", they include the lower bound of earlier versions, because a loaded model may have it.
        """
        return (self.min_noise, FORMER_FLOOR) if self.noise_floor == "auto" else (self.min_noise,)

    def known_noise(self, scale: FloatArray) -> FloatArray | None:
        """Return known noise variances (D,) divided by ``scale**2``, raised to a minimum; None if unknown.

        Raises
        ------
        ValueError
            If there is not one variance for each column.
        """
        relative = self._relative_noise(scale)
        return None if relative is None else np.maximum(relative, MIN_KNOWN_NOISE)

    def is_noise_raised(self, scale: FloatArray) -> BoolArray:
        """Return whether :meth:`known_noise` raises the noise variance of each column (D,)."""
        relative = self._relative_noise(scale)
        return np.zeros(scale.size, dtype=bool) if relative is None else relative < MIN_KNOWN_NOISE

    def _relative_noise(self, scale: FloatArray) -> FloatArray | None:
        """Return known noise variances divided by ``scale**2``, or None if variances are estimated."""
        if isinstance(self.noise, str):
            return None
        variances = np.asarray(self.noise, dtype=np.float64)
        if variances.ndim and variances.size != scale.size:
            raise ValueError(f"noise has {variances.size} variances; X has {scale.size} columns.")
        return variances / scale**2

    def standardized_noise(self, scale: FloatArray, resolution: FloatArray | float = 0.0) -> Noise:
        """Return constraints and prior of the noise variances divided by ``scale**2``.

        Parameters
        ----------
        scale : ndarray of shape (D,)
            Unit of each standardized column.
        resolution : ndarray of shape (D,) or float, default=0.0
            Variance of the rounding errors of each standardized column; a lower bound of the noise variance
            with ``noise_floor="auto"``.
        """
        known = self.known_noise(scale)
        minimum = np.maximum(self.min_noise, resolution if self.noise_floor == "auto" else 0.0)
        floor = np.broadcast_to(minimum, scale.shape).copy() if known is None else known
        fixed = None
        if self.fixed is not None and "noise" in self.fixed:
            fixed = _standardized_variances(_as_array(self.fixed["noise"]), scale)
        prior = 0.0 if self.noise_prior is None else WEAK_PRIOR
        return Noise(self.variances(scale.size), floor, prior, fixed)


def check_identified(state_layout: StateLayout, n_observed: int) -> None:
    """Raise a ValueError if there are more latent factors of a kind than observed values.

    Parameters
    ----------
    state_layout : StateLayout
        Numbers of latent processes of each kind.
    n_observed : int
        Number of observed values.
    """
    counts = {"n_components": state_layout.n_components}
    counts |= {kind.option: count for kind, count in state_layout.counts.items()}
    for name, count in counts.items():
        if count > max(n_observed, 1):
            raise ValueError(
                f"{name}={count} is more than the {n_observed} observed values: the likelihood does not "
                "determine the factors. Use fewer."
            )


def check_fit_memory(n_states: int, available: int | None = None) -> None:
    """Raise a ValueError if a fit requires more RAM than this machine has.

    Parameters
    ----------
    n_states : int
        Number of states of latent factors and AR(1) noise.
    available : int, optional
        Bytes of RAM; by default the RAM of the machine. If the system does not report it, no error is raised.

    Raises
    ------
    ValueError
        If the required RAM, which the message states, is not available.
    """
    check_memory(
        8 * _N_MATRICES_IN_MEMORY * n_states**2,
        f"{n_states} states of latent factors and AR(1) noise require about {{size}}, for "
        f"{_N_MATRICES_IN_MEMORY} matrices of {n_states} x {n_states} numbers",
        "Use fewer (n_components, rhythms, smooth).",
        available,
    )
