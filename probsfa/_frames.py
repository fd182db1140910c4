"""Frames out: what scikit-learn's ``set_output`` cannot do for a list of sequences."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn import get_config

from probsfa._validation import is_list_of_sequences

__all__ = ["lists_in_lists_out"]

_Estimator = TypeVar("_Estimator", bound=type)


def lists_in_lists_out(cls: _Estimator) -> _Estimator:
    """Let an estimator class with ``set_output`` return a list of frames for a list of sequences.

    scikit-learn wraps what ``transform`` returns into one frame and cannot wrap a list. Where the output is
    configured to be frames, this decorator hands every sequence to the wrapped method by itself.
    """
    wrapped: Callable[..., Any] = cls.transform  # type: ignore[attr-defined]

    @functools.wraps(wrapped)
    def transform(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = getattr(self, "_sklearn_output_config", {})
        if chosen.get("transform", get_config()["transform_output"]) == "default" or not is_list_of_sequences(
            X
        ):
            return wrapped(self, X, *args, **kwargs)
        times = kwargs.pop("times", None)
        if times is None:
            return [wrapped(self, x, *args, **kwargs) for x in X]
        return [wrapped(self, x, *args, times=t, **kwargs) for x, t in zip(X, times, strict=True)]

    inherited: Callable[..., Any] = cls.fit_transform  # type: ignore[attr-defined]
    taken_by_transform = frozenset(inspect.signature(wrapped).parameters)

    @functools.wraps(inherited)
    def fit_transform(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
        if is_list_of_sequences(X):
            again = {name: value for name, value in fit_params.items() if name in taken_by_transform}
            return self.fit(X, y, **fit_params).transform(X, **again)
        return inherited(self, X, y, **fit_params)

    cls.transform = transform  # type: ignore[attr-defined]
    cls.fit_transform = fit_transform  # type: ignore[attr-defined]
    return cls
