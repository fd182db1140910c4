"""Input validation: accepted and rejected input, and the remedy in messages."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from probsfa._frames import lists_in_lists_out
from probsfa._times import TimeAxis
from probsfa._validation import Sequences, check_count, check_option, check_sequences


def check(X, *, allow_nan=False, reset=True, estimator=None, **kwargs) -> Sequences:
    return check_sequences(estimator or BaseEstimator(), X, reset=reset, allow_nan=allow_nan, **kwargs)


def refused(match, X, error=ValueError, **kwargs):
    with pytest.raises(error, match=match):
        check(X, **kwargs)


X = np.arange(12.0).reshape(6, 2) ** 2


# ---- accepted


def test_one_array_is_one_sequence_and_is_not_copied():
    found = check(X)
    assert found.values is X or np.shares_memory(found.values, X)
    assert (found.lengths, found.is_list, found.times, found.feature_names) == ((6,), False, None, None)
    assert found.starts.tolist() == [True] + [False] * 5
    assert found.mask.all() and found.mask.shape == (6, 2)
    assert (found.n_rows, found.n_features) == (6, 2)
    Y = np.ones((6, 3))
    assert found.restore(Y) is Y


@pytest.mark.parametrize("convert", [np.float32, np.int16, np.uint8, bool, object])
def test_real_dtypes_become_float64(convert):
    values = check(X.astype(convert)).values
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, X.astype(convert).astype(np.float64))


def test_plain_nested_list_and_tuple_are_one_array():
    for nested in ([[1, 2], [3, 4]], ((1, 2), (3, 4)), [np.array([1, 2]), np.array([3, 4])]):
        found = check(nested)
        assert not found.is_list
        np.testing.assert_array_equal(found.values, [[1, 2], [3, 4]])


def test_list_of_sequences_of_unequal_length_goes_back_as_a_list():
    found = check([X[:3], X[3:4], X[4:]])
    assert found.is_list and found.lengths == (3, 1, 2)
    np.testing.assert_array_equal(found.values, X)
    np.testing.assert_array_equal(np.flatnonzero(found.starts), [0, 3, 4])
    assert [len(piece) for piece in found.restore(np.zeros((6, 5)))] == [3, 1, 2]
    with pytest.raises(ValueError, match="per row, 6"):
        found.restore(np.zeros((5, 5)))


def test_list_of_one_sequence_stays_a_list():
    found = check([X])
    assert found.is_list and len(found.restore(X)) == 1


def test_lengths_divide_an_array_and_the_result_is_an_array():
    found = check(X, lengths=np.array([2, 4]))
    assert not found.is_list and found.lengths == (2, 4)
    assert found.slices == [slice(0, 2), slice(2, 6)]
    assert found.restore(X) is X


def test_frame_keeps_names():
    estimator = BaseEstimator()
    found = check(pd.DataFrame(X, columns=["a", "b"]), estimator=estimator)
    assert found.feature_names == ("a", "b")
    assert estimator.feature_names_in_.tolist() == ["a", "b"] and estimator.n_features_in_ == 2


def test_list_of_frames_must_agree_in_names():
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert check([frame, frame]).feature_names == ("a", "b")
    refused(r"X\[1\].*feature names", [frame, frame[["b", "a"]]])


def test_pandas_nullable_dtypes_mean_missing():
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.array([0.5, 1.5, None], dtype="Float64"),
            "c": pd.array([True, False, None], dtype="boolean"),
        }
    )
    found = check(frame, allow_nan=True)
    np.testing.assert_array_equal(found.values, [[1, 0.5, 1], [np.nan, 1.5, 0], [3, np.nan, np.nan]])
    np.testing.assert_array_equal(found.mask.sum(axis=0), [2, 2, 2])
    refused(r"row 1, column 0 \('a'\)", frame)


def test_masked_array_masks_mean_missing():
    masked = np.ma.array(X.astype(int), mask=X == 4)
    found = check(masked, allow_nan=True)
    np.testing.assert_array_equal(np.isnan(found.values), X == 4)
    refused("NaN.*row 1, column 0", masked)
    assert check([masked, X], allow_nan=True).lengths == (6, 6)


def test_none_in_an_object_array_means_missing():
    found = check(np.array([[1.0, None], [2.0, 3.0]], dtype=object), allow_nan=True)
    assert np.isnan(found.values[0, 1])


def test_an_overflowing_sum_is_not_reported_as_infinity():
    huge = np.full((4, 2), 1e308)
    refused(r"\bX\b.*1e.308.*row 0, column 0", huge)
    refused("overflow", huge * np.array([[1.0], [1.0], [-1.0], [-1.0]]))
    assert check(np.full((4, 2), 1e150)).n_rows == 4


# ---- NaN and infinity


def test_nan_names_the_first_bad_row_and_both_remedies():
    bad = np.zeros((10_000, 3))
    bad[[7000, 9000], [2, 1]] = np.nan
    refused("row 7000, column 2", bad)
    refused('missing="skip"', bad)
    refused("ProbabilisticSFA.impute", bad)
    refused(r"row 7000, column 2 \('wind'\)", pd.DataFrame(bad, columns=["t", "p", "wind"]))
    refused(r"X\[1\].*NaN.*row 0, column 1", [X, [[0.0, np.nan]] * np.ones((2, 2))])


@pytest.mark.parametrize("allow_nan", [False, True])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused_even_among_missing_values(value, allow_nan):
    bad = X.copy()
    bad[4, 1] = value
    if allow_nan:
        bad[0, 0] = np.nan
    refused("infinity: -?inf.*row 4, column 1", bad, allow_nan=allow_nan)


def test_column_without_observed_values_is_an_error_only_in_fit():
    bad = X.copy()
    bad[:, 1] = np.nan
    refused("column 1", bad, allow_nan=True)
    refused(r"column 1 \('b'\)", pd.DataFrame(bad, columns=["a", "b"]), allow_nan=True)
    fitted = BaseEstimator()
    check(X, estimator=fitted)
    assert check(bad, estimator=fitted, reset=False, allow_nan=True).n_rows == 6
    assert check(bad, allow_nan=True, require_observed=False).n_rows == 6


def test_a_row_with_nothing_observed_is_fine():
    gap = X.copy()
    gap[2] = np.nan
    assert not check(gap, allow_nan=True).mask[2].any()


# ---- shapes and kinds


def test_wrong_dimensions():
    refused(r"\bX\b.*1-dimensional.*\(6,\)", X[:, 0])
    refused("X is 0-dimensional", 3.0)
    with pytest.raises(TypeError, match=r"\bX\b"):
        check({"data": np.zeros((3, 2)), "time": [0, 1, 2]})
    refused(r"\bX\b.*3-dimensional.*2-dimensional", np.zeros((2, 3, 4)))
    refused(r"\bX\b.*3-dimensional.*2-dimensional", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    refused("1-dimensional.*length", [np.zeros(3), np.zeros(4)])
    refused("rows of unequal length", [[1, 2], [3]])
    refused("empty list", [])
    refused(r"2-dimensional; X\[1\]", [X, X[:, 0]])
    refused(r"2-dimensional; X\[0\]", [[1, 2], X])


def test_tuple_of_arrays_is_refused_because_it_is_ambiguous():
    refused("tuple of 2 arrays.*list", (X, X))


def test_empty_and_short():
    refused(r"0 sample\(s\)", np.zeros((0, 2)))
    refused(r"0 feature\(s\)", np.zeros((5, 0)))
    refused(r"X: .*1 sample\(s\).*minimum of 2", X[:1], min_rows=2)
    refused(r"\bX\b.*2.*2.*3", [X[:1], X[:1]], min_rows=3)
    refused(r"X\[1\]: .*0 sample\(s\)", [X, X[:0]])
    assert check([X[:1], X[:1]], min_rows=2).n_rows == 2


def test_text_is_refused_with_its_place_even_where_it_looks_like_a_number():
    refused("'1'.*row 0, column 0", [["1", "2"], ["3", "4"]])
    refused("'x'.*row 1, column 0", np.array([[1.0, 2.0], ["x", 3.0]], dtype=object))
    refused("column 'b'.*X.*'n/a'.*row 1", pd.DataFrame({"a": [1, 2], "b": [1, "n/a"]}))
    refused("contains text", pd.DataFrame({"a": ["1", "2"]}))


def test_errors_about_columns_of_text_and_series_have_advice():
    refused(r"drop\(columns=\['b'\]\)", pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    refused(r"set_index\('t'\)", pd.DataFrame({"t": ["2024-01-01 00:00", "2024-01-02 00:00"], "a": [1, 2]}))
    refused(r"X\.to_frame\(\)", pd.Series([1.0, 2.0]))


def test_complex_dates_and_sparse_are_refused():
    refused("[Cc]omplex.*X", X + 1j)
    refused("[Cc]omplex.*X", np.ma.array(X + 1j))
    dated = pd.DataFrame({"when": pd.date_range("2024", periods=3), "a": 1.0})
    refused(r"column 'when'.*X.*set_index\('when'\)", dated)
    refused("durations", X.astype("timedelta64[s]"))
    refused("[Ss]parse", scipy.sparse.csr_array(X), error=TypeError)


def test_number_of_columns_and_names_are_compared_with_the_fit():
    fitted = BaseEstimator()
    check(X, estimator=fitted)
    refused(r"\bX\b.*1.*BaseEstimator.*2", X[:, :1], estimator=fitted, reset=False)
    refused(r"X\[1\]: X has 1 features", [X, X[:, :1]], estimator=BaseEstimator())


# ---- lengths


def test_lengths_that_do_not_fit():
    refused("6.*X.*5", X, lengths=[2, 3])
    refused(r"lengths\[1\] is 0", X, lengths=[6, 0])
    refused("list of integers", X, lengths=[2.5, 3.5])
    refused("list of integers", X, lengths=6)
    refused("list of integers", X, lengths=[])
    refused("lengths.*X", [X], lengths=[6])


# ---- times

MODEL = TimeAxis("dates")  # of a fitted model, for which dates are in seconds


def test_times_keep_their_unit():
    times = check(X, times=[0, 1, 2, 5, 7, 8]).times
    assert times is not None and times.dtype == np.float64
    np.testing.assert_array_equal(times, [0, 1, 2, 5, 7, 8])


def test_times_increase_inside_each_sequence_only():
    times = check(X, lengths=[3, 3], times=[5, 6, 7, 0, 1, 2]).times
    np.testing.assert_array_equal(times, [5, 6, 7, 0, 1, 2])
    refused(r"times \(sequence 1\).*row 2", X, lengths=[3, 3], times=[5, 6, 7, 0, 1, 1])


def test_a_list_of_sequences_requires_a_list_of_times():
    found = check([X[:2], X[2:]], times=[[3, 4], np.array([0.5, 1, 2, 3])])
    np.testing.assert_array_equal(found.times, [3, 4, 0.5, 1, 2, 3])
    refused("list of 2 arrays.*got a ndarray", [X[:2], X[2:]], times=np.arange(6))
    refused("list of 2 arrays.*got a list of 1", [X[:2], X[2:]], times=[np.arange(6)])
    refused(r"times\[1\].*\(4,\)", [X[:2], X[2:]], times=[[3, 4], [1, 2, 3]])
    refused("mixes dates and numbers", [X[:2], X[2:]], times=[[3, 4], pd.date_range("2024", periods=4)])


@pytest.mark.parametrize(
    ("times", "match"),
    [
        ([0, 1, 1, 2, 3, 4], r"row 2 \(1\) repeats the time of row 1"),
        ([0, 1, 2, 1.5, 3, 4], r"row 3 \(1.5\) is earlier than the time of row 2"),
        ("date", r"the text 'date'; expected 6 times, such as X\['date'\]"),
        ([0, 1, 2, 3, 4], r"shape \(6,\).*got shape \(5,\)"),
        (np.zeros((6, 1)), r"shape \(6,\)"),
        ([0, 1, np.nan, 3, 4, 5], "finite; row 2"),
        ([0, 1, 2, 3, 4, np.inf], "finite; row 5"),
        (pd.DatetimeIndex(["2024-01-01", None, *["2024-01-03"] * 4]), "finite; row 1"),
        (["2024-01-01"] * 6, "text.*pandas.to_datetime"),
        (pd.Series(["2024-01-01"] * 6, dtype=object), "text.*pandas.to_datetime"),
        ([{}] * 6, "numbers or dates; got dict"),
        (pd.period_range("2024-01", periods=6, freq="M"), r"got Period. .* times.to_timestamp\(\)"),
        (10**18 + np.arange(6), r"times has rows that are 1 apart.* only 128.*times - times\[0\]"),
        (10**18 + 300 * np.arange(6), "times has rows that are 300 apart.* only 128"),
        (np.arange(6) + 0j, "numbers or dates; got dtype complex128"),
        (np.array([datetime(2024, 1, 1), 3, 4, 5, 6, 7], dtype=object), "mixes dates"),
    ],
)
def test_times_that_are_refused(times, match):
    refused(match, X, times=times)


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-03-30", periods=6, freq="6h"),
        pd.date_range("2024-03-30", periods=6, freq="6h").to_numpy(),
        pd.date_range("2024-03-30", periods=6, freq="6h").astype("datetime64[s]"),
        pd.date_range("2024-03-30", periods=6, freq="6h").to_series(),
        # summer time begins inside the series; local clocks jump, the times do not
        pd.date_range("2024-03-30", periods=6, freq="6h", tz="UTC").tz_convert("Europe/Berlin"),
        [datetime(2024, 3, 30) + timedelta(hours=6 * i) for i in range(6)],
        [datetime(2024, 3, 30, 6 * i + 2, tzinfo=timezone(timedelta(hours=2))) for i in range(4)]
        + [datetime(2024, 3, 31, 6 * i, tzinfo=UTC) for i in range(2)],
    ],
)
def test_dates_become_seconds_since_1970_utc(index):
    first = datetime(2024, 3, 30, tzinfo=UTC).timestamp()
    np.testing.assert_array_equal(check(X, times=index, axis=MODEL).times, first + 21600.0 * np.arange(6))


def test_days_become_seconds_since_1970_utc():
    days = [datetime(2024, 3, 30).date() + timedelta(days=i) for i in range(6)]
    np.testing.assert_array_equal(
        check(X, times=days, axis=MODEL).times, 19812 * 86400.0 + 86400.0 * np.arange(6)
    )
    refused("numbers or dates; got date", X, times=[*days[:5], 3])
    refused("numbers or dates; got date", X, times=[*days[:5], datetime(2024, 4, 4, 12)])


def test_large_counts_that_doubles_represent_are_accepted():
    counts = 2**60 + 256 * np.arange(6)
    np.testing.assert_array_equal(check(X, times=counts).times, counts.astype(float))


def test_durations_become_seconds():
    times = pd.timedelta_range("0s", periods=6, freq="250ms")
    np.testing.assert_allclose(check(X, times=times, axis=MODEL).times, 0.25 * np.arange(6), rtol=0, atol=0)


@pytest.mark.parametrize("gap", [1, 300])
def test_dates_too_close_for_float_seconds_are_refused_rather_than_merged_or_moved(gap):
    times = np.datetime64("2024-01-01T00:00:00.000000000") + gap * np.arange(6).astype("timedelta64[ns]")
    refused(rf"times has rows that are {gap} ns apart.* only 238.419 ns.*dates - dates\[0\]", X, times=times)
    np.testing.assert_allclose(
        check(X, times=times - times[0], axis=MODEL).times, 1e-9 * gap * np.arange(6), rtol=1e-12
    )


# ---- parameters and frames out


def test_check_count_and_check_option():
    assert check_count("lag", np.int64(3)) == 3 and isinstance(check_count("lag", np.int64(3)), int)
    for bad in (0, -1, 1.0, "1", True, None):
        with pytest.raises(ValueError, match="lag must.*got"):
            check_count("lag", bad)
    assert check_option("missing", "skip", ("raise", "skip")) == "skip"
    with pytest.raises(ValueError, match="missing.*'raise', 'skip'.*'drop'"):
        check_option("missing", "drop", ("raise", "skip"))


def test_units_of_sequences_can_be_changed():
    # All steps but one are 10; there are no steps between sequences.
    times = np.array([0.0, 10.0, 30.0, 5.0, 15.0, 25.0])
    found = check([X[:3], X[3:]], times=[times[:3], times[3:]])
    assert found.time_unit == 10.0 and check(X).time_unit == 1.0
    np.testing.assert_array_equal(found.with_time_unit(10.0).times, times / 10.0)
    scaled = found.standardized(np.array([1.0, 2.0]), np.array([4.0, 8.0]))
    np.testing.assert_array_equal(scaled.values, (X - [1.0, 2.0]) / [4.0, 8.0])
    assert scaled.is_list and scaled.lengths == (3, 3) and scaled.times is found.times
    assert check(X).with_time_unit(60.0).times is None


@lists_in_lists_out
class Doubler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self._n_features_out = check_sequences(self, X, reset=True, allow_nan=False).n_features
        return self

    def transform(self, X):
        found = check_sequences(self, X, reset=False, allow_nan=False)
        return found.restore(2 * found.values)


def test_lists_of_frames_give_lists_of_frames():
    frame = pd.DataFrame(X, columns=["a", "b"], index=pd.date_range("2024", periods=6))
    pieces = [frame[:2], frame[2:]]
    for out in (
        Doubler().set_output(transform="pandas").fit(pieces).transform(pieces),
        Doubler().set_output(transform="pandas").fit_transform(pieces),
    ):
        assert [type(piece) for piece in out] == [pd.DataFrame, pd.DataFrame]
        joined = pd.concat(out)
        assert joined.columns.tolist() == ["doubler0", "doubler1"]
        assert joined.index.equals(frame.index)
        np.testing.assert_array_equal(joined, 2 * X)
    plain = Doubler().fit_transform(pieces)
    assert [type(piece) for piece in plain] == [np.ndarray, np.ndarray]
    assert isinstance(Doubler().set_output(transform="pandas").fit_transform(frame), pd.DataFrame)
