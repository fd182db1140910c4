"""Bayesian inference on the bundled weather: three-hourly, K = 3, the sampler and its Gaussian approximation.

Prints R-hat and effective sample sizes of all relabelled parameters, the time of the fits, and the
differences of means and standard deviations between the approximation and the sampler, for logarithms of time
scales and of noise (nearly normal) and for the parameters themselves.

    python benchmarks/accuracy/bayes_weather.py [--figures FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

from probsfa import BayesianSFA
from probsfa.datasets import load_nyc_weather

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options


def columns(draws, logs: bool) -> np.ndarray:
    """Return all parameters of all draws, (N, P)."""
    timescale = -1.0 / np.log(draws.decay)
    parts = [np.log(timescale) if logs else timescale, draws.loadings, draws.noise_variance, draws.offset]
    if logs:
        parts[2] = np.log(parts[2])
    n = draws.decay.shape[0] * draws.decay.shape[1]
    return np.concatenate([x.reshape(n, -1) for x in parts], axis=1)


def compare(sampled: BayesianSFA, guided: BayesianSFA) -> None:
    """Print the largest differences of means and standard deviations."""
    for label, logs in (("log time scales and log noise", True), ("parameters as they are", False)):
        exact, near = columns(sampled.draws_, logs), columns(guided.draws_, logs)
        shift = np.abs(near.mean(0) - exact.mean(0)) / exact.std(0)
        ratio = near.std(0) / exact.std(0)
        print(
            f"SVI against NUTS, {label}: means within {shift.max():.3f} sd (median {np.median(shift):.3f}), "
            f"sd ratio {ratio.min():.3f} to {ratio.max():.3f}"
        )


def main() -> None:
    """Print the table."""
    args = read_options(
        __doc__,
        draws=500,
        warmup=200,
        chains=4,
        chain_method="auto",
        once=(False, "without the second fits"),
        figures={"type": Path, "help": "folder for pictures"},
    )
    warnings.simplefilter("ignore")
    X = load_nyc_weather(drop_impossible=True).data.iloc[::3]
    print(f"{X.shape[0]} rows, {X.shape[1]} columns, {100 * X.isna().to_numpy().mean():.1f} % missing")
    options = {
        "n_draws": args.draws,
        "n_warmup": args.warmup,
        "n_chains": args.chains,
        "verbose": False,
        "random_state": 0,
    }
    models = {
        "SVI": BayesianSFA(3, inference="svi", **options),
        "NUTS": BayesianSFA(3, chain_method=args.chain_method, **options),
    }
    for label in ("compiling included", "compiled programs found again"):
        seconds = {}
        for name, model in models.items():
            began = time.perf_counter()
            model.fit(X)
            seconds[name] = time.perf_counter() - began
            print(f"{name} {seconds[name]:.1f} s ({label}): {model.status_}", flush=True)
        print(f"NUTS takes {seconds['NUTS'] / seconds['SVI']:.1f} times as long as SVI", flush=True)
        if args.once:
            break
    guided, sampled = models["SVI"], models["NUTS"]
    print(f"mean leapfrog steps {sampled.sample_stats_['n_steps'].mean():.1f}")
    for kind, worst in (("rhat", np.nanmax), ("ess", np.nanmin)):
        values = ", ".join(f"{name} {worst(x):.4g}" for name, x in sampled.diagnostics_[kind].items())
        print(f"worst {kind}: {values}")
    print(sampled.relabelling_)
    print("time scales in hours:", 3.0 * sampled.timescales_)
    compare(sampled, guided)
    if args.figures is not None:
        draw_figures(sampled, args.figures)


def draw_figures(model: BayesianSFA, folder: Path) -> None:
    """Draw time scales, loadings and a predictive check."""
    from probsfa import plots

    folder.mkdir(parents=True, exist_ok=True)
    plots.plot_timescales(model).figure.savefig(folder / "bayes_timescales.png", dpi=110)
    plots.plot_loadings(model)[0].figure.savefig(folder / "bayes_loadings.png", dpi=110)
    plots.plot_predictive_check(model, 0).figure.savefig(folder / "bayes_check.png", dpi=110)
    plots.plot_factors(model)[0].figure.savefig(folder / "bayes_latents.png", dpi=110)


if __name__ == "__main__":
    main()
