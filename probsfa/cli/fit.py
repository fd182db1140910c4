"""`probsfa fit`: fit a model, save it, and say what was found."""

import argparse
from typing import Any

import numpy as np

from probsfa.cli._input import Input, read_input
from probsfa.cli._methods import fit_quietly, make_model
from probsfa.cli._outputs import check_outputs, replacing
from probsfa.cli._report import align
from probsfa.cli._screen import Screen

__all__ = ["fit_model", "run", "summarize"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    check_outputs([args.output], force=args.force, inputs=[args.data])
    found = read_input(args, screen)
    model = fit_model(found, args, screen)
    with replacing(args.output) as [draft]:
        model.save(draft)
    screen.result(summarize(model, found))
    screen.note(f"saved: {args.output}")


def fit_model(found: Input, args: argparse.Namespace, screen: Screen) -> Any:
    """Fit a model to a file as the options say, showing progress and how it ended."""
    model = make_model(args, len(found.names), verbose=not screen.quiet)
    fit_quietly(model, found.frame, found.clock)
    screen.note(model.status_)
    return model


def summarize(model: Any, found: Input) -> str:
    """What a fit found: time scales, noise and log-likelihood."""
    rows = len(found.values)
    step = "steps" if found.clock.step is None else f"steps of {found.clock.step}"
    scales = [("slow feature", f"time scale ({step})")]
    scales += [(str(k + 1), f"{scale:.4g}") for k, scale in enumerate(model.timescales_)]
    share = model.noise_variance_ / np.nanvar(found.values, axis=0)
    noise = [("column", "standard deviation of the noise", "part of the variance")]
    noise += [
        (name, f"{np.sqrt(variance):.4g}", f"{100.0 * part:.2g} %")
        for name, variance, part in zip(found.names, model.noise_variance_, share, strict=True)
    ]
    return "\n".join(
        [
            align(scales),
            "",
            align(noise),
            "",
            f"log-likelihood {model.log_likelihood_:.6g} nats, {model.log_likelihood_ / rows:.4g} per row",
            f"after {model.n_iter_} iterations: {model.status_}",
        ]
    )
