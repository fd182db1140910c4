"""What a layer is, and the linear stages that layers are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from probsfa._validation import check_count, check_option
from probsfa.expansions import is_stateless
from probsfa.sfa._thresholds import check_delta_threshold
from probsfa.sfa.hierarchical.fields import Grid, receptive_fields

__all__ = ["Layer", "Stage", "plan_stages"]


@dataclass(frozen=True)
class Layer:
    """One layer of a hierarchy: nodes of one kind over receptive fields.

    Parameters
    ----------
    n_components : int or None, default=None
        Outputs of every node; all that its inputs allow when None.
    field : int, tuple of int or None, default=None
        Positions of the layer below (nodes, or inputs of the first layer) that a node sees along each axis.
        None is all of them: a single node.
    stride : int, tuple of int or None, default=None
        Positions from one node to the next. None is the field, so fields do not overlap.
    expansion : transformer or None, default=None
        Applied to the inputs of each node before its linear step; see :mod:`probsfa.expansions`.
    pca : int or None, default=None
        Principal components of the inputs of each node that are kept before the expansion. None skips this.
    method : {"sfa", "igsfa", "pca"}, default="sfa"
        The linear step of the nodes: slow features (with a training graph, those of graph-based SFA); slow
        features below `delta_threshold` and principal components of what they leave of the inputs of the
        node, as in :class:`IGSFA`; or principal components alone, for comparison.
    share_weights : bool, default=False
        Whether all nodes are one, trained on what all of them see.
    clip : {"range"}, float or None, default=None
        Cut the outputs off at the smallest and largest training value of each, or at so many standard
        deviations. Only the second changes training data. Polynomials need it on unseen data.
    delta_threshold : float, default=1.96
        For "igsfa", whose expansion must return the inputs themselves first.

    See Also
    --------
    HierarchicalSFA : The estimator that is given a list of layers.

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
    """One linear step of all nodes of a layer, ready to be trained.

    Attributes
    ----------
    layer : int
        The layer it belongs to.
    positions : ndarray (n_nodes, n_positions)
        What every node sees of the stage below.
    grid : tuple of int
        Nodes along each axis.
    n_inputs : int
        Inputs of a node before the expansion.
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
        """How to call it in error messages."""
        return f"layers[{self.layer}]"

    @property
    def stateless(self) -> bool:
        """Whether its inputs can be expanded before anything is learned from them."""
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
        Positions of the input along one or two axes; all on a line when None.
    n_channels : int
        Columns at every position.

    Raises
    ------
    ValueError
        If a setting of a layer is out of range, its fields do not cover what is below, or the shape of the
        input is not that of the columns.
    """
    if isinstance(layers, Layer) or not isinstance(layers, Sequence) or len(layers) == 0:
        raise ValueError(f"layers must be a list of at least one Layer, bottom first; got {layers!r}.")
    grid = _check_shape(input_shape, n_columns, check_count("n_channels", n_channels))
    stages: list[Stage] = []
    for i, layer in enumerate(layers):
        stages += _plan_layer(layer, i, grid, n_channels)
        grid = stages[-1].grid
        if layer.n_components is None and i < len(layers) - 1:
            raise ValueError(f"layers[{i}].n_components is missing; only the top layer may leave it open.")
        n_channels = layer.n_components or 0
    return stages


def _plan_layer(layer: Layer, index: int, grid: Grid, n_channels: int) -> list[Stage]:
    """Return the one or two linear stages of a layer above a grid of positions with some channels each."""
    name = f"layers[{index}]"
    if not isinstance(layer, Layer):
        raise ValueError(f"{name} must be a Layer; got {layer!r}.")
    check_option(f"{name}.method", layer.method, ("sfa", "igsfa", "pca"))
    _check_clip(layer.clip, f"{name}.clip")
    check_delta_threshold(f"{name}.delta_threshold", layer.delta_threshold)
    if layer.method == "igsfa" and isinstance(layer.clip, (int, float)):
        raise ValueError(f'{name}.clip must be "range" or None for "igsfa", whose outputs vary differently.')
    if layer.expansion is not None and not hasattr(layer.expansion, "transform"):
        raise ValueError(f"{name}.expansion must be a transformer or None; got {layer.expansion!r}.")
    for word, count in (("n_components", layer.n_components), ("pca", layer.pca)):
        if count is not None:
            check_count(f"{name}.{word}", count)
    expansion = None if layer.expansion is None else clone(layer.expansion)  # the trained nodes keep it
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
    own = np.arange(len(positions), dtype=np.intp)[:, None]
    second = Stage(
        index, own, nodes, layer.pca, layer.n_components, expansion, layer.method, layer.share_weights,
        layer.clip, layer.delta_threshold,
    )  # fmt: skip
    return [first, second]


def _check_inputs_first(expansion: Any, n_inputs: int, name: str) -> None:
    """Raise a ValueError unless an expansion returns its inputs before everything else."""
    if expansion is None:
        return
    inputs = np.linspace(0.5, 2.0, n_inputs)[None]
    if not is_stateless(expansion) or not np.array_equal(expansion.expand(inputs)[:, :n_inputs], inputs):
        raise ValueError(
            f'{name}.expansion must return the inputs themselves first for "igsfa", which reconstructs them, '
            f"as Power and Polynomial do; {expansion!r} does not."
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
            f"of X: it means {math.prod(grid) * n_channels}."
        )
    return grid


def _check_clip(clip: Any, name: str) -> None:
    if clip is None or clip == "range":
        return
    if isinstance(clip, (str, bool)) or not isinstance(clip, (int, float)) or not 0 < clip < np.inf:
        raise ValueError(f'{name} must be "range", a positive number or None; got {clip!r}.')
