"""Structure of the noise variances: which columns share a variance, and which variances are known.

A structure is a partition of the columns: one group per column (``"diagonal"``), one group for all
(``"isotropic"``), or no group if variances are known. :class:`NoiseVariances` maps between free variances and
columns for all of the fit; a new structure is a new entry of :data:`STRUCTURES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray

__all__ = ["STRUCTURES", "NoiseVariances"]


@dataclass(frozen=True)
class NoiseVariances:
    """Groups of columns that share a noise variance.

    Parameters
    ----------
    groups : tuple of int
        Index of the free variance of each column, 0 to ``n_free - 1``, or -1 if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.statespace.noise import NoiseVariances
    >>> tied = NoiseVariances((0, 0, 1, -1))
    >>> tied.n_features, tied.n_free
    (4, 2)
    >>> tied.totals(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [3.0, 3.0]
    """

    groups: tuple[int, ...]

    @classmethod
    def diagonal(cls, n_features: int) -> "NoiseVariances":
        """One variance per column."""
        return cls(tuple(range(n_features)))

    @classmethod
    def isotropic(cls, n_features: int) -> "NoiseVariances":
        """One variance for all columns."""
        return cls((0,) * n_features)

    @classmethod
    def known(cls, n_features: int) -> "NoiseVariances":
        """Known variances, not estimated."""
        return cls((-1,) * n_features)

    @classmethod
    def of_option(cls, noise: object, n_features: int) -> "NoiseVariances":
        """Structure of the white noise of an estimator's option: the one of that name, or known variances.

        Names of other kinds of noise (``"ar1"``, ``"auto"``) have one variance per column.
        """
        if not isinstance(noise, str):
            return cls.known(n_features)
        return STRUCTURES.get(noise, cls.diagonal)(n_features)

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return len(self.groups)

    @cached_property
    def n_free(self) -> int:
        """Number of free variances, ``F``."""
        return max(self.groups, default=-1) + 1

    @cached_property
    def separate(self) -> bool:
        """Whether each column has a separate free variance."""
        return self.groups == tuple(range(self.n_features))

    @cached_property
    def _columns(self) -> NDArray[np.intp]:
        """Indices of columns with a free variance."""
        return np.flatnonzero(np.array(self.groups, dtype=np.intp) >= 0)

    @cached_property
    def _group(self) -> NDArray[np.intp]:
        """Groups of the columns with a free variance."""
        return np.array(self.groups, dtype=np.intp)[self._columns]

    @cached_property
    def _first(self) -> NDArray[np.intp]:
        """First column of each group."""
        return np.array([self.groups.index(group) for group in range(self.n_free)], dtype=np.intp)

    @cached_property
    def indicator(self) -> FloatArray:
        """Matrix (D, F), one where a column belongs to a group and zero elsewhere."""
        return (np.array(self.groups)[:, None] == np.arange(self.n_free)).astype(np.float64)

    def totals(self, by_column: FloatArray) -> FloatArray:
        """Return sums (F, ...) over the columns (D, ...) of each group."""
        return by_column if self.separate else self.indicator.T @ by_column

    def largest(self, by_column: FloatArray) -> FloatArray:
        """Return the largest value (F,) among the columns (D,) of each group."""
        if self.separate:
            return by_column
        found = np.full(self.n_free, -np.inf)
        np.maximum.at(found, self._group, by_column[self._columns])
        return found

    def means(self, by_column: FloatArray) -> FloatArray:
        """Return means (F,) over the columns (D,) of each group."""
        return self.totals(by_column) / self.totals(np.ones(self.n_features))

    def of_groups(self, by_column: FloatArray) -> FloatArray:
        """Return values (F,) of the groups from values (D,) that are equal within each group."""
        return by_column if self.separate else by_column[self._first]

    def of_columns(self, by_group: FloatArray, known: FloatArray | float = 0.0) -> FloatArray:
        """Return values (D,) of the columns from those of the groups (F,); other columns get `known`."""
        if self.separate:
            return by_group
        found = np.array(np.broadcast_to(known, self.n_features), dtype=np.float64)
        found[self._columns] = by_group[self._group]
        return found


#: Structures of noise variances by the name of the option.
STRUCTURES: dict[str, Callable[[int], NoiseVariances]] = {
    "diagonal": NoiseVariances.diagonal,
    "isotropic": NoiseVariances.isotropic,
}
