"""How well observed values are found again when they are hidden."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa import metrics
from probsfa._arrays import as_float_array
from probsfa.imputation.filled import Filled, Method, check_series
from probsfa.imputation.hiding import Hiding, hide

__all__ = ["LEVEL", "Comparison", "Errors", "Progress", "Score", "average", "compare_methods", "score"]

Progress = Callable[[int, int, str], None]

LEVEL = 0.9  # probability of the intervals whose coverage is measured


class Errors(NamedTuple):
    """How close filled values are to the truth.

    Attributes
    ----------
    rmse, mae : float
        Root mean square and mean absolute error, in units of each column's standard deviation.
    coverage : float or None
        Part of the hidden values that lies in the method's 90 % intervals, None where it has none.
    """

    rmse: float
    mae: float
    coverage: float | None


@dataclass(frozen=True)
class Score:
    """How close a method came to the hidden values.

    Attributes
    ----------
    method : str
        Its name.
    rmse, mae : float
        Root mean square and mean absolute error, in units of each column's standard deviation.
    coverage : float or None
        Part of the hidden values that lies in the method's 90 % intervals, None where it has none.
    seconds : float
        Time it took, learning and compiling included.
    """

    method: str
    rmse: float
    mae: float
    coverage: float | None
    seconds: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods compared on one way of hiding values.

    Attributes
    ----------
    hidden : str
        How values were hidden, in words.
    scores : tuple of Score
        For each method, averaged over the seeds.
    seen : ndarray (T, D), or list of them
        The series that was filled, for the last seed.
    filled : dict of str to Filled
        What each method made of it.
    """

    hidden: str
    scores: tuple[Score, ...]
    seen: Any
    filled: dict[str, Filled]


def compare_methods(
    X: Any,
    methods: Sequence[Method],
    hidings: Sequence[Hiding],
    *,
    seeds: Sequence[int] = (0,),
    times: Any = None,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Hide values of a series in several ways and let each method fill the same missing values.

    Parameters
    ----------
    X : array-like or DataFrame (T, D), or list of them
        The series, NaN where missing; a list is several independent sequences.
    methods : sequence of Method
        What is compared; their names differ.
    hidings : sequence of Hiding
        Ways of hiding values. A column that would keep fewer than two observed values has none hidden.
    seeds : sequence of int, default=(0,)
        One choice of values for each, averaged over.
    times : array-like (T,) or list of array-likes, optional
        Times of the rows, strictly increasing in each sequence; those of the index by default, where a frame
        has dates, periods or durations there, and else evenly spaced.
    progress : callable, optional
        Called before each run of a method with the number of runs that are done, the number of all runs and
        the name of the method.

    Returns
    -------
    list of Comparison
        One for each way of hiding values.

    Raises
    ------
    ValueError
        If there is no method or seed, two methods have one name, no value can be hidden, a method leaves a
        hole unfilled, or the series is not valid; see the message.

    See Also
    --------
    default_methods : Methods that are worth comparing.
    score : What each of them is measured by.

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
    # Rows of an even index are evenly spaced, whatever the rounding of their times.
    when = None if series.times is None or series.step is not None else series.restore(series.times)
    n_runs, done = len(hidings) * len(seeds) * len(methods), 0
    comparisons = []
    for hiding in hidings:
        runs: dict[str, list[Score]] = {name: [] for name in names}
        for seed in seeds:
            truth = series.restore(series.values)
            seen = series.restore(hide(series.values, hiding.choose(series.values, seed)))
            filled = {}
            for method in methods:
                if progress is not None:
                    progress(done, n_runs, method.name)
                begin = time.perf_counter()
                result = method.fill(seen, times=when)
                seconds = time.perf_counter() - begin
                errors = _score(truth, seen, result, method.name)
                runs[method.name].append(Score(method.name, *errors, seconds))
                filled[method.name] = result
                done += 1
        scores = tuple(average(run) for run in runs.values())
        comparisons.append(Comparison(hiding.name, scores, seen, filled))
    return comparisons


def score(truth: Any, seen: Any, filled: Filled) -> Errors:
    """Compare filled values with the truth where a series has missing values that the truth has not.

    Parameters
    ----------
    truth : array-like or DataFrame (T, D), or list of them
        The series, NaN where not even the truth is known.
    seen : like `truth`
        What the method saw.
    filled : Filled
        What it made of that.

    Returns
    -------
    Errors
        In units of each column's standard deviation over the values seen; errors of a column that is constant
        there count as they are.

    Raises
    ------
    ValueError
        If no value is hidden, or a hidden one is not filled.

    See Also
    --------
    probsfa.metrics.rmse, probsfa.metrics.mae, probsfa.metrics.coverage : The measures.

    Examples
    --------
    >>> errors = score([[1.0], [3.0], [4.0]], [[1.0], [3.0], [np.nan]], Filled([[1.0], [3.0], [3.0]]))
    >>> errors.rmse, errors.mae, errors.coverage
    (1.0, 1.0, None)
    """
    return _score(truth, seen, filled, "filled")


def _score(truth: Any, seen: Any, filled: Filled, name: str) -> Errors:
    truth, seen, values = _joined(truth, "truth"), _joined(seen, "seen"), _joined(filled.values, name)
    hidden = np.isnan(seen) & ~np.isnan(truth)
    if not hidden.any():
        raise ValueError("too few observed values to hide some of them.")
    if values.shape != truth.shape or np.isnan(values[hidden]).any():
        raise ValueError(f"{name} has values that were not filled.")
    scales = np.nanstd(seen, axis=0)
    scales = np.where(scales > 0.0, scales, 1.0)
    covered = None
    if filled.std is not None:
        covered = metrics.coverage(truth, values, _joined(filled.std, "std"), LEVEL, mask=hidden)
    return Errors(
        metrics.rmse(truth, values, mask=hidden, scale=scales),
        metrics.mae(truth, values, mask=hidden, scale=scales),
        covered,
    )


def average(scores: Iterable[Score]) -> Score:
    """Return the mean of the scores of one method; coverage is averaged where there is any."""
    scores = list(scores)
    covered = [each.coverage for each in scores if each.coverage is not None]
    return Score(
        scores[0].method,
        float(np.mean([each.rmse for each in scores])),
        float(np.mean([each.mae for each in scores])),
        float(np.mean(covered)) if covered else None,
        float(np.mean([each.seconds for each in scores])),
    )


def _joined(X: Any, name: str) -> NDArray[np.float64]:
    """All rows (N, D) of a series, one sequence below the other."""
    if isinstance(X, list) and all(hasattr(x, "shape") and len(x.shape) == 2 for x in X):
        return np.concatenate([as_float_array(x, f"{name}[{i}]") for i, x in enumerate(X)])
    return as_float_array(X, name)
