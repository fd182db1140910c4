"""Files that are written whole or not at all."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["discard_drafts", "is_written_through", "replacing"]

# Temporary files that exist now, so that whoever must end the process at once can remove them.
_drafts: set[Path] = set()


@contextmanager
def replacing(*outputs: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Give temporary files to write, and put them in their places when all of them are written.

    Each lies in the folder of its output and ends as its output does. If the block fails, or is interrupted,
    none is kept and no output is touched. A symbolic link is followed: the file it points to is replaced.
    What is no regular file, such as ``/dev/null`` or a named pipe, is never replaced: the content is written
    to it.

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
    nodes = [is_written_through(output) for output in outputs]
    places = [
        Path(output) if node else Path(output).resolve() for output, node in zip(outputs, nodes, strict=True)
    ]
    drafts: list[Path] = []
    try:
        for place, node in zip(places, nodes, strict=True):
            folder = None if node else place.parent
            handle, name = tempfile.mkstemp(prefix=".", suffix=f"-{place.name}", dir=folder)
            drafts.append(Path(name))
            _drafts.add(drafts[-1])
            os.close(handle)
        yield drafts
        # What can still fail comes first: a pipe may be closed, while renaming cannot but succeed.
        for draft, place, node in zip(drafts, places, nodes, strict=True):
            if node:
                with draft.open("rb") as source, open(place, "ab") as target:  # "wb" empties redirected files
                    shutil.copyfileobj(source, target)
        for draft, place, node in zip(drafts, places, nodes, strict=True):
            if not node:
                draft.chmod(_mode(place))  # temporary files are private
                draft.replace(place)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
            _drafts.discard(draft)


def is_written_through(output: str | os.PathLike[str]) -> bool:
    """Whether an output is no file that can be replaced: a device, a pipe, or a stream such as /dev/stdout.

    Parameters
    ----------
    output : path-like
        A name of a file, which need not exist.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_written_through(os.devnull)
    True
    >>> is_written_through("a_file_that_is_new.csv")
    False
    """
    try:
        mode = os.stat(output).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return False
    return not stat.S_ISREG(mode) or _is_stream(Path(output))


def discard_drafts() -> None:
    """Remove the temporary files of all outputs, for a process that ends without unwinding."""
    for draft in list(_drafts):
        draft.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether a name leads to an open stream of a process: /dev/stdout, /dev/fd/1, /proc/self/fd/1."""
    for _ in range(40):  # as deep as systems follow links
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / os.readlink(path)
    return False


def _mode(place: Path) -> int:
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
