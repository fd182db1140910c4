"""What all tests share."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# A shell's background jobs ignore interrupts; tests of what an interrupt does must not depend on that.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Compiled programs take pieces of memory. Linux gives a process 65,530, and all tests together need more.
_MOST_PIECES = 20_000


def _pieces_of_memory() -> int:
    """How many this process has; zero where the system does not tell."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture(autouse=True, scope="module")
def few_pieces_of_memory() -> Iterator[None]:
    """Let go of compiled programs between files of tests, before the compiler finds no memory for more."""
    yield
    if "jax" in sys.modules and _pieces_of_memory() > _MOST_PIECES:
        sys.modules["jax"].clear_caches()
        gc.collect()


def _seeds() -> list[int]:
    """Seeds to run: 42, or what PROBSFA_TEST_SEEDS says ("all", or a range such as "0-9")."""
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
