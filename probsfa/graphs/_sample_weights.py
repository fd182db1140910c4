"""Samples that count more or less than the graph says."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["SampleWeightedGraph", "check_masses", "check_sample_weight", "weighted"]


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return sample weights (n,), or raise a ValueError naming them."""
    weights = as_float_array(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number for each of the {n} samples; got shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise ValueError("sample_weight must be finite and not negative, and not zero everywhere.")
    return weights


def check_masses(sizes: NDArray[Any]) -> None:
    """Raise a ValueError where a group of samples has no weight at all."""
    if not (sizes > 0).all():
        raise ValueError(
            "sample_weight is zero for all samples of a class or group; leave out samples that do not count."
        )


def weighted(graph: TrainingGraph, sample_weight: Any) -> TrainingGraph:
    """Return the graph with sample weights, where there are any."""
    return graph if sample_weight is None else SampleWeightedGraph(graph, np.asarray(sample_weight, float))


class SampleWeightedGraph(TrainingGraph):
    """The graph in which sample n stands ``s_n`` times, each copy joined to all that the sample is joined to.

    Node weights are multiplied by ``s_n`` and edge weights by ``s_n s_n'``.

    Parameters
    ----------
    base : TrainingGraph
        Each sample once.
    sample_weight : ndarray (N,)
        s, not negative.
    """

    def __init__(self, base: TrainingGraph, sample_weight: FloatArray) -> None:
        s = sample_weight
        self._product = base._laplacian_matmul(s[:, None])[:, 0]
        degrees = np.maximum(base.degrees * s - self._product, 0.0)  # what rounding leaves where s is 0
        super().__init__(s * base.node_weights, s * degrees)
        self.base = base
        self.sample_weight = s

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        share = scipy.sparse.diags_array(self.sample_weight)
        edges = scipy.sparse.csr_array(share @ self.base.to_sparse() @ share)
        edges.eliminate_zeros()
        return edges

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        if (self.sample_weight > 0).all():
            return self.base.component_labels()
        return connected_components(self.to_sparse(), directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        s = self.sample_weight[:, None]
        X = X - (self.sample_weight / self.sample_weight.sum()) @ X  # constants cancel, and so lose digits
        product = self.base._laplacian_matmul(s * X)
        product -= self._product[:, None] * X
        product *= s
        return product

    @cached_property
    def _walk(self) -> SparseWalk:
        return SparseWalk(self.to_sparse())

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        return self._walk(start, n_steps, rng)
