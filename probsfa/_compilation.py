"""Keeping compiled programs between processes."""

import os
from pathlib import Path

__all__ = ["enable_compilation_cache"]

# Programs here are many and small: keep those, too, that compile within a second.
_ALL_PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def enable_compilation_cache(path: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs in a folder, for all later processes that use the same one.

    The models are compiled by JAX for each number of latents and each (rounded) length of the data, which
    takes a second or two the first time in every process. With the cache that is once for a machine. This
    sets JAX's own persistent compilation cache, for the whole process: other code that uses JAX shares it.
    Call it before the first fit. Processes that this one starts afterwards, such as the workers of
    ``GridSearchCV(n_jobs=2)``, use the folder as well: the settings are handed on in environment variables
    of JAX (``JAX_COMPILATION_CACHE_DIR`` and two for small programs). Without this call nothing is kept,
    unless you have set JAX's cache yourself (the variable ``JAX_COMPILATION_CACHE_DIR`` does it without a
    call, for programs that take longer than a second to compile).

    Parameters
    ----------
    path : path-like, optional
        Folder to keep programs in, made where it does not exist. By default ``probsfa`` in the user's folder
        for caches: ``$XDG_CACHE_HOME``, or ``~/.cache``.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    OSError
        If the folder cannot be made.

    Examples
    --------
    >>> import probsfa
    >>> folder = probsfa.enable_compilation_cache("build/programs")  # doctest: +SKIP
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = (home / "probsfa" if path is None else Path(path)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in {**_ALL_PROGRAMS, "jax_compilation_cache_dir": str(folder)}.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # processes started from now on read their settings there
    compilation_cache.reset_cache()  # a cache that was looked up before has the old folder
    return folder
