"""`probsfa impute`: fill the missing values of a file."""

import argparse
import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli._memory import release_memory
from probsfa.cli._model import description, fit_model
from probsfa.cli._outputs import writing
from probsfa.cli._screen import Screen
from probsfa.cli.tables.content import write_content
from probsfa.cli.tables.input import Input, read_input

__all__ = ["filled_texts", "run", "std_texts"]

# Minimum time in seconds for the selection of a model, also if reading the file has exceeded the budget.
_MIN_BUDGET = 0.1
# Function that maps the index of a row to pairs of column and new text.
NewTexts = Callable[[int], Iterable[tuple[int, str]]]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    start_time = time.perf_counter()
    outputs = [path for path in (args.output, args.std, args.plot) if path is not None]
    model = None if args.model is None else _load_model(args.model)
    series = read_input(args, screen, columns=_columns_of(model))
    if model is not None:
        _check_model(args.model, model, series)
    if args.dry_run:
        screen.result(
            json.dumps(series.interpretation_as_dict(), indent=2)
            if args.json
            else series.interpretation_as_text()
        )
        return
    filled, std, choice = _fill(series, model, args, screen, start_time)
    release_memory()
    with writing(*outputs) as temporary_files:
        for output, temporary_file in zip(outputs, temporary_files, strict=True):
            if output is args.plot:
                from probsfa.cli._pictures import draw_missing_blocks, save_picture

                save_picture(draw_missing_blocks(series, filled, std), temporary_file)
            else:
                texts = filled_texts(series, filled, std) if output is args.output else std_texts(series, std)
                write_content(temporary_file, series.table.content.encoded(series.table.filled(texts)))
    n_missing = sum(series.missing)
    if args.json:
        report: dict[str, Any] = {
            "plan": series.interpretation_as_dict(),
            "filled_cells": n_missing,
            "outputs": [str(path) for path in outputs],
        }
        if args.budget is not None:
            report["choice"] = choice
        screen.result(json.dumps(report, indent=2))
    screen.note(f"{n_missing} missing values filled: {', '.join(map(str, outputs))}")


def _fill(
    series: Input, model: Any, args: argparse.Namespace, screen: Screen, start_time: float
) -> tuple[FloatArray, FloatArray, dict[str, Any] | None]:
    """Return completed values, standard deviations, and a report of the model selection.

    If `model` is None, a model is fitted or, with ``--budget``, selected; the budget is counted from
    `start_time`. Without ``--budget`` the report is None.
    """
    choice = None
    if not np.isnan(series.values).any():
        screen.warn("no value is missing; the output is a copy of the file.")
        return series.values, np.zeros_like(series.values), None
    release_memory()
    if model is None and args.budget is not None:
        model, choice = _select_model(series, args, screen, start_time)
    elif model is None:
        model = fit_model(series, args, screen, for_imputation=True)
    release_memory()
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", UserWarning)
        results = model.impute(series.X, return_std=True, times=series.times)
    for warning in caught_warnings:
        if "interpolation" in str(warning.message):
            screen.warn(
                "linear interpolation fills single missing values of this file as well as the model does; "
                "'probsfa compare' measures both."
            )
        elif not issubclass(warning.category, UserWarning):
            screen.warn(str(warning.message))
    filled, std = (series.in_order_of_file(result) for result in results)
    _check_finite(series, filled, std)
    # Imported here, because the import is slow and files are checked first.
    from probsfa.statespace.columns import list_columns, unexpectedly_negative

    negative = unexpectedly_negative(series.values, filled)
    if negative.any():
        names = list_columns(np.flatnonzero(negative.any(axis=0)), series.names)
        screen.warn(
            f"{int(negative.sum()):,} filled values of {names} are negative, but no value of the file is."
        )
    return filled, std, choice


def _select_model(
    series: Input, args: argparse.Namespace, screen: Screen, start_time: float
) -> tuple[Any, dict[str, Any]]:
    """Select a model within the budget; return the model, and a report of the selection in types of JSON.

    Raises
    ------
    KeyboardInterrupt
        If the search was interrupted.
    """
    from probsfa.statespace import select_model  # a slow import

    remaining_time = max(args.budget - (time.perf_counter() - start_time), _MIN_BUDGET)
    with screen.working("selecting a model"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        selection = select_model(series.X, times=series.times, budget=remaining_time, random_state=args.seed)
    if selection.interrupted:
        raise KeyboardInterrupt
    model = selection.best_estimator_
    n_models = len({record["model"] for record in selection.records})
    [selected] = [record for record in selection.records if record["verdict"] == "selected"][-1:] or [{}]
    error = float(selected.get("rmse", math.nan))
    choice = {
        "description": description(model),
        "compared_models": n_models,
        "error_of_hidden_values": None if math.isnan(error) else error,
        "seconds": round(selection.seconds, 1),
    }
    measured = "" if math.isnan(error) else f"; error of hidden values {error:.3g} standard deviations"
    screen.note(
        f"model: {choice['description']}, selected among {n_models} in {selection.seconds:.0f} s{measured}"
    )
    return model, choice


def _check_finite(series: Input, filled: FloatArray, std: FloatArray) -> None:
    """Raise an error for results that are not finite."""
    not_finite = np.argwhere(~(np.isfinite(filled) & np.isfinite(std)))
    if len(not_finite):
        row, column = map(int, not_finite[0])
        raise CommandError(
            f"{series.table.where(row, series.column_roles.data[column])}: the imputed value is not finite, "
            "so that no file was written. Check for extreme values or units (--missing-code, --exclude)."
        )


def filled_texts(series: Input, filled: FloatArray, std: FloatArray) -> NewTexts:
    """Return the texts of imputed values, which replace missing values of the file.

    The unit of the last decimal is at most a thousandth of the smallest standard deviation of the column.
    """
    missing = np.isnan(series.values)
    decimals = [_n_decimals(column, is_missing) for column, is_missing in zip(std.T, missing.T, strict=True)]
    return _texts(series, missing, lambda row, i: _format_number(float(filled[row, i]), decimals[i]))


def std_texts(series: Input, std: FloatArray) -> NewTexts:
    """Return the texts of standard deviations, 0 for observed values."""
    missing = np.isnan(series.values)
    return _texts(
        series, np.ones_like(missing), lambda row, i: f"{std[row, i]:.4g}" if missing[row, i] else "0"
    )


def _texts(series: Input, is_filled: Any, text: Callable[[int, int], str]) -> NewTexts:
    """Return the new texts of the values for which `is_filled` is true."""
    has_filled, decimal, data = is_filled.any(axis=1), series.table.decimal, series.column_roles.data

    def texts_of_row(row: int) -> list[tuple[int, str]]:
        if not has_filled[row]:
            return []
        positions = np.flatnonzero(is_filled[row]).tolist()
        return [(data[i], text(row, i).replace(".", decimal)) for i in positions]

    return texts_of_row


def _n_decimals(std: FloatArray, missing: Any) -> int | None:
    """Return the number of decimals to which values of a column are rounded; None for no rounding."""
    smallest = float(np.min(std[missing], initial=math.inf))
    return 3 - math.floor(math.log10(smallest)) if 0.0 < smallest < math.inf else None


def _format_number(value: float, n_decimals: int | None) -> str:
    return repr(value) if n_decimals is None or n_decimals > 15 else f"{value:.{max(n_decimals, 0)}f}"


def _load_model(path: Path) -> Any:
    """Load a model; raise an error if it cannot impute missing values."""
    from probsfa import load

    try:
        model = load(path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror or error}).") from None
    impute = getattr(model, "impute", None)
    if impute is None or "times" not in inspect.signature(impute).parameters:
        raise CommandError(
            f"{path}: has a {type(model).__name__}, which cannot impute missing values. Make a model with "
            "'probsfa fit'."
        )
    return model


def _columns_of(model: Any) -> list[str]:
    return [str(name) for name in getattr(model, "feature_names_in_", ())]


def _check_model(path: Path, model: Any, series: Input) -> None:
    """Raise an error for a model of other columns or of another type of times."""
    expected = _columns_of(model)
    if expected and expected != series.names:
        raise CommandError(
            f"{path}: was fitted to the columns {', '.join(expected)}; {series.table.source} has "
            f"{', '.join(series.names)}. Choose them with --columns, in that order."
        )
    if getattr(model, "time_unit_seconds_", None) is not None and series.times is not None:
        raise CommandError(
            f"{path}: was fitted to rows with dates; {series.table.source} has numbers as times. Name a "
            "column of dates with --time, or the unit of the numbers with --epoch."
        )
