"""Base classes of transformers that map rows independently."""

import abc
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, check_is_fitted

from probsfa._arrays import as_float_array
from probsfa._saving import Saveable
from probsfa._typing import FloatArray
from probsfa._validation import check_sequences, is_list_of_sequences

__all__ = ["InvertibleTransformer", "RowTransformer"]


class RowTransformer(Saveable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, abc.ABC):
    """A transformer that maps rows independently to K outputs, for arrays and lists of sequences."""

    def transform(self, X: Any) -> Any:
        """Compute the outputs for given rows.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Rows, mapped independently; complete unless the estimator supports missing values.

        Returns
        -------
        ndarray (N, K), or list of ndarrays (N_i, K)
            Outputs. Column k is the k-th output, as in the fitted attributes.
        """
        self._check_fitted()
        sequences = check_sequences(self, X, reset=False, allow_nan=get_tags(self).input_tags.allow_nan)
        return sequences.restore(self._outputs(sequences.values))

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    @abc.abstractmethod
    def _outputs(self, values: FloatArray) -> FloatArray:
        """Return the outputs (N, K) of validated rows (N, D)."""

    @property
    @abc.abstractmethod
    def _n_features_out(self) -> int:
        """Number of outputs."""


class InvertibleTransformer(RowTransformer):
    """A transformer that also reconstructs rows from their outputs."""

    _finite_outputs: bool | str = True  # "allow-nan": NaN is reconstructed as NaN

    def inverse_transform(self, Y: Any) -> Any:
        """Return the reconstruction of rows from their outputs.

        Parameters
        ----------
        Y : array-like (N, K), or list of array-likes (N_i, K)
            Outputs of ``transform``.

        Returns
        -------
        ndarray (N, D), or list of ndarrays (N_i, D)
            Reconstructed rows.

        Raises
        ------
        ValueError
            If `Y` does not have K columns, or the estimator has no inverse.
        """
        self._check_fitted()
        if is_list_of_sequences(Y):
            return [self.inverse_transform(y) for y in Y]
        Y = check_array(as_float_array(Y, "Y"), ensure_all_finite=self._finite_outputs, input_name="Y")
        if Y.shape[1] != self._n_features_out:
            raise ValueError(
                f"Y has {Y.shape[1]} columns; inverse_transform requires the {self._n_features_out} outputs."
            )
        return self._inputs(Y)

    @abc.abstractmethod
    def _inputs(self, outputs: FloatArray) -> FloatArray:
        """Return the reconstructed rows (N, D) of validated outputs (N, K)."""
