"""Gaps in smooth motion: 50 simulated markers of three columns, at 100 Hz with 1 % noise.

The columns are sums of twelve smooth paths, noise under a Gaussian filter of 0.1 to 0.4 s, so that they have
all derivatives and are no Matern processes. Gaps of 50 rows are made in single columns and in whole markers.
Errors are root mean squares of what is under the noise, over the hidden cells, in units of each column's
standard deviation; "covers" is the share of hidden cells, noise included, within the 90 % interval.

Beside it: straight lines, cubic splines through what is observed of the column, and repeated truncated
singular value decompositions of fewer ranks than there are paths, as many, and more.

    python benchmarks/accuracy/smooth_motion.py [--rows 2000] [--seeds 1]
"""

import argparse
import time
import warnings

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.ndimage import gaussian_filter1d

from probsfa import ProbabilisticSFA

N_MARKERS, N_PATHS, GAP, NOISE = 50, 12, 50, 0.01


def limbs(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Columns (n_rows, 150) of unit standard deviation, without noise."""
    widths = np.geomspace(10.0, 40.0, N_PATHS)
    paths = [gaussian_filter1d(rng.standard_normal(n_rows + 400), width)[200:-200] for width in widths]
    z = np.stack([path / path.std() for path in paths], axis=1)
    x = z @ rng.standard_normal((N_PATHS, 3 * N_MARKERS))
    return (x - x.mean(axis=0)) / x.std(axis=0)


def gaps(n_rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Which cells are hidden, by kind of gap: one in every column or marker, at random places."""
    columns, markers = (np.zeros((n_rows, 3 * N_MARKERS), dtype=bool) for _ in range(2))
    for marker in range(N_MARKERS):
        for kind, part in (
            (markers, slice(3 * marker, 3 * marker + 3)),
            (columns, 3 * marker + rng.integers(3)),
        ):
            first = rng.integers(0, n_rows - GAP)
            kind[first : first + GAP, part] = True
    return {"single columns": columns & ~markers, "whole markers": markers}


def lines(x: np.ndarray) -> np.ndarray:
    """Straight lines in each column."""
    rows, filled = np.arange(len(x)), x.copy()
    for column in filled.T:
        hole = np.isnan(column)
        column[hole] = np.interp(rows[hole], rows[~hole], column[~hole])
    return filled


def splines(x: np.ndarray) -> np.ndarray:
    """Cubic splines in each column."""
    rows, filled = np.arange(len(x)), x.copy()
    for column in filled.T:
        hole = np.isnan(column)
        column[hole] = CubicSpline(rows[~hole], column[~hole])(rows[hole])
    return filled


def low_rank(x: np.ndarray, rank: int, rounds: int = 200) -> np.ndarray:
    """Truncated singular value decompositions, repeated."""
    hole, filled = np.isnan(x), lines(x)
    for _ in range(rounds):
        u, s, v = np.linalg.svd(filled, full_matrices=False)
        filled[hole] = ((u[:, :rank] * s[:rank]) @ v[:rank])[hole]
    return filled


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2000, help="rows of a series")
    parser.add_argument("--seeds", type=int, default=1, help="number of series")
    options = parser.parse_args()
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        clean = limbs(options.rows, rng)
        x = clean + NOISE * rng.standard_normal(clean.shape)
        hidden = gaps(options.rows, rng)
        seen = np.where(hidden["single columns"] | hidden["whole markers"], np.nan, x)
        print(f"\nseed {seed}, {options.rows} rows, {np.isnan(seen).mean():.1%} hidden")
        heading = "".join(f"{kind:>18}  covers" for kind in hidden)
        print(f"{'':26}{heading}   seconds")
        smooth = ProbabilisticSFA(0, smooth=N_PATHS)
        for name, fill in (
            ("linear", lines),
            ("cubic spline", splines),
            ("low rank, 8", lambda x: low_rank(x, 8)),
            ("low rank, 12", lambda x: low_rank(x, 12)),
            ("low rank, 16", lambda x: low_rank(x, 16)),
            (f"{N_PATHS} AR(1)", ProbabilisticSFA(N_PATHS)),
            (f"{N_PATHS} smooth", smooth),
        ):
            start, std = time.perf_counter(), None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if isinstance(fill, ProbabilisticSFA):
                    filled, std = fill.fit(seen).impute(seen, return_std=True)
                else:
                    filled = fill(seen)
            row = ""
            for cells in hidden.values():
                missed, error = np.abs(filled - x)[cells], (filled - clean)[cells]
                covers = "" if std is None else f"{np.mean(missed < 1.6449 * std[cells]):.1%}"
                row += f"{np.sqrt(np.mean(error**2)):18.4f}  {covers:>6}"
            print(f"{name:26}{row}   {time.perf_counter() - start:7.1f}", flush=True)
        print("time scales", smooth.smooth_timescales_.round(1), smooth.status_)


if __name__ == "__main__":
    main()
