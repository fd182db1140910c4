"""Old names of attributes and arguments, which issue a FutureWarning and work until version 2.0."""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["renamed_arguments", "renamed_attribute", "warn_of_old_name", "with_new_names"]

P = ParamSpec("P")
T = TypeVar("T")


def warn_of_old_name(old: str, new: str, stacklevel: int = 2) -> None:
    """Issue the FutureWarning of an old name; with `stacklevel` 2, the warning is at the line of the caller.

    Warns
    -----
    FutureWarning
        Names the old and the new name.
    """
    warnings.warn(
        f"{old} is now {new}; the old name will be removed in version 2.0.",
        FutureWarning,
        stacklevel=stacklevel + 1,
    )


def renamed_attribute(old: str, new: str) -> property:
    """Return a property with the value of the attribute `new`; `old` is its name as in "Class.name"."""

    def get(instance: Any) -> Any:
        warn_of_old_name(old, new, stacklevel=2)
        return getattr(instance, new)

    return property(get, doc=f"Former name of `{new}`; will be removed in version 2.0.")


def with_new_names(
    values: Mapping[str, Any], new_names: Mapping[str, str], *, stacklevel: int | None = None
) -> dict[str, Any]:
    """Return a dictionary in which the keys of `new_names` are replaced by their new names.

    Parameters
    ----------
    values : mapping
        Values by old or new names.
    new_names : mapping of str to str
        New name of each old name.
    stacklevel : int, optional
        If given, old names issue a warning; with 2, at the line of the caller.

    Raises
    ------
    TypeError
        If there are values for the old and the new name.
    """
    for old in [name for name in values if name in new_names]:
        if stacklevel is not None:
            warn_of_old_name(old, new_names[old], stacklevel + 1)
        if new_names[old] in values:
            raise TypeError(f"{old} is the former name of {new_names[old]}; set {new_names[old]} only.")
    return {new_names.get(name, name): value for name, value in values.items()}


def renamed_arguments(new_names: Mapping[str, str]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of a function whose keyword arguments have new names.

    Parameters
    ----------
    new_names : mapping of str to str
        New name of each old name.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def renamed(*args: P.args, **kwargs: P.kwargs) -> T:
            if not new_names.keys().isdisjoint(kwargs):
                return function(*args, **with_new_names(kwargs, new_names, stacklevel=2))
            return function(*args, **kwargs)

        return renamed

    return decorate
