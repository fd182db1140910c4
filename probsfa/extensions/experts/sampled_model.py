"""A fitted product of experts as a model of validated data: moments over draws of unknown values."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.extensions.experts.model import Drawn, ExpertModel, LatentMoments
from probsfa.statespace.engine.posterior import smooth
from probsfa.statespace.fitted_model import FittedModel
from probsfa.statespace.panel import make_panel
from probsfa.statespace.prediction import Imputation

__all__ = ["N_DRAWS", "SampledModel"]

# Default number of draws of missing values.
N_DRAWS = 200


class _DrawnValues(NamedTuple):
    """Distribution of missing values: draws ``rows`` (n, N, D) plus observation noise ``std`` (D,)."""

    values: FloatArray
    rows: FloatArray
    std: FloatArray
    rng: np.random.Generator

    def quantile(self, probability: float) -> FloatArray:
        """Impute missing values by quantiles of the draws."""
        noisy = self.rows
        if self.std.any():
            noisy = noisy + self.std * self.rng.standard_normal(noisy.shape)
        return np.where(np.isnan(self.values), np.quantile(noisy, probability, axis=0), self.values)


@dataclass(frozen=True, eq=False)
class SampledModel(FittedModel):
    """A fitted model with a random number generator.

    Attributes
    ----------
    experts : ExpertModel
        The fitted model.
    generator : callable
        Function that returns the random number generator for a method call.
    n_draws : int, default=200
        Number of draws for means.
    """

    experts: ExpertModel
    generator: Callable[[], np.random.Generator]
    n_draws: int = N_DRAWS

    @property
    def n_states(self) -> int:
        """Number of factors."""
        return len(self.experts.decay)

    def draws(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> Drawn:
        """Draw rows given observed values, and factors given the rows."""
        return self.experts.draw(sequences.values, sequences.lengths, n_draws, rng)

    def moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return means (N, K) of the factors, and the part of their variances due to unobserved values."""
        if self.experts.is_fully_observed(sequences.values):
            means = self.experts.means(sequences.values, sequences.lengths)
            return means, np.zeros_like(means)
        latent_means = self.draws(sequences, self.n_draws, self.generator()).latent_means
        return latent_means.mean(axis=0), latent_means.var(axis=0)

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Return posterior means of the factors: exact for complete rows without noise, else from draws."""
        return self.moments(sequences)[0]

    def posterior(self, sequences: Sequences) -> LatentMoments:
        """Return posterior means and standard deviations of the factors."""
        means, added_variances = self.moments(sequences)
        # Covariances given complete rows do not depend on their values.
        zeros = np.zeros((sequences.n_rows, len(self.experts.offset)))
        panel = make_panel(replace(sequences, values=zeros, feature_names=None))
        posterior_variances = np.diagonal(smooth(self.experts.params, panel).covariances, axis1=1, axis2=2)
        return LatentMoments(means, np.sqrt(posterior_variances + added_variances))

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values by means over draws."""
        mask, rows, rng = sequences.mask, sequences.values[None], self.generator()
        if not mask.all():
            rows = self.draws(sequences, self.n_draws, rng).rows
        noise = np.where(mask, 0.0, self.experts.noise**2)
        values = np.where(mask, sequences.values, rows.mean(axis=0))
        std = np.where(mask, 0.0, np.sqrt(rows.var(axis=0) + noise))
        return Imputation(
            values, std, distribution=_DrawnValues(sequences.values, rows, self.experts.noise, rng)
        )

    def draw_factors(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw factors given the observed values."""
        return self.draws(sequences, n_draws, rng).factors

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw the missing values of series."""
        rows = self.draws(sequences, n_draws, rng).rows
        noisy = rows + self.experts.noise * rng.standard_normal(rows.shape)
        return np.where(sequences.mask, sequences.values, noisy)

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return an estimate of the log-likelihood of observed values."""
        return self.experts.log_likelihood(
            sequences.values, sequences.lengths, 8, None, self.generator()
        ).value
