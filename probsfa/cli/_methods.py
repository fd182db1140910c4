"""Ways to fill the holes of a series, behind one signature.

A method takes a series (T, D) with NaN where missing, and its clock, and gives the filled series and, where
it has them, standard deviations of the filled cells.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._threads import one_blas_thread
from probsfa.cli._parser import ENOUGH
from probsfa.cli.tables.clock import Clock

__all__ = [
    "CLASSIC",
    "LINEAR",
    "PROBABILISTIC",
    "Filled",
    "Method",
    "default_methods",
    "fit_quietly",
    "make_model",
    "when",
]

FloatArray = NDArray[np.float64]


LINEAR, CLASSIC, PROBABILISTIC = "linear interpolation", "classic SFA", "probabilistic SFA"

_MOST_COMPONENTS = 20
# For filling holes the last nats of likelihood change nothing, and no column is trusted beyond a thousandth
# of its variance: real records let a latent explain one column without any noise, and intervals become too
# narrow.
_SETTINGS: dict[str, Any] = {"max_iter": ENOUGH, "tol": 1.0, "noise_floor": 1e-3}


class Filled(NamedTuple):
    """A series without holes.

    Attributes
    ----------
    values : ndarray (T, D)
        The filled series.
    std : ndarray (T, D) or None
        Standard deviations of the filled cells, zero where observed, if the method has them.
    model : estimator or None
        What was fitted, if that is of use later.
    """

    values: FloatArray
    std: FloatArray | None = None
    model: Any = None


Method = Callable[[FloatArray, Clock], Filled]


def make_model(args: argparse.Namespace, n_features: int, *, verbose: bool = False) -> Any:
    """Make the estimator that the commands use, unfitted.

    Where the user does not say how many latents there are, there is one for each column, up to twenty: for
    filling holes fast latents count as much as slow ones.
    """
    from probsfa import ProbabilisticSFA

    settings = _SETTINGS if args.max_iter is None else {**_SETTINGS, "max_iter": args.max_iter}
    n_components = args.n_components or min(n_features, _MOST_COMPONENTS)
    return ProbabilisticSFA(n_components=n_components, random_state=args.seed, verbose=verbose, **settings)


def default_methods(model: Any) -> dict[str, Method]:
    """The methods that are compared, simplest first; `model` is the unfitted probabilistic estimator."""
    return {
        "mean": fill_mean,
        LINEAR: fill_linear,
        "IterativeImputer": fill_iterative,
        CLASSIC: fill_classic,
        PROBABILISTIC: fill_with(model),
    }


def fill_mean(X: FloatArray, clock: Clock) -> Filled:
    """Fill with the mean of the column."""
    return Filled(np.where(np.isnan(X), np.nanmean(X, axis=0), X))


def fill_linear(X: FloatArray, clock: Clock) -> Filled:
    """Fill along straight lines in time; before the first and after the last observation with that."""
    when = np.arange(len(X), dtype=np.float64) if clock.times is None else clock.times
    filled = X.copy()
    for column in filled.T:
        hole = np.isnan(column)
        column[hole] = np.interp(when[hole], when[~hole], column[~hole])
    return Filled(filled)


def fill_iterative(X: FloatArray, clock: Clock) -> Filled:
    """Fill with scikit-learn's IterativeImputer: each column regressed on the others, five rounds."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import (
        enable_iterative_imputer as enable_iterative_imputer,  # makes it importable
    )
    from sklearn.impute import IterativeImputer

    # Its matrices are as small as there are columns: threads would mostly wait for each other.
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # five rounds are what is asked for
        return Filled(IterativeImputer(max_iter=5, random_state=0).fit_transform(X))


def fill_classic(X: FloatArray, clock: Clock) -> Filled:
    """Fill with what the slower half of the slow features of the interpolated series explains.

    All of them would give the interpolation back.
    """
    from probsfa import SFA

    interpolated = fill_linear(X, clock).values
    sfa = SFA().fit(interpolated)
    features = sfa.transform(interpolated)
    features[:, (features.shape[1] + 1) // 2 :] = 0.0
    return Filled(np.where(np.isnan(X), sfa.inverse_transform(features), X))


def fill_with(model: Any) -> Method:
    """Make a method of an estimator that has ``fit`` and ``impute``; it is cloned for every series."""

    def fill(X: FloatArray, clock: Clock) -> Filled:
        from sklearn.base import clone

        fitted = fit_quietly(clone(model), X, clock)
        if fitted.status_.startswith("Interrupted"):
            raise KeyboardInterrupt  # half a fit is no fair comparison, and whoever interrupts wants the end
        values, std = fitted.impute(X, return_std=True, **when(clock))
        return Filled(values, std, fitted)

    return fill


def fit_quietly(model: Any, X: Any, clock: Clock) -> Any:
    """Fit an estimator without its warning that it stopped early: its ``status_`` says so too."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, **when(clock))


def when(clock: Clock) -> dict[str, Any]:
    """The `times` argument of an estimator, left out where rows are evenly spaced."""
    return {} if clock.times is None else {"times": clock.times}
