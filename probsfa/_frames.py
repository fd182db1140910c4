"""What scikit-learn's transformers cannot do for sequences: frames out for lists, and keywords passed on."""

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
    configured to be frames, this decorator hands every sequence to the wrapped method by itself, with its
    own times.

    scikit-learn's ``fit_transform`` gives keywords to ``fit`` alone. Those that ``transform`` takes too,
    `lengths` and `times`, tell how the rows belong together, so the decorated one gives them to both.
    """
    wrapped: Callable[..., Any] = cls.transform  # type: ignore[attr-defined]

    @functools.wraps(wrapped)
    def transform(self: Any, X: Any, **how: Any) -> Any:
        chosen = getattr(self, "_sklearn_output_config", {})
        as_arrays = chosen.get("transform", get_config()["transform_output"]) == "default"
        if as_arrays or not is_list_of_sequences(X):
            return wrapped(self, X, **how)
        given = {name: value for name, value in how.items() if value is not None}
        if not given:
            return [wrapped(self, x) for x in X]
        times = given.get("times")
        if len(given) > 1 or not isinstance(times, list) or len(times) != len(X):
            return wrapped(self, X, **how)  # which says what is wrong
        return [wrapped(self, x, times=t) for x, t in zip(X, times, strict=True)]

    inherited: Callable[..., Any] = cls.fit_transform  # type: ignore[attr-defined]
    for_both = {"lengths", "times"} & set(inspect.signature(wrapped).parameters)

    @functools.wraps(inherited)
    def fit_transform(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
        again = {name: value for name, value in fit_params.items() if name in for_both}
        if again or is_list_of_sequences(X):
            return self.fit(X, y, **fit_params).transform(X, **again)
        return inherited(self, X, y, **fit_params)

    cls.transform = transform  # type: ignore[attr-defined]
    cls.fit_transform = fit_transform  # type: ignore[attr-defined]
    return cls
