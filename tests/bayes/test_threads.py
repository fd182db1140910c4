"""Models in several threads: NumPyro has one list of handlers for the whole process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

from probsfa import BayesianSFA
from probsfa.bayes import Priors
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.inference_data import draw_from_priors
from probsfa.bayes.model import as_series
from probsfa.statespace.noise import NoiseVariances


class Meeting(dist.Normal):
    """A prior in which a thread waits for a second one; the barrier breaks if none arrives in time."""

    both = threading.Barrier(2, timeout=0.5)

    def _wait(self):
        with suppress(threading.BrokenBarrierError):
            self.both.wait()

    def log_prob(self, value):
        self._wait()
        return super().log_prob(value)

    def sample(self, key, sample_shape=()):
        self._wait()
        return super().sample(key, sample_shape)


def potential(target, data):
    return jax.make_jaxpr(target.potential)(np.zeros(target.size), data)


def prior(target, data):
    return jax.make_jaxpr(draw_from_priors, static_argnums=(0, 3))(target, data, jax.random.key(0), 2)


@pytest.mark.parametrize("trace", [potential, prior])
def test_one_thread_at_a_time_runs_a_model_under_handlers(rng, trace):
    X = rng.standard_normal((20, 2))
    targets = [Target(k, NoiseVariances.diagonal(2), Priors(offset=Meeting(0.0, 1.0))) for k in (1, 2)]
    assert [target.size for target in targets] == [1 + 2 + 2 + 2, 2 + 4 + 2 + 2]

    def trace_one(target):
        with jax.enable_x64(True):
            return str(trace(target, TargetData(as_series(X))))

    Meeting.both.reset()
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(trace_one, targets))
    assert Meeting.both.broken  # no two threads evaluated the prior at the same time
    assert together == list(map(trace_one, targets))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_in_several_threads_equal_those_in_one(rng):
    X = rng.standard_normal((30, 2)).cumsum(axis=0)
    # Different priors, so that each fit traces its own programs.
    priors = [Priors(), Priors()]

    def fit(i):
        settings = {"inference": "svi", "n_steps_svi": 5, "n_draws": 20, "n_chains": 1}
        return BayesianSFA(1, priors=priors[i], verbose=False, random_state=i, **settings).fit(X).draws_

    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(fit, (0, 1)))
    for draws, alone in zip(together, map(fit, (0, 1)), strict=True):
        for x, y in zip(draws, alone, strict=True):
            np.testing.assert_array_equal(x, y)
