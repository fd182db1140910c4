"""Base class of estimators that encode and decode rows."""

import abc
import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa._row_transformer import InvertibleTransformer
from probsfa._typing import FloatArray
from probsfa._validation import check_sequences

__all__ = ["Reconstruction"]


class Reconstruction(InvertibleTransformer):
    """An estimator that encodes rows as coordinates (``_outputs``) and decodes them (``_inputs``)."""

    status_: str

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the encoder and the decoder.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows.
        y : ignored

        Returns
        -------
        object
            The fitted estimator. After a keyboard interrupt it has the best result so far.

        Raises
        ------
        ValueError
            If a parameter is out of range, or `X` is constant or has missing values.

        Warns
        -----
        ConvergenceWarning
            If an iterative fit was interrupted or reached `max_iter` iterations.
        """
        self._check_parameters()
        self._learn(*self._check_training_rows(X))
        if not getattr(self, "converged_", True):
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=2)
        return self

    def reconstruct(self, X: Any) -> Any:
        """Encode and decode rows.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows.

        Returns
        -------
        ndarray (N, D), or list of ndarrays (N_i, D)
            The reconstructed rows.
        """
        check_is_fitted(self)
        sequences = check_sequences(self, X, reset=False, allow_nan=False)
        return sequences.restore(self._inputs(self._outputs(sequences.values)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared distance of rows from their reconstructions; higher is better.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows.
        y : ignored
            For pipelines.

        Returns
        -------
        float
            Minus the mean squared distance.
        """
        check_is_fitted(self)
        values = check_sequences(self, X, reset=False, allow_nan=False).values
        return -mean_squared_distance(values, self._inputs(self._outputs(values)))

    @abc.abstractmethod
    def _check_parameters(self) -> None:
        """Raise a ValueError for a parameter that is out of range."""

    @abc.abstractmethod
    def _learn(self, values: FloatArray, mean: FloatArray) -> None:
        """Set the fitted attributes from validated rows (N, D) and their mean."""

    def _check_training_rows(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Validate the training rows, at least two and not all equal; return them and their mean."""
        # The memory order of the array changes the rounding of sums, and with it possibly the local optimum.
        values = np.ascontiguousarray(
            check_sequences(self, X, reset=True, allow_nan=False, min_rows=2).values
        )
        if np.all(values == values[0]):
            raise ValueError("Every column of X is constant. Use rows that vary.")
        # Differences from the first row are averaged, because sums of large offsets would lose digits.
        return values, values[0] + (values - values[0]).mean(axis=0)


def mean_squared_distance(values: FloatArray, others: FloatArray) -> float:
    """Return the mean over rows of the squared distance between two arrays (N, D)."""
    return float(np.mean(np.sum((values - others) ** 2, axis=1)))
