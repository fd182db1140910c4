"""Text of compressed files, archives and encodings."""

import gzip
import io
import zipfile

import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.content import read_content, write_content
from probsfa.cli.tables.table import make_table

TEXT = "time,a\n2020-01-01,1.50\n2020-01-02,\n"


@pytest.fixture
def read(tmp_path):
    """Return a function that writes bytes to a file and reads its text."""

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
        assert read(packed).text == TEXT


def test_an_archive_of_several_files_is_an_error(read):
    with pytest.raises(CommandError, match="2: a, b"):
        read(zipped(a=TEXT, b=TEXT))
    with pytest.raises(CommandError, match="0: none"):
        read(zipped())


@pytest.mark.parametrize(
    "packed", [zipped(data=TEXT)[:60], gzip.compress(TEXT.encode())[:-9]], ids=["zip", "gzip"]
)
def test_a_damaged_archive_is_one_error_message(read, packed):
    with pytest.raises(CommandError, match="cannot be read") as error:
        read(packed)
    assert "\n" not in str(error.value)


def test_invalid_text_after_a_byte_order_mark_is_an_error(read):
    with pytest.raises(CommandError, match="UTF-16"):
        read(b"\xff\xfea")


def test_binary_tables_are_errors(read):
    with pytest.raises(CommandError, match="CSV"):
        read(b"PAR1\0\0PAR1")
    with pytest.raises(CommandError, match="has 2"):
        read(zipped(**{"xl/workbook.xml": "<xml/>", "xl/styles.xml": "<xml/>"}))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_byte_order_marks_are_preserved(read, encoding):
    data = "\ufeffa,b\n1,\n".encode(encoding)
    content = read(data)
    table = make_table(content)
    assert table.names == ("a", "b")
    filled = content.encoded(table.filled(lambda row: [(1, "9")]))
    assert b"".join(filled) == "\ufeffa,b\n1,9\n".encode(encoding)


def test_zip_files_are_written_and_read(tmp_path):
    write_content(tmp_path / "out.zip", [TEXT.encode()])
    assert read_content(tmp_path / "out.zip").text == TEXT
    again = (tmp_path / "out.zip").read_bytes()
    write_content(tmp_path / "out.zip", [TEXT.encode()])
    assert (tmp_path / "out.zip").read_bytes() == again


@pytest.mark.parametrize("suffix", [".gz", ".zip"])
def test_equal_texts_are_packed_into_equal_bytes(tmp_path, monkeypatch, suffix):
    """Compressed files do not depend on the time of writing, so that they can be compared byte by byte."""
    packed = []
    for now in (1.0e9, 1.5e9):
        monkeypatch.setattr("time.time", lambda now=now: now)
        path = tmp_path / f"{now:g}{suffix}"
        write_content(path, [TEXT.encode()])
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]
