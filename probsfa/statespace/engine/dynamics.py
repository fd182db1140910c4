"""Gaussian distributions of a state, and the transition that leads from one state to the next.

Every recursion of the engine is written in these two: the recursions only ask a transition to move states, to
predict, and to say what a known next state would tell about this one. What else knows that a latent is an
AR(1) process are the sums over transitions (:mod:`.statistics`), learning, and the parameters themselves.

Arrays are those of one state, with mean (K,) and covariance (K, K); or those of a batch of states, with the
batch along a last axis: mean (K, S) and covariance (K, K, S).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray

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
