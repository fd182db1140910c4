"""Choice of the model if neither the number of factors nor the noise is specified.

Some observed values are hidden, and four candidates are fitted to the rest: as many factors as columns (up
to 64) with white noise, and up to sixteen, up to four, or no factors with AR(1) noise of each column.
Stochastic cycles are added to the best candidate as long as they improve the predictions of hidden values.
The model with the best predictions is then fitted to all values.

Linear interpolation is a limiting case of a model with AR(1) noise of each column; the factors then describe
what columns have in common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.calibration import HeldOut
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
from probsfa.statespace.leave_one_out import about_worse_columns
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.outlier_model import OutlierModel, far_from_neighbours, spread_of_dominated
from probsfa.statespace.parameters import Latents, StateSpace, rescale
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.residual_structure import gain_for_a_cycle, power_of_a_cycle

__all__ = ["default_candidates", "fit_default_model"]

# Maximum number of factors of the smaller candidate with AR(1) noise.
_MAX_FEW_FACTORS = 4
# Share of the observed values that is hidden, and length of hidden blocks if few values are missing.
_HIDDEN_SHARE, _BLOCK_ROWS = 0.1, 24
# Minimum number of hidden values for the comparison, and maximum number of draws to reach it.
_MIN_HIDDEN, _MAX_DRAWS = 200, 5
# Minimum number of observed values for a comparison, and of the column with most: 30 % of these are hidden.
_MIN_VALUES, _MIN_VALUES_OF_COLUMN = 20, 4
# Expected gain in nats per free parameter, and minimum gain, below which a fit ends. The log-likelihood at
# the maximum exceeds that of the true parameters by half a nat per parameter; smaller errors change imputed
# values by less than candidates differ.
_TOL_PER_PARAMETER, _MIN_TOL = 0.03, 0.5
# Number of candidates with factors. The comparison uses so many rows that fits of all of them cost about as
# much as the fit to all rows.
_N_FITS = 3
# If a comparison has more rows than the second number, a candidate is fitted to segments. A posterior over
# them takes a tenth of the maximum number of products, but they have at least that number of rows.
_N_COMPARED_FITS, _MIN_COMPARED_ROWS = 10, 4000
# Maximum number of likelihood evaluations of a candidate in the comparison.
_MAX_EVALUATIONS = 40
# Maximum number of stochastic cycles, as in `select_model`, and of cycles that do not help.
_MAX_CYCLES, _MAX_FAILURES = 3, 2
# Upper limit of the score of a hidden value, in standard deviations, in the test for outliers.
_MAX_SCORE = 6.0

#: Function that fits a model of given options and size to sequences, with optional initial parameters.
Fit = Callable[[Sequences, FitOptions, Size, StateSpace | None], LinearGaussianModel]


class _Candidate(NamedTuple):
    """Noise, size and number of stochastic cycles of a model."""

    noise: str
    size: Size
    n_cycles: int = 0

    @property
    def words(self) -> str:
        """Description in the status."""
        cycles = f" and {self.n_cycles} cycle{'s' if self.n_cycles > 1 else ''}" if self.n_cycles else ""
        return f"{self.size.n_components}{cycles} with {'AR(1)' if self.noise == 'ar1' else 'white'} noise"

    def may_have_cycles(self, options: FitOptions, rows: Sequences) -> bool:
        """Return whether a cycle may be added: no process is specified, and AR(1) noise has states."""
        if options.n_others:
            return False
        return self.noise != "ar1" or not integrates_ar1_noise(
            rows.n_rows, self.size.n_components, rows.n_features
        )

    def asked(self, options: FitOptions, n_features: int) -> FitOptions:
        """Return the options of the fit to all values."""
        of_a_column = self.size.n_components + 2 * self.n_cycles + (4 if self.noise == "ar1" else 2)
        n_parameters = self.size.n_components + 2 * self.n_cycles + of_a_column * n_features
        tol = max(_MIN_TOL, _TOL_PER_PARAMETER * n_parameters) if options.tol == "auto" else options.tol
        processes = options.processes
        if self.n_cycles:
            processes = processes.replace(rhythms=self.n_cycles)
        return replace(options, noise=self.noise, processes=processes, tol=tol)

    def learned_from(self, rest: Sequences) -> Size:
        """Return the size of the fit in the comparison: segments of the rows if all of them would be slow."""
        k, n_features, n_rows = self.size.n_components, rest.n_features, rest.n_rows
        own = n_features if self.noise == "ar1" else 0
        if own and integrates_ar1_noise(n_rows, k, n_features):
            return Size(k)
        affordable = affordable_rows(k + 2 * self.n_cycles + own, n_features) // _N_COMPARED_FITS
        affordable = max(affordable, _MIN_COMPARED_ROWS)
        if n_rows <= affordable:
            return Size(k)
        return Size(k, choose_segments(rest.mask, rest.lengths, affordable), n_rows)

    def compared(self, options: FitOptions, n_features: int) -> FitOptions:
        """Return the options of the fit in the comparison."""
        requested = self.asked(options, n_features)
        return replace(requested, max_iter=min(requested.max_iter, _MAX_EVALUATIONS))


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
    without_outliers_result, compared = (
        _without_outliers(data, options, fit) if without_outliers else (None, None)
    )
    if without_outliers_result is None:
        return _fit_best(data, options, fit, compared)
    remaining, spread = without_outliers_result
    model = OutlierModel.of(_fit_best(InMemory(remaining), options, fit).fitted, spread)
    n_outliers = int(np.count_nonzero(data.sequences.mask & ~remaining.mask))
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

    Returns None for the rows if a few values dominate no column, or if hidden values are predicted no better
    without outliers. The model, if any, is the fit of the last candidate, which :func:`_fit_best` reuses. The
    candidate with the most factors is used, so that a burst that several columns have in common is not an
    outlier.
    """
    spread, candidates = spread_of_dominated(data.sequences.values, data.sequences.lengths), _candidates(data)
    if not spread.any() or len(candidates) == 1:
        return None, None
    candidate, n_features = candidates[-1], data.sequences.n_features
    compared = candidate.compared(options, n_features)
    rows = _compared_rows(data.sequences, max(c.size.n_components for c in candidates))
    is_far = far_from_neighbours(rows, spread)
    # Scores are bounded, because no model predicts artefacts and a few of them would dominate the mean.
    # Hidden values may be extreme if other columns predict them, as in a burst of several columns.
    hidden, units = _draws(rows)[0], units_of(rows.values)
    remaining = replace(rows, values=hidden.seen(rows.values))
    of_all = fit(remaining, compared, candidate.learned_from(remaining), None)
    if of_all.fitted.interrupted:
        return None, None
    # Few values differ between the fits, so that the second one needs few evaluations from the first.
    cleaned_values = replace(remaining, values=np.where(is_far, np.nan, remaining.values))
    start = _start_from(of_all, cleaned_values)
    cleaner = fit(cleaned_values, compared, candidate.learned_from(cleaned_values), start)
    if cleaner.fitted.interrupted:
        return None, None
    cleaner = OutlierModel.of(cleaner.fitted, spread)
    with_outliers, without = (
        float(np.mean(scores(predict_held_out(model, remaining, hidden, rows.values, units), _MAX_SCORE)))
        for model in (of_all, cleaner)
    )
    if not without < (1.0 - EQUALITY_TOL) * with_outliers:
        return None, of_all
    cleaned = cleaner.cleaned(data.sequences)
    return (None if cleaned is data.sequences else (cleaned, spread)), of_all


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
        Fit of each candidate to the other values of the first draw.
    held_out : list of HeldOut
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
    held_out: list[HeldOut] = field(default_factory=list)
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
        compared = candidate.compared(self.options, self.rows.n_features)
        parts: list[HeldOut] = []
        for hidden in self.draws:
            remaining = replace(self.rows, values=hidden.seen(self.rows.values))
            start = self.models[-1].fitted.params if parts else start
            if model is None or parts:
                model = self.fit(remaining, compared, candidate.learned_from(remaining), start)
            if model.fitted.interrupted:
                self.interrupted = model
                return
            parts.append(predict_held_out(model, remaining, hidden, self.rows.values, self.units))
            if len(parts) == 1:
                self.models.append(model)
        self.candidates.append(candidate)
        self.held_out.append(HeldOut.joined(parts))
        self.scores.append(scores(self.held_out[-1]))

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
            error = float(standard_errors(difference[None], self.held_out[j].gaps)[0])
            if candidate.size.n_components == 0 and difference.mean() <= error:
                return j
        return best

    def add_cycles(self) -> None:
        """Add stochastic cycles to the best candidate as long as held-out values are predicted better.

        A cycle is added if the residual periodogram has a peak for which BIC would accept a cycle. The
        highest peak may be due to chance: if one cycle does not help, another is tried in addition.
        """
        n_observed = int(np.count_nonzero(self.rows.mask.any(axis=1)))
        required = gain_for_a_cycle(self.rows.n_features, n_observed)
        remaining = replace(self.rows, values=self.draws[0].seen(self.rows.values))
        best = last = self.best
        retained = len(self.candidates)
        while True:
            candidate = self.candidates[last]
            if candidate.n_cycles == _MAX_CYCLES or not candidate.may_have_cycles(self.options, self.rows):
                break
            if power_of_a_cycle(self.models[last], remaining) < required:
                break
            larger = candidate._replace(n_cycles=candidate.n_cycles + 1)
            self.add(larger, start=_with_another_cycle(self.models[last], remaining))
            if self.interrupted is not None:
                return
            last = len(self.candidates) - 1
            if self.means[last] < (1.0 - EQUALITY_TOL) * self.means[best]:
                best, retained = last, last + 1
            elif last - retained + 1 == _MAX_FAILURES:
                break
        # A small improvement may be due to chance, and each cycle makes computations slower.
        for each in (self.candidates, self.models, self.held_out, self.scores):
            del each[retained:]


def _with_another_cycle(model: LinearGaussianModel, rest: Sequences) -> StateSpace:
    """Return the parameters of a model with one more stochastic cycle, started from its residuals."""
    fitted = model.fitted
    params = fitted.standardised_params
    panel = model.standardised_panel(rest)
    latents = Latents(params.n_components, {Rhythm: params.latents.counts.get(Rhythm, 0) + 1})
    noise = Noise(NoiseVariances.diagonal(params.n_features), np.zeros(params.n_features))
    return rescale(enlarged(params, panel, latents, noise), fitted.shift, fitted.scale)


def _start_from(model: LinearGaussianModel, rows: Sequences) -> StateSpace | None:
    """Return the parameters of a model as a start of a fit to other rows, if they are a useful start.

    Constant columns have zero loadings, at which the gradient by the loadings is zero.
    """
    constant = model.fitted.constant
    if constant is None or np.array_equal(constant, InMemory(rows).columns.constant):
        return model.fitted.params
    return None


def _fit_best(
    data: InMemory, options: FitOptions, fit: Fit, last_compared: LinearGaussianModel | None = None
) -> LinearGaussianModel:
    """Fit the best candidate to all values; `last_compared` is the fit of the last candidate, if any."""
    candidates, n_features = _candidates(data), data.sequences.n_features
    if len(candidates) == 1:
        model = fit(data.sequences, candidates[0].asked(options, n_features), candidates[0].size, None)
        return calibrated(model, data.sequences.mask, None)
    rows = _compared_rows(data.sequences, max(c.size.n_components for c in candidates))
    comparison = _Comparison(rows, options, fit)
    for candidate in candidates:
        comparison.add(candidate, last_compared if candidate is candidates[-1] else None)
        if comparison.interrupted is not None:
            return comparison.interrupted
    comparison.add_cycles()
    if comparison.interrupted is not None:
        return comparison.interrupted
    best, means = comparison.best, comparison.means
    selected = comparison.candidates[best]
    start = _start_from(comparison.models[best], data.sequences)
    model = fit(data.sequences, selected.asked(options, n_features), selected.size, start)
    by_name = {c.words: float(s) for c, s in zip(comparison.candidates, means, strict=True)}
    table = ", ".join(f"{name} {score:.3g}" for name, score in by_name.items())
    sentence = f"Mean error (CRPS) of held-out values, by number of factors: {table}."
    status = model.fitted.status.adding("candidates", sentence, **by_name)
    worse = worse_columns(rows, comparison.draws, comparison.held_out[best], comparison.units)
    text = about_worse_columns(worse, rows.feature_names)
    status = status.adding("worse_than_interpolation", text, columns=worse.tolist())
    model = replace(model, fitted=replace(model.fitted, status=status))
    return calibrated(model, data.sequences.mask, comparison.held_out[best])


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


def _compared_rows(sequences: Sequences, n_components: int) -> Sequences:
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
