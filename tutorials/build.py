"""Build the notebooks of this folder from their sources, or check that they are up to date.

A source is a script, ``NN_name.py``, in percent format: a line that starts with ``# %%`` begins a code cell,
and ``# %% [markdown]`` a text cell, whose text is in comments. The notebook ``NN_name.ipynb`` in the same
folder also has the outputs. Execution counts, execution times and metadata of cells are omitted, so that a
rebuilt notebook differs only if the source or a result differs.

Assertions at the end of a cell become a separate cell with the tag ``remove-cell``, which the site does not
show.

A cell that raises an error or writes to standard error fails, because warnings and progress bars are not
intended for readers.

    python tutorials/build.py              build all notebooks
    python tutorials/build.py 02 03        build the notebooks whose names begin with 02 or 03
    python tutorials/build.py --check -n 2 execute all, two at a time, without writing; fail if a cell fails
                                           or if a notebook differs from its source

Requires the dependencies of ``pip install '.[docs]'``.
"""

import argparse
import ast
import json
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
MARKER = "# %%"
# Longer cells fail; whole notebooks take seconds to minutes.
CELL_TIMEOUT_SECONDS = 300
DOTS_PER_INCH = 90
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def sources(beginnings: list[str] | None = None) -> list[Path]:
    """Return all sources, or those whose names begin with one of the given texts."""
    all_sources = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
    if not beginnings:
        return all_sources
    chosen = [path for path in all_sources if path.name.startswith(tuple(beginnings))]
    for beginning in beginnings:
        if not any(path.name.startswith(beginning) for path in chosen):
            raise SystemExit(f"no source in {FOLDER.name}/ begins with {beginning!r}")
    return chosen


def notebook_of(source: Path) -> dict[str, Any]:
    """Return the notebook of a source as nested dictionaries, without outputs."""
    before, *pieces = f"\n{source.read_text(encoding='utf-8')}".split(f"\n{MARKER}")
    if before.strip():
        raise ValueError(f"{source.name}: there is text before the first {MARKER!r}")
    cells = []
    for number, piece in enumerate(pieces):
        title, _, body = piece.partition("\n")
        identity = {"id": f"{source.stem[:2]}-{number:02}", "metadata": {}}
        if title.strip() == "[markdown]":
            bare = [line.removeprefix("#").removeprefix(" ") for line in body.strip("\n").split("\n")]
            cells.append({"cell_type": "markdown", **identity, "source": lines_of("\n".join(bare))})
        elif not title.strip():
            shown, checks = split_checks(body.strip("\n"))
            if shown:
                cells.append(code_cell(identity["id"], shown))
            if checks:
                cells.append(code_cell(f"{identity['id']}-checks", checks, tags=["remove-cell"]))
        else:
            raise ValueError(f"{source.name}: {MARKER + title!r} begins a cell of an unknown kind")
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def code_cell(identity: str, text: str, **metadata: Any) -> dict[str, Any]:
    """Return a cell of code without outputs."""
    code = {"execution_count": None, "outputs": [], "source": lines_of(text)}
    return {"cell_type": "code", "id": identity, "metadata": metadata, **code}


def split_checks(code: str) -> tuple[str, str]:
    """Return the code of a cell without its final assertions, and these assertions."""
    statements = ast.parse(code).body
    n_checks = len(list(takewhile(lambda one: isinstance(one, ast.Assert), reversed(statements))))
    if not n_checks:
        return code, ""
    lines = code.split("\n")
    first = statements[-n_checks].lineno - 1
    while first and lines[first - 1].startswith("#"):  # comments on the assertions
        first -= 1
    return "\n".join(lines[:first]).rstrip("\n"), "\n".join(lines[first:])


def lines_of(text: str) -> list[str]:
    """Return a text as in notebooks, as a list of lines with their line ends."""
    return text.splitlines(keepends=True)


def without_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a notebook without its outputs."""
    bare = [{**cell, "outputs": []} if cell["cell_type"] == "code" else cell for cell in notebook["cells"]]
    return {**notebook, "cells": bare}


def is_current(source: Path) -> bool:
    """Return whether the notebook of a source has the cells of the source."""
    path = source.with_suffix(".ipynb")
    if not path.exists():
        return False
    return without_outputs(json.loads(path.read_text(encoding="utf-8"))) == notebook_of(source)


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs of its cells.

    Raises
    ------
    RuntimeError
        If a cell raises, or writes to standard error.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "matplotlibrc"
        settings.write_text(f"figure.dpi: {DOTS_PER_INCH}\n")
        os.environ |= {
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "MATPLOTLIBRC": str(settings),
            # One thread: sums do not depend on the number of cores.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "JAX_PLATFORMS": "cpu",
            # NumPyro warns at import if ipywidgets is not installed.
            "PYTHONWARNINGS": "ignore:IProgress not found",
        }
        client = NotebookClient(
            nbformat.reads(json.dumps(notebook), as_version=4),
            kernel_name="python3",
            timeout=CELL_TIMEOUT_SECONDS,
            # An empty folder: only installed packages can be imported.
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],
        )
        try:
            done = client.execute()
        except (CellExecutionError, CellTimeoutError) as error:
            raise RuntimeError(ANSI.sub("", str(error))) from None
    cells = [
        {**cell, "outputs": cleaned(ran["outputs"])} if cell["cell_type"] == "code" else cell
        for cell, ran in zip(notebook["cells"], done["cells"], strict=True)
    ]
    return {**notebook, "cells": cells}


def cleaned(outputs: list[Any]) -> list[dict[str, Any]]:
    """Return the reproducible outputs of a cell; printed text is joined."""
    clean: list[dict[str, Any]] = []
    printed: list[str] = []
    for output in outputs:
        if output["output_type"] == "stream":
            if output["name"] == "stderr":
                raise RuntimeError(f"a cell wrote to standard error:\n{output['text']}")
            printed.append(output["text"])
        elif output["output_type"] == "display_data":
            data = {
                kind: text.strip() if kind == "image/png" else lines_of(text)
                for kind, text in sorted(output["data"].items())
            }
            clean.append({"data": data, "metadata": {}, "output_type": "display_data"})
        else:
            raise RuntimeError(f"a cell ends in an expression, whose value a script would not show: {output}")
    if printed:
        text = {"name": "stdout", "output_type": "stream", "text": lines_of("".join(printed))}
        clean.insert(0, text)
    return clean


def run(source: Path, check: bool) -> tuple[str, float, str]:
    """Execute a source, and write its notebook unless `check`; return name, seconds, and the error or ""."""
    begin = time.perf_counter()
    error_text = ""
    try:
        notebook = executed(notebook_of(source))
        if not check:
            text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
            source.with_suffix(".ipynb").write_text(text, encoding="utf-8")
        elif not is_current(source):
            error_text = (
                f"{source.stem}.ipynb differs from its source: `python tutorials/build.py {source.stem[:2]}`"
            )
    except (RuntimeError, ValueError) as error:
        error_text = str(error)
    return source.stem, time.perf_counter() - begin, error_text


def main() -> int:
    """Build or check notebooks; return 1 after an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names (default: all)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a notebook is not up to date"
    )
    parser.add_argument(
        "-n", type=int, default=1, metavar="N", help="number of parallel processes (default: 1)"
    )
    args = parser.parse_args()
    chosen = sources(args.names)
    failed = 0
    with ProcessPoolExecutor(args.n) as pool:
        for name, seconds, error_text in pool.map(run, chosen, [args.check] * len(chosen)):
            failed += bool(error_text)
            print(f"{name:<40} {seconds:5.0f} s  {'FAILED' if error_text else 'ok'}", flush=True)
            if error_text:
                print(error_text, file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
