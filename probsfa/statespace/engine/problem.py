"""What a strategy is given: parameters and rows as compiled programs take them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.panel import Panel, decay_over
from probsfa.statespace.parameters import Parameters


class Model(NamedTuple):
    """Parameters as the compiled programs take them.

    ``transitions`` (U + 1, K) has the transition over each of a panel's gaps, and last the one that starts a
    sequence.
    """

    transitions: Transition
    loadings: Array
    noise_variance: Array
    offset: Array

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, ``U``."""
        return self.transitions.decay.shape[0] - 1

    @property
    def n_components(self) -> int:
        """Number of latents, ``K``."""
        return self.transitions.decay.shape[1]


class Rows(NamedTuple):
    """Rows as the compiled programs take them; ``gap_index`` says which gap leads to each row."""

    values: Array
    mask: Array
    gap_index: Array


class Problem(NamedTuple):
    """Parameters and a stretch of rows, the whole of the data or a chunk of it.

    ``transitions`` (T, K) lead to each row from the one before, ``after`` (K,) from the last row to the one
    after, with decays of zero where nothing follows.
    """

    values: Array
    mask: Array
    transitions: Transition
    after: Transition
    loadings: Array
    noise_variance: Array
    offset: Array

    @property
    def following(self) -> Transition:
        """Transitions from each row to the next, (T, K)."""
        return Transition(jnp.concatenate([self.transitions.decay[1:], self.after.decay[None]]))


def make_model(params: Parameters, panel: Panel) -> Model:
    """Parameters with the transitions over the gaps of a panel."""
    decays = np.vstack([decay_over(params.decay, panel.gaps), np.zeros((1, params.n_components))])
    table, *others = map(jnp.asarray, (decays, params.loadings, params.noise_variance, params.offset))
    return Model(Transition(table), *others)


def make_problem(model: Model, rows: Rows, after_index: Array | int) -> Problem:
    """A stretch of rows under a model; gap ``after_index`` leads to the row after it."""
    table = model.transitions.decay
    if model.n_gaps == 1:
        decays = jnp.where((rows.gap_index == 0)[:, None], table[0], 0.0)
    else:
        decays = table[rows.gap_index]
    return Problem(rows.values, rows.mask, Transition(decays), Transition(table[after_index]), *model[1:])


def following_index(rows: Rows, after_index: Array | int) -> Array:
    """Which gap leads from each row to the next."""
    return jnp.concatenate([rows.gap_index[1:], jnp.asarray(after_index, rows.gap_index.dtype)[None]])
