"""Candidates of model selection: estimator options and their labels."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from probsfa.statespace.comparison import Candidate
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.learning.options import FitOptions, is_number

__all__ = ["Options", "describe_options", "has_no_peak", "validate_candidates"]

Options = Mapping[str, Any]


def validate_candidates(candidates: Iterable[Options]) -> list[dict[str, Any]]:
    """Validate the options of candidates, and return them as dictionaries.

    Raises
    ------
    ValueError
        If a candidate is not valid, or has no noise; the message names the candidate.
    """
    valid_names = ProbabilisticSFA().get_params(deep=False)
    out: list[dict[str, Any]] = []
    for options in candidates:
        if not isinstance(options, Mapping):
            raise ValueError(
                f"candidates must be dictionaries of options of ProbabilisticSFA; got {options!r}."
            )
        unknown = sorted(set(options) - (set(valid_names) - {"fixed", "init", "random_state", "verbose"}))
        if unknown:
            raise ValueError(f"candidates have unsupported options: {unknown}.")
        if options.get("transforms") is not None:
            raise ValueError(
                f"candidates must not have transforms, because they are compared in the units of X; got "
                f"{dict(options)!r}. Transform the columns before, or compare models with and without "
                "transforms by their bic."
            )
        if FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **options})).check().noise_free:
            raise ValueError(f"candidates must have positive noise; got {dict(options)!r}.")
        out.append(dict(options))
    if not out:
        raise ValueError("candidates must contain at least one dictionary of options; got an empty list.")
    return out


def describe_options(options: Options) -> str:
    """Return a readable label of estimator options.

    Examples
    --------
    >>> describe_options({"n_components": 3, "rhythms": 2, "noise": "isotropic"})
    "3 factors, 2 cycles, noise='isotropic'"
    """
    parts = []
    for name, value in options.items():
        noun = {"n_components": "factor", "rhythms": "cycle", "smooth": "smooth process"}.get(name)
        if noun is None:
            parts.append(f"{name}={value!r}")
        elif is_number(value):
            plural = "es" if noun.endswith("s") else "s"
            parts.append(f"{value} {noun}{'' if value == 1 else plural}")
        else:
            parts.append(f"{name}={value!r}")
    return ", ".join(parts)


def has_no_peak(candidate: Candidate) -> bool:
    """Return whether the spectrum of an estimated stochastic cycle has no peak at a positive frequency.

    The spectrum of a cycle is the sum of two Lorentz curves of half-width ``g`` about the frequencies ``w``
    and ``-w``. Its maximum is at frequency zero if ``w < g / sqrt(3)``. Such a cycle decays within a fraction
    of a period, and cannot be distinguished from slow AR(1) factors. The result is False for cycles with
    given periods.
    """
    if isinstance(candidate.options.get("rhythms", 0), (list, tuple)):
        return False
    params = candidate.model.fitted.params
    half_width = -np.log(np.maximum(params.rhythm_decay, np.finfo(float).tiny))
    return bool(np.any(np.abs(params.rhythm_frequency) < half_width / np.sqrt(3.0)))
