"""Comparison of imputation methods on hidden observed values."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa import metrics
from probsfa._arrays import as_float_array
from probsfa._renamed import renamed_arguments, warn_of_old_name
from probsfa.imputation.filled import Filled, Method, check_series
from probsfa.imputation.hiding import HiddenPattern, without_hidden

__all__ = ["LEVEL", "Comparison", "Errors", "Progress", "Score", "average", "compare_methods", "errors_of"]

Progress = Callable[[int, int, str], None]

LEVEL = 0.9  # nominal coverage of the prediction intervals


class Errors(NamedTuple):
    """Errors of imputed values.

    Attributes
    ----------
    rmse, mae : float
        Root mean square and mean absolute error, in units of each column's standard deviation.
    coverage : float or None
        Share of the hidden values in 90 % prediction intervals; None if the method has no intervals.
    """

    rmse: float
    mae: float
    coverage: float | None


@dataclass(frozen=True)
class Score:
    """Errors of one method on the hidden values.

    Attributes
    ----------
    method : str
        Name of the method.
    rmse, mae : float
        Root mean square and mean absolute error, in units of each column's standard deviation.
    coverage : float or None
        Share of the hidden values in 90 % prediction intervals; None if the method has no intervals.
    seconds : float
        Wall-clock time, including fit and compilation.
    """

    method: str
    rmse: float
    mae: float
    coverage: float | None
    seconds: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of methods for one pattern of hidden values: observed values that are held out.

    Attributes
    ----------
    hidden : str
        Description of the pattern.
    scores : tuple of Score
        Score of each method, averaged over the `seeds` of :func:`compare_methods`.
    incomplete : ndarray (T, D), or list of them
        The series, with NaN for hidden values, for the last seed in `seeds` of :func:`compare_methods`.
    filled : dict of str to Filled
        Imputation of `incomplete` by each method.
    """

    hidden: str
    scores: tuple[Score, ...]
    incomplete: Any
    filled: dict[str, Filled]

    @property
    def seen(self) -> Any:
        """Former name of `incomplete`; will be removed in version 2.0."""
        warn_of_old_name("Comparison.seen", "Comparison.incomplete")
        return self.incomplete


@renamed_arguments({"hidings": "patterns"})
def compare_methods(
    X: Any,
    methods: Sequence[Method],
    patterns: Sequence[HiddenPattern],
    *,
    seeds: Sequence[int] = (0,),
    times: Any = None,
    progress: Progress | None = None,
    at_once: bool = False,
) -> list[Comparison]:
    """Compare imputation methods on hidden values of a series.

    Observed values are hidden in several patterns, and each method imputes the same values.

    Parameters
    ----------
    X : array-like or DataFrame (T, D), or list of them
        The series, NaN where missing; a list is several independent sequences.
    methods : sequence of objects
        Methods with different names. Each has a `name` and a method ``fill(X, times=None)``, which returns a
        :class:`Filled`.
    patterns : sequence of HiddenValues, HiddenBlocks or other objects
        Patterns of hidden values. Each has a `name` and a method ``choose(X, seed)``, which returns a mask. A
        column that would have fewer than two observed values left is not changed.
    seeds : sequence of int, default=(0,)
        Seeds of the random selection of values; scores are averaged over them.
    times : array-like (T,) or list of array-likes, optional
        Times of the rows, strictly increasing in each sequence. By default, the times are the index of a
        DataFrame if it contains dates, periods or durations; otherwise rows are evenly spaced.
    progress : callable, optional
        Called before each run of a method with the number of completed runs, the number of all runs and the
        name of the method.
    at_once : bool, default=False
        Whether all patterns are hidden in the same series, so that each method runs once for each seed. A
        value in several patterns is scored in the last of them.

    Returns
    -------
    list of Comparison
        One comparison for each pattern.

    Raises
    ------
    ValueError
        If there is no method or seed, names of methods are not unique, no value can be hidden, a method
        leaves a value missing, or the series is not valid.

    See Also
    --------
    default_methods : Default methods of a comparison.
    probsfa.metrics.rmse, probsfa.metrics.mae, probsfa.metrics.coverage : Measures of the errors.

    Examples
    --------
    >>> from probsfa.datasets import make_slow_mixture
    >>> from probsfa.imputation import ClassicSFA, ColumnMean, HiddenBlocks
    >>> X = make_slow_mixture(400, 4, timescales=[100.0, 20.0], random_state=0).data
    >>> [blocks] = compare_methods(X, [ColumnMean(), ClassicSFA()], [HiddenBlocks(12, 0.1)], seeds=[0, 1])
    >>> mean, classic = blocks.scores
    >>> classic.rmse < mean.rmse
    True
    """
    names = [method.name for method in methods]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"methods must be one or more with different names; got {names}.")
    if not len(seeds):
        raise ValueError("seeds must be one or more; got none.")
    series = check_series(X, times)
    # Rows with a constant time step are passed without times, because times with rounding errors would make
    # them unevenly spaced.
    time_values = None if series.times is None or series.step is not None else series.restore(series.times)
    groups = [patterns] if at_once else [[pattern] for pattern in patterns]
    n_runs, n_done = len(groups) * len(seeds) * len(methods), 0
    comparisons = []
    for group in groups:
        runs: list[dict[str, list[Score]]] = [{name: [] for name in names} for _ in group]
        for seed in seeds:
            pattern_index = np.full(series.values.shape, -1)  # index of the pattern of each hidden value
            for i, pattern in enumerate(group):
                pattern_index[pattern.choose(series.values, seed)] = i
            observed = series.restore(without_hidden(series.values, pattern_index >= 0))
            # A pattern is scored at its own values only; the truth at other hidden values is NaN.
            is_other_pattern = [(pattern_index >= 0) & (pattern_index != i) for i in range(len(group))]
            truths = [
                series.restore(np.where(is_other, np.nan, series.values)) for is_other in is_other_pattern
            ]
            filled = {}
            for method in methods:
                if progress is not None:
                    progress(n_done, n_runs, method.name)
                start_time = time.perf_counter()
                result = method.fill(observed, times=time_values)
                seconds = time.perf_counter() - start_time
                for truth, pattern_scores in zip(truths, runs, strict=True):
                    errors = errors_of(truth, observed, result, method.name)
                    pattern_scores[method.name].append(Score(method.name, *errors, seconds))
                filled[method.name] = result
                n_done += 1
        for pattern, pattern_scores in zip(group, runs, strict=True):
            scores = tuple(average(run) for run in pattern_scores.values())
            comparisons.append(Comparison(pattern.name, scores, observed, filled))
    return comparisons


def errors_of(truth: Any, incomplete: Any, filled: Filled, name: str = "filled") -> Errors:
    """Compute errors of imputed values that are known in `truth` and missing in `incomplete`.

    Parameters
    ----------
    truth : array-like or DataFrame (T, D), or list of them
        The true series, NaN where unknown.
    incomplete : like `truth`
        The series that the method imputed.
    filled : Filled
        The result of the method.
    name : str, default="filled"
        Name of the method in error messages.

    Returns
    -------
    Errors
        Errors in standard deviations of the observed values of each column; in data units for constant
        columns.

    Raises
    ------
    ValueError
        If no value is known in `truth` and missing in `incomplete`, or if such a value is not imputed.

    Examples
    --------
    >>> errors = errors_of([[1.0], [3.0], [4.0]], [[1.0], [3.0], [np.nan]], Filled([[1.0], [3.0], [3.0]]))
    >>> errors.rmse, errors.mae, errors.coverage
    (1.0, 1.0, None)
    """
    truth, incomplete, values = (
        _all_rows(truth, "truth"),
        _all_rows(incomplete, "incomplete"),
        _all_rows(filled.values, name),
    )
    hidden = np.isnan(incomplete) & ~np.isnan(truth)
    if not hidden.any():
        raise ValueError("Too few observed values to hide some of them. Use more rows.")
    if values.shape != truth.shape or np.isnan(values[hidden]).any():
        raise ValueError(f"{name} left values missing; each hidden value must be imputed.")
    scales = np.nanstd(incomplete, axis=0)
    scales = np.where(scales > 0.0, scales, 1.0)
    coverage = None
    if filled.std is not None:
        coverage = metrics.coverage(truth, values, _all_rows(filled.std, "std"), LEVEL, mask=hidden)
    return Errors(
        metrics.rmse(truth, values, mask=hidden, scale=scales),
        metrics.mae(truth, values, mask=hidden, scale=scales),
        coverage,
    )


def average(scores: Iterable[Score]) -> Score:
    """Return the mean scores of one method; coverage is averaged over runs with intervals."""
    scores = list(scores)
    coverages = [score.coverage for score in scores if score.coverage is not None]
    return Score(
        scores[0].method,
        float(np.mean([score.rmse for score in scores])),
        float(np.mean([score.mae for score in scores])),
        float(np.mean(coverages)) if coverages else None,
        float(np.mean([score.seconds for score in scores])),
    )


def _all_rows(X: Any, name: str) -> NDArray[np.float64]:
    """Return all rows (N, D) of a series, with its sequences concatenated."""
    if isinstance(X, list) and all(hasattr(x, "shape") and len(x.shape) == 2 for x in X):
        return np.concatenate([as_float_array(x, f"{name}[{i}]") for i, x in enumerate(X)])
    return as_float_array(X, name)
