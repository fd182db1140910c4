"""Posterior of factors and values with AR(1) noise of many columns, which is integrated out.

Means are exact. Variances have two parts. The variance of a column's AR(1) process given the factors is
exact. The part due to the factors is estimated by draws of the factors' deviations from their means.
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

__all__ = ["IdiosyncraticPosterior"]

# Number of draws for variances: the part due to the factors has a relative error of sqrt(2 / number).
_N_DRAWS = 32
# Minimum leave-one-out precision of a value, relative to that given the factors.
_MIN_REMAINING_SHARE = 0.1
# Number of draws per batch; each needs memory for three numbers per value of the data.
_N_SIMULTANEOUS = 8
# Tolerances of means and of draws, in posterior standard deviations.
_TOLERANCE, _TOLERANCE_OF_DRAWS = 1e-4, 3e-2


class _Draws(NamedTuple):
    """Deviations from posterior means: factors (n, T, K), and AR(1) processes of columns (n, D, T)."""

    factors: FloatArray
    processes: FloatArray


class IdiosyncraticPosterior:
    """Distribution of factors, AR(1) noise and values given a panel.

    Parameters
    ----------
    params : StateSpace
        Parameters with AR(1) noise, and factors that are AR(1) processes.
    panel : Panel
        Packed observations, in the units of the parameters.
    """

    def __init__(self, params: StateSpace, panel: Panel) -> None:
        self.params, self.panel = params, panel
        with one_blas_thread():
            self._system = FactorSystem(params, Steps.of(panel))
            observed = self._system.steps.weights > 0.0
            values = np.asarray(panel.values[: panel.n_rows]).T
            self._centred = np.where(observed, values - params.offset[:, None], 0.0)
            right = self._system.information(self._centred)[None]
            #: Posterior means of the factors, (T, K).
            self.means: FloatArray = self._system.solve(right, tol=_TOLERANCE).values[0]

    @cached_property
    def _processes(self) -> FloatArray:
        """Posterior means of the AR(1) processes of the columns, of unit variance (D, T)."""
        return self._system.noise.smooth(self._centred - self._system.common(self.means))

    @property
    def value_means(self) -> FloatArray:
        """Posterior means (T, D) of values without white noise."""
        full = self._system.common(self.means) + self._system.noise.scale * self._processes
        return np.asarray(self.params.offset + full.T)

    @property
    def contributions(self) -> FloatArray:
        """Contributions (T, D, K + 1) of factors, and of AR(1) noise, to the posterior means of values."""
        own = (self._system.noise.scale * self._processes).T
        return np.dstack([self.means[:, None, :] * self.params.loadings, own])

    def _draws(self, n_draws: int, rng: np.random.Generator, *, processes: bool = False) -> Iterator[_Draws]:
        """Draw deviations in batches; those of the AR(1) processes only if `processes` is true."""
        system = self._system
        for first in range(0, n_draws, _N_SIMULTANEOUS):
            with one_blas_thread():
                n = min(_N_SIMULTANEOUS, n_draws - first)
                factors, own, values = system.simulate(rng, n)
                means = system.solve(system.information(values), tol=_TOLERANCE_OF_DRAWS).values
                if processes:
                    own -= system.noise.smooth(values - system.common(means))
                yield _Draws(factors - means, own)

    @cached_property
    def _from_factors(self) -> tuple[FloatArray, FloatArray]:
        """Return variances (D, T) due to the factors: of values without white noise, and of scores."""
        noise, system = self._system.noise, self._system
        of_values, of_scores = np.zeros((2, *self._centred.shape))
        for draws in self._draws(_N_DRAWS, np.random.default_rng(0)):
            common = system.common(draws.factors)
            scores = noise.solve(common)
            common -= noise.scale * noise.smooth(common)
            of_values += np.einsum("rdt,rdt->dt", common, common)
            of_scores += np.einsum("rdt,rdt->dt", scores, scores)
        return of_values / _N_DRAWS, of_scores / _N_DRAWS

    def value_variances(self) -> FloatArray:
        """Return posterior variances (T, D) of values without white noise."""
        noise = self._system.noise
        return np.asarray((noise.scale**2 * noise.moments[0] + self._from_factors[0]).T)

    def leave_one_out_moments(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (T, D), noise included; NaN for missing values.

        With the inverse ``P`` of the covariance of all values they are ``x_i - (P (x - mu))_i / P_ii`` and
        ``1 / P_ii``.
        """
        noise, system, weights = self._system.noise, self._system, self._system.steps.weights
        given_factors = weights / noise.variance
        given_factors = given_factors - given_factors**2 * noise.scale**2 * noise.moments[0]
        # The exact difference is positive, but its estimate from draws may be negative.
        precisions = np.maximum(given_factors - self._from_factors[1], _MIN_REMAINING_SHARE * given_factors)
        scores = noise.solve(self._centred - system.common(self.means))
        with np.errstate(divide="ignore", invalid="ignore"):
            means = self.params.offset[:, None] + self._centred - scores / precisions
            observed = weights > 0.0
            return np.where(observed, means, np.nan).T, np.where(observed, 1.0 / precisions, np.nan).T

    def posterior(self) -> Posterior:
        """Return moments of the factors: exact means, and covariances of draws.

        Log densities of single rows are not available without states; each row is assigned an equal share of
        the log-likelihood.
        """
        n, k = self.means.shape
        # Minimum number of draws for covariances of the factors, which have no exact part.
        n_draws = max(64, 4 * k)
        here, lagged = np.zeros((n, k, k)), np.zeros((max(n - 1, 0), k, k))
        for factors, _ in self._draws(n_draws, np.random.default_rng(0)):
            here += np.einsum("rti,rtj->tij", factors, factors)
            lagged += np.einsum("rti,rtj->tij", factors[:, 1:], factors[:, :-1])
        rows = np.full(n, self.log_likelihood() / n)
        return Posterior(self.means, here / n_draws, lagged / n_draws, rows)

    def log_likelihood(self) -> float:
        """Estimate the log-likelihood in nats; see :meth:`.FactorSystem.log_determinant`."""
        with one_blas_thread():
            determinant, _ = self._system.log_determinant(tol=3e-2)
            return self._system.log_likelihood(self._centred, self.means, determinant)

    def draw_factors(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw the factors (n_draws, T, K) from their joint distribution."""
        return np.concatenate([self.means + one.factors for one in self._draws(n_draws, rng)])

    def draw_values(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw values without white noise (n_draws, T, D) from their joint distribution."""
        scale, means = self._system.noise.scale, self.value_means
        draws = [
            means + (self._system.common(one.factors) + scale * one.processes).swapaxes(1, 2)
            for one in self._draws(n_draws, rng, processes=True)
        ]
        return np.concatenate(draws)

    def forecast(self, row: int, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Predict some units of time after the last row of a sequence.

        Parameters
        ----------
        row : int
            The row.
        steps : ndarray of shape (H,)
            Units of time after it.

        Returns
        -------
        means, variances : ndarray of shape (H, D)
            Moments of values without white noise.
        factor_means, factor_variances : ndarray of shape (H, K)
        """
        params, noise = self.params, self._system.noise
        over = np.abs(params.decay) ** steps[:, None] * _signs(params.decay, steps)
        own = np.abs(params.memory_decay) ** steps[:, None] * _signs(params.memory_decay, steps)
        factor_means = over * self.means[row]
        means = (
            params.offset
            + factor_means @ params.loadings.T
            + own * params.memory_scale * self._processes[:, row]
        )
        innovations = 1.0 - over**2
        variances = innovations @ (params.loadings**2).T
        variances += params.memory_scale**2 * (1.0 - own**2 + own**2 * noise.moments[0][:, row])
        factor_variances = innovations.copy()
        n_draws = 4 * _N_DRAWS
        for factors, _ in self._draws(n_draws, np.random.default_rng(0)):
            common = self._system.common(factors)
            given = noise.smooth(common)[:, :, row] * params.memory_scale
            ahead = (over * factors[:, None, row]) @ params.loadings.T - own * given[:, None]
            variances += np.einsum("rhd,rhd->hd", ahead, ahead) / n_draws
            factor_variances += over**2 * np.sum(factors[:, row] ** 2, axis=0) / n_draws
        return means, variances, factor_means, factor_variances


def _signs(decay: FloatArray, steps: FloatArray) -> FloatArray:
    """Return the signs (H, M) of powers of decays; negative decays have integer exponents."""
    return np.where((decay < 0.0) & (np.rint(steps)[:, None] % 2.0 == 1.0), -1.0, 1.0)
