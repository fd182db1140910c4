"""Predictions under Student-t noise: for each draw of the parameters, weights of the cells are drawn too.

Given parameters and weights the posterior is normal, so an answer is the mixture over draws of both. Weights
of the rows that are asked about are drawn by Gibbs sampling, latents and weights in turn, at the parameters
of one draw after the other: these differ little, so that few sweeps take the weights from one to the next.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.bayes.draws import parameters_of_draw, thinned
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.sampling.gibbs import draw_weights
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.simulation import draw_latents
from probsfa.statespace.student import StudentNoise

__all__ = ["WeightedDraw", "degrees_of_draws", "weighted_draws"]

# Sweeps before the first draw, and from one to the next.
_FIRST_SWEEPS, _SWEEPS = 20, 3


class WeightedDraw(NamedTuple):
    """A draw of the parameters, and of the weights of the cells of some rows.

    Attributes
    ----------
    params : Parameters
        With squared scales as noise variances.
    panel : Panel
        The rows, with the weights.
    degrees : float
        Degrees of freedom.
    rng : Generator
        For weights of cells that are not observed.
    """

    params: Parameters
    panel: Panel
    degrees: float
    rng: np.random.Generator

    @property
    def expected(self) -> Parameters:
        """The parameters with the variance of noise of which no weight is known."""
        variance = self.params.noise_variance * StudentNoise(self.degrees).variance
        return self.params.replace(noise_variance=variance)

    def variances(self, shape: tuple[int, ...]) -> FloatArray:
        """Drawn variances (..., D) of the noise of cells that are not observed."""
        weights = self.rng.gamma(0.5 * self.degrees, size=shape) / (0.5 * self.degrees)
        return np.asarray(self.params.noise_variance / weights)


def degrees_of_draws(fitted: FittedPosterior, n_wanted: int) -> FloatArray:
    """Degrees of freedom of the draws that predictions are mixed of."""
    assert fitted.degrees is not None
    return fitted.degrees[:, thinned(fitted.draws, n_wanted)].ravel()


def weighted_draws(
    fitted: FittedPosterior, panel: Panel, chosen: list[tuple[int, int]]
) -> Iterator[WeightedDraw]:
    """Go through chosen draws (chain, draw) of a fit with weights for the cells of a panel.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit with Student-t noise.
    panel : Panel
        Packed observations.
    chosen : list of (int, int)
        Which draws.

    Yields
    ------
    WeightedDraw
        The same each time that the same is asked.
    """
    assert fitted.degrees is not None
    rng = np.random.default_rng(fitted.seed)
    weights, sweeps = np.array(panel.mask[:]), _FIRST_SWEEPS
    for chain, draw in chosen:
        [params] = parameters_of_draw(fitted.draws, chain, draw, 1)
        degrees = float(fitted.degrees[chain, draw])
        for _ in range(sweeps):
            latents = draw_latents(params, panel.weighted(weights), 1, rng)[0]
            weights = draw_weights(latents, params, panel, degrees, rng)
        sweeps = _SWEEPS
        yield WeightedDraw(params, panel.weighted(weights), degrees, rng)
