r"""Student-t noise: Gaussian noise whose precision differs between values, or between rows.

With ``w_td`` a weight for each value, or one weight ``w_t`` for all values of a row,

    x_td = mu_d + C_d z_t + n_td,   n_td ~ N(0, r_d / w_td),   w ~ Gamma(nu / 2, nu / 2),

each noise is Student-t with ``nu`` degrees of freedom and scale ``sqrt(r_d)`` (Lange, Little & Taylor 1989).
The posterior is approximated by ``q(z) q(w)``. Alternating updates of the two factors maximise a lower bound
of the log-likelihood (Tipping & Lawrence 2005):

    q(z)   is the posterior of the Gaussian model in which the noise of a value has variance ``r / E[w]``;
    q(w)   is Gamma((nu + n) / 2, (nu + s) / 2), hence E[w] = (nu + n) / (nu + s),

where ``n`` is the number of observed values that share the weight (one, or those of the row) and ``s`` the
sum over them of ``E[(x - mu - C z)^2] / r`` under ``q(z)``. With the optimal ``q(w)``, the bound is

    -KL(q(z) || p(z)) + sum over weights of log t(s),
    log t(s) = -n/2 log(2 pi r) + log Gamma((nu + n) / 2) - log Gamma(nu / 2) - n/2 log(nu / 2)
               - (nu + n) / 2 log(1 + s / nu),

and the optimal ``nu`` maximises the sum. The engine raises the densities of values to the power of their
weights (:class:`~probsfa.statespace.panel.Panel`). Their normalisers differ from those of densities with
variance ``r / w``; this module adds the difference.

References
----------
Lange, K. L., Little, R. J. A. & Taylor, J. M. G. (1989). Robust statistical modeling using the t
distribution. JASA 84, 881-896. https://doi.org/10.1080/01621459.1989.10478852
Tipping, M. E. & Lawrence, N. D. (2005). Variational inference for Student-t models. Neurocomputing 69,
123-141. https://doi.org/10.1016/j.neucom.2005.02.016
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaincinv, gammaln, logsumexp, ndtr, ndtri

from probsfa._typing import FloatArray
from probsfa.statespace.engine.choose import choose
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.moments import Filtering
from probsfa.statespace.leave_one_out import left_out_moments
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import visit_moments

__all__ = [
    "FEWEST_DEGREES",
    "MOST_DEGREES",
    "CellMoments",
    "Inferred",
    "LeftOut",
    "StudentNoise",
    "Weights",
    "cell_moments",
    "infer_weights",
    "left_out_cells",
    "normal_scores",
]

#: Limits of the degrees of freedom: the variance is finite above two, and the upper limit is nearly Gaussian.
FEWEST_DEGREES, MOST_DEGREES = 2.1, 1000.0
# Nodes of integrals over the weight of a value in sums over many values, and values per batch.
_FEWER_NODES, _CELLS_AT_ONCE = 48, 8192
# Expected remaining gain in nats below which the iteration of weights stops; maximum number of rounds.
_WORTH_A_ROUND, _MOST_ROUNDS = 1e-6, 200


class CellMoments(NamedTuple):
    """Posterior moments of the noise-free values.

    Attributes
    ----------
    means : ndarray of shape (N, D)
        Posterior means of ``mu + C z``.
    explained : ndarray of shape (N, D)
        Posterior variances of ``mu + C z``.
    log_likelihood : float
        The engine's log-likelihood of the panel with its weights, in nats.
    """

    means: FloatArray
    explained: FloatArray
    log_likelihood: float

    def discrepancies(self, params: Parameters, panel: Panel) -> FloatArray:
        """Return expected squared residuals, ``E[(x - mu - C z)^2] / r``, (N, D); zero where missing."""
        n = panel.n_rows
        power = (panel.values[:n] - self.means) ** 2 + self.explained
        return np.where(panel.mask[:n] > 0.0, power / params.noise_variance, 0.0)


def cell_moments(params: Parameters, panel: Panel) -> CellMoments:
    """Compute posterior moments of the noise-free values, chunk by chunk to save memory.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations, with weights.

    Returns
    -------
    CellMoments
    """
    k, shape = params.n_states, (panel.n_rows, params.n_features)
    means, explained = np.empty(shape), np.empty(shape)
    outer = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(params.n_features, k * k).T

    def see(rows: slice, states: FloatArray, covariances: FloatArray) -> None:
        means[rows] = params.offset + states @ params.loadings.T
        explained[rows] = np.maximum(covariances.reshape(len(covariances), k * k) @ outer, 0.0)

    value = visit_moments(params, panel, see)
    return CellMoments(means, explained, value)


class Weights(NamedTuple):
    """Expected weights of the values, and the part of the bound that does not depend on the parameters.

    Attributes
    ----------
    values : ndarray of shape (T, D)
        ``E[w]`` under ``q(w)``; zero where a value is missing.
    constant : ndarray of shape (N,)
        ``n/2 E[log w] - KL(q(w) || p(w))`` of the weights of each row, in nats.
    """

    values: FloatArray
    constant: FloatArray

    def bound(self, params: Parameters, panel: Panel, log_likelihood: float) -> float:
        """Return the lower bound, given the engine's log-likelihood with these weights."""
        return log_likelihood + float(np.sum(self.beside(params, panel)))

    def beside(self, params: Parameters, panel: Panel) -> FloatArray:
        """Return the bound of each row (N,) less its log-likelihood from the engine.

        This is the constant, and ``(w - 1) / 2 log(2 pi r)`` for each value: the engine uses powers ``w`` of
        densities of variance ``r``, whose normalisers are not those of variance ``r / w``.
        """
        n = panel.n_rows
        surplus = self.values[:n] - panel.mask[:n]
        return np.asarray(self.constant + 0.5 * surplus @ np.log(2.0 * np.pi * params.noise_variance))


class StudentNoise(NamedTuple):
    """Degrees of freedom of the noise, and which values share a weight.

    Attributes
    ----------
    degrees_of_freedom : float
        ``nu``.
    by_row : bool, default=False
        Whether all values of a row share one weight, or each has its own.
    """

    degrees_of_freedom: float
    by_row: bool = False

    @property
    def variance(self) -> float:
        """Marginal variance of the noise, in units of ``r``: ``nu / (nu - 2)``."""
        return self.degrees_of_freedom / (self.degrees_of_freedom - 2.0)

    def shared(self, cells: FloatArray) -> FloatArray:
        """Return sums (N, 1) or (N, D) over the values (N, D) that share a weight."""
        return cells.sum(axis=1, keepdims=True) if self.by_row else cells

    def expected_weights(self, discrepancies: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``E[w]`` of every value (N, D), including missing ones."""
        s, n = self.shared(discrepancies), self.shared(mask)
        nu = self.degrees_of_freedom
        return np.asarray(np.broadcast_to((nu + n) / (nu + s), mask.shape))

    def expected_variances(self, discrepancies: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``E[1 / w]`` of every value (N, D): the variance of its noise, in units of ``r``."""
        s, n = self.shared(discrepancies), self.shared(mask)
        nu = self.degrees_of_freedom
        return np.asarray(np.broadcast_to((nu + s) / (nu + n - 2.0), mask.shape))

    def log_density(self, discrepancies: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``log t(s)`` without ``-n/2 log(2 pi r)``, in nats, summed over each row: (N,)."""
        s, n = self.shared(discrepancies), self.shared(mask)
        nu = self.degrees_of_freedom
        terms = _log_norm(n, nu) - 0.5 * (nu + n) * np.log1p(s / nu)
        return np.asarray(np.sum(terms, axis=1))

    def weights(self, discrepancies: FloatArray, panel: Panel) -> Weights:
        """Return the optimal ``q(w)`` for discrepancies (N, D), for all rows of the panel."""
        n_rows = panel.n_rows
        mask = np.asarray(panel.mask[:n_rows])
        expected = self.expected_weights(discrepancies, mask) * mask
        values = np.zeros(panel.values.shape)
        values[:n_rows] = expected
        constant = self.log_density(discrepancies, mask) + 0.5 * np.sum(expected * discrepancies, axis=1)
        return Weights(values, constant)

    def at_best_degrees(self, discrepancies: FloatArray, mask: FloatArray) -> "StudentNoise":
        """Return the noise with the degrees of freedom that maximise the bound, within their limits."""
        s, n = self.shared(discrepancies), self.shared(mask)
        s, n = s[n > 0.0], n[n > 0.0]
        sizes, counts = np.unique(n, return_counts=True)

        def loss(log_nu: float) -> float:
            nu = float(np.exp(log_nu))
            return float(0.5 * np.sum((nu + n) * np.log1p(s / nu)) - counts @ _log_norm(sizes, nu))

        limits = (np.log(FEWEST_DEGREES), np.log(MOST_DEGREES))
        end = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-6})
        known = min(max(self.degrees_of_freedom, FEWEST_DEGREES), MOST_DEGREES)
        tried = [float(end.x), *limits, float(np.log(known))]
        return self._replace(degrees_of_freedom=float(np.exp(min(tried, key=loss))))


def _log_norm(n: FloatArray, nu: float) -> FloatArray:
    """Return ``log Gamma((nu + n) / 2) - log Gamma(nu / 2) - n/2 log(nu / 2)``, accurate at large ``nu``."""
    half = 0.5 * np.maximum(n, 1.0)  # the result for n = 0 is set to zero below
    ratio = gammaln(half) - betaln(0.5 * nu, half)
    return np.where(n > 0.0, ratio - half * np.log(0.5 * nu), 0.0)


class Inferred(NamedTuple):
    """Weights at the fixed point of the iteration.

    Attributes
    ----------
    weights : Weights
        ``q(w)``.
    discrepancies : ndarray of shape (N, D)
        Expected squared residuals that determine ``q(w)``; zero where missing.
    bound : float
        Lower bound of the log-likelihood, in nats.
    history : tuple of float
        The bound after each round; it never decreases.
    """

    weights: Weights
    discrepancies: FloatArray
    bound: float
    history: tuple[float, ...]


def bound_at(
    params: Parameters, panel: Panel, moments: CellMoments, weights: FloatArray, noise: StudentNoise
) -> float:
    """Return the bound for the posterior under some weights (T, D), with the optimal ``q(w)`` for it.

    Minus the KL divergence of ``q(z)`` from its prior is the engine's log-likelihood under these weights,
    less the expected log densities of the values times their weights.
    """
    n = panel.n_rows
    mask, log_norm = np.asarray(panel.mask[:n]), np.log(2.0 * np.pi * params.noise_variance)
    s = moments.discrepancies(params, panel)
    used = weights[:n]
    surplus = used.sum(axis=0) - mask.sum(axis=0)
    divergence = moments.log_likelihood + 0.5 * float(surplus @ log_norm) + 0.5 * float(np.sum(used * s))
    return divergence + float(np.sum(noise.log_density(s, mask)))


def infer_weights(
    params: Parameters,
    panel: Panel,
    noise: StudentNoise,
    start: FloatArray | None = None,
    worth: float = _WORTH_A_ROUND,
) -> Inferred:
    """Compute ``q(z) q(w)`` at given parameters by coordinate ascent.

    There may be several fixed points. The initial weights treat values with large leave-one-out errors as
    outliers (see :func:`first_weights`).

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    noise : StudentNoise
        Degrees of freedom, and which values share a weight.
    start : ndarray of shape (T, D), optional
        Initial expected weights.
    worth : float, optional
        Expected remaining gain in nats below which the iteration stops.

    Returns
    -------
    Inferred
    """
    weights = first_weights(params, panel, noise) if start is None else start
    history: list[float] = []
    gain = np.inf
    for _ in range(_MOST_ROUNDS):
        moments = cell_moments(params, panel.weighted(weights))
        history.append(bound_at(params, panel, moments, weights, noise))
        s = moments.discrepancies(params, panel)
        weights = noise.weights(s, panel).values
        if len(history) > 1:
            last, gain = gain, history[-1] - history[-2]
            rate = min(max(gain / last, 0.0), 0.999) if np.isfinite(last) and last > 0.0 else 0.5
            if gain * rate / (1.0 - rate) < worth or gain <= 1e-15 * abs(history[-1]):
                break
    return Inferred(noise.weights(s, panel), s, history[-1], tuple(history))


def first_weights(params: Parameters, panel: Panel, noise: StudentNoise) -> FloatArray:
    """Return initial expected weights (T, D) from the leave-one-out errors of the values.

    In these, the other values are weighted by their distance from the mean, to exclude gross outliers.
    """
    n = panel.n_rows
    values, mask = np.asarray(panel.values[:n]), np.asarray(panel.mask[:n])
    variance = np.sum(params.loadings**2, axis=1) + params.noise_variance
    s = mask * (values - params.offset) ** 2 / variance
    weights = np.zeros(panel.values.shape)
    weights[:n] = np.minimum(noise.expected_weights(s, mask), 1.0) * mask
    if noise.by_row:
        return weights
    moments = cell_moments(params, panel.weighted(weights))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        own = params.noise_variance / np.where(mask > 0.0, weights[:n], 1.0)
        mean, spread = left_out_moments(values, moments.means, moments.explained + own, own)
        s = (values - mean) ** 2 / (spread - own + params.noise_variance)
    s = np.where(np.isfinite(s), s, moments.discrepancies(params, panel))
    judged = np.zeros(panel.values.shape)  # a new array: `weighted` made the other read-only
    judged[:n] = noise.expected_weights(s * mask, mask) * mask
    return judged


class LeftOut(NamedTuple):
    """Leave-one-out predictions of some values.

    Attributes
    ----------
    errors : ndarray of shape (M,)
        Values less the means of their noise-free parts given the other values.
    explained : ndarray of shape (M,)
        Variances of the noise-free parts given the other values.
    columns : ndarray of int of shape (M,)
        Column of each value.
    """

    errors: FloatArray
    explained: FloatArray
    columns: NDArray[np.intp]

    def log_density(self, scales: FloatArray, degrees: float) -> tuple[float, FloatArray, float]:
        """Compute the log density of the errors and its derivatives, by quadrature over the weights.

        ``sum_i log of the integral of N(e_i; 0, v_i + r / w) Gamma(w; nu / 2, nu / 2) dw``. The trapezoidal
        rule is applied in ``log w``; derivatives are expectations over the distribution of ``w`` given ``e``.

        Parameters
        ----------
        scales : ndarray of shape (D,)
            Squared scale of the noise of each column, ``r``.
        degrees : float
            ``nu``.

        Returns
        -------
        value : float
            Log density in nats.
        by_log_scales : ndarray of shape (D,)
            Derivative by ``log r``.
        by_log_degrees : float
            Derivative by ``log nu``.
        """
        r = scales[self.columns]
        farthest = float(np.max(self.errors**2 / (self.explained + r), initial=0.0))
        weights, log_p = _log_gamma_nodes(degrees, farthest)
        about_degrees = 0.5 * (
            1.0 + np.log(0.5 * degrees) - digamma(0.5 * degrees) + np.log(weights) - weights
        )
        value, slope, by_scales = 0.0, 0.0, np.zeros(self.errors.size)
        for first in range(0, self.errors.size, _CELLS_AT_ONCE):
            cells = slice(first, first + _CELLS_AT_ONCE)
            noise = r[cells] / weights[:, None]
            variance = self.explained[cells] + noise
            power = self.errors[cells] ** 2 / variance
            log_q = log_p[:, None] - 0.5 * (power + np.log(2.0 * np.pi * variance))
            largest = log_q.max(axis=0)
            q = np.exp(log_q - largest)
            total = q.sum(axis=0)
            value += float(np.sum(largest + np.log(total)))
            slope += float(np.sum((about_degrees @ q) / total))
            by_scales[cells] = 0.5 * np.sum(q * noise * (power - 1.0) / variance, axis=0) / total
        by_column = np.zeros(scales.size)
        np.add.at(by_column, self.columns, by_scales)
        return value, by_column, degrees * slope


def left_out_cells(
    params: Parameters, panel: Panel, moments: CellMoments, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out moments of the observed values, at given weights.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    moments : CellMoments
        Moments of the posterior under the weights.
    weights : ndarray of shape (T, D)
        Expected weights.

    Returns
    -------
    means, explained : ndarray of shape (N, D)
        Means and variances of the noise-free values given the others; NaN where missing, or where rounding
        errors dominate.
    """
    n = panel.n_rows
    seen = np.asarray(panel.mask[:n]) > 0.0
    values = np.where(seen, panel.values[:n], np.nan)
    own = params.noise_variance / np.where(seen, weights[:n], 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        means, variances = left_out_moments(values, moments.means, moments.explained + own, own)
    return means, np.maximum(variances - own, 0.0)


def _log_gamma_nodes(nu: float, farthest: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes of ``w ~ Gamma(nu / 2, nu / 2)`` and logarithms of their probabilities.

    The nodes cover the distribution of ``w`` given a value whose squared error, in units of its variance, is
    at most `farthest`.
    """
    half = 0.5 * nu
    ends = np.log(gammaincinv(half, [1e-8, 1.0 - 1e-12]) / half)
    low = min(float(ends[0]), float(np.log(1e-3 * (nu + 1.0) / (nu + farthest))) if farthest > nu else 0.0)
    grid = np.linspace(low, float(ends[1]), _FEWER_NODES)
    log_p = half * grid - half * np.exp(grid)
    return np.exp(grid), log_p - logsumexp(log_p)


def normal_scores(
    errors: FloatArray,
    explained: FloatArray,
    scale: FloatArray,
    degrees_of_freedom: float | FloatArray,
) -> FloatArray:
    """Return normal scores of errors: standard normal if the predicted distribution is right.

    The distribution is that of the sum of a normal variable and an independent Student-t variable,
    ``F(e) = integral of Phi(e / sqrt(v + r / w)) p(w) dw`` with ``w ~ Gamma(nu / 2, nu / 2)``. The integral
    is computed by the trapezoidal rule in ``log w``, where the integrand is smooth and decays at both ends.

    Parameters
    ----------
    errors : ndarray of shape (N, D)
        Values less predicted means, NaN where missing.
    explained : ndarray of shape (N, D)
        Variances of the normal part, ``v``.
    scale : ndarray of shape (D,) or (N, D)
        Squared scales of the Student-t part, ``r``.
    degrees_of_freedom : float or ndarray of shape (N, D)
        ``nu``.

    Returns
    -------
    ndarray of shape (N, D)
        ``Phi^-1(F(e))``; NaN where an input is NaN or the total variance is zero.
    """
    out = np.full(errors.shape, np.nan)
    r, nu = np.broadcast_to(scale, errors.shape), np.broadcast_to(degrees_of_freedom, errors.shape)
    there = ~np.isnan(errors) & ~np.isnan(explained) & (explained + r > 0.0)
    for degrees in np.unique(nu[there]):
        here = there & (nu == degrees)
        weights, probabilities = _gamma_nodes(float(degrees))
        e, v, noise = np.abs(errors[here]), np.maximum(explained[here], 0.0), r[here]
        tail = np.zeros_like(e)
        for w, p in zip(weights, probabilities, strict=True):
            tail += p * ndtr(-e / np.sqrt(v + noise / w))
        out[here] = -np.sign(errors[here]) * ndtri(np.maximum(tail, np.finfo(np.float64).tiny))
    return out


def _gamma_nodes(nu: float, n_nodes: int = 120) -> tuple[FloatArray, FloatArray]:
    """Return nodes, evenly spaced in ``log w``, and probabilities of ``w ~ Gamma(nu / 2, nu / 2)``."""
    half = 0.5 * nu
    # The lower tail must cover squared errors up to 1e10.
    ends = np.log(gammaincinv(half, [1e-30, 1.0 - 1e-14]) / half)
    grid = np.linspace(ends[0], ends[1], n_nodes)
    log_p = half * grid - half * np.exp(grid)
    p = np.exp(log_p - log_p.max())
    return np.exp(grid), p / p.sum()


def filter_rows(
    noise: StudentNoise,
    params: Parameters,
    panel: Panel,
    mean: FloatArray,
    covariance: FloatArray,
    onward: Transition | None = None,
) -> Filtering:
    """Return approximate filtered distributions of the states under Student-t noise.

    The predicted distribution of a state is approximated as Gaussian. In each row, weights and state are
    iterated to their fixed point; weights of earlier rows are not updated (Agamennoni, Nieto & Nebot 2012,
    IEEE Transactions on Signal Processing 60, 5024-5037).

    Parameters
    ----------
    noise : StudentNoise
        Degrees of freedom, and which values share a weight.
    params, panel, mean, covariance, onward
        As of :func:`probsfa.statespace.posterior.filter_rows`.

    Returns
    -------
    Filtering
        Log densities of rows are lower bounds.
    """
    states = params.state_space
    algorithm = choose(states)
    degrees = float(noise.degrees_of_freedom)
    return algorithm.filter_student(states, panel, degrees, noise.by_row, mean, covariance, onward)
