"""Coverage of the intervals of `standard_errors` over simulated series.

Five columns of two AR(1) factors with time scales of 19 and 4 rows, standard normal loadings, noise variance
0.3 and mean zero; a model with two factors is fitted to each series. A benchmark row has the share of
parameters in their intervals, and the shares below and above them.

    python benchmarks/accuracy/standard_errors.py [--fits 100] [--rows 300] [--level 0.9]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

TIMESCALES, N_FEATURES, NOISE = np.array([19.0, 4.0]), 5, 0.3


def outside(seed: int, n_rows: int, level: float) -> dict[str, np.ndarray]:
    """Return for each parameter whether it is below and above its interval, (2, number of parameters)."""
    loadings = np.random.default_rng(seed).standard_normal((N_FEATURES, 2))
    truth = ProbabilisticSFA.from_parameters(np.exp(-1.0 / TIMESCALES), loadings, NOISE)
    X = truth.sample(n_rows, random_state=100_000 + seed)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ProbabilisticSFA(2).fit(X)
        errors = model.standard_errors(X)
    signed = loadings * np.sign(np.sum(model.loadings_ * loadings, axis=0))
    true = {
        "timescales": TIMESCALES,
        "loadings": signed.T,  # by factor
        "offset": np.zeros(N_FEATURES),
        "noise_variance": np.full(N_FEATURES, NOISE),
    }
    result = {}
    for name, values in true.items():
        lower, upper = (end.T for end in errors.interval(name, level))
        result[name] = np.array([values < lower, values > upper])
    for name in ("timescales", "loadings"):
        of_factors = result.pop(name)
        result |= {f"{name} of factor {j}": of_factors[:, j].reshape(2, -1) for j in range(2)}
    return result


def main() -> None:
    """Print the coverage of each kind of parameter."""
    args = read_options(__doc__, fits=100, rows=300, level=0.9, seed=0)
    runs = [outside(1000 * args.seed + i, args.rows, args.level) for i in range(args.fits)]
    total = []
    table = Table("", "coverage", "below", "above")
    for name in runs[0]:
        below, above = np.mean([run[name] for run in runs], axis=(0, 2))
        total.append(1.0 - below - above)
        table.add(name, *(f"{share:.1%}" for share in (total[-1], below, above)))
    print(f"\n{args.fits} fits of {args.rows} rows: mean of the rows {np.mean(total):.1%}")


if __name__ == "__main__":
    main()
