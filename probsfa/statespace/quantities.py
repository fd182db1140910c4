"""Names, units and interval scales of the fitted attributes of estimators.

Each kind of process and of noise has a tuple of :class:`Quantity`, from which attributes, standard errors and
the table of `summary` are made (:mod:`probsfa.statespace.parameters`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["INTERVALS", "Quantity"]


class Quantity(NamedTuple):
    """A fitted attribute of an estimator.

    Attributes
    ----------
    attribute : str
        Name of the attribute, which ends in an underscore.
    label : str
        Name in the table of `summary`; the table leaves out quantities without it.
    unit : {"", "time", "data", "data^2"}
        Unit; "time" is the unit of the times.
    axes : tuple of str
        Meaning of each axis of the array.
    scale : str
        Scale of confidence intervals, one of :data:`INTERVALS`; quantities without it have no standard error.
    error : str
        Name of the standard error, if it is not that of the attribute without underscore.
    """

    attribute: str
    label: str = ""
    unit: str = ""
    axes: tuple[str, ...] = ()
    scale: str = ""
    error: str = ""

    @property
    def name(self) -> str:
        """Name of the standard error."""
        return self.error or self.attribute.removesuffix("_")


Limits = tuple[FloatArray, FloatArray]


def _linear(estimate: FloatArray, reach: FloatArray) -> Limits:
    return estimate - reach, estimate + reach


def _log(estimate: FloatArray, reach: FloatArray) -> Limits:
    factor = np.exp(reach / estimate)
    return estimate / factor, estimate * factor


def _atanh(estimate: FloatArray, reach: FloatArray) -> Limits:
    free, reach = np.arctanh(estimate), reach / ((1.0 - estimate) * (1.0 + estimate))
    return np.tanh(free - reach), np.tanh(free + reach)


def _decay(estimate: FloatArray, reach: FloatArray) -> Limits:
    positive = estimate > 0.0
    decay = np.where(positive, estimate, np.nan)
    slowest, fastest = _log(-np.log(decay), reach / decay)
    lower, upper = _atanh(estimate, reach)
    return np.where(positive, np.exp(-fastest), lower), np.where(positive, np.exp(-slowest), upper)


#: Limits from an estimate and the half-width of its interval, by the scale on which it is symmetric:
#: "decay" is the logarithm of the rate for positive decays, and ``atanh a`` for negative ones.
INTERVALS: dict[str, Callable[[FloatArray, FloatArray], Limits]] = {
    "linear": _linear,
    "log": _log,
    "atanh": _atanh,
    "decay": _decay,
}
