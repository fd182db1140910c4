"""Files of every kind of packing come in as text."""

import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli.tables import content
from probsfa.cli.tables.content import read_content, write_content
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.table import make_table
from tests.cli.tables.changes import changes

TEXT = "time,a\n2020-01-01,1.50\n2020-01-02,\n"


@pytest.fixture
def read(tmp_path):
    """Write bytes and read them as the text of a table."""

    def read(data):
        path = tmp_path / "data.bin"
        path.write_bytes(data)
        return read_content(path)

    return read


def zipped(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


def test_packed_text(read):
    for packed in (gzip.compress(TEXT.encode()), zipped(data=TEXT), gzip.compress(zipped(data=TEXT))):
        assert read(packed).data.decode() == TEXT


def test_an_archive_of_several_files_is_refused(read):
    with pytest.raises(CommandError, match="must hold one file, this one has 2: a, b"):
        read(zipped(a=TEXT, b=TEXT))
    with pytest.raises(CommandError, match="must hold one file, this one has 0: none"):
        read(zipped())


@pytest.mark.parametrize(
    "packed", [zipped(data=TEXT)[:60], gzip.compress(TEXT.encode())[:-9]], ids=["zip", "gzip"]
)
def test_a_broken_archive_is_one_sentence(read, packed):
    with pytest.raises(CommandError, match="cannot be read") as error:
        read(packed)
    assert "\n" not in str(error.value)


def test_what_unpacks_to_far_more_than_text_does_is_refused(read, monkeypatch):
    monkeypatch.setattr(content, "_MOST_UNPACKED", 10_000)
    for packed in (gzip.compress(bytes(100_000)), zipped(data=bytes(100_000))):
        with pytest.raises(CommandError, match="unpacks to more than"):
            read(packed)


def test_parquet_is_read_by_pandas(read):
    pytest.importorskip("pyarrow")
    index = pd.date_range("2020-01-01", periods=3, freq="h", name="time")
    frame = pd.DataFrame({"a": [1.5, np.nan, 1 / 3]}, index=index)
    packed = io.BytesIO()
    frame.to_parquet(packed)
    table = make_table(read(packed.getvalue()))
    assert table.names == ("time", "a")
    np.testing.assert_array_equal(table.numbers(1, Missing()), frame["a"].to_numpy())


def test_a_workbook_is_read_by_pandas(read, monkeypatch):
    book = zipped(**{"xl/workbook.xml": "<xml/>"})
    monkeypatch.setattr(pd, "read_excel", lambda stream: pd.DataFrame({"a": [1.5, None]}))
    assert read(book).data == b'a\n1.5\n""\n'

    def without_reader(stream):
        raise ImportError("Missing optional dependency 'openpyxl'.")

    monkeypatch.setattr(pd, "read_excel", without_reader)
    with pytest.raises(CommandError, match="openpyxl, which is not installed .* or save it as CSV"):
        read(book)

    def broken(stream):
        raise KeyError("no sheet")

    monkeypatch.setattr(pd, "read_excel", broken)
    with pytest.raises(CommandError, match="pandas cannot read it"):
        read(book)


def test_without_pandas_there_is_a_sentence(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CommandError, match="read by pandas with pyarrow, which is not installed"):
        read(b"PAR1 PAR1")


def test_what_begins_like_utf_16_and_is_not(read):
    with pytest.raises(CommandError, match="begins like UTF-16 and is not"):
        read(b"\xff\xfea")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_byte_order_is_kept(read, encoding):
    data = "\ufeffa,b\n1,\n".encode(encoding)
    table = make_table(read(data))
    assert b"".join(table.filled(changes({1: {0: "9"}}))) == "\ufeffa,b\n1,9\n".encode(encoding)


def test_zip_out(tmp_path):
    write_content(tmp_path / "out.zip", [TEXT.encode()])
    assert read_content(tmp_path / "out.zip").data.decode() == TEXT
    again = (tmp_path / "out.zip").read_bytes()
    write_content(tmp_path / "out.zip", [TEXT.encode()])
    assert (tmp_path / "out.zip").read_bytes() == again
