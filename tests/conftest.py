"""What all tests share."""

import os
import signal

import numpy as np
import pytest

# A shell's background jobs ignore interrupts; tests of what an interrupt does must not depend on that.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
