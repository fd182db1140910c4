"""Linear Gaussian model of the rows, the initial density of annealed importance sampling.

Annealing requires fewer intermediate densities if the initial density is closer to the target. A dynamic
factor model of the rows (not of the expanded rows) includes most correlations in time and between columns.
The posterior precision of the factors is the prior precision plus ``C' diag(w_t) C``. The weight ``w_td`` is
the noise precision of an observed value, and zero for a missing value.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve_banded, solve_banded

from probsfa._typing import BoolArray, FloatArray
from probsfa.expansions import Identity
from probsfa.extensions.experts.potential import Features, GlobalExpert, ValueDensity, precision_root
from probsfa.statespace.parameters import StateSpace

__all__ = ["LinearBase", "LinearRows"]


class LinearRows(NamedTuple):
    """Parameters of the factorial AR(1) model of the rows, in units of the data."""

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray


class LinearBase:
    """Distribution of free values under the linear model, given fixed values and noisy observations.

    Parameters
    ----------
    rows : LinearRows
        The model.
    lengths : sequence of int
        Length of each sequence.
    values : ndarray (N, D)
        Rows; NaN where missing.
    free : ndarray of bool (N, D)
        Whether values are drawn.
    noise : ndarray (D,)
        Standard deviations of observation noise by column; all zero if values are observed without noise.
    """

    def __init__(
        self,
        rows: LinearRows,
        lengths: Sequence[int],
        values: FloatArray,
        free: BoolArray,
        noise: FloatArray,
    ) -> None:
        params, d = StateSpace(*rows), len(rows.offset)
        observed = ~np.isnan(values)
        deviations = np.where(observed, values - params.offset, 0.0)
        observation_precision = observed / noise**2 if noise.any() else None
        total_variance = params.noise_variance + noise**2
        identity = Features(Identity().fit(np.zeros((2, d))), np.zeros(d), np.ones(d), np.ones(d))
        observed_values = np.where(observed, values, 0.0)
        self._density = ValueDensity(
            identity, GlobalExpert(params, lengths), observed_values, free, observation_precision
        )
        # Latent factors given the observations.
        weights = observed / total_variance
        self._root, log_constant = precision_root(params, lengths, weights)
        information = ((weights * deviations) @ params.loadings).ravel()
        mean = cho_solve_banded((self._root, False), information, check_finite=False)
        log_observed = (
            log_constant
            - 0.5 * float(np.sum(observed * np.log(2.0 * np.pi * total_variance)))
            + 0.5 * float(information @ mean - np.sum(weights * deviations**2))
        )
        if noise.any():  # add the normalizer of the noisy observations
            log_observed += float(np.sum(observed * np.log(np.sqrt(2.0 * np.pi) * noise)))
        self._log_integral, self._mean, self._params = log_observed, mean, params
        # Rows given the latent factors.
        precision = 1.0 / params.noise_variance + (
            0.0 if observation_precision is None else observation_precision
        )
        self._std = 1.0 / np.sqrt(np.broadcast_to(precision, values.shape))
        self._observation_term = (
            (0.0 if observation_precision is None else observation_precision) / precision * deviations
        )

    def free_values(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return n independent draws (F, n) of the F free values."""
        n_rows, k = len(self._std), self._params.n_components
        normals = rng.standard_normal((n_rows * k, n))
        factors = self._mean[:, None] + solve_banded((0, k), self._root, normals, check_finite=False)
        predictors = factors.T.reshape(n, n_rows, k) @ self._params.loadings.T
        shrinkage = self._std**2 / self._params.noise_variance
        centre = self._params.offset + shrinkage * predictors + self._observation_term
        return self._density.free_values(centre + self._std * rng.standard_normal(centre.shape))

    def __call__(self, free_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density (c,) and its derivative (F, c) at the free values (F, c) of c chains."""
        value, gradient = self._density(free_values)
        return value - self._log_integral, gradient
