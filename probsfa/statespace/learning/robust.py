"""A fit under Student-t noise: parameters, weights and degrees of freedom, each improved in turn.

The objective is the lower bound of :mod:`probsfa.statespace.student`, and the log density of the noise's
prior. At given weights it is the log-likelihood of a Gaussian model, up to terms in ``log r``, and is climbed
on its exact score as such. Then weights and degrees of freedom take their best values for the posterior.
Neither step lowers the bound. The climb starts at a Gaussian fit to the data without cells that stand out at
first sight.
"""

from collections.abc import Callable

import numpy as np

from probsfa._threads import one_blas_thread
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.em import fit_em
from probsfa.statespace.learning.fit import conform, fit
from probsfa.statespace.learning.limits import Limits, imposed
from probsfa.statespace.learning.noise import Noise
from probsfa.statespace.learning.objective import (
    CountedEStep,
    FitResult,
    Report,
    Status,
    fit_quasi_newton,
    rounding,
)
from probsfa.statespace.learning.options import Given
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, Parameters
from probsfa.statespace.posterior import expected_statistics
from probsfa.statespace.student import (
    MOST_DEGREES,
    StudentNoise,
    Weights,
    bound_at,
    cell_moments,
    infer_weights,
)

__all__ = ["clipped", "fit_robust", "is_normal", "repetitive_columns", "stand_out"]

# Robust standard deviations beyond which a cell stands out from its neighbours in time, or from its column;
# the largest part of a column that may.
_FROM_NEIGHBOURS, _FROM_COLUMN, _MOST_SUSPECTS = 6.0, 8.0, 0.25
# Part of the cells of a column that are the same from which on it is repetitive, and least noise of such.
_REPETITIVE, _NOISE_OF_REPETITIVE = 0.4, 0.1
# Neighbours on either side of a cell.
_REACH = 2
# Robust standard deviations at which cells are cut before units of columns are taken of them.
_CUT = 6.0
# Median absolute deviation of a normal distribution of unit variance.
_MAD = 0.6744897501960817
# Most posterior evaluations at the same weights; most rounds; degrees of freedom at the start.
_EVALUATIONS_A_ROUND, _MOST_ROUNDS, _FIRST_DEGREES = 5, 200, 4.0
# Rounds in a row that must promise no more gain.
_PROMISES = 2


def _spread(values: FloatArray) -> FloatArray:
    """Robust standard deviations (D,) of columns about zero; zero where there are none."""
    seen = ~np.isnan(values)
    out = np.zeros(values.shape[1])
    for j in np.flatnonzero(seen.any(axis=0)):
        out[j] = np.median(np.abs(values[seen[:, j], j])) / _MAD
    return out


def clipped(sequences: Sequences) -> FloatArray:
    """Values (N, D) cut at six robust standard deviations from the medians of their columns.

    Of them units of columns are taken in which outliers have little part. A column of which half the cells
    are the same is left as it is.
    """
    values = sequences.values.copy()
    for j in range(values.shape[1]):
        seen = values[~np.isnan(values[:, j]), j]
        if seen.size:
            centre = np.median(seen)
            reach = _CUT * np.median(np.abs(seen - centre)) / _MAD
            if reach > 0.0:
                values[:, j] = np.clip(values[:, j], centre - reach, centre + reach)
    return values


def stand_out(values: FloatArray, lengths: tuple[int, ...]) -> BoolArray:
    """Cells (N, D) far from the median of their neighbours in time, or of their column.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        Observations, NaN where missing.
    lengths : tuple of int
        Rows of each sequence.

    Returns
    -------
    ndarray of bool of shape (N, D)
        None of a column where it would be too many.
    """
    residuals = np.full(values.shape, np.nan)
    ends = np.cumsum(lengths)
    for start, stop in zip(ends - lengths, ends, strict=True):
        for j in range(values.shape[1]):
            rows = start + np.flatnonzero(~np.isnan(values[start:stop, j]))
            if len(rows) > 2 * _REACH:
                residuals[rows, j] = values[rows, j] - _median_of_neighbours(values[rows, j])
    out = np.zeros(values.shape, dtype=bool)
    centred = values.copy()
    seen = ~np.isnan(values).all(axis=0)
    centred[:, seen] -= np.nanmedian(values[:, seen], axis=0)
    for errors, most in ((residuals, _FROM_NEIGHBOURS), (centred, _FROM_COLUMN)):
        spread = _spread(errors)
        with np.errstate(invalid="ignore"):
            out |= (np.abs(errors) > most * spread) & (spread > 0.0)
    counts = np.maximum(np.count_nonzero(~np.isnan(values), axis=0), 1)
    out[:, out.sum(axis=0) > _MOST_SUSPECTS * counts] = False
    return out


def repetitive_columns(panel: Panel) -> BoolArray:
    """Columns (D,) that vary, and of which many cells hold the same number.

    Under Student-t noise the likelihood of such a column has no upper bound: all other cells would be
    outliers of a constant. Its noise is kept from getting small.
    """
    n = panel.n_rows
    values, seen = np.asarray(panel.values[:n]), np.asarray(panel.mask[:n]) > 0.0
    out = np.zeros(values.shape[1], dtype=bool)
    for j in range(values.shape[1]):
        _, counts = np.unique(values[seen[:, j], j], return_counts=True)
        out[j] = len(counts) > 1 and counts.max() >= _REPETITIVE * counts.sum() and counts.max() > 2
    return out


def _median_of_neighbours(x: FloatArray) -> FloatArray:
    """Median of the four neighbours of each number; of as many on one side at the ends."""
    n = len(x)
    at = np.arange(n)[:, None]
    first = np.clip(at - _REACH, 0, n - 2 * _REACH - 1)
    window = first + np.arange(2 * _REACH + 1)
    return np.asarray(np.median(x[window[window != at].reshape(n, 2 * _REACH)], axis=1))


def _without_suspects(panel: Panel) -> Panel:
    """The panel without cells that stand out, as long as all columns have some left."""
    n = panel.n_rows
    mask = np.array(panel.mask[:])
    values = np.where(mask[:n] > 0.0, panel.values[:n], np.nan)
    mask[:n][stand_out(values, panel.lengths)] = 0.0
    return panel._replace(values=panel.values[:] * mask, mask=mask, complete=False)


class _WeightedEStep:
    """Expected statistics at given weights, whose log-likelihood is the bound.

    Parameters
    ----------
    panel : Panel
        Packed observations.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.counts = np.asarray(panel.mask[:].sum(axis=0))

    def set_weights(self, weights: Weights) -> None:
        """Take these weights from now on."""
        self.weights, self.weighted = weights, self.panel.weighted(weights.values)

    def __call__(self, params: Parameters) -> Statistics:
        """Expected statistics at ``params``; each cell has one normaliser, whatever its weight."""
        stats = expected_statistics(params, self.weighted)
        value = self.weights.bound(params, self.panel, stats.log_likelihood)
        return stats._replace(counts=self.counts, log_likelihood=value)


class _State:
    """The best so far: parameters, degrees of freedom, weights, and the bound with the prior's density."""

    def __init__(self, params: Parameters, noise: StudentNoise, weights: Weights, value: float) -> None:
        self.params, self.noise, self.weights, self.value = params, noise, weights, value


def fit_robust(
    panel: Panel,
    latents: Latents,
    noise: Noise,
    start_noise: FloatArray | None,
    *,
    by_row: bool,
    solver: str,
    max_iter: int,
    tol: float,
    n_init: int = 1,
    start: Parameters | None = None,
    given: Given | None = None,
    limits: Limits | None = None,
    report: Report | None = None,
) -> FitResult:
    """Maximise the lower bound of the likelihood of standardised data under Student-t noise.

    Parameters
    ----------
    panel : Panel
        Packed observations, most of each feature with mean near zero and variance near one.
    latents, noise, start_noise, solver, tol, n_init, start, given, limits, report
        As of :func:`probsfa.statespace.learning.fit.fit`.
    by_row : bool
        Whether all cells of a row share one weight.
    max_iter : int
        Most posterior evaluations of the Gaussian fit to start from, and as many for the climb from there.

    Returns
    -------
    FitResult
        With degrees of freedom; also after an interrupt from the keyboard, with the best so far. Its
        log-likelihood is the lower bound, without the prior.
    """
    layout = Coordinates(panel.values.shape[1], latents, noise.kind, panel.evenly_sampled, limits=limits)
    if noise.kind == "diagonal":
        least = np.where(repetitive_columns(panel), _NOISE_OF_REPETITIVE, 0.0)
        noise = noise._replace(floor=np.maximum(noise.floor, least))
    interrupted, count = False, 0
    student = StudentNoise(_FIRST_DEGREES, by_row)
    cleaned = panel
    if start is None:
        cleaned = _without_suspects(panel)
        gaussian = fit(
            cleaned,
            latents,
            noise,
            start_noise,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            n_init=n_init,
            given=given,
            limits=limits,
            report=report,
        )
        params, count, interrupted = gaussian.params, gaussian.n_evaluations, gaussian.status == "interrupted"
    else:
        params = conform(start, layout, noise, start_noise)
        params = params if limits is None else imposed(params, limits)
    e_step = _WeightedEStep(panel)
    evaluate = CountedEStep(panel, count + max_iter, report, e_step)
    evaluate.count, evaluate.limits = count, limits
    evaluate.begin_with_prior(noise)
    with one_blas_thread():
        if start is None:
            weights = np.array(cleaned.mask[:])
        else:
            weights = infer_weights(params, panel, student).weights.values
        state = _reweighted(params, student, weights, panel, evaluate)
        return _alternate(evaluate, e_step, layout, noise, state, solver, tol, interrupted)


def _reweighted(
    params: Parameters, student: StudentNoise, weights: FloatArray, panel: Panel, evaluate: CountedEStep
) -> _State:
    """Weights and degrees of freedom at their best for the posterior under given weights."""
    mask = np.asarray(panel.mask[: panel.n_rows])
    moments = cell_moments(params, panel.weighted(weights))
    s = moments.discrepancies(params, panel)
    better = student.at_best_degrees(s, mask)
    value = bound_at(params, panel, moments, weights, better) + evaluate.log_prior(params)
    return _State(params, better, better.weights(s, panel), value)


def _alternate(
    evaluate: CountedEStep,
    e_step: _WeightedEStep,
    layout: Coordinates,
    noise: Noise,
    state: _State,
    solver: str,
    tol: float,
    interrupted: bool,
) -> FitResult:
    """Climb at given weights, and take better ones, until neither gains."""
    panel, limit = evaluate.panel, evaluate.limit
    climb: Callable[..., FitResult]
    climb = fit_em if solver == "em" else lambda **how: fit_quasi_newton(layout=layout, **how)
    history = [state.value]
    status: Status = "interrupted" if interrupted else "max_iter"
    gains: list[float] = []
    promising, looked_elsewhere = 0, False
    try:
        while not interrupted and evaluate.count < limit and len(history) < _MOST_ROUNDS:
            e_step.set_weights(state.weights)
            evaluate.limit = min(limit, evaluate.count + _EVALUATIONS_A_ROUND)
            end = climb(evaluate=evaluate, start=state.params, noise=noise, tol=0.1 * tol)
            if end.history:
                better = _reweighted(end.params, state.noise, state.weights.values, panel, evaluate)
                state = better if better.value >= state.value else state
            history.append(max(state.value, history[-1]))
            if end.status == "interrupted":
                status = "interrupted"
                break
            gains.append(history[-1] - history[-2])
            promising = promising + 1 if _promised(gains) < tol else 0
            done = promising >= _PROMISES or gains[-1] <= rounding(history[-1], panel.n_rows)
            if not done:
                continue
            status = "converged"
            if looked_elsewhere:
                break
            looked_elsewhere = True
            other = _from_elsewhere(state, panel, evaluate, tol)
            if other is None or not other.value > state.value + tol:
                break
            state, promising, status = other, 0, "max_iter"
            history.append(state.value)
            gains.clear()
        if status != "interrupted":
            final = infer_weights(state.params, panel, state.noise, state.weights.values)
            state.value = max(final.bound + evaluate.log_prior(state.params), state.value)
            history.append(max(state.value, history[-1]))
    except KeyboardInterrupt:
        status = "interrupted"
    prior = evaluate.log_prior(state.params)
    values = tuple(value - prior for value in history)
    degrees = state.noise.degrees_of_freedom
    return FitResult(state.params, values[-1], values, evaluate.count, status, degrees)


def _promised(gains: list[float]) -> float:
    """Gain to come if those of the last rounds go on as a geometric series, by their slowest rate."""
    recent = gains[-3:]
    if len(recent) < 2 or min(recent) <= 0.0:
        return 0.0 if recent[-1] <= 0.0 else np.inf
    rate = max(b / a for a, b in zip(recent[:-1], recent[1:], strict=True))
    return recent[-1] * rate / (1.0 - rate) if rate < 1.0 else np.inf


def _from_elsewhere(state: _State, panel: Panel, evaluate: CountedEStep, tol: float) -> _State | None:
    """The same parameters with weights found from the data alone, where that is another fixed point."""
    inferred = infer_weights(state.params, panel, state.noise, worth=0.1 * tol)
    if not np.isfinite(inferred.bound):
        return None
    return _reweighted(state.params, state.noise, inferred.weights.values, panel, evaluate)


def is_normal(degrees_of_freedom: float) -> bool:
    """Whether degrees of freedom are at their upper limit, where noise is as good as normal."""
    return degrees_of_freedom >= 0.99 * MOST_DEGREES
