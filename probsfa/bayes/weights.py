"""Predictions with Student-t noise: weights of the values are drawn for each draw of the parameters.

Given parameters and weights the posterior is normal, so that predictions are mixtures over draws of both.
Weights of new rows are drawn by Gibbs sampling of factors and weights, for one draw of the parameters after
the other. The weights of the previous draw are the start, so that a few sweeps are enough for each draw.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.bayes.draws import parameters_of_draw, thinned_indices
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.sampling.gibbs import draw_weights
from probsfa.statespace.engine.posterior import draw_factors
from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = ["WeightedDraw", "degrees_of_draws", "weighted_draws"]

# Sweeps before the first draw, and between draws.
_N_BURN_IN_SWEEPS, _N_SWEEPS_PER_DRAW = 20, 3


class WeightedDraw(NamedTuple):
    """A draw of the parameters and of the weights of the values of some rows.

    Attributes
    ----------
    params : StateSpace
        Parameters, with squared scales as noise variances.
    panel : Panel
        The observations and their weights.
    degrees : float
        Degrees of freedom.
    rng : Generator
        Random numbers for the weights of missing values.
    """

    params: StateSpace
    panel: Panel
    degrees: float
    rng: np.random.Generator

    @property
    def marginal_params(self) -> StateSpace:
        """Parameters with the variance of Student-t noise, for values without a drawn weight."""
        variance = self.params.noise_variance * StudentNoise(self.degrees).variance
        return self.params.replace(noise_variance=variance)

    def draw_noise_variances(self, shape: tuple[int, ...]) -> FloatArray:
        """Draw noise variances (..., D) of missing values."""
        weights = self.rng.gamma(0.5 * self.degrees, size=shape) / (0.5 * self.degrees)
        return np.asarray(self.params.noise_variance / weights)


def degrees_of_draws(fitted: FittedPosterior, n_wanted: int) -> FloatArray:
    """Return the degrees of freedom of about `n_wanted` draws, evenly spaced in each chain."""
    assert fitted.degrees is not None
    return fitted.degrees[:, thinned_indices(fitted.draws, n_wanted)].ravel()


def weighted_draws(
    fitted: FittedPosterior, panel: Panel, chosen: list[tuple[int, int]]
) -> Iterator[WeightedDraw]:
    """Yield selected draws of the parameters, each with a draw of the weights of the values of a panel.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit with Student-t noise.
    panel : Panel
        The observations.
    chosen : list of (int, int)
        Chain and index of each draw.

    Yields
    ------
    WeightedDraw
        The seed of the weights is the same in each call.
    """
    assert fitted.degrees is not None
    rng = np.random.default_rng(fitted.seed)
    weights, sweeps = np.array(panel.mask[:]), _N_BURN_IN_SWEEPS
    for chain, draw in chosen:
        [params] = parameters_of_draw(fitted.draws, chain, draw, 1)
        degrees = float(fitted.degrees[chain, draw])
        for _ in range(sweeps):
            factors = draw_factors(params, panel.weighted(weights), 1, rng)[0]
            weights = draw_weights(factors, params, panel, degrees, rng)
        sweeps = _N_SWEEPS_PER_DRAW
        yield WeightedDraw(params, panel.weighted(weights), degrees, rng)
