"""Many small independent computations on several cores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from joblib import effective_n_jobs  # type: ignore[import-untyped]

from probsfa._threads import one_blas_thread

__all__ = ["Workers", "slices", "start_workers"]

_TASK_CELLS = 2**18  # 2 MiB of float64 in one task: the blocks of a task stay in a core's cache


class Workers:
    """Runs tasks one after the other, or on threads while the linear algebra below uses one core each.

    Parameters
    ----------
    executor : ThreadPoolExecutor or None
        Where to run tasks; None runs them here.
    n_jobs : int
        Number of threads.
    """

    def __init__(self, executor: ThreadPoolExecutor | None, n_jobs: int) -> None:
        self.executor = executor
        self.n_jobs = n_jobs

    def run(self, task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return what the task makes of every item, in order.

        Fewer items than threads run one after the other, with all cores for the linear algebra of each.
        """
        items = list(items)
        if self.executor is None or len(items) < self.n_jobs:
            return [task(item) for item in items]

        def on_one_core(item: Any) -> Any:
            with one_blas_thread():  # each for itself: some libraries have a limit for each thread
                return task(item)

        with one_blas_thread():
            return list(self.executor.map(on_one_core, items))


@contextmanager
def start_workers(n_jobs: int | None) -> Iterator[Workers]:
    """Give workers for a while; `n_jobs` is scikit-learn's: None is 1, -1 all cores."""
    n = effective_n_jobs(n_jobs)
    if n == 1:
        yield Workers(None, 1)
        return
    with ThreadPoolExecutor(n) as executor:
        yield Workers(executor, n)


def slices(n_nodes: int, cells_per_node: int) -> list[slice]:
    """Cut nodes into groups whose cells fit the cache; at least one node in each."""
    size = max(1, _TASK_CELLS // max(cells_per_node, 1))
    return [slice(start, min(start + size, n_nodes)) for start in range(0, n_nodes, size)]
