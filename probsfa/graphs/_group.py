"""Graphs in which all samples of a group are alike: clustered, serial, mixed, transition."""

from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from probsfa._typing import FloatArray
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs.training_graph import IntArray, TrainingGraph, check_edges

__all__ = ["GroupGraph"]


class GroupGraph(TrainingGraph):
    """Edge and node weights that depend on the groups of the samples only.

    With ``g(n)`` the group of sample n, ``gamma_nn' = edge_weights[g(n), g(n')]``, self-loops included, and
    ``v_n = group_weights[g(n)]``. The Laplacian then takes O(N D) by the means of the groups, although the
    graph may have N^2 edges.

    Parameters
    ----------
    groups : ndarray (N,), int
        Group of every sample, from 0 to S - 1, none of them empty.
    edge_weights : sparse array (S, S)
        Symmetric, not negative.
    group_weights : array-like (S,)
        Weight of every sample of a group, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> graph = GroupGraph(np.array([0, 1, 0]), scipy.sparse.csr_array([[1.0, 0.5], [0.5, 0.0]]), [1, 1])
    >>> graph.laplacian_matmul([1.0, 2.0, 4.0])
    array([-3.5, -0.5,  4. ])
    """

    def __init__(
        self, groups: NDArray[np.intp], edge_weights: scipy.sparse.csr_array, group_weights: ArrayLike
    ) -> None:
        n, n_groups = len(groups), edge_weights.shape[0]
        # Row s holds ones at the members of group s: it sums over groups, and lists their members.
        self._members = scipy.sparse.csr_array(
            (np.ones(n, dtype=np.float64), (groups, np.arange(n))), shape=(n_groups, n)
        )
        self.groups = groups
        self.sizes = np.diff(self._members.indptr).astype(np.float64)
        self.edge_weights = edge_weights.tocsr()
        group_degrees = self.edge_weights @ self.sizes
        super().__init__(np.asarray(group_weights, dtype=np.float64)[groups], group_degrees[groups])

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        joined = self.edge_weights.tocoo().coords
        check_edges(
            float(np.sum(self.sizes[joined[0]] * self.sizes[joined[1]])),
            "edge_weights[groups[n], groups[m]] is the weight of any one",
        )
        return (self._members.T @ self.edge_weights @ self._members).tocsr()

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        labels = connected_components(self.edge_weights, directed=False)[1][self.groups].astype(np.intp)
        alone = self.degrees == 0  # samples of a group without edges are not even joined to each other
        labels[alone] = labels.max() + 1 + np.arange(int(alone.sum()))
        return np.unique(labels, return_inverse=True)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        # Within groups and between their means apart, and what rounding leaves of a mean taken off once
        # more: tight groups far from each other lose no digits.
        means = self._group_means(X)
        flows = self._flows_between
        between = np.asarray(flows.sum(axis=1))[:, None] * means - flows @ means
        product = X - means[self.groups]
        product -= self._group_means(product)[self.groups]
        product *= self.degrees[:, None]
        product += between[self.groups]
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        # Within groups and between their means, as above; within them an error of a mean counts squared.
        means = np.zeros((len(self.sizes), X.n_features), dtype=np.float64)
        for block in X.blocks():
            present, member = np.unique(self.groups[block], return_inverse=True)
            ones, borders = np.ones(len(member), dtype=np.float64), np.arange(len(member) + 1)
            of_group = scipy.sparse.csr_array((ones, member, borders), shape=(len(member), len(present)))
            means[present] += np.asarray(of_group.T @ X.take(block))
        means /= self.sizes[:, None]
        flows = self._flows_between
        between = np.asarray(flows.sum(axis=1))[:, None] * means - flows @ means
        total: FloatArray = (self.sizes[:, None] * means).T @ between
        for block in X.blocks():
            centred = X.take(block)
            centred -= means[self.groups[block]]
            total += centred.T @ (self.degrees[block, None] * centred)
        return total

    def _slowest(self, root: FloatArray, count: int) -> FloatArray | None:
        # Functions of the group, of which there are S; and within each group functions of mean zero, all with
        # the eigenvalue d / v of its samples.
        first = self._members.indices[self._members.indptr[:-1]]
        mass = root[first] ** 2  # of one sample of each group
        flows = scipy.sparse.diags_array(self.sizes) @ self._flows_between
        size = np.sqrt(self.sizes * mass)
        L = scipy.sparse.diags_array(np.asarray(flows.sum(axis=1))) - flows
        of_groups, functions = scipy.linalg.eigh(L.toarray() / size / size[:, None])
        inside = self.degrees[first] / mass
        n_inside = np.minimum(self.sizes.astype(int) - 1, count)
        values = np.concatenate([of_groups, np.repeat(inside, n_inside)])
        taken = np.sort(np.argsort(values, kind="stable")[:count])
        of_groups_taken = taken[taken < len(of_groups)]
        vectors = np.zeros((self.n_vertices, len(taken)), dtype=np.float64)
        vectors[:, : len(of_groups_taken)] = (functions[:, of_groups_taken] / np.sqrt(self.sizes)[:, None])[
            self.groups
        ]
        group_of = np.repeat(np.arange(len(n_inside)), n_inside)[
            taken[len(of_groups_taken) :] - len(of_groups)
        ]
        for place, group in enumerate(group_of.tolist()):
            column = len(of_groups_taken) + place
            nth = 1 + int((group_of[:place] == group).sum())
            members = self._members.indices[self._members.indptr[group] :][: nth + 1]
            vectors[members, column] = np.append(np.ones(nth), -nth) / np.sqrt(nth * (nth + 1))
        return vectors

    def _group_means(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._members @ X) / self.sizes[:, None]

    @cached_property
    def _flows_between(self) -> scipy.sparse.csr_array:
        """Edge weight from one sample of group s to all of group s' (S, S), without s' = s."""
        between = self.edge_weights - scipy.sparse.diags_array(self.edge_weights.diagonal())
        return (between * self.sizes).tocsr()

    @cached_property
    def _group_walk(self) -> SparseWalk:
        return SparseWalk((self.edge_weights * self.sizes).tocsr())

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        # All samples of a group look alike, so the groups walk first, and each visit then picks a member.
        visited = self._group_walk(int(self.groups[start]), n_steps, rng)
        picks = np.floor(rng.random_sample(n_steps) * self.sizes[visited]).astype(np.intp)
        path = self._members.indices[self._members.indptr[visited] + picks].astype(np.intp)
        path[0] = start
        return path
