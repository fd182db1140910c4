"""`probsfa fit`: fit a model, save it, and report the estimates."""

import argparse
import json
from typing import Any

import numpy as np

from probsfa.cli._model import description, fit_model, has_ar1_noise, timescales
from probsfa.cli._outputs import is_standard_stream, writing
from probsfa.cli._report import align
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import Input, read_input

__all__ = ["model_as_dict", "run", "summarize"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    series = read_input(args, screen)
    if args.dry_run:
        screen.result(
            json.dumps(series.interpretation_as_dict(), indent=2)
            if args.json
            else series.interpretation_as_text()
        )
        return
    model = fit_model(series, args, screen)
    with writing(args.output) as [temporary_file]:
        model.save(temporary_file)
    if args.json:
        screen.result(
            json.dumps(
                {"plan": series.interpretation_as_dict(), "model": model_as_dict(model, series)}, indent=2
            )
        )
    else:  # the model may be written to standard output
        (screen.note if is_standard_stream(args.output) else screen.result)(summarize(model, series))
    screen.note(f"saved: {args.output}")


def summarize(model: Any, series: Input) -> str:
    """Describe a fitted model: time scales, noise and log-likelihood."""
    rows = len(series.values)
    step = "steps" if series.row_times.step is None else f"steps of {series.row_times.step}"
    scale_table = [("factor", f"time scale ({step})")]
    scale_table += [  # NaN if the decay is not positive
        (str(k + 1), "-" if np.isnan(scale) else f"{scale:.4g}") for k, scale in enumerate(timescales(model))
    ]
    noise_shares = model.noise_variance_ / np.nanvar(series.values, axis=0)
    noise_table = [("column", "standard deviation of the noise", "part of the variance")]
    noise_table += [
        (name, f"{np.sqrt(variance):.4g}", f"{100.0 * share:.2g} %")
        for name, variance, share in zip(series.names, model.noise_variance_, noise_shares, strict=True)
    ]
    return "\n".join(
        [
            align(scale_table),
            "",
            align(noise_table),
            "",
            f"log-likelihood {model.log_likelihood_:.6g} nats, {model.log_likelihood_ / rows:.4g} per row",
        ]
    )


def model_as_dict(model: Any, series: Input) -> dict[str, Any]:
    """Return the estimates of a fitted model in types of JSON."""
    return {
        "description": description(model),
        "timescales": [None if np.isnan(scale) else float(scale) for scale in timescales(model)],
        "step": series.row_times.step,
        "noise": "autocorrelated" if has_ar1_noise(model) else "white",
        "noise_std": {
            name: float(np.sqrt(variance))
            for name, variance in zip(series.names, model.noise_variance_, strict=True)
        },
        "log_likelihood": float(model.log_likelihood_),
        "iterations": int(model.n_evaluations_),
        "converged": bool(model.converged_),
    }
