"""Order in which candidates are fitted; each proposal depends on the fits before it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from probsfa.statespace.choice.candidates import Options
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.held_out_values import CLOSE
from probsfa.statespace.learning.options import FitOptions

if TYPE_CHECKING:
    from probsfa.statespace.choice.search import Search

__all__ = ["Proposals", "listed", "searched"]

#: Yields options one by one; each is fitted before the next one is requested.
Proposals = Iterator[dict[str, Any]]

# Numbers of latent factors without a gain after which the upward search ends.
_FAILURES = 2
# Latent factors with which cycles are tried first, and the most to try while the cycle has no spectral peak.
_FEW, _MANY_ENOUGH = 2, 4
# Gain in log-likelihood of a cycle, in units of the gain that BIC requires: above the first a cycle is
# certain, below the second it is not worth a fit.
_CERTAIN, _WORTH_A_FIT = 2.0, 0.5


def listed(candidates: list[dict[str, Any]]) -> Callable[["Search"], Proposals]:
    """Propose all candidates of a list, small ones first, because larger ones start from them."""

    def size(options: dict[str, Any]) -> int:
        asked = FitOptions.of(ProbabilisticSFA(**options))
        return 10**6 if asked.n_components is None else asked.latents.n_states

    return lambda search: iter(sorted(candidates, key=size))


def searched(most: int, groups: list[list[dict[str, Any]]]) -> Callable[["Search"], Proposals]:
    """Propose few latent factors, cycles with them, numbers of factors, other options, and numbers again.

    Cycles, smooth processes and AR(1) noise are tried only if the residual diagnostics support them.
    """

    def proposals(search: "Search") -> Proposals:
        if search.clock.budget < np.inf:  # a usable model in case time runs out early
            yield {"n_components": most}
        few = {"n_components": min(_FEW, most)}
        for k in range(1, few["n_components"] + 1):
            if {"n_components": k} not in search.tried:
                yield {"n_components": k}
        # Many latent factors imitate a cycle, and an optimization run that starts with them keeps them.
        beside: dict[str, Any] = {}
        refused: list[Options] = []
        best = few
        for options in next((group for group in groups if _counts_rhythms(group[0])), []):
            asked_of_it = _asked_of(search, 2 * search.n_features + 1)
            if search.residual_structure_of(best).rhythm < _CERTAIN * asked_of_it:
                break
            # With too few latent factors, a cycle may turn into a missing slow factor.
            for k in range(best["n_components"], min(_MANY_ENOUGH, most) + 1):
                asked = {"n_components": k, **options}
                yield asked
                if search.bic_of(asked) < np.inf:
                    break
            if not _likelier(search, asked, best):
                refused.append(options)
                break
            if beside and best["n_components"] < most:
                # A further cycle may stand for a missing latent factor, which has fewer parameters.
                instead = {"n_components": best["n_components"] + 1, **beside}
                yield instead
                if search.bic_of(instead) < search.bic_of(asked):
                    refused.append(options)
                    best = instead
                    break
            best, beside = asked, dict(options)
        yield from _numbers_upwards(search, most, beside, best["n_components"] if beside else 1)
        yield from _numbers_between(search)
        for group in groups:
            if "rhythms" in group[0] and not beside and _is_worth(search, group[0]):
                yield from _beside_few(search, most, group[0])
        for group in groups:
            for options in group:
                asked = {**search.best.options, **options}
                if asked in search.tried:
                    continue
                if options in refused or not _is_worth(search, options):
                    break
                yield asked
                if search.best.options != asked:
                    break
        if set(search.best.options) != {"n_components"}:
            yield from _numbers_around(search, most)

    return proposals


def _counts_rhythms(options: Options) -> bool:
    """Return whether the only option is a number of cycles, with periods to estimate."""
    return set(options) == {"rhythms"} and isinstance(options["rhythms"], int)


def _asked_of(search: "Search", n_parameters: int) -> float:
    """Return the gain in log-likelihood at which so many parameters lower BIC, in nats."""
    return 0.5 * n_parameters * float(np.log(search.n_observed))


def _likelier(search: "Search", one: Options, other: Options) -> bool:
    """Return whether BIC clearly prefers one candidate to the other."""
    return search.bic_of(dict(one)) < search.bic_of(dict(other)) - CLOSE


def _is_worth(search: "Search", options: Options) -> bool:
    """Return whether the diagnostics of the best candidate leave enough for these options to explain."""
    d = search.n_features
    if _counts_rhythms(options):
        n_parameters = 2 * d + 1
    elif options == {"smooth": 1}:
        n_parameters = d + 1
    elif options == {"noise": "ar1"}:
        n_parameters = 2 * d
    else:
        return True
    left = search.residual_structure_of(search.best.options)
    most = max(left) if "rhythms" in options else left.correlation
    return most > _WORTH_A_FIT * _asked_of(search, n_parameters)


def _numbers_upwards(search: "Search", most: int, beside: Options, first: int) -> Proposals:
    """Propose numbers up to ``most`` (6, 8, 10, 13, ...) until one is clearly worse or two do not gain."""
    k, failures = first, 0
    best: dict[str, Any] | None = None
    while failures < _FAILURES:
        asked = {"n_components": k, **beside}
        if asked not in search.tried:
            yield asked
        if best is None or search.bic_of(asked) < search.bic_of(best):
            best, failures = asked, 0
        else:
            failures += _FAILURES if _likelier(search, best, asked) else 1
        if k == most:
            break
        k = min(k + max(k // 3, 1), most)


def _beside_few(search: "Search", most: int, options: Options) -> Proposals:
    """Propose options with two latent factors, and then more factors as long as BIC improves.

    Many latent factors imitate a cycle, and an optimization run that starts with them keeps them.
    """
    few = {"n_components": min(_FEW, most)}
    if few not in search.tried:
        yield few
    asked = {**few, **options}
    if asked not in search.tried:
        yield asked
    if not _likelier(search, asked, few):
        return
    yield from _numbers_upwards(search, most, options, few["n_components"])
    yield from _numbers_between(search, lambda: _likeliest(search, asked))


def _likeliest(search: "Search", options: Options) -> dict[str, Any]:
    """Return the candidate of lowest BIC with these options and any number of latent factors."""
    alike = [each for each in search.tried if each == {**options, **_number(each)}]
    return min(alike, key=search.bic_of)


def _numbers_between(search: "Search", best_one: Callable[[], dict[str, Any]] | None = None) -> Proposals:
    """Propose numbers of factors between those already tried, bisecting around the best one.

    The search ends if the adjacent numbers differ by at most a seventh.
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
    """Propose fewer latent factors next to the other options as long as this helps; else one more."""
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
    return FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **options})).n_others > 0
