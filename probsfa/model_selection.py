"""Splits of trajectories for cross-validation: rows in the order of time are not independent."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from probsfa._validation import check_count, is_list_of_sequences

__all__ = ["TrajectorySplit"]


class TrajectorySplit(BaseEstimator):
    """Hold out stretches of a trajectory, or whole trajectories; for ``cv=`` in scikit-learn.

    Rows next to each other in time are alike, so that rows held out at random are known already. Here a
    stretch is held out as a whole, rows close to it take no part, and what is learned from is one stretch
    without a hole: no difference is formed between rows that were not neighbours.

    Parameters
    ----------
    n_splits : int, default=5
        Number of stretches, of lengths that differ by one at most.
    gap : int, default=0
        Rows that are left out between training and held-out rows: some time scales of what is looked for.

    See Also
    --------
    probsfa.metrics.slowness : What to score with.

    Notes
    -----
    For one trajectory, an array (T, D), training rows are those before the held-out stretch or those after
    it, whichever are more. For several, a list of arrays, every trajectory is held out once, in groups of
    consecutive ones, and all others are learned from; `gap` has no meaning then. Cut a long series into a
    list of pieces (and drop some rows between them) to learn from both sides.

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
        """Return how many times something is held out."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield training and held-out rows, or trajectories where X is a list of them.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            One trajectory, or several.
        y, groups : ignored

        Raises
        ------
        ValueError
            If there are fewer rows or trajectories than splits, or the gap leaves fewer than two rows to
            learn from.
        """
        n_splits = check_count("n_splits", self.n_splits, minimum=2)
        gap = check_count("gap", self.gap, minimum=0)
        several = is_list_of_sequences(X)
        n = len(X)
        if n < n_splits:
            raise ValueError(
                f"X has {n} {'trajectories' if several else 'rows'}; n_splits={n_splits} needs more."
            )
        borders = np.linspace(0, n, n_splits + 1).round().astype(int)
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            held_out = np.arange(start, stop)
            if several:
                yield np.delete(np.arange(n), held_out), held_out
                continue
            before, after = np.arange(max(0, start - gap)), np.arange(min(n, stop + gap), n)
            train = after if len(after) > len(before) else before
            if len(train) < 2:
                raise ValueError(
                    f"gap={gap} leaves {len(train)} of {n} rows to learn from; take a smaller gap."
                )
            yield train, held_out
