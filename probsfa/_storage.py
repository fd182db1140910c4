"""Saving and loading fitted models: arrays and plain text, no pickle.

A file is a NumPy archive (``.npz``) of arrays and one JSON text with the format's version, the parameters
of the estimator and its scalars. A later release reads the files of an earlier one of the same major
version of the format.
"""

import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from probsfa._files import replacing

__all__ = ["FORMAT", "VERSION", "check_parameters", "kind_of", "read", "usable", "write"]

FORMAT = "probsfa"
VERSION = 1


def write(
    path: str | os.PathLike[str], kind: str, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : path-like
        File to write; what is there is replaced.
    kind : str
        What the file holds.
    scalars : dict
        What JSON can hold.
    arrays : dict of ndarray
        Arrays of numbers or text, not of objects.
    """
    header = json.dumps({"format": FORMAT, "version": VERSION, "kind": kind, **scalars}, default=_plain)
    with replacing(path) as [draft], draft.open("wb") as file:
        np.savez_compressed(file, header=np.array(header), **arrays)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved.")


def read(path: str | os.PathLike[str], *kinds: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file that :func:`write` wrote.

    Nothing is unpacked before the directory of the archive and the header of each array have been looked at,
    so that a file cannot ask for more memory than its size allows.

    Parameters
    ----------
    path : path-like
        File to read.
    *kinds : str
        What the file may hold; ``scalars["kind"]`` says what it does.

    Returns
    -------
    scalars : dict
    arrays : dict of ndarray

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a file of this package, is broken, of another kind, or of a later version of the format.
    """
    source = Path(path)
    with source.open("rb") as stream:
        try:
            arrays = _unpack(stream, os.fstat(stream.fileno()).st_size)
            header = json.loads(str(arrays.pop("header")))
        except _TooLarge as error:
            raise ValueError(f"{source} is not read: {error}") from None
        # The parsers of NumPy, zipfile, zlib and json raise a dozen kinds of errors at bytes of others.
        except Exception as error:
            raise ValueError(f"{source} is broken, or is not a model saved by {FORMAT}.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("kind") not in kinds:
        says = header.get("kind") if isinstance(header, dict) else header
        raise ValueError(
            f"{source} does not hold a {' or a '.join(kinds)} saved by {FORMAT}; it says {says!r:.80}."
        )
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{source} is broken: it has no version of the format, but {version!r:.80}.")
    if version > VERSION:
        raise ValueError(
            f"{source} has version {version} of the format; this release reads up to {VERSION}. "
            f"Install a newer {FORMAT}."
        )
    return header, arrays


@contextmanager
def usable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Where contents of a file turn out to make no model, raise a ValueError that names the file."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        said = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ValueError(f"{os.fspath(path)} holds no usable model: {said}.") from error


def check_parameters(path: str | os.PathLike[str], given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a ValueError unless all parameters that a file gives are known."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{os.fspath(path)} has parameters that this release does not know: {unknown}.")


def kind_of(path: str | os.PathLike[str]) -> Any:
    """What a file says that it holds; None where it does not say. Nothing else of it is read."""
    with Path(path).open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                member = archive.getinfo("header.npy")
                if member.file_size > _MOST_TEXT:
                    return None
                with archive.open(member) as packed:
                    return json.loads(str(_unpack_array(packed, member.file_size, True)))["kind"]
        # What is wrong with the file, :func:`read` reports. Damaged offsets raise an OSError, too.
        except Exception:
            return None


class _TooLarge(Exception):
    """A file that would take far more memory than its size allows."""


# Numbers pack to a tenth of their size at best; zeros pack better, and few of them are saved.
_MOST_BYTES, _MOST_RATIO, _MOST_MEMBERS = 2**28, 100, 1000
# A header of an array is a line; the text in ours is parameters and a sentence.
_MOST_HEADER, _MOST_TEXT = 2**16, 2**24


def _unpack(stream: BinaryIO, size: int) -> dict[str, NDArray[Any]]:
    """Arrays of an archive, none of which is larger than the directory of the archive says."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        whole = sum(member.file_size for member in members)
        if whole > max(_MOST_BYTES, _MOST_RATIO * size) or len(members) > _MOST_MEMBERS:
            raise _TooLarge(
                f"its {size} bytes hold {len(members)} arrays of {whole} bytes, which no model does."
            )
        if len({member.filename for member in members}) != len(members):
            raise ValueError("two arrays have one name")
        arrays = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as packed:
                arrays[name] = _unpack_array(packed, member.file_size, name == "header")
            # Reading to the end checks the sum of the member.
        return arrays


def _unpack_array(packed: IO[bytes], size: int, is_text: bool) -> NDArray[Any]:
    """One array, once what its header says agrees with its size."""
    version = np.lib.format.read_magic(packed)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise ValueError("an unknown version of arrays")
    shape, in_fortran_order, dtype = reader(packed, max_header_size=_MOST_HEADER)
    if dtype.kind not in "fiuU" or dtype.itemsize == 0:
        raise ValueError("an array of neither numbers nor text")
    if any(length < 0 for length in shape) or len(shape) > 5:
        raise ValueError("an array of an impossible shape")
    count = math.prod(shape)
    if count * dtype.itemsize != size - packed.tell() or (is_text and size > _MOST_TEXT):
        raise ValueError("an array of another size than its header says")
    data = packed.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize or packed.read(1):
        raise EOFError("an array that ends too early")
    array = np.frombuffer(data, dtype=dtype, count=count).copy()
    return array.reshape(shape, order="F" if in_fortran_order else "C")
