"""Times of rows: reading from text, validation, and detection of even spacing."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.fixes import parse_version

from probsfa.cli._errors import CommandError
from probsfa.cli._parser import parse
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import read_input
from probsfa.cli.tables.times import compact_dates, read_dates


@pytest.fixture
def row_times(tmp_path):
    def read(header, times, *options):
        path = tmp_path / "data.csv"
        rows = [f"{time},{(7 * i) % 5}" for i, time in enumerate(times)]
        path.write_text("\n".join([f"{header},a", *rows]))
        return read_input(parse(["impute", str(path), "--dry-run", *options]), Screen(quiet=True)).row_times

    return read


def test_with_sort_the_order_of_rows_does_not_determine_the_order_of_day_and_month(row_times):
    times = ["10/01/2020", "11/01/2020", "01/02/2020"]  # in order of time only with days first
    assert row_times("date", times).sequences[0].tolist() == [0, 1, 2]
    with pytest.raises(CommandError, match="--dayfirst"):
        row_times("date", times, "--sort")


@pytest.mark.skipif(
    parse_version(pd.__version__) < parse_version("3"), reason="dates of pandas 2 begin in 1677"
)
def test_years_from_1000_are_dates():
    [reading] = read_dates(pd.Series(["1000-01-01", "1582-10-15", "0999-12-31"]))
    np.testing.assert_array_equal(reading.is_unread, [False, False, True])


@pytest.mark.parametrize(
    ("header", "times", "step"),
    [
        ("time", ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00"], "1 h"),
        ("time", ["2020-01-01T00:00:00Z", "2020-01-01T00:10:00Z", "2020-01-01T00:20:00Z"], "10 min"),
        ("time", ["2020-01-01T00:00:00.000", "2020-01-01T00:00:00.500", "2020-01-01T00:00:01"], "500 ms"),
        ("date", [f"{m}/1/85" for m in range(1, 13)] + ["1/1/86"], "1 month"),  # even months, uneven days
        ("date", ["2020-01-31", "2020-02-29", "2020-03-31"], "1 month"),
        ("date", ["30-Jan-20", "31-Jan-20", "01-Feb-20"], "1 d"),
        ("date", ["March 2020", "April 2020", "May 2020"], "1 month"),
        ("date", ["2020Q2", "2020Q3", "2020Q4"], "3 months"),
        ("date", ["30/12/2019", "31/12/2019", "01/01/2020"], "1 d"),  # days first
        ("date", ["2020-01-02", "2020-01-03", "2020-01-06", "2020-01-07"], "1 business day"),
        ("date", ["19580329", "19580405", "19580412"], "7 d"),
        (
            "Date,Time",
            [f"{30 + (22 + i) // 24}/03/2004,{(22 + i) % 24:02d}.00.00" for i in range(5)],
            "1 h",
        ),
        (",date", ["1,2015-02-04 17:51:00", "2,2015-02-04 17:52:00", "3,2015-02-04 17:53:00"], "1 min"),
        ("time", ["1/31/2020 10:00 PM", "1/31/2020 11:00 PM", "2/1/2020 12:00 AM"], "1 h"),
        ("time", ["2020-03-29T01:00+01:00", "2020-03-29T03:00+02:00", "2020-03-29T04:00+02:00"], "1 h"),
        ("Date", ["Jan 2020", "Feb 2020", "Mar 2020"], "1 month"),
        ("t", ["0", "1", "2"], None),
        ("t", ["0.1", "0.2", "0.3"], None),
        ("t", ["5"], None),
        ("date", ["2020-01-01"], None),
    ],
)
def test_evenly_spaced_times(row_times, header, times, step):
    parsed = row_times(header, times)
    assert parsed.times is None
    assert parsed.step == step
    assert "are evenly spaced" in parsed.note
    assert len(parsed.stamps) == len(times)


def test_times_of_uneven_dates_are_in_median_steps(row_times):
    parsed = row_times(
        "time", ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 05:30"]
    )
    np.testing.assert_allclose(parsed.times, [0.0, 1.0, 2.0, 5.5])
    assert parsed.step == "1 h"
    assert "unevenly spaced" in parsed.note


def test_times_of_uneven_numbers_are_in_median_steps(row_times):
    parsed = row_times("t", ["10", "12", "14", "20"])
    np.testing.assert_allclose(parsed.times, [0.0, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(parsed.stamps, [10.0, 12.0, 14.0, 20.0])


@pytest.mark.parametrize(
    ("header", "times", "row", "what"),
    [
        ("time", ["2020-01-01", "2020-01-03", "2020-01-02"], 4, "is not later than the previous row"),
        ("time", ["2020-01-01", "2020-01-02", "2020-01-02"], 4, "is also the time of row 3"),
        ("time", ["1", "1", "2"], 3, "is also the time of row 2"),
    ],
)
def test_errors_name_times_that_do_not_increase(row_times, header, times, row, what):
    with pytest.raises(CommandError, match=rf"row {row}, column 'time': .* {what}.* --even"):
        row_times(header, times)
    assert row_times(header, times, "--even").times is None


def test_one_error_names_all_invalid_times(row_times):
    with pytest.raises(CommandError) as error:
        row_times(
            "date", ["2020-01-01", "2020-13-45", "2020-01-03", "2020-01-04", "?", "2020-13-45", "2020-01-07"]
        )
    assert "row 3, column 'date': not read as times: '2020-13-45' (2 rows), '?'" in str(error.value)


@pytest.mark.parametrize(
    ("header", "times", "step"),
    [
        ("date,hour", ["2020-01-01,22", "2020-01-01,23", "2020-01-02,0"], "1 h"),
        ("Year,Month,Day,Hour", ["2020,12,31,22", "2020,12,31,23", "2021,1,1,0"], "1 h"),
        ("year,month", ["2020,11", "2020,12", "2021,1"], "1 month"),
        ("date,clock", ["20200131,9:50", "20200131,10:00", "20200131,10:10"], "10 min"),
    ],
)
def test_several_columns_of_times_are_read_together(row_times, header, times, step):
    parsed = row_times(header, times, "--time", header)
    assert (parsed.times, parsed.step) == (None, step)


def test_parts_of_dates_without_years_are_errors(row_times):
    with pytest.raises(CommandError, match="times: '1 2', '1 3'"):
        row_times("month,day", ["1,2", "1,3"], "--time", "month,day")


def test_day_of_year_is_read_by_its_format(row_times):
    parsed = row_times(
        "year,doy", ["2020,366", "2021,1", "2021,2"], "--time", "year,doy", "--date-format", "%Y %j"
    )
    assert parsed.step == "1 d"


def test_seconds_since_1970_are_not_dates(row_times):
    assert row_times("ts", ["1601010100", "1601010110", "1601010120"]).time_format == "numbers"


def test_numbers_with_fractions_are_not_dates():
    dates = np.array([20130131.0, 20130201.0])
    assert compact_dates(dates) is not None and compact_dates(dates + [0.0, 0.5]) is None


def test_text_is_not_a_time(row_times):
    parsed = row_times("period", ["spring", "summer", "autumn"])
    assert parsed.times is None and parsed.stamps is None
    assert "treated as evenly spaced" in parsed.note


@pytest.mark.parametrize("header", ["b", "year"])
def test_columns_without_times(row_times, header):
    parsed = row_times(header, ["3", "1", "3"])
    assert parsed.times is None
    assert "treated as evenly spaced" in parsed.note


FORMS = [
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%y",
    "%Y-%m-%d %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%d %b %Y",
    "%b %d, %Y",
    "%Y/%m/%d",
]


@pytest.mark.parametrize("form", FORMS)
def test_dates_of_any_format_are_read(form):
    dates = pd.date_range("1995-12-20 13:45", periods=60, freq="37D")
    written = pd.Series(dates.strftime(form))
    [reading] = read_dates(written)  # one reading, because a day is above 12
    expected = np.array([datetime.strptime(text, form) for text in written], dtype="datetime64[us]")
    np.testing.assert_array_equal(reading.values, expected)


def test_years_of_two_digits_are_read_as_in_posix():
    [reading] = read_dates(pd.Series(["31/12/68", "31/12/69"]))
    assert [str(value)[:4] for value in reading.values] == ["2068", "1969"]


@pytest.mark.parametrize(
    "text", ["2020-13-01", "2020-02-30", "31/02/2020", "3 May", "spring 5", "12", "", "24/24/2020"]
)
def test_texts_that_are_not_dates(text):
    assert all(reading.is_unread.all() for reading in read_dates(pd.Series([text])))
