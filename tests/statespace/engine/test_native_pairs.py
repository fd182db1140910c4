"""The compiled library knows rhythms and smooth latents, beside AR(1) ones and alone."""

import numpy as np
import pytest

from probsfa.statespace import ProbabilisticSFA, use_strategy
from probsfa.statespace.engine.native import library, route
from probsfa.statespace.engine.native.route import NativeSegments
from probsfa.statespace.posterior import expected_statistics, log_likelihood, plan_for, smooth
from tests.oracles import latents_of_two_states as oracle
from tests.statespace.engine.two_state_models import (
    KINDS,
    assert_are_its_transitions,
    assert_is_the_joint_gaussian,
    make_data,
    make_model,
)
from tests.statespace.support import needs_library, scaled_error
from tests.tolerances import EXACT

pytestmark = needs_library


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("n_alone", [0, 1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("even", [True, False])
def test_moments_and_sums_are_those_of_the_joint_gaussian(rng, kind, n_alone, even):
    """Of two to thirteen states: those that the compiler knows the number of, and others."""
    params = make_model(rng, kind, decay=np.linspace(0.95, 0.1, n_alone))
    data, times, panel = make_data(rng, params, even=even, lengths=[23, 1, 16])
    with use_strategy("native"):
        assert_is_the_joint_gaussian(params, data, times, panel)


def test_many_different_gaps_are_gathered_lane_by_lane(rng, monkeypatch):
    monkeypatch.setattr(route, "_FEW_GAPS", 0)
    params = make_model(rng, "both", decay=(0.9, 0.3))
    data, times, panel = make_data(rng, params, even=False)
    with use_strategy("native"):
        assert_is_the_joint_gaussian(params, data, times, panel)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("kept_bytes", [0, 2**30])
def test_chunks_are_handed_on_exactly(rng, monkeypatch, even, kept_bytes):
    monkeypatch.setattr(route, "_CHUNK_BYTES", 0)
    monkeypatch.setattr(route, "_FEWEST_CHUNK_ROWS", 32)
    monkeypatch.setattr(route, "_LONG_CHUNK_ROWS", 0)
    params = make_model(rng, "both", decay=(0.95, 0.4))
    data, times, panel = make_data(rng, params, even=even, lengths=[75, 2, 60])
    value, mean, covariance = oracle.joint(params, data, times)
    native = NativeSegments(kept_bytes)
    found, stats = native.moments(params, panel), native.expected_statistics(params, panel)
    assert scaled_error(found.means, mean) < EXACT
    assert scaled_error(found.lag_one_covariances, [covariance[t + 1, :, t] for t in range(136)]) < EXACT
    assert abs(stats.log_likelihood - value) < EXACT * abs(value)
    assert_are_its_transitions(stats, params, mean, covariance, times, panel)


@pytest.mark.parametrize("slowest", [0.5, 0.999])
def test_two_threads_and_many_states(rng, monkeypatch, slowest):
    """Rows that depend on the state before a segment, and rows that do not any more."""
    monkeypatch.setattr(route, "n_cores", lambda: 2)
    monkeypatch.setattr(route, "_LEAST_WORK", 0)
    n = 8
    params = make_model(rng, "both", n_features=9, decay=np.linspace(slowest, 0.1, 17))
    params = params._replace(
        loadings=rng.standard_normal((9, 17 + 4 * n)),
        rhythm_decay=np.linspace(0.3, slowest, n),
        rhythm_frequency=np.linspace(0.1, 3.0, n),
        smooth_rate=np.linspace(0.2, 2.0, n),
    )
    _, _, panel = make_data(rng, make_model(rng, "both", n_features=9), even=False, lengths=[230, 170])
    answers = []
    for strategy in ("recursions", "native"):
        with use_strategy(strategy):
            posterior, sums = smooth(params, panel), expected_statistics(params, panel)
            answers.append([*posterior, *sums, log_likelihood(params, panel)])
    for wanted, found in zip(*answers, strict=True):
        assert scaled_error(found, wanted) < EXACT


@pytest.mark.parametrize("kind", list(KINDS))
def test_sums_keep_seven_digits_at_the_slowest_and_least_noise_for_steps(rng, kind):
    """A smooth latent's innovations go with the cube of its rate: it comes to the limit first."""
    slow = {
        "rhythms": {"rhythm_decay": np.array([1.0 - 3e-7])},
        "smooth": {"smooth_rate": np.array([0.0125])},
        "both": {"rhythm_decay": np.array([0.999]), "smooth_rate": np.array([0.0125])},
    }
    params = make_model(rng, kind, n_features=6, decay=(0.999, 0.5))._replace(**slow[kind])
    params = params._replace(noise_variance=params.noise_variance * 1e-3)
    _, _, panel = make_data(rng, params, even=True, lengths=[500])
    chosen = plan_for(params, panel, for_steps=True)
    assert isinstance(chosen.route, NativeSegments)
    assert not isinstance(plan_for(params, panel).route, NativeSegments)
    with use_strategy("recursions"):
        wanted = expected_statistics(params, panel)
    with use_strategy("native"):
        found = expected_statistics(params, panel)
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < 1e-10
    for one, other in zip(found, wanted, strict=True):
        assert scaled_error(one, other) < 1e-7


@pytest.mark.parametrize("name", ["rhythm_decay", "rhythm_frequency", "smooth_rate", "noise_variance"])
def test_what_has_gone_wrong_is_seen(rng, name):
    params = make_model(rng, "both")
    _, _, panel = make_data(rng, params, even=True, lengths=[30])
    params = params._replace(**{name: np.full_like(getattr(params, name), np.nan)})
    with use_strategy("native"), np.errstate(all="ignore"):
        assert np.isnan(log_likelihood(params, panel))
        assert np.isnan(expected_statistics(params, panel).log_likelihood)


def test_fits_with_the_library_and_without_agree(rng, monkeypatch):
    params = make_model(rng, "both", n_features=6)
    data, _, _ = make_data(rng, params, even=True, lengths=[240])
    options = {"rhythms": [2.0 * np.pi / 0.7], "smooth": 1}
    found = ProbabilisticSFA(1, **options).fit(data[0])
    monkeypatch.setenv(library.SWITCH, "0")
    wanted = ProbabilisticSFA(1, **options).fit(data[0])
    assert found.log_likelihood_ == pytest.approx(wanted.log_likelihood_, abs=0.01)
