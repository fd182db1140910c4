"""Stochastic cycles: estimated periods and decays of simulated series, and imputation of a real series.

Recovery: an AR(1) factor and a cycle of a random period between 6 and 30 rows, in four columns of 3,000
rows, 20 seeds; the last line counts fits with a lower log-likelihood than the model without a cycle.

ETT_h1 (hourly, seven columns; Zhou et al. 2021), split and standardised as in TSI-Bench (Du et al. 2024):
twelve months for training, four for validation, four for the test. Windows of 48 rows are imputed separately.
Half of their values are hidden: in subsequences of 36 rows of one column, or in blocks of 12 rows and 4
neighbouring columns. Values of the training part are hidden in the same pattern. Errors are mean absolute
errors of hidden values.

    python benchmarks/accuracy/rhythms.py [--seeds N] [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.statespace.engine.posterior import simulate
from probsfa.statespace.parameters import StateSpace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

WINDOW = 48


def recover(seeds: range) -> None:
    """Print the table of recovered periods and decays."""
    table = Table(
        "seed",
        *("period", "found", "error %", "std. err. %", "decay", "found", "above none, nats", "seconds"),
    )
    errors, below = [], 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        period = rng.uniform(6.0, 30.0)
        params = StateSpace(
            np.array([0.95]),
            rng.standard_normal((4, 3)),
            np.full(4, 0.3),
            np.zeros(4),
            rhythm_decay=np.array([0.999]),
            rhythm_frequency=np.array([2.0 * np.pi / period]),
        )
        X = simulate(params, 3000, rng)[0]
        start = time.perf_counter()
        model = ProbabilisticSFA(1, rhythms=1).fit(X)
        seconds = time.perf_counter() - start
        gain = model.log_likelihood_ - ProbabilisticSFA(1).fit(X).log_likelihood_
        error = model.rhythm_periods_[0] / period - 1.0
        # Standard error for an observed complex AR(1) process.
        expected = np.sqrt((1.0 - 0.999**2) / (2.0 * 3000)) * period / (2.0 * np.pi)
        errors.append(abs(error))
        below += gain < 0.0
        figures = [period, model.rhythm_periods_[0], 100 * error, 100 * expected]
        decays = "0.9990", f"{model.rhythm_decay_[0]:.4f}"
        table.add(seed, *(f"{figure:.3f}" for figure in figures), *decays, f"{gain:.1f}", f"{seconds:.1f}")
    within = sum(error < 0.01 for error in errors)
    print(f"\nlargest error {100 * max(errors):.3f} %, within 1 %: {within} of {len(errors)}")
    print(f"lower likelihood than the model without a cycle: {below} of {len(errors)}")


def hide_subsequences(window: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a mask of subsequences of 36 rows of one column; on average, half of all values."""
    hidden = np.zeros(window.shape, dtype=bool)
    n = round(0.5 * window.size / 36)
    for column in rng.choice(window.shape[1], n, replace=False):
        first = rng.integers(0, len(window) - 35)
        hidden[first : first + 36, column] = True
    return hidden


def hide_blocks(window: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a mask of blocks of 12 rows and 4 columns that cover half of the values."""
    hidden = np.zeros(window.shape, dtype=bool)
    while hidden.mean() < 0.5:
        row, column = rng.integers(0, len(window) - 11), rng.integers(0, window.shape[1] - 3)
        hidden[row : row + 12, column : column + 4] = True
    return hidden


def ett(folder: Path, seeds: range) -> None:
    """Print errors of hidden values of the test months."""
    frame = pd.read_csv(folder / "etth1" / "ETTh1.csv", index_col=0)
    month = 30 * 24
    train, test = frame.iloc[: 12 * month].to_numpy(), frame.iloc[16 * month : 20 * month].to_numpy()
    mean, scale = train.mean(axis=0), train.std(axis=0)
    train, test = (train - mean) / scale, (test - mean) / scale
    windows = [test[i : i + WINDOW] for i in range(0, len(test), WINDOW)]
    day = [24.0, 12.0]
    asked = {
        "7 AR(1)": {},
        "7 AR(1) + 24 h, 12 h": {"rhythms": day},
        "7 AR(1), AR(1) noise": {"noise": "ar1"},
        "7 AR(1) + 24 h, 12 h, AR(1) noise": {"rhythms": day, "noise": "ar1"},
    }
    print()
    table = Table("ETT_h1", "missing values", "MAE", "seconds to fit", "log-likelihood")
    for pattern, hide in (("subsequences", hide_subsequences), ("blocks", hide_blocks)):
        for name, extra in asked.items():
            errors, took, values = [], [], []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                incomplete = train.copy()
                for i in range(0, len(train), WINDOW):
                    incomplete[i : i + WINDOW][hide(incomplete[i : i + WINDOW], rng)] = np.nan
                hidden = [hide(window, rng) for window in windows]
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = ProbabilisticSFA(7, **extra).fit(incomplete)
                    took.append(time.perf_counter() - start)
                    with_missing = [np.where(h, np.nan, w) for h, w in zip(hidden, windows, strict=True)]
                    filled = model.impute(with_missing)
                values.append(model.log_likelihood_)
                both = zip(filled, windows, hidden, strict=True)
                errors.append(np.mean(np.abs(np.concatenate([(f - w)[h] for f, w, h in both]))))
            means = f"{np.mean(errors):.3f}", f"{np.mean(took):.0f}", f"{np.mean(values):.0f}"
            table.add(name, pattern, *means)


def main() -> None:
    """Print both tables."""
    options = read_options(
        __doc__,
        data="etth1/",
        seeds=(20, "simulated series with a cycle"),
        masks=(1, "sets of missing values in ETT_h1"),
    )
    if options.seeds:
        recover(range(options.seeds))
    if (options.data / "etth1").is_dir():
        ett(options.data, range(options.masks))


if __name__ == "__main__":
    main()
