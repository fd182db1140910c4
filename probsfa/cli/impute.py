"""`probsfa impute`: fill the holes of a file."""

import argparse
import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from probsfa._typing import BoolArray, FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli._memory import give_back
from probsfa.cli._outputs import check_outputs, writing
from probsfa.cli._parser import ENOUGH
from probsfa.cli._screen import Screen
from probsfa.cli.fit import fit_model
from probsfa.cli.tables.content import check_written_as_text, write_content
from probsfa.cli.tables.input import Input, read_input
from probsfa.cli.tables.table import NewTexts

# Seconds that a choice takes at least, however long it took to read the file.
_LEAST_BUDGET = 0.1

__all__ = ["filled_texts", "run", "std_texts"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    begin = time.perf_counter()
    outputs = [path for path in (args.output, args.std, args.plot) if path is not None]
    inputs = [path for path in (args.data, args.model) if path is not None]
    check_outputs(outputs, force=args.force, inputs=inputs)
    if args.plot is not None:
        from probsfa.cli._pictures import check_format  # loads all pictures, which most calls do without

        check_format(args.plot)
    for path in (path for path in (args.output, args.std) if path is not None):
        check_written_as_text(path)
    if args.model is not None and (args.n_components or args.max_iter != ENOUGH):
        raise CommandError("--n-components and --max-iter have no meaning with --model: it is fitted.")
    if args.budget is not None and (args.model is not None or args.n_components):
        raise CommandError("--budget chooses a model; it has no meaning with --model or --n-components.")
    model = None if args.model is None else _saved_model(args.model)
    series = read_input(args, screen, columns=getattr(model, "feature_names_in_", None))
    if model is not None:
        _check_columns(args.model, model, series)
    if args.dry_run:
        screen.result(json.dumps(series.plan_as_dict(), indent=2) if args.json else series.plan_as_text())
        return
    filled, std, choice = _fill(series, model, args, screen, begin)
    give_back()
    with writing(*outputs) as drafts:
        for output, draft in zip(outputs, drafts, strict=True):
            if output is args.plot:
                from probsfa.cli._pictures import draw_holes, save_picture

                save_picture(draw_holes(series, filled, std), draft)
            else:
                texts = filled_texts(series, filled, std) if output is args.output else std_texts(series, std)
                write_content(draft, series.table.filled(texts))
    holes = sum(series.missing)
    if args.json:
        report = {
            "plan": series.plan_as_dict(),
            "filled_cells": holes,
            "outputs": [str(path) for path in outputs],
        }
        if args.budget is not None:
            report["choice"] = choice
        screen.result(json.dumps(report, indent=2))
    screen.note(f"{holes} cells filled: {', '.join(map(str, outputs))}")


def _fill(
    series: Input, model: Any, args: argparse.Namespace, screen: Screen, begin: float
) -> tuple[FloatArray, FloatArray, dict[str, Any] | None]:
    """The series without holes, and standard deviations; a model is fitted first where there is none.

    Third what was chosen and why, where a model was chosen within the seconds that there are since `begin`.
    """
    choice = None
    if not np.isnan(series.values).any():
        screen.warn("nothing is missing, so nothing is filled: the output is the file as it was.")
        return series.values, np.zeros_like(series.values), None
    series.table.release()
    give_back()
    if model is None and args.budget is not None:
        model, choice = _choose(series, args, screen, begin)
    elif model is None:
        model = fit_model(series, args, screen, filling=True)
    give_back()
    results = model.impute(series.X, return_std=True, times=series.times)
    filled, std = (series.in_order_of_file(result) for result in results)
    _check_finite(series, filled, std)
    return filled, std, choice


def _choose(
    series: Input, args: argparse.Namespace, screen: Screen, begin: float
) -> tuple[Any, dict[str, Any]]:
    """A model chosen within the budget, and what was chosen and why.

    Raises
    ------
    KeyboardInterrupt
        If the search was interrupted: who interrupts a command wants its end.
    """
    from probsfa.statespace import select_model  # loads JAX

    left = max(args.budget - (time.perf_counter() - begin), _LEAST_BUDGET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status says so too
        selection = select_model(
            series.X, times=series.times, budget=left, random_state=args.seed, verbose=not screen.quiet
        )
    if selection.interrupted:
        raise KeyboardInterrupt
    screen.note(selection.reason)
    options = {name: value for name, value in selection.options.items() if value not in (None, 0)}
    return selection.best_estimator_, {"options": options, "reason": selection.reason}


def _check_finite(series: Input, filled: FloatArray, std: FloatArray) -> None:
    """Refuse to write what is no number."""
    bad = np.argwhere(~(np.isfinite(filled) & np.isfinite(std)))
    if len(bad):
        row, column = map(int, bad[0])
        raise CommandError(
            f"{series.table.where(row, series.plan.data[column])}: the model gives no number for this cell, "
            "so nothing was written. Cells far beyond all others, or units far from 1, are the usual cause; "
            "see --missing-code and --exclude."
        )


def filled_texts(series: Input, filled: FloatArray, std: FloatArray) -> NewTexts:
    """New texts of the missing cells.

    Digits are written down to a thousandth of the smallest standard deviation in the column.
    """
    digits = [
        _digits(column, np.isnan(values)) for column, values in zip(std.T, series.values.T, strict=True)
    ]

    def texts(rows: NDArray[np.intp], i: int, missing: BoolArray) -> dict[int, str]:
        chosen = rows[missing]
        numbers = filled[chosen, i].tolist()
        return dict(zip(chosen.tolist(), (_number(number, digits[i]) for number in numbers), strict=True))

    return _texts(series, texts)


def std_texts(series: Input, std: FloatArray) -> NewTexts:
    """Texts of the standard deviations of all cells, 0 where observed."""

    def texts(rows: NDArray[np.intp], i: int, missing: BoolArray) -> dict[int, str]:
        of_all = dict.fromkeys(rows.tolist(), "0")
        chosen = rows[missing]
        of_all.update(
            zip(chosen.tolist(), (f"{number:.4g}" for number in std[chosen, i].tolist()), strict=True)
        )
        return of_all

    return _texts(series, texts)


def _texts(
    series: Input, of_column: Callable[[NDArray[np.intp], int, BoolArray], dict[int, str]]
) -> NewTexts:
    """New texts of the data columns, each made of some rows, its number and which of them are missing."""
    decimal = series.table.style.decimal

    def texts(rows: slice) -> dict[int, dict[int, str]]:
        missing = np.isnan(series.values[rows])
        numbers = np.arange(rows.start, rows.stop)
        new = {j: of_column(numbers, i, missing[:, i]) for i, j in enumerate(series.plan.data)}
        if decimal == ".":
            return new
        return {
            j: {row: text.replace(".", decimal) for row, text in by_row.items()} for j, by_row in new.items()
        }

    return texts


def _digits(std: FloatArray, missing: BoolArray) -> int | None:
    """Digits behind the decimal mark that are worth writing in a column; None for all."""
    smallest = float(np.min(std[missing], initial=math.inf))
    return 3 - math.floor(math.log10(smallest)) if 0.0 < smallest < math.inf else None


def _number(value: float, digits: int | None) -> str:
    if digits is None or digits > 15:
        return repr(float(value))
    return f"{value:.{max(digits, 0)}f}"


def _saved_model(path: Path) -> Any:
    from probsfa import load

    try:
        model = load(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if missing else f"cannot be read ({error.strerror or error})"
        raise CommandError(f"{path}: {reason}.") from None
    impute = getattr(model, "impute", None)
    if impute is None or "times" not in inspect.signature(impute).parameters:
        raise CommandError(
            f"{path}: is a {type(model).__name__}, which fills no holes of rows in time; ProbabilisticSFA, "
            "BayesianSFA and EmissionSFA do."
        )
    return model


def _check_columns(path: Path, model: Any, series: Input) -> None:
    """Refuse a model of other columns."""
    expected: Sequence[str] = getattr(model, "feature_names_in_", ())
    if list(expected) and list(expected) != series.names:
        raise CommandError(
            f"{path}: was fitted to the columns {', '.join(expected)}; {series.table.source} has "
            f"{', '.join(series.names)}. Choose them with --columns, in that order."
        )
