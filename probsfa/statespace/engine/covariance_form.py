"""The posterior of many latents seen in few columns, by covariances and updates of rank D.

The recursions of :mod:`.recursions` factorise matrices of the size of the latents, K x K, in
every row. With D columns, D well below K, one row changes a covariance by a matrix of rank D only, and what
must be factorised is of size D. Let ``C`` and ``x`` be the loadings and centred values of a row's cells over
the standard deviations of their noise, zero where a cell is missing (its innovation is then zero, with
variance one), and ``A``, ``Q`` the transition that leads to the row.

*Forward*, from the state before, ``N(m, P)``::

    m <- A m,   P <- A P A' + Q                                           predicted
    1 + C P C' = L L',   G = L^-1 C P,   H = L^-1 C,   w = L^-1 (x - C m)
    m <- m + G' w,   P <- P - G' G                                        filtered

*Backward*, with the score ``r`` and the information ``N`` of the later rows about the next row's predicted
state (Bierman 1973; de Jong 1989; Durbin & Koopman 2012, section 4.4),
``A`` and ``Q`` being the transition to the next row::

    X = N A P,   Var z = P - P A' X,   Cov(z_next, z) = A Var z - Q X,   E z = m + P A' r
    U = G A' N A,   r <- A' r + H' (w - G A' r),   N <- A' N A - H' U - U' H + H' (1 + U G') H

``r`` and ``N`` about the row after a stretch follow from the distribution of its state.

*Floating-point operations of a row*, terms of order ``K D^2`` left out: ``4 K^2 D`` forward, ``6 K^2 D``
backward, and ``4 K^3`` for the two products that make the covariances. Those of the recursions are
``23/3 K^3`` forward and ``28/3 K^3`` backward. So where ``D << K`` a posterior takes a quarter of them, and
the likelihood alone ``D / (2 K)`` of them. The covariance ``P`` of each row, ``8 K^2`` bytes, is kept from
one pass to the other, where the recursions keep its root.

*Accuracy.* Nothing of the size of ``1 / (1 - a^2)`` or of the inverse noise is formed and multiplied out
again, so with slow latents and small noise this is more accurate than they are. But a posterior variance
``v`` is a difference of prior variances, of size one, and has lost ``1 / v`` roundings: with as many columns
as latents and tiny noise, nothing would be left. :func:`largest_precision` bounds
``1 / v`` from the parameters.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.symmetric import pack
from probsfa.statespace.parameters import Parameters

#: Most columns for each latent with which this is quicker than :mod:`.recursions`.
MOST_COLUMNS = 0.5
#: Largest ratio of prior to posterior variance: ten digits are left of the smallest variance.
MOST_PRECISION = 1e5


class FilteredStates(NamedTuple):
    """What the forward pass leaves of each row.

    ``means`` (T, K) and ``covariances`` (T, K, K) of the state given the rows up to its own; ``gains``
    (T, D, K), ``loadings`` (T, D, K) and ``innovations`` (T, D): ``G``, ``H`` and ``w`` of the module.
    """

    means: Array
    covariances: Array
    gains: Array
    loadings: Array
    innovations: Array


class CovarianceForward(NamedTuple):
    """What the forward pass leaves for the backward one."""

    filtered: FilteredStates
    last: Gaussian

    @property
    def last_root(self) -> FloatArray:
        """Root ``W`` (K, K) of the covariance ``W W'`` of the last state, outside compiled programs."""
        return np.linalg.cholesky(np.asarray(self.last.covariance))


class _Later(NamedTuple):
    """What later rows say about a state: ``score`` (K,) and ``information`` (K, K), ``r`` and ``N``."""

    score: Array
    information: Array


def largest_precision(params: Parameters, transitions: Transition, n_rows: int) -> float:
    """Bound on the posterior precision of any latent or mixture of latents, those of the prior being one.

    One row adds at most ``s``, the largest eigenvalue of ``C' R^-1 C``; of the rows on either side, as many
    count as a latent remembers.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    transitions : Transition
        Over the gaps between rows, (U, K).
    n_rows : int
        Number of rows.
    """
    with np.errstate(all="ignore"):
        scaled = params.loadings / np.sqrt(params.noise_variance)[:, None]
        decay = np.max(transitions.modulus, initial=0.0)
        gram = scaled @ scaled.T
        if not np.all(np.isfinite(gram)) or not decay < 1.0:
            return np.inf
        rows = min(float(n_rows), (1.0 + decay**2) / ((1.0 - decay) * (1.0 + decay)))
    return 1.0 + rows * float(np.linalg.eigvalsh(gram)[-1])


def _later_than_all(last: Gaussian, after: Gaussian, following: Transition) -> _Later:
    """Score and information about the state after the last row, given its distribution ``after``."""
    predicted = following.predict(last)
    lower = jnp.linalg.cholesky(predicted.covariance, symmetrize_input=False)
    identity = jnp.eye(lower.shape[0], dtype=lower.dtype)
    root = triangular_solve(lower, identity, left_side=True, lower=True)
    score = root.T @ (root @ (after.mean - predicted.mean))
    return _Later(score, root.T @ (identity - root @ after.covariance @ root.T) @ root)


def _with_row(filtered: FilteredStates, later: _Later) -> _Later:
    """Score and information about a row's predicted state from those about its filtered state."""
    _, _, gain, loadings, innovation = filtered
    gained = gain @ later.information
    inner = jnp.eye(gain.shape[0], dtype=gain.dtype) + gained @ gain.T
    # H' U + U' H - H' (1 + U G') H in one product.
    half = gained - 0.5 * inner @ loadings
    change = jnp.concatenate([half, loadings]).T @ jnp.concatenate([loadings, half])
    score = later.score + (innovation - gain @ later.score) @ loadings
    return _Later(score, later.information - change)


def _backward(
    problem: Problem, result: CovarianceForward, after: Gaussian, *, full: bool
) -> RowMoments | PackedMoments:
    def step(
        later: _Later, row: tuple[FilteredStates, Transition]
    ) -> tuple[_Later, RowMoments | PackedMoments]:
        filtered, following = row
        score, covariance = following.move_back(later.score), filtered.covariances
        crossed = later.information @ following.move(covariance)
        smoothed = covariance - following.move_rows(covariance) @ crossed
        mean = filtered.means + covariance @ score
        lag_one = following.move(smoothed) - following.innovate(crossed)
        information = following.move_information_back(later.information)
        earlier = _with_row(filtered, _Later(score, information))
        if full:
            return earlier, RowMoments(mean, smoothed, lag_one)
        return earlier, PackedMoments(mean, pack(smoothed), following.lag_terms(lag_one))  # each of one row

    rows = (result.filtered, problem.following)
    later = _later_than_all(result.last, after, problem.after)
    moments: RowMoments | PackedMoments = jax.lax.scan(step, later, rows, reverse=True)[1]
    return moments


@dataclass(frozen=True)
class CovarianceForm:
    """The strategy of this module."""

    name: ClassVar[str] = "covariance_form"
    few_passes: ClassVar[bool] = True
    shares_forward: ClassVar[bool] = False

    def forward(self, problem: Problem, before: Gaussian) -> tuple[CovarianceForward, Array]:
        """See :class:`.Strategy`."""
        n_states = problem.loadings.shape[1]
        spread, roots = jnp.sqrt(problem.noise_variance), jnp.sqrt(problem.weights)
        loadings = problem.loadings / spread[:, None]
        scaled = roots * (problem.values - problem.offset) / spread
        identity = jnp.eye(spread.shape[0], dtype=spread.dtype)

        def step(
            state: Gaussian, row: tuple[Array, Array, Transition]
        ) -> tuple[Gaussian, tuple[FilteredStates, Array]]:
            values, seen, transition = row
            mean, covariance = transition.predict(state)
            seen_loadings = seen[:, None] * loadings
            crossed = seen_loadings @ covariance
            factor = jnp.linalg.cholesky(identity + crossed @ seen_loadings.T, symmetrize_input=False)
            surprise = values - seen_loadings @ mean
            right = jnp.concatenate([crossed, seen_loadings, surprise[:, None]], axis=1)
            solved = triangular_solve(factor, right, left_side=True, lower=True)
            gain, whitened, innovation = (
                solved[:, :n_states],
                solved[:, n_states:-1],
                solved[:, -1],
            )
            state = Gaussian(mean + innovation @ gain, covariance - gain.T @ gain)
            minus_twice = 2.0 * jnp.sum(jnp.log(jnp.diag(factor))) + innovation @ innovation
            return state, (FilteredStates(*state, gain, whitened, innovation), minus_twice)

        rows = (scaled, roots, problem.transitions)
        last, (filtered, minus_twice) = jax.lax.scan(step, before, rows)
        log_norm = problem.weights @ jnp.log(2.0 * jnp.pi * problem.noise_variance)
        return CovarianceForward(filtered, last), -0.5 * (log_norm + minus_twice)

    def packed_moments(self, problem: Problem, result: CovarianceForward, after: Gaussian) -> PackedMoments:
        """See :class:`.Strategy`."""
        return PackedMoments(*(x.T for x in _backward(problem, result, after, full=False)))

    def moments(self, problem: Problem, result: CovarianceForward, after: Gaussian) -> RowMoments:
        """See :class:`.Strategy`."""
        return _backward(problem, result, after, full=True)  # type: ignore[return-value]
