"""Compiling the library: what the build of a wheel calls, with Python's own modules alone.

It is compiled where there is a C compiler that knows vectors (GCC or Clang), and left out where there is
none: everything works without it, some of it three to seven times as slowly.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["LIBRARY", "MOST_STATES", "build", "sources_hash", "suffix"]

FOLDER = Path(__file__).resolve().parent
SOURCES = ("segments.c", "matrices.h", "pack.c", "supported.c")
#: The library, beside its sources.
LIBRARY = FOLDER / "_segments.so"
# Numbers of states that have functions of their own, and up to which others serve.
_OF_ITS_OWN, _UP_TO = 6, (32, 160)
#: The most states that there are functions for.
MOST_STATES = _UP_TO[-1]
_FLAGS = ("-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-std=gnu11")
_VECTORS = {"x86_64": ("-mavx2", "-mfma"), "AMD64": ("-mavx2", "-mfma")}


def sources_hash() -> str:
    """What tells whether a library was made of these sources."""
    digest = hashlib.sha256()
    for name in (*SOURCES, "build.py"):
        digest.update((FOLDER / name).read_bytes())
    return digest.hexdigest()[:16]


def suffix(n_states: int) -> str:
    """What names of functions for a number of states end in."""
    if n_states <= _OF_ITS_OWN:
        return str(n_states)
    return f"up_to_{next(most for most in _UP_TO if n_states <= most)}"


def build() -> str:
    """Compile the library into its place; gives the reason if it cannot be, else nothing."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    LIBRARY.unlink(missing_ok=True)
    if compiler is None:
        return "there is no C compiler"
    if os.name == "nt":  # GCC does not align vectors on the stack there
        return "it is not made on Windows"
    call, vectors = [*compiler.split(), *_FLAGS], _VECTORS.get(platform.machine(), ())
    with tempfile.TemporaryDirectory() as folder:
        units = [f"STATES={k}" for k in range(1, _OF_ITS_OWN + 1)] + [f"UP_TO={most}" for most in _UP_TO]
        commands = [
            [*call, *vectors, f"-D{unit}", "-c", str(FOLDER / "segments.c"), "-o", f"{folder}/{unit}.o"]
            for unit in units
        ]
        commands.append([*call, *vectors, "-c", str(FOLDER / "pack.c"), "-o", f"{folder}/pack.o"])
        made_of = f'-DMADE_OF="{sources_hash()}"'
        commands.append([*call, made_of, "-c", str(FOLDER / "supported.c"), "-o", f"{folder}/supported.o"])
        objects = [command[-1] for command in commands]
        # Under another name first: a library that is half written must not be found.
        made = f"{folder}/{LIBRARY.name}"
        try:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(_run, commands))
            _run([*compiler.split(), "-shared", *objects, "-o", made, "-lm"])
            part = LIBRARY.with_suffix(".part")
            shutil.copy(made, part)
            part.replace(LIBRARY)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            return f"{compiler} failed: {said.strip().splitlines()[-1] if said.strip() else error}"
    return ""


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
