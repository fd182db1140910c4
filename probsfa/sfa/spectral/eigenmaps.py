"""Laplacian eigenmaps: the smoothest coordinates on a nearest-neighbour graph, also for new points.

With edge weights ``W``, degrees ``D = diag(W 1)`` and ``L = D - W`` the embedding solves (Belkin & Niyogi
2003, doi:10.1162/089976603321780317; Sprekeler 2011, doi:10.1162/neco_a_00214, eqs. 2.1-2.3)::

    random_walk     L y = lambda D y,                 y' D y = 1
    symmetric       D^-1/2 L D^-1/2 z = lambda z,     z' z = 1         (z = D^1/2 y of the random walk)
    unnormalized    L y = lambda y,                   y' y = 1

The constant solution is excluded. SFA is the same problem with edges between adjacent time steps. Generalized
SFA on one-hot inputs with node weights D has ``delta = 2 lambda``.
"""

import warnings
from typing import Any

import numpy as np

from probsfa._frames import lists_in_lists_out
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option
from probsfa.linalg import canonical_signs
from probsfa.sfa.spectral.affinity import Embedding, affinity_graph
from probsfa.sfa.spectral.edges import NewEdges, extend_random_walk, extend_unnormalized
from probsfa.sfa.spectral.laplacian import GraphSpectrum, graph_spectrum

__all__ = ["LaplacianEigenmaps", "embedding_spectrum", "warn_if_disconnected"]

# A graph whose largest weight is outside this range is rescaled, because squares would underflow or overflow.
_WEIGHT_RANGE = (1e-100, 1e100)


@lists_in_lists_out
class LaplacianEigenmaps(Embedding):
    """Embed points so that nearest neighbours stay close.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the embedding.
    affinity : str, TrainingGraph or callable, default="nearest_neighbors"
        Kind of the graph:

        - ``"nearest_neighbors"``: weight 1 between two points that are neighbours of each other, 1/2 if only
          one is a neighbour of the other;
        - ``"rbf"``: ``exp(-gamma |x - x'|^2)`` between all different points;
        - ``"precomputed"``: X is the affinity, a dense or sparse symmetric matrix of nonnegative weights, or
          a training graph;
        - a training graph, one vertex for each row of X;
        - a function ``affinity(X, Y)`` that returns weights between rows, symmetric for ``affinity(X, X)``.

        Self-loops of precomputed graphs and functions count in the degrees.
    n_neighbors : int, optional
        Neighbours of each point *including the point itself*, as in scikit-learn's ``SpectralEmbedding``.
        Default 10, or half the points if there are at most 10.
    gamma : float, {"median", "neighbors", "self_tuning"} or None, default=None
        Decay of the kernel, or a rule that selects it:

        - None: ``1 / n_features``, for columns of unit variance;
        - "median": 1 over twice the median squared distance;
        - "neighbors": 1 over twice the mean squared distance to neighbour number ``3/4 sqrt(n)``;
        - "self_tuning": each squared distance is divided by the product of the distances of both points to
          their seventh neighbours.

        References are in :mod:`probsfa.sfa.spectral.affinity`.
    n_landmarks : deprecated
        Ignored, and removed in version 2.0: the heat kernel has all pairs of points.
    normalization : {"random_walk", "symmetric", "unnormalized"}, default="random_walk"
        Kind of the Laplacian.
    eigen_solver : {"auto", "dense", "elimination", "lanczos"}, default="auto"
        Eigenvalue algorithm. "auto" selects sparse elimination (long thin graphs) or Lanczos iteration (short
        wide ones) by the shape of the graph; "dense" is for small ones.

    Attributes
    ----------
    embedding_ : ndarray (n, K)
        Coordinates of the training points, smoothest first. The sign of each is such that its largest
        absolute correlation with the indicator of a single point is positive.
    eigenvalues_ : ndarray (K,)
        ``lambda``, ascending; the number of zeros is that of connected components minus one.
    n_connected_components_ : int
        Number of connected components of the graph.
    degrees_ : ndarray (n,)
        Sums of the edge weights.
    affinity_matrix_ : sparse array or ndarray (n, n)
        The edge weights.
    gamma_ : float or None
        Decay of the kernel; None without a kernel or with "self_tuning".
    solver_ : str
        The eigenvalue algorithm that was used.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Warns
    -----
    UserWarning
        If the graph is not connected, with the number of components.

    See Also
    --------
    SpectralClustering : Clusters of these coordinates.
    GraphSFA : Minimization of this objective over functions of the samples.

    Examples
    --------
    An arc is unrolled: the first coordinate follows the angle.

    >>> import numpy as np
    >>> angle = np.linspace(0, np.pi, 200)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> embedding = LaplacianEigenmaps(n_components=1, n_neighbors=5).fit_transform(X)
    >>> bool(np.all(np.diff(embedding[:, 0]) < 0) or np.all(np.diff(embedding[:, 0]) > 0))
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        affinity: Any = "nearest_neighbors",
        n_neighbors: int | None = None,
        gamma: float | str | None = None,
        n_landmarks: int | str | None = "deprecated",
        normalization: str = "random_walk",
        eigen_solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.normalization = normalization
        self.eigen_solver = eigen_solver

    def transform(self, X: Any) -> Any:
        """Extend the embedding to new points (Nystroem).

        The coordinates of a new point are computed from its edges to the training points (Bengio et al. 2004,
        NIPS 16). The training graph has no self-loops. The edge of a training point to itself must therefore
        not count; for any point, the edge to the nearest training point is excluded from the degree. For
        training points the result is ``embedding_``, up to rounding.

        With "rbf", coordinates with eigenvalues below 1 are continuous functions of the point. With nearest
        neighbours they are constant around each training point, and jump where the set of neighbours changes.
        If several training points have the same distance, the order of the rows determines which are
        neighbours.

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
            If a point has no edge to the training points. Also if a coordinate cannot be extended: its
            eigenvalue is 1 with a normalized Laplacian, or at least the degree of the point without
            normalization.
        """
        sequences, outputs = self._map_new(X, self._extend)
        return outputs if sequences is None else sequences.restore(outputs)

    def _fit(self, X: Any) -> Sequences | None:
        check_count("n_components", self.n_components)
        check_option("normalization", self.normalization, ("random_walk", "symmetric", "unnormalized"))
        check_option("eigen_solver", self.eigen_solver, ("auto", "dense", "elimination", "lanczos"))
        sequences, W, self._new = affinity_graph(self, X)
        spectrum, self.degrees_ = embedding_spectrum(
            W, self.n_components, self.normalization, method=self.eigen_solver
        )
        warn_if_disconnected(spectrum.n_connected, self.n_components)
        self.affinity_matrix_ = W
        self.gamma_ = getattr(self._new.edges, "gamma", None)
        self.embedding_ = spectrum.vectors
        self.eigenvalues_ = spectrum.eigenvalues
        self.n_connected_components_ = spectrum.n_connected
        self.solver_ = spectrum.method
        return sequences

    def _extend(self, edges: NewEdges) -> FloatArray:
        """Return the coordinates of new points."""
        if self.normalization == "unnormalized":
            return extend_unnormalized(edges, self.embedding_, self.eigenvalues_)
        if self.normalization == "random_walk":
            return extend_random_walk(edges, self.embedding_, self.eigenvalues_)[0]
        root = np.sqrt(self.degrees_)[:, None]
        y, degrees = extend_random_walk(edges, self.embedding_ / root, self.eigenvalues_)
        return y * np.sqrt(degrees)[:, None]


def embedding_spectrum(
    W: Any, n_components: int, normalization: str, *, method: str = "auto"
) -> tuple[GraphSpectrum, FloatArray]:
    """Return the normalized embedding of a graph, with canonical signs, and its degrees.

    Raises
    ------
    ValueError
        If there are too few vertices, or a vertex without edges makes a normalized Laplacian undefined.
    """
    n = W.shape[0]
    if n_components >= n:
        raise ValueError(
            f"n_components={n_components} is more than {n} samples allow: at most {n - 1} in addition to "
            "the constant."
        )
    with np.errstate(over="ignore"):
        degrees = np.asarray(W.sum(axis=1)).ravel()
    if not np.isfinite(degrees).all():
        raise ValueError("The edge weights are too large: their sums overflow. Divide them by the largest.")
    if normalization != "unnormalized" and not degrees.all():
        raise ValueError(
            f"X[{int(np.argmin(degrees))}] has no edge to any point, so the {normalization} Laplacian is "
            "not defined. Remove such points, raise n_neighbors, lower gamma, or use "
            "normalization='unnormalized'."
        )
    mass = np.ones(n, dtype=np.float64) if normalization == "unnormalized" else degrees
    scale = _scale_of_weights(W)
    is_unnormalized = normalization == "unnormalized"
    scaled = W if scale == 1.0 else W / scale
    spectrum = graph_spectrum(scaled, mass if is_unnormalized else mass / scale, n_components, method=method)
    if is_unnormalized:
        spectrum = spectrum._replace(eigenvalues=spectrum.eigenvalues * scale)
    else:
        spectrum = spectrum._replace(vectors=spectrum.vectors / np.sqrt(scale))  # y' D y = 1
    # the sign rule compares covariances with indicators of the points
    mass_fractions = (mass / mass.sum())[:, None]
    signs = canonical_signs(
        spectrum.vectors * mass_fractions, np.sqrt(mass_fractions * (1 - mass_fractions))[:, 0]
    )
    y = spectrum.vectors * signs
    if normalization == "symmetric":
        y = y * np.sqrt(mass)[:, None]
    return spectrum._replace(vectors=y), degrees


def _scale_of_weights(W: Any) -> float:
    """Return a power of two by which weights are divided: 1 unless their products overflow or underflow."""
    largest = float(W.max())
    if largest == 0.0 or _WEIGHT_RANGE[0] <= largest <= _WEIGHT_RANGE[1]:
        return 1.0
    return float(2.0 ** np.floor(np.log2(largest)))


def warn_if_disconnected(n_connected: int, n_components: int) -> None:
    """Warn if the graph has several connected components."""
    if n_connected == 1:
        return
    columns = min(n_connected - 1, n_components)
    warnings.warn(
        f"The graph has {n_connected} connected components, so the first {columns} of {n_components} "
        "coordinates only separate components, and each further one is zero outside one component. Raise "
        "n_neighbors, lower gamma, or embed the components one by one.",
        stacklevel=4,
    )
