"""Estimation of transforms from training data: margins at bounds, powers, and the choice of "auto"."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import boxcox_llf, yeojohnson_llf

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.transforms.columns import refuse_outside
from probsfa.statespace.transforms.maps import (
    MAX_POWER,
    MIN_POWER,
    Bounds,
    BoxCox,
    Log,
    Log1p,
    Sqrt,
    Transform,
    YeoJohnson,
)

# Margin at bounds: share of the distance of the closest value; minimum and maximum share of the range or,
# with one bound, of the median distance.
_SHARE_OF_CLOSEST, _MIN_MARGIN, _MAX_SHARE_OF_RANGE, _MAX_SHARE_OF_MEDIAN = 0.5, 1e-3, 0.01, 0.05
# Requirements of "auto": numbers of values and of different values; gain over no transform in nats, of the
# conditional likelihood (in total and for each value) and of the marginal one; further gain of the logarithm.
_MIN_VALUES, _MIN_DISTINCT_VALUES = 50, 10
_MIN_GAIN, _MIN_GAIN_PER_VALUE, _MIN_MARGINAL_GAIN = 10.0, 0.05, 2.0
_MIN_GAIN_OF_LOG_PER_VALUE = 0.1


def make_transform(
    kind: Any, cells: FloatArray, column: int, names: Sequence[str] | None
) -> Transform | None:
    """Make the transform of one column, of a kind other than "auto"."""
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


def _learned(made: Transform, observed: FloatArray) -> Transform:
    """Estimate the margin or the power of a transform from observed values within its domain."""
    if isinstance(made, Sqrt):
        return Sqrt(_margin(observed))
    if isinstance(made, Bounds):
        if made.lower is not None and made.upper is not None:
            width = made.upper - made.lower
            distances = np.concatenate([observed - made.lower, made.upper - observed])
            return Bounds(made.lower, made.upper, _margin(distances, width))
        distances = made.upper - observed if made.lower is None else observed - made.lower  # type: ignore[operator]
        return Bounds(made.lower, made.upper, _margin(distances))
    if isinstance(made, BoxCox):
        return BoxCox(_best_power(boxcox_llf, observed, (MIN_POWER, MAX_POWER)))
    if isinstance(made, YeoJohnson):
        # On a side of zero without values, the inverse may grow exponentially.
        powers = (0.5, 1.5)
        if observed.size and (observed.min() >= 0.0 or observed.max() <= 0.0):
            powers = (MIN_POWER, 1.0) if observed.min() >= 0.0 else (1.0, MAX_POWER)
        return YeoJohnson(_best_power(yeojohnson_llf, observed, powers))
    return made


def _margin(distances: FloatArray, width: float | None = None) -> float:
    """Return the minimum distance of values from a bound."""
    off = distances[distances > 0.0]
    if off.size == 0:
        return _MIN_MARGIN * (width or 1.0)
    unit, maximum = (
        (float(np.median(off)), _MAX_SHARE_OF_MEDIAN) if width is None else (width, _MAX_SHARE_OF_RANGE)
    )
    return float(np.clip(_SHARE_OF_CLOSEST * off.min(), _MIN_MARGIN * unit, maximum * unit))


def _best_power(log_likelihood: Any, observed: FloatArray, powers: tuple[float, float]) -> float:
    """Return the maximum likelihood power for independent Gaussian values."""
    if observed.size == 0 or np.ptp(observed) <= 8.0 * np.finfo(np.float64).eps * np.abs(observed).max():
        return 1.0

    def fall(power: float) -> float:
        return -float(log_likelihood(power, observed))

    end = minimize_scalar(
        fall,
        bounds=powers,
        method="bounded",
        options={"xatol": 1e-6},
    )
    return min(
        (float(end.x), *powers), key=fall
    )  # the search approaches the ends of the interval without reaching them


def choose_transform(cells: FloatArray, sequences: Sequences) -> Transform | None:
    """Return the transform of a column that is clearly better than none, or None.

    Two likelihoods must improve: that of independent values (for the effective number of independent values),
    and the conditional likelihood of an AR(1) process, which is closer to the model. Candidates are
    transforms whose inverse grows slowly. The logarithm must be much better, because means after
    back-transformation can have large errors if the model is wrong.
    """
    observed = cells[~np.isnan(cells)]
    if observed.size < _MIN_VALUES or observed.min() < 0.0:
        return None
    values, counts = np.unique(observed, return_counts=True)
    # Maximum share of equal observed values (other than zero): with more ties the distribution has no
    # density.
    if values.size < _MIN_DISTINCT_VALUES or counts[values != 0.0].max() > 0.2 * observed.size:
        return None
    candidates: list[Transform] = [Sqrt(1.0)]
    candidates += [Bounds(0.0, top, 0.0) for top in (1.0, 100.0) if 0.9 * top < observed.max() <= top]
    previous = np.full(cells.shape, np.nan)
    previous[1:] = cells[:-1]
    previous[sequences.starts] = np.nan
    best: Transform | None = None
    base = maximum = _evidence(None, cells, previous)
    for one in candidates:
        made = _learned(one, observed)
        evidence = _evidence(made, cells, previous)
        minimum = max(_MIN_GAIN, _MIN_GAIN_PER_VALUE * observed.size)
        if evidence.exceeds(base, minimum, _MIN_MARGINAL_GAIN) and evidence.exceeds(maximum, 0.0, -np.inf):
            best, maximum = made, evidence
    if best is not None and observed.min() > 0.0:
        minimum = _MIN_GAIN_OF_LOG_PER_VALUE * observed.size
        if _evidence(Log(), cells, previous).exceeds(maximum, minimum, _MIN_MARGINAL_GAIN):
            return Log()
    return best


class _Evidence(NamedTuple):
    """Log-likelihoods of a transformed column, and the effective share of independent values."""

    marginal: float
    conditional: float
    share: float

    def exceeds(self, other: "_Evidence", conditional: float, marginal: float) -> bool:
        """Whether both log-likelihoods are larger by the given amounts in nats."""
        gain = (self.marginal - other.marginal) * min(self.share, other.share)
        return self.conditional - other.conditional > conditional and gain > marginal


def _evidence(one: Transform | None, cells: FloatArray, previous: FloatArray) -> _Evidence:
    """Return maximized Gaussian log-likelihoods in the units of the data."""
    now, before = cells, previous
    slopes = np.zeros(cells.shape)
    if one is not None:
        now, before, slopes = one.forward(cells), one.forward(previous), one.log_slope(cells)
    observed, pairs = ~np.isnan(now), ~np.isnan(now) & ~np.isnan(before)
    marginal = -0.5 * observed.sum() * np.log(np.var(now[observed])) + slopes[observed].sum()
    correlation = float(np.corrcoef(now[pairs], before[pairs])[0, 1]) if pairs.sum() > 2 else 0.0
    left = np.var(now[pairs]) * (1.0 - correlation**2) if pairs.sum() > 2 else 1.0
    conditional = -0.5 * pairs.sum() * np.log(left) + slopes[pairs].sum()
    rho = min(max(correlation, 0.0), 1.0)
    return _Evidence(float(marginal), float(conditional), (1.0 - rho) / (1.0 + rho))
