"""Accuracy of exact inference against the dense joint Gaussian in sixty digits: tiny noise, rows close by."""

import numpy as np
import pytest

from probsfa._validation import Sequences
from probsfa.statespace.engine.core.algorithm import Core
from probsfa.statespace.engine.sweep import Sweep
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import Parameters
from tests.statespace.support import needs_core

pytest.importorskip("mpmath", reason="the oracle computes with mpmath")
from tests.oracles import extended_precision as oracle

SAME = 1e-6  # posterior standard deviations of means, and relative to variances
ALGORITHMS = {"core": Core(), "definition": Sweep("recursions")}


def random_case(seed):
    """A model of one to three processes, and up to some forty values of it at uneven times."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 5))
    n_ar, n_rhythms, n_smooth = rng.multinomial(int(rng.integers(1, 4)), [0.4, 0.3, 0.3])
    loadings = rng.standard_normal((n_features, n_ar + 2 * (n_rhythms + n_smooth)))
    loadings[:, n_ar + 2 * n_rhythms + 1 :: 2] = 0.0
    slow, fast = 1.0 - 10.0 ** rng.uniform(-6, -2, n_ar), rng.uniform(0.01, 0.99, n_ar)
    decay = np.where(rng.random(n_ar) < 0.3, slow, fast)
    params = Parameters(
        decay,
        loadings,
        10.0 ** rng.uniform(-12, 0.5, n_features),
        rng.standard_normal(n_features),
        1.0 - 10.0 ** rng.uniform(-4, -0.5, n_rhythms),
        rng.uniform(0.05, 2.0, n_rhythms),
        np.sqrt(3.0) / 10.0 ** rng.uniform(0, np.log10(300.0), n_smooth),
    )
    if rng.random() < 0.3:
        params = params.replace(
            memory_decay=rng.uniform(0.1, 0.99, n_features), memory_scale=rng.uniform(0.1, 2.0, n_features)
        )
    lengths = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    gaps = 10.0 ** rng.uniform(-5, 3, sum(lengths)) if rng.random() < 0.75 else np.ones(sum(lengths))
    params, times = params.state_space, np.cumsum(gaps)
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    covariance = np.array(oracle.prior(params, times, sequence).tolist(), float)
    variances, directions = np.linalg.eigh(covariance)
    states = directions @ (np.sqrt(np.maximum(variances, 0.0)) * rng.standard_normal(len(variances)))
    values = params.offset + states.reshape(len(times), -1) @ params.loadings.T
    values += np.sqrt(params.noise_variance) * rng.standard_normal(values.shape)
    values[rng.random(values.shape) < 0.2] = np.nan
    return params, values, times, lengths


def close_rows(gap):
    """One AR(1) factor and one smooth process of time scale 240, and two rows close to each other."""
    rng = np.random.default_rng(0)
    params = Parameters(
        np.array([0.9]),
        np.array([[1.0, 0.5, 0.0], [0.3, -1.0, 0.0], [-0.6, 0.8, 0.0]]),
        np.full(3, 0.1),
        np.zeros(3),
        smooth_rate=np.array([np.sqrt(3.0) / 240.0]),
    )
    times = np.array([0.0, 1.0, 2.0, 2.0 + gap, 3.0, 4.0])
    return params, rng.standard_normal((6, 3)), times, (6,)


def assert_is_exact(algorithm, params, values, times, lengths):
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    wanted = oracle.posterior(params, values, times, sequence)
    panel = make_panel(Sequences(values, lengths, times=times))
    found = algorithm.moments(params, panel)
    std = np.sqrt(np.diagonal(wanted.covariances, axis1=1, axis2=2))
    variances = np.diagonal(found.covariances, axis1=1, axis2=2)
    assert np.max(np.abs(found.means - wanted.means) / std) < SAME
    assert np.max(np.abs(variances / std**2 - 1.0)) < SAME
    value = found.row_log_likelihoods.sum()
    assert abs(value - wanted.log_likelihood) < max(SAME, 1e-9 * abs(wanted.log_likelihood))
    k = params.n_states
    filtered = algorithm.filter(params, panel, np.zeros(k), np.eye(k))
    last = oracle.posterior(params, values[: lengths[0]], times[: lengths[0]], sequence[: lengths[0]])
    end = lengths[0] - 1
    std = np.sqrt(np.diagonal(last.covariances[-1]))
    assert np.max(np.abs(filtered.means[end] - last.means[-1]) / std) < SAME
    assert np.max(np.abs(np.diagonal(filtered.covariances[end]) / std**2 - 1.0)) < SAME


NIGHTLY = [pytest.param(seed, marks=pytest.mark.nightly) for seed in range(6, 300)]


@needs_core
@pytest.mark.parametrize("gap", [1e-5, 1e-4, 1e-2])
def test_two_rows_close_to_each_other(gap):
    assert_is_exact(ALGORITHMS["core"], *close_rows(gap))


def test_two_rows_close_to_each_other_by_the_definition():
    assert_is_exact(ALGORITHMS["definition"], *close_rows(1e-5))


@needs_core
@pytest.mark.parametrize("seed", [*range(6), *NIGHTLY])
def test_random_models(seed):
    assert_is_exact(ALGORITHMS["core"], *random_case(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(40))
def test_random_models_by_the_definition(seed):
    assert_is_exact(ALGORITHMS["definition"], *random_case(seed))
