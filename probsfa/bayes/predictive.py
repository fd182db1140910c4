"""What a fitted posterior says of sequences: latents, missing cells, forecasts, and draws of these.

Each answer is a mixture over draws of the parameters; with the parameters of one draw, the functions of
:mod:`probsfa.statespace` give it exactly.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.draws import parameters_of_draw, parameters_of_draws, posterior_mean, thinned
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.mixtures import (
    CellMixture,
    RunningMean,
    cell_mixtures,
    make_cell_mixture,
    mixture_posteriors,
)
from probsfa.bayes.packing import panels_of
from probsfa.statespace.leave_one_out import Comparison, compare_with_interpolation, left_out
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import Posterior, smooth
from probsfa.statespace.prediction import Forecast, check_finite, forecast, observation_moments
from probsfa.statespace.simulation import draw_latents, simulate

# Draws whose predictions are averaged where the model is compared with straight lines.
_COMPARED_DRAWS = 8


class BayesianForecast(NamedTuple):
    """Distribution of the ``H`` steps after the last row, the parameters as uncertain as they are.

    Attributes
    ----------
    means, std : ndarray or frame of shape (H, D)
        Means and standard deviations of the observations, their noise included, in data units.
    latent_means, latent_std : ndarray or frame of shape (H, K)
        Means and standard deviations of the latents.
    lower, upper : ndarray or frame of shape (H, D)
        Ends of the central interval of the observations, of the probability asked for.

    See Also
    --------
    BayesianSFA.forecast : Makes it.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", progress_bar=False, random_state=0).fit(X)
    >>> future = model.forecast(X, 5)
    >>> future.means.shape, bool((future.lower < future.upper).all())
    ((5, 3), True)
    """

    means: Any
    std: Any
    latent_means: Any
    latent_std: Any
    lower: Any
    upper: Any


def predict_latents(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> Posterior:
    """Distribution of the latents of all rows, sequences one after the other.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit.
    sequences : Sequences
        Checked data, in data units.
    n_predictive : int
        Draws to mix, spread over the chains.

    Returns
    -------
    Posterior
        Lag-one covariances between sequences are zero.
    """
    panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    parts = mixture_posteriors(_thinned_parameters(fitted, n_predictive, len(panels)), panels)
    for one in parts:
        check_finite(sequences, posterior_mean(fitted.draws), *one)
    if len(parts) == 1:
        return parts[0]
    k = parts[0].means.shape[1]
    lags = [part for one in parts for part in (one.lag_one_covariances, np.zeros((1, k, k)))][:-1]
    return Posterior(
        np.concatenate([one.means for one in parts]),
        np.concatenate([one.covariances for one in parts]),
        np.concatenate(lags),
        np.concatenate([one.row_log_likelihoods for one in parts]),
    )


def predict_missing(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> CellMixture:
    """Distribution of the missing cells, row by row; parameters as in :func:`predict_latents`."""
    panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    missing = np.isnan(sequences.values)
    cuts = np.cumsum([panel.n_rows for panel in panels])[:-1]
    draws = _thinned_parameters(fitted, n_predictive, len(panels))
    parts = cell_mixtures(draws, panels, np.split(missing, cuts))
    for one in parts:
        check_finite(sequences, posterior_mean(fitted.draws), one.mean, one.std)
    return CellMixture(
        np.concatenate([one.mean for one in parts]),
        np.concatenate([one.std for one in parts]),
        np.concatenate([one.means for one in parts], axis=1),
        np.concatenate([one.stds for one in parts], axis=1),
    )


def beside_interpolation(fitted: FittedPosterior, sequences: Sequences) -> Comparison | None:
    """How the model and straight lines find observed cells again, left out one at a time.

    Predictions of a few draws are averaged. Parameters as in :func:`predict_latents`.

    Returns
    -------
    Comparison or None
        None where nothing is missing.
    """
    if sequences.mask.all():
        return None
    panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    cuts = np.cumsum([panel.n_rows for panel in panels])[:-1]
    parts = np.split(sequences.values, cuts)
    found = RunningMean()
    for draw in _thinned_parameters(fitted, _COMPARED_DRAWS, len(panels)):
        without = []
        for params, panel, values in zip(draw, panels, parts, strict=True):
            one = smooth(params, panel)
            moments = observation_moments(params, one.means, one.covariances)
            without.append(left_out(values, *moments, params.noise_variance))
        found.add(np.concatenate(without))
    return compare_with_interpolation(sequences, found.value)


def predict_ahead(
    fitted: FittedPosterior,
    sequences: Sequences,
    n_predictive: int,
    steps: list[FloatArray],
    ends: tuple[float, float],
) -> list[BayesianForecast]:
    """Forecast of each sequence.

    Parameters
    ----------
    fitted, sequences, n_predictive
        As in :func:`predict_latents`.
    steps : list of ndarray (H,)
        For each sequence, units of time after its last row.
    ends : (float, float)
        Probabilities below the two ends of the intervals.
    """
    panels, last_rows = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    forecasts: list[list[Forecast]] = [[] for _ in sequences.lengths]
    for draw in _thinned_parameters(fitted, n_predictive, len(panels)):
        for params, panel, rows in zip(draw, panels, last_rows, strict=True):
            one = smooth(params, panel)
            for i, last in rows:
                forecasts[i].append(forecast(params, one.means[last], one.covariances[last], steps[i]))
    return [_mix_forecasts(many, ends) for many in forecasts]


def _mix_forecasts(many: list[Forecast], ends: tuple[float, float]) -> BayesianForecast:
    """Mixture of the forecasts of the draws."""
    observed = make_cell_mixture(np.array([one.means for one in many]), np.array([one.std for one in many]))
    latent = make_cell_mixture(
        np.array([one.latent_means for one in many]), np.array([one.latent_std for one in many])
    )
    lower, upper = (observed.quantile(p) for p in ends)
    return BayesianForecast(observed.mean, observed.std, latent.mean, latent.std, lower, upper)


def draw_latent_paths(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Paths of the latents given the data (n_draws, T, K), each with parameters of another draw."""
    panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    chains, n = fitted.draws.decay.shape[:2]
    picked = np.unravel_index(rng.integers(chains * n, size=n_draws), (chains, n))
    paths = []
    for chain, draw in zip(*picked, strict=True):
        params = parameters_of_draw(fitted.draws, chain, draw, len(panels))
        parts = [draw_latents(p, panel, 1, rng)[0] for p, panel in zip(params, panels, strict=True)]
        paths.append(np.concatenate(parts))
    return np.array(paths)


def draw_series(
    fitted: FittedPosterior, n_steps: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """A new series (n_steps, D) and its latents (n_steps, K), with the parameters of one draw."""
    chains, n = fitted.draws.decay.shape[:2]
    chain, draw = int(rng.integers(chains)), int(rng.integers(n))
    params = Parameters(*(x[chain, draw] for x in fitted.draws))
    if params.noise_variance.ndim == 2:
        noise = params.noise_variance[int(rng.integers(len(params.noise_variance)))]
        params = params._replace(noise_variance=noise)
    return simulate(params, n_steps, rng)


def _thinned_parameters(
    fitted: FittedPosterior, n_predictive: int, n_panels: int
) -> Iterator[list[Parameters]]:
    """Parameters of each panel, for the draws that predictions are mixed of."""
    return parameters_of_draws(fitted.draws, n_panels, thinned(fitted.draws, n_predictive))


def panels_and_draws(fitted: FittedPosterior, n_wanted: int) -> tuple[list[Panel], NDArray[np.intp]]:
    """Packed training data, and which draws to use of each chain."""
    panels, _ = panels_of(fitted.units.retimed(fitted.sequences), fitted.hierarchical)
    return panels, thinned(fitted.draws, n_wanted)
