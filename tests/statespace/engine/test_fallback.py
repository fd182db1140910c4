"""Without the compiled engine JAX computes the results, and one warning explains how to install it."""

import importlib
import sys
import warnings

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace.engine.core import kernels
from probsfa.statespace.engine.posterior import choose, use_strategy
from probsfa.statespace.engine.sweep import Sweep
from tests.oracles import statespace as oracle
from tests.statespace.support import to_panel, to_parameters

WARNING = "compiled engine.*pip install -v.*PROBSFA_CORE=0"


@pytest.fixture
def case(rng):
    model = oracle.random_model(rng, 3, 2)
    return to_parameters(model), to_panel(oracle.simulate(rng, model, [20]))


@pytest.fixture
def without_engine(monkeypatch):
    """Simulate an installation without a compiler."""
    monkeypatch.delenv(kernels.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "_probsfa_core", None)
    kernels._module.cache_clear()
    kernels._warn.cache_clear()
    with pytest.raises(ImportError):
        importlib.import_module("_probsfa_core")
    yield
    kernels._module.cache_clear()
    kernels._warn.cache_clear()


def test_one_warning_names_the_fallback_and_how_to_build(case, without_engine):
    with pytest.warns(UserWarning, match=WARNING):
        assert choose(case[0]) == Sweep()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(case[0]) == Sweep()


def test_a_fit_warns(rng, without_engine):
    with pytest.warns(UserWarning, match=WARNING):
        ProbabilisticSFA(1).fit(np.cumsum(rng.standard_normal((40, 2)), axis=0))


def test_no_warning_if_another_engine_is_selected(case, without_engine, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with use_strategy("recursions"):
            choose(case[0])
        monkeypatch.setenv(kernels.ENVIRONMENT_VARIABLE, "0")
        choose(case[0])
