"""Graph-based slow feature analysis: outputs that differ little between samples joined by a training graph.

The outputs ``y = W (h(x) - mean)`` minimise the weighted mean of ``(y_j(n') - y_j(n))^2`` over the edges one
after the other, under zero mean, unit variance and decorrelation weighted by the nodes, where ``h`` is the
identity or an expansion (Escalante-B. & Wiskott 2013, JMLR 14:3683, eqs. 6-9).
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
from probsfa.graphs._named import build_graph, check_joined, in_time, needs_labels, reference_graph
from probsfa.graphs.training_graph import GraphMoments, GraphSums, TrainingGraph, graph_moments
from probsfa.linalg import RankError, check_rank_tol
from probsfa.sfa._expand import Expander, outputs_from, set_linear_map
from probsfa.sfa._shrinkage import check_shrinkage, labels_of_rows, ledoit_wolf, shrunk_moments

__all__ = [
    "GraphSFA",
    "GraphTransformer",
    "ScoredOnGraph",
    "check_parameters",
    "keep_components",
    "set_fitted",
]


def _takes_batches(gsfa: Any) -> bool:
    """Whether there is a `partial_fit`; raise an AttributeError that says why not."""
    if isinstance(gsfa.shrinkage, str):
        raise AttributeError(
            'shrinkage="auto" is estimated from all rows at once, which partial_fit never has; give a number '
            "from 0 to below 1."
        )
    return True


class GraphTransformer(RowTransformer):
    """A transformer with a parameter `graph`, which may need labels."""

    graph: Any

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator needs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = needs_labels(self.graph)
        return tags


class ScoredOnGraph(GraphTransformer):
    """A transformer whose score is the slowness of its outputs on a graph of rows that may be new."""

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """Return how slow the outputs are on a graph of rows that may be new.

        The graph is one for all settings of a kind of graph, so that scores of different numbers of groups or
        neighbours can be compared: for labels that are numbers, samples are joined to the next one in the
        order of the labels; for neighbours, the number is the default one; classes weigh as many as they have
        samples. A function of (X, y) and a graph of time or of given edges stay what they are.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Rows.
        y : array-like (N,), or list of array-likes (N_i,), optional
            Labels, where the graph is built from them.
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.

        Returns
        -------
        float
            Minus the mean delta value of the outputs, each divided by its own variance: greater is slower.

        Raises
        ------
        ValueError
            If the graph was given as that of the training rows, and X has others, or an output is constant.
        """
        check_is_fitted(self)
        sequences = check_sequences(
            self, self._rows(X), reset=False, allow_nan=False, lengths=lengths, min_rows=2
        )
        score = graph_score(
            reference_graph(self._graph_of_scores), sequences, y, self._outputs(sequences.values)
        )
        if score != score:
            raise ValueError(
                "An output is constant on these rows, so that its delta value cannot be estimated. Give rows "
                "that vary, or more of them."
            )
        return score

    @property
    def _graph_of_scores(self) -> Any:
        return self.graph

    def _rows(self, X: Any) -> Any:
        """Return images as rows, where these are supported."""
        return X


@lists_in_lists_out
class GraphSFA(ScoredOnGraph, InvertibleTransformer):
    """Slow feature analysis of a training graph, for supervised and unsupervised reduction of dimensions.

    Parameters
    ----------
    n_components : int, optional
        How many outputs, slowest first; all that the rank of the data allows by default.
    graph : TrainingGraph, str, GraphBuilder or callable
        What is similar to what: a graph of the training rows, or how to build one: a builder such as
        ``graphs.Serial(n_groups=20)``, whose settings a search reaches as ``graph__n_groups``; a function of
        (X, y); or the name of a graph with its default settings. From labels y: "clustered" (classes; the
        outputs of Fisher's discriminant), "serial", "mixed", "sliding_window" and "reordering" (numbers).
        From X: "temporal" (the outputs of :class:`SFA`) and "nearest_neighbors" (locality preserving
        projections).
    expansion : transformer, optional
        A scikit-learn transformer that maps every row by itself; it is cloned and fitted to the training
        rows. Graphs are built from the rows before the expansion.
    rank_tol : float, optional
        Directions with less than this fraction of the variance of the leading one count as absent,
        after every column is scaled to unit variance. Default as in :class:`SFA`.
    shrinkage : {"auto"} or float, optional
        How far, from 0 to below 1, covariances and differences are drawn towards those of independent noise,
        which keeps outputs from following single samples where these are few for so many columns. "auto" is
        the estimate of Ledoit & Wolf (2004) for what differs along the edges; None is none at all.
    shrinkage_target : {"diagonal", "identity"}, default="diagonal"
        Variances of that noise: half the mean squared difference of each column along the edges, so that the
        units of the columns do not matter, or the mean of all, which suits columns of one unit, such as
        pixels and their principal components.

    Attributes
    ----------
    delta_values_ : ndarray (K,)
        Weighted mean squared difference of each output over the edges, ascending. With shrinkage, these as
        well as unit variance and decorrelation are of the shrunken moments.
    timescales_ : ndarray (K,)
        ``-1 / log(1 - delta/2)`` in steps of the Markov chain on the graph; NaN where delta is 2 or more.
    components_ : ndarray (K, D)
        Directions; ``(x - mean_) @ components_.T`` are the outputs.
    loadings_ : ndarray (D, K)
        Covariances of inputs and outputs.
    mean_ : ndarray (D,)
        Mean of the (expanded) training rows, weighted by the nodes.
    rank_ : int
        Number of directions in which the (expanded) training rows vary.
    moments_ : probsfa.graphs.GraphMoments
        The second moments everything else was computed from.
    shrinkage_ : float
        How far they were shrunk; 0 without shrinkage.
    graph_ : TrainingGraph
        The graph of the training rows. It is left out where the estimator is pickled: outputs do not need it.
    expansion_ : transformer or None
        The fitted expansion.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.graphs : The training graphs and their settings.
    GraphSFAClassifier, GraphSFARegressor : With the supervised step on top.

    Notes
    -----
    Only the Laplacian of the graph is needed, which for graphs of time, labels and classes takes O(N D); the
    number of edges does not matter. The expanded training rows are held in memory.

    With the intensity s of shrinkage and the target T, diagonal, the problem is that of ``(1 - s) B + s T``
    and ``(1 - s) A + 2 s T``: what the samples would have with independent noise added, which varies by T
    and differs by 2 T. On the clustered graph this is Fisher's discriminant with a shrunken covariance
    within classes.

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

    _seen: tuple[Expander, GraphSums]  # what partial_fit goes on from

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Find the directions of smallest weighted difference.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples. Sequences matter for graphs in time only, which join nothing across them.
        y : array-like (N,) or (N, M), or list of array-likes (N_i,), optional
            Labels, where the graph is built from them.
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.

        Returns
        -------
        GraphSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing cells or no variation, y is missing or does not fit, the graph has another
            number of vertices than X has rows or joins none of them, or the rank is below `n_components`.
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
        graph = check_joined(build_graph(self.graph, sequences.values, labels, lengths=sequences.lengths))
        expander = Expander.fit(self.expansion, sequences.values)
        rows = expander(sequences.values)
        moments = graph_moments(graph, rows)
        intensity = self.shrinkage
        if intensity == "auto":
            intensity = ledoit_wolf(graph, rows, moments, self.shrinkage_target)
        set_fitted(self, graph, moments, expander, intensity=intensity)
        return self

    @available_if(_takes_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, lengths: Any = None, sample_weight: Any = None) -> Self:
        """Take in some more samples; afterwards the estimator is fitted to all so far.

        Parameters
        ----------
        X, y, lengths
            As in ``fit``: a batch that has a graph of its own.
        sample_weight : array-like (N,), optional
            How many times each sample counts. Clustered, serial and mixed graphs are those of samples that
            stand there so many times. On any other graph, node weights are multiplied by the weight of the
            sample and edge weights by those of both samples. (``fit`` has no such weights: scikit-learn holds
            that there they do what repeated rows would, which would change who is whose neighbour.)

        Returns
        -------
        GraphSFA
            The estimator. As long as the rank of the samples so far is below `n_components`, it counts as not
            fitted.

        Notes
        -----
        The graph of all samples is the union of the graphs of the batches: no edge joins two of them, and
        node and edge weights stay what they are. Batches that are sequences in time lose nothing, classes
        only how their means differ between batches. Graphs of numbers know neighbours in each batch only; the
        weight of a batch is that of its edges, so batches should be of about one size, and much larger than
        the groups or windows wanted. An expansion is fitted to the first batch. ``graph_`` is the graph of
        the last one.
        """
        check_parameters(self)
        first = not hasattr(self, "_seen")
        sequences = check_sequences(self, X, reset=first, allow_nan=False, lengths=lengths, min_rows=2)
        graph = build_graph(
            self.graph,
            sequences.values,
            labels_of_rows(y, sequences.lengths),
            lengths=sequences.lengths,
            sample_weight=sample_weight,
        )
        check_joined(graph)
        expander = Expander.fit(self.expansion, sequences.values) if first else self._seen[0]
        moments = graph_moments(graph, expander(sequences.values))
        sums = GraphSums(moments, graph.Q, graph.R, graph.n_vertices)
        self._seen = expander, sums if first else self._seen[1].merge(sums)
        try:
            set_fitted(self, graph, self._seen[1].moments, expander, sums=self._seen[1])
        except RankError:
            if hasattr(self, "components_"):
                del self.components_
        return self

    def _outputs(self, values: FloatArray) -> FloatArray:
        return outputs_from(values, self._expander, self.mean_, self.components_)

    def _inputs(self, outputs: FloatArray) -> FloatArray:
        return self._expander.inverse(self.mean_ + outputs @ self.loadings_.T)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the graph of the training rows, which outputs do not need."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("graph_", None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        """Whether outputs can be computed."""
        return hasattr(self, "components_")

    @property
    def _expander(self) -> Expander:
        return Expander(self.expansion_, len(self.mean_))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def check_parameters(gsfa: GraphSFA) -> None:
    """Raise a ValueError unless a GraphSFA can be fitted with its parameters, its graph apart."""
    if gsfa.n_components is not None:
        check_count("n_components", gsfa.n_components)
    check_rank_tol(gsfa.rank_tol)
    check_shrinkage(gsfa.shrinkage, gsfa.shrinkage_target)


def keep_components(gsfa: GraphSFA, n_components: int) -> None:
    """Reduce a fitted GraphSFA to its slowest outputs, as if it had been fitted with so many."""
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
    """Fit a GraphSFA to moments: what ``fit`` does once it has been through the rows, wherever these are.

    Parameters
    ----------
    gsfa : GraphSFA
        Gets all fitted attributes but the names of columns.
    graph : TrainingGraph
        Of the training rows.
    moments : GraphMoments
        Of the expanded training rows on that graph.
    expander : Expander
        The fitted expansion, or none.
    sums : GraphSums, optional
        Of earlier batches too, where there are any.
    intensity : float, optional
        Of shrinkage; by default what the estimator says.

    Raises
    ------
    ValueError
        If the rows do not vary, or have a lower rank than `n_components`, or the intensity was to be
        estimated from rows, of which there are none here.
    """
    intensity = gsfa.shrinkage if intensity is None else intensity
    if isinstance(intensity, str):
        raise ValueError(
            'shrinkage="auto" is estimated from the rows themselves, and here are only their moments; give a '
            "number from 0 to below 1."
        )
    shrinkage = 0.0 if intensity is None else float(intensity)
    set_linear_map(gsfa, shrunk_moments(moments, shrinkage, gsfa.shrinkage_target), expander)
    gsfa.moments_ = moments
    gsfa.shrinkage_ = shrinkage
    gsfa.graph_ = graph
    sums = GraphSums(moments, graph.Q, graph.R, graph.n_vertices) if sums is None else sums
    gsfa._seen = expander, sums
    n_rows = sums.n_samples
    if shrinkage == 0 and gsfa.rank_ >= n_rows - 1:
        warnings.warn(
            f"The {n_rows} rows vary in {gsfa.rank_} directions, so outputs can take any values "
            'on them. Take fewer columns (or a smaller expansion), more rows, or shrinkage="auto".',
            stacklevel=3,
        )


# ---- how slow outputs are on the graph of rows that may be new


def graph_score(graph: Any, sequences: Sequences, y: Any, outputs: Any) -> float:
    """Return minus the mean delta value of outputs on the graph of their rows.

    Parameters
    ----------
    graph : TrainingGraph, str or callable
        As an estimator has it; "temporal" where there is none.
    sequences : Sequences
        The rows.
    y : array-like or None
        Their labels.
    outputs : ndarray (N, K)
        Of the rows. Each is divided by its own variance, so that none is slow for being small.

    Raises
    ------
    ValueError
        If the graph is one of other rows.
    """
    if isinstance(graph, TrainingGraph) and graph.n_vertices != sequences.n_rows:
        raise ValueError(
            f"graph is a graph of {graph.n_vertices} training rows, so there is none of these "
            f"{sequences.n_rows} rows to score on. Give graph= as a name or a function of (X, y)."
        )
    labels = labels_of_rows(y, sequences.lengths)
    of_rows = build_graph(graph, sequences.values, labels, lengths=sequences.lengths)
    moments = graph_moments(of_rows, outputs)
    variances = np.diagonal(moments.covariance)
    with np.errstate(invalid="ignore", divide="ignore"):
        deltas = np.diagonal(moments.difference_moment) / np.where(
            variances > moments.variance_floor, variances, np.nan
        )
    return -float(np.mean(deltas))
