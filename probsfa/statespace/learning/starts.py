"""Initial parameters from the data.

Slow feature analysis of interpolated data estimates directions and decays; noise biases its decays downwards
and its directions away from noisy ones. The lagged covariances ``G(l) = C diag(a^l) C'``, l > 0, are free of
white noise, so their joint eigenvectors are a second start, good where the first is poor (Tong et al. 1991;
Molgedey & Schuster 1994). Both are refined on Whittle's likelihood, at very little cost, and then ranked by
the exact likelihood.
"""

from collections.abc import Iterator

import numpy as np

from probsfa._typing import FloatArray
from probsfa.linalg import default_rank_tol, slow_directions
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, Parameters

_SLOWEST, _FASTEST = 1.0 - 1e-4, 0.02
# Smallest share of the noise in each column's variance, for different starts.
_NOISE_SHARES = (0.1, 1e-3)


def interpolate(panel: Panel) -> list[FloatArray]:
    """Impute missing values by linear interpolation, constant before the first and after the last value.

    A column that is never observed in a sequence gets its mean over all of them.
    """
    counts = np.maximum(panel.mask[:].sum(axis=0), 1.0)
    means = panel.values[:].sum(axis=0) / counts
    filled = []
    first = 0
    for length in panel.lengths:
        values = panel.values[first : first + length].copy()
        mask = panel.mask[first : first + length] > 0.0
        rows = np.arange(length)
        for d in np.flatnonzero(~mask.all(axis=0)):
            seen = mask[:, d]
            values[~seen, d] = np.interp(rows[~seen], rows[seen], values[seen, d]) if seen.any() else means[d]
        filled.append(values)
        first += length
    return filled


def lagged_covariance(sequences: list[FloatArray], lag: int) -> FloatArray:
    """Return the symmetrised covariance of centred sequences at a lag; zero if all are too short."""
    d = sequences[0].shape[1]
    total, count = np.zeros((d, d)), 0
    for x in sequences:
        if len(x) > lag:
            total += x[lag:].T @ x[: len(x) - lag]
            count += len(x) - lag
    total /= max(count, 1)
    return 0.5 * (total + total.T)


def starts(sequences: list[FloatArray], offset: FloatArray, latents: Latents) -> Iterator[Parameters]:
    """Yield different starts, the closest to slow feature analysis first.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, D)
        Complete sequences, centred by ``offset``.
    offset : ndarray of shape (D,)
        Mean of the columns.
    latents : Latents
        Number of AR(1) factors.

    Yields
    ------
    params : Parameters
    """
    n_components = latents.n_components
    variances = _variances(sequences)
    if n_components == 0:
        yield Parameters(np.zeros(0), np.zeros((len(variances), 0)), variances, offset)
        return
    basis = _row_space(sequences)
    inside = sequences if basis is None else [x @ basis for x in sequences]
    covariance, lagged = lagged_covariance(inside, 0), lagged_covariance(inside, 1)
    by_slowness = _from_slowness(covariance, lagged, n_components)
    by_lags = _from_lags(lagged, lagged_covariance(inside, 2), n_components)
    if by_lags[0].size == 0:  # no direction is positively autocorrelated
        by_lags = by_slowness
    for (decay, loadings), share in (
        (by_slowness, _NOISE_SHARES[0]),
        (by_lags, _NOISE_SHARES[1]),
        (by_slowness, _NOISE_SHARES[1]),
    ):
        decay, loadings = _fill_up(decay, loadings, n_components)
        loadings = loadings if basis is None else basis @ loadings
        noise = np.maximum(variances - np.sum(loadings**2, axis=1), share * variances)
        yield Parameters(decay, loadings, noise, offset)


def random_starts(
    sequences: list[FloatArray], offset: FloatArray, latents: Latents, n_starts: int
) -> Iterator[Parameters]:
    """Yield random starts, the same in each call.

    Loadings are random combinations of the directions in which the data vary, and explain between a tenth and
    nine tenths of the variance; time scales are log-uniform from one step to the length of the longest
    sequence. Parameters are those of :func:`starts`, and the number of starts.
    """
    k, longest = latents.n_components, max(len(x) for x in sequences)
    variances = _variances(sequences)
    basis = _row_space(sequences)
    inside = sequences if basis is None else [x @ basis for x in sequences]
    values, vectors = np.linalg.eigh(lagged_covariance(inside, 0))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    root = root if basis is None else basis @ root
    for seed in range(n_starts):
        rng = np.random.default_rng(seed)
        timescales = np.exp(rng.uniform(0.0, np.log(max(longest, 2)), k))
        decay = np.clip(np.exp(-1.0 / timescales), _FASTEST, _SLOWEST)
        share = rng.uniform(0.1, 0.9)
        loadings = root @ rng.standard_normal((root.shape[1], k)) * np.sqrt(share / k)
        noise = np.maximum(variances - np.sum(loadings**2, axis=1), (1.0 - share) * variances)
        order = np.argsort(-decay)
        yield Parameters(decay[order], loadings[:, order], noise, offset)


def _variances(sequences: list[FloatArray]) -> FloatArray:
    """Return the variance (D,) of each column of centred sequences, at least 1e-12."""
    power = np.sum([np.sum(x**2, axis=0) for x in sequences], axis=0)
    return np.asarray(np.maximum(power / sum(map(len, sequences)), 1e-12))


def _row_space(sequences: list[FloatArray]) -> FloatArray | None:
    """Return an orthonormal basis (D, R) of the N rows if they are fewer than the D columns, or None.

    Eigenproblems of size D cost D^3 products, and all data lie in the span of the rows.
    """
    rows = np.concatenate(sequences)
    if rows.shape[0] >= rows.shape[1]:
        return None
    _, size, axes = np.linalg.svd(rows, full_matrices=False)
    kept = size > np.sqrt(default_rank_tol(rows.shape[1])) * size[0]
    kept[0] = True  # even if all rows are zero
    return np.asarray(axes[kept].T)


def _from_slowness(
    covariance: FloatArray, lagged: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Return decays and loadings by slow feature analysis; differences have moment ``2 (G(0) - G(1))``."""
    solution = slow_directions(2.0 * (covariance - lagged), covariance)
    kept = min(n_components, solution.rank)
    decay = np.clip(1.0 - 0.5 * solution.delta_values[:kept], -_SLOWEST, _SLOWEST)
    return decay, solution.loadings[:, :kept]


def _from_lags(lagged: FloatArray, twice: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Return decays and loadings from the covariances at lags one and two, which contain no white noise."""
    values, vectors = np.linalg.eigh(lagged)
    order = np.argsort(-values)[:n_components]
    values, vectors = values[order], vectors[:, order]
    positive = values > 1e-3 * max(float(values[0]), 0.0)
    root = vectors[:, positive] * np.sqrt(values[positive])
    whitener = vectors[:, positive] / np.sqrt(values[positive])
    decay, rotation = np.linalg.eigh(whitener.T @ twice @ whitener)
    order = np.argsort(-decay)
    decay = np.clip(decay[order], 2.5 * _FASTEST, _SLOWEST)
    return decay, root @ rotation[:, order] / np.sqrt(decay)


def _fill_up(decay: FloatArray, loadings: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Split components into a slower and a faster one, slowest first, until there are enough."""
    decay, loadings = decay.copy(), loadings.copy()
    splittable = decay.shape[0]
    for j in range(n_components - splittable):
        source = j % splittable
        fast = np.clip(1.0 - 4.0 * (1.0 - decay[source]), _FASTEST, 0.9 * abs(decay[source]) + _FASTEST)
        decay = np.append(decay, fast)
        loadings = np.column_stack([loadings, np.sqrt(0.3) * loadings[:, source]])
        decay[source] = 1.0 - 0.3 * (1.0 - decay[source])
        loadings[:, source] *= np.sqrt(0.7)
    return decay, loadings
