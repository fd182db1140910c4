"""Choice of the model if neither the number of factors nor the noise is specified.

Some observed values are hidden, and four candidates are fitted to the remaining values: one with white noise
and as many factors as columns (at most 64), and three with AR(1) noise of each column and at most sixteen, at
most four, and no factors. Stochastic cycles are added to the best candidate as long as they improve the
predictions of hidden values. The model with the best predictions is then fitted to all values.

Linear interpolation is a limiting case of a model with AR(1) noise of each column; the factors then describe
what columns have in common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.calibration import HeldOutPredictions
from probsfa.statespace.comparison import calibrated, predict_held_out, scores, worse_columns
from probsfa.statespace.growth import enlarged
from probsfa.statespace.held_out_values import (
    EQUALITY_TOL,
    HeldOutValues,
    hide_for_choice,
    standard_errors,
    units_of,
)
from probsfa.statespace.learning.budget import (
    Size,
    affordable_rows,
    ar1_noise_affordable,
    choose_segments,
    integrates_ar1_noise,
)
from probsfa.statespace.learning.maximum_likelihood import InMemory
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.leave_one_out import worse_columns_message
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.outlier_model import OutlierModel, far_from_neighbours, spread_of_dominated
from probsfa.statespace.parameters import Latents, StateSpace, rescale
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.residual_structure import expected_gain_of_cycle, required_gain_of_cycle

__all__ = ["default_candidates", "fit_default_model"]

# Maximum number of factors of the smaller candidate with AR(1) noise.
_MAX_FEW_FACTORS = 4
# Share of the observed values that is hidden, and length of hidden blocks if few values are missing.
_HIDDEN_SHARE, _BLOCK_ROWS = 0.1, 24
# Minimum number of hidden values for the comparison, and maximum number of draws to reach it.
_MIN_HIDDEN, _MAX_DRAWS = 200, 5
# Minimum number of observed values for a comparison, in total and in the column with most; at most 30 % of a
# column are hidden.
_MIN_VALUES, _MIN_VALUES_OF_COLUMN = 20, 4
# Expected gain in nats per free parameter, and minimum gain, below which a fit ends. The log-likelihood at
# the maximum exceeds that of the true parameters by half a nat per parameter. Imputed values of fits this
# close to the maximum differ by less than those of different candidates.
_TOL_PER_PARAMETER, _MIN_TOL = 0.03, 0.5
# Number of candidates with factors. The number of rows of the comparison is such that the fits of these
# candidates together cost about as much as one fit to all rows.
_N_FITS = 3
# A candidate is fitted to segments if the rows of the comparison are more than _MIN_COMPARED_ROWS and more
# than a tenth of the rows for which a fit is affordable.
_N_COMPARED_FITS, _MIN_COMPARED_ROWS = 10, 4000
# Maximum number of likelihood evaluations of a candidate in the comparison.
_MAX_EVALUATIONS = 40
# Maximum number of stochastic cycles, as in `select_model`, and of cycles that do not help.
_MAX_CYCLES, _MAX_FAILURES = 3, 2
# Upper limit of the score of a hidden value in the test for outliers, in standard deviations: errors are that
# large if a value is not predicted at all. Higher limits (3 and 6) gave a few artefacts too much weight.
_MAX_SCORE = 1.0

#: Function that fits a model of given options and size to sequences, with optional initial parameters.
Fit = Callable[[Sequences, FitOptions, Size, StateSpace | None], LinearGaussianModel]


class _Candidate(NamedTuple):
    """Noise, size and number of stochastic cycles of a model."""

    noise: str
    size: Size
    n_cycles: int = 0

    @property
    def description(self) -> str:
        """Description in the status."""
        cycles = f" and {self.n_cycles} cycle{'s' if self.n_cycles > 1 else ''}" if self.n_cycles else ""
        return f"{self.size.n_components}{cycles} with {'AR(1)' if self.noise == 'ar1' else 'white'} noise"

    def may_have_cycles(self, options: FitOptions, rows: Sequences) -> bool:
        """Return whether a cycle may be added.

        This requires that no process is specified, and that AR(1) noise, if any, is not integrated out.
        """
        if options.n_other_processes:
            return False
        return self.noise != "ar1" or not integrates_ar1_noise(
            rows.n_rows, self.size.n_components, rows.n_features
        )

    def final_options(self, options: FitOptions, n_features: int) -> FitOptions:
        """Return the options of the fit to all values."""
        n_per_column = self.size.n_components + 2 * self.n_cycles + (4 if self.noise == "ar1" else 2)
        n_parameters = self.size.n_components + 2 * self.n_cycles + n_per_column * n_features
        tol = max(_MIN_TOL, _TOL_PER_PARAMETER * n_parameters) if options.tol == "auto" else options.tol
        processes = options.processes
        if self.n_cycles:
            processes = processes.replace(rhythms=self.n_cycles)
        return replace(options, noise=self.noise, processes=processes, tol=tol)

    def comparison_size(self, remaining: Sequences) -> Size:
        """Return the size of the fit in the comparison: segments of the rows if all of them would be slow."""
        k, n_features, n_rows = self.size.n_components, remaining.n_features, remaining.n_rows
        n_noise_states = n_features if self.noise == "ar1" else 0
        if n_noise_states and integrates_ar1_noise(n_rows, k, n_features):
            return Size(k)
        affordable = affordable_rows(k + 2 * self.n_cycles + n_noise_states, n_features) // _N_COMPARED_FITS
        affordable = max(affordable, _MIN_COMPARED_ROWS)
        if n_rows <= affordable:
            return Size(k)
        return Size(k, choose_segments(remaining.mask, remaining.lengths, affordable), n_rows)

    def comparison_options(self, options: FitOptions, n_features: int) -> FitOptions:
        """Return the options of the fit in the comparison."""
        final_options = self.final_options(options, n_features)
        return replace(final_options, max_iter=min(final_options.max_iter, _MAX_EVALUATIONS))


def fit_default_model(
    data: InMemory, options: FitOptions, fit: Fit, *, without_outliers: bool = False
) -> LinearGaussianModel:
    """Choose the number of factors and the noise by hidden values, and fit the chosen model to all values.

    Parameters
    ----------
    data : InMemory
        All rows.
    options : FitOptions
        Options of the user, in which the number of factors and the noise are not specified.
    fit : callable
        Function that fits one candidate.
    without_outliers : bool, default=False
        Whether to leave out gross outliers if a few values dominate a column and hidden values are predicted
        better without them.

    Returns
    -------
    LinearGaussianModel
        The fitted model. Its status reports the mean score of each candidate (see :func:`.crps`), in standard
        deviations. Its prediction intervals are calibrated by the hidden values (:mod:`.calibration`).
    """
    without_outliers_result, compared_model = (
        _without_outliers(data, options, fit) if without_outliers else (None, None)
    )
    if without_outliers_result is None:
        return _fit_best(data, options, fit, compared_model)
    rows, spread = without_outliers_result
    model = OutlierModel.of(_fit_best(InMemory(rows), options, fit).fitted, spread)
    n_outliers = int(np.count_nonzero(data.sequences.mask & ~rows.mask))
    number = f"{n_outliers:,} value{'s are' if n_outliers > 1 else ' is'}"
    sentence = (
        f"{number} left out as outliers, far from adjacent values and from predictions. outlier_scores(X) "
        "ranks them; robust=False uses all values."
    )
    status = model.fitted.status.adding("outliers_left_out", sentence, n_outliers=n_outliers)
    return replace(model, fitted=replace(model.fitted, status=status))


def _without_outliers(
    data: InMemory, options: FitOptions, fit: Fit
) -> tuple[tuple[Sequences, FloatArray] | None, LinearGaussianModel | None]:
    """Return rows without outliers, the spreads of columns with outliers, and a model fitted to all values.

    Returns None for the rows if no column is dominated by a few values, or if hidden values are predicted no
    better without outliers. The model, if any, is the fit of the last candidate, which :func:`_fit_best`
    reuses. The candidate with the most factors is used, so that a burst that several columns have in common
    is not an outlier.
    """
    spread, candidates = spread_of_dominated(data.sequences.values, data.sequences.lengths), _candidates(data)
    if not spread.any() or len(candidates) == 1:
        return None, None
    candidate, n_features = candidates[-1], data.sequences.n_features
    comparison_options = candidate.comparison_options(options, n_features)
    rows = _comparison_rows(data.sequences, max(c.size.n_components for c in candidates))
    is_far = far_from_neighbours(rows, spread)
    # Scores are bounded, because a few artefacts would dominate the mean. Extreme values are scored like all
    # others, because other columns may predict them, as in a burst of several columns.
    hidden, units = _draws(rows)[0], units_of(rows.values)
    remaining = replace(rows, values=hidden.with_nan(rows.values))
    with_outliers_model = fit(remaining, comparison_options, candidate.comparison_size(remaining), None)
    if with_outliers_model.fitted.interrupted:
        return None, None
    # Both fits begin at starts from the data. A second fit from the result of the first would have more
    # evaluations in total: values that are no outliers were then left out (error of gas sensors 0.159 instead
    # of 0.114).
    rows_without_outliers = replace(remaining, values=np.where(is_far, np.nan, remaining.values))
    without_outliers_model = fit(
        rows_without_outliers, comparison_options, candidate.comparison_size(rows_without_outliers), None
    )
    if without_outliers_model.fitted.interrupted:
        return None, None
    without_outliers_model = OutlierModel.of(without_outliers_model.fitted, spread)
    score_with, score_without = (
        float(np.mean(scores(predict_held_out(model, remaining, hidden, rows.values, units), _MAX_SCORE)))
        for model in (with_outliers_model, without_outliers_model)
    )
    if not score_without < (1.0 - EQUALITY_TOL) * score_with:
        return None, with_outliers_model
    cleaned = without_outliers_model.cleaned(data.sequences)
    return (None if cleaned is data.sequences else (cleaned, spread)), with_outliers_model


@dataclass
class _Comparison:
    """Candidates that are fitted without the held-out values, and their predictions of held-out values.

    Attributes
    ----------
    rows : Sequences
        Rows with all values.
    options : FitOptions
        Options of the user.
    fit : callable
        Function that fits one candidate.
    draws : list of HeldOutValues
        Held-out values of each draw.
    candidates : list of _Candidate
        Candidates so far.
    models : list of LinearGaussianModel
        Fit of each candidate to the values that the first draw does not hide.
    predictions : list of HeldOutPredictions
        Predictions of the values of all draws.
    scores : list of ndarray of shape (n,)
        Scores of these predictions.
    interrupted : LinearGaussianModel or None
        The fit that Ctrl-C interrupted.
    """

    rows: Sequences
    options: FitOptions
    fit: Fit
    draws: list[HeldOutValues] = field(default_factory=list)
    candidates: list[_Candidate] = field(default_factory=list)
    models: list[LinearGaussianModel] = field(default_factory=list)
    predictions: list[HeldOutPredictions] = field(default_factory=list)
    scores: list[FloatArray] = field(default_factory=list)
    interrupted: LinearGaussianModel | None = None

    def __post_init__(self) -> None:
        self.draws = _draws(self.rows)
        self.units = units_of(self.rows.values)

    def add(
        self,
        candidate: _Candidate,
        model: LinearGaussianModel | None = None,
        start: StateSpace | None = None,
    ) -> None:
        """Fit a candidate without the held-out values of each draw, and predict them.

        The fit to the first draw is given as `model`, or begins at `start`.
        """
        comparison_options = candidate.comparison_options(self.options, self.rows.n_features)
        parts: list[HeldOutPredictions] = []
        for hidden in self.draws:
            remaining = replace(self.rows, values=hidden.with_nan(self.rows.values))
            start = self.models[-1].fitted.params if parts else start
            if model is None or parts:
                model = self.fit(remaining, comparison_options, candidate.comparison_size(remaining), start)
            if model.fitted.interrupted:
                self.interrupted = model
                return
            parts.append(predict_held_out(model, remaining, hidden, self.rows.values, self.units))
            if len(parts) == 1:
                self.models.append(model)
        self.candidates.append(candidate)
        self.predictions.append(HeldOutPredictions.joined(parts))
        self.scores.append(scores(self.predictions[-1]))

    @property
    def means(self) -> FloatArray:
        """Mean score of each candidate."""
        return np.array([np.mean(each) for each in self.scores])

    @property
    def best(self) -> int:
        """Index of the best candidate: that with the smallest mean score, or that without factors.

        Without factors, imputed values are close to linear interpolation. Factors are used only if they
        improve the score by more than the standard error of the difference.
        """
        best = int(np.argmin(self.means))
        for j, candidate in enumerate(self.candidates):
            difference = self.scores[j] - self.scores[best]
            standard_error = float(standard_errors(difference[None], self.predictions[j].groups)[0])
            if candidate.size.n_components == 0 and difference.mean() <= standard_error:
                return j
        return best

    def add_cycles(self) -> None:
        """Add stochastic cycles to the best candidate as long as held-out values are predicted better.

        A cycle is added if the residual periodogram has a peak for which BIC would accept a cycle. The
        highest peak may be due to chance: if one cycle does not help, another is tried in addition.
        """
        n_observed = int(np.count_nonzero(self.rows.mask.any(axis=1)))
        required = required_gain_of_cycle(self.rows.n_features, n_observed)
        remaining = replace(self.rows, values=self.draws[0].with_nan(self.rows.values))
        best = last = self.best
        n_retained = len(self.candidates)
        while True:
            candidate = self.candidates[last]
            if candidate.n_cycles == _MAX_CYCLES or not candidate.may_have_cycles(self.options, self.rows):
                break
            if expected_gain_of_cycle(self.models[last], remaining) < required:
                break
            larger = candidate._replace(n_cycles=candidate.n_cycles + 1)
            self.add(larger, start=_with_another_cycle(self.models[last], remaining))
            if self.interrupted is not None:
                return
            last = len(self.candidates) - 1
            if self.means[last] < (1.0 - EQUALITY_TOL) * self.means[best]:
                best, n_retained = last, last + 1
            elif last - n_retained + 1 == _MAX_FAILURES:
                break
        # A small improvement may be due to chance, and each cycle makes computations slower.
        for entries in (self.candidates, self.models, self.predictions, self.scores):
            del entries[n_retained:]


def _with_another_cycle(model: LinearGaussianModel, sequences: Sequences) -> StateSpace:
    """Return the parameters of a model with one more stochastic cycle, started from its residuals."""
    fitted = model.fitted
    params = fitted.standardised_params
    panel = model.standardised_panel(sequences)
    latents = Latents(params.n_components, {Rhythm: params.latents.counts.get(Rhythm, 0) + 1})
    noise = Noise(NoiseVariances.diagonal(params.n_features), np.zeros(params.n_features))
    return rescale(enlarged(params, panel, latents, noise), fitted.shift, fitted.scale)


def _fit_best(
    data: InMemory, options: FitOptions, fit: Fit, last_compared: LinearGaussianModel | None = None
) -> LinearGaussianModel:
    """Fit the best candidate to all values; `last_compared` is the fit of the last candidate, if any."""
    candidates, n_features = _candidates(data), data.sequences.n_features
    if len(candidates) == 1:
        model = fit(
            data.sequences, candidates[0].final_options(options, n_features), candidates[0].size, None
        )
        return calibrated(model, data.sequences.mask, None)
    rows = _comparison_rows(data.sequences, max(c.size.n_components for c in candidates))
    comparison = _Comparison(rows, options, fit)
    for candidate in candidates:
        comparison.add(candidate, last_compared if candidate is candidates[-1] else None)
        if comparison.interrupted is not None:
            return comparison.interrupted
    comparison.add_cycles()
    if comparison.interrupted is not None:
        return comparison.interrupted
    best, means = comparison.best, comparison.means
    selected, compared = comparison.candidates[best], comparison.models[best].fitted
    varied = compared.constant is None or np.array_equal(compared.constant, data.columns.constant)
    # Constant columns have zero loadings, at which the gradient by the loadings is zero.
    start = compared.params if varied else None
    model = fit(data.sequences, selected.final_options(options, n_features), selected.size, start)
    score_by_candidate = {c.description: float(s) for c, s in zip(comparison.candidates, means, strict=True)}
    table = ", ".join(f"{name} {score:.3g}" for name, score in score_by_candidate.items())
    sentence = f"Mean error (CRPS) of held-out values, by number of factors: {table}."
    status = model.fitted.status.adding("candidates", sentence, **score_by_candidate)
    worse = worse_columns(rows, comparison.draws, comparison.predictions[best], comparison.units)
    text = worse_columns_message(worse, rows.feature_names)
    status = status.adding("worse_than_interpolation", text, columns=worse.tolist())
    model = replace(model, fitted=replace(model.fitted, status=status))
    return calibrated(model, data.sequences.mask, comparison.predictions[best])


def default_candidates(data: InMemory) -> list[dict[str, Any]]:
    """Return the options of the models that the default call compares."""
    noise: dict[str, dict[str, Any]] = {"diagonal": {}, "ar1": {"noise": "ar1"}}
    return [{"n_components": one.size.n_components, **noise[one.noise]} for one in _candidates(data)]


def _candidates(data: InMemory) -> list[_Candidate]:
    """Return the candidates, simplest first; only white noise for few values or long computing times."""
    white = _Candidate("diagonal", data.default_size())
    counts = data.columns.counts
    is_few = counts.sum() < _MIN_VALUES or counts.max() < _MIN_VALUES_OF_COLUMN
    if is_few or not ar1_noise_affordable(*data.sequences.mask.shape):
        return [white]
    larger_size = data.default_size(ar1_noise=True)
    numbers = {min(larger_size.n_components, _MAX_FEW_FACTORS), larger_size.n_components}
    if not integrates_ar1_noise(data.sequences.n_rows, 1, data.sequences.n_features):
        numbers.add(0)
    return [*(_Candidate("ar1", larger_size._replace(n_components=k)) for k in sorted(numbers)), white]


def _comparison_rows(sequences: Sequences, n_components: int) -> Sequences:
    """Return segments of the rows if a comparison on all rows would be slow, otherwise all rows."""
    affordable = affordable_rows(n_components + sequences.n_features, sequences.n_features) // _N_FITS
    if sequences.n_rows <= affordable:
        return sequences
    sample = choose_segments(sequences.mask, sequences.lengths, affordable)
    return sequences if sample is None else sequences.cut_out(sample)


def _draws(sequences: Sequences) -> list[HeldOutValues]:
    """Return draws of values to hide, until there are enough of them."""
    rng = np.random.default_rng(0)  # the same data must lead to the same model
    draws: list[HeldOutValues] = []
    while len(draws) < _MAX_DRAWS and sum(int(draw.all.sum()) for draw in draws) < _MIN_HIDDEN:
        draws.append(
            hide_for_choice(sequences.values, fraction=_HIDDEN_SHARE, n_masks=2, block=_BLOCK_ROWS, rng=rng)
        )
    return draws
