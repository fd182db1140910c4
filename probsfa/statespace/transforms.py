"""Columns in their own scale: amounts that are never negative, percentages, and what is skewed.

A model of Gaussian columns fills rain below zero and humidity above 100. A column may be taken in a scale of
its own instead, ``y = T(x)`` with an increasing ``T``, in which it is closer to Gaussian and knows no bounds.
The log-likelihood of the data is that of ``y`` plus ``log T'(x)`` for each observed cell. A Gaussian of ``y``
comes back as a distribution of ``x`` whose quantiles are those of ``y``, mapped, and whose mean and standard
deviation are integrals.

==================  ======================================================  =================================
kind                ``y``                                                   ``x``
==================  ======================================================  =================================
``"log"``           ``log x``                                               above 0
``"log1p"``         ``log(1 + x)``                                          0 or above
``"sqrt"``          ``sqrt x``                                              0 or above
``"box-cox"``       ``(x^p - 1) / p``, Box & Cox (1964)                     above 0
``"yeo-johnson"``   the same of ``1 + x``, and mirrored of ``1 - x``        any; Yeo & Johnson (2000)
``(a, b)``          ``log((x - a) / (b - x))``                              from a to b
``(a, None)``       ``log(x - a)``                                          a or above
``(None, b)``       ``-log(b - x)``                                         b or below
==================  ======================================================  =================================

Values on a bound have no finite ``y`` in the last three, and no finite slope in ``"sqrt"``: those that are
closer to it than a margin are taken to be as far from it as the margin. That is half the distance of the
closest training value that is off the bound, but a thousandth of the range at least, and a hundredth at most
(of the median distance, where there is one bound, a thousandth and a twentieth). What comes back below the
range of ``"log1p"``, ``"sqrt"`` and ``"box-cox"`` is zero.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import boxcox, expit, inv_boxcox
from scipy.stats import boxcox_llf, yeojohnson_llf

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences

__all__ = [
    "Bounds",
    "BoxCox",
    "Log",
    "Log1p",
    "Sqrt",
    "Transform",
    "Transforms",
    "YeoJohnson",
    "as_asked",
    "as_plain",
    "from_plain",
    "make_transforms",
]

# Exponents from which no moment is lost, nor the way back.
_SMALLEST_POWER, _LARGEST_POWER = 0.0, 2.0
# Margin at bounds: a part of the distance of the closest value; at least and at most parts of the range or,
# at one bound, of the median distance.
_SHARE_OF_CLOSEST, _LEAST_MARGIN, _MOST_OF_RANGE, _MOST_OF_MEDIAN = 0.5, 1e-3, 0.01, 0.05
# Reach and nodes of the integrals, which are taken in two parts, and cells that are integrated together.
_REACH, _NODES, _CELLS = 9.0, 64, 4096
# What "auto" asks for: cells and different values; gain over none in nats, in the prediction of a cell from
# the one before (altogether and for each cell) and of cells by themselves; and that of the logarithm.
_FEWEST, _FEWEST_VALUES = 50, 10
_LEAST_GAIN, _LEAST_GAIN_PER_CELL, _LEAST_MARGINAL_GAIN = 10.0, 0.05, 2.0
_GAIN_OF_LOG_PER_CELL = 0.1
# Part of the observed cells that may have one value other than zero, the lower bound: more are no density.
_MOST_TIED = 0.2


class Transform(ABC):
    """An increasing map of the cells of one column, and the way back."""

    #: Whether the way back grows like an exponential function, at most.
    exponential: ClassVar[bool] = True
    #: Where the way back bends, in the transformed unit.
    bend: float = 0.0

    @property
    @abstractmethod
    def plain(self) -> list[Any]:
        """The name of the kind and its numbers."""

    @abstractmethod
    def forward(self, x: FloatArray) -> FloatArray:
        """``T(x)``; NaN stays."""

    @abstractmethod
    def inverse(self, y: FloatArray) -> FloatArray:
        """``x`` of ``y``; of what is below the range of ``T``, the bound."""

    @abstractmethod
    def log_slope(self, x: FloatArray) -> FloatArray:
        """``log T'(x)``; NaN stays."""

    @abstractmethod
    def outside(self, x: FloatArray) -> BoolArray:
        """Which values the map is not defined for."""

    @property
    def domain(self) -> str:
        """What values may be, in words."""
        return "any number"

    @property
    def n_free(self) -> int:
        """Number of parameters that were learned."""
        return 0

    def moments(self, means: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of ``x`` where ``y`` is Gaussian, cell by cell.

        Parameters
        ----------
        means, std : ndarray of shape (M,)
            Of ``y``.

        Returns
        -------
        means, std : ndarray of shape (M,)
            By Gauss-Legendre quadrature on either side of where the map bends.
        """
        out = np.empty_like(means), np.empty_like(means)
        nodes, weights = _legendre()
        for start in range(0, len(means), _CELLS):
            part = slice(start, start + _CELLS)
            m, s = means[part, None], std[part, None]
            reach = _REACH + (2.0 * s if self.exponential else 0.0 * s)
            with np.errstate(divide="ignore", invalid="ignore"):
                middle = np.where(s > 0.0, (self.bend - m) / np.where(s > 0.0, s, 1.0), 0.0)
            middle = np.clip(middle, -reach, reach)
            total = spread = power = 0.0
            with np.errstate(over="ignore"):
                centre = self.inverse(m)
            for low, high in ((-reach, middle), (middle, reach)):
                z = low + 0.5 * (high - low) * (nodes + 1.0)
                density = 0.5 * (high - low) * weights * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
                with np.errstate(over="ignore"):
                    deviation = self.inverse(m + s * z) - centre
                    total = total + density.sum(axis=1)
                    spread = spread + (density * deviation).sum(axis=1)
                    power = power + (density * deviation**2).sum(axis=1)
            shift = spread / total
            out[0][part] = centre[:, 0] + shift
            out[1][part] = np.sqrt(np.maximum(power / total - shift**2, 0.0))
        return out


@functools.cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(_NODES)


@dataclass(frozen=True)
class Log(Transform):
    """``log x``, for what is above zero."""

    @property
    def plain(self) -> list[Any]:
        """The name alone."""
        return ["log"]

    @property
    def domain(self) -> str:
        """What values may be."""
        return "above 0 (at 0 or above, 'sqrt', 'log1p' or the bounds (0, None) serve)"

    def forward(self, x: FloatArray) -> FloatArray:
        """``log x``."""
        return np.log(x)

    def inverse(self, y: FloatArray) -> FloatArray:
        """``exp y``."""
        return np.exp(y)

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``-log x``."""
        return -np.log(x)

    def outside(self, x: FloatArray) -> BoolArray:
        """Zero and what is below."""
        return np.asarray(x <= 0.0)

    def moments(self, means: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the log-normal distribution."""
        with np.errstate(over="ignore"):
            mean = np.exp(means + 0.5 * std**2)
            return mean, mean * np.sqrt(np.expm1(std**2))


@dataclass(frozen=True)
class Log1p(Transform):
    """``log(1 + x)``, for what is zero or above; what comes back below zero is zero."""

    @property
    def plain(self) -> list[Any]:
        """The name alone."""
        return ["log1p"]

    @property
    def domain(self) -> str:
        """What values may be."""
        return "0 or above"

    def forward(self, x: FloatArray) -> FloatArray:
        """``log(1 + x)``."""
        return np.log1p(x)

    def inverse(self, y: FloatArray) -> FloatArray:
        """``exp(y) - 1``, and zero below."""
        return np.expm1(np.maximum(y, 0.0))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``-log(1 + x)``."""
        return -np.log1p(x)

    def outside(self, x: FloatArray) -> BoolArray:
        """What is below zero."""
        return np.asarray(x < 0.0)


@dataclass(frozen=True)
class Sqrt(Transform):
    """``sqrt x``, for what is zero or above; what comes back below zero is zero.

    Attributes
    ----------
    margin : float
        Values below are taken to be so large.
    """

    margin: float
    exponential: ClassVar[bool] = False

    @property
    def plain(self) -> list[Any]:
        """The name and the margin."""
        return ["sqrt", self.margin]

    @property
    def domain(self) -> str:
        """What values may be."""
        return "0 or above"

    def forward(self, x: FloatArray) -> FloatArray:
        """``sqrt x``."""
        return np.sqrt(np.maximum(x, self.margin))

    def inverse(self, y: FloatArray) -> FloatArray:
        """``y^2``, and zero below."""
        return np.maximum(y, 0.0) ** 2

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``-log(2 sqrt x)``."""
        return -np.log(2.0) - 0.5 * np.log(np.maximum(x, self.margin))

    def outside(self, x: FloatArray) -> BoolArray:
        """What is below zero."""
        return np.asarray(x < 0.0)


@dataclass(frozen=True)
class BoxCox(Transform):
    """``(x^p - 1) / p``, for what is above zero; what comes back below zero is zero.

    Attributes
    ----------
    power : float
        ``p``, from 0, which is the logarithm, to 2.
    """

    power: float

    @property
    def bend(self) -> float:  # type: ignore[override]
        """The lower end of the range."""
        return -1.0 / self.power if self.power > 0.0 else 0.0

    @property
    def plain(self) -> list[Any]:
        """The name and the power."""
        return ["box-cox", self.power]

    @property
    def domain(self) -> str:
        """What values may be."""
        return "above 0 (at 0 or above, 'sqrt' or 'log1p' serve)"

    @property
    def n_free(self) -> int:
        """The power."""
        return 1

    def forward(self, x: FloatArray) -> FloatArray:
        """``(x^p - 1) / p``."""
        return np.asarray(boxcox(x, self.power))

    def inverse(self, y: FloatArray) -> FloatArray:
        """``(1 + p y)^(1 / p)``, and zero below the range."""
        lowest = -1.0 / self.power if self.power > 0.0 else -np.inf
        return np.asarray(inv_boxcox(np.maximum(y, lowest), self.power))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``(p - 1) log x``."""
        return (self.power - 1.0) * np.log(x)

    def outside(self, x: FloatArray) -> BoolArray:
        """Zero and what is below."""
        return np.asarray(x <= 0.0)


@dataclass(frozen=True)
class YeoJohnson(Transform):
    """Box & Cox's map of ``1 + x`` above zero, and of ``1 - x`` with the power ``2 - p`` below, mirrored.

    Attributes
    ----------
    power : float
        ``p``, from 0 to 2; 1 changes nothing.
    """

    power: float

    @property
    def plain(self) -> list[Any]:
        """The name and the power."""
        return ["yeo-johnson", self.power]

    @property
    def n_free(self) -> int:
        """The power."""
        return 1

    def forward(self, x: FloatArray) -> FloatArray:
        """Above and below zero."""
        return np.where(
            x >= 0.0,
            boxcox(1.0 + np.maximum(x, 0.0), self.power),
            np.where(np.isnan(x), np.nan, -boxcox(1.0 - np.minimum(x, 0.0), 2.0 - self.power)),
        )

    def inverse(self, y: FloatArray) -> FloatArray:
        """Above and below zero."""
        above = inv_boxcox(np.maximum(y, 0.0), self.power) - 1.0
        below = 1.0 - inv_boxcox(np.maximum(-y, 0.0), 2.0 - self.power)
        return np.where(y >= 0.0, above, np.where(np.isnan(y), np.nan, below))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``(p - 1) sign(x) log(1 + |x|)``."""
        return (self.power - 1.0) * np.sign(x) * np.log1p(np.abs(x))

    def outside(self, x: FloatArray) -> BoolArray:
        """Nothing."""
        return np.zeros(x.shape, dtype=bool)


@dataclass(frozen=True)
class Bounds(Transform):
    """The logit between two bounds, or the logarithm of the distance from one.

    Attributes
    ----------
    lower, upper : float or None
        The bounds, one of which may be missing.
    margin : float
        Values closer to a bound are taken to be so far from it.
    """

    lower: float | None
    upper: float | None
    margin: float

    @property
    def plain(self) -> list[Any]:
        """The bounds and the margin."""
        return ["bounds", self.lower, self.upper, self.margin]

    @property
    def domain(self) -> str:
        """What values may be."""
        if self.upper is None:
            return f"{self.lower:g} or above"
        return f"{self.upper:g} or below" if self.lower is None else f"from {self.lower:g} to {self.upper:g}"

    def _distances(self, x: FloatArray) -> tuple[FloatArray | float, FloatArray | float]:
        """From the lower and from the upper bound; 1 where there is none."""
        below = 1.0 if self.lower is None else np.maximum(x - self.lower, self.margin)
        above = 1.0 if self.upper is None else np.maximum(self.upper - x, self.margin)
        if self.lower is not None and self.upper is not None:
            most = self.upper - self.lower - self.margin
            below, above = np.minimum(below, most), np.minimum(above, most)
        return below, above

    def forward(self, x: FloatArray) -> FloatArray:
        """Logarithm of the ratio of the distances."""
        below, above = self._distances(x)
        return np.asarray(np.log(below) - np.log(above))

    def inverse(self, y: FloatArray) -> FloatArray:
        """The value between the bounds."""
        if self.lower is None:
            assert self.upper is not None
            return np.asarray(self.upper - np.exp(-y))
        if self.upper is None:
            return np.asarray(self.lower + np.exp(y))
        width = self.upper - self.lower
        return np.where(y < 0.0, self.lower + width * expit(y), self.upper - width * expit(-y))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """Logarithm of ``1 / below + 1 / above``."""
        below, above = self._distances(x)
        if self.lower is None:
            return np.asarray(-np.log(above))
        if self.upper is None:
            return np.asarray(-np.log(below))
        return np.asarray(np.log(self.upper - self.lower) - np.log(below) - np.log(above))

    def outside(self, x: FloatArray) -> BoolArray:
        """What is beyond a bound."""
        low = False if self.lower is None else x < self.lower
        high = False if self.upper is None else x > self.upper
        return np.asarray(np.broadcast_to(low | high, x.shape))

    def moments(self, means: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of the log-normal distribution where there is one bound."""
        if self.lower is not None and self.upper is not None:
            return super().moments(means, std)
        sign = -1.0 if self.lower is None else 1.0
        mean, spread = Log().moments(sign * means, std)
        bound = self.upper if self.lower is None else self.lower
        assert bound is not None
        return bound + sign * mean, spread


# -------------------------------------------------------------------------------------- all columns


@dataclass(frozen=True)
class Transforms:
    """The maps of all columns.

    Attributes
    ----------
    by_column : tuple of Transform or None
        One for each column; None where it stays as it is.
    """

    by_column: tuple[Transform | None, ...]

    @property
    def used(self) -> list[tuple[int, Transform]]:
        """Columns that have a map, and the map."""
        return [(j, one) for j, one in enumerate(self.by_column) if one is not None]

    @property
    def n_free(self) -> int:
        """Number of parameters that were learned."""
        return sum(one.n_free for _, one in self.used)

    def check(self, values: FloatArray, names: Sequence[str] | None) -> None:
        """Raise a ValueError that names the first value outside the domain of its column's map.

        Parameters
        ----------
        values : ndarray of shape (N, D)
        names : sequence of str or None
            What the columns are called.
        """
        for j, one in self.used:
            refuse_outside(one, values[:, j], j, names)

    def forward(self, values: FloatArray) -> FloatArray:
        """Cells (..., D) in the scales of the columns; a new array where any has one."""
        return self._mapped(values, "forward")

    def inverse(self, values: FloatArray) -> FloatArray:
        """Cells (..., D) in data units."""
        return self._mapped(values, "inverse")

    def _mapped(self, values: FloatArray, how: str) -> FloatArray:
        if not self.used:
            return values
        out = values.copy()
        for j, one in self.used:
            out[..., j] = getattr(one, how)(values[..., j])
        return out

    def log_slopes(self, values: FloatArray) -> FloatArray:
        """Sum of ``log T'(x)`` over the observed cells of each row, shape (N,)."""
        total = np.zeros(len(values))
        for j, one in self.used:
            total += np.nan_to_num(one.log_slope(values[:, j]))
        return total

    def moments(
        self, means: FloatArray, std: FloatArray, where: BoolArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations (N, D) in data units, of all cells or of some."""
        if not self.used:
            return means, std
        out = means.copy(), std.copy()
        for j, one in self.used:
            cells = np.ones(len(means), dtype=bool) if where is None else where[:, j]
            cells = cells & ~np.isnan(means[:, j])
            out[0][cells, j], out[1][cells, j] = one.moments(means[cells, j], std[cells, j])
        return out


def refuse_outside(one: Transform, cells: FloatArray, column: int, names: Sequence[str] | None) -> None:
    """Raise a ValueError that names the first cell outside the domain of a map."""
    bad = one.outside(cells)  # NaN is outside of nothing
    if bad.any():
        row = int(np.argmax(bad))
        called = "" if names is None else f" ({names[column]!r})"
        raise ValueError(
            f"X has {cells[row]:g} in row {row}, column {column}{called}, and transforms={_named(one)} takes "
            f"what is {one.domain}. Replace the value by NaN where it stands for a missing measurement, or "
            "choose another transform."
        )


def _named(one: Transform) -> str:
    if isinstance(one, Bounds):
        return repr((one.lower, one.upper))
    return repr(one.plain[0])


# --------------------------------------------------------------------------------- from what is asked

_KINDS = ("auto", "log", "log1p", "sqrt", "box-cox", "yeo-johnson")


def make_transforms(asked: Any, sequences: Sequences) -> tuple[Transforms, str]:
    """Read the parameter ``transforms`` of an estimator, and learn from training data what it leaves open.

    Parameters
    ----------
    asked : None, str, Mapping or sequence
        A kind for all columns, one for each, or those of some by their names or numbers.
    sequences : Sequences
        Checked training data.

    Returns
    -------
    transforms : Transforms
    sentence : str
        What ``"auto"`` took, for the status; empty where nobody asked.

    Raises
    ------
    ValueError
        If the parameter is not valid, or a value is outside the domain of its column's map.
    """
    names, n_features = sequences.feature_names, sequences.n_features
    kinds = _by_column(asked, names, n_features)
    made: list[Transform | None] = []
    for j, kind in enumerate(kinds):
        cells = sequences.values[:, j]
        if kind == "auto":
            made.append(_choose(cells, sequences))
        else:
            made.append(_make(kind, cells, j, names))
    chosen = [
        f"{_named(one)} for {j if names is None else repr(names[j])}"
        for j, (kind, one) in enumerate(zip(kinds, made, strict=True))
        if kind == "auto" and one is not None
    ]
    sentence = ""
    if "auto" in [kind for kind in kinds if isinstance(kind, str)]:
        took = ", ".join(chosen) if chosen else "none: no column is clearly better in another scale"
        sentence = f" transforms='auto' took {took}."
    return Transforms(tuple(made)), sentence


def _by_column(asked: Any, names: Sequence[str] | None, n_features: int) -> list[Any]:
    """A kind for each column."""
    bounds = isinstance(asked, tuple) and len(asked) == 2 and any(_is_real(end) for end in asked)
    if asked is None or bounds or isinstance(asked, (str, Transform)):
        return [_checked(asked)] * n_features
    if isinstance(asked, Mapping):
        kinds: list[Any] = [None] * n_features
        for column, kind in asked.items():
            where = _column(column, names, n_features)
            kinds[where] = _checked(kind)
        return kinds
    if isinstance(asked, (list, tuple, np.ndarray)):
        if len(asked) != n_features:
            raise ValueError(
                f"transforms has {len(asked)} kinds, and X has {n_features} columns; give one for each, or "
                "those of some by name: transforms={'rain': 'sqrt'}."
            )
        return [_checked(kind) for kind in asked]
    raise ValueError(
        f"transforms must be None, a kind such as 'sqrt', or kinds by column; got {type(asked).__name__}."
    )


def _column(column: Any, names: Sequence[str] | None, n_features: int) -> int:
    if names is not None and str(column) in names:
        return list(names).index(str(column))
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < n_features:
        return int(column)
    of = f"0 to {n_features - 1}" if names is None else ", ".join(map(repr, list(names)[:10]))
    raise ValueError(f"transforms names the column {column!r}, which X does not have; it has {of}.")


def _checked(kind: Any) -> Any:
    """A kind as it is, once it is one."""
    if kind is None or isinstance(kind, Transform) or (isinstance(kind, str) and kind in _KINDS):
        return kind
    if isinstance(kind, (list, tuple)) and len(kind) == 2:
        ends = [None if end is None or (_is_real(end) and np.isinf(end)) else end for end in kind]
        numbers = [end for end in ends if end is not None]
        if numbers and all(_is_real(end) and np.isfinite(end) for end in numbers):
            if len(numbers) == 2 and not numbers[0] < numbers[1]:
                raise ValueError(f"transforms has the bounds {kind!r}; the second must be larger.")
            return tuple(None if end is None else float(end) for end in ends)
    raise ValueError(
        f"transforms must be None, one of {', '.join(map(repr, _KINDS))}, or bounds such as (0, 100) or "
        f"(0, None), for each column; got {kind!r}."
    )


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _make(kind: Any, cells: FloatArray, column: int, names: Sequence[str] | None) -> Transform | None:
    """The map of one column, of a kind that is not "auto"."""
    if kind is None:
        return None
    made: Transform
    if isinstance(kind, Transform):
        made = kind
    elif kind == "log":
        made = Log()
    elif kind == "log1p":
        made = Log1p()
    elif kind == "sqrt":
        made = Sqrt(1.0)
    elif kind == "box-cox":
        made = BoxCox(1.0)
    elif kind == "yeo-johnson":
        made = YeoJohnson(1.0)
    else:
        lower, upper = kind
        made = Bounds(lower, upper, 0.0)
    refuse_outside(made, cells, column, names)
    return _learned(made, cells[~np.isnan(cells)]) if not isinstance(kind, Transform) else made


def _learned(made: Transform, seen: FloatArray) -> Transform:
    """The same map with its margin or its power, from observed cells that are within its domain."""
    if isinstance(made, Sqrt):
        return Sqrt(_margin(seen))
    if isinstance(made, Bounds):
        if made.lower is not None and made.upper is not None:
            width = made.upper - made.lower
            distances = np.concatenate([seen - made.lower, made.upper - seen])
            return Bounds(made.lower, made.upper, _margin(distances, width))
        distances = made.upper - seen if made.lower is None else seen - made.lower  # type: ignore[operator]
        return Bounds(made.lower, made.upper, _margin(distances))
    if isinstance(made, BoxCox):
        return BoxCox(_best_power(boxcox_llf, seen, (_SMALLEST_POWER, _LARGEST_POWER)))
    if isinstance(made, YeoJohnson):
        # On the side of zero where there are no values, the way back may be an exponential function of them.
        powers = (0.5, 1.5)
        if seen.size and (seen.min() >= 0.0 or seen.max() <= 0.0):
            powers = (_SMALLEST_POWER, 1.0) if seen.min() >= 0.0 else (1.0, _LARGEST_POWER)
        return YeoJohnson(_best_power(yeojohnson_llf, seen, powers))
    return made


def _margin(distances: FloatArray, width: float | None = None) -> float:
    """How far from a bound values are taken to be, at least."""
    off = distances[distances > 0.0]
    if off.size == 0:
        return _LEAST_MARGIN * (width or 1.0)
    unit, most = (float(np.median(off)), _MOST_OF_MEDIAN) if width is None else (width, _MOST_OF_RANGE)
    return float(np.clip(_SHARE_OF_CLOSEST * off.min(), _LEAST_MARGIN * unit, most * unit))


def _best_power(log_likelihood: Any, seen: FloatArray, powers: tuple[float, float]) -> float:
    """The power that makes the cells most likely as independent draws of a Gaussian."""
    if seen.size == 0 or np.ptp(seen) <= 8.0 * np.finfo(np.float64).eps * np.abs(seen).max():
        return 1.0

    def fall(power: float) -> float:
        return -float(log_likelihood(power, seen))

    end = minimize_scalar(
        fall,
        bounds=powers,
        method="bounded",
        options={"xatol": 1e-6},
    )
    return min((float(end.x), *powers), key=fall)  # the search comes close to an end, but not to it


def _choose(cells: FloatArray, sequences: Sequences) -> Transform | None:
    """The map of a column that is clearly better than none, or None.

    Better by likelihood twice: as independent draws, which counts for the part of the cells that are
    independent, and each given the cell before, as an AR(1) process, which is closer to what the model asks.
    Candidates are those whose way back grows slowly; the logarithm must be far better than these, because a
    mean of what it gives back may be far off where the model is not right.
    """
    seen = cells[~np.isnan(cells)]
    if seen.size < _FEWEST or seen.min() < 0.0:
        return None
    values, counts = np.unique(seen, return_counts=True)
    if values.size < _FEWEST_VALUES or counts[values != 0.0].max() > _MOST_TIED * seen.size:
        return None
    candidates: list[Transform] = [Sqrt(1.0)]
    candidates += [Bounds(0.0, top, 0.0) for top in (1.0, 100.0) if 0.9 * top < seen.max() <= top]
    previous = np.full(cells.shape, np.nan)
    previous[1:] = cells[:-1]
    previous[sequences.starts] = np.nan
    best: Transform | None = None
    base = most = _evidence(None, cells, previous)
    for one in candidates:
        made = _learned(one, seen)
        evidence = _evidence(made, cells, previous)
        least = max(_LEAST_GAIN, _LEAST_GAIN_PER_CELL * seen.size)
        if evidence.exceeds(base, least, _LEAST_MARGINAL_GAIN) and evidence.exceeds(most, 0.0, -np.inf):
            best, most = made, evidence
    if best is not None and seen.min() > 0.0:
        least = _GAIN_OF_LOG_PER_CELL * seen.size
        if _evidence(Log(), cells, previous).exceeds(most, least, _LEAST_MARGINAL_GAIN):
            return Log()
    return best


class _Evidence(NamedTuple):
    """Log-likelihoods of a column in a scale, and the part of its cells that count as independent."""

    marginal: float
    conditional: float
    share: float

    def exceeds(self, other: "_Evidence", conditional: float, marginal: float) -> bool:
        """Whether both log-likelihoods are larger by so much, in nats of independent cells."""
        gain = (self.marginal - other.marginal) * min(self.share, other.share)
        return self.conditional - other.conditional > conditional and gain > marginal


def _evidence(one: Transform | None, cells: FloatArray, previous: FloatArray) -> _Evidence:
    """Gaussian log-likelihoods at their maxima, in the units of the data."""
    now, before = cells, previous
    slopes = np.zeros(cells.shape)
    if one is not None:
        now, before, slopes = one.forward(cells), one.forward(previous), one.log_slope(cells)
    seen, pairs = ~np.isnan(now), ~np.isnan(now) & ~np.isnan(before)
    marginal = -0.5 * seen.sum() * np.log(np.var(now[seen])) + slopes[seen].sum()
    correlation = float(np.corrcoef(now[pairs], before[pairs])[0, 1]) if pairs.sum() > 2 else 0.0
    left = np.var(now[pairs]) * (1.0 - correlation**2) if pairs.sum() > 2 else 1.0
    conditional = -0.5 * pairs.sum() * np.log(left) + slopes[pairs].sum()
    rho = min(max(correlation, 0.0), 1.0)
    return _Evidence(float(marginal), float(conditional), (1.0 - rho) / (1.0 + rho))


# ------------------------------------------------------------------------------------------- files

_BY_NAME: dict[str, Callable[..., Transform]] = {
    "log": Log,
    "log1p": Log1p,
    "sqrt": Sqrt,
    "box-cox": BoxCox,
    "yeo-johnson": YeoJohnson,
    "bounds": Bounds,
}


def as_plain(asked: Any) -> Any:
    """The parameter ``transforms`` as JSON can hold it."""
    if isinstance(asked, Transform):
        return {"transform": asked.plain}
    if isinstance(asked, Mapping):
        return {"columns": [[_plain_key(key), as_plain(kind)] for key, kind in asked.items()]}
    if isinstance(asked, (list, tuple, np.ndarray)):
        return [as_plain(kind) for kind in asked]
    return asked


def _plain_key(key: Any) -> Any:
    return int(key) if isinstance(key, np.integer) else key


def as_asked(plain: Any) -> Any:
    """The parameter ``transforms`` from what :func:`as_plain` made of it."""
    if isinstance(plain, dict) and "transform" in plain:
        return from_plain(plain["transform"])
    if isinstance(plain, dict):
        return {key: as_asked(kind) for key, kind in plain["columns"]}
    if isinstance(plain, list):
        inner = [as_asked(kind) for kind in plain]
        bounds = (
            len(inner) == 2 and all(one is None or _is_real(one) for one in inner) and inner != [None] * 2
        )
        return tuple(inner) if bounds else inner
    return plain


def from_plain(plain: Any) -> Transform | None:
    """A map from its name and numbers, or None.

    Raises
    ------
    ValueError
        If it is none.
    """
    if plain is None:
        return None
    if not (isinstance(plain, list) and plain and plain[0] in _BY_NAME):
        raise ValueError(f"transforms holds {plain!r:.80}, which is none")
    numbers = plain[1:]
    bounded = plain[0] == "bounds"
    good = all(_is_real(x) and np.isfinite(x) for x in numbers if not (bounded and x is None))
    expected = {"sqrt": 1, "box-cox": 1, "yeo-johnson": 1, "bounds": 3}.get(plain[0], 0)
    if len(numbers) != expected or not good:
        raise ValueError(f"transforms holds {plain!r:.80}, which is none")
    made = _BY_NAME[plain[0]](*numbers)
    if isinstance(made, (BoxCox, YeoJohnson)) and not _SMALLEST_POWER <= made.power <= _LARGEST_POWER:
        raise ValueError(f"transforms holds the power {made.power!r}, which must lie from 0 to 2")
    if isinstance(made, (Sqrt, Bounds)) and not made.margin > 0.0:
        raise ValueError(f"transforms holds the margin {made.margin!r}, which must be positive")
    if isinstance(made, Bounds):
        _checked((made.lower, made.upper))
    return made
