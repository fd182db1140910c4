"""`probsfa compare`: comparison of imputation methods on the data of the user."""

import argparse
import json
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli._model import make_estimator
from probsfa.cli._outputs import is_standard_stream, writing
from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.cli._screen import Screen
from probsfa.cli.tables.content import write_content
from probsfa.cli.tables.input import read_input

if TYPE_CHECKING:
    from probsfa import imputation

__all__ = ["compare_on", "run"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    outputs = [] if args.output is None else [args.output]
    series = read_input(args, screen)
    if args.dry_run:
        screen.result(
            json.dumps(series.interpretation_as_dict(), indent=2)
            if args.json
            else series.interpretation_as_text()
        )
        return
    if args.block > len(series.values):
        raise CommandError(
            f"--block must be at most the number of rows, {len(series.values)}; got {args.block}."
        )
    estimator = make_estimator(args)
    comparisons = compare_on(series.arrays, estimator, args, screen, block=args.block, times=series.steps)
    if args.json:
        screen.result(
            json.dumps({"plan": series.interpretation_as_dict(), "hidden": _as_dicts(comparisons)}, indent=2)
        )
    else:
        (screen.note if any(map(is_standard_stream, outputs)) else screen.result)(scores_as_text(comparisons))
    with writing(*outputs) as temporary_files:
        for temporary_file in temporary_files:
            write_content(temporary_file, [scores_as_csv(comparisons).encode()])


def _as_dicts(comparisons: "list[imputation.Comparison]") -> list[dict[str, Any]]:
    """Convert scores to JSON types."""
    return [{"hidden": c.hidden, "scores": [asdict(score) for score in c.scores]} for c in comparisons]


def compare_on(
    X: NDArray[np.float64] | list[NDArray[np.float64]],
    estimator: Any,
    args: argparse.Namespace,
    screen: Screen,
    *,
    block: int,
    times: Any = None,
    at_once: bool = False,
) -> "list[imputation.Comparison]":
    """Compare an estimator with other methods on a series, and show progress.

    Parameters
    ----------
    X : ndarray (T, D), or list of them
        The series, NaN where missing; a list is several independent sequences.
    estimator : estimator
        Unfitted estimator.
    args : argparse.Namespace
        Options: share of hidden values (`fraction`), number of repetitions (`masks`) and `seed`.
    screen : Screen
        Output for progress.
    block : int
        Rows of a hidden block.
    times : ndarray (T,), list of them, or None
        Times of the rows; None if they are evenly spaced.
    at_once : bool, default=False
        Whether single values and blocks are hidden in the same series, so that each method runs once.
    """
    from probsfa import imputation  # a slow import
    from probsfa.statespace.engine.core.kernels import warn_if_missing

    warn_if_missing()  # warnings are ignored below
    with screen.progress() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warnings name parameters in Python, not options
        return imputation.compare_methods(
            X,
            imputation.default_methods(estimator),
            [imputation.HiddenValues(args.fraction), imputation.HiddenBlocks(block, args.fraction)],
            seeds=range(args.seed, args.seed + args.masks),
            times=times,
            progress=progress,
            at_once=at_once,
        )
