"""Construction, fit and description of the estimator of a command."""

import argparse
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli._parser import DEFAULT_MAX_ITER
from probsfa.cli._screen import Screen

if TYPE_CHECKING:
    from probsfa.cli.tables.input import Input

__all__ = ["description", "fit_model", "has_ar1_noise", "make_estimator", "n_factors", "timescales"]

# Noise variance, relative to the variance of the column, below which a factor reproduces the column.
_MIN_NOISE_SHARE = 1e-4


def make_estimator(args: argparse.Namespace, *, n_observed: int = 0) -> Any:
    """Return the unfitted estimator.

    Parameters
    ----------
    args : argparse.Namespace
        Options of the command.
    n_observed : int, default=0
        Number of observed values of the file if the model is used only to impute this file, which permits a
        larger tolerance; otherwise 0.
    """
    from probsfa.statespace import ProbabilisticSFA  # a slow import
    from probsfa.statespace.learning.options import imputation_tolerance

    return ProbabilisticSFA(
        args.n_components,
        max_iter=args.max_iter,
        tol=imputation_tolerance(n_observed),
        random_state=args.seed,
    )


def fit_model(
    series: "Input", args: argparse.Namespace, screen: Screen, *, for_imputation: bool = False
) -> Any:
    """Fit a model to a file with the options of the command, and report the end of the fit.

    Parameters
    ----------
    series : Input
        The file.
    args : argparse.Namespace
        The options of the command.
    screen : Screen
        Output for progress and the report.
    for_imputation : bool, default=False
        Whether the model only imputes the file; the fit then ends when imputed values hardly change.

    Raises
    ------
    KeyboardInterrupt
        If the fit was interrupted.
    """
    if len(series.values) < 2:
        raise CommandError(
            f"{series.table.source}: has {len(series.values)} row of data; at least two are required."
        )
    if np.all(np.nanmin(series.values, axis=0) == np.nanmax(series.values, axis=0)):
        raise CommandError(
            f"{series.table.source}: all data columns are constant. Choose other columns with --columns."
        )
    model = make_estimator(
        args, n_observed=int(np.count_nonzero(~np.isnan(series.values))) if for_imputation else 0
    )
    columns = "1 column" if len(series.names) == 1 else f"{len(series.names)} columns"
    with screen.working(f"fitting a model to {columns}"), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # they name Python parameters; the report has the relevant warnings
        model.fit(series.X, times=series.times)
    if not model.converged_ and model.status_.startswith("Interrupted"):
        raise KeyboardInterrupt
    screen.note(f"model: {description(model)}, {_convergence(model)}")
    if not model.converged_:
        screen.warn(_advice(model))
    for name in _without_noise(model, series) if n_factors(model) > 1 else []:
        screen.note(
            f"{name}: a factor reproduces this column exactly, so that standard deviations may be too "
            "small; use fewer factors (-k)"
        )
    return model


def n_factors(model: Any) -> int:
    """Return the number of factors of a model."""
    return len(model.timescales_)


def has_ar1_noise(model: Any) -> bool:
    """Return whether the noise of columns is autocorrelated."""
    return bool(np.any(getattr(model, "noise_decay_", 0.0)))


def timescales(model: Any) -> FloatArray:
    """Return time scales in steps, or in units of the times if these are numbers."""
    return np.asarray(model.timescales_ / getattr(model, "time_unit_", 1.0), dtype=np.float64)


def description(model: Any) -> str:
    """Describe a model: its factors and its noise."""
    n = n_factors(model)
    parts = [f"{n} factor" if n == 1 else f"{n} factors"]
    for name, kind in (("rhythm_periods_", "cycle"), ("smooth_timescales_", "smooth feature")):
        m = len(getattr(model, name, ()))
        parts += [f"{m} {kind}" if m == 1 else f"{m} {kind}s"] if m else []
    noise = "autocorrelated noise" if has_ar1_noise(model) else "white noise"
    return f"{', '.join(parts)} and {noise} in each column"


def _convergence(model: Any) -> str:
    """Describe the end of the fit."""
    iterations = f"{model.n_evaluations_} iteration" + "s" * (model.n_evaluations_ != 1)
    return f"{'converged' if model.converged_ else 'stopped'} after {iterations}"


def _advice(model: Any) -> str:
    """Return advice for a fit that did not converge."""
    if model.n_evaluations_ < model.max_iter:
        return "the fit stopped before convergence. 'probsfa compare' measures the error of filled values."
    text = f"the fit stopped after {model.max_iter} iterations (--max-iter) without convergence. "
    if model.max_iter <= DEFAULT_MAX_ITER:
        return text + "Filled values are mostly accurate; 'probsfa compare' measures their error."
    return text + "Increase --max-iter, or use fewer factors with -k."


def _without_noise(model: Any, series: "Input") -> list[str]:
    """Return the names of columns with hardly any noise.

    Return no names if the noise is autocorrelated, or if most columns have hardly any noise.
    """
    noise_shares = model.noise_variance_ / np.maximum(np.nanvar(series.values, axis=0), 1e-300)
    has_low_noise = (noise_shares < _MIN_NOISE_SHARE) & (
        np.nanmin(series.values, axis=0) < np.nanmax(series.values, axis=0)
    )
    if has_ar1_noise(model) or 2 * np.count_nonzero(has_low_noise) > len(noise_shares):
        return []
    return [name for name, is_low in zip(series.names, has_low_noise, strict=True) if is_low]
