"""Options of the estimators that request latent processes.

Each kind states the values of an option that request it: a number, the times of each process, or a word; some
kinds also need a value of a second option (:class:`.Process`).
"""

import numbers
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Self

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_option
from probsfa.statespace.processes import KINDS, Process

__all__ = ["DURATIONS", "ProcessOptions", "words_of"]

#: Types of durations.
DURATIONS = (str, timedelta, np.timedelta64)


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
    if isinstance(value, DURATIONS):
        return (value,)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise ValueError(f"{name} must be a number of factors, or a list of their {what}; got {value!r}.")
