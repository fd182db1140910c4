"""Simple imputation methods: functions of values with NaN where they are missing."""

import numpy as np
from scipy.interpolate import PchipInterpolator
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from probsfa.datasets import hide_values
from probsfa.imputation import LinearInterpolation

# Held out of the observed values to select a number of neighbours or a rank.
TUNING = 0.05


def standardised(fill):
    """Return a method that imputes standardised columns; values that it returns as 0 are column means."""

    def filled(incomplete, *given):
        mean, scale = np.nanmean(incomplete, axis=0), np.nanstd(incomplete, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        values = fill((incomplete - mean) / scale, *given) * scale + mean
        return np.where(np.isnan(incomplete), values, incomplete)

    return filled


def tuned(fill, choices):
    """Return a method whose parameter minimizes the error of held-out values."""

    def filled(incomplete):
        held_out = hide_values(incomplete, TUNING, random_state=0)
        held_out[:, np.sum(~np.isnan(incomplete) & ~held_out, axis=0) < 2] = False
        rest, scale = np.where(held_out, np.nan, incomplete), np.nanstd(incomplete, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        errors = [np.mean(((fill(rest, c) - incomplete) / scale)[held_out] ** 2) for c in choices]
        return fill(incomplete, choices[int(np.argmin(errors))])

    return filled


@standardised
def neighbours(z, n_neighbors):
    """Impute from the nearest rows."""
    return KNNImputer(n_neighbors=n_neighbors, weights="distance", keep_empty_features=True).fit_transform(z)


@standardised
def svd(z, rank):
    """Impute by iterated truncated singular value decomposition, with fifty iterations."""
    missing, z = np.isnan(z), np.nan_to_num(z)
    for _ in range(50):
        u, s, v = np.linalg.svd(z, full_matrices=False)
        z[missing] = ((u[:, :rank] * s[:rank]) @ v[:rank])[missing]
    return z


@standardised
def iterative(z):
    """Impute by regressions of each column on all others."""
    return IterativeImputer(random_state=0, keep_empty_features=True).fit_transform(z)


@standardised
def pchip(z):
    """Impute by piecewise cubic interpolation, and by the nearest observation at the ends."""
    rows = np.arange(len(z))
    for column in z.T:
        known = np.flatnonzero(~np.isnan(column))
        if len(known) >= 2:
            column[:] = PchipInterpolator(known, column[known])(np.clip(rows, known[0], known[-1]))
    return np.nan_to_num(z)


SIMPLE = {
    "mean": standardised(np.nan_to_num),
    "linear": lambda incomplete: LinearInterpolation().fill(incomplete).values,
    "pchip": pchip,
    "KNN": tuned(neighbours, (1, 3, 10, 30)),
    "SVD": tuned(svd, (1, 2, 4, 8, 16)),
    "iterative": iterative,
}
