"""Graphs of groups of samples: clustered, serial, mixed, and of transitions between states."""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_lengths, check_option
from probsfa.graphs._combined import check_group_weights, check_sample_weight, weighted
from probsfa.graphs._labels import check_classes, label_groups, warn_of_heavy_samples
from probsfa.graphs.moments import CentredRows
from probsfa.graphs.training_graph import IntArray, TrainingGraph, check_number_of_edges

__all__ = ["GroupGraph", "clustered", "mixed", "serial", "transition"]


class GroupGraph(TrainingGraph):
    """A graph whose edge and node weights depend only on the groups of the samples.

    Edge weights are ``gamma_nn' = edge_weights[g(n), g(n')]``, self-loops included, and node weights are
    ``v_n = group_weights[g(n)]``, where ``g(n)`` is the group of sample n. Group means reduce the cost of a
    product with the Laplacian to O(N D), although the graph may have N^2 edges.

    Parameters
    ----------
    groups : ndarray (N,), int
        Group of every sample, from 0 to S - 1. Every group has a sample.
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
        # Row s has ones at the members of group s. Multiplication by this matrix sums over the members.
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
        connected_groups = self.edge_weights.tocoo().coords
        check_number_of_edges(
            float(np.sum(self.sizes[connected_groups[0]] * self.sizes[connected_groups[1]])),
            "edge_weights[groups[n], groups[m]] is the weight of the edge (n, m)",
        )
        return (self._members.T @ self.edge_weights @ self._members).tocsr()

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        labels = connected_components(self.edge_weights, directed=False)[1][self.groups].astype(np.intp)
        isolated = self.degrees == 0  # samples of a group without edges are isolated
        labels[isolated] = labels.max() + 1 + np.arange(int(isolated.sum()))
        return np.unique(labels, return_inverse=True)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        # The Laplacian is applied separately to the group means and to the deviations from them. Means are
        # subtracted twice, because rounding errors of means far from zero may exceed small deviations.
        means = self._group_means(X)
        weights = self._weights_between_groups
        between = np.asarray(weights.sum(axis=1))[:, None] * means - weights @ means
        product = X - means[self.groups]
        product -= self._group_means(product)[self.groups]
        product *= self.degrees[:, None]
        product += between[self.groups]
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        # As in `_laplacian_matmul`, but means are subtracted once: the result contains the squares of their
        # rounding errors, which are negligible.
        means = np.zeros((len(self.sizes), X.n_features), dtype=np.float64)
        for block in X.blocks():
            present, member = np.unique(self.groups[block], return_inverse=True)
            ones, row_starts = np.ones(len(member), dtype=np.float64), np.arange(len(member) + 1)
            membership = scipy.sparse.csr_array((ones, member, row_starts), shape=(len(member), len(present)))
            means[present] += np.asarray(membership.T @ X.take(block))
        means /= self.sizes[:, None]
        weights = self._weights_between_groups
        between = np.asarray(weights.sum(axis=1))[:, None] * means - weights @ means
        total: FloatArray = (self.sizes[:, None] * means).T @ between
        for block in X.blocks():
            centred = X.take(block)
            centred -= means[self.groups[block]]
            total += centred.T @ (self.degrees[block, None] * centred)
        return total

    def _slowest(self, root: FloatArray, count: int) -> FloatArray | None:
        # There are two kinds of eigenvectors: functions that are constant within each group; and functions
        # that are zero outside one group and have mean zero in it. The eigenvalue of the latter is d / v of
        # the samples of this group.
        first_samples = self._members.indices[self._members.indptr[:-1]]
        mass = root[first_samples] ** 2  # of one sample of each group
        weights = scipy.sparse.diags_array(self.sizes) @ self._weights_between_groups
        size = np.sqrt(self.sizes * mass)
        L = scipy.sparse.diags_array(np.asarray(weights.sum(axis=1))) - weights
        group_values, functions = scipy.linalg.eigh(L.toarray() / size / size[:, None])
        within_weights = self.degrees[first_samples] / mass
        n_inside = np.minimum(self.sizes.astype(int) - 1, count)
        values = np.concatenate([group_values, np.repeat(within_weights, n_inside)])
        selected = np.sort(np.argsort(values, kind="stable")[:count])
        selected_groups = selected[selected < len(group_values)]
        vectors = np.zeros((self.n_vertices, len(selected)), dtype=np.float64)
        vectors[:, : len(selected_groups)] = (functions[:, selected_groups] / np.sqrt(self.sizes)[:, None])[
            self.groups
        ]
        vector_groups = np.repeat(np.arange(len(n_inside)), n_inside)[
            selected[len(selected_groups) :] - len(group_values)
        ]
        for rank, group in enumerate(vector_groups.tolist()):
            column = len(selected_groups) + rank
            n_previous = 1 + int((vector_groups[:rank] == group).sum())
            members = self._members.indices[self._members.indptr[group] :][: n_previous + 1]
            vectors[members, column] = np.append(np.ones(n_previous), -n_previous) / np.sqrt(
                n_previous * (n_previous + 1)
            )
        return vectors

    def _group_means(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._members @ X) / self.sizes[:, None]

    @cached_property
    def _weights_between_groups(self) -> scipy.sparse.csr_array:
        """Sums (S, S) of edge weights from a sample of group s to all samples of group s'; 0 for s' = s."""
        between = self.edge_weights - scipy.sparse.diags_array(self.edge_weights.diagonal())
        return (between * self.sizes).tocsr()


# ---- clustered graph: edges between all samples of a class


def clustered(y: Any, weighting: str = "samples", *, sample_weight: Any = None) -> TrainingGraph:
    """Return the graph of classes, on which GSFA equals Fisher's discriminant analysis.

    All pairs of samples of a class have an edge, self-loops included; there are no other edges. The first S -
    1 features separate S classes. The graph is consistent.

    Parameters
    ----------
    y : array-like (N,)
        Classes, numbers or strings.
    weighting : {"samples", "classes"}, default="samples"
        "samples": all samples have equal weight, ``v_n = 1`` and ``gamma_nn' = 1 / N_s`` in a class of N_s
        samples. "classes": all classes have equal weight, ``v_n = 1 / N_s`` and ``gamma_nn' = 1 / N_s^2``.
    sample_weight : array-like (N,), optional
        Sample weights; an integer weight is equivalent to repeating the sample.

    Raises
    ------
    ValueError
        If a label is missing, or there is one class only.

    Warns
    -----
    UserWarning
        If labels are probably quantities, or -1 occurs together with classes numbered from 0. With
        ``weighting="classes"``, if a sample has more than ten times the mean weight.

    See Also
    --------
    serial, mixed : Graphs for numeric labels.
    semi_supervised : Graph for partly labelled samples.

    Notes
    -----
    Escalante-B. & Wiskott (2013), section 4.1 and footnote 2; equivalence to Fisher's discriminant in section
    7.2.

    Examples
    --------
    >>> clustered(["a", "b", "a"]).to_sparse().toarray()
    array([[0.5, 0. , 0.5],
           [0. , 1. , 0. ],
           [0.5, 0. , 0.5]])
    """
    classes = check_classes(y)
    if sample_weight is not None:
        sample_weight = check_sample_weight(sample_weight, len(classes))
    sizes = np.bincount(classes, weights=sample_weight).astype(np.float64)
    check_group_weights(sizes)
    if len(sizes) < 2:
        raise ValueError("y has one class; a graph of classes requires at least two.")
    _warn_of_numbers(np.asarray(y), len(sizes))
    by_classes = check_option("weighting", weighting, ("samples", "classes")) == "classes"
    within_weights = 1.0 / sizes**2 if by_classes else 1.0 / sizes
    weights = 1.0 / sizes if by_classes else np.ones_like(sizes)
    class_graph = GroupGraph(classes, scipy.sparse.diags_array(within_weights).tocsr(), weights)
    graph = weighted(class_graph, sample_weight)
    if by_classes:
        warn_of_heavy_samples(graph, "merge rare classes, or use weighting='samples'.")
    return graph


def _warn_of_numbers(labels: NDArray[Any], n_classes: int) -> None:
    """Warn if labels are probably not meant as classes."""
    kind = labels.dtype.kind
    if kind == "f" and 2 * n_classes > len(labels) and (labels != np.round(labels)).any():
        warnings.warn(
            f"y has {n_classes} different numbers for {len(labels)} samples, and each is treated as a "
            "class. Use serial, mixed or sliding_window for numeric labels.",
            stacklevel=3,
        )
    if kind == "i" and n_classes > 2 and labels.min() == -1 and (labels == 0).any():
        warnings.warn(
            "y has the label -1 beside classes numbered from 0, and it is treated as a class. If it means a "
            "missing label, use semi_supervised(X, y, missing=-1) or the builder SemiSupervised(missing=-1), "
            "or remove these rows.",
            stacklevel=3,
        )


# ---- serial graph: edges between all samples of consecutive groups of labels


#: Advice about groups of few samples.
RARE_LABEL_ADVICE = (
    "use fewer groups (n_groups, balanced=True), or sliding_window, in which all samples have equal weight."
)


def serial(
    y: Any, n_groups: int | None = None, *, balanced: bool = True, sample_weight: Any = None
) -> TrainingGraph:
    """Return the serial graph of numeric labels.

    The sorted labels are divided into at most L groups; equal labels stay together. Every sample has edges to
    all samples of the previous and the next group, but not to samples of its own group. For groups of equal
    size, all edge weights are 1. Node weights are 2, and 1 in the first and the last group, so that the graph
    is consistent: node weights are proportional to the sums of the edge weights at their vertices.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.
    n_groups : int, optional
        L, the maximum number of groups: at least 2, preferably 4 or more. Default ``sqrt(N)``, at most 50.
    balanced : bool, default=True
        Whether groups of less than half of ``N / L`` samples (rare labels) are merged with the smaller
        adjacent group. With False, each distinct label is a group if there are at most L of them, even if few
        samples have this label.
    sample_weight : array-like (N,), optional
        Sample weights; an integer weight is equivalent to repeating the sample.

    Warns
    -----
    UserWarning
        If there are fewer than 4 groups, for which no function of the label is slow; or if a sample has more
        than ten times the mean weight.

    See Also
    --------
    mixed : Graph with additional edges within each group.
    sliding_window : Graph of adjacent samples, without groups.
    clustered : Graph for classes.

    Notes
    -----
    Section 5.3 of Escalante-B. & Wiskott (2013, JMLR 14:3683), which assumes groups of equal size. Labels are
    grouped by their midranks, so that groups do not depend on the order of the rows. For groups of unequal
    sizes ``N_l`` with mean ``M``, node weights are divided by ``N_l / M`` and edge weights by ``N_l N_l' /
    M^2``. Groups then have equal weight, and the graph is consistent.

    Examples
    --------
    >>> graph = serial([1, 2, 3, 4, 5, 6, 7, 8], n_groups=4)
    >>> graph.to_sparse().toarray().astype(int)
    array([[0, 0, 1, 1, 0, 0, 0, 0],
           [0, 0, 1, 1, 0, 0, 0, 0],
           [1, 1, 0, 0, 1, 1, 0, 0],
           [1, 1, 0, 0, 1, 1, 0, 0],
           [0, 0, 1, 1, 0, 0, 1, 1],
           [0, 0, 1, 1, 0, 0, 1, 1],
           [0, 0, 0, 0, 1, 1, 0, 0],
           [0, 0, 0, 0, 1, 1, 0, 0]])
    >>> graph.node_weights
    array([1., 1., 2., 2., 2., 2., 1., 1.])
    """
    groups = label_groups(y, n_groups, balanced=balanced, sample_weight=sample_weight)
    sizes = np.bincount(groups, weights=sample_weight)
    sizes = sizes / (sizes.sum() / len(sizes))
    group_weights = np.full(len(sizes), 2.0, dtype=np.float64)
    group_weights[[0, -1]] = 1.0
    graph = weighted(GroupGraph(groups, adjacent_group_edges(sizes), group_weights / sizes), sample_weight)
    warn_of_heavy_samples(graph, RARE_LABEL_ADVICE)
    if len(sizes) < 4:
        warnings.warn(
            f"The serial graph of {len(sizes)} groups has no slow features: every function of the group has "
            "a delta value of at least 2, the value of noise. Use 4 groups or more; for few distinct labels "
            "use mixed or clustered.",
            stacklevel=2,
        )
    return graph


def adjacent_group_edges(sizes: np.ndarray) -> scipy.sparse.csr_array:
    """Return edge weights between adjacent groups of the given relative sizes."""
    between_weights = 1.0 / (sizes[:-1] * sizes[1:])
    return scipy.sparse.diags_array([between_weights, between_weights], offsets=[1, -1]).tocsr()


# ---- mixed graph: the serial graph with edges within groups


def mixed(
    y: Any, n_groups: int | None = None, *, balanced: bool = True, sample_weight: Any = None
) -> TrainingGraph:
    """Return the mixed graph of numeric labels, a combination of serial and clustered.

    The sorted labels are divided into at most L groups; equal labels stay together. Every sample has edges to
    all samples of its group and of the previous and the next group. For groups of equal size, all node and
    edge weights are 1, except for edges within the first and the last group, which have weight 2, so that the
    graph is consistent.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.
    n_groups : int, optional
        L, at least 2. Default ``sqrt(N)``, at most 50.
    balanced : bool, default=True
        Whether groups of less than half of ``N / L`` samples (rare labels) are merged with the smaller
        adjacent group. With False, each distinct label is a group if there are at most L of them, even if few
        samples have this label.
    sample_weight : array-like (N,), optional
        Sample weights; an integer weight is equivalent to repeating the sample.

    Warns
    -----
    UserWarning
        If a sample has more than ten times the mean weight.

    See Also
    --------
    serial : Graph without edges within groups.
    sliding_window : Graph of adjacent samples, without groups.
    clustered : Graph for classes.

    Notes
    -----
    Escalante-B. & Wiskott (2013), section 5.4. For groups of unequal size, node and edge weights are divided
    as in :func:`serial`.

    Examples
    --------
    >>> mixed([1, 2, 3, 4, 5, 6], n_groups=3).to_sparse().toarray().astype(int)
    array([[2, 2, 1, 1, 0, 0],
           [2, 2, 1, 1, 0, 0],
           [1, 1, 1, 1, 1, 1],
           [1, 1, 1, 1, 1, 1],
           [0, 0, 1, 1, 2, 2],
           [0, 0, 1, 1, 2, 2]])
    """
    groups = label_groups(y, n_groups, balanced=balanced, sample_weight=sample_weight)
    sizes = np.bincount(groups, weights=sample_weight)
    sizes = sizes / (sizes.sum() / len(sizes))
    within_weights = np.ones(len(sizes), dtype=np.float64)
    within_weights[[0, -1]] = 2.0
    edges = adjacent_group_edges(sizes) + scipy.sparse.diags_array(within_weights / sizes**2)
    graph = weighted(GroupGraph(groups, edges.tocsr(), 1.0 / sizes), sample_weight)
    warn_of_heavy_samples(graph, RARE_LABEL_ADVICE)
    return graph


# ---- transition graph: edges between discrete states by the frequency of transitions


def transition(states: Any, lag: int = 1, lengths: Any = None) -> GroupGraph:
    """Return the graph of a sequence of discrete states, weighted by transition probabilities.

    Every time step is a vertex of weight 1. The edge between two time steps in the states s and s' has weight
    ``p(s, s') / (p(s) p(s'))``, where p(s) is the fraction of time in s and p(s, s') the fraction of
    transitions from s to s' or back. For functions of the state, the moments of the graph equal those of
    :class:`probsfa.SFA`, so that Laplacian eigenmaps of these weights are slow feature analysis.

    Parameters
    ----------
    states : array-like (N,)
        State at every time step, numbers or strings.
    lag : int, default=1
        Number of time steps of a transition.
    lengths : array-like of int, optional
        Time steps of every sequence. There are no transitions from one sequence to the next.

    Raises
    ------
    ValueError
        If there is no transition.

    See Also
    --------
    temporal : Graph for continuous data.

    Notes
    -----
    Sprekeler (2011), Neural Computation 23:3287, eq. 4.3. p(s, s') is symmetrized because the objective, eq.
    4.1, does not depend on the direction of a transition.

    Examples
    --------
    >>> transition(["a", "b", "b", "b"]).to_sparse().toarray()[0].round(3)
    array([0.   , 0.889, 0.889, 0.889])
    """
    state_numbers = check_classes(states)
    n, lag = len(state_numbers), check_count("lag", lag)
    sizes = check_lengths(lengths, n)
    sequence = np.repeat(np.arange(len(sizes)), sizes)
    is_transition = sequence[lag:] == sequence[:-lag]
    if not is_transition.any():
        raise ValueError(
            f"No sequence has two states {lag} apart (lag={lag}); the longest has {max(sizes)}. Use longer "
            "sequences or a smaller lag."
        )
    previous_states, next_states = state_numbers[:-lag][is_transition], state_numbers[lag:][is_transition]
    n_states = int(state_numbers.max()) + 1
    steps = np.full(len(previous_states), 0.5 / len(previous_states), dtype=np.float64)
    forward_frequencies = scipy.sparse.csr_array(
        (steps, (previous_states, next_states)), shape=(n_states, n_states)
    )
    inverse_frequencies = scipy.sparse.diags_array(n / np.bincount(state_numbers))
    return GroupGraph(
        state_numbers,
        (inverse_frequencies @ (forward_frequencies + forward_frequencies.T) @ inverse_frequencies).tocsr(),
        np.ones(n_states),
    )
