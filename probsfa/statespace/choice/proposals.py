"""Which candidates are fitted, one after the other, in the light of those before."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from probsfa.statespace.choice.candidates import Options
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.hidden_cells import CLOSE
from probsfa.statespace.learning.options import FitOptions

if TYPE_CHECKING:
    from probsfa.statespace.choice.search import Search

__all__ = ["Proposals", "listed", "searched"]

#: Gives options one by one, and is asked again after they were fitted.
Proposals = Iterator[dict[str, Any]]

# Numbers of latents that are passed over without a gain before the search upwards ends.
_FAILURES = 2
# Latents beside which rhythms are tried first.
_FEW = 2


def listed(candidates: list[dict[str, Any]]) -> Callable[["Search"], Proposals]:
    """All candidates of a list, small ones first, from which larger ones begin."""

    def size(options: dict[str, Any]) -> int:
        asked = FitOptions.of(ProbabilisticSFA(**options))
        return 10**6 if asked.n_components is None else asked.latents.n_states

    return lambda search: iter(sorted(candidates, key=size))


def searched(most: int, groups: list[list[dict[str, Any]]]) -> Callable[["Search"], Proposals]:
    """Numbers of latents, rhythms beside few, other options beside the best, and numbers around it again."""

    def proposals(search: "Search") -> Proposals:
        if search.clock.budget < np.inf:  # what serves without a choice, lest time runs out at too few
            yield {"n_components": most}
        yield from _numbers_upwards(search, most)
        yield from _numbers_between(search)
        for group in groups:
            if "rhythms" in group[0]:
                yield from _beside_few(search, most, group[0])
        for group in groups:
            for options in group:
                asked = {**search.best.options, **options}
                if asked in search.tried:
                    continue
                yield asked
                if search.best.options != asked:
                    break
        if set(search.best.options) != {"n_components"}:
            yield from _numbers_around(search, most)

    return proposals


def _numbers_upwards(search: "Search", most: int) -> Proposals:
    """1, 2, 4, 8, ... and the most, until one of them clearly gains nothing, or two of them."""
    k, failures = 1, 0
    while failures < _FAILURES:
        asked = {"n_components": k}
        if asked not in search.tried:
            yield asked
        if search.best.options == asked:
            failures = 0
        else:
            failures += _FAILURES if search.clearly_worse(asked) else 1
        if k == most:
            break
        k = min(2 * k, most)


def _beside_few(search: "Search", most: int, options: Options) -> Proposals:
    """A rhythm beside two latents, and more of these beside it, as long as the likelihood gains.

    Many latents imitate a rhythm, and a climb that begins with them does not get rid of them again.
    """
    few = {"n_components": min(_FEW, most)}
    if few not in search.tried:
        yield few
    best, asked = few, {**few, **options}
    k = few["n_components"]
    while True:
        if asked not in search.tried:
            yield asked
        if asked not in search.tried or search.bic_of(asked) >= search.bic_of(best):
            break
        best = asked
        if k == most:
            return
        k = min(2 * k, most)
        asked = {**best, "n_components": k}
    if best == few:
        return
    yield from _numbers_between(search, lambda: _likeliest(search, best))
    # Short fits leave criteria a little wrong: fewer latents, as long as they are close.
    best = _likeliest(search, best)
    for k in range(best["n_components"] - 1, 0, -1):
        asked = {**best, "n_components": k}
        if asked not in search.tried:
            yield asked
        if asked not in search.tried or search.bic_of(asked) > search.bic_of(best) + CLOSE:
            break


def _likeliest(search: "Search", options: Options) -> dict[str, Any]:
    """Of the candidates with these options and any number of latents, that of the smallest criterion."""
    alike = [each for each in search.tried if each == {**options, **_number(each)}]
    return min(alike, key=search.bic_of)


def _numbers_between(search: "Search", best_one: Callable[[], dict[str, Any]] | None = None) -> Proposals:
    """Numbers between those that were tried, around the best one, until its neighbours are known.

    Neighbours are as close as a seventh of the number.
    """
    while True:
        best = search.best.options if best_one is None else best_one()
        k = best["n_components"]
        tried = sorted(each["n_components"] for each in search.tried if each == {**best, **_number(each)})
        below = [each for each in tried if each < k]
        above = [each for each in tried if each > k]
        wanted = None
        if above and above[0] - k > max(1, k // 7):
            wanted = (k + above[0]) // 2
        elif below and k - below[-1] > max(1, k // 7):
            wanted = (k + below[-1] + 1) // 2
        if wanted is None:
            return
        yield {**best, "n_components": wanted}


def _numbers_around(search: "Search", most: int) -> Proposals:
    """Fewer latents, now that there is something beside them, as long as that serves; else one more."""
    fewer = False
    while True:
        best = search.best.options
        k = best["n_components"]
        asked = {**best, "n_components": k - max(1, k // 3)}
        if asked["n_components"] < (0 if _has_pairs(best) else 1) or asked in search.tried:
            break
        yield asked
        if search.best.options != asked:
            break
        fewer = True
    if not fewer and search.best.options["n_components"] < most:
        asked = {**search.best.options, "n_components": search.best.options["n_components"] + 1}
        if asked not in search.tried:
            yield asked
    yield from _numbers_between(search)


def _number(options: Options) -> dict[str, Any]:
    return {"n_components": options["n_components"]}


def _has_pairs(options: dict[str, Any]) -> bool:
    return FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **options})).n_pairs > 0
