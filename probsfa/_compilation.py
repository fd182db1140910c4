"""Cache of compiled JAX programs on disk."""

import os
import platform
import stat
import sys
from hashlib import sha256
from pathlib import Path

__all__ = ["enable_compilation_cache", "keep_programs_of_commands"]

# There are many small programs: cache also those that compile within a second.
_ALL_PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
# Size of the cache beyond which the oldest programs are removed.
_MAX_CACHE_BYTES = 2**28


def enable_compilation_cache(path: str | os.PathLike[str] | None = None) -> Path:
    """Cache compiled JAX programs on disk, for later processes.

    JAX compiles a model for each number of factors and each (rounded) length of the data, which takes seconds
    in every process. This function enables JAX's persistent compilation cache for the whole process,
    including other code that uses JAX. Call it before the first fit. Processes that are started afterwards,
    such as the workers of ``GridSearchCV(n_jobs=2)``, use the same folder, through environment variables of
    JAX (``JAX_COMPILATION_CACHE_DIR`` and two for small programs).

    Parameters
    ----------
    path : path-like, optional
        Folder of the cache, created if it does not exist. By default ``probsfa`` in the user's cache folder,
        ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    OSError
        If the folder cannot be created, or if another user owns the folder or may write to it, because its
        programs are executed.

    Examples
    --------
    >>> import probsfa
    >>> folder = probsfa.enable_compilation_cache("build/programs")  # doctest: +SKIP
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    folder = (_cache_folder() if path is None else Path(path)).resolve()
    _restrict_permissions(folder)
    for name, value in {**_ALL_PROGRAMS, "jax_compilation_cache_dir": str(folder)}.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # processes started from now on read their settings there
    compilation_cache.reset_cache()  # otherwise an open cache would keep the old folder
    return folder


def keep_programs_of_commands() -> Path | None:
    """Enable the cache of compiled programs for the command line.

    The function sets environment variables before JAX is imported, so that commands that do not use JAX need
    not import it. It has no effect if JAX has been imported, if these variables already set a folder or
    disable the cache, or if the user's cache folder is not writable.

    Each kind of processor has its own folder, because programs are compiled for its instruction set and home
    folders may be shared between machines. File names of JAX depend on everything else, such as versions of
    JAX and its compiler. The oldest files are removed if the folder is large.

    Returns
    -------
    Path or None
        The folder; None if nothing is done.

    See Also
    --------
    enable_compilation_cache : The cache in Python programs.
    """
    is_disabled = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "1").lower() in (
        "0",
        "f",
        "false",
        "n",
        "no",
        "off",
    )
    if "jax" in sys.modules or "JAX_COMPILATION_CACHE_DIR" in os.environ or is_disabled:
        return None
    try:
        folder = _cache_folder() / f"commands-{_processor()}"
        _restrict_permissions(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
        _delete_oldest(folder)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return None
    for name, value in {**_ALL_PROGRAMS, "jax_compilation_cache_dir": str(folder)}.items():
        os.environ.setdefault(name.upper(), str(value))
    return folder


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "probsfa"


def _restrict_permissions(folder: Path) -> None:
    """Make a private folder; raise an error for a folder into which another user can write."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name != "posix":  # other systems have no permission bits
        return
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(
            f"{folder} belongs to user {status.st_uid}, not to user {os.geteuid()}, who would run the "
            "programs in it. Use a folder of your own."
        )
    if status.st_mode & stat.S_IWOTH:
        raise PermissionError(
            f"{folder} can be written to by any user, who could put programs there. Run chmod 700 {folder}, "
            "or use another folder."
        )


def _processor() -> str:
    """Return a short identifier of the kind of processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().partition("\n\n")[0].splitlines()  # of the first processor
        lines_of_processor = [
            line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
        ]
    except OSError:  # not available on every system
        lines_of_processor = [platform.processor()]
    return sha256("\n".join([platform.machine(), *lines_of_processor]).encode()).hexdigest()[:12]


def _delete_oldest(folder: Path) -> None:
    """Remove the oldest files of a folder that is too large, down to half of the limit."""
    with os.scandir(folder) as entries:
        known = [(entry.stat(), entry.path) for entry in entries]
    files = [(status.st_mtime, status.st_size, path) for status, path in known]
    total = sum(size for _, size, _ in files)
    if total <= _MAX_CACHE_BYTES:
        return
    for _, size, path in sorted(files):
        Path(path).unlink(missing_ok=True)  # another process may have removed it
        total -= size
        if total <= _MAX_CACHE_BYTES // 2:
            return
