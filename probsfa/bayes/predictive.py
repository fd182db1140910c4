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
from probsfa.bayes.conditional import (
    PanelGivenDraw,
    covariate_effects,
    mixture_draw_indices,
    panels_given_draws,
)
from probsfa.bayes.draws import as_parameters, posterior_mean
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.mixtures import (
    MixtureMoments,
    RunningMean,
    ValueMixture,
    make_value_mixture,
    mixture_posterior,
    mixture_posteriors,
    value_mixtures,
)
from probsfa.bayes.packing import panels_of
from probsfa.bayes.weights import WeightedDraw, degrees_of_draws, weighted_draws
from probsfa.statespace.engine.posterior import (
    Posterior,
    check_finite,
    draw_factors,
    observation_moments,
    simulate,
    smooth,
)
from probsfa.statespace.leave_one_out import (
    InterpolationComparison,
    compare_with_interpolation,
    leave_one_out_means,
)
from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction import Forecast, forecast
from probsfa.statespace.student import infer_weights, left_out_moments, value_moments

# Number of draws whose predictions are averaged for the comparison with linear interpolation.
_N_COMPARED_DRAWS = 8
# Maximum number of draws for lower bounds of the likelihood and for outlier scores.
_N_BOUND_DRAWS = 40
# Tolerance of the lower bound of the log-likelihood for one draw, in nats.
_BOUND_TOL = 1e-3


class BayesianForecast(Forecast):
    """Forecast of ``H`` steps after the last row, with the uncertainty of the parameters.

    Attributes
    ----------
    means, std : ndarray or DataFrame of shape (H, D)
        Means and standard deviations of the observations, including noise, in data units.
    latent_means, latent_std : ndarray or DataFrame of shape (H, K)
        Means and standard deviations of the factors.
    lower, upper : ndarray or DataFrame of shape (H, D)
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


class MissingValues(NamedTuple):
    """Distribution of missing values.

    Attributes
    ----------
    values : ndarray (N, D)
        Observed values, NaN where missing.
    mixture : ValueMixture
        Distribution of the missing values, in row-major order.
    """

    values: FloatArray
    mixture: ValueMixture

    def _imputed(self, observed: FloatArray, values: FloatArray) -> FloatArray:
        out = observed.copy()
        out[np.isnan(self.values)] = values
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


def predict_factors(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> Posterior:
    """Return the distribution of the factors of all rows, concatenated over sequences.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit.
    sequences : Sequences
        Checked data, in data units.
    n_predictive : int
        Number of draws to average, evenly spaced in each chain.

    Returns
    -------
    Posterior
        Lag-one covariances between sequences are zero.
    """
    if fitted.degrees is not None:
        posterior = mixture_posterior(
            (draw.params, draw.panel) for draw in _weighted_mixture(fitted, sequences, n_predictive)
        )
        check_finite(sequences, posterior_mean(fitted.draws), *posterior[:3])
        return posterior
    parts = mixture_posteriors(_mixture_panels(fitted, sequences, n_predictive))
    for draw in parts:
        check_finite(sequences, posterior_mean(fitted.draws), *draw)
    if fitted.maximum.has_ar1_noise:
        return parts[0].of(fitted.reported_states)
    if len(parts) == 1:
        return parts[0]
    k = parts[0].means.shape[1]
    lags = [part for draw in parts for part in (draw.lag_one_covariances, np.zeros((1, k, k)))][:-1]
    return Posterior(
        np.concatenate([draw.means for draw in parts]),
        np.concatenate([draw.covariances for draw in parts]),
        np.concatenate(lags),
        np.concatenate([draw.row_log_likelihoods for draw in parts]),
    )


def predict_missing(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> ValueMixture:
    """Return the distribution of the missing values in row-major order.

    Parameters are those of :func:`predict_factors`.
    """
    missing = np.isnan(sequences.values)
    if fitted.degrees is not None:
        mixture = _missing_under_student_noise(_weighted_mixture(fitted, sequences, n_predictive), missing)
        check_finite(sequences, posterior_mean(fitted.draws), mixture.mean, mixture.std)
        return mixture
    panels, _ = panels_of(fitted.units.with_time_unit(sequences), fitted.hierarchical)
    boundaries = np.cumsum([panel.n_rows for panel in panels])[:-1]
    parts = value_mixtures(_mixture_panels(fitted, sequences, n_predictive), np.split(missing, boundaries))
    for mixture in parts:
        check_finite(sequences, posterior_mean(fitted.draws), mixture.mean, mixture.std)
    return ValueMixture(
        np.concatenate([mixture.mean for mixture in parts]),
        np.concatenate([mixture.std for mixture in parts]),
        np.concatenate([mixture.means for mixture in parts], axis=1),
        np.concatenate([mixture.stds for mixture in parts], axis=1),
    )


def interpolation_check(fitted: FittedPosterior, sequences: Sequences) -> InterpolationComparison | None:
    """Compare the leave-one-out errors of the model and of linear interpolation.

    Predictions of a few draws are averaged. Parameters are those of :func:`predict_factors`.

    Returns
    -------
    InterpolationComparison or None
        None if no value is missing.
    """
    if sequences.mask.all():
        return None
    mean_errors = RunningMean()
    if fitted.degrees is not None:
        for weighted in _weighted_mixture(fitted, sequences, _N_COMPARED_DRAWS):
            mean_errors.add(_left_out(weighted.params, weighted.panel)[0])
        return compare_with_interpolation(sequences, mean_errors.value)
    panels, _ = panels_of(fitted.units.with_time_unit(sequences), fitted.hierarchical)
    boundaries = np.cumsum([panel.n_rows for panel in panels])[:-1]
    parts = np.split(sequences.values, boundaries)
    for draw in _mixture_panels(fitted, sequences, _N_COMPARED_DRAWS):
        left_out_means = []
        for (params, panel, effects), values in zip(draw, parts, strict=True):
            posterior = smooth(params, panel)
            moments = observation_moments(params, posterior.means, posterior.covariances)
            left_out_means.append(
                leave_one_out_means(values - effects, *moments, params.noise_variance) + effects
            )
        mean_errors.add(np.concatenate(left_out_means))
    return compare_with_interpolation(sequences, mean_errors.value)


def predict_ahead(
    fitted: FittedPosterior,
    sequences: Sequences,
    n_predictive: int,
    steps: list[FloatArray],
    future_exog: Sequence[FloatArray] | None = None,
) -> list[BayesianForecast]:
    """Return the forecast of each sequence.

    Parameters
    ----------
    fitted, sequences, n_predictive
        As in :func:`predict_factors`.
    steps : list of ndarray (H,)
        For each sequence, times after its last row, in units of the model.
    future_exog : sequence of ndarray (H, P), optional
        Covariates at these times.
    """
    _, last_rows = panels_of(fitted.units.with_time_unit(sequences), fitted.hierarchical)
    forecasts: list[list[Forecast]] = [[] for _ in sequences.lengths]
    if fitted.degrees is not None:
        spreads: list[list[FloatArray]] = [[] for _ in sequences.lengths]
        for weighted in _weighted_mixture(fitted, sequences, n_predictive):
            posterior, params = smooth(weighted.params, weighted.panel), weighted.marginal_params
            for i, last in last_rows[0]:
                ahead = forecast(params, posterior.means[last], posterior.covariances[last], steps[i])
                forecasts[i].append(ahead)
                explained = np.maximum(ahead.std**2 - params.noise_variance, 0.0)
                spreads[i].append(np.sqrt(explained + weighted.draw_noise_variances(ahead.std.shape)))
        return [
            _mix_forecasts(forecasts_of_draws, stds)
            for forecasts_of_draws, stds in zip(forecasts, spreads, strict=True)
        ]
    pairs = mixture_draw_indices(fitted, n_predictive)
    for pair, draw in zip(pairs, panels_given_draws(fitted, sequences, pairs), strict=True):
        for (params, panel, _), rows in zip(draw, last_rows, strict=True):
            one = smooth(params, panel)
            for i, last in rows:
                ahead = forecast(params, one.means[last], one.covariances[last], steps[i])
                if future_exog is not None:
                    ahead = replace(
                        ahead, means=ahead.means + covariate_effects(fitted, *pair, future_exog[i])
                    )
                forecasts[i].append(ahead)
    mixed = [_mix_forecasts(forecasts_of_draws) for forecasts_of_draws in forecasts]
    reported = fitted.reported_states
    return [
        replace(one, latent_means=one.latent_means[:, reported], latent_std=one.latent_std[:, reported])
        for one in mixed
    ]


def _mix_forecasts(forecasts: list[Forecast], spreads: list[FloatArray] | None = None) -> BayesianForecast:
    """Return the mixture of the forecasts of the draws.

    `spreads` are standard deviations (H, D) given drawn weights of Student-t noise, used for quantiles.
    """
    observed = make_value_mixture(
        np.array([forecast.means for forecast in forecasts]),
        np.array([forecast.std for forecast in forecasts]),
    )
    latent = make_value_mixture(
        np.array([forecast.latent_means for forecast in forecasts]),
        np.array([forecast.latent_std for forecast in forecasts]),
    )
    if spreads is not None:
        observed = observed._replace(stds=np.array(spreads))
    return BayesianForecast(observed.mean, observed.std, latent.mean, latent.std, _distribution=observed)


def draw_factor_paths(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw factors given the data (n_draws, T, K), each time with the parameters of a random draw."""
    draws = _draw_paths(fitted, sequences, n_draws, rng)
    paths = np.array([np.concatenate([path for _, path in parts]) for parts, _ in draws])
    return paths[:, :, fitted.reported_states]


def draw_missing_values(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw missing values of series (n_draws, T, D), each time with the parameters of a random draw."""
    draws = []
    for parts, degrees in _draw_paths(fitted, sequences, n_draws, rng):
        rows = []
        for (params, _, effects), path in parts:
            shape = len(path), len(params.offset)
            noise = rng.standard_normal(shape) if degrees is None else rng.standard_t(degrees, shape)
            signal = params.offset + effects + path @ params.loadings.T
            rows.append(signal + noise * np.sqrt(params.noise_variance))
        draws.append(np.where(sequences.mask, sequences.values, np.concatenate(rows)))
    return np.array(draws)


def _draw_paths(
    fitted: FittedPosterior, sequences: Sequences, n_draws: int, rng: np.random.Generator
) -> Iterator[tuple[list[tuple[PanelGivenDraw, FloatArray]], float | None]]:
    """For random posterior draws, yield pairs of a panel and its drawn states, and the degrees of freedom.

    The states (T_i, S) include the AR(1) noise of columns. Degrees of freedom are None for Gaussian noise.
    """
    chains, n = fitted.draws.decay.shape[:2]
    selected = np.unravel_index(rng.integers(chains * n, size=n_draws), (chains, n))
    pairs = [(int(chain), int(draw)) for chain, draw in zip(*selected, strict=True)]
    if fitted.degrees is not None:
        for weighted in _weighted_draws_at(fitted, sequences, pairs):
            given = PanelGivenDraw(weighted.params, weighted.panel)
            yield [(given, draw_factors(weighted.params, weighted.panel, 1, rng)[0])], weighted.degrees
        return
    for parts in panels_given_draws(fitted, sequences, pairs):
        yield (
            [(given, draw_factors(given.params, given.panel, 1, rng)[0]) for given in parts],
            None,
        )


def mean_contributions(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> FloatArray:
    """Return posterior means of the factors times loadings, averaged over the draws, (T, D, K).

    The last axis has a further entry for AR(1) noise, if any, and then one for each covariate.
    """
    mean = RunningMean()
    if fitted.degrees is not None:
        for weighted in _weighted_mixture(fitted, sequences, n_predictive):
            means = smooth(weighted.params, weighted.panel).means
            mean.add(means[:, None, :] * weighted.params.loadings)
        return mean.value
    for draw in _mixture_panels(fitted, sequences, n_predictive):
        parts = [smooth(p, panel).means[:, None, :] * p.loadings for p, panel, _ in draw]
        mean.add(np.concatenate(parts))
    contributions = mean.value
    if fitted.maximum.has_ar1_noise:
        reported = fitted.reported_states
        unreported = np.delete(contributions, reported, axis=2).sum(axis=2, keepdims=True)
        contributions = np.concatenate([contributions[:, :, reported], unreported], axis=2)
    if sequences.exog is None:
        return contributions
    coefficients = np.mean(fitted.draws.exog_coef, axis=(0, 1))
    return np.concatenate([contributions, sequences.exog[:, None, :] * coefficients], axis=2)


def draw_series(
    fitted: FittedPosterior, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Simulate a series (n_steps, D) and its factors (n_steps, K), with the parameters of a random draw.

    `exog` are the covariates (n_steps, P) of a model with covariates.
    """
    chains, n = fitted.draws.decay.shape[:2]
    chain, draw = int(rng.integers(chains)), int(rng.integers(n))
    params = as_parameters(fitted.draws, lambda x: x[chain, draw])
    if params.noise_variance.ndim == 2:
        noise = params.noise_variance[int(rng.integers(len(params.noise_variance)))]
        params = params.replace(noise_variance=noise)
    values, factors = simulate(params.state_space, n_steps, rng)
    if exog is not None:
        values = values + covariate_effects(fitted, chain, draw, exog)
    if params.has_ar1_noise:
        return values, factors[:, fitted.reported_states]
    if fitted.degrees is not None:
        noise = np.sqrt(params.noise_variance) * rng.standard_t(fitted.degrees[chain, draw], values.shape)
        values = params.offset + factors @ params.loadings.T + noise
    return values, factors


def log_predictive_density(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> float:
    """Return the log predictive density of all rows in nats; with Student-t noise, a lower bound of it."""
    if fitted.degrees is None:
        return predict_factors(fitted, sequences, n_predictive).log_likelihood
    n_draws = min(n_predictive, _N_BOUND_DRAWS)
    weights, bounds = None, []
    degrees = degrees_of_draws(fitted, n_draws)
    for nu, [one] in zip(degrees, _mixture_panels(fitted, sequences, n_draws), strict=True):
        inferred = infer_weights(one.params, one.panel, StudentNoise(float(nu)), weights, _BOUND_TOL)
        weights = inferred.weights.values
        bounds.append(inferred.bound)
    check_finite(sequences, posterior_mean(fitted.draws), np.array(bounds))
    return float(logsumexp(bounds) - np.log(len(bounds)))


def outlier_scores(fitted: FittedPosterior, sequences: Sequences, n_predictive: int) -> FloatArray:
    """Return absolute leave-one-out errors (N, D), in standard deviations of predictions; NaN if missing."""
    n_draws, moments = min(n_predictive, _N_BOUND_DRAWS), MixtureMoments()
    draws: Iterable[list[PanelGivenDraw]]
    if fitted.degrees is not None:
        draws = (
            [PanelGivenDraw(weighted.params, weighted.panel)]
            for weighted in _weighted_mixture(fitted, sequences, n_draws)
        )
    else:
        draws = _mixture_panels(fitted, sequences, n_draws)
    for parts in draws:
        predicted = [(*_left_out(given.params, given.panel), given) for given in parts]
        moments.add(
            np.concatenate([means + given.effects for means, _, given in predicted]),
            np.concatenate([explained + given.params.noise_variance for _, explained, given in predicted]),
        )
    return np.abs(sequences.values - moments.mean) / np.sqrt(moments.variance)


def _left_out(params: StateSpace, panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances (N, D) of the noise-free values."""
    return left_out_moments(params, panel, value_moments(params, panel), np.asarray(panel.value_weights[:]))


def _weighted_mixture(
    fitted: FittedPosterior, sequences: Sequences, n_predictive: int
) -> Iterator[WeightedDraw]:
    """Yield the draws over which predictions are averaged, with drawn weights of the values."""
    return _weighted_draws_at(fitted, sequences, mixture_draw_indices(fitted, n_predictive))


def _weighted_draws_at(
    fitted: FittedPosterior, sequences: Sequences, chosen: list[tuple[int, int]]
) -> Iterator[WeightedDraw]:
    """Yield selected draws (chain, draw), with drawn weights of the values of all sequences in one panel."""
    [panel], _ = panels_of(fitted.units.with_time_unit(sequences), fitted.hierarchical)
    return weighted_draws(fitted, panel, chosen)


def _missing_under_student_noise(draws: Iterator[WeightedDraw], missing: NDArray[np.bool_]) -> ValueMixture:
    """Return the distribution of missing values.

    ``mean`` and ``std`` use the variance of Student-t noise. ``stds``, from which quantiles are computed, use
    noise variances given drawn weights.
    """
    means, stds, spreads = [], [], []
    for draw in draws:
        posterior = smooth(draw.params, draw.panel)
        mean, variance = observation_moments(draw.marginal_params, posterior.means, posterior.covariances)
        explained = np.maximum(variance - draw.marginal_params.noise_variance, 0.0)
        means.append(mean[missing])
        stds.append(np.sqrt(variance)[missing])
        spreads.append(np.sqrt(explained + draw.draw_noise_variances(missing.shape))[missing])
    return make_value_mixture(np.array(means), np.array(stds))._replace(stds=np.array(spreads))


def _mixture_panels(
    fitted: FittedPosterior, sequences: Sequences, n_predictive: int
) -> Iterator[list[PanelGivenDraw]]:
    """Yield the panels for each of the draws over which predictions are averaged."""
    return panels_given_draws(fitted, sequences, mixture_draw_indices(fitted, n_predictive))
