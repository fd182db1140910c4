"""Output files: refused where they exist, written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from probsfa.cli._errors import CommandError

__all__ = ["check_outputs", "replacing"]


def check_outputs(outputs: Sequence[Path], *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Refuse output files that cannot or must not be written, before any work is done.

    Parameters
    ----------
    outputs : sequence of Path
        Files that will be written.
    force : bool
        Whether files that exist may be replaced.
    inputs : sequence of Path
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


@contextmanager
def replacing(*outputs: Path) -> Iterator[list[Path]]:
    """Give temporary files to write, and put them in their places when all of them are written.

    Each lies in the folder of its output and ends as its output does. If the block fails none is kept and no
    output is touched.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as [draft]:
    ...         _ = draft.write_text("done")
    ...     Path(folder, "a.txt").read_text()
    'done'
    """
    places = [path.resolve() for path in outputs]
    drafts: list[Path] = []
    try:
        for place in places:
            handle, name = tempfile.mkstemp(prefix=".", suffix=f"-{place.name}", dir=place.parent)
            os.close(handle)
            drafts.append(Path(name))
        yield drafts
        for draft, place in zip(drafts, places, strict=True):
            draft.chmod(_mode(place))
            draft.replace(place)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _mode(place: Path) -> int:
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
