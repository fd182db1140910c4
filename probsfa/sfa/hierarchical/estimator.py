"""Hierarchies of slow feature analysis as a scikit-learn estimator.

A hierarchy solves many small slow feature problems instead of a large one (Escalante-B. & Wiskott 2013,
section 2.4). Nodes of the first layer extract a few slow outputs from small receptive fields. Nodes of each
further layer combine the outputs of several nodes, until one node depends on all inputs. The cost is linear
in the number of inputs instead of cubic, and smaller problems overfit less. With one node per layer and a
training graph, this is algorithm 1 of Sprekeler (2011).
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_lengths, check_option, check_sequences
from probsfa.graphs import Temporal, TrainingGraph
from probsfa.graphs._named import (
    build_graph,
    check_has_edges,
    is_slow_feature_analysis,
    lag_of_differences,
    needs_rows,
)
from probsfa.linalg import check_rank_tol
from probsfa.sfa._expand import check_overfitting_by_refits
from probsfa.sfa._shrinkage import labels_of_rows
from probsfa.sfa.graph import ScoredOnGraph
from probsfa.sfa.hierarchical.layers import Layer, Stage, plan_stages
from probsfa.sfa.hierarchical.nodes import NodeBank, start_workers
from probsfa.sfa.hierarchical.stack import (
    ArraySource,
    SlownessObjective,
    StreamSource,
    check_first_chunk,
    default_chunk_rows,
    outputs,
    train_stages,
)
from probsfa.sfa.supervised.common import flat_images, image_shape

__all__ = ["HierarchicalSFA"]


@lists_in_lists_out
class HierarchicalSFA(ScoredOnGraph):
    """Slow feature analysis in layers of nodes over receptive fields.

    Parameters
    ----------
    layers : list of Layer
        Layers from the bottom to the top. The top layer usually has one node; the outputs of several nodes
        are concatenated.
    input_shape : tuple of int, optional
        Arrangement of the columns of X: ``(length,)`` for a line, ``(height, width)`` for an image, row by
        row. By default a line of all columns, or the shape of the images in X.
    n_channels : int, default=1
        Number of values at every position (such as colours), in adjacent columns of X. If X has images, their
        number of channels is used.
    graph : TrainingGraph, str or callable, optional
        Training graph of all layers, as in :class:`GraphSFA`. By default, or with "temporal", edges join rows
        `lag` apart in one sequence.
    lag : int, default=1
        Lag of the differences, in rows, with ``graph="temporal"``; not used with other graphs.
    rank_tol : float, optional
        As in :class:`SFA`, for every node.
    storage : {"auto", "memory", "recompute"}, default="auto"
        Storage of the outputs of layers during training. ``"memory"`` stores the outputs of one layer;
        ``"recompute"`` stores no outputs and reads the input once or twice per layer; ``"auto"`` is
        "recompute" if X is a callable and "memory" otherwise.
    chunk_size : int, optional
        Number of rows that are processed together; it limits memory. The default depends on the width of the
        layers.
    n_jobs : int, optional
        Number of threads, as in scikit-learn: None is 1, -1 is all cores.

    Attributes
    ----------
    delta_values_ : ndarray (K,), or (n_nodes, K) for several top nodes
        Delta values of the outputs on the training data, ascending; variances if the top layer consists of
        principal components.
    layer_delta_values_ : list of ndarray (n_nodes, K)
        Delta values (or variances) of every layer; NaN for outputs beyond the rank of a node.
    grids_ : list of tuple of int
        Numbers of nodes along each axis, for every layer.
    banks_ : list of NodeBank
        Trained nodes. A layer has one entry. If `Layer.pca` is set, it has two: the nodes of the principal
        component analysis, then the nodes of its `method`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    Layer : Parameters of one layer.
    escalante_wiskott_layers, cascade_layers : Layers of networks from the papers.
    SFA, GraphSFA : One node for all inputs.

    Notes
    -----
    Layers are trained from the bottom to the top. All nodes of a layer are trained in one batched
    computation, and any division into chunks gives the same result up to rounding. If a node has more outputs
    than the rank of its inputs, for example in a corner that is constant in all images, the outputs beyond
    the rank are zero. In the top layer, such a node raises an error.

    References
    ----------
    Escalante-B., A. N. & Wiskott, L. (2013). How to solve classification and regression problems on
    high-dimensional data with a supervised extension of slow feature analysis. Journal of Machine Learning
    Research 14, 3683-3719.

    Sprekeler, H. (2011). On the relation of slow feature analysis and Laplacian eigenmaps. Neural Computation
    23, 3287-3302. https://doi.org/10.1162/NECO_a_00214

    Examples
    --------
    Eight columns, combined in pairs, in fours, and all together:

    >>> import numpy as np
    >>> from probsfa.sfa import HierarchicalSFA, Layer
    >>> X = np.random.default_rng(0).standard_normal((500, 8)).cumsum(axis=0)
    >>> hsfa = HierarchicalSFA([Layer(2, field=2), Layer(2, field=2), Layer(1)]).fit(X)
    >>> hsfa.grids_, hsfa.transform(X).shape
    ([(4,), (2,), (1,)], (500, 1))
    """

    _input_layout: tuple[Any, int]  # input shape and number of channels

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        input_shape: tuple[int, ...] | None = None,
        n_channels: int = 1,
        graph: Any = None,
        lag: int = 1,
        rank_tol: float | None = None,
        storage: str = "auto",
        chunk_size: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.layers = layers
        self.input_shape = input_shape
        self.n_channels = n_channels
        self.graph = graph
        self.lag = lag
        self.rank_tol = rank_tol
        self.storage = storage
        self.chunk_size = chunk_size
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Train layer by layer.

        Parameters
        ----------
        X : array-like (T, D), images (T, H, W[, C]), list of such, or callable
            Complete rows; a list is several sequences. For data larger than memory, pass a callable: each
            call returns an iterable of arrays (rows, D), consecutive chunks of the same rows.
        y : array-like (T,), optional
            Labels, if `graph` is built from them.
        lengths : array-like of int, optional
            Lengths of consecutive sequences, if X is one array or a callable.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a layer does not fit the layer below it, X has missing values, or the rank of the inputs of the
            top layer is lower than its number of outputs.

        Warns
        -----
        UserWarning
            If the inputs of a node have as many dimensions as rows, so that its outputs can fit any values.
            Also if outputs are not slow on held-out rows. This is tested only for arrays (not streams),
            networks with expansions, a temporal graph, and fewer rows than 20 times the rank of a node.
        """
        self._check_parameters()
        source, lengths, stages = self._open(X, lengths)
        if self._is_temporal and lengths is not None and max(lengths) <= self.lag:
            raise ValueError(
                f"X has no two rows {self.lag} apart (lag={self.lag}) in one sequence, so that no "
                "differences can be computed. Use longer sequences or a smaller lag."
            )
        banks = self._train(stages, source, lengths, y)
        _warn_of_high_ranks(banks, source.count_rows())
        if isinstance(source, ArraySource) and lengths is not None:
            self._check_overfitting(banks, Sequences(source.values, lengths))
        self._set_fitted(banks)
        return self

    def _train(
        self,
        stages: list[Stage],
        source: ArraySource | StreamSource,
        lengths: tuple[int, ...] | None,
        y: Any,
    ) -> list[NodeBank]:
        objective = SlownessObjective(self._find_graph(source, lengths, y), self.lag, lengths, self.rank_tol)
        in_memory = isinstance(source, ArraySource)
        keep = self.storage == "memory" or (self.storage == "auto" and in_memory)
        with start_workers(self.n_jobs) as workers:
            return train_stages(stages, source, objective, workers, keep=keep)

    def _check_overfitting(self, banks: list[NodeBank], sequences: Sequences) -> None:
        """Warn if outputs of a network with expansions on a temporal graph are not slow on held-out rows."""
        lag = self.lag if self._is_temporal else lag_of_differences(self.graph)
        stages = [bank.stage for bank in banks]
        top = banks[-1]
        has_expansion = any(stage.expansion is not None for stage in stages)
        if lag is None or not has_expansion or top.stage.method == "pca":
            return

        def source_of(values: FloatArray) -> ArraySource:
            return ArraySource(values, self._n_positions, self._chunk_rows)

        is_sfa = top.stage.method == "sfa"
        n_tested = (top.stage.n_components or 1) if is_sfa else 1  # outputs of every top node

        def refit(train: Sequences) -> Callable[[FloatArray], FloatArray]:
            refitted = self._train(stages, source_of(train.values), train.lengths, None)

            def tested_outputs(values: FloatArray) -> FloatArray:
                with start_workers(self.n_jobs) as workers:
                    all_outputs = np.concatenate(list(outputs(source_of(values), refitted, workers)))
                outputs_by_node = all_outputs.reshape(len(values), top.stage.n_nodes, -1)
                return outputs_by_node[:, :, :n_tested].reshape(len(values), -1)

            return tested_outputs

        check_overfitting_by_refits(
            sequences,
            refit,
            np.broadcast_to(top.values[:, :n_tested], (top.stage.n_nodes, n_tested)).ravel(),
            max(_largest_rank_per_node(bank, sequences.n_rows) for bank in banks),
            lag=lag,
            remedy="Use smaller expansions, fewer outputs of the nodes, share_weights=True, or more rows.",
            stacklevel=3,
        )

    def transform(self, X: Any) -> Any:
        """Return the outputs of the top layer.

        Parameters
        ----------
        X : array-like (T, D), images (T, H, W[, C]), list of such, or callable
            Complete rows, which are transformed independently. A callable returns an iterable of arrays
            (rows, D).

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
            Outputs in the order of the nodes, slowest first within each node; one array for a callable.
        """
        return self.transform_layer(X, -1)

    def transform_layer(self, X: Any, layer: int) -> Any:
        """Return the outputs of one layer.

        Parameters
        ----------
        X : array-like (T, D), list of array-likes (T_i, D), or callable
            As in :meth:`transform`.
        layer : int
            Index of the layer, from 0 at the bottom; -1 is the top.

        Returns
        -------
        ndarray (T, n_nodes * K), or list of them
            Outputs node by node.

        Raises
        ------
        ValueError
            If there is no such layer.
        """
        check_is_fitted(self)
        n_layers = len(self.grids_)
        if (
            isinstance(layer, bool)
            or not isinstance(layer, (int, np.integer))
            or not -n_layers <= layer < n_layers
        ):
            raise ValueError(f"layer must be an integer from {-n_layers} to {n_layers - 1}; got {layer!r}.")
        banks = [bank for bank in self.banks_ if bank.stage.layer <= layer % n_layers]
        with start_workers(self.n_jobs) as workers:
            if callable(X):
                stream = StreamSource(self, X, self._n_positions, self._chunk_rows)
                return np.concatenate(list(outputs(stream, banks, workers)))
            sequences = check_sequences(self, self._rows(X), reset=False, allow_nan=False)
            source = ArraySource(sequences.values, self._n_positions, self._chunk_rows)
            return sequences.restore(np.concatenate(list(outputs(source, banks, workers))))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "banks_")

    def _outputs(self, values: FloatArray) -> FloatArray:
        return np.asarray(self.transform_layer(values, -1))

    @property
    def _scoring_graph(self) -> Any:
        return Temporal(self.lag) if self._is_temporal else self.graph

    @property
    def _is_temporal(self) -> bool:
        """Whether slowness is measured by differences over `lag` rows, without a graph."""
        return is_slow_feature_analysis(self.graph)

    @property
    def _n_features_out(self) -> int:
        return self.banks_[-1].stage.n_nodes * self.banks_[-1].n_outputs

    def _check_parameters(self) -> None:
        check_count("lag", self.lag)
        check_option("storage", self.storage, ("auto", "memory", "recompute"))
        if self.chunk_size is not None:
            check_count("chunk_size", self.chunk_size)
        check_rank_tol(self.rank_tol)

    def _open(
        self, X: Any, lengths: Any
    ) -> tuple[ArraySource | StreamSource, tuple[int, ...] | None, list[Stage]]:
        """Return the source of the rows, the lengths of the sequences, and the stages to train."""
        if callable(X):
            self._input_layout = self.input_shape, self.n_channels
            lengths = None if lengths is None else check_lengths(lengths)
            check_first_chunk(self, X)
        elif isinstance(X, Iterator):
            raise ValueError(
                "X is an iterator, which allows only one pass; training requires several. Use a callable "
                "that returns a new iterator at each call."
            )
        else:
            self._set_input_layout(X)
            sequences = check_sequences(
                self,
                flat_images(X),
                reset=True,
                allow_nan=False,
                lengths=lengths,
                min_rows=2,
                index="warn" if self._is_temporal else "ignore",
            )
            lengths = sequences.lengths
        D = self.n_features_in_
        stages = plan_stages(self.layers, D, *self._input_layout)
        self._chunk_rows = self.chunk_size or default_chunk_rows(stages, D)
        self._n_positions = D // self._input_layout[1]
        if callable(X):
            n_rows = None if lengths is None else sum(lengths)
            return (
                StreamSource(self, X, self._n_positions, self._chunk_rows, n_rows=n_rows),
                lengths,
                stages,
            )
        return ArraySource(sequences.values, self._n_positions, self._chunk_rows), lengths, stages

    def _set_input_layout(self, X: Any) -> None:
        """Set the arrangement of the columns from the parameters or from images."""
        shape = image_shape(X)
        self._input_layout = self.input_shape, self.n_channels
        if shape is None:
            return
        expected = None if self.input_shape is None else tuple(np.atleast_1d(self.input_shape).tolist())
        if expected not in (None, shape[:2]) or self.n_channels not in (1, shape[2]):
            raise ValueError(
                f"X has images of {shape[0]} x {shape[1]} pixels with {shape[2]} channels; "
                f"input_shape={self.input_shape!r} and n_channels={self.n_channels} do not match."
            )
        self._input_layout = shape[:2], shape[2]

    def _rows(self, X: Any) -> Any:
        """Return images of the shape of the training images as rows; return other data unchanged."""
        shape = image_shape(X)
        if shape is None:
            return X
        training_shape = (*np.atleast_1d(self._input_layout[0] or 0).tolist(), self._input_layout[1])
        if shape != training_shape:
            raise ValueError(f"X has images of shape {shape}; the training images had {training_shape}.")
        return flat_images(X)

    def _find_graph(self, source: ArraySource | StreamSource, lengths: Any, y: Any) -> TrainingGraph | None:
        """Return the graph of the training rows; None for differences in time."""
        if self._is_temporal:
            return None
        if isinstance(source, ArraySource):
            labels = labels_of_rows(y, lengths)
            return check_has_edges(build_graph(self.graph, source.values, labels, lengths=lengths))
        if isinstance(self.graph, TrainingGraph):
            return self.graph
        if needs_rows(self.graph):
            raise ValueError(
                f"graph={self.graph!r} is built from all rows, which are not available in a stream. Use a "
                "TrainingGraph, or the name of a graph from labels."
            )
        n_rows = len(y) if y is not None else 0 if lengths is None else sum(lengths)
        return check_has_edges(build_graph(self.graph, np.empty((n_rows, 0)), y, lengths=lengths))

    def _set_fitted(self, banks: list[NodeBank]) -> None:
        top_banks = {bank.stage.layer: bank for bank in banks}  # a layer may have two stages
        self.banks_ = banks
        self.grids_ = [bank.stage.grid for bank in top_banks.values()]
        self.layer_delta_values_ = [bank.values for bank in top_banks.values()]
        delta_values = self.layer_delta_values_[-1]
        self.delta_values_ = delta_values[0] if len(delta_values) == 1 else delta_values


def _largest_rank_per_node(bank: NodeBank, n_rows: int) -> int:
    """Return the largest rank of a node; with shared weights, divided by the number of nodes; 0 for "pca"."""
    stage = bank.stage
    if stage.method == "pca":
        return 0
    # The rank of an "igsfa" node counts outputs; the number of expanded inputs is an upper bound of its rank.
    rank = min(bank.n_expanded, n_rows - 2) if stage.method == "igsfa" else int(bank.rank.max())
    return -(-rank // stage.n_nodes) if stage.share_weights else rank


def _warn_of_high_ranks(banks: list[NodeBank], n_rows: int) -> None:
    """Warn if the rank of a node is so high that its outputs can fit any values on the training rows."""
    for bank in banks:
        n_samples = n_rows * bank.stage.n_nodes if bank.stage.share_weights else n_rows
        if bank.stage.method != "pca" and bank.rank.max() >= n_samples - 1:
            warnings.warn(
                f"The {n_rows} rows have rank {bank.rank.max()} in a node of {bank.stage.name}, so that its "
                "outputs can fit any values, and their delta values are too small. Use smaller fields or "
                "expansions, or more rows.",
                stacklevel=3,
            )
            return
