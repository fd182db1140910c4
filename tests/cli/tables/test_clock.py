"""Times of rows: read from text, checked, and recognised as even or uneven."""

import numpy as np
import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.clock import read_clock
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.roles import make_plan
from probsfa.cli.tables.table import read_table


@pytest.fixture
def clock(tmp_path):
    def read(header, times, **options):
        path = tmp_path / "data.csv"
        rows = [f"{time},{(7 * i) % 5}" for i, time in enumerate(times)]
        path.write_text("\n".join([f"{header},a", *rows]))
        table = read_table(path)
        choices = Choices(**options)
        return read_clock(table, make_plan(table, Missing(), choices), Missing(), choices)

    return read


@pytest.mark.parametrize(
    ("header", "times", "step"),
    [
        ("time", ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00"], "1 h"),
        ("time", ["2020-01-01T00:00:00Z", "2020-01-01T00:10:00Z", "2020-01-01T00:20:00Z"], "10 min"),
        ("time", ["2020-01-01T00:00:00.000", "2020-01-01T00:00:00.500", "2020-01-01T00:00:01"], "0.5 s"),
        ("date", [f"{m}/1/85" for m in range(1, 13)] + ["1/1/86"], "1 month"),
        ("date", ["2020-01-31", "2020-02-29", "2020-03-31"], "1 month"),
        ("date", ["2020Q1", "2020Q2", "2020Q3"], "1 quarter"),
        ("date", ["30/12/2019", "31/12/2019", "01/01/2020"], "1 d"),  # days first
        ("date", ["2020-01-02", "2020-01-03", "2020-01-06", "2020-01-07"], "1 business day"),
        ("date", ["19580329", "19580405", "19580412"], "7 d"),
        (
            "Date,Time",
            [
                "10/03/2004,22.00.00",
                "10/03/2004,23.00.00",
                "11/03/2004,00.00.00",
                "11/03/2004,01.00.00",
                "11/03/2004,02.00.00",
            ],
            "1 h",
        ),
        (",date", ["1,2015-02-04 17:51:00", "2,2015-02-04 17:52:00", "3,2015-02-04 17:53:00"], "1 min"),
        ("t", ["0", "1", "2"], None),
        ("t", ["0.1", "0.2", "0.3"], None),
        ("t", ["5"], None),
        ("date", ["2020-01-01"], None),
    ],
)
def test_even(clock, header, times, step):
    found = clock(header, times)
    assert found.times is None
    assert found.step == step
    assert "are evenly spaced" in found.note
    assert len(found.stamps) == len(times)


def test_uneven_dates_count_in_median_steps(clock):
    found = clock("time", ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 05:30"])
    np.testing.assert_allclose(found.times, [0.0, 1.0, 2.0, 5.5])
    assert found.step == "1 h"
    assert "unevenly spaced" in found.note


def test_uneven_numbers_count_in_median_steps(clock):
    found = clock("t", ["10", "12", "14", "20"])
    np.testing.assert_allclose(found.times, [0.0, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(found.stamps, [10.0, 12.0, 14.0, 20.0])


@pytest.mark.parametrize(
    ("header", "times", "row", "column"),
    [
        ("time", ["2020-01-01", "2020-01-03", "2020-01-02"], 4, "time"),
        ("time", ["2020-01-01", "2020-01-02", "2020-01-02"], 4, "time"),
        ("time", ["1", "1", "2"], 3, "time"),
    ],
)
def test_times_that_do_not_go_up_are_named(clock, header, times, row, column):
    with pytest.raises(
        CommandError, match=rf"row {row}, column '{column}': .* does not come after .* --even"
    ):
        clock(header, times)
    assert clock(header, times, even=True).times is None


def test_a_time_that_is_none_is_named(clock):
    with pytest.raises(CommandError, match="row 3, column 'date': '2020-13-45' is not a time"):
        clock("date", ["2020-01-01", "2020-13-45", "2020-01-03"])


def test_text_tells_no_time(clock):
    found = clock("period", ["spring", "summer", "autumn"])
    assert found.times is None and found.stamps is None
    assert "taken as evenly spaced" in found.note


@pytest.mark.parametrize("header", ["b", "year"])
def test_no_times(clock, header):
    found = clock(header, ["3", "1", "3"])
    assert found.times is None
    assert "taken as evenly spaced" in found.note
