"""Output files: refused where they exist."""

import os
from collections.abc import Sequence
from pathlib import Path

from probsfa.cli._errors import CommandError

__all__ = ["check_outputs"]


def check_outputs(outputs: Sequence[Path], *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Refuse output files that cannot or must not be written, before any work is done.

    Parameters
    ----------
    outputs : sequence of Path
        Files that will be written.
    force : bool
        Whether files that exist may be replaced.
    inputs : sequence of Path, default=()
        Files that are read, which are never replaced.

    Raises
    ------
    CommandError
        If a file exists and `force` is not set, is an input, is given twice, or its folder does not exist.
    """
    read = {path.resolve() for path in inputs}
    seen: set[Path] = set()
    for path in outputs:
        place = path.resolve()
        if place in read:
            raise CommandError(f"{path}: is the input file; write to another one.")
        if place in seen:
            raise CommandError(f"{path}: is given for two outputs.")
        seen.add(place)
        if path.is_dir():
            raise CommandError(f"{path}: is a folder; give the name of a file.")
        if not place.parent.is_dir():
            raise CommandError(f"{path}: there is no folder {place.parent}.")
        if not os.access(place.parent, os.W_OK):
            raise CommandError(f"{path}: the folder {place.parent} cannot be written to.")
        if path.exists() and not force:
            raise CommandError(f"{path}: exists already; replace it with --force.")
