"""Score by Fisher's identity, expected statistics, and coordinates."""

import numpy as np
import pytest

from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, score, to_vector
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, scaled_error, to_panel, to_parameters, uneven_times
from tests.tolerances import EXACT

NOISES = ["diagonal", "isotropic", "known"]
SAMPLINGS = ["even", "uneven"]


def case(rng, sampling, noise, lengths=(5, 7), pattern="scattered", variance=0.3):
    model = oracle.random_model(rng, 5, 3, variance)
    times = None
    if sampling == "uneven":
        model = model._replace(decay=np.abs(model.decay))
        times = uneven_times(rng, lengths)
    if noise == "isotropic":
        model = model._replace(noise=np.full(5, variance))
    return model, mask_values(rng, oracle.simulate(rng, model, lengths, times), pattern), times


def score_of(model, data, times, noise):
    params, panel = to_parameters(model), to_panel(data, times)
    coordinates = Coordinates(StateLayout(3), getattr(NoiseVariances, noise)(5), panel.evenly_sampled)
    return score(coordinates, params, panel.gaps, expected_statistics(params, panel))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_score_equals_finite_differences(rng, sampling, noise):
    model, data, times = case(rng, sampling, noise)
    wanted = oracle.numerical_score(model, data, noise, times)
    assert scaled_error(score_of(model, data, times, noise), wanted) < 1e-9


@pytest.mark.parametrize("pattern", ["none", "empty rows", "one column", "all but one entry"])
def test_score_with_other_missing_values(rng, pattern):
    model, data, _ = case(rng, "even", "diagonal", pattern=pattern)
    wanted = oracle.numerical_score(model, data, "diagonal")
    assert scaled_error(score_of(model, data, None, "diagonal"), wanted) < 1e-9


@pytest.mark.parametrize("lengths", [(1,), (2,), (1, 1, 1)])
def test_score_of_the_shortest_sequences(rng, lengths):
    model, data, _ = case(rng, "even", "diagonal", lengths, "none")
    wanted = oracle.numerical_score(model, data, "diagonal")
    assert scaled_error(score_of(model, data, None, "diagonal"), wanted) < 1e-9


def test_score_with_small_noise(rng):
    """Terms of the order of 1 / noise cancel; their sum must be accurate."""
    model, data, _ = case(rng, "even", "diagonal", variance=1e-6)

    def value(vector):
        return oracle.exact_posterior(oracle.unpack(vector, model, "diagonal"), data).log_likelihood

    at = oracle.pack(model, "diagonal")
    found = score_of(model, data, None, "diagonal")
    for i in (0, 1, 2, 3, 10, 18, 20, 23, 25):
        e = np.zeros_like(at)
        e[i] = 1.0
        h = 1e-6
        wanted = (value(at + h * e) - value(at - h * e)) / (2 * h)
        assert found[i] == pytest.approx(wanted, rel=1e-5, abs=1e-4)


def test_the_score_without_observations_is_zero(rng):
    model, data, _ = case(rng, "even", "diagonal", pattern="everything")
    np.testing.assert_allclose(score_of(model, data, None, "diagonal"), 0.0, atol=1e-12)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_statistics_are_the_documented_sums(rng, sampling):
    """Compare each sum over rows with that of the dense joint Gaussian."""
    model, data, times = case(rng, sampling, "diagonal")
    data[0][2] = np.nan
    panel = to_panel(data, times)
    found = expected_statistics(to_parameters(model), panel)
    wanted = oracle.expected_sums(model, data, panel.gaps, times)
    assert set(wanted) == set(found._fields) - {"log_likelihood"}
    for name, value in wanted.items():
        assert scaled_error(getattr(found, name), value) < EXACT, name


def test_statistics_of_parts_add_up(rng):
    model, data, _ = case(rng, "even", "diagonal")
    params = to_parameters(model)
    whole = expected_statistics(params, to_panel(data))
    parts = [expected_statistics(params, to_panel([x])) for x in data]
    for name, one, *others in zip(whole._fields, whole, *parts, strict=True):
        assert scaled_error(sum(others), one) < EXACT, name


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("even", [True, False])
def test_parameters_of_coordinates_are_the_original_ones(rng, noise, even):
    model = oracle.random_model(rng, 5, 3)._replace(decay=np.array([1 - 1e-8, 0.5, 1e-3]))
    if noise == "isotropic":
        model = model._replace(noise=np.full(5, 1e-9))
    coordinates = Coordinates(StateLayout(3), getattr(NoiseVariances, noise)(5), even)
    params = to_parameters(model)
    vector = to_vector(coordinates, params)
    assert vector.shape == (coordinates.size,)
    np.testing.assert_allclose(vector, oracle.pack(model, noise, even), rtol=1e-9)
    back = from_vector(coordinates, vector, params)
    for one, other in zip(back.to_arrays().values(), params.to_arrays().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(1 - back.decay, 1 - params.decay, rtol=1e-7)


def test_even_times_equal_no_times(rng):
    model, data, _ = case(rng, "even", "diagonal")
    times = [3.0 + np.arange(5), -20.0 + np.arange(7)]
    plain, timed = score_of(model, data, None, "diagonal"), score_of(model, data, times, "diagonal")
    np.testing.assert_array_equal(plain, timed)


@parametrize("gap", [50.0, 1e4, 1e9], quick=[1e9])
def test_score_across_a_gap_much_longer_than_the_time_scales(rng, gap):
    """If a ** gap underflows to zero, the score is that of two sequences."""
    model, _, _ = case(rng, "uneven", "diagonal")
    model = model._replace(decay=np.array([0.5, 0.4, 0.1]))
    times = [np.r_[np.cumsum(rng.choice([0.5, 1.0], 5)), gap + np.cumsum(rng.choice([0.5, 1.0], 7))]]
    data = mask_values(rng, oracle.simulate(rng, model, [12], times), "scattered")
    two_sequences = [data[0][:5], data[0][5:]], [times[0][:5], times[0][5:]]
    wanted = score_of(model, *two_sequences, "diagonal")
    np.testing.assert_allclose(score_of(model, data, times, "diagonal"), wanted, rtol=1e-9, atol=1e-9)
