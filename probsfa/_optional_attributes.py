"""Fitted attributes that exist only for some options."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["set_where_asked"]


def set_where_asked(estimator: Any, groups: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
    """Set optional attributes of an estimator, and delete those of an earlier fit with other options.

    Parameters
    ----------
    estimator : object
        The estimator.
    groups : iterable of (bool, mapping)
        Whether attributes are set, and their values by name.

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
