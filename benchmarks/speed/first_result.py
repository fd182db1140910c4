"""Time to the first fitted result, in new processes: imports, compilation, and the fit.

A series of 1,000 rows and 10 columns with 3 factors is fitted by the default solver in new processes, one
after the other. Parts are measured in each process: the import of ``probsfa`` and its estimator (NumPy,
SciPy, scikit-learn), the import of JAX, compilation (tracing and compiling as reported by JAX), and the rest
of the fit. "again" is a second fit in the same process, "processor" the processor time without it. With
``--cache``, ``probsfa.enable_compilation_cache`` stores the compiled programs in a temporary folder; the
first process, which fills it, is not counted.

With ``--components`` the table has seconds of tracing and compiling the posterior instead: its moments
(`smooth`) and its sums (`expected_statistics`), each for K = 1 to 8, on 1,000 and 10,000 rows with missing
values (computed row by row and in segments), every program in a separate process.

    python benchmarks/speed/first_result.py [--repeats 5] [--cache] [--components]
"""

import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import in_fresh_process
from common.tables import Table

CHILD = """
import json, sys, time
began = time.perf_counter()
import probsfa
bare = time.perf_counter()
import jax
with_jax = time.perf_counter()
probsfa.ProbabilisticSFA
imported = time.perf_counter()
folder = json.loads(sys.argv[1])
if folder is not None:
    probsfa.enable_compilation_cache(folder)
from jax import monitoring
took = {}
monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: took.__setitem__(event, took.get(event, 0.0) + seconds)
)
n_compiled = [0]
def count(event, seconds, **_):
    n_compiled[0] += event == "/jax/core/compile/backend_compile_duration"
monitoring.register_event_duration_secs_listener(count)
from probsfa.datasets import make_slow_mixture
X = make_slow_mixture(1000, 10, decay=[0.99, 0.9, 0.6], noise_variance=0.3, random_state=0).data
ready = time.perf_counter()
model = probsfa.ProbabilisticSFA(n_components=3).fit(X)
done, processor = time.perf_counter(), time.process_time()
model = probsfa.ProbabilisticSFA(n_components=3).fit(X)
again = time.perf_counter()
compiling = sum(seconds for event, seconds in took.items() if event.startswith("/jax/core/compile/"))
print(json.dumps({
    "import probsfa": bare - began,
    "import jax": with_jax - bare,
    "import the estimator": imported - with_jax,
    "compile": compiling,
    "rest of the fit": done - ready - compiling,
    "total": done - began - (ready - imported),
    "processor": processor,
    "fit again": again - done,
    "programs": n_compiled[0],
}))
"""

POSTERIOR = """
import json, sys
from jax import monitoring
import numpy as np
from probsfa._validation import Sequences
from probsfa.statespace.engine import posterior
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace
name, n_rows, k = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.standard_normal((n_rows, 10))
X[rng.random(X.shape) < 0.1] = np.nan
panel = make_panel(Sequences(X, (n_rows,)))
params = StateSpace(np.linspace(0.9, 0.3, k), rng.standard_normal((10, k)), np.ones(10), np.zeros(10))
took = []
def note(event, seconds, **_):
    if event.startswith("/jax/core/compile/"):
        took.append(seconds)
monitoring.register_event_duration_secs_listener(note)
getattr(posterior, name)(params, panel)
print(json.dumps(sum(took)))
"""


def compiling() -> None:
    """Print the time of compilation of the posterior, by number of factors."""
    cases = [(name, n) for name in ("smooth", "expected_statistics") for n in (1000, 10_000)]
    table = Table("K", *(f"{name}, {n:,} rows" for name, n in cases))
    for k in range(1, 9):
        seconds = [in_fresh_process(POSTERIOR, [name, n, k]) for name, n in cases]
        table.add(k, *(f"{x:.2f}" for x in seconds))


def measure(folder: str | None) -> dict[str, float]:
    """Return seconds of each part in a new process."""
    return in_fresh_process(CHILD, folder)


def main() -> None:
    """Print the table."""
    args = read_options(
        __doc__,
        repeats=5,
        cache=False,
        components=False,
    )
    if args.components:
        compiling()
        return
    with tempfile.TemporaryDirectory() as folder:
        kept = folder if args.cache else None
        measure(kept)  # fills the compilation cache, or those of the file system and of Python's bytecode
        runs = [measure(kept) for _ in range(args.repeats)]
    print(
        f"{platform.python_version()}, {os.cpu_count()} cores, {args.repeats} processes, cache: {args.cache}"
    )
    table = Table("seconds", "median", "least", "most")
    for part in runs[0]:
        values = [run[part] for run in runs]
        table.add(part, *(f"{f(values):.2f}" for f in (statistics.median, min, max)))


if __name__ == "__main__":
    main()
