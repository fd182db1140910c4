"""Maximum likelihood in data units: scales, likelihoods and options."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace.learning.budget import Size
from probsfa.statespace.learning.maximum_likelihood import InMemory, make_problem, maximum_likelihood
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from probsfa.statespace.learning.options import FitOptions, imputation_tolerance
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.streaming import InBlocks
from tests.oracles import statespace as oracle
from tests.statespace.support import to_model
from tests.tolerances import EXACT


@pytest.fixture(scope="module")
def data():
    """A hundred rows with missing values, in columns of very different scales."""
    rng = np.random.default_rng(4)
    model = oracle.Model(
        np.array([0.95, 0.5]), rng.standard_normal((4, 2)), np.full(4, 0.3), rng.standard_normal(4)
    )
    X = oracle.simulate(rng, model, [100])[0] * [1.0, 1e3, 1e-3, 10.0] + [0.0, 1e4, 0.0, -5.0]
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


@pytest.fixture(scope="module")
def fitted(data):
    return maximum_likelihood(in_memory(data), FitOptions(2))


def in_memory(X, lengths=None, times=None):
    return InMemory(Sequences(X, (len(X),) if lengths is None else lengths, times))


def test_the_log_likelihood_is_that_of_the_data_at_the_parameters(data, fitted):
    wanted = oracle.kalman_loop(to_model(fitted.params), [data]).row_log_likelihoods.sum()
    assert fitted.log_likelihood == pytest.approx(wanted, rel=EXACT)
    assert fitted.history[-1] == fitted.log_likelihood and fitted.n_iter == len(fitted.history)
    assert fitted.converged and not fitted.interrupted
    assert fitted.status.startswith(STATUS_SENTENCES["converged"])


def test_the_fit_equals_that_of_the_estimator(data, fitted):
    estimator = ProbabilisticSFA(2).fit(data)
    assert estimator.log_likelihood_ == fitted.log_likelihood
    assert estimator.status_ == fitted.status and estimator.n_evaluations_ == fitted.n_evaluations
    for one, other in zip(
        estimator.params_.to_arrays().values(), fitted.params.to_arrays().values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_columns_are_standardized_by_their_observed_values(data):
    problem = make_problem(in_memory(data), FitOptions(2))
    np.testing.assert_allclose(problem.shift, np.nanmean(data, axis=0), rtol=1e-12)
    np.testing.assert_allclose(problem.scale, np.nanstd(data, axis=0), rtol=1e-12)
    panel = problem.observations.panel
    observed = np.where(panel.mask > 0, panel.values, np.nan)[:100]
    np.testing.assert_allclose(np.nanmean(observed, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(observed, axis=0), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(problem.observations.counts, np.sum(~np.isnan(data), axis=0))


@pytest.mark.parametrize("noise", ["isotropic", 0.3])
def test_isotropic_noise_requires_one_unit_for_all_columns(data, noise):
    problem = make_problem(in_memory(data), FitOptions(2, noise=noise))
    assert np.ptp(problem.scale) == 0.0
    assert problem.scale[0] ** 2 == pytest.approx(np.nanvar(data, axis=0).mean(), rel=1e-12)


def test_data_read_in_blocks_have_the_units_of_data_in_memory(data):
    one = make_problem(in_memory(data), FitOptions(2))
    other = make_problem(InBlocks(BaseEstimator(), data), FitOptions(2))
    np.testing.assert_allclose(other.shift, one.shift, rtol=1e-12)
    np.testing.assert_allclose(other.scale, one.scale, rtol=1e-12)
    assert other.log_jacobian == pytest.approx(one.log_jacobian, rel=1e-12)
    assert other.time_unit == one.time_unit == 1.0


def test_progress_is_reported_in_data_units(data):
    reports = []
    options = FitOptions(2, noise="isotropic")  # no floor, under which the likelihood could fall again
    fitted = maximum_likelihood(in_memory(data), options, report=lambda n, best: reports.append((n, best)))
    counts = [n for n, _ in reports]
    assert counts == sorted(set(counts)) and counts[-1] == fitted.n_evaluations
    assert reports[-1][1] == pytest.approx(fitted.log_likelihood, abs=1e-4)


def test_parameters_in_standardized_units_have_the_likelihood_of_standardized_data(data, fitted):
    standardized = (data - fitted.shift) / fitted.scale
    model = to_model(fitted.standardized_params)
    wanted = oracle.kalman_loop(model, [standardized]).row_log_likelihoods.sum()
    log_jacobian = make_problem(in_memory(data), FitOptions(2)).log_jacobian
    assert fitted.log_likelihood == pytest.approx(wanted - log_jacobian, rel=EXACT)


def test_times_give_the_unit_of_time(data):
    times = 60.0 * np.r_[0.0:50.0, 70.0:120.0]
    found = maximum_likelihood(in_memory(data, times=times), FitOptions(1))
    assert found.time_unit == 60.0
    cut = np.concatenate([times[:50], times[:50]])  # a new sequence may begin at any time
    assert in_memory(data, (50, 50), cut).time_unit == 60.0


def test_no_sequence_of_two_rows_has_no_time_scale(data):
    with pytest.raises(ValueError, match="two rows"):
        in_memory(data[:3], (1, 1, 1))


def test_options_are_those_of_an_estimator_and_are_checked():
    options = FitOptions.of(ProbabilisticSFA(3, noise="isotropic", tol=0.1, noise_floor=0.01))
    assert options == FitOptions(3, noise="isotropic", tol=0.1, noise_floor=0.01)
    assert options.variances(3) == NoiseVariances.isotropic(3) and options.noise_floors == (0.01,)
    assert (
        FitOptions(1, noise=0.5).variances(2) == NoiseVariances.known(2)
        and not FitOptions(1, noise=0.5).noise_free
    )
    assert FitOptions(1, noise=0).noise_free and not FitOptions(1).noise_free
    with pytest.raises(ValueError, match=r"tol.*got -1\.0"):
        make_problem(in_memory(np.eye(3)), FitOptions(1, tol=-1.0))


def test_a_fixed_noise_variance_is_converted_to_standardized_units():
    scale = np.array([2.0, 4.0])
    np.testing.assert_array_equal(FitOptions(1, noise=8.0).known_noise(scale), [2.0, 0.5])
    np.testing.assert_array_equal(FitOptions(1, noise=8.0).standardized_noise(scale).floor, [2.0, 0.5])
    assert FitOptions(1).known_noise(scale) is None
    np.testing.assert_array_equal(FitOptions(1, noise_floor=0.1).standardized_noise(scale).floor, [0.1, 0.1])


def test_imputation_tolerance_increases_with_values_and_parameters():
    assert imputation_tolerance(50_000, 1_000) == "auto"
    assert imputation_tolerance(60_000, 1_000) == pytest.approx(6.0)
    assert imputation_tolerance(10_000, 2_000) == pytest.approx(2.0)
    assert imputation_tolerance(60_000, 20_000) == pytest.approx(20.0)


@pytest.mark.parametrize("k,wanted", [(None, 1e-3 * (30 + 60 * 30 + 60 + 60)), (30, "auto")])
def test_a_fit_that_chooses_its_factors_has_its_parameters(rng, monkeypatch, k, wanted):
    """The tolerance is that of imputation if the number of factors is selected."""
    monkeypatch.setattr(InMemory, "default_size", lambda self, *, ar1_noise=False: Size(30))
    sequences = Sequences(rng.standard_normal((100, 60)), (100,))
    assert make_problem(InMemory(sequences), FitOptions(k)).options.tol == wanted


def test_a_fit_to_segments_is_continued_with_all_rows(rng):
    """The result has the mean and the log-likelihood of all rows, not of the segments."""
    X = rng.standard_normal((400, 3)) + rng.standard_normal((400, 1))
    X[200:] += 2.0
    data, options = in_memory(X), FitOptions(None, noise="diagonal")
    halves = [slice(0, 60), slice(60, 120)]
    parts, whole = (
        maximum_likelihood(data, options, size=Size(1, halves, 400, n_full_evaluations))
        for n_full_evaluations in (0, 20)
    )
    assert np.max(np.abs(parts.params.offset - X.mean(axis=0))) > 0.5
    assert "to all rows with at most 20 evaluations" in whole.status
    assert whole.options.max_iter == parts.options.max_iter
    of_all_rows = [oracle.log_likelihood(to_model(fit.params), [X]) for fit in (parts, whole)]
    assert of_all_rows[1] > of_all_rows[0] + 10.0
    assert whole.log_likelihood == pytest.approx(of_all_rows[1], abs=1e-6)
    alone = maximum_likelihood(data, options, size=Size(1))
    assert whole.log_likelihood == pytest.approx(alone.log_likelihood, abs=1.0)
