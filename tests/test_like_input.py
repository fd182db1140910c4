"""Results in the type of the input: frames, tables, lists of them; arrays for all other types."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from probsfa import SFA, ProbabilisticSFA
from probsfa._like_input import like_input
from probsfa._validation import check_sequences

NAMES = ["a", "b", "c"]


def polars_frame(values):
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(values, schema=NAMES)


def polars_frame_with_nulls(values):
    frame = polars_frame(values)
    return frame.fill_nan(None)


def arrow_table(values):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return arrow.table(dict(zip(NAMES, values.T, strict=True)))


def arrow_batch(values):
    return arrow_table(values).to_batches()[0]


def pandas_frame(values):
    return pd.DataFrame(values, columns=NAMES, index=range(3, 3 + len(values)))


MAKERS = [pandas_frame, polars_frame, polars_frame_with_nulls, arrow_table, arrow_batch]


def cells(frame):
    """Values of a frame or a table, column by column."""
    columns = frame.columns if hasattr(frame, "column_names") else [frame[name] for name in NAMES]
    return np.column_stack([np.asarray(column) for column in columns])


@pytest.fixture
def values(rng):
    X = np.cumsum(rng.standard_normal((30, 3)), axis=0)
    X[4, 1] = X[20:23, 0] = np.nan
    return X


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("n_rows", [1, 3, 30])  # also as many rows as columns, which could be confused
def test_frames_and_tables_have_the_type_of_the_input(values, make, n_rows):
    X = make(values[:n_rows])
    sequences = check_sequences(BaseEstimator(), X, reset=True, allow_nan=True, require_observed=False)
    doubled = 2.0 * np.nan_to_num(values[:n_rows])
    out = like_input(X, sequences, doubled)
    assert type(out) is type(X)
    assert list(getattr(out, "column_names", out.columns)) == NAMES
    np.testing.assert_array_equal(cells(out), doubled)
    if isinstance(X, pd.DataFrame):
        assert out.index.equals(X.index)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_imputed_frames_and_tables_are_frames_and_tables(values, make):
    model = ProbabilisticSFA(1, max_iter=2).fit(values)
    wanted, wanted_std = model.impute(values, return_std=True)
    X = make(values)
    model = ProbabilisticSFA(1, max_iter=2).fit(X)
    filled, std = model.impute(X, return_std=True)
    assert type(filled) is type(std) is type(X)
    # Rounding errors of sums depend on the memory layout.
    np.testing.assert_allclose(cells(filled), wanted, rtol=1e-9)
    np.testing.assert_allclose(cells(std), wanted_std, rtol=1e-9)
    both = model.impute([X, X])
    assert isinstance(both, list) and all(type(one) is type(X) for one in both)


def test_lists_and_arrays_give_arrays(values):
    rows = np.nan_to_num(values).tolist()
    sequences = check_sequences(BaseEstimator(), rows, reset=True, allow_nan=True)
    assert like_input(rows, sequences, values) is values


# ---- labelled arrays of xarray


def labelled(values, dates=None):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    dates = pd.date_range("2024-01-01", periods=len(values), freq="h") if dates is None else dates
    coords = {"time": dates, "site": NAMES, "height": ("site", [2.0, 5.0, 9.0]), "run": 4}
    return xarray.DataArray(values, dims=("time", "site"), coords=coords, name="wind", attrs={"units": "m/s"})


@pytest.mark.parametrize("estimator", [SFA(1), ProbabilisticSFA(1)])
def test_a_data_array_with_times_along_its_columns_is_refused(values, estimator):
    X = labelled(np.nan_to_num(values)).transpose("site", "time")
    with pytest.raises(ValueError, match=r"times.*\.transpose\('time', 'site'\)"):
        estimator.fit(X)


@pytest.fixture
def model():
    return ProbabilisticSFA(1, tol=5.0)


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
def test_a_data_array_is_imputed_with_its_dates_and_keeps_its_coordinates(values, model):
    X = labelled(values).isel(time=np.r_[0:10, 13:30])  # the dates are used: some rows are missing
    filled, std = model.fit(X).impute(X, return_std=True)
    wanted, wanted_std = (
        ProbabilisticSFA(1, tol=5.0).fit(X.to_pandas()).impute(X.to_pandas(), return_std=True)
    )
    assert model.time_unit_seconds_ == 3600.0 and list(model.feature_names_in_) == NAMES
    assert filled.identical(X.copy(data=wanted)) and std.identical(X.copy(data=wanted_std))
    both = model.impute([X, X[:5]])
    assert [one.shape for one in both] == [(27, 3), (5, 3)] and both[1].identical(
        X[:5].copy(data=both[1].to_numpy())
    )


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
def test_outputs_of_a_data_array_keep_the_coordinates_of_its_rows(values, model):
    X = labelled(np.nan_to_num(values))
    for estimator in (SFA(2), model):
        out = estimator.fit_transform(X)
        plain = estimator.fit(X.to_numpy()).transform(X.to_numpy())
        assert out.dims == ("time", "component") and out.indexes["time"].equals(X.indexes["time"])
        assert out.indexes["component"].tolist() == list(estimator.get_feature_names_out())
        assert out.coords["run"] == 4 and "height" not in out.coords
        np.testing.assert_allclose(out, plain, rtol=1e-9, atol=1e-9)
        frame = estimator.set_output(transform="pandas").fit_transform(X)
        assert frame.index.equals(X.indexes["time"])
        frames = estimator.fit([X, X]).transform([X, X])
        assert all(one.index.equals(X.indexes["time"]) for one in frames)
        listed = estimator.set_output(transform="default").transform([X, X[:9]])
        assert [one.shape[0] for one in listed] == [30, 9] and listed[1].dims == ("time", "component")


def test_forecasts_of_a_data_array_go_on_from_its_dates(values, model):
    X = labelled(values)
    ahead = model.fit(X).forecast(X, 3)
    wanted = ProbabilisticSFA(1, tol=5.0).fit(X.to_pandas()).forecast(X.to_pandas(), 3)
    for one, other in ((ahead.means, wanted.means), (ahead.quantile(0.9), wanted.quantile(0.9))):
        assert one.dims == X.dims and one.indexes["time"].equals(other.index)
        assert one.coords["height"].identical(X.coords["height"])
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert ahead.latent_means.dims == ("time", "component")


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
def test_a_data_array_without_coordinates_and_one_in_the_wrong_order(values, model):
    X = labelled(values)
    bare = X.drop_vars(list(X.coords))
    assert model.fit(bare).impute(bare).dims == X.dims and model.time_unit_seconds_ is None
    with pytest.raises(ValueError, match=r"X.indexes\['time'\] must increase .* X.drop_vars\(X.dims\[0\]\)"):
        model.fit(X[::-1])
    with pytest.raises(ValueError, match="1-dimensional"):
        model.fit(X[:, 0])
    with pytest.raises(ValueError, match=r"infinity.*row 3, column 0 \('a'\)"):
        model.fit(X.where(X.time != X.time[3]).fillna(np.inf))


# ---- types of pandas


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
@pytest.mark.parametrize("dtype", ["Float64", "Int64", "UInt8", "Float32", "double[pyarrow]"])
def test_nullable_numbers_of_pandas_give_nullable_floats(values, model, dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    whole = pd.DataFrame(np.round(9.0 * (values + 20.0)) % 256, columns=NAMES)
    X = whole.astype({"a": dtype, "b": "Float64"})
    assert X["b"].isna().any()
    filled, std = model.fit(X).impute(X, return_std=True)
    wanted = ProbabilisticSFA(1, tol=5.0).fit(whole).impute(whole)
    kind = dtype if "pyarrow" in dtype else "Float64"
    for table in (filled, std):
        assert table.dtypes.astype(str).tolist() == [kind, "Float64", "float64"]
    np.testing.assert_allclose(filled.astype(float), wanted, rtol=1e-9)
    assert model.forecast(X, 2).means.dtypes.astype(str).tolist() == [kind, "Float64", "float64"]


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2024-01", periods=30, freq="M"),
        pd.date_range("2024-03-30", periods=30, freq="h", tz="Europe/Berlin"),
        pd.timedelta_range("1h", periods=30, freq="15min"),
    ],
    ids=["periods", "time zone", "durations"],
)
def test_indexes_of_times_are_kept(values, model, index):
    X = pd.DataFrame(values, columns=NAMES, index=index.rename("when"))
    model.fit(X)
    pd.testing.assert_index_equal(model.impute(X).index, X.index)
    pd.testing.assert_index_equal(model.set_output(transform="pandas").transform(X).index, X.index)
    ahead = model.forecast(X, 2).means.index
    assert ahead.dtype == index.dtype and (ahead == index[-1] + index.freq * np.arange(1, 3)).all()
