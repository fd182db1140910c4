"""Maximization of the lower bound over parameters, with sites updated at each step.

For given parameters ``theta`` the sites are updated until the bound ``F(theta, q)`` is maximal over ``q``
(:mod:`.sites`). The gradient of this maximum is the partial derivative of ``F`` with respect to ``theta`` at
fixed ``q``. With ``g = dE/dm`` and ``lambda = -2 dE/dv`` of each value, it is ::

    dF/dC_d = sum_t (g_td E[z_t] - lambda_td Cov[z_t] C_d),      dF/dmu_d = sum_t g_td

for loadings and offsets. Fisher's identity gives the derivatives with respect to the parameters of the
dynamics, and each family those with respect to its shape parameters. The optimizer of the Gaussian model is
used: quasi-Newton steps in the metric of the expected information. The noise precision in this metric is the
mean precision of the sites.

The likelihood of some columns has no maximum: that of a binary column of ones increases with its predictor.
Columns without a scale parameter therefore have weak normal priors: ``N(0, 3^2)`` of the loadings, and
``N(eta_d, 10^2)`` of the offset, where ``eta_d`` is the predictor for the mean of the column.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.extensions.emissions.sites import (
    Inference,
    Observations,
    Shapes,
    Sites,
    engine_params,
    infer,
    row_blocks,
    site_panel,
)
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    clip_decays,
    dynamics_score,
    from_vector,
    longest_steps,
    to_vector,
)
from probsfa.statespace.learning.fisher_metric import CompleteData, Metric, complete_data_of
from probsfa.statespace.learning.quasi_newton import Ascent, Box, Evaluation, maximize_objective
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace

__all__ = ["BoundObjective", "Fit", "Layout", "Prior", "maximize_bound"]

# Prior standard deviations of loadings and offsets of columns without a scale parameter.
_LOADINGS_PRIOR, _OFFSET_PRIOR = 3.0, 10.0
# Maximum step of one iteration in loadings, offsets and shape parameters.
_MAX_STEPS = (1.0, 3.0, 2.0)
# Upper limit of the tolerance of the sites, in nats of the bound.
_SITES_TOL = 1e-2
# Maximum number of evaluations of the sites for one set of parameters. If more are needed, the bound is not
# maximal over the sites, and the optimizer may reject the step for this reason.
_MAX_SITE_STEPS = 100
# Finite-difference step for the second derivatives of the bound with respect to shape parameters.
_SHAPE_STEP = 1e-4

#: Called with the number of evaluations and the best bound so far.
Report = Callable[[int, float], None]


class Layout(NamedTuple):
    """Layout of all parameters in one vector: dynamics, loadings, offset, and shape parameters."""

    linear: Coordinates
    shapes: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.linear.size + sum(rows * columns for rows, columns in self.shapes)

    def to_vector(self, params: StateSpace, shapes: Shapes) -> FloatArray:
        """Return the coordinates of parameters."""
        return np.concatenate([to_vector(self.linear, params), *(shape.ravel() for shape in shapes)])

    def from_vector(self, vector: FloatArray, template: StateSpace) -> tuple[StateSpace, Shapes]:
        """Return the parameters at given coordinates."""
        linear = self.linear.size
        boundaries = np.cumsum([0, *(rows * columns for rows, columns in self.shapes)]) + linear
        parts = zip(self.shapes, boundaries[:-1], boundaries[1:], strict=True)
        shapes = tuple(vector[i:j].reshape(shape) for shape, i, j in parts)
        return from_vector(self.linear, vector[:linear], template), shapes


class Prior(NamedTuple):
    """Weak priors of loadings and offsets of columns without a scale parameter.

    Attributes
    ----------
    has_prior : ndarray of bool (D,)
        Columns with a prior.
    centre : ndarray (D,)
        Prior means of the offsets of the columns.
    """

    has_prior: BoolArray
    centre: FloatArray

    def __call__(self, params: StateSpace) -> tuple[float, FloatArray, FloatArray]:
        """Return the log density up to a constant, and its gradients with respect to loadings and offset."""
        weight = self.has_prior.astype(np.float64)
        loadings_gradient = -weight[:, None] * params.nonzero_loadings / _LOADINGS_PRIOR**2
        deviations = weight * (params.offset - self.centre)
        value = (
            0.5 * np.sum(loadings_gradient * params.nonzero_loadings)
            - 0.5 * np.sum(deviations**2) / _OFFSET_PRIOR**2
        )
        return float(value), loadings_gradient, -deviations / _OFFSET_PRIOR**2

    @property
    def precision(self) -> FloatArray:
        """Prior precision of the loadings of each column, (D,)."""
        return self.has_prior / _LOADINGS_PRIOR**2


class _BoundTerms(NamedTuple):
    """Quantities that the metric requires in addition to the gradient."""

    inference: Inference
    stats: Statistics
    shape_curvature: FloatArray


class _Metric:
    """Metric of two blocks: expected information of the linear model, and a diagonal for shape parameters."""

    def __init__(self, linear: Metric, size: int, shapes: FloatArray) -> None:
        self._linear, self._size, self._shapes = linear, size, shapes

    def solve(self, gradient: FloatArray, is_free: BoolArray, damping: float) -> FloatArray:
        """See :class:`~probsfa.statespace.learning.quasi_newton.Curvature`."""
        n = self._size
        linear = self._linear.solve(gradient[:n], is_free[:n], damping)
        return np.concatenate([linear, is_free[n:] * gradient[n:] / ((1.0 + damping) * self._shapes)])


class _Best(NamedTuple):
    """The evaluation with the largest objective so far."""

    value: float
    params: StateSpace
    shapes: Shapes
    inference: Inference


class BoundObjective:
    """Objective and gradient: the lower bound of the log-likelihood plus the log prior density.

    Parameters
    ----------
    observations : Observations
        Observed values.
    layout : Layout
        Coordinates.
    template : StateSpace
        Values of the parameters that are not optimized, and therefore have no coordinates.
    prior : Prior
        Weak priors.
    limit : int
        Maximum number of evaluations.
    tol : float
        Increase of the bound, in nats, below which the updates of the sites end.
    report : callable, optional
        Called with the number of evaluations and the best value so far.

    Attributes
    ----------
    best : tuple or None
        Value, parameters, shapes and inference of the best evaluation so far; None before the first finite
        value.
    """

    def __init__(
        self,
        observations: Observations,
        layout: Layout,
        template: StateSpace,
        prior: Prior,
        limit: int,
        tol: float,
        report: Report | None = None,
    ) -> None:
        self.observations, self.layout, self.template, self.prior = observations, layout, template, prior
        self.limit, self.tol, self.report = limit, tol, report
        self.count = 0
        self.best: _Best | None = None

    @property
    def exhausted(self) -> bool:
        """Whether the maximum number of evaluations is reached."""
        return self.count >= self.limit

    def rounding(self, value: float) -> float:
        """Return the largest change of the value due to rounding errors and the tolerance of the sites."""
        return 1e-12 * (abs(value) + self.observations.panel.n_rows) + self.tol

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Evaluate the objective and its gradient at a vector of coordinates."""
        params, shapes = self.layout.from_vector(vector, self.template)
        sites: Sites | None = None if self.best is None else self.best.inference.sites
        inference, _ = infer(params, self.observations, shapes, sites, tol=self.tol, max_iter=_MAX_SITE_STEPS)
        if not np.isfinite(inference.bound) and sites is not None:
            inference, _ = infer(params, self.observations, shapes, tol=self.tol, max_iter=_MAX_SITE_STEPS)
        self.count += 1
        value, gradient, detail = self._at(params, shapes, inference)
        if np.isfinite(value) and (self.best is None or value > self.best.value):
            self.best = _Best(value, params, shapes, inference)
        if self.report is not None and self.best is not None:
            self.report(self.count, self.best.value)
        return Evaluation(value, gradient, detail)

    def _at(
        self, params: StateSpace, shapes: Shapes, inference: Inference
    ) -> tuple[float, FloatArray, _BoundTerms | None]:
        if not np.isfinite(inference.bound):
            return -np.inf, np.full(self.layout.size, np.nan), None
        engine_parameters, panel = engine_params(params), site_panel(self.observations, inference.sites)
        stats = expected_statistics(engine_parameters, panel)
        log_prior, prior_loadings_gradient, prior_offset_gradient = self.prior(params)
        loaded_states = params.state_layout.loaded_states
        _, slope, precision = inference.expectation
        loadings_gradient = slope.T @ inference.means
        n, k = inference.means.shape
        # This is sum_t lambda_td Cov[z_t] C_d; the weighted covariances are summed first.
        summed_covariances = (precision.T @ inference.covariances.reshape(n, k * k)).reshape(-1, k, k)
        loadings_gradient -= np.einsum("djk,dk->dj", summed_covariances, params.loadings)
        evenly_sampled = self.layout.linear.evenly_sampled
        shapes_gradient, curvature, shape_prior = self._shapes_gradient(shapes, inference)
        gradient = np.concatenate(
            [
                dynamics_score(params, self.observations.panel.gaps, stats, evenly_sampled=evenly_sampled),
                (loadings_gradient[:, loaded_states] + prior_loadings_gradient).ravel(),
                slope.sum(axis=0) + prior_offset_gradient,
                shapes_gradient,
            ]
        )
        return inference.bound + log_prior + shape_prior, gradient, _BoundTerms(inference, stats, curvature)

    def _shapes_gradient(self, shapes: Shapes, inference: Inference) -> tuple[FloatArray, FloatArray, float]:
        """Return gradient, diagonal curvature and log prior density of all shape parameters."""
        gradients, curvatures, log_prior = [np.zeros(0)], [np.zeros(0)], 0.0
        for (family, columns), shape in zip(self.observations.blocks, shapes, strict=True):
            if shape.size == 0:
                continue
            block = (
                self.observations.values[:, columns],
                inference.predictor_mean[:, columns],
                inference.predictor_variance[:, columns],
            )
            mask = self.observations.mask[:, columns]

            def gradient_at(
                at: FloatArray, family: Any = family, block: Any = block, mask: Any = mask
            ) -> FloatArray:
                total = family.log_prior(at)[1]
                for rows in row_blocks(*mask.shape):
                    derivatives = family.shape_gradient(*(part[rows] for part in block), at)
                    total = total + np.stack([(mask[rows] * terms).sum(axis=0) for terms in derivatives])
                return total

            gradient = gradient_at(shape)
            log_prior += family.log_prior(shape)[0]
            differences = np.empty_like(gradient)
            for i in range(len(shape)):
                shifted = shape.copy()
                shifted[i] += _SHAPE_STEP
                differences[i] = (gradient[i] - gradient_at(shifted)[i]) / _SHAPE_STEP
            gradients.append(gradient.ravel())
            # Finite differences may be negative if the bound is not concave; the gradient then limits the
            # step.
            curvatures.append(np.maximum(np.maximum(differences, 0.3 * np.abs(gradient)), 0.1).ravel())
        return np.concatenate(gradients), np.concatenate(curvatures), log_prior

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> _Metric:
        """Return the metric: expected information of the Gaussian model with mean precisions of the sites."""
        params, _ = self.layout.from_vector(vector, self.template)
        detail: _BoundTerms = evaluation.detail
        linear = self.layout.linear
        complete = complete_data_of(detail.stats, params)
        complete = CompleteData(complete.counts + self.prior.precision, complete.moments, complete.n_rows)
        gradient = evaluation.gradient[: linear.size]
        metric = Metric(linear, engine_params(params), complete, gradient)
        return _Metric(metric, linear.size, detail.shape_curvature)


class Fit(NamedTuple):
    """Outcome of the maximization.

    Attributes
    ----------
    params : StateSpace
        Dynamics, loadings and offset; noise variances are ones.
    shapes : tuple of ndarray
        Shape parameters of each block.
    inference : Inference
        Distribution of the latent factors at the final parameters.
    history : tuple of float
        Bound plus log density of the priors after each accepted step; never decreases.
    n_evaluations : int
        Number of evaluations of the bound.
    stop_reason : str
        Reason why the optimization stopped.
    """

    params: StateSpace
    shapes: Shapes
    inference: Inference
    history: tuple[float, ...]
    n_evaluations: int
    stop_reason: str


def maximize_bound(
    observations: Observations,
    params: StateSpace,
    shapes: Shapes,
    prior: Prior,
    *,
    max_iter: int,
    tol: float,
    report: Report | None = None,
) -> Fit:
    """Maximize the bound over parameters and sites, from initial parameters.

    Parameters
    ----------
    observations : Observations
        Observed values.
    params : StateSpace
        Initial parameters.
    shapes : tuple of ndarray
        Initial shape parameters.
    prior : Prior
        Weak priors.
    max_iter : int
        Maximum number of evaluations of the bound.
    tol : float
        The optimizer stops if a step is expected to gain less than `tol` nats.
    report : callable, optional
        Called with the number of evaluations and the best value so far.

    Returns
    -------
    Fit
        After a keyboard interrupt it has the best parameters so far.
    """
    evenly_sampled = observations.panel.evenly_sampled
    params = clip_decays(engine_params(params), evenly_sampled=evenly_sampled)
    linear = Coordinates(params.state_layout, NoiseVariances.known(params.n_features), evenly_sampled)
    layout = Layout(linear, tuple((shape.shape[0], shape.shape[1]) for shape in shapes))
    objective = BoundObjective(
        observations, layout, params, prior, max_iter, min(_SITES_TOL, 0.01 * tol), report
    )
    lower = np.full(layout.size, -np.inf)
    floors = [
        np.broadcast_to(family.min_shape()[:, None], shape.shape).ravel()
        for (family, _), shape in zip(observations.blocks, shapes, strict=True)
    ]
    lower[linear.size :] = np.concatenate(floors)
    loading_step, offset_step, shape_step = _MAX_STEPS
    max_steps = np.concatenate(
        [
            longest_steps(params.state_layout),
            np.full(linear.n_states * linear.n_features, loading_step),
            np.full(linear.n_features, offset_step),
            np.full(layout.size - linear.size, shape_step),
        ]
    )
    result: Ascent = maximize_objective(
        objective, layout.to_vector(params, shapes), Box(lower, max_steps), tol
    )
    if objective.best is None:  # interrupted before the first evaluation, or no finite value
        params, shapes = layout.from_vector(result.vector, params)
        return Fit(
            params,
            shapes,
            infer(params, observations, shapes, max_iter=2)[0],
            (),
            objective.count,
            result.stop_reason,
        )
    best = objective.best
    return Fit(best.params, best.shapes, best.inference, result.history, objective.count, result.stop_reason)
