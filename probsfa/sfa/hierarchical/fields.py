"""Receptive fields: which positions of the layer below every node of a layer looks at.

Positions form a grid with one axis (a line) or two (an image), counted row by row. A field of shape ``f``
moved by strides ``s`` gives ``(n - f) / s + 1`` nodes along an axis of ``n`` positions; strides smaller than
the field make neighbours overlap. Fields must cover the grid exactly, so that no input is lost unseen.
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid", "receptive_fields"]

Grid = tuple[int, ...]


def receptive_fields(grid: Grid, field: Any, stride: Any, name: str) -> tuple[NDArray[np.intp], Grid]:
    """Return the positions every node sees, and the grid that the nodes form.

    Parameters
    ----------
    grid : tuple of int
        Positions along each axis of the layer below.
    field : int, tuple of int or None
        Positions a node sees along each axis; all of them when None.
    stride : int, tuple of int or None
        Positions from one node to the next; the field itself, so without overlap, when None.
    name : str
        How to call the layer in error messages.

    Returns
    -------
    positions : ndarray (n_nodes, n_positions)
        Indices into the flattened grid, nodes and the positions of each counted row by row.
    grid : tuple of int
        Nodes along each axis.

    Raises
    ------
    ValueError
        If a field or stride has the wrong number of axes, leaves positions out, or does not fit.

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
    inside = np.array(list(np.ndindex(*fields)), dtype=np.intp)
    positions = [np.ravel_multi_index(tuple((inside + corner).T), grid) for corner in corners]
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
            f"{name}.stride is {s} on axis {axis} and its field only {f}, so some positions would never be "
            "seen. Give a stride of at most the field."
        )
    if (n - f) % s:
        raise ValueError(
            f"{name}: fields of {f} with stride {s} leave {(n - f) % s} of the {n} positions on axis {axis} "
            "uncovered. Choose them so that (positions - field) is a multiple of the stride."
        )
