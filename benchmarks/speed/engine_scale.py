"""Time of the engine by size of the data, and relative to that of its matrix products.

*Length*: one evaluation (expected statistics, as in a fit) of 20 columns and 3 factors, from 1e3 rows to
``--longest``, read from a file, with the slope of log time over log rows and the peak memory. *Gradient*:
likelihood and gradient, compared with the likelihood alone. *Latents*: one evaluation at K = 90 on simulated
data of the size of the hourly air quality of twelve stations (20,448 rows, 132 columns, 1.6 % missing),
compared with the time of as many operations in matrix products. With ``--beijing`` this part uses the air
quality itself (the first 20,448 hours, in units of their standard deviations), after ``--steps`` steps of EM
from the usual starting point, and the other parts are omitted. With ``--ar1-noise`` only the simulated data
are used, with AR(1) noise: one further state for each column.

    python benchmarks/speed/engine_scale.py [--longest 1e7] [--latents 90] [--rows 20448] [--beijing FILE.npz]
        [--ar1-noise]
"""

import resource
import sys
import tempfile
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace import streaming
from probsfa.statespace.engine.likelihood import marginal_log_likelihood
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import Timing, alternate, product_rate, setting, timed
from common.tables import Table


def repeated(run, n):
    """Measure n runs, after one that is not counted."""
    run()
    return Timing.of([timed(run)[0] for _ in range(n)])


def model(rng, n_features, n_components):
    """Draw parameters."""
    return StateSpace(
        np.linspace(0.99, 0.3, n_components),
        rng.standard_normal((n_features, n_components)) / np.sqrt(n_components),
        np.full(n_features, 0.5),
        np.zeros(n_features),
    )


def with_holes(rng, n_rows, n_features, share):
    """Draw rows with a share of missing values; the time does not depend on the values."""
    X = rng.standard_normal((n_rows, n_features))
    X[rng.random(X.shape) < share] = np.nan
    return X


def length(longest):
    """Print times by number of rows, read from a file."""
    rng = np.random.default_rng(0)
    params = model(rng, 20, 3)
    print()
    table = Table("rows", "one evaluation", "µs a row", "peak memory of the process")
    sizes, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        n_rows = 1000
        while n_rows <= longest:
            X = np.memmap(Path(folder) / str(n_rows), np.float32, "w+", shape=(n_rows, 20))
            for start in range(0, n_rows, 100_000):
                block = X[start : start + 100_000]
                block[:] = with_holes(rng, len(block), 20, 0.1)
            panel = streaming.stream(X, (n_rows,), np.zeros(20), np.ones(20))
            timing = repeated(
                lambda panel=panel: expected_statistics(params, panel, for_steps=True),
                5 if n_rows < 1e6 else 1,
            )
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            table.add(f"{n_rows:,}", timing, f"{timing.median / n_rows * 1e6:.2f}", f"{peak:.2f} GiB")
            sizes.append(n_rows)
            seconds.append(timing.median)
            n_rows *= 10
    slope = np.polyfit(np.log(sizes[1:]), np.log(seconds[1:]), 1)[0]
    print(f"\nSlope of log time in log rows from 10,000 rows: {slope:.3f}")


def gradient():
    """Print times of likelihood and gradient, and of the likelihood alone."""
    rng = np.random.default_rng(0)
    print()
    table = Table("rows, columns, latents", "value", "value and gradient", "ratio")
    for n_rows, n_features, n_components in [(200, 5, 2), (2000, 10, 3), (10_000, 50, 5), (2000, 30, 12)]:
        params = model(rng, n_features, n_components)
        X = with_holes(rng, n_rows, n_features, 0.2)
        panel = make_panel(Sequences(X, (n_rows,)))
        with jax.enable_x64(True):
            data = tuple(map(jnp.asarray, (panel.values, panel.mask, panel.gap_index)))
            arrays = tuple(map(jnp.asarray, params.to_arrays().values()))

            def value(arrays, data):
                return marginal_log_likelihood(*arrays, *data)

            programs = {"alone": jax.jit(value), "both": jax.jit(jax.value_and_grad(value))}
            times = alternate(
                {
                    name: lambda f=f, given=(arrays, data): jax.block_until_ready(f(*given))
                    for name, f in programs.items()
                },
                repeats=101,
            )
        alone, both = times["alone"], times["both"]
        size = f"{n_rows:,}, {n_features}, {n_components}"
        table.add(size, alone, both, f"{both.median / alone.median:.2f}")


def latents(params, X):
    """Print times for many factors, compared with matrix products."""
    (n_rows, n_features), n_factors = X.shape, len(params.decay)
    n_states = n_factors + len(params.noise_decay)
    panel = make_panel(Sequences(X, (n_rows,)))
    timing = repeated(lambda: expected_statistics(params, panel, for_steps=True), 3)
    # Forward: three products, two Cholesky factors, one triangular solve; backward: four, one and one.
    # Collapse and two sums over rows are products of the mask with K x K entries a row.
    flops = n_rows * (17.0 * n_states**3 + 6.0 * n_features * n_states**2)
    floor = flops / product_rate()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    missing = 100 * np.mean(np.isnan(X))
    states = f", {n_states} states" if n_states > n_factors else ""
    print(
        f"\nK = {n_factors}{states}, {n_rows:,} rows, {n_features} columns, "
        f"{missing:.2f} % missing: {timing}; "
        f"{flops / 1e9:.0f} GFLOP, which matrix products do in {floor:.1f} s: "
        f"{timing.median / floor:.2f} times; peak memory {peak:.2f} GiB",
        flush=True,
    )


def beijing(path, n_components, n_rows, n_steps):
    """Print times for many factors on the air quality of Beijing."""
    X = np.load(path)["X"][:n_rows].astype(float)
    X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    model = ProbabilisticSFA(n_components, solver="em", max_iter=n_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = timed(lambda: model.fit(X))[0]
    print(f"\n{n_steps} steps of EM, start and compiling included: {seconds:.0f} s")
    latents(model.params_, X)


def main():
    """Run the selected parts."""
    options = read_options(
        __doc__,
        longest=1e7,
        latents=90,
        rows=20_448,
        beijing={"type": Path, "help": "the array X of 35,064 hours and 132 columns"},
        steps=3,
        ar1_noise=False,
    )
    print(setting("jax", "numpy"))
    if options.beijing is not None:
        beijing(options.beijing, options.latents, options.rows, options.steps)
        return
    rng = np.random.default_rng(0)
    params, X = model(rng, 132, options.latents), with_holes(rng, options.rows, 132, 0.016)
    if options.ar1_noise:
        ar1_noise = {"noise_decay": rng.uniform(0.3, 0.95, 132), "noise_scale": rng.uniform(0.3, 0.8, 132)}
        latents(params.replace(**ar1_noise), X)
        return
    gradient()
    latents(params, X)
    length(options.longest)


if __name__ == "__main__":
    main()
