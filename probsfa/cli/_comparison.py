"""How well observed cells are found again when they are hidden."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli._methods import Filled, Method
from probsfa.cli._screen import Screen
from probsfa.cli.tables.clock import Clock
from probsfa.datasets import hide_blocks, hide_cells

__all__ = ["Z90", "Comparison", "Score", "average", "compare_methods", "hide", "hiders", "score"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Hider = Callable[[FloatArray, int], BoolArray]

Z90 = 1.6448536269514722  # a normal variable is within this many standard deviations with probability 90 %


@dataclass(frozen=True)
class Score:
    """How close a method came to the hidden cells.

    Attributes
    ----------
    method : str
        Its name.
    rmse, mae : float
        Root mean square and mean absolute error, in units of each column's standard deviation.
    coverage : float or None
        Part of the hidden cells that lies in the method's 90 % intervals, None where it has none.
    seconds : float
        Time it took, learning and compiling included.
    """

    method: str
    rmse: float
    mae: float
    coverage: float | None
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one way of hiding cells.

    Attributes
    ----------
    hidden : str
        How cells were hidden, in words.
    scores : list of Score
        For each method, averaged over the seeds.
    seen : ndarray (T, D)
        The series that was filled, for the last seed.
    filled : dict of str to Filled
        What each method made of it.
    """

    hidden: str
    scores: list[Score]
    seen: FloatArray
    filled: dict[str, Filled]


def hiders(n_rows: int, *, fraction: float, block: int) -> dict[str, Hider]:
    """The ways of hiding cells, by what they are in words.

    Raises
    ------
    CommandError
        If a block is longer than the series.
    """
    if block > n_rows:
        raise CommandError(f"--block must be at most the {n_rows} rows that there are, got {block}.")
    part = f"{100.0 * fraction:g} % of the observed cells hidden"
    return {
        f"{part}, one by one": lambda X, seed: hide_cells(X, fraction, random_state=seed),
        f"{part}, in blocks of {block} rows": lambda X, seed: hide_blocks(
            X, block, fraction, random_state=seed
        ),
    }


def compare_methods(
    X: FloatArray,
    clock: Clock,
    methods: Mapping[str, Method],
    hiders: Mapping[str, Hider],
    seeds: Sequence[int],
    screen: Screen,
) -> list[Comparison]:
    """Hide cells of a series in several ways and let each method fill the same holes.

    Parameters
    ----------
    X : ndarray (T, D)
        The series, NaN where missing.
    clock : Clock
        When the rows were observed.
    methods : mapping of str to Method
        What is compared.
    hiders : mapping of str to callable
        Ways of hiding cells.
    seeds : sequence of int
        One choice of cells for each, averaged over.
    screen : Screen
        Where progress is shown.

    Returns
    -------
    list of Comparison
        One for each way of hiding cells.
    """
    comparisons = []
    with screen.progress(len(hiders) * len(seeds) * len(methods)) as bar:
        for words, hider in hiders.items():
            runs: dict[str, list[Score]] = {name: [] for name in methods}
            for seed in seeds:
                seen, filled = hide(X, hider(X, seed)), {}
                for name, method in methods.items():
                    bar.set_description(name)
                    begin = time.perf_counter()
                    filled[name] = method(seen, clock)
                    seconds = time.perf_counter() - begin
                    runs[name].append(Score(name, *score(X, seen, filled[name]), seconds))
                    bar.update()
            comparisons.append(Comparison(words, [average(each) for each in runs.values()], seen, filled))
    return comparisons


def hide(X: FloatArray, hidden: BoolArray) -> FloatArray:
    """Return the series without the hidden cells.

    A column that would keep fewer than two cells is left as it is: no method could fill it.
    """
    seen = np.where(hidden, np.nan, X)
    bare = np.count_nonzero(~np.isnan(seen), axis=0) < 2
    seen[:, bare] = X[:, bare]
    return seen


def score(truth: FloatArray, seen: FloatArray, filled: Filled) -> tuple[float, float, float | None]:
    """Compare filled cells with the truth where `seen` has holes that the truth has not.

    Returns
    -------
    rmse, mae : float
        Errors in units of each column's standard deviation over the visible cells.
    coverage : float or None
        Part of the hidden cells within the 90 % interval.

    Raises
    ------
    CommandError
        If no cell is hidden.
    """
    hidden = np.isnan(seen) & ~np.isnan(truth)
    if not hidden.any():
        raise CommandError("too few observed cells to hide some of them.")
    scales = np.nanstd(seen, axis=0)
    errors = (filled.values - truth)[hidden]
    scaled = errors / np.broadcast_to(np.where(scales > 0.0, scales, 1.0), truth.shape)[hidden]
    rmse, mae = float(np.sqrt(np.mean(scaled**2))), float(np.mean(np.abs(scaled)))
    if filled.std is None:
        return rmse, mae, None
    return rmse, mae, float(np.mean(np.abs(errors) <= Z90 * filled.std[hidden]))


def average(scores: Iterable[Score]) -> Score:
    """Mean of the scores of one method."""
    scores = list(scores)
    covered = [each.coverage for each in scores if each.coverage is not None]
    return Score(
        scores[0].method,
        float(np.mean([each.rmse for each in scores])),
        float(np.mean([each.mae for each in scores])),
        float(np.mean(covered)) if covered else None,
        float(np.mean([each.seconds for each in scores])),
    )
