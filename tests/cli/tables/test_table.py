"""Delimited text: numbers of values, and output in which all other text is unchanged."""

import csv
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.content import Content, read_content, write_content
from probsfa.cli.tables.table import MISSING, as_numbers, make_table

NAN = np.nan


def table_of(text, **options):
    return make_table(Content("data.csv", text), **options)


def numbers(text, column=0, **options):
    values, is_invalid = table_of(text, **options).numbers(column)
    return values.tolist(), np.flatnonzero(is_invalid).tolist()


def filled(text, new, **options):
    """Return the text with new values, given by row and column."""
    table = table_of(text, **options)
    return "".join(table.filled(lambda row: [(j, value) for (i, j), value in new.items() if i == row]))


cells = st.one_of(
    st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{0,12})?([eE]-?[0-9])?", fullmatch=True),
    st.sampled_from(
        ["", "NA", " 1.50 ", '"2.0"', '"a, b"', ' "a, b"', '"say ""x"""', '"two\nlines"', "é", '5"']
    ),
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(2, 5).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=6)
    ),
    newline=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_texts_of_observed_values_are_unchanged(rows, newline, last):
    width = len(rows[0])
    lines = [",".join(f"name{j}" for j in range(width))] + [",".join(row) for row in rows]
    # The last row has values, because empty final rows are not data.
    text = newline.join([*lines, ",".join(["1"] * width)]) + (newline if last else "")
    table = table_of(text, delimiter=",")
    assert table.texts.shape == (len(rows) + 1, width)
    assert "".join(table.filled(lambda row: [])) == text
    # A new value in each row changes only this value, according to the csv module.
    after = "".join(table.filled(lambda row: [(row % width, "77")]))
    read = [list(csv.reader(io.StringIO(t, newline=""), skipinitialspace=True)) for t in (text, after)]
    for row, (old, new) in enumerate(zip(*read, strict=True), start=-1):
        expected = [*old]
        if row >= 0:
            expected[row % width] = "77"
        assert [value.strip() for value in new] == [value.strip() for value in expected]


@pytest.mark.parametrize(
    ("cell", "after"),
    [("", "9"), (" ", "9 "), ("NA", "9"), (" NA ", " 9 "), ('""', '"9"'), ('"NA"', '"9"'), ("-200", "9")],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_filling_replaces_only_the_value(cell, after, newline):
    text = newline.join(["a,b,c", f"1.0,2,{cell}", f'{cell},3.50,"1e3"', "1,1,1", ""])
    expected = newline.join(["a,b,c", f"1.0,2,{after}", f'{after},3.50,"1e3"', "1,1,1", ""])
    new = {(0, 2): "9", (1, 0): "9"}
    assert (
        filled(text, new) == expected
        if cell != " "
        else filled(text, new).replace(" ", "") == expected.replace(" ", "")
    )


def test_a_filled_number_that_contains_the_delimiter_is_quoted():
    assert filled("a,b\n,1\n2,1\n", {(0, 0): "0,5"}, delimiter=",") == 'a,b\n"0,5",1\n2,1\n'


@pytest.mark.parametrize(
    "text", ["", "NA", "nan", "NaN", "N/A", "null", "NULL", "None", "<NA>", '""', '"NA"', "  "]
)
def test_texts_that_always_mean_missing(text):
    assert str(numbers(f"a,b\n{text},1\n2.5,1\n")) == str(([NAN, 2.5], []))


@pytest.mark.parametrize("text", ["-200", "-200.0", "-2e2", " -200", '"-200"'])
def test_a_missing_code_matches_all_texts_of_the_same_number(text):
    assert str(numbers(f"a,b\n{text},1\n2.5,1\n", codes=["-200"])) == str(([NAN, 2.5], []))


def test_a_missing_code_can_be_a_word():
    assert str(numbers("a,b\nbad,1\n2,1\n", codes=["?,BAD"])) == str(([NAN, 2.0], []))


@pytest.mark.parametrize(
    "text",
    ["abc", "1.2.3", "1_000", "inf", "-Infinity", "1e999", "0x10", "1 2", "--1", "5%", "1,5", "True", "1e"],
)
def test_a_text_that_is_not_a_finite_number_is_invalid(text):
    assert numbers(f"a;b\n1;2\n3;{text}\n2;4\n", 1, decimal=".") == (
        [2.0, pytest.approx(NAN, nan_ok=True), 4.0],
        [1],
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_inferred(delimiter):
    lines = ["time a b".split(), "2020-01-01 1.5 2".split(), "2020-01-02 2.5 3".split()]
    text = "\n".join(delimiter.join(line) for line in lines)
    assert table_of(text).delimiter == delimiter
    assert numbers(text, 1) == ([1.5, 2.5], [])


def test_delimiter_is_not_inferred_from_quoted_text():
    assert table_of('"a;b;c",x\n"1;2;3",5\n"1;2;3",6\n').delimiter == ","


def test_the_header_may_lack_a_name_of_the_first_column():
    rows = "".join(f"row {i};{i},5;2\n" for i in range(6))
    assert table_of(f"x, m;z\n{rows}").delimiter == ";"


def test_a_delimiter_splits_nearly_all_lines():
    assert table_of("name;unit,x\na,1\nb,2\nc,3\nd;e,4\n").delimiter == ","


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("rows", [1, 2, 30])
@pytest.mark.parametrize("header", [["t", "a"], ["a", "b", "c"], []])
def test_delimiter_and_decimal_comma_are_inferred(delimiter, rows, header):
    width = len(header) or 2
    lines = [[f"{i + 1},{j}5" for j in range(width)] for i in range(rows)]
    text = "\n".join(delimiter.join(line) for line in ([header] if header else []) + lines)
    table = table_of(text)
    assert (table.delimiter, table.decimal, table.has_header) == (delimiter, ",", bool(header))
    np.testing.assert_allclose(numbers(text, 1)[0], np.arange(1, rows + 1) + 0.15)


def test_a_decimal_comma_in_quotes_is_inferred_if_the_comma_is_the_delimiter_too():
    text = 't,a\n1,"1,5"\n2,"2,25"\n'
    table = table_of(text)
    assert (table.delimiter, table.decimal) == (",", ",")
    assert numbers(text, 1) == ([1.5, 2.25], [])


@pytest.mark.parametrize("values", [("1,234", "12,345,678"), ("1,5", "2.5")], ids=["thousands", "both marks"])
def test_an_ambiguous_decimal_mark_is_not_inferred(values):
    text = "a;b\n{};1\n{};2\n".format(*values)
    assert 0 in numbers(text)[1]
    assert numbers("a;b\n1,234;1\n", decimal=",")[0] == [1.234]


def test_with_a_decimal_comma_a_text_with_a_point_is_invalid():
    assert numbers("a;b\n1,5;1.234,5\n", 1, decimal=",")[1] == [0]


@pytest.mark.parametrize(
    ("text", "thousands", "decimal", "value"),
    [
        ("1,234,567.5", ",", ".", 1234567.5),
        ("1.234,5", ".", ",", 1234.5),
        ("1 234", " ", ".", 1234.0),
        ("1\u202f234,5", " ", ",", 1234.5),
        ("1,23", ",", ".", NAN),
        ("1,2345", ",", ".", NAN),
    ],
)
def test_groups_of_thousands(text, thousands, decimal, value):
    np.testing.assert_equal(as_numbers(pd.Series([text]), decimal, thousands), [value])


@pytest.mark.parametrize(
    ("text", "row", "n"), [("a,b\n1,2\n3\n", 3, 1), ("a,b\n1,2\n1,2,3,4\n", 3, 4), ("a,b\n1,2,3,4\n", 2, 4)]
)
def test_errors_name_rows_of_another_length(text, row, n):
    with pytest.raises(CommandError, match=f"row {row}.*{n}.*row 1.*2"):
        table_of(text)


@pytest.mark.parametrize(
    ("first", "header", "names"),
    [
        ("1.0,2", "auto", ("column 1", "column 2")),
        ("2020-01-31,2", "auto", ("column 1", "column 2")),
        ("NA,2", "auto", ("column 1", "column 2")),
        ("date,2001", "auto", ("date", "2001")),
        ("2000,2001", "yes", ("2000", "2001")),
        ("a,b", "no", ("column 1", "column 2")),
    ],
)
def test_header(first, header, names):
    table = table_of(f"{first}\n1,2\n", header=header)
    assert table.names == names
    assert len(table.texts) == (1 if table.has_header else 2)


def test_row_names_without_a_header_are_a_column():
    text = '"x","y"\n"1",5,6\n"2",7,8\n'
    assert table_of(text).names == ("", "x", "y")
    assert numbers(text, 2) == ([6.0, 8.0], [])


def test_a_delimiter_at_the_end_of_each_row_is_a_column_without_values():
    text = "x,y\n1,5,\n2,,\n"
    assert table_of(text).names == ("x", "y", "")
    assert filled(text, {(1, 1): "9"}) == "x,y\n1,5,\n2,9,\n"


def test_rows_without_values():
    # Rows of delimiters are rows of missing values, except at the end, where spreadsheets often add some.
    text = "a,b\n1,2\n,\n3,4\n,\n,\n\n"
    assert str(numbers(text)) == str(([1.0, NAN, 3.0], []))
    assert filled(text, {(1, 0): "9"}) == "a,b\n1,2\n9,\n3,4\n,\n,\n\n"
    assert table_of(text).n_blank == 2


def test_blank_lines():
    text = "a,b\n\n1,2\n\n3,\n"
    assert numbers(text) == ([1.0, 3.0], [])
    assert filled(text, {(1, 1): "9"}) == "a,b\n\n1,2\n\n3,9\n"
    assert table_of(text).rows == [2, 4]
    # In a file of one column a blank line is the only way to write a missing value.
    assert str(numbers("a\n1\n\n3\n")) == str(([1.0, NAN, 3.0], []))
    assert filled("a\r\n1\r\n\r\n3\r\n", {(1, 0): "9"}) == "a\r\n1\r\n9\r\n3\r\n"


def test_rows_of_several_lines_are_numbered_as_rows():
    text = 'note,b\n"two\nlines",2\n"x",\n'
    table = table_of(text)
    assert table.rows == [1, 2]
    assert filled(text, {(1, 1): "9"}) == text.replace('"x",', '"x",9')


def test_skipped_lines_may_contain_any_text():
    text = 'made by "a logger\n\na,b\n1,2\n,4\n'
    assert filled(text, {(1, 0): "9"}, skip_rows=2) == text.replace("\n,4", "\n9,4")
    assert table_of(text, skip_rows=2).rows == [3, 4]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_are_preserved(tmp_path, encoding):
    path, out = tmp_path / "data.csv", tmp_path / "out.csv"
    path.write_bytes("Temp °C,b\n1,2\n,4\n".encode(encoding))
    content = read_content(path)
    table = make_table(content)
    assert table.names == ("Temp °C", "b")
    write_content(out, content.encoded(table.filled(lambda row: [(0, "5")] if row == 1 else [])))
    assert out.read_bytes() == "Temp °C,b\n1,2\n5,4\n".encode(encoding)


def test_gzip_in_and_out(tmp_path):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n", mtime=0))
    assert read_content(path).text == "a,b\n1,2\n"
    write_content(path, [b"a,b\n"])
    assert gzip.decompress(path.read_bytes()) == b"a,b\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "header"),
        ('a,b\n"1,2\n', "quotation mark"),
    ],
)
def test_texts_that_are_not_tables(text, message):
    with pytest.raises(CommandError, match=message):
        table_of(text)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(CommandError, match=r"none\.csv"):
        read_content(tmp_path / "none.csv")
    with pytest.raises(CommandError, match="cannot be read"):
        read_content(Path(tmp_path))


NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@settings(max_examples=200, deadline=None)
@given(
    column=st.lists(
        st.one_of(
            st.from_regex(
                r"[+-]?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,5})([eE][+-]?[0-9]{1,3})?", fullmatch=True
            ),
            st.text("0123456789+-.eE ", max_size=6),
            st.sampled_from(
                ["", " ", "NA", "inf", "1_0", "1e999", "-200", "0x1", "٣", "nan", "infinity", "1d5"]
            ),
        ),
        min_size=1,
        max_size=6,
    ),
    codes=st.lists(st.sampled_from(["-200", "1", "-", "?"]), max_size=2),
)
def test_numbers_are_read_as_in_python(column, codes):
    text = "\n".join(["x,y", *(f"7,{cell}" for cell in column), "7,1"])
    values, invalid = numbers(text, 1, delimiter=",", decimal=".", codes=codes)
    for i, cell in enumerate([*column, "1"]):
        cell = cell.strip()
        number = float(cell) if NUMBER.fullmatch(cell) else NAN
        coded = cell.lower() in MISSING | set(codes) or number in [
            float(c) for c in codes if NUMBER.fullmatch(c)
        ]
        if coded or not np.isfinite(number):
            assert np.isnan(values[i])
        else:
            assert values[i] == pytest.approx(number, rel=1e-14)
        assert (i in invalid) == (not coded and not np.isfinite(number))
