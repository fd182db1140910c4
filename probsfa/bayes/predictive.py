"""Posterior predictions for sequences: factors, missing values, forecasts, and draws.

Each prediction is a mixture over draws of the parameters. Given the parameters of one draw, it is computed
exactly by the functions of :mod:`probsfa.statespace`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.conditional import GivenDraw, effects_of_draw, pairs_of_mixture, rows_given_draws
from probsfa.bayes.draws import as_parameters, posterior_mean
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.mixtures import (
    CellMixture,
    MixtureMoments,
    RunningMean,
    cell_mixtures,
    make_cell_mixture,
    mixture_posterior,
    mixture_posteriors,
)
from probsfa.bayes.packing import panels_of
from probsfa.bayes.weights import WeightedDraw, degrees_of_draws, weighted_draws
from probsfa.statespace.engine.posterior import (
    Posterior,
    check_finite,
    draw_latents,
    observation_moments,
    simulate,
    smooth,
)
from probsfa.statespace.leave_one_out import Comparison, compare_with_interpolation, left_out
from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction import Forecast, forecast
from probsfa.statespace.student import cell_moments, infer_weights, left_out_cells

# Number of draws whose predictions are averaged for the comparison with linear interpolation.
_COMPARED_DRAWS = 8
# Number of draws for a bound or for leave-one-out predictions, and the tolerance of a bound in nats.
_BOUNDED_DRAWS, _WORTH_A_ROUND = 40, 1e-3


class BayesianForecast(Forecast):
    """Forecast of ``H`` steps after the last row, with the uncertainty of the parameters.

    Attributes
    ----------
    means, std : ndarray or frame of shape (H, D)
        Means and standard deviations of the observations, including noise, in data units.
    latent_means, latent_std : ndarray or frame of shape (H, K)
        Means and standard deviations of the factors.
    lower, upper : ndarray or frame of shape (H, D)
        Limits of prediction intervals of the observations: quantiles of the mixture over the draws.

    See Also
    --------
    BayesianSFA.forecast : The method that computes it.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> future = model.forecast(X, 5)
    >>> future.means.shape, bool((future.lower < future.upper).all())
    ((5, 3), True)
    """


class MissingCells(NamedTuple):
    """Distribution of missing values.

    Attributes
    ----------
    values : ndarray (N, D)
        Observed values, NaN where missing.
    mixture : CellMixture
        Distribution of the missing values, row by row.
    """

    values: FloatArray
    mixture: CellMixture

    def _imputed(self, observed: FloatArray, cells: FloatArray) -> FloatArray:
        out = observed.copy()
        out[np.isnan(self.values)] = cells
        return out

    @property
    def means(self) -> FloatArray:
        """Return the series with missing values imputed by their means, shape (N, D)."""
        return self._imputed(self.values, self.mixture.mean)

    @property
    def std(self) -> FloatArray:
        """Return standard deviations, zero for observed values, shape (N, D)."""
        return self._imputed(np.zeros_like(self.values), self.mixture.std)

    def quantile(self, probability: float) -> FloatArray:
        """Return the series with missing values imputed by quantiles of the mixture, shape (N, D)."""
        return self._imputed(self.values, self.mixture.quantile(probability))


def predict_latents(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> Posterior:
    """Return the distribution of the factors of all rows, sequences one after the other.

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
    if fitted.degrees is not None:
        panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
        whole = mixture_posterior((one.params, one.panel) for one in _weighted(fitted, panels, n_predictive))
        check_finite(sequences, posterior_mean(fitted.draws), *whole[:3])
        return whole
    parts = mixture_posteriors(_of_mixture(fitted, sequences, n_predictive))
    for one in parts:
        check_finite(sequences, posterior_mean(fitted.draws), *one)
    if fitted.maximum.has_ar1_noise:
        return parts[0].of(fitted.reported_states)
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
    """Return the distribution of the missing values, row by row; parameters as in :func:`predict_latents`."""
    panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    missing = np.isnan(sequences.values)
    if fitted.degrees is not None:
        cells = _missing_under_student_noise(_weighted(fitted, panels, n_predictive), missing)
        check_finite(sequences, posterior_mean(fitted.draws), cells.mean, cells.std)
        return cells
    cuts = np.cumsum([panel.n_rows for panel in panels])[:-1]
    parts = cell_mixtures(_of_mixture(fitted, sequences, n_predictive), np.split(missing, cuts))
    for one in parts:
        check_finite(sequences, posterior_mean(fitted.draws), one.mean, one.std)
    return CellMixture(
        np.concatenate([one.mean for one in parts]),
        np.concatenate([one.std for one in parts]),
        np.concatenate([one.means for one in parts], axis=1),
        np.concatenate([one.stds for one in parts], axis=1),
    )


def beside_interpolation(fitted: FittedPosterior, sequences: Sequences) -> Comparison | None:
    """Compare the leave-one-out errors of the model and of linear interpolation.

    Predictions of a few draws are averaged. Parameters as in :func:`predict_latents`.

    Returns
    -------
    Comparison or None
        None if no value is missing.
    """
    if sequences.mask.all():
        return None
    panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    cuts = np.cumsum([panel.n_rows for panel in panels])[:-1]
    parts = np.split(sequences.values, cuts)
    found = RunningMean()
    if fitted.degrees is not None:
        for weighted in _weighted(fitted, panels, _COMPARED_DRAWS):
            found.add(_left_out(weighted.params, weighted.panel)[0])
        return compare_with_interpolation(sequences, found.value)
    for draw in _of_mixture(fitted, sequences, _COMPARED_DRAWS):
        without = []
        for (params, panel, effects), values in zip(draw, parts, strict=True):
            one = smooth(params, panel)
            moments = observation_moments(params, one.means, one.covariances)
            without.append(left_out(values - effects, *moments, params.noise_variance) + effects)
        found.add(np.concatenate(without))
    return compare_with_interpolation(sequences, found.value)


def predict_ahead(
    fitted: FittedPosterior,
    sequences: Sequences,
    n_predictive: int,
    steps: list[FloatArray],
    following: Sequence[FloatArray] | None = None,
) -> list[BayesianForecast]:
    """Return the forecast of each sequence.

    Parameters
    ----------
    fitted, sequences, n_predictive
        As in :func:`predict_latents`.
    steps : list of ndarray (H,)
        For each sequence, units of time after its last row.
    following : sequence of ndarray (H, P), optional
        Covariates at these times.
    """
    panels, last_rows = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
    forecasts: list[list[Forecast]] = [[] for _ in sequences.lengths]
    if fitted.degrees is not None:
        spreads: list[list[FloatArray]] = [[] for _ in sequences.lengths]
        for weighted in _weighted(fitted, panels, n_predictive):
            whole, params = smooth(weighted.params, weighted.panel), weighted.expected
            for i, last in last_rows[0]:
                ahead = forecast(params, whole.means[last], whole.covariances[last], steps[i])
                forecasts[i].append(ahead)
                explained = np.maximum(ahead.std**2 - params.noise_variance, 0.0)
                spreads[i].append(np.sqrt(explained + weighted.variances(ahead.std.shape)))
        return [_mix_forecasts(many, stds) for many, stds in zip(forecasts, spreads, strict=True)]
    pairs = pairs_of_mixture(fitted, n_predictive)
    for pair, draw in zip(pairs, rows_given_draws(fitted, sequences, pairs), strict=True):
        for (params, panel, _), rows in zip(draw, last_rows, strict=True):
            one = smooth(params, panel)
            for i, last in rows:
                ahead = forecast(params, one.means[last], one.covariances[last], steps[i])
                if following is not None:
                    ahead = replace(ahead, means=ahead.means + effects_of_draw(fitted, *pair, following[i]))
                forecasts[i].append(ahead)
    mixed = [_mix_forecasts(many) for many in forecasts]
    shared = fitted.reported_states
    return [
        replace(one, latent_means=one.latent_means[:, shared], latent_std=one.latent_std[:, shared])
        for one in mixed
    ]


def _mix_forecasts(many: list[Forecast], spreads: list[FloatArray] | None = None) -> BayesianForecast:
    """Return the mixture of the forecasts of the draws; `spreads` are standard deviations for quantiles."""
    observed = make_cell_mixture(np.array([one.means for one in many]), np.array([one.std for one in many]))
    latent = make_cell_mixture(
        np.array([one.latent_means for one in many]), np.array([one.latent_std for one in many])
    )
    if spreads is not None:
        observed = observed._replace(stds=np.array(spreads))
    return BayesianForecast(observed.mean, observed.std, latent.mean, latent.std, _cells=observed)


def draw_latent_paths(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw paths of the factors given the data (n_draws, T, K), each with the parameters of another draw."""
    drawn = _drawn_paths(fitted, sequences, n_draws, rng)
    paths = np.array([np.concatenate([path for _, path in parts]) for parts, _ in drawn])
    return paths[:, :, fitted.reported_states]


def draw_observations(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw the missing values of series (n_draws, T, D), each with the parameters of another draw."""
    drawn = []
    for parts, degrees in _drawn_paths(fitted, sequences, n_draws, rng):
        rows = []
        for (params, _, effects), path in parts:
            shape = len(path), len(params.offset)
            noise = rng.standard_normal(shape) if degrees is None else rng.standard_t(degrees, shape)
            signal = params.offset + effects + path @ params.loadings.T
            rows.append(signal + noise * np.sqrt(params.noise_variance))
        drawn.append(np.where(sequences.mask, sequences.values, np.concatenate(rows)))
    return np.array(drawn)


def _drawn_paths(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> Iterator[tuple[list[tuple[GivenDraw, FloatArray]], float | None]]:
    """Yield for each draw the panels and paths (T_i, S) of their states, and degrees of freedom, if any.

    The states include the AR(1) noise of columns.
    """
    chains, n = fitted.draws.decay.shape[:2]
    picked = np.unravel_index(rng.integers(chains * n, size=n_draws), (chains, n))
    pairs = [(int(chain), int(draw)) for chain, draw in zip(*picked, strict=True)]
    if fitted.degrees is not None:
        [panel], _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
        for one in weighted_draws(fitted, panel, pairs):
            given = GivenDraw(one.params, one.panel)
            yield [(given, draw_latents(one.params, one.panel, 1, rng)[0])], one.degrees
        return
    for parts in rows_given_draws(fitted, sequences, pairs):
        yield [(one, draw_latents(one.params, one.panel, 1, rng)[0]) for one in parts], None


def mean_contributions(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> FloatArray:
    """Return means over the draws of posterior means of the factors times loadings, (T, D, K).

    With AR(1) noise its contribution is a further entry, (T, D, K + 1); those of covariates are the last.
    """
    found = RunningMean()
    if fitted.degrees is not None:
        panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
        for weighted in _weighted(fitted, panels, n_predictive):
            means = smooth(weighted.params, weighted.panel).means
            found.add(means[:, None, :] * weighted.params.loadings)
        return found.value
    for draw in _of_mixture(fitted, sequences, n_predictive):
        parts = [smooth(p, panel).means[:, None, :] * p.loadings for p, panel, _ in draw]
        found.add(np.concatenate(parts))
    whole = found.value
    if fitted.maximum.has_ar1_noise:
        shared = fitted.reported_states
        own = np.delete(whole, shared, axis=2).sum(axis=2, keepdims=True)
        whole = np.concatenate([whole[:, :, shared], own], axis=2)
    if sequences.exog is None:
        return whole
    coefficients = np.mean(fitted.draws.exog_coef, axis=(0, 1))
    return np.concatenate([whole, sequences.exog[:, None, :] * coefficients], axis=2)


def draw_series(
    fitted: FittedPosterior, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Simulate a series (n_steps, D) and its factors (n_steps, K), with the parameters of one draw.

    With covariates (n_steps, P), if the model has any.
    """
    chains, n = fitted.draws.decay.shape[:2]
    chain, draw = int(rng.integers(chains)), int(rng.integers(n))
    params = as_parameters(fitted.draws, lambda x: x[chain, draw])
    if params.noise_variance.ndim == 2:
        noise = params.noise_variance[int(rng.integers(len(params.noise_variance)))]
        params = params.replace(noise_variance=noise)
    values, latents = simulate(params.state_space, n_steps, rng)
    if exog is not None:
        values = values + effects_of_draw(fitted, chain, draw, exog)
    if params.has_ar1_noise:
        return values, latents[:, fitted.reported_states]
    if fitted.degrees is not None:
        noise = np.sqrt(params.noise_variance) * rng.standard_t(fitted.degrees[chain, draw], values.shape)
        values = params.offset + latents @ params.loadings.T + noise
    return values, latents


def log_predictive_density(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> float:
    """Return the log predictive density of all rows, in nats; with Student-t noise a lower bound."""
    if fitted.degrees is None:
        return predict_latents(fitted, sequences, n_predictive).log_likelihood
    n_draws = min(n_predictive, _BOUNDED_DRAWS)
    weights, bounds = None, []
    degrees = degrees_of_draws(fitted, n_draws)
    for nu, [one] in zip(degrees, _of_mixture(fitted, sequences, n_draws), strict=True):
        inferred = infer_weights(one.params, one.panel, StudentNoise(float(nu)), weights, _WORTH_A_ROUND)
        weights = inferred.weights.values
        bounds.append(inferred.bound)
    check_finite(sequences, posterior_mean(fitted.draws), np.array(bounds))
    return float(logsumexp(bounds) - np.log(len(bounds)))


def outlier_scores(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> FloatArray:
    """Return leave-one-out errors (N, D) of observed values, in standard deviations of predictions."""
    n_draws, moments = min(n_predictive, _BOUNDED_DRAWS), MixtureMoments()
    draws: Iterable[list[GivenDraw]]
    if fitted.degrees is not None:
        panels, _ = panels_of(fitted.units.retimed(sequences), fitted.hierarchical)
        draws = ([GivenDraw(one.params, one.panel)] for one in _weighted(fitted, panels, n_draws))
    else:
        draws = _of_mixture(fitted, sequences, n_draws)
    for parts in draws:
        predicted = [(*_left_out(one.params, one.panel), one) for one in parts]
        moments.add(
            np.concatenate([means + one.effects for means, _, one in predicted]),
            np.concatenate([explained + one.params.noise_variance for _, explained, one in predicted]),
        )
    return np.abs(sequences.values - moments.mean) / np.sqrt(moments.variance)


def _left_out(params: StateSpace, panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances (N, D) of the noise-free values."""
    return left_out_cells(params, panel, cell_moments(params, panel), np.asarray(panel.cell_weights[:]))


def _weighted(fitted: FittedPosterior, panels: list[Panel], n_predictive: int) -> Iterator[WeightedDraw]:
    """Yield the draws of the predictive mixture, with weights of the values of the single panel."""
    return weighted_draws(fitted, panels[0], pairs_of_mixture(fitted, n_predictive))


def _missing_under_student_noise(draws: Iterator[WeightedDraw], missing: NDArray[np.bool_]) -> CellMixture:
    """Return the distribution of missing values, with noise that is normal given drawn weights."""
    means, stds, spreads = [], [], []
    for one in draws:
        whole = smooth(one.params, one.panel)
        mean, variance = observation_moments(one.expected, whole.means, whole.covariances)
        explained = np.maximum(variance - one.expected.noise_variance, 0.0)
        means.append(mean[missing])
        stds.append(np.sqrt(variance)[missing])
        spreads.append(np.sqrt(explained + one.variances(missing.shape))[missing])
    return make_cell_mixture(np.array(means), np.array(stds))._replace(stds=np.array(spreads))


def _of_mixture(
    fitted: FittedPosterior, sequences: Sequences, n_predictive: int
) -> Iterator[list[GivenDraw]]:
    """Yield the rows given each draw of the predictive mixture."""
    return rows_given_draws(fitted, sequences, pairs_of_mixture(fitted, n_predictive))
