"""Spectral clustering: group points by the smoothest functions on their graph.

Ravikumar's notes "Representation Learning" (section 1) with the random-walk matrix ``P = D^-1 W``: take the
eigenvectors ``v_1 .. v_k`` of its largest eigenvalues ``mu_j``, map point i to
``(sqrt(mu_j) v_j(i))_j``, and cluster these. Scaling by ``sqrt(mu_j)`` gives the less to say to a coordinate
the less smooth it is. In terms of the Laplacian ``mu_j = 1 - lambda_j``, and ``v_1`` is constant.
"""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import KMeans

from probsfa._saving import Saved
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count
from probsfa.sfa.affinity import affinity_graph, affinity_tags
from probsfa.sfa.eigenmaps import spectrum_of_graph

__all__ = ["SpectralClustering"]


_KMEANS_STARTS = 10


class SpectralClustering(Saved, ClusterMixin, BaseEstimator):
    """Cluster points by the connections between them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_components : int, optional
        Number of eigenvectors, the constant one included; default `n_clusters`.
    affinity : {"nearest_neighbors", "rbf", "precomputed"}, default="nearest_neighbors"
        How the graph is made, as in :class:`LaplacianEigenmaps`.
    n_neighbors : int, optional
        Neighbours of each point, itself counted as one; default 10, or all points where there are fewer.
    gamma : float, optional
        Decay of the kernel; default ``1 / n_features``.
    clusterer : estimator, optional
        Any scikit-learn clusterer, cloned and given `n_clusters` and `random_state` where it knows them.
        Default ``KMeans`` with 10 starts.
    random_state : int, RandomState or None, default=None
        For the clusterer; the spectrum does not depend on it.

    Attributes
    ----------
    labels_ : ndarray (n,)
        Cluster of every point.
    embedding_ : ndarray (n, n_components)
        What was clustered: ``sqrt(mu_j) v_j(i)`` with ``v' D v = 1``.
    eigenvalues_ : ndarray (n_components,)
        ``mu``, descending from 1. A large drop after the k-th suggests k clusters.
    n_connected_components_ : int
        Connected components of the graph.
    clusterer_ : estimator
        The fitted clusterer.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Warns
    -----
    UserWarning
        If the graph has more connected components than clusters are wanted.

    See Also
    --------
    LaplacianEigenmaps : The coordinates without the clusters.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from sklearn.metrics import adjusted_rand_score
    >>> X, y = make_circles(400, factor=0.4, noise=0.03, random_state=0)
    >>> float(adjusted_rand_score(y, SpectralClustering(2, random_state=0).fit_predict(X)))
    1.0
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int | None = None,
        affinity: str = "nearest_neighbors",
        n_neighbors: int | None = None,
        gamma: float | None = None,
        clusterer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.clusterer = clusterer
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the points.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            Points, those of a list taken together; a dense or sparse symmetric affinity if
            ``affinity="precomputed"``.
        y : ignored

        Returns
        -------
        SpectralClustering
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, an affinity is not symmetric or negative, or a point has no edge.
        """
        self._fit(X)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Cluster the points and return ``labels_``, in the shape of the input: an array, or a list of them.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            As in :meth:`fit`.
        y : ignored
        """
        sequences = self._fit(X)
        return self.labels_ if sequences is None else sequences.restore(self.labels_)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are clusters."""
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        return affinity_tags(super().__sklearn_tags__(), self.affinity)

    def _fit(self, X: Any) -> Sequences | None:
        check_count("n_clusters", self.n_clusters)
        count = self.n_clusters if self.n_components is None else self.n_components
        check_count("n_components", count)
        sequences, W = affinity_graph(self, X)
        if self.n_clusters > W.shape[0]:
            raise ValueError(f"n_clusters={self.n_clusters} is more than the {W.shape[0]} samples of X.")
        features, mu, self.n_connected_components_ = scaled_eigenvectors(W, count)
        if self.n_connected_components_ > self.n_clusters:
            warnings.warn(
                f"The graph has {self.n_connected_components_} connected components, more than "
                f"n_clusters={self.n_clusters}: some clusters will join what nothing connects. Raise "
                "n_neighbors or n_clusters, or lower gamma.",
                stacklevel=3,
            )
        self.clusterer_ = _prepare(self.clusterer, self.n_clusters, self.random_state)
        self.labels_ = np.asarray(self.clusterer_.fit_predict(features))
        self.embedding_, self.eigenvalues_ = features, mu
        return sequences


def scaled_eigenvectors(W: Any, count: int) -> tuple[FloatArray, FloatArray, int]:
    """Return ``sqrt(mu_j) v_j(i)``, the ``mu_j``, and the number of connected components.

    Parameters
    ----------
    W : sparse array or ndarray (n, n)
        Symmetric edge weights.
    count : int
        Number of eigenvectors, the constant one first. A negative ``mu`` has no root and counts as zero.
    """
    n = W.shape[0]
    spectrum, degrees = spectrum_of_graph(W, min(max(count - 1, 1), n - 1), "random_walk")
    constant = np.full((n, 1), degrees.sum() ** -0.5)
    mu = np.append(1.0, 1.0 - spectrum.eigenvalues)[:count]
    vectors = np.hstack([constant, spectrum.vectors])[:, :count]
    return vectors * np.sqrt(np.maximum(mu, 0.0)), mu, spectrum.n_connected


def _prepare(clusterer: Any, n_clusters: int, random_state: Any) -> Any:
    """Return an unfitted clusterer with the parameters it shares with spectral clustering."""
    if clusterer is None:
        return KMeans(n_clusters, n_init=_KMEANS_STARTS, random_state=random_state)
    prepared = clone(clusterer)
    known = prepared.get_params()
    wanted = {"n_clusters": n_clusters, "n_components": n_clusters, "random_state": random_state}
    if "n_clusters" in known:
        del wanted["n_components"]  # mixtures call it so
    if random_state is None:
        del wanted["random_state"]
    return prepared.set_params(**{name: value for name, value in wanted.items() if name in known})
