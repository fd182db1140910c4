"""Output files, which are not replaced without --force, and standard output."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from probsfa._files import is_special_file, replacing
from probsfa.cli._errors import CommandError

__all__ = ["STANDARD_STREAM", "check_outputs", "is_standard_stream", "writing"]

STANDARD_STREAM = "-"


def is_standard_stream(path: Path | None) -> bool:
    """Return whether a path is "-", which means standard input or output.

    Examples
    --------
    >>> is_standard_stream(Path("-")), is_standard_stream(Path("./-.csv"))
    (True, False)
    """
    return str(path) == STANDARD_STREAM


def check_outputs(outputs: Sequence[Path], *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise an error for output files that cannot or must not be written, before any computation.

    Existing pipes and character devices do not require `force`, because they are not replaced. Block devices
    require `force`, because writing destroys their content.

    Parameters
    ----------
    outputs : sequence of Path
        Files to write; "-" is standard output.
    force : bool
        Whether existing files may be replaced.
    inputs : sequence of Path, default=()
        Input files, which are never replaced.

    Raises
    ------
    CommandError
        If a file exists without `force`, is an input, is given twice, or its folder does not exist.
    """
    if sum(map(is_standard_stream, outputs)) > 1:
        raise CommandError("-: only one output can go to standard output.")
    input_paths = {path.resolve() for path in inputs if not is_standard_stream(path)}
    earlier_outputs: set[Path] = set()
    for path in outputs:
        if is_standard_stream(path):
            continue
        if is_special_file(path):
            _check_special_file(path, force)
            continue
        resolved = path.resolve()
        if resolved in input_paths:
            raise CommandError(f"{path}: is the input file; write to another one.")
        if resolved in earlier_outputs:
            raise CommandError(f"{path}: is given for two outputs; use different names.")
        earlier_outputs.add(resolved)
        if path.is_dir():
            raise CommandError(f"{path}: is a folder; use the name of a file.")
        if not resolved.parent.is_dir():
            raise CommandError(f"{path}: there is no folder {resolved.parent}.")
        if not os.access(resolved.parent, os.W_OK):
            raise CommandError(f"{path}: the folder {resolved.parent} cannot be written to.")
        if path.exists() and not force:
            raise CommandError(f"{path}: exists already; replace it with --force.")


def _check_special_file(path: Path, force: bool) -> None:
    """Raise an error for a device or pipe that cannot be written to."""
    mode = path.stat().st_mode
    if stat.S_ISSOCK(mode):
        raise CommandError(f"{path}: is a socket; use the name of a file.")
    if stat.S_ISBLK(mode) and not force:
        raise CommandError(f"{path}: is a disk; overwrite its content with --force.")
    if not os.access(path, os.W_OK):
        raise CommandError(f"{path}: cannot be written to.")


@contextmanager
def writing(*outputs: Path) -> Iterator[list[Path]]:
    """Yield temporary files, which replace the outputs at the end of the block.

    The temporary file of the output "-" is copied to standard output. Nothing is written after an error.

    Parameters
    ----------
    *outputs : Path
        Files to write; "-" is standard output.

    Yields
    ------
    list of Path
        An empty temporary file for each output.
    """
    files = [path for path in outputs if not is_standard_stream(path)]
    with tempfile.TemporaryDirectory() as folder, replacing(*files) as temporary_files:
        remaining, stream = iter(temporary_files), Path(folder, "output")
        stream.touch()
        yield [stream if is_standard_stream(path) else next(remaining) for path in outputs]
        if len(files) < len(outputs):
            sys.stdout.flush()
            with stream.open("rb") as source:
                shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()
