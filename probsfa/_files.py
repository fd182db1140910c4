"""Atomic writing of files."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["discard_temporary_files", "is_special_file", "replacing"]

# Existing temporary files, which are removed if the process is terminated.
_temporary_files: set[Path] = set()
# Errors of a full disk; the system raises them without the name of the file.
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(*outputs: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Yield temporary files, which replace the outputs when all of them are written.

    A temporary file has the extension of its output, and is in the same folder. If the block fails or is
    interrupted, temporary files are removed and outputs do not change. The target of a symbolic link is
    replaced. Outputs that are not regular files, such as ``/dev/null`` or a named pipe, are not replaced: the
    data are copied to them from a temporary file in the system's folder for temporary files.

    Parameters
    ----------
    *outputs : path-like
        Files to write. An existing file is replaced and keeps its permissions; a new file has default
        permissions.

    Yields
    ------
    list of Path
        An empty temporary file for each output.

    Raises
    ------
    OSError
        If a file cannot be written; the error names the outputs if the disk is full.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as [draft]:
    ...         _ = draft.write_text("done")
    ...     Path(folder, "a.txt").read_text()
    'done'
    """
    is_special = [is_special_file(output) for output in outputs]
    paths = [
        Path(output) if special else Path(output).resolve()
        for output, special in zip(outputs, is_special, strict=True)
    ]
    temporary_files: list[Path] = []
    try:
        for path, special in zip(paths, is_special, strict=True):
            folder = None if special else path.parent
            handle, name = tempfile.mkstemp(prefix=".", suffix=f"-{path.name}", dir=folder)
            temporary_files.append(Path(name))
            _temporary_files.add(temporary_files[-1])
            os.close(handle)
        yield temporary_files
        # Writing to a pipe can fail, and therefore precedes renaming.
        for temporary_file, path, special in zip(temporary_files, paths, is_special, strict=True):
            if special:
                # The mode "wb" would empty redirected files.
                with temporary_file.open("rb") as source, open(path, "ab") as target:
                    shutil.copyfileobj(source, target)
        for temporary_file, path, special in zip(temporary_files, paths, is_special, strict=True):
            if not special:
                temporary_file.chmod(_mode(path))  # temporary files are private
                temporary_file.replace(path)
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRORS or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, ", ".join(str(output) for output in outputs)) from error
    finally:
        for temporary_file in temporary_files:
            temporary_file.unlink(missing_ok=True)
            _temporary_files.discard(temporary_file)


def is_special_file(output: str | os.PathLike[str]) -> bool:
    """Return whether an output is a device, a pipe or a stream such as /dev/stdout, which is not replaced.

    Parameters
    ----------
    output : path-like
        Name of a file, which may not exist.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_special_file(os.devnull)
    True
    >>> is_special_file("a_file_that_is_new.csv")
    False
    """
    try:
        mode = os.stat(output).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return False
    return not stat.S_ISREG(mode) or _is_stream(Path(output))


def discard_temporary_files() -> None:
    """Remove the temporary files of all outputs, before the process is terminated."""
    for temporary_file in list(_temporary_files):
        temporary_file.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Return whether a name is an open stream of a process: /dev/stdout, /dev/fd/1, /proc/self/fd/1."""
    for _ in range(40):  # the maximum number of symbolic links that Linux follows in a path
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / os.readlink(path)
    return False


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
