"""Observed cells that are hidden from a fit, and what it says of them: the evidence of a choice of models.

Cells are hidden as the data's own are missing: the mask of the gaps, moved in time. Where nothing is missing,
they are hidden one by one and in blocks of rows. Parameters are learned without all of them. They are then
filled part by part, each given all other cells, so that the holes are no larger than those of the data.

What a model says of a hidden cell is scored by the continuous ranked probability, for a Gaussian prediction
with mean ``m`` and standard deviation ``s`` of a cell ``x`` and ``z = (x - m) / s``

    CRPS = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)).

It is smallest on average for the true distribution, as the logarithm of the density is the largest, and is
the absolute error where ``s`` is zero: two models differ by ``|m - m'| + |s - s'|`` at most, however far the
cell is from both, so that no few cells decide. Models are compared by differences on the same cells.

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
from probsfa.datasets import hide_blocks, hide_cells
from probsfa.statespace.neighbours import from_neighbours, robust_spread

__all__ = [
    "CLOSE",
    "SLIGHT",
    "Evidence",
    "HiddenCells",
    "contenders",
    "crps",
    "hide_for_choice",
    "isolated_cells",
    "units_of",
    "weigh",
    "weigh_draws",
]

# A difference of more standard errors than this is no chance, with some ten models compared.
_STANDARD_ERRORS = 2.5
#: A score that is worse by this part of it is as good, however surely it is worse: other cells, and a fit
#: that goes on for longer, move it by as much.
SLIGHT = 0.01
#: Criteria of the cells seen that differ by less may change places when the hidden cells count too: very
#: strong evidence on the scale of Kass & Raftery (1995).
CLOSE = 10.0
# Fewer missing cells than this, or groups of hidden ones, show no pattern.
_FEWEST_MISSING, _FEWEST_GROUPS = 20, 8
# Part of the observed cells of a column that may be hidden, at most.
_MOST_OF_A_COLUMN = 0.3
# Times that the mask of the gaps is moved, at most.
_MOST_MOVES = 100
# Robust standard deviations from its neighbours beyond which a cell is isolated, and the largest part of a
# column that may be.
_ISOLATED, _MOST_ISOLATED = 6.0, 0.25


class HiddenCells(NamedTuple):
    """Cells hidden from a fit.

    Attributes
    ----------
    part : ndarray of int of shape (N, D)
        Which of the parts a cell is hidden in, from 1; 0 where it is not hidden.
    group : ndarray of int of shape (N, D)
        A number for each cell, shared by those of a hole of one column.
    kinds : tuple of str
        How the cells of each part are hidden, in words.
    """

    part: NDArray[np.int64]
    group: NDArray[np.int64]
    kinds: tuple[str, ...]

    @property
    def all(self) -> BoolArray:
        """Cells that are hidden in any part (N, D)."""
        return np.asarray(self.part > 0)

    def seen(self, values: FloatArray) -> FloatArray:
        """Values (N, D) without the hidden cells."""
        return np.where(self.all, np.nan, values)


def hide_for_choice(
    values: FloatArray, *, fraction: float, n_masks: int, block: int, rng: np.random.Generator
) -> HiddenCells:
    """Choose cells to hide, as they are missing themselves, or one by one and in blocks.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        All rows, NaN where missing.
    fraction : float
        Part of the observed cells to hide, about.
    n_masks : int
        Number of parts.
    block : int
        Rows of a block where nothing is missing; at most a tenth of the rows are taken.
    rng : Generator
        Source of randomness.

    Raises
    ------
    ValueError
        If there are too few cells.
    """
    observed = ~np.isnan(values)
    if np.count_nonzero(~observed) >= _FEWEST_MISSING:
        masks = [_moved_gaps(observed, fraction / n_masks, rng) for _ in range(n_masks)]
        kinds: Sequence[str] = ["gaps of the data, moved"] * n_masks
    else:
        length = max(1, min(block, len(values) // 10))
        n_blocks = n_masks // 2
        share = fraction / n_masks
        masks = [hide_cells(values, share, random_state=rng) for _ in range(n_masks - n_blocks)]
        masks += [hide_blocks(values, length, share, random_state=rng) for _ in range(n_blocks)]
        kinds = ["single cells"] * (n_masks - n_blocks) + [f"blocks of {length} rows"] * n_blocks
    part = np.zeros(values.shape, dtype=np.int64)
    for j, mask in enumerate(masks):
        part[mask & observed & (part == 0)] = j + 1
    _spare_bare_columns(part, observed)
    present = [j for j in range(n_masks) if np.any(part == j + 1)]
    if not present:
        raise ValueError(
            f"X has too few observed cells to hide a fraction of {fraction:g} of them; raise it."
        )
    renumbered = np.zeros_like(part)
    for new, j in enumerate(present):
        renumbered[part == j + 1] = new + 1
    return HiddenCells(renumbered, _groups(renumbered), tuple(kinds[j] for j in present))


def _moved_gaps(observed: BoolArray, fraction: float, rng: np.random.Generator) -> BoolArray:
    """Observed cells where a cell so many rows before, or after, is missing; until there are enough."""
    n_rows = len(observed)
    wanted = fraction * np.count_nonzero(observed)
    hidden = np.zeros_like(observed)
    for _ in range(_MOST_MOVES):
        moved = observed & ~np.roll(observed, int(rng.integers(n_rows)), axis=0) & ~hidden
        # All columns of a row together, as they are missing together; from a row drawn at random.
        turn = int(rng.integers(n_rows))
        by_row = np.cumsum(np.roll(moved.sum(axis=1), -turn))
        short = wanted - np.count_nonzero(hidden)
        rows = (turn + np.arange(min(int(np.searchsorted(by_row, short)) + 1, n_rows))) % n_rows
        hidden[rows] |= moved[rows]
        if np.count_nonzero(hidden) >= wanted:
            break
    return hidden


def _spare_bare_columns(part: NDArray[np.int64], observed: BoolArray) -> None:
    """Hide fewer cells of columns of which too many would be hidden: the first ones, in place."""
    counts = observed.sum(axis=0)
    most = np.minimum(_MOST_OF_A_COLUMN * counts, counts - 2).astype(int)
    for d in range(part.shape[1]):
        rows = np.flatnonzero(part[:, d])
        part[rows[max(int(most[d]), 0) :], d] = 0


def _groups(part: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each cell, shared by consecutive rows of a column that are hidden in one part."""
    changes = np.ones(part.shape, dtype=np.int64)
    changes[1:] = part[1:] != part[:-1]
    return np.cumsum(changes.T.ravel()).reshape(part.shape[::-1]).T


def isolated_cells(values: FloatArray, lengths: Sequence[int]) -> BoolArray:
    """Cells (N, D) far from the median of the four observed cells of their column that are nearest in time.

    What such cells say of a model is chance: two of them, any number of rows apart, look like a rhythm. They
    are judged by their neighbours, since what is far from the rest of a column for some time is no chance.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        All rows, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.

    Returns
    -------
    ndarray of bool of shape (N, D)
        None of a column where they would be a quarter of its cells or more, or where half of the cells are as
        their neighbours.
    """
    errors = from_neighbours(values, lengths)
    spread = robust_spread(errors)
    with np.errstate(invalid="ignore"):
        out = (np.abs(errors) > _ISOLATED * spread) & (spread > 0.0)
    out[:, out.sum(axis=0) >= _MOST_ISOLATED * np.count_nonzero(~np.isnan(errors), axis=0)] = False
    return out


def units_of(values: FloatArray) -> FloatArray:
    """Spread of each column (D,), in which errors are counted: the mean distance from the median, times 1.25.

    That is the standard deviation of a Gaussian, and hardly moved by a few cells far out.
    """
    distance = np.abs(values - np.nanmedian(values, axis=0))
    units = np.sqrt(0.5 * np.pi) * np.nanmean(distance, axis=0)
    return np.where(units > 0.0, units, 1.0)


def crps(errors: FloatArray, std: FloatArray) -> FloatArray:
    """Continuous ranked probability score of Gaussian predictions, smaller is better.

    Parameters
    ----------
    errors : ndarray
        Distances of the predicted means from the cells.
    std : ndarray
        Standard deviations, zero or more.

    Returns
    -------
    ndarray
        In the units of the errors.
    """
    size = np.abs(errors)
    spread = np.where(std > 0.0, std, 1.0)
    z = size / spread
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    score = spread * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))
    return np.where(std > 0.0, score, size)


class Evidence(NamedTuple):
    """What hidden cells, and the likelihood of the others, say of models.

    Attributes
    ----------
    chosen : int
        Which model is chosen.
    behind : ndarray of shape (M,)
        By how much the mean score of each is worse than the best one.
    standard_error : ndarray of shape (M,)
        Standard errors of these differences, zero for the best.
    equal : ndarray of bool of shape (M,)
        Models that hidden cells cannot tell from the best one.
    """

    chosen: int
    behind: FloatArray
    standard_error: FloatArray
    equal: BoolArray


def weigh(scores: FloatArray, groups: NDArray[np.int64], bic: FloatArray) -> Evidence:
    """Choose a model: hidden cells decide where they can, else the likelihood of the cells that were seen.

    The best score of many is the best in part by chance. All models that are behind it by less than two and
    a half standard errors of the difference, or by less than a hundredth, are as good, and of these the one
    with the smallest Bayesian information criterion is chosen. Hidden cells are a part of the data, and the
    likelihood of all others says more; but only as far as the model is right, of which hidden cells judge
    first.

    Parameters
    ----------
    scores : ndarray of shape (M, n)
        Scores of the same cells by each model, smaller is better.
    groups : ndarray of int of shape (n,)
        Cells with the same number are not independent.
    bic : ndarray of shape (M,)
        Bayesian information criteria of the cells that were seen.

    Returns
    -------
    Evidence
    """
    best = int(np.argmin(scores.mean(axis=1)))
    differences = scores - scores[best]
    behind = differences.mean(axis=1)
    error = standard_errors(differences, groups)
    equal = behind <= np.maximum(_STANDARD_ERRORS * error, SLIGHT * float(scores[best].mean()))
    if len(np.unique(groups)) < _FEWEST_GROUPS:
        equal[:] = True
    equal[best] = True
    chosen = int(np.argmin(np.where(equal, bic, np.inf)))
    return Evidence(chosen, behind, error, equal)


def weigh_draws(
    scores: Sequence[FloatArray], groups: Sequence[NDArray[np.int64]], bic: FloatArray
) -> Evidence:
    """Choose a model by hidden cells that were drawn one or more times.

    Standard errors are those of other cells for the same fits, and hardly know what other hidden cells
    would do to the fits: a model that is as good as the best in any draw is as good.

    Parameters
    ----------
    scores : sequence of ndarray of shape (M, n)
        Scores of the cells of each draw, as of :func:`weigh`.
    groups : sequence of ndarray of int of shape (n,)
        Groups of the cells of each draw.
    bic : ndarray of shape (M,)
        Bayesian information criteria.

    Returns
    -------
    Evidence
        Differences and their standard errors over the cells of all draws.
    """
    each = [weigh(one, group, bic) for one, group in zip(scores, groups, strict=True)]
    apart = np.cumsum([0, *(group.max() + 1 for group in groups[:-1])])
    numbers = np.concatenate([group + first for group, first in zip(groups, apart, strict=True)])
    whole = weigh(np.concatenate(scores, axis=1), numbers, bic)
    equal = np.any([evidence.equal for evidence in each], axis=0)
    return whole._replace(chosen=int(np.argmin(np.where(equal, bic, np.inf))), equal=equal)


def contenders(evidence: Evidence, bic: FloatArray, most: int = 3) -> NDArray[np.intp]:
    """Models that neither the hidden cells nor the likelihood of the others tells apart clearly.

    Parameters
    ----------
    evidence : Evidence
        What :func:`weigh` returns.
    bic : ndarray of shape (M,)
        Bayesian information criteria of the cells that were seen.
    most : int, default=3
        Most of them to return.

    Returns
    -------
    ndarray of int
        The choice first.
    """
    close = np.flatnonzero(evidence.equal & (bic <= bic[evidence.chosen] + CLOSE))
    return close[np.argsort(bic[close], kind="stable")][:most]


def standard_errors(differences: FloatArray, groups: NDArray[np.int64]) -> FloatArray:
    """Standard errors (M,) of the means of differences (M, n), from the scatter of their sums over groups.

    Cells of one hole are not independent, holes nearly are.
    """
    _, member = np.unique(groups, return_inverse=True)
    centred = differences - differences.mean(axis=1, keepdims=True)
    sums = np.array([np.bincount(member, row) for row in centred])
    n_groups = sums.shape[1]
    scatter = np.sum(sums**2, axis=1) * n_groups / max(n_groups - 1, 1)
    return np.asarray(np.sqrt(scatter) / differences.shape[1])
