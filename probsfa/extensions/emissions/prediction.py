"""Prediction of values in data units from latent factors: means, standard deviations, quantiles and draws."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.stats import qmc

from probsfa._typing import BoolArray, FloatArray
from probsfa.extensions.emissions.columns import Column, family_blocks
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.sites import Shapes, predictor_moments
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction import Forecast

__all__ = [
    "EmissionForecast",
    "ValueDistribution",
    "ValueMoments",
    "draw_values",
    "level_probabilities",
    "log_predictive",
    "predict",
    "shapes_by_column",
]

# Number of quasi-random points for the probabilities of levels.
_N_POINTS = 256
# Number of rows whose probabilities of levels are computed at a time.
_CHUNK_ROWS = 1024


class EmissionForecast(Forecast):
    """Forecast of ``H`` steps after the last row, for non-Gaussian columns.

    Attributes
    ----------
    means, std : ndarray or DataFrame of shape (H, D)
        Means and standard deviations of the observations; for binary columns the probability of a one, for
        categorical columns the most probable level and the square root of ``p (1 - p)``.
    latent_means, latent_std : ndarray or DataFrame of shape (H, K)
        Means and standard deviations of the latent factors.
    lower, upper : ndarray or DataFrame of shape (H, D)
        Limits of the prediction interval. The limits for counts are counts, so that coverage may exceed the
        nominal probability. NaN for categorical columns.
    """


class ValueMoments(NamedTuple):
    """Means and standard deviations (N, D), and quantiles, one (N, D) for each probability."""

    means: FloatArray
    std: FloatArray
    quantiles: tuple[FloatArray, ...]


class ValueDistribution(NamedTuple):
    """Distribution of values (N, D) for given moments of the factors.

    Quantiles are computed where `is_requested` (N, D) is true, by default for all values. The other
    attributes are arguments of `predict`.
    """

    params: StateSpace
    columns: Sequence[Column]
    shapes: Shapes
    means: FloatArray
    covariances: FloatArray
    is_requested: BoolArray | None = None

    def moments(self) -> ValueMoments:
        """Return means and standard deviations."""
        return predict(*self[:5])

    def quantile(self, probability: float) -> FloatArray:
        """Return quantiles (N, D) of the requested values; NaN elsewhere and for categorical columns."""
        return predict(*self[:5], (probability,), self.is_requested).quantiles[0]


def shapes_by_column(columns: Sequence[Column], shapes: Shapes) -> list[FloatArray]:
    """Return the shape parameters (P, 1) of each model column."""
    column_shapes: dict[int, FloatArray] = {}
    for block, shape in zip(family_blocks(columns), shapes, strict=True):
        column_shapes.update({int(c): shape[:, i : i + 1] for i, c in enumerate(block.columns)})
    return [column_shapes[c] for c in range(len(column_shapes))]


def predict(
    params: StateSpace,
    columns: Sequence[Column],
    shapes: Shapes,
    means: FloatArray,
    covariances: FloatArray,
    probabilities: Sequence[float] = (),
    selected: BoolArray | None = None,
) -> ValueMoments:
    """Return means, standard deviations and quantiles of values for given moments of the latent factors.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    columns : sequence of Column
        Encoding of the columns.
    shapes : tuple of ndarray
        Shape parameters of each block.
    means : ndarray of shape (N, K)
        Means of the latent factors.
    covariances : ndarray of shape (N, K, K)
        Their covariances.
    probabilities : sequence of float
        Probabilities of the quantiles.
    selected : ndarray of bool of shape (N, D), optional
        Values for which quantiles are computed; others are NaN. All by default.

    Returns
    -------
    ValueMoments
    """
    eta, predictor_variances = predictor_moments(params, means, covariances)
    column_shapes = shapes_by_column(columns, shapes)
    n, d = len(means), len(columns)
    predictions, std = np.empty((n, d)), np.empty((n, d))
    quantiles = tuple(np.full((n, d), np.nan) for _ in probabilities)
    for j, column in enumerate(columns):
        if column.emission == "categorical":
            p = level_probabilities(params, column, means, covariances)
            most_probable = np.argmax(p, axis=1)
            predictions[:, j] = column.levels[most_probable]
            largest_probability = p[np.arange(n), most_probable]
            std[:, j] = np.sqrt(np.maximum(largest_probability * (1.0 - largest_probability), 0.0))
            continue
        family, shape = FAMILIES[column.family], column_shapes[column.first]
        m, v = eta[:, column.first], predictor_variances[:, column.first]
        centre, variance = family.moments(m, v, shape)
        predictions[:, j] = column.shift + column.scale * centre
        std[:, j] = column.scale * np.sqrt(variance)
        rows = np.ones(n, dtype=bool) if selected is None else selected[:, j]
        if rows.any():
            for level, result in zip(probabilities, quantiles, strict=True):
                result[rows, j] = column.shift + column.scale * family.quantile(
                    level, m[rows], v[rows], shape
                )
    return ValueMoments(predictions, std, quantiles)


def level_probabilities(
    params: StateSpace, column: Column, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """Return probabilities (N, L) of the levels of a categorical column, in the order of its `levels`.

    The predictors of the levels are correlated. Probabilities are therefore means over quasi-random points of
    their joint distribution (a scrambled Sobol sequence with a fixed seed).
    """
    loadings, offset = params.loadings[column.model_columns], params.offset[column.model_columns]
    uniform = qmc.Sobol(column.n_model_columns, seed=0).random(_N_POINTS)
    normal = special.ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    probabilities = np.empty((len(means), column.n_model_columns + 1))
    for start in range(0, len(means), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        centre = offset + means[rows] @ loadings.T
        values, vectors = np.linalg.eigh(loadings @ covariances[rows] @ loadings.T)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        eta = centre[:, None, :] + np.einsum("nij,pj->npi", roots, normal)
        probabilities[rows] = _probabilities_of_levels(eta).mean(axis=1)
    return probabilities


def _probabilities_of_levels(eta: FloatArray) -> FloatArray:
    """Return probabilities (..., L) of the levels given predictors (..., L - 1)."""
    log_above = np.cumsum(special.log_expit(-eta), axis=-1)  # of the levels above each level
    log_at_least = np.concatenate([np.zeros_like(log_above[..., :1]), log_above[..., :-1]], axis=-1)
    return np.concatenate(
        [np.exp(log_at_least + special.log_expit(eta)), np.exp(log_above[..., -1:])], axis=-1
    )


def log_predictive(
    params: StateSpace,
    columns: Sequence[Column],
    shapes: Shapes,
    means: FloatArray,
    covariances: FloatArray,
    values: FloatArray,
) -> FloatArray:
    """Return log densities, or log probabilities, of values (N, D) in data units; NaN for missing values."""
    eta, variance = predictor_moments(params, means, covariances)
    column_shapes = shapes_by_column(columns, shapes)
    log_densities = np.full_like(values, np.nan)
    for j, column in enumerate(columns):
        rows = ~np.isnan(values[:, j])
        if column.emission == "categorical":
            p = level_probabilities(params, column, means[rows], covariances[rows])
            level_index = np.argmax(values[rows, j][:, None] == column.levels, axis=1)
            log_densities[rows, j] = np.log(p[np.arange(len(level_index)), level_index])
            continue
        x = (values[rows, j] - column.shift) / column.scale
        m, v = eta[rows, column.first], variance[rows, column.first]
        density = FAMILIES[column.family].log_predictive(x, m, v, column_shapes[column.first])
        log_densities[rows, j] = density - np.log(column.scale)
    return log_densities


def draw_values(
    params: StateSpace,
    columns: Sequence[Column],
    shapes: Shapes,
    factors: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw values (..., D), in data units, given latent factors (..., K)."""
    eta = params.offset + factors @ params.loadings.T
    column_shapes = shapes_by_column(columns, shapes)
    values = np.empty((*eta.shape[:-1], len(columns)))
    for j, column in enumerate(columns):
        if column.emission == "categorical":
            p = np.cumsum(_probabilities_of_levels(eta[..., column.model_columns]), axis=-1)
            level_index = np.sum(rng.random(p.shape[:-1])[..., None] > p[..., :-1], axis=-1)
            values[..., j] = column.levels[level_index]
            continue
        draws = FAMILIES[column.family].draw(eta[..., column.first], column_shapes[column.first], rng)
        values[..., j] = column.shift + column.scale * draws
    return values
