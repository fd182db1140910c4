"""Dask, where it is installed, and sums over many tasks."""

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["compute", "delayed", "is_array", "is_delayed", "persist", "reduce_tree"]

_FAN_IN = 16  # results joined by one task: enough to keep them few, few enough to stay parallel


def delayed(thing: Any) -> Any:
    """Return a function as one whose calls are tasks for Dask, or a value as one that tasks share.

    Raises
    ------
    ImportError
        Where Dask is not installed, saying how to install it.
    """
    return _dask().delayed(thing, pure=False)


def compute(*tasks: Any) -> tuple[Any, ...]:
    """Run tasks on Dask's present scheduler and return what they return."""
    return tuple(_dask().compute(*tasks))


def persist(*tasks: Any) -> tuple[Any, ...]:
    """Run tasks and return as many that give what these returned, kept where they ran."""
    return tuple(_dask().persist(*tasks))


def is_array(X: Any) -> bool:
    """Whether X is a dask.array."""
    return _kind(X) == ("dask", "Array")


def is_delayed(X: Any) -> bool:
    """Whether X is a delayed object, or a future on a cluster."""
    return _kind(X) in {("dask", "Delayed"), ("dask", "DelayedLeaf"), ("distributed", "Future")}


def reduce_tree(join: Callable[[list[Any]], Any], parts: Sequence[Any]) -> Any:
    """Return the task that joins the results of tasks, neighbours first.

    Parameters
    ----------
    join : callable
        Makes one result of a list of results, in their order; must be associative.
    parts : sequence of tasks
        At least one.
    """
    joined, level = delayed(join), list(parts)
    while len(level) > 1:
        level = [joined(level[i : i + _FAN_IN]) for i in range(0, len(level), _FAN_IN)]
    return level[0]


def _kind(X: Any) -> tuple[str, str]:
    # By name: whoever holds such an object has Dask, and nobody else needs to import it.
    return type(X).__module__.partition(".")[0], type(X).__name__


def _dask() -> Any:
    try:
        import dask
    except ImportError as error:
        raise ImportError("Data on a cluster need Dask: pip install 'probsfa[dask]'.") from error
    return dask
