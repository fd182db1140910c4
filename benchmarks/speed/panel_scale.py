"""One evaluation of a panel of many rows: in memory, read from a file, and on a cluster of two workers.

All compute the same sums of expected moments, which are compared before the measurement: for one long series,
for the same rows as many sequences of 1,000 rows, and as very many sequences of 20 rows. Times are processor
times of all processes together, per row; the minimum of several runs, so that other load of the machine has
little effect. Times on the cluster include scheduler and messages of Dask; the workers are processes with one
thread, and read their rows from the file.

    python benchmarks/speed/panel_scale.py [--rows 1000000] [--repeats 3]
"""

import sys
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.distributed._sequences import DistributedSequences
from probsfa.statespace import make_parameters, streaming
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.panel import make_panel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

D, K = 20, 3
SAME = 1e-9


def used(client=None):
    """Return processor seconds of this process and of the workers of a cluster."""
    workers = 0.0 if client is None else sum(client.run(time.process_time).values())
    return time.process_time() + workers


def least(ask, repeats, client=None):
    """Return the minimum of the processor seconds of several runs, and the result."""
    answer, seconds = ask(), []
    for _ in range(repeats):
        started = used(client)
        ask()
        seconds.append(used(client) - started)
    return min(seconds), answer


def read(path, block_info=None):
    """Return the rows of a block, from a file."""
    (start, end), _ = block_info[None]["array-location"]
    return np.fromfile(path, np.float64, (end - start) * D, offset=8 * start * D).reshape(-1, D)


def on_cluster(path, n_rows, lengths, params, repeats):
    """Return minimum processor seconds of an evaluation on a cluster, the result, and the number of tasks."""
    chunks = da.core.normalize_chunks((-(-n_rows // 16), D), (n_rows, D))
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        rows = da.map_blocks(read, path, chunks=chunks, dtype=np.float64, meta=np.empty((0, D)))
        data = DistributedSequences(ProbabilisticSFA(K), rows, lengths)
        observations = data.standardized(np.zeros(D), np.ones(D))
        seconds, answer = least(lambda: observations.e_step(params), repeats, client)
        return seconds, answer, len(data.groups)


def require_same(answer, wanted):
    """Raise an error if sums differ."""
    for one, other in zip(answer, wanted, strict=True):
        scale = max(float(np.max(np.abs(other))), 1.0)
        if not float(np.max(np.abs(np.asarray(one) - np.asarray(other)))) < SAME * scale:
            raise SystemExit("the answers differ")


def main():
    """Print the table."""
    options = read_options(
        __doc__,
        rows=1_000_000,
        repeats=3,
    )
    print(setting("jax", "numpy", "dask"))
    rng = np.random.default_rng(0)
    n_rows = options.rows // 1000 * 1000
    params = make_parameters(
        np.array([0.98, 0.9, 0.5]), rng.standard_normal((D, K)), rng.uniform(0.2, 1.0, D)
    )
    X = rng.standard_normal((n_rows, D))
    for start in range(0, n_rows, 100_000):
        block = X[start : start + 100_000]
        block[rng.random(block.shape) < 0.1] = np.nan
    rows = []

    def add(name, seconds, compared):
        rows.append((name, f"{seconds / n_rows * 1e6:.2f}", f"{seconds / compared:.2f}"))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        X.tofile(path)
        for name, length in (("one series", n_rows), ("sequences of 1,000", 1000), ("sequences of 20", 20)):
            lengths = (length,) * (n_rows // length)
            panel = make_panel(Sequences(X, lengths))
            in_memory, wanted = least(lambda p=panel: expected_statistics(params, p), options.repeats)
            del panel
            add(f"{name}, in memory", in_memory, in_memory)
            file = np.memmap(path, np.float64, "r", shape=X.shape)
            source = streaming.stream(file, lengths, np.zeros(D), np.ones(D))
            seconds, answer = least(lambda s=source: expected_statistics(params, s), options.repeats)
            require_same(answer, wanted)
            add(f"{name}, from a file", seconds, in_memory)
            if length < n_rows:
                seconds, answer, n_tasks = on_cluster(path, n_rows, lengths, params, options.repeats)
                require_same(answer, wanted)
                add(f"{name}, on a cluster, {n_tasks} tasks", seconds, in_memory)
    print(f"\n{n_rows:,} rows, {D} columns, {K} factors, 10 % missing:\n")
    Table("", "µs a row", "times in memory", rows=rows)


if __name__ == "__main__":
    main()
