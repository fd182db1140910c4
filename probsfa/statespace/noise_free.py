"""The zero-noise limit, in which maximum likelihood is slow feature analysis.

With ``r = 0`` and as many latent factors as columns, the factors are functions of the observations, ``z_t = W
(x_t - mean)``. The likelihood is that of Turner & Sahani (2007), eq. 13. Up to edge terms of order 1/T
(their eq. 18), the maximum is the solution of slow feature analysis, with unit variances and ``a_k = 1 -
delta_k / 2``. This module computes this solution for the square model, which has as many factors as columns,
and reports the slowest factors. :mod:`probsfa.statespace.noise_free_likelihood` computes the likelihood and
its maximum with the edge terms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.posterior import Posterior, check_finite, observation_moments
from probsfa.statespace.learning.maximum_likelihood import (
    FitStatus,
    MaximumLikelihood,
    check_lengths_for_timescales,
)
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise_free_posterior import draw_given_observed, smooth_given_observed
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction import Imputation, fill

__all__ = ["NoiseFreeModel", "SquareModel", "fit_noise_free", "square_model"]

# Maximum absolute decay: 1 - a^2 must not be zero if the delta value is very small, as for a linear drift.
_MAX_DECAY = 1.0 - 1e-15


class SquareModel(NamedTuple):
    """The square model without observation noise, on the ``R`` directions in which the data vary.

    Attributes
    ----------
    decay : ndarray of shape (R,)
        ``1 - delta / 2``, slowest first.
    components : ndarray of shape (R, D)
        Weights of the columns in the factors: the directions of slow feature analysis.
    loadings : ndarray of shape (D, R)
        Loadings of the factors on the columns; ``components @ loadings`` is the identity.
    mean : ndarray of shape (D,)
        Mean of the columns.
    """

    decay: FloatArray
    components: FloatArray
    loadings: FloatArray
    mean: FloatArray

    @property
    def rank(self) -> int:
        """Number of latent factors, ``R``."""
        return int(self.decay.shape[0])

    def parameters(self, n_components: int) -> StateSpace:
        """Return the parameters of a model of the slowest factors, with a noise variance of zero."""
        zeros = np.zeros(self.mean.shape[0])
        return StateSpace(
            decay=self.decay[:n_components],
            loadings=self.loadings[:, :n_components],
            noise_variance=zeros,
            offset=self.mean,
        )

    def factors(self, values: FloatArray) -> FloatArray:
        """Return the exact factors of complete rows, shape (N, R)."""
        return np.asarray((values - self.mean) @ self.components.T)

    def row_log_likelihoods(self, sequences: Sequences) -> FloatArray:
        """Return the log density of each row given the previous rows of its sequence, shape (N,).

        If the rank is less than the number of columns, densities are defined on the linear span of the data.
        """
        z = self.factors(sequences.values)
        previous = np.zeros_like(z)
        previous[1:] = z[:-1]
        # The first row of a sequence has the stationary distribution.
        decay = np.where(sequences.starts[:, None], 0.0, self.decay)
        variance = (1.0 - decay) * (1.0 + decay)
        innovations = z - decay * previous
        log_density = -0.5 * (np.log(2.0 * np.pi * variance) + innovations**2 / variance)
        return np.asarray(log_density.sum(axis=1) - _log_jacobian(self.loadings))


def square_model(
    delta_values: FloatArray, components: FloatArray, loadings: FloatArray, mean: FloatArray
) -> SquareModel:
    """Return the square model of a solution of slow feature analysis at full rank."""
    decay = np.clip(1.0 - 0.5 * delta_values, -_MAX_DECAY, _MAX_DECAY)
    # Correct the loadings, which are the inverse of the components only up to errors of the eigenproblem.
    loadings = np.asarray(np.linalg.solve((components @ loadings).T, loadings.T).T, dtype=np.float64)
    return SquareModel(decay, components, loadings, mean)


def _log_jacobian(loadings: FloatArray) -> float:
    """Return the sum of the logarithms of the singular values of the loadings."""
    n_features, n_factors = loadings.shape
    if n_features == n_factors:
        return float(np.linalg.slogdet(loadings)[1])
    return float(np.sum(np.log(np.linalg.svd(loadings, compute_uv=False))))


@dataclass(frozen=True, eq=False)
class NoiseFreeModel(LinearGaussianModel):
    """The model without observation noise.

    Attributes
    ----------
    fitted : MaximumLikelihood
        Parameters of the slowest factors, units, and status of the fit.
    square : SquareModel
        The model with as many factors as the rank of the data.
    """

    unsupported_methods: ClassVar[Mapping[str, str]] = {
        "factor_moments": "factor_interval requires observation noise. Use noise='diagonal'.",
        "filter": "filter requires observation noise. With noise=0.0, use transform of complete rows.",
        # The weight of a new value is divided by its noise variance, which is zero.
        "news": "news requires observation noise. Use noise='diagonal'.",
        "diagnose": "diagnose requires observation noise. Use noise='diagonal'.",
        "outlier_scores": "outlier_scores requires observation noise. Use robust=True.",
        "standard_errors": "standard_errors requires observation noise. Use noise='diagonal'.",
        "profile_timescale": "profile_timescale requires observation noise. Use noise='diagonal'.",
    }
    supports_irregular_times: ClassVar[bool] = False
    factors_need_complete_rows: ClassVar[bool] = True
    square: SquareModel

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of the square model: ``R`` decays, ``R^2`` weights and ``R`` means."""
        return self.square.rank * (self.square.rank + 2)

    @property
    def _predictive_params(self) -> StateSpace:
        return self.square.parameters(self.square.rank)

    @property
    def _reported_states(self) -> NDArray[np.intp]:
        return np.arange(self.fitted.params.n_components)

    def _posterior(self, sequences: Sequences) -> Posterior:
        """Return the distribution of all factors of the square model; complete rows determine the factors."""
        if not sequences.mask.all():
            posterior = smooth_given_observed(*self.square, sequences)
            check_finite(sequences, self._predictive_params, *posterior)
            return posterior
        n, rank = sequences.n_rows, self.square.rank
        return Posterior(
            self.square.factors(sequences.values),
            np.zeros((n, rank, rank)),
            np.zeros((max(n - 1, 0), rank, rank)),
            self.square.row_log_likelihoods(sequences),
        )

    def _draw_states(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw paths of all factors given the observed values; complete rows determine the factors."""
        if sequences.mask.all():
            return np.repeat(self.square.factors(sequences.values)[None], n_draws, axis=0)
        return draw_given_observed(*self.square, sequences, n_draws, rng)

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood of all rows, in nats."""
        return self._posterior(sequences).log_likelihood

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values, with standard deviations given the observed values.

        The standard deviation is zero if the other values of the row determine the value.
        """
        if sequences.mask.all():
            return Imputation(sequences.values.copy(), np.zeros_like(sequences.values))
        posterior = self._posterior(sequences)
        moments = observation_moments(self._predictive_params, posterior.means, posterior.covariances)
        return Imputation(*fill(sequences.values, *moments))

    def arrays_to_save(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of the square model."""
        return self.square._asdict()


def fit_noise_free(sequences: Sequences, options: FitOptions) -> NoiseFreeModel:
    """Fit the model without noise, in closed form.

    Parameters
    ----------
    sequences : Sequences
        Validated rows, complete and evenly sampled.
    options : FitOptions
        Validated options.

    Returns
    -------
    NoiseFreeModel

    Raises
    ------
    ValueError
        If the rows have times, no sequence has two rows, or `n_components` exceeds the rank of the data.
    """
    check_lengths_for_timescales(sequences.lengths)
    if sequences.times is not None:
        raise ValueError("noise=0.0 requires evenly spaced rows and does not support times.")
    from probsfa.sfa import SFA  # the import is slow, and models with noise do not need it

    sfa = SFA().fit(sequences.values, lengths=sequences.lengths)
    n_components = sfa.rank_ if options.n_components is None else options.n_components
    if n_components > sfa.rank_:
        raise ValueError(
            f"n_components={n_components} exceeds the rank {sfa.rank_} of the data, which is the maximum "
            f"without noise. Use n_components={sfa.rank_} or less, or noise='diagonal'."
        )
    square = square_model(sfa.delta_values_, sfa.components_, sfa.loadings_, sfa.mean_)
    log_likelihood = float(np.sum(square.row_log_likelihoods(sequences)))
    fitted = MaximumLikelihood(
        params=square.parameters(n_components),
        shift=sfa.mean_,
        scale=np.ones(sequences.n_features),
        time_unit=1.0,
        log_likelihood=log_likelihood,
        history=np.array([log_likelihood]),
        n_evaluations=0,
        converged=True,
        status=FitStatus.of("closed_form", STATUS_SENTENCES["closed_form"]),
        options=replace(options, n_components=n_components),
    )
    return NoiseFreeModel(fitted, square)
