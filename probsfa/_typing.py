"""Types of arrays and seeds."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray", "Seed"]

#: An array of float64 of any shape; docstrings give the shape.
FloatArray = NDArray[np.float64]
#: An array of bool of any shape.
BoolArray = NDArray[np.bool_]
#: A random state of scikit-learn.
Seed = int | np.random.Generator | np.random.RandomState | None
