"""The estimator that the commands fit, as their options say."""

import argparse
from typing import Any

__all__ = ["make_estimator"]


def make_estimator(args: argparse.Namespace, *, verbose: bool = False) -> Any:
    """Make the estimator, unfitted."""
    from probsfa.statespace import ProbabilisticSFA  # loads JAX

    return ProbabilisticSFA(
        args.n_components,
        max_iter=args.max_iter,
        random_state=args.seed,
        verbose=verbose,
    )
