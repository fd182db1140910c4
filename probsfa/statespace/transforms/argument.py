"""The parameter ``transforms`` of the estimator: one kind for all columns, a list, or a mapping."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace.transforms.columns import Transforms, name_of
from probsfa.statespace.transforms.learning import choose_transform, make_transform
from probsfa.statespace.transforms.maps import Transform

_KINDS = ("auto", "log", "log1p", "sqrt", "box-cox", "yeo-johnson")


def make_transforms(argument: Any, sequences: Sequences) -> tuple[Transforms, str]:
    """Make the transforms of all columns from the parameter ``transforms`` and training data.

    Parameters
    ----------
    argument : None, str, Mapping or sequence
        One kind for all columns, a list with one kind for each column, or a mapping from names or numbers of
        columns to kinds.
    sequences : Sequences
        Validated training data.

    Returns
    -------
    transforms : Transforms
    sentence : str
        Sentence about the selection by ``"auto"``, for the status; empty if "auto" is not used.

    Raises
    ------
    ValueError
        If the parameter is not valid, or a value is outside the domain of the transform of its column.
    """
    names, n_features = sequences.feature_names, sequences.n_features
    kinds = _by_column(argument, names, n_features)
    transforms: list[Transform | None] = []
    for j, kind in enumerate(kinds):
        values = sequences.values[:, j]
        if kind == "auto":
            transforms.append(choose_transform(values, sequences))
        else:
            transforms.append(make_transform(kind, values, j, names))
    descriptions = [
        f"{name_of(one)} for {j if names is None else repr(names[j])}"
        for j, (kind, one) in enumerate(zip(kinds, transforms, strict=True))
        if kind == "auto" and one is not None
    ]
    sentence = ""
    if "auto" in [kind for kind in kinds if isinstance(kind, str)]:
        description = ", ".join(descriptions) if descriptions else "no transform"
        sentence = f" transforms='auto' selected {description}."
    return Transforms(tuple(transforms)), sentence


def _by_column(argument: Any, names: Sequence[str] | None, n_features: int) -> list[Any]:
    """Return a kind for each column."""
    is_bounds = isinstance(argument, tuple) and len(argument) == 2 and any(is_real(end) for end in argument)
    if argument is None or is_bounds or isinstance(argument, (str, Transform)):
        return [check_kind(argument)] * n_features
    if isinstance(argument, Mapping):
        kinds: list[Any] = [None] * n_features
        for column, kind in argument.items():
            position = _column(column, names, n_features)
            kinds[position] = check_kind(kind)
        return kinds
    if isinstance(argument, (list, tuple, np.ndarray)):
        if len(argument) != n_features:
            raise ValueError(
                f"transforms has {len(argument)} kinds, and X has {n_features} columns. Pass a kind for "
                "each column, or a mapping: transforms={'rain': 'sqrt'}."
            )
        return [check_kind(kind) for kind in argument]
    raise ValueError(
        f"transforms must be None, a kind such as 'sqrt', a list or a mapping; got {type(argument).__name__}."
    )


def _column(column: Any, names: Sequence[str] | None, n_features: int) -> int:
    """Return the position of a column, given by name or number."""
    if names is not None and str(column) in names:
        return list(names).index(str(column))
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < n_features:
        return int(column)
    columns = f"0 to {n_features - 1}" if names is None else ", ".join(map(repr, list(names)[:10]))
    raise ValueError(f"transforms has the column {column!r}, which is not a column of X ({columns}).")


def check_kind(kind: Any) -> Any:
    """Return a kind, with bounds as a tuple of floats or None; raise a ValueError if it is not valid."""
    if kind is None or isinstance(kind, Transform) or (isinstance(kind, str) and kind in _KINDS):
        return kind
    if isinstance(kind, (list, tuple)) and len(kind) == 2:
        ends = [None if end is None or (is_real(end) and np.isinf(end)) else end for end in kind]
        numbers = [end for end in ends if end is not None]
        if numbers and all(is_real(end) and np.isfinite(end) for end in numbers):
            if len(numbers) == 2 and not numbers[0] < numbers[1]:
                raise ValueError(
                    f"transforms has the bounds {kind!r}; the upper bound must be larger than the lower one."
                )
            return tuple(None if end is None else float(end) for end in ends)
    raise ValueError(
        f"transforms must be None, one of {', '.join(map(repr, _KINDS))}, or bounds such as (0, 100) or "
        f"(0, None), for each column; got {kind!r}."
    )


def is_real(value: Any) -> bool:
    """Return whether a value is a real number, and not a bool."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
