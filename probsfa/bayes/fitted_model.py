"""The methods of a fitted posterior. Predictions are mixtures over the draws of the parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probsfa._times import TimeAxis
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.draws import posterior_mean, timescales
from probsfa.bayes.filtering import BayesianFilterResult, BayesianFilterState, filter_sequences
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.predictive import (
    MissingValues,
    draw_factor_paths,
    draw_missing_values,
    draw_series,
    interpolation_check,
    log_predictive_density,
    mean_contributions,
    outlier_scores,
    predict_ahead,
    predict_factors,
    predict_missing,
)
from probsfa.statespace.covariates import Regression
from probsfa.statespace.diagnostics import Diagnostics
from probsfa.statespace.engine.posterior import Posterior
from probsfa.statespace.fitted_model import FittedModel
from probsfa.statespace.news import News
from probsfa.statespace.noise import StudentNoise
from probsfa.statespace.prediction import Forecast, Imputation
from probsfa.statespace.student_model import model_from_parameters
from probsfa.statespace.summary import ParameterErrors
from probsfa.statespace.transformed_model import TransformedModel
from probsfa.statespace.transforms import Transforms

__all__ = ["BayesianModel"]


@dataclass(frozen=True, eq=False)
class BayesianModel(FittedModel):
    """The posterior of a fit, and its predictions.

    Attributes
    ----------
    fitted : FittedPosterior
        The posterior.
    n_predictive : int
        Number of draws in the mixtures of predictions.
    """

    fitted: FittedPosterior
    n_predictive: int

    @property
    def time_unit(self) -> float:
        """Time step to which the decays refer."""
        return self.fitted.units.time_unit

    @property
    def time_axis(self) -> TimeAxis:
        """Time axis of the model."""
        return self.fitted.sequences.axis

    @cached_property
    def regression(self) -> Regression | None:  # type: ignore[override]
        """Posterior means of the coefficients of covariates; None without covariates."""
        names, draws = self.fitted.exog_names, self.fitted.draws
        return Regression(np.mean(draws.exog_coef, axis=(0, 1)), names) if names else None

    @property
    def n_states(self) -> int:
        """Number of columns of `transform`."""
        return self.fitted.maximum.n_states

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states that are not AR(1) factors."""
        return tuple(self.fitted.maximum.state_layout.names)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of the model at the posterior means."""
        return int(self.plug_in.n_parameters)

    @property
    def n_sequences(self) -> int | None:  # type: ignore[override]
        """Number of sequences of a hierarchical model; None for other models."""
        return self.fitted.target.n_sequences

    @cached_property
    def plug_in(self) -> Any:
        """The linear-Gaussian or Student-t model at the posterior means of the parameters."""
        if self.fitted.hierarchical:
            raise ValueError(
                "diagnose, news and bic require one noise variance for all sequences; hierarchical=True "
                "has several. Use to_datatree() with ArviZ, or fit with hierarchical=False."
            )
        degrees = self.fitted.degrees
        model = model_from_parameters(
            posterior_mean(self.fitted.draws),
            time_unit=self.time_unit,
            axis=self.time_axis,
            tails=None if degrees is None else StudentNoise(float(np.mean(degrees))),
        )
        if self.regression is None:
            return model
        return TransformedModel(model, Transforms((None,) * self.fitted.target.n_features), self.regression)

    def posterior(self, sequences: Sequences) -> Posterior:
        """Return moments of the factors for the mixture over the draws."""
        return predict_factors(self.fitted, sequences, self.n_predictive)

    def filter(self, sequences: Sequences, state: BayesianFilterState | None) -> list[BayesianFilterResult]:
        """Return filtered moments of the factors of each sequence."""
        return filter_sequences(self.fitted, sequences, self.n_predictive, state)

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values by the means of mixtures over the draws."""
        missing = MissingValues(sequences.values, predict_missing(self.fitted, sequences, self.n_predictive))
        comparison = interpolation_check(self.fitted, sequences)
        return Imputation(missing.means, missing.std, comparison, missing)

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return absolute leave-one-out errors in standard deviations of predictions."""
        return outlier_scores(self.fitted, sequences, self.n_predictive)

    def contributions(self, sequences: Sequences) -> FloatArray:
        """Return means over the draws of each factor times its loading (N, D, K)."""
        return mean_contributions(self.fitted, sequences, self.n_predictive)

    def forecast(
        self,
        sequences: Sequences,
        steps: Sequence[FloatArray],
        future_exog: Sequence[FloatArray] | None = None,
    ) -> list[Forecast]:
        """Return the mixture of the forecasts of the draws."""
        return list(predict_ahead(self.fitted, sequences, self.n_predictive, list(steps), future_exog))

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Simulate a new series and its factors, with the parameters of a random posterior draw."""
        return draw_series(self.fitted, n_steps, rng, exog)

    def draw_factors(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw factors given the data, each time with the parameters of a random posterior draw."""
        return draw_factor_paths(self.fitted, sequences, n_draws, rng)

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw the missing values of series, each time with the parameters of a random posterior draw."""
        return draw_missing_values(self.fitted, sequences, n_draws, rng)

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the logarithm of the likelihood averaged over the draws, in nats."""
        return log_predictive_density(self.fitted, sequences, self.n_predictive)

    def maximum_log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood at the posterior means of the parameters."""
        return float(self.plug_in.log_likelihood(sequences))

    def diagnose(self, sequences: Sequences, block: int) -> Diagnostics:
        """Test prediction errors at the posterior means of the parameters."""
        found: Diagnostics = self.plug_in.diagnose(sequences, block)
        return found

    def parameter_errors(self, sequences: Sequences | None, level: float) -> dict[str, ParameterErrors]:
        """Return posterior standard deviations and central intervals of the draws."""
        draws = self.fitted.draws
        noise = draws.noise_variance
        by_attribute = {
            "timescales_": timescales(draws, self.time_unit),
            "decay_": draws.decay,
            "loadings_": draws.loadings,
            "noise_variance_": noise if noise.ndim == 3 else noise.mean(axis=2),  # over sequences
            "mean_": draws.offset,
        }
        if self.fitted.exog_names:
            by_attribute["exog_coef_"] = draws.exog_coef
        if self.fitted.degrees is not None:
            by_attribute["degrees_of_freedom_"] = self.fitted.degrees
        tail = 0.5 - 0.5 * level
        return {
            name: ParameterErrors(np.std(x, axis=(0, 1)), *np.quantile(x, (tail, 1.0 - tail), axis=(0, 1)))
            for name, x in by_attribute.items()
        }

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> News:
        """Return the revision of a prediction at the posterior means of the parameters."""
        found: News = self.plug_in.news(old, new, target)
        return found
