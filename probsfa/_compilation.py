"""Keeping compiled programs between processes."""

import os
from pathlib import Path

__all__ = ["enable_compilation_cache"]


def enable_compilation_cache(path: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs in a folder, for all later processes that use the same one.

    The models are compiled by JAX for each number of latents and each (rounded) length of the data, which
    takes a second or two the first time in every process. With the cache that is once for a machine. This
    sets JAX's own persistent compilation cache, for the whole process: other code that uses JAX shares it.
    Call it before the first fit. Without this call nothing is kept, unless you have set JAX's cache yourself
    (the environment variable ``JAX_COMPILATION_CACHE_DIR`` does it without a call, for programs that take
    longer than a second to compile).

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
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Programs here are many and small: keep those, too, that compile within a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # a cache that was looked up before has the old folder
    return folder
