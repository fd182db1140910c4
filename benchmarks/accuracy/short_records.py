"""Short series: the default call, with white noise and with AR(1) noise.

Windows of bundled and public data sets (two of each length, spread over the series), in which 10 % of the
observed values are hidden, as single values or in blocks of six rows. Errors are root mean squares in units
of each column's standard deviation in the window, divided by those of linear interpolation; geometric means
of the windows. The last column is the number of windows in which the default call selected AR(1) noise.
Columns that are constant in a window, or have fewer than ten observed values, are omitted.

    python benchmarks/accuracy/short_records.py [--quick] [--only NAME] [--data FOLDER]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_blocks, hide_values
from probsfa.imputation import LinearInterpolation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import RECORDS, records
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

LENGTHS = (100, 160, 250, 400, 700)
WINDOWS = 2
HIDINGS = {
    "values": lambda X, seed: hide_values(X, 0.1, random_state=seed),
    "6-row blocks": lambda X, seed: hide_blocks(X, 6, 0.1, random_state=seed),
}


def windows(X, length, count):
    """Return windows of a series, spread evenly, without constant or hardly observed columns."""
    for start in np.linspace(0, len(X) - length, count).astype(int):
        window = X[start : start + length]
        is_observed = np.sum(~np.isnan(window), axis=0) >= 10
        window = window[:, is_observed]
        yield int(start), window[:, np.nanstd(window, axis=0) > 0.0]


def ratios(X, hide, seed):
    """Return errors relative to interpolation, by white and AR(1) noise, and whether AR(1) is selected."""
    hidden = hide(X, seed)
    incomplete = np.where(hidden, np.nan, X)
    scale = np.nanstd(X, axis=0)

    def error(filled):
        return float(np.sqrt(np.mean(((filled - X) / scale)[hidden] ** 2)))

    first = ProbabilisticSFA().fit(incomplete)
    is_ar1 = hasattr(first, "noise_decay_")
    other = ProbabilisticSFA(noise="diagonal" if is_ar1 else "ar1").fit(incomplete)
    white, with_ar1_noise = (other, first) if is_ar1 else (first, other)
    lines = error(LinearInterpolation().fill(incomplete).values)
    return [error(model.impute(incomplete)) / lines for model in (white, with_ar1_noise)], is_ar1


def main() -> None:
    """Print a row for each length of each data set."""
    args = read_options(
        __doc__,
        data=RECORDS,
        quick=(False, "two lengths, one window of each"),
        only={"help": "the record of this name"},
    )
    warnings.simplefilter("ignore")
    print(setting("jax", "jaxlib", "numpy"))
    rows = []
    for name, X in records(args.data).items():
        if args.only not in (None, name):
            continue
        if X is None:
            print(f"{name}: its file is not in {args.data}")
            continue
        for hiding, hide in HIDINGS.items():
            for length in LENGTHS[1:3] if args.quick else LENGTHS:
                if length > len(X):
                    continue
                cut = list(windows(X, length, 1 if args.quick else WINDOWS))
                found, chosen = zip(*(ratios(window, hide, seed) for seed, window in cut), strict=True)
                white, ar1 = np.exp(np.mean(np.log(found), axis=0))
                first = np.exp(np.mean(np.log([pair[int(m)] for pair, m in zip(found, chosen, strict=True)])))
                columns = "/".join(sorted({str(window.shape[1]) for _, window in cut}))
                rows.append(
                    [name, hiding, f"{length}", columns, f"{first:.3f}", f"{white:.3f}", f"{ar1:.3f}"]
                    + [f"{sum(chosen)} of {len(chosen)}"]
                )
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ["record", "hidden", "rows", "columns", "default", "white", "AR(1)", "AR(1) selected"]
    print()
    Table(*head, rows=rows)


if __name__ == "__main__":
    main()
