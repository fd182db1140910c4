"""Simulated series, each with one difficulty of real data; no value is missing.

All consist of slow common factors, an AR(1) process of each column, and white noise. For series with wrong
readings the functions return a pair: the series with wrong readings, and the correct series.
"""

import numpy as np

__all__ = ["TROUBLES"]


def ar1(rng, n_rows, decay):
    """Return stationary AR(1) processes of unit variance (T, M)."""
    decay = np.asarray(decay, dtype=float)
    z = rng.standard_normal((n_rows, decay.size))
    for t in range(1, n_rows):
        z[t] = decay * z[t - 1] + np.sqrt(1.0 - decay**2) * z[t]
    return z


def shared(rng, n_rows, n_columns, *, n_factors=3, slowest=0.98, own=0.5, noise=0.1):
    """Return common factors, with an AR(1) process and white noise of each column (T, D)."""
    factors = ar1(rng, n_rows, np.linspace(0.8, slowest, n_factors))
    common = factors @ rng.standard_normal((n_factors, n_columns)) / np.sqrt(n_factors)
    single = ar1(rng, n_rows, rng.uniform(0.7, 0.97, n_columns))
    return common + own * single + noise * rng.standard_normal((n_rows, n_columns))


def frozen_columns(rng):
    """Return 60 varying columns, and 30 that are constant except for rare steps."""
    x = shared(rng, 3000, 90)
    steps = np.where(rng.random((3000, 30)) < 0.002, rng.standard_normal((3000, 30)), 0.0)
    x[:, 60:] = np.cumsum(steps, axis=0)
    return x


def frozen_for_hours(rng):
    """Return columns that sometimes repeat their last value for some hundred rows."""
    x = shared(rng, 2000, 20)
    for d in range(20):
        for first in rng.integers(0, 1900, 4):
            x[first : first + 100, d] = x[first, d]
    return x


def level_shifts(rng):
    """Return columns, half of which have one or two permanent level shifts."""
    x = shared(rng, 1500, 16)
    for d in range(8):
        for first in rng.integers(200, 1300, 2):
            x[first:, d] += 6.0 * rng.standard_normal()
    return x


def one_gross_reading(rng):
    """Return a series with one value a thousand standard deviations from the mean."""
    truth = shared(rng, 1500, 12)
    x = truth.copy()
    x[700, 4] += 1000.0
    return x, truth


def outliers(rng):
    """Return a series in which 1 % of the values have errors of about ten standard deviations."""
    truth = shared(rng, 1500, 12)
    x, bad = truth.copy(), rng.random(truth.shape) < 0.01
    x[bad] += rng.choice([-1.0, 1.0], bad.sum()) * rng.uniform(8.0, 15.0, bad.sum())
    return x, truth


def artefact_rows(rng):
    """Return fast, correlated columns with four rows in which all values are far from the others."""
    truth = shared(rng, 1500, 12, slowest=0.9, own=0.2)
    x = truth.copy()
    x[[300, 301, 800, 1200]] += 40.0 * rng.standard_normal(12)
    return x, truth


def quantised(rng):
    """Return columns that are rounded to a few levels."""
    return np.round(shared(rng, 1500, 12) * 1.5) / 1.5


def heavy_tails(rng):
    """Return 49 columns whose innovations are Student-t with 2.5 degrees of freedom."""
    x = np.zeros((2000, 49))
    shocks = rng.standard_t(2.5, (2000, 3)) @ rng.standard_normal((3, 49)) + rng.standard_t(2.5, (2000, 49))
    for t in range(1, 2000):
        x[t] = 0.9 * x[t - 1] + shocks[t]
    return x


def regime_change(rng):
    """Return columns whose loadings change half-way."""
    return np.vstack([shared(rng, 800, 12), shared(rng, 800, 12)])


def counters(rng):
    """Return increasing columns, and columns that vary around a level."""
    x = shared(rng, 1500, 12)
    x[:, :4] = np.cumsum(np.maximum(rng.random((1500, 4)) - 0.6, 0.0), axis=0)
    return x


def on_and_off(rng):
    """Return relays that are on or off for some dozens of rows, and the temperatures that they affect."""
    x = shared(rng, 1500, 10)
    for d in range(4):
        x[:, d] = np.cumsum(rng.random(1500) < 0.03) % 2
    x[:, 4:7] += 2.0 * x[:, :3]
    return x


def smooth_motion(rng):
    """Return 110 markers of a rotating body, nearly without noise."""
    t = np.arange(400) / 100.0
    frequency, phase = rng.uniform(0.3, 2.5, 12), rng.uniform(0.0, 2.0 * np.pi, 12)
    waves = np.sin(2.0 * np.pi * frequency * t[:, None] + phase)
    return waves @ rng.standard_normal((12, 110)) + 1e-3 * rng.standard_normal((400, 110))


TROUBLES = {
    "frozen columns with rare steps": frozen_columns,
    "frozen for hours": frozen_for_hours,
    "level shifts": level_shifts,
    "one gross reading": one_gross_reading,
    "1 % outliers": outliers,
    "four artefact rows": artefact_rows,
    "quantised columns": quantised,
    "heavy tails": heavy_tails,
    "regime change half-way": regime_change,
    "counters": counters,
    "on/off columns": on_and_off,
    "smooth motion, 110 columns": smooth_motion,
    "more columns than rows": lambda rng: shared(rng, 40, 60),
    "200 columns": lambda rng: shared(rng, 500, 200),
    "5 rows": lambda rng: shared(rng, 5, 4),
    "20 rows": lambda rng: shared(rng, 20, 6),
    "50 rows": lambda rng: shared(rng, 50, 6),
    "white noise": lambda rng: rng.standard_normal((600, 8)),
    "random walks": lambda rng: np.cumsum(rng.standard_normal((1000, 8)), axis=0),
    "factors and white noise": lambda rng: shared(rng, 1000, 12, own=0.0, noise=0.5),
}
