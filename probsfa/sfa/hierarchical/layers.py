"""Layers of a network: their parameters, receptive fields, and the layers of published networks."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from probsfa._validation import check_count, check_option
from probsfa.expansions import Polynomial, Power
from probsfa.expansions._base import is_stateless
from probsfa.sfa._shrinkage import check_delta_threshold

__all__ = [
    "Grid",
    "Layer",
    "Stage",
    "cascade_layers",
    "escalante_wiskott_layers",
    "plan_stages",
    "receptive_fields",
]

# ---- receptive fields: the positions of the layer below that are the inputs of each node
#
# The positions of a layer form a grid with one axis (a line) or two (an image), in row-major order. Fields of
# size ``f`` with stride ``s`` give ``(n - f) / s + 1`` nodes along an axis of ``n`` positions. Adjacent
# fields overlap if the stride is smaller than the field. Fields must cover the grid.


Grid = tuple[int, ...]


def receptive_fields(grid: Grid, field: Any, stride: Any, name: str) -> tuple[NDArray[np.intp], Grid]:
    """Return the input positions of every node, and the grid of the nodes.

    Parameters
    ----------
    grid : tuple of int
        Positions along each axis of the layer below.
    field : int, tuple of int or None
        Input positions of a node along each axis; None for all.
    stride : int, tuple of int or None
        Positions from one node to the next; None for the field, without overlap.
    name : str
        Name of the layer in error messages.

    Returns
    -------
    positions : ndarray (n_nodes, n_positions)
        Indices into the flattened grid; nodes, and positions of each node, are in row-major order.
    grid : tuple of int
        Nodes along each axis.

    Raises
    ------
    ValueError
        If a field or stride has the wrong number of axes, does not cover all positions, or is larger than the
        grid.

    Examples
    --------
    >>> positions, grid = receptive_fields((5,), 3, 2, "layers[0]")
    >>> positions.tolist(), grid
    ([[0, 1, 2], [2, 3, 4]], (2,))
    """
    fields = grid if field is None else _per_axis(field, grid, f"{name}.field")
    strides = fields if stride is None else _per_axis(stride, grid, f"{name}.stride")
    for axis, (n, f, s) in enumerate(zip(grid, fields, strides, strict=True)):
        _check_fit(n, f, s, axis, name)
    nodes = tuple((n - f) // s + 1 for n, f, s in zip(grid, fields, strides, strict=True))
    corners = itertools.product(*(range(0, m * s, s) for m, s in zip(nodes, strides, strict=True)))
    offsets = np.array(list(np.ndindex(*fields)), dtype=np.intp)
    positions = [np.ravel_multi_index(tuple((offsets + corner).T), grid) for corner in corners]
    return np.array(positions, dtype=np.intp), nodes


def _per_axis(value: Any, grid: Grid, name: str) -> Grid:
    sizes = value if isinstance(value, (tuple, list)) else (value,) * len(grid)
    if len(sizes) != len(grid) or not all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 1 for n in sizes
    ):
        raise ValueError(
            f"{name} must be a positive integer or {len(grid)} of them, one for each axis of the layer "
            f"below, which has shape {grid}; got {value!r}."
        )
    return tuple(int(n) for n in sizes)


def _check_fit(n: int, f: int, s: int, axis: int, name: str) -> None:
    if f > n:
        raise ValueError(f"{name}.field is {f} on axis {axis}, where the layer below has only {n} positions.")
    if s > f:
        raise ValueError(
            f"{name}.stride is {s} on axis {axis} and its field only {f}, so that some positions are not "
            "covered. Use a stride of at most the field."
        )
    if (n - f) % s:
        raise ValueError(
            f"{name}: fields of {f} with stride {s} leave {(n - f) % s} of the {n} positions on axis {axis} "
            "uncovered. Choose them so that (positions - field) is a multiple of the stride."
        )


# ---- layers, and the linear stages that they consist of


@dataclass(frozen=True)
class Layer:
    """One layer of a hierarchy: nodes of one kind over receptive fields.

    Parameters
    ----------
    n_components : int or None, default=None
        Outputs of every node. None, for the top layer only, is the rank of its inputs.
    field : int, tuple of int or None, default=None
        Number of positions along each axis that are inputs of a node. A position is a node of the layer
        below; for the first layer, it is a position of the input. None is all positions: a single node.
    stride : int, tuple of int or None, default=None
        Positions from one node to the next. None is the field: fields do not overlap.
    expansion : transformer or None, default=None
        Applied to the inputs of each node before its linear step; see :mod:`probsfa.expansions`.
    pca : int or None, default=None
        Number of principal components of the inputs of each node before the expansion. None skips this step.
    method : {"sfa", "igsfa", "pca"}, default="sfa"
        Linear step of the nodes. "sfa": slow features (with a training graph, graph-based SFA). "igsfa": slow
        features below `delta_threshold` and principal components of the residual of the inputs, as in
        :class:`IGSFA`. "pca": principal components only, for comparison.
    share_weights : bool, default=False
        Whether all nodes have the same weights, trained on the inputs of all of them.
    clip : {"range"}, float or None, default=None
        Limits of each output. "range": its smallest and largest training value. A number c: plus and minus c
        standard deviations, which also clips training data. Recommended with polynomials, which diverge
        outside the range of the training data.
    delta_threshold : float, default=1.96
        Threshold of delta values for "igsfa". This method requires an expansion whose first outputs are its
        inputs.

    See Also
    --------
    HierarchicalSFA : The estimator with a list of layers.

    Examples
    --------
    >>> Layer(13, field=(4, 4), pca=13).method
    'sfa'
    """

    n_components: int | None = None
    field: int | tuple[int, ...] | None = None
    stride: int | tuple[int, ...] | None = None
    expansion: Any = None
    pca: int | None = None
    method: str = "sfa"
    share_weights: bool = False
    clip: float | str | None = None
    delta_threshold: float = 1.96


@dataclass(frozen=True, eq=False)
class Stage:
    """Specification of one linear step of a layer; a layer with `pca` has two steps.

    Attributes
    ----------
    layer : int
        Index of its layer.
    positions : ndarray (n_nodes, n_positions)
        Input positions of every node in the stage below.
    grid : tuple of int
        Nodes along each axis.
    n_inputs : int
        Inputs of a node before the expansion.
    n_components, expansion, method, share_weights, clip, delta_threshold
        As in :class:`Layer`.
    """

    layer: int
    positions: NDArray[np.intp]
    grid: Grid
    n_inputs: int
    n_components: int | None
    expansion: Any
    method: str
    share_weights: bool
    clip: float | str | None
    delta_threshold: float = 1.96

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.positions)

    @property
    def name(self) -> str:
        """Name in error messages."""
        return f"layers[{self.layer}]"

    @property
    def stateless(self) -> bool:
        """Whether the expansion requires no fit."""
        return self.expansion is None or is_stateless(self.expansion)


def plan_stages(layers: Any, n_columns: int, input_shape: Any, n_channels: int) -> list[Stage]:
    """Return the linear stages of a hierarchy, from the bottom to the top.

    Parameters
    ----------
    layers : sequence of Layer
        From the bottom to the top.
    n_columns : int
        Columns of the input.
    input_shape : tuple of int or None
        Positions of the input along one or two axes; None for a line.
    n_channels : int
        Columns at every position.

    Raises
    ------
    ValueError
        If a setting of a layer is out of range, its fields do not cover the layer below, or the shape of the
        input does not match the number of columns.
    """
    if isinstance(layers, Layer) or not isinstance(layers, Sequence) or len(layers) == 0:
        raise ValueError(f"layers must be a list of at least one Layer, bottom first; got {layers!r}.")
    grid = _check_shape(input_shape, n_columns, check_count("n_channels", n_channels))
    stages: list[Stage] = []
    for i, layer in enumerate(layers):
        stages += _plan_layer(layer, i, grid, n_channels)
        grid = stages[-1].grid
        if layer.n_components is None and i < len(layers) - 1:
            raise ValueError(f"layers[{i}].n_components is None; only the top layer may omit it.")
        n_channels = layer.n_components or 0
    return stages


def _plan_layer(layer: Layer, index: int, grid: Grid, n_channels: int) -> list[Stage]:
    """Return the one or two linear stages of a layer; `grid` and `n_channels` describe the layer below."""
    name = f"layers[{index}]"
    if not isinstance(layer, Layer):
        raise ValueError(f"{name} must be a Layer; got {layer!r}.")
    check_option(f"{name}.method", layer.method, ("sfa", "igsfa", "pca"))
    _check_clip(layer.clip, f"{name}.clip")
    check_delta_threshold(f"{name}.delta_threshold", layer.delta_threshold)
    if layer.method == "igsfa" and isinstance(layer.clip, (int, float)):
        raise ValueError(
            f'{name}.clip must be "range" or None with method="igsfa", because its outputs have different '
            f"variances; got {layer.clip!r}."
        )
    if layer.expansion is not None and not hasattr(layer.expansion, "transform"):
        raise ValueError(f"{name}.expansion must be a transformer or None; got {layer.expansion!r}.")
    for name_of_option, count in (("n_components", layer.n_components), ("pca", layer.pca)):
        if count is not None:
            check_count(f"{name}.{name_of_option}", count)
    expansion = None if layer.expansion is None else clone(layer.expansion)  # trained nodes store this copy
    positions, nodes = receptive_fields(grid, layer.field, layer.stride, name)
    n_inputs = positions.shape[1] * n_channels
    if layer.method == "igsfa":
        _check_inputs_first(expansion, layer.pca or n_inputs, name)
    last = Stage(
        layer=index,
        positions=positions,
        grid=nodes,
        n_inputs=n_inputs,
        n_components=layer.n_components,
        expansion=expansion,
        method=layer.method,
        share_weights=layer.share_weights,
        clip=layer.clip,
        delta_threshold=layer.delta_threshold,
    )
    if layer.pca is None:
        return [last]
    if layer.pca > n_inputs:
        raise ValueError(f"{name}.pca is {layer.pca}, more than the {n_inputs} inputs of a node.")
    first = Stage(index, positions, nodes, n_inputs, layer.pca, None, "pca", layer.share_weights, None)
    identity_fields = np.arange(len(positions), dtype=np.intp)[:, None]
    main_stage = Stage(
        index, identity_fields, nodes, layer.pca, layer.n_components, expansion, layer.method,
        layer.share_weights, layer.clip, layer.delta_threshold,
    )  # fmt: skip
    return [first, main_stage]


def _check_inputs_first(expansion: Any, n_inputs: int, name: str) -> None:
    """Raise a ValueError unless the first outputs of an expansion are its inputs."""
    if expansion is None:
        return
    inputs = np.linspace(0.5, 2.0, n_inputs)[None]
    if not is_stateless(expansion) or not np.array_equal(expansion.expand(inputs)[:, :n_inputs], inputs):
        raise ValueError(
            f'{name}.expansion must return its inputs as the first outputs with method="igsfa", '
            f"as Power and Polynomial do; got {expansion!r}."
        )


def _check_shape(input_shape: Any, n_columns: int, n_channels: int) -> Grid:
    if input_shape is None:
        grid: Grid = (n_columns // n_channels,)
    else:
        grid = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else (input_shape,)
        if len(grid) not in (1, 2):
            raise ValueError(f"input_shape must have one axis or two; got {input_shape!r}.")
        for n in grid:
            check_count("input_shape", n)
    if math.prod(grid) * n_channels != n_columns:
        raise ValueError(
            f"input_shape={input_shape!r} with n_channels={n_channels} does not fit the {n_columns} columns "
            f"of X: it has {math.prod(grid) * n_channels} values."
        )
    return grid


def _check_clip(clip: Any, name: str) -> None:
    if clip is None or clip == "range":
        return
    if isinstance(clip, (str, bool)) or not isinstance(clip, (int, float)) or not 0 < clip < np.inf:
        raise ValueError(f'{name} must be "range", a positive number or None; got {clip!r}.')


# ---- layers of networks from the papers, ready for :class:`HierarchicalSFA`


# Escalante-B. & Wiskott (2013), table 1: outputs of a node in each layer; the last number applies to all
# further layers.
_PAPER_COMPONENTS = {"sfa": (13, 20, 35, 60), "igsfa": (13, 20, 35, 60), "pca": (13, 20, 35, 60, 100, 120)}
_FIRST_FIELD_SIZE = 4  # pixels along each axis
_N_FIRST_PCA = 13  # principal components of the 16 pixels of a node in the first layer


def escalante_wiskott_layers(
    image_shape: tuple[int, int] = (128, 128), *, method: str = "sfa", expansion: Any = None
) -> list[Layer]:
    """Return the deep network of Escalante-B. & Wiskott (2013, table 1).

    Nodes of the first layer have receptive fields of 4 x 4 pixels and expand 13 of their 16 principal
    components. Nodes of every further layer combine two nodes of the layer below, alternately along the first
    and the second axis, until one node covers the image: 11 layers for 128 x 128 pixels. Weights are not
    shared.

    Parameters
    ----------
    image_shape : tuple of two int, default=(128, 128)
        Pixels along each axis, multiples of 4. If a layer has an odd number of nodes along an axis, nodes of
        the next layer combine three nodes and overlap by one.
    method : {"sfa", "igsfa", "pca"}, default="sfa"
        "sfa": slow features. "igsfa": slow features and principal components of the residual. "pca": the
        hierarchical principal components of the paper, without expansion and with up to 120 outputs instead
        of 60.
    expansion : transformer or None, default=None
        Expansion of the inputs of all nodes; None for ``Power(0.8)``, as in the paper.

    Returns
    -------
    list of Layer
        From the bottom to the top.

    Raises
    ------
    ValueError
        If the shape is not two multiples of 4, or `expansion` is set with principal components.

    See Also
    --------
    cascade_layers : Layers of one node each.
    HierarchicalSFA : The estimator with these layers.

    References
    ----------
    Escalante-B., A. N. & Wiskott, L. (2013). How to solve classification and regression problems on
    high-dimensional data with a supervised extension of slow feature analysis. Journal of Machine Learning
    Research 14, 3683-3719.

    Examples
    --------
    >>> layers = escalante_wiskott_layers((128, 128))
    >>> len(layers), [layer.n_components for layer in layers[:5]]
    (11, [13, 20, 35, 60, 60])
    """
    check_option("method", method, ("sfa", "igsfa", "pca"))
    shape = tuple(image_shape)
    if len(shape) != 2 or not all(n >= _FIRST_FIELD_SIZE and n % _FIRST_FIELD_SIZE == 0 for n in shape):
        raise ValueError(f"image_shape must be two multiples of {_FIRST_FIELD_SIZE}; got {image_shape!r}.")
    if method == "pca" and expansion is not None:
        raise ValueError("expansion is for slow features only; set expansion=None for principal components.")
    outputs = _PAPER_COMPONENTS[method]
    pca = None
    if method != "pca":
        expansion = Power() if expansion is None else expansion
        pca = _N_FIRST_PCA
    layers = [Layer(outputs[0], field=(4, 4), pca=pca, expansion=expansion, method=method)]
    for field, stride in _halving_fields_and_strides([n // _FIRST_FIELD_SIZE for n in shape]):
        n = outputs[min(len(layers), len(outputs) - 1)]
        layers.append(Layer(n, field=field, stride=stride, expansion=expansion, method=method))
    return layers


def cascade_layers(
    n_levels: int,
    n_components: int = 4,
    *,
    expansion: Any = None,
    clip: float | str | None = "range",
) -> list[Layer]:
    """Return the layers of Sprekeler's algorithm 1: one node each, with the previous outputs as inputs.

    With one training graph for all levels, each level solves the generalized slow feature problem for
    polynomials of the outputs of the previous level; the outputs approach the Laplacian eigenmap of the
    graph.

    Parameters
    ----------
    n_levels : int
        Number of levels.
    n_components : int, default=4
        Outputs of every level.
    expansion : transformer or None, default=None
        Expansion of every level; None for ``Polynomial(3)``, as in the paper.
    clip : {"range"}, float or None, default="range"
        As in :class:`Layer`.

    Returns
    -------
    list of Layer

    See Also
    --------
    escalante_wiskott_layers : Layers with receptive fields over images.
    HierarchicalSFA : The estimator with these layers.

    References
    ----------
    Sprekeler, H. (2011). On the relation of slow feature analysis and Laplacian eigenmaps. Neural Computation
    23, 3287-3302, algorithm 1. https://doi.org/10.1162/NECO_a_00214

    Examples
    --------
    >>> [layer.n_components for layer in cascade_layers(4)]
    [4, 4, 4, 4]
    """
    check_count("n_levels", n_levels)
    expansion = Polynomial(3) if expansion is None else expansion
    return [Layer(n_components, expansion=expansion, clip=clip) for _ in range(n_levels)]


def _halving_fields_and_strides(nodes: list[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield field and stride of layers that halve the two axes alternately, until one node remains."""
    axis = 0
    while max(nodes) > 1:
        if nodes[axis] > 1:
            field, stride = [1, 1], [1, 1]
            field[axis] = 2 + nodes[axis] % 2
            stride[axis] = 2
            nodes[axis] //= 2
            yield (field[0], field[1]), (stride[0], stride[1])
        axis = 1 - axis
