"""Spectral clustering: group points by the smoothest functions on their graph.

Ravikumar's notes "Representation Learning" (section 1) with the random-walk matrix ``P = D^-1 W``: take the
eigenvectors ``v_1 .. v_k`` of its largest eigenvalues ``mu_j``, map point i to ``(sqrt(mu_j) v_j(i))_j``, and
cluster these. The factor ``sqrt(mu_j)`` gives less weight to coordinates that are less smooth. The
eigenvalues of the Laplacian are ``lambda_j = 1 - mu_j``, and ``v_1`` is constant.
"""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import breadth_first_order
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_estimator_type
from probsfa.sfa.spectral.affinity import AffinityEstimator, affinity_graph
from probsfa.sfa.spectral.edges import NewEdges, extend_random_walk
from probsfa.sfa.spectral.eigenmaps import embedding_spectrum
from probsfa.sfa.spectral.laplacian import is_sparse

__all__ = ["SpectralClustering", "eigengap"]

_N_KMEANS_STARTS = 10
_MAX_CLUSTERS_BY_GAP = 20  # maximum number of clusters for "eigengap"
_MIN_EIGENVALUE = 1e-8  # of mu; rounding errors determine eigenvectors of smaller eigenvalues


def eigengap(eigenvalues: ArrayLike) -> int:
    """Return the number of clusters by the largest gap between consecutive eigenvalues.

    If points form k weakly connected groups, the first k eigenvalues are close to the eigenvalue of the
    constant eigenvector (0 or 1), and a gap separates them from the next eigenvalue.

    Parameters
    ----------
    eigenvalues : array-like (m,)
        At least two eigenvalues, the first for the constant eigenvector: ``lambda`` of a Laplacian in
        ascending order, or ``mu`` of a random walk in descending order.

    Returns
    -------
    int
        Number of eigenvalues before the largest gap, or before the first of equal gaps.

    Raises
    ------
    ValueError
        If there are fewer than two eigenvalues, or they are not finite or not sorted.

    See Also
    --------
    SpectralClustering : Clustering with ``n_clusters="eigengap"``.
    probsfa.plots.plot_eigengap : Figure of eigenvalues and gap.

    Notes
    -----
    The eigengap heuristic (von Luxburg 2007, doi:10.1007/s11222-007-9033-z, section 8.3).

    Examples
    --------
    >>> eigengap([0.0, 0.01, 0.02, 0.4, 0.5])
    3
    """
    values = as_float_array(eigenvalues, "eigenvalues")
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(
            "eigenvalues must be at least two finite numbers, the first for the constant eigenvector; got "
            f"shape {values.shape}."
        )
    steps = np.diff(values)
    if not ((steps >= 0).all() or (steps <= 0).all()):
        raise ValueError("eigenvalues must be sorted, with that of the constant eigenvector first.")
    return int(np.argmax(np.abs(steps))) + 1


class SpectralClustering(AffinityEstimator, ClusterMixin, BaseEstimator):
    """Cluster points by the connections between them.

    Parameters
    ----------
    n_clusters : int or "eigengap", default=8
        Number of clusters. "eigengap" selects the number of eigenvalues before the largest gap, at most 20
        (see :func:`eigengap`). If the graph has more than 20 connected components, each is a cluster.
    n_components : int, optional
        Number of eigenvectors, the constant one included; default `n_clusters`.
    affinity : {"nearest_neighbors", "rbf", "precomputed", ...}, default="nearest_neighbors"
        Kind of the graph, as in :class:`LaplacianEigenmaps`. The heat kernel of "rbf" includes its diagonal,
        ``W_ii = 1``, so that no eigenvalue is negative.
    n_neighbors : int, optional
        Neighbours of each point, including itself; default 10, or half the points if there are at most 10.
    gamma : float, {"median", "neighbors", "self_tuning"} or None, default=None
        Decay of the kernel, or a rule for it, as in :class:`LaplacianEigenmaps`; None is ``1 / n_features``.
    n_landmarks : deprecated
        Ignored, and removed in version 2.0.
    clusterer : estimator, optional
        Any scikit-learn clusterer. The clusterer is cloned, and `n_clusters` and `random_state` are set if it
        has these parameters. Default ``KMeans`` with 10 starts.
    random_state : int, RandomState or None, default=None
        Random numbers of the clusterer; the spectrum does not depend on them.

    Attributes
    ----------
    labels_ : ndarray (n,)
        Cluster of every point.
    embedding_ : ndarray (n, n_components)
        The clustered coordinates: ``sqrt(mu_j) v_j(i)`` with ``v' D v = 1``.
    eigenvalues_ : ndarray (n_components,)
        ``mu``, descending from 1.
    spectrum_ : ndarray (m,)
        All computed eigenvalues ``mu``: `eigenvalues_`, or with "eigengap" 21 eigenvalues (fewer if there are
        fewer points).
    n_clusters_ : int
        Number of clusters.
    affinity_matrix_ : sparse array or ndarray (n, n)
        The edge weights.
    gamma_ : float or None
        Decay of the kernel; None without a kernel or with "self_tuning".
    n_connected_components_ : int
        Number of connected components of the graph.
    clusterer_ : estimator
        The fitted clusterer.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Warns
    -----
    UserWarning
        If the graph has more connected components than clusters. Also if it has fewer positive eigenvalues
        than clusters, so that the coordinates cannot separate all clusters.

    See Also
    --------
    LaplacianEigenmaps : Coordinates of the points.
    eigengap : Number of clusters from the eigenvalues.

    Notes
    -----
    A point without edges is a connected component, and therefore a cluster. A bipartite graph, in which edges
    only join points of different sides, has the eigenvalue -1, whose eigenvector separates the sides. This
    eigenvector is used if only the first eigenvalue is positive, as in a complete bipartite graph.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from sklearn.metrics import adjusted_rand_score
    >>> X, y = make_circles(400, factor=0.4, noise=0.03, random_state=0)
    >>> float(adjusted_rand_score(y, SpectralClustering(2, random_state=0).fit_predict(X)))
    1.0
    """

    _last_attribute = "labels_"

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_components: int | None = None,
        affinity: Any = "nearest_neighbors",
        n_neighbors: int | None = None,
        gamma: float | str | None = None,
        n_landmarks: int | str | None = "deprecated",
        clusterer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.clusterer = clusterer
        self.random_state = random_state

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Cluster the points and return their clusters.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            As in :meth:`fit`.
        y : ignored

        Returns
        -------
        ndarray (n,), or list of ndarrays (n_i,)
            ``labels_``; a list if `X` is a list of sequences.
        """
        sequences = self._fit(X)
        return self.labels_ if sequences is None else sequences.restore(self.labels_)

    def predict(self, X: Any) -> Any:
        """Return the clusters of new points.

        The coordinates of new points are computed as in :meth:`LaplacianEigenmaps.transform` and passed to
        ``predict`` of the clusterer. If the clusterer has no such method, the cluster of the nearest training
        point is returned.

        Parameters
        ----------
        X : array-like (N, D), list of array-likes (N_i, D), or affinity (N, n)
            New points, or their affinities to the training points if ``affinity="precomputed"``.

        Returns
        -------
        ndarray (N,), or list of ndarrays (N_i,)
            A label for each point; for the training points, ``labels_``.

        Raises
        ------
        ValueError
            If a point has no edge to the training points.
        """
        sequences, features = self._map_new(X, self._features)
        if hasattr(self.clusterer_, "predict"):
            labels = np.asarray(self.clusterer_.predict(features))
        else:
            nearest = NearestNeighbors(n_neighbors=1).fit(self.embedding_)
            labels = self.labels_[nearest.kneighbors(features, return_distance=False)[:, 0]]
        return labels if sequences is None else sequences.restore(labels)

    def _features(self, edges: NewEdges) -> FloatArray:
        """Return the coordinates of new points."""
        scales = _scales(self.eigenvalues_)
        used = scales > 0
        vectors, decays = self.embedding_[:, used] / scales[used], 1.0 - self.eigenvalues_[used]
        features = np.zeros((len(edges.scale), len(scales)), dtype=np.float64)
        features[:, used] = extend_random_walk(edges, vectors, decays)[0] * scales[used]
        return features

    def _fit(self, X: Any) -> Sequences | None:
        uses_eigengap = isinstance(self.n_clusters, str) and self.n_clusters == "eigengap"
        if isinstance(self.n_clusters, str) and not uses_eigengap:
            raise ValueError(f"n_clusters must be an integer or 'eigengap'; got {self.n_clusters!r}.")
        n_clusters = _MAX_CLUSTERS_BY_GAP + 1 if uses_eigengap else check_count("n_clusters", self.n_clusters)
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        if self.clusterer is not None:
            check_estimator_type("clusterer", self.clusterer, "fit_predict")
        sequences, W, self._new = affinity_graph(self, X, heat_loops=True)
        n = W.shape[0]
        if not uses_eigengap and n_clusters > n:
            raise ValueError(f"n_clusters={n_clusters} is more than the {n} samples of X.")
        count = n_clusters if self.n_components is None else self.n_components
        n_vectors = min(max(count, n_clusters), n) if uses_eigengap else count
        features, mu, self.n_connected_components_ = scaled_eigenvectors(W, n_vectors)
        if uses_eigengap and self.n_connected_components_ >= n_vectors:  # all computed eigenvalues are equal
            n_clusters = self.n_connected_components_
            features, mu, _ = scaled_eigenvectors(W, max(n_clusters, self.n_components or 0))
        elif uses_eigengap:
            n_clusters = eigengap(mu)
        self.n_clusters_ = n_clusters
        if self.n_components is None:
            count = self.n_clusters_
        self.spectrum_ = mu
        self.embedding_, self.eigenvalues_ = features[:, :count], mu[:count]
        self._warn_of_components()
        self.clusterer_ = _prepare(self.clusterer, self.n_clusters_, self.random_state)
        self.labels_ = np.asarray(self.clusterer_.fit_predict(self.embedding_))
        self.affinity_matrix_ = W
        self.gamma_ = getattr(self._new.edges, "gamma", None)
        return sequences

    def _warn_of_components(self) -> None:
        """Warn if the graph does not have the requested number of groups."""
        if self.n_connected_components_ > self.n_clusters_:
            warnings.warn(
                f"The graph has {self.n_connected_components_} connected components, more than "
                f"n_clusters={self.n_clusters_}: some clusters will contain several components. Raise "
                "n_neighbors or n_clusters, or lower gamma.",
                stacklevel=4,
            )
        n_used = int(np.sum(_scales(self.eigenvalues_) > 0))
        if n_used < min(self.n_clusters_, len(self.eigenvalues_)):
            warnings.warn(
                f"The graph has only {n_used} positive eigenvalues among its first {len(self.eigenvalues_)}, "
                "which means fewer groups of strongly connected points than "
                f"n_clusters={self.n_clusters_}. Lower n_neighbors or n_clusters, or raise gamma.",
                stacklevel=4,
            )


def scaled_eigenvectors(W: Any, count: int) -> tuple[FloatArray, FloatArray, int]:
    """Return ``sqrt(mu_j) v_j(i)``, the ``mu_j``, and the number of connected components.

    Parameters
    ----------
    W : sparse array or ndarray (n, n)
        Symmetric edge weights.
    count : int
        Number of eigenvectors, including the constant. A negative ``mu`` is treated as zero, except for the
        eigenvalue -1 of a bipartite graph, whose factor is 1.
    """
    W = _with_self_loops_of_isolated(W)
    n = W.shape[0]
    spectrum, degrees = embedding_spectrum(W, min(max(count - 1, 1), n - 1), "random_walk")
    constant = np.full((n, 1), degrees.sum() ** -0.5)
    mu = np.append(1.0, 1.0 - spectrum.eigenvalues)[:count]
    vectors = np.hstack([constant, spectrum.vectors])[:, :count]
    if len(mu) > 1 and mu[1] <= _MIN_EIGENVALUE:
        sides = _bipartition_signs(W)
        if sides is not None:
            # The eigenvector of a zero eigenvalue is arbitrary; that of -1 separates the two sides.
            mu[1], vectors[:, 1] = -1.0, constant[:, 0] * sides
    return vectors * _scales(mu), mu, spectrum.n_connected


def _scales(mu: FloatArray) -> FloatArray:
    """Return square roots of positive eigenvalues, 1 for the eigenvalue -1, and 0 for other eigenvalues."""
    roots: FloatArray = np.where(mu > _MIN_EIGENVALUE, np.sqrt(np.maximum(mu, 0.0)), 0.0)
    return np.where(mu == -1.0, 1.0, roots)


def _with_self_loops_of_isolated(W: Any) -> Any:
    """Add a self-loop of the mean degree to every vertex without an edge.

    A random walk then stays at the vertex, which adds an eigenvalue 1, as any connected component does.
    """
    degrees = np.asarray(W.sum(axis=1)).ravel()
    isolated = degrees == 0.0
    if not isolated.any():
        return W
    loops = np.where(isolated, degrees[~isolated].mean() if not isolated.all() else 1.0, 0.0)
    return sp.csr_array(W + sp.diags_array(loops)) if is_sparse(W) else W + np.diag(loops)


def _bipartition_signs(W: Any) -> FloatArray | None:
    """Return 1 and -1 for the sides of a connected bipartite graph, None for other graphs."""
    edges = sp.csr_array(W)
    edges.eliminate_zeros()
    order, parents = breadth_first_order(edges, 0)
    if len(order) < edges.shape[0]:
        return None
    sides = np.ones(edges.shape[0], dtype=np.float64)
    for vertex in order[1:]:
        sides[vertex] = -sides[parents[vertex]]
    ends = edges.tocoo().coords
    return sides if (sides[ends[0]] != sides[ends[1]]).all() else None


def _prepare(clusterer: Any, n_clusters: int, random_state: Any) -> Any:
    """Return an unfitted clusterer with the parameters that it shares with spectral clustering."""
    if clusterer is None:
        return KMeans(n_clusters, n_init=_N_KMEANS_STARTS, random_state=random_state)
    prepared = clone(clusterer)
    accepted = prepared.get_params()
    parameters = {"n_clusters": n_clusters, "n_components": n_clusters, "random_state": random_state}
    if "n_clusters" in accepted:
        del parameters["n_components"]  # this is the number of clusters in mixture models only
    if random_state is None:
        del parameters["random_state"]
    return prepared.set_params(**{name: value for name, value in parameters.items() if name in accepted})
