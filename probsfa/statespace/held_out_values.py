"""Model comparison by held-out values: observed values are held out from a fit and then predicted.

Values are held out in the pattern of the missing values, shifted in time. If few values are missing, single
values and blocks of rows are held out. Parameters are estimated from the remaining values, and all held-out
values are predicted given the remaining values.

Predictions are scored by the continuous ranked probability score. For a Gaussian prediction with mean ``m``
and standard deviation ``s`` of a value ``x``, and ``z = (x - m) / s``,

    CRPS = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)).

It is a proper score: its mean is smallest for the true distribution. For ``s = 0`` it is the absolute error.
The scores of two models differ by at most ``|m - m'| + |s - s'|`` for any ``x``, so that a few outliers do
not dominate the comparison. Models are compared by score differences on the same values.

References
----------
Gneiting & Raftery (2007), Journal of the American Statistical Association 102:359, eqs. 20 and 21,
doi:10.1198/016214506000001437.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from probsfa._typing import BoolArray, FloatArray
from probsfa.datasets import hide_blocks, hide_values
from probsfa.statespace.gross_outliers import distance_from_adjacent, robust_scale

__all__ = [
    "EQUALITY_TOL",
    "MAX_EQUAL_BIC",
    "STANDARD_ERRORS",
    "Evidence",
    "HeldOutValues",
    "compare_scores",
    "compare_scores_of_draws",
    "crps",
    "hide_for_comparison",
    "isolated_values",
    "near_best_models",
    "standard_errors",
    "units_of",
]

#: Number of standard errors beyond which a difference is significant, if about ten models are compared.
STANDARD_ERRORS = 2.5
#: Relative difference of scores; models with smaller differences are treated as equal, even if the difference
#: is significant.
EQUALITY_TOL = 0.01
#: Differences of BIC up to this number are not decisive, because BIC of the comparison omits the held-out
#: values. Differences above 10 are very strong evidence (Kass & Raftery 1995).
MAX_EQUAL_BIC = 10.0
# Minimum number of missing values that define a pattern.
_MIN_MISSING = 20
# Minimum number of groups of held-out values for a test of score differences.
_MIN_GROUPS = 8
# Shifts of the pattern are used only if they hold out at least this share of the intended number of values.
_MIN_SHIFTED_SHARE = 0.5
# Maximum share of the observed values of a column that is held out.
_MAX_COLUMN_SHARE = 0.3
# Maximum number of shifts of the pattern of missing values.
_MAX_SHIFTS = 100
# Maximum number of nearly equal models that are fitted to all values.
_MAX_NEAR_BEST = 3
# Minimum distance of an isolated value from adjacent observations, in robust standard deviations.
_MIN_ISOLATED_DEVIATIONS = 6.0
# If this share of the values of a column or more are isolated, they are not outliers.
_MAX_ISOLATED_SHARE = 0.25


class HeldOutValues(NamedTuple):
    """Values that are held out from a fit, in parts that were drawn separately.

    Attributes
    ----------
    part : ndarray of int of shape (N, D)
        Number of the part to which a held-out value belongs, from 1; 0 for values that are not held out.
    group : ndarray of int of shape (N, D)
        Number of the group of each value. Consecutive values of a column that belong to the same part are one
        group.
    kinds : tuple of str
        Description of the pattern of held-out values of each part.
    """

    part: NDArray[np.int64]
    group: NDArray[np.int64]
    kinds: tuple[str, ...]

    @property
    def all(self) -> BoolArray:
        """Mask (N, D) of the held-out values of all parts."""
        return np.asarray(self.part > 0)

    def with_nan(self, values: FloatArray) -> FloatArray:
        """Return values (N, D) with NaN for held-out values."""
        return np.where(self.all, np.nan, values)


def hide_for_comparison(
    values: FloatArray, *, fraction: float, n_masks: int, block: int, rng: np.random.Generator
) -> HeldOutValues:
    """Select values to hold out: in the pattern of the missing values, or as single values and blocks.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        All rows, NaN where missing.
    fraction : float
        Approximate share of the observed values to hold out.
    n_masks : int
        Number of parts.
    block : int
        Number of rows of a block, if blocks are held out; it is limited to a tenth of all rows.
    rng : Generator
        Source of randomness.

    Returns
    -------
    HeldOutValues

    Raises
    ------
    ValueError
        If there are too few observed values.
    """
    observed = ~np.isnan(values)
    masks: list[BoolArray] = []
    if np.count_nonzero(~observed) >= _MIN_MISSING:
        masks = [_shifted_missing_pattern(observed, fraction / n_masks, rng) for _ in range(n_masks)]
        kinds: Sequence[str] = ["pattern of missing values, moved in time"] * n_masks
    # A shifted pattern of missing values holds out no values of complete columns, and may hold out too few.
    n_moved = sum(int(np.count_nonzero(mask)) for mask in masks)
    if not masks or n_moved < _MIN_SHIFTED_SHARE * fraction * np.count_nonzero(observed):
        length = max(1, min(block, len(values) // 10))
        n_blocks = n_masks // 2
        share = fraction / n_masks
        masks = [hide_values(values, share, random_state=rng) for _ in range(n_masks - n_blocks)]
        masks += [hide_blocks(values, length, share, random_state=rng) for _ in range(n_blocks)]
        kinds = ["single values"] * (n_masks - n_blocks) + [f"blocks of {length} rows"] * n_blocks
    part = np.zeros(values.shape, dtype=np.int64)
    for j, mask in enumerate(masks):
        part[mask & observed & (part == 0)] = j + 1
    _limit_hidden_share(part, observed)
    present = [j for j in range(n_masks) if np.any(part == j + 1)]
    if not present:
        raise ValueError(
            f"X has too few observed values to hold out a fraction of {fraction:g} of them. Increase "
            "fraction."
        )
    renumbered = np.zeros_like(part)
    for new, j in enumerate(present):
        renumbered[part == j + 1] = new + 1
    return HeldOutValues(renumbered, _groups(renumbered), tuple(kinds[j] for j in present))


def _shifted_missing_pattern(observed: BoolArray, fraction: float, rng: np.random.Generator) -> BoolArray:
    """Select observed values at shifted positions of missing values, until there are enough."""
    n_rows = len(observed)
    requested = fraction * np.count_nonzero(observed)
    held_out = np.zeros_like(observed)
    for _ in range(_MAX_SHIFTS):
        moved = observed & ~np.roll(observed, int(rng.integers(n_rows)), axis=0) & ~held_out
        # All columns of a row are selected together, as they are missing together; the first row is random.
        first_row = int(rng.integers(n_rows))
        by_row = np.cumsum(np.roll(moved.sum(axis=1), -first_row))
        n_needed = requested - np.count_nonzero(held_out)
        rows = (first_row + np.arange(min(int(np.searchsorted(by_row, n_needed)) + 1, n_rows))) % n_rows
        held_out[rows] |= moved[rows]
        if np.count_nonzero(held_out) >= requested:
            break
    return held_out


def _limit_hidden_share(part: NDArray[np.int64], observed: BoolArray) -> None:
    """Limit the share of held-out values of each column, in place."""
    counts = observed.sum(axis=0)
    maximum = np.minimum(_MAX_COLUMN_SHARE * counts, counts - 2).astype(int)
    for d in range(part.shape[1]):
        rows = np.flatnonzero(part[:, d])
        part[rows[max(int(maximum[d]), 0) :], d] = 0


def _groups(part: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return group numbers: consecutive rows of a column that are held out in one part are one group."""
    changes = np.ones(part.shape, dtype=np.int64)
    changes[1:] = part[1:] != part[:-1]
    return np.cumsum(changes.T.ravel()).reshape(part.shape[::-1]).T


def isolated_values(values: FloatArray, lengths: Sequence[int]) -> BoolArray:
    """Find values (N, D) that are far from the median of the four adjacent observations of their column.

    Such outliers distort the comparison of models: two of them resemble a cycle, for example. Longer
    excursions of a column are not outliers.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        All rows, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.

    Returns
    -------
    ndarray of bool of shape (N, D)
        Mask of isolated values. It is False in columns in which a quarter of the values or more are far from
        the median, or in which most values equal the median.
    """
    errors = distance_from_adjacent(values, lengths)
    scale = robust_scale(errors)
    with np.errstate(invalid="ignore"):
        is_isolated = (np.abs(errors) > _MIN_ISOLATED_DEVIATIONS * scale) & (scale > 0.0)
    is_isolated[
        :, is_isolated.sum(axis=0) >= _MAX_ISOLATED_SHARE * np.count_nonzero(~np.isnan(errors), axis=0)
    ] = False
    return is_isolated


def units_of(values: FloatArray) -> FloatArray:
    """Return the unit of errors of each column (D,): 1.25 times the mean distance from the median.

    For a normal distribution this is the standard deviation, and a few outliers hardly change it.
    """
    distance = np.abs(values - np.nanmedian(values, axis=0))
    units = np.sqrt(0.5 * np.pi) * np.nanmean(distance, axis=0)
    return np.where(units > 0.0, units, 1.0)


def crps(errors: FloatArray, std: FloatArray) -> FloatArray:
    """Return the continuous ranked probability score of Gaussian predictions; smaller is better.

    Parameters
    ----------
    errors : ndarray
        Differences between predicted means and values.
    std : ndarray
        Standard deviations, zero or more.

    Returns
    -------
    ndarray
        Scores in the units of the errors.
    """
    absolute_errors = np.abs(errors)
    safe_std = np.where(std > 0.0, std, 1.0)
    z = absolute_errors / safe_std
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    score = safe_std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))
    return np.where(std > 0.0, score, absolute_errors)


class Evidence(NamedTuple):
    """Comparison of models by held-out values and by the likelihood of the other values.

    Attributes
    ----------
    chosen : int
        Index of the selected model.
    behind : ndarray of shape (M,)
        Difference of the mean score of each model from the best score.
    standard_error : ndarray of shape (M,)
        Standard errors of these differences, zero for the best model.
    equal : ndarray of bool of shape (M,)
        Mask of the models that are treated as equal to the model with the best score.
    """

    chosen: int
    behind: FloatArray
    standard_error: FloatArray
    equal: BoolArray


def compare_scores(scores: FloatArray, groups: NDArray[np.int64], bic: FloatArray) -> Evidence:
    """Select a model by held-out values, and among equal models by BIC.

    The best of many scores is partly due to chance. Models are treated as equal to the best if their scores
    differ by less than 2.5 standard errors of the difference, or by less than 1 %. Of these, the model with
    the smallest BIC is selected, because the likelihood uses more data than the held-out values. BIC alone is
    not reliable for models that predict badly. With fewer than eight groups, all models are treated as equal.

    Parameters
    ----------
    scores : ndarray of shape (M, n)
        Scores of the same values by each model, smaller is better.
    groups : ndarray of int of shape (n,)
        Index of the group of each value; values of one group are not independent.
    bic : ndarray of shape (M,)
        BIC of each model; infinite for models that are selected by their scores only.

    Returns
    -------
    Evidence
    """
    best = int(np.argmin(scores.mean(axis=1)))
    differences = scores - scores[best]
    behind = differences.mean(axis=1)
    error = standard_errors(differences, groups)
    equal = behind <= np.maximum(STANDARD_ERRORS * error, EQUALITY_TOL * float(scores[best].mean()))
    if len(np.unique(groups)) < _MIN_GROUPS:
        equal[:] = True
    equal[best] = True
    selected = int(np.argmin(np.where(equal, bic, np.inf)))
    return Evidence(selected, behind, error, equal)


def compare_scores_of_draws(
    scores: Sequence[FloatArray], groups: Sequence[NDArray[np.int64]], bic: FloatArray
) -> Evidence:
    """Select a model by several draws of held-out values.

    Standard errors describe the variation of scores for given fits, not the variation of fits between draws.
    A model is therefore treated as equal if it is equal to the best model in any draw.

    Parameters
    ----------
    scores : sequence of ndarray of shape (M, n)
        Scores of the values of each draw, as in :func:`compare_scores`.
    groups : sequence of ndarray of int of shape (n,)
        Groups of the values of each draw.
    bic : ndarray of shape (M,)
        As in :func:`compare_scores`.

    Returns
    -------
    Evidence
        Evidence, with differences and standard errors over the values of all draws.
    """
    evidence_by_draw = [compare_scores(one, group, bic) for one, group in zip(scores, groups, strict=True)]
    first_groups = np.cumsum([0, *(group.max() + 1 for group in groups[:-1])])
    all_groups = np.concatenate([group + first for group, first in zip(groups, first_groups, strict=True)])
    full = compare_scores(np.concatenate(scores, axis=1), all_groups, bic)
    equal = np.any([evidence.equal for evidence in evidence_by_draw], axis=0)
    return full._replace(chosen=int(np.argmin(np.where(equal, bic, np.inf))), equal=equal)


def near_best_models(evidence: Evidence, bic: FloatArray) -> NDArray[np.intp]:
    """Return at most three models with nearly the best scores and BIC.

    Parameters
    ----------
    evidence : Evidence
        Result of :func:`compare_scores`.
    bic : ndarray of shape (M,)
        As in :func:`compare_scores`.

    Returns
    -------
    ndarray of int
        Indices of models, the selected model first.
    """
    close = np.flatnonzero(evidence.equal & (bic <= bic[evidence.chosen] + MAX_EQUAL_BIC))
    return close[np.argsort(bic[close], kind="stable")][:_MAX_NEAR_BEST]


def standard_errors(differences: FloatArray, groups: NDArray[np.int64]) -> FloatArray:
    """Return cluster-robust standard errors (M,) of the means of differences (M, n).

    Values of one missing block are correlated; blocks are nearly independent.
    """
    _, member = np.unique(groups, return_inverse=True)
    centred = differences - differences.mean(axis=1, keepdims=True)
    sums = np.array([np.bincount(member, row) for row in centred])
    n_groups = sums.shape[1]
    scatter = np.sum(sums**2, axis=1) * n_groups / max(n_groups - 1, 1)
    return np.asarray(np.sqrt(scatter) / differences.shape[1])
