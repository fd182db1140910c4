"""The exact log-likelihood as an objective, its quasi-Newton optimizer, and the result of a fit."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.ar1_noise_metric import AR1NoiseMetric, make_metric
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, score, to_vector
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_of
from probsfa.statespace.learning.limits import Limits
from probsfa.statespace.learning.processes import longest_steps
from probsfa.statespace.learning.quasi_newton import Ascent, Box, Evaluation, Transport, ascend, straight
from probsfa.statespace.learning.rotations import rotate_along
from probsfa.statespace.noise.gaussian import Noise, slope_for_metric
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics

Status = Literal["converged", "flat", "max_iter", "stalled", "interrupted", "closed_form"]

#: Meaning of each status, with advice.
STATUS_SENTENCES: dict[Status, str] = {
    "converged": "Converged: a further step is expected to gain less than tol nats.",
    "flat": (
        "Converged: the log-likelihood can no longer be told apart in double precision; "
        "the remaining gradient is rounding."
    ),
    "max_iter": (
        "Stopped at max_iter before converging: the log-likelihood was still rising. "
        "Raise max_iter, or raise tol if the result is good enough."
    ),
    "stalled": (
        "Stopped: no step raised the log-likelihood, although its gradient is not zero. The parameters are "
        "the best found; two latents may have the same time scale, or n_components may be too large."
    ),
    "interrupted": "Interrupted: the best parameters so far are kept.",
    "closed_form": "Closed form: the noise-free limit is slow feature analysis.",
}


class FitResult(NamedTuple):
    """Outcome of a fit.

    Attributes
    ----------
    params : Parameters
        The best parameters found.
    log_likelihood : float
        Their log-likelihood, in nats.
    history : tuple of float
        Log-likelihood after each accepted step, non-decreasing.
    n_evaluations : int
        Number of posterior evaluations.
    status : str
        A key of :data:`STATUS_SENTENCES`.
    degrees_of_freedom : float or None, default=None
        Degrees of freedom of Student-t noise; None for Gaussian noise.
    """

    params: Parameters
    log_likelihood: float
    history: tuple[float, ...]
    n_evaluations: int
    status: Status
    degrees_of_freedom: float | None = None

    @property
    def converged(self) -> bool:
        """Whether the fit ended at a maximum."""
        return self.status in ("converged", "flat", "closed_form")


#: Called with the number of evaluations and the best log-likelihood so far.
Report = Callable[[int, float], None]


def refinement_report(report: Report | None) -> Callable[[], None]:
    """Return the function to call at each step on Whittle's likelihood, before and between evaluations.

    Parameters
    ----------
    report : callable, optional
        Report whose method ``refined()``, if it has one as :class:`.Progress`, is called at these steps.

    Returns
    -------
    callable
        That method, or a function that does nothing.
    """
    told: Callable[[], None] = getattr(report, "refined", _not_told)
    return told


def _not_told() -> None:
    pass


#: Function of parameters that returns the expected statistics of the latent states.
EStep = Callable[[Parameters], Statistics]


class CountedEStep:
    """Expected statistics of the latent states at given parameters, with a limited number of evaluations.

    Parameters
    ----------
    panel : Panel
        Packed observations.
    limit : int
        Maximum number of evaluations.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.
    e_step : callable, optional
        Return expected statistics over all data, if the panel is only a sample.

    Attributes
    ----------
    noise : Noise or None
        Noise model with a prior, once :meth:`begin_with_prior` is called. The log prior density is then added
        to the log-likelihood of the statistics, so that optimizers maximise the posterior density.
    limits : Limits or None
        Fixed parameters and ranges of periods that EM steps respect; None without such.
    refined : callable
        Called at each step of a start on Whittle's likelihood.
    tol : float
        Expected gain in nats at which the fit stops.
    best_start : tuple of float and Parameters, or None
        Best value of Whittle's likelihood and its parameters, of starts before the first evaluation.
    """

    def __init__(
        self,
        panel: Panel,
        limit: int,
        report: Report | None = None,
        e_step: EStep | None = None,
    ) -> None:
        self.panel = panel
        self.limit = limit
        self.count = 0
        self.best: Parameters | None = None
        self.best_log_likelihood = -np.inf
        self.tol = 0.0
        self._report = report
        self.refined = refinement_report(report)
        self.best_start: tuple[float, Parameters] | None = None
        self._e_step = e_step
        self.noise: Noise | None = None
        self.limits: Limits | None = None

    def remember_start(self, value: float, params: Parameters) -> None:
        """Store the best start on Whittle's likelihood, for an interrupt before the first evaluation."""
        if (
            self.best is None
            and np.isfinite(value)
            and (self.best_start is None or value > self.best_start[0])
        ):
            self.best_start = (value, params)

    def begin_with_prior(self, noise: Noise) -> None:
        """Add the noise prior to the objective and reset the incumbent."""
        self.noise, self.best, self.best_log_likelihood = noise, None, -np.inf

    def log_prior(self, params: Parameters) -> float:
        """Return the log prior density at given parameters, in nats, up to a constant."""
        return 0.0 if self.noise is None else self.noise.log_prior(params.noise_variance)

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return self.count >= self.limit

    def __call__(self, params: Parameters) -> Statistics:
        """Return the expected statistics at ``params``."""
        stats = (
            self._e_step(params) if self._e_step else expected_statistics(params, self.panel, for_steps=True)
        )
        stats = stats._replace(log_likelihood=stats.log_likelihood + self.log_prior(params))
        self.count += 1
        if stats.log_likelihood > self.best_log_likelihood:
            self.best, self.best_log_likelihood = params, stats.log_likelihood
        if self._report is not None:
            prior = 0.0 if self.best is None else self.log_prior(self.best)
            self._report(self.count, self.best_log_likelihood - prior)
        return stats


def rounding(log_likelihood: float, n_rows: int) -> float:
    """Return the smallest change of a log-likelihood that exceeds rounding errors, in nats."""
    return 8.0 * np.finfo(np.float64).eps * (abs(log_likelihood) + n_rows)


class ExactObjective:
    """The exact log-likelihood as an objective: one posterior gives its value and its score."""

    def __init__(self, evaluate: CountedEStep, layout: Coordinates, template: Parameters) -> None:
        self.evaluate = evaluate
        self.layout = layout
        self.template = template

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return self.evaluate.exhausted

    def rounding(self, value: float) -> float:
        """Return the smallest change of the value that exceeds rounding errors."""
        return rounding(value, self.evaluate.panel.n_rows)

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return the log-likelihood and its score."""
        params = from_vector(self.layout, vector, self.template)
        return self.evaluation(params, self.evaluate(params))

    def evaluation(self, params: Parameters, stats: Statistics) -> Evaluation:
        """Return the log-likelihood and its score from expected statistics at ``params``."""
        gradient = score(self.layout, params, self.evaluate.panel.gaps, stats)
        gradient[self.layout.slices[2]] += self._prior_slope(params)
        return Evaluation(stats.log_likelihood, gradient, stats)

    def move(self, vector: FloatArray, step: FloatArray) -> tuple[FloatArray, Transport]:
        """Take a step, with its rotation of the factors along an arc unless parameters are fixed."""
        if self.layout.limits is not None and self.layout.limits.hold:
            return straight(vector, step)
        params = from_vector(self.layout, vector, self.template)
        return rotate_along(self.layout, vector, step, params.noise_variance)

    def _prior_slope(self, params: Parameters) -> FloatArray:
        noise = self.evaluate.noise
        size = self.layout.n_noise
        return np.zeros(size) if noise is None else noise.prior_slope(params.noise_variance)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> Metric | AR1NoiseMetric:
        """Return the expected information, damped by that of complete data; full damping gives EM steps."""
        params = from_vector(self.layout, vector, self.template)
        noise, place = self.evaluate.noise, self.layout.slices[2]
        slope = slope_for_metric(evaluation.gradient, place, noise, params.noise_variance)
        stats: Statistics = evaluation.detail
        # A lower bound: more sequences, or long gaps, would count as more segments.
        complete = complete_data_of(stats, params, 1.0, centred=True)
        return make_metric(self.layout, params, complete, slope)


# Longest step of one iteration: in the loadings (standard deviations), log r, mu.
_LONGEST_STEPS = (1.0, 1.5, 3.0)


def make_box(layout: Coordinates, noise: Noise) -> Box:
    """Return bounds and longest steps of the coordinates."""
    lower, upper = layout.bounds
    least = layout.variances.of_columns(layout.variances.largest(noise.floor))
    lower[layout.slices[2]] = np.log(layout.variances.of_groups(noise.with_held(least)))
    sizes = [
        np.full(part.stop - part.start, size)
        for part, size in zip(layout.slices[1:], _LONGEST_STEPS, strict=True)
    ]
    return Box(lower, np.concatenate([longest_steps(layout.latents), *sizes]), upper)


def fit_quasi_newton(
    evaluate: CountedEStep,
    layout: Coordinates,
    start: Parameters,
    noise: Noise,
    tol: float,
    stats: Statistics | None = None,
) -> FitResult:
    """Maximise with the exact score from ``start``.

    EM steps shrink with the noise variance; these do not, because the metric (see
    :mod:`.information`) approximates the curvature of the likelihood.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    layout : Coordinates
        Free coordinates.
    start : Parameters
        Initial parameters.
    noise : Noise
        Constraints and prior of the noise variances.
    tol : float
        Expected gain of a further step at which to stop, in nats.
    stats : Statistics, optional
        The statistics at ``start``, if they are known.

    Returns
    -------
    FitResult
    """
    objective = ExactObjective(evaluate, layout, start)
    known = None if stats is None else objective.evaluation(start, stats)
    end: Ascent = ascend(objective, to_vector(layout, start), make_box(layout, noise), tol, known)
    params = from_vector(layout, end.vector, start)
    best = end.history[-1] if end.history else -np.inf
    return FitResult(params, best, end.history, evaluate.count, end.ending)
