"""Gaussian distributions of a state, and the transition that leads from one state to the next.

Every recursion of the engine is written in these two: the recursions only ask a transition to move states, to
predict, and to say what a known next state would tell about this one. Here alone the engine knows that
latents are independent blocks of one or two states, whatever they are: how transitions follow from
parameters, which moments of successive states their likelihood is made of, its derivative, and how states are
drawn. What kinds of latents there are is known to the parameters themselves and, for learning, to
:mod:`probsfa.statespace.learning.processes`.

A block of one state is an AR(1) process. Blocks of two states, *pairs*, come last. In both, the stationary
covariance is the identity, so that ``Q = 1 - A A'``, in blocks as ``A`` is.

Arrays are those of one state, with mean (K,) and covariance (K, K); or those of a batch of states, with the
batch along a last axis: mean (K, S) and covariance (K, K, S).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

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


class Blocks(NamedTuple):
    """A matrix (S, S), or a batch of them, with blocks of one state first and pairs of states last.

    Attributes
    ----------
    diagonal : Array of shape (S,) or (S, batch)
        Its diagonal.
    beside : Array of shape (2 P,) or (2 P, batch)
        In each row of a pair, the entry beside the diagonal; None where there are no pairs.
    """

    diagonal: Any
    beside: Any

    def _swapped(self, numbers: Any) -> Any:
        """Numbers with the states along the first axis, those of the two states of a pair exchanged."""
        n = self.beside.shape[0]
        pairs = numbers[-n:].reshape(n // 2, 2, *numbers.shape[1:])[:, ::-1].reshape(n, *numbers.shape[1:])
        return _library(numbers).concatenate([numbers[:-n], pairs])

    def _full(self) -> Any:
        """``beside`` with zeros for the states that are in no pair, (S,)."""
        n = self.diagonal.shape[0] - self.beside.shape[0]
        xp = _library(self.beside)
        return xp.concatenate([xp.zeros((n, *self.beside.shape[1:]), self.beside.dtype), self.beside])

    def times(self, states: Any) -> Any:
        """Product with a state, or with a matrix of several."""
        if self.beside is None:
            return (self.diagonal[:, None] if states.ndim > self.diagonal.ndim else self.diagonal) * states
        along, across = self.diagonal, self._full()
        if states.ndim > along.ndim:
            along, across = along[:, None], across[:, None]
        return along * states + across * self._swapped(states)

    def of_columns(self, matrix: Any) -> Any:
        """Product ``X M`` of a matrix (J, S) with this one, or of a batch of them."""
        if self.beside is None:
            return self.diagonal[None] * matrix
        return self.transposed().times(matrix.swapaxes(0, 1)).swapaxes(0, 1)

    def transposed(self) -> Blocks:
        """The transposed matrix."""
        if self.beside is None:
            return self
        return Blocks(self.diagonal, _exchanged(self.beside))

    def matrix(self) -> Any:
        """All of it (S, S), or a batch of them."""
        size, batch = self.diagonal.shape[0], (1,) * (self.diagonal.ndim - 1)
        identity = np.eye(size).reshape(size, size, *batch)
        matrix = identity.astype(self.diagonal.dtype) * self.diagonal[:, None]
        if self.beside is None:
            return matrix
        n = self.beside.shape[0]
        partner = np.concatenate(
            [np.arange(size - n), np.arange(size - n, size).reshape(-1, 2)[:, ::-1].ravel()]
        )
        beside = np.eye(size)[partner].reshape(size, size, *batch).astype(self.diagonal.dtype)
        return matrix + beside * self._full()[:, None]

    def dense(self) -> Any:
        """The pairs as matrices (P, 2, 2), or as a batch of them."""
        n = self.beside.shape[0]
        own = self.diagonal[-n:]
        rows = [own[0::2], self.beside[0::2], self.beside[1::2], own[1::2]]
        return _library(own).stack(rows, axis=1).reshape(n // 2, 2, 2, *own.shape[1:])


def _exchanged(beside: Any) -> Any:
    """Numbers (2 P,) of the states of pairs, exchanged within each."""
    return beside.reshape(-1, 2, *beside.shape[1:])[:, ::-1].reshape(beside.shape)


class Pairs(NamedTuple):
    """What a transition has in its pairs beside the diagonal of ``A``; shapes as of :class:`Transition`.

    ``Q`` is not computed from ``A``: for slow latents ``1 - A A'`` would be left without a digit.

    Attributes
    ----------
    beside : Array of shape (2 P,)
        In each row of a pair, the entry of ``A`` beside the diagonal.
    spread : Array of shape (2 P,)
        Diagonal of ``Q``.
    cross : Array of shape (2 P,)
        In each row of a pair, the entry of ``Q`` beside the diagonal.
    """

    beside: Any
    spread: Any
    cross: Any


class Terms(NamedTuple):
    """Entries of a matrix of moments that sums over transitions need: the diagonal, and pairs as a whole."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]


@cache
def entries(n_states: int, n_paired: int) -> Terms:
    """Which entries are needed; last, four for each pair, in the order of a matrix of two rows.

    Examples
    --------
    >>> entries(3, 2).rows.tolist(), entries(3, 2).columns.tolist()
    ([0, 1, 1, 2, 2], [0, 1, 2, 1, 2])
    """
    alone = np.arange(n_states - n_paired)
    first = np.arange(n_states - n_paired, n_states, 2)
    rows = first[:, None] + np.array([0, 0, 1, 1])
    columns = first[:, None] + np.array([0, 1, 0, 1])
    return Terms(*(np.concatenate([alone, pairs.ravel()]).astype(np.int32) for pairs in (rows, columns)))


class Transition(NamedTuple):
    """From one state to the next: ``z' = A z + e`` with ``Cov e = Q = I - A A'``.

    ``Q`` is what keeps the stationary covariance the identity. Where ``A`` is zero, a new sequence starts.
    All methods take arrays of NumPy or of JAX, and a last axis for a batch of states where ``decay`` has one.

    Attributes
    ----------
    decay : Array of shape (K,), (K, S) for a batch, or (T, K) for the transitions of many rows
        Diagonal of ``A``. The methods are for one row or for a batch; loops over rows take them one by one.
    pairs : Pairs or None, default=None
        What latents of two states have beside it; None where there are none, and ``A`` is ``diag(decay)``.
    """

    decay: Array
    pairs: Pairs | None = None

    @property
    def matrix(self) -> Blocks:
        """``A``."""
        return Blocks(self.decay, None if self.pairs is None else self.pairs.beside)

    @property
    def _innovation(self) -> Blocks:
        """``Q``, where there are pairs."""
        assert self.pairs is not None
        return Blocks(self.innovation_variance, self.pairs.cross)

    @property
    def _weights(self) -> Blocks:
        """``A' Q^-1``, where there are pairs."""
        assert self.pairs is not None
        n = self.pairs.beside.shape[0]
        own, other = _inverse(self.pairs)
        along, crosswise = self.decay[-n:], _exchanged(self.pairs.beside)
        alone = self.decay[:-n] / self.innovation_variance[:-n]
        paired = along * own + crosswise * other
        return Blocks(
            _library(paired).concatenate([alone, paired]), along * other + crosswise * _exchanged(own)
        )

    @property
    def _known(self) -> Blocks:
        """``A' Q^-1 A``, where there are pairs."""
        weights, n = self._weights, self._weights.beside.shape[0]
        along, crosswise = self.decay[-n:], self.matrix.beside
        own, beside = weights.diagonal[-n:], weights.beside
        paired = own * along + beside * _exchanged(crosswise)
        alone = weights.diagonal[:-n] * self.decay[:-n]
        return Blocks(
            _library(paired).concatenate([alone, paired]), own * crosswise + beside * _exchanged(along)
        )

    @property
    def _entries(self) -> Terms:
        """Which moments of successive states sums over transitions need."""
        return entries(self.decay.shape[0], 0 if self.pairs is None else self.pairs.beside.shape[0])

    # ------------------------------------------------------------------ transitions of many rows

    @property
    def n_rows(self) -> int:
        """Number of transitions, where there is one for each row."""
        return int(self.decay.shape[0])

    def map(self, function: Callable[[Any], Any]) -> Transition:
        """The same function of each array, which keeps the axis of the state."""
        pairs = None if self.pairs is None else Pairs(*map(function, self.pairs))
        return Transition(function(self.decay), pairs)

    def _with(self, function: Callable[[Any, Any], Any], other: Transition) -> Transition:
        """The same function of each array and that of another transition."""
        pairs = None
        if self.pairs is not None and other.pairs is not None:
            pairs = Pairs(*map(function, self.pairs, other.pairs))
        return Transition(function(self.decay, other.decay), pairs)

    def at(self, index: Any) -> Transition:
        """The transition of a row, or those of several."""
        return self.map(lambda rows: rows[index])

    def kept_where(self, condition: Array) -> Transition:
        """The transitions where a condition (T,) holds, and elsewhere those that start a sequence."""
        where = _library(condition).where
        return self._with(lambda rows, start: where(condition[:, None], rows, start), self.starting())

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
        """A transition that starts a sequence in the place of each: ``A = 0``, ``Q = I``."""
        zero = self.map(lambda rows: _library(rows).zeros_like(rows))
        if zero.pairs is None:
            return zero
        return zero._replace(pairs=zero.pairs._replace(spread=1.0 + zero.pairs.spread))

    def as_batch(self) -> Transition:
        """The transitions of many rows as a batch of states."""
        return self.map(lambda rows: rows.T)

    # ------------------------------------------------------------------ one transition, or a batch

    @property
    def innovation_variance(self) -> Array:
        """Diagonal of ``Q``, without the cancellation of ``1 - a^2`` for slow latents."""
        if self.pairs is None:
            return (1.0 - self.decay) * (1.0 + self.decay)
        alone = self.decay[: -self.pairs.spread.shape[0]]
        return _library(alone).concatenate([(1.0 - alone) * (1.0 + alone), self.pairs.spread])

    def _columns(self, vector: Array, columns: AnyArray) -> Array:
        """A number for each latent, ready to multiply a mean or the rows of a matrix."""
        return vector[:, None] if columns.ndim > vector.ndim else vector

    def move(self, states: AnyArray) -> Array:
        """``A x``, for a state ``x`` or a matrix (K, J) of several."""
        if self.pairs is not None:
            return self.matrix.times(states)
        return self._columns(self.decay, states) * states

    def move_back(self, states: Array) -> Array:
        """``A' x``: what a score about the next state says about this one."""
        if self.pairs is not None:
            return self.matrix.transposed().times(states)
        return self._columns(self.decay, states) * states

    def innovation_covariance(self) -> Any:
        """``Q`` (K, K), or a batch of them."""
        if self.pairs is None:
            return Blocks(self.innovation_variance, None).matrix()
        return self._innovation.matrix()

    def innovation_root(self) -> Blocks:
        """Upper triangle ``N`` with ``Q = N' N``."""
        variance, xp = self.innovation_variance, _library(self.decay)
        if self.pairs is None:
            return Blocks(xp.sqrt(variance), None)
        # N = [[a, b], [0, c]] in each pair: a^2 = q_11, a b = q_12, b^2 + c^2 = q_22.
        n = self.pairs.spread.shape[0]
        a, b = xp.sqrt(self.pairs.spread[0::2]), self.pairs.cross[0::2]
        b = xp.where(a > 0.0, b / xp.where(a > 0.0, a, 1.0), 0.0)
        c = xp.sqrt(xp.maximum(self.pairs.spread[1::2] - b**2, 0.0))
        both = (a, c), (b, xp.zeros_like(b))
        own, beside = (xp.stack(x, axis=1).reshape(self.pairs.spread.shape) for x in both)
        return Blocks(xp.concatenate([xp.sqrt(variance[:-n]), own]), beside)

    def in_information_form(self) -> Precisions:
        """What the information form needs of it: divisions are made here, once."""
        if self.pairs is None:
            weight, reciprocal = self._weight, 1.0 / self.innovation_variance
            return Precisions(
                Blocks(weight, None), Blocks(self.decay * weight, None), Blocks(reciprocal, None)
            )
        own, other = _inverse(self.pairs)
        alone = 1.0 / self.innovation_variance[: -own.shape[0]]
        innovation = Blocks(_library(own).concatenate([alone, own]), other)
        return Precisions(self._weights, self._known, innovation)

    def innovation_log_det(self) -> Array:
        """``log|Q|``, or those of a batch."""
        variance, log = self.innovation_variance, _library(self.decay).log
        if self.pairs is None:
            return log(variance).sum(axis=0)
        spread, cross = self.pairs.spread, self.pairs.cross
        determinants = spread[0::2] * spread[1::2] - cross[0::2] ** 2
        return log(variance[: -spread.shape[0]]).sum(axis=0) + log(determinants).sum(axis=0)

    def move_covariance(self, covariance: Array) -> Array:
        """``A P A'``."""
        if self.pairs is not None:
            return self.matrix.transposed().of_columns(self.matrix.times(covariance))
        return self._on_both_sides(covariance)

    def move_information_back(self, information: Array) -> Array:
        """``A' N A``: what information about the next state is about this one, the innovation left aside."""
        if self.pairs is not None:
            return self.matrix.of_columns(self.matrix.transposed().times(information))
        return self._on_both_sides(information)

    def _on_both_sides(self, matrix: Array) -> Array:
        # Both orders are right and differ in the last digit: fits have always followed these.
        if self.decay.ndim == 1:
            return self.decay[:, None] * matrix * self.decay
        return (self.decay[:, None] * self.decay[None]) * matrix

    def predict_covariance(self, covariance: Array) -> Array:
        """``A P A' + Q``."""
        return self.move_covariance(covariance) + self.innovation_covariance()

    def predict(self, state: Gaussian) -> Gaussian:
        """Distribution of the next state."""
        return Gaussian(self.move(state.mean), self.predict_covariance(state.covariance))

    @property
    def _weight(self) -> Array:
        """Diagonal of ``A' Q^-1``."""
        return self.decay / self.innovation_variance

    def information_rows(self, rows: Array) -> Array:
        """``X A' Q^-1 A`` for a matrix (J, K), or a batch of them."""
        if self.pairs is not None:
            return self._known.of_columns(rows)
        return (self.decay * self._weight)[None] * rows

    def gain(self, covariance: Array) -> Array:
        """``S A' Q^-1``, by which a state of covariance ``S`` given the next one follows that one."""
        if self.pairs is not None:
            return self._weights.of_columns(covariance)
        return covariance * self._weight[None]

    def gain_transposed(self, covariance: Array) -> Array:
        """``Q^-1 A S``."""
        if self.pairs is not None:
            return self._weights.transposed().times(covariance)
        return self._weight[:, None] * covariance

    # ------------------------------------------------------------------ moments of successive states

    def lag_terms(self, lag_one: Array) -> Array:
        """What sums over transitions need of ``Cov(z', z)`` (K, K), or of a batch: the :func:`entries`."""
        if lag_one.ndim == 2:
            return lag_one.diagonal() if self.pairs is None else lag_one[self._entries]
        return _library(lag_one).stack([lag_one[i, j] for i, j in zip(*self._entries, strict=True)])

    def lag_terms_of_product(self, left: Array, right: Array) -> Array:
        """The same of the products ``left right`` (K, K, S)."""
        if self.pairs is not None:
            rows, columns = self._entries
            return _library(left).einsum("ljs,jls->ls", left[rows], right[:, columns])
        return _library(left).einsum("ijs,jis->is", left, right)

    def covariance_terms(self, packed: Array) -> Array:
        """What sums over transitions need of the covariance of a state, or of a batch: the :func:`entries`.

        ``packed``, (K (K + 1) / 2,) or (K (K + 1) / 2, S), has the upper triangles.
        """
        size = self.decay.shape[0]
        if self.pairs is None:
            return packed[triangle(size).diagonal]
        rows, columns = self._entries
        return packed[triangle(size).places[rows * size + columns]]

    def terms_of_means(self, innovations: AnyArray, earlier: AnyArray) -> TransitionTerms:
        """Terms of states that are certain: ``innovations``, ``z' - A z``, and the earlier states ``z``."""
        if self.pairs is not None:
            rows, columns = self._entries
            return TransitionTerms(
                innovations[rows] * innovations[columns],
                innovations[rows] * earlier[columns],
                earlier[rows] * earlier[columns],
            )
        return TransitionTerms(innovations**2, innovations * earlier, earlier**2)

    def terms_of_rows(self, innovations: AnyArray, earlier: AnyArray) -> TransitionTerms:
        """The same of states that are the rows of a matrix (T, K), and so are the terms."""
        if self.pairs is not None:
            return TransitionTerms(*(x.T for x in self.terms_of_means(innovations.T, earlier.T)))
        return TransitionTerms(innovations**2, innovations * earlier, earlier**2)

    def with_covariances(
        self, terms: TransitionTerms, later: AnyArray, earlier: AnyArray, lag_one: AnyArray
    ) -> TransitionTerms:
        """Terms of the means, or sums of them, with the share of the states' covariances.

        ``later`` and ``earlier`` are the :meth:`covariance_terms` of the two states, ``lag_one`` the
        :meth:`lag_terms` of the covariance between them.
        """
        decay = self.decay
        if self.pairs is None:
            return TransitionTerms(
                terms.innovation_power + later - decay * (2.0 * lag_one - decay * earlier),
                terms.innovation_moments + lag_one - self.move(earlier),
                terms.previous_power + earlier,
            )
        n = self.pairs.beside.shape[0]
        alone = Transition(decay[:-n]).with_covariances(
            TransitionTerms(*(x[: -2 * n] for x in terms)),
            later[: -2 * n],
            earlier[: -2 * n],
            lag_one[: -2 * n],
        )
        now, before, lagged = (as_pairs(x, n) for x in (later, earlier, lag_one))
        matrix = self.matrix.dense()
        # E[(z' - A z) z'] and E[(z' - A z) (z' - A z)'], of which the latter is symmetric.
        moments = lagged - _product(matrix, before)
        power = now - _product(matrix, lagged.swapaxes(1, 2)) - _product(moments, matrix.swapaxes(1, 2))
        paired = TransitionTerms(power, moments, before)
        return TransitionTerms(
            *(
                _library(x).concatenate([x, y[-2 * n :] + z.reshape(y[-2 * n :].shape)])
                for x, y, z in zip(alone, terms, paired, strict=True)
            )
        )


class Precisions(NamedTuple):
    """A transition as the information form needs it, or a batch of them; see :class:`Transition`.

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

    def gain(self, covariances: Array) -> Array:
        """``S A' Q^-1``, for matrices (J, K) or a batch of them."""
        return self.weights.of_columns(covariances)

    def predicted_precision(self, conditional: Array) -> Array:
        """``Q^-1 - Q^-1 A S A' Q^-1``: precision of the next state, with ``S`` of this one given it."""
        moved = self.weights.transposed().times(self.weights.of_columns(conditional))
        return self.innovation.matrix() - moved


def _inverse(pairs: Pairs) -> tuple[Any, Any]:
    """In each row of a pair, the entries of ``Q^-1`` on the diagonal and beside it."""
    others = _exchanged(pairs.spread)
    determinant = pairs.spread * others - pairs.cross**2
    return others / determinant, -pairs.cross / determinant


def as_pairs(terms: Any, n_paired: int) -> Any:
    """Those terms, along the first axis, that concern pairs of states, as matrices (P, 2, 2)."""
    return terms[-2 * n_paired :].reshape(n_paired // 2, 2, 2, *terms.shape[1:])


def _product(left: Any, right: Any) -> Any:
    """Products of matrices (P, 2, 2), or of batches of them."""
    return sum(left[:, :, j, None] * right[:, j, None] for j in range(2))


class TransitionTerms(NamedTuple):
    """Expected moments of successive states ``z``, ``z'``, of which the likelihood of transitions is made.

    Of the matrices of moments those :func:`entries` that are within a latent, ``L`` of them: a number for
    each latent of one state, four for a pair.

    Attributes
    ----------
    innovation_power : Array of shape (L, T)
        ``E[(z' - A z) (z' - A z)']``; of a latent of one state ``E[(z' - a z)^2]``.
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


class PairScore(NamedTuple):
    """Derivatives of the expected log density of transitions by the entries of pairs.

    ``by_matrix`` and ``by_innovation``, both (U, P, 2, 2), are those by ``A`` and ``Q``.
    """

    by_matrix: FloatArray
    by_innovation: FloatArray


def pair_score(
    over: Transition, counts: FloatArray, innovation_power: FloatArray, innovation_moments: FloatArray
) -> PairScore:
    """The same as :func:`transition_score` for the pairs: ``Q^-1 M`` and ``(Q^-1 E Q^-1 - n Q^-1) / 2``.

    Parameters
    ----------
    over : Transition
        Transitions over each of ``U`` gaps, NumPy arrays.
    counts : ndarray of shape (U,)
        Number of transitions over each.
    innovation_power, innovation_moments : ndarray of shape (U, L)
        Sums of the terms of these names over them, ``E`` and ``M``.
    """
    assert over.pairs is not None
    n = over.pairs.beside.shape[1]
    own, other = _inverse(Pairs(*(x.T for x in over.pairs)))
    inverse = np.stack([own[0::2], other[0::2], other[1::2], own[1::2]], axis=-1)
    inverse = np.moveaxis(inverse, 1, 0).reshape(-1, n // 2, 2, 2)
    power, moments = (
        x[:, -2 * n :].reshape(-1, n // 2, 2, 2) for x in (innovation_power, innovation_moments)
    )
    return PairScore(
        inverse @ moments, 0.5 * (inverse @ power @ inverse - counts[:, None, None, None] * inverse)
    )


def transition_score(
    over: Transition, counts: AnyArray, innovation_power: AnyArray, innovation_moments: AnyArray
) -> Transition:
    """Derivative of the expected log density of transitions by their decays; see :func:`pair_score`.

    Parameters
    ----------
    over : Transition
        Transitions over each of ``U`` gaps.
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
    if params.latents.n_pairs == 0:
        return Transition(alone)
    own, pairs = _pairs_over(params, gaps)
    paired: Any = np.hstack([alone, own])
    return Transition(paired, pairs)


def _pairs_over(params: Parameters, gaps: FloatArray) -> tuple[FloatArray, Pairs]:
    """Diagonal of ``A`` (U, 2 P) and what is beside it, of rhythms first and then of smooth latents."""
    rhythm = rhythm_entries(params.rhythm_decay, params.rhythm_frequency, gaps)
    smooth = smooth_entries(params.smooth_rate, gaps)
    both = [np.concatenate([x, y], axis=1) for x, y in zip(rhythm, smooth, strict=True)]
    matrix, innovation = (x.reshape(len(gaps), -1, 2, 2) for x in both)
    diagonal, beside, spread, cross = (
        np.stack([x[:, :, 0, i], x[:, :, 1, 1 - i]], axis=2).reshape(len(gaps), -1)
        for x in (matrix, innovation)
        for i in (0, 1)
    )
    return diagonal, Pairs(beside, spread, cross)


def rhythm_entries(
    decay: FloatArray, frequency: FloatArray, gaps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``A`` and ``Q`` (U, R, 4), row by row, of rhythms over gaps: a rotation that shrinks."""
    elapsed = gaps[:, None]
    size, angle = decay**elapsed, frequency * elapsed
    c, s, zero = size * np.cos(angle), size * np.sin(angle), np.zeros_like(size)
    spread = -np.expm1(2.0 * elapsed * np.log(decay))
    return np.stack([c, -s, s, c], axis=2), np.stack([spread, zero, zero, spread], axis=2)


def smooth_entries(rate: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``A`` and ``Q`` (U, M, 4), row by row, of smooth latents over gaps.

    ``A = exp(-d) [[1 + d, d], [-d, 1 - d]]``, and ``Q = 1 - A A'`` in forms that keep their digits where
    ``d`` is small: ``1 - exp(-2 d) (1 + 2 d + 2 d^2)`` is an incomplete gamma function.
    """
    d = rate * gaps[:, None]
    a = np.exp(-d)
    cross = 2.0 * (a * d) ** 2
    by_velocity = -np.expm1(-2.0 * d) + 2.0 * a**2 * d * (1.0 - d)
    return (
        np.stack([a * (1.0 + d), a * d, -a * d, a * (1.0 - d)], axis=2),
        np.stack([gammainc(3.0, 2.0 * d), cross, cross, by_velocity], axis=2),
    )


def transition_table(params: Parameters, gaps: FloatArray) -> Transition:
    """Transitions over each of ``gaps`` (U,), and last the one that starts a sequence: (U + 1, K)."""
    over = transition_over(params, gaps)
    return over._with(lambda rows, start: np.vstack([rows, start[:1]]), over.starting())


def simulate_latents(params: Parameters, n_steps: int, rng: np.random.Generator) -> FloatArray:
    """Draw stationary latents, evenly sampled: shape (n_steps, K)."""
    from scipy.signal import lfilter  # takes long to load

    decay = params.decay
    shocks = rng.standard_normal((n_steps, decay.shape[0]))
    shocks[1:] *= np.sqrt((1.0 - decay) * (1.0 + decay))
    alone = [lfilter([1.0], [1.0, -a], shocks[:, k]) for k, a in enumerate(decay)]
    if params.latents.n_pairs == 0:
        return np.column_stack(alone)
    transition = transition_over(params, np.ones(1)).at(0)
    n = 2 * params.latents.n_pairs
    matrix: Any = np.asarray(transition.move(np.eye(params.n_states)))[-n:, -n:].T
    root: Any = np.linalg.cholesky(np.asarray(transition.innovation_covariance())[-n:, -n:]).T
    paired = rng.standard_normal((n_steps, n))
    paired[1:] = paired[1:] @ root
    for t in range(1, n_steps):
        paired[t] += paired[t - 1] @ matrix
    return np.column_stack([*alone, paired])
