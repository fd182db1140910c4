"""Types of arrays and seeds."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray", "Seed"]

#: An array of float64 of any shape; docstrings give the shape.
FloatArray = NDArray[np.float64]
#: An array of bool of any shape.
BoolArray = NDArray[np.bool_]
#: Seed or random generator, for parameters such as `random_state`.
Seed = int | np.random.Generator | np.random.RandomState | None
