"""Candidates of model selection: estimator options, their labels, and scores on held-out values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.held_out_values import crps
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.models import LinearGaussianModel

__all__ = ["Candidate", "Options", "checked", "has_no_peak", "score", "words"]

Options = Mapping[str, Any]


def checked(candidates: Iterable[Options]) -> list[dict[str, Any]]:
    """Return validated candidate options, each with positive noise.

    Raises
    ------
    ValueError
        If a candidate is not valid; the message names the candidate.
    """
    known = ProbabilisticSFA().get_params(deep=False)
    out: list[dict[str, Any]] = []
    for each in candidates:
        if not isinstance(each, Mapping):
            raise ValueError(f"candidates must be dictionaries of options of ProbabilisticSFA; got {each!r}.")
        unknown = sorted(set(each) - (set(known) - {"fixed", "init", "random_state", "verbose"}))
        if unknown:
            raise ValueError(f"candidates have options that ProbabilisticSFA does not choose by: {unknown}.")
        if each.get("transforms") is not None:
            raise ValueError(
                f"candidates are compared in the scales of X, and {dict(each)!r} has transforms; transform "
                "the columns before, and compare models with transforms and without by their bic."
            )
        if FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **each})).check().noise_free:
            raise ValueError(f"noise must be positive: {dict(each)!r} leaves nothing to hide and find again.")
        out.append(dict(each))
    if not out:
        raise ValueError("candidates must hold at least one dictionary of options, got none.")
    return out


def words(options: Options) -> str:
    """Return a readable label of estimator options.

    Examples
    --------
    >>> words({"n_components": 3, "rhythms": 2, "noise": "isotropic"})
    "3 latents, 2 rhythms, noise='isotropic'"
    """
    parts = []
    for name, value in options.items():
        noun = {"n_components": "latent", "rhythms": "rhythm", "smooth": "smooth latent"}.get(name)
        if noun is None:
            parts.append(f"{name}={value!r}")
        elif is_number(value):
            parts.append(f"{value} {noun}{'' if value == 1 else 's'}")
        else:
            parts.append(f"{name}={value!r}")
    return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate fitted to some of the rows; in the last round, without the held-out values.

    Attributes
    ----------
    options : dict
        Options of the estimator.
    rung : int
        Round of the comparison, from 0.
    n_rows : int
        Rows it was fitted to.
    model : LinearGaussianModel
        The fit.
    scores : ndarray of shape (n,)
        Continuous ranked probability score of each held-out value, in units of the columns; empty before the
        last round.
    errors : ndarray of shape (n,)
        Errors of the same values in units of the columns' standard deviations.
    bic : float
        Bayesian information criterion of a fit to all values of these rows, extrapolated to all rows; without
        such a fit, that of the fit without held-out values.
    seconds : float
        Time of fit and scores.
    whole : LinearGaussianModel or None, default=None
        The fit to all values of the same rows, if available.
    """

    options: dict[str, Any]
    rung: int
    n_rows: int
    model: LinearGaussianModel
    scores: FloatArray
    errors: FloatArray
    bic: float
    seconds: float
    whole: LinearGaussianModel | None = None


def has_no_peak(candidate: Candidate) -> bool:
    """Return whether the spectrum of an estimated stochastic cycle has no peak at a positive frequency.

    The spectrum of a cycle, two Lorentz curves of half-width ``g`` about the frequencies ``w`` and ``-w``, is
    highest at frequency zero if ``w < g / sqrt(3)``. The phase is then lost long before one period ends, and
    two slow latent factors would fit as well with fewer parameters.
    """
    if isinstance(candidate.options.get("rhythms", 0), (list, tuple)):
        return False
    params = candidate.model.fitted.params
    width = -np.log(np.maximum(params.rhythm_decay, np.finfo(float).tiny))
    return bool(np.any(np.abs(params.rhythm_frequency) < width / np.sqrt(3.0)))


def score(
    model: LinearGaussianModel, sequences: Sequences, part: Any, units: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Score a model on held-out values, part by part, given all values outside the part.

    Parameters
    ----------
    model : LinearGaussianModel
        Fitted without the held-out values.
    sequences : Sequences
        Rows, including the held-out values.
    part : ndarray of int of shape (N, D)
        Part in which a value is held out, 0 for other values.
    units, scale : ndarray of shape (D,)
        Units of scores and of errors.

    Returns
    -------
    scores, errors : ndarray of shape (n,)
        In the order of the held-out values, ``part > 0``.
    """
    scores, errors = np.zeros(part.shape), np.zeros(part.shape)
    for j in range(1, int(part.max()) + 1):
        hidden = part == j
        rest = replace(sequences, values=np.where(hidden, np.nan, sequences.values))
        filled = model.impute(rest, with_std=True)
        assert filled.std is not None
        error = np.where(hidden, filled.values - sequences.values, 0.0)
        scores = np.where(hidden, crps(error / units, filled.std / units), scores)
        errors = np.where(hidden, error / scale, errors)
    return scores[part > 0], errors[part > 0]
