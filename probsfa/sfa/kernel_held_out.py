"""Slowness on stretches of time that a fit has not seen, for a whole path of regularisations.

The rows are cut into consecutive stretches. The moments of kernel functions on all rows but one stretch are
sums of those of the other stretches, so every kernel value is computed once, however many there are.
Support vectors that lie in the stretch left out are left out with it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.graphs.moments import Moments
from probsfa.graphs.training_graph import GraphMoments
from probsfa.linalg import RankError
from probsfa.sfa._overfitting import held_out_delta, noise_delta
from probsfa.sfa.kernel_moments import BorderDifferences, joined_moments, of_functions
from probsfa.sfa.kernel_problem import pose, solve

__all__ = ["Held", "HeldOutPath", "held_out_path", "splits_of_time"]

IntArray = NDArray[np.intp]

# Five folds cannot tell less apart; where nothing over-fits, nothing is then regularised.
_AS_SLOW = 1.02


class Held(NamedTuple):
    """One division of the rows.

    Attributes
    ----------
    train, test : Moments or GraphMoments
        Of the same kernel functions on the rows that are trained on and on those left out.
    functions : ndarray (m_f,) of int
        Which of the kernel functions these are: those of no support vector among the rows left out.
    """

    train: Moments | GraphMoments
    test: Moments | GraphMoments
    functions: IntArray


class HeldOutPath(NamedTuple):
    """Outputs on rows left out, for several regularisations.

    Attributes
    ----------
    changes, squares : ndarray (F, P, K)
        Mean squared change of every output on the rows left out, and its mean square about its mean over the
        training rows, division by division.
    """

    changes: FloatArray
    squares: FloatArray

    @property
    def delta_values(self) -> FloatArray:
        """Delta values on rows left out, (P, K); see :func:`held_out_delta`."""
        return held_out_delta(self.changes, self.squares)

    def choose(self, n_rows: int) -> int:
        """Return the first regularisation, by number, whose mean delta is the least or hardly above it.

        Where none is slower than noise of so many rows, differences are chance, and the last is returned: the
        outputs of the smallest norm fit the training rows least.
        """
        mean = self.delta_values.mean(axis=1)
        if mean.min() > noise_delta(n_rows):
            return len(mean) - 1
        return int(np.argmax(mean <= _AS_SLOW * mean.min()))


def splits_of_time(
    parts: list[Moments], borders: BorderDifferences, folds: list[slice], support: NDArray[Any]
) -> Iterator[Held]:
    """Leave out one stretch of rows after the other.

    Parameters
    ----------
    parts : list of Moments
        Of the kernel functions on every stretch.
    borders : BorderDifferences
        What lies between the stretches.
    folds : list of slice
        The stretches.
    support : ndarray (m,) of int, or ndarray (m, D)
        Rows that are support vectors, or support vectors that are no rows.
    """
    if len(folds) < 2:
        return
    for at, fold in enumerate(folds):
        if support.ndim == 1:
            functions = np.flatnonzero((support < fold.start) | (support >= fold.stop))
        else:
            functions = np.arange(len(support))
        train = joined_moments(parts, borders, without=at, functions=functions)
        yield Held(train, of_functions(parts[at], functions), functions)


def held_out_path(
    divisions: Iterable[Held],
    gram: FloatArray,
    n_components: int,
    regularizations: FloatArray,
    rank_tol: float | None = None,
) -> HeldOutPath | None:
    """Train with every regularisation on a part of the rows, and measure slowness on the others.

    Parameters
    ----------
    divisions : iterable of Held
        What to train on and what to leave out.
    gram : ndarray (m, m)
        Kernel between the support vectors.
    n_components : int
        How many outputs.
    regularizations : ndarray (P,)
        Values of ``lambda``.
    rank_tol : float, optional
        As in :func:`probsfa.sfa.kernel_problem.pose`.

    Returns
    -------
    HeldOutPath or None
        None where no division can be trained on and measured.
    """
    changes, squares = [], []
    for train, test, functions in divisions:
        if len(functions) < 2:
            continue
        try:
            problem = pose(train, gram[np.ix_(functions, functions)], rank_tol)
            A = np.array(
                [solve(problem, n_components, float(value)).coefficients for value in regularizations]
            )
            moved, spread = test.difference_moment, test.covariance
        except (RankError, ValueError):  # no variation, or no difference, in one of the two parts
            continue
        changes.append(np.einsum("pik,pik->pk", A, moved @ A))
        squares.append(np.einsum("pik,pik->pk", A, spread @ A) + ((test.mean - train.mean) @ A) ** 2)
    if not changes:
        return None
    return HeldOutPath(np.maximum(changes, 0.0), np.maximum(squares, 0.0))
