"""The log-likelihood as a JAX function of the parameters, with an exact gradient that costs one posterior.

Samplers and optimisers that are written in JAX differentiate through this function; nothing here converts to
NumPy, so it can be compiled, batched and differentiated again. Call it with 64-bit arrays.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine.choose import strategy_for_sampling
from probsfa.statespace.engine.dynamics import Transition, transition_score
from probsfa.statespace.engine.problem import Model, Rows, following_index, make_problem
from probsfa.statespace.engine.recursions import stationary
from probsfa.statespace.engine.settings import broadcasting
from probsfa.statespace.engine.statistics import observation_statistics, transition_statistics


class ScoreTerms(NamedTuple):
    """What the score of a model is made of, by Fisher's identity.

    Attributes
    ----------
    log_likelihood : Array of shape ()
        Log-likelihood in nats.
    by_observations : tuple of Array
        Derivatives by loadings (D, K), noise variances (D,) and offsets (D,).
    transitions : tuple of Array
        Number of transitions over each gap (U,), and sums over them of the terms ``innovation_power`` and
        ``innovation_moments`` (U, L) of :class:`.TransitionTerms`.
    means : Array of shape (T, K)
        Posterior means of the states.
    """

    log_likelihood: Array
    by_observations: tuple[Array, Array, Array]
    transitions: tuple[Array, Array, Array]
    means: Array


def forward_log_likelihood(model: Model, rows: Rows) -> Array:
    """Log-likelihood of rows under a model, in nats: the forward pass alone."""
    problem = make_problem(model, rows, model.n_gaps)
    prior = stationary(model.n_states, rows.values.dtype)
    return jnp.sum(strategy_for_sampling(rows.values.shape[0], model.n_states).forward(problem, prior)[1])


def score_terms(model: Model, rows: Rows) -> ScoreTerms:
    """Log-likelihood of rows under a model, and what its derivatives are made of."""
    n_gaps, noise = model.n_gaps, model.noise_variance
    problem = make_problem(model, rows, n_gaps)
    prior = stationary(model.n_states, rows.values.dtype)
    strategy = strategy_for_sampling(rows.values.shape[0], model.n_states)
    result, log_likelihoods = strategy.forward(problem, prior)
    nothing = jax.tree.map(jnp.zeros_like, prior)
    moments = strategy.packed_moments(problem, result, nothing)
    observed = rows.values, rows.weights, model.loadings, model.offset
    counts, power, crossed, _, _ = observation_statistics(*observed, moments)
    following = following_index(rows, n_gaps)
    transitions = transition_statistics(problem.following, following, n_gaps, moments, nothing)[:3]
    by_latent = crossed / noise[:, None]
    by_noise = 0.5 * (power / noise - counts) / noise
    by_observations = (by_latent[:, :-1], by_noise, by_latent[:, -1])
    return ScoreTerms(jnp.sum(log_likelihoods), by_observations, transitions, moments.means.T)


def _transition_table(decay: Array, gaps: Array | None) -> Transition:
    """Transitions over each gap, and last the one that starts a sequence; no ``gaps`` are one of one unit."""
    over = decay[None, :] if gaps is None else decay ** gaps[:, None]
    return Transition(jnp.concatenate([over, jnp.zeros_like(decay[None, :])]))


@jax.custom_vjp
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
    """Log-likelihood of a factorial AR(1) model, the latents integrated out.

    Parameters
    ----------
    decay : Array of shape (K,)
        Correlation of each latent over one unit of time, inside (-1, 1); positive if `gaps` are not whole.
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
        Which of `gaps` separates a row from the row before; ``len(gaps)`` (1 if there are none) on the first
        row of a sequence.
    gaps : Array of shape (U,), optional
        The different times between successive rows; by default all are one.

    Returns
    -------
    Array of shape ()
        Log-likelihood in nats. Its gradient by the first four arguments, `values` and `gaps` is exact
        (Fisher's identity: Olsson, Petersen & Lehn-Schioler 2007) and can be differentiated again. `mask` and
        `gap_index` are not differentiated. Where a decay is not positive, the gradient by `gaps` is NaN: such
        a process has no value between steps.
    """
    model = Model(_transition_table(decay, gaps), loadings, noise_variance, offset)
    return forward_log_likelihood(model, Rows(values, mask, gap_index))


_Residual = tuple[tuple[Array, Array, Array, Array, Array], Array | None]


@broadcasting()
def _value_and_score(
    decay: Array,
    loadings: Array,
    noise_variance: Array,
    offset: Array,
    values: Array,
    mask: Array,
    gap_index: Array,
    gaps: Array | None = None,
) -> tuple[Array, _Residual]:
    table = _transition_table(decay, gaps)
    model = Model(table, loadings, noise_variance, offset)
    found = score_terms(model, Rows(values, mask, gap_index))
    by_gap = transition_score(table.at(slice(None, -1)), *found.transitions)
    by_decay, by_gaps = _through_gaps(by_gap.decay, decay, gaps)
    # -R^-1 (x - mu - C E[z]), zero where nothing is observed.
    by_values = -mask * (values - offset - found.means @ loadings.T) / noise_variance
    score = (by_decay, *found.by_observations, by_values)
    return found.log_likelihood, (score, by_gaps)


def _through_gaps(by_transition: Array, decay: Array, gaps: Array | None) -> tuple[Array, Array | None]:
    """Scores by the decay over one step and by the gaps, from those (U, K) by the decays over each gap."""
    if gaps is None:
        return by_transition[0], None
    over, pull_back = jax.vjp(lambda a: a ** gaps[:, None], decay)
    rate = jnp.where(decay > 0.0, jnp.log(jnp.where(decay > 0.0, decay, 1.0)), jnp.nan)
    return pull_back(by_transition)[0], jnp.sum(by_transition * over * rate, axis=1)


@broadcasting()
def _pull_back(residual: _Residual, cotangent: Array) -> tuple[Array | None, ...]:
    score, by_gaps = residual
    return (
        *(cotangent * part for part in score),
        None,
        None,
        None if by_gaps is None else cotangent * by_gaps,
    )


marginal_log_likelihood.defvjp(_value_and_score, _pull_back)
