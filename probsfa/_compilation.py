"""Cache of compiled JAX programs on disk."""

import os
import platform
import stat
import sys
from hashlib import sha256
from pathlib import Path

__all__ = ["enable_command_line_cache", "enable_compilation_cache"]

# JAX would not cache programs that compile within a second; the package has many of these.
_ALL_PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
# Maximum size of the cache; the oldest programs are then removed.
_MAX_CACHE_BYTES = 2**28


def enable_compilation_cache(path: str | os.PathLike[str] | None = None) -> Path:
    """Cache compiled JAX programs on disk, for later processes.

    JAX compiles a model for each number of factors and each (rounded) length of the data, which takes seconds
    in every process. This function enables the persistent compilation cache of JAX, also for other code in
    the same process. Processes that are started afterwards, such as the workers of
    ``GridSearchCV(n_jobs=2)``, use the same folder. Call the function before the first fit.

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
        If the folder cannot be created. Also if another user owns the folder or may write to it: programs in
        the folder are executed.

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
        os.environ[name.upper()] = str(value)  # for processes that are started later
    compilation_cache.reset_cache()  # an open cache would remain in the old folder
    return folder


def enable_command_line_cache() -> Path | None:
    """Enable the cache of compiled programs for the command line.

    The function sets environment variables before JAX is imported, so that commands without JAX do not import
    it. It has no effect if JAX has been imported, if environment variables set a folder or disable the cache,
    or if the cache folder of the user is not writable.

    Each kind of processor has a separate folder, because programs are compiled for an instruction set and
    machines may share home folders. File names of JAX depend on other properties, such as the version of JAX.
    The oldest files are removed if the folder is large.

    Returns
    -------
    Path or None
        The folder; None if the cache is not enabled.

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
            lines = file.read().partition("\n\n")[0].splitlines()  # the first processor
        identifying_lines = [
            line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
        ]
    except OSError:  # not available on every system
        identifying_lines = [platform.processor()]
    return sha256("\n".join([platform.machine(), *identifying_lines]).encode()).hexdigest()[:12]


def _delete_oldest(folder: Path) -> None:
    """Remove the oldest files of a folder that is too large, down to half of the limit."""
    with os.scandir(folder) as entries:
        entries_with_status = [(entry.stat(), entry.path) for entry in entries]
    files = [(status.st_mtime, status.st_size, path) for status, path in entries_with_status]
    total_size = sum(size for _, size, _ in files)
    if total_size <= _MAX_CACHE_BYTES:
        return
    for _, size, path in sorted(files):
        Path(path).unlink(missing_ok=True)  # another process may have removed it
        total_size -= size
        if total_size <= _MAX_CACHE_BYTES // 2:
            return
