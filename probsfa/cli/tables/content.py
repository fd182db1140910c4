"""The bytes of a data file: from a path or from standard input, unpacked, in an encoding that cuts safely."""

import gzip
import io
import sys
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from probsfa.cli._errors import CommandError
from probsfa.cli._outputs import is_standard_stream

__all__ = ["Content", "check_written_as_text", "read_content", "write_content"]

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_BOOK_MEMBER = "xl/workbook.xml"
# Text packs by a few times; what unpacks to thousands of times its size is no table.
_MOST_UNPACKED, _MOST_RATIO = 2**30, 200


@dataclass(frozen=True)
class Content:
    """The text of a data file.

    Attributes
    ----------
    source : str
        What the file is called in messages.
    data : bytes
        Its text, in UTF-8 or Latin-1, where delimiters and line ends are single bytes.
    codec : {"utf-8", "latin-1"}
        Which of the two.
    encoding : str
        The encoding of the file itself.
    bom : bytes
        The byte order mark that it begins with.
    """

    source: str
    data: bytes
    codec: str
    encoding: str
    bom: bytes = b""

    def encoded(self, data: bytes) -> bytes:
        """Return other text, given as `data` is, in the encoding of the file, without its mark."""
        return data if self.encoding == self.codec else data.decode(self.codec).encode(self.encoding)


def read_content(path: Path) -> Content:
    """Read a data file, or standard input where the path is "-".

    Content of gzip is unpacked, and a zip archive that holds a single file. Tables of Parquet and of Excel
    are read by pandas and go on as comma-separated text.

    Parameters
    ----------
    path : Path
        The file; what it holds is told from its content, not from its name.

    Returns
    -------
    Content

    Raises
    ------
    CommandError
        If the file cannot be read or unpacked, or is not text.
    """
    source = "standard input" if is_standard_stream(path) else str(path)
    try:
        data = sys.stdin.buffer.read() if is_standard_stream(path) else path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = _limited(source, gzip.GzipFile(fileobj=io.BytesIO(data)), len(data))
        if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            data = _unzipped(source, data)
        elif data[:4] == b"PAR1" == data[-4:]:
            data = _by_pandas(source, "parquet", data)
        elif data[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            data = _by_pandas(source, "excel", data)
    except FileNotFoundError:
        raise CommandError(f"{source}: there is no such file.") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"{source}: cannot be read ({reason}).") from None
    return _decoded(source, data)


def check_written_as_text(path: Path) -> None:
    """Refuse the name of an output that promises a table of a binary format.

    Raises
    ------
    CommandError
        If it does.
    """
    if path.suffix.lower() in (".xlsx", ".xls", ".ods", ".parquet", ".feather", ".pq"):
        raise CommandError(f"{path}: tables are written as text; let the name end in .csv, .csv.gz or .zip.")


def write_content(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the bytes of a file, piece by piece, packed where the name ends in .gz or .zip."""
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
            file = cast(IO[bytes], stack.enter_context(packed))
        if path.suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED))
            member = zipfile.ZipInfo("data.csv")  # of no date: the same data give the same file
            member.compress_type = zipfile.ZIP_DEFLATED
            file = stack.enter_context(archive.open(member, "w"))
        for piece in pieces:
            file.write(piece)


def _decoded(source: str, data: bytes) -> Content:
    """Recognise the encoding of bytes."""
    bom, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8"))
    data = data[len(bom) :] if bom else data
    if encoding != "utf-8":
        try:
            content = Content(source, data.decode(encoding).encode(), "utf-8", encoding, bom)
        except UnicodeError:
            raise CommandError(f"{source}: begins like UTF-16 and is not; save it as UTF-8.") from None
    elif _is_utf8(data):
        content = Content(source, data, "utf-8", "utf-8", bom)
    else:  # reads any bytes, and writes the same ones
        content = Content(source, data, "latin-1", "latin-1", bom)
    if b"\0" in content.data:
        raise CommandError(f"{source}: not a text file.")
    return content


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _unzipped(source: str, data: bytes) -> bytes:
    """Unpack the one file of a zip archive, or read the workbook that it is."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if _BOOK_MEMBER in archive.namelist():
            return _by_pandas(source, "excel", data)
        members = [
            info for info in archive.infolist() if not info.is_dir() and "__MACOSX" not in info.filename
        ]
        if len(members) != 1:
            names = ", ".join(info.filename for info in members[:5]) or "none"
            raise CommandError(
                f"{source}: an archive must hold one file, this one has {len(members)}: {names}."
            )
        if members[0].flag_bits & 1:
            raise CommandError(f"{source}: the archive asks for a password; unpack it first.")
        with archive.open(members[0]) as member:
            return _limited(source, member, len(data))


def _limited(source: str, stream: IO[bytes] | gzip.GzipFile, packed: int) -> bytes:
    """Read a packed stream, as long as its size is that of text."""
    most = max(_MOST_UNPACKED, _MOST_RATIO * packed)
    data: bytes = stream.read(most + 1)
    if len(data) > most:
        raise CommandError(f"{source}: unpacks to more than {most // 2**20} MB; unpack it yourself.")
    return data


def _by_pandas(source: str, kind: str, data: bytes) -> bytes:
    """Read a table of a binary format, as the text that pandas writes of it."""
    try:
        import pandas as pd

        frame = pd.read_parquet(io.BytesIO(data)) if kind == "parquet" else pd.read_excel(io.BytesIO(data))
    except ImportError as error:
        needed = "pyarrow" if kind == "parquet" else "openpyxl"
        raise CommandError(
            f"{source}: tables of this kind are read by pandas with {needed}, which is not installed "
            f"(pip install {needed}); or save it as CSV. ({error})"
        ) from None
    except Exception as error:  # readers of binary formats raise errors of many kinds
        raise CommandError(f"{source}: pandas cannot read it ({error}).") from None
    counted = frame.index.equals(pd.RangeIndex(len(frame)))
    text: str = frame.to_csv(index=not counted, lineterminator="\n")
    return text.encode()
