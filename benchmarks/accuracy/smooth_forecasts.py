"""Forecasts of smooth signals: how much of what comes lies within the intervals.

Three AR(2) latents, ``z_t = 1.95 z_t-1 - 0.955 z_t-2 + e_t``, scaled to unit variance and seen by six columns
under noise of standard deviation 0.02. Models are fitted to the first 1,500 rows; forecasts start from 60
rows of the 1,500 that follow. Shares of cells within the 90 % interval, and root mean square errors, by lead.

    python benchmarks/accuracy/smooth_forecasts.py [--seeds 1]
"""

import argparse
import time
import warnings

import numpy as np
from scipy.signal import lfilter

from probsfa import ProbabilisticSFA

LEADS = (1, 6, 12, 24)
N_TRAIN, N_TEST, N_ORIGINS = 1500, 1500, 60


def series(rng: np.random.Generator) -> np.ndarray:
    """Rows to train and to test, (3000, 6)."""
    shocks = rng.standard_normal((N_TRAIN + N_TEST + 1000, 3))
    z = lfilter([1.0], [1.0, -1.95, 0.955], shocks, axis=0)[1000:]
    x = z / z.std(axis=0) @ rng.standard_normal((3, 6))
    return x + 0.02 * rng.standard_normal(x.shape)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="number of series")
    options = parser.parse_args()
    heading = "".join(f"{f'lead {lead}':>18}" for lead in LEADS)
    print(f"{'':14}{heading}   seconds to fit")
    for seed in range(options.seeds):
        x = series(np.random.default_rng(seed))
        origins = np.linspace(N_TRAIN, N_TRAIN + N_TEST - max(LEADS) - 1, N_ORIGINS).astype(int)
        for name, model in (
            ("3 AR(1)", ProbabilisticSFA(3)),
            ("3 smooth", ProbabilisticSFA(0, smooth=3)),
            ("3 rhythms", ProbabilisticSFA(0, rhythms=3)),
        ):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(x[:N_TRAIN])
            seconds = time.perf_counter() - start
            covered, squares = np.zeros(len(LEADS)), np.zeros(len(LEADS))
            for origin in origins:
                ahead = model.forecast(x[origin - 200 : origin + 1], fh=list(LEADS))
                error = ahead.means - x[origin + np.array(LEADS)]
                covered += np.mean(np.abs(error) < 1.6449 * ahead.std, axis=1) / len(origins)
                squares += np.mean(error**2, axis=1) / len(origins)
            cells = "".join(f"{c:10.1%} {e:7.3f}" for c, e in zip(covered, np.sqrt(squares), strict=True))
            print(f"{name:14}{cells}  {seconds:8.1f}   {model.status_[:40]}", flush=True)


if __name__ == "__main__":
    main()
