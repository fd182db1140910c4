"""Gaussian distributions of a state, and the transition that leads from one state to the next.

Every recursion of the engine is written in these two: the recursions only ask a transition to move states, to
predict, and for what a known next state means for this one. The state is made of independent blocks of one,
two or three states. How the blocks of a kind of process follow from its parameters is known to that kind
alone (:mod:`probsfa.statespace.processes`); here are their algebra, the moments of successive states that the
likelihood of transitions is made of, and its derivative.

AR(1) processes of unit variance come first, one state each; then follow groups of blocks of equal size, the
smaller ones first. Before its first row each state has unit variance, and no covariance with others.

Arrays are those of one state, with mean (K,) and covariance (K, K); or those of a batch of states, with the
batch along a last axis: mean (K, S) and covariance (K, K, S).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.engine.symmetric import triangle
from probsfa.statespace.parameters import Parameters

if TYPE_CHECKING:
    from jax import Array

AnyArray: TypeAlias = "Array | FloatArray"


class Gaussian(NamedTuple):
    """Gaussian distribution of a state: ``mean`` (K,) and ``covariance`` (K, K), or a batch of them."""

    mean: Array
    covariance: Array


def _library(array: Any) -> Any:
    """Return the array library of an array: NumPy or ``jax.numpy``."""
    return array.__array_namespace__()


def _over_rest(entry: Any, like: Any) -> Any:
    """Numbers of blocks (P,), or of a batch of them (P, S), ready to multiply states (P, S) or (P, J, S)."""
    return entry[:, None] if like.ndim > entry.ndim else entry


class Blocks(NamedTuple):
    """A matrix (K, K) of blocks along its diagonal, or a batch of them.

    Attributes
    ----------
    diagonal : Array of shape (K_1,) or (K_1, S)
        Diagonal of the states of their own, which come first.
    groups : tuple of Array of shape (P, B, B) or (P, B, B, S)
        Blocks of equal size, group after group.
    """

    diagonal: Any
    groups: tuple[Any, ...] = ()

    @property
    def n_states(self) -> int:
        """Number of rows and columns."""
        return int(self.diagonal.shape[0] + sum(group.shape[0] * group.shape[1] for group in self.groups))

    def times(self, states: Any) -> Any:
        """Product with a state, or with a matrix of several."""
        n = self.diagonal.shape[0]
        diagonal = self.diagonal[:, None] if states.ndim > self.diagonal.ndim else self.diagonal
        if not self.groups:
            return diagonal * states
        parts = [diagonal * states[:n]]
        for group in self.groups:
            count, size = group.shape[:2]
            of_blocks = states[n : n + count * size].reshape(count, size, *states.shape[1:])
            moved = [
                sum(_over_rest(group[:, i, j], of_blocks[:, j]) * of_blocks[:, j] for j in range(size))
                for i in range(size)
            ]
            stacked = _library(states).stack(moved, axis=1)
            parts.append(stacked.reshape(count * size, *stacked.shape[2:]))
            n += count * size
        return _library(states).concatenate(parts)

    def of_columns(self, matrix: Any) -> Any:
        """Product ``X M`` of a matrix (J, K) with this one, or of a batch of them."""
        if not self.groups:
            return self.diagonal[None] * matrix
        return self.transposed().times(matrix.swapaxes(0, 1)).swapaxes(0, 1)

    def transposed(self) -> Blocks:
        """The transposed matrix."""
        return Blocks(self.diagonal, tuple(group.swapaxes(1, 2) for group in self.groups))

    def matrix(self) -> Any:
        """All of it (K, K), or a batch of them."""
        size = self.n_states
        identity = np.eye(size, dtype=self.diagonal.dtype)
        batched = identity.reshape(size, size, *(1,) * (self.diagonal.ndim - 1))
        return self.times(_library(self.diagonal).asarray(batched))


class Group(NamedTuple):
    """Transitions of blocks of equal size, (P, B, B) for one row.

    ``Q`` is not computed from ``A``: for slow processes ``1 - A A'`` would be left without a digit, and that
    of a process that is not stationary is another.

    Attributes
    ----------
    matrix : Array of shape (P, B, B), (P, B, B, S) for a batch, or (T, P, B, B) for many rows
        ``A`` of each block.
    innovation : Array of the same shape
        ``Q`` of each block.
    """

    matrix: Any
    innovation: Any


class Terms(NamedTuple):
    """Entries of a matrix of moments that sums over transitions need: the diagonal, and blocks as a whole."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]


@cache
def entries(sizes: tuple[int, ...]) -> Terms:
    """Entries that are needed, of each block all of them row after row, for blocks of such sizes.

    Examples
    --------
    >>> entries((1, 2)).rows.tolist(), entries((1, 2)).columns.tolist()
    ([0, 1, 1, 2, 2], [0, 1, 2, 1, 2])
    """
    firsts = np.cumsum((0, *sizes))
    blocks = [
        first + np.indices((size, size)).reshape(2, -1) for first, size in zip(firsts, sizes, strict=False)
    ]
    rows, columns = np.concatenate(blocks, axis=1) if blocks else np.zeros((2, 0))
    return Terms(rows.astype(np.int32), columns.astype(np.int32))


class Transition(NamedTuple):
    """From one state to the next: ``z' = A z + e`` with ``Cov e = Q``.

    Where ``A`` is zero and ``Q`` the identity, a new sequence starts. All methods take arrays of NumPy or of
    JAX, and a last axis for a batch of states where ``decay`` has one.

    Attributes
    ----------
    decay : Array of shape (K_1,), (K_1, S) for a batch, or (T, K_1) for the transitions of many rows
        ``A`` of AR(1) processes, with ``Q = 1 - a^2``. The methods are for one row or for a batch; loops over
        rows take them one by one.
    groups : tuple of Group
        Those of all other blocks.
    """

    decay: Array
    groups: tuple[Group, ...] = ()

    @property
    def matrix(self) -> Blocks:
        """``A``."""
        return Blocks(self.decay, tuple(group.matrix for group in self.groups))

    @property
    def innovation(self) -> Blocks:
        """``Q``."""
        return Blocks(self.innovation_variance, tuple(group.innovation for group in self.groups))

    def _entries(self) -> Terms:
        """Which moments of successive states sums over transitions need."""
        sizes = [size for group in self.groups for size in [group.matrix.shape[1]] * group.matrix.shape[0]]
        return entries((*(1,) * self.decay.shape[0], *sizes))

    # ------------------------------------------------------------------ transitions of many rows

    @property
    def n_rows(self) -> int:
        """Number of transitions, where there is one for each row."""
        return int(self.decay.shape[0])

    def map(self, function: Callable[[Any], Any]) -> Transition:
        """The same function of each array, which leaves alone all axes but the first or the last."""
        groups = tuple(Group(*map(function, group)) for group in self.groups)
        return Transition(function(self.decay), groups)

    def _with(self, function: Callable[[Any, Any], Any], other: Transition) -> Transition:
        """The same function of each array and that of another transition."""
        both = zip(self.groups, other.groups, strict=True)
        groups = tuple(Group(*map(function, one, another)) for one, another in both)
        return Transition(function(self.decay, other.decay), groups)

    def at(self, index: Any) -> Transition:
        """The transition of a row, or those of several."""
        return self.map(lambda rows: rows[index])

    def kept_where(self, condition: Array) -> Transition:
        """The same transitions where a condition (T,) holds, and elsewhere the one that starts a sequence."""
        where = _library(condition).where

        def either(one: Any, start: Any) -> Any:
            extra = one.ndim - self.decay.ndim
            return where(condition.reshape(-1, *(1,) * (1 + extra)), one, start)

        return self._with(either, self.starting())

    def followed_by(self, after: Transition) -> Transition:
        """The transitions from each row to the next: those that lead to the rows, moved on by one."""
        join = _library(self.decay).concatenate
        return self._with(lambda rows, last: join([rows[1:], last[None]]), after)

    def with_first(self, first: Transition) -> Transition:
        """Another transition to the first row; NumPy arrays, outside compiled programs."""
        return self._with(lambda rows, one: np.concatenate([one[None], rows[1:]]), first)

    def preceded_by(self, first: Transition) -> Transition:
        """One more transition before all others; NumPy arrays."""
        return self._with(lambda rows, one: np.concatenate([one[None], rows]), first)

    def starting(self) -> Transition:
        """The transition that starts a sequence, in the place of one or of each row: ``A = 0``, ``Q = I``."""
        zero = self.map(lambda rows: _library(rows).zeros_like(rows))
        groups = tuple(
            Group(group.matrix, group.innovation + np.eye(group.matrix.shape[-1])) for group in zero.groups
        )
        return Transition(zero.decay, groups)

    def as_batch(self) -> Transition:
        """The transitions of many rows as a batch of states."""
        return self.map(lambda rows: _library(rows).moveaxis(rows, 0, -1))

    # ------------------------------------------------------------------ one transition, or a batch

    @property
    def innovation_variance(self) -> Array:
        """``Q`` of AR(1) processes, without the cancellation of ``1 - a^2`` for slow ones."""
        return (1.0 - self.decay) * (1.0 + self.decay)

    def move(self, states: AnyArray) -> Array:
        """``A x``, for a state ``x`` or a matrix (K, J) of several."""
        return self.matrix.times(states)

    def move_back(self, states: Array) -> Array:
        """``A' x``: what a score about the next state means for this one."""
        return self.matrix.transposed().times(states)

    def innovation_covariance(self) -> Any:
        """``Q`` (K, K), or a batch of them."""
        return self.innovation.matrix()

    def least_innovation(self) -> float:
        """Smallest eigenvalue of ``Q``, which is that of a block; NumPy arrays of one row."""
        of_groups = (float(np.min(np.linalg.eigvalsh(group.innovation))) for group in self.groups)
        alone = (float(np.min(self.innovation_variance)),) if self.decay.shape[0] else ()
        return min((*alone, *of_groups))

    def innovation_root(self) -> Blocks:
        """Upper triangle ``N`` with ``Q = N' N``."""
        roots = tuple(_as_blocks(_root(group.innovation)) for group in self.groups)
        return Blocks(_library(self.decay).sqrt(self.innovation_variance), roots)

    def in_information_form(self) -> Precisions:
        """What precisions of states need of it: divisions are made here, once."""
        inverses = tuple(_inverse(group.innovation) for group in self.groups)
        weight = self.decay / self.innovation_variance
        weights, known = [], []
        for group, inverse in zip(self.groups, inverses, strict=True):
            weights.append(_product(group.matrix.swapaxes(1, 2), inverse))
            known.append(_product(weights[-1], group.matrix))
        return Precisions(
            Blocks(weight, tuple(weights)),
            Blocks(self.decay * weight, tuple(known)),
            Blocks(1.0 / self.innovation_variance, inverses),
        )

    def innovation_log_det(self) -> Array:
        """``log|Q|``, or those of a batch."""
        log = _library(self.decay).log
        total = log(self.innovation_variance).sum(axis=0)
        for group in self.groups:
            root = _root(group.innovation)
            for i in range(len(root)):
                total = total + 2.0 * log(root[i][i]).sum(axis=0)
        return total

    def move_covariance(self, covariance: Array) -> Array:
        """``A P A'``."""
        return self.matrix.transposed().of_columns(self.matrix.times(covariance))

    def move_information_back(self, information: Array) -> Array:
        """``A' N A``: what information about the next state is about this one, the innovation left aside."""
        return self.matrix.of_columns(self.matrix.transposed().times(information))

    def predict_covariance(self, covariance: Array) -> Array:
        """``A P A' + Q``."""
        return self.move_covariance(covariance) + self.innovation_covariance()

    def predict(self, state: Gaussian) -> Gaussian:
        """Distribution of the next state."""
        return Gaussian(self.move(state.mean), self.predict_covariance(state.covariance))

    def information_rows(self, rows: Array) -> Array:
        """``X A' Q^-1 A`` for a matrix (J, K), or a batch of them."""
        return self.in_information_form().known.of_columns(rows)

    def gain(self, covariance: Array) -> Array:
        """``S A' Q^-1``, by which a state of covariance ``S`` given the next one follows that one."""
        return self.in_information_form().weights.of_columns(covariance)

    def gain_transposed(self, covariance: Array) -> Array:
        """``Q^-1 A S``."""
        return self.in_information_form().weights.transposed().times(covariance)

    # ------------------------------------------------------------------ moments of successive states

    def lag_terms(self, lag_one: Array) -> Array:
        """What sums over transitions need of ``Cov(z', z)`` (K, K), or of a batch: the :func:`entries`."""
        rows, columns = self._entries()
        if lag_one.ndim == 2:
            return lag_one[rows, columns]
        return _library(lag_one).stack([lag_one[i, j] for i, j in zip(rows, columns, strict=True)])

    def lag_terms_of_product(self, left: Array, right: Array) -> Array:
        """The same of the products ``left right`` (K, K, S)."""
        rows, columns = self._entries()
        return _library(left).einsum("ljs,jls->ls", left[rows], right[:, columns])

    def covariance_terms(self, packed: Array) -> Array:
        """What sums over transitions need of the covariance of a state, or of a batch: the :func:`entries`.

        ``packed``, (K (K + 1) / 2,) or (K (K + 1) / 2, S), has the upper triangles.
        """
        size = self.matrix.n_states
        rows, columns = self._entries()
        return packed[triangle(size).places[rows * size + columns]]

    def terms_of_means(self, innovations: AnyArray, earlier: AnyArray) -> TransitionTerms:
        """Terms of states that are certain: ``innovations``, ``z' - A z``, and the earlier states ``z``."""
        rows, columns = self._entries()
        return TransitionTerms(
            innovations[rows] * innovations[columns],
            innovations[rows] * earlier[columns],
            earlier[rows] * earlier[columns],
        )

    def with_covariances(
        self, terms: TransitionTerms, later: AnyArray, earlier: AnyArray, lag_one: AnyArray
    ) -> TransitionTerms:
        """Terms of the means, or sums of them, with the share of the states' covariances.

        ``later`` and ``earlier`` are the :meth:`covariance_terms` of the two states, ``lag_one`` the
        :meth:`lag_terms` of the covariance between them.
        """
        decay, n = self.decay, self.decay.shape[0]
        power, moments, previous = (x[:n] for x in terms)
        lagged, before = lag_one[:n], earlier[:n]
        parts = [
            TransitionTerms(
                power + later[:n] - decay * (2.0 * lagged - decay * before),
                moments + lagged - decay * before,
                previous + before,
            )
        ]
        shapes = [group.matrix.shape[:2] for group in self.groups]
        for group, own in zip(self.groups, block_slices(n, shapes), strict=True):
            matrix = group.matrix
            now, before, lagged = (x[own].reshape(matrix.shape) for x in (later, earlier, lag_one))
            # E[(z' - A z) z'] and E[(z' - A z) (z' - A z)'], of which the latter is symmetric.
            gained = lagged - _product(matrix, before)
            spread = now - _product(matrix, lagged.swapaxes(1, 2)) - _product(gained, matrix.swapaxes(1, 2))
            parts.append(
                TransitionTerms(
                    *(
                        x[own] + y.reshape(x[own].shape)
                        for x, y in zip(terms, (spread, gained, before), strict=True)
                    )
                )
            )
        return TransitionTerms(*(_library(x[0]).concatenate(x) for x in map(list, zip(*parts, strict=True))))


class Precisions(NamedTuple):
    """A transition as precisions of states need it, or a batch of them; see :class:`Transition`.

    Attributes
    ----------
    weights : Blocks
        ``A' Q^-1``.
    known : Blocks
        ``A' Q^-1 A``, the precision that a known next state adds to this one.
    innovation : Blocks
        ``Q^-1``.
    """

    weights: Blocks
    known: Blocks
    innovation: Blocks


def block_slices(n_alone: int, shapes: Iterable[tuple[int, int]]) -> Iterator[slice]:
    """Terms of each group along the axis of :class:`TransitionTerms`, for counts and sizes of blocks."""
    first = n_alone
    for count, size in shapes:
        yield slice(first, first + count * size**2)
        first += count * size**2


Triangle = list[list[Any]]


def _root(matrices: Any) -> Triangle:
    """Upper triangle ``N`` of matrices (P, B, B) or a batch of them, by its entries."""
    xp, size = _library(matrices), matrices.shape[1]
    zero = xp.zeros_like(matrices[:, 0, 0])
    root: Triangle = [[zero] * size for _ in range(size)]
    for i in range(size):
        left = matrices[:, i, i] - sum((root[k][i] ** 2 for k in range(i)), zero)
        root[i][i] = xp.sqrt(xp.maximum(left, 0.0))
        there = root[i][i] > 0.0
        pivot = xp.where(there, root[i][i], 1.0)
        for j in range(i + 1, size):
            other = matrices[:, i, j] - sum((root[k][i] * root[k][j] for k in range(i)), zero)
            root[i][j] = xp.where(there, other / pivot, 0.0)
    return root


def _as_blocks(rows: Triangle) -> Any:
    """Entries (P,), or a batch of them, as matrices (P, B, B)."""
    xp = _library(rows[0][0])
    return xp.stack([xp.stack(row, axis=1) for row in rows], axis=1)


def _inverse(matrices: Any) -> Any:
    """Inverses of symmetric matrices (P, B, B), or of a batch of them."""
    root, size = _root(matrices), matrices.shape[1]
    zero = root[0][0] * 0.0
    inverse: Triangle = [[zero] * size for _ in range(size)]  # of the root, an upper triangle too
    for j in range(size):
        inverse[j][j] = 1.0 / root[j][j]
        for i in range(j - 1, -1, -1):
            inverse[i][j] = -sum((root[i][k] * inverse[k][j] for k in range(i + 1, j + 1)), zero) / root[i][i]
    entries_of = [
        [sum((inverse[i][k] * inverse[j][k] for k in range(max(i, j), size)), zero) for j in range(size)]
        for i in range(size)
    ]
    return _as_blocks(entries_of)


def _product(left: Any, right: Any) -> Any:
    """Products of matrices (P, B, B), or of batches of them."""
    return sum(left[:, :, j, None] * right[:, j, None] for j in range(left.shape[1]))


class TransitionTerms(NamedTuple):
    """Expected moments of successive states ``z``, ``z'``, of which the likelihood of transitions is made.

    Of the matrices of moments those :func:`entries` that are within a block, ``L`` of them.

    Attributes
    ----------
    innovation_power : Array of shape (L, T)
        ``E[(z' - A z) (z' - A z)']``; of an AR(1) process ``E[(z' - a z)^2]``.
    innovation_moments : Array of shape (L, T)
        ``E[(z' - A z) z']``.
    previous_power : Array of shape (L, T)
        ``E[z z']``.
    """

    innovation_power: Any
    innovation_moments: Any
    previous_power: Any


class Moments(NamedTuple):
    """Means (K, T) of a batch of states and their :meth:`Transition.covariance_terms`."""

    means: Array
    covariances: Array


def expected_terms(steps: Transition, earlier: Moments, later: Moments, lag_one: Array) -> TransitionTerms:
    """Terms of transitions, one for each of a batch.

    Parameters
    ----------
    steps : Transition
        From each state to the next in the order of the rows, (K, T).
    earlier, later : Moments
        Of each state, and of the next.
    lag_one : Array
        What :meth:`Transition.lag_terms` gives of the covariances of the next state with this one.
    """
    innovations = later.means - steps.move(earlier.means)
    terms = steps.terms_of_means(innovations, earlier.means)
    return steps.with_covariances(terms, later.covariances, earlier.covariances, lag_one)


def transition_score(
    over: Transition, counts: AnyArray, innovation_power: AnyArray, innovation_moments: AnyArray
) -> Transition:
    """Derivative of the expected log density of transitions of AR(1) processes by their decays.

    Parameters
    ----------
    over : Transition
        Transitions over each of ``U`` gaps, without groups.
    counts : Array of shape (U,)
        Number of transitions over each.
    innovation_power, innovation_moments : Array of shape (U, K)
        Sums of the terms of these names over them.

    Returns
    -------
    Transition
        The derivatives in the place of the entries.
    """
    decay, innovation = over.decay, over.innovation_variance
    slope: Any = counts[:, None] * decay + innovation_moments - decay * innovation_power / innovation
    return Transition(slope / innovation)


def transition_over(params: Parameters, gaps: FloatArray) -> Transition:
    """Transitions over each of ``gaps`` (U,), as NumPy arrays (U, K).

    Over one step the decay is that of the parameters, which may be negative; an Ornstein-Uhlenbeck process
    seen at uneven times has positive ones.

    Raises
    ------
    ValueError
        If a decay is negative and a gap is not a whole number of steps.
    """
    decay: Any = params.decay
    if np.any(decay < 0.0) and np.any(gaps != np.rint(gaps)):
        raise ValueError(
            "times are uneven, or fall between the steps of the model, and the decay of latent "
            f"{int(np.argmin(decay))} is negative ({decay.min():.4g}): a process that alternates from step "
            "to step has no value between steps. Fit the model with uneven times, or to rows as close as "
            "these, or give rows at whole steps."
        )
    alone: Any
    if np.all(gaps == 1.0):
        alone = np.broadcast_to(decay, (gaps.shape[0], decay.shape[0]))
    else:
        alone = decay ** gaps[:, None]
    by_size: dict[int, list[tuple[FloatArray, FloatArray]]] = {}
    for process in params.processes:
        by_size.setdefault(process.n_states, []).append(process.transitions(gaps))
    groups = tuple(
        Group(*(np.concatenate(x, axis=1) for x in zip(*by_size[size], strict=True)))
        for size in sorted(by_size)
    )
    return Transition(alone, groups)


def transition_table(params: Parameters, gaps: FloatArray) -> Transition:
    """Transitions over each of ``gaps`` (U,), and last the one that starts a sequence: (U + 1, K)."""
    over = transition_over(params, gaps)
    return over._with(lambda rows, start: np.concatenate([rows, start[:1]]), over.starting())


def simulate_latents(params: Parameters, n_steps: int, rng: np.random.Generator) -> FloatArray:
    """Draw latent states, evenly sampled: shape (n_steps, K).

    Stationary processes start from their stationary distribution, others from zero.
    """
    from scipy.signal import lfilter  # takes long to load

    decay = params.decay
    shocks = rng.standard_normal((n_steps, decay.shape[0]))
    shocks[1:] *= np.sqrt((1.0 - decay) * (1.0 + decay))
    states = [lfilter([1.0], [1.0, -a], shocks[:, k]) for k, a in enumerate(decay)]
    for process in params.processes:
        (matrix,), (innovation,) = process.transitions(np.ones(1))
        roots = np.moveaxis(np.asarray(_as_blocks(_root(innovation))), 1, 2)
        normals = rng.standard_normal((n_steps, *matrix.shape[:2]))
        drawn = np.empty_like(normals)
        drawn[0] = normals[0] if process.stationary else 0.0
        for t in range(1, n_steps):
            drawn[t] = np.einsum("pij,pj->pi", matrix, drawn[t - 1]) + np.einsum(
                "pij,pj->pi", roots, normals[t]
            )
        states.append(drawn.reshape(n_steps, -1))
    return np.column_stack(states)
