"""Kinds of input files, and how each is read: used by the tests and the documentation."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A kind of input.

    Attributes
    ----------
    kind : str
        Description; also the title of the test.
    text : str or bytes
        The file.
    options : tuple of str
        Options of the command.
    data, time : tuple of str
        Names of the columns of data, and of those of times.
    step : str, optional
        Step of evenly spaced rows, or the median step.
    times : tuple of float, optional
        Times of the rows in steps, if they are not evenly spaced.
    messages : tuple of str
        Parts of the notes and warnings.
    error : str
        Part of the error message; empty if there is no error.
    values : dict of str to tuple of float
        Numbers of columns.
    """

    kind: str
    text: str | bytes
    options: tuple[str, ...] = ()
    data: tuple[str, ...] = ("a", "b")
    time: tuple[str, ...] = ()
    step: str | None = None
    times: tuple[float, ...] | None = None
    messages: tuple[str, ...] = ()
    error: str = ""
    values: dict[str, tuple[float, ...]] = field(default_factory=dict)


VALUES = [(1.5, 20), (2.5, 21), (1.0, 19), (3.5, 23), (2.0, 18), (4.5, 26), (3.0, 22), (5.0, 25)]


def with_times(header: str, times: list[str], delimiter: str = ",") -> str:
    """Return a table of columns of times and the columns a and b."""
    lines = [delimiter.join([header, "a", "b"])]
    lines += [delimiter.join([time, str(a), str(b)]) for time, (a, b) in zip(times, VALUES, strict=False)]
    return "\n".join(lines) + "\n"


def hours(form: str = "2020-01-01 {:02d}:00", n: int = 6) -> list[str]:
    return [form.format(i) for i in range(n)]


CASES = (
    # Header and first column
    Case(
        "a first column without a name (`DataFrame.to_csv()`)",
        ",0,1\n0,1.5,20\n1,2.5,21\n2,1.0,19\n",
        data=("0", "1"),
        time=("",),
        messages=("3 rows of 2 columns",),
    ),
    Case(
        "dates in a first column without a name",
        with_times("", hours()),
        time=("",),
        step="1 h",
    ),
    Case(
        "lines in front of the table",
        "made by a logger\n\n" + with_times("time", hours()),
        error="row 3 has 3 values and row 1 has 1",
    ),
    Case(
        "lines in front of the table, with `--skip-rows`",
        "made by a logger, 2020\n\n" + with_times("time", hours()),
        ("--skip-rows", "2"),
        time=("time",),
        step="1 h",
    ),
    Case(
        "an empty value before a quoted value, with tabs as delimiter",
        'time\ta\tb\n2020-01-01\t\t"20"\n2020-01-02\t2.5\t21\n2020-01-03\t1.5\t19\n',
        time=("time",),
        step="1 d",
        values={"b": (20, 21, 19)},
    ),
    Case(
        "final rows that contain only delimiters",
        "a,b\n1.5,20\n2.5,\n1.0,19\n,\n,\n",
        messages=("3 rows of 2 columns", "2 rows without values at the end of the file"),
    ),
    # Dates
    Case(
        "a column named `day` that contains dates",
        with_times("day", ["2020-01-01", "2020-01-02", "2020-01-03"]),
        time=("day",),
        step="1 d",
    ),
    Case(
        "the same with `--time day`",
        with_times("day", ["2020-01-01", "2020-01-02", "2020-01-04"]),
        ("--time", "day"),
        time=("day",),
        step="1.5 d",
        times=(0.0, 1 / 1.5, 2.0),
    ),
    Case(
        "a column named `hour` that contains dates and times",
        with_times("hour", hours()),
        time=("hour",),
        step="1 h",
    ),
    Case(
        "dates with the day first, uneven, no number above 12",
        with_times(
            "date", ["01/02/2020", "02/02/2020", "04/02/2020", "05/02/2020", "09/02/2020", "10/02/2020"]
        ),
        error="may be %d/%m/%Y or %m/%d/%Y. Choose with --dayfirst",
    ),
    Case(
        "the same with `--dayfirst`",
        with_times(
            "date", ["01/02/2020", "02/02/2020", "04/02/2020", "05/02/2020", "09/02/2020", "10/02/2020"]
        ),
        ("--dayfirst",),
        time=("date",),
        step="1 d",
        times=(0, 1, 3, 4, 8, 9),
    ),
    Case(
        "the same with `--no-dayfirst`",
        with_times("date", ["01/02/2020", "02/02/2020", "04/02/2020", "05/02/2020"]),
        ("--no-dayfirst",),
        time=("date",),
        messages=("%m/%d/%Y",),
        step="31 d",
        times=(0.0, 1.0, 91 / 31, 121 / 31),
    ),
    Case(
        "dates that are evenly spaced with the day or the month first",
        with_times("date", ["1/1/85", "2/1/85", "3/1/85", "4/1/85"]),
        error="Choose with --dayfirst, --no-dayfirst or --date-format",
    ),
    Case(
        "a day above 12 in one row",
        with_times("date", ["11/02/2020", "12/02/2020", "14/02/2020"]),
        time=("date",),
        messages=("%d/%m/%Y",),
        step="1.5 d",
        times=(0.0, 1 / 1.5, 2.0),
    ),
    Case(
        "hours of a single ambiguous date",
        with_times("time", hours("01/02/2020 {:02d}:00")),
        error="may be %d/%m/%Y %H:%M or %m/%d/%Y %H:%M",
    ),
    Case(
        "`01.01.20` in a column named date",
        with_times("Datum", ["01.01.20", "02.01.20", "03.01.20"]),
        ("--dayfirst",),
        time=("Datum",),
        step="1 d",
    ),
    Case(
        "`01.01.20`, ambiguous",
        with_times("when", ["01.01.20", "02.01.20", "03.01.20"]),
        error="may be %d.%m.%y or %m.%d.%y",
    ),
    Case(
        "the same with `--date-format`",
        with_times("when", ["01.01.20", "02.01.20", "03.01.20"]),
        ("--date-format", "%d.%m.%y"),
        time=("when",),
        step="1 d",
    ),
    Case(
        "a date and a time of the day with points, in two columns",
        "Date,Time,a,b\n30/03/2004,23.00.00,1.5,20\n31/03/2004,00.00.00,2.5,21\n31/03/2004,01.00.00,1.0,19\n",
        time=("Date", "Time"),
        step="1 h",
    ),
    Case(
        "a date, and the hour as a whole number",
        "date,hour,a,b\n2020-01-01,22,1.5,20\n2020-01-01,23,2.5,21\n2020-01-02,0,1.0,19\n",
        error="name all columns that contain the time with --time",
    ),
    Case(
        "the same with `--time date,hour`",
        "date,hour,a,b\n2020-01-01,22,1.5,20\n2020-01-01,23,2.5,21\n2020-01-02,0,1.0,19\n",
        ("--time", "date,hour"),
        time=("date", "hour"),
        step="1 h",
    ),
    Case(
        "year, month, day and hour in separate columns",
        "No,year,month,day,hour,a,b\n1,2020,12,31,22,1.5,20\n2,2020,12,31,23,2.5,21\n3,2021,1,1,0,1.0,19\n",
        time=("year", "month", "day", "hour"),
        step="1 h",
    ),
    Case(
        "full dates, and columns of their parts",
        "year,month,time_hour,a,b\n"
        + "".join(f"2020,1,2020-01-01 0{i}:00,{a},{b}\n" for i, (a, b) in enumerate(VALUES)),
        time=("time_hour",),
        step="1 h",
    ),
    Case(
        "two columns of dates",
        "made,read,a,b\n2020-01-05,2020-01-01,1.5,20\n2020-01-05,2020-01-02,2.5,21\n2020-01-05,2020-01-03,1.0,19\n",
        error="the columns 'made', 'read' contain dates; choose the time of the rows with --time",
    ),
    Case(
        "the same with `--time read`",
        "made,read,a,b\n2020-01-05,2020-01-01,1.5,20\n2020-01-05,2020-01-02,2.5,21\n2020-01-05,2020-01-03,1.0,19\n",
        ("--time", "read"),
        time=("read",),
        step="1 d",
        messages=("made (times; use them with --time)",),
    ),
    Case(
        "names of months",
        with_times("", ["1 Jan 2020", "2 Jan 2020", "3 Jan 2020"]),
        time=("",),
        step="1 d",
    ),
    Case(
        "remarks that contain a date",
        "a,b,remark\n1.5,20,cleaned 3 Mar 2020\n2.5,21,\n1,19,cleaned 5 Mar 2020\n",
        messages=("remark (text)",),
    ),
    # Numbers that are times
    Case(
        "seconds since 1970 in a column named `ts`",
        with_times("ts", ["1600000000", "1600003600", "1600007200"]),
        time=("ts",),
        messages=("read as numbers",),
    ),
    Case(
        "the same with `--epoch s`",
        with_times("ts", ["1600000000", "1600003600", "1600007200"]),
        ("--epoch", "s"),
        time=("ts",),
        step="1 h",
        messages=("s since 1970",),
    ),
    Case(
        "numbers since 1970 in a unit that `--epoch` names",
        with_times("unix", ["18262", "18263", "18265"]),
        ("--epoch", "d"),
        time=("unix",),
        step="1.5 d",
        times=(0.0, 1 / 1.5, 2.0),
    ),
    Case(
        "elapsed seconds",
        with_times("elapsed", ["0", "0.5", "2"]),
        time=("elapsed",),
        times=(0.0, 0.5, 2.0),
    ),
    Case(
        "a column named `seconds` that increases",
        with_times("seconds", ["0", "10", "20"]),
        time=("seconds",),
    ),
    Case(
        "decimal years",
        with_times("year", ["2013.0", "2013.25", "2013.5", "2013.75"]),
        time=("year",),
    ),
    Case(
        "`YYYYMMDD`",
        with_times("date", ["20130131", "20130201", "20130202"]),
        time=("date",),
        step="1 d",
    ),
    Case(
        "`YYYYMMDDHH`",
        with_times("time", ["2013013122", "2013013123", "2013020100"]),
        time=("time",),
        step="1 h",
    ),
    Case(
        "`YYYYMMDDHHMM`",
        with_times("stamp", ["201301312350", "201302010000", "201302010010"]),
        time=("stamp",),
        step="10 min",
    ),
    Case("`YYYYMM`", with_times("month", ["202011", "202012", "202101"]), time=("month",), step="1 month"),
    Case(
        "the hour of the day as a whole number, without a date",
        with_times("hour", ["22", "23", "0"]),
        messages=("rows are treated as evenly spaced", "hour (part of the calendar;"),
    ),
    Case(
        "the hour as a number that increases, without a date",
        with_times("hour", ["0", "1", "2", "5"]),
        time=("hour",),
        times=(0, 1, 2, 5),
    ),
    Case(
        "year, month and day in separate columns, and a time of the day",
        "Year,Month,Day,Time,a,b\n2020,12,31,23:00,1.5,20\n2020,12,31,23:30,2.5,21\n2021,1,1,00:00,1,19\n",
        time=("Year", "Month", "Day", "Time"),
        step="30 min",
    ),
    Case(
        "`YYYYMMDD` and the hour, with `--time YEARMODA,hour`",
        "YEARMODA,hour,a,b\n20201231,22,1.5,20\n20201231,23,2.5,21\n20210101,0,1,19\n",
        ("--time", "YEARMODA,hour"),
        time=("YEARMODA", "hour"),
        step="1 h",
    ),
    Case(
        "a column named `time` that is not in order",
        with_times("time", ["3.5", "2.5", "1.0", "1.7"]),
        error="row 3, column 'time': '2.5' is not later than the previous row. Sort the rows with --sort",
    ),
    Case(
        "the same with `--time ''`",
        with_times("time", ["3.5", "2.5", "1.0", "1.7"]),
        ("--time", ""),
        data=("time", "a", "b"),
    ),
    # Order
    Case(
        "rows that are not in order of time",
        with_times("time", ["2020-01-01", "2020-01-03", "2020-01-02", "2020-01-04"]),
        error="'2020-01-02' is not later than the previous row. Sort the rows with --sort",
    ),
    Case(
        "the same with `--sort`",
        with_times("time", ["2020-01-01", "2020-01-03", "2020-01-02", "2020-01-04"]),
        ("--sort",),
        time=("time",),
        step="1 d",
        messages=("sorted",),
    ),
    Case(
        "an index that is not in order",
        with_times("t", ["3", "0", "2", "1"]),
        error="is not later than the previous row. Sort the rows with --sort",
    ),
    Case(
        "two rows with the same time",
        with_times("time", ["2020-01-01", "2020-01-02", "2020-01-02"]),
        error="'2020-01-02' is also the time of row 3. Remove one of them",
    ),
    Case(
        "rows of several stations",
        "time,site,a,b\n2020-01-01,N,1.5,20\n2020-01-02,N,2.5,21\n2020-01-01,S,1,19\n2020-01-02,S,3.5,23\n",
        error="name a column of independent sequences with --group",
    ),
    Case(
        "the same with `--group`",
        "time,site,a,b\n2020-01-01,N,1.5,20\n2020-01-02,N,2.5,21\n2020-01-01,S,1,19\n2020-01-02,S,3.5,23\n",
        ("--group", "site"),
        time=("time",),
        step="1 d",
        messages=("group: site; 2 sequences",),
    ),
    Case(
        "a row without a time",
        with_times("time", ["2020-01-01", "", "2020-01-03"]),
        error="row 3, column 'time': the row has no time. Fill it in, remove the row",
    ),
    Case(
        "`--time` with a column of texts that are not dates",
        "when,a,b\nspring,1,20\nsummer,2,21\nautumn,3,19\n",
        ("--time", "when"),
        error="not read as times: 'spring', 'summer', 'autumn'. Set the format of all times with "
        "--date-format",
    ),
    # Columns that are not data
    Case(
        "row numbers and station numbers",
        "time,record_id,station,a,b\n2020-01-01,7,3,1.5,20\n2020-01-02,8,3,2.5,21\n2020-01-03,9,3,1,19\n",
        time=("time",),
        step="1 d",
        messages=("record_id, station (an identifier",),
    ),
    Case(
        "a name that ends in `NO2`",
        "time,sensor_NO2,b\n2020-01-01,1000,20\n2020-01-02,1100,21\n2020-01-03,990,19\n",
        data=("sensor_NO2", "b"),
        time=("time",),
        step="1 d",
    ),
    Case(
        "a column of row numbers without a name, and dates",
        ",date,a,b\n140,2020-01-01,1.5,20\n141,2020-01-02,2.5,21\n142,2020-01-03,1,19\n",
        time=("date",),
        step="1 d",
        messages=("(no name) (counts the rows",),
    ),
    Case(
        "text",
        "time,note,a,b\n2020-01-01,dry,1.5,20\n2020-01-02,,2.5,21\n2020-01-03,wet,1,19\n",
        time=("time",),
        step="1 d",
        messages=("note (text)",),
    ),
    Case(
        "a constant column, and a column of zeros and ones",
        "a,b,unit,open\n1.5,20,7,0\n2.5,21,7,1\n1.0,19,7,1\n",
        data=("a", "b", "unit", "open"),
        messages=("unit: constant", "open: only zeros and ones"),
    ),
    Case(
        "two columns with the same name",
        "a,a,b\n1.5,1,20\n2.5,2,21\n1,3,19\n",
        error="2 columns have the name 'a'",
    ),
    Case(
        "a delimiter at the end of each row of data",
        "a,b\n1.5,20,\n2.5,,\n1.0,19,\n",
        messages=("16.7 % of the values missing", "left out: (no name) (empty)"),
    ),
    Case("a column that `--exclude` leaves out", "a,b,c\n1.5,20,x1\n2.5,21,4\n1,19,5\n", ("--exclude", "c")),
    Case(
        "a column without values",
        "a,b,c\n1.5,20,\n2.5,21,\n1,19,\n",
        error="column 'c' has no values. Exclude it",
    ),
    # Numbers
    Case(
        "values that are not numbers",
        "a,b\n1.5,20\n2.5,x\n1.0,--\n2.0,x\n",
        error="column 'b': 'x' (2, first in row 3), '--' (1, first in row 4). Give --missing-code=x,-- if",
    ),
    Case(
        "`1,234` in quotes",
        'a,b\n1.5,"1,234"\n2.5,"2,345"\n1.0,19\n',
        error="--decimal or --thousands if they are numbers written in another way",
    ),
    Case(
        "the same with `--thousands ,`",
        'a,b\n1.5,"1,234"\n2.5,"2,345"\n1.0,"1,234,567.5"\n',
        ("--thousands", ","),
        values={"b": (1234, 2345, 1234567.5)},
    ),
    Case(
        "`1.234,5` with `--decimal , --thousands .`",
        "a;b\n1,5;1.234,5\n2,5;21\n1;19\n",
        ("--decimal", ",", "--thousands", "."),
        values={"a": (1.5, 2.5, 1), "b": (1234.5, 21, 19)},
    ),
    Case(
        "decimal commas",
        "a;b\n1,5;20\n2,5;21\n1,0;19\n",
        messages=("decimal comma",),
        values={"a": (1.5, 2.5, 1.0)},
    ),
    Case(
        "several codes for missing",
        "a,b\n1.5,-999\n-99.9,21\n1.0,?\n2.0,5\n",
        ("--missing-code", "-999,-99.9", "--missing-code", "?"),
        messages=("37.5 % of the values missing",),
    ),
    Case(
        "-999 in more than 1 % of the rows",
        "a,b\n1.5,-999\n2.5,21\n1.0,19\n2.0,20\n",
        error="likely codes for missing values: -999 in 'b' (1 row). Use --missing-code=-999 if they",
    ),
    Case(
        "the same with `--missing-code ''`",
        "a,b\n1.5,-999\n2.5,21\n1.0,19\n2.0,20\n",
        ("--missing-code", ""),
        messages=("0.0 % of the values missing",),
        values={"b": (-999, 21, 19, 20)},
    ),
    Case(
        "-99.9 in one row of 200",
        "a,b\n" + "\n".join(f"{i % 3},{-99.9 if i == 5 else 20 + i % 7}" for i in range(200)) + "\n",
        messages=(
            "-99.9 in 'b' (1 row) is far from all other values; if it stands for a missing value, use "
            "--missing-code=-99.9",
        ),
    ),
    Case(
        "a single value far from all others",
        "a,b\n" + "\n".join(f"{i % 3},{1048 if i == 5 else i}" for i in range(12)) + "\n",
        messages=("row 7, column 'b': 1048 lies", "standard deviations beyond all other values"),
    ),
    # Encodings and files
    Case("an empty file", "", error="the file is empty"),
    Case("UTF-16, as written by spreadsheets", "a\tb\n1.5\t20\n2.5\t21\n1.0\t19\n".encode("utf-16")),
    Case("carriage returns as line ends", "a,b\r1.5,20\r2.5,21\r1.0,19\r"),
)
