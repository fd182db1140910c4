"""The role of each column: by options, or by its values and its name."""

import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli._parser import parse
from probsfa.cli.tables.content import Content
from probsfa.cli.tables.roles import make_column_roles
from probsfa.cli.tables.table import make_table


def roles(text, *options, model_columns=()):
    """Return names of the data columns and of the columns of times."""
    table = make_table(Content("data.csv", text))
    column_roles = make_column_roles(
        table, parse(["impute", "data.csv", "--dry-run", *options]), model_columns
    )
    return [table.names[j] for j in column_roles.data], [table.names[j] for j in column_roles.time]


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("when", ["2020-01-01", "2020-01-02", "2020-01-03"]),
        ("when", ["2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z", "2020-01-01T02:00:00Z"]),
        ("when", ["31/12/2019 23:00", "01/01/2020 00:00", "01/01/2020 01:00"]),
        ("when", ["1/31/85", "2/1/85", "3/1/85"]),
        ("when", ["2020-01", "2020-02", "2020-03"]),
        ("when", ["Jan 2020", "Feb 2020", "Mar 2020"]),
        ("when", ["19580329", "19580405", "19580412"]),
        ("Timestamp", ["1600000000", "1600000060", "1600000060"]),
        ("time [s]", ["0", "0.5", "2"]),
        ("time", ["3.5", "2.5", "1.0"]),  # out of order, which is an error later
        ("t", ["0", "1", "5"]),
        ("t", ["0", "", "5"]),  # a row without a time is an error later
        ("", ["0", "1", "2"]),
        ("", ["0", "1", "5"]),
        ("year", ["2020", "2021", "2022"]),
        ("elapsed", ["1", "2", "4"]),
    ],
)
def test_columns_of_times(name, times):
    rows = "\n".join(f"{time},{5 - i},1.5" for i, time in enumerate(times))
    assert roles(f"{name},a,b\n{rows}\n") == (["a", "b"], [name])


def test_the_first_of_two_columns_with_a_name_of_time_is_the_time():
    assert roles("a,t,elapsed\n5,0,1\n4,1,2\n3,5,4\n") == (["a", "elapsed"], ["t"])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("T", ["13.1", "13.6", "12.9"]),  # a temperature
        ("level", ["1", "2", "4"]),  # increases
        ("hour", ["1.5", "2.5", "3.0"]),
        ("elapsed", ["3.5", "2.5", "1.0"]),
        ("a", ["2020", "2020", "2021"]),
        ("a", ["202001", "202002", "202003"]),  # dates under a name of time alone
    ],
)
def test_columns_of_data(name, values):
    rows = "\n".join(f"{5 - i},{value}" for i, value in enumerate(values))
    assert roles(f"b,{name}\n{rows}\n", *(["--time", ""] if name == "hour" else [])) == (["b", name], [])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("year", "2020 2020 2021"),
        ("hour", "22 23 0"),
        ("sample", "17 18 19"),  # the first column counts the rows
        ("site_id", "7 9 7"),
        ("stationId", "7 9 7"),
        ("note", "dry wet dry"),
    ],
)
def test_columns_that_are_left_out(name, values):
    rows = "\n".join(f"{value},{5 - i},1.5" for i, value in enumerate(values.split()))
    assert roles(f"{name},a,b\n{rows}\n") == (["a", "b"], [])


def test_row_numbers_are_left_out_in_the_first_column_or_by_name():
    assert roles("a,n_seen\n3,1\n1,2\n2,3\n") == (["a", "n_seen"], [])
    assert roles("a,row\n3,1\n1,2\n2,3\n") == (["a"], [])


def test_date_and_time_in_two_columns():
    assert roles("Date,Time,a\n10/03/2004,18:00:00,1\n10/03/2004,19:00:00,1\n") == (["a"], ["Date", "Time"])
    # Dates with times of the day require no column of times of the day.
    text = "date,a,sunset\n2004-03-10 18:00,1,17:59\n2004-03-10 19:00,2,17:59\n"
    assert roles(text, "--exclude", "sunset") == (["a"], ["date"])


def test_blank_columns_at_the_end_are_not_data():
    assert roles("t,a,,\n1,5,,\n2,6,,\n") == (["a"], ["t"])


def test_all_values_that_are_not_numbers_are_listed_with_counts():
    rows = ["1,2,x", "n.d.,3,y", "3,--,z", "n.d.,--,w", "4,-- ,v", "5,6,u"]
    with pytest.raises(CommandError) as error:
        roles("a,b,note\n" + "\n".join(rows) + "\n")
    assert str(error.value) == (
        "data.csv: values that are not numbers: column 'a': 'n.d.' (2, first in row 3); column 'b': '--' "
        "(3, first in row 4). Give --missing-code=n.d.,-- if they stand for missing values; --decimal or "
        "--thousands if they are numbers written in another way; or leave the column out with --exclude."
    )


def test_advice_has_only_printable_characters():
    with pytest.raises(CommandError, match=r"'1\\x0b2' \(1.*row 2\).*--decimal"):
        roles("a,b\n1\x0b2,1\n3,4\n")


def test_long_lists_of_invalid_values_are_shortened():
    rows = "\n".join(f"{i},x{i}{'y' * 50}\n{i},{i}" for i in range(20))
    with pytest.raises(CommandError, match=r"'x0y{38}' \(1.*row 2\).*12 more"):
        roles(f"a,b\n{rows}\n")


def test_text_is_left_out_unless_requested():
    content = "t,site,a\n1,EWR,5\n2,EWR,6\n"
    assert roles(content) == (["a"], ["t"])
    with pytest.raises(CommandError, match=r"column 'site': 'EWR' \(2.*row 2\)"):
        roles(content, "--columns", "site,a")
    with pytest.raises(CommandError, match=r"column 'site': 'EWR' \(1.*row 3\)"):
        roles("t,site,a\n1,7,5\n2,EWR,6\n")  # numbers among texts


@pytest.mark.parametrize("more", ["", ",0.5"])
def test_columns_of_a_model_are_data_in_its_order(more):
    header = "a,id" + (",c" if more else "")
    text = "\n".join([header, *(f"{0.1 * i},{i}{more}" for i in range(5))]) + "\n"
    assert roles(text, model_columns=["id", "a"]) == (["id", "a"], [])


def test_options_have_priority():
    content = "t,a,b\n1,5,1\n2,6,2\n"
    assert roles(content, "--columns", "t,a") == (["t", "a"], [])
    assert roles(content, "--time", "b") == (["a"], ["b"])  # t counts the rows
    assert roles(content, "--time", "") == (["a", "b"], [])
    assert roles(content, "--time", "", "--columns", "t,b") == (["t", "b"], [])
    assert roles(content, "--columns", "b,a,b") == (["b", "a"], ["t"])


def test_errors_of_column_names():
    with pytest.raises(CommandError, match="column 'c'"):
        roles("t,a\n1,5\n2,6\n", "--columns", "c")
    with pytest.raises(CommandError, match="2.*'a'"):
        roles("a,a\n1,5\n1,6\n", "--columns", "a")
    with pytest.raises(CommandError, match="no numeric column"):
        roles("t\n1\n2\n")
    with pytest.raises(CommandError, match="'start', 'end'.*--time"):
        roles("start,end,a\n2020-01-01,2020-01-02,5\n2020-01-03,2020-01-04,6\n")
