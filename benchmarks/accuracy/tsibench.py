"""Hidden cells of three records by the protocol of TSI-Bench, beside the 28 methods it compares.

Records are split by time, standardised on the training part, and cut into windows without overlap, each of
which is filled by itself (Du et al. 2024, arXiv:2406.12747, tables 12 to 16). Half of the cells of the
training part are hidden one by one, others for each seed; of BeijingAir a tenth, as its training part has
holes of its own. In the test part cells are hidden one by one (10, 50 and 90 %), by subsequences of one
column and by blocks of rows and columns (50 %). One model fills them all.

    ETT_h1      7 columns    14, 5 and 5 months     windows of 48   subsequences of 36   blocks of 6 x 6
    BeijingAir  132 columns  28, 10 and 10 months   windows of 24   subsequences of 18   blocks of 6 x 6
    ItalyAir    13 columns   60, 20 and 20 %        windows of 12   subsequences of 8    blocks of 4 x 4
    ItalyAirRaw the same, -200 as values

Without ``--options`` the model is chosen by `select_model` on the training part of the first seed, so that it
knows nothing of the test months, among ``--candidates`` where these are given, and fitted again for each seed
from the parameters of the one before; BeijingAir has too many columns for a search in minutes and takes the
options that stand below, chosen on its validation months: ``--validation`` fills every fourth window of the
months between training and test in the place of the test windows.

A line each: the mean absolute error over the hidden cells, in standard deviations, with its spread
over the seeds; the mean squared error; the continuous ranked probability score; and how many cells the 90 %
intervals hold. A star stands where the error is below those of all published methods. In the same run, on the
same cells: straight lines in time, column by column; scikit-learn's IterativeImputer (a linear regression of
each column on the others, row by row) and KNNImputer (20 nearest rows), both learned from 5,000 rows spread
evenly over the training part with the same holes. They draw on the rows alone and see no time.

In ItalyAir -200 stands for a missing value, as its authors say, and is one here. The published figures are of
the record as PyPOTS loads it, with -200 left in as values: that is ItalyAirRaw, where means, medians and
straight lines come out as published. Stars at ItalyAir compare with another preparation.

``--shares`` says which quantities the squared error is of. ``--save`` and ``--start`` take a run apart:
``--first`` names its first seed, whose fit starts at a saved model.

Seconds are those of the processor, for fits (the choice among them) and for filling all test windows;
parameters are those that are learned.

    python benchmarks/accuracy/tsibench.py [--only NAME] [--seeds N] [--candidates LIST] [--options DICT]
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
from sklearn.preprocessing import StandardScaler

from probsfa import ProbabilisticSFA, load, select_model
from probsfa.statespace.held_out_values import crps

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

#: Half the width of a 90 % interval, in standard deviations.
HALF_WIDTH = 1.6448536269514722
#: Rows that scikit-learn's imputers learn from.
ROWS_FOR_PEERS = 5000
#: Posterior evaluations of a fit to all rows where parts of them were learned from before.
EVALUATIONS = 10
#: Of the validation windows each of so many is filled.
VALIDATION_STEP = 4


class Record(NamedTuple):
    """A record and its protocol.

    ``options`` are those of the model where no search is affordable, ``holes`` the part of the training cells
    that is hidden. Where there is a ``stretch``, every fourth stretch of so many rows is learned from first,
    and then all rows, with `EVALUATIONS` more. ``kinds`` says what quantity each column is of.
    """

    values: np.ndarray
    train: slice
    test: slice
    window: int
    subsequence: int
    block: int
    options: dict[str, Any] | None = None
    holes: float = 0.5
    stretch: int | None = None
    kinds: tuple[str, ...] | None = None


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
    # Pollutants, ozone and rain are never negative and skewed; wind speed is better left as it is.
    skewed = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "RAIN")
    transforms = {j: "sqrt" for j, name in enumerate(archive["names"]) if str(name).endswith(skewed)}
    options = {"n_components": 90, "solver": "em", "max_iter": 30, "transforms": transforms}
    parts = slice(train), slice(test, None)
    kinds = tuple(str(name).rpartition("_")[2] for name in archive["names"])
    values = archive["X"].astype(float)
    return Record(values, *parts, 24, 18, 6, options, holes=0.1, stretch=240, kinds=kinds)


def italy(folder: Path) -> Record:
    """The UCI air-quality record."""
    frame = pd.read_csv(folder / "air_quality_uci" / "AirQualityUCI.csv.gz").iloc[:, 2:15]
    values = frame.astype(float).replace(-200.0, np.nan).to_numpy()
    n = len(values)
    return Record(values, slice(int(0.6 * n)), slice(int(0.8 * n), None), 12, 8, 4)


def italy_raw(folder: Path) -> Record:
    """The same as PyPOTS reads it: -200 is a value."""
    record = italy(folder)
    return record._replace(values=np.where(np.isnan(record.values), -200.0, record.values))


RECORDS = {"ETT_h1": ett, "BeijingAir": beijing, "ItalyAir": italy, "ItalyAirRaw": italy_raw}
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


def held_out_values(windows: list[np.ndarray], record: Record, seed: int) -> list[list[np.ndarray]]:
    """Cells of each window that are hidden, pattern by pattern."""
    rng = np.random.default_rng([seed, 1])
    return [[hide(window, pattern, rate, record, rng) for window in windows] for pattern, rate in PATTERNS]


def score(
    fill: Filler, windows: list[np.ndarray], hidden: list[np.ndarray], scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Errors, absolute and squared, probability score and coverage of hidden cells (4); squares by column."""
    holed = [np.where(h, np.nan, w) for h, w in zip(hidden, windows, strict=True)]
    filled, spread = fill(holed)
    error = np.concatenate([((f - w) / scale)[h] for f, w, h in zip(filled, windows, hidden, strict=True)])
    there = ~np.isnan(error)
    error = error[there]
    row = np.array([np.mean(np.abs(error)), np.mean(error**2), np.nan, np.nan])
    if spread is not None:
        std = np.concatenate([(s / scale)[h] for s, h in zip(spread, hidden, strict=True)])[there]
        row[2:] = np.mean(crps(error, std)), np.mean(np.abs(error) <= HALF_WIDTH * std)
    columns = np.concatenate([np.nonzero(h)[1] for h in hidden])[there]
    return row, np.bincount(columns, error**2, len(scale))


class Model:
    """Fill by a fitted model of this package."""

    def __init__(self, model: ProbabilisticSFA) -> None:
        self.model = model
        #: Numbers that were learned.
        self.parameters = sum(array.size for array in model.params_.to_arrays().values())

    def __call__(self, windows: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Means and standard deviations of all cells, window by window."""
        filled, std = self.model.impute(windows, return_std=True)
        return filled, std


def straight_lines(mean: np.ndarray) -> Filler:
    """Fill along straight lines, levelled at the ends; by the mean where a column has nothing."""

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = []
        for window in windows:
            values = window.copy()
            rows = np.arange(len(values))
            for column, level in zip(values.T, mean, strict=True):
                seen = ~np.isnan(column)
                column[~seen] = np.interp(rows[~seen], rows[seen], column[seen]) if seen.any() else level
            filled.append(values)
        return filled, None

    return fill


def middle_of_test(middle: Callable[..., np.ndarray]) -> Filler:
    """Fill with the mean or the median of what is seen of a column in all windows."""

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        level = middle(np.concatenate(windows), axis=0)
        return [np.where(np.isnan(window), level, window) for window in windows], None

    return fill


def row_by_row(imputer: Any, seen: np.ndarray) -> Filler:
    """Fill by an imputer of scikit-learn that was learned from some of the rows, standardised."""
    scaler = StandardScaler().fit(seen)
    step = max(len(seen) // ROWS_FOR_PEERS, 1)
    imputer.fit(scaler.transform(seen[::step]))

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = scaler.inverse_transform(imputer.transform(scaler.transform(np.concatenate(windows))))
        return np.split(filled, np.cumsum([len(w) for w in windows])[:-1]), None

    return fill


def best_published(folder: Path, name: str) -> tuple[list[float], list[str], list[float]]:
    """The smallest published absolute error of each pattern, whose it is, and the smallest squared one."""
    table = pd.read_csv(folder / "tsibench" / "published.csv")
    table = table[table.dataset == name]
    parts = [table[(table.pattern == pattern) & (table.rate == rate)] for pattern, rate in PATTERNS]
    best = [part.loc[part.mae.idxmin()] for part in parts]
    return [row.mae for row in best], [row.method for row in best], [part.mse.min() for part in parts]


def print_rows(
    called: str,
    rows: list[np.ndarray],
    best: list[float],
    seconds: tuple[float, float],
    parameters: int | None,
) -> None:
    """Print the means of some seeds: errors with a star where they are below the best published ones."""
    mean, spread = np.mean(rows, 0), np.std(rows, 0)
    cells = [
        f"{m:10.3f} +- {s:.3f}{'*' if m < limit else ' '}"
        for m, s, limit in zip(mean[:, 0], spread[:, 0], best, strict=True)
    ]
    count = "" if parameters is None else f"{parameters:,}"
    spent = "".join(f"{s:8.0f}" for s in seconds)
    print(f"{called[:46]:46}{'MAE':>5}{''.join(cells)}{spent}{count:>12}".rstrip(), flush=True)
    for j, what in enumerate(("MSE", "CRPS", "90 %"), start=1):
        if np.isnan(mean[0, j]):
            continue
        cells = [f"{100 * m:9.1f}%{'':10}" if j == 3 else f"{m:10.3f}{'':10}" for m in mean[:, j]]
        print(f"{'':46}{what:>5}{''.join(cells)}".rstrip(), flush=True)


def print_shares(squares: np.ndarray, kinds: tuple[str, ...]) -> None:
    """Print whose the squared error is, in per cent, by quantity, that with most of it first."""
    names, which = np.unique(kinds, return_inverse=True)
    shares = np.array([np.bincount(which, row) / row.sum() for row in squares])
    for j in np.argsort(-shares.mean(0)):
        cells = [f"{100 * share:9.1f}%{'':10}" for share in shares[:, j]]
        print(f"    of the squared error, {names[j]:24}{'':1}{''.join(cells)}".rstrip(), flush=True)


def run(name: str, record: Record, options: argparse.Namespace, best: list[float]) -> None:
    """Print the table of a record."""
    train, test = record.values[record.train], record.values[record.test]
    mean, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    if options.validation:
        test = record.values[record.train.stop : record.test.start]
    n = len(test) // record.window * record.window
    windows = [test[i : i + record.window] for i in range(0, n, record.window)]
    if options.validation:
        windows = windows[::VALIDATION_STEP]

    def seen(seed: int) -> np.ndarray:
        return np.where(np.random.default_rng(seed).random(train.shape) < record.holes, np.nan, train)

    def evaluate(called: str, fit: Callable[[int], Filler], before: float = 0.0) -> None:
        rows, fitted, filled, squares = [], before, 0.0, np.zeros((len(PATTERNS), len(scale)))
        for seed in range(options.first, options.first + options.seeds):
            begin = time.process_time()
            filler = fit(seed)
            fitted += time.process_time() - begin
            begin = time.process_time()
            cells = held_out_values(windows, record, seed)
            judged = [score(filler, windows, hidden, scale) for hidden in cells]
            filled += time.process_time() - begin
            rows.append(np.array([row for row, _ in judged]))
            squares += [by_column for _, by_column in judged]
            each = "; ".join(" ".join(f"{value:.4f}" for value in row) for row in rows[-1])
            print(f"{called}, seed {seed}: {each}, {fitted:.0f} s", file=sys.stderr, flush=True)
        print_rows(called, rows, best, (fitted, filled), getattr(filler, "parameters", None))
        if options.shares and record.kinds is not None:
            print_shares(squares, record.kinds)

    methods = options.methods.split(",")
    if "lines" in methods:
        if name == "ItalyAirRaw":
            evaluate("means over the test windows", lambda _: middle_of_test(np.nanmean))
            evaluate("medians over the test windows", lambda _: middle_of_test(np.nanmedian))
        evaluate("straight lines in time", lambda _: straight_lines(mean))
    imputers = {"iterative": IterativeImputer(random_state=0), "knn": KNNImputer(n_neighbors=20)}
    for method in [each for each in imputers if each in methods]:
        imputer = imputers[method]
        evaluate(type(imputer).__name__, lambda seed, imputer=imputer: row_by_row(imputer, seen(seed)))
    if "model" not in methods:
        return
    asked = options.options
    if asked is None and not options.candidates:
        asked = record.options
    begin = time.process_time()
    models: dict[int, ProbabilisticSFA] = {}
    if asked is None:
        selection = select_model(seen(options.first), options.candidates, budget=options.budget)
        asked = selection.options
        models[options.first] = selection.best_estimator_
        print(selection, flush=True)

    def fit_model(seed: int) -> Filler:
        if seed not in models:
            rows, more = seen(seed), {}
            # Another choice of hidden cells moves the maximum little.
            before = models.get(seed - 1)
            if before is None and options.start:
                before = load(options.start)
            # The default call chooses its model, for which there are no parameters to start from.
            init = None if before is None or not asked else before.params_
            if record.stretch is not None:
                more["max_iter"] = EVALUATIONS
                if init is None:
                    firsts = range(0, len(rows), 4 * record.stretch)
                    parts = [rows[i : i + record.stretch] for i in firsts]
                    init = ProbabilisticSFA(**asked).fit(parts).params_
            models[seed] = ProbabilisticSFA(**{**asked, **more}, init=init).fit(rows)
            if options.save:
                models[seed].save(options.save.format(seed))
        return Model(models[seed])

    evaluate(words(asked), fit_model, time.process_time() - begin)


def words(options: dict[str, Any]) -> str:
    """Options in a line, of maps of columns how many there are."""
    told = {key: f"of {len(value)}" if isinstance(value, dict) else value for key, value in options.items()}
    return ", ".join(f"{key}={value}" for key, value in told.items())


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        data="etth1/, beijing_multisite/, air_quality_uci/ and tsibench/",
        only={"choices": list(RECORDS), "default": "ETT_h1", "help": "which record"},
        seeds=(5, "how many choices of hidden cells"),
        first={"type": int, "default": 0, "metavar": "SEED", "help": "the first of them"},
        save={"metavar": "FILE", "help": "save the fitted models; {} stands for the seed"},
        start={"metavar": "FILE", "help": "a saved model to start the first fit at"},
        budget={"type": float, "default": None, "help": "seconds for the choice"},
        options={"type": ast.literal_eval, "help": "options of the model, in the place of a choice"},
        candidates={"type": ast.literal_eval, "help": "options to choose among, in the place of a search"},
        validation=(False, "fill windows before the test part, to choose by"),
        methods=("lines,iterative,knn,model", "whose lines, with commas between them"),
        shares=(False, "print whose the squared error is, by quantity (BeijingAir)"),
    )
    warnings.simplefilter("ignore")
    heads = [f"{pattern} {rate.rstrip('%')} %" for pattern, rate in PATTERNS]
    print(f"{options.only:51}{''.join(f'{head:>19} ' for head in heads)}  s fits s fills  parameters")
    best, whose, squared = best_published(options.data, options.only.removesuffix("Raw"))
    cells = [f"{error:10.3f} {method[:9]:9}" for error, method in zip(best, whose, strict=True)]
    print(f"{'best published':46}{'MAE':>5}{''.join(cells)}".rstrip())
    print(f"{'':46}{'MSE':>5}{'          '.join(f'{error:10.3f}' for error in squared)}")
    run(options.only, RECORDS[options.only](options.data), options, best)


if __name__ == "__main__":
    main()
