"""Columns that tell the time are recognised, and everything else is data."""

import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.roles import make_plan
from probsfa.cli.tables.table import read_table


@pytest.fixture
def roles(tmp_path):
    """Names of the data columns and of those that tell the time."""

    def assign(content, **options):
        path = tmp_path / "data.csv"
        path.write_text(content)
        table = read_table(path)
        plan = make_plan(table, Missing(), Choices(**options))
        return [table.names[j] for j in plan.data], [table.names[j] for j in plan.time]

    return assign


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("when", ["2020-01-01", "2020-01-02", "2020-01-03"]),
        ("when", ["2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z", "2020-01-01T02:00:00Z"]),
        ("when", ["31/12/2019 23:00", "01/01/2020 00:00", "01/01/2020 01:00"]),
        ("when", ["1/31/85", "2/1/85", "3/1/85"]),
        ("when", ["2020-01", "2020-02", "2020-03"]),
        ("when", ["08:00", "08:10", "08:20"]),
        ("when", ["18.00.00", "19.00.00", "20.00.00"]),
        ("Date", ["Jan 2020", "Feb 2020", "Mar 2020"]),
        ("date", ["19580329", "19580405", "19580412"]),
        ("timestamp", ["1600000000", "1600000060", "1600000060"]),
        ("time", ["0", "0.5", "2"]),
        ("t", ["0", "1", "5"]),
        ("", ["0", "1", "2"]),
        ("sample", ["17", "18", "19"]),
        ("year", ["2020", "2021", "2022"]),
    ],
)
def test_a_column_that_tells_the_time(roles, name, times):
    rows = "\n".join(f"{time},{5 - i},1.5" for i, time in enumerate(times))
    assert roles(f"{name},a,b\n{rows}\n") == (["a", "b"], [name])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("T", ["13.1", "13.6", "12.9"]),  # a temperature
        ("level", ["1", "2", "4"]),  # goes up, and counts nothing
        ("t", ["1", "", "3"]),
        ("hour", ["1.5", "2.5", "3.5"]),
        ("time", ["3.5", "2.5", "1.0"]),  # goes down: how long something took
        ("a", ["2020", "2020", "2021"]),
    ],
)
def test_a_column_of_data(roles, name, values):
    rows = "\n".join(f"{value},{5 - i}" for i, value in enumerate(values))
    assert roles(f"{name},b\n{rows}\n") == ([name, "b"], [])


def test_a_count_is_an_index_only_in_front(roles):
    assert roles("a,n_seen\n3,1\n1,2\n2,3\n") == (["a", "n_seen"], [])


def test_date_and_time_in_two_columns(roles):
    assert roles("Date,Time,a\n10/03/2004,18:00:00,1\n10/03/2004,19:00:00,1\n") == (["a"], ["Date", "Time"])


def test_blank_columns_at_the_end_are_no_data(roles):
    assert roles("t,a,,\n1,5,,\n2,6,,\n") == (["a"], ["t"])


@pytest.mark.parametrize(("name", "times"), [("year", "2020 2020 2021"), ("hour", "22 23 0")])
def test_parts_of_a_calendar_that_do_not_tell_rows_apart_are_left_out(roles, name, times):
    rows = "\n".join(f"{time},{5 - i},1.5" for i, time in enumerate(times.split()))
    assert roles(f"{name},a,b\n{rows}\n") == (["a", "b"], [])


def test_text_is_left_out(roles):
    content = "t,site,a\n1,EWR,5\n2,EWR,6\n"
    assert roles(content) == (["a"], ["t"])
    with pytest.raises(CommandError, match="row 2, column 'site': 'EWR' is not a finite number"):
        roles(content, columns=["site", "a"])
    with pytest.raises(CommandError, match="row 3, column 'site': 'EWR' is not a finite number"):
        roles("t,site,a\n1,7,5\n2,EWR,6\n")  # some numbers, and no identifiers


def test_the_user_decides(roles):
    content = "t,a,b\n1,5,1\n2,6,2\n"
    assert roles(content, columns=["t", "a"]) == (["t", "a"], [])
    assert roles(content, time=["b"]) == (["a"], ["b"])  # t counts the rows
    assert roles(content, time=[]) == (["a", "b"], [])
    assert roles(content, time=[], columns=["t", "b"]) == (["t", "b"], [])
    assert roles(content, columns=["b", "a", "b"]) == (["b", "a"], ["t"])


def test_refused(roles):
    with pytest.raises(CommandError, match=r"no column 'c'; there are t, a"):
        roles("t,a\n1,5\n2,6\n", columns=["c"])
    with pytest.raises(CommandError, match="2 columns have the name 'a'"):
        roles("a,a\n1,5\n1,6\n", columns=["a"])
    with pytest.raises(CommandError, match="no column of numbers"):
        roles("t\n1\n2\n")
