"""`probsfa impute`: fill the holes of a file."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from probsfa._files import replacing
from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli._outputs import check_outputs
from probsfa.cli._parser import ENOUGH
from probsfa.cli._pictures import check_format, draw_holes, save_picture
from probsfa.cli._screen import Screen
from probsfa.cli.fit import fit_model
from probsfa.cli.tables.input import Input, read_input
from probsfa.cli.tables.table import write_text

__all__ = ["filled_texts", "run", "std_texts"]

Texts = list[list[str | None]]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    outputs = [path for path in (args.output, args.std, args.plot) if path is not None]
    inputs = [path for path in (args.data, args.model) if path is not None]
    check_outputs(outputs, force=args.force, inputs=inputs)
    if args.plot is not None:
        check_format(args.plot)
    if args.model is not None and (args.n_components or args.max_iter != ENOUGH):
        raise CommandError("--n-components and --max-iter have no meaning with --model: it is fitted.")
    series = read_input(args, screen)
    filled, std = _fill(series, args, screen)
    with replacing(*outputs) as drafts:
        for output, draft in zip(outputs, drafts, strict=True):
            if output is args.plot:
                save_picture(draw_holes(series, filled, std), draft)
            else:
                make = filled_texts if output is args.output else std_texts
                texts = make(series.values, filled, std, series.table.decimal)
                write_text(draft, series.table.filled(series.roles.data, texts), series.table.encoding)
    holes = int(np.count_nonzero(np.isnan(series.values)))
    screen.note(f"{holes} cells filled: {', '.join(map(str, outputs))}")


def _fill(series: Input, args: argparse.Namespace, screen: Screen) -> tuple[FloatArray, FloatArray]:
    """The series without holes, and standard deviations."""
    model = None if args.model is None else _saved_model(args.model, series)
    if not np.isnan(series.values).any():
        screen.warn("nothing is missing, so nothing is filled: the output is the file as it was.")
        return series.values, np.zeros_like(series.values)
    if model is None:
        model = fit_model(series, args, screen)
    filled, std = model.impute(series.frame, return_std=True, times=series.times)
    return np.asarray(filled), np.asarray(std)


def filled_texts(X: FloatArray, filled: FloatArray, std: FloatArray, decimal: str = ".") -> Texts:
    """New texts of the cells of each column, None where observed.

    Digits are written down to a thousandth of the smallest standard deviation in the column.
    """
    return [_column_texts(*column, decimal) for column in zip(X.T, filled.T, std.T, strict=True)]


def std_texts(X: FloatArray, filled: FloatArray, std: FloatArray, decimal: str = ".") -> Texts:
    """Texts of the standard deviations, 0 where observed."""
    observed = ~np.isnan(X)
    return [
        ["0" if seen else f"{value:.4g}".replace(".", decimal) for seen, value in zip(*column, strict=True)]
        for column in zip(observed.T, std.T, strict=True)
    ]


def _column_texts(X: FloatArray, filled: FloatArray, std: FloatArray, decimal: str) -> list[str | None]:
    holes = np.isnan(X)
    smallest = float(np.min(std[holes], initial=math.inf))
    digits = 3 - math.floor(math.log10(smallest)) if 0.0 < smallest < math.inf else None
    return [
        _number(value, digits).replace(".", decimal) if hole else None
        for hole, value in zip(holes, filled, strict=True)
    ]


def _number(value: float, digits: int | None) -> str:
    if digits is None or digits > 15:
        return repr(float(value))
    return f"{value:.{max(digits, 0)}f}"


def _saved_model(path: Path, series: Input) -> Any:
    from probsfa import load

    model = load(path)
    expected: Sequence[str] = getattr(model, "feature_names_in_", ())
    if list(expected) and list(expected) != series.names:
        raise CommandError(
            f"{path}: was fitted to the columns {', '.join(expected)}; {series.table.path} has "
            f"{', '.join(series.names)}. Choose them with --columns, in that order."
        )
    return model
