"""Names for the types of arrays and seeds that the whole package uses."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray", "Seed"]

#: An array of float64 of any shape; docstrings say which.
FloatArray = NDArray[np.float64]
#: An array of truth values of any shape.
BoolArray = NDArray[np.bool_]
#: What scikit-learn calls a random state.
Seed = int | np.random.Generator | np.random.RandomState | None
