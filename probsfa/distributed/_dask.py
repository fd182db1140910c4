"""Interface to Dask, if it is installed, and sums over many tasks."""

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["compute", "delayed", "is_array", "is_delayed", "persist", "reduce_tree"]

_FAN_IN = 16  # number of results that one task merges; more results give fewer tasks, but less parallelism


def delayed(value: Any) -> Any:
    """Wrap a function or a value by ``dask.delayed``.

    Calls of a wrapped function are tasks of Dask; a wrapped value is sent to the workers once for all tasks.

    Raises
    ------
    ImportError
        If Dask is not installed.
    """
    return _dask().delayed(value, pure=False)


def compute(*tasks: Any) -> tuple[Any, ...]:
    """Run tasks on the current scheduler of Dask and return their results."""
    return tuple(_dask().compute(*tasks))


def persist(*tasks: Any) -> tuple[Any, ...]:
    """Run tasks and return tasks whose results stay on the workers."""
    return tuple(_dask().persist(*tasks))


def is_array(X: Any) -> bool:
    """Return whether X is a dask.array."""
    return _kind(X) == ("dask", "Array")


def is_delayed(X: Any) -> bool:
    """Return whether X is a delayed object, or a future on a cluster."""
    return _kind(X) in {("dask", "Delayed"), ("dask", "DelayedLeaf"), ("distributed", "Future")}


def reduce_tree(join: Callable[[list[Any]], Any], parts: Sequence[Any]) -> Any:
    """Return a task that merges the results of tasks, adjacent results first.

    Parameters
    ----------
    join : callable
        Associative function of a list of results, in their order, that returns one result.
    parts : sequence of tasks
        Tasks, at least one.
    """
    delayed_join, tasks = delayed(join), list(parts)
    while len(tasks) > 1:
        tasks = [delayed_join(tasks[i : i + _FAN_IN]) for i in range(0, len(tasks), _FAN_IN)]
    return tasks[0]


def _kind(X: Any) -> tuple[str, str]:
    # Names are compared, because the test of a class would import Dask.
    return type(X).__module__.partition(".")[0], type(X).__name__


def _dask() -> Any:
    try:
        import dask
    except ImportError as error:
        raise ImportError("Distributed data require Dask: pip install 'probsfa[dask]'.") from error
    return dask
