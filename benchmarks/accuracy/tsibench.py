"""Imputation of three data sets by the protocol of TSI-Bench, compared with its 28 methods.

Data are split by time, standardised on the training part, and cut into windows without overlap, each of which
is imputed alone (Du et al. 2024, arXiv:2406.12747, tables 12 to 16). Half of the values of the training part
are hidden as single values, others for each seed; for BeijingAir a tenth, because its training part has
missing values. In the test part values are hidden as single values (10, 50 and 90 %), in subsequences of one
column and in blocks of rows and columns (50 %). One model imputes all patterns.

    ETT_h1      7 columns    14, 5 and 5 months     windows of 48   subsequences of 36   blocks of 6 x 6
    BeijingAir  132 columns  28, 10 and 10 months   windows of 24   subsequences of 18   blocks of 6 x 6
    ItalyAir    13 columns   60, 20 and 20 %        windows of 12   subsequences of 8    blocks of 4 x 4
    ItalyAirRaw the same, -200 as values

Without ``--options`` the model is selected by `select_model` on the training part of the first seed, among
``--candidates`` if given, and the fit of each seed starts at the parameters of the previous seed. BeijingAir
has too many columns for this search; its options were selected on its validation months (``--validation``:
every fourth window of the months between training and test).

Rows of the table: mean absolute error of the hidden values in standard deviations, with its standard
deviation over the seeds, and a star if it is below those of all published methods; mean squared error;
continuous ranked probability score; coverage of 90 % intervals. For the same values: linear interpolation in
time, and scikit-learn's IterativeImputer and KNNImputer (20 nearest rows), fitted to 5,000 rows of the
training part.

In ItalyAir -200 is a missing value. Published results are those of the data as PyPOTS loads them, with -200
as values (ItalyAirRaw): with these values, means, medians and interpolation have the published errors.

``--shares`` prints the share of each quantity in the squared error. ``--save`` and ``--start`` divide a run:
``--first`` is its first seed, whose fit starts at a saved model.

Seconds are processor seconds of the fits (including the selection) and of the imputation of all test windows;
parameters are the numbers of estimated parameters.

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

#: One of this number of validation windows is imputed.
VALIDATION_STEP = 4
#: Posterior evaluations of a fit to all rows that starts from a fit to segments.
EVALUATIONS = 10


def add_rows(table: Table, called: str, rows: list[np.ndarray], best: list[float], *rest: str) -> None:
    """Add means over seeds: errors, with a star if they are below the best published ones."""
    mean, spread = np.mean(rows, 0), np.std(rows, 0)
    texts = [
        f"{m:.3f} +- {s:.3f}{'*' if m < limit else ''}"
        for m, s, limit in zip(mean[:, 0], spread[:, 0], best, strict=True)
    ]
    table.add(called, "MAE", *texts, *rest)
    for j, what in enumerate(("MSE", "CRPS", "90 %"), start=1):
        if not np.isnan(mean[0, j]):
            table.add("", what, *(f"{100 * m:.1f}%" if what == "90 %" else f"{m:.3f}" for m in mean[:, j]))


def add_shares(table: Table, squares: np.ndarray, kinds: tuple[str, ...]) -> None:
    """Add the shares of the squared error in per cent, by quantity, largest first."""
    names, which = np.unique(kinds, return_inverse=True)
    shares = np.array([np.bincount(which, row) / row.sum() for row in squares])
    for j in np.argsort(-shares.mean(0)):
        table.add(f"of the squared error, {names[j]}", "", *(f"{100 * share:.1f}%" for share in shares[:, j]))


def run(table: Table, name: str, options: argparse.Namespace, best: list[float]) -> None:
    """Add the rows of all methods for a data set."""
    record = RECORDS[name](options.data)
    train, test = record.values[record.train], record.values[record.test]
    mean, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    if options.validation:
        test = record.values[record.train.stop : record.test.start]
    n = len(test) // record.window * record.window
    windows = [test[i : i + record.window] for i in range(0, n, record.window)]
    if options.validation:
        windows = windows[::VALIDATION_STEP]

    def incomplete(seed: int) -> np.ndarray:
        return np.where(np.random.default_rng(seed).random(train.shape) < record.hidden_share, np.nan, train)

    def evaluate(called: str, fit: Callable[[int], Filler], before: float = 0.0) -> None:
        rows, fitted, filled, squares = [], before, 0.0, np.zeros((len(PATTERNS), len(scale)))
        for seed in range(options.first, options.first + options.seeds):
            begin = time.process_time()
            filler = fit(seed)
            fitted += time.process_time() - begin
            begin = time.process_time()
            hidden_values = held_out_values(windows, record, seed)
            judged = [score(filler, windows, hidden, scale) for hidden in hidden_values]
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
        evaluate("linear interpolation in time", lambda _: straight_lines(mean))
    imputers = {"iterative": IterativeImputer(random_state=0), "knn": KNNImputer(n_neighbors=20)}
    for method in [each for each in imputers if each in methods]:
        imputer = imputers[method]
        evaluate(type(imputer).__name__, lambda seed, imputer=imputer: row_by_row(imputer, incomplete(seed)))
    if "model" not in methods:
        return
    asked = options.options
    if asked is None and not options.candidates:
        asked = record.options
    begin = time.process_time()
    models: dict[int, ProbabilisticSFA] = {}
    if asked is None:
        selection = select_model(incomplete(options.first), options.candidates)
        asked = selection.options
        models[options.first] = selection.best_estimator_
        print(selection, file=sys.stderr, flush=True)

    def fit_model(seed: int) -> Filler:
        if seed not in models:
            rows, more = incomplete(seed), {}
            # Other hidden values change the maximum little.
            before = models.get(seed - 1)
            if before is None and options.start:
                before = load(options.start)
            # The default call selects its model, for which no initial parameters exist.
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
    """Return a text of the options; a mapping of columns is represented by its size."""
    told = {key: f"of {len(value)}" if isinstance(value, dict) else value for key, value in options.items()}
    return ", ".join(f"{key}={value}" for key, value in told.items())


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        data="etth1/, beijing_multisite/, air_quality_uci/ and tsibench/",
        only={"choices": list(RECORDS), "default": "ETT_h1", "help": "which record"},
        seeds=(5, "how many random choices of hidden values"),
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
    texts = (f"{error:.3f} {method}" for error, method in zip(best, whose, strict=True))
    table.add("best published", "MAE", *texts)
    table.add("", "MSE", *(f"{error:.3f}" for error in squared))
    run(table, options.only, options, best)


if __name__ == "__main__":
    main()
