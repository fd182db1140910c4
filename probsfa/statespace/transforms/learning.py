"""Estimation of transforms from training data: margins at bounds, powers, and the choice of "auto"."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import boxcox_llf, yeojohnson_llf

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.transforms.columns import check_domain
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

# Margin at a bound, as a share of the distance between the bound and the closest value.
_SHARE_OF_CLOSEST = 0.5
# Minimum and maximum margin with two bounds, as shares of the distance between them.
_MIN_MARGIN, _MAX_SHARE_OF_RANGE = 1e-3, 0.01
# Maximum margin with one bound, as a share of the median distance of values from it; the minimum is the same.
_MAX_SHARE_OF_MEDIAN = 0.05
# "auto" requires this number of values, and of different values.
_MIN_VALUES, _MIN_DISTINCT_VALUES = 50, 10
# "auto" requires that no nonzero value has a larger share of all values; likelihoods require a density.
_MAX_SHARE_OF_EQUAL = 0.2
# Minimum gain in conditional log-likelihood of a transform selected by "auto", in nats: in total, and per
# value.
_MIN_GAIN, _MIN_GAIN_PER_VALUE = 10.0, 0.05
# Minimum gain in marginal log-likelihood of a transform selected by "auto", in nats.
_MIN_MARGINAL_GAIN = 2.0
# Minimum gain in conditional log-likelihood of the logarithm over other transforms, in nats per value.
_MIN_GAIN_OF_LOG_PER_VALUE = 0.1


def make_transform(
    kind: Any, values: FloatArray, column: int, names: Sequence[str] | None
) -> Transform | None:
    """Make the transform of one column, of a kind other than "auto"."""
    if kind is None:
        return None
    transform: Transform
    if isinstance(kind, Transform):
        transform = kind
    elif kind == "log":
        transform = Log()
    elif kind == "log1p":
        transform = Log1p()
    elif kind == "sqrt":
        transform = Sqrt(1.0)
    elif kind == "box-cox":
        transform = BoxCox(1.0)
    elif kind == "yeo-johnson":
        transform = YeoJohnson(1.0)
    else:
        lower, upper = kind
        transform = Bounds(lower, upper, 0.0)
    check_domain(transform, values, column, names)
    return _estimate(transform, values[~np.isnan(values)]) if not isinstance(kind, Transform) else transform


def _estimate(transform: Transform, observed: FloatArray) -> Transform:
    """Estimate the margin or the power of a transform from observed values within its domain."""
    if isinstance(transform, Sqrt):
        return Sqrt(_margin(observed))
    if isinstance(transform, Bounds):
        if transform.lower is not None and transform.upper is not None:
            width = transform.upper - transform.lower
            distances = np.concatenate([observed - transform.lower, transform.upper - observed])
            return Bounds(transform.lower, transform.upper, _margin(distances, width))
        distances = transform.upper - observed if transform.lower is None else observed - transform.lower  # type: ignore[operator]
        return Bounds(transform.lower, transform.upper, _margin(distances))
    if isinstance(transform, BoxCox):
        return BoxCox(_best_power(boxcox_llf, observed, (MIN_POWER, MAX_POWER)))
    if isinstance(transform, YeoJohnson):
        # The inverse grows exponentially for positive values if the power is 0, and for negative values if it
        # is 2. If no value is negative, the power is at most 1, so that the inverse grows at most linearly
        # for negative values, which have not been observed. If no value is positive, it is at least 1.
        powers = (0.5, 1.5)
        if observed.size and (observed.min() >= 0.0 or observed.max() <= 0.0):
            powers = (MIN_POWER, 1.0) if observed.min() >= 0.0 else (1.0, MAX_POWER)
        return YeoJohnson(_best_power(yeojohnson_llf, observed, powers))
    return transform


def _margin(distances: FloatArray, width: float | None = None) -> float:
    """Return the minimum distance of values from a bound."""
    distances_off_bound = distances[distances > 0.0]
    if distances_off_bound.size == 0:
        return _MIN_MARGIN * (width or 1.0)
    unit, maximum = (
        (float(np.median(distances_off_bound)), _MAX_SHARE_OF_MEDIAN)
        if width is None
        else (width, _MAX_SHARE_OF_RANGE)
    )
    return float(np.clip(_SHARE_OF_CLOSEST * distances_off_bound.min(), _MIN_MARGIN * unit, maximum * unit))


def _best_power(log_likelihood: Any, observed: FloatArray, powers: tuple[float, float]) -> float:
    """Return the maximum likelihood power for independent Gaussian values."""
    if observed.size == 0 or np.ptp(observed) <= 8.0 * np.finfo(np.float64).eps * np.abs(observed).max():
        return 1.0

    def loss(power: float) -> float:
        return -float(log_likelihood(power, observed))

    minimum = minimize_scalar(loss, bounds=powers, method="bounded", options={"xatol": 1e-6})
    # The search does not reach the ends of the interval.
    return min((float(minimum.x), *powers), key=loss)


def choose_transform(values: FloatArray, sequences: Sequences) -> Transform | None:
    """Return the transform of a column that is clearly better than no transform, or None.

    Two log-likelihoods must increase. The first is the conditional log-likelihood of an AR(1) process, which
    resembles the model. The second is the marginal log-likelihood of independent values, multiplied by the
    ratio of the effective sample size to the number of values. Candidates are transforms whose inverse grows
    slowly. The logarithm must be much better than these, because means after back-transformation can have
    large errors if the model is wrong.
    """
    observed = values[~np.isnan(values)]
    if observed.size < _MIN_VALUES or observed.min() < 0.0:
        return None
    distinct, counts = np.unique(observed, return_counts=True)
    if (
        distinct.size < _MIN_DISTINCT_VALUES
        or counts[distinct != 0.0].max() > _MAX_SHARE_OF_EQUAL * observed.size
    ):
        return None
    candidates: list[Transform] = [Sqrt(1.0)]
    candidates += [Bounds(0.0, top, 0.0) for top in (1.0, 100.0) if 0.9 * top < observed.max() <= top]
    previous = np.full(values.shape, np.nan)
    previous[1:] = values[:-1]
    previous[sequences.starts] = np.nan
    best: Transform | None = None
    evidence_without = best_evidence = _evidence(None, values, previous)
    for candidate in candidates:
        transform = _estimate(candidate, observed)
        evidence = _evidence(transform, values, previous)
        minimum = max(_MIN_GAIN, _MIN_GAIN_PER_VALUE * observed.size)
        if evidence.exceeds(evidence_without, minimum, _MIN_MARGINAL_GAIN) and evidence.exceeds(
            best_evidence, 0.0, -np.inf
        ):
            best, best_evidence = transform, evidence
    if best is not None and observed.min() > 0.0:
        minimum = _MIN_GAIN_OF_LOG_PER_VALUE * observed.size
        if _evidence(Log(), values, previous).exceeds(best_evidence, minimum, _MIN_MARGINAL_GAIN):
            return Log()
    return best


class _Evidence(NamedTuple):
    """Log-likelihoods of a transformed column; `share` is the effective sample size per value."""

    marginal: float
    conditional: float
    share: float

    def exceeds(self, other: "_Evidence", conditional: float, marginal: float) -> bool:
        """Whether both log-likelihoods are larger by the given amounts in nats."""
        gain = (self.marginal - other.marginal) * min(self.share, other.share)
        return self.conditional - other.conditional > conditional and gain > marginal


def _evidence(transform: Transform | None, values: FloatArray, previous: FloatArray) -> _Evidence:
    """Return maximized Gaussian log-likelihoods of a column in data units, without constants."""
    current, previous_values = values, previous
    slopes = np.zeros(values.shape)
    if transform is not None:
        current, previous_values, slopes = (
            transform.forward(values),
            transform.forward(previous),
            transform.log_slope(values),
        )
    observed, pairs = ~np.isnan(current), ~np.isnan(current) & ~np.isnan(previous_values)
    marginal = -0.5 * observed.sum() * np.log(np.var(current[observed])) + slopes[observed].sum()
    correlation = float(np.corrcoef(current[pairs], previous_values[pairs])[0, 1]) if pairs.sum() > 2 else 0.0
    residual_variance = np.var(current[pairs]) * (1.0 - correlation**2) if pairs.sum() > 2 else 1.0
    conditional = -0.5 * pairs.sum() * np.log(residual_variance) + slopes[pairs].sum()
    rho = min(max(correlation, 0.0), 1.0)
    return _Evidence(float(marginal), float(conditional), (1.0 - rho) / (1.0 + rho))
