"""Settings and fixtures of all tests."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

# Matrices of tests are small, and each worker of pytest has a core or less, so that threads of a linear
# algebra library would wait for each other. Set in the environment, also for processes that tests start.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

# Compiled programs of JAX are cached in the folder of pytest for other workers and the next run, because
# compilation takes most of the time. The environment configures the cache, so that processes that tests start
# use it, too. `pytest --cache-clear` empties the folder; a run empties it if it is too large.
_PROGRAMS = Path(__file__).resolve().parents[1] / ".pytest_cache" / "d" / "jax"
_MAX_CACHE_BYTES = 2**29
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_PROGRAMS))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Programs of tests run for milliseconds, and their compilation takes seconds. A first fit of BayesianSFA
# by SVI takes 9.0 s of processor time, 7.2 s with this level of optimization, and 4.0 s also with the older
# code generator of JAX 0.10, which later versions do not have. With `XLA_FLAGS=""`, which
# `.ci/run --all` sets, programs are compiled as for users.
_XLA_FLAGS = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
]
if metadata.version("jax").startswith("0.10."):
    _XLA_FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_XLA_FLAGS))
assert "jax" not in sys.modules, "JAX was imported before its cache was configured."

# Background jobs of a shell ignore interrupts; tests of interrupts must not depend on this.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Each compiled program has memory maps. Linux allows 65,530 in a process; all tests together need more.
_MAX_MEMORY_MAPS = 20_000


def _n_memory_maps() -> int:
    """Return the number of memory maps of this process; zero if the system does not report it."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture(autouse=True, scope="module")
def limited_memory_maps() -> Iterator[None]:
    """Delete compiled programs between files of tests, because the number of memory maps is limited."""
    yield
    if "jax" in sys.modules and _n_memory_maps() > _MAX_MEMORY_MAPS:
        sys.modules["jax"].clear_caches()
        gc.unfreeze()
        gc.collect()


@pytest.fixture(autouse=True, scope="module")
def short_garbage_collections(limited_memory_maps: None) -> None:
    """Exclude the objects of earlier files from garbage collection.

    A process of tests has millions of objects, so that a collection takes half a second. The command
    `probsfa` makes three, and tracing by JAX causes many.
    """
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Use one thread in libraries that are already loaded; empty the folder of programs if it is large."""
    gc.set_threshold(20_000, 20, 20)  # tracing by JAX makes many objects, nearly none of them in cycles
    if os.environ["OPENBLAS_NUM_THREADS"] == "1":  # a plugin of pytest may have imported NumPy earlier
        threadpool_limits(1, user_api="blas")
    is_worker = hasattr(config, "workerinput")
    if not is_worker and sum(x.stat().st_size for x in _PROGRAMS.glob("*")) > _MAX_CACHE_BYTES:
        shutil.rmtree(_PROGRAMS, ignore_errors=True)


def _seeds() -> list[int]:
    """Return the seeds to run: 42, or those in PROBSFA_TEST_SEEDS ("all", or a range such as "0-9")."""
    wanted = os.environ.get("PROBSFA_TEST_SEEDS", "42")
    if wanted == "all":
        return list(range(100))
    first, _, last = wanted.partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.fixture(params=_seeds())
def seed(request: pytest.FixtureRequest) -> int:
    """A seed; a test that uses it must hold for every seed from 0 to 99."""
    return int(request.param)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
