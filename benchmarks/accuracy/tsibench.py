"""Hidden cells of three records by the protocol of TSI-Bench, beside the 28 methods it compares.

Records are split by time, standardised on the training part, and cut into windows without overlap, each of
which is filled by itself (Du et al. 2024, arXiv:2406.12747, tables 12 to 16). Half of the cells of the
training part are hidden one by one, others for each seed. In the test part cells are hidden one by one (10,
50 and 90 %), by subsequences of one column and by blocks of rows and columns (50 %).

    ETT_h1      7 columns    14, 5 and 5 months     windows of 48   subsequences of 36   blocks of 6 x 6
    BeijingAir  132 columns  28, 10 and 10 months   windows of 24   subsequences of 18   blocks of 6 x 6
    ItalyAir    13 columns   60, 20 and 20 %        windows of 12   subsequences of 8    blocks of 4 x 4

Without ``--options`` the model is chosen by `select_model` on the training part of the first seed, so that it
knows nothing of the test months, among ``--candidates`` where these are given, and fitted again for each seed
from the parameters of the one before; BeijingAir has too many columns for a search in minutes and takes the
options that stand below.

A line each: the mean absolute error over the hidden cells, in standard deviations, with its spread
over the seeds; the mean squared error; the continuous ranked probability score; and how many cells the 90 %
intervals hold. A star stands where the error is below those of all published methods. In the same run, on the
same cells: straight lines in time, column by column; scikit-learn's IterativeImputer (a linear regression of
each column on the others, row by row) and KNNImputer (20 nearest rows), both learned from 5,000 rows spread
evenly over the training part with the same holes. They draw on the rows alone and see no time.

The published preparation of ItalyAir cannot be reproduced from the record (-200 is missing here, as its
authors say), so that its figures do not compare with those in the same run.

Seconds are those of the processor, for fits (the choice among them) and for filling all test windows.

    python benchmarks/accuracy/tsibench.py [--only NAME] [--seeds N] [--budget S] [--options DICT]
"""

import argparse
import ast
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from probsfa import ProbabilisticSFA, select_model
from probsfa.statespace.hidden_cells import crps

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import add_data_option

#: Half the width of a 90 % interval, in standard deviations.
HALF_WIDTH = 1.6448536269514722
#: Rows that scikit-learn's imputers learn from.
ROWS_FOR_PEERS = 5000


class Record(NamedTuple):
    """A record and its protocol; ``options`` are those of the model where no search is affordable."""

    values: np.ndarray
    train: slice
    test: slice
    window: int
    subsequence: int
    block: int
    options: dict[str, Any] | None = None


def ett(folder: Path) -> Record:
    """ETT_h1."""
    frame = pd.read_csv(folder / "etth1" / "ETTh1.csv", index_col=0, parse_dates=True)
    train, test = until(frame.index, "2017-09-01"), until(frame.index, "2018-02-01")
    return Record(frame.to_numpy(float), slice(train), slice(test, None), 48, 36, 6)


def beijing(folder: Path) -> Record:
    """Twelve stations with eleven columns each."""
    archive = np.load(folder / "beijing_multisite" / "beijing_multisite.npz")
    times = pd.DatetimeIndex(archive["time"])
    train, test = until(times, "2015-07-01"), until(times, "2016-05-01")
    options = {"n_components": 90, "solver": "em", "max_iter": 20}
    return Record(archive["X"].astype(float), slice(train), slice(test, None), 24, 18, 6, options)


def italy(folder: Path) -> Record:
    """The UCI air-quality record."""
    frame = pd.read_csv(folder / "air_quality_uci" / "AirQualityUCI.csv.gz").iloc[:, 2:15]
    values = frame.astype(float).replace(-200.0, np.nan).to_numpy()
    n = len(values)
    return Record(values, slice(int(0.6 * n)), slice(int(0.8 * n), None), 12, 8, 4)


RECORDS = {"ETT_h1": ett, "BeijingAir": beijing, "ItalyAir": italy}
PATTERNS = (("point", "10%"), ("point", "50%"), ("point", "90%"), ("subsequence", "50%"), ("block", "50%"))
#: Fills windows; returns values, and standard deviations where there are such.
Filler = Callable[[list[np.ndarray]], tuple[list[np.ndarray], list[np.ndarray] | None]]


def until(index: pd.Index, date: str) -> int:
    """Number of rows before a date."""
    return int(np.searchsorted(index, np.datetime64(date)))


def hide(window: np.ndarray, pattern: str, rate: str, record: Record, rng: np.random.Generator) -> np.ndarray:
    """Cells of a window that are hidden."""
    part = float(rate.rstrip("%")) / 100.0
    if pattern == "point":
        return rng.random(window.shape) < part
    hidden = np.zeros(window.shape, dtype=bool)
    n_rows, n_columns = window.shape
    if pattern == "subsequence":
        n = min(round(part * window.size / record.subsequence), n_columns)
        for column in rng.choice(n_columns, n, replace=False):
            first = rng.integers(0, n_rows - record.subsequence + 1)
            hidden[first : first + record.subsequence, column] = True
        return hidden
    while hidden.mean() < part:
        row = rng.integers(0, n_rows - record.block + 1)
        column = rng.integers(0, n_columns - record.block + 1)
        hidden[row : row + record.block, column : column + record.block] = True
    return hidden


def scores(fill: Filler, windows: list[np.ndarray], record: Record, seed: int) -> np.ndarray:
    """Absolute and squared error, probability score and coverage (5 patterns, 4) of the hidden cells."""
    rng = np.random.default_rng([seed, 1])
    out = []
    for pattern, rate in PATTERNS:
        hidden = [hide(window, pattern, rate, record, rng) for window in windows]
        holed = [np.where(h, np.nan, w) for h, w in zip(hidden, windows, strict=True)]
        filled, spread = fill(holed)
        error = np.concatenate([(f - w)[h] for f, w, h in zip(filled, windows, hidden, strict=True)])
        there = ~np.isnan(error)
        error = error[there]
        row = [np.mean(np.abs(error)), np.mean(error**2), np.nan, np.nan]
        if spread is not None:
            std = np.concatenate([s[h] for s, h in zip(spread, hidden, strict=True)])[there]
            row[2:] = np.mean(crps(error, std)), np.mean(np.abs(error) <= HALF_WIDTH * std)
        out.append(row)
    return np.array(out)


def straight_lines(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
    """Windows filled along straight lines, levelled at the ends; by zero where a column has nothing."""
    filled = []
    for window in windows:
        values = window.copy()
        rows = np.arange(len(values))
        for column in values.T:
            seen = ~np.isnan(column)
            column[~seen] = np.interp(rows[~seen], rows[seen], column[seen]) if seen.any() else 0.0
        filled.append(values)
    return filled, None


def row_by_row(imputer: Any, seen: np.ndarray) -> Filler:
    """Fill by an imputer of scikit-learn that was learned from some of the rows."""
    step = max(len(seen) // ROWS_FOR_PEERS, 1)
    imputer.fit(seen[::step])

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = imputer.transform(np.concatenate(windows))
        return np.split(filled, np.cumsum([len(w) for w in windows])[:-1]), None

    return fill


def best_published(folder: Path, name: str) -> tuple[list[float], list[str], list[float]]:
    """The smallest published absolute error of each pattern, whose it is, and the smallest squared one."""
    table = pd.read_csv(folder / "tsibench" / "published.csv")
    table = table[table.dataset == name]
    parts = [table[(table.pattern == pattern) & (table.rate == rate)] for pattern, rate in PATTERNS]
    best = [part.loc[part.mae.idxmin()] for part in parts]
    return [row.mae for row in best], [row.method for row in best], [part.mse.min() for part in parts]


def print_rows(called: str, rows: list[np.ndarray], best: list[float], fitted: float, filled: float) -> None:
    """Print the means of some seeds: errors with a star where they are below the best published ones."""
    mean, spread = np.mean(rows, 0), np.std(rows, 0)
    cells = [
        f"{m:10.3f} +- {s:.3f}{'*' if m < limit else ' '}"
        for m, s, limit in zip(mean[:, 0], spread[:, 0], best, strict=True)
    ]
    print(f"{called[:46]:46}{'MAE':>5}{''.join(cells)}{fitted:9.0f}{filled:8.0f}", flush=True)
    for j, what in enumerate(("MSE", "CRPS", "90 %"), start=1):
        if np.isnan(mean[0, j]):
            continue
        cells = [f"{100 * m:9.1f}%{'':10}" if j == 3 else f"{m:10.3f}{'':10}" for m in mean[:, j]]
        print(f"{'':46}{what:>5}{''.join(cells)}".rstrip(), flush=True)


def run(name: str, record: Record, options: argparse.Namespace, best: list[float]) -> None:
    """Print the table of a record."""
    mean, scale = (f(record.values[record.train], axis=0) for f in (np.nanmean, np.nanstd))
    values = (record.values - mean) / scale
    train, test = values[record.train], values[record.test]
    n = len(test) // record.window * record.window
    windows = [test[i : i + record.window] for i in range(0, n, record.window)]

    def seen(seed: int) -> np.ndarray:
        return np.where(np.random.default_rng(seed).random(train.shape) < 0.5, np.nan, train)

    def evaluate(called: str, fit: Callable[[int], Filler], before: float = 0.0) -> None:
        rows, fitted, filled = [], before, 0.0
        for seed in range(options.seeds):
            begin = time.process_time()
            filler = fit(seed)
            fitted += time.process_time() - begin
            begin = time.process_time()
            rows.append(scores(filler, windows, record, seed))
            filled += time.process_time() - begin
            errors = " ".join(f"{error:.4f}" for error in rows[-1][:, 0])
            print(f"{called}, seed {seed}: {errors}, {fitted:.0f} s", file=sys.stderr, flush=True)
        print_rows(called, rows, best, fitted, filled)

    if options.methods != "model":
        evaluate("straight lines in time", lambda _: straight_lines)
        imputers = {
            "IterativeImputer": IterativeImputer(random_state=0),
            "KNNImputer": KNNImputer(n_neighbors=20),
        }
        for called, imputer in imputers.items():
            evaluate(called, lambda seed, imputer=imputer: row_by_row(imputer, seen(seed)))
    if options.methods == "peers":
        return
    asked, begin = options.options or record.options, time.process_time()
    models: list[ProbabilisticSFA] = []
    if asked is None:
        selection = select_model(seen(0), options.candidates, budget=options.budget)
        asked = selection.options
        models.append(selection.best_estimator_)
        print(selection, flush=True)

    def fit_model(seed: int) -> Filler:
        if seed == len(models):
            # Another half of the cells moves the maximum little.
            init = models[-1].params_ if models else None
            models.append(ProbabilisticSFA(**asked, init=init).fit(seen(seed)))
        return lambda holed: models[seed].impute(holed, return_std=True)

    evaluate(
        ", ".join(f"{key}={value}" for key, value in asked.items()), fit_model, time.process_time() - begin
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=list(RECORDS), default="ETT_h1", help="which record")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=None, help="seconds for the choice")
    parser.add_argument(
        "--options", type=ast.literal_eval, help="options of the model, in the place of a choice"
    )
    parser.add_argument(
        "--candidates",
        type=ast.literal_eval,
        help="options to choose among, in the place of a search",
    )
    parser.add_argument("--methods", choices=("all", "peers", "model"), default="all", help="whose lines")
    add_data_option(parser, "etth1/, beijing_multisite/, air_quality_uci/ and tsibench/")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = [f"{pattern} {rate.rstrip('%')} %" for pattern, rate in PATTERNS]
    print(f"{options.only:51}{''.join(f'{head:>19} ' for head in heads)}  s fits s fills")
    best, whose, squared = best_published(options.data, options.only)
    cells = [f"{error:10.3f} {method[:9]:9}" for error, method in zip(best, whose, strict=True)]
    print(f"{'best published':46}{'MAE':>5}{''.join(cells)}".rstrip())
    print(f"{'':46}{'MSE':>5}{'          '.join(f'{error:10.3f}' for error in squared)}")
    run(options.only, RECORDS[options.only](options.data), options, best)


if __name__ == "__main__":
    main()
