"""Simulation-based calibration of the Bayesian model (Talts et al. 2018, arXiv:1804.06788).

Parameters are drawn from the priors, a series from the model, 20 % of its values are hidden, and the model is
fitted to the rest by the public estimator. If model and sampler are correct, the rank of each true parameter
among its posterior draws is uniform, and so is that of each true factor at each time step; 90 % intervals
then cover 90 % of them. Truth and draws are converted to one canonical form: the slower factor first, its
largest loading positive, the phase of a cycle zero in the column of its largest loading. T = 40; two AR(1)
factors of four columns, or one factor of three columns with AR(1) noise or a cycle. Ranks are those among 49
draws spread over all chains. While the effective sample size of the chains is below 49, two more chains are
sampled, up to ten times the first number of draws. Draws equal to the truth (a loading that the canonical
form makes zero) count as smaller or larger at random.

    python benchmarks/accuracy/bayes_calibration.py [--model ar1] [--replicates 200] [--figure ranks.png]
"""

import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import chisquare, kstest
from tqdm import tqdm

from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes import Priors
from probsfa.bayes.draws import parameters_of_draw
from probsfa.bayes.kinds import CYCLE_LOADING
from probsfa.statespace import StateSpace
from probsfa.statespace.engine.posterior import draw_latents, simulate
from probsfa.statespace.panel import make_panel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

T = 40
BINS, KEPT = 10, 49  # ranks from 0 to 49, five to a bin
MOST = 10  # most draws, in numbers of draws of the first chains


class Model(NamedTuple):
    """A model: numbers of columns, AR(1) factors and cycles, and whether noise is autocorrelated."""

    n_features: int
    n_components: int
    n_cycles: int = 0
    ar_noise: bool = False


MODELS = {"factors": Model(4, 2), "ar1": Model(3, 1, ar_noise=True), "cycle": Model(3, 1, 1)}


def prior_draw(model: Model, rng: np.random.Generator) -> StateSpace:
    """Parameters from the priors."""
    d, k, r = model.n_features, model.n_components, model.n_cycles
    own = d if model.ar_noise else 0
    priors = Priors()

    def draw(name: str, *shape: int) -> np.ndarray:
        with jax.enable_x64(True):
            key = jax.random.key(int(rng.integers(2**31)))
            return np.asarray(getattr(priors, name).sample(key, shape), np.float64)

    return StateSpace(
        np.exp(-1.0 / draw("timescale", k)),
        np.hstack([draw("loadings", d, k), CYCLE_LOADING * rng.standard_normal((d, 2 * r))]),
        draw("noise_std", d) ** 2,
        draw("offset", d),
        rhythm_decay=np.exp(-1.0 / draw("cycle_timescale", r)),
        rhythm_frequency=2.0 * np.pi / draw("cycle_period", r),
        memory_decay=np.exp(-1.0 / draw("ar_noise_timescale", own)),
        memory_scale=draw("ar_noise_std", own),
    )


def canonical(params: StateSpace, latents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parameters side by side (P,) and factors (T, S) in one labelling."""
    k, loadings, latents = len(params.decay), params.loadings.copy(), latents.copy()
    order = np.argsort(-params.decay)
    largest = loadings[np.argmax(np.abs(loadings[:, order]), axis=0), order]
    loadings[:, :k] = loadings[:, order] * np.sign(largest)
    latents[:, :k] = latents[:, order] * np.sign(largest)
    for j in range(k, loadings.shape[1], 2):
        phasor = loadings[:, j] + 1j * loadings[:, j + 1]
        turn = np.exp(-1j * np.angle(phasor[np.argmax(np.abs(phasor))]))
        for array, turned in (
            (loadings, phasor * turn),
            (latents, (latents[:, j] + 1j * latents[:, j + 1]) * turn),
        ):
            array[:, j], array[:, j + 1] = turned.real, turned.imag
        # Exactly, so that truth and draws are equal there whatever the rounding of the rotation.
        loadings[np.argmax(np.abs(phasor)), j + 1] = 0.0
    parts = [
        params.decay[order],
        loadings.ravel(),
        params.noise_variance,
        params.offset,
        params.rhythm_decay,
        params.rhythm_frequency,
        params.memory_decay,
        params.memory_scale,
    ]
    return np.concatenate(parts), latents


def names(model: Model) -> list[str]:
    """Names of the parameters of `canonical`."""
    d, k, r = range(model.n_features), range(model.n_components), range(model.n_cycles)
    own = d if model.ar_noise else ()
    states = [*(f"{i + 1}" for i in k), *(f"{part} {j + 1}" for j in r for part in ("cos", "sin"))]
    return [
        *(f"decay {i + 1}" for i in k),
        *(f"loading {i + 1},{state}" for i in d for state in states),
        *(f"noise {i + 1}" for i in d),
        *(f"offset {i + 1}" for i in d),
        *(f"damping {j + 1}" for j in r),
        *(f"frequency {j + 1}" for j in r),
        *(f"AR(1) decay {i + 1}" for i in own),
        *(f"AR(1) scale {i + 1}" for i in own),
    ]


def rank(name: str, n_draws: int, seed: int) -> tuple[list[int], float, int]:
    """Ranks (P,) of the true parameters of a replicate, share of factors in intervals, and divergences."""
    warnings.simplefilter("ignore")
    model, rng = MODELS[name], np.random.default_rng(seed)
    truth = prior_draw(model, rng)
    whole, latents = simulate(truth.state_space, T, rng)
    X = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    true, true_latents = canonical(truth, latents[:, truth.shared_states])
    # Ranks among draws that depend on each other are too often extreme: more chains are sampled, with numbers
    # of draws in proportion to what is missing, because the effective sizes of chains add up.
    fits, size, effective = [], n_draws, 0.0
    while True:
        fitted = BayesianSFA(
            model.n_components,
            noise="ar1" if model.ar_noise else "diagonal",
            rhythms=model.n_cycles,
            standardize=False,
            n_warmup=200,
            n_draws=size,
            n_chains=2,
            chain_method="sequential",
            verbose=False,
            random_state=1000 * len(fits) + seed,
        ).fit(X)
        fits.append(fitted)
        effective += min(float(np.nanmin(x, initial=np.inf)) for x in fitted.diagnostics_["ess"].values())
        drawn = sum(one.n_draws for one in fits)
        if effective >= KEPT or drawn >= MOST * n_draws:
            break
        # A fifth more than in proportion: the effective sizes of chains differ.
        size = min(MOST * n_draws - drawn, int(np.ceil(1.2 * drawn * (KEPT / effective - 1.0))))
    panel, below_latents = make_panel(Sequences(X, (T,))), 0.0
    below, equal = np.zeros(len(true)), np.zeros(len(true), np.int64)
    places = [(one, *place) for one in fits for place in np.ndindex(2, one.n_draws)]
    for i in np.linspace(0, len(places) - 1, KEPT).round().astype(int):
        one, chain, draw = places[i]
        [params] = parameters_of_draw(one.draws_, chain, draw, 1)
        path = draw_latents(params.state_space, panel, 1, rng)[0][:, params.shared_states]
        own, path = canonical(params, path)
        below += own < true
        equal += own == true
        below_latents = below_latents + (path < true_latents)
    # The 5 % of 50 ranks at each end are two and a half ranks; the third counts as half.
    inside = float(np.mean(np.clip(np.minimum(below_latents, KEPT - below_latents) - 1.5, 0.0, 1.0)))
    below += rng.integers(equal + 1)
    divergences = sum(int(one.diagnostics_["divergences"]) for one in fits)
    return below.astype(int).tolist(), inside, divergences


def ranks_of(
    name: str, replicates: int, seed: int, n_draws: int, n_processes: int, kept_in: Path | None
) -> np.ndarray:
    """Ranks of all parameters in each replicate, share of factors in intervals, and divergences, (R, P + 2).

    Replicates that a file has are not repeated.
    """
    results = np.full((replicates, len(names(MODELS[name])) + 2), np.nan)
    if kept_in is not None and kept_in.exists():
        known = np.load(kept_in)[:replicates]
        results[: len(known)] = known
    left = np.flatnonzero(np.isnan(results[:, 0])).tolist()
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(rank, name, n_draws, 1000 * seed + i): i for i in left}
        for job in tqdm(as_completed(jobs), total=len(jobs)):
            ranks, inside, divergences = job.result()
            results[jobs[job]] = [*ranks, inside, divergences]
            if kept_in is not None:
                np.save(kept_in, results)
    return results


def draw_figure(labels: list[str], ranks: np.ndarray, path: Path) -> None:
    """Histograms of the ranks with the band in which 99 % of the bars should be."""
    from matplotlib.figure import Figure
    from scipy.stats import binom

    n_rows = -(-len(labels) // 6)
    figure = Figure(figsize=(11, 2 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 6, sharex=True, sharey=True).ravel()[: len(labels)]
    low, high = binom.ppf([0.005, 0.995], len(ranks), 1 / BINS)
    for ax, name, column in zip(axes, labels, ranks.T, strict=True):
        ax.axhspan(low, high, color="#0072B2", alpha=0.15, lw=0)
        ax.hist(column, bins=np.linspace(-0.5, KEPT + 0.5, BINS + 1), color="#0072B2", rwidth=0.9)
        ax.set_title(name, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"rank of the truth among {KEPT} draws; {len(ranks)} replicates")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the p-value of every parameter."""
    args = read_options(
        __doc__,
        model={"choices": MODELS, "default": "factors"},
        replicates=200,
        draws=(300, "draws of each of the first two chains"),
        processes=2,
        seed=0,
        figure={"type": Path, "help": "where to draw the histograms"},
        ranks={"type": Path, "help": "file (.npy) that keeps the ranks; goes on from what it has"},
    )
    began = time.perf_counter()
    results = ranks_of(args.model, args.replicates, args.seed, args.draws, args.processes, args.ranks)
    ranks, inside, divergences = results[:, :-2].astype(int), results[:, -2], int(results[:, -1].sum())
    edges, labels = np.linspace(-0.5, KEPT + 0.5, BINS + 1), names(MODELS[args.model])
    spread = np.random.default_rng(args.seed)
    lowest = 1.0
    for label, column in zip(labels, ranks.T, strict=True):
        chi = chisquare(np.histogram(column, edges)[0]).pvalue
        # A rank stands for an interval of the unit line: ties would count as a deviation.
        ks = kstest((column + spread.random(len(column))) / (KEPT + 1), "uniform").pvalue
        lowest = min(lowest, chi, ks)
        print(
            f"{label:<14} chi-square p = {chi:.3f}   KS p = {ks:.3f}   mean rank {column.mean() / KEPT:.3f}"
        )
    print(
        f"{args.model}: {len(ranks)} replicates; smallest p {lowest:.4f}; {divergences} divergences; 90 % "
        f"intervals of factors cover {100.0 * inside.mean():.1f} %; {time.perf_counter() - began:.0f} s"
    )
    if args.figure is not None:
        draw_figure(labels, ranks, args.figure)


if __name__ == "__main__":
    main()
