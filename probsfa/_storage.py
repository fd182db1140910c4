"""Saving and loading fitted models: arrays and plain text, no pickle.

A file is a NumPy archive (``.npz``) of arrays and one JSON text with the format's version, the parameters
of the estimator and its scalars. A later release reads the files of an earlier one of the same major
version of the format.
"""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._files import replacing

__all__ = ["FORMAT", "VERSION", "read", "write"]

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


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file that :func:`write` wrote.

    Parameters
    ----------
    path : path-like
        File to read.
    kind : str
        What the file must hold.

    Returns
    -------
    scalars : dict
    arrays : dict of ndarray

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a file of this package, of another kind, or of a later version of the format.
    """
    source = Path(path)
    try:
        with source.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, AttributeError, TypeError) as error:
        raise ValueError(f"{source} is not a model saved by {FORMAT}.") from error
    if header.get("format") != FORMAT or header.get("kind") != kind:
        raise ValueError(
            f"{source} does not hold a {kind} saved by {FORMAT}; it says {header.get('kind')!r}."
        )
    if header["version"] > VERSION:
        raise ValueError(
            f"{source} has version {header['version']} of the format; this release reads up to {VERSION}. "
            f"Install a newer {FORMAT}."
        )
    return header, arrays
