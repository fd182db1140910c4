"""A fitted bilinear model, and its methods on validated data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.extensions.bilinear.inference import BilinearPosterior, infer
from probsfa.extensions.bilinear.parameters import BilinearParameters, rescale, simulate
from probsfa.statespace.fitted_model import FittedModel
from probsfa.statespace.panel import make_panel
from probsfa.statespace.prediction import Forecast, Imputation

__all__ = ["BilinearModel"]


@dataclass(frozen=True, eq=False)
class BilinearModel(FittedModel):
    """A fitted model, in data units.

    Attributes
    ----------
    params : BilinearParameters
        Parameters in data units.
    scale : ndarray (D,)
        Scales of the columns; the posterior is computed for values divided by these.
    isotropic : bool
        Whether the columns have one noise variance.
    """

    params: BilinearParameters
    scale: FloatArray
    isotropic: bool = False

    @property
    def n_states(self) -> int:
        """Number of continuous factors and gates."""
        _, n_gates, n_components = self.params.loadings.shape
        return n_components + n_gates

    @property
    def n_parameters(self) -> int:
        """Number of decays, switching probabilities, loadings, noise variances and means."""
        n_features, n_gates, n_components = self.params.loadings.shape
        noise = 1 if self.isotropic else n_features
        return n_components + 2 * n_gates + self.params.loadings.size + noise + n_features

    def posterior(self, sequences: Sequences) -> BilinearPosterior:
        """Return the approximate posterior of factors and gates given all rows of each sequence."""
        shift, scale = self.params.offset, self.scale
        params = rescale(self.params, -shift / scale, 1.0 / scale)
        posterior = infer(params, make_panel(sequences.standardized(shift, scale)))
        log_scale_sum = float(sequences.mask.sum(axis=0) @ np.log(scale))
        return posterior._replace(lower_bound=posterior.lower_bound - log_scale_sum)

    def posteriors(self, sequences: Sequences) -> list[BilinearPosterior]:
        """Return the posterior of each sequence, with its own lower bound."""
        return [self.posterior(sequences.sequence(i)) for i in range(len(sequences.lengths))]

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Return means of the factors and probabilities of the gates (N, K + M)."""
        posterior = self.posterior(sequences)
        return np.hstack([posterior.means, posterior.gate_probabilities])

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return a lower bound of the log-likelihood of all rows, in nats."""
        return self.posterior(sequences).lower_bound

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values by their posterior means."""
        posterior = self.posterior(sequences)
        means, variances = value_moments(
            self.params, posterior.means, posterior.covariances, posterior.gate_probabilities
        )
        mask = sequences.mask
        values = np.where(mask, sequences.values, means)
        return Imputation(values, np.where(mask, 0.0, np.sqrt(variances)))

    def forecast(
        self,
        sequences: Sequences,
        steps: Sequence[FloatArray],
        future_exog: Sequence[FloatArray] | None = None,
    ) -> list[Forecast]:
        """Forecast rows after the last row of each sequence.

        Factors and gates are independent in the approximate posterior and in the forecast. The state vector
        of the forecast has the K factors, then the M gates. The mean of a gate is the probability ``p`` that
        it is open, and its standard deviation is ``sqrt(p (1 - p))``.
        """
        posterior, params = self.posterior(sequences), self.params
        persistence = 1.0 - params.switch_on - params.switch_off
        forecasts = []
        for rows, horizon in zip(sequences.slices, steps, strict=True):
            last_row = rows.stop - 1
            if np.any(horizon != np.rint(horizon)):
                raise ValueError(
                    f"fh must be integer numbers of rows, because gates switch from row to row; got "
                    f"{horizon}."
                )
            powers = params.decay ** horizon[:, None]
            means = powers * posterior.means[last_row]
            covariances = powers[:, :, None] * powers[:, None, :] * posterior.covariances[last_row]
            k = np.arange(len(params.decay))
            covariances[:, k, k] += 1.0 - powers**2
            gates = params.probability + persistence ** horizon[:, None] * (
                posterior.gate_probabilities[last_row] - params.probability
            )
            values, variances = value_moments(params, means, covariances, gates)
            std = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
            forecasts.append(
                Forecast(
                    values,
                    np.sqrt(variances),
                    np.hstack([means, gates]),
                    np.hstack([std, np.sqrt(np.maximum(gates * (1.0 - gates), 0.0))]),
                )
            )
        return forecasts

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Draw observations, continuous factors and gates from the model."""
        return simulate(self.params, n_steps, rng)


def value_moments(
    params: BilinearParameters, means: FloatArray, covariances: FloatArray, gates: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D) of all values, including noise, for independent factors and gates.

    Parameters
    ----------
    params : BilinearParameters
        Parameters in data units.
    means : ndarray (T, K)
        Means of the continuous factors.
    covariances : ndarray (T, K, K)
        Their covariances.
    gates : ndarray (T, M)
        Probabilities of the gates.
    """
    n_features = len(params.offset)
    second_moments = covariances + means[:, :, None] * means[:, None, :]
    joint_gates = gates[:, :, None] * gates[:, None, :]
    joint_gates += (gates * (1.0 - gates))[:, :, None] * np.eye(gates.shape[1])
    products = np.einsum("tm,tk->tmk", gates, means).reshape(len(means), -1)
    product_moments = np.einsum("tmn,tkl->tmknl", joint_gates, second_moments).reshape(
        len(means), products.shape[1], -1
    )
    product_covariances = product_moments - products[:, :, None] * products[:, None, :]
    loadings = params.loadings.reshape(n_features, -1)
    variances = np.einsum("di,tij,dj->td", loadings, product_covariances, loadings, optimize=True)
    return params.offset + products @ loadings.T, np.maximum(variances, 0.0) + params.noise_variance
