"""The Kalman filter, also resumed after any row."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace.filtering import FilterState, run_filter
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, scaled_error, to_parameters, uneven_times
from tests.tolerances import EXACT


def sequence(values, times=None):
    return Sequences(values=values, lengths=(len(values),), times=times)


def case(rng, sampling):
    model = oracle.random_model(rng, 5, 3)
    times = None
    if sampling == "uneven":
        model = model._replace(decay=np.abs(model.decay))
        times = uneven_times(rng, [12])
    data = mask_values(rng, oracle.simulate(rng, model, [12], times), "scattered")[0]
    return model, data, None if times is None else times[0]


@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_filter_equals_the_textbook_loop(rng, sampling):
    model, data, times = case(rng, sampling)
    found = run_filter(to_parameters(model), sequence(data, times), None)
    expected = oracle.kalman_loop(model, [data], None if times is None else [times])
    assert scaled_error(found.means, expected.filtered_means) < EXACT
    assert scaled_error(found.covariances, expected.filtered_covariances) < EXACT
    assert scaled_error(found.row_log_likelihoods, expected.row_log_likelihoods) < EXACT
    np.testing.assert_allclose(found.std**2, np.diagonal(found.covariances, axis1=1, axis2=2))


@pytest.mark.parametrize("sampling", ["even", "uneven"])
@parametrize("cuts", [(5,), (1, 2, 3), tuple(range(1, 12))])
def test_a_resumed_filter_equals_one_pass(rng, sampling, cuts):
    model, data, times = case(rng, sampling)
    params = to_parameters(model)
    at_once = run_filter(params, sequence(data, times), None)
    state, pieces = None, []
    for first, last in zip((0, *cuts), (*cuts, 12), strict=True):
        pieces.append(
            run_filter(
                params, sequence(data[first:last], None if times is None else times[first:last]), state
            )
        )
        state = pieces[-1].state
    for name in ("means", "covariances", "row_log_likelihoods"):
        together = np.concatenate([getattr(p, name) for p in pieces])
        np.testing.assert_allclose(together, getattr(at_once, name), rtol=1e-11, atol=1e-12)
    assert sum(p.log_likelihood for p in pieces) == pytest.approx(at_once.log_likelihood, rel=EXACT)


def test_results_are_records_that_can_be_pickled(rng):
    model, data, _ = case(rng, "even")
    found = run_filter(to_parameters(model), sequence(data), None)
    assert not isinstance(found, tuple)
    with pytest.raises(FrozenInstanceError):
        found.means = found.predictions
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predictions, found.predictions)
    np.testing.assert_array_equal(again.quantile(0.9), found.quantile(0.9))


def test_a_state_of_another_model_is_refused(rng):
    model, data, _ = case(rng, "even")
    with pytest.raises(ValueError, match="state has a mean"):
        run_filter(to_parameters(model), sequence(data), FilterState(np.zeros(2), np.eye(2)))


def test_times_must_continue_after_the_state(rng):
    model, data, times = case(rng, "uneven")
    params = to_parameters(model)
    state = run_filter(params, sequence(data[:6], times[:6]), None).state
    with pytest.raises(ValueError, match="times must start after"):
        run_filter(params, sequence(data[5:], times[5:]), state)
    with pytest.raises(ValueError, match="state.*times"):
        run_filter(params, sequence(data[6:]), state)


def test_a_negative_decay_does_not_resume_at_half_a_step(rng):
    """A negative decay has no real power over half a step; the filter raises an error instead of NaN."""
    model, data, _ = case(rng, "even")
    params = to_parameters(model._replace(decay=np.array([0.9, 0.5, -0.4])))
    times = np.arange(12.0)
    state = run_filter(params, sequence(data[:6], times[:6]), None).state
    assert np.all(np.isfinite(run_filter(params, sequence(data[6:], times[6:]), state).means))
    with pytest.raises(ValueError, match="decay|times"):
        run_filter(params, sequence(data[6:], times[6:] + 0.5), state)


def test_sequences_given_by_lengths_are_filtered_separately(rng):
    X = np.cumsum(rng.standard_normal((60, 3)), axis=0)
    model = ProbabilisticSFA(1).fit(X)
    cut, listed = model.filter(X, lengths=[25, 35]), model.filter([X[:25], X[25:]])
    assert isinstance(cut, list)
    for one, other in zip(cut, listed, strict=True):
        np.testing.assert_array_equal(one.means, other.means)
        np.testing.assert_array_equal(one.state.mean, other.state.mean)
    assert isinstance(model.filter(X, lengths=[60]), list)
