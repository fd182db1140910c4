"""Posterior and log-likelihood against the joint Gaussian of all states and all observed values."""

import os
import subprocess
import sys
from contextlib import nullcontext

import jax
import numpy as np
import pytest

from probsfa._validation import Sequences
from probsfa.statespace import use_strategy
from probsfa.statespace.engine.dynamics import transition_over
from probsfa.statespace.engine.posterior import (
    check_finite,
    expected_statistics,
    filter_rows,
    log_likelihood,
    smooth,
)
from probsfa.statespace.panel import padded_length
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import (
    MISSING_PATTERNS,
    STRICT,
    mask_values,
    scaled_error,
    to_panel,
    to_parameters,
    uneven_times,
)
from tests.tolerances import EXACT, small_noise_tolerance

SHAPES = {"D below K": (2, 3), "D equals K": (3, 3), "D above K": (5, 3), "one feature, one factor": (1, 1)}


def assert_same_moments(found, wanted, tolerance=EXACT):
    assert scaled_error(found.means, wanted.means) < tolerance
    assert scaled_error(found.covariances, wanted.covariances) < tolerance
    lag_one = wanted.lag_one.reshape(found.lag_one_covariances.shape)
    assert scaled_error(found.lag_one_covariances, lag_one) < tolerance
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < tolerance


@parametrize("n_steps", [1, 2, 25], quick=[25])
@pytest.mark.parametrize("pattern", list(MISSING_PATTERNS))
@parametrize("shape", list(SHAPES), quick=["D above K"])
def test_posterior_equals_the_joint_gaussian(rng, n_steps, pattern, shape):
    model = oracle.random_model(rng, *SHAPES[shape])
    data = mask_values(rng, oracle.simulate(rng, model, [n_steps]), pattern)
    found = smooth(to_parameters(model), to_panel(data))
    assert found.lag_one_covariances.shape == (n_steps - 1, SHAPES[shape][1], SHAPES[shape][1])
    assert_same_moments(found, oracle.joint_posterior(model, data))


@parametrize("pattern", ["none", "scattered", "empty rows"], quick=["scattered"])
@parametrize("lengths", [(12,), (1, 1, 1), (1, 9, 2), (5, 7)], quick=[(1, 9, 2)])
@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_sequences_and_uneven_times_equal_the_joint_gaussian(rng, lengths, pattern, sampling):
    model = oracle.random_model(rng, 5, 3)
    times = None
    if sampling == "uneven":
        model = model._replace(decay=np.abs(model.decay))
        times = uneven_times(rng, lengths)
    data = mask_values(rng, oracle.simulate(rng, model, lengths, times), pattern)
    found = smooth(to_parameters(model), to_panel(data, times))
    assert_same_moments(found, oracle.joint_posterior(model, data, times))


def test_the_joint_gaussian_and_the_textbook_loop_agree(rng):
    """The two oracles have no common code."""
    model = oracle.random_model(rng, 5, 3)._replace(decay=np.array([0.97, 0.8, 0.4]))
    times = uneven_times(rng, (7, 5))
    data = mask_values(rng, oracle.simulate(rng, model, (7, 5), times), "scattered")
    dense, loop = oracle.joint_posterior(model, data, times), oracle.kalman_loop(model, data, times)
    assert scaled_error(loop.means, dense.means) < EXACT
    assert scaled_error(loop.covariances, dense.covariances) < EXACT
    assert scaled_error(loop.row_log_likelihoods.sum(), dense.log_likelihood) < EXACT


def test_log_likelihood_is_that_of_smoother_and_statistics(rng):
    model = oracle.random_model(rng, 5, 3)
    panel = to_panel(mask_values(rng, oracle.simulate(rng, model, [5, 7]), "scattered"))
    params = to_parameters(model)
    wanted = pytest.approx(log_likelihood(params, panel), rel=EXACT)
    assert smooth(params, panel).log_likelihood == wanted
    assert expected_statistics(params, panel).log_likelihood == wanted


def assert_rows(found, loop):
    assert scaled_error(found.row_log_likelihoods, loop.row_log_likelihoods) < EXACT
    assert found.log_likelihood == pytest.approx(loop.row_log_likelihoods.sum(), rel=EXACT)


def test_sequences_are_independent(rng):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [5, 7]), "scattered")
    params = to_parameters(model)
    joint = smooth(params, to_panel(data))
    assert_rows(joint, oracle.kalman_loop(model, data))
    separate = [smooth(params, to_panel([x])) for x in data]
    assert joint.log_likelihood == pytest.approx(sum(p.log_likelihood for p in separate), rel=EXACT)
    assert scaled_error(joint.means, np.concatenate([p.means for p in separate])) < EXACT
    assert np.all(joint.lag_one_covariances[4] == 0.0)


def test_padding_changes_nothing(rng):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [25]), "scattered")
    padded, bare = to_panel(data), to_panel(data, pad=False)
    assert len(padded.values) == 32 and len(bare.values) == 25
    params = to_parameters(model)
    with_padding, without = smooth(params, padded), smooth(params, bare)
    for one, other in zip(with_padding, without, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)
    for one, other in zip(
        expected_statistics(params, padded), expected_statistics(params, bare), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_padded_lengths_are_few_and_close():
    lengths = [padded_length(n) for n in range(1, 5000)]
    assert all(n <= padded < max(n + 16, 1.125 * n + 1) for n, padded in enumerate(lengths, start=1))
    assert lengths == sorted(lengths)
    assert len(set(lengths)) <= 8 * 7


def test_values_of_missing_entries_are_ignored(rng):
    """Results do not depend on values at missing entries."""
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [12]), "scattered")
    panel = to_panel(data)
    other_values = rng.standard_normal(panel.values.shape)
    filled = panel._replace(values=np.where(panel.mask > 0, panel.values, other_values))
    params = to_parameters(model)
    for one, other in zip(smooth(params, panel), smooth(params, filled), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_missing_column_is_equivalent_to_a_model_without_it(rng):
    model = oracle.random_model(rng, 5, 3)
    data = oracle.simulate(rng, model, [12])
    with_missing = [x.copy() for x in data]
    with_missing[0][:, [1, 3]] = np.nan
    observed = [0, 2, 4]
    smaller = oracle.Model(
        model.decay, model.loadings[observed], model.noise[observed], model.offset[observed]
    )
    found = smooth(to_parameters(model), to_panel(with_missing))
    assert_same_moments(found, oracle.joint_posterior(smaller, [data[0][:, observed]]))


@pytest.mark.parametrize(("strategy", "atol"), [("recursions", 1e-14), ("default", EXACT)])
@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_posterior_without_observations_is_the_prior(rng, sampling, strategy, atol):
    model = oracle.random_model(rng, 5, 3)._replace(decay=np.array([0.97, 0.8, 0.4]))
    times = uneven_times(rng, [12]) if sampling == "uneven" else None
    context = nullcontext() if strategy == "default" else use_strategy(strategy)
    with context:
        found = smooth(to_parameters(model), to_panel([np.full((12, 5), np.nan)], times))
    assert found.log_likelihood == 0.0
    assert np.all(found.means == 0.0)
    np.testing.assert_allclose(found.covariances, np.broadcast_to(np.eye(3), (12, 3, 3)), rtol=0, atol=atol)
    gaps = np.ones(11) if times is None else np.diff(times[0])
    wanted = np.array([np.diag(model.decay**gap) for gap in gaps])
    np.testing.assert_allclose(found.lag_one_covariances, wanted, rtol=0, atol=atol)


def filter_all(params, panel):
    k = params.n_components
    return filter_rows(params, panel, np.zeros(k), np.eye(k))


@parametrize("pattern", ["none", "scattered", "empty rows"], quick=["scattered"])
def test_filter_equals_the_textbook_loop(rng, pattern):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [5, 7]), pattern)
    found, wanted = filter_all(to_parameters(model), to_panel(data)), oracle.kalman_loop(model, data)
    assert scaled_error(found.means, wanted.filtered_means) < EXACT
    assert scaled_error(found.covariances, wanted.filtered_covariances) < EXACT
    assert scaled_error(found.log_likelihoods, wanted.row_log_likelihoods) < EXACT


def test_filter_equals_the_smoother_of_the_rows_up_to_each_row(rng):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [12]), "scattered")
    params = to_parameters(model)
    filtered = filter_all(params, to_panel(data))
    for n in (1, 4, 12):
        smoothed = smooth(params, to_panel([data[0][:n]]))
        assert scaled_error(filtered.means[n - 1], smoothed.means[-1]) < EXACT
        assert scaled_error(filtered.covariances[n - 1], smoothed.covariances[-1]) < EXACT
        assert filtered.log_likelihoods[:n].sum() == pytest.approx(smoothed.log_likelihood, rel=EXACT)


def test_filtered_state_of_an_empty_row_is_the_prediction(rng):
    model = oracle.random_model(rng, 5, 3)
    data = oracle.simulate(rng, model, [12])
    data[0][6] = np.nan
    filtered = filter_all(to_parameters(model), to_panel(data))
    a = model.decay
    np.testing.assert_allclose(filtered.means[6], a * filtered.means[5], rtol=1e-13)
    wanted = a[:, None] * filtered.covariances[5] * a + np.diag(1 - a**2)
    np.testing.assert_allclose(filtered.covariances[6], wanted, rtol=1e-12, atol=1e-14)
    assert filtered.log_likelihoods[6] == 0.0


def test_a_resumed_filter_equals_one_filter(rng):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [12]), "scattered")[0]
    params = to_parameters(model)
    whole = filter_all(params, to_panel([data]))
    mean, covariance = np.zeros(3), np.eye(3)
    for first, last in ((0, 5), (5, 6), (6, 12)):
        panel = to_panel([data[first:last]])
        first_transition = transition_over(params, np.ones(1)) if first else None
        part = filter_rows(params, panel, mean, covariance, first_transition)
        mean, covariance = part.means[-1], part.covariances[-1]
        np.testing.assert_allclose(part.means, whole.means[first:last], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(part.covariances, whole.covariances[first:last], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(part.log_likelihoods, whole.log_likelihoods[first:last], rtol=1e-11)


def test_covariances_are_symmetric_and_positive(rng):
    for noise in (10.0, 1e-3, 1e-10):
        model = oracle.random_model(rng, 5, 3, noise)
        data = mask_values(rng, oracle.simulate(rng, model, [25]), "scattered")
        found = smooth(to_parameters(model), to_panel(data))
        transposed = np.swapaxes(found.covariances, 1, 2)
        np.testing.assert_allclose(found.covariances, transposed, rtol=1e-9, atol=1e-15)
        eigenvalues = np.linalg.eigvalsh(found.covariances)
        assert eigenvalues.min() > 0.0
        assert np.all(np.isfinite(found.std)) and found.std.max() <= 1.0 + 1e-12


@parametrize("shape", ["D below K", "D equals K", "D above K"])
@parametrize("noise", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10], quick=[1e-10])
def test_small_noise_stays_accurate(rng, noise, shape):
    """Compare with seventy-digit arithmetic."""
    d, k = SHAPES[shape]
    model = oracle.random_model(rng, d, k, noise)._replace(decay=np.array([0.999, 0.9, 0.3])[:k])
    data = mask_values(rng, oracle.simulate(rng, model, [8]), "scattered")
    wanted = oracle.exact_posterior(model, data)
    found = smooth(to_parameters(model), to_panel(data))
    tolerance = small_noise_tolerance(noise)
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, rel=EXACT, abs=tolerance)
    assert scaled_error(found.means, wanted.means) < tolerance
    # Errors of covariances are relative to the covariance of each row.
    size = np.abs(wanted.covariances).max(axis=(1, 2), keepdims=True)
    assert np.max(np.abs(found.covariances - wanted.covariances) / size) < tolerance


def test_oracles_in_decimals_and_doubles_agree(rng):
    model = oracle.random_model(rng, 3, 2)
    data = mask_values(rng, oracle.simulate(rng, model, [4, 3]), "scattered")
    exact, double = oracle.exact_posterior(model, data), oracle.joint_posterior(model, data)
    assert scaled_error(double.means, exact.means) < EXACT
    assert scaled_error(double.full, exact.full) < EXACT
    assert double.log_likelihood == pytest.approx(exact.log_likelihood, rel=EXACT)


def test_decay_close_to_one_stays_accurate(rng):
    model = oracle.random_model(rng, 3, 2, 1e-3)._replace(decay=np.array([1 - 1e-9, 0.9]))
    data = oracle.simulate(rng, model, [8])
    wanted = oracle.exact_posterior(model, data)
    found = smooth(to_parameters(model), to_panel(data))
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-8)
    assert scaled_error(found.means, wanted.means) < 1e-8


def test_large_offsets_do_not_change_factors(rng):
    model = oracle.random_model(rng, 5, 3)
    data = oracle.simulate(rng, model, [12])
    near = smooth(to_parameters(model), to_panel(data))
    far = smooth(to_parameters(model._replace(offset=model.offset + 1e6)), to_panel([x + 1e6 for x in data]))
    np.testing.assert_allclose(far.means, near.means, atol=1e-7)


PROGRAM = """
import jax
before = jax.config.jax_enable_x64
import numpy as np
from probsfa._validation import Sequences
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import make_parameters
from probsfa.statespace.engine.posterior import smooth, expected_statistics
assert len(jax.live_arrays()) == 0, "importing allocated arrays"
assert jax.config.jax_enable_x64 == before, "importing changed the configuration"
rng = np.random.default_rng(0)
panel = make_panel(Sequences(rng.standard_normal((12, 5)), (12,)))
params = make_parameters([0.9999, 0.5, 0.1], rng.standard_normal((5, 3)), 1e-6)
found = smooth(params, panel)
stats = expected_statistics(params, panel)
assert all(type(x) is np.ndarray and x.dtype == np.float64 for x in found[:3])
assert all(type(x) is np.ndarray and x.dtype == np.float64 for x in stats[1:])
assert type(found.log_likelihood) is float
assert jax.config.jax_enable_x64 == before
print(found.log_likelihood.hex(), found.means.tobytes().hex()[:400])
"""


@pytest.mark.exhaustive
def test_results_do_not_depend_on_the_x64_flag():
    """Results are bitwise equal with JAX's 64-bit flag off and on; an import changes no setting of JAX."""
    outputs = []
    for flag in ("0", "1"):
        process = subprocess.run(
            [sys.executable, *STRICT, "-c", PROGRAM],
            env={**os.environ, "JAX_ENABLE_X64": flag},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        outputs.append(process.stdout)
    assert outputs[0] == outputs[1]


def test_x64_is_restored_after_an_error(rng):
    before = jax.config.jax_enable_x64
    model = oracle.random_model(rng, 5, 3)
    panel = to_panel(oracle.simulate(rng, model, [12]))
    with pytest.raises((TypeError, ValueError)):
        smooth(to_parameters(model).replace(loadings=np.zeros((4, 3))), panel)
    assert jax.config.jax_enable_x64 == before


def test_the_message_of_a_failed_inference_has_the_distance_with_noise():
    """Columns of variance 3**2 + 16 and 4**2 + 9, both 25: the value 20 is four standard deviations away."""
    params = to_parameters(
        oracle.Model(np.array([0.5]), np.array([[3.0], [4.0]]), np.array([16.0, 9.0]), np.zeros(2))
    )
    rows = Sequences(np.array([[1.0, 2.0], [0.0, 20.0]]), (2,))
    with pytest.raises(ValueError, match=r"row 1, column 1 is 20, 4 standard deviations"):
        check_finite(rows, params, np.array([np.inf]))
    check_finite(rows, params, np.array([1.0]))
