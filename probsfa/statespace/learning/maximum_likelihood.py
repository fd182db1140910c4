"""Maximum likelihood estimation in the units of the data.

A fit computes location and scale of each column, standardizes the observations, maximizes the likelihood
(:mod:`.fit`) and converts the result to data units. Data that implement the protocol :class:`TrainingData`
may be in memory (:class:`InMemory`), in a file (:mod:`probsfa.statespace.streaming`) or on a cluster
(:mod:`probsfa.distributed`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from probsfa._threads import lost_interrupts_raised
from probsfa._times import TimeAxis
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.calibration import Calibration
from probsfa.statespace.columns import ColumnMoments, column_moments, list_columns, resolution_variance
from probsfa.statespace.engine.idiosyncratic import ColumnNoise, Steps
from probsfa.statespace.learning.budget import (
    Size,
    default_size,
    integrates_ar1_noise,
)
from probsfa.statespace.learning.coordinates import Coordinates, Limits, canonical_where_free
from probsfa.statespace.learning.fit import fit, fit_integrated
from probsfa.statespace.learning.objective import (
    STATUS_SENTENCES,
    EStep,
    FitResult,
    Report,
    whittle_step_callback,
)
from probsfa.statespace.learning.options import (
    FitOptions,
    Optimizer,
    check_fit_memory,
    check_identified,
    imputation_tolerance,
)
from probsfa.statespace.learning.robust import clip_outliers, fit_robust, repetitive_columns
from probsfa.statespace.learning.starts import with_weak_ar1_noise
from probsfa.statespace.noise import HeavyTails
from probsfa.statespace.noise.gaussian import MIN_KNOWN_NOISE, Noise, is_heywood
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import StateLayout, StateSpace, rescale

__all__ = [
    "FitProblem",
    "FitStatus",
    "InMemory",
    "MaximumLikelihood",
    "Note",
    "Observations",
    "TrainingData",
    "check_lengths_for_timescales",
    "in_data_units",
    "make_problem",
    "maximize",
    "maximum_likelihood",
    "start_of",
]

# --------------------------------------------------------------------------------------------------- status

# The status of a fit is a string: the joined texts of notes on the end of the fit and on the model. Each note
# also has a code.


class Note(NamedTuple):
    """One statement about a fit.

    Attributes
    ----------
    code : str
        Kind of the statement, such as ``"converged"`` or ``"constant_columns"``.
    text : str
        The statement.
    values : dict
        Numbers and names in the text.
    """

    code: str
    text: str
    values: dict[str, Any]


class FitStatus(str):
    """A text that consists of notes.

    Parameters
    ----------
    notes : iterable of Note
        Notes; notes without a text are omitted.

    Attributes
    ----------
    notes : tuple of Note
        The notes with a text, in the order of the text.

    Examples
    --------
    >>> status = FitStatus.of("converged", "Converged.").adding("size", "Selected 2.", n_components=2)
    >>> status
    'Converged. Selected 2.'
    >>> status.codes, status.notes[-1].values
    (('converged', 'size'), {'n_components': 2})
    """

    notes: tuple[Note, ...]

    def __new__(cls, notes: Iterable[Note]) -> Self:
        """Join the texts of the notes."""
        retained = tuple(note for note in notes if note.text)
        status = super().__new__(cls, " ".join(note.text.strip() for note in retained))
        status.notes = retained
        return status

    def __getnewargs__(self) -> Any:
        """Return the arguments with which copy and pickle create the object."""
        return (self.notes,)

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the notes."""
        return tuple(note.code for note in self.notes)

    def adding(self, code: str, text: str, **values: Any) -> Self:
        """Return the status with an additional note, or the same status if the text is empty."""
        return type(self)([*self.notes, Note(code, text, values)])

    @classmethod
    def of(cls, code: str, text: str, **values: Any) -> Self:
        """Return a status of one note."""
        return cls([Note(code, text, values)])


# ------------------------------------------------------------------------------------------ record of a fit

# Limits of initial parameters from a fitted slow feature analysis: maximum decay, and minimum ratio of the
# noise variance to the variance of a column.
_MAX_INITIAL_DECAY, _MIN_NOISE_SHARE = 1.0 - 1e-4, 0.1
# With fewer observed values for each free parameter, the status has a note. In fits to 10 rows, 90 %
# intervals covered 70 % of the imputed values, in fits to 20 rows 85 %.
_MIN_VALUES_PER_PARAMETER = 3.0


class Observations(NamedTuple):
    """Standardized observations of a fit.

    Attributes
    ----------
    panel : Panel
        Packed observations. With an `e_step`, a sample for initial values.
    counts : ndarray of shape (D,)
        Number of observed values of each column in all data.
    e_step : callable or None, default=None
        Function of parameters that returns expected statistics over all data; None if the panel contains all
        data.
    """

    panel: Panel
    counts: FloatArray
    e_step: EStep | None = None


class TrainingData(Protocol):
    """Validated data to which a model can be fitted, in memory or elsewhere."""

    @property
    def time_unit(self) -> float:
        """Unit of time of the decays."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None."""
        ...

    @property
    def columns(self) -> ColumnMoments:
        """Moments of the columns."""
        ...

    def default_size(self, *, ar1_noise: bool = False) -> Size:
        """Return the default number of factors and rows of a fit, with AR(1) or white noise."""
        ...

    def standardized(
        self, shift: FloatArray, scale: FloatArray, segments: list[slice] | None = None
    ) -> Observations:
        """Return observations ``(x - shift) / scale`` of all rows, or of some segments."""
        ...


class InMemory:
    """Checked data in memory.

    Parameters
    ----------
    sequences : Sequences
        Checked rows, NaN where missing.

    Raises
    ------
    ValueError
        If no sequence has two rows.
    """

    def __init__(self, sequences: Sequences) -> None:
        check_lengths_for_timescales(sequences.lengths)
        self.sequences = sequences
        self.columns = column_moments(sequences)
        self.time_unit = sequences.time_unit
        self.feature_names = sequences.feature_names

    def default_size(self, *, ar1_noise: bool = False) -> Size:
        """Return the default number of factors and rows of a fit, with AR(1) or white noise."""
        return default_size(
            self.sequences.mask, self.sequences.lengths, ~self.columns.constant, ar1_noise=ar1_noise
        )

    def standardized(
        self, shift: FloatArray, scale: FloatArray, segments: list[slice] | None = None
    ) -> Observations:
        """Return observations ``(x - shift) / scale`` of all rows, or of some segments."""
        rows = self.sequences if segments is None else self.sequences.segments_as_sequences(segments)
        panel = make_panel(rows.standardized(shift, scale).with_time_unit(self.time_unit))
        return Observations(panel, panel.mask[:].sum(axis=0))


def check_lengths_for_timescales(lengths: Sequence[int]) -> None:
    """Raise a ValueError unless a sequence has two rows or more."""
    if max(lengths) < 2:
        raise ValueError("X has no sequence of two rows or more; time scales require at least one.")


@dataclass(frozen=True, eq=False)
class MaximumLikelihood:
    """Outcome of a fit, in the units of the data.

    Attributes
    ----------
    params : StateSpace
        The parameters, slowest latent factor first.
    shift, scale : ndarray of shape (D,)
        Origin and unit of each standardized column.
    time_unit : float
        Unit of time of the decays.
    log_likelihood : float
        Log-likelihood of the training data, in nats.
    history : ndarray of shape (n_iter,)
        Log-likelihood at the start and after each accepted step.
    n_evaluations : int
        Number of likelihood evaluations.
    converged : bool
        Whether the fit ended at a maximum.
    status : FitStatus
        How the fit ended, and notes on the model.
    options : FitOptions
        Options of the fit.
    axis : TimeAxis
        Kind and unit of the times of the data.
    constant : ndarray of shape (D,) or None, default=None
        Mask of constant columns, whose noise variance cannot be estimated. Predictions are the constant, with
        standard deviation zero. None if no column is constant, or if noise variances are known or shared.
    tails : HeavyTails or None, default=None
        Noise with heavy tails; None for Gaussian noise. With heavy tails, the noise variances in `params` are
        squared scales, and `log_likelihood` is a lower bound.
    interrupted : bool, default=False
        Whether the fit was interrupted from the keyboard.
    calibration : Calibration or None, default=None
        Multipliers of predictive standard deviations; None without calibration.
    observed_once : ndarray of shape (D,) or None, default=None
        Mask of constant columns with one observed value, for which predictive standard deviations are
        infinite.
    outlier_spread : ndarray of shape (D,) or None, default=None
        Robust standard deviation of differences from adjacent values, for columns with excluded outliers;
        zero for other columns. None if no value is excluded.
    n_values : ndarray of shape (D,) or None, default=None
        Number of observed values of each column in the data; None if parameters were not estimated.
    lengths : ndarray of int or None, default=None
        Rows of each sequence of the data.
    """

    params: StateSpace
    shift: FloatArray
    scale: FloatArray
    time_unit: float
    log_likelihood: float
    history: FloatArray
    n_evaluations: int
    converged: bool
    status: FitStatus
    options: FitOptions
    axis: TimeAxis = TimeAxis()
    constant: BoolArray | None = None
    tails: HeavyTails | None = None
    interrupted: bool = False
    calibration: Calibration | None = None
    outlier_spread: FloatArray | None = None
    observed_once: BoolArray | None = None
    n_values: FloatArray | None = None
    lengths: NDArray[np.int64] | None = None

    @property
    def n_constant(self) -> int:
        """Number of constant columns, whose parameters are not estimated."""
        return 0 if self.constant is None else int(self.constant.sum())

    @property
    def n_iter(self) -> int:
        """Number of entries of the history: the start and all accepted steps."""
        return max(len(self.history), 1)

    def coordinates(self, *, evenly_sampled: bool) -> Coordinates:
        """Return the coordinates of the free parameters, for evenly or unevenly sampled rows."""
        params = self.params
        limits = self.options.limits(self.scale, self.time_unit, evenly_sampled=evenly_sampled)
        variances = self.options.variances(params.n_features)
        coordinates = Coordinates(params.state_layout, variances, evenly_sampled, limits=limits)
        return coordinates.with_ar1_noise if params.has_ar1_noise else coordinates

    @property
    def predictive_params(self) -> StateSpace:
        """State-space parameters for predictions.

        The noise variance of constant columns is zero. With heavy tails, noise variances are those of the
        marginal distribution of the noise.
        """
        states = self.params.state_space
        if self.constant is None and self.tails is None:
            return states
        noise = states.noise_variance
        if self.tails is not None:
            noise = noise * self.tails.variance
        if self.constant is not None:
            noise = np.where(self.constant, 0.0, noise)
        return states.replace(noise_variance=noise)

    @property
    def standardized_params(self) -> StateSpace:
        """The parameters of the standardized data."""
        return rescale(self.params, -self.shift / self.scale, 1.0 / self.scale)


class FitProblem(NamedTuple):
    """Input of a fit: standardized observations, their location and scale, and the options.

    Attributes
    ----------
    observations : Observations
        Standardized observations.
    shift, scale : ndarray of shape (D,)
        Origin and unit of each column.
    time_unit : float
        Unit of time of the decays.
    options : FitOptions
        Checked options, with a number of latent factors.
    feature_names : tuple of str or None, default=None
        Names of the columns.
    constant : ndarray of shape (D,) or None, default=None
        Mask of constant columns; None if there are none, or if noise variances are known or shared.
    size_sentence : str, default=""
        Sentence for the status about the number of factors and rows, if they were selected.
    resolution : ndarray of shape (D,) or float, default=0.0
        Variance of the rounding errors of each column.
    columns : ColumnMoments or None, default=None
        Moments of the columns.
    n_full_evaluations : int, default=0
        Number of evaluations on all rows, if the observations are segments of the rows.
    """

    observations: Observations
    shift: FloatArray
    scale: FloatArray
    time_unit: float
    options: FitOptions
    feature_names: tuple[str, ...] | None = None
    constant: BoolArray | None = None
    size_sentence: str = ""
    resolution: FloatArray | float = 0.0
    columns: ColumnMoments | None = None
    n_full_evaluations: int = 0

    @property
    def standardized_noise(self) -> Noise:
        """Constraints and prior of the noise variances."""
        return self.options.standardized_noise(self.scale, self.resolution)

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates of the free parameters."""
        evenly_sampled = self.observations.panel.evenly_sampled
        variances = self.options.variances(self.scale.size)
        coordinates = Coordinates(self.options.state_layout, variances, evenly_sampled, limits=self.limits)
        return coordinates.with_ar1_noise if self.options.has_ar1_noise else coordinates

    @property
    def limits(self) -> Limits | None:
        """Fixed parameters and ranges of periods."""
        evenly_sampled = self.observations.panel.evenly_sampled
        return self.options.limits(self.scale, self.time_unit, evenly_sampled=evenly_sampled)

    @property
    def optimizer(self) -> Optimizer:
        """Settings of the optimizer."""
        solver, max_iter = self.options.solver, self.options.max_iter
        return Optimizer(solver, max_iter, self.tol, one_start=bool(self.size_sentence))

    @property
    def integrates_ar1_noise(self) -> bool:
        """Whether AR(1) noise is integrated out, which is faster for many columns.

        This requires data in memory, AR(1) factors only, and no fixed parameters.
        """
        options, observations = self.options, self.observations
        if not options.has_ar1_noise or options.fixed is not None or options.state_layout.n_other_processes:
            return False
        panel = observations.panel
        k, d = options.state_layout.n_components, self.scale.size
        return observations.e_step is None and integrates_ar1_noise(panel.n_rows, k, d)

    @property
    def tol(self) -> float:
        """Expected gain of a further step at which the fit ends, in nats."""
        return self.options.tolerance(self.coordinates.size)

    @property
    def log_jacobian(self) -> float:
        """Log-likelihood of the standardized data minus log-likelihood of the data, in nats.

        Each observed value contributes the logarithm of the Jacobian ``dx / dz = scale`` of ``x = shift +
        scale z``.
        """
        return float(self.observations.counts @ np.log(self.scale))


def maximum_likelihood(
    data: TrainingData,
    options: FitOptions,
    *,
    init: Any = None,
    report: Report | None = None,
    size: Size | None = None,
) -> MaximumLikelihood:
    """Fit the parameters by maximum likelihood.

    Parameters
    ----------
    data : TrainingData
        Validated data.
    options : FitOptions
        Options of the fit.
    init : StateSpace or fitted estimator, optional
        Initial parameters in the units of the data; see :func:`start_of`.
    report : callable, optional
        Called with the number of likelihood evaluations and the best log-likelihood so far.
    size : Size, optional
        Number of factors and rows if ``n_components`` is None; by default :meth:`TrainingData.default_size`.

    Returns
    -------
    MaximumLikelihood
        After a keyboard interrupt, with the best parameters so far.

    Raises
    ------
    ValueError
        If an option is not valid, or no column varies.
    """
    problem = make_problem(data, options, size)
    start = None if init is None else start_of(init, problem)
    result = maximize(problem, start=start, report=report)
    if problem.n_full_evaluations and result.status != "interrupted":
        problem, result = _fit_to_all_rows(problem, result, data, report)
    return in_data_units(problem, result)


def _fit_to_all_rows(
    problem: FitProblem, result: FitResult, data: TrainingData, report: Report | None
) -> tuple[FitProblem, FitResult]:
    """Continue a fit to segments with a few evaluations on all rows.

    The optimizer usually does not converge in these few evaluations. The status is then the status of the fit
    to the segments.
    """
    few_evaluations = replace(
        problem.options, max_iter=min(problem.n_full_evaluations, problem.options.max_iter)
    )
    full_problem = make_problem(data, few_evaluations)._replace(size_sentence=problem.size_sentence)
    full_result = maximize(full_problem, start=result.params, report=report)
    status = result.status if full_result.status == "max_iter" else full_result.status
    n_evaluations = result.n_evaluations + full_result.n_evaluations
    full_problem = full_problem._replace(options=problem.options)
    return full_problem, full_result._replace(status=status, n_evaluations=n_evaluations)


def start_of(init: Any, problem: FitProblem) -> StateSpace:
    """Return the initial parameters of a fit, in standardized units.

    Parameters
    ----------
    init : StateSpace or fitted estimator
        Parameters in the units of the data; or an estimator with ``params_``; or a fitted slow feature
        analysis with ``delta_values_``, ``loadings_`` and ``mean_``. Decays are then ``1 - delta / 2``, and
        the noise variance is at least a tenth of each column's variance.
    problem : FitProblem
        Standardized data and options.

    Raises
    ------
    ValueError
        If `init` has a wrong type, number of factors or number of columns; or if a number is not finite, a
        decay is outside (-1, 1), or a variance is negative.
    """
    scale, k = problem.scale, problem.options.state_layout.n_components
    params = init if isinstance(init, StateSpace) else getattr(init, "params_", None)
    if params is None and all(hasattr(init, name) for name in ("delta_values_", "loadings_", "mean_")):
        decay = np.clip(
            1.0 - 0.5 * np.asarray(init.delta_values_)[:k], -_MAX_INITIAL_DECAY, _MAX_INITIAL_DECAY
        )
        loadings = np.asarray(init.loadings_)[:, :k]
        if len(loadings) == scale.size:
            noise = np.maximum(scale**2 - np.sum(loadings**2, axis=1), _MIN_NOISE_SHARE * scale**2)
            params = StateSpace(decay, loadings, noise, np.asarray(init.mean_))
        else:
            params = StateSpace(decay, loadings, np.ones(len(loadings)), np.asarray(init.mean_))
    if not isinstance(params, StateSpace):
        raise ValueError(
            "init must be a StateSpace, a fitted model with params_, or a fitted SFA; got "
            f"{type(init).__name__}."
        )
    ar1_noise = problem.options.has_ar1_noise
    if params.has_ar1_noise and not ar1_noise:
        raise ValueError("init has AR(1) noise. Set noise='ar1'.")
    if (
        ar1_noise
        and not params.has_ar1_noise
        and (problem.options.robust or problem.options.fixed is not None)
    ):
        # If the scale of AR(1) noise is zero, its gradient is also zero, and the optimizer would not change
        # it.
        params = with_weak_ar1_noise(params)
    if params.state_layout != problem.options.state_layout or params.n_features != scale.size:
        raise ValueError(
            f"init has {_size_text(params.state_layout, params.n_features)}; this fit requires "
            f"{_size_text(problem.options.state_layout, scale.size)}. Change the options, or use init=None."
        )
    _check_start(params)
    return rescale(params, -problem.shift / scale, 1.0 / scale)


def _size_text(layout: StateLayout, n_columns: int) -> str:
    """Return the numbers of factors, of processes of other types, and of columns, as a text."""
    others = [f"{count} {kind.__name__}" for kind, count in layout.counts.items()]
    return ", ".join([f"{layout.n_components} factors", *others, f"{n_columns} columns"])


def _check_start(params: StateSpace) -> None:
    """Raise a ValueError if the likelihood does not exist at these parameters."""
    for name, array in params.to_arrays().items():
        requirement = "decays within (-1, 1)" if name.endswith("decay") else "finite numbers"
        is_invalid = ~np.isfinite(array)
        if name.endswith("decay"):
            is_invalid |= np.abs(array) >= 1.0
        elif name == "noise_variance":
            requirement, is_invalid = "finite variances that are not negative", is_invalid | (array < 0.0)
        if is_invalid.any():
            raise ValueError(
                f"init has {name}={array[is_invalid].flat[0]:g}; a fit requires {requirement}. Change the "
                "value, or use init=None."
            )


def make_problem(data: TrainingData, options: FitOptions, size: Size | None = None) -> FitProblem:
    """Return the standardized data, their units and the options of a fit; see :func:`maximum_likelihood`."""
    options = options.check().with_default_noise()
    columns = data.columns
    if options.robust:
        columns = _columns_without_outliers(data)
    shift, scale = columns.units(by_feature=options.scales_by_feature)
    options.known_noise(scale)  # raises an error if the number of variances is wrong
    # Known or shared noise variances of constant columns are not estimated from these columns.
    constant = data.columns.constant if options.separate_variances else None
    selected = options.n_components is None
    if not selected:
        size = Size(int(options.n_components or 0))
    elif size is None:
        size = data.default_size(ar1_noise=options.has_ar1_noise)
    state_layout = replace(options, n_components=size.n_components).state_layout
    check_identified(state_layout, int(data.columns.counts.sum()))
    observations = data.standardized(shift, scale, size.segments)
    problem = FitProblem(
        observations,
        shift,
        scale,
        data.time_unit,
        replace(options, n_components=size.n_components),
        data.feature_names,
        constant if constant is not None and constant.any() else None,
        size.sentence if selected else "",
        resolution_variance(data.sequences) / scale**2 if isinstance(data, InMemory) else 0.0,
        data.columns,
        size.n_full_evaluations,
    )
    has_noise_states = options.has_ar1_noise and not problem.integrates_ar1_noise
    check_fit_memory(state_layout.n_states + (scale.size if has_noise_states else 0))
    if not (selected and options.tol == "auto"):
        return problem
    # With n_components=None the model is for imputation, for which a larger tolerance suffices.
    tol = imputation_tolerance(int(observations.counts.sum()), problem.coordinates.size)
    return problem._replace(options=replace(problem.options, tol=tol))


def _columns_without_outliers(data: TrainingData) -> ColumnMoments:
    """Compute moments of the columns with outliers clipped."""
    if not isinstance(data, InMemory):
        raise ValueError(
            "robust=True has a weight for each value and requires all rows in memory. Fit to an array, or "
            "use robust=False."
        )
    return column_moments(replace(data.sequences, values=clip_outliers(data.sequences)))


class _InDataUnits:
    """Progress callback of a fit to standardized data that reports log-likelihoods in data units."""

    def __init__(self, report: Report, log_jacobian: float) -> None:
        self._report, self._log_jacobian = report, log_jacobian
        self.on_whittle_step = whittle_step_callback(report)

    def __call__(self, count: int, best: float) -> None:
        self._report(count, best - self._log_jacobian)


@lost_interrupts_raised()
def maximize(
    problem: FitProblem, *, start: StateSpace | None = None, report: Report | None = None
) -> FitResult:
    """Maximize the likelihood of standardized data.

    Parameters
    ----------
    problem : FitProblem
        Standardized data and options.
    start : StateSpace, optional
        Initial parameters, in standardized units.
    report : callable, optional
        Called with the number of likelihood evaluations and the best log-likelihood so far, in data units.

    Returns
    -------
    FitResult
        In standardized units. AR(1) noise is not in state-space form.
    """
    options, observations = problem.options, problem.observations
    is_integrated, evenly_sampled = problem.integrates_ar1_noise, observations.panel.evenly_sampled
    optimize: Callable[..., FitResult]
    if options.tails is not None:
        optimize = partial(fit_robust, tails=options.tails, integrated=is_integrated)
    elif is_integrated:
        optimize = fit_integrated
    else:
        optimize = partial(fit, e_step=observations.e_step)
    result = optimize(
        observations.panel,
        problem.coordinates,
        problem.standardized_noise,
        problem.optimizer,
        initial_processes=options.initial_processes(problem.time_unit, evenly_sampled=evenly_sampled),
        start=start if start is None or is_integrated else start.state_space,
        report=None if report is None else _InDataUnits(report, problem.log_jacobian),
    )
    has_noise_states = options.has_ar1_noise and not is_integrated
    return result._replace(params=result.params.without_ar1_noise_states()) if has_noise_states else result


def in_data_units(problem: FitProblem, result: FitResult) -> MaximumLikelihood:
    """Convert the result of :func:`maximize` to the units of the data."""
    shift, scale = problem.shift, problem.scale
    units = np.where(scale > 0.0, scale, 1.0)
    params = canonical_where_free(rescale(result.params, shift, scale), units, problem.limits)
    if problem.constant is not None:  # removes rounding errors
        params = params.replace(
            loadings=np.where(problem.constant[:, None], 0.0, params.loadings),
            offset=np.where(problem.constant, shift, params.offset),
        )
        if params.has_ar1_noise:
            params = params.replace(noise_scale=np.where(problem.constant, 0.0, params.noise_scale))
    if not (
        np.isfinite(result.log_likelihood)
        and all(np.isfinite(part).all() for part in params.to_arrays().values())
    ):
        raise ValueError(
            "The fit ended at parameters that are not finite: some values of X, or some times, are too far "
            "from the others, or the known noise variances are too small or too large."
        )
    log_density_of_constants = problem.log_jacobian + _constant_log_likelihood(result, problem)
    observed_once = (
        problem.constant & (problem.observations.counts <= 1.0) if problem.constant is not None else None
    )
    return MaximumLikelihood(
        params=params,
        shift=shift,
        scale=scale,
        time_unit=problem.time_unit,
        log_likelihood=result.log_likelihood - log_density_of_constants,
        history=np.asarray(result.history) - log_density_of_constants,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
        status=FitStatus(
            [
                Note(result.status, STATUS_SENTENCES[result.status], {}),
                Note("tolerance", _tolerance_sentence(result, problem), {"tol": problem.tol}),
                Note("size", problem.size_sentence, {"n_components": problem.options.n_components}),
                _tails_note(result, problem),
                Note("noise_integrated", _integration_sentence(problem), {}),
                _noise_note(params, problem),
                _constants_note(problem),
                _few_values_note(problem),
            ]
        ),
        options=problem.options,
        constant=problem.constant,
        tails=result.tails,
        interrupted=result.status == "interrupted",
        observed_once=observed_once if observed_once is not None and observed_once.any() else None,
        n_values=None if problem.columns is None else problem.columns.counts,
        lengths=None if problem.columns is None else np.asarray(problem.columns.lengths),
    )


def _constant_log_likelihood(result: FitResult, problem: FitProblem) -> float:
    """Return the log-likelihood of the constant columns of standardized data, in nats.

    The log-likelihood of the fit excludes constant columns, because their likelihood has no upper bound: the
    maximum likelihood estimate of their noise variance is zero. These columns have no loadings.
    """
    if problem.constant is None:
        return 0.0
    params, panel, constant = result.params, problem.observations.panel, problem.constant
    counts = problem.observations.counts[constant]
    # Standardized values are zero.
    if result.tails is not None:
        log_norm = result.tails.log_density(np.zeros((1, 1)), np.ones((1, 1)))[0]
        return float(counts @ (log_norm - 0.5 * np.log(2.0 * np.pi * params.noise_variance[constant])))
    if params.has_ar1_noise:
        log_determinants = ColumnNoise(params, Steps.of(panel)).log_determinant[constant]
    else:
        log_determinants = counts * np.log(params.noise_variance[constant])
    return -0.5 * float(np.sum(counts * np.log(2.0 * np.pi) + log_determinants))


def _tails_note(result: FitResult, problem: FitProblem) -> Note:
    """Return a note on noise with heavy tails; the text is empty for Gaussian noise."""
    tails = result.tails
    if tails is None:
        return Note("student_t", "", {"degrees": None})
    if tails.is_normal:
        text = " The noise is practically normal: robust=False gives the same model faster."
        return Note("student_t", text, {"degrees": tails.shape})
    sentence = tails.sentence
    repetitive = np.flatnonzero(repetitive_columns(problem.observations.panel))
    if problem.options.separate_variances and repetitive.size:
        sentence += (
            f" At least 40 % of the values of {_named_columns(repetitive, problem)} are equal. The lower "
            "bound of the noise variance is a tenth of the column's variance; without it, all other values "
            "would be outliers."
        )
    return Note("student_t", sentence, {"degrees": tails.shape})


def _integration_sentence(problem: FitProblem) -> str:
    """Return a sentence on the log-likelihood if it is an estimate, or an empty string."""
    if not problem.integrates_ar1_noise:
        return ""
    return (
        " AR(1) noise of the columns was integrated out, because a state for each column would be slow: "
        "the log-likelihood is an estimate."
    )


def _tolerance_sentence(result: FitResult, problem: FitProblem) -> str:
    """Return a sentence on tol='auto' if the fit converged, or an empty string."""
    if problem.options.tol != "auto" or result.status != "converged":
        return ""
    return f" tol='auto' is {problem.tol:.2g}."


def _noise_note(params: StateSpace, problem: FitProblem) -> Note:
    """Return a note on noise variances at a lower bound or near zero; the text is empty if there are none."""
    options = problem.options
    noise_variance = params.noise_variance
    if params.has_ar1_noise:
        noise_variance = noise_variance + params.noise_scale**2
    if options.known_noise(problem.scale) is not None:
        raised = np.flatnonzero(options.is_noise_raised(problem.scale))
        variance_name = (
            "the column variance" if options.scales_by_feature else "the mean variance of all columns"
        )
        text = (
            f"The known noise variance of {_named_columns(raised, problem)} is below rounding errors. "
            f"It is replaced by {MIN_KNOWN_NOISE:g} times {variance_name}. noise=0.0 is the noise-free limit."
        )
        return Note("noise_raised", text if raised.size else "", {"columns": raised.tolist()})
    variance = noise_variance / problem.scale**2
    # Constant columns have their own note.
    is_varying = np.ones(variance.size, dtype=bool) if problem.constant is None else ~problem.constant
    if options.separate_variances and is_heywood(variance[is_varying]):
        lowest = np.array([np.argmin(np.where(is_varying, variance, np.inf))])
        text = (
            f"The noise variance of {_named_columns(lowest, problem)} is nearly zero while most are not (a "
            "Heywood case): a factor reproduces this column, and intervals may be too narrow. Use fewer "
            "factors, or set noise_floor."
        )
        return Note("heywood", text, {"columns": lowest.tolist()})
    at_floor = np.flatnonzero(is_varying & np.isclose(variance, problem.standardized_noise.floor, rtol=1e-6))
    text = (
        f"The noise variance of {at_floor.size} of {variance.size} columns is at its lower bound "
        f"({list_columns(at_floor, problem.feature_names)})."
    )
    return Note("noise_at_floor", text if at_floor.size else "", {"columns": at_floor.tolist()})


def _constants_note(problem: FitProblem) -> Note:
    """Return a note on constant columns; the text is empty if all columns vary."""
    if problem.constant is None:
        return Note("constant_columns", "", {})
    constant = np.flatnonzero(problem.constant)
    columns = _named_columns(constant, problem)
    observed_once = problem.observations.counts[constant] <= 1.0
    std = (
        "infinite standard deviation"
        if observed_once.all()
        else "standard deviation 0 (infinite where one value is observed)"
        if observed_once.any()
        else "standard deviation 0"
    )
    is_single = constant.size == 1
    text = (
        f"{columns[0].upper() + columns[1:]} {'is' if is_single else 'are'} constant: "
        f"{'its variance' if is_single else 'their variances'} cannot be estimated. Missing values are "
        f"imputed by the constant, with {std}; likelihoods exclude the "
        f"column{'' if is_single else 's'}."
    )
    return Note("constant_columns", text, {"columns": constant.tolist()})


def _few_values_note(problem: FitProblem) -> Note:
    """Return a note on few values per free parameter; the text is empty if there are enough."""
    counts = problem.observations.counts
    if problem.constant is not None:
        counts = counts[~problem.constant]
    n_values, n_parameters = int(counts.sum()), problem.coordinates.n_free
    text = (
        f"There are {n_values / n_parameters:.1f} observed values for each free parameter, fewer than "
        f"{_MIN_VALUES_PER_PARAMETER:g}: standard deviations ignore the uncertainty of the parameters. Use "
        "fewer factors."
    )
    is_few = n_values < _MIN_VALUES_PER_PARAMETER * n_parameters
    return Note("few_values", text if is_few else "", {"values": n_values, "parameters": n_parameters})


def _named_columns(features: NDArray[np.intp], problem: FitProblem) -> str:
    """Return "column" or "columns" with the names of up to five columns."""
    return f"column{'s' if features.size > 1 else ''} {list_columns(features, problem.feature_names)}"
