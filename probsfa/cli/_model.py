"""The estimator that the commands fit, as their options say."""

import argparse
from typing import Any

__all__ = ["make_estimator"]


def make_estimator(args: argparse.Namespace, *, verbose: bool = False, n_filling: int = 0) -> Any:
    """Make the estimator, unfitted.

    Parameters
    ----------
    args : argparse.Namespace
        The options of the command.
    verbose : bool, default=False
        Whether the fit shows its progress.
    n_filling : int, default=0
        Observed cells of the record, if the model is for nothing but filling its holes.
    """
    from probsfa.statespace import ProbabilisticSFA  # loads JAX
    from probsfa.statespace.learning.options import gain_worth_filling

    return ProbabilisticSFA(
        args.n_components,
        max_iter=args.max_iter,
        tol=gain_worth_filling(n_filling),
        random_state=args.seed,
        verbose=verbose,
    )
