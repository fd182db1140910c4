"""Support of ``set_output`` for lists of sequences, which scikit-learn does not provide."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin

from probsfa._arrays import as_frame, is_data_array
from probsfa._like_input import like_array
from probsfa._validation import is_list_of_sequences

__all__ = ["lists_in_lists_out", "output_container"]

_Estimator = TypeVar("_Estimator", bound=type)


def lists_in_lists_out(cls: _Estimator) -> _Estimator:
    """Decorate an estimator class so that ``transform`` returns a list of DataFrames for a list of sequences.

    scikit-learn converts the result of ``transform`` to one DataFrame and does not support lists. If
    DataFrames are configured, the decorated method transforms the list, with further arguments such as times,
    and converts each result to a DataFrame with the index of its sequence.

    For a DataArray of xarray the result is a DataArray with the coordinates of the rows. If DataFrames are
    configured, it is a DataFrame with these coordinates as index.

    ``fit_transform`` passes arguments that ``fit`` and ``transform`` share to both; scikit-learn passes them
    to ``fit`` only.
    """
    # `set_output` of scikit-learn wraps `transform`, to convert its result to a DataFrame if configured.
    configured_transform: Callable[..., Any] = cls.transform  # type: ignore[attr-defined]
    array_transform: Callable[..., Any] = configured_transform.__wrapped__  # type: ignore[attr-defined]
    transform_arguments = set(inspect.signature(array_transform).parameters) - {"self", "X"}

    @functools.wraps(configured_transform)
    def transform(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        container = output_container(self)
        if not is_list_of_sequences(X):
            if container != "default":
                return configured_transform(self, as_frame(X), *args, **kwargs)
            return _with_labels(self, X, configured_transform(self, X, *args, **kwargs))
        if container == "default":
            results = configured_transform(self, X, *args, **kwargs)
            return [_with_labels(self, x, result) for x, result in zip(X, results, strict=True)]
        results = array_transform(self, X, *args, **kwargs)
        return [
            _Result(self, result).set_output(transform=container).transform(as_frame(sequence))
            for sequence, result in zip(X, results, strict=True)
        ]

    inherited: Callable[..., Any] = cls.fit_transform  # type: ignore[attr-defined]
    supports_lists = inherited is not TransformerMixin.fit_transform

    @functools.wraps(inherited)
    def fit_transform(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
        shared_params = {name: value for name, value in fit_params.items() if name in transform_arguments}
        if (
            supports_lists
            and not shared_params
            and is_list_of_sequences(X)
            and output_container(self) == "default"
        ):
            return inherited(self, X, y, **fit_params)
        if shared_params or is_list_of_sequences(X):
            return self.fit(X, y, **fit_params).transform(X, **shared_params)
        return inherited(self, X, y, **fit_params)

    cls.transform = transform  # type: ignore[attr-defined]
    cls.fit_transform = fit_transform  # type: ignore[attr-defined]
    return cls


def _with_labels(estimator: Any, X: Any, result: Any) -> Any:
    """Return the outputs of an estimator with the labels of the rows of `X`.

    For a DataArray this is done for all estimators. For DataFrames it is done for estimators that define
    `_frames_for_frames`, unless ``set_output`` selects arrays.
    """
    is_configured = "transform" in getattr(estimator, "_sklearn_output_config", {})
    is_frame = hasattr(X, "columns") or hasattr(X, "column_names")
    for_frames = is_frame and getattr(estimator, "_frames_for_frames", False) and not is_configured
    returns_frame = is_data_array(X) or for_frames
    if not returns_frame or not isinstance(result, np.ndarray) or len(result) != len(X):
        return result
    return like_array(X, result, estimator.get_feature_names_out(), ())


def output_container(estimator: Any) -> Any:
    """Return the configured output of an estimator, "default" for arrays."""
    configured = getattr(estimator, "_sklearn_output_config", {})
    return configured.get("transform", get_config()["transform_output"])


class _Result(TransformerMixin, BaseEstimator):
    """Substitute of an estimator with a given result, for the conversion to a DataFrame by scikit-learn."""

    def __init__(self, estimator: Any, result: Any) -> None:
        self.estimator = estimator
        self.result = result

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def transform(self, X: Any) -> Any:
        return self.result

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        return self.estimator.get_feature_names_out()
