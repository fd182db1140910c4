"""The unnormalized density of a product of experts, and its derivatives.

The global expert is the factorial AR(1) model of expanded rows, ``f_t = mu + C z_t + n_t``, ``R = Cov[n_t]``,
with the factors integrated out. Its gradient requires only the posterior means ``m`` of the factors, which
follow from the banded posterior precision ``Q`` of the factors::

    m = Q^-1 h,  h_t = C' R^-1 (f_t - mu),        d log N / d f_t = -R^-1 (f_t - mu - C m_t)

Let ``phi(y)`` be the expansion of the rows ``y``. The local experts are Gaussians that restrict ``f`` to
``phi(y)`` with standard deviation ``beta``. The product of local and global experts, integrated over ``f``,
is the density of the global expert at ``phi(y)``, with noise variances ``r + beta^2``. Only the rows ``y``
are therefore sampled.

References
----------
Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022, section 5.3, eq. 29.
In the paper beta is the weight of the local experts; here it is their width.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded, solve_banded

from probsfa._typing import BoolArray, FloatArray
from probsfa.expansions import Expansion, Identity
from probsfa.statespace.parameters import StateSpace

__all__ = ["Expanded", "Features", "GlobalExpert", "ValueDensity", "precision_root", "starts_of"]

# Steps of finite differences for derivatives of an expansion, in standard deviations of the columns.
_DIFFERENCE_STEP = 1e-5


def starts_of(lengths: Sequence[int]) -> BoolArray:
    """Return a mask (N,) of the first rows of sequences."""
    starts = np.zeros(sum(lengths), dtype=bool)
    starts[np.cumsum((0, *lengths[:-1]))] = True
    return starts


class Expanded(NamedTuple):
    """Log density of expanded rows under the global expert, for each of ``c`` series.

    Attributes
    ----------
    log_density : ndarray (c,)
        Log density, in nats.
    gradient : ndarray (c, N, E)
        Derivative with respect to the expanded rows.
    means : ndarray (c, N, K)
        Posterior means of the factors.
    """

    log_density: FloatArray
    gradient: FloatArray
    means: FloatArray


def precision_root(
    params: StateSpace, lengths: Sequence[int], weights: FloatArray
) -> tuple[FloatArray, float]:
    """Return the Cholesky factor of the posterior precision of the factors.

    Parameters
    ----------
    params : StateSpace
        AR(1) factors and loadings (E, K).
    lengths : sequence of int
        Length of each sequence; ``N`` rows in total.
    weights : ndarray (N, E)
        Precision of each observed value given the factors, zero where missing.

    Returns
    -------
    root : ndarray (K + 1, N K)
        Upper Cholesky factor in banded form.
    log_constant : float
        Half the log determinant of the prior precision minus half that of the posterior precision.
    """
    decay, loadings = params.decay, params.loadings
    k, starts = len(decay), starts_of(lengths)
    ends = np.append(starts[1:], True)
    innovation = 1.0 - decay**2
    diagonal = np.where(starts[:, None], 1.0, 1.0 / innovation)
    diagonal = diagonal + np.where(ends[:, None], 0.0, decay**2 / innovation)
    # Upper banded form: entry (i, j) of the precision is in row k + i - j of column j.
    bands = np.zeros((k + 1, len(starts), k))
    for j in range(k):
        for i in range(j + 1):
            bands[k + i - j, :, j] = weights @ (loadings[:, i] * loadings[:, j])
        bands[k, :, j] += diagonal[:, j]
    bands[0] -= np.where(starts[:, None], 0.0, decay / innovation)
    root = np.asarray(cholesky_banded(bands.reshape(k + 1, -1), check_finite=False))
    n_transitions = len(starts) - len(lengths)
    log_constant = -float(np.sum(np.log(root[k]))) - 0.5 * n_transitions * float(np.sum(np.log(innovation)))
    return root, log_constant


class GlobalExpert:
    """The factorial AR(1) model of expanded rows.

    The posterior precision of the factors is the same for all series of the same lengths; it is factorized
    once.

    Parameters
    ----------
    params : StateSpace
        AR(1) factors, loadings (E, K), noise variances (E,) and offset (E,).
    lengths : sequence of int
        Length of each sequence; ``N`` rows in total.
    """

    def __init__(self, params: StateSpace, lengths: Sequence[int]) -> None:
        self.params, self.lengths = params, tuple(lengths)
        self._weights = params.loadings / params.noise_variance[:, None]
        n_rows = sum(lengths)
        precisions = np.broadcast_to(1.0 / params.noise_variance, (n_rows, params.n_features))
        self._root, log_constant = precision_root(params, lengths, precisions)
        self.log_constant = log_constant - 0.5 * n_rows * float(
            np.sum(np.log(2.0 * np.pi * params.noise_variance))
        )

    def evaluate(self, rows: FloatArray) -> Expanded:
        """Return the log density, its gradient and the means of the factors at expanded rows (c, N, E)."""
        loadings, noise = self.params.loadings, self.params.noise_variance
        deviations = rows - self.params.offset
        c, n, _ = deviations.shape
        projections = (deviations @ self._weights).reshape(c, -1).T
        means = cho_solve_banded((self._root, False), projections, check_finite=False).T.reshape(c, n, -1)
        gradient = (means @ loadings.T - deviations) / noise
        return Expanded(
            self.log_constant + 0.5 * np.einsum("cne,cne->c", deviations, gradient), gradient, means
        )

    def draw_factors(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw factors (c, N, K) given expanded rows, from their posterior means (c, N, K)."""
        c, n, k = means.shape
        normals = rng.standard_normal((n * k, c))
        return means + solve_banded((0, k), self._root, normals, check_finite=False).T.reshape(c, n, k)

    def parameter_gradient(self, expanded: Expanded) -> FloatArray:
        """Return the gradient of the log density, averaged over series, with respect to the parameters.

        The parameters are the vector ``(atanh a, C, log r, mu)``. Terms of the gradient that do not depend on
        the rows are omitted, because they cancel in the gradient of the likelihood.
        """
        decay, noise = self.params.decay, self.params.noise_variance
        c = len(expanded.means)
        is_transition = ~starts_of(self.lengths)
        current_means, previous_means = (
            expanded.means[:, is_transition],
            expanded.means[:, np.flatnonzero(is_transition) - 1],
        )
        innovations = current_means - decay * previous_means
        decay_gradient = np.sum(innovations * previous_means, axis=(0, 1)) - decay * np.sum(
            innovations**2, axis=(0, 1)
        ) / (1.0 - decay**2)
        loadings_gradient = -np.einsum("cne,cnk->ek", expanded.gradient, expanded.means)
        noise_gradient = 0.5 * noise * np.sum(expanded.gradient**2, axis=(0, 1))
        offset_gradient = -np.sum(expanded.gradient, axis=(0, 1))
        return (
            np.concatenate([decay_gradient, loadings_gradient.ravel(), noise_gradient, offset_gradient]) / c
        )


class Features(NamedTuple):
    """An expansion with E standardized outputs, and its derivatives.

    Attributes
    ----------
    transformer : fitted transformer
        Maps rows of D columns independently to E columns.
    shift, scale : ndarray (E,)
        ``(phi - shift) / scale`` are the expanded rows of the model.
    steps : ndarray (D,)
        Steps of finite differences.
    """

    transformer: Any
    shift: FloatArray
    scale: FloatArray
    steps: FloatArray

    def raw(self, rows: FloatArray) -> FloatArray:
        """Return the outputs (..., E) of the expansion at rows (..., D); infinite or NaN after overflow."""
        stacked_rows = rows.reshape(-1, rows.shape[-1])
        if isinstance(self.transformer, Expansion):
            outputs = self.transformer.expand(stacked_rows)
        else:
            outputs = np.asarray(self.transformer.transform(stacked_rows), dtype=np.float64)
        return outputs.reshape(*rows.shape[:-1], -1)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return standardized outputs (..., E) at rows (..., D)."""
        return (self.raw(rows) - self.shift) / self.scale

    def row_gradient(self, rows: FloatArray, gradient: FloatArray) -> FloatArray:
        """Apply the chain rule to the gradient of a function of standardized outputs.

        The derivatives of the expansion are central differences, which are exact for polynomials of degree
        two. Their errors do not bias a sampler with Metropolis acceptance.

        Parameters
        ----------
        rows : ndarray (..., D)
            Rows at which to differentiate.
        gradient : ndarray (..., E)
            Gradient with respect to the standardized outputs.

        Returns
        -------
        ndarray (..., D)
            Gradient with respect to the rows.
        """
        if isinstance(self.transformer, Identity):
            return gradient / self.scale
        n_columns = rows.shape[-1]
        forward = rows + (self.steps * np.eye(n_columns)).reshape(
            n_columns, *[1] * (rows.ndim - 1), n_columns
        )
        backward = 2.0 * rows - forward
        differences = self.raw(forward) - self.raw(backward)
        row_gradient = np.einsum("d...e,...e->...d", differences, gradient / self.scale)
        return np.asarray(row_gradient / (2.0 * self.steps))

    @classmethod
    def of(cls, transformer: Any, rows: FloatArray) -> "Features":
        """Return the expansion, standardized on complete rows (N, D)."""
        std = rows.std(axis=0)
        features = cls(transformer, np.zeros(1), np.ones(1), _DIFFERENCE_STEP * np.where(std > 0.0, std, 1.0))
        expanded = features.raw(rows)
        scale = expanded.std(axis=0)
        largest_values = np.max(np.abs(expanded), axis=0)
        scale = np.where(scale > 1e-12 * largest_values, scale, 1.0)
        return features._replace(shift=expanded.mean(axis=0), scale=scale)


class ValueDensity:
    """Log density of free values, up to a constant, with the other values fixed.

    Parameters
    ----------
    features : Features
        The expansion.
    expert : GlobalExpert
        The model of expanded rows.
    values : ndarray (N, D)
        Rows. Where `free` is true, they are used only if observations are noisy.
    free : ndarray of bool (N, D)
        Whether values are free.
    observation_precision : ndarray (N, D), optional
        Precisions of noisy observations of free values; zero for values that are not observed.
    """

    def __init__(
        self,
        features: Features,
        expert: GlobalExpert,
        values: FloatArray,
        free: BoolArray,
        observation_precision: FloatArray | None = None,
    ) -> None:
        self.features, self.expert, self.free = features, expert, free
        self.positions: NDArray[np.intp] = np.flatnonzero(free.T)
        self._flat = np.where(free, 0.0, values).T.ravel()
        if observation_precision is None:
            self._precision = None
        else:
            self._precision = observation_precision.T.ravel()[self.positions, None]
            self._noisy_observations = np.where(observation_precision > 0.0, values, 0.0).T.ravel()[
                self.positions, None
            ]

    def at(self, expert: GlobalExpert) -> "ValueDensity":
        """Return the density of the same values for another global expert."""
        copy = object.__new__(ValueDensity)
        copy.__dict__.update(self.__dict__)
        copy.expert = expert
        return copy

    def rows(self, free_values: FloatArray) -> FloatArray:
        """Return rows (c, N, D) with free values (F, c)."""
        n, d = self.free.shape
        flat = np.repeat(self._flat[None], free_values.shape[1], axis=0)
        flat[:, self.positions] = free_values.T
        return flat.reshape(-1, d, n).transpose(0, 2, 1)

    def free_values(self, rows: FloatArray) -> FloatArray:
        """Return the free values (F, c) of rows (c, N, D)."""
        return rows.transpose(0, 2, 1).reshape(len(rows), -1)[:, self.positions].T

    def __call__(self, free_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log density (c,) and derivative (F, c) at values (F, c); minus infinity after overflow."""
        rows = self.rows(free_values)
        with np.errstate(all="ignore"):
            expansion = self.expert.evaluate(self.features(rows))
            gradient = self.free_values(self.features.row_gradient(rows, expansion.gradient))
            value = expansion.log_density
            if self._precision is not None:
                deviations = free_values - self._noisy_observations
                value = value - 0.5 * np.sum(self._precision * deviations**2, axis=0)
                gradient = gradient - self._precision * deviations
        usable = np.isfinite(value) & np.all(np.isfinite(gradient), axis=0)
        return np.where(usable, value, -np.inf), np.where(usable, gradient, 0.0)
