"""Cache of compiled JAX programs on disk."""

import os
import stat
from pathlib import Path

__all__ = ["enable_compilation_cache"]

# JAX would not cache programs that compile within a second; the package has many of these.
_ALL_PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


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
        If the folder cannot be created. Also if another user owns the folder, or all users may write to it:
        programs in the folder are executed.

    Examples
    --------
    >>> import probsfa
    >>> folder = probsfa.enable_compilation_cache("build/programs")  # doctest: +SKIP
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "probsfa"
    folder = Path(default if path is None else path).resolve()
    _restrict_permissions(folder)
    for name, value in {**_ALL_PROGRAMS, "jax_compilation_cache_dir": str(folder)}.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for processes that are started later
    compilation_cache.reset_cache()  # an open cache would remain in the old folder
    return folder


def _restrict_permissions(folder: Path) -> None:
    """Make a private folder; raise an error if another user owns the folder, or all users can write to it."""
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
