"""The estimator that the commands fit, as their options say."""

import argparse
from typing import Any

from probsfa.imputation import default_estimator

__all__ = ["make_estimator"]


def make_estimator(args: argparse.Namespace, n_features: int, *, verbose: bool = False) -> Any:
    """Make the estimator, unfitted."""
    return default_estimator(
        n_features,
        n_components=args.n_components,
        max_iter=args.max_iter,
        random_state=args.seed,
        verbose=verbose,
    )
