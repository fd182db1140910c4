"""Timing of several implementations in alternation, and descriptions of machine and versions.

The implementations run alternately in one process, so that other load of the machine affects all of them.
Each runs once before measurement, for compilation and to fill caches.
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
    """Median, minimum and maximum of wall-clock times in seconds, and their number."""

    median: float
    shortest: float
    longest: float
    n_runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Timing":
        """Summarise times."""
        return cls(float(np.median(seconds)), min(seconds), max(seconds), len(seconds))

    def __str__(self) -> str:
        """Return the median, and the range if there are several runs."""
        if self.n_runs == 1:
            return f"{duration(self.median)} (one run)"
        return f"{duration(self.median)} ({duration(self.shortest)} to {duration(self.longest)})"


def timed(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Return the duration of a run by a clock, the wall clock by default, and the result of the run."""
    started = clock()
    result = run()
    return clock() - started, result


def in_fresh_process(script: str, given: Any, bytecode: str | None = None) -> Any:
    """Run a script in a new Python process and return its last line of output, decoded from JSON.

    The script receives `given` as JSON in its first argument. ``bytecode`` is a folder for compiled modules,
    which is used even if the environment sets ``PYTHONDONTWRITEBYTECODE``.
    """
    command = [sys.executable, "-W", "ignore", "-c", script, json.dumps(given)]
    environment = dict(os.environ)
    if bytecode is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = bytecode
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def alternate(
    implementations: dict[str, Callable[[], Any]], *, repeats: int, budget: float = 60.0, warm_up: bool = True
) -> dict[str, Timing]:
    """Measure implementations alternately.

    An implementation is not run again after its runs have taken `budget` seconds. If the first run exceeds
    the budget, its time, including compilation, is the result.
    """
    seconds: dict[str, list[float]] = {name: [] for name in implementations}
    spent = dict.fromkeys(implementations, 0.0)
    if warm_up:
        for name, run in implementations.items():
            spent[name] = timed(run)[0]
            if spent[name] > budget:
                seconds[name].append(spent[name])
    for _ in range(repeats):
        for name, run in implementations.items():
            if spent[name] > budget:
                continue
            seconds[name].append(timed(run)[0])
            spent[name] += seconds[name][-1]
    return {name: Timing.of(runs) for name, runs in seconds.items()}


def duration(seconds: float) -> str:
    """Return a time with three digits and a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.0f} us"


def machine() -> str:
    """Return processor, number of cores, memory and operating system."""
    return f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()}"


def setting(*packages: str) -> str:
    """Return one line with the machine and the versions of the packages."""
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
    """Return operations per second of a matrix product in double precision, the best of several runs."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, n, n))
    return 2.0 * n**3 / min(timed(lambda: left @ right)[0] for _ in range(repeats))


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB, on Linux."""
    peak = next(line for line in _lines("/proc/self/status") if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e6


def require_close(name: str, returned: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0) -> float:
    """Return the largest difference, and raise an error if results differ by more than the tolerances."""
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
