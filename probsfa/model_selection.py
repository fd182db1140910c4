"""Cross-validation for time series, whose rows are not independent."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from probsfa._validation import check_count, is_list_of_sequences

__all__ = ["TrajectorySplit"]


class TrajectorySplit(BaseEstimator):
    """Hold out contiguous segments of a trajectory, or whole trajectories, in scikit-learn's ``cv=``.

    Adjacent rows are similar, so that rows held out at random are easily predicted. This splitter holds out a
    contiguous segment, and omits a gap of rows between training and held-out rows. The training rows are also
    one contiguous segment, so that all differences are those of adjacent rows.

    Parameters
    ----------
    n_splits : int, default=5
        Number of splits: segments of a trajectory, or groups of trajectories, whose sizes differ by at most
        one.
    gap : int, default=0
        Number of rows omitted between training and held-out rows; use a few time scales of the slow signals.

    See Also
    --------
    probsfa.metrics.slowness : A score for slow features.

    Notes
    -----
    For one trajectory, an array (T, D), training rows are all rows before the held-out segment or all rows
    after it, whichever are more. For a list, whole trajectories are held out, each of them once, and `gap` is
    ignored. To train on both sides of a segment, cut a long series into a list of segments, with some rows
    omitted between them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from probsfa import SFA
    >>> for train, test in TrajectorySplit(3, gap=2).split(np.zeros((12, 1))):
    ...     print(train, test)
    [ 6  7  8  9 10 11] [0 1 2 3]
    [0 1] [4 5 6 7]
    [0 1 2 3 4 5] [ 8  9 10 11]
    >>> X = np.random.default_rng(0).standard_normal((300, 3)).cumsum(axis=0)
    >>> from probsfa.metrics import slowness
    >>> cross_val_score(SFA(1), X, cv=TrajectorySplit(3, gap=10), scoring=slowness).shape
    (3,)
    """

    def __init__(self, n_splits: int = 5, *, gap: int = 0) -> None:
        self.n_splits = n_splits
        self.gap = gap

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield indices of training and held-out rows, or of trajectories if X is a list of them.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            One trajectory, or several.
        y, groups : ignored

        Raises
        ------
        ValueError
            If there are fewer rows or trajectories than splits, or fewer than two training rows remain.
        """
        n_splits = check_count("n_splits", self.n_splits, minimum=2)
        gap = check_count("gap", self.gap, minimum=0)
        has_several = is_list_of_sequences(X)
        n = len(X)
        if n < n_splits:
            raise ValueError(
                f"X has {n} {'trajectories' if has_several else 'rows'}; n_splits={n_splits} "
                f"requires at least {n_splits}."
            )
        bounds = np.linspace(0, n, n_splits + 1).round().astype(int)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            held_out = np.arange(start, stop)
            if has_several:
                yield np.delete(np.arange(n), held_out), held_out
                continue
            rows_before, rows_after = np.arange(max(0, start - gap)), np.arange(min(n, stop + gap), n)
            train = rows_after if len(rows_after) > len(rows_before) else rows_before
            if len(train) < 2:
                raise ValueError(
                    f"gap={gap} leaves {len(train)} of {n} rows for training. Use a smaller gap."
                )
            yield train, held_out
