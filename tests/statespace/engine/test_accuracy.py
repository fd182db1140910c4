"""Accuracy for very small noise and closely spaced rows, against the joint Gaussian in sixty digits."""

import jax
import pytest

from probsfa.statespace import use_strategy
from tests.statespace.support import needs_core

pytest.importorskip("mpmath", reason="the oracle computes with mpmath")
from tests.oracles import extended_precision as oracle
from tests.sampling import parametrize
from tests.statespace.engine.random_models import (
    MAX_ERROR,
    close_rows,
    errors_of,
    random_case,
    steady_rows,
    unexplained_errors,
)

N_MODELS = 300


def assert_is_exact(case):
    wanted = oracle.posterior(case.params, case.values, case.times, case.sequence)
    assert unexplained_errors(case, wanted, errors_of(case, wanted), MAX_ERROR) == {}


def seeds(n_quick):
    """Return the seeds of all models as test parameters; the first `n_quick` are in the quick set."""
    return [
        *range(n_quick),
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(n_quick, N_MODELS)),
    ]


@needs_core
@pytest.mark.parametrize("gap", [1e-5, 1e-4, 1e-2])
def test_two_rows_close_to_each_other(gap):
    assert_is_exact(close_rows(gap))


@parametrize("strategy", ["segmented", "scan", "recursions"], quick=["segmented", "scan"])
def test_two_rows_close_to_each_other_in_jax(strategy):
    """An information form with ``A' Q^-1 A`` has errors of posterior means of 0.1 standard deviations."""
    with use_strategy(strategy):
        assert_is_exact(close_rows(1e-5))


@needs_core
def test_tiny_noise_in_a_steady_state():
    assert_is_exact(steady_rows(1e-12))


@needs_core
@pytest.mark.parametrize("seed", seeds(8))
def test_random_models(seed):
    assert_is_exact(random_case(seed))


@pytest.mark.parametrize("seed", seeds(0))
def test_random_models_by_the_reference(seed):
    with use_strategy("recursions"):
        assert_is_exact(random_case(seed))
    jax.clear_caches()  # 300 compiled programs would exceed the memory maps of a process
