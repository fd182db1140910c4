"""Conversion of transforms, and of the parameter ``transforms``, to and from JSON."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from probsfa.statespace.transforms.argument import checked_kind, is_real
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


def as_plain(asked: Any) -> Any:
    """Convert the parameter ``transforms`` to JSON types."""
    if isinstance(asked, Transform):
        return {"transform": asked.plain}
    if isinstance(asked, Mapping):
        return {"columns": [[_plain_key(key), as_plain(kind)] for key, kind in asked.items()]}
    if isinstance(asked, (list, tuple, np.ndarray)):
        return [as_plain(kind) for kind in asked]
    return asked


def _plain_key(key: Any) -> Any:
    return int(key) if isinstance(key, np.integer) else key


def as_asked(plain: Any) -> Any:
    """Convert the parameter ``transforms`` back from the result of :func:`as_plain`."""
    if isinstance(plain, dict) and "transform" in plain:
        return from_plain(plain["transform"])
    if isinstance(plain, dict):
        return {key: as_asked(kind) for key, kind in plain["columns"]}
    if isinstance(plain, list):
        inner = [as_asked(kind) for kind in plain]
        bounds = len(inner) == 2 and all(one is None or is_real(one) for one in inner) and inner != [None] * 2
        return tuple(inner) if bounds else inner
    return plain


def from_plain(plain: Any) -> Transform | None:
    """Return a transform from its name and numbers, or None.

    Raises
    ------
    ValueError
        If name or numbers are not valid.
    """
    if plain is None:
        return None
    if not (isinstance(plain, list) and plain and plain[0] in _BY_NAME):
        raise ValueError(f"transforms contains {plain!r:.80}, which is not a transform")
    numbers = plain[1:]
    bounded = plain[0] == "bounds"
    good = all(is_real(x) and np.isfinite(x) for x in numbers if not (bounded and x is None))
    expected = {"sqrt": 1, "box-cox": 1, "yeo-johnson": 1, "bounds": 3}.get(plain[0], 0)
    if len(numbers) != expected or not good:
        raise ValueError(f"transforms contains {plain!r:.80}, which is not a transform")
    made = _BY_NAME[plain[0]](*numbers)
    if isinstance(made, (BoxCox, YeoJohnson)) and not MIN_POWER <= made.power <= MAX_POWER:
        raise ValueError(f"transforms contains the power {made.power!r}, which must lie from 0 to 2")
    if isinstance(made, (Sqrt, Bounds)) and not made.margin > 0.0:
        raise ValueError(f"transforms contains the margin {made.margin!r}, which must be positive")
    if isinstance(made, Bounds):
        checked_kind((made.lower, made.upper))
    return made
