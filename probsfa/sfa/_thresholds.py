"""The delta value up to which a feature counts as slow."""

import numbers
from typing import Any

__all__ = ["check_delta_threshold"]


def check_delta_threshold(name: str, value: Any) -> None:
    """Raise a ValueError unless a threshold is a number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) >= 0:
        raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")
