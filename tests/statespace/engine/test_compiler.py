"""Compiler options: only supported ones are used, and results are the same."""

import jax
import numpy as np
import pytest

from probsfa.statespace.engine import compiler
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.engine.segmented import Segmented


def test_options_unknown_to_the_compiler_are_omitted():
    supported = compiler._supported_options(
        (("xla_no_such_option", True), ("xla_backend_optimization_level", 1))
    )
    assert supported == {"xla_backend_optimization_level": 1}


def test_no_compiler_options_on_accelerators(monkeypatch):
    assert "xla_backend_optimization_level" in compiler.compiler_options(low_optimization=True)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compiler.compiler_options(low_optimization=True) == {}


@pytest.mark.parametrize("strategy", [Recursions(), Segmented(8)])
def test_a_program_is_compiled_once_for_each_static_argument_with_its_options(strategy):
    traced = []

    @compiler.compile_program("strategy")
    def shifted(strategy, numbers):
        traced.append(strategy)
        return numbers + 1.0

    for _ in range(2):
        np.testing.assert_array_equal(shifted(strategy, np.arange(3.0)), [1.0, 2.0, 3.0])
    assert traced == [strategy]
    low_optimization = "xla_backend_optimization_level" in dict(next(iter(shifted._variants)))
    assert low_optimization == strategy.low_optimization
    assert shifted._cache_size() == 1
