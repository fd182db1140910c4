"""What programs in this folder share: timings in alternation, machine and versions.

The contestants of a comparison take turns in one process, so that whatever else the machine does meets all of
them alike. Each runs once before it counts, which pays for compilation and cold caches.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info


class Timing(NamedTuple):
    """Median, shortest and longest of some wall-clock times in seconds, and how many there were."""

    median: float
    shortest: float
    longest: float
    n_runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Timing":
        """Summarise times."""
        return cls(float(np.median(seconds)), min(seconds), max(seconds), len(seconds))

    def __str__(self) -> str:
        """Median, and the spread where there is one."""
        if self.n_runs == 1:
            return f"{duration(self.median)} (one run)"
        return f"{duration(self.median)} ({duration(self.shortest)} to {duration(self.longest)})"


def timed(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Return the seconds of a run by a clock, of the wall unless another is given, and what it returned."""
    started = clock()
    result = run()
    return clock() - started, result


def in_fresh_process(script: str, given: Any, bytecode: str | None = None) -> Any:
    """Return what a script prints last in a Python of its own; that and its argument are JSON there.

    ``bytecode`` is a folder in which that Python keeps compiled modules, also where the environment has
    ``PYTHONDONTWRITEBYTECODE``.
    """
    command = [sys.executable, "-W", "ignore", "-c", script, json.dumps(given)]
    environment = dict(os.environ)
    if bytecode is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = bytecode
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def alternate(
    contestants: dict[str, Callable[[], Any]], *, repeats: int, budget: float = 60.0, warm_up: bool = True
) -> dict[str, Timing]:
    """Time contestants in turns.

    A contestant whose runs have taken `budget` seconds runs no more; where the first run took that long, it
    is the one that counts, compilation and all.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    spent = dict.fromkeys(contestants, 0.0)
    if warm_up:
        for name, run in contestants.items():
            spent[name] = timed(run)[0]
            if spent[name] > budget:
                seconds[name].append(spent[name])
    for _ in range(repeats):
        for name, run in contestants.items():
            if spent[name] > budget:
                continue
            seconds[name].append(timed(run)[0])
            spent[name] += seconds[name][-1]
    return {name: Timing.of(runs) for name, runs in seconds.items()}


def duration(seconds: float) -> str:
    """Write a time with three digits in its natural unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.0f} us"


def machine() -> str:
    """Return processor, number of cores, memory and operating system."""
    return f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()}"


def setting(*packages: str) -> str:
    """One line with the machine and the versions of what takes part."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    pools = {f"{pool['internal_api']} with {pool['num_threads']} threads" for pool in threadpool_info()}
    parts = [
        machine(),
        ", ".join(sorted(pools)),
        f"Python {platform.python_version()}",
        *versions,
    ]
    return "; ".join(part for part in parts if part) + "."


def product_rate(n: int = 768, repeats: int = 30) -> float:
    """Double-precision flops per second of a square matrix product, the best of some runs."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, n, n))
    return 2.0 * n**3 / min(timed(lambda: left @ right)[0] for _ in range(repeats))


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB, on Linux."""
    peak = next(line for line in _lines("/proc/self/status") if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e6


def require_close(name: str, returned: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0) -> float:
    """Return the largest difference, and raise where a contestant does not return the same numbers."""
    returned, expected = np.asarray(returned), np.asarray(expected)
    gap = np.max(np.abs(returned - expected), initial=0.0)
    np.testing.assert_allclose(returned, expected, rtol=rtol, atol=atol, err_msg=name)
    return float(gap)


def _processor() -> str:
    lines = _lines("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
