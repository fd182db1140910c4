"""Counts and binary values: factors, hidden values, intervals, a sampler, and the occupancy of a room.

Simulated: two AR(1) factors (decays 0.97 and 0.85) with ten columns and 1,000 rows of zeros and ones,
Poisson counts or negative binomial counts of size 2, with means of about one, a tenth of the values hidden;
20 seeds. "correlation" is that of true and estimated factors after alignment, over both factors. "log score"
is the mean log probability of the hidden values; for Gaussian models it is that of the interval of half a
count around the value, after the transform, if any. "interval" is the coverage of central 90 % intervals of
hidden counts by randomized ranks, and "whole" that of intervals with integer limits, which is at least as
large.

Sampler: NUTS of the factors at the same parameters; largest difference of the means in standard deviations,
and range of the ratios of standard deviations.

Occupancy (Candanedo & Feldheim 2016, UCI): five sensors and the occupancy, every fifth minute. A third of the
occupancy is hidden in blocks of two hours, and predicted from the sensors and the observed occupancy; means
over four choices of blocks, and the log score of each.

Speed: T = 10,000, D = 50, K = 5, Poisson with a tenth missing, in a process that has compiled its programs.

    python benchmarks/accuracy/emissions.py [--seeds N] [--only PART] [--data FOLDER]
"""

import gzip
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from probsfa import EmissionSFA, ProbabilisticSFA
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.statespace.engine.dynamics import simulate_factors
from probsfa.statespace.parameters import StateSpace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.count_scores import LEAST, emission_scores, gaussian_scores, recovery, simulate
from common.options import read_options
from common.tables import Table

TRANSFORMS = {
    "raw": (lambda x: x),
    "square root": (lambda x: np.sqrt(np.maximum(x, 0.0))),
    "log(1 + x)": (lambda x: np.log1p(np.maximum(x, 0.0))),
}


def simulated(seeds: int) -> None:
    """Print the table of simulated series."""
    table = Table("data", "model", "correlation", "log score", "better than it in", "interval", "whole")
    for family in ("bernoulli", "poisson", "negative_binomial"):
        rows: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(seeds):
            X, hidden, latents = simulate(family, seed)
            given = np.where(hidden, np.nan, X)
            model = EmissionSFA(2, emission=family).fit(given)
            quality = recovery(model.transform(given), latents)
            rows.setdefault("EmissionSFA", []).append((quality, *emission_scores(model, X, hidden)))
            for name, transform in TRANSFORMS.items():
                if family == "bernoulli" and name != "raw":
                    continue  # transforms of zeros and ones only change their units
                gaussian = ProbabilisticSFA(2).fit(transform(given))
                quality = recovery(gaussian.transform(transform(given)), latents)
                scores = gaussian_scores(gaussian, X, hidden, transform, binary=family == "bernoulli")
                rows.setdefault(f"Gaussian, {name}", []).append((quality, *scores, np.nan))
        ours = np.array(rows["EmissionSFA"])
        for name, values in rows.items():
            scores = np.array(values)
            correlation, score, interval, whole = scores.mean(axis=0)
            wins = f"{np.sum(ours[:, 0] > scores[:, 0])}, {np.sum(ours[:, 1] > scores[:, 1])} of {seeds}"
            shares = [f"{100 * share:.1f} %" for share in (interval, whole) if np.isfinite(share)]
            beaten = "" if name == "EmissionSFA" else wins
            table.add(family, name, f"{correlation:.3f}", f"{score:.4f}", beaten, *shares)


def sampler() -> None:
    """Print differences between the approximate posterior of the factors and draws of a sampler."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    from probsfa._validation import Sequences
    from probsfa.extensions.emissions.sites import Block, infer, make_observations

    print()
    table = Table("data, T = 60, D = 4, K = 1", "largest difference of means", "standard deviations")
    params = StateSpace(np.array([0.9]), np.full((4, 1), 0.8), np.ones(4), np.zeros(4))
    for family in ("bernoulli", "poisson"):
        rng = np.random.default_rng(0)
        latents = simulate_factors(params, 60, rng)
        X = FAMILIES[family].draw(latents @ params.loadings.T, np.zeros((0, 4)), rng)
        observations = make_observations(Sequences(X, (60,)), [Block(FAMILIES[family], np.arange(4))])
        ours, _ = infer(params, observations, (np.zeros((0, 4)),), tol=1e-10)
        lag = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
        root = np.linalg.cholesky(0.9**lag)

        def model(X=X, root=root, family=family):
            white = numpyro.sample("white", dist.Normal(np.zeros(60), 1.0).to_event(1))
            eta = 0.8 * numpyro.deterministic("latent", root @ white)[:, None]
            given = dist.Bernoulli(logits=eta) if family == "bernoulli" else dist.Poisson(jax.numpy.exp(eta))
            numpyro.sample("X", given.expand([60, 4]), obs=X)

        with jax.enable_x64(True):
            chain = MCMC(NUTS(model), num_warmup=1000, num_samples=10_000, progress_bar=False)
            chain.run(jax.random.key(0))
            draws = np.asarray(chain.get_samples()["latent"])
        std = draws.std(axis=0)
        ratios = np.sqrt(ours.covariances[:, 0, 0]) / std
        away = np.max(np.abs(ours.means[:, 0] - draws.mean(axis=0)) / std)
        span = f"{ratios.min():.3f} to {ratios.max():.3f} of the sampler's"
        table.add(family, f"{away:.3f} std", span)


def occupancy(folder: Path, splits: int = 4) -> None:
    """Print scores of predictions of the hidden occupancy."""
    with gzip.open(folder / "occupancy_uci" / "datatraining.txt.gz") as file:
        frame = pd.read_csv(file).iloc[::5]
    columns = ["Temperature", "Humidity", "Light", "CO2", "HumidityRatio", "Occupancy"]
    X = frame[columns].to_numpy(dtype=float)
    block = np.arange(len(X)) // 24
    title = f"occupancy of {len(X)} rows, a third hidden"
    print()
    table = Table(title, "log score", "Brier score", "wrong", "by choice")
    for k in (2, 4):
        rows: dict[str, list[tuple[float, float, float]]] = {"mixed": [], "Gaussian": []}
        for split in range(splits):
            order = np.random.default_rng(split).permutation(block[-1] + 1)
            hidden = np.isin(block, order[: len(order) // 3])
            given = X.copy()
            given[hidden, 5] = np.nan
            truth = X[hidden, 5]
            mixed = EmissionSFA(k, emission=["gaussian"] * 5 + ["bernoulli"]).fit(given)
            mean, std = ProbabilisticSFA(k).fit(given).impute(given, return_std=True)
            for name, p in (
                ("mixed", mixed.level_probabilities(given)[5][hidden, 1]),
                ("Gaussian", norm.sf((0.5 - mean[hidden, 5]) / std[hidden, 5])),
            ):
                score = np.log(np.clip(np.where(truth == 1.0, p, 1.0 - p), LEAST, 1.0)).mean()
                rows[name].append((score, np.mean((p - truth) ** 2), np.mean((p > 0.5) != (truth == 1.0))))
        for name, values in rows.items():
            score, brier, wrong = np.mean(values, axis=0)
            each = ", ".join(f"{value[0]:.3f}" for value in values)
            table.add(f"{name}, K = {k}", f"{score:.3f}", f"{brier:.4f}", f"{100 * wrong:.1f} %", each)


def speed() -> None:
    """Print the time of a large fit."""
    rng = np.random.default_rng(0)
    decay = np.array([0.99, 0.97, 0.95, 0.9, 0.8])
    params = StateSpace(decay, 0.4 * rng.standard_normal((50, 5)), np.ones(50), np.full(50, 0.2))
    X = rng.poisson(np.exp(params.offset + simulate_factors(params, 10_000, rng) @ params.loadings.T))
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    title = "T = 10,000, D = 50, K = 5, Poisson"
    print()
    table = Table(title, "seconds", "processor seconds", "evaluations", "load")
    for attempt in ("first, programs compiled or read", "again"):
        wall, cpu = time.perf_counter(), time.process_time()
        model = EmissionSFA(5, emission="poisson").fit(X)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else np.nan
        table.add(attempt, f"{wall:.1f}", f"{cpu:.1f}", model.n_evaluations_, f"{load:.1f}")


def main() -> None:
    """Print the tables."""
    args = read_options(
        __doc__,
        data="occupancy_uci",
        seeds=20,
        only={"choices": ("simulated", "sampler", "occupancy", "speed")},
    )
    warnings.simplefilter("ignore")
    if args.only in (None, "simulated"):
        simulated(args.seeds)
    if args.only in (None, "sampler"):
        sampler()
    if args.only in (None, "occupancy"):
        occupancy(args.data)
    if args.only in (None, "speed"):
        speed()


if __name__ == "__main__":
    main()
