"""Parameters of the factorial AR(1) model.

The model of Turner & Sahani (2007, eqs. 6-9), with unit stationary variance (their section 4, after eq. 8)::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t
    x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

========= ================= ========= =====================================================
symbol    field             shape     meaning
========= ================= ========= =====================================================
``a``     decay             ``(K,)``  correlation of a latent with itself one step later
``C``     loadings          ``(D, K)`` how each latent shows in each feature
``r``     noise_variance    ``(D,)``  variance of the observation noise of each feature
``mu``    offset            ``(D,)``  mean of each feature
========= ================= ========= =====================================================
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs


class Latents(NamedTuple):
    """How many latents a model has, before there are parameters of them.

    Attributes
    ----------
    n_components : int
        Number of latents, ``K``.
    """

    n_components: int

    @property
    def n_states(self) -> int:
        """Dimension of the state, the columns of the loadings: one for each AR(1) process."""
        return self.n_components

    @property
    def n_dynamics(self) -> int:
        """Number of parameters of the dynamics: a decay for each latent."""
        return self.n_components

    def n_free(self, n_features: int) -> int:
        """Number of free parameters of the latents, with their loadings on so many features.

        Unit variances and different decays leave no change of the latents free but their order and signs.
        """
        return self.n_dynamics + self.n_states * n_features

    def without(self, others: "Latents") -> "Latents":
        """The latents that these are more than others."""
        return Latents(self.n_components - others.n_components)


class Parameters(NamedTuple):
    """Parameters of a factorial AR(1) model with ``K`` latents and ``D`` features.

    Attributes
    ----------
    decay : ndarray of shape (K,)
        Correlation of each latent over one time step, inside (-1, 1).
    loadings : ndarray of shape (D, K)
        Observation matrix, in data units per latent standard deviation.
    noise_variance : ndarray of shape (D,)
        Observation noise variance, in squared data units.
    offset : ndarray of shape (D,)
        Mean of the observations, in data units.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray

    @property
    def latents(self) -> Latents:
        """How many latents there are."""
        return Latents(int(self.decay.shape[0]))

    @property
    def n_components(self) -> int:
        """Number of latents, ``K``."""
        return int(self.decay.shape[0])

    @property
    def n_states(self) -> int:
        """Dimension of the state, the columns of the loadings; one for each latent."""
        return int(self.loadings.shape[1])

    @property
    def free_loadings(self) -> BoolArray:
        """Which loadings (D, K) are free, and not held by the rule of :func:`canonical`: all of them.

        With the dynamics they are as many as :meth:`Latents.n_free` counts.
        """
        return np.ones(self.loadings.shape, dtype=bool)

    @property
    def n_features(self) -> int:
        """Number of observed features, ``D``."""
        return int(self.loadings.shape[0])


def make_parameters(
    decay: ArrayLike,
    loadings: ArrayLike,
    noise_variance: ArrayLike,
    offset: ArrayLike = 0.0,
) -> Parameters:
    """Check parameters and bring them to their full shapes.

    Parameters
    ----------
    decay : array-like of shape (K,)
        Values strictly inside (-1, 1).
    loadings : array-like of shape (D, K)
        Observation matrix.
    noise_variance : float or array-like of shape (D,)
        Strictly positive; a number means the same variance for all features.
    offset : float or array-like of shape (D,), default=0.0
        Mean of the observations.

    Returns
    -------
    params : Parameters

    Raises
    ------
    ValueError
        If a shape does not fit, or a value is not finite or out of its range.

    Examples
    --------
    >>> from probsfa.statespace import make_parameters
    >>> params = make_parameters([0.9, 0.5], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 0.1)
    >>> params.n_features, params.n_components
    (3, 2)
    """
    a = np.atleast_1d(np.asarray(decay, dtype=np.float64))
    c = np.asarray(loadings, dtype=np.float64)
    if a.ndim != 1:
        raise ValueError(f"decay must be one-dimensional, got shape {a.shape}.")
    if c.ndim != 2 or c.shape[1] != a.shape[0]:
        raise ValueError(
            f"loadings must have shape (n_features, {a.shape[0]}) to match decay, got shape {c.shape}."
        )
    n_features = c.shape[0]
    vectors = {}
    for name, value in (("noise_variance", noise_variance), ("offset", offset)):
        vector = np.asarray(value, dtype=np.float64)
        if vector.shape not in ((), (n_features,)):
            raise ValueError(
                f"{name} must be a number or have shape ({n_features},), got shape {vector.shape}."
            )
        vectors[name] = np.array(np.broadcast_to(vector, (n_features,)))
    for name, value in (("decay", a), ("loadings", c), *vectors.items()):
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}.")
    if np.any(np.abs(a) >= 1.0):
        raise ValueError(f"decay must lie strictly inside (-1, 1), got {a[np.abs(a) >= 1.0][0]}.")
    if np.any(vectors["noise_variance"] <= 0.0):
        bad = int(np.flatnonzero(vectors["noise_variance"] <= 0.0)[0])
        raise ValueError(
            f"noise_variance must be positive, got {vectors['noise_variance'][bad]} for feature {bad}; "
            "the noise-free limit is ProbabilisticSFA(noise=0.0)."
        )
    return Parameters(a, c, vectors["noise_variance"], vectors["offset"])


def canonical(params: Parameters, scale: ArrayLike) -> Parameters:
    """Order the latents slowest first and fix their signs.

    Neither changes the likelihood: latents may be permuted and flipped freely. What the unit variance and the
    different decays leave open is fixed by the rule used all over the package.

    Parameters
    ----------
    params : Parameters
        Parameters in any order.
    scale : array-like of shape (D,)
        Standard deviation of each feature, which makes loadings comparable between features.

    Returns
    -------
    params : Parameters
        Equivalent parameters with falling ``decay`` and canonical signs.
    """
    order = np.argsort(-params.decay, kind="stable")
    loadings = params.loadings[:, order]
    signs = canonical_signs(loadings, np.asarray(scale, dtype=np.float64))
    return params._replace(decay=params.decay[order], loadings=loadings * signs)


def rescale(params: Parameters, shift: FloatArray, scale: FloatArray) -> Parameters:
    """Parameters of ``shift + scale * x`` from those of ``x``."""
    return params._replace(
        loadings=params.loadings * scale[:, None],
        noise_variance=params.noise_variance * scale**2,
        offset=shift + scale * params.offset,
    )


def with_more_latents(params: Parameters, new: Parameters) -> Parameters:
    """Parameters with the latents of both; noise and offset are those of the first."""
    return params._replace(
        decay=np.append(params.decay, new.decay),
        loadings=np.column_stack([params.loadings, new.loadings]),
    )
