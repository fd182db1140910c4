"""The log-likelihood as a JAX function of the parameters, with an exact gradient from one smoother run.

Samplers and optimizers in JAX differentiate this function. It supports ``jax.jit``, ``jax.vmap`` and second
derivatives. It requires 64-bit arrays.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine.dynamics import Group, Transition, block_slices, transition_score
from probsfa.statespace.engine.posterior import strategy_for_sampling
from probsfa.statespace.engine.problem import Model, Rows, following_index, make_problem
from probsfa.statespace.engine.recursions import stationary
from probsfa.statespace.engine.settings import broadcasting
from probsfa.statespace.engine.statistics import observation_statistics, transition_statistics
from probsfa.statespace.processes.base import block_score


class ScoreTerms(NamedTuple):
    """Terms of the score of a model, by Fisher's identity.

    Attributes
    ----------
    log_likelihood : Array of shape ()
        Log-likelihood in nats.
    observation_scores : tuple of Array
        Derivatives of the log-likelihood with respect to loadings (D, K), noise variances (D,) and offsets
        (D,).
    transitions : tuple of Array
        Number (U,) of transitions over each gap, and sums (U, L) over these transitions of the
        ``innovation_power`` and ``innovation_moments`` of :class:`.TransitionTerms`.
    means : Array of shape (T, K)
        Posterior means of the states.
    """

    log_likelihood: Array
    observation_scores: tuple[Array, Array, Array]
    transitions: tuple[Array, Array, Array]
    means: Array


def forward_log_likelihood(model: Model, rows: Rows) -> Array:
    """Return the log-likelihood of rows under a model, in nats, by the forward pass alone."""
    problem = make_problem(model, rows, model.n_gaps)
    prior = stationary(model.n_states, rows.values.dtype)
    return jnp.sum(strategy_for_sampling(rows.values.shape[0], model.n_states).forward(problem, prior)[1])


def score_terms(model: Model, rows: Rows) -> ScoreTerms:
    """Return the log-likelihood of rows under a model, and the terms of its derivatives."""
    n_gaps, noise = model.n_gaps, model.noise_variance
    problem = make_problem(model, rows, n_gaps)
    prior = stationary(model.n_states, rows.values.dtype)
    strategy = strategy_for_sampling(rows.values.shape[0], model.n_states)
    result, log_likelihoods = strategy.forward(problem, prior)
    zeros = jax.tree.map(jnp.zeros_like, prior)
    moments = strategy.packed_moments(problem, result, zeros)
    observed = rows.values, rows.weights, model.loadings, model.offset
    counts, power, cross_products, _, _ = observation_statistics(*observed, moments)
    following = following_index(rows, n_gaps)
    transitions = transition_statistics(problem.following, following, n_gaps, moments, zeros)[:3]
    loadings_and_offset_score = cross_products / noise[:, None]
    noise_score = 0.5 * (power / noise - counts) / noise
    observation_scores = (loadings_and_offset_score[:, :-1], noise_score, loadings_and_offset_score[:, -1])
    return ScoreTerms(jnp.sum(log_likelihoods), observation_scores, transitions, moments.means.T)


@jax.custom_vjp
@broadcasting()
def block_log_likelihood(
    over: Transition,
    loadings: Array,
    noise_variance: Array,
    offset: Array,
    values: Array,
    mask: Array,
    gap_index: Array,
) -> Array:
    """Return the log-likelihood of a state-space model of blocks, with the states integrated out.

    Parameters
    ----------
    over : Transition
        Transitions over each of ``U`` gaps, arrays (U, ...).
    loadings, noise_variance, offset, values, mask, gap_index
        As in :func:`marginal_log_likelihood`.

    Returns
    -------
    Array of shape ()
        Log-likelihood in nats. Its gradient with respect to all but the last two arguments is exact (Fisher's
        identity: Olsson, Petersen & Lehn-Schioler 2007) and can be differentiated again.
    """
    return forward_log_likelihood(
        Model(with_start(over), loadings, noise_variance, offset), Rows(values, mask, gap_index)
    )


def with_start(over: Transition) -> Transition:
    """Return transitions over each gap, followed by the transition at the start of a sequence."""
    return jax.tree.map(lambda rows, start: jnp.concatenate([rows, start[:1]]), over, over.starting())


_Score = tuple[Transition, Array, Array, Array, Array]


@broadcasting()
def _value_and_score(
    over: Transition,
    loadings: Array,
    noise_variance: Array,
    offset: Array,
    values: Array,
    mask: Array,
    gap_index: Array,
) -> tuple[Array, _Score]:
    model = Model(with_start(over), loadings, noise_variance, offset)
    terms = score_terms(model, Rows(values, mask, gap_index))
    # -R^-1 (x - mu - C E[z]), zero for missing values.
    value_score = -mask * (values - offset - terms.means @ loadings.T) / noise_variance
    score = (_transition_derivatives(over, *terms.transitions), *terms.observation_scores, value_score)
    return terms.log_likelihood, score


def _transition_derivatives(over: Transition, counts: Array, power: Array, moments: Array) -> Transition:
    """Return derivatives with respect to all entries of the transitions, in the same structure."""
    k, shapes = over.decay.shape[1], [group.matrix.shape[1:3] for group in over.groups]
    single = transition_score(Transition(over.decay), counts, power[:, :k], moments[:, :k]).decay
    groups = []
    for group, part in zip(over.groups, block_slices(k, shapes), strict=True):
        block_power, block_moments = (x[:, part].reshape(group.matrix.shape) for x in (power, moments))
        groups.append(Group(*block_score(group.innovation, counts, block_power, block_moments)))
    return Transition(single, tuple(groups))


@broadcasting()
def _pull_back(score: _Score, cotangent: Array) -> tuple[Any, ...]:
    return (*jax.tree.map(lambda part: cotangent * part, score), None, None)


block_log_likelihood.defvjp(_value_and_score, _pull_back)


@broadcasting()
def marginal_log_likelihood(
    decay: Array,
    loadings: Array,
    noise_variance: Array,
    offset: Array,
    values: Array,
    mask: Array,
    gap_index: Array,
    gaps: Array | None = None,
) -> Array:
    """Return the log-likelihood of a factorial AR(1) model, with the latent factors integrated out.

    Parameters
    ----------
    decay : Array of shape (K,)
        Autocorrelation of each latent factor over one time unit, inside (-1, 1); positive unless all `gaps`
        are integers.
    loadings : Array of shape (D, K)
        Observation matrix.
    noise_variance : Array of shape (D,)
        Observation noise variance, positive.
    offset : Array of shape (D,)
        Mean of the observations.
    values : Array of shape (T, D)
        Observations of all sequences, one after the other; zero where missing.
    mask : Array of shape (T, D)
        1.0 where observed, 0.0 where missing.
    gap_index : int Array of shape (T,)
        Index in `gaps` of the time between the previous row and each row; ``len(gaps)`` (1 without `gaps`) in
        the first row of a sequence.
    gaps : Array of shape (U,), optional
        Distinct times between successive rows; by default all are one.

    Returns
    -------
    Array of shape ()
        Log-likelihood in nats. Its gradient with respect to the first five arguments and `gaps` is exact and
        can be differentiated again; see :func:`block_log_likelihood`. If a decay is negative, the gradient
        with respect to `gaps` is NaN, because such a process is defined only for integer gaps.
    """
    over = decay[None, :] if gaps is None else decay ** gaps[:, None]
    return block_log_likelihood(Transition(over), loadings, noise_variance, offset, values, mask, gap_index)
