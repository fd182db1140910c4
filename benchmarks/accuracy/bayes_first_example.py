"""Convergence of the default call on beginner's data: two factors fitted to 100 rows that have one.

The second factor is superfluous: its time scale and its loadings are hardly determined, and the posterior is
far from normal. R-hat and effective sample sizes are the worst of all parameters.

    python benchmarks/accuracy/bayes_first_example.py [--sets 6]
"""

import sys
import time
import warnings
from pathlib import Path

from probsfa import BayesianSFA
from probsfa.bayes.convergence import worst_measures
from probsfa.datasets import make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table


def main() -> None:
    """Print a row for each set; the first includes most of the compilation."""
    args = read_options(__doc__, sets=(6, "number of data sets"), draws=(0, "draws of each chain, 0: auto"))
    warnings.simplefilter("ignore")
    table = Table(
        "seed", "draws", "R-hat", "bulk ESS", "tail ESS", "divergences", "leapfrog steps", "CPU s", "s"
    )
    for seed in range(args.sets):
        X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=seed).data
        began, processor = time.perf_counter(), time.process_time()
        model = BayesianSFA(2, n_draws=args.draws or "auto", verbose=False, random_state=0).fit(X)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        measured = model.diagnostics_
        rhat, bulk = worst_measures({**measured, "ess_tail": {}})
        table.add(
            seed,
            f"4 x {model.draws_.decay.shape[1]:,}",
            f"{rhat:.4f}",
            f"{bulk:,.0f}",
            f"{worst_measures({**measured, 'ess': {}})[1]:,.0f}",
            measured["divergences"],
            f"{model.sample_stats_['n_steps'].sum():,}",
            f"{processor:.1f}",
            f"{seconds:.1f}",
        )


if __name__ == "__main__":
    main()
