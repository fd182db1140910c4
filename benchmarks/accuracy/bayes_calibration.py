"""Simulation-based calibration of the Bayesian model (Talts et al. 2018, arXiv:1804.06788).

Parameters are drawn from the priors, a series from the model, 20 % of its cells are hidden, and the model is
fitted to the rest by the estimator as users call it. If everything is right, the rank of each true parameter
among its posterior draws is uniform. Latents have no names, so truth and draws are brought to one canonical
form: the slower latent first, its largest loading positive. D = 4, K = 2, T = 60. Where two chains of 200
draws hold fewer than 99 effective ones, five times and at most twenty times as many are drawn.

    python benchmarks/accuracy/bayes_calibration.py [--replicates 200] [--figure calibration.png]
"""

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np
from numpyro.infer import Predictive
from scipy.stats import chisquare
from tqdm import tqdm

from probsfa import BayesianSFA
from probsfa.bayes import Priors, factorial_ar1_model

T, D, K = 60, 4, 2
BINS, KEPT = 10, 99  # ranks from 0 to 99, ten to a bin


def prior_draws(priors: Priors, n: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters from the priors and a series for each."""
    with jax.enable_x64(True):
        drawn = Predictive(factorial_ar1_model, num_samples=n)(
            jax.random.key(seed), np.zeros((T, D)), K, priors, predict=True
        )
        return {name: np.asarray(values) for name, values in drawn.items()}


def canonical(timescale: np.ndarray, loadings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Time scales (N, K) and loadings (N, D, K), slowest first, each column's largest entry positive."""
    order = np.argsort(-timescale, axis=1)
    timescale = np.take_along_axis(timescale, order, axis=1)
    loadings = np.take_along_axis(loadings, order[:, None, :], axis=2)
    largest = np.argmax(np.abs(loadings), axis=1)
    signs = np.sign(np.take_along_axis(loadings, largest[:, None, :], axis=1))
    return timescale, loadings * signs


def vector(decay: np.ndarray, loadings: np.ndarray, noise: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """All parameters side by side, (N, P)."""
    timescale, loadings = canonical(-1.0 / np.log(decay), loadings)
    return np.concatenate([timescale, loadings.reshape(len(loadings), -1), noise, offset], axis=1)


def names() -> list[str]:
    """What the columns of `vector` are."""
    return [
        *(f"time scale {k + 1}" for k in range(K)),
        *(f"loading {d + 1},{k + 1}" for d in range(D) for k in range(K)),
        *(f"noise {d + 1}" for d in range(D)),
        *(f"offset {d + 1}" for d in range(D)),
    ]


def rank(X: np.ndarray, truth: dict[str, np.ndarray], n_draws: int, seed: int) -> tuple[list[int], int]:
    """Rank of every parameter (P,) among the draws of a fit, and the number of divergences."""
    warnings.simplefilter("ignore")
    # Ranks among draws that depend on each other are too often extreme: such chains are run longer.
    for times in (1, 5, 20):
        model = BayesianSFA(
            K,
            standardize=False,
            n_warmup=200,
            n_draws=times * n_draws,
            n_chains=2,
            verbose=False,
            random_state=seed,
        ).fit(X)
        if min(float(np.nanmin(x)) for x in model.diagnostics_["ess"].values()) >= KEPT:
            break
    draws = vector(*(x.reshape(-1, *x.shape[2:]) for x in model.draws_))
    kept = draws[np.linspace(0, len(draws) - 1, KEPT).round().astype(int)]
    true = vector(*(truth[name][None] for name in ("decay", "loadings", "noise_variance", "offset")))
    return np.sum(kept < true, axis=0).tolist(), int(model.diagnostics_["divergences"])


def ranks_of(
    replicates: int, seed: int, n_draws: int, n_processes: int, kept_in: Path | None
) -> tuple[np.ndarray, int]:
    """Rank of every parameter in every replicate, (R, P), and the number of divergences.

    What is kept in a file is not done again.
    """
    truth = prior_draws(Priors(), replicates, seed)
    rng = np.random.default_rng(seed)
    series = [np.where(rng.random((T, D)) < 0.2, np.nan, X) for X in truth["observations"]]
    results = np.full((replicates, len(names()) + 1), np.nan)
    if kept_in is not None and kept_in.exists():
        known = np.load(kept_in)[:replicates]
        results[: len(known)] = known
    left = np.flatnonzero(np.isnan(results[:, 0])).tolist()
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        jobs = {
            pool.submit(rank, series[i], {k: v[i] for k, v in truth.items()}, n_draws, seed + 1 + i): i
            for i in left
        }
        for job in tqdm(as_completed(jobs), total=len(jobs)):
            ranks, divergences = job.result()
            results[jobs[job]] = [*ranks, divergences]
            if kept_in is not None:
                np.save(kept_in, results)
    return results[:, :-1].astype(int), int(results[:, -1].sum())


def draw_figure(ranks: np.ndarray, path: Path) -> None:
    """Histograms of the ranks with the band in which 99 % of the bars should be."""
    from matplotlib.figure import Figure
    from scipy.stats import binom

    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(3, 6, sharex=True, sharey=True).ravel()
    low, high = binom.ppf([0.005, 0.995], len(ranks), 1 / BINS)
    for ax, name, column in zip(axes, names(), ranks.T, strict=True):
        ax.axhspan(low, high, color="#0072B2", alpha=0.15, lw=0)
        ax.hist(column, bins=np.linspace(-0.5, KEPT + 0.5, BINS + 1), color="#0072B2", rwidth=0.9)
        ax.set_title(name, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"rank of the truth among {KEPT} draws; {len(ranks)} replicates")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the p-value of every parameter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200, help="draws of each of two chains")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, help="where to draw the histograms")
    parser.add_argument(
        "--ranks", type=Path, help="file (.npy) that keeps the ranks; goes on from what it has"
    )
    args = parser.parse_args()
    began = time.perf_counter()
    ranks, divergences = ranks_of(args.replicates, args.seed, args.draws, args.processes, args.ranks)
    edges = np.linspace(-0.5, KEPT + 0.5, BINS + 1)
    p_values = [chisquare(np.histogram(column, edges)[0]).pvalue for column in ranks.T]
    for name, p, column in zip(names(), p_values, ranks.T, strict=True):
        print(f"{name:<14} p = {p:.3f}   mean rank {column.mean() / KEPT:.3f} (0.5)")
    print(f"smallest p {min(p_values):.4f}; {divergences} divergences; {time.perf_counter() - began:.0f} s")
    if args.figure is not None:
        draw_figure(ranks, args.figure)


if __name__ == "__main__":
    main()
