"""Imputed values of each method, compared with other libraries and literal formulas."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from probsfa import ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.imputation import (
    ClassicSFA,
    ColumnMean,
    EstimatorImputation,
    HiddenValues,
    IterativeRegression,
    LinearInterpolation,
    compare_methods,
    default_methods,
)
from probsfa.imputation.methods import fit_quietly
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from tests.stand_in import StandIn
from tests.tolerances import EXACT, SPECTRAL

NAN = np.nan
METHODS = default_methods(StandIn())
NAMES = [method.name for method in METHODS]

every_method = pytest.mark.parametrize("method", METHODS, ids=NAMES)


@pytest.fixture
def series():
    return make_slow_mixture(200, 4, noise_variance=0.01, missing_fraction=0.1, random_state=0).data


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(StandIn, "calls", [])
    return StandIn


# ---- single methods


def test_mean(series):
    filled = ColumnMean().fill(series).values
    np.testing.assert_allclose(filled, pd.DataFrame(series).fillna(pd.DataFrame(series).mean()), rtol=EXACT)


def test_linear_interpolation_in_rows(series):
    expected = pd.DataFrame(series).interpolate(limit_direction="both")
    np.testing.assert_allclose(LinearInterpolation().fill(series).values, expected, rtol=EXACT)


def test_linear_interpolation_in_time(series):
    times = np.cumsum(np.random.default_rng(1).integers(1, 9, len(series))).astype(float)
    expected = pd.DataFrame(series, index=times).interpolate("index", limit_direction="both")
    filled = LinearInterpolation().fill(series, times=times).values
    np.testing.assert_allclose(filled, expected, rtol=EXACT)


def test_linear_interpolation_in_dates():
    dates = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05"])
    filled = LinearInterpolation().fill([[0.0], [NAN], [4.0]], times=dates)
    np.testing.assert_allclose(filled.values, [[0.0], [1.0], [4.0]], rtol=EXACT)


def test_interpolation_does_not_cross_sequences():
    X = [np.array([[1.0, 5.0], [NAN, 7.0]]), np.array([[NAN, NAN], [9.0, NAN]])]
    first, second = LinearInterpolation().fill(X).values
    np.testing.assert_array_equal(first, [[1.0, 5.0], [1.0, 7.0]])
    np.testing.assert_array_equal(
        second, [[9.0, 6.0], [9.0, 6.0]]
    )  # no observed value: the mean of the others


def test_iterative_imputer_recovers_linear_dependence():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 1))
    X = np.hstack([x, 2.0 * x + 1.0, -x])
    incomplete = X.copy()
    incomplete[5, 1] = incomplete[9, 0] = NAN
    np.testing.assert_allclose(IterativeRegression().fill(incomplete).values, X, atol=1e-3)


@pytest.mark.parametrize("n_columns", [4, 3])
def test_classic_sfa_reconstructs_from_the_slow_half(series, n_columns):
    """Two of four features, and two of three."""
    series = series[:, :n_columns]
    interpolated = LinearInterpolation().fill(series).values
    centred = interpolated - interpolated.mean(axis=0)
    steps = np.diff(centred, axis=0)
    covariance = centred.T @ centred / len(centred)
    _, W = scipy.linalg.eigh(steps.T @ steps / len(steps), covariance)
    slow = centred @ W[:, :2] @ (covariance @ W[:, :2]).T + interpolated.mean(axis=0)
    expected = np.where(np.isnan(series), slow, series)
    np.testing.assert_allclose(ClassicSFA().fill(series).values, expected, rtol=SPECTRAL, atol=SPECTRAL)


def test_an_estimator_as_a_method(stand_in, series):
    model = stand_in(n_components=3)
    times = np.linspace(0.0, 1.0, len(series)) ** 2
    filled = EstimatorImputation(model).fill(series, times=times)
    np.testing.assert_allclose(filled.values, ColumnMean().fill(series).values)
    assert np.all((filled.std > 0.0) == np.isnan(series))
    [call] = stand_in.calls
    np.testing.assert_array_equal(call.times, times)
    assert call.model is filled.model is not model


def test_an_interrupted_fit_ends_the_imputation(stand_in, series, monkeypatch):
    def fit(self, X, y=None, **options):
        self.status_ = STATUS_SENTENCES["interrupted"]
        return self

    monkeypatch.setattr(stand_in, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        EstimatorImputation(stand_in()).fill(series)


def test_imputation_agrees_with_the_estimator(series):
    model = ProbabilisticSFA(1)
    filled = EstimatorImputation(model).fill(series)
    with pytest.warns(UserWarning, match="interpolation"):
        expected = model.fit(series).impute(series, return_std=True)
    np.testing.assert_allclose([filled.values, filled.std], expected, rtol=EXACT)


def test_a_fit_that_stops_early_does_not_warn(series):
    model = ProbabilisticSFA(2, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert fit_quietly(model, series) is model
    assert not model.converged_


# ---- all methods: input validation and types of results


@every_method
def test_only_missing_values_are_imputed(method, series):
    before = series.copy()
    filled = method.fill(series)
    observed = ~np.isnan(series)
    np.testing.assert_array_equal(series, before)
    np.testing.assert_array_equal(filled.values[observed], series[observed])
    assert not np.isnan(filled.values).any()
    assert (filled.std is not None) == (method.name == "probabilistic SFA")


@every_method
def test_a_complete_series_is_unchanged(method):
    X = make_slow_mixture(60, 3, random_state=0).data
    filled = method.fill(X)
    np.testing.assert_array_equal(filled.values, X)
    assert filled.values is not X
    if filled.std is not None:
        assert not filled.std.any()


@every_method
def test_one_column(method):
    X = make_slow_mixture(60, 1, missing_fraction=0.2, random_state=0).data
    filled = method.fill(X).values
    assert filled.shape == (60, 1) and np.isfinite(filled).all()


def test_one_row():
    for method in METHODS[:3]:
        np.testing.assert_array_equal(method.fill([[1.0, 2.0]]).values, [[1.0, 2.0]])


@every_method
@pytest.mark.parametrize("stands_for_missing", [NAN, None])
def test_errors_name_a_column_without_observations(method, stands_for_missing, series):
    frame = pd.DataFrame(series, columns=list("abcd")).assign(c=stands_for_missing)
    if isinstance(method, EstimatorImputation):
        method = EstimatorImputation(ProbabilisticSFA())
    with pytest.raises(ValueError, match=r"column 2 \('c'\)"):
        method.fill(frame)


@every_method
@pytest.mark.filterwarnings("ignore:1 of 3 sequences have at most lag=1 rows")
def test_a_list_of_sequences_gives_a_list(method, series):
    if isinstance(method, EstimatorImputation):
        method = EstimatorImputation(ProbabilisticSFA(1, max_iter=3))
    pieces = [series[:120], series[120:121], series[121:]]
    filled = method.fill(pieces)
    assert [len(piece) for piece in filled.values] == [120, 1, 79]
    for piece, values in zip(pieces, filled.values, strict=True):
        assert np.isfinite(values).all()
        np.testing.assert_array_equal(values[~np.isnan(piece)], piece[~np.isnan(piece)])


@every_method
def test_frames_in_frames_out(method, series):
    if isinstance(method, EstimatorImputation):
        method = EstimatorImputation(ProbabilisticSFA(1, max_iter=3))
    index = pd.date_range("2024-01-01", periods=len(series), freq="h")
    frame = pd.DataFrame(series, index=index, columns=list("abcd"))
    filled = method.fill(frame)
    for result in (filled.values,) if filled.std is None else (filled.values, filled.std):
        assert isinstance(result, pd.DataFrame)
        assert result.index.equals(index) and list(result.columns) == list("abcd")
    np.testing.assert_allclose(filled.values, method.fill(series).values, rtol=SPECTRAL)
    listed = method.fill([frame[:100], frame[100:]]).values
    assert [piece.index[0] for piece in listed] == [index[0], index[100]]


@pytest.mark.parametrize("method", METHODS[:-1], ids=NAMES[:-1])
def test_masked_arrays_and_nullable_frames_have_missing_values(method, series):
    expected = method.fill(series).values
    masked = np.ma.masked_invalid(series)
    masked.data[masked.mask] = 999.0
    np.testing.assert_allclose(method.fill(masked).values, expected, rtol=SPECTRAL)
    nullable = pd.DataFrame(series).convert_dtypes()
    filled = method.fill(nullable).values
    assert set(filled.dtypes.astype(str)) == {"Float64"}
    np.testing.assert_allclose(filled.to_numpy(dtype=float), expected, rtol=SPECTRAL)


@pytest.mark.parametrize("method", METHODS[:-1], ids=NAMES[:-1])
@pytest.mark.parametrize(
    ("X", "times", "match"),
    [
        (np.ones(3), None, "X is 1-dimensional"),
        ([["a"]], None, "X contains text"),
        (np.array([[np.inf], [1.0]]), None, "X contains infinity"),
        (np.ones((2, 1)), [1.0, 1.0], "times"),
        (np.ones((2, 1)), [1.0], r"times.*\(2,\)"),
        ([], None, r"\bX\b"),
    ],
)
def test_invalid_arguments_are_errors(method, X, times, match):
    with pytest.raises(ValueError, match=match):
        method.fill(X, times=times)


def test_the_index_of_a_frame_has_the_times():
    """Uneven dates have the results of `times`; even dates have exactly those of rows without times."""
    uneven = pd.DatetimeIndex(["2024-01-01", "2024-01-04", "2024-01-05"])
    filled = LinearInterpolation().fill(pd.DataFrame({"a": [1.0, NAN, 3.0]}, index=uneven)).values
    assert filled["a"].tolist() == [1.0, 2.5, 3.0] and filled.index.equals(uneven)
    values = np.array([[0.1], [NAN], [NAN], [0.7]])
    frame = pd.DataFrame(values, index=pd.date_range("2024-01-01 00:20", periods=4, freq="7min"))
    filled = LinearInterpolation().fill(frame).values.to_numpy()
    np.testing.assert_array_equal(filled, LinearInterpolation().fill(values).values)
    with pytest.raises(ValueError, match="X.index"):
        LinearInterpolation().fill(frame.iloc[::-1])


def test_comparisons_use_the_index_of_a_frame():
    """The index has the results of `times`; values that are linear in time are not linear in rows."""
    hours = np.cumsum(np.tile([1.0, 9.0], 30))
    line = pd.DataFrame({"a": hours}, index=pd.Timestamp(2024, 1, 1) + pd.to_timedelta(hours, "h"))
    arguments = [LinearInterpolation()], [HiddenValues(0.1)]
    [with_index], [with_times] = (
        compare_methods(line, *arguments),
        compare_methods(hours[:, None], *arguments, times=line.index),
    )
    [rows] = compare_methods(line.to_numpy(), *arguments)
    assert with_index.scores[0].rmse == with_times.scores[0].rmse < 0.8 * rows.scores[0].rmse
