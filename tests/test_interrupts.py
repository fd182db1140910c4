"""Ctrl-C ends a fit with the best parameters so far or with an error; no interrupt is lost."""

import gc
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from probsfa import GraphSFA, KernelSFA, LaplacianEigenmaps, ProbabilisticSFA
from probsfa._threads import lost_interrupts_raised
from probsfa.sfa import graph
from probsfa.sfa.kernel import estimator as kernel
from probsfa.sfa.spectral import eigenmaps
from probsfa.statespace.learning import objective


def lose_an_interrupt():
    """Raise an interrupt in a callback of the garbage collector, which is also used by JAX."""

    def callback(phase, info):
        gc.callbacks.remove(callback)
        raise KeyboardInterrupt

    gc.callbacks.append(callback)
    gc.collect()


def test_a_lost_interrupt_is_raised_again():
    before = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), lost_interrupts_raised():
        lose_an_interrupt()
        time.sleep(10.0)
    assert sys.unraisablehook is before


def test_other_errors_of_callbacks_are_reported_as_without_the_context(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def callback(phase, info):
        gc.callbacks.remove(callback)
        raise RuntimeError("mine")

    with lost_interrupts_raised(), lost_interrupts_raised():
        gc.callbacks.append(callback)
        gc.collect()
    assert [str(x.exc_value) for x in reported] == ["mine"]


def test_a_fit_that_loses_an_interrupt_keeps_the_best_parameters(rng, monkeypatch):
    data = np.cumsum(rng.standard_normal((200, 3)), axis=0)
    whole, count = objective.expected_statistics, []

    def interrupted(params, panel, **options):
        count.append(1)
        if len(count) == 2:
            lose_an_interrupt()
            time.sleep(0.5)
        return whole(params, panel, **options)

    monkeypatch.setattr(objective, "expected_statistics", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = ProbabilisticSFA(1).fit(data)
    assert len(count) == 2 and np.isfinite(model.log_likelihood_)
    assert model._model.fitted.interrupted


@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
@pytest.mark.parametrize(
    "estimator,module,step",
    [
        (KernelSFA(1), kernel, "solve"),
        (KernelSFA(1), kernel, "fold_moments"),
        (LaplacianEigenmaps(1), eigenmaps, "graph_spectrum"),
        (GraphSFA(1, graph="temporal"), graph, "graph_moments"),
    ],
)
def test_fits_without_intermediate_results_are_not_fitted_after_an_interrupt(
    rng, monkeypatch, estimator, module, step
):
    X = rng.standard_normal((60, 3))

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    if isinstance(estimator, KernelSFA):
        estimator.fit(X)  # also if there is an earlier model
    monkeypatch.setattr(module, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X)
    monkeypatch.undo()
    with pytest.raises(NotFittedError):
        estimator.transform(X)
    assert np.isfinite(estimator.fit(X).transform(X)).all()


def test_a_signal_during_a_fit_ends_it():
    """In a separate process that receives a signal at an arbitrary time."""
    program = """
import os, signal, threading, time, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
from probsfa import KernelSFA
X = np.random.default_rng(0).standard_normal((3000, 3))
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(1000):
        KernelSFA(2, n_support=400).fit(X)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stderr
