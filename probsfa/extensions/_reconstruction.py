"""What estimators share that represent rows by a few coordinates and reconstruct the rows from these."""

import abc
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from probsfa._arrays import as_float_array
from probsfa._saving import Saved
from probsfa._typing import FloatArray
from probsfa._validation import check_sequences, is_list_of_sequences

__all__ = ["Reconstruction"]


class Reconstruction(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, abc.ABC):
    """An estimator with an encoder and a decoder, row by row.

    A concrete one fits, and says how checked rows are encoded and codes are decoded.
    """

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows; each is mapped by itself.

        Returns
        -------
        ndarray (N, K), or list of ndarrays (N_i, K)
            Coordinates.
        """
        check_is_fitted(self)
        sequences = check_sequences(self, X, reset=False, allow_nan=False)
        return sequences.restore(self._encode(sequences.values))

    def inverse_transform(self, Y: Any) -> Any:
        """Return the rows that coordinates stand for.

        Parameters
        ----------
        Y : array-like (N, K), or list of array-likes (N_i, K)
            Coordinates, such as ``transform`` returns.

        Returns
        -------
        ndarray (N, D), or list of ndarrays (N_i, D)
            Points of the curve, surface or subspace.

        Raises
        ------
        ValueError
            If `Y` does not have K columns.
        """
        check_is_fitted(self)
        if is_list_of_sequences(Y):
            return [self.inverse_transform(y) for y in Y]
        Y = check_array(as_float_array(Y, "Y"), input_name="Y")
        if Y.shape[1] != self._n_features_out:
            raise ValueError(
                f"Y has {Y.shape[1]} columns; inverse_transform needs the {self._n_features_out} coordinates."
            )
        return self._decode(Y)

    def reconstruct(self, X: Any) -> Any:
        """Return rows as the model has them: encoded, and decoded again.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows.

        Returns
        -------
        ndarray (N, D), or list of ndarrays (N_i, D)
            The reconstruction of each.
        """
        check_is_fitted(self)
        sequences = check_sequences(self, X, reset=False, allow_nan=False)
        return sequences.restore(self._decode(self._encode(sequences.values)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared distance of rows from their reconstructions; more is better.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows.
        y : ignored
            For pipelines.

        Returns
        -------
        float
            Minus the risk ``R`` on these rows.
        """
        check_is_fitted(self)
        values = check_sequences(self, X, reset=False, allow_nan=False).values
        return -mean_squared_distance(values, self._decode(self._encode(values)))

    @abc.abstractmethod
    def _encode(self, values: FloatArray) -> FloatArray:
        """Coordinates (N, K) of checked rows (N, D)."""

    @abc.abstractmethod
    def _decode(self, codes: FloatArray) -> FloatArray:
        """Rows (N, D) of checked coordinates (N, K)."""

    @property
    @abc.abstractmethod
    def _n_features_out(self) -> int:
        """Number of coordinates."""

    def _check_training_rows(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Check the rows to learn from, at least two and not all alike; also their mean."""
        # Sums are in the order of the memory, and training carries a rounding on to other optima.
        values = np.ascontiguousarray(
            check_sequences(self, X, reset=True, allow_nan=False, min_rows=2).values
        )
        if np.all(values == values[0]):
            raise ValueError("Every column of X is constant, so there is nothing to represent.")
        # From the first row on, so that an offset far from zero costs no digits.
        return values, values[0] + (values - values[0]).mean(axis=0)


def mean_squared_distance(values: FloatArray, others: FloatArray) -> float:
    """Mean over rows of the squared distance between two arrays (N, D)."""
    return float(np.mean(np.sum((values - others) ** 2, axis=1)))
