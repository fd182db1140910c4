"""Calibration of prediction intervals by held-out values."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

import probsfa
from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.datasets import hide_blocks, hide_values
from probsfa.statespace.calibration import (
    Calibration,
    HeldOutPredictions,
    calibrate,
    distance_to_observed,
    small_sample_factors,
)
from tests.sampling import parametrize


def block_predictions(rng, n_blocks, length, std_at):
    """Return predictions of blocks whose errors have standard deviations `std_at(distance)`, not one."""
    distance = np.tile(np.minimum(np.arange(length), np.arange(length)[::-1]) + 1.0, n_blocks)
    blocks = np.repeat(np.arange(n_blocks), length)
    return HeldOutPredictions(
        std_at(distance) * rng.standard_normal(distance.size), np.ones(distance.size), distance, blocks
    )


@pytest.mark.parametrize("with_times", [False, True])
def test_distances_are_those_of_a_loop(rng, with_times):
    values = np.where(rng.random((30, 3)) < 0.5, np.nan, 1.0)
    values[12:20, 1] = np.nan  # the second sequence has no value of this column
    times = 10.0 * np.cumsum(rng.uniform(0.5, 2.0, 30)) if with_times else None
    sequences = Sequences(values, (12, 8, 10), times)
    found = distance_to_observed(sequences, 10.0 if with_times else 1.0)
    row_times = np.arange(30.0) if times is None else times / 10.0
    for part in sequences.slices:
        for t in range(part.start, part.stop):
            for d in range(3):
                distances = [
                    abs(row_times[t] - row_times[s])
                    for s in range(part.start, part.stop)
                    if values[s, d] == 1.0
                ]
                np.testing.assert_allclose(found[t, d], min(distances, default=np.inf))


@pytest.mark.parametrize("n", [4, 8, 30])
def test_factors_of_few_values_make_intervals_of_a_mean_exact(n):
    """The interval of a new value is computed from the mean and maximum likelihood variance of n values."""
    x = np.random.default_rng(0).standard_normal((40_000, n + 1))
    mean, std = x[:, :n].mean(axis=1), x[:, :n].std(axis=1)
    covered = np.abs(x[:, n] - mean) <= 1.6449 * std * small_sample_factors(np.array([float(n)]), 1)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.006)


def test_factors_of_many_values_are_one():
    np.testing.assert_allclose(small_sample_factors(np.array([100_000.0]), 5), 1.0, atol=2e-4)


def test_factors_at_distances_are_found(rng):
    found = calibrate(block_predictions(rng, 400, 16, lambda d: np.where(d >= 4.0, 2.0, 1.0)), np.ones(2))
    np.testing.assert_allclose(
        found.by_distance(np.array([1.0, 2.0, 7.0, 50.0])), [1.0, 1.0, 2.0, 2.0], rtol=0.1
    )
    np.testing.assert_allclose(found.at(np.full((3, 2), 50.0)), 2.0, rtol=0.1)


def test_factors_are_shrunk_by_positive_part_james_stein():
    """The logarithm ``l`` with the standard error ``h`` is replaced by ``l (1 - (h / l)^2)``."""
    scores = np.exp(np.linspace(-3.0, 1.2, 40))
    error = np.sqrt(0.9 * 0.1 / 40)
    low, middle, high = np.quantile(scores, [0.9 - error, 0.9, 0.9 + error])
    logarithm, half_width = np.log(middle / 1.6448536), 0.5 * np.log(high / low)
    expected = np.exp(logarithm * (1 - (half_width / logarithm) ** 2))
    assert abs(np.log(expected) - (logarithm - half_width)) > 0.05  # not the result of a soft threshold
    found = calibrate(HeldOutPredictions(scores, np.ones(40), np.ones(40), np.arange(40)), np.ones(1))
    np.testing.assert_allclose(found.factors, [expected], rtol=0.02)


def test_intervals_that_are_too_wide_get_narrower(rng):
    found = calibrate(block_predictions(rng, 400, 1, lambda d: np.full(d.shape, 0.5)), np.ones(1))
    np.testing.assert_allclose(found.factors, 0.5, rtol=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_calibrated_intervals_hardly_change(seed):
    found = calibrate(block_predictions(np.random.default_rng(seed), 100, 12, np.ones_like), np.ones(1))
    np.testing.assert_allclose(found.factors, 1.0, atol=0.1)


def test_few_blocks_do_not_change_small_sample_factors(rng):
    found = calibrate(block_predictions(rng, 7, 20, lambda d: np.full(d.shape, 3.0)), np.full(2, 1.5))
    np.testing.assert_array_equal(found.at(np.array([[1.0, 9.0]])), 1.5)


def test_blocks_of_different_draws_are_different_groups(rng):
    one = block_predictions(rng, 5, 3, np.ones_like)
    both = HeldOutPredictions.joined([one, one])
    np.testing.assert_array_equal(both.errors, np.tile(one.errors, 2))
    assert np.unique(both.groups).size == 10


def ar1(rng, n_rows, decays):
    """Stationary AR(1) processes of unit variance (T, M)."""
    z = rng.standard_normal((n_rows, len(decays)))
    for t in range(1, n_rows):
        z[t] = decays * z[t - 1] + np.sqrt(1.0 - decays**2) * z[t]
    return z


def simulate_columns(rng, n_rows, n_columns=6):
    """Simulate two AR(1) factors, and AR(1) and white noise of each column, as in default candidates."""
    factors = ar1(rng, n_rows, np.array([0.95, 0.8])) @ rng.standard_normal((2, n_columns))
    noise = ar1(rng, n_rows, np.linspace(0.6, 0.9, n_columns))
    return factors + noise + 0.3 * rng.standard_normal((n_rows, n_columns))


def coverage(complete, hidden):
    """Return the coverage of held-out values by 90 % intervals of the default fit, calibrated and not."""
    incomplete = np.where(hidden, np.nan, complete)
    model = ProbabilisticSFA().fit(incomplete)
    parts = []
    plain = replace(model._model, fitted=replace(model._model.fitted, calibration=None))
    for one in (model._model, plain):
        filled = one.impute(Sequences(incomplete, (len(incomplete),)), with_std=True)
        parts.append(np.mean((np.abs(filled.values - complete) <= 1.6449 * filled.std)[hidden]))
    return parts


def hide_days(x, part, **given):
    return hide_blocks(x, 24, part, **given)


@parametrize("hide", [hide_days, hide_values])
def test_coverage_in_data_of_the_model(hide):
    found = []
    for seed in range(3):
        complete = simulate_columns(np.random.default_rng(seed), 600)
        found.append(coverage(complete, hide(complete, 0.1, random_state=seed))[0])
    assert 0.88 <= np.mean(found) <= 0.92


def test_coverage_of_short_series():
    """Coverage varies more than in long series: a factor has a time scale of 20 rows, half of the series."""
    found = []
    for seed in range(6):
        complete = simulate_columns(np.random.default_rng(seed), 40)
        found.append(coverage(complete, hide_blocks(complete, 4, 0.15, random_state=seed)))
    calibrated, plain = np.mean(found, axis=0)
    assert plain < calibrated
    assert 0.8 <= calibrated <= 0.97


def test_coverage_of_blocks_of_columns_smoother_than_ar1_processes():
    rng = np.random.default_rng(0)
    t = np.arange(800.0)
    frequencies, phases = rng.uniform(0.02, 0.2, (2, 5)), rng.uniform(0.0, 6.0, (2, 5))
    complete = sum(np.sin(f * t[:, None] + p) for f, p in zip(frequencies, phases, strict=True))
    complete = complete + 0.01 * rng.standard_normal(complete.shape)
    calibrated, plain = coverage(complete, hide_blocks(complete, 16, 0.1, random_state=0))
    assert abs(calibrated - 0.9) < abs(plain - 0.9)


@pytest.fixture(scope="module")
def calibrated():
    """A model with calibrated intervals, the same without, and rows with missing values."""
    rng = np.random.default_rng(0)
    x = simulate_columns(rng, 80, 3)
    x[20:32, 1] = np.nan
    x[76:, 2] = np.nan
    model = ProbabilisticSFA(random_state=0).fit(x)
    plain = deepcopy(model)
    factors = Calibration(np.array([1.0, 4.0]), np.array([1.0, 2.0]), np.array([1.0, 1.1, 1.2]))
    for one, calibration in ((model, factors), (plain, None)):
        one._model = replace(one._model, fitted=replace(one._model.fitted, calibration=calibration))
    return model, plain, x


def test_means_are_the_same_and_standard_deviations_are_multiplied(calibrated):
    model, plain, x = calibrated
    filled, std = model.impute(x, return_std=True)
    same, before = plain.impute(x, return_std=True)
    np.testing.assert_array_equal(filled, same)
    np.testing.assert_allclose(std[20, 1] / before[20, 1], 1.1)
    np.testing.assert_allclose(std[25, 1] / before[25, 1], 2.2)
    assert np.all(std[~np.isnan(x)] == 0.0)
    upper = model.impute(x, quantile=0.95)
    np.testing.assert_allclose((upper - filled)[25, 1], 1.6449 * std[25, 1], rtol=1e-4)


def test_forecasts_are_calibrated_from_the_last_observed_value(calibrated):
    model, plain, x = calibrated
    ratio = model.forecast(x, 5).std / plain.forecast(x, 5).std
    np.testing.assert_allclose(ratio[[0, 4], 0], [1.0, 2.0])
    np.testing.assert_allclose(ratio[0, 2], 2.4)  # five rows after its last value
    np.testing.assert_array_equal(model.forecast(x, 5).means, plain.forecast(x, 5).means)


def test_forecasts_have_no_factors_below_one(calibrated):
    model, plain, x = calibrated
    narrow = Calibration(np.array([1.0, 4.0]), np.array([0.5, 0.25]), np.array([1.0, 1.1, 1.2]))
    model = deepcopy(model)
    model._model = replace(model._model, fitted=replace(model._model.fitted, calibration=narrow))
    ratio = model.forecast(x, 5).std / plain.forecast(x, 5).std
    np.testing.assert_allclose(ratio, np.broadcast_to([1.0, 1.1, 1.2], ratio.shape))
    _, std = model.impute(x, return_std=True)
    assert std[20, 1] < 0.6 * plain.impute(x, return_std=True)[1][20, 1]


def test_draws_have_calibrated_standard_deviations(calibrated):
    model, _, x = calibrated
    filled, std = model.impute(x, return_std=True)
    drawn = model._model.draw_values(Sequences(x, (80,)), 4000, np.random.default_rng(0))
    missing = np.isnan(x)
    np.testing.assert_allclose(drawn.std(axis=0)[missing], std[missing], rtol=0.08)
    np.testing.assert_allclose(
        drawn.mean(axis=0)[missing], filled[missing], atol=5.0 * std[missing].max() / np.sqrt(4000)
    )


def test_calibration_is_saved(tmp_path):
    x = simulate_columns(np.random.default_rng(0), 60, 3)
    x[5:9, 0] = np.nan
    model = ProbabilisticSFA().fit(x)
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    for one, other in zip(loaded.calibration_, model.calibration_, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.impute(x, return_std=True)[1], model.impute(x, return_std=True)[1])


def test_models_of_given_size_have_no_calibration():
    x = simulate_columns(np.random.default_rng(0), 60, 3)
    model = ProbabilisticSFA().fit(x)
    assert hasattr(model, "calibration_")
    assert not hasattr(model.set_params(n_components=1).fit(x), "calibration_")
