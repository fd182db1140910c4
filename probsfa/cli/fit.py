"""`probsfa fit`: fit a model, save it, and say what it learned."""

import argparse
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._model import make_estimator
from probsfa.cli._outputs import check_outputs, is_standard_stream, writing
from probsfa.cli._parser import ENOUGH
from probsfa.cli._report import align
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import Input, read_input
from probsfa.imputation import fit_quietly

__all__ = ["fit_model", "model_as_dict", "run", "summarize"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    if args.output is not None:
        check_outputs([args.output], force=args.force, inputs=[args.data])
    series = read_input(args, screen)
    if args.dry_run:
        screen.result(json.dumps(series.plan_as_dict(), indent=2) if args.json else series.plan_as_text())
        return
    model = fit_model(series, args, screen)
    with writing(args.output) as [draft]:
        model.save(draft)
    if args.json:
        screen.result(
            json.dumps({"plan": series.plan_as_dict(), "model": model_as_dict(model, series)}, indent=2)
        )
    else:  # the model itself may go to standard output
        (screen.note if is_standard_stream(args.output) else screen.result)(summarize(model, series))
    screen.note(f"saved: {args.output}")


def fit_model(series: Input, args: argparse.Namespace, screen: Screen, *, filling: bool = False) -> Any:
    """Fit a model to a file as the options say, showing progress and how it ended.

    A model for ``filling`` the holes of the file alone ends where a further step moves no cell any more.

    Raises
    ------
    KeyboardInterrupt
        If the fit was interrupted: who interrupts a command wants its end, not half of a model.
    """
    n_filling = int(np.count_nonzero(~np.isnan(series.values))) if filling else 0
    model = make_estimator(args, verbose=not screen.quiet, n_filling=n_filling)
    fit_quietly(model, series.X, times=series.times)
    if model.status_.startswith("Interrupted"):
        raise KeyboardInterrupt
    if model.converged_:
        screen.note(_ending(model))
    else:
        screen.warn(_advice(model))
    return model


def _ending(model: Any) -> str:
    """How the fit ended, without what the status says of times, which the commands say of the file."""
    return str(model.status_).partition(" The index of X")[0]


def _advice(model: Any) -> str:
    """What a fit that did not end at a maximum is good for, in the words of the command line."""
    if not model.status_.startswith("Stopped at max_iter"):
        return _ending(model)
    words = (
        f"the fit stopped after {model.max_iter} evaluations (--max-iter), while the log-likelihood was "
        "still rising. "
    )
    if model.max_iter <= ENOUGH:
        return words + "For filling holes that is mostly enough; 'probsfa compare' tells."
    return words + "Raise --max-iter, or take fewer slow features with -k."


def _timescales(model: Any) -> NDArray[np.float64]:
    """Time scales in steps; a model of uneven dates counts seconds."""
    return np.asarray(model.timescales_ / getattr(model, "time_unit_", 1.0))


def summarize(model: Any, series: Input) -> str:
    """Describe a fitted model: time scales, noise and log-likelihood."""
    rows = len(series.values)
    step = "steps" if series.clock.step is None else f"steps of {series.clock.step}"
    scales = [("slow feature", f"time scale ({step})")]
    scales += [  # a decay that is not positive has no time scale
        (str(k + 1), "-" if np.isnan(scale) else f"{scale:.4g}") for k, scale in enumerate(_timescales(model))
    ]
    share = model.noise_variance_ / np.nanvar(series.values, axis=0)
    noise = [("column", "standard deviation of the noise", "part of the variance")]
    noise += [
        (name, f"{np.sqrt(variance):.4g}", f"{100.0 * part:.2g} %")
        for name, variance, part in zip(series.names, model.noise_variance_, share, strict=True)
    ]
    return "\n".join(
        [
            align(scales),
            "",
            align(noise),
            "",
            f"log-likelihood {model.log_likelihood_:.6g} nats, {model.log_likelihood_ / rows:.4g} per row",
            f"after {model.n_evaluations_} evaluations: {_ending(model)}",
        ]
    )


def model_as_dict(model: Any, series: Input) -> dict[str, Any]:
    """Give what JSON can hold of a fitted model: time scales, noise and log-likelihood."""
    return {
        "timescales": [None if np.isnan(scale) else float(scale) for scale in _timescales(model)],
        "step": series.clock.step,
        "noise_std": {
            name: float(np.sqrt(variance))
            for name, variance in zip(series.names, model.noise_variance_, strict=True)
        },
        "log_likelihood": float(model.log_likelihood_),
        "evaluations": int(model.n_evaluations_),
        "converged": bool(model.converged_),
        "status": _ending(model),
    }
