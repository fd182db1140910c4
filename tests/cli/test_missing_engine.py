"""The warning of a missing engine is shown by `compare`, which ignores other warnings."""

from argparse import Namespace

import numpy as np
import pytest

from probsfa import imputation
from probsfa.cli._screen import Screen
from probsfa.cli.compare import compare_on
from probsfa.statespace.engine.core import kernels


def test_a_missing_engine_is_reported_before_methods_are_compared(monkeypatch):
    monkeypatch.delenv(kernels.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(kernels, "_module", lambda: None)
    monkeypatch.setattr(imputation, "compare_methods", lambda *_, **__: [])
    monkeypatch.setattr(imputation, "default_methods", lambda _: [])
    kernels._warn.cache_clear()
    args = Namespace(fraction=0.1, seed=0, masks=1)
    with pytest.warns(UserWarning, match="compiled engine"):
        compare_on(np.zeros((9, 2)), None, args, Screen(quiet=True), block=3)
