"""Estimation of stochastic cycles and smooth factors: score, M-step, spectra, initial values and fits."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa._times import TimeAxis, seconds_of
from probsfa.statespace.engine.posterior import expected_statistics, log_likelihood, simulate
from probsfa.statespace.learning import em
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    _split_blocks,
    dynamics_from_free,
    dynamics_to_free,
    from_vector,
    latent_spectra,
    maximize_dynamics,
    score,
    to_vector,
)
from probsfa.statespace.learning.options import FitOptions, ProcessOptions
from probsfa.statespace.learning.starts import strongest_frequency, with_cycle
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import StateLayout, StateSpace, canonical
from probsfa.statespace.processes import BlockMoments
from probsfa.statespace.processes.matern import Matern32, Matern52
from probsfa.statespace.processes.rhythm import Rhythm
from tests.oracles import block_processes as oracle
from tests.sampling import parametrize
from tests.statespace.engine.block_models import KINDS, make_data, make_model


@parametrize("kind", list(KINDS), quick=["both"])
@parametrize("even", [False, True])
def test_score_is_the_derivative_of_the_joint_gaussian(rng, kind, even):
    params = make_model(rng, kind)
    data, times, panel = make_data(rng, params, even=even, lengths=[19, 1, 14])
    coordinates = Coordinates(params.state_layout, NoiseVariances.diagonal(4), even)
    at = to_vector(coordinates, params)
    back = from_vector(coordinates, at, params)
    for one, other in zip(back.to_arrays().values(), params.to_arrays().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    found = score(coordinates, params, panel.gaps, expected_statistics(params, panel))
    # Differences of fourth order: variances of trends are large, so that small steps would lose digits.
    step = 3e-4
    for i in range(coordinates.size):
        values = [
            oracle.joint(
                from_vector(coordinates, at + s * step * np.eye(coordinates.size)[i], params), data, times
            )[0]
            for s in (1.0, -1.0, 2.0, -2.0)
        ]
        derivative = (8.0 * (values[0] - values[1]) - (values[2] - values[3])) / (12.0 * step)
        assert abs(found[i] - derivative) < 2e-6 * max(1.0, abs(found[i])), i


@parametrize("kind", list(KINDS), quick=["both"])
@pytest.mark.parametrize("even", [True, False])
def test_the_m_step_is_a_maximum_and_em_increases_the_likelihood(rng, kind, even):
    params = make_model(rng, kind)
    _, _, panel = make_data(rng, params, even=even, lengths=[19, 1, 14])
    stats = expected_statistics(params, panel)
    before = stats.log_likelihood
    moved = maximize_dynamics(params, stats, panel.gaps)
    sums = stats.innovation_power, stats.innovation_moments, stats.previous_power
    for one, *blocks in zip(params.processes, *(_split_blocks(params, each) for each in sums), strict=True):
        matrix, _ = one.transitions(panel.gaps)
        data = BlockMoments(stats.transitions, matrix[:, 0], *(each[:, 0] for each in blocks))

        kind = type(one)

        def density(model, kind=kind, data=data):
            return data.expected(*(each[:, 0] for each in model.of_kind(kind).transitions(panel.gaps)))

        best = density(moved)
        assert best >= density(params)
        if not one.n_free():
            continue
        for name, array in moved.of_kind(type(one)).arrays().items():
            for factor in (0.999, 1.001):
                assert density(moved.replace(**{name: array * factor})) <= best + 1e-9
    noise = Noise(NoiseVariances.diagonal(4), np.full(4, 1e-6))
    for _ in range(3):
        params = em.maximize(params, stats, noise, panel.gaps)
        stats = expected_statistics(params, panel)
        assert stats.log_likelihood > before
        before = stats.log_likelihood


@pytest.mark.parametrize("kind", ["rhythms", "smooth", "both", "smoother"])
def test_spectra_are_sums_of_autocovariances(rng, kind):
    params = make_model(rng, kind)
    omega = np.linspace(0.05, 3.1, 7)
    found = latent_spectra(params, omega, evenly_sampled=True)
    lags = np.arange(1, 1200)
    covariances = np.array([np.diag(oracle.transition(params, float(h))) for h in lags])
    wanted = 1.0 + 2.0 * np.cos(omega[:, None] * lags) @ covariances
    # At high frequencies terms of the sum cancel: its error is a few roundings of the sum of moduli.
    rounding = 16 * np.finfo(np.float64).eps * (1.0 + 2.0 * np.abs(covariances).sum(axis=0).max())
    np.testing.assert_allclose(
        found.values, wanted[:, params.state_layout.loaded_states], rtol=1e-9, atol=rounding
    )
    at, step = dynamics_to_free(params, evenly_sampled=True), 1e-6
    for j in range(params.state_layout.n_dynamics):
        up, down = (
            latent_spectra(
                dynamics_from_free(params, at + s * step * np.eye(len(at))[j], evenly_sampled=True),
                omega,
                evenly_sampled=True,
            ).values
            for s in (1.0, -1.0)
        )
        derivative = np.zeros_like(wanted[:, params.state_layout.loaded_states])
        for e in np.flatnonzero(found.coordinate_of_derivative == j):
            derivative[:, found.state_of_derivative[e]] += found.derivatives[:, e]
        np.testing.assert_allclose(derivative, (up - down) / (2.0 * step), rtol=1e-6, atol=1e-7)


def test_spectra_of_slow_smooth_factors_are_accurate():
    """For long time scales the spectrum is that in continuous time, ``4 d^3 / (d^2 + w^2)^2``."""
    rate, omega = np.array([1e-4]), np.array([1e-3, 1e-2])
    found, _ = Matern32(rate).spectra(omega)
    np.testing.assert_allclose(found[:, 0, 0], 4 * 1e-12 / (1e-8 + omega**2) ** 2, rtol=1e-4)
    found, _ = Matern52(rate).spectra(omega)
    np.testing.assert_allclose(found[:, 0, 0], 16 / 3 * 1e-20 / (1e-8 + omega**2) ** 3, rtol=1e-4)


def vectors(params):
    """Return loadings of stochastic cycles as complex numbers (D, R)."""
    rhythms = params.of_kind(Rhythm)
    return rhythms.vectors(params.loadings_of(rhythms))


def oscillation(rng, n_rows=500, period=24.0, decay=0.998, n_features=4):
    """Series with a slow factor and a stochastic cycle, and the parameters."""
    params = StateSpace(
        np.array([0.9]),
        rng.standard_normal((n_features, 3)),
        np.full(n_features, 0.3),
        np.zeros(n_features),
        rhythm_decay=np.array([decay]),
        rhythm_frequency=np.array([2.0 * np.pi / period]),
    )
    return simulate(params, n_rows, rng)[0], params


def test_the_canonical_form_does_not_change_the_model(rng):
    params = make_model(rng, "rhythms")
    reversed_model = params.replace(rhythm_frequency=-params.rhythm_frequency)
    panel = make_data(rng, params, even=True, lengths=[40])[2]
    for model in (params, reversed_model):
        canonical_model = canonical(model, np.ones(4))
        assert abs(log_likelihood(canonical_model, panel) - log_likelihood(model, panel)) < 1e-9
        first_cycle = vectors(canonical_model)[:, 0]
        largest = np.argmax(np.abs(first_cycle))
        assert (
            first_cycle[largest].imag == 0.0
            and first_cycle[largest].real > 0.0
            and canonical_model.rhythm_frequency[0] > 0.0
        )
        assert (~canonical_model.free_loadings).sum() == 1 and not canonical_model.free_loadings[largest, 2]
        again = canonical(canonical_model, np.ones(4))
        for one, other in zip(again.to_arrays().values(), canonical_model.to_arrays().values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_start_has_the_phases_of_the_columns(rng):
    t = np.arange(480.0)
    x = np.stack([np.cos(2 * np.pi * t / 24), np.cos(2 * np.pi * (t - 6) / 24)], axis=1)
    x = x + 0.1 * rng.standard_normal(x.shape)
    white = StateSpace(np.zeros(0), np.zeros((2, 0)), np.ones(2), np.zeros(2))
    frequency = strongest_frequency(white, [x])
    assert abs(2 * np.pi / frequency - 24.0) < 0.1
    found = vectors(canonical(with_cycle(white, frequency, [x], 10.0), np.array([1.0, 2.0])))[:, 0]
    np.testing.assert_allclose(np.sqrt(2.0) * np.abs(found), [1.0, 1.0], atol=0.05)
    assert abs(np.angle(found[1]) - np.pi / 2) < 0.05  # the second column follows by six rows of 24


def test_a_cycle_is_found_and_no_fit_is_below_the_one_without(rng):
    x, params = oscillation(rng)
    x[100:120, :2] = np.nan
    without = ProbabilisticSFA(1).fit(x)
    for rhythms in (1, [20.0]):
        model = ProbabilisticSFA(1, rhythms=rhythms).fit(x)
        assert model.log_likelihood_ > without.log_likelihood_ + 100.0
        assert abs(model.rhythm_periods_[0] / 24.0 - 1.0) < 0.02
        assert np.all(np.diff(model.history_) >= 0.0)
        wanted = vectors(canonical(params, np.nanstd(x, axis=0)))[:, 0]
        assert abs(np.vdot(wanted, vectors(model.params_)[:, 0])) > 0.97 * np.linalg.norm(
            wanted
        ) * np.linalg.norm(vectors(model.params_))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_white_noise_has_no_cycle_and_no_fit_is_below_the_one_without(rng):
    x = rng.standard_normal((80, 2))
    for extra in ({"rhythms": 1}, {"smooth": 1}):
        with_more = ProbabilisticSFA(1, max_iter=30, **extra).fit(x)
        assert with_more.log_likelihood_ >= ProbabilisticSFA(1, max_iter=30).fit(x).log_likelihood_


@pytest.mark.parametrize(("text", "seconds"), [("24h", 86400), ("1D", 86400), ("h", 3600), ("90 s", 90)])
def test_durations_are_parsed(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rhythms": -1}, "rhythms"),
        ({"rhythms": 1.5}, "periods"),
        ({"smooth": [0.0]}, "positive"),
        ({"rhythms": ["often"]}, "duration"),
        ({"rhythms": ["24h"]}, "no dates"),
        ({"rhythms": 1, "noise": 0.0}, "noise=0.0"),
        ({"rhythms": [2.0]}, "two rows"),
    ],
)
def test_invalid_options_are_refused_with_a_message(rng, options, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticSFA(**{"n_components": 1, **options}).fit(rng.standard_normal((40, 2)))


def test_options_count_and_convert():
    options = FitOptions(2, processes=ProcessOptions(rhythms=["1D", "12h"], smooth=3))
    hourly = TimeAxis("dates", from_index=True, unit=3600.0)
    assert options.state_layout == StateLayout(2, {Rhythm: 2, Matern32: 3})
    assert options.with_times(hourly).processes["rhythms"] == (24.0, 12.0)
    given = options.with_times(hourly).initial_processes(1.0, evenly_sampled=True)
    np.testing.assert_allclose(given.frequencies, [2 * np.pi / 24, 2 * np.pi / 12])
