"""Transformer and forecaster with the signatures of sktime give the results of their estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from probsfa import SFA, ProbabilisticSFA
from probsfa.adapters import SeriesForecaster, SeriesTransformer
from probsfa.datasets import make_slow_mixture
from probsfa.imputation import ProbabilisticImputer

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def model():
    return ProbabilisticSFA(1, tol=5.0)


@pytest.fixture(scope="module")
def values():
    return make_slow_mixture(80, 3, decay=[0.95], noise_variance=0.1, random_state=0).data


INDEXES = {
    "rows": pd.RangeIndex(10, 90),
    "hours": pd.date_range("2024-03-30", periods=80, freq="h", tz="Europe/Berlin"),
    "months": pd.period_range("2017-01", periods=80, freq="M"),
}


@pytest.fixture(params=INDEXES)
def y(values, request):
    return pd.DataFrame(values, columns=["a", "b", "c"], index=INDEXES[request.param])


# ---- forecasts


def test_forecasts_are_those_of_the_model(y):
    forecaster = SeriesForecaster(model()).fit(y, fh=[1, 2, 5])
    ahead = model().fit(y).forecast(y, fh=[1, 2, 5])
    pd.testing.assert_frame_equal(forecaster.predict(), ahead.means, **CLOSE)
    pd.testing.assert_frame_equal(forecaster.predict_var(), ahead.std**2, **CLOSE)
    assert forecaster.cutoff.equals(y.index[-1:])
    intervals = forecaster.predict_interval(coverage=[0.8, 0.9])
    assert intervals.columns.tolist()[:3] == [("a", 0.8, "lower"), ("a", 0.8, "upper"), ("a", 0.9, "lower")]
    np.testing.assert_allclose(intervals["b", 0.8, "upper"], ahead.quantile(0.9)["b"], **CLOSE)
    np.testing.assert_allclose(intervals["c", 0.9, "lower"], ahead.quantile(0.05)["c"], **CLOSE)
    quantiles = forecaster.predict_quantiles(alpha=0.3)
    assert quantiles.columns.tolist() == [("a", 0.3), ("b", 0.3), ("c", 0.3)]
    np.testing.assert_allclose(quantiles["a", 0.3], ahead.quantile(0.3)["a"], **CLOSE)
    assert all(table.index.equals(ahead.means.index) for table in (intervals, quantiles))


class Horizon:
    """The part of sktime's ForecastingHorizon that is used."""

    def __init__(self, index, is_relative):
        self.index, self.is_relative = index, is_relative

    def to_pandas(self):
        return self.index


def test_horizons(y):
    forecaster = SeriesForecaster(model()).fit(y)
    wanted = forecaster.predict([1, 2, 3])
    unsorted = [3, 1, 2]
    for fh in (unsorted, np.array(unsorted), pd.Index(unsorted), Horizon(pd.Index(unsorted), True)):
        pd.testing.assert_frame_equal(forecaster.predict(fh), wanted)
    pd.testing.assert_frame_equal(forecaster.predict(Horizon(wanted.index, False)), wanted)
    pd.testing.assert_frame_equal(forecaster.predict(1), wanted[:1], check_freq=False)
    if y.index.inferred_type != "integer":  # whether numbers are steps ahead
        pd.testing.assert_frame_equal(forecaster.predict(wanted.index[::-1]), wanted)
    with pytest.raises(ValueError, match="all positive"):
        forecaster.predict([0, 1])


def test_a_series_gives_a_series(y):
    for name in ("a", None, 5):
        one = y["a"].rename(name)
        ahead = SeriesForecaster(model()).fit(one, fh=[1, 2])
        predicted = ahead.predict()
        assert isinstance(predicted, pd.Series) and predicted.name == name
        column = 0 if name is None else name
        assert ahead.predict_interval().columns.tolist() == [(column, 0.9, end) for end in ("lower", "upper")]
        assert ahead.predict_var().columns.tolist() == [column]
        frame = y[["a"]]
        np.testing.assert_allclose(predicted, model().fit(frame).forecast(frame, 2).means["a"], **CLOSE)


def test_update_appends_rows(y):
    old, new = y[:60], y[60:]
    refitted = SeriesForecaster(model()).fit(old, fh=1).update(new)
    pd.testing.assert_frame_equal(
        refitted.predict(), SeriesForecaster(model()).fit(y).predict(1), check_freq=False
    )
    kept = SeriesForecaster(model()).fit(old, fh=1).update(new, update_params=False)
    wanted = model().fit(old).forecast(y, 1).means
    pd.testing.assert_frame_equal(kept.predict(), wanted, check_freq=False)


def test_covariates(values):
    hours = pd.date_range("2024-01-01", periods=90, freq="h")
    X = pd.DataFrame({"night": (hours.hour < 6).astype(float)}, index=hours)
    y = pd.DataFrame(values, columns=["a", "b", "c"], index=hours[:80]) + 3.0 * X[:80].to_numpy()
    ahead = SeriesForecaster(model()).fit(y, X[:80]).predict(np.arange(1, 11), X=X[80:])
    wanted = model().fit(y, exog=X[:80]).forecast(y, 10, exog=X).means
    pd.testing.assert_frame_equal(ahead, wanted, check_freq=False, **CLOSE)


def test_invalid_input_to_a_forecaster(y):
    forecaster = SeriesForecaster(model())
    with pytest.raises(NotFittedError):
        forecaster.predict([1])
    with pytest.raises(ValueError, match=r"\by\b.*DataFrame"):
        forecaster.fit(y.to_numpy())
    with pytest.raises(ValueError, match="fh.*horizon"):
        forecaster.fit(y).predict()
    with pytest.raises(ValueError, match="coverage.*got 95"):
        forecaster.predict_interval([1], coverage=95)
    with pytest.raises(ValueError, match=r"estimator.*got SFA\(\)"):
        SeriesForecaster(SFA()).fit(y)


# ---- transformers


def test_transformed_frames_keep_their_index(y):
    for estimator in (SFA(2), model()):
        out = SeriesTransformer(estimator).fit_transform(y)
        assert out.index.equals(y.index)
        np.testing.assert_allclose(out, clone(estimator).fit(y).transform(y), **CLOSE)
    one = SeriesTransformer(SFA(1)).fit_transform(y["a"])
    assert isinstance(one, pd.DataFrame) and one.shape == (80, 1) and one.index.equals(y.index)


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
def test_imputation_of_a_panel_is_series_by_series(values):
    rows = pd.MultiIndex.from_arrays([["p"] * 50 + ["n"] * 30, [*range(50), *range(30)]], names=["id", "t"])
    X = pd.DataFrame(values, columns=["a", "b", "c"], index=rows)
    X.iloc[45:55, 1] = np.nan
    filled = SeriesTransformer(ProbabilisticImputer(model())).fit_transform(X)
    assert filled.index.equals(rows) and list(filled.columns) == ["a", "b", "c"]
    parts = [X.loc["p"], X.loc["n"]]
    wanted = model().fit(parts).impute(parts)
    np.testing.assert_allclose(filled, np.concatenate(wanted), **CLOSE)
    with pytest.raises(ValueError, match=r"X.sort_index\(\)"):
        SeriesTransformer(SFA(1)).fit(X.iloc[[0, 60, 1, 61]])
    with pytest.raises(ValueError, match="X.index has 3 levels"):
        SeriesTransformer(SFA(1)).fit(pd.concat({"k": X}))


def test_copies_and_pickles(y):
    forecaster = SeriesForecaster(model()).fit(y, fh=[1])
    assert clone(forecaster).get_params()["estimator__n_components"] == 1
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(forecaster)).predict(), forecaster.predict())
    with pytest.raises(NotFittedError):
        SeriesTransformer(SFA(1)).transform(y)
