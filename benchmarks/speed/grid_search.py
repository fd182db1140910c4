"""Time of a grid search over small fits with one and two workers, with and without the compilation cache.

A ``GridSearchCV`` of three numbers of factors in two folds (six fits; 400 rows, 6 columns) and the final fit
to all rows, each in a new process after its imports. With the cache (`probsfa.enable_compilation_cache` with
a temporary folder, also for the workers) the first run, which fills it, is reported separately.

    python benchmarks/speed/grid_search.py [--repeats 3]
"""

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import in_fresh_process, setting
from common.tables import Table

CHILD = """
import json, sys, time
from sklearn.model_selection import GridSearchCV
import probsfa
from probsfa.datasets import make_slow_mixture
folder, n_jobs = json.loads(sys.argv[1])
if folder is not None:
    probsfa.enable_compilation_cache(folder)
X = make_slow_mixture(400, 6, decay=[0.99, 0.9, 0.6], noise_variance=0.3, random_state=0).data
search = GridSearchCV(probsfa.ProbabilisticSFA(), {"n_components": [1, 2, 3]}, cv=2, n_jobs=n_jobs)
began = time.perf_counter()
search.fit(X)
print(json.dumps(time.perf_counter() - began))
"""


def main() -> None:
    """Print the table."""
    arguments = read_options(
        __doc__,
        repeats=(3, "processes of each kind; medians are printed"),
    )
    print(setting("probsfa", "scikit-learn", "jax", "joblib"), "\n")
    rows = [("without the cache", *(median(arguments.repeats, None, n) for n in (1, 2)))]
    first, later = [], []
    for n_jobs in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            first.append(f"{seconds(folder, n_jobs):.1f}")
            later.append(median(arguments.repeats, folder, n_jobs))
    rows += [("with it, the first time (once)", *first), ("with it, from then on", *later)]
    Table("seconds", "n_jobs=1", "n_jobs=2", rows=rows)


def median(repeats: int, folder: str | None, n_jobs: int) -> str:
    """Return the median over several processes."""
    return f"{statistics.median(seconds(folder, n_jobs) for _ in range(repeats)):.1f}"


def seconds(folder: str | None, n_jobs: int) -> float:
    """Return wall-clock seconds of the search in a new process."""
    return float(in_fresh_process(CHILD, [folder, n_jobs]))


if __name__ == "__main__":
    main()
