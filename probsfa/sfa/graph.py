"""Graph-based slow feature analysis: outputs that vary little along the edges of a training graph.

The outputs are ``y = W (h(x) - mean)``, where ``h`` is the identity or an expansion. Each output ``y_j`` in
turn minimizes the weighted mean of ``(y_j(n') - y_j(n))^2`` over the edges. Outputs have zero mean, unit
variance and no correlation, under the node weights (Escalante-B. & Wiskott 2013, JMLR 14:3683, eqs. 6-9).
"""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._row_transformer import InvertibleTransformer, RowTransformer
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.graphs._named import (
    build_graph,
    check_has_edges,
    in_time,
    lag_of_differences,
    needs_labels,
    reference_graph,
)
from probsfa.graphs.training_graph import GraphMoments, GraphSums, TrainingGraph, graph_moments
from probsfa.linalg import RankError, check_rank_tol
from probsfa.sfa._expand import Expander, check_overfitting, set_linear_attributes, transform_rows
from probsfa.sfa._shrinkage import check_shrinkage, labels_of_rows, ledoit_wolf, shrunken_slow_directions

__all__ = [
    "GraphSFA",
    "GraphTransformer",
    "ScoredOnGraph",
    "check_overfitting_in_time",
    "check_parameters",
    "set_fitted",
    "truncate_components",
]


def _supports_partial_fit(gsfa: Any) -> bool:
    """Return whether `partial_fit` is available, or raise an AttributeError with the reason."""
    if isinstance(gsfa.shrinkage, str):
        raise AttributeError(
            'shrinkage="auto" requires all rows and is not supported by partial_fit. Use a '
            "number from 0 to below 1."
        )
    return True


class GraphTransformer(RowTransformer):
    """A transformer with a parameter `graph`, which may need labels."""

    graph: Any

    def __sklearn_tags__(self) -> Any:
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = needs_labels(self.graph)
        return tags


class ScoredOnGraph(GraphTransformer):
    """A transformer whose score is the slowness of its outputs on a graph of the scored rows."""

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """Return the negative mean delta value of the outputs on new or training rows.

        The graph for scoring does not depend on settings such as the number of groups or neighbours, so that
        scores of different settings are comparable:

        - for numeric labels, "reordering"; for angles, a ring of adjacent samples;
        - for classes, "clustered" with ``weighting="samples"``;
        - for nearest neighbours and heat kernels, "nearest_neighbors" with the default number of neighbours;
        - functions of (X, y), temporal graphs and explicit edges are used unchanged.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Rows.
        y : array-like (N,), or list of array-likes (N_i,), optional
            Labels, if the graph is built from them.
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        float
            Minus the mean delta value of the outputs, each scaled to unit variance: greater is slower.

        Raises
        ------
        ValueError
            If `graph` is a graph of the training rows and X has other rows, or an output is constant.
        """
        check_is_fitted(self)
        sequences = check_sequences(
            self, self._rows(X), reset=False, allow_nan=False, lengths=lengths, min_rows=2
        )
        score = graph_score(
            reference_graph(self._scoring_graph), sequences, y, self._outputs(sequences.values)
        )
        if score != score:
            raise ValueError(
                "An output is constant on these rows; its delta value cannot be estimated. Use other or more "
                "rows."
            )
        return score

    @property
    def _scoring_graph(self) -> Any:
        return self.graph

    def _rows(self, X: Any) -> Any:
        """Return images as rows, in estimators that support images."""
        return X


@lists_in_lists_out
class GraphSFA(ScoredOnGraph, InvertibleTransformer):
    """Graph-based slow feature analysis, for supervised and unsupervised dimensionality reduction.

    Parameters
    ----------
    n_components : int, optional
        Number of outputs, slowest first; by default the rank of the data.
    graph : TrainingGraph, str, GraphBuilder or callable
        A graph of the training rows; a builder such as ``graphs.Serial(n_groups=20)``, whose settings can be
        searched as ``graph__n_groups``; a function of (X, y); or the name of a graph with default settings.
        From labels y: "clustered" (classes; equivalent to Fisher's discriminant), "serial", "mixed",
        "sliding_window" and "reordering" (numbers). From X: "temporal" (equivalent to :class:`SFA`) and
        "nearest_neighbors" (locality preserving projections).
    expansion : transformer, optional
        A scikit-learn transformer that maps rows independently; it is cloned and fitted to the training rows.
        Graphs are built from the rows before the expansion.
    rank_tol : float, optional
        Directions with less than this fraction of the largest variance are discarded, after scaling every
        column to unit variance. Default as in :class:`SFA`.
    shrinkage : {"auto"} or float, optional
        Shrinkage intensity, from 0 to below 1, against overfitting with few samples of many columns. The
        covariances of the samples and of the differences along the edges are shrunk towards those of
        independent noise. "auto" is the estimate of Ledoit & Wolf (2004) from residuals along the edges;
        None means no shrinkage.
    shrinkage_target : {"diagonal", "identity"}, default="diagonal"
        Variances of the independent noise. "diagonal": half the mean squared difference of each column along
        the edges; the features then do not depend on the units of the columns. "identity": the mean of these
        variances over the columns, for columns with the same unit such as pixels.

    Attributes
    ----------
    delta_values_ : ndarray (K,)
        Weighted mean squared difference of each output over the edges, ascending. With shrinkage, delta
        values, unit variance and decorrelation refer to the shrunken moments.
    timescales_ : ndarray (K,)
        ``-1 / log(1 - delta/2)`` in steps of the Markov chain on the graph; NaN if delta is 2 or more.
    components_ : ndarray (K, D)
        Directions; ``(x - mean_) @ components_.T`` are the outputs.
    loadings_ : ndarray (D, K)
        Covariances of inputs and outputs.
    mean_ : ndarray (D,)
        Mean of the (expanded) training rows, with node weights.
    rank_ : int
        Numerical rank of the (expanded) training rows.
    moments_ : probsfa.graphs.GraphMoments
        The second moments from which all other attributes are computed.
    shrinkage_ : float
        Shrinkage intensity; 0 without shrinkage.
    graph_ : TrainingGraph
        The graph of the training rows. The graph is not pickled, because ``transform`` does not need it.
    expansion_ : transformer or None
        The fitted expansion.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.graphs : The training graphs and their settings.
    GraphSFAClassifier, GraphSFARegressor : Classification and regression from the features.

    Notes
    -----
    The fit computes products with the Laplacian of the graph. For temporal graphs and graphs built from
    labels they cost O(N D), independent of the number of edges. The expanded training rows are held in
    memory.

    With shrinkage intensity s and diagonal target T, the moments are ``(1 - s) B + s T`` and ``(1 - s) A + 2
    s T``, those of the samples with independent noise added. On the clustered graph this is Fisher's
    discriminant with a shrunken covariance within classes. With fewer samples than columns, directions in
    which the samples have no variance are left out, because they would contain the added noise only.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> gsfa = GraphSFA(n_components=2, graph="clustered").fit(X, y)
    >>> gsfa.transform(X).shape
    (150, 2)
    >>> print(gsfa.delta_values_.round(3))
    [0.06  1.556]
    """

    _finite_outputs = "allow-nan"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        graph: Any,
        expansion: Any = None,
        rank_tol: float | None = None,
        shrinkage: float | str | None = None,
        shrinkage_target: str = "diagonal",
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.expansion = expansion
        self.rank_tol = rank_tol
        self.shrinkage = shrinkage
        self.shrinkage_target = shrinkage_target

    _batches: tuple[Expander, GraphSums]  # expansion and sums of all batches so far, for partial_fit

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Fit the slowest directions on the training graph.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples. Only temporal graphs depend on the sequences: they have no edges between sequences.
        y : array-like (N,) or (N, M), or list of array-likes (N_i,), optional
            Labels, if the graph is built from them.
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        GraphSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing values or no variance; if y is missing or not valid for the graph; if the graph
            has no edges, or another number of vertices than X has rows; or if the rank of the (expanded) rows
            is below `n_components`.

        Warns
        -----
        UserWarning
            If the rank of the (expanded) rows equals the number of rows minus one, so that any outputs can be
            fitted. With an expansion and the temporal graph, a warning is also issued if the outputs are not
            slow on held-out rows.
        """
        check_parameters(self)
        sequences = check_sequences(
            self,
            X,
            reset=True,
            allow_nan=False,
            lengths=lengths,
            min_rows=2,
            index="warn" if in_time(self.graph) else "ignore",
        )
        labels = labels_of_rows(y, sequences.lengths)
        graph = check_has_edges(build_graph(self.graph, sequences.values, labels, lengths=sequences.lengths))
        expander = Expander.fit(self.expansion, sequences.values)
        rows = expander(sequences.values)
        moments = graph_moments(graph, rows)
        intensity = self.shrinkage
        if intensity == "auto":
            intensity = ledoit_wolf(graph, rows, moments, self.shrinkage_target)
        set_fitted(self, graph, moments, expander, intensity=intensity)
        if self.shrinkage_ == 0:
            check_overfitting_in_time(
                self.graph,
                sequences,
                expander,
                self.delta_values_[: self.n_components or 1],
                self.rank_,
                rank_tol=self.rank_tol,
            )
        return self

    @available_if(_supports_partial_fit)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, lengths: Any = None, sample_weight: Any = None) -> Self:
        """Update the fit with a batch of samples.

        Parameters
        ----------
        X, y, lengths
            A batch of samples, with arguments as in ``fit``; the batch has a separate graph.
        sample_weight : array-like (N,), optional
            Sample weights. For clustered, serial and mixed graphs, an integer weight is equivalent to
            repeating the sample. For other graphs, node weights are multiplied by the sample weight, and edge
            weights by the sample weights of both ends.

        Returns
        -------
        GraphSFA
            The estimator, fitted to all samples so far. The estimator is not fitted while the rank of the
            samples is below `n_components`.

        Notes
        -----
        There are no edges between batches. For sequences in time, the result equals ``fit``. For numeric
        labels, batches should have similar sizes, much larger than groups or windows. An expansion is fitted
        to the first batch. ``graph_`` is the graph of the last batch.
        """
        check_parameters(self)
        first = not hasattr(self, "_batches")
        sequences = check_sequences(self, X, reset=first, allow_nan=False, lengths=lengths, min_rows=2)
        graph = build_graph(
            self.graph,
            sequences.values,
            labels_of_rows(y, sequences.lengths),
            lengths=sequences.lengths,
            sample_weight=sample_weight,
        )
        check_has_edges(graph)
        expander = Expander.fit(self.expansion, sequences.values) if first else self._batches[0]
        moments = graph_moments(graph, expander(sequences.values))
        sums = GraphSums(moments, graph.Q, graph.R, graph.n_vertices)
        self._batches = expander, sums if first else self._batches[1].merge(sums)
        try:
            set_fitted(self, graph, self._batches[1].moments, expander, sums=self._batches[1])
        except RankError:
            if hasattr(self, "components_"):
                del self.components_
        return self

    def _outputs(self, values: FloatArray) -> FloatArray:
        return transform_rows(values, self._expander, self.mean_, self.components_)

    def _inputs(self, outputs: FloatArray) -> FloatArray:
        return self._expander.inverse(self.mean_ + outputs @ self.loadings_.T)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the graph of the training rows."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("graph_", None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "components_")

    @property
    def _expander(self) -> Expander:
        return Expander(self.expansion_, len(self.mean_))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def check_parameters(gsfa: GraphSFA) -> None:
    """Raise a ValueError if a parameter of a GraphSFA other than the graph is invalid."""
    if gsfa.n_components is not None:
        check_count("n_components", gsfa.n_components)
    check_rank_tol(gsfa.rank_tol)
    check_shrinkage(gsfa.shrinkage, gsfa.shrinkage_target)


def truncate_components(gsfa: GraphSFA, n_components: int) -> None:
    """Reduce a fitted GraphSFA to its `n_components` slowest outputs."""
    gsfa.n_components = n_components
    gsfa.components_ = gsfa.components_[:n_components]
    gsfa.loadings_ = gsfa.loadings_[:, :n_components]
    gsfa.delta_values_ = gsfa.delta_values_[:n_components]
    gsfa.timescales_ = gsfa.timescales_[:n_components]


def set_fitted(
    gsfa: GraphSFA,
    graph: TrainingGraph,
    moments: GraphMoments,
    expander: Expander,
    *,
    sums: GraphSums | None = None,
    intensity: float | str | None = None,
) -> None:
    """Set the fitted attributes of a GraphSFA from moments.

    Parameters
    ----------
    gsfa : GraphSFA
        The estimator to set.
    graph : TrainingGraph
        Graph of the training rows.
    moments : GraphMoments
        Moments of the expanded training rows on this graph.
    expander : Expander
        The fitted expansion, or the identity.
    sums : GraphSums, optional
        Sums that include earlier batches.
    intensity : float, optional
        Shrinkage intensity; by default the `shrinkage` of the estimator.

    Raises
    ------
    ValueError
        If the rows have no variance or a lower rank than `n_components`, or if the intensity must be
        estimated from rows.
    """
    intensity = gsfa.shrinkage if intensity is None else intensity
    if isinstance(intensity, str):
        raise ValueError(
            'shrinkage="auto" requires rows, and only moments are available. Use a number from 0 to below 1.'
        )
    shrinkage = 0.0 if intensity is None else float(intensity)
    sums = GraphSums(moments, graph.Q, graph.R, graph.n_vertices) if sums is None else sums
    directions = shrunken_slow_directions(
        moments, shrinkage, gsfa.shrinkage_target, gsfa.n_components, gsfa.rank_tol, sums.n_samples
    )
    set_linear_attributes(gsfa, moments, expander, directions=directions)
    gsfa.shrinkage_ = shrinkage
    gsfa.graph_ = graph
    gsfa._batches = expander, sums
    n_rows = sums.n_samples
    if shrinkage == 0 and gsfa.rank_ >= n_rows - 1:
        warnings.warn(
            f"The {n_rows} rows have rank {gsfa.rank_}, so that outputs can fit any values. Use fewer "
            'columns (or a smaller expansion), more rows, or shrinkage="auto".',
            stacklevel=3,
        )


def check_overfitting_in_time(
    graph: Any,
    sequences: Sequences,
    expander: Expander,
    training: FloatArray,
    rank: int,
    *,
    rank_tol: float | None,
) -> None:
    """Warn if outputs of expanded rows on a temporal graph are not slow on held-out rows, as in SFA.

    Other graphs and rows without an expansion are not tested. The arguments are those of
    :func:`probsfa.sfa._expand.check_overfitting`.
    """
    lag = lag_of_differences(graph)
    if lag is not None and not expander.is_identity:
        check_overfitting(
            sequences,
            expander,
            training,
            rank,
            lag=lag,
            rank_tol=rank_tol,
            remedy="Use a smaller expansion, fewer components, shrinkage, or more rows.",
            stacklevel=3,
        )


# ---- slowness of outputs on a graph of training or new rows


def graph_score(graph: Any, sequences: Sequences, y: Any, outputs: Any) -> float:
    """Return minus the mean delta value of outputs on the graph of their rows.

    Parameters
    ----------
    graph : TrainingGraph, str or callable
        The graph of an estimator.
    sequences : Sequences
        The rows.
    y : array-like or None
        Labels of the rows.
    outputs : ndarray (N, K)
        Outputs of the rows; each is scaled to unit variance.

    Raises
    ------
    ValueError
        If the graph is a graph of other rows.
    """
    if isinstance(graph, TrainingGraph) and graph.n_vertices != sequences.n_rows:
        raise ValueError(
            f"graph has {graph.n_vertices} vertices, one for each training row, and cannot be used for "
            f"the {sequences.n_rows} rows of X. Pass graph as a name or as a function of (X, y)."
        )
    labels = labels_of_rows(y, sequences.lengths)
    graph_of_rows = build_graph(graph, sequences.values, labels, lengths=sequences.lengths)
    moments = graph_moments(graph_of_rows, outputs)
    variances = np.diagonal(moments.covariance)
    with np.errstate(invalid="ignore", divide="ignore"):
        deltas = np.diagonal(moments.difference_moment) / np.where(
            variances > moments.variance_floor, variances, np.nan
        )
    return -float(np.mean(deltas))
