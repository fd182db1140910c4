"""The default solver compared with 20,000 steps of plain EM, for several noise levels and seeds.

Data from the model: 3 factors with decays 0.99, 0.9 and 0.6, 6 columns, standard normal loadings. Plain EM
(the exact M-step) starts from slow feature analysis; it stops early only if the gain of a step is within
rounding errors. Both have the same noise floor, 1e-9 of each column's variance. Columns: log-likelihood of
the default solver minus that of EM (nats, in total), posterior evaluations of both, seconds, and the status
of the default solver.

    python benchmarks/accuracy/learning.py [--quick]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

import probsfa
from probsfa._validation import Sequences
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.learning.em import fit_em
from probsfa.statespace.learning.objective import CountedEStep
from probsfa.statespace.learning.starts import interpolate, starts
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateLayout

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

NOISES = (1e-8, 1e-6, 1e-3, 0.3, 3.0, 10.0)
FLOOR = 1e-9


def em_from_slow_features(X: np.ndarray, steps: int) -> tuple[float, int]:
    """Return the log-likelihood (data units) of plain EM from slow feature analysis, and its evaluations."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    panel = make_panel(Sequences((X - mean) / scale, (len(X),)))
    start = next(starts(interpolate(panel), np.zeros(X.shape[1]), StateLayout(3)))
    variances = NoiseVariances.of_option("diagonal", X.shape[1])
    noise = Noise(variances, np.full(X.shape[1], FLOOR))
    fitted = fit_em(CountedEStep(panel, steps), start, noise, tol=0.0)
    return fitted.log_likelihood - len(X) * float(np.log(scale).sum()), fitted.n_evaluations


def main() -> None:
    """Print the table."""
    args = read_options(
        __doc__,
        quick=(False, "500 steps of EM, two seeds"),
        steps=20_000,
        n_steps=(400, "length of the series"),
        seeds=5,
    )
    if args.quick:
        args.steps, args.seeds = 500, 2
    warnings.simplefilter("ignore")
    print(f"T = {args.n_steps}, D = 6, K = 3; EM: {args.steps} steps\n")
    table = Table("noise", "seed", "gain over EM", "evaluations", "EM", "s", "s, EM", "status")
    for noise in NOISES:
        for seed in range(args.seeds):
            X = make_slow_mixture(
                args.n_steps, 6, decay=(0.99, 0.9, 0.6), noise_variance=noise, random_state=seed
            ).data
            began = time.perf_counter()
            model = probsfa.ProbabilisticSFA(3, noise_floor=FLOOR).fit(X)
            middle = time.perf_counter()
            best, n_em = em_from_slow_features(X, args.steps)
            ended = time.perf_counter()
            gain, n_ours = f"{model.log_likelihood_ - best:.5f}", model.n_evaluations_
            seconds = f"{middle - began:.2f}", f"{ended - middle:.1f}"
            table.add(f"{noise:.0e}", seed, gain, n_ours, n_em, *seconds, model.status_.split(":")[0])


if __name__ == "__main__":
    main()
