"""The default call for simulated problems and real series, compared with simple methods.

``ProbabilisticSFA().fit(X).impute(X)`` for simulated problems and for real series without preparation. 10 %
of the observed values are hidden, as single values or in blocks of 24 rows (a tenth of the rows of short
series), in up to three random choices. Of real series the first 3,000 rows are used. Errors are root mean
squares in units of each column's standard deviation, without constant columns; if readings are simulated to
be wrong, errors are relative to the correct ones. Simple methods: column means; linear interpolation;
piecewise cubic interpolation (pchip); k nearest rows and iterated truncated SVD of columns of unit variance,
with the number of neighbours and the rank selected by held-out observed values; and scikit-learn's
IterativeImputer. Seconds are processor seconds of fit and imputation.

The last lines count the cases in which the error of the default is at most 1.05 times that of linear
interpolation, at most 1.10 times that of the best simple method, or the lowest; in which the 90 % intervals
cover 85 to 96 %; and in which the fit takes at most 30 s.

    python benchmarks/accuracy/default.py [--draws N] [--only NAME ...] [--data DIR]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_blocks, hide_values

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import UNCURATED, uncurated
from common.options import read_options
from common.side_by_side import setting
from common.simple_imputers import SIMPLE
from common.tables import Table
from common.troubles import TROUBLES

ROWS = 3000


def by_default(incomplete):
    """Return imputed values, standard deviations, processor seconds and the status of the default call."""
    began = time.process_time()
    model = ProbabilisticSFA().fit(incomplete)
    filled, std = model.impute(incomplete, return_std=True)
    return filled, std, time.process_time() - began, model.status_


def masks(X, kind, draws):
    """Return masks of hidden values, one for each random choice; each column keeps two values or more."""
    hidden = []
    for seed in range(draws):
        if kind == "values":
            mask = hide_values(X, 0.1, random_state=seed)
        else:
            mask = hide_blocks(X, max(1, min(24, len(X) // 10)), 0.1, random_state=seed)
        mask[:, np.sum(~np.isnan(X) & ~mask, axis=0) < 2] = False
        hidden.append(mask)
    return hidden


def run(X, truth, kind, draws):
    """Return mean errors of the simple methods and of the default, its coverage and its seconds."""
    scale = np.nanstd(truth, axis=0)
    # The standard deviation of a constant column can be a rounding error.
    varies = scale > 1e-12 * np.nanmax(np.abs(truth), axis=0)
    rows = []
    for hidden in masks(X, kind, draws):
        incomplete, scored = np.where(hidden, np.nan, X), hidden & varies

        def error(filled, scored=scored):
            return float(np.sqrt(np.mean((((filled - truth) / np.where(varies, scale, 1.0))[scored]) ** 2)))

        simple = {name: error(fill(incomplete)) for name, fill in SIMPLE.items()}
        filled, std, seconds, status = by_default(incomplete)
        covered = float(np.mean((np.abs(filled - truth) <= 1.6449 * std)[scored]))
        rows.append([*simple.values(), error(filled), covered, seconds])
        print(f"    {rows[-1][-3]:.4f}, linear {simple['linear']:.4f}, {seconds:.1f} s: {status}", flush=True)
    return np.mean(rows, axis=0)


def counts(results):
    """Return texts with the number of cases for which each claim holds."""
    simple, ours = results[:, : len(SIMPLE)], results[:, len(SIMPLE)]
    linear, best = simple[:, list(SIMPLE).index("linear")], simple.min(axis=1)
    claims = {
        "at most 1.05 times linear interpolation": ours <= 1.05 * linear,
        "at most 1.10 times the best simple method": ours <= 1.10 * best,
        "strictly best": ours < best,
        "90 % intervals cover 85 to 96 %": (results[:, -2] >= 0.85) & (results[:, -2] <= 0.96),
        "at most 30 processor seconds": results[:, -1] <= 30.0,
    }
    return [f"{claim}: {int(np.sum(holds))} of {len(results)}" for claim, holds in claims.items()]


def main() -> None:
    """Print a line for each fit, the table of means, and the counts."""
    args = read_options(
        __doc__,
        data=UNCURATED,
        draws={"type": int, "default": 3, "metavar": "N", "help": "masks of each kind (default: 3)"},
        only={"nargs": "+", "metavar": "NAME", "help": "only series whose names contain one of these"},
    )
    warnings.simplefilter("ignore")
    print(setting("numpy", "scikit-learn"))
    series = {name: make(np.random.default_rng(0)) for name, make in TROUBLES.items()}
    series |= {name: X[:ROWS] for name, X in uncurated(args.data).items()}
    lines, results = [], []
    for name, made in series.items():
        X, truth = made if isinstance(made, tuple) else (made, made)
        for kind in ("values", "blocks"):
            if args.only is not None and not any(part in name for part in args.only):
                continue
            print(f"{name} ({X.shape[0]:,} x {X.shape[1]}), {kind}", flush=True)
            results.append(run(X, truth, kind, args.draws))
            *errors, covered, seconds = results[-1]
            lines.append(
                [f"{name}, {kind}", *(f"{e:.3f}" for e in errors), f"{100 * covered:.0f} %", f"{seconds:.1f}"]
            )
    print()
    Table("series", *SIMPLE, "default", "coverage (90 %)", "s", rows=lines)
    print("\n" + "\n".join(counts(np.array(results))))


if __name__ == "__main__":
    main()
