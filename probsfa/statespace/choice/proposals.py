"""Order in which candidates are fitted; proposals depend on the fits so far.

Models with different numbers of factors are compared by BIC, with white and with AR(1) noise. The best model
is then compared with models with one process more or less, until none of these is better.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from probsfa.statespace.choice.candidates import Options
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.held_out_values import MAX_EQUAL_BIC
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.residual_structure import required_gain_of_cycle

if TYPE_CHECKING:
    from probsfa.statespace.choice.search import Search

__all__ = ["Proposals", "propose_by_search", "propose_list"]

#: Iterator over the options of candidates; each candidate is fitted before the next one is requested.
Proposals = Iterator[dict[str, Any]]

# Number of successive models without a gain after which the upward search ends.
_MAX_FAILURES = 2
# Minimum expected gain in log-likelihood of a fitted cycle, relative to the gain that BIC requires.
_MIN_RELATIVE_GAIN = 0.5


def propose_list(candidates: list[dict[str, Any]]) -> Callable[["Search"], Proposals]:
    """Return a function that proposes a list of candidates, small models first.

    Fits of larger models start from the parameters of smaller models.
    """

    def size(options: dict[str, Any]) -> int:
        requested = FitOptions.of(ProbabilisticSFA(**options))
        return 10**6 if requested.n_components is None else requested.state_layout.n_states

    return lambda search: iter(sorted(candidates, key=size))


def propose_by_search(
    max_factors: int, groups: list[list[dict[str, Any]]]
) -> Callable[["Search"], Proposals]:
    """Propose numbers of factors for each kind of noise, and then single changes of the best model.

    Parameters
    ----------
    max_factors : int
        Maximum number of factors.
    groups : list of list of dict
        Options that are combined with the number of factors, such as numbers of cycles. A model has at most
        one option of each group. The options of a group are sorted by complexity.
    """
    kinds_of_noise = [options for group in groups for options in group if set(options) == {"noise"}]

    def proposals(search: "Search") -> Proposals:
        yield from search.default_candidates
        if search.clock.budget < np.inf and {"n_components": max_factors} not in search.fitted_options:
            yield {"n_components": max_factors}  # a useful model if the budget ends early
        yield from _numbers_upwards(search, max_factors, {}, lambda k: k + max(k // 3, 1))
        yield from _numbers_between(search, {})
        for noise in kinds_of_noise:
            if search.has_fast_fits(noise):
                yield from _numbers_upwards(search, max_factors, noise, lambda k: max(2 * k, k + 1))
                yield from _numbers_between(search, noise)
        best = None
        while search.best.options != best:
            best = search.best.options
            for requested in _single_changes(search, best, max_factors, groups):
                if requested not in search.fitted_options:
                    yield requested
                if search.best.options != best:
                    break

    return proposals


def _numbers_upwards(
    search: "Search", maximum: int, fixed_options: Options, next_number: Callable[[int], int]
) -> Proposals:
    """Propose increasing numbers of factors from zero to ``maximum``.

    The search ends if a BIC is clearly higher than the lowest BIC, or if two successive BICs are not lower.
    """
    k, failures = 0, 0
    best: dict[str, Any] | None = None
    while failures < _MAX_FAILURES:
        requested = {"n_components": k, **fixed_options}
        if requested not in search.fitted_options:
            yield requested
        if best is None or search.bic_of(requested) < search.bic_of(best):
            best, failures = requested, 0
        else:
            failures += _MAX_FAILURES if search.bic_of(best) < search.bic_of(requested) - MAX_EQUAL_BIC else 1
        if k == maximum:
            break
        k = min(next_number(k), maximum)


def _numbers_between(search: "Search", fixed_options: Options) -> Proposals:
    """Propose numbers of factors between tried numbers, by bisection around the best number.

    The search ends if the difference to adjacent numbers is at most a seventh of the best number.
    """
    while True:
        comparable = [
            options
            for options in search.fitted_options
            if options == {**_only_n_components(options), **fixed_options}
        ]
        k = min(comparable, key=search.bic_of)["n_components"]
        numbers = sorted(options["n_components"] for options in comparable)
        below = [number for number in numbers if number < k]
        above = [number for number in numbers if number > k]
        requested = None
        if above and above[0] - k > max(1, k // 7):
            requested = (k + above[0]) // 2
        elif below and k - below[-1] > max(1, k // 7):
            requested = (k + below[-1] + 1) // 2
        if requested is None:
            return
        yield {"n_components": requested, **fixed_options}


def _single_changes(
    search: "Search", best: dict[str, Any], maximum: int, groups: list[list[dict[str, Any]]]
) -> Proposals:
    """Propose the models that differ from the best model in one process.

    There are three types of proposals:

    - more or fewer factors: a seventh of their number, but at least one;
    - an additional process, with the same number of factors or one fewer;
    - one process fewer, with the same number of factors or one more.

    Models with another kind of noise are last, because their fits are slowest.
    """
    k = best["n_components"]
    step = max(1, k // 7)
    for number in (k - step, k + step):
        if 0 <= number <= maximum:
            yield {**best, "n_components": number}
    for group in sorted(groups, key=lambda group: "noise" in group[0]):
        other_options = {
            name: value
            for name, value in best.items()
            if all(name not in alternative for alternative in group)
        }
        levels: list[Options] = [{}, *group]
        group_options = {name: value for name, value in best.items() if name not in other_options}
        if group_options not in levels:
            continue
        level = levels.index(group_options)
        if any(not search.has_fast_fits(alternative) for alternative in group):
            continue
        if level + 1 < len(levels) and _is_worth_fitting(search, best, levels[level + 1]):
            for number in (k, k - 1):
                if number >= 0:
                    yield {**other_options, "n_components": number, **levels[level + 1]}
        if level > 0:
            for number in (k, k + 1):
                if number <= maximum:
                    yield {**other_options, "n_components": number, **levels[level - 1]}


def _is_worth_fitting(search: "Search", best: dict[str, Any], options: Options) -> bool:
    """Return whether a candidate is worth a fit.

    Estimated cycles require evidence: a peak of the residual periodogram, or autocorrelated one-step
    prediction errors.
    """
    if set(options) != {"rhythms"} or not isinstance(options["rhythms"], int):
        return True
    required = required_gain_of_cycle(search.n_features, search.n_observed)
    return max(search.residual_structure_of(best)) > _MIN_RELATIVE_GAIN * required


def _only_n_components(options: Options) -> dict[str, Any]:
    return {"n_components": options["n_components"]}
