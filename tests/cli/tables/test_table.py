"""Delimited text is read as numbers and given back as the text it was."""

import gzip
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probsfa.cli._errors import CommandError
from probsfa.cli.tables import cells as cutting
from probsfa.cli.tables import table as tables
from probsfa.cli.tables.content import write_content
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.table import read_table
from tests.cli.tables.changes import changes

NAN = np.nan


@pytest.fixture
def table(tmp_path):
    """Write text (or bytes) and read it as a table."""

    def read(content, **options):
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path, **options)

    return read


def numbers(table, column=0, codes=(), **options):
    return table.numbers(column, Missing(codes), **options)


cells = st.one_of(
    st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{0,12})?([eE]-?[0-9])?", fullmatch=True),
    st.sampled_from(["", "NA", " 1.50 ", '"2.0"', '"a, b"', '"say ""x"""', '"two\nlines"', "é", "\t7"]),
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(2, 5).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=6)
    ),
    newline=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
)
def test_untouched_text_comes_back_to_the_last_byte(tmp_path_factory, rows, newline, last, bom):
    path = tmp_path_factory.mktemp("table") / "data.csv"
    lines = [",".join(f"name{j}" for j in range(len(rows[0])))] + [",".join(row) for row in rows]
    # A last cell that says something, so that no row counts as the empty end of a file.
    text = newline.join([*lines, ",".join(["1"] * len(rows[0]))]) + (newline if last else "")
    content = text.encode("utf-8-sig" if bom else "utf-8")
    path.write_bytes(content)
    found = read_table(path, delimiter=",")
    assert len(found.rows) == len(rows) + 1
    assert b"".join(found.filled(changes({}))) == content


@pytest.mark.parametrize(
    ("cell", "filled"),
    [("", "9"), (" ", "9 "), ("NA", "9"), (" NA ", " 9 "), ('""', '"9"'), ('"NA"', '"9"'), ("-200", "9")],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_filling_replaces_the_cell_alone(table, cell, filled, newline):
    content = newline.join(["a,b,c", f"1.0,2,{cell}", f"{cell},3.50,1e3", "1,1,1", ""])
    found = table(content.encode())
    new = b"".join(found.filled(changes({0: {1: "9"}, 2: {0: "9"}})))
    assert new.decode() == newline.join(["a,b,c", f"1.0,2,{filled}", f"{filled},3.50,1e3", "1,1,1", ""])


def test_a_filled_number_with_the_delimiter_in_it_is_quoted(table):
    found = table("a,b\n,1\n2,1\n", delimiter=",")
    assert b"".join(found.filled(changes({0: {0: "0,5"}}))) == b'a,b\n"0,5",1\n2,1\n'


@pytest.mark.parametrize(
    "text", ["", "NA", "nan", "NaN", "N/A", "null", "NULL", "None", "<NA>", '""', '"NA"', "  "]
)
def test_what_always_means_missing(table, text):
    np.testing.assert_array_equal(numbers(table(f"a,b\n{text},1\n2.5,1\n")), [NAN, 2.5])


@pytest.mark.parametrize("text", ["-200", "-200.0", "-2e2", " -200", '"-200"'])
def test_a_missing_code_that_is_a_number_has_many_spellings(table, text):
    np.testing.assert_array_equal(numbers(table(f"a,b\n{text},1\n2.5,1\n"), codes=["-200"]), [NAN, 2.5])


def test_a_missing_code_that_is_a_word(table):
    np.testing.assert_array_equal(numbers(table("a,b\nbad,1\n2,1\n"), codes=["?", "BAD"]), [NAN, 2.0])


@pytest.mark.parametrize(
    "text", ["abc", "1.2.3", "1_000", "inf", "-Infinity", "1e999", "0x10", "1 2", "--1", "5%"]
)
def test_a_bad_cell_is_named_by_file_row_and_column(table, text):
    found = table(f"a,b\n1,2\n3,{text}\n")
    with pytest.raises(
        CommandError, match=rf"data\.csv: row 3, column 'b': {re.escape(repr(text))} is not a"
    ):
        numbers(found, 1)


def test_a_long_bad_cell_is_shortened(table):
    with pytest.raises(CommandError, match=r"'x{37}\.\.\.' is not"):
        numbers(table("a,b\n1,2\n" + "x" * 500 + ",4\n"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_guessed(table, delimiter):
    lines = ["time a b".split(), "2020-01-01 1.5 2".split(), "2020-01-02 2.5 3".split()]
    found = table("\n".join(delimiter.join(line) for line in lines))
    assert found.delimiter == delimiter
    np.testing.assert_array_equal(numbers(found, 1), [1.5, 2.5])


def test_delimiter_is_not_guessed_from_quoted_text(table):
    assert table('"a;b;c",x\n"1;2;3",5\n"1;2;3",6\n').delimiter == ","


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("rows", [1, 2, 30])
@pytest.mark.parametrize("header", [["t", "a"], ["a", "b", "c"], []])
def test_delimiter_and_decimal_comma_are_guessed(table, delimiter, rows, header):
    width = len(header) or 2
    cells = [[f"{i + 1},{j}5" for j in range(width)] for i in range(rows)]
    found = table("\n".join(delimiter.join(line) for line in ([header] if header else []) + cells))
    assert (found.delimiter, found.style.decimal, found.named) == (delimiter, ",", bool(header))
    np.testing.assert_allclose(numbers(found, 1), np.arange(1, rows + 1) + 0.15)


def test_a_decimal_comma_in_quotes_is_guessed_where_the_comma_is_the_delimiter_too(table):
    found = table('t,a\n1,"1,5"\n2,"2,25"\n')
    assert (found.delimiter, found.style.decimal) == (",", ",")
    np.testing.assert_array_equal(numbers(found, 1), [1.5, 2.25])


@pytest.mark.parametrize("cells", [("1,234", "12,345,678"), ("1,5", "2.5")], ids=["thousands", "both marks"])
def test_a_decimal_mark_that_is_not_clear_is_left_to_the_user(table, cells):
    found = table("a;b\n{};1\n{};2\n".format(*cells))
    with pytest.raises(CommandError, match=r"row 2, column 'a': '1,\d+' is not a number.* --decimal ,"):
        numbers(found)
    assert numbers(table("a;b\n1,234;1\n", decimal=","))[0] == 1.234


def test_a_point_in_a_file_of_decimal_commas_is_no_number(table):
    found = table("a;b\n1,5;1.234,5\n", decimal=",")
    with pytest.raises(CommandError, match=r"column 'b': '1\.234,5' is not a"):
        numbers(found, 1)


def test_a_wrong_delimiter_is_recognised(table):
    found = table("a;b\n1;2\n3;4\n", delimiter=",")
    with pytest.raises(
        CommandError, match=r"row 2, column 'a;b': '1;2' is not a number; is ',' the delimiter"
    ):
        numbers(found)


@pytest.mark.parametrize(
    ("content", "row", "has"), [("a,b\n1,2\n3\n", 3, "1 cell"), ("a,b\n1,2,3,4\n", 2, "4 cells")]
)
def test_ragged_rows_are_named(table, content, row, has):
    with pytest.raises(CommandError, match=rf"row {row} has {has} where 2 were expected"):
        table(content)


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
def test_header(table, first, header, names):
    found = table(f"{first}\n1,2\n", header=header)
    assert found.names == names
    assert len(found.rows) == (1 if found.named else 2)


def test_row_names_without_a_header_are_a_column(table):
    found = table('"x","y"\n"1",5,6\n"2",7,8\n')
    assert found.names == ("", "x", "y")
    np.testing.assert_array_equal(numbers(found, 2), [6.0, 8.0])


def test_rows_with_nothing_in_them(table):
    # In the middle they are rows in which everything is missing; spreadsheets leave more of them at the end.
    found = table("a,b\n1,2\n,\n3,4\n,\n,\n\n")
    np.testing.assert_array_equal(numbers(found), [1.0, NAN, 3.0])
    assert b"".join(found.filled(changes({0: {1: "9"}}))) == b"a,b\n1,2\n9,\n3,4\n,\n,\n\n"
    assert found.n_blank == 2


def test_blank_lines(table):
    np.testing.assert_array_equal(numbers(table("a,b\n\n1,2\n\n3,4\n")), [1.0, 3.0])
    # In a table of one column a blank line is the only way to leave a cell empty.
    np.testing.assert_array_equal(numbers(table("a\n1\n\n3\n")), [1.0, NAN, 3.0])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_are_kept(table, tmp_path, encoding):
    content = "Temp °C,b\n1,2\n,4\n".encode(encoding)
    found = table(content)
    assert found.names == ("Temp °C", "b")
    write_content(tmp_path / "out.csv", found.filled(changes({0: {1: "5"}})))
    assert (tmp_path / "out.csv").read_bytes() == "Temp °C,b\n1,2\n5,4\n".encode(encoding)


def test_gzip_in_and_out(table, tmp_path):
    np.testing.assert_array_equal(numbers(table(gzip.compress(b"a,b\n1,2\n", mtime=0))), [1.0])
    write_content(tmp_path / "out.csv.gz", [b"a,b\n"])
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == b"a,b\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"a,b\n", "a header and no data"),
        (b"a,b\n\0\0,1\n", "not a text file"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "cannot be read"),
        (b'a,b\n"1,2\n', "row 2 has a quotation mark in the wrong place"),
        (b'a,b\n1,2\n"1"x,2\n', "row 3 has a quotation mark in the wrong place"),
    ],
)
def test_files_that_are_no_tables(table, content, message):
    with pytest.raises(CommandError, match=message):
        table(content)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(CommandError, match=r"none\.csv: there is no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(CommandError, match="cannot be read"):
        read_table(Path(tmp_path))


def memory(run):
    """What something gives, the memory that it holds, and the most that was held on the way."""
    tracemalloc.start()
    try:
        return run(), *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["c0", '"c0"'], ids=["no quotes", "quotes"])
def test_a_table_takes_a_few_times_the_memory_of_its_file(tmp_path, monkeypatch, name):
    # What does not grow with the file.
    monkeypatch.setattr(cutting, "_CHUNK", 2**16)
    monkeypatch.setattr(tables, "_ENOUGH_CELLS", 1000)
    rng = np.random.default_rng(0)
    lines = [",".join(f"{value:.3f}" for value in row) for row in rng.standard_normal((20_000, 10))]
    text = "\n".join([",".join([name, *"bcdefghij"]), *lines, ""])
    path = tmp_path / "data.csv"
    path.write_text(text)
    table, held, most = memory(lambda: read_table(path))
    assert held < 4.0 * len(text)
    assert most < 9.0 * len(text)
    _, _, most = memory(lambda: table.numbers(3, Missing()))
    assert most < 2.5 * len(text)
    pieces = table.filled(changes({3: dict.fromkeys(range(0, 20_000, 20), "1.5")}))
    _, _, most = memory(lambda: sum(map(len, pieces)))
    assert most < 2.5 * len(text)
    table.release()
    assert table.texts(0)[0] == lines[0].split(",")[0]


@settings(max_examples=200, deadline=None)
@given(
    column=st.lists(
        st.one_of(
            st.from_regex(
                r"[+-]?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,5})([eE][+-]?[0-9]{1,3})?", fullmatch=True
            ),
            st.text("0123456789+-.eE \t", max_size=6),
            st.sampled_from(["", " ", "NA", "inf", "1_0", "1e999", "-200", "0x1", "٣", "nan"]),
        ),
        min_size=1,
        max_size=6,
    ),
    codes=st.lists(st.sampled_from(["-200", "1", "-", "?"]), max_size=2),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_columns_of_plain_numbers_are_read_as_cell_by_cell(tmp_path_factory, column, codes, newline):
    path = tmp_path_factory.mktemp("table") / "data.csv"
    path.write_bytes(newline.join(["x,y", *(f"7,{cell}" for cell in column), "7,1"]).encode())
    table, missing = read_table(path), Missing(codes)
    values, bad = table.read_numbers(1, missing)
    assert len(values) == len(column) + 1
    for i, text in enumerate([*column, "1"]):
        number = table.style.number(text.strip())
        if number in missing.numbers:
            number = None
        assert np.isnan(values[i]) if number is None else values[i] == number
        neither = table.style.number(text.strip()) is None and not missing.matches(text.strip())
        assert (i in bad) == neither
