"""Short records: the first call on windows of the bundled weather, with white noise and with memory.

10 % of the observed cells of a window are hidden, one by one. Errors are root mean squares in units of each
column's standard deviation in the window, over those of straight lines through the same holes; means of four
windows.

    python benchmarks/accuracy/short_records.py [--quick]
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_cells, load_nyc_weather
from probsfa.imputation import LinearInterpolation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.side_by_side import setting, table

STARTS = (0, 2000, 4500, 7000)
LENGTHS = (100, 160, 250, 400, 700, 1500)


def main() -> None:
    """Print a row for each length."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the two shortest, one window of each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(setting("jax", "jaxlib", "numpy"))
    weather = load_nyc_weather(drop_impossible=True).data.to_numpy(float)
    rows = []
    for length in LENGTHS[:2] if args.quick else LENGTHS:
        ratios, sizes = [], []
        for start in STARTS[:1] if args.quick else STARTS:
            X = weather[start : start + length]
            spread = np.nanstd(X, axis=0)
            scale = np.where(spread > 0.0, spread, 1.0)
            hidden = hide_cells(X, 0.1, random_state=start)
            seen = np.where(hidden, np.nan, X)

            def error(filled, hidden=hidden, X=X, scale=scale):
                return np.sqrt(np.mean(((filled - X) / scale)[hidden] ** 2))

            lines = error(LinearInterpolation().fill(seen).values)
            models = [ProbabilisticSFA(noise=noise).fit(seen) for noise in ("diagonal", "ar1")]
            ratios.append([error(model.impute(seen)) / lines for model in models])
            sizes.append([len(model.decay_) for model in models])
        means = np.mean(ratios, axis=0)
        latents = [f"{min(k)} to {max(k)}" for k in zip(*sizes, strict=True)]
        rows.append([f"{length}", *(f"{m:.3f} ({k})" for m, k in zip(means, latents, strict=True))])
        print(f"{length} rows: {means.round(3).tolist()}", flush=True)
    print("\n" + table(["rows", "first call (latents)", "noise='ar1' (latents)"], rows))


if __name__ == "__main__":
    main()
