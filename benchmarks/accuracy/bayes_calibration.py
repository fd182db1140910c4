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

import numpy as np
from scipy.stats import chisquare, kstest
from tqdm import tqdm

from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes.draws import parameters_of_draw
from probsfa.statespace.engine.posterior import draw_factors, simulate
from probsfa.statespace.panel import make_panel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.calibrated_models import BINS, KEPT, MODELS, canonical, draw_figure, names, prior_draw
from common.options import read_options
from common.tables import Table

T = 40
MOST = 10  # maximum number of draws, as a multiple of the draws of the first chains


def rank(name: str, n_draws: int, seed: int) -> tuple[list[int], float, int]:
    """Return ranks (P,) of the true parameters, the share of factors in intervals, and divergences."""
    warnings.simplefilter("ignore")
    model, rng = MODELS[name], np.random.default_rng(seed)
    truth = prior_draw(model, rng)
    whole, latents = simulate(truth.state_space, T, rng)
    X = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    true, true_factors = canonical(truth, latents[:, truth.shared_states])
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
    panel, below_factors = make_panel(Sequences(X, (T,))), 0.0
    below, equal = np.zeros(len(true)), np.zeros(len(true), np.int64)
    places = [(one, *place) for one in fits for place in np.ndindex(2, one.n_draws)]
    for i in np.linspace(0, len(places) - 1, KEPT).round().astype(int):
        one, chain, draw = places[i]
        [params] = parameters_of_draw(one.draws_, chain, draw, 1)
        path = draw_factors(params.state_space, panel, 1, rng)[0][:, params.shared_states]
        own, path = canonical(params, path)
        below += own < true
        equal += own == true
        below_factors = below_factors + (path < true_factors)
    # The 5 % of 50 ranks at each end are two and a half ranks; the third counts as half.
    inside = float(np.mean(np.clip(np.minimum(below_factors, KEPT - below_factors) - 1.5, 0.0, 1.0)))
    below += rng.integers(equal + 1)
    divergences = sum(int(one.diagnostics_["divergences"]) for one in fits)
    return below.astype(int).tolist(), inside, divergences


def ranks_of(
    name: str, replicates: int, seed: int, n_draws: int, n_processes: int, kept_in: Path | None
) -> np.ndarray:
    """Return ranks of all parameters, shares of factors in intervals, and divergences, (R, P + 2).

    Replicates in the file `kept_in` are not repeated.
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
    table = Table("parameter", "chi-square p", "KS p", "mean rank")
    for label, column in zip(labels, ranks.T, strict=True):
        chi = chisquare(np.histogram(column, edges)[0]).pvalue
        # Ranks are spread over their intervals of the unit line, because ties would count as a deviation.
        ks = kstest((column + spread.random(len(column))) / (KEPT + 1), "uniform").pvalue
        lowest = min(lowest, chi, ks)
        table.add(label, *(f"{value:.3f}" for value in (chi, ks, column.mean() / KEPT)))
    print(
        f"\n{args.model}: {len(ranks)} replicates; smallest p {lowest:.4f}; {divergences} divergences; 90 % "
        f"intervals of factors cover {100.0 * inside.mean():.1f} %; {time.perf_counter() - began:.0f} s"
    )
    if args.figure is not None:
        draw_figure(labels, ranks, args.figure)


if __name__ == "__main__":
    main()
