"""Layers of networks from the papers, ready for :class:`HierarchicalSFA`."""

from collections.abc import Iterator
from typing import Any

from probsfa._validation import check_count, check_option
from probsfa.expansions import Polynomial, Power
from probsfa.sfa.hierarchical.layers import Layer

__all__ = ["cascade_layers", "escalante_wiskott_layers"]

# Table 1 of the paper: outputs of a node by layer; the last number holds for all further layers.
_TABLE_1 = {"sfa": (13, 20, 35, 60), "igsfa": (13, 20, 35, 60), "pca": (13, 20, 35, 60, 100, 120)}
_FIRST_FIELD = 4  # pixels along each axis
_FIRST_PCA = 13  # principal components kept of the 16 pixels of a first node


def escalante_wiskott_layers(
    image_shape: tuple[int, int] = (128, 128), *, method: str = "sfa", expansion: Any = None
) -> list[Layer]:
    """Return the deep network of Escalante-B. & Wiskott (2013, table 1).

    Nodes of the first layer see 4 x 4 pixels, keep 13 of 16 principal components and expand them; those of
    every further layer see two nodes of the layer below, in turns along the first and the second axis, until
    one node sees the whole image: 11 layers for 128 x 128 pixels. There is no weight sharing.

    Parameters
    ----------
    image_shape : tuple of two int, default=(128, 128)
        Pixels along each axis, multiples of 4. Where a layer has an odd number of nodes along an axis (which
        128 x 128 never has), nodes of the next see three and overlap by one.
    method : {"sfa", "igsfa", "pca"}, default="sfa"
        Slow features; slow features and principal components of what they leave, in the same network; or the
        paper's hierarchical principal components: same structure, no expansion, up to 120 outputs instead of
        60.
    expansion : transformer or None, default=None
        Expansion of all nodes of slow features; the paper's ``Power(0.8)`` when None.

    Returns
    -------
    list of Layer
        From the bottom to the top.

    Raises
    ------
    ValueError
        If the shape is not two multiples of 4, or an expansion is given for principal components.

    See Also
    --------
    cascade_layers : One node after the other.
    HierarchicalSFA : The estimator that is given the layers.

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
    if len(shape) != 2 or not all(n >= _FIRST_FIELD and n % _FIRST_FIELD == 0 for n in shape):
        raise ValueError(f"image_shape must be two multiples of {_FIRST_FIELD}; got {image_shape!r}.")
    if method == "pca" and expansion is not None:
        raise ValueError("expansion is for slow features; principal components are taken without one.")
    outputs = _TABLE_1[method]
    pca = None
    if method != "pca":
        expansion = Power() if expansion is None else expansion
        pca = _FIRST_PCA
    layers = [Layer(outputs[0], field=(4, 4), pca=pca, expansion=expansion, method=method)]
    for field, stride in _merges([n // _FIRST_FIELD for n in shape]):
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
    """Return the levels of Sprekeler's algorithm 1: one node each, over all outputs of the level below.

    With a training graph, which is the same on all levels, each level solves the generalised slow feature
    problem for polynomials of the outputs of the last, and so approaches the Laplacian eigenmap of the graph.

    Parameters
    ----------
    n_levels : int
        Number of levels.
    n_components : int, default=4
        Outputs of every level.
    expansion : transformer or None, default=None
        Of every level; the paper's ``Polynomial(3)`` when None.
    clip : {"range"}, float or None, default="range"
        As in :class:`Layer`.

    Returns
    -------
    list of Layer

    See Also
    --------
    escalante_wiskott_layers : Receptive fields over images.
    HierarchicalSFA : The estimator that is given the layers.

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


def _merges(nodes: list[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield field and stride of layers that halve the two axes in turns until one node is left."""
    axis = 0
    while max(nodes) > 1:
        if nodes[axis] > 1:
            field, stride = [1, 1], [1, 1]
            field[axis] = 2 + nodes[axis] % 2
            stride[axis] = 2
            nodes[axis] //= 2
            yield (field[0], field[1]), (stride[0], stride[1])
        axis = 1 - axis
