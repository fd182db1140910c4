"""Diffusion maps: coordinates in which Euclidean distances are diffusion distances on the data.

Coifman & Lafon 2006 (doi:10.1016/j.acha.2006.04.006), sections 2 and 3.1. A kernel ``W`` (n, n) between the
points has the sums ``q_i = sum_j W_ij``, an estimate of their density. With

    W^(alpha)_ij = W_ij / (q_i^alpha q_j^alpha),    d_i = sum_j W^(alpha)_ij,    P_ij = W^(alpha)_ij / d_i

the random walk ``P`` has eigenvalues ``1 = mu_0 > mu_1 >= ...`` and right eigenvectors ``psi_k``, of unit
variance under its stationary distribution ``d / sum(d)``. The diffusion map of time t is ``x_i -> (mu_k^t
psi_k(i))_k``. The distance of two points in this map is their diffusion distance: the distance between the
distributions after t steps of the walk from either point, in the norm weighted by the inverse stationary
distribution.

For many points and narrow kernels, ``1 - P`` converges to a differential operator on the manifold of the
points. With ``alpha=1`` this is the Laplace-Beltrami operator, for any density of the points. With
``alpha=0``, as in Laplacian eigenmaps, the operator also depends on the density. With ``alpha=1/2`` it is the
operator of diffusion in a potential ``U = -log(density)``.

With ``alpha="uniform"``, factors ``f`` replace ``q^-alpha``. They approximately solve ``sum_j W_ij f_j = 1``
by iterations ``f <- f / (W f)`` from ``f = 1``; the first iteration gives ``alpha=1``. Each iteration makes
``W f`` more uniform, first on large scales.
"""

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option
from probsfa.sfa.spectral.affinity import Embedding, affinity_graph
from probsfa.sfa.spectral.edges import NewEdges
from probsfa.sfa.spectral.eigenmaps import embedding_spectrum, warn_if_disconnected
from probsfa.sfa.spectral.laplacian import is_sparse

__all__ = ["DiffusionMap"]

_N_UNIFORM_STEPS = 10
_MIN_EIGENVALUE = 1e-8  # of mu; coordinates are not divided by smaller eigenvalues


@lists_in_lists_out
class DiffusionMap(Embedding):
    """Embed points by a random walk on them, with a correction for their density.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the embedding.
    alpha : float or "uniform", default="uniform"
        Correction for the density of the points. A number is the exponent of Coifman & Lafon: 0 for no
        correction, as in :class:`LaplacianEigenmaps`; 1 for a complete correction if the density varies
        little within the width of the kernel. "uniform" is more accurate: ten iterations make the weighted
        sum of kernels nearly equal for all points.
    time : float, default=1.0
        Number of steps of the walk, ``t``, at least 0: each coordinate is scaled by ``mu^t``. With 0 all have
        unit variance.
    affinity : str, TrainingGraph or callable, default="rbf"
        Kind of the graph, as in :class:`LaplacianEigenmaps`. Graphs computed from points include self-loops,
        of weight 1, so that a walk may stay at a point.
    n_neighbors : int, optional
        Neighbours of each point, including itself; default 10, or half the points if there are at most 10.
    gamma : float, {"median", "neighbors", "self_tuning"} or None, default="neighbors"
        Decay of the kernel, or a rule that chooses it, as in :class:`LaplacianEigenmaps`.
    n_landmarks : deprecated
        Ignored, and removed in version 2.0.
    eigen_solver : {"auto", "dense", "elimination", "lanczos"}, default="auto"
        Eigenvalue algorithm, as in :class:`LaplacianEigenmaps`.

    Attributes
    ----------
    embedding_ : ndarray (n, K)
        ``mu_k^t psi_k``, slowest first, without the constant; signs as in :class:`LaplacianEigenmaps`.
    eigenvalues_ : ndarray (K,)
        ``mu``, descending.
    laplacian_eigenvalues_ : ndarray (K,)
        ``-4 gamma log(mu)``, ascending: with `alpha` "uniform" or 1 an estimate of the eigenvalues of the
        Laplace-Beltrami operator: (1, 1, 4, 4, ...) on a unit circle, (2, 2, 2, 6, ...) on a unit sphere.
        Only with ``affinity="rbf"`` and one `gamma` for all points.
    stationary_distribution_ : ndarray (n,)
        Stationary probabilities of the points.
    n_connected_components_ : int
        Number of connected components of the graph.
    affinity_matrix_ : sparse array or ndarray (n, n)
        ``W``.
    gamma_ : float or None
        Decay of the kernel; None without a kernel or with "self_tuning".
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Warns
    -----
    UserWarning
        If the graph is not connected.

    See Also
    --------
    LaplacianEigenmaps : Embedding without correction for the density.
    probsfa.plots.plot_embedding : Figure of the embedding.

    Notes
    -----
    Coifman & Lafon 2006, Applied and Computational Harmonic Analysis 21:5, doi:10.1016/j.acha.2006.04.006.

    Examples
    --------
    Points on a circle, five times as dense on one side as on the other. The first two coordinates are
    nevertheless proportional to cosine and sine of the angle.

    >>> import numpy as np
    >>> u = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    >>> angle = u + 0.65 * np.sin(u)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> DiffusionMap(4, gamma=20.0).fit(circle).laplacian_eigenvalues_.round(2)
    array([1.01, 1.01, 4.05, 4.05])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        alpha: float | str = "uniform",
        time: float = 1.0,
        affinity: Any = "rbf",
        n_neighbors: int | None = None,
        gamma: float | str | None = "neighbors",
        n_landmarks: int | str | None = "deprecated",
        eigen_solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.time = time
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.eigen_solver = eigen_solver

    def transform(self, X: Any) -> Any:
        """Extend the embedding to new points (Nystroem).

        The kernel of the fit connects a new point to the training points, including a training point that
        equals it. Coordinates are ``mu^(t - 1)`` times the mean of ``psi`` after one step of the walk from
        the new point. For training points these are the coordinates of the embedding.

        Parameters
        ----------
        X : array-like (N, D), list of array-likes (N_i, D), or affinity (N, n)
            New points, or their affinities to the training points if ``affinity="precomputed"``.

        Returns
        -------
        ndarray (N, K), or list of ndarrays (N_i, K)
            Coordinates.

        Raises
        ------
        ValueError
            If a point has no edge to the training points, or `time` is below 1 and an eigenvalue is zero.
        """
        check_is_fitted(self)
        factors = self._extension_factors()
        sequences, outputs = self._map_new(X, lambda edges: self._step(edges) * factors)
        return outputs if sequences is None else sequences.restore(outputs)

    def _fit(self, X: Any) -> Sequences | None:
        check_count("n_components", self.n_components)
        check_option("eigen_solver", self.eigen_solver, ("auto", "dense", "elimination", "lanczos"))
        uniform = isinstance(self.alpha, str)
        if uniform and self.alpha != "uniform":
            raise ValueError(f"alpha must be a number, from 0 to 1, or 'uniform'; got {self.alpha!r}.")
        if not uniform:
            _check_number("alpha", self.alpha, 1.0)
        _check_number("time", self.time, np.inf)
        sequences, W, self._new = affinity_graph(self, X, loops=True)
        density = np.asarray(W.sum(axis=1)).ravel()
        if not (density > 0).all():
            raise ValueError(f"X[{int(np.argmin(density))}] has no edge to any point. Remove such points.")
        # Division by the mean keeps powers of the density near 1.
        relative = density / density.mean()
        self._density_factors = _uniform(W, relative) if uniform else relative ** -float(self.alpha)
        spectrum, degrees = embedding_spectrum(
            _scaled(W, self._density_factors), self.n_components, "random_walk", method=self.eigen_solver
        )
        warn_if_disconnected(spectrum.n_connected, self.n_components)
        self.affinity_matrix_ = W
        self.gamma_ = getattr(self._new.edges, "gamma", None)
        self.n_connected_components_ = spectrum.n_connected
        self.stationary_distribution_ = degrees / degrees.sum()
        self.eigenvalues_ = 1.0 - spectrum.eigenvalues
        self._psi = spectrum.vectors * np.sqrt(degrees.sum())
        self.embedding_ = self._psi * _powers(self.eigenvalues_, float(self.time))
        self.__dict__.pop("laplacian_eigenvalues_", None)
        if self.gamma_ is not None:
            with np.errstate(divide="ignore"):
                rates = -np.log(np.maximum(self.eigenvalues_, 0.0))
            self.laplacian_eigenvalues_ = np.maximum(4.0 * self.gamma_ * rates, 0.0)
        return sequences

    def _extension_factors(self) -> FloatArray:
        """Return the factors (K,) that multiply the mean of ``psi`` after one step: ``mu^(t - 1)``."""
        time = float(self.time)
        if time < 1.0 and (np.abs(self.eigenvalues_) < _MIN_EIGENVALUE).any():
            k = int(np.argmin(np.abs(self.eigenvalues_)))
            raise ValueError(
                f"Component {k} has the eigenvalue 0 and cannot be extended to new points with "
                f"time={time:g}. Use fewer components, or a time of at least 1."
            )
        if time >= 1.0:
            return _powers(self.eigenvalues_, time - 1.0)
        return _powers(self.eigenvalues_, time) / self.eigenvalues_

    def _step(self, edges: NewEdges) -> FloatArray:
        """Return the mean of ``psi`` after one step of the walk from new points."""
        total = np.asarray(edges.weights @ self._density_factors).ravel()
        if not (total > 0).all():
            raise ValueError(f"X[{int(np.argmin(total))}] has no affinity to any training point.")
        return np.asarray(edges.weights @ (self._density_factors[:, None] * self._psi)) / total[:, None]


def _uniform(W: Any, density: FloatArray) -> FloatArray:
    """Return factors of the points that make all weighted sums of kernels about equal."""
    factors = 1.0 / density
    for _ in range(_N_UNIFORM_STEPS - 1):
        factors = factors / np.asarray(W @ factors).ravel()
        factors = factors / factors.mean()
    return factors


def _powers(mu: FloatArray, time: float) -> FloatArray:
    """Return ``mu^t``; for fractional t and ``mu < 0``, ``-|mu|^t``."""
    if time == int(time):
        return mu ** int(time)
    powers: FloatArray = np.sign(mu) * np.abs(mu) ** time
    return powers


def _scaled(W: Any, factors: FloatArray) -> Any:
    """Return edge weights times the factors of both ends."""
    if is_sparse(W):
        scale = sp.diags_array(factors)
        product = sp.csr_array(scale @ W @ scale)
        return sp.csr_array((product + product.T) * 0.5)
    return W * np.outer(factors, factors)


def _check_number(name: str, value: Any, maximum: float) -> None:
    """Raise a ValueError unless a parameter is a number from 0 to `maximum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= maximum:
        limit = "at least 0" if maximum == np.inf else f"from 0 to {maximum:g}"
        raise ValueError(f"{name} must be a number, {limit}; got {value!r}.")
    if float(value) == np.inf:
        raise ValueError(f"{name} must be finite; got {value!r}.")
