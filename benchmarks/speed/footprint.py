"""Size of an installation, and time to a first imputation in a new process, compared with IterativeImputer.

Sizes are those of the files of installed distributions: the package; its dependencies for ``SFA`` and for
imputation by ``ProbabilisticSFA`` (NumPy, SciPy, scikit-learn, pandas), with all of their dependencies; and
its other declared dependencies. Times are measured in new processes, alternately, with a series of 300 rows
and 6 columns of which 10 % are missing: importing NumPy, importing the estimator, ``fit``, and the
imputation. They are processor seconds, user and system time; medians.

``pip`` compiles the modules that it installs. Modules of a checkout are compiled again at each start if
``PYTHONDONTWRITEBYTECODE`` is set; this added 0.2 s to the import of the estimator. All processes therefore
share a folder of bytecode. A first round, which is not counted, fills it.

    python benchmarks/speed/footprint.py [--repeats 5]
"""

import re
import statistics
import sys
import tempfile
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import in_fresh_process, setting
from common.tables import Table

NEEDED = ("numpy", "scipy", "scikit-learn", "pandas")
DECLARED = ("jax", "numpyro", "matplotlib", "xarray", "arviz", "tqdm")

CHILD = """
import json, sys, time
began = time.process_time()
import numpy as np
with_numpy = time.process_time()
X = np.cumsum(np.random.default_rng(0).standard_normal((300, 6)), axis=0)
X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
name = json.loads(sys.argv[1])
ready = time.process_time()
if name == "IterativeImputer":
    from sklearn.experimental import enable_iterative_imputer
    from sklearn.impute import IterativeImputer
    model = IterativeImputer()
else:
    from probsfa import ProbabilisticSFA
    model = ProbabilisticSFA(**json.loads(name))
imported = time.process_time()
model.fit(X)
fitted = time.process_time()
model.transform(X) if name == "IterativeImputer" else model.impute(X)
done = time.process_time()
print(json.dumps([with_numpy - began, imported - ready, fitted - imported, done - fitted, done - began]))
"""
PARTS = ["import numpy", "import the estimator", "fit", "impute", "in all"]
IMPLEMENTATIONS = {
    "IterativeImputer": "IterativeImputer",
    "ProbabilisticSFA(2)": '{"n_components": 2}',
    "ProbabilisticSFA()": "{}",
}


def closure(names: tuple[str, ...]) -> set[str]:
    """Return distributions and all of their installed dependencies."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            waiting += [re.match(r"[\w.-]+", each)[0] for each in required if "extra ==" not in each]
    return found


def megabytes(name: str) -> float:
    """Return the size of the files of a distribution; zero for a checkout that is not installed."""
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return 0.0
    return sum(Path(file.locate()).stat().st_size for file in files if Path(file.locate()).is_file()) / 1e6


def sizes() -> None:
    """Print the table of sizes."""
    needed = closure(NEEDED)
    declared = closure((*NEEDED, *DECLARED)) - needed
    table = Table("", "distributions", "size", "the largest, MB")
    parts = (("the package", {"probsfa"}), ("needed at run time", needed), ("declared besides", declared))
    for what, names in parts:
        each = {name: megabytes(name) for name in sorted(names)}
        largest = sorted(each, key=each.__getitem__, reverse=True)[:5]
        of_largest = ", ".join(f"{name} {each[name]:.0f}" for name in largest)
        table.add(what, len(each), f"{sum(each.values()):.0f} MB", of_largest)


def main() -> None:
    """Print both tables."""
    args = read_options(
        __doc__,
        repeats=5,
    )
    print(setting("numpy", "scipy", "scikit-learn", "pandas"))
    print()
    sizes()
    print()
    runs: dict[str, list[list[float]]] = {name: [] for name in IMPLEMENTATIONS}
    with tempfile.TemporaryDirectory() as bytecode:
        for i in range(args.repeats + 1):
            for name, given in IMPLEMENTATIONS.items():
                run = in_fresh_process(CHILD, given, bytecode)
                if i:
                    runs[name].append(run)
    medians = {
        name: [statistics.median(part) for part in zip(*run, strict=True)] for name, run in runs.items()
    }
    peer = medians["IterativeImputer"][-1]
    table = Table("processor seconds", *PARTS, "times IterativeImputer")
    for name, each in medians.items():
        table.add(name, *(f"{x:.2f}" for x in each), f"{each[-1] / peer:.2f}")


if __name__ == "__main__":
    main()
