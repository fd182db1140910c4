"""From the latents to the cells of users: means, spreads, quantiles and draws, in data units."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.stats import qmc

from probsfa._typing import BoolArray, FloatArray
from probsfa.extensions.emissions.columns import Column, blocks_of
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.sites import Shapes, predictor_moments
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.prediction import Forecast

__all__ = [
    "CellDistribution",
    "CellMoments",
    "EmissionForecast",
    "draw_cells",
    "level_probabilities",
    "log_predictive",
    "predict",
    "shapes_by_cell",
]

# Points over which the probabilities of levels are averaged, and rows that are worked through at a time.
_N_POINTS, _CHUNK = 256, 1024


class EmissionForecast(Forecast):
    """Forecast of ``H`` steps after the last row, of columns that are not Gaussian.

    Attributes
    ----------
    means, std : ndarray or frame of shape (H, D)
        Means and standard deviations of the observations; of a column of zeros and ones the probability of a
        one, of a categorical one the most probable level and the root of ``p (1 - p)``.
    latent_means, latent_std : ndarray or frame of shape (H, K)
        Means and standard deviations of the latents.
    lower, upper : ndarray or frame of shape (H, D)
        Limits of the prediction interval, which are values that a column may have, so that it covers with
        its probability or more; NaN for categorical columns.
    """


class CellMoments(NamedTuple):
    """Means and standard deviations (N, D), and quantiles, one (N, D) for each probability."""

    means: FloatArray
    std: FloatArray
    quantiles: tuple[FloatArray, ...]


class CellDistribution(NamedTuple):
    """Distribution of values (N, D), given that of the factors; attributes as parameters of `predict`."""

    params: Parameters
    columns: Sequence[Column]
    shapes: Shapes
    means: FloatArray
    covariances: FloatArray
    wanted: BoolArray | None = None

    def moments(self) -> CellMoments:
        """Means and standard deviations."""
        return predict(*self[:5])

    def quantile(self, probability: float) -> FloatArray:
        """Quantiles (N, D) of the wanted values, NaN elsewhere and where a column is categorical."""
        return predict(*self[:5], (probability,), self.wanted).quantiles[0]


def shapes_by_cell(columns: Sequence[Column], shapes: Shapes) -> list[FloatArray]:
    """Shape parameters (P, 1) of each column of cells."""
    out: dict[int, FloatArray] = {}
    for block, shape in zip(blocks_of(columns), shapes, strict=True):
        out.update({int(c): shape[:, i : i + 1] for i, c in enumerate(block.columns)})
    return [out[c] for c in range(len(out))]


def predict(
    params: Parameters,
    columns: Sequence[Column],
    shapes: Shapes,
    means: FloatArray,
    covariances: FloatArray,
    probabilities: Sequence[float] = (),
    wanted: BoolArray | None = None,
) -> CellMoments:
    """Distribution of cells from that of the latents.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    columns : sequence of Column
        What the columns are.
    shapes : tuple of ndarray
        Shape parameters of each block.
    means : ndarray of shape (N, K)
        Means of the latents.
    covariances : ndarray of shape (N, K, K)
        Their covariances.
    probabilities : sequence of float
        Probabilities of the quantiles.
    wanted : ndarray of bool of shape (N, D), optional
        Cells for which quantiles are wanted; others are NaN. All by default.
    """
    eta, spread = predictor_moments(params, means, covariances)
    by_cell = shapes_by_cell(columns, shapes)
    n, d = len(means), len(columns)
    out, std = np.empty((n, d)), np.empty((n, d))
    quantiles = tuple(np.full((n, d), np.nan) for _ in probabilities)
    for j, column in enumerate(columns):
        if column.emission == "categorical":
            p = level_probabilities(params, column, means, covariances)
            best = np.argmax(p, axis=1)
            out[:, j] = column.levels[best]
            top = p[np.arange(n), best]
            std[:, j] = np.sqrt(np.maximum(top * (1.0 - top), 0.0))
            continue
        family, shape = FAMILIES[column.family], by_cell[column.first]
        m, v = eta[:, column.first], spread[:, column.first]
        centre, variance = family.moments(m, v, shape)
        out[:, j] = column.shift + column.scale * centre
        std[:, j] = column.scale * np.sqrt(variance)
        rows = np.ones(n, dtype=bool) if wanted is None else wanted[:, j]
        if rows.any():
            for level, result in zip(probabilities, quantiles, strict=True):
                result[rows, j] = column.shift + column.scale * family.quantile(
                    level, m[rows], v[rows], shape
                )
    return CellMoments(out, std, quantiles)


def level_probabilities(
    params: Parameters, column: Column, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """Probabilities (N, L) of the levels of a categorical column, in the order of its `levels`.

    Its predictors depend on each other: probabilities are means over points that are spread evenly in their
    joint distribution (a scrambled Sobol sequence, the same each time).
    """
    loadings, offset = params.loadings[column.cells], params.offset[column.cells]
    uniform = qmc.Sobol(column.n_cells, seed=0).random(_N_POINTS)
    normal = special.ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    out = np.empty((len(means), column.n_cells + 1))
    for start in range(0, len(means), _CHUNK):
        rows = slice(start, start + _CHUNK)
        centre = offset + means[rows] @ loadings.T
        values, vectors = np.linalg.eigh(loadings @ covariances[rows] @ loadings.T)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        eta = centre[:, None, :] + np.einsum("nij,pj->npi", roots, normal)
        out[rows] = _by_level(eta).mean(axis=1)
    return out


def _by_level(eta: FloatArray) -> FloatArray:
    """Probabilities (..., L) of the levels given predictors (..., L - 1)."""
    log_left = np.cumsum(special.log_expit(-eta), axis=-1)  # of none of the levels so far
    before = np.concatenate([np.zeros_like(log_left[..., :1]), log_left[..., :-1]], axis=-1)
    return np.concatenate([np.exp(before + special.log_expit(eta)), np.exp(log_left[..., -1:])], axis=-1)


def log_predictive(
    params: Parameters,
    columns: Sequence[Column],
    shapes: Shapes,
    means: FloatArray,
    covariances: FloatArray,
    values: FloatArray,
) -> FloatArray:
    """Log density, or log probability, of cells (N, D) in data units; NaN where they are missing."""
    eta, spread = predictor_moments(params, means, covariances)
    by_cell = shapes_by_cell(columns, shapes)
    out = np.full_like(values, np.nan)
    for j, column in enumerate(columns):
        rows = ~np.isnan(values[:, j])
        if column.emission == "categorical":
            p = level_probabilities(params, column, means[rows], covariances[rows])
            which = np.argmax(values[rows, j][:, None] == column.levels, axis=1)
            out[rows, j] = np.log(p[np.arange(len(which)), which])
            continue
        x = (values[rows, j] - column.shift) / column.scale
        m, v = eta[rows, column.first], spread[rows, column.first]
        density = FAMILIES[column.family].log_predictive(x, m, v, by_cell[column.first])
        out[rows, j] = density - np.log(column.scale)
    return out


def draw_cells(
    params: Parameters,
    columns: Sequence[Column],
    shapes: Shapes,
    latents: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Cells (..., D) drawn given latents (..., K), in data units."""
    eta = params.offset + latents @ params.loadings.T
    by_cell = shapes_by_cell(columns, shapes)
    out = np.empty((*eta.shape[:-1], len(columns)))
    for j, column in enumerate(columns):
        if column.emission == "categorical":
            p = np.cumsum(_by_level(eta[..., column.cells]), axis=-1)
            which = np.sum(rng.random(p.shape[:-1])[..., None] > p[..., :-1], axis=-1)
            out[..., j] = column.levels[which]
            continue
        drawn = FAMILIES[column.family].draw(eta[..., column.first], by_cell[column.first], rng)
        out[..., j] = column.shift + column.scale * drawn
    return out
