"""News: which new cell moved the prediction of another one, and by how much.

Posterior means are linear in the observations: a cell ``(s, d)`` enters the noise-free mean of the cell
``(t, e)`` with the weight ``C_e' V_ts C_d / r_d``, with ``V_ts`` the posterior covariance of the states of
both rows. Had every new cell been what the old data predicted, the prediction of the target would not have
moved; so what a new cell does is its weight times its surprise (Banbura & Modugno 2014, section 2.3). Between
rows that are not next to each other ``V_ts`` follows from those that are: given the states between them,
states far apart know nothing of each other.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import Posterior

__all__ = ["News", "read_news", "weights_on"]


class News(NamedTuple):
    """What moved a prediction, cell by cell.

    Attributes
    ----------
    before, after : float
        Prediction of the target from the old data and from the new, in data units.
    rows, columns : ndarray of int of shape (M,)
        Cells that are new or revised.
    expected : ndarray of shape (M,)
        What was known of them: predictions from the old data, or the old values of revised cells.
    observed : ndarray of shape (M,)
        Their values in the new data.
    weights : ndarray of shape (M,)
        Change of the prediction for each unit of surprise.
    impacts : ndarray of shape (M,)
        ``weights * (observed - expected)``; they sum up to ``after - before``.
    revised : ndarray of bool of shape (M,)
        Whether a cell had another value in the old data.
    feature_names : tuple of str
        What the columns are called.
    """

    before: float
    after: float
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    expected: FloatArray
    observed: FloatArray
    weights: FloatArray
    impacts: FloatArray
    revised: NDArray[np.bool_]
    feature_names: tuple[str, ...]

    @property
    def table(self) -> Any:
        """The cells, the largest impact first: pandas.DataFrame."""
        import pandas as pd

        order = np.argsort(-np.abs(self.impacts), kind="stable")
        columns = {
            "row": self.rows[order],
            "column": [self.feature_names[j] for j in self.columns[order]],
            "expected": self.expected[order],
            "observed": self.observed[order],
            "weight": self.weights[order],
            "impact": self.impacts[order],
            "revised": self.revised[order],
        }
        return pd.DataFrame(columns)


def read_news(
    params: Parameters,
    values: tuple[FloatArray, FloatArray],
    posteriors: tuple[Posterior, Posterior, Posterior],
    target: tuple[int, int],
    names: tuple[str, ...],
) -> News:
    """Attribute the change of a prediction to the cells that changed.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    values : tuple of two ndarrays of shape (N, D)
        Old and new cells, NaN where missing.
    posteriors : tuple of three Posterior
        Given the old cells; given these with their new values; given the new cells.
    target : tuple of int
        Row and column of what is predicted, missing in both.
    names : tuple of str
        What the columns are called.

    Returns
    -------
    News
    """
    old, new = values
    given_old, given_revised, given_new = posteriors
    row, column = target
    loading = params.loadings[column]
    changed = ~np.isnan(old) & (old != new)
    arrived = np.isnan(old) & ~np.isnan(new)
    predicted = params.offset + given_revised.means @ params.loadings.T
    parts = []
    for cells, posterior, known in ((changed, given_revised, old), (arrived, given_new, predicted)):
        where = np.nonzero(cells)
        weights = weights_on(params, posterior, target, where[0], where[1])
        parts.append((*where, known[where], new[where], weights))
    rows, columns, expected, observed, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    revised = np.arange(rows.size) < np.count_nonzero(changed)
    before, after = (
        float(params.offset[column] + loading @ posterior.means[row]) for posterior in (given_old, given_new)
    )
    impacts = weights * (observed - expected)
    return News(before, after, rows, columns, expected, observed, weights, impacts, revised, names)


def weights_on(
    params: Parameters,
    posterior: Posterior,
    target: tuple[int, int],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> FloatArray:
    """Weights (M,) with which observed cells enter the noise-free posterior mean of a target cell.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    posterior : Posterior
        Given these cells and others.
    target : tuple of int
        Row and column.
    rows, columns : ndarray of int of shape (M,)
        The cells, in one sequence with the target.

    Returns
    -------
    ndarray of shape (M,)
    """
    row, column = target
    loading = params.loadings[column]
    reach = np.unique(np.append(rows, row))
    covariances, lag_one = posterior.covariances, posterior.lag_one_covariances
    # C_e' V_ts of each row s, row by row away from the target: V_ts = V_t,s+1 V_s+1^-1 V_s+1,s.
    carried = {row: loading @ covariances[row]}
    for s in range(row - 1, int(reach[0]) - 1, -1):
        carried[s] = _divided(carried[s + 1], covariances[s + 1]) @ lag_one[s]
    for s in range(row + 1, int(reach[-1]) + 1):
        carried[s] = _divided(carried[s - 1], covariances[s - 1]) @ lag_one[s - 1].T
    with_target = np.array([carried[int(s)] for s in rows]).reshape(len(rows), params.n_states)
    loaded = np.einsum("mk,mk->m", with_target, params.loadings[columns])
    return np.asarray(loaded / params.noise_variance[columns])


def _divided(vector: FloatArray, covariance: FloatArray) -> FloatArray:
    """``x' V^-1``, for a covariance that may be singular up to rounding."""
    return np.asarray(np.linalg.lstsq(covariance, vector, rcond=1e-14)[0])
