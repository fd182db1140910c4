"""Simulated series from the model of Turner & Sahani (2007), in NumPy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray
from probsfa.datasets._masking import Seed, hide_blocks, hide_values

__all__ = ["make_slow_mixture"]


def make_slow_mixture(
    n_steps: int = 1000,
    n_features: int = 8,
    *,
    decay: ArrayLike | None = None,
    timescales: ArrayLike | None = None,
    loadings: ArrayLike | None = None,
    noise_variance: ArrayLike = 0.1,
    offset: ArrayLike = 0.0,
    missing_fraction: float = 0.0,
    missing_block: int | None = None,
    lengths: Sequence[int] | None = None,
    random_state: Seed = None,
) -> Bunch:
    """Simulate a noisy mixture of slow factors, optionally with missing values.

    The model is that of Turner & Sahani (2007, eqs. 6-9), with unit stationary variances (section 4)::

        z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t
        x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

    Parameters
    ----------
    n_steps : int, default=1000
        Number of rows, T. Ignored if `lengths` is set.
    n_features : int, default=8
        Number of observed columns, D. Ignored if `loadings` is set.
    decay : array-like (K,) or None, default=None
        Lag-one autocorrelation ``a_k`` of each factor, inside (-1, 1); ``(0.99, 0.9, 0.5)`` if `decay` and
        `timescales` are None.
    timescales : array-like (K,) or None, default=None
        Time scales in steps, ``-1 / log a_k``, instead of `decay`.
    loadings : array-like (D, K) or None, default=None
        Effect of each factor on each column, ``C``; standard normal random numbers by default.
    noise_variance : float or array-like (D,), default=0.1
        Variance of the observation noise, ``r``.
    offset : float or array-like (D,), default=0.0
        Mean of each column, ``mu``.
    missing_fraction : float, default=0.0
        Share of the values that are missing.
    missing_block : int or None, default=None
        Number of rows of each missing block, which is in one column. By default single values are missing.
    lengths : sequence of int or None, default=None
        Lengths of several independent sequences, which are concatenated.
    random_state : int, numpy.random.Generator or None, default=None
        Seed, passed to :func:`numpy.random.default_rng`.

    Returns
    -------
    Bunch
        - ``data`` (T, D): the series, NaN where missing;
        - ``complete`` (T, D): the series without missing values;
        - ``mask`` (T, D): true where observed;
        - ``latents`` (T, K): the factors;
        - ``decay`` (K,), ``loadings`` (D, K), ``noise_variance`` (D,), ``offset`` (D,), ``lengths``: the
          parameters;
        - ``timescales`` (K,): time scales in steps, NaN for a decay that is not positive.

    Raises
    ------
    ValueError
        If both `decay` and `timescales` are given, a value is out of range, or shapes do not agree.

    See Also
    --------
    load_nyc_weather : Hourly weather data.
    hide_values, hide_blocks : Hide values of any series.

    References
    ----------
    Turner, R. & Sahani, M. (2007). A maximum-likelihood interpretation for slow feature analysis. Neural
    Computation 19, 1022-1038. https://doi.org/10.1162/neco.2007.19.4.1022

    Examples
    --------
    >>> mixture = make_slow_mixture(500, 4, timescales=[100.0, 5.0], missing_fraction=0.2, random_state=0)
    >>> mixture.data.shape, mixture.latents.shape
    ((500, 4), (500, 2))
    >>> print(mixture.decay.round(3))
    [0.99  0.819]
    """
    rng = np.random.default_rng(random_state)
    a = _check_decay(decay, timescales)
    rows = _check_lengths(n_steps, lengths)
    C = _check_loadings(loadings, n_features, a.size, rng)
    r = _per_column(noise_variance, C.shape[0], "noise_variance")
    if np.any(r < 0.0):
        raise ValueError(f"noise_variance must not be negative, got {noise_variance!r}.")
    mu = _per_column(offset, C.shape[0], "offset")

    factors = np.concatenate([_draw_factors(a, n, rng) for n in rows])
    complete = mu + factors @ C.T + np.sqrt(r) * rng.standard_normal((factors.shape[0], C.shape[0]))
    hidden = _draw_missing(complete, missing_fraction, missing_block, rng)
    return Bunch(
        data=np.where(hidden, np.nan, complete),
        complete=complete,
        mask=~hidden,
        latents=factors,
        decay=a,
        timescales=timescales_from_decay(a),
        loadings=C,
        noise_variance=r,
        offset=mu,
        lengths=rows,
    )


def _draw_factors(a: FloatArray, n_steps: int, rng: np.random.Generator) -> FloatArray:
    innovations = rng.standard_normal((n_steps, a.size))
    innovations[1:] *= np.sqrt(1.0 - a**2)
    z = np.empty_like(innovations)
    z[0] = innovations[0]
    for t in range(1, n_steps):
        z[t] = a * z[t - 1] + innovations[t]
    return z


def _draw_missing(
    X: FloatArray, fraction: float, block: int | None, rng: np.random.Generator
) -> NDArray[np.bool_]:
    if fraction == 0.0:
        return np.zeros(X.shape, dtype=bool)
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"missing_fraction must be from 0 to below 1, got {fraction!r}.")
    if block is None:
        return hide_values(X, fraction, random_state=rng)
    if not 1 <= block <= X.shape[0]:
        raise ValueError(f"missing_block must be from 1 to the {X.shape[0]} rows, got {block!r}.")
    return hide_blocks(X, block, fraction, random_state=rng)


def _check_decay(decay: ArrayLike | None, timescales: ArrayLike | None) -> FloatArray:
    if timescales is not None:
        if decay is not None:
            raise ValueError(
                "decay and timescales cannot both be set: one follows from the other. Use one of them."
            )
        scales = np.atleast_1d(np.asarray(timescales, dtype=np.float64))
        if scales.ndim != 1 or scales.size == 0 or not np.all(scales > 0.0):
            raise ValueError(f"timescales must be positive numbers, one for each factor, got {timescales!r}.")
        return np.exp(-1.0 / scales)
    a = np.atleast_1d(np.asarray((0.99, 0.9, 0.5) if decay is None else decay, dtype=np.float64))
    if a.ndim != 1 or a.size == 0 or not np.all(np.abs(a) < 1.0):
        raise ValueError(f"decay must lie inside (-1, 1), one value for each factor, got {decay!r}.")
    return a


def _check_lengths(n_steps: int, lengths: Sequence[int] | None) -> tuple[int, ...]:
    rows = (n_steps,) if lengths is None else tuple(lengths)
    if not rows or not all(int(n) == n and n >= 1 for n in rows):
        name, value = ("n_steps", n_steps) if lengths is None else ("lengths", lengths)
        raise ValueError(f"{name} must be positive integers, got {value!r}.")
    return tuple(int(n) for n in rows)


def _check_loadings(
    loadings: ArrayLike | None, n_features: int, n_factors: int, rng: np.random.Generator
) -> FloatArray:
    if loadings is None:
        if n_features < 1:
            raise ValueError(f"n_features must be at least 1, got {n_features!r}.")
        return rng.standard_normal((n_features, n_factors))
    C = np.asarray(loadings, dtype=np.float64)
    if C.ndim != 2 or C.shape[1] != n_factors:
        raise ValueError(
            f"loadings must have shape (D, {n_factors}), one column for each factor; got {C.shape}."
        )
    return C


def _per_column(value: ArrayLike, n_features: int, name: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in {(), (n_features,)}:
        raise ValueError(f"{name} must be one number or {n_features} numbers, got shape {array.shape}.")
    return np.full(n_features, array) if array.ndim == 0 else array
