"""Leave-one-out predictions, compared with posteriors without each value, and linear interpolation."""

import warnings

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.leave_one_out import (
    compare_with_interpolation,
    interpolate_leave_one_out,
    interpolation_errors,
    leave_one_out_means,
    worse_than_interpolation,
)
from tests.oracles import statespace as oracle


@pytest.fixture
def data(rng):
    x = rng.standard_normal((12, 3)).cumsum(axis=0)
    x[[2, 3, 7], [0, 0, 2]] = np.nan
    return x


def moments(model, x):
    """Return means and variances of new observations from the joint Gaussian."""
    dense = oracle.joint_posterior(model, [x])
    explained = np.einsum("dk,tkj,dj->td", model.loadings, dense.covariances, model.loadings)
    return model.offset + dense.means @ model.loadings.T, explained + model.noise


def test_leave_one_out_means_equal_those_of_posteriors_without_the_value(rng, data):
    model = oracle.random_model(rng, 3, 2)
    without = leave_one_out_means(data, *moments(model, data), model.noise)
    assert np.array_equal(np.isnan(without), np.isnan(data))
    for t, d in np.argwhere(~np.isnan(data)):
        hidden = data.copy()
        hidden[t, d] = np.nan
        assert without[t, d] == pytest.approx(moments(model, hidden)[0][t, d], rel=1e-9)


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-12])
def test_scores_of_values_with_high_leverage_are_those_of_posteriors_without_them(rng, data, noise):
    truth = oracle.random_model(rng, 3, 2)
    truth = truth._replace(noise=np.array([0.3, noise, noise]))
    model = ProbabilisticSFA.from_parameters(truth.decay, truth.loadings, truth.noise, truth.offset)
    scores = model.outlier_scores(data, lengths=[8, 4])
    assert np.array_equal(np.isnan(scores), np.isnan(data))
    for t, d in [(0, 1), (3, 1), (3, 2), (5, 0), (7, 1), (8, 2), (11, 1)]:
        hidden = data.copy()
        hidden[t, d] = np.nan
        dense = oracle.exact_posterior(truth, [hidden[:8], hidden[8:]])
        c = truth.loadings[d]
        error = data[t, d] - truth.offset[d] - c @ dense.means[t]
        expected = abs(error) / np.sqrt(c @ dense.covariances[t] @ c + truth.noise[d])
        assert scores[t, d] == pytest.approx(expected, rel=1e-7 + 1e-15 / noise)


def test_a_value_without_information_from_others_has_no_score(rng, data):
    """With noise near zero, and without information in other values, only rounding errors remain."""
    model = oracle.random_model(rng, 3, 3)._replace(noise=np.full(3, 1e-17))
    means, variances = data.copy(), np.broadcast_to(2.0 * model.noise, data.shape)
    assert np.isnan(leave_one_out_means(data, means, variances, model.noise)).all()


@pytest.mark.parametrize("times", [None, np.cumsum([0.0, *np.linspace(0.1, 3.0, 11)])])
def test_interpolation_uses_the_adjacent_observations(data, times):
    interpolated = interpolate_leave_one_out(Sequences(data, (5, 7), times))
    when = np.arange(12.0) if times is None else times
    for rows in (range(5), range(5, 12)):
        for d in range(3):
            observed_rows = [t for t in rows if not np.isnan(data[t, d])]
            for t in observed_rows:
                others = [s for s in observed_rows if s != t]
                expected = np.interp(when[t], when[others], data[others, d])
                assert interpolated[t, d] == pytest.approx(expected, rel=1e-12)
    assert np.array_equal(np.isnan(interpolated), np.isnan(data))


def test_errors_are_those_of_the_same_values(rng, data):
    model = oracle.random_model(rng, 3, 2)
    series = Sequences(data, (12,))
    comparison = compare_with_interpolation(
        series, leave_one_out_means(data, *moments(model, data), model.noise)
    )
    scale = np.nanstd(data, axis=0)
    for error, guess in (
        (comparison.model, leave_one_out_means(data, *moments(model, data), model.noise)),
        (comparison.interpolation, interpolate_leave_one_out(series)),
    ):
        assert error == pytest.approx(np.sqrt(np.nanmean(((guess - data) / scale) ** 2)), rel=1e-12)
    assert comparison.n_values == np.count_nonzero(~np.isnan(data))


def test_impute_warns_if_interpolation_is_more_accurate():
    """One factor for five independent random walks, which linear interpolation imputes better."""
    x = np.random.default_rng(0).standard_normal((300, 5)).cumsum(axis=0)
    x[50:60, 2] = np.nan
    with pytest.warns(UserWarning, match="interpolation"):
        ProbabilisticSFA(1, max_iter=20, tol=1.0).fit(x).impute(x)


def test_impute_does_not_warn_if_the_model_is_more_accurate():
    x = make_slow_mixture(300, 5, decay=[0.98, 0.9], noise_variance=0.5, random_state=0).data
    x[50:60, 2] = np.nan
    model = ProbabilisticSFA(2, max_iter=20, tol=1.0).fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.impute(x)


def test_columns_that_are_predicted_worse_than_by_interpolation(rng):
    """Interpolation predicts a straight line exactly; a column with one held-out value is not tested."""
    values = np.column_stack([np.arange(60.0), rng.standard_normal(60), rng.standard_normal(60)])
    part = np.zeros((60, 3), dtype=int)
    part[1:59:2, :2], part[30, 2] = 1, 1
    errors = interpolation_errors(Sequences(values, (60,)), part)
    np.testing.assert_allclose(errors[:, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(errors[31, 1], 0.5 * (values[30, 1] + values[32, 1]) - values[31, 1])
    columns = np.nonzero(part)[1]
    by_interpolation = errors[part > 0]
    of_model = np.where(columns == 0, 0.1, 0.5 * by_interpolation)
    groups = np.arange(len(columns))
    assert worse_than_interpolation(of_model, by_interpolation, columns, groups, 3).tolist() == [0]
