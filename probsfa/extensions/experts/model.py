"""A fitted product of experts, and draws from it, for validated data."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.extensions.experts.learning import Data
from probsfa.extensions.experts.linear_rows import LinearBase, LinearRows
from probsfa.extensions.experts.potential import Features, GlobalExpert, ValueDensity
from probsfa.extensions.experts.sampling import (
    Columns,
    LogIntegral,
    Reference,
    State,
    Stepsize,
    log_integral,
    move,
    reflect,
)
from probsfa.statespace.parameters import StateSpace

__all__ = ["Drawn", "ExpertModel", "LatentMoments"]

# Numbers of chains, of burn-in moves, and of moves between two draws.
_N_CHAINS, _N_BURN_IN, _N_MOVES_PER_DRAW = 8, 200, 3
# The number of temperatures is doubled from its minimum until the standard error of each integral is small
# enough or the maximum is reached. Differences of log-likelihoods below one nat are not relevant. With the
# maximum number, the estimate for a thousand rows requires minutes.
_MAX_STANDARD_ERROR, _MIN_TEMPERATURES, _MAX_TEMPERATURES = 0.5, 50, 400


class LatentMoments(NamedTuple):
    """Means (T, K) and standard deviations (T, K) of the factors given the rows."""

    means: FloatArray
    std: FloatArray

    def split(self, parts: Iterable[slice]) -> "list[LatentMoments]":
        """Return the moments of segments of the rows, such as the sequences of a list."""
        return [LatentMoments(self.means[s], self.std[s]) for s in parts]


class Drawn(NamedTuple):
    """Draws of ``rows`` (n, N, D), and means and draws (n, N, K) of the factors given these rows."""

    rows: FloatArray
    latent_means: FloatArray
    factors: FloatArray


class ExpertModel(NamedTuple):
    """A fitted model.

    Attributes
    ----------
    features : Features
        The expansion.
    decay, loadings, noise_variance, offset : ndarray
        Parameters of the global expert; its noise includes the width of the local experts.
    columns : Columns
        The Gaussian reference of the columns.
    noise : ndarray (D,)
        Standard deviations of observation noise; zeros without noise.
    width : float
        Width of the local experts, in standard deviations of the expanded columns.
    step : float
        Leapfrog step size at the end of the fit.
    n_leaps : int
        Number of leapfrog steps in a move.
    linear : LinearRows, optional
        The linear Gaussian model of the rows, without observation noise. It is missing in files of earlier
        versions; annealed importance sampling then starts at independent columns.
    """

    features: Features
    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    columns: Columns
    noise: FloatArray
    width: float
    step: float
    n_leaps: int
    linear: LinearRows | None = None

    @property
    def params(self) -> StateSpace:
        """Parameters of the global expert."""
        return StateSpace(self.decay, self.loadings, self.noise_variance, self.offset)

    def data(self, values: FloatArray, lengths: tuple[int, ...]) -> Data:
        """Return rows as :class:`~probsfa.extensions.experts.learning.Data`."""
        return Data(values, ~np.isnan(values), lengths, self.columns, self.noise)

    def is_fully_observed(self, values: FloatArray) -> bool:
        """Return whether all values are observed without noise; no draws are then required."""
        return not self.noise.any() and not np.isnan(values).any()

    def means(self, values: FloatArray, lengths: tuple[int, ...]) -> FloatArray:
        """Return posterior means (N, K) of the factors given complete rows."""
        return GlobalExpert(self.params, lengths).evaluate(self.features(values[None])).means[0]

    def log_potential(self, values: FloatArray, lengths: tuple[int, ...]) -> float:
        """Return the log density of complete rows without the normalizer."""
        return float(GlobalExpert(self.params, lengths).evaluate(self.features(values[None])).log_density[0])

    def draw(
        self, values: FloatArray, lengths: tuple[int, ...], n_draws: int, rng: np.random.Generator
    ) -> Drawn:
        """Draw rows given observed values, and factors given the rows."""
        data = self.data(values, lengths)
        expert = GlobalExpert(self.params, lengths)
        density, reference = data.given_observations(self.features, expert)
        rows = self._draw(density, reference, n_draws, rng)
        means = expert.evaluate(self.features(rows)).means
        return Drawn(rows, means, expert.draw_factors(means, rng))

    def _draw(
        self, density: ValueDensity, reference: Reference, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        if reference.n_free == 0:
            return np.repeat(density.rows(np.zeros((0, 1))), n_draws, axis=0)
        n_chains = min(_N_CHAINS, n_draws)
        state, step = self._run_chains(density, reference, n_chains, _N_BURN_IN, rng)
        draws = []
        for _ in range(-(-n_draws // n_chains)):
            for _ in range(_N_MOVES_PER_DRAW):
                state, _ = move(density, state, reference, step, self.n_leaps, rng)
                state = reflect(density, state, reference, rng)
            draws.append(density.rows(state.free_values))
        return np.concatenate(draws)[:n_draws]

    def _run_chains(
        self,
        density: ValueDensity,
        reference: Reference,
        n_chains: int,
        n_moves: int,
        rng: np.random.Generator,
    ) -> tuple[State, float]:
        """Return chains after `n_moves` moves, and the adapted step size."""
        state = State.at(density, reference.mean + reference.draw(n_chains, rng))
        step = Stepsize(self.step)
        for _ in range(n_moves):
            state, acceptance = move(density, state, reference, step.size, self.n_leaps, rng)
            step.adapt(acceptance)
            state = reflect(density, state, reference, rng)
        return state, step.size

    def draw_series(self, n_steps: int, n_moves: int, rng: np.random.Generator) -> Drawn:
        """Draw a series of the model after `n_moves` moves."""
        data = self.data(np.full((n_steps, len(self.noise)), np.nan), (n_steps,))
        expert = GlobalExpert(self.params, data.lengths)
        density, reference = data.without_observations(self.features, expert)
        state, _ = self._run_chains(density, reference, 1, n_moves, rng)
        rows = density.rows(state.free_values)
        means = expert.evaluate(self.features(rows)).means
        return Drawn(rows, means, expert.draw_factors(means, rng))

    def expanded(self, drawn: Drawn, rng: np.random.Generator) -> FloatArray:
        """Draw expanded rows (n, N, E) around the manifold given drawn rows, in units of the expansion."""
        on_manifold = self.features(drawn.rows)
        total_variance = self.params.noise_variance
        squared_width = self.width**2
        model_variance = np.maximum(total_variance - squared_width, 0.0)
        predictors = self.params.offset + drawn.factors @ self.params.loadings.T
        centre = on_manifold + squared_width / total_variance * (predictors - on_manifold)
        std = np.sqrt(model_variance * squared_width / total_variance)
        rows = centre + std * rng.standard_normal(centre.shape)
        return self.features.shift + self.features.scale * rows

    def log_likelihood(
        self,
        values: FloatArray,
        lengths: tuple[int, ...],
        n_chains: int,
        n_temperatures: int | None,
        rng: np.random.Generator,
    ) -> LogIntegral:
        """Estimate the log-likelihood by annealed importance sampling.

        The likelihood is the ratio of two integrals of the density: over unobserved values, and over all
        values. By default the number of temperatures is doubled until the errors are small or the maximum is
        reached.
        """
        data, expert = self.data(values, lengths), GlobalExpert(self.params, lengths)
        all_missing, no_noise = np.full_like(values, np.nan), np.zeros_like(self.noise)
        log_integrals = []
        for observations, noise, (density, reference) in (
            (values, self.noise, data.given_observations(self.features, expert)),
            (all_missing, no_noise, data.without_observations(self.features, expert)),
        ):
            base = None
            if self.linear is not None:
                base = LinearBase(self.linear, lengths, observations, density.free, noise)
            n_steps = _MIN_TEMPERATURES if n_temperatures is None else n_temperatures
            while True:
                estimate = log_integral(
                    density,
                    reference,
                    base=base,
                    n_chains=n_chains,
                    n_temperatures=n_steps,
                    n_leaps=self.n_leaps,
                    rng=rng,
                )
                if (
                    n_temperatures is not None
                    or estimate.error <= _MAX_STANDARD_ERROR
                    or n_steps >= _MAX_TEMPERATURES
                ):
                    break
                n_steps *= 2
            log_integrals.append(estimate)
        unobserved, all_values = log_integrals
        constant = 0.0
        if self.noise.any():
            constant = float(data.mask.sum(axis=0) @ np.log(np.sqrt(2.0 * np.pi) * self.noise))
        return LogIntegral(
            unobserved.value - all_values.value - constant,
            float(np.hypot(unobserved.error, all_values.error)),
            unobserved.lower - all_values.upper - constant,
            unobserved.upper - all_values.lower - constant,
        )
