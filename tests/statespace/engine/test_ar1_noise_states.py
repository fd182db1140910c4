"""Models with AR(1) noise of columns: every algorithm against the joint Gaussian."""

from itertools import product

import numpy as np

from probsfa.statespace.engine.posterior import Posterior
from probsfa.statespace.parameters import StateSpace
from tests.oracles import ar1_noise as oracle
from tests.sampling import parametrize
from tests.statespace.engine.algorithms import ALGORITHMS, skip_without_core
from tests.statespace.support import mask_values, scaled_error, to_panel, uneven_times
from tests.tolerances import EXACT

LENGTHS = [35, 1, 12]


def make_model(rng, n_components, *, rhythm=False, n_features=2):
    """Return a model with AR(1) noise of columns, nearly zero for one of them."""
    extra = {"rhythm_decay": np.array([0.97]), "rhythm_frequency": np.array([0.4])} if rhythm else {}
    return StateSpace(
        np.array([0.9, 0.6, 0.3])[:n_components],
        rng.standard_normal((n_features, n_components + 2 * rhythm)),
        rng.uniform(0.2, 0.5, n_features),
        rng.standard_normal(n_features),
        **extra,
        noise_decay=rng.uniform(0.3, 0.95, n_features),
        noise_scale=np.append(rng.uniform(0.5, 1.5, n_features - 1), 1e-3),
    )


def make_data(rng, params, *, even, pattern="scattered", lengths=LENGTHS):
    """Return sequences with missing values, their times for the oracle, and a panel."""
    times = [np.arange(float(n)) for n in lengths] if even else uneven_times(rng, lengths)
    data = mask_values(rng, oracle.draw(rng, params, times), pattern)
    return data, times, to_panel(data, None if even else times)


# JAX compiles a program for each algorithm and kind of model. Each algorithm has three of the twelve cases,
# which differ in the number of factors, the presence of a cycle, and the sampling times.
KINDS = list(product([True, False], [False, True]))
CASES = [(name, k, *KINDS[(j + k) % 4]) for j, name in enumerate(ALGORITHMS) for k in range(3)]


@parametrize(
    ("name", "n_components", "rhythm", "even"),
    CASES,
    quick=[case for case in CASES if "core" in case[0] or case[:2] == ("recursions", 2)],
)
def test_every_algorithm_computes_the_joint_gaussian(rng, name, n_components, rhythm, even):
    params = make_model(rng, n_components, rhythm=rhythm)
    data, times, panel = make_data(rng, params, even=even)
    skip_without_core(name)
    algorithm, states = ALGORITHMS[name], params.state_space
    posterior, value = Posterior(*algorithm.moments(states, panel)), algorithm.log_likelihood(states, panel)
    stats = algorithm.expected_statistics(states, panel)
    wanted = oracle.log_likelihood(params, data, times)
    for computed in (value, posterior.log_likelihood, stats.log_likelihood):
        assert abs(computed - wanted) < EXACT * abs(wanted)
    if params.n_states == 0:
        return
    shared = posterior.of(params.shared_states)
    mean, covariance = oracle.posterior_of_factors(params, data, times)
    rows = range(len(mean))
    assert scaled_error(shared.means, mean) < EXACT
    assert scaled_error(shared.covariances, [covariance[t, :, t] for t in rows]) < EXACT
    lag_one = [covariance[t + 1, :, t] for t in rows[:-1]]
    assert scaled_error(shared.lag_one_covariances, lag_one) < EXACT
