r"""Gibbs sampling of the model with Student-t noise.

Student-t noise is a scale mixture of normal distributions with a weight for each value (Geweke 1993):
``n_td ~ N(0, r_d / w_td)``, ``w_td ~ Gamma(nu / 2, nu / 2)``. Given the weights the model is Gaussian, and
the factors are drawn exactly by the simulation smoother. One sweep draws

1. decays, loadings, offset and scales given the weights, with the factors integrated out (:mod:`.collapsed`),
   because these parameters mix slowly given the factors; then the factors given weights and parameters;
2. each time scale, interweaving two parametrizations (Yu & Meng 2011): first given factors and loadings in
   units of the innovations, then given the factors;
3. a shift of each factor, compensated by the offset, and a rotation of each pair of factors, compensated by
   the loadings: the data hardly determine these directions, which mix slowly if factors and loadings are
   drawn given each other;
4. squared scales ``r``, then ``nu``, given factors and loadings, with weights integrated out;
5. the weights, Gamma;
6. loadings and offset of each column, normal.

Rotations and steps 2 and 4 use slice sampling (Neal 2003) of scalars, vectorized over columns or factors.

References
----------
Geweke, J. (1993). Bayesian treatment of the independent Student-t linear model. Journal of Applied
Econometrics 8, S19-S40. https://doi.org/10.1002/jae.3950080504
Neal, R. M. (2003). Slice sampling. Annals of Statistics 31, 705-767. https://doi.org/10.1214/aos/1056562461
Yu, Y. & Meng, X.-L. (2011). To center or not to center: that is not the question. JCGS 20, 531-570.
https://doi.org/10.1198/jcgs.2011.203main
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import gammaln

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.bayes.priors import Priors
from probsfa.bayes.sampling.collapsed import CollapsedDensity, HamiltonianStep, curvature_factor
from probsfa.statespace.engine.posterior import draw_factors
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.student import MAX_DEGREES, MIN_DEGREES
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = ["GibbsChains", "RobustProblem", "draw_weights", "sample_by_gibbs"]

# Log priors are interpolated in tables: number of points, and range of the logarithm of the parameter.
_N_GRID_POINTS, _MIN_LOG, _MAX_LOG = 6001, -30.0, 15.0
# Width of the first interval of a slice, and maximum number of steps by which it is expanded.
_SLICE_WIDTH, _MAX_STEPS = 0.5, 12
# Standard deviation of the logarithms of parameters at the starts of chains.
_START_STD = 0.2
# Number of sweeps without the Hamiltonian Monte Carlo of step 1, until weights of outliers are small.
_N_SWEEPS_WITHOUT_COLLAPSED = 10


class RobustProblem(NamedTuple):
    """A posterior with Student-t noise, and a start of its chains.

    Attributes
    ----------
    panel : Panel
        Standardized observations.
    priors : Priors
        Priors, normal for loadings and offset.
    noise : NoiseVariances
        Which columns share a squared scale, and which scales are known.
    start : StateSpace
        Start of the chains, near a maximum of the likelihood.
    degrees : float
        Degrees of freedom at the start.
    """

    panel: Panel
    priors: Priors
    noise: NoiseVariances
    start: StateSpace
    degrees: float


class GibbsChains(NamedTuple):
    """N draws of each of C chains.

    Attributes
    ----------
    decay, loadings, noise_variance, offset : ndarray of shape (C, N, ...)
        As in :class:`probsfa.bayes.draws.Draws`; noise variances are squared scales.
    degrees : ndarray of shape (C, N)
        Degrees of freedom.
    log_density : ndarray of shape (C, N)
        Log density of the observed values given factors and parameters, in nats.
    interrupted : bool
        Whether a keyboard interrupt ended the run.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    degrees: FloatArray
    log_density: FloatArray
    interrupted: bool


def sample_by_gibbs(
    problem: RobustProblem,
    *,
    n_warmup: int,
    n_draws: int,
    n_chains: int,
    rng: np.random.Generator,
    report: Callable[[int], None] | None = None,
) -> GibbsChains:
    """Draw from the posterior; the sweeps of the chains alternate, so that all have equally many draws.

    Parameters
    ----------
    problem : RobustProblem
        The posterior.
    n_warmup, n_draws : int
        Sweeps of each chain before the first draw, and draws of each chain.
    n_chains : int
        Number of chains.
    rng : Generator
        Random number generator.
    report : callable, optional
        Called with the number of sweeps since the last call.

    Returns
    -------
    GibbsChains
        After a keyboard interrupt, the draws so far.

    Raises
    ------
    KeyboardInterrupt
        If there is no draw yet.
    """
    chains = [_Chain(problem, generator) for generator in rng.spawn(n_chains)]
    draws: list[list[tuple[Any, ...]]] = []
    interrupted = False
    try:
        with one_blas_thread():
            for i in range(n_warmup + n_draws):
                row = []
                for chain in chains:
                    chain.sweep(adapt=i < n_warmup)
                    row.append(chain.state)
                if i >= n_warmup:
                    draws.append(row)
                if report is not None:
                    report(n_chains)
    except KeyboardInterrupt:
        if not draws:
            raise
        interrupted = True

    def stacked(j: int) -> FloatArray:
        return np.array([[state[j] for state in row] for row in draws]).swapaxes(0, 1)

    return GibbsChains(stacked(0), stacked(1), stacked(2), stacked(3), stacked(4), stacked(5), interrupted)


def draw_weights(
    factors: FloatArray, params: StateSpace, panel: Panel, degrees: float, rng: np.random.Generator
) -> FloatArray:
    """Draw the weights (T, D) of values given factors (N, K); zero for missing values and padding."""
    n = panel.n_rows
    mask = np.asarray(panel.mask[:n])
    errors = panel.values[:n] - params.offset - factors @ params.loadings.T
    rate = 0.5 * (degrees + mask * errors**2 / params.noise_variance)
    weights = np.zeros(panel.values.shape)
    weights[:n] = mask * rng.gamma(0.5 * (degrees + 1.0), size=mask.shape) / rate
    return weights


class _LogPrior:
    """Log density of the logarithm of a positive number, interpolated in a table."""

    def __init__(self, prior: Any, size: int, power: float = 1.0) -> None:
        """`prior` is the prior of ``exp(power x)``, for one number or for `size` numbers."""
        self._grid = np.linspace(_MIN_LOG, _MAX_LOG, _N_GRID_POINTS)
        with jax.enable_x64(True):
            shape = prior.batch_shape or (1,)
            values = np.exp(power * self._grid)[:, None] * np.ones(shape)
            table = np.asarray(prior.log_prob(values)).reshape(_N_GRID_POINTS, -1)
        table = table + power * self._grid[:, None]
        self._table = np.broadcast_to(np.where(np.isnan(table), -np.inf, table), (_N_GRID_POINTS, size))

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return log densities (M,)."""
        is_inside = (x >= _MIN_LOG) & (x <= _MAX_LOG)
        values = [np.interp(one, self._grid, column) for one, column in zip(x, self._table.T, strict=True)]
        return np.where(is_inside, values, -np.inf)

    def with_derivative(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log densities (M,) and their derivatives."""
        interval = np.clip(np.searchsorted(self._grid, x, side="right") - 1, 0, _N_GRID_POINTS - 2)
        index = np.arange(len(x))
        with np.errstate(invalid="ignore"):
            difference = self._table[interval + 1, index] - self._table[interval, index]
        return self(x), np.nan_to_num(difference, posinf=0.0, neginf=0.0) / (self._grid[1] - self._grid[0])


def slice_sample(
    log_density: Callable[[FloatArray], FloatArray], x: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw M independent numbers, each by one step of slice sampling.

    Parameters
    ----------
    log_density : callable
        Log densities (M,) of the numbers (M,); each depends on its own number only.
    x : ndarray of shape (M,)
        The current numbers.
    rng : Generator
        Random number generator.

    Returns
    -------
    ndarray of shape (M,)
    """
    level = log_density(x) - rng.exponential(size=x.shape)
    low = x - _SLICE_WIDTH * rng.random(x.shape)
    high = low + _SLICE_WIDTH
    # A fixed number of steps is divided randomly between left and right (figure 3 of Neal 2003).
    n_left = np.floor(_MAX_STEPS * rng.random(x.shape))
    n_right = _MAX_STEPS - 1.0 - n_left
    for ends, steps, sign in ((low, n_left, -1.0), (high, n_right, 1.0)):
        while np.any(expanding := (steps > 0.0) & (log_density(ends) > level)):
            ends += np.where(expanding, sign * _SLICE_WIDTH, 0.0)
            steps -= expanding
    out, pending = x.copy(), np.ones(x.shape, dtype=bool)
    while pending.any():
        proposed = np.where(pending, low + (high - low) * rng.random(x.shape), out)
        is_accepted = pending & (log_density(proposed) >= level)
        out = np.where(is_accepted, proposed, out)
        pending &= ~is_accepted
        low = np.where(pending & (proposed < x), proposed, low)
        high = np.where(pending & (proposed >= x), proposed, high)
        pending &= high > low  # the interval has shrunk to the current point
    return out


class _Chain:
    """One chain: its state, and the sweep."""

    def __init__(self, problem: RobustProblem, rng: np.random.Generator) -> None:
        panel, priors, start = problem.panel, problem.priors, problem.start
        self.panel, self.rng, self.noise = panel, rng, problem.noise
        n, (d, k) = panel.n_rows, start.loadings.shape
        self.values, self.mask = np.asarray(panel.values[:n]), np.asarray(panel.mask[:n])
        index = panel.gap_index[:n]
        self.is_start = index == len(panel.gaps)
        self.gap_indicator = (index[:, None] == np.arange(len(panel.gaps))).astype(np.float64)
        self.n_transitions = self.gap_indicator.sum(axis=0)
        n_noises = problem.noise.n_free
        self.prior_of_timescale = _LogPrior(priors.timescale, k)
        if priors.noise_variance is not None:
            self.prior_of_noise = _LogPrior(priors.noise_variance, n_noises)
        else:
            self.prior_of_noise = _LogPrior(priors.noise_std, n_noises, power=0.5)
        self.prior_of_degrees = _LogPrior(priors.degrees_of_freedom, 1)
        self.loadings_mean, self.loadings_variance = _normal(priors.loadings, (d, k))
        self.offset_mean, self.offset_variance = _normal(priors.offset, (d,))

        def random_factor(size: Any) -> FloatArray:
            return np.exp(_START_STD * rng.standard_normal(size))

        self.log_timescale = np.log(np.clip(-1.0 / np.log(start.decay), 0.2, 1e5) * random_factor(k))
        self.loadings, self.offset = start.loadings * random_factor((d, k)), start.offset.copy()
        group_values = problem.noise.means(start.noise_variance) * random_factor(n_noises)
        self.scale = problem.noise.column_values(group_values, start.noise_variance)
        self.degrees = float(np.clip(problem.degrees * random_factor(1)[0], MIN_DEGREES, 100.0))
        self.weights = np.array(panel.mask[:])
        self.factors, self.log_density = np.zeros((n, k)), 0.0
        self.collapsed = CollapsedDensity(
            panel,
            problem.noise,
            self.prior_of_timescale.with_derivative,
            self.prior_of_noise.with_derivative,
            self.loadings_mean,
            self.loadings_variance,
            self.offset_mean,
            self.offset_variance,
        )
        self.hamiltonian: HamiltonianStep | None = None
        self._n_sweeps = 0

    @property
    def params(self) -> StateSpace:
        """Current parameters of the chain."""
        decay = np.exp(-1.0 / np.exp(self.log_timescale))
        return StateSpace(decay, self.loadings, self.scale, self.offset)

    @property
    def state(self) -> tuple[Any, ...]:
        """Decay, loadings, squared scales, offset, degrees of freedom and log density of the values."""
        p = self.params
        return (
            p.decay,
            p.loadings.copy(),
            p.noise_variance.copy(),
            p.offset.copy(),
            self.degrees,
            self.log_density,
        )

    def sweep(self, *, adapt: bool = False) -> None:
        """Draw all variables once; adapt step sizes in the warm-up."""
        self._n_sweeps += 1
        self._draw_collapsed(adapt)
        z = draw_factors(self.params, self.panel.weighted(self.weights), 1, self.rng)[0]
        z = self._draw_timescales(z)
        z = self._draw_shifts(z)
        for j in range(z.shape[1]):
            for k in range(j):
                z = self._draw_rotation(z, k, j)
        self.factors = z
        signal = z @ self.loadings.T
        errors = self.mask * (self.values - self.offset - signal)
        self._draw_scales_and_degrees(errors)
        self.weights = draw_weights(z, self.params, self.panel, self.degrees, self.rng)
        self._draw_loadings(z)

    def _draw_collapsed(self, adapt: bool) -> None:
        """Draw all parameters except the degrees of freedom, given the weights, with factors integrated out.

        If a decay rounds to zero or one, no parameter changes, because its time scale could not be recovered.
        """
        if not self.collapsed.is_within_limits(self.log_timescale):
            return

        def density(vector: FloatArray) -> tuple[float, FloatArray]:
            return self.collapsed(vector, self.weights, self.scale)

        if self.hamiltonian is None and adapt and self._n_sweeps > _N_SWEEPS_WITHOUT_COLLAPSED:
            centre = self.collapsed.to_vector(self.params)
            self.hamiltonian = HamiltonianStep(curvature_factor(density, centre))
        if self.hamiltonian is None:
            return
        vector = self.hamiltonian(density, self.collapsed.to_vector(self.params), self.rng, adapt=adapt)
        parameters = self.collapsed.to_parameters(vector, self.scale)
        self.log_timescale = vector[: len(parameters.decay)].copy()
        self.loadings, self.offset, self.scale = (
            parameters.loadings,
            parameters.offset,
            parameters.noise_variance,
        )

    def _transition_sums(self, z: FloatArray) -> tuple[FloatArray, ...]:
        """Return sums (U, K) of ``z_t^2``, ``z_t z_t-1`` and ``z_t-1^2`` over the rows after each gap.

        The last result is the sum (K,) of ``z_t^2`` over the first rows of sequences.
        """
        previous = np.concatenate([np.zeros_like(z[:1]), z[:-1]])
        sums = (
            self.gap_indicator.T @ z**2,
            self.gap_indicator.T @ (z * previous),
            self.gap_indicator.T @ previous**2,
        )
        return *sums, np.sum(z[self.is_start] ** 2, axis=0)

    def _log_density_of_factors(
        self, sums: tuple[FloatArray, ...], log_timescale: FloatArray, size: FloatArray | float = 1.0
    ) -> FloatArray:
        """Return the log density (K,) of the factors multiplied by `size`, up to a constant."""
        squares, product, previous_squares, first = sums
        with np.errstate(over="ignore"):
            rate = self.panel.gaps[:, None] / np.exp(log_timescale)
        phi, innovation = np.exp(-rate), np.maximum(-np.expm1(-2.0 * rate), 1e-300)
        power = first + np.sum(
            (squares - 2.0 * phi * product + phi**2 * previous_squares) / innovation, axis=0
        )
        return np.asarray(-0.5 * size**2 * power - 0.5 * self.n_transitions @ np.log(innovation))

    def _draw_timescales(self, z: FloatArray) -> FloatArray:
        """Draw time scales given factors in units of innovations, then given factors; return the factors."""
        sums, (d, _) = self._transition_sums(z), self.loadings.shape
        current = self.log_timescale

        def log_size(log_timescale: FloatArray) -> FloatArray:
            """Return the log ratio of new to current factors, for fixed factors in units of innovations."""
            innovation_variances = (
                -np.expm1(-2.0 / np.exp(log_value)) for log_value in (log_timescale, current)
            )
            new, old = (np.maximum(end, 1e-300) for end in innovation_variances)
            return np.asarray(0.5 * (np.log(new) - np.log(old)))

        def given_innovations(log_timescale: FloatArray) -> FloatArray:
            log_s = log_size(log_timescale)
            s = np.exp(log_s)
            of_loadings = -0.5 * np.sum(
                (self.loadings / s - self.loadings_mean) ** 2 / self.loadings_variance, axis=0
            )
            of_factors = self._log_density_of_factors(sums, log_timescale, s)
            return self.prior_of_timescale(log_timescale) + of_factors + of_loadings + (len(z) - d) * log_s

        proposed = slice_sample(given_innovations, current, self.rng)
        s = np.exp(log_size(proposed))
        z, self.loadings = z * s, self.loadings / s
        sums = self._transition_sums(z)

        def given_factors(log_timescale: FloatArray) -> FloatArray:
            return self.prior_of_timescale(log_timescale) + self._log_density_of_factors(sums, log_timescale)

        self.log_timescale = slice_sample(given_factors, proposed, self.rng)
        return z

    def _draw_shifts(self, z: FloatArray) -> FloatArray:
        """Draw a shift of each factor, compensated by the offset; return the factors."""
        phi = np.exp(-self.panel.gaps[:, None] / np.exp(self.log_timescale))
        previous = np.concatenate([np.zeros_like(z[:1]), z[:-1]])
        change = (self.gap_indicator.T @ z - phi * (self.gap_indicator.T @ previous)) / (1.0 + phi)
        precision = self.is_start.sum() + self.n_transitions @ ((1.0 - phi) / (1.0 + phi))
        information = -(z[self.is_start].sum(axis=0) + change.sum(axis=0))
        out = z.copy()
        for j in range(z.shape[1]):
            c = self.loadings[:, j]
            total_precision = precision[j] + np.sum(c**2 / self.offset_variance)
            total_information = information[j] + np.sum(
                c * (self.offset - self.offset_mean) / self.offset_variance
            )
            delta = total_information / total_precision + self.rng.standard_normal() / np.sqrt(
                total_precision
            )
            out[:, j] += delta
            self.offset = self.offset - c * delta
        return out

    def _draw_rotation(self, z: FloatArray, j: int, k: int) -> FloatArray:
        """Draw a rotation of two factors and of their loadings; return the factors."""
        pair = [j, k]
        y, c = z[:, pair], self.loadings[:, pair]
        previous = np.concatenate([np.zeros_like(y[:1]), y[:-1]])
        phi = np.exp(-self.panel.gaps[:, None] / np.exp(self.log_timescale[pair]))
        innovation = np.maximum(1.0 - phi**2, 1e-300)
        # For each factor, a matrix (2, 2). Its quadratic form of w is minus twice the log density of the
        # series y @ w under the dynamics of this factor, up to a constant.
        quadratic_forms = np.empty((2, 2, 2))
        for a in range(2):
            for b in range(2):
                products = self.gap_indicator.T @ (y[:, a] * y[:, b])
                cross_products = self.gap_indicator.T @ (y[:, a] * previous[:, b] + y[:, b] * previous[:, a])
                previous_products = self.gap_indicator.T @ (previous[:, a] * previous[:, b])
                first = np.sum(y[self.is_start, a] * y[self.is_start, b])
                sums = products[:, None] - phi * cross_products[:, None] + phi**2 * previous_products[:, None]
                quadratic_forms[:, a, b] = first + np.sum(sums / innovation, axis=0)
        mean, variance = self.loadings_mean[:, pair], self.loadings_variance[:, pair]

        def rotation(angle: float) -> FloatArray:
            return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

        def log_density(angle: FloatArray) -> FloatArray:
            rotation_matrix = rotation(float(angle[0]))
            of_factors = np.einsum("ai,iab,bi->", rotation_matrix, quadratic_forms, rotation_matrix)
            of_loadings = np.sum((c @ rotation_matrix - mean) ** 2 / variance)
            return np.array([-0.5 * (of_factors + of_loadings)])

        rotation_matrix = rotation(float(slice_sample(log_density, np.zeros(1), self.rng)[0]))
        out = z.copy()
        out[:, pair] = y @ rotation_matrix
        self.loadings = self.loadings.copy()
        self.loadings[:, pair] = c @ rotation_matrix
        return out

    def _draw_scales_and_degrees(self, errors: FloatArray) -> None:
        """Draw squared scales and degrees of freedom given the noise (N, D), with weights integrated out."""
        counts, power = self.mask.sum(axis=0), errors**2
        if self.noise.n_free:

            def of_scales(log_scale: FloatArray) -> FloatArray:
                by_column = self.noise.column_values(log_scale)
                terms = np.log1p(power / (self.degrees * np.exp(np.clip(by_column, _MIN_LOG, _MAX_LOG))))
                by_column = -0.5 * counts * by_column - 0.5 * (self.degrees + 1.0) * terms.sum(axis=0)
                return self.prior_of_noise(log_scale) + self.noise.totals(by_column)

            first = np.log(self.noise.group_values(self.scale))
            proposed = np.exp(slice_sample(of_scales, first, self.rng))
            self.scale = self.noise.column_values(proposed, self.scale)
        relative, n = (power / self.scale)[self.mask > 0.0], float(counts.sum())

        def of_degrees(log_degrees: FloatArray) -> FloatArray:
            nu = float(np.exp(log_degrees[0]))
            if not MIN_DEGREES <= nu <= MAX_DEGREES:
                return np.array([-np.inf])
            norm = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu)
            value = n * norm - 0.5 * (nu + 1.0) * np.sum(np.log1p(relative / nu))
            return np.asarray(self.prior_of_degrees(log_degrees) + value)

        self.degrees = float(np.exp(slice_sample(of_degrees, np.log([self.degrees]), self.rng)[0]))
        nu = self.degrees
        norm = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
        tails = -0.5 * (nu + 1.0) * np.sum(np.log1p(relative / nu))
        self.log_density = float(n * norm + tails - 0.5 * counts @ np.log(self.scale))

    def _draw_loadings(self, z: FloatArray) -> None:
        """Draw loadings and offset of each column from their normal distribution."""
        design = np.column_stack([z, np.ones(len(z))])
        weights = self.weights[: len(z)] / self.scale
        p = design.shape[1]
        outer_products = (design[:, :, None] * design[:, None, :]).reshape(len(z), -1)
        precision = (weights.T @ outer_products).reshape(-1, p, p)
        prior_variance = np.column_stack([self.loadings_variance, self.offset_variance])
        prior_mean = np.column_stack([self.loadings_mean, self.offset_mean])
        precision[:, np.arange(p), np.arange(p)] += 1.0 / prior_variance
        information = (weights * self.values).T @ design + prior_mean / prior_variance
        lower = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, information[:, :, None])[:, :, 0]
        normals = self.rng.standard_normal(mean.shape)[:, :, None]
        draws = mean + np.linalg.solve(np.swapaxes(lower, 1, 2), normals)[:, :, 0]
        self.loadings, self.offset = draws[:, :-1], draws[:, -1]


def _normal(prior: Any, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances of a normal prior."""
    mean, std = (
        np.broadcast_to(np.asarray(part, dtype=np.float64), shape) for part in (prior.loc, prior.scale)
    )
    return mean, std**2
