"""Models with stochastic cycles and smooth factors, and comparison with the joint Gaussian."""

import numpy as np

from probsfa.statespace.engine.dynamics import entries
from probsfa.statespace.parameters import StateSpace
from tests.oracles import block_processes as oracle
from tests.statespace.support import mask_values, scaled_error, to_panel, uneven_times
from tests.tolerances import EXACT

KINDS = {
    "rhythms": {"rhythm_decay": np.array([0.97]), "rhythm_frequency": np.array([0.4])},
    "smooth": {"smooth_rate": np.array([0.15])},
    "both": {
        "rhythm_decay": np.array([0.9]),
        "rhythm_frequency": np.array([0.7]),
        "smooth_rate": np.array([0.3]),
    },
    "smoother": {"smoother_rate": np.array([0.25])},
    "level": {"level_start": np.array([1e4])},
    "line": {"line_ratio": np.array([20.0])},
    "all": {
        "rhythm_decay": np.array([0.9]),
        "rhythm_frequency": np.array([0.7]),
        "smooth_rate": np.array([0.3]),
        "smoother_rate": np.array([0.2]),
        "level_start": np.array([1e4]),
    },
}
LENGTHS = [61, 1, 34]


def make_model(rng, kind, n_features=4, decay=(0.9,)):
    """Return a model with AR(1) factors and processes of some kinds."""
    shape = StateSpace(np.array(decay), np.zeros((n_features, 0)), np.ones(1), np.zeros(1), **KINDS[kind])
    state_layout = shape.state_layout
    loadings = rng.standard_normal((n_features, state_layout.n_states))
    loadings[:, np.setdiff1d(np.arange(state_layout.n_states), state_layout.loaded_states)] = 0.0
    for process_type, states in state_layout.states.items():
        # Non-stationary states have variance one at the start, and much smaller innovations.
        if not process_type.stationary:
            loadings[:, states] *= 1e2
    noise, offset = rng.uniform(0.2, 0.5, n_features), rng.standard_normal(n_features)
    return StateSpace(np.array(decay), loadings, noise, offset, **KINDS[kind])


def make_data(rng, params, *, even, pattern="scattered", lengths=LENGTHS):
    """Return sequences with missing values, their times for the oracle, and a panel."""
    times = [np.arange(float(n)) for n in lengths] if even else uneven_times(rng, lengths)
    data = mask_values(rng, oracle.draw(rng, params, times), pattern)
    return data, times, to_panel(data, None if even else times)


def assert_is_the_joint_gaussian(params, data, times, panel, algorithm):
    """Compare moments, sums and likelihood of a panel with the joint Gaussian."""
    posterior, value = algorithm.moments(params, panel), algorithm.log_likelihood(params, panel)
    stats = algorithm.expected_statistics(params, panel)
    wanted, mean, covariance = oracle.joint(params, data, times)
    for found in (value, posterior.row_log_likelihoods.sum(), stats.log_likelihood):
        assert abs(found - wanted) < EXACT * abs(wanted)
    rows = range(len(mean))
    assert scaled_error(posterior.means, mean) < EXACT
    assert scaled_error(posterior.covariances, [covariance[t, :, t] for t in rows]) < EXACT
    lag_one = [covariance[t + 1, :, t] for t in rows[:-1]]
    assert scaled_error(posterior.lag_one_covariances, lag_one) < EXACT
    assert_same_transition_sums(stats, params, mean, covariance, times, panel)


def assert_same_transition_sums(stats, params, mean, covariance, times, panel):
    """Compare sums over transitions with those of the joint Gaussian."""
    moments = oracle.transition_moments(params, mean, covariance, times, panel.gaps, panel.gap_index)
    in_blocks = entries(params.state_layout.sizes)
    sums = (stats.innovation_power, stats.innovation_moments, stats.previous_power)
    # Innovations are differences of states; their rounding errors are relative to the size of the states.
    size = max(1.0, *(float(np.max(np.abs(wanted), initial=0.0)) for wanted in moments))
    for found, wanted in zip(sums, moments, strict=True):
        difference = found - wanted[:, in_blocks.rows, in_blocks.columns]
        assert np.max(np.abs(difference), initial=0.0) < EXACT * size
