"""Profile-likelihood intervals of time scales.

For each decay of one factor all other parameters are fitted again; the interval contains the decays whose
maximized log-likelihood is within half a chi-square quantile of the maximum. It is as skewed as the
likelihood, and its limits may be zero or infinite, whereas intervals on a logarithmic scale are approximate.

The other parameters are optimized in coordinates whitened by the observed information, starting from their
linear prediction, so that each decay needs few evaluations.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from probsfa._timescales import timescales_from_decay
from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    from_vector,
    score,
    to_vector,
)
from probsfa.statespace.learning.standard_errors import normal_quantile, observed_information
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics
from probsfa.statespace.processes.ar1 import SLOWEST_DECAY

__all__ = ["TimescaleProfile", "profile_decay"]

# Maximum number of steps from the maximum to each side, and tolerance of a limit in standard deviations.
_MOST_STEPS, _CLOSE = 25, 2e-3
# Least curvature of a direction, relative to the largest, and least decay that counts as positive.
_FLATTEST, _FASTEST = 1e-10, 1e-4
# Maximum number of evaluations for the other parameters at one decay.
_MOST_EVALUATIONS = 60


class TimescaleProfile(NamedTuple):
    """Profile likelihood of the time scale of a factor.

    Attributes
    ----------
    lower, upper : float
        Limits of the interval; zero if it includes a decay of zero, infinite if it includes a decay of one.
    timescale : float
        Maximum likelihood estimate.
    level : float
        Nominal coverage.
    timescales : ndarray of shape (G,)
        Time scales at which the other parameters were fitted, ascending.
    log_likelihoods : ndarray of shape (G,)
        Log-likelihoods there, in nats, minus the largest.
    n_evaluations : int
        Number of likelihood evaluations.
    """

    lower: float
    upper: float
    timescale: float
    level: float
    timescales: FloatArray
    log_likelihoods: FloatArray
    n_evaluations: int


class _Profile:
    """Log-likelihood at decays of one factor, maximized over the other parameters."""

    def __init__(
        self,
        layout: Coordinates,
        params: Parameters,
        panel: Panel,
        free: BoolArray,
        component: int,
        noise: Noise | None,
    ) -> None:
        self.layout, self.params, self.panel, self.component = layout, params, panel, component
        self.noise = noise
        self.vector = to_vector(layout, params)
        indices = np.flatnonzero(free)
        place = int(np.flatnonzero(indices == component)[0])  # decays come first
        information = observed_information(layout, params, panel, free)
        rest = np.arange(len(indices)) != place
        self.rest = indices[rest]
        values, vectors = np.linalg.eigh(information[np.ix_(rest, rest)])
        values = np.maximum(np.abs(values), _FLATTEST * max(float(np.abs(values).max()), 1.0))
        # The log-likelihood is isotropic in u, where vector = start + factor u.
        self.factor = vectors / np.sqrt(values)
        cross = information[rest, place]
        self.slope = -vectors @ ((vectors.T @ cross) / values)
        curvature = information[place, place] + cross @ self.slope
        # One standard deviation of the profile in its parabolic approximation.
        self.unit = 1.0 / np.sqrt(max(float(curvature), 1e-6))
        self.n_evaluations = 2 * len(indices) + 1
        self.best, self.found = self.log_likelihood(self.vector)[0], {0.0: (0.0, self.vector)}

    def log_likelihood(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return log-likelihood plus log prior density of the noise, and the gradient (P,)."""
        self.n_evaluations += 1
        params = from_vector(self.layout, vector, self.params)
        stats = expected_statistics(params, self.panel)
        value = float(stats.log_likelihood)
        gradient = score(self.layout, params, self.panel.gaps, stats)
        if self.noise is not None:
            value += self.noise.log_prior(params.noise_variance)
            gradient[self.layout.slices[2]] += self.noise.prior_slope(params.noise_variance)
        return value, gradient

    def decay(self, steps: float) -> float:
        """Return the decay at a distance from the estimate, in units of ``self.unit``."""
        vector = self.vector.copy()
        vector[self.component] += steps * self.unit
        return float(from_vector(self.layout, vector, self.params).decay[self.component])

    def root(self, steps: float) -> float:
        """Return the signed root of twice the drop in log-likelihood at a distance from the estimate."""
        if steps not in self.found:
            nearest = min(self.found, key=lambda known: abs(known - steps))
            start = self.found[nearest][1].copy()
            start[self.component] = self.vector[self.component] + steps * self.unit
            start[self.rest] += (steps - nearest) * self.unit * self.slope
            self.found[steps] = self._climb(start)
        return float(np.sign(steps) * np.sqrt(max(-2.0 * self.found[steps][0], 0.0)))

    def _climb(self, start: FloatArray) -> tuple[float, FloatArray]:
        def objective(u: FloatArray) -> tuple[float, FloatArray]:
            vector = start.copy()
            vector[self.rest] += self.factor @ u
            with np.errstate(all="ignore"):
                value, gradient = self.log_likelihood(vector)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e100, np.zeros_like(u)
            return self.best - value, -self.factor.T @ gradient[self.rest]

        options: Any = {"maxfun": _MOST_EVALUATIONS, "ftol": 1e-10, "gtol": 1e-4}
        end = scipy.optimize.minimize(
            objective, np.zeros(len(self.rest)), jac=True, method="L-BFGS-B", options=options
        )
        vector = start.copy()
        vector[self.rest] += self.factor @ end.x
        return -float(end.fun), vector


def profile_decay(
    layout: Coordinates,
    params: Parameters,
    panel: Panel,
    free: BoolArray,
    component: int,
    level: float,
    time_unit: float,
    noise: Noise | None = None,
) -> TimescaleProfile:
    """Compute the interval of a time scale by profile likelihood (Venzon & Moolgavkar 1988).

    Parameters
    ----------
    layout : Coordinates
        Coordinates of the parameters.
    params : Parameters
        Maximum-likelihood parameters of the standardised data.
    panel : Panel
        Standardised observations.
    free : ndarray of bool (P,)
        Which coordinates are free.
    component : int
        Index of the factor.
    level : float
        Nominal coverage.
    time_unit : float
        Unit of time of the decays.
    noise : Noise, optional
        Noise with the prior under which the parameters were fitted.

    Returns
    -------
    TimescaleProfile

    Raises
    ------
    ValueError
        If the level is invalid, or the decay of the factor is not positive.
    """
    wanted = normal_quantile(level)
    decay = float(params.decay[component])
    if decay <= _FASTEST:
        raise ValueError(
            f"Latent {component} has the decay {decay:.3g}, which is that of no time scale: there is none."
        )
    profile = _Profile(layout, params, panel, free, component, noise)
    lower, upper = (_end(profile, sign, wanted) for sign in (-1.0, 1.0))
    steps = np.array(sorted(profile.found))
    decays = np.array([profile.decay(step) for step in steps])
    values = np.array([profile.found[step][0] for step in steps])
    positive = decays > 0.0
    return TimescaleProfile(
        lower=_timescale(lower, time_unit),
        upper=_timescale(upper, time_unit),
        timescale=_timescale(decay, time_unit),
        level=float(level),
        timescales=timescales_from_decay(decays[positive], time_unit),
        log_likelihoods=values[positive],
        n_evaluations=profile.n_evaluations,
    )


def _timescale(decay: float, time_unit: float) -> float:
    """Return the time scale of a decay; zero if it is below 1e-4, infinite if it is at its upper limit."""
    if decay <= _FASTEST:
        return 0.0
    return np.inf if decay >= SLOWEST_DECAY else float(-time_unit / np.log(decay))


def _end(profile: _Profile, sign: float, wanted: float) -> float:
    """Return the decay with signed root `wanted` on one side, or the decay limit if the root stays below."""
    inside, outside, step = 0.0, np.inf, wanted
    for _ in range(_MOST_STEPS):
        decay = profile.decay(sign * step)
        root = abs(profile.root(sign * step))
        if abs(root - wanted) < _CLOSE or outside - inside < _CLOSE * step:
            break
        if root < wanted:
            inside = step
            if not _FASTEST < decay < SLOWEST_DECAY:
                break  # at the limit of the decay, and still in the interval
        else:
            outside = step
        # The root is nearly linear through the origin: extrapolate, but stay in the bracket.
        guess = step * wanted / max(root, 0.1 * wanted)
        if np.isinf(outside):
            step = min(max(guess, 1.1 * step), 3.0 * step)
        else:
            room = outside - inside
            step = guess if inside + 0.1 * room < guess < outside - 0.1 * room else inside + 0.5 * room
    return decay
