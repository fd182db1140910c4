"""Errors in later rows of fits that end early and of converged fits.

A fit that ends before the maximum of the likelihood may predict other rows better than the converged one, as
if it was regularised. Three models are fitted to the first two thirds of each series (at most 4,000 rows),
with different limits of likelihood evaluations, and to convergence (``tol=1e-3``); none has more factors
than columns. In the last third, 10 % of the values are hidden one by one, or in blocks of 24 rows, and
imputed from the others. Errors are root mean squares in standard deviations of the training rows, for values
and for blocks. The last column is the default call, which selects a model and stops at its own tolerance.

    python benchmarks/accuracy/early_stopping.py [--only NAME ...] [--data FOLDER]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_blocks, hide_values

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import UNCURATED, uncurated
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

ROWS, BLOCK, SHARE = 6000, 24, 0.1
SERIES = ["ETT", "weather, with", "Beijing, one", "climate", "chlorine", "TEP d00_te"]
EVALUATIONS = (5, 10, 20, 40)
MODELS = {
    "32 factors": {"n_components": 32},
    "4 factors, AR(1) noise": {"n_components": 4, "noise": "ar1"},
    "12 factors, AR(1) noise": {"n_components": 12, "noise": "ar1"},
}


def split(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the training rows, the later rows, and the standard deviations of columns in training."""
    X = X[:ROWS]
    n_train = 2 * len(X) // 3
    scale = np.nanstd(X[:n_train], axis=0)
    varies = scale > 1e-12 * np.nanmax(np.abs(X), axis=0)
    return X[:n_train, varies], X[n_train:, varies], scale[varies]


def errors(model: ProbabilisticSFA, rows: np.ndarray, scale: np.ndarray) -> str:
    """Return the root mean square errors of hidden values and of hidden blocks."""
    masks = (hide_values(rows, SHARE, random_state=0), hide_blocks(rows, BLOCK, SHARE, random_state=0))
    out = []
    for hidden in masks:
        difference = (model.impute(np.where(hidden, np.nan, rows)) - rows) / scale
        out.append(np.sqrt(np.nanmean(difference[hidden] ** 2)))
    return " ".join(f"{error:.4f}" for error in out)


def main() -> None:
    """Print a line for each series and model."""
    args = read_options(
        __doc__, data=UNCURATED, only=(SERIES, "only series whose names contain one of these")
    )
    warnings.simplefilter("ignore")
    print(setting("numpy", "scikit-learn"))
    named = {name: X for name, X in uncurated(args.data).items() if any(part in name for part in args.only)}
    table = Table("series and model", *(f"{n} evaluations" for n in EVALUATIONS), "converged", "default")
    for name, X in named.items():
        train, later, scale = split(X)
        default = errors(ProbabilisticSFA().fit(train), later, scale)
        for called, options in MODELS.items():
            limited = options | {"n_components": min(options["n_components"], train.shape[1])}
            fits = [ProbabilisticSFA(**limited, max_iter=n, robust=False) for n in EVALUATIONS]
            fits.append(ProbabilisticSFA(**limited, max_iter=1000, tol=1e-3, robust=False))
            cells = [errors(model.fit(train), later, scale) for model in fits]
            table.add(f"{name}, {called}", *cells, default)


if __name__ == "__main__":
    main()
