"""Gaussian distributions of a state, and the transition that leads from one state to the next.

Every recursion of the engine is written in these two: the recursions only ask a transition to move states, to
predict, and to say what a known next state would tell about this one. Here alone the engine knows that a
latent is an AR(1) process: how transitions follow from parameters, which moments of successive states their
likelihood is made of, its derivative, and how states are drawn. What else knows it are the parameters
themselves and, for learning, :mod:`probsfa.statespace.learning.processes`.

Arrays are those of one state, with mean (K,) and covariance (K, K); or those of a batch of states, with the
batch along a last axis: mean (K, S) and covariance (K, K, S).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.signal import lfilter

from probsfa._typing import FloatArray
from probsfa.statespace.engine.symmetric import triangle
from probsfa.statespace.parameters import Parameters

AnyArray = Array | FloatArray


class Gaussian(NamedTuple):
    """Gaussian distribution of a state: ``mean`` (K,) and ``covariance`` (K, K), or a batch of them."""

    mean: Array
    covariance: Array


def stationary(n_states: int, dtype: Any) -> Gaussian:
    """Stationary distribution of the latents, which is also that of the first state of a sequence."""
    return Gaussian(jnp.zeros(n_states, dtype), jnp.eye(n_states, dtype=dtype))


class Transition(NamedTuple):
    """From one state to the next: ``z' = A z + e`` with ``Cov e = Q = I - A A'`` and ``A = diag(decay)``.

    ``Q`` is what keeps the stationary covariance the identity. A decay of zero starts a new sequence. All
    methods take arrays of NumPy or of JAX, and a last axis for a batch of states where ``decay`` has one.

    Attributes
    ----------
    decay : Array of shape (K,), (K, S) for a batch, or (T, K) for the transitions of many rows
        Diagonal of ``A``. The methods are for one row or for a batch; loops over rows take them one by one.
    """

    decay: Array

    # ------------------------------------------------------------------ transitions of many rows

    @property
    def n_rows(self) -> int:
        """Number of transitions, where there is one for each row."""
        return int(self.decay.shape[0])

    def map(self, function: Callable[[Any], Any]) -> "Transition":
        """The same function of each array, which keeps the axis of the state."""
        return jax.tree.map(function, self)

    def at(self, index: Any) -> "Transition":
        """The transition of a row, or those of several."""
        return self.map(lambda rows: rows[index])

    def kept_where(self, condition: Array) -> "Transition":
        """The transitions where a condition (T,) holds, and elsewhere those that start a sequence."""
        return self.map(lambda rows: jnp.where(condition[:, None], rows, 0.0))

    def followed_by(self, after: "Transition") -> "Transition":
        """The transitions from each row to the next: those that lead to the rows, moved on by one."""
        return jax.tree.map(lambda rows, last: jnp.concatenate([rows[1:], last[None]]), self, after)

    def with_first(self, first: "Transition") -> "Transition":
        """Another transition to the first row; NumPy arrays, outside compiled programs."""
        return jax.tree.map(lambda rows, one: np.concatenate([one[None], rows[1:]]), self, first)

    def starting(self) -> "Transition":
        """A transition that starts a sequence in the place of each."""
        return self.map(jnp.zeros_like)

    def repeated(self, n_rows: int) -> "Transition":
        """The transition of one row for each of many."""
        return self.map(lambda one: jnp.broadcast_to(one, (n_rows, *one.shape)))

    def as_batch(self) -> "Transition":
        """The transitions of many rows as a batch of states."""
        return self.map(lambda rows: rows.T)

    def reversed(self) -> "Transition":
        """The transition back, ``z = A' z' + e``: what leads from row to row where time runs backwards.

        The stationary covariance is the identity, so ``Cov(z, z') = A'``. For AR(1) processes ``A' = A``.
        """
        return self

    @property
    def modulus(self) -> FloatArray:
        """Size of the eigenvalues of ``A``: how much of a state is left in the next; NumPy arrays."""
        return np.abs(self.decay)

    # ------------------------------------------------------------------ one transition, or a batch

    @property
    def innovation_variance(self) -> Array:
        """Diagonal of ``Q``, without the cancellation of ``1 - a^2`` for slow latents."""
        return (1.0 - self.decay) * (1.0 + self.decay)

    def _columns(self, vector: Array, columns: AnyArray) -> Array:
        """A number for each latent, ready to multiply a mean or the rows of a matrix."""
        return vector[:, None] if columns.ndim > vector.ndim else vector

    def move(self, states: AnyArray) -> Array:
        """``A x``, for a state ``x`` or a matrix (K, J) of several."""
        return self._columns(self.decay, states) * states

    def move_back(self, states: Array) -> Array:
        """``A' x``: what a score about the next state says about this one."""
        return self._columns(self.decay, states) * states

    def move_rows(self, rows: Array) -> Array:
        """``X A'`` for a matrix (J, K), each row of which is a state."""
        return rows * self.decay

    def move_rows_back(self, rows: Array) -> Array:
        """``X A`` for a matrix (J, K)."""
        return rows * self.decay

    def innovate(self, states: Array) -> Array:
        """``Q x``."""
        return self._columns(self.innovation_variance, states) * states

    def innovation_covariance(self) -> Any:
        """``Q`` (K, K), or a batch of them."""
        variance = self.innovation_variance
        identity = np.eye(variance.shape[0]).reshape(*2 * variance.shape[:1], *(1,) * (variance.ndim - 1))
        return identity.astype(variance.dtype) * variance[:, None]

    def move_covariance(self, covariance: Array) -> Array:
        """``A P A'``."""
        return self._on_both_sides(covariance)

    def move_information_back(self, information: Array) -> Array:
        """``A' N A``: what information about the next state is about this one, the innovation left aside."""
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

    def information(self, states: Array) -> Array:
        """``A' Q^-1 A x``: the information that the next state, if it were known, has about this one."""
        return self._columns(self.decay * self._weight, states) * states

    def information_rows(self, rows: Array) -> Array:
        """``X A' Q^-1 A`` for a matrix (J, K), or a batch of them."""
        return (self.decay * self._weight)[None] * rows

    def gain(self, covariance: Array) -> Array:
        """``S A' Q^-1``, by which a state of covariance ``S`` given the next one follows that one."""
        return covariance * self._weight[None]

    def gain_transposed(self, covariance: Array) -> Array:
        """``Q^-1 A S``."""
        return self._weight[:, None] * covariance

    # ------------------------------------------------------------------ moments of successive states

    def lag_terms(self, lag_one: Array) -> Array:
        """What sums over transitions need of ``Cov(z', z)`` (K, K), or of a batch: the diagonal."""
        if lag_one.ndim == 2:
            return lag_one.diagonal()
        return jnp.stack([lag_one[i, i] for i in range(lag_one.shape[0])])

    def lag_terms_of_product(self, left: Array, right: Array) -> Array:
        """The same of the products ``left right`` (K, K, S)."""
        return jnp.einsum("ijs,jis->is", left, right)

    def covariance_terms(self, packed: Array) -> Array:
        """What sums over transitions need of the covariance of a state, or of a batch: the variances.

        ``packed``, (K (K + 1) / 2,) or (K (K + 1) / 2, S), has the upper triangles.
        """
        return packed[triangle(self.decay.shape[0]).diagonal]

    def terms_of_means(self, innovations: AnyArray, earlier: AnyArray) -> "TransitionTerms":
        """Terms of states that are certain: ``innovations``, ``z' - A z``, and the earlier states ``z``."""
        return TransitionTerms(innovations**2, innovations * earlier, earlier**2)

    def terms_of_rows(self, innovations: AnyArray, earlier: AnyArray) -> "TransitionTerms":
        """The same of states that are the rows of a matrix (T, K), and so are the terms."""
        return TransitionTerms(innovations**2, innovations * earlier, earlier**2)

    def with_covariances(
        self, terms: "TransitionTerms", later: AnyArray, earlier: AnyArray, lag_one: AnyArray
    ) -> "TransitionTerms":
        """Terms of the means, or sums of them, with the share of the states' covariances.

        ``later`` and ``earlier`` are the :meth:`covariance_terms` of the two states, ``lag_one`` the
        :meth:`lag_terms` of the covariance between them.
        """
        decay = self.decay
        return TransitionTerms(
            terms.innovation_power + later - decay * (2.0 * lag_one - decay * earlier),
            terms.innovation_moments + lag_one - self.move(earlier),
            terms.previous_power + earlier,
        )


class TransitionTerms(NamedTuple):
    """Expected moments of successive states ``z``, ``z'``, of which the likelihood of transitions is made.

    Attributes
    ----------
    innovation_power : Array of shape (K, T)
        ``E[(z' - a z)^2]`` of each latent.
    innovation_moments : Array of shape (K, T)
        ``E[(z' - a z) z]``.
    previous_power : Array of shape (K, T)
        ``E[z^2]``.
    """

    innovation_power: Any
    innovation_moments: Any
    previous_power: Any


class Moments(NamedTuple):
    """Means (K, T) of a batch of states and their :meth:`Transition.covariance_terms`."""

    means: Array
    covariances: Array


def expected_terms(
    steps: Transition, earlier: Moments, later: Moments, lag_one: Array, backwards: Array | bool = False
) -> TransitionTerms:
    """Terms of transitions, one for each of a batch.

    Parameters
    ----------
    steps : Transition
        From each state to the next in the order of the rows, (K, T).
    earlier, later : Moments
        Of each state, and of the next.
    lag_one : Array
        What :meth:`Transition.lag_terms` gives of the covariances of the next state with this one.
    backwards : bool or Array of bool, default=False
        Whether the rows are in reverse order, so that the next state is the earlier one. The terms are those
        of the transitions forwards in time.
    """
    if backwards is not False:
        swapped = [
            (jnp.where(backwards, y, x), jnp.where(backwards, x, y))
            for x, y in zip(earlier, later, strict=True)
        ]
        earlier, later = (Moments(*part) for part in zip(*swapped, strict=True))
    innovations = later.means - steps.move(earlier.means)
    terms = steps.terms_of_means(innovations, earlier.means)
    return steps.with_covariances(terms, later.covariances, earlier.covariances, lag_one)


def transition_score(
    over: Transition, counts: AnyArray, innovation_power: AnyArray, innovation_moments: AnyArray
) -> Transition:
    """Derivative of the expected log density of transitions by their entries.

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
    if np.all(gaps == 1.0):
        return Transition(np.broadcast_to(decay, (gaps.shape[0], decay.shape[0])))  # type: ignore[arg-type]
    return Transition(decay ** gaps[:, None])


def transition_table(params: Parameters, gaps: FloatArray) -> Transition:
    """Transitions over each of ``gaps`` (U,), and last the one that starts a sequence: (U + 1, K)."""
    return transition_over(params, gaps).map(lambda rows: np.vstack([rows, np.zeros((1, rows.shape[1]))]))


def traced_transition_table(decay: Array, gaps: Array | None) -> Transition:
    """The same as a JAX function of the decay, to be differentiated; no ``gaps`` are one of one unit."""
    over = decay[None, :] if gaps is None else decay ** gaps[:, None]
    return Transition(jnp.concatenate([over, jnp.zeros_like(decay[None, :])]))


def simulate_latents(params: Parameters, n_steps: int, rng: np.random.Generator) -> FloatArray:
    """Draw stationary latents, evenly sampled: shape (n_steps, K)."""
    decay = params.decay
    shocks = rng.standard_normal((n_steps, decay.shape[0]))
    shocks[1:] *= np.sqrt((1.0 - decay) * (1.0 + decay))
    return np.column_stack([lfilter([1.0], [1.0, -a], shocks[:, k]) for k, a in enumerate(decay)])
