"""Simple imputation methods: functions of values with NaN where they are missing."""

import numpy as np
from scipy.interpolate import PchipInterpolator
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from probsfa.datasets import hide_values
from probsfa.imputation import LinearInterpolation

# Held out of the seen values to choose a number of neighbours or a rank.
TUNING = 0.05


def standardised(fill):
    """Return a method that fills standardised columns, and the mean where it fills nothing."""

    def filled(seen, *given):
        mean, scale = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        values = fill((seen - mean) / scale, *given) * scale + mean
        return np.where(np.isnan(seen), values, seen)

    return filled


def tuned(fill, choices):
    """Return a method whose parameter is the one that fills held-out values best."""

    def filled(seen):
        held = hide_values(seen, TUNING, random_state=0)
        held[:, np.sum(~np.isnan(seen) & ~held, axis=0) < 2] = False
        rest, scale = np.where(held, np.nan, seen), np.nanstd(seen, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        errors = [np.mean(((fill(rest, c) - seen) / scale)[held] ** 2) for c in choices]
        return fill(seen, choices[int(np.argmin(errors))])

    return filled


@standardised
def neighbours(z, n_neighbors):
    """Fill by the nearest rows."""
    return KNNImputer(n_neighbors=n_neighbors, weights="distance", keep_empty_features=True).fit_transform(z)


@standardised
def svd(z, rank):
    """Fill by truncated singular value decompositions, fifty times."""
    missing, z = np.isnan(z), np.nan_to_num(z)
    for _ in range(50):
        u, s, v = np.linalg.svd(z, full_matrices=False)
        z[missing] = ((u[:, :rank] * s[:rank]) @ v[:rank])[missing]
    return z


@standardised
def iterative(z):
    """Fill by regressions of each column on all others."""
    return IterativeImputer(random_state=0, keep_empty_features=True).fit_transform(z)


@standardised
def pchip(z):
    """Fill by piecewise cubic curves, and by the nearest value beyond the first and the last."""
    rows = np.arange(len(z))
    for column in z.T:
        known = np.flatnonzero(~np.isnan(column))
        if len(known) >= 2:
            column[:] = PchipInterpolator(known, column[known])(np.clip(rows, known[0], known[-1]))
    return np.nan_to_num(z)


SIMPLE = {
    "mean": standardised(np.nan_to_num),
    "linear": lambda seen: LinearInterpolation().fill(seen).values,
    "pchip": pchip,
    "KNN": tuned(neighbours, (1, 3, 10, 30)),
    "SVD": tuned(svd, (1, 2, 4, 8, 16)),
    "iterative": iterative,
}
