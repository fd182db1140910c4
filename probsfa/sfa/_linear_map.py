"""The fitted linear map of every slow feature estimator, forth and back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from probsfa._arrays import as_float_array
from probsfa._validation import is_list_of_sequences
from probsfa.graphs.moments import block_rows
from probsfa.sfa._expand import Expander

__all__ = ["inputs_from", "outputs_from"]

FloatArray = NDArray[np.float64]


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
