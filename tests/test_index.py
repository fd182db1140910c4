"""Times from the index of a frame, and their units."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from probsfa import SFA, GraphSFA, HierarchicalSFA, KernelSFA
from probsfa._times import TimeAxis, duration_text, read_time_index
from probsfa._validation import check_sequences
from probsfa.sfa.hierarchical import Layer

DAY = 86_400.0


def read(index, axis=TimeAxis("rows")):  # noqa: B008 (a named tuple)
    """Return times as for a fitted model, in seconds; with axis=None as for a fit."""
    frame = pd.DataFrame({"a": np.zeros(len(index))}, index=index)
    return read_time_index(frame, [len(index)], as_list=False, axis=axis)


@pytest.mark.parametrize(
    "index,step,calendar",
    [
        (pd.date_range("2024-03-30", periods=5, freq="6h"), DAY / 4, None),
        (pd.date_range("2024-03-30", periods=5, freq="D"), DAY, None),
        (pd.date_range("2024-03-30", periods=5, freq="D", tz="Europe/Berlin"), DAY, "day"),
        (pd.date_range("2024-03-30 12:00", periods=48, freq="h", tz="Europe/Berlin"), 3600.0, None),
        (pd.date_range("2024-01-31", periods=5, freq="ME"), 30.436875 * DAY, "month"),
        (pd.date_range("2024-01-01", periods=5, freq="BMS"), 30.436875 * DAY, "month"),
        (pd.date_range("2024-01-01", periods=5, freq="2BME"), 2 * 30.436875 * DAY, "month"),
        (pd.date_range("2024-01-01", periods=9, freq="YS"), 365.2425 * DAY, "month"),
        (pd.bdate_range("2024-01-01", periods=9), 1.4 * DAY, "business day"),
        (pd.period_range("2024Q1", periods=2, freq="Q"), 3 * 30.436875 * DAY, "month"),
        (pd.period_range("2024-01-01", periods=9, freq="W"), 7 * DAY, None),
        (pd.timedelta_range("1s", periods=3, freq="2ms"), 0.002, None),
        (pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-04"]), None, None),
        (pd.DatetimeIndex(["2024-01-01", "2024-02-01", "2024-04-01"]), None, None),
        (pd.PeriodIndex(["2024-01", "2024-02", "2024-04"], freq="M"), None, "month"),
        (pd.DatetimeIndex(["2024-01-01"]), None, None),
    ],
)
def test_steps_are_those_of_the_clock_or_of_the_calendar(index, step, calendar):
    found = read(index)
    assert found.step == (None if step is None else pytest.approx(step, rel=1e-12))
    assert found.axis.calendar == calendar and found.axis.kind == "dates" and found.axis.from_index
    assert found.axis.even == (step is not None or len(index) == 1)
    assert np.all(np.diff(found.times) > 0.0)
    if step is not None:
        np.testing.assert_allclose(np.diff(found.times), step, rtol=1e-3)
        assert read(index, None).step == 1.0 and read(index, None).axis.unit == found.step


def test_steps_below_the_resolution_of_seconds_since_1970_raise_an_error():
    with pytest.raises(ValueError, match="X.index.*3 ns.*238.419 ns"):
        read(pd.date_range("2024-01-01", periods=9, freq="3ns"))
    index = pd.date_range("2024-01-01", periods=9, freq="300ns")
    assert read(index).step == 3e-7  # computed from the dates, without rounding errors
    with pytest.raises(ValueError, match="X.index.*300 ns"):
        read(index.delete(5))
    assert read(index.delete(5) - index[0]).times[5] == pytest.approx(1.8e-6, rel=1e-12)


def test_periods_of_months_are_whole_months_across_a_gap():
    found = read(pd.PeriodIndex(["2024-01", "2024-02", "2024-04"], freq="M"))
    np.testing.assert_allclose(np.diff(found.times) / (30.436875 * DAY), [1.0, 2.0], rtol=1e-12)


def test_a_given_calendar_is_used_for_dates_that_are_its_steps():
    on, off = pd.DatetimeIndex(["2024-01-05", "2024-02-05"]), pd.DatetimeIndex(["2024-01-05", "2024-02-06"])
    assert np.diff(read(on, TimeAxis("dates", "month")).times) == pytest.approx(30.436875 * DAY)
    assert np.diff(read(off, TimeAxis("dates", "month")).times) == pytest.approx(32 * DAY)


@pytest.mark.parametrize("given", ["index", "times"])
def test_dates_are_in_units_of_their_median_step(given):
    """Also if a row is missing: times are not in seconds since 1970."""
    hours = pd.date_range("2024-01-01", periods=9, freq="h")
    for dates, even in ((hours, True), (hours.delete(4), False)):
        if given == "index":
            found = read(dates, None)
        else:
            found = read_time_index(np.zeros((len(dates), 1)), [len(dates)], as_list=False, times=dates)
        assert found.axis.unit == 3600.0 and found.median_step == 1.0 and found.axis.even == even
        expected = np.diff(np.arange(9.0) if even else np.delete(np.arange(9.0), 4))
        np.testing.assert_allclose(np.diff(found.times), expected, rtol=1e-9)
        assert list(found.labels[0]) == list(dates)
    numbers = read_time_index(np.zeros((3, 1)), [3], as_list=False, times=[0.0, 60.0, 120.0])
    assert (
        numbers.times.tolist() == [0.0, 60.0, 120.0] and numbers.axis.unit == 1.0 and numbers.labels is None
    )


def test_years_far_from_now_are_read():
    index = pd.DatetimeIndex(np.array(["0900-01-01", "2900-01-01", "4900-01-01"], dtype="datetime64[s]"))
    assert read(index).times[0] < -3e10 and read(index).times[-1] > 9e10


@pytest.mark.parametrize("index", [pd.RangeIndex(3), pd.Index([1, 5, 6]), pd.Index(["a", "b", "c"])])
def test_numbers_and_text_are_no_times(index):
    assert read(index) is None


def test_arrays_have_no_index():
    assert read_time_index(np.zeros((3, 1)), [3], as_list=False) is None
    found = check_sequences(BaseEstimator(), np.zeros((3, 1)), reset=True, allow_nan=True, index="use")
    assert found.times is None and found.axis.kind == "rows"


def test_durations_as_text_have_the_largest_unit_that_they_exceed():
    texts = [duration_text(x) for x in (DAY, 3600.0, 90.0, 0.5, 1e-9, 1.4 * DAY)]
    assert texts == ["1 d", "1 h", "1.5 min", "500 ms", "1 ns", "1.4 d"]


# ---- estimators that treat rows as evenly spaced


def walk(index):
    values = np.random.default_rng(0).standard_normal((60, 3)).cumsum(axis=0)
    return pd.DataFrame(values, index=index, columns=list("abc"))


HOURS = pd.date_range("2024", periods=60, freq="h")
ESTIMATORS = [
    SFA(2),
    KernelSFA(2, regularization=1e-3),
    GraphSFA(2, graph="temporal"),
    HierarchicalSFA([Layer(2)]),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(
    "index,reason",
    [(HOURS[::-1], "must increase strictly"), (HOURS.delete(3).append(HOURS[-1:] + HOURS.freq), "uneven")],
)
def test_an_uneven_index_that_is_ignored_causes_a_warning(estimator, index, reason):
    with pytest.warns(UserWarning, match=f"{reason}.*lengths="):
        estimator.fit(walk(index))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_even_indexes_cause_no_warning(estimator):
    estimator.fit(walk(HOURS))
    estimator.fit(walk(HOURS).reset_index(drop=True))


def test_graphs_without_time_do_not_warn_about_the_index():
    frame = walk(HOURS[::-1])
    GraphSFA(2, graph="nearest_neighbors").fit(frame).transform(frame)
