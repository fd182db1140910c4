"""Second moments of distributed samples on a training graph."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.distributed._dask import compute, delayed, reduce_tree
from probsfa.distributed._moments import fit_expander, sum_moments
from probsfa.distributed._parts import DistributedRows, NoEstimator, validated_parts
from probsfa.graphs import TrainingGraph
from probsfa.graphs._ordered import TemporalGraph
from probsfa.graphs.moments import Moments, rounding_variance
from probsfa.graphs.training_graph import GraphMoments
from probsfa.sfa._expand import Expander

__all__ = ["graph_moments", "sum_graph_moments", "temporal_graph_moments"]


_BLOCK_SIZE = 2**23  # number of values in the columns of one task, 64 MiB of float64


def graph_moments(graph: TrainingGraph, X: Any) -> GraphMoments:
    """Return the moments A and B of graph-based slow feature analysis of distributed samples.

    Parameters
    ----------
    graph : TrainingGraph
        Graph with one vertex for each row of `X`, in memory; it is sent to the workers.
    X : dask.array (N, D), or list of dask arrays
        Samples, complete, chunked by rows.

    Returns
    -------
    probsfa.graphs.GraphMoments
        Moments; equal to the moments of rows in memory, up to rounding.

    Raises
    ------
    ValueError
        If the number of rows differs from the number of vertices, or is not known.

    See Also
    --------
    probsfa.graphs.training_graph.graph_moments : Moments of rows in memory.

    Notes
    -----
    For temporal graphs, each chunk is read once, with the last rows of the previous chunk. For other graphs,
    the rows remain in the memory of the cluster, and each task multiplies a few columns of all rows by the
    Laplacian.

    Examples
    --------
    >>> import dask.array as da
    >>> from probsfa.distributed._graph_moments import graph_moments
    >>> from probsfa.graphs import clustered
    >>> X = da.from_array([[0.0], [1.0], [5.0], [7.0]], chunks=(3, 1))
    >>> print(graph_moments(clustered([0, 0, 1, 1]), X).difference_moment)
    [[1.25]]
    """
    rows = validated_parts(NoEstimator(), X, lag=graph.lag if isinstance(graph, TemporalGraph) else 1)
    return sum_graph_moments(graph, rows, fit_expander(None, rows))


def sum_graph_moments(graph: TrainingGraph, rows: DistributedRows, expander: Any) -> GraphMoments:
    """Return the moments of expanded rows; `expander` is a task that returns an Expander."""
    if rows.lengths is None:
        raise ValueError(
            "X has delayed sequences, whose numbers of rows are not known; a training graph has one vertex "
            "for each row. Use dask arrays, or graph='temporal'."
        )
    n = sum(rows.lengths)
    if n != graph.n_vertices:
        raise ValueError(
            f"graph has {graph.n_vertices} vertices, and X has {n} rows. Use a graph with one vertex for "
            "each row."
        )
    if isinstance(graph, TemporalGraph) and np.array_equal(
        graph.has_edge, _pairs_within_sequences(rows.lengths, graph.lag)
    ):
        return temporal_graph_moments(sum_moments(rows, expander, graph.lag, skip_incomplete=False).moments)
    return _moments_on_any_graph(graph, rows, compute(expander)[0])


def temporal_graph_moments(moments: Moments) -> GraphMoments:
    """Return the moments on the temporal graph, from moments of rows and differences."""
    return GraphMoments(moments.mean, moments.covariance, moments.difference_moment, moments.variance_floor)


def _pairs_within_sequences(lengths: tuple[int, ...], lag: int) -> NDArray[np.bool_]:
    """Return a mask of the pairs of rows (t, t + lag) that are in one sequence."""
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    return np.equal(sequence[lag:], sequence[:-lag])


def _moments_on_any_graph(graph: TrainingGraph, rows: DistributedRows, expander: Expander) -> GraphMoments:
    v = graph.node_weights / graph.Q
    lengths = [sum(part.lengths or ()) for part in rows.parts]
    pieces = [slice(stop - n, stop) for stop, n in zip(np.cumsum(lengths).tolist(), lengths, strict=True)]
    blocks = [delayed(expander)(part.rows) for part in rows.parts]
    origin = delayed(_first_row)(blocks[0])
    sums = [delayed(_weighted_sum)(x, origin, v[piece]) for x, piece in zip(blocks, pieces, strict=True)]
    offset = reduce_tree(sum, sums)
    scatters = [
        delayed(_weighted_scatter)(x, origin, offset, v[piece])
        for x, piece in zip(blocks, pieces, strict=True)
    ]

    n, n_features = sum(lengths), expander.n_features_out
    n_column_blocks = min(n_features, -(-n * n_features // _BLOCK_SIZE))
    bounds = np.linspace(0, n_features, n_column_blocks + 1).astype(int).tolist()
    delayed_graph = delayed(graph)
    columns = []
    for first, stop in itertools.pairwise(bounds):
        column_block = slice(first, stop)
        product = delayed(_laplacian_product)(
            delayed_graph, [delayed(_columns)(x, column_block, origin, offset) for x in blocks]
        )
        columns.append(
            reduce_tree(
                sum,
                [
                    delayed(_centred_product)(x, origin, offset, delayed(_rows)(product, piece))
                    for x, piece in zip(blocks, pieces, strict=True)
                ],
            )
        )
    first_row, shift, covariance, products = compute(origin, offset, reduce_tree(sum, scatters), columns)
    A = np.concatenate(products, axis=1) * (2.0 / graph.R)
    mean = first_row + shift
    return GraphMoments(mean, covariance, (A + A.T) / 2, rounding_variance(mean))


def _first_row(rows: FloatArray) -> FloatArray:
    return rows[0].copy()


def _rows(product: FloatArray, piece: slice) -> FloatArray:
    return product[piece]


def _weighted_sum(rows: FloatArray, origin: FloatArray, v: FloatArray) -> FloatArray:
    total: FloatArray = v @ (rows - origin)
    return total


def _weighted_scatter(rows: FloatArray, origin: FloatArray, offset: FloatArray, v: FloatArray) -> FloatArray:
    centred = rows - origin - offset
    centred *= np.sqrt(v)[:, None]
    return centred.T @ centred


def _columns(rows: FloatArray, column_block: slice, origin: FloatArray, offset: FloatArray) -> FloatArray:
    return rows[:, column_block] - origin[column_block] - offset[column_block]


def _laplacian_product(graph: TrainingGraph, blocks: list[FloatArray]) -> FloatArray:
    return graph.laplacian_matmul(np.concatenate(blocks))


def _centred_product(
    rows: FloatArray, origin: FloatArray, offset: FloatArray, product: FloatArray
) -> FloatArray:
    return (rows - origin - offset).T @ product
