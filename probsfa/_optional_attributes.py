"""Fitted attributes that are there only where what they belong to was asked for."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["set_where_asked"]


def set_where_asked(estimator: Any, groups: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
    """Set attributes of an estimator, and take away those of a fit before that nobody asked for now.

    Parameters
    ----------
    estimator : object
        The estimator.
    groups : iterable of (bool, mapping)
        Whether attributes were asked for, and their values by name.

    Examples
    --------
    >>> class Fitted:
    ...     periods_ = None
    >>> fitted = Fitted()
    >>> set_where_asked(fitted, [(True, {"periods_": 24.0}), (False, {"timescales_": 1.0})])
    >>> vars(fitted)
    {'periods_': 24.0}
    """
    for asked, attributes in groups:
        for name, value in attributes.items():
            estimator.__dict__.pop(name, None)
            if asked:
                setattr(estimator, name, value)
