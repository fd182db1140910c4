"""Observations for each posterior draw, minus the effects of covariates with the coefficients of the draw."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.draws import parameters_of_draw, thinned_indices
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.packing import panels_of
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = ["GivenDraw", "effects_of_draw", "pairs_of_mixture", "rows_given_draws"]


class GivenDraw(NamedTuple):
    """The parameters of one draw, and a panel of observations with these parameters.

    Attributes
    ----------
    params : StateSpace
        Parameters of the draw.
    panel : Panel
        The observations minus the effects of covariates.
    effects : ndarray (N, D) or float
        The effects of covariates; zero without covariates.
    """

    params: StateSpace
    panel: Panel
    effects: FloatArray | float = 0.0


def pairs_of_mixture(fitted: FittedPosterior, n_wanted: int) -> list[tuple[int, int]]:
    """Return chain and index of about `n_wanted` draws, evenly spaced in each chain, for predictions."""
    selected = thinned_indices(fitted.draws, n_wanted).tolist()
    return [(chain, draw) for chain in range(len(fitted.draws.decay)) for draw in selected]


def rows_given_draws(
    fitted: FittedPosterior, sequences: Sequences, chosen: Iterable[tuple[int, int]]
) -> Iterator[list[GivenDraw]]:
    """Yield all observations for each of the selected draws.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit.
    sequences : Sequences
        Checked data in data units, with covariates if the model has any.
    chosen : iterable of (int, int)
        Chain and index of each draw.

    Yields
    ------
    list of GivenDraw
        One entry; for a hierarchical model one for each sequence, because noise variances differ.
    """
    panels, _ = panels_of(fitted.units.with_time_unit(sequences), fitted.hierarchical)
    ends = np.cumsum([panel.n_rows for panel in panels]).tolist()
    for chain, draw in chosen:
        params = [p.state_space for p in parameters_of_draw(fitted.draws, chain, draw, len(panels))]
        if not fitted.exog_names:
            yield [GivenDraw(p, panel) for p, panel in zip(params, panels, strict=True)]
            continue
        effects = effects_of_draw(fitted, chain, draw, sequences.exog)
        parts = zip(params, panels, ends, strict=True)
        yield [_less(p, panel, effects[end - panel.n_rows : end]) for p, panel, end in parts]


def effects_of_draw(fitted: FittedPosterior, chain: int, draw: int, exog: FloatArray | None) -> FloatArray:
    """Return the effects (N, D) of covariates (N, P) with the coefficients of a draw."""
    assert exog is not None
    return np.asarray(exog @ fitted.draws.exog_coef[chain, draw].T)


def _less(params: StateSpace, panel: Panel, effects: FloatArray) -> GivenDraw:
    """Return observations minus effects (N, D); padding of the panel is unchanged."""
    values = np.array(panel.values[:])
    values[: panel.n_rows] -= panel.mask[: panel.n_rows] * effects
    return GivenDraw(params, panel._replace(values=values), effects)
