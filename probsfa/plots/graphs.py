"""Figures of embeddings and of training graphs; public through :mod:`probsfa.plots`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array
from probsfa.plots.arguments import vector
from probsfa.plots.style import BLUE, GREY, ORANGE, PALETTE, axes_or_new, format_axes
from probsfa.sfa.spectral.clustering import eigengap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from probsfa.graphs import TrainingGraph

__all__ = ["plot_eigengap", "plot_embedding", "plot_graph"]

_MAX_VERTICES = 2000  # more vertices could not be distinguished
_MAX_EDGE_WIDTH, _MAX_VERTEX = 2.0, 60.0  # width in points; area in points squared


def plot_embedding(
    embedding: ArrayLike, labels: ArrayLike | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw the first two coordinates of an embedding, one point for each row.

    Parameters
    ----------
    embedding : array-like (N, K)
        Coordinates, such as ``LaplacianEigenmaps.embedding_`` or slow features; with K = 1 they are plotted
        against the row number.
    labels : array-like (N,) or None, default=None
        Labels, drawn as colours. Up to eight different labels are shown as groups with a legend, more than
        eight different numbers on a continuous scale with a colour bar.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `embedding` is not two-dimensional or is empty, if lengths differ, or if there are more than eight
        different labels that are not numbers.

    See Also
    --------
    plot_graph : The graph of an embedding.

    Examples
    --------
    >>> ax = plot_embedding([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], labels=["a", "b", "b"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['a', 'b']
    """
    points = as_float_array(embedding, "embedding")
    if points.ndim != 2 or 0 in points.shape:
        raise ValueError(
            f"embedding must have shape (N, K) with N and K of at least 1, one row per point; "
            f"got shape {points.shape}."
        )
    is_one_dimensional = points.shape[1] == 1
    x, y = (np.arange(len(points)), points[:, 0]) if is_one_dimensional else points[:, :2].T
    ax = axes_or_new(ax, 5.0, 4.2)
    size = float(np.clip(4000.0 / len(points), 3.0, 20.0))
    if labels is None:
        ax.scatter(x, y, s=size, color=BLUE, linewidths=0)
    else:
        values = np.asarray(labels)
        if values.shape != (len(points),):
            raise ValueError(f"labels must have {len(points)} values, one per row, got shape {values.shape}.")
        _scatter_by_label(ax, x, y, values, size)
    ax.set_xlabel("row" if is_one_dimensional else "coordinate 1")
    ax.set_ylabel("coordinate 1" if is_one_dimensional else "coordinate 2")
    format_axes(ax)
    return ax


def plot_eigengap(
    eigenvalues: ArrayLike, n_clusters: int | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw the first eigenvalues of a graph and the eigengap, which suggests the number of clusters.

    Parameters
    ----------
    eigenvalues : array-like (m,)
        Sorted eigenvalues, such as ``SpectralClustering("eigengap").fit(X).spectrum_``.
    n_clusters : int or None, default=None
        The gap after this number of eigenvalues is marked; by default the largest one
        (:func:`probsfa.sfa.eigengap`).
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If there are fewer than two eigenvalues, they are not sorted, or `n_clusters` is too large.

    See Also
    --------
    plot_embedding : Coordinates of an embedding.

    Examples
    --------
    >>> ax = plot_eigengap([1.0, 0.99, 0.97, 0.4, 0.3])
    >>> ax.get_legend().get_texts()[0].get_text()
    'largest gap: 3 clusters'
    """
    from matplotlib.ticker import MaxNLocator

    values = vector(eigenvalues, "eigenvalues")
    largest = eigengap(values)
    k = largest if n_clusters is None else n_clusters
    if not 1 <= k < len(values):
        raise ValueError(
            f"n_clusters must be from 1 to {len(values) - 1}, one less than the number of eigenvalues; "
            f"got {k}."
        )
    ax = axes_or_new(ax, 5.0, 3.2)
    numbers = np.arange(1, len(values) + 1)
    ax.plot(numbers, values, color=GREY, linewidth=0.8, zorder=1)
    name = f"{'largest ' if k == largest else ''}gap: {k} cluster{'s' if k > 1 else ''}"
    ax.fill_between([0.5, len(values) + 0.5], *values[k - 1 : k + 1], color=ORANGE, alpha=0.2, label=name)
    ax.scatter(numbers[:k], values[:k], s=24, color=BLUE, zorder=2)
    ax.scatter(numbers[k:], values[k:], s=24, facecolor="white", edgecolor=BLUE, zorder=2)
    ax.set_xlim(0.5, len(values) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("number of the eigenvalue")
    ax.set_ylabel("eigenvalue")
    ax.legend(loc="best", frameon=False, fontsize="small")
    format_axes(ax)
    return ax


def plot_graph(
    graph: "TrainingGraph",
    positions: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a small training graph; sizes of vertices and widths of edges are proportional to their weights.

    Parameters
    ----------
    graph : TrainingGraph
        Graph of at most 2,000 vertices. Self-loops are not drawn.
    positions : array-like (N, 2) or None, default=None
        Positions of the vertices, such as two columns of the data or an eigenmap. By default they are on a
        circle in their order, clockwise from the top.
    labels : array-like (N,) or None, default=None
        Labels that are drawn as colours, as in :func:`plot_embedding`.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If the graph is too large, or `positions` and `labels` do not have one entry for each vertex.

    See Also
    --------
    plot_embedding : Points without edges.

    Examples
    --------
    >>> from probsfa.graphs import clustered
    >>> ax = plot_graph(clustered([0, 0, 1, 1, 1]))
    >>> len(ax.collections[0].get_segments())
    4
    """
    from matplotlib.collections import LineCollection

    n = graph.n_vertices
    if n > _MAX_VERTICES:
        raise ValueError(
            f"graph has {n} vertices; at most {_MAX_VERTICES} can be drawn. Draw a subset of the rows."
        )
    vertex_positions = _circle(n) if positions is None else as_float_array(positions, "positions")
    if vertex_positions.shape != (n, 2):
        raise ValueError(
            f"positions must have shape ({n}, 2), one row per vertex, got {vertex_positions.shape}."
        )
    values = None if labels is None else np.asarray(labels)
    if values is not None and values.shape != (n,):
        raise ValueError(f"labels must have {n} values, one per vertex, got shape {values.shape}.")
    ax = axes_or_new(ax, 5.0, 5.0)
    edges = graph.to_sparse().tocoo()
    is_upper = (edges.coords[0] < edges.coords[1]) & (edges.data > 0.0)
    ends = np.stack(
        [vertex_positions[edges.coords[0][is_upper]], vertex_positions[edges.coords[1][is_upper]]], axis=1
    )
    if len(ends):
        relative_weights = edges.data[is_upper] / edges.data[is_upper].max()
        alpha = float(
            np.clip(6.0 * n / len(ends), 0.1, 1.0)
        )  # transparency, so that vertices below many edges are visible
        lines = LineCollection(
            list(ends), linewidths=_MAX_EDGE_WIDTH * relative_weights, colors=GREY, zorder=1
        )
        lines.set_alpha(alpha * relative_weights)
        ax.add_collection(lines)
    size = np.clip(1500.0 / n, 4.0, _MAX_VERTEX) * graph.node_weights / graph.node_weights.max()
    if values is None:
        ax.scatter(vertex_positions[:, 0], vertex_positions[:, 1], s=size, color=BLUE, linewidths=0, zorder=2)
    else:
        _scatter_by_label(ax, vertex_positions[:, 0], vertex_positions[:, 1], values, size)
    if positions is None:
        ax.set_axis_off()
        ax.set_aspect("equal")
    format_axes(ax)
    return ax


def _scatter_by_label(
    ax: "Axes", x: NDArray[Any], y: NDArray[Any], values: NDArray[Any], size: float | NDArray[Any]
) -> None:
    """Draw points with colours by label: groups with a legend, or a continuous scale with a colour bar."""
    kinds, group = np.unique(values, return_inverse=True)
    if len(kinds) > len(PALETTE):
        if values.dtype.kind not in "biuf":
            raise ValueError(
                f"labels have {len(kinds)} different values; at most {len(PALETTE)} colours are "
                "distinguishable. Merge some labels, or use numbers."
            )
        points = ax.scatter(x, y, s=size, c=values.astype(np.float64), cmap="viridis", linewidths=0, zorder=2)
        ax.figure.colorbar(points, ax=ax)
        return
    sizes = np.broadcast_to(np.asarray(size, dtype=np.float64), len(values))
    for k, kind in enumerate(kinds):
        is_member = group == k
        ax.scatter(
            x[is_member],
            y[is_member],
            s=sizes[is_member],
            color=PALETTE[k],
            linewidths=0,
            label=str(kind),
            zorder=2,
        )
    legend = ax.legend(loc="best", frameon=False, fontsize="small")
    for handle in legend.legend_handles:
        handle.set_sizes([25.0])  # type: ignore[union-attr]


def _circle(n: int) -> NDArray[np.float64]:
    angle = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.sin(angle), np.cos(angle)])
