"""Conversion of transforms, and of the parameter ``transforms``, to and from JSON."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from probsfa.statespace.transforms.argument import check_kind, is_real
from probsfa.statespace.transforms.maps import (
    MAX_POWER,
    MIN_POWER,
    Bounds,
    BoxCox,
    Log,
    Log1p,
    Sqrt,
    Transform,
    YeoJohnson,
)

_BY_NAME: dict[str, Callable[..., Transform]] = {
    "log": Log,
    "log1p": Log1p,
    "sqrt": Sqrt,
    "box-cox": BoxCox,
    "yeo-johnson": YeoJohnson,
    "bounds": Bounds,
}


def argument_to_json(transforms: Any) -> Any:
    """Convert the parameter ``transforms`` to JSON types."""
    if isinstance(transforms, Transform):
        return {"transform": transforms.as_list}
    if isinstance(transforms, Mapping):
        return {"columns": [[_plain_key(key), argument_to_json(kind)] for key, kind in transforms.items()]}
    if isinstance(transforms, (list, tuple, np.ndarray)):
        return [argument_to_json(kind) for kind in transforms]
    return transforms


def _plain_key(key: Any) -> Any:
    return int(key) if isinstance(key, np.integer) else key


def argument_from_json(stored: Any) -> Any:
    """Convert the parameter ``transforms`` back from the result of :func:`argument_to_json`."""
    if isinstance(stored, dict) and "transform" in stored:
        return transform_from_list(stored["transform"])
    if isinstance(stored, dict):
        return {key: argument_from_json(kind) for key, kind in stored["columns"]}
    if isinstance(stored, list):
        items = [argument_from_json(kind) for kind in stored]
        is_bounds = (
            len(items) == 2 and all(one is None or is_real(one) for one in items) and items != [None] * 2
        )
        return tuple(items) if is_bounds else items
    return stored


def transform_from_list(stored: Any) -> Transform | None:
    """Return a transform from a list of its name and numbers; None for None.

    Raises
    ------
    ValueError
        If name or numbers are not valid.
    """
    if stored is None:
        return None
    if not (isinstance(stored, list) and stored and stored[0] in _BY_NAME):
        raise ValueError(f"transforms contains {stored!r:.80}, which is not a transform")
    numbers = stored[1:]
    is_bounds = stored[0] == "bounds"
    numbers_are_valid = all(is_real(x) and np.isfinite(x) for x in numbers if not (is_bounds and x is None))
    expected = {"sqrt": 1, "box-cox": 1, "yeo-johnson": 1, "bounds": 3}.get(stored[0], 0)
    if len(numbers) != expected or not numbers_are_valid:
        raise ValueError(f"transforms contains {stored!r:.80}, which is not a transform")
    transform = _BY_NAME[stored[0]](*numbers)
    if isinstance(transform, (BoxCox, YeoJohnson)) and not MIN_POWER <= transform.power <= MAX_POWER:
        raise ValueError(
            f"transforms contains the power {transform.power!r}, which must lie from {MIN_POWER:g} to "
            f"{MAX_POWER:g}"
        )
    if isinstance(transform, (Sqrt, Bounds)) and not transform.margin > 0.0:
        raise ValueError(f"transforms contains the margin {transform.margin!r}, which must be positive")
    if isinstance(transform, Bounds):  # raise a ValueError if the bounds are not valid
        check_kind((transform.lower, transform.upper))
    return transform
