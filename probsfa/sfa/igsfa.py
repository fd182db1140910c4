"""Information-preserving graph-based slow feature analysis.

Slow features discard fast directions, from which higher layers of a hierarchy could extract further slow
features. The outputs of IGSFA are the slow features with a delta value below a threshold, and principal
components of the residual of the input (Escalante-B. & Wiskott 2020).
"""

from typing import Any, NamedTuple, Self

import numpy as np

from probsfa._frames import lists_in_lists_out
from probsfa._row_transformer import InvertibleTransformer
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_option, check_sequences
from probsfa.graphs._named import build_graph
from probsfa.linalg import RankError, blocks_of, canonical_axes, canonical_signs, default_rank_tol
from probsfa.sfa._shrinkage import check_delta_threshold, check_shrinkage, labels_of_rows
from probsfa.sfa.graph import GraphSFA, GraphTransformer, check_overfitting_in_time

__all__ = ["IGSFA"]

_SCALINGS = ("input", "qr")


@lists_in_lists_out
class IGSFA(GraphTransformer, InvertibleTransformer):
    """Information-preserving graph-based SFA: slow features and principal components of the residual.

    Parameters
    ----------
    n_components : int, optional
        Number of outputs, slow features first; by default all slow features below the threshold and all
        components of the residual.
    graph : TrainingGraph, str or callable
        As in :class:`GraphSFA`.
    expansion : transformer, optional
        As in :class:`GraphSFA`, for the slow features; principal components are those of the input.
    delta_threshold : float, default=1.96
        Slow features with a smaller delta value are part of the output, at most `n_components` (and at most D
        with ``scaling="qr"``). With 0 all outputs are principal components; far above 2 all are slow
        features.
    scaling : {"input", "qr"}, default="input"
        Scaling of the slow features. "input": each has the mean variance of the columns. "qr": they are
        rotated and scaled, so that their total variance equals the total variance of ``M s``, the
        reconstruction of the input (see Notes).
    rank_tol, shrinkage, shrinkage_target
        As in :class:`GraphSFA`.

    Attributes
    ----------
    n_slow_ : int
        Number of slow features among the outputs; they are first.
    gsfa_ : GraphSFA
        Fitted estimator of all slow features; its attribute `graph_` is deleted to save memory.
    delta_values_ : ndarray (n_slow_,)
        Delta values of the slow features, ascending.
    slow_loadings_ : ndarray (D, n_slow_)
        Linear reconstruction of the input from the slow outputs.
    residual_components_ : ndarray (K - n_slow_, D)
        Principal directions of the residual, orthonormal, by decreasing variance; K is the number of outputs.
    residual_variances_ : ndarray (K - n_slow_,)
        Variances in these directions.
    mean_ : ndarray (D,)
        Mean of the training rows, weighted by the node weights of the graph.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : Slow features without other components.
    HierarchicalSFA : Layers of nodes, which may be those of this class with ``Layer(method="igsfa")``.

    Notes
    -----
    With the slow features s, the input x minus its mean is regressed on them: ``x ~ M s``. The outputs after
    the slow ones are principal components of ``x - M s``. For "qr", ``M = Q R`` and the slow outputs are
    ``R s``, so that ``Q`` maps them to the reconstruction ``M s``. All moments are weighted by the node
    weights of the graph.

    References
    ----------
    Escalante-B., A. N. & Wiskott, L. (2020). Improved graph-based SFA: information preservation complements
    the slowness principle. Machine Learning 109, 999-1037. https://doi.org/10.1007/s10994-019-05860-9

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = IGSFA(3, graph="clustered").fit(X, y)
    >>> model.n_slow_, model.transform(X).shape
    (2, (150, 3))
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        graph: Any,
        expansion: Any = None,
        delta_threshold: float = 1.96,
        scaling: str = "input",
        rank_tol: float | None = None,
        shrinkage: float | str | None = None,
        shrinkage_target: str = "diagonal",
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.expansion = expansion
        self.delta_threshold = delta_threshold
        self.scaling = scaling
        self.rank_tol = rank_tol
        self.shrinkage = shrinkage
        self.shrinkage_target = shrinkage_target

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Fit the slow features and the principal components of the residual.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples.
        y : array-like (N,), or list of array-likes (N_i,), optional
            Labels, if the graph is built from them.
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        IGSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            As in :class:`GraphSFA`, or if slow features and components together are fewer than
            `n_components`.

        Warns
        -----
        UserWarning
            As :class:`GraphSFA` does.
        """
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_delta_threshold("delta_threshold", self.delta_threshold)
        check_option("scaling", self.scaling, _SCALINGS)
        check_shrinkage(self.shrinkage, self.shrinkage_target)
        sequences = check_sequences(self, X, reset=True, allow_nan=False, lengths=lengths, min_rows=2)
        labels = labels_of_rows(y, sequences.lengths)
        rows = sequences.values
        graph = build_graph(self.graph, rows, labels, lengths=sequences.lengths)
        self.gsfa_ = GraphSFA(
            graph=graph,
            expansion=self.expansion,
            rank_tol=self.rank_tol,
            shrinkage=self.shrinkage,
            shrinkage_target=self.shrinkage_target,
        ).fit(rows)
        del self.gsfa_.graph_
        self.gsfa_.graph = self.graph if isinstance(self.graph, str) else None
        p = graph.node_weights / graph.Q
        maps = self._linear_maps(rows, np.asarray(self.gsfa_.transform(rows)), p)
        self.mean_ = maps.mean
        self.n_slow_ = maps.scaling.shape[1]
        self.delta_values_ = self.gsfa_.delta_values_[: self.n_slow_]
        self._slow_means = maps.slow_means
        self._scaling = maps.scaling
        self.slow_loadings_ = maps.loadings
        self.residual_components_ = maps.components
        self.residual_variances_ = maps.variances
        if self.n_slow_ and self.gsfa_.shrinkage_ == 0:
            check_overfitting_in_time(
                self.graph,
                sequences,
                self.gsfa_._expander,
                self.delta_values_[:1],
                self.gsfa_.rank_,
                rank_tol=self.rank_tol,
            )
        return self

    def _outputs(self, values: FloatArray) -> FloatArray:
        slow = np.asarray(self.gsfa_.transform(values))[:, : self.n_slow_]
        outputs = (slow - self._slow_means) @ self._scaling
        residuals = values - self.mean_ - outputs @ self.slow_loadings_.T
        return np.hstack([outputs, residuals @ self.residual_components_.T])

    def _inputs(self, outputs: FloatArray) -> FloatArray:
        slow_outputs, other_outputs = outputs[:, : self.n_slow_], outputs[:, self.n_slow_ :]
        return self.mean_ + slow_outputs @ self.slow_loadings_.T + other_outputs @ self.residual_components_

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "residual_components_")

    @property
    def _n_features_out(self) -> int:
        return self.n_slow_ + len(self.residual_components_)

    def _linear_maps(self, rows: FloatArray, slow: FloatArray, p: FloatArray) -> "_LinearMaps":
        """Return the maps of slow features and of the residual; the weights `p` sum to 1."""
        mean = rows[0] + p @ (rows - rows[0])
        X = rows - mean
        n_slow = int(np.sum(self.gsfa_.delta_values_ < self.delta_threshold))
        maximum = X.shape[1] if self.scaling == "qr" else n_slow
        J = min(n_slow, maximum if self.n_components is None else min(maximum, self.n_components))
        slow_means = p @ slow[:, :J]
        S = slow[:, :J] - slow_means
        weighted_slow = S * p[:, None]
        M = np.linalg.lstsq(weighted_slow.T @ S, weighted_slow.T @ X, rcond=None)[0].T  # (D, J)
        total_variance = float(p @ np.sum(X**2, axis=1))
        if self.scaling == "qr":
            scaling = np.linalg.qr(M)[1].T
        else:
            scaling = np.sqrt(total_variance / X.shape[1]) * np.eye(J)
        outputs = S @ scaling
        gram = (outputs * p[:, None]).T @ outputs
        loadings = np.linalg.lstsq(gram, (outputs * p[:, None]).T @ X, rcond=1e-12)[0].T
        residuals = X - outputs @ loadings.T
        values, vectors = np.linalg.eigh((residuals * p[:, None]).T @ residuals)
        values, vectors = values[::-1], vectors[:, ::-1].copy()
        ones = np.ones(X.shape[1], dtype=np.float64)
        is_distinct = np.append(-np.diff(values) > default_rank_tol(X.shape[1]) * total_variance, True)
        # Eigenvectors of equal eigenvalues, as for decorrelated columns, are arbitrary up to a rotation.
        for block in blocks_of(is_distinct):
            vectors[:, block] = vectors[:, block] @ canonical_axes(vectors[:, block], ones)
        rank = int(np.sum(values > default_rank_tol(X.shape[1]) * total_variance))
        n_residual = rank if self.n_components is None else self.n_components - J
        if n_residual > rank:
            raise RankError(
                f"n_components={self.n_components} is more than available: {J} slow features below "
                f"delta_threshold={self.delta_threshold:g}, and the residual of the input has rank {rank}."
            )
        signs = canonical_signs(vectors[:, :n_residual], ones)
        return _LinearMaps(
            mean, slow_means, scaling, loadings, (vectors[:, :n_residual] * signs).T, values[:n_residual]
        )


class _LinearMaps(NamedTuple):
    """Linear maps from slow features and input to the outputs; see the attributes of :class:`IGSFA`."""

    mean: FloatArray
    slow_means: FloatArray
    scaling: FloatArray
    loadings: FloatArray
    components: FloatArray
    variances: FloatArray
