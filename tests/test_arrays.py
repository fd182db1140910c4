"""Conversion of array-likes to floats: missing values become NaN, other types raise an error."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator

from probsfa import SFA
from probsfa._arrays import as_float_array, check_array

NAN = np.nan


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3.0),
        ([1, 2], [1.0, 2.0]),
        ([1.0, None], [1.0, NAN]),
        (np.array([True, False]), [1.0, 0.0]),
        (np.ma.array([1, 999], mask=[0, 1]), [1.0, NAN]),
        (np.ma.array([1.0, 999.0]), [1.0, 999.0]),
        (np.ma.array([1, "hidden"], mask=[0, 1], dtype=object), [1.0, NAN]),
        ([np.ma.array([1, 999], mask=[0, 1]), np.ma.array([3, 4])], [[1.0, NAN], [3.0, 4.0]]),
        (pd.Series([1, None], dtype="Int64"), [1.0, NAN]),
        (pd.Series([True, None], dtype="boolean"), [1.0, NAN]),
        (pd.Series([pd.NA, 2], dtype=object), [NAN, 2.0]),
        (pd.DataFrame({"a": pd.array([1, None], "Float64"), "b": [None, 2.0]}), [[1.0, NAN], [NAN, 2.0]]),
        (pd.DataFrame({"a": pd.array([1, None], "Int8"), "b": [pd.NA, 2]}), [[1.0, NAN], [NAN, 2.0]]),
        ([1.0, pd.NA], [1.0, NAN]),
        (np.array([[1, pd.NA], [None, 2.0]], dtype=object), [[1.0, NAN], [NAN, 2.0]]),
        (pd.DataFrame(index=range(3)), np.empty((3, 0))),
    ],
)
def test_missing_is_nan(given, expected):
    values = as_float_array(given, "X")
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, expected)


def test_a_float_array_is_not_copied():
    X = np.ones((3, 2))
    assert as_float_array(X, "X") is X


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (["1.5"], ValueError, r"truth.*\('1.5'\).*row 0"),
        (np.ma.array(["1.5"], mask=[0]), ValueError, "truth contains text"),
        ([[1.0, b"x"]], ValueError, "truth contains text"),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), ValueError, "column 'b'.*truth"),
        (np.array(["2024-01-01"], "M8[D]"), ValueError, r"truth.*\(datetime64"),
        (np.ma.array([1], "m8[s]"), ValueError, "truth"),
        (pd.to_datetime(["2024-01-01"], utc=True), ValueError, "truth.*row 0"),
        (pd.Timestamp("2024-01-01"), ValueError, "truth"),
        (np.ma.array([1j]), ValueError, "[Cc]omplex.*truth"),
        ([[1.0], [2.0, 3.0]], ValueError, "truth"),
        ([np.ma.array([1.0]), np.ma.array([2.0, 3.0])], ValueError, "truth"),
        (scipy.sparse.eye_array(2), TypeError, "truth"),
        (object(), TypeError, "truth"),
    ],
)
def test_values_that_are_not_numbers_raise_an_error_with_the_name(given, error, match):
    with pytest.raises(error, match=match):
        as_float_array(given, "truth")


def check(X):
    return check_array(BaseEstimator(), X, "X", reset=True, allow_nan=True, min_rows=1)


def test_masked_values_of_rows_are_missing_in_estimators():
    rows = [np.ma.array([1.0, 999.0], mask=[0, 1]), np.ma.array([3.0, 4.0])]
    np.testing.assert_array_equal(check(rows), [[1.0, NAN], [3.0, 4.0]])


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X.astype(object).where(X.notna(), pd.NA),
        lambda X: X.astype(object).where(X.notna(), pd.NA).to_numpy(),
        lambda X: X.astype(object).where(X.notna(), pd.NA).to_numpy().tolist(),
        lambda X: X.astype(pd.SparseDtype("float64", np.nan)),
        lambda X: X.astype(pd.SparseDtype("float64", 0.0)),
        lambda X: X.astype({"a": pd.SparseDtype("float64", 1.0)}),
    ],
)
def test_estimators_read_objects_with_na_and_sparse_columns(make):
    given = make(pd.DataFrame({"a": [1.0, NAN, 0.0], "b": [NAN, 2.0, 0.0]}))
    kept = given.copy() if hasattr(given, "copy") else given
    np.testing.assert_array_equal(check(given), [[1.0, NAN], [NAN, 2.0], [0.0, 0.0]])
    if isinstance(given, pd.DataFrame):
        pd.testing.assert_frame_equal(given, kept)


def test_estimators_refuse_dates_with_a_time_zone():
    dates = pd.date_range("2024-01-01", periods=3, tz="UTC")
    with pytest.raises(ValueError, match=r"column 'when'.*X.*X.set_index\('when'\)"):
        check(pd.DataFrame({"when": dates}))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_dates_in_a_table_without_an_index(library):
    """The message names methods that such a table has; it has no index."""
    library = pytest.importorskip(library, reason=f"{library} is not installed")
    make = getattr(library, "DataFrame", None) or library.table
    given = {"a": [1.0, 2.0, 4.0], "when": pd.date_range("2024-01-01", periods=3).to_pydatetime().tolist()}
    with pytest.raises(ValueError, match=r"column 'when'.* times=X\['when'\]") as raised:
        check(make(given))
    assert "index" not in str(raised.value)
    text = make({**given, "when": ["2024-01-01", "2024-01-02", "2024-01-03"]})
    with pytest.raises(ValueError, match=r"times=pandas.to_datetime\(X\['when'\]\)"):
        check(text)
    np.testing.assert_array_equal(check(text.drop(["when"])), [[1.0], [2.0], [4.0]])
    assert pd.to_datetime(text["when"])[1] == pd.Timestamp("2024-01-02")
    with pytest.raises(ValueError, match=r"column 'when'.*X.drop\(\['when'\]\)"):
        check(make({**given, "when": ["x", "y", "z"]}))


class LazyFrame:
    """Stand-in for a LazyFrame of polars: a query without rows."""

    columns = dtypes = property(lambda self: pytest.fail("the query was evaluated"))

    def collect(self):
        raise AssertionError("the query was collected")


@pytest.mark.parametrize(("X", "name"), [(LazyFrame(), "X"), ([LazyFrame(), LazyFrame()], r"X\[0\]")])
def test_a_lazy_frame_raises_an_error_with_advice(X, name):
    with pytest.raises(ValueError, match=rf"{name} is a LazyFrame.*{name}\.collect\(\)"):
        check(X)
    with pytest.raises(ValueError, match=rf"{name} is a LazyFrame.*{name}\.collect\(\)"):
        as_float_array(X, "X")


def test_a_lazy_frame_of_polars_raises_an_error_with_advice():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    with pytest.raises(ValueError, match=r"X is a LazyFrame.*X\.collect\(\)"):
        check(frame.lazy())
    np.testing.assert_array_equal(check(frame), [[1.0, 3.0], [2.0, 4.0]])


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, np.asfortranarray, lambda X: X.astype(">f8")])
def test_an_array_of_floats_passes_the_same_checks_as_any_other(make):
    X = np.random.default_rng(0).normal(size=(20, 3))
    expected = SFA().fit(X)
    fitted = SFA().fit(make(X))
    np.testing.assert_allclose(fitted.components_, expected.components_, rtol=1e-12)
    assert fitted.n_features_in_ == 3
    with pytest.raises(ValueError, match="X.*features"):
        fitted.transform(make(X[:, :2]))
    with pytest.raises(ValueError, match="minimum of 2"):
        SFA().fit(make(X[:1]))
    with pytest.raises(ValueError, match="0 feature|at least one array"):
        SFA().fit(make(X[:, :0]))


def test_a_frame_then_an_array_forgets_the_names():
    X = np.random.default_rng(0).normal(size=(20, 3))
    sfa = SFA().fit(pd.DataFrame(X, columns=list("abc")))
    with pytest.warns(UserWarning, match="feature names"):
        sfa.transform(X)
    assert not hasattr(sfa.fit(X), "feature_names_in_")
