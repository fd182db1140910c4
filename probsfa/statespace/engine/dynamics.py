"""Gaussian distributions of a state vector, and the transition from one state vector to the next.

All recursions of the engine use :class:`Gaussian` and :class:`Transition`. A transition predicts the next
state vector, and propagates information about it back to the current one. A state vector of dimension ``K``
consists of independent blocks of one, two or three states. The classes of processes
(:mod:`probsfa.statespace.processes`) compute the matrices of the blocks from parameters. This module contains
the algebra of block-diagonal matrices, and the expected moments of successive states, which determine the
score and the M-step of the dynamics.

The state vector begins with the AR(1) processes of unit variance, with one state each. Blocks of two states
follow, then blocks of three; blocks of one size are a group. At the start of a sequence, states are
uncorrelated and have unit variance.

Arrays describe one state vector, with mean (K,) and covariance (K, K), or a batch of ``S`` state vectors
along the last axis, with mean (K, S) and covariance (K, K, S). Arrays of blocks have shape (P, B, B): ``P``
blocks of ``B`` states each. ``z_t`` is the current and ``z_t+1`` the next state vector; ``'`` denotes the
transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.engine.moments import triangle
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.processes import Process

if TYPE_CHECKING:
    from jax import Array

AnyArray: TypeAlias = "Array | FloatArray"


class Gaussian(NamedTuple):
    """Gaussian distribution of a state: ``mean`` (K,) and ``covariance`` (K, K), or a batch of them."""

    mean: Array
    covariance: Array


def _namespace(array: Any) -> Any:
    """Return the namespace of an array: NumPy or ``jax.numpy``."""
    return array.__array_namespace__()


def _broadcast_to_states(entry: Any, like: Any) -> Any:
    """Insert an axis into `entry` (P, ...), so that it can be multiplied with `like` (P, J, ...).

    ``P`` is the number of blocks; `like` has ``J`` numbers for each. Arrays of equal dimension are unchanged.
    """
    return entry[:, None] if like.ndim > entry.ndim else entry


class Blocks(NamedTuple):
    """A block-diagonal matrix (K, K), or a batch of them.

    Attributes
    ----------
    diagonal : Array of shape (K_1,) or (K_1, S)
        Diagonal of the single-state blocks, which are first.
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
        """Return the product with a state, or with a matrix of several states."""
        n = self.diagonal.shape[0]
        diagonal = self.diagonal[:, None] if states.ndim > self.diagonal.ndim else self.diagonal
        if not self.groups:
            return diagonal * states
        parts = [diagonal * states[:n]]
        for group in self.groups:
            count, size = group.shape[:2]
            blocks = states[n : n + count * size].reshape(count, size, *states.shape[1:])
            rows = [
                sum(_broadcast_to_states(group[:, i, j], blocks[:, j]) * blocks[:, j] for j in range(size))
                for i in range(size)
            ]
            product = _namespace(states).stack(rows, axis=1)
            parts.append(product.reshape(count * size, *product.shape[2:]))
            n += count * size
        return _namespace(states).concatenate(parts)

    def times_from_right(self, matrix: Any) -> Any:
        """Return the product ``X M`` of a matrix ``X`` (J, K) and this matrix ``M``, or a batch of them."""
        if not self.groups:
            return self.diagonal[None] * matrix
        return self.transposed().times(matrix.swapaxes(0, 1)).swapaxes(0, 1)

    def transposed(self) -> Blocks:
        """Return the transposed matrix."""
        return Blocks(self.diagonal, tuple(group.swapaxes(1, 2) for group in self.groups))

    def matrix(self) -> Any:
        """Return the dense matrix (K, K), or a batch of them."""
        size = self.n_states
        identity = np.eye(size, dtype=self.diagonal.dtype)
        batched = identity.reshape(size, size, *(1,) * (self.diagonal.ndim - 1))
        return self.times(_namespace(self.diagonal).asarray(batched))


class Group(NamedTuple):
    """Transitions ``z_t+1 = A z_t + e`` with ``Cov e = Q`` of blocks of equal size, (P, B, B) for one row.

    ``Q`` is stored, because ``I - A A'`` has no significant digits for slow processes, and differs from ``Q``
    for non-stationary processes.

    Attributes
    ----------
    matrix : Array of shape (P, B, B), (P, B, B, S) for a batch, or (T, P, B, B) for many rows
        ``A`` of each block.
    innovation : Array of the same shape
        ``Q`` of each block.
    """

    matrix: Any
    innovation: Any


class BlockEntries(NamedTuple):
    """Row and column indices (L,) of the entries of a matrix (K, K) that are within blocks.

    Sums over transitions are computed for these entries only.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]


@cache
def entries(sizes: tuple[int, ...]) -> BlockEntries:
    """Return the indices of all entries within blocks of given sizes, block after block and row by row.

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
    return BlockEntries(rows.astype(np.int32), columns.astype(np.int32))


class Transition(NamedTuple):
    """Transition from a state to the next one: ``z_t+1 = A z_t + e`` with ``Cov e = Q``.

    At the start of a sequence ``A = 0`` and ``Q = I``. All methods accept NumPy or JAX arrays, and a batch of
    states along the last axis if ``decay`` is a batch.

    Attributes
    ----------
    decay : Array of shape (K_1,), (K_1, S) for a batch, or (T, K_1) for the transitions of many rows
        Diagonal of ``A`` for AR(1) processes, for which ``Q = 1 - a^2``. Only methods for the transitions of
        many rows accept the shape (T, K_1).
    groups : tuple of Group
        Transitions of all larger blocks.
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

    def _entries(self) -> BlockEntries:
        """Return the :func:`entries` within the blocks of this transition."""
        sizes = [size for group in self.groups for size in [group.matrix.shape[1]] * group.matrix.shape[0]]
        return entries((*(1,) * self.decay.shape[0], *sizes))

    # ------------------------------------------------------------------ transitions of many rows

    @property
    def n_rows(self) -> int:
        """Number of transitions, if there is one for each row."""
        return int(self.decay.shape[0])

    def map(self, function: Callable[[Any], Any]) -> Transition:
        """Apply a function to each array; the function may change only the first or the last axis."""
        groups = tuple(Group(*map(function, group)) for group in self.groups)
        return Transition(function(self.decay), groups)

    def _map_pairs(self, function: Callable[[Any, Any], Any], other: Transition) -> Transition:
        """Apply a function to pairs of an array and the corresponding array of another transition."""
        pairs = zip(self.groups, other.groups, strict=True)
        groups = tuple(Group(*map(function, first, second)) for first, second in pairs)
        return Transition(function(self.decay, other.decay), groups)

    def at(self, index: Any) -> Transition:
        """Return the transition of a row, or transitions of several rows."""
        return self.map(lambda rows: rows[index])

    def start_unless(self, condition: Array) -> Transition:
        """Return the transitions of rows, with the start of a sequence where `condition` (T,) is false."""
        where = _namespace(condition).where

        def select(rows: Any, start: Any) -> Any:
            extra = rows.ndim - self.decay.ndim
            return where(condition.reshape(-1, *(1,) * (1 + extra)), rows, start)

        return self._map_pairs(select, self.starting())

    def followed_by(self, after: Transition) -> Transition:
        """Return the transitions from each row to the next.

        This object contains the transitions to each row; ``after`` is the transition from the last row.
        """
        join = _namespace(self.decay).concatenate
        return self._map_pairs(lambda rows, last: join([rows[1:], last[None]]), after)

    def with_first(self, first: Transition) -> Transition:
        """Replace the transition to the first row; for NumPy arrays only."""
        return self._map_pairs(lambda rows, new: np.concatenate([new[None], rows[1:]]), first)

    def preceded_by(self, first: Transition) -> Transition:
        """Prepend a transition; for NumPy arrays only."""
        return self._map_pairs(lambda rows, new: np.concatenate([new[None], rows]), first)

    def starting(self) -> Transition:
        """Return transitions of the same shape that start a sequence: ``A = 0``, ``Q = I``."""
        zero = self.map(lambda rows: _namespace(rows).zeros_like(rows))
        groups = tuple(
            Group(group.matrix, group.innovation + np.eye(group.matrix.shape[-1])) for group in zero.groups
        )
        return Transition(zero.decay, groups)

    def as_batch(self) -> Transition:
        """Return the transitions of many rows as a batch."""
        return self.map(lambda rows: _namespace(rows).moveaxis(rows, 0, -1))

    # ------------------------------------------------------------------ one transition, or a batch

    @property
    def innovation_variance(self) -> Array:
        """Diagonal of ``Q`` for AR(1) processes, ``1 - a^2`` without cancellation."""
        return (1.0 - self.decay) * (1.0 + self.decay)

    def move(self, states: AnyArray) -> Array:
        """Return ``A x`` for a state ``x`` (K,) or for several states (K, J)."""
        return self.matrix.times(states)

    def move_back(self, states: Array) -> Array:
        """Return ``A' x``.

        If ``x`` is the score with respect to ``A z_t``, the result is the score with respect to ``z_t``.
        """
        return self.matrix.transposed().times(states)

    def innovation_covariance(self) -> Any:
        """Return ``Q`` (K, K), or a batch of them."""
        return self.innovation.matrix()

    def min_innovation_eigenvalue(self) -> float:
        """Return the smallest eigenvalue of ``Q``, for NumPy arrays of one transition."""
        by_group = (float(np.min(np.linalg.eigvalsh(group.innovation))) for group in self.groups)
        single = (float(np.min(self.innovation_variance)),) if self.decay.shape[0] else ()
        return min((*single, *by_group))

    def innovation_root(self) -> Blocks:
        """Return the upper triangle ``N`` with ``Q = N' N``."""
        roots = tuple(_as_blocks(_root(group.innovation)) for group in self.groups)
        return Blocks(_namespace(self.decay).sqrt(self.innovation_variance), roots)

    def in_information_form(self) -> Precisions:
        """Return the matrices that information filters use."""
        inverses = tuple(_inverse(group.innovation) for group in self.groups)
        ar1_cross_precision = self.decay / self.innovation_variance
        cross_precision, previous_precision = [], []
        for group, inverse in zip(self.groups, inverses, strict=True):
            cross_precision.append(_product(group.matrix.swapaxes(1, 2), inverse))
            previous_precision.append(_product(cross_precision[-1], group.matrix))
        return Precisions(
            Blocks(ar1_cross_precision, tuple(cross_precision)),
            Blocks(self.decay * ar1_cross_precision, tuple(previous_precision)),
            Blocks(1.0 / self.innovation_variance, inverses),
        )

    def innovation_log_det(self) -> Array:
        """Return ``log|Q|`` of a transition or of a batch."""
        log = _namespace(self.decay).log
        total = log(self.innovation_variance).sum(axis=0)
        for group in self.groups:
            root = _root(group.innovation)
            for i in range(len(root)):
                total = total + 2.0 * log(root[i][i]).sum(axis=0)
        return total

    def move_covariance(self, covariance: Array) -> Array:
        """Return ``A P A'`` of a covariance ``P``, without the innovation covariance."""
        return self.matrix.transposed().times_from_right(self.matrix.times(covariance))

    def move_information_back(self, information: Array) -> Array:
        """Return ``A' N A``; for information ``N`` about ``A z_t``, the information about ``z_t``."""
        return self.matrix.times_from_right(self.matrix.transposed().times(information))

    def predict_covariance(self, covariance: Array) -> Array:
        """Return ``A P A' + Q``."""
        return self.move_covariance(covariance) + self.innovation_covariance()

    def predict(self, state: Gaussian) -> Gaussian:
        """Return the distribution of the next state."""
        return Gaussian(self.move(state.mean), self.predict_covariance(state.covariance))

    # ------------------------------------------------------------------ moments of successive states

    def lag_terms(self, lag_one: Array) -> Array:
        """Return the :func:`entries` of ``Cov(z_t+1, z_t)`` (K, K), or of a batch of them."""
        rows, columns = self._entries()
        if lag_one.ndim == 2:
            return lag_one[rows, columns]
        return _namespace(lag_one).stack([lag_one[i, j] for i, j in zip(rows, columns, strict=True)])

    def lag_terms_of_product(self, left: Array, right: Array) -> Array:
        """Return the :func:`entries` of the matrix products of `left` and `right`, each (K, K, S)."""
        rows, columns = self._entries()
        return _namespace(left).einsum("ljs,jls->ls", left[rows], right[:, columns])

    def covariance_terms(self, packed: Array) -> Array:
        """Return the :func:`entries` of the covariance of a state, or of a batch.

        ``packed``, (K (K + 1) / 2,) or (K (K + 1) / 2, S), are the upper triangles of the covariances.
        """
        size = self.matrix.n_states
        rows, columns = self._entries()
        return packed[triangle(size).positions[rows * size + columns]]

    def terms_of_means(self, innovations: AnyArray, earlier: AnyArray) -> TransitionTerms:
        """Return the terms that sums over transitions contain, for known states without covariances.

        ``innovations`` are ``z_t+1 - A z_t``, and ``earlier`` are the states ``z_t``.
        """
        rows, columns = self._entries()
        return TransitionTerms(
            innovations[rows] * innovations[columns],
            innovations[rows] * earlier[columns],
            earlier[rows] * earlier[columns],
        )

    def with_covariances(
        self, terms: TransitionTerms, later: AnyArray, earlier: AnyArray, lag_one: AnyArray
    ) -> TransitionTerms:
        """Add the contributions of covariances to the terms of means, or to sums of these terms.

        ``later`` and ``earlier`` are the :meth:`covariance_terms` of the two states, and ``lag_one`` the
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
        for group, part in zip(self.groups, block_slices(n, shapes), strict=True):
            matrix = group.matrix
            after, before, lagged = (x[part].reshape(matrix.shape) for x in (later, earlier, lag_one))
            cross = lagged - _product(matrix, before)  # Cov(z_t+1 - A z_t, z_t)
            innovation = (  # Cov(z_t+1 - A z_t)
                after - _product(matrix, lagged.swapaxes(1, 2)) - _product(cross, matrix.swapaxes(1, 2))
            )
            parts.append(
                TransitionTerms(
                    *(
                        x[part] + y.reshape(x[part].shape)
                        for x, y in zip(terms, (innovation, cross, before), strict=True)
                    )
                )
            )
        return TransitionTerms(
            *(_namespace(x[0]).concatenate(x) for x in map(list, zip(*parts, strict=True)))
        )


class Precisions(NamedTuple):
    """Matrices of a transition, or of a batch, that information filters use.

    Attributes
    ----------
    cross_precision : Blocks
        ``A' Q^-1``.
    previous_precision : Blocks
        ``A' Q^-1 A``, the information that the next state contains about the current one.
    innovation_precision : Blocks
        ``Q^-1``.
    """

    cross_precision: Blocks
    previous_precision: Blocks
    innovation_precision: Blocks


def block_slices(n_single: int, shapes: Iterable[tuple[int, int]]) -> Iterator[slice]:
    """Yield the slice of the terms of each group of blocks in :class:`TransitionTerms`.

    Parameters
    ----------
    n_single : int
        Number of AR(1) processes, which are first.
    shapes : iterable of (int, int)
        Number and size of the blocks of each group.
    """
    first = n_single
    for count, size in shapes:
        yield slice(first, first + count * size**2)
        first += count * size**2


Triangle = list[list[Any]]


def _root(matrices: Any) -> Triangle:
    """Return the entries of the upper Cholesky factors of matrices (P, B, B), or of a batch of them."""
    xp, size = _namespace(matrices), matrices.shape[1]
    zero = xp.zeros_like(matrices[:, 0, 0])
    root: Triangle = [[zero] * size for _ in range(size)]
    for i in range(size):
        squared_pivot = matrices[:, i, i] - sum((root[k][i] ** 2 for k in range(i)), zero)
        root[i][i] = xp.sqrt(xp.maximum(squared_pivot, 0.0))
        is_positive = root[i][i] > 0.0
        pivot = xp.where(is_positive, root[i][i], 1.0)
        for j in range(i + 1, size):
            scaled = matrices[:, i, j] - sum((root[k][i] * root[k][j] for k in range(i)), zero)
            root[i][j] = xp.where(is_positive, scaled / pivot, 0.0)
    return root


def _as_blocks(rows: Triangle) -> Any:
    """Stack entries (P,), or a batch of them, into matrices (P, B, B)."""
    xp = _namespace(rows[0][0])
    return xp.stack([xp.stack(row, axis=1) for row in rows], axis=1)


def _inverse(matrices: Any) -> Any:
    """Return the inverses of symmetric matrices (P, B, B), or of a batch of them."""
    root, size = _root(matrices), matrices.shape[1]
    zero = root[0][0] * 0.0
    inverse: Triangle = [[zero] * size for _ in range(size)]  # of the root, also an upper triangle
    for j in range(size):
        inverse[j][j] = 1.0 / root[j][j]
        for i in range(j - 1, -1, -1):
            inverse[i][j] = -sum((root[i][k] * inverse[k][j] for k in range(i + 1, j + 1)), zero) / root[i][i]
    rows = [
        [sum((inverse[i][k] * inverse[j][k] for k in range(max(i, j), size)), zero) for j in range(size)]
        for i in range(size)
    ]
    return _as_blocks(rows)


def _product(left: Any, right: Any) -> Any:
    """Return the products of matrices (P, B, B), or of batches of them."""
    return sum(left[:, :, j, None] * right[:, j, None] for j in range(left.shape[1]))


class TransitionTerms(NamedTuple):
    """Expected moments of successive states, for all ``L`` :func:`entries` within blocks.

    The innovation is ``e = z_t+1 - A z_t``; ``z_t+1 - a z_t`` for an AR(1) process.

    Attributes
    ----------
    innovation_power : Array of shape (L, T)
        ``E[e e']``.
    innovation_moments : Array of shape (L, T)
        ``E[e z_t']``.
    previous_power : Array of shape (L, T)
        ``E[z_t z_t']``.
    """

    innovation_power: Any
    innovation_moments: Any
    previous_power: Any


class Moments(NamedTuple):
    """Means (K, T) of a batch of states and their :meth:`Transition.covariance_terms`."""

    means: Array
    covariances: Array


def expected_terms(steps: Transition, earlier: Moments, later: Moments, lag_one: Array) -> TransitionTerms:
    """Return the expected moments of a batch of transitions.

    Parameters
    ----------
    steps : Transition
        Transitions (K, T) from each state to the next state.
    earlier, later : Moments
        Moments of each state, and of the next state.
    lag_one : Array
        :meth:`Transition.lag_terms` of the covariances of the next state with each state.
    """
    innovations = later.means - steps.move(earlier.means)
    terms = steps.terms_of_means(innovations, earlier.means)
    return steps.with_covariances(terms, later.covariances, earlier.covariances, lag_one)


def transition_score(
    over: Transition, counts: AnyArray, innovation_power: AnyArray, innovation_moments: AnyArray
) -> Transition:
    """Return the derivative of the expected log density of AR(1) transitions with respect to their decays.

    Parameters
    ----------
    over : Transition
        Transitions over each of ``U`` gaps, without groups.
    counts : Array of shape (U,)
        Number of transitions over each gap.
    innovation_power, innovation_moments : Array of shape (U, K)
        Sums of the terms of the same names over these transitions.

    Returns
    -------
    Transition
        Derivatives (U, K), as the ``decay`` of a transition.
    """
    decay, innovation = over.decay, over.innovation_variance
    slope: Any = counts[:, None] * decay + innovation_moments - decay * innovation_power / innovation
    return Transition(slope / innovation)


def transition_over(params: StateSpace, gaps: FloatArray) -> Transition:
    """Return transitions over each of ``gaps`` (U,), as NumPy arrays (U, K).

    Decays may be negative only if all gaps are integers. For other gaps, AR(1) processes are sampled
    Ornstein-Uhlenbeck processes, whose decays are positive.

    Raises
    ------
    ValueError
        If a decay is negative and a gap is not an integer.
    """
    decay: Any = params.decay
    if np.any(decay < 0.0) and np.any(gaps != np.rint(gaps)):
        raise ValueError(
            "times contain steps that are not a whole number of time units of the model, but the decay of "
            f"factor {int(np.argmin(decay))} is negative ({decay.min():.4g}), and fractional powers of a "
            "negative decay are not defined. Pass rows that are whole time units apart, or fit the model to "
            "rows with these times or with the same spacing."
        )
    single: Any
    if np.all(gaps == 1.0):
        single = np.broadcast_to(decay, (gaps.shape[0], decay.shape[0]))
    else:
        single = decay ** gaps[:, None]
    return Transition(single, block_transitions(params.processes, gaps))


def block_transitions(processes: Iterable[Process], gaps: AnyArray) -> tuple[Group, ...]:
    """Return the transitions (U, P, B, B) of processes over gaps (U,), a group for each size of blocks.

    Parameters of the processes may be arrays of NumPy or of JAX.
    """
    by_size: dict[int, list[Any]] = {}
    for process in processes:
        by_size.setdefault(process.n_states, []).append(process.transitions(gaps))  # type: ignore[arg-type]
    groups = []
    for size in sorted(by_size):
        parts = list(zip(*by_size[size], strict=True))
        # Processes without free parameters have NumPy arrays, even if other processes have arrays of JAX. The
        # namespace is JAX if any array is from JAX.
        namespaces = [_namespace(array) for part in parts for array in part]
        namespace = next((x for x in namespaces if x is not np), np)
        groups.append(Group(*(namespace.concatenate(part, axis=1) for part in parts)))
    return tuple(groups)


def transition_table(params: StateSpace, gaps: FloatArray) -> Transition:
    """Return transitions over each of ``gaps`` (U,), followed by the sequence start: (U + 1, K)."""
    over = transition_over(params, gaps)
    return over._map_pairs(lambda rows, start: np.concatenate([rows, start[:1]]), over.starting())


def simulate_factors(params: StateSpace, n_steps: int, rng: np.random.Generator) -> FloatArray:
    """Draw latent states (n_steps, K) from the model, for evenly sampled rows.

    Stationary processes start from their stationary distribution, trends from zero.
    """
    from scipy.signal import lfilter  # takes long to load

    decay = params.decay
    shocks = rng.standard_normal((n_steps, decay.shape[0]))
    shocks[1:] *= np.sqrt((1.0 - decay) * (1.0 + decay))
    states = [shocks[:, :0], *(lfilter([1.0], [1.0, -a], shocks[:, k]) for k, a in enumerate(decay))]
    for process in params.processes:
        (matrix,), (innovation,) = process.transitions(np.ones(1))
        roots = np.moveaxis(np.asarray(_as_blocks(_root(innovation))), 1, 2)
        normals = rng.standard_normal((n_steps, *matrix.shape[:2]))
        draws = np.empty_like(normals)
        draws[0] = normals[0] if process.stationary else 0.0
        for t in range(1, n_steps):
            draws[t] = np.einsum("pij,pj->pi", matrix, draws[t - 1]) + np.einsum(
                "pij,pj->pi", roots, normals[t]
            )
        states.append(draws.reshape(n_steps, -1))
    return np.column_stack(states)
