"""Intervals of time scales by profile likelihood.

For each decay of one latent all other parameters are fitted again; the interval holds the decays whose best
log-likelihood is within half a quantile of chi-square of the maximum. It is skewed as the likelihood is, and
its ends may be zero or infinite, where an interval on a logarithmic scale is an approximation.

The other parameters are climbed to in coordinates whitened by the observed information, from where a straight
line in them leads, so that each decay takes few evaluations.
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

# Most steps outwards from the maximum on each side, and how close (in standard deviations) an end is found.
_MOST_STEPS, _CLOSE = 25, 2e-3
# Least curvature of a direction, relative to the strongest, and least decay of a positive one.
_FLATTEST, _FASTEST = 1e-10, 1e-4
# Most evaluations for the other parameters at one decay.
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
    """Log-likelihood at decays of one latent, the other parameters at their best."""

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
        # vector = start + factor u is round in u
        self.factor = vectors / np.sqrt(values)
        cross = information[rest, place]
        self.slope = -vectors @ ((vectors.T @ cross) / values)
        curvature = information[place, place] + cross @ self.slope
        # In units of one standard deviation of the profile, where it is a parabola.
        self.unit = 1.0 / np.sqrt(max(float(curvature), 1e-6))
        self.n_evaluations = 2 * len(indices) + 1
        self.best, self.found = self.log_likelihood(self.vector)[0], {0.0: (0.0, self.vector)}

    def log_likelihood(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Log-likelihood, with the log density of a prior of the noise, and its slope (P,)."""
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
        """Decay so many units away from the estimate."""
        vector = self.vector.copy()
        vector[self.component] += steps * self.unit
        return float(from_vector(self.layout, vector, self.params).decay[self.component])

    def root(self, steps: float) -> float:
        """Signed root of twice what the log-likelihood is below its maximum, so many units away."""
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
    """Interval of the time scale of a latent by profile likelihood (Venzon & Moolgavkar 1988).

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
        Which latent.
    level : float
        Probability to cover.
    time_unit : float
        Unit of time of the decays.
    noise : Noise, optional
        With the prior under which the parameters were fitted.

    Returns
    -------
    TimescaleProfile

    Raises
    ------
    ValueError
        If the level is none, or the latent has no positive decay.
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
    """Time scale of a decay; zero where it is none, infinite where it is one."""
    if decay <= _FASTEST:
        return 0.0
    return np.inf if decay >= SLOWEST_DECAY else float(-time_unit / np.log(decay))


def _end(profile: _Profile, sign: float, wanted: float) -> float:
    """Decay at which the signed root is `wanted` on one side; that of the border where it stays below."""
    inside, outside, step = 0.0, np.inf, wanted
    for _ in range(_MOST_STEPS):
        decay = profile.decay(sign * step)
        root = abs(profile.root(sign * step))
        if abs(root - wanted) < _CLOSE or outside - inside < _CLOSE * step:
            break
        if root < wanted:
            inside = step
            if not _FASTEST < decay < SLOWEST_DECAY:
                break  # at the border, and still in the interval
        else:
            outside = step
        # The root is nearly a straight line through the origin: follow it, but never leave what is known.
        guess = step * wanted / max(root, 0.1 * wanted)
        if np.isinf(outside):
            step = min(max(guess, 1.1 * step), 3.0 * step)
        else:
            room = outside - inside
            step = guess if inside + 0.1 * room < guess < outside - 0.1 * room else inside + 0.5 * room
    return decay
