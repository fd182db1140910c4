"""Files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(*outputs: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Give temporary files to write, and put them in their places when all of them are written.

    Each lies in the folder of its output and ends as its output does. If the block fails, or is interrupted,
    none is kept and no output is touched. A symbolic link is followed: the file it points to is replaced.

    Parameters
    ----------
    *outputs : path-like
        Files to write. What is there is replaced and keeps its permissions; a new file has those that any
        new file would have.

    Yields
    ------
    list of Path
        A temporary file for each output, empty.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as [draft]:
    ...         _ = draft.write_text("done")
    ...     Path(folder, "a.txt").read_text()
    'done'
    """
    places = [Path(output).resolve() for output in outputs]
    drafts: list[Path] = []
    try:
        for place in places:
            handle, name = tempfile.mkstemp(prefix=".", suffix=f"-{place.name}", dir=place.parent)
            drafts.append(Path(name))
            os.close(handle)
        yield drafts
        for draft, place in zip(drafts, places, strict=True):
            draft.chmod(_mode(place))  # temporary files are private
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
