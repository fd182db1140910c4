"""Candidates of model selection: estimator options, their labels, and predictions of held-out values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probsfa.statespace.calibration import HeldOutPredictions
from probsfa.statespace.comparison import scores
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.models import LinearGaussianModel

__all__ = ["Candidate", "Options", "describe_options", "has_no_peak", "validate_candidates"]

Options = Mapping[str, Any]


def validate_candidates(candidates: Iterable[Options]) -> list[dict[str, Any]]:
    """Return validated candidate options, each with positive noise.

    Raises
    ------
    ValueError
        If a candidate is not valid; the message names the candidate.
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
                f"candidates are compared in the units of X, but {dict(options)!r} has transforms. Transform "
                "the columns before, or compare models with and without transforms by their bic."
            )
        if FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **options})).check().noise_free:
            raise ValueError(f"noise must be positive in candidates; got {dict(options)!r}.")
        out.append(dict(options))
    if not out:
        raise ValueError("candidates must contain at least one dictionary of options, got none.")
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
        Number of rows of the fit.
    model : LinearGaussianModel
        The fit.
    predictions_by_draw : tuple of HeldOutPredictions
        Predictions of the held-out values of each draw, in units of the columns; empty before the last round.
    bic : float
        Bayesian information criterion of a fit to all values of these rows, extrapolated to all rows; without
        such a fit, that of the fit without held-out values.
    seconds : float
        Time of fit and scores.
    full_fit : LinearGaussianModel or None, default=None
        The fit to all values of the same rows, if available.
    """

    options: dict[str, Any]
    rung: int
    n_rows: int
    model: LinearGaussianModel
    predictions_by_draw: tuple[HeldOutPredictions, ...]
    bic: float
    seconds: float
    full_fit: LinearGaussianModel | None = None

    @property
    def predictions(self) -> HeldOutPredictions | None:
        """Predictions of the held-out values of all draws, if there are any."""
        return HeldOutPredictions.joined(self.predictions_by_draw) if self.predictions_by_draw else None

    @property
    def score(self) -> float:
        """Mean score of the held-out values of all draws."""
        return float(
            np.mean(np.concatenate([scores(predictions) for predictions in self.predictions_by_draw]))
        )


def has_no_peak(candidate: Candidate) -> bool:
    """Return whether the spectrum of an estimated stochastic cycle has no peak at a positive frequency.

    The spectrum of a cycle, two Lorentz curves of half-width ``g`` about the frequencies ``w`` and ``-w``, is
    highest at frequency zero if ``w < g / sqrt(3)``. The coherence is then lost long before one period ends,
    and two slow AR(1) factors would fit as well with fewer parameters.
    """
    if isinstance(candidate.options.get("rhythms", 0), (list, tuple)):
        return False
    params = candidate.model.fitted.params
    width = -np.log(np.maximum(params.rhythm_decay, np.finfo(float).tiny))
    return bool(np.any(np.abs(params.rhythm_frequency) < width / np.sqrt(3.0)))
