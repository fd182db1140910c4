"""Known inputs beside the latents."""

from dataclasses import dataclass

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["Regression"]


@dataclass(frozen=True, eq=False)
class Regression:
    """Effects of covariates on the columns, in the units in which these are modelled.

    Attributes
    ----------
    coefficients : ndarray of shape (D, P)
        Change of each column for one unit of each covariate.
    names : tuple of str
        What the covariates are called.
    """

    coefficients: FloatArray
    names: tuple[str, ...]

    def effects(self, exog: FloatArray | None) -> FloatArray:
        """What covariates (N, P) add to each cell (N, D)."""
        assert exog is not None
        return np.asarray(exog @ self.coefficients.T)
