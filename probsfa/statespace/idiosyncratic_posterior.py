"""Posterior of factors and values if the AR(1) noise of many columns is integrated out.

Means are exact up to the tolerance of the solver. The variance of a value is the sum of two parts. The
variance given the factors is exact. The variance due to the uncertainty of the factors is estimated from
draws of the factors.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.statespace.engine.idiosyncratic import FactorSystem, Steps
from probsfa.statespace.engine.posterior import Posterior
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = ["N_DRAWS", "IdiosyncraticPosterior"]

#: Number n of draws for variances due to the factors (relative error sqrt(2 / n)). Forecasts use 4 n draws.
N_DRAWS = 32
# Lower bound of the leave-one-out precision of a value, as a fraction of its precision if factors are known.
_MIN_RELATIVE_PRECISION = 0.1
# Number of draws per batch; each needs memory for three numbers per value of the data.
_BATCH_SIZE = 8
# Tolerances of means and of draws, in posterior standard deviations, and of the log-determinant, in nats.
_MEAN_TOL, _DRAW_TOL, _LOG_DETERMINANT_TOL = 1e-4, 3e-2, 3e-2
# Minimum number of draws for covariances of the factors. They are estimated from draws alone, whereas a part
# of the variances of values is exact.
_MIN_COVARIANCE_DRAWS = 64


class _Draws(NamedTuple):
    """Deviations of draws from posterior means: factors (n, T, K) and AR(1) processes (n, D, T)."""

    factors: FloatArray
    processes: FloatArray


class IdiosyncraticPosterior:
    """Posterior distribution of factors, AR(1) noise and values.

    Parameters
    ----------
    params : StateSpace
        Parameters of a model with AR(1) noise whose factors are AR(1) processes.
    panel : Panel
        Observations, in the units of the parameters.
    start : ndarray of shape (T, K), optional
        Approximate posterior means of the factors.
    n_draws : int, default=32
        Number of draws for variances due to the factors; the relative error is sqrt(2 / number).
    """

    def __init__(
        self, params: StateSpace, panel: Panel, start: FloatArray | None = None, *, n_draws: int = N_DRAWS
    ) -> None:
        self.params, self.panel, self._n_draws = params, panel, n_draws
        with one_blas_thread():
            self._system = FactorSystem(params, Steps.of(panel))
            observed = self._system.steps.weights > 0.0
            values = np.asarray(panel.values[: panel.n_rows]).T
            self._centred = np.where(observed, values - params.offset[:, None], 0.0)
            information = self._system.information(self._centred)[None]
            #: Posterior means of the factors, (T, K).
            self.means: FloatArray = self._system.solve(
                information, None if start is None else start[None], tol=_MEAN_TOL
            ).values[0]

    @cached_property
    def _processes(self) -> FloatArray:
        """Posterior means of the AR(1) processes of the columns, of unit variance (D, T)."""
        return self._system.noise.smooth(self._centred - self._system.effects(self.means))

    @property
    def value_means(self) -> FloatArray:
        """Posterior means (T, D) of values without white noise."""
        means = self._system.effects(self.means) + self._system.noise.scale * self._processes
        return np.asarray(self.params.offset + means.T)

    @property
    def contributions(self) -> FloatArray:
        """Contributions (T, D, K + 1) of factors, and of AR(1) noise, to the posterior means of values."""
        noise_contributions = (self._system.noise.scale * self._processes).T
        return np.dstack([self.means[:, None, :] * self.params.loadings, noise_contributions])

    def _draws(self, n_draws: int, rng: np.random.Generator, *, processes: bool = False) -> Iterator[_Draws]:
        """Yield draws in batches; AR(1) processes are conditioned on the data only if `processes` is true.

        For each draw, factors, AR(1) processes and values are simulated. The posterior means given the
        simulated values are subtracted from the simulated factors and processes.
        """
        system = self._system
        for first in range(0, n_draws, _BATCH_SIZE):
            with one_blas_thread():
                n = min(_BATCH_SIZE, n_draws - first)
                factors, ar1_noise, values = system.simulate(rng, n)
                means = system.solve(system.information(values), tol=_DRAW_TOL).values
                if processes:
                    ar1_noise -= system.noise.smooth(values - system.effects(means))
                yield _Draws(factors - means, ar1_noise)

    @property
    def _variances_given_factors(self) -> FloatArray:
        """Posterior variances (D, T) of values without white noise if the factors are known."""
        noise = self._system.noise
        return np.asarray(noise.scale**2 * noise.moments[0])

    @cached_property
    def _variances_due_to_factors(self) -> FloatArray:
        """Parts (D, T) of the variances of values that are due to the uncertainty of the factors."""
        noise, system = self._system.noise, self._system
        total = np.zeros(self._centred.shape)
        for draws in self._draws(self._n_draws, np.random.default_rng(0)):
            effects = system.effects(draws.factors)
            effects -= noise.scale * noise.smooth(effects)
            total += np.einsum("rdt,rdt->dt", effects, effects)
        # The estimate is limited: with too large a variance, the leave-one-out precision would be negative.
        with np.errstate(divide="ignore"):
            largest = noise.variance / system.steps.weights - self._variances_given_factors
        return np.minimum(total / self._n_draws, (1.0 - _MIN_RELATIVE_PRECISION) * largest)

    def value_variances(self) -> FloatArray:
        """Return posterior variances (T, D) of values without white noise."""
        return np.asarray((self._variances_given_factors + self._variances_due_to_factors).T)

    def leave_one_out_moments(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (T, D), noise included; NaN for missing values.

        With the inverse ``P`` of the covariance of all values, the mean of value ``i`` is
        ``x_i - (P (x - mu))_i / P_ii``, and the variance ``1 / P_ii``.
        """
        noise, system, weights = self._system.noise, self._system, self._system.steps.weights
        white_precisions = weights / noise.variance
        precisions = white_precisions - white_precisions**2 * self.value_variances().T
        scores = noise.solve(self._centred - system.effects(self.means))
        with np.errstate(divide="ignore", invalid="ignore"):
            means = self.params.offset[:, None] + self._centred - scores / precisions
            observed = weights > 0.0
            return np.where(observed, means, np.nan).T, np.where(observed, 1.0 / precisions, np.nan).T

    def posterior(self) -> Posterior:
        """Return moments of the factors: exact means, and covariances that are estimated from draws.

        Log densities of single rows are not computed; each row has an equal share of the log-likelihood.
        """
        n, k = self.means.shape
        n_draws = max(_MIN_COVARIANCE_DRAWS, 4 * k)
        covariances, lag_one = np.zeros((n, k, k)), np.zeros((max(n - 1, 0), k, k))
        for factors, _ in self._draws(n_draws, np.random.default_rng(0)):
            covariances += np.einsum("rti,rtj->tij", factors, factors)
            lag_one += np.einsum("rti,rtj->tij", factors[:, 1:], factors[:, :-1])
        row_log_likelihoods = np.full(n, self.log_likelihood() / n)
        return Posterior(self.means, covariances / n_draws, lag_one / n_draws, row_log_likelihoods)

    @property
    def quadratic_form(self) -> float:
        """Squared Mahalanobis distance of the observed values from their mean."""
        return self._system.quadratic_form(self._centred, self.means)

    def log_likelihood(self) -> float:
        """Estimate the log-likelihood in nats; see :meth:`.FactorSystem.log_determinant`."""
        with one_blas_thread():
            log_determinant, _ = self._system.log_determinant(tol=_LOG_DETERMINANT_TOL)
            return self._system.log_likelihood(self._centred, self.means, log_determinant)

    def draw_factors(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw the factors (n_draws, T, K) from their joint posterior distribution."""
        return np.concatenate([self.means + one.factors for one in self._draws(n_draws, rng)])

    def draw_values(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw values without white noise (n_draws, T, D) from their joint posterior distribution."""
        scale, means = self._system.noise.scale, self.value_means
        draws = [
            means + (self._system.effects(one.factors) + scale * one.processes).swapaxes(1, 2)
            for one in self._draws(n_draws, rng, processes=True)
        ]
        return np.concatenate(draws)

    def forecast(self, row: int, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Predict values and factors after the last row of a sequence.

        Parameters
        ----------
        row : int
            Index of the last row.
        steps : ndarray of shape (H,)
            Times after the last row, in the model's unit of time.

        Returns
        -------
        means, variances : ndarray of shape (H, D)
            Moments of values without white noise.
        factor_means, factor_variances : ndarray of shape (H, K)
        """
        params, noise = self.params, self._system.noise
        decays = _powers(params.decay, steps)
        noise_decays = _powers(params.noise_decay, steps)
        factor_means = decays * self.means[row]
        means = (
            params.offset
            + factor_means @ params.loadings.T
            + noise_decays * params.noise_scale * self._processes[:, row]
        )
        innovations = 1.0 - decays**2
        variances = innovations @ (params.loadings**2).T
        variances_of_noise = 1.0 - noise_decays**2 + noise_decays**2 * noise.moments[0][:, row]
        variances += params.noise_scale**2 * variances_of_noise
        factor_variances = innovations.copy()
        n_draws = 4 * N_DRAWS
        for factors, _ in self._draws(n_draws, np.random.default_rng(0)):
            # Deviations of the factors also change the means of the AR(1) noise given the factors.
            deviations_of_noise = noise.smooth(self._system.effects(factors))[:, :, row] * params.noise_scale
            deviations = (decays * factors[:, None, row]) @ params.loadings.T
            deviations -= noise_decays * deviations_of_noise[:, None]
            variances += np.einsum("rhd,rhd->hd", deviations, deviations) / n_draws
            factor_variances += decays**2 * np.sum(factors[:, row] ** 2, axis=0) / n_draws
        return means, variances, factor_means, factor_variances


def _powers(decay: FloatArray, steps: FloatArray) -> FloatArray:
    """Return powers (H, M) of decays; negative decays require integer steps."""
    is_odd = np.rint(steps)[:, None] % 2.0 == 1.0
    return np.abs(decay) ** steps[:, None] * np.where((decay < 0.0) & is_odd, -1.0, 1.0)
