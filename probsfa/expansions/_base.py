"""Base class of expansions."""

import abc
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._saving import Saveable
from probsfa._typing import FloatArray
from probsfa._validation import check_positive as check_positive
from probsfa._validation import check_sequences

__all__ = ["Expansion", "FloatArray", "check_positive", "is_stateless"]


@lists_in_lists_out
class Expansion(Saveable, TransformerMixin, BaseEstimator, abc.ABC):
    """A transformer from D columns to more (or other) columns, row by row.

    A subclass defines the fit to training rows (``_learn``), the expansion (``expand``) and the names of the
    outputs (``_names_out``).
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the expansion to training rows.

        Parameters
        ----------
        X : array-like (T, D) or list of array-likes (T_i, D)
            Complete rows; a list is several sequences.
        y : ignored
            For pipelines.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of range, or X is not a complete array of numbers.
        """
        sequences = check_sequences(self, X, reset=True, allow_nan=False)
        self._learn(sequences.values)
        return self

    def transform(self, X: Any) -> Any:
        """Return the expanded rows: an array, or a list of arrays if `X` is a list."""
        check_is_fitted(self)
        sequences = check_sequences(self, X, reset=False, allow_nan=False)
        return sequences.restore(self.expand(sequences.values))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the outputs."""
        check_is_fitted(self)
        names = [str(name) for name in _check_feature_names_in(self, input_features)]
        return np.asarray(self._names_out(names), dtype=object)

    @property
    def stateless(self) -> bool:
        """Whether :meth:`expand` works before `fit`."""
        return False

    def n_outputs(self, n_features: int) -> float | None:
        """Return the number of output columns for `n_features` input columns.

        None if the number is known only after `fit`. Estimators compare the required memory with the
        available memory before they fit.
        """
        return None

    @abc.abstractmethod
    def expand(self, values: FloatArray) -> FloatArray:
        """Expand the last axis of validated values: (..., D) to (..., E)."""

    @abc.abstractmethod
    def _learn(self, values: FloatArray) -> None:
        """Validate the parameters and set the fitted attributes from validated rows (N, D)."""

    @abc.abstractmethod
    def _names_out(self, names: list[str]) -> list[str]:
        """Return the names of the outputs, given names of the inputs."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")


def is_stateless(expansion: Any) -> bool:
    """Return whether a transformer can expand without a fit.

    Examples
    --------
    >>> from probsfa.expansions import FourierFeatures, Power
    >>> is_stateless(Power()), is_stateless(FourierFeatures())
    (True, False)
    """
    return isinstance(expansion, Expansion) and expansion.stateless
