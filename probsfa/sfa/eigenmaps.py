"""Laplacian eigenmaps: the smoothest coordinates on a graph of neighbours, for old points and new ones.

With edge weights ``W``, degrees ``D = diag(W 1)`` and ``L = D - W`` the embedding solves (Belkin & Niyogi
2003, doi:10.1162/089976603321780317; Sprekeler 2011, doi:10.1162/neco_a_00214, eqs. 2.1-2.3)::

    random_walk     L y = lambda D y,                 y' D y = 1
    symmetric       D^-1/2 L D^-1/2 z = lambda z,     z' z = 1         (z = D^1/2 y of the random walk)
    unnormalized    L y = lambda y,                   y' y = 1

The constant solution is left out. Slow feature analysis is the same problem with neighbours in time, and
generalised SFA on one-hot features with node weights D has ``delta = 2 lambda``.
"""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._saving import Saved
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.graphs._nearest_neighbors import neighbor_edges
from probsfa.linalg import canonical_signs
from probsfa.sfa.affinity import (
    affinity_graph,
    affinity_rows,
    affinity_tags,
    heat_weights,
    neighbor_count,
    same_rows,
)
from probsfa.sfa.laplacian import GraphSpectrum, graph_spectrum

__all__ = ["LaplacianEigenmaps", "spectrum_of_graph"]


_EXTENSION_BLOCK = 2**22  # weights between new and old points held at a time


@lists_in_lists_out
class LaplacianEigenmaps(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Embed points so that neighbours stay close.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the embedding.
    affinity : {"nearest_neighbors", "rbf", "precomputed"}, default="nearest_neighbors"
        How the graph is made: from nearest neighbours; from ``exp(-gamma |x - x'|^2)`` between all points (n
        by n in memory); or X itself is the affinity, a dense or sparse symmetric matrix without an entry
        below zero, such as ``graph.to_sparse()`` of a training graph. Only a precomputed affinity has
        self-loops; they count in the degrees.
    n_neighbors : int, optional
        Neighbours of each point *with the point itself as one of them*, the count of scikit-learn's
        ``SpectralEmbedding``. Default 10, or all points where there are fewer.
    gamma : float, optional
        Decay of the kernel; default ``1 / n_features``.
    normalization : {"random_walk", "symmetric", "unnormalized"}, default="random_walk"
        Which Laplacian.
    eigen_solver : {"auto", "dense", "elimination", "lanczos"}, default="auto"
        How the eigenvalues are found. "auto" weighs sparse elimination (long thin graphs) against Lanczos
        iteration (short wide ones) by the shape of the graph; "dense" is for small ones.

    Attributes
    ----------
    embedding_ : ndarray (n, K)
        Coordinates of the training points, smoothest first. For each the sign makes the largest of its
        correlations with the single points positive (the first such point where several tie).
    eigenvalues_ : ndarray (K,)
        ``lambda``, ascending; zero as often as there are connected components, less one.
    n_connected_components_ : int
        Number of connected components of the graph.
    degrees_ : ndarray (n,)
        Sums of the edge weights.
    affinity_matrix_ : sparse array or ndarray (n, n)
        The edge weights.
    solver_ : str
        The eigen-solver that was used.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Warns
    -----
    UserWarning
        If the graph is not connected; it says how many components there are.

    See Also
    --------
    SpectralClustering : Clusters of the same coordinates.
    GraphSFA : The same objective for functions of the samples, which extend to new ones by themselves.

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
        affinity: str = "nearest_neighbors",
        n_neighbors: int | None = None,
        gamma: float | None = None,
        normalization: str = "random_walk",
        eigen_solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.normalization = normalization
        self.eigen_solver = eigen_solver

    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the training points.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            Points; the members of a list are taken together. A dense or sparse affinity if
            ``affinity="precomputed"``.
        y : ignored

        Returns
        -------
        LaplacianEigenmaps
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, an affinity is not symmetric or negative, a point has no edge
            where the Laplacian is normalised, or there are no more points than components.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Embed the training points and return their coordinates, in the shape of the input.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            As in :meth:`fit`.
        y : ignored

        Returns
        -------
        ndarray (n, K), or list of ndarrays (n_i, K)
            ``embedding_``.
        """
        sequences = self._fit(X)
        return self.embedding_ if sequences is None else sequences.restore(self.embedding_)

    def transform(self, X: Any) -> Any:
        """Extend the embedding to new points (Nystroem).

        A new point gets the mean of its neighbours' coordinates over ``1 - lambda``, which holds exactly for
        the training points and their own edges (Bengio et al. 2004, NIPS 16). A row that equals a training
        point gets that point's coordinates.

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
            If a point has no edge to the training points, or a coordinate cannot be extended because its
            eigenvalue is 1 (normalised) or at least the point's degree (unnormalised).
        """
        check_is_fitted(self)
        if self.affinity == "precomputed":
            W = affinity_rows(self, X, reset=False)
            return self._extend(W, np.ones(W.shape[0], dtype=np.float64))
        sequences = check_sequences(self, X, reset=False, allow_nan=False)
        known = same_rows(sequences.values, self._points)
        outputs = self.embedding_[known]
        new = np.flatnonzero(known < 0)
        per_row = neighbor_count(self, len(self._points)) if self._by_neighbors else len(self._points)
        size = max(1, _EXTENSION_BLOCK // per_row)
        for start in range(0, len(new), size):
            block = new[start : start + size]
            outputs[block] = self._extend(*self._weights(sequences.values[block]))
        return sequences.restore(outputs)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is an embedding."""
        return hasattr(self, "embedding_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        return affinity_tags(super().__sklearn_tags__(), self.affinity)

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def _fit(self, X: Any) -> Sequences | None:
        check_count("n_components", self.n_components)
        check_option("normalization", self.normalization, ("random_walk", "symmetric", "unnormalized"))
        check_option("eigen_solver", self.eigen_solver, ("auto", "dense", "elimination", "lanczos"))
        sequences, W = affinity_graph(self, X)
        spectrum, self.degrees_ = spectrum_of_graph(
            W, self.n_components, self.normalization, method=self.eigen_solver
        )
        _warn_if_disconnected(spectrum.n_connected, self.n_components)
        self._points: Any = None if sequences is None else sequences.values
        self.affinity_matrix_ = W
        self.embedding_ = spectrum.vectors
        self.eigenvalues_ = spectrum.eigenvalues
        self.n_connected_components_ = spectrum.n_connected
        self.solver_ = spectrum.method
        return sequences

    @property
    def _by_neighbors(self) -> bool:
        return self.affinity == "nearest_neighbors"

    def _weights(self, rows: FloatArray) -> tuple[Any, FloatArray]:
        """Return weights to the training points, and the scale of every row of them."""
        if self._by_neighbors:
            count = neighbor_count(self, len(self._points))
            return neighbor_edges(self._points, count, rows), np.ones(len(rows), dtype=np.float64)
        gamma = 1.0 / rows.shape[1] if self.gamma is None else self.gamma
        return heat_weights(rows, self._points, gamma)

    def _extend(self, W: Any, scale: FloatArray) -> FloatArray:
        degrees = np.asarray(W.sum(axis=1)).ravel()
        if not degrees.all():
            raise ValueError(f"X[{int(np.argmin(degrees))}] has no affinity to any training point.")
        if self.normalization == "unnormalized":
            room = (degrees * scale)[:, None] - self.eigenvalues_
            if (room <= 0).any():
                i, k = np.argwhere(room <= 0)[0]
                raise ValueError(
                    f"X[{i}] has the degree {degrees[i] * scale[i]:g}, not more than eigenvalue {k}, "
                    f"{self.eigenvalues_[k]:g}, so the unnormalised embedding cannot be extended to it. Use "
                    "normalization='random_walk'."
                )
            return np.asarray(W @ self.embedding_) * scale[:, None] / room
        decay = 1.0 - self.eigenvalues_
        if (np.abs(decay) < 1e-8).any():
            raise ValueError(
                f"Component {int(np.argmin(np.abs(decay)))} has the eigenvalue 1 and cannot be extended to "
                "new points. Ask for fewer components."
            )
        root = np.sqrt(self.degrees_)[:, None] if self.normalization == "symmetric" else 1.0
        mean = np.asarray(W @ (self.embedding_ / root)) / degrees[:, None] / decay
        return mean * np.sqrt(degrees * scale)[:, None] if self.normalization == "symmetric" else mean


def spectrum_of_graph(
    W: Any, n_components: int, normalization: str, *, method: str = "auto"
) -> tuple[GraphSpectrum, FloatArray]:
    """Return the normalised embedding of a graph, with canonical signs, and its degrees.

    Raises
    ------
    ValueError
        If there are too few vertices, or one without edges where the Laplacian is normalised.
    """
    n = W.shape[0]
    if n_components >= n:
        raise ValueError(
            f"n_components={n_components} is more than {n} samples allow: at most {n - 1} beside the "
            "constant."
        )
    degrees = np.asarray(W.sum(axis=1)).ravel()
    if normalization != "unnormalized" and not degrees.all():
        raise ValueError(
            f"X[{int(np.argmin(degrees))}] has no edge to any point, so the {normalization} Laplacian is not "
            "defined. Leave such points out, raise n_neighbors, lower gamma, or use "
            "normalization='unnormalized'."
        )
    mass = np.ones(n, dtype=np.float64) if normalization == "unnormalized" else degrees
    spectrum = graph_spectrum(W, mass, n_components, method=method)
    # the inputs an eigenmap is a function of are the indicators of the single points
    share = (mass / mass.sum())[:, None]
    signs = canonical_signs(spectrum.vectors * share, np.sqrt(share * (1 - share))[:, 0])
    y = spectrum.vectors * signs
    if normalization == "symmetric":
        y = y * np.sqrt(mass)[:, None]
    return spectrum._replace(vectors=y), degrees


def _warn_if_disconnected(n_connected: int, n_components: int) -> None:
    if n_connected == 1:
        return
    columns = min(n_connected - 1, n_components)
    warnings.warn(
        f"The graph has {n_connected} connected components, so the first {columns} of {n_components} "
        "coordinates only tell them apart and the rest each live on one component. Raise n_neighbors, lower "
        "gamma, or embed the components one by one.",
        stacklevel=4,
    )
