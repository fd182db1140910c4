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

__all__ = ["PanelGivenDraw", "covariate_effects", "mixture_draw_indices", "panels_given_draws"]


class PanelGivenDraw(NamedTuple):
    """The parameters of one draw, and the observations minus the effects of covariates with its coefficients.

    Attributes
    ----------
    params : StateSpace
        Parameters of the draw.
    panel : Panel
        The observations minus the effects.
    effects : ndarray (N, D) or float
        The effects of covariates; zero without covariates.
    """

    params: StateSpace
    panel: Panel
    effects: FloatArray | float = 0.0


def mixture_draw_indices(fitted: FittedPosterior, n_wanted: int) -> list[tuple[int, int]]:
    """Return chain and index of about `n_wanted` draws, evenly spaced in each chain, for predictions."""
    selected = thinned_indices(fitted.draws, n_wanted).tolist()
    return [(chain, draw) for chain in range(len(fitted.draws.decay)) for draw in selected]


def panels_given_draws(
    fitted: FittedPosterior, sequences: Sequences, indices: Iterable[tuple[int, int]]
) -> Iterator[list[PanelGivenDraw]]:
    """Yield, for each of the selected draws, all observations minus the effects of covariates.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit.
    sequences : Sequences
        Checked data in data units, with covariates if the model has any.
    indices : iterable of (int, int)
        Chain and index of each draw.

    Yields
    ------
    list of PanelGivenDraw
        One entry; for a hierarchical model one for each sequence, because noise variances differ.
    """
    panels, _ = panels_of(fitted.units.with_time_unit(sequences), fitted.hierarchical)
    row_ends = np.cumsum([panel.n_rows for panel in panels]).tolist()
    for chain, draw in indices:
        params = [p.state_space for p in parameters_of_draw(fitted.draws, chain, draw, len(panels))]
        if not fitted.exog_names:
            yield [PanelGivenDraw(p, panel) for p, panel in zip(params, panels, strict=True)]
            continue
        effects = covariate_effects(fitted, chain, draw, sequences.exog)
        parts = zip(params, panels, row_ends, strict=True)
        yield [_subtract_effects(p, panel, effects[end - panel.n_rows : end]) for p, panel, end in parts]


def covariate_effects(fitted: FittedPosterior, chain: int, draw: int, exog: FloatArray | None) -> FloatArray:
    """Return the effects (N, D) of covariates (N, P) with the coefficients of a draw."""
    assert exog is not None
    return np.asarray(exog @ fitted.draws.exog_coef[chain, draw].T)


def _subtract_effects(params: StateSpace, panel: Panel, effects: FloatArray) -> PanelGivenDraw:
    """Return observations minus effects (N, D); padding of the panel is unchanged."""
    values = np.array(panel.values[:])
    values[: panel.n_rows] -= panel.mask[: panel.n_rows] * effects
    return PanelGivenDraw(params, panel._replace(values=values), effects)
