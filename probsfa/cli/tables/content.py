"""Input and output of data files, also from standard input, and of compressed files."""

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

__all__ = ["Content", "read_content", "write_content"]

_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


@dataclass(frozen=True)
class Content:
    """The text of a data file.

    Attributes
    ----------
    source, text, encoding : str
        Name of the file in messages, text without byte order mark, and encoding.
    mark : bytes
        Byte order mark.
    """

    source: str
    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self, pieces: Iterable[str]) -> Iterable[bytes]:
        """Yield the byte order mark and the pieces of another text, in the encoding of the file."""
        yield self.mark
        for piece in pieces:
            yield piece.encode(self.encoding)


def read_content(path: Path) -> Content:
    """Read the text of a data file, or standard input if the path is "-"; gzip and zip are unpacked."""
    source = "standard input" if is_standard_stream(path) else str(path)
    try:
        data = sys.stdin.buffer.read() if is_standard_stream(path) else path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            data = _unzipped(source, data)
    except FileNotFoundError:
        raise CommandError(f"{source}: there is no such file.") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"{source}: cannot be read ({reason}).") from None
    return _decoded(source, data)


def write_content(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the bytes of a file piece by piece, compressed if the name ends in .gz or .zip."""
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
            file = cast(IO[bytes], stack.enter_context(packed))
        if path.suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED))
            member = zipfile.ZipInfo("data.csv")  # without a date, so that equal data have equal files
            member.compress_type = zipfile.ZIP_DEFLATED
            file = stack.enter_context(archive.open(member, "w"))
        file.writelines(pieces)


def _decoded(source: str, data: bytes) -> Content:
    """Decode the bytes of a file: by its byte order mark, else as UTF-8, else as Latin-1."""
    byte_order_mark, encoding = next(
        (
            (byte_order_mark, name)
            for byte_order_mark, name in _BYTE_ORDER_MARKS
            if data.startswith(byte_order_mark)
        ),
        (b"", "utf-8"),
    )
    try:
        text = data[len(byte_order_mark) :].decode(encoding)
    except UnicodeError:
        if encoding != "utf-8":
            raise CommandError(
                f"{source}: has a byte order mark of UTF-16 but is not UTF-16; save it as UTF-8."
            ) from None
        byte_order_mark, encoding = b"", "latin-1"  # Latin-1 decodes any bytes, and encodes them unchanged
        text = data.decode(encoding)
    if "\0" in text:
        raise CommandError(f"{source}: not a text file; save the table as CSV.")
    return Content(source, text, encoding, byte_order_mark)


def _unzipped(source: str, data: bytes) -> bytes:
    """Return the content of the only file in a zip archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [m for m in archive.infolist() if not m.is_dir() and "__MACOSX" not in m.filename]
        if len(members) != 1:
            names = ", ".join(info.filename for info in members[:5]) or "none"
            raise CommandError(
                f"{source}: the archive must contain one file, but has {len(members)}: {names}."
            )
        return archive.read(members[0])
