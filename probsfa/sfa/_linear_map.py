"""The fitted linear map of slow feature estimators: found from moments, and applied forth and back."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import is_list_of_sequences
from probsfa.graphs.moments import Moments, block_rows
from probsfa.graphs.training_graph import GraphMoments
from probsfa.linalg import slow_directions
from probsfa.metrics import timescale
from probsfa.sfa._expand import Expander

__all__ = ["inputs_from", "outputs_from", "set_linear_map"]


def set_linear_map(
    estimator: Any, moments: Moments | GraphMoments, expander: Expander, *, lag: int = 1
) -> None:
    """Solve for the slow directions of some moments and set the fitted attributes that follow from them.

    Parameters
    ----------
    estimator : SFA or GraphSFA
        Says how many components there are, and the tolerance of the rank.
    moments : Moments or GraphMoments
        Of the expanded training rows.
    expander : Expander
        The fitted expansion, or none.
    lag : int, default=1
        Rows from one member of a difference to the other: the unit of the time scales.

    Raises
    ------
    RankError
        If there are fewer directions than components; the estimator is then left as it was.
    """
    directions = slow_directions(
        moments.difference_moment,
        moments.covariance,
        estimator.n_components,
        estimator.rank_tol,
        variance_floor=moments.variance_floor,
    )
    estimator.moments_ = moments
    estimator.mean_ = moments.mean
    estimator.components_ = np.ascontiguousarray(directions.weights.T)
    estimator.loadings_ = directions.loadings
    estimator.delta_values_ = directions.delta_values
    estimator.timescales_ = timescale(directions.delta_values, lag=lag)
    estimator.rank_ = directions.rank
    estimator.expansion_ = expander.transformer


def outputs_from(
    values: FloatArray, expander: Expander, mean: FloatArray, components: FloatArray
) -> FloatArray:
    """Return ``(h(x) - mean) @ components.T`` (N, K), a block of rows at a time."""
    outputs = np.empty((len(values), len(components)), dtype=np.float64)
    size = block_rows(len(mean))
    for start in range(0, len(values), size):
        rows = expander(values[start : start + size])
        outputs[start : start + size] = (rows - mean) @ components.T
    return outputs


def inputs_from(Y: Any, expander: Expander, mean: FloatArray, loadings: FloatArray) -> Any:
    """Return the linear reconstruction ``mean + Y @ loadings.T`` with the expansion undone.

    Parameters
    ----------
    Y : array-like (N, K), or list of such
        Outputs.
    expander : Expander
        Has an inverse, or ValueError.
    mean, loadings : ndarray (D,), (D, K)
        Of the fitted estimator.
    """
    if is_list_of_sequences(Y):
        return [inputs_from(y, expander, mean, loadings) for y in Y]
    Y = check_array(as_float_array(Y, "Y"), ensure_all_finite="allow-nan", input_name="Y")
    n_components = loadings.shape[1]
    if Y.shape[1] != n_components:
        raise ValueError(f"Y has {Y.shape[1]} columns; inverse_transform needs the {n_components} outputs.")
    return expander.inverse(mean + Y @ loadings.T)
