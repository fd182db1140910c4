"""News: impacts of single values on a prediction equal those of the joint Gaussian of all values."""

import numpy as np
import pandas as pd
import pytest

from probsfa import ProbabilisticSFA
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values


@pytest.fixture
def case(rng):
    """A model, its oracle, an incomplete series, and the series with added and revised values and rows."""
    model = oracle.random_model(rng, 4, 3)
    [x] = oracle.simulate(rng, model, [14])
    fitted = ProbabilisticSFA.from_parameters(*model)
    oracle_model = oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_)
    old = mask_values(rng, [x], "scattered")[0]
    new = np.where(rng.random(x.shape) < 0.5, x, old)
    for t, d in ((3, 1), (13, 2)):
        old[t, d] = new[t, d] = np.nan
    old[5, 0], new[5, 0] = x[5, 0] + 1.0, x[5, 0]
    new[12:, 2] = np.nan
    return fitted, oracle_model, old[:12], new


def mean_of(model, data, target, n_rows):
    """Return the prediction of a missing value by the joint Gaussian, with empty rows after the data."""
    empty = np.full((n_rows - len(data), data.shape[1]), np.nan)
    return oracle.complete_entries(model, [np.vstack([data, empty])])[0][target]


@pytest.mark.parametrize("target", [(3, 1), (13, 2), (16, 0)])
def test_impacts_are_those_of_the_dense_gaussian_and_sum_to_the_change(case, target):
    fitted, model, old, new = case
    n = max(14, target[0] + 1)
    news = fitted.news(old, new, target)
    before, after = (mean_of(model, data, target, n) for data in (old, new))
    assert news.before == pytest.approx(before, rel=1e-9) and news.after == pytest.approx(after, rel=1e-9)
    assert news.impacts.sum() == pytest.approx(after - before, abs=1e-9)
    whole_old = np.vstack([old, np.full((n - 12, 4), np.nan)])
    whole_new = np.vstack([new, np.full((n - 14, 4), np.nan)])
    both = np.where(np.isnan(whole_old), np.nan, whole_new)
    predicted = oracle.complete_entries(model, [both])[0]
    for t, d, revised, expected, weight in zip(
        news.rows, news.columns, news.revised, news.expected, news.weights, strict=True
    ):
        assert expected == pytest.approx(whole_old[t, d] if revised else predicted[t, d], rel=1e-9)
        # A weight is the change of the prediction if the value increases by one.
        data = both if revised else whole_new
        more = data.copy()
        more[t, d] += 1.0
        change = mean_of(model, more, target, n) - mean_of(model, data, target, n)
        assert weight == pytest.approx(change, abs=1e-9)
    assert set(zip(news.rows[news.revised], news.columns[news.revised], strict=True)) == {(5, 0)}


def test_frames_name_their_columns_and_the_table_begins_with_the_largest(case):
    fitted, _, old, new = case
    names = list("abcd")
    model = ProbabilisticSFA.from_parameters(
        fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_, feature_names=names
    )
    frames = (pd.DataFrame(x, columns=names) for x in (old, new))
    table = model.news(*frames, target=(15, "b")).table
    assert list(table["impact"].abs()) == sorted(table["impact"].abs(), reverse=True)
    assert set(table["column"]) <= set(names)


@pytest.mark.parametrize("kind", ["dates", "time zone", "periods"])
def test_dated_frames_have_the_news_of_their_rows(case, kind):
    fitted, _, old, new = case
    index = pd.date_range("2020-01-01", periods=14, freq="6h", tz="UTC" if kind == "time zone" else None)
    model = ProbabilisticSFA.from_parameters(
        fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_, time_unit="6h"
    )
    if kind == "periods":
        index = index.to_period("6h")
    frames = [pd.DataFrame(x, index=index[: len(x)], columns=range(4)) for x in (old, new)]
    by_number = fitted.news(old, new, (13, 2))
    for row in (13, index[13], str(index[13])):
        news = model.news(*frames, (row, 2))
        np.testing.assert_allclose(news.impacts, by_number.impacts, rtol=1e-9, atol=1e-12)
        assert list(news.times) == list(index[by_number.rows])
    table = news.table
    assert list(table.columns[:2]) == ["row", "time"]
    assert list(table["time"]) == list(index[table["row"]])
    future = model.news(*frames, (index[-1] + 3 * index.freq, 0))
    np.testing.assert_allclose(future.impacts, fitted.news(old, new, (16, 0)).impacts, rtol=1e-9, atol=1e-12)


def test_rows_inserted_between_old_rows_are_news(case):
    """Unevenly spaced old data without some rows have the same news as old data with these rows empty."""
    fitted, _, old, new = case
    index = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.cumsum([1, 1, 2, 1, 3] + 9 * [1]), unit="D")
    params = [np.abs(fitted.decay_), fitted.loadings_, fitted.noise_variance_, fitted.mean_]
    model = ProbabilisticSFA.from_parameters(*params, time_unit="1D")
    old_values = np.full_like(new, np.nan)
    old_values[:12] = old
    old_values[[4, 8]] = np.nan
    frames = [pd.DataFrame(x, index=index) for x in (old_values, new)]
    fewer = frames[0].drop(index[[4, 8, 12, 13]])
    expected = model.news(*frames, (index[13], 2))
    news = model.news(fewer, frames[1], (index[13], 2))
    assert {4, 8} <= set(news.rows.tolist())
    np.testing.assert_allclose(news.impacts, expected.impacts, rtol=1e-9, atol=1e-12)
    assert news.impacts.sum() == pytest.approx(news.after - news.before, abs=1e-9)
    filled = model.impute(frames[1]).iloc[13, 2]
    assert news.after == pytest.approx(filled, rel=1e-9)


def test_dates_without_a_row_are_refused(case):
    fitted, _, old, new = case
    model = ProbabilisticSFA.from_parameters(
        fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_, time_unit="6h"
    )
    index = pd.date_range("2020-01-01", periods=14, freq="6h")
    before, after = (pd.DataFrame(x, index=index[: len(x)]) for x in (old, new))
    moved = before.set_axis(before.index + pd.Timedelta("1h"))
    for first, row, message in (
        (before, pd.Timestamp("2020-01-01 01:00"), "whole number of steps"),
        (before, index[-1] + pd.Timedelta("1h"), "whole number of steps"),
        (before, "some day", "date"),
        (moved, 13, "X_old"),
    ):
        with pytest.raises(ValueError, match=message):
            model.news(first, after, (row, 2))
    with pytest.raises(ValueError, match="no dates"):
        fitted.news(old, new, ("2020-01-01", 2))


def test_without_new_values_the_prediction_does_not_change(case):
    fitted, _, old, _ = case
    news = fitted.news(old, old, (12, 0))
    assert news.impacts.size == 0 and news.before == news.after and len(news.table) == 0


def test_invalid_data_for_news_are_refused(case):
    fitted, _, old, new = case
    observed_position = tuple(int(i) for i in np.argwhere(~np.isnan(new))[0])
    for change, target, message in (
        ((new, old), (20, 0), "fewer than X_old"),
        ((old, np.full_like(old, np.nan)), (20, 0), "is missing, but observed in X_old"),
        ((old, new), observed_position, "is observed"),
        ((old, new), (20, 9), "4 columns"),
        ((old, new), (-1, 0), "target's row"),
        ((old, [new, new]), (20, 0), "one sequence"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.news(*change, target)


# ------------------------------------------------------------------------ joint draws


def test_missing_and_future_values_are_drawn_jointly(rng):
    """Moments of sums over a missing block and the next rows, with noise, against the joint Gaussian."""
    model = oracle.random_model(rng, 3, 2)
    [x] = oracle.simulate(rng, model, [10])
    x[4:7, 0] = np.nan
    fitted = ProbabilisticSFA.from_parameters(*model)
    draws = fitted.sample_posterior(x, 40_000, of="values", n_steps=2, random_state=0)
    assert draws.shape == (40_000, 12, 3)
    observed = ~np.isnan(x)
    np.testing.assert_array_equal(
        draws[:5, :10][:, observed], np.broadcast_to(x[observed], (5, observed.sum()))
    )
    oracle_model = oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_)
    extended = np.vstack([x, np.full((2, 3), np.nan)])
    H = oracle.observation_matrix(oracle_model, 12)
    S = H @ oracle.latent_covariance(oracle_model, [extended]) @ H.T + np.diag(
        np.tile(oracle_model.noise, 12)
    )
    is_observed = ~np.isnan(extended).ravel()
    gain = np.linalg.solve(S[np.ix_(is_observed, is_observed)], S[np.ix_(is_observed, ~is_observed)]).T
    covariance = S[np.ix_(~is_observed, ~is_observed)] - gain @ S[np.ix_(is_observed, ~is_observed)]
    mean = (
        np.tile(oracle_model.offset, 12)[~is_observed]
        + gain @ (extended.ravel() - np.tile(oracle_model.offset, 12))[is_observed]
    )
    drawn = draws.reshape(40_000, -1)[:, ~is_observed]
    assert np.max(np.abs(drawn.mean(axis=0) - mean)) < 6 * np.sqrt(covariance.diagonal().max() / 40_000)
    assert np.max(np.abs(np.cov(drawn.T) - covariance)) < 0.05 * covariance.diagonal().max()


def test_factors_of_future_rows_are_drawn(rng):
    X = np.cumsum(rng.standard_normal((40, 3)), axis=0)
    model = ProbabilisticSFA(1, noise=0.0).fit(X)
    assert model.sample_posterior(X, 2, n_steps=3, random_state=0).shape == (2, 43, 1)
    values = model.sample_posterior(X, 2, of="values", n_steps=3, random_state=0)
    np.testing.assert_array_equal(values[:, :40], np.broadcast_to(X, (2, 40, 3)))
    assert np.isfinite(values).all() and np.ptp(values[:, 41], axis=0).min() > 0.0
    with pytest.raises(ValueError, match="of must be"):
        model.sample_posterior(X, of="unknown")
