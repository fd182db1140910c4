"""Hidden values of three records by the protocol of TSI-Bench, beside the 28 methods it compares.

Records are split by time, standardised on the training part, and cut into windows without overlap, each of
which is imputed alone (Du et al. 2024, arXiv:2406.12747, tables 12 to 16). Half of the values of the training
part are hidden one by one, others for each seed; of BeijingAir a tenth, as its training part has missing
values. In the test part values are hidden one by one (10, 50 and 90 %), by subsequences of one column and by
blocks of rows and columns (50 %). One model imputes them all.

    ETT_h1      7 columns    14, 5 and 5 months     windows of 48   subsequences of 36   blocks of 6 x 6
    BeijingAir  132 columns  28, 10 and 10 months   windows of 24   subsequences of 18   blocks of 6 x 6
    ItalyAir    13 columns   60, 20 and 20 %        windows of 12   subsequences of 8    blocks of 4 x 4
    ItalyAirRaw the same, -200 as values

Without ``--options`` `select_model` chooses the model on the training part of the first seed, among
``--candidates`` if given, and each seed starts at the parameters of the one before. BeijingAir has too many
columns for that; its options were chosen on its validation months (``--validation``: every fourth window of
the months between training and test).

Rows of the table: mean absolute error of the hidden values in standard deviations, with its spread over the
seeds and a star where it is below those of all published methods; mean squared error; continuous ranked
probability score; coverage of 90 % intervals. On the same values: linear interpolation in time, and scikit-
learn's IterativeImputer and KNNImputer (20 nearest rows), learned from 5,000 rows of the training part.

In ItalyAir -200 is a missing value. The published figures are of the record as PyPOTS loads it, with -200 as
values: ItalyAirRaw, for which means, medians and interpolation have the published errors.

``--shares`` prints which quantities the squared error is of. ``--save`` and ``--start`` take a run apart:
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
from typing import Any

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from probsfa import ProbabilisticSFA, load, select_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table
from common.window_fillers import Model, middle_of_test, row_by_row, straight_lines
from common.window_records import HEADS, PATTERNS, RECORDS, Filler, best_published, held_out_values, score

#: Of the validation windows each of so many is filled.
VALIDATION_STEP = 4
#: Posterior evaluations of a fit to all rows where parts of them were learned from before.
EVALUATIONS = 10


def add_rows(table: Table, called: str, rows: list[np.ndarray], best: list[float], *rest: str) -> None:
    """Add the means of some seeds: errors with a star where they are below the best published ones."""
    mean, spread = np.mean(rows, 0), np.std(rows, 0)
    cells = [
        f"{m:.3f} +- {s:.3f}{'*' if m < limit else ''}"
        for m, s, limit in zip(mean[:, 0], spread[:, 0], best, strict=True)
    ]
    table.add(called, "MAE", *cells, *rest)
    for j, what in enumerate(("MSE", "CRPS", "90 %"), start=1):
        if not np.isnan(mean[0, j]):
            table.add("", what, *(f"{100 * m:.1f}%" if what == "90 %" else f"{m:.3f}" for m in mean[:, j]))


def add_shares(table: Table, squares: np.ndarray, kinds: tuple[str, ...]) -> None:
    """Add whose the squared error is, in per cent, by quantity, that with most of it first."""
    names, which = np.unique(kinds, return_inverse=True)
    shares = np.array([np.bincount(which, row) / row.sum() for row in squares])
    for j in np.argsort(-shares.mean(0)):
        table.add(f"of the squared error, {names[j]}", "", *(f"{100 * share:.1f}%" for share in shares[:, j]))


def run(table: Table, name: str, options: argparse.Namespace, best: list[float]) -> None:
    """Add the rows of all methods on a record."""
    record = RECORDS[name](options.data)
    train, test = record.values[record.train], record.values[record.test]
    mean, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    if options.validation:
        test = record.values[record.train.stop : record.test.start]
    n = len(test) // record.window * record.window
    windows = [test[i : i + record.window] for i in range(0, n, record.window)]
    if options.validation:
        windows = windows[::VALIDATION_STEP]

    def seen(seed: int) -> np.ndarray:
        return np.where(np.random.default_rng(seed).random(train.shape) < record.hidden_share, np.nan, train)

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
        count = f"{filler.parameters:,}" if isinstance(filler, Model) else ""
        add_rows(table, called, rows, best, f"{fitted:.0f}", f"{filled:.0f}", count)
        if options.shares and record.kinds is not None:
            add_shares(table, squares, record.kinds)

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
        selection = select_model(seen(options.first), options.candidates)
        asked = selection.options
        models[options.first] = selection.best_estimator_
        print(selection, file=sys.stderr, flush=True)

    def fit_model(seed: int) -> Filler:
        if seed not in models:
            rows, more = seen(seed), {}
            # Another choice of hidden cells moves the maximum little.
            before = models.get(seed - 1)
            if before is None and options.start:
                before = load(options.start)
            # The default call chooses its model, for which there are no parameters to start from.
            init = None if before is None or not asked else before.params_
            if record.segment_rows is not None:
                more["max_iter"] = EVALUATIONS
                if init is None:
                    firsts = range(0, len(rows), 4 * record.segment_rows)
                    parts = [rows[i : i + record.segment_rows] for i in firsts]
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
        options={"type": ast.literal_eval, "help": "options of the model, in the place of a choice"},
        candidates={"type": ast.literal_eval, "help": "options to choose among, in the place of a search"},
        validation=(False, "fill windows before the test part, to choose by"),
        methods=("lines,iterative,knn,model", "whose lines, with commas between them"),
        shares=(False, "print whose the squared error is, by quantity (BeijingAir)"),
    )
    warnings.simplefilter("ignore")
    table = Table(options.only, "", *HEADS, "s fits", "s fills", "parameters")
    best, whose, squared = best_published(options.data, options.only.removesuffix("Raw"))
    cells = (f"{error:.3f} {method}" for error, method in zip(best, whose, strict=True))
    table.add("best published", "MAE", *cells)
    table.add("", "MSE", *(f"{error:.3f}" for error in squared))
    run(table, options.only, options, best)


if __name__ == "__main__":
    main()
