"""`probsfa compare`: ways to fill holes, compared on the user's data."""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa import imputation
from probsfa._files import replacing
from probsfa.cli._errors import CommandError
from probsfa.cli._model import make_estimator
from probsfa.cli._outputs import check_outputs
from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import read_input
from probsfa.cli.tables.table import write_text

__all__ = ["compare_on", "run"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    outputs = [] if args.output is None else [args.output]
    check_outputs(outputs, force=args.force, inputs=[args.data])
    series = read_input(args, screen)
    if args.block > len(series.values):
        raise CommandError(
            f"--block must be at most the {len(series.values)} rows that there are, got {args.block}."
        )
    estimator = make_estimator(args)
    comparisons = compare_on(
        series.values, estimator, args, screen, block=args.block, times=series.clock.times
    )
    screen.result(scores_as_text(comparisons))
    with replacing(*outputs) as drafts:
        for draft in drafts:
            write_text(draft, scores_as_csv(comparisons), "utf-8")


def compare_on(
    X: NDArray[np.float64],
    estimator: Any,
    args: argparse.Namespace,
    screen: Screen,
    *,
    block: int,
    times: NDArray[np.float64] | None = None,
) -> list[imputation.Comparison]:
    """Compare an estimator with other methods on a series, as the options say, showing progress.

    Parameters
    ----------
    X : ndarray (T, D)
        The series, NaN where missing.
    estimator : estimator
        Unfitted.
    args : argparse.Namespace
        Which part of the cells is hidden (`fraction`), how often (`masks`) and with what `seed`.
    screen : Screen
        Where progress is shown.
    block : int
        Rows of a hidden block.
    times : ndarray (T,) or None
        Times of the rows; None where they are evenly spaced.
    """
    with screen.progress() as progress:
        return imputation.compare_methods(
            X,
            imputation.default_methods(estimator),
            [imputation.HiddenCells(args.fraction), imputation.HiddenBlocks(block, args.fraction)],
            seeds=range(args.seed, args.seed + args.masks),
            times=times,
            progress=progress,
        )
