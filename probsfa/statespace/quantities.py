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


def _linear(estimate: FloatArray, half_width: FloatArray) -> Limits:
    return estimate - half_width, estimate + half_width


def _log(estimate: FloatArray, half_width: FloatArray) -> Limits:
    factor = np.exp(half_width / estimate)
    return estimate / factor, estimate * factor


def _atanh(estimate: FloatArray, half_width: FloatArray) -> Limits:
    free, half_width = np.arctanh(estimate), half_width / ((1.0 - estimate) * (1.0 + estimate))
    return np.tanh(free - half_width), np.tanh(free + half_width)


def _decay(estimate: FloatArray, half_width: FloatArray) -> Limits:
    positive = estimate > 0.0
    decay = np.where(positive, estimate, np.nan)
    slowest, fastest = _log(-np.log(decay), half_width / decay)
    lower, upper = _atanh(estimate, half_width)
    return np.where(positive, np.exp(-fastest), lower), np.where(positive, np.exp(-slowest), upper)


#: Functions that return interval limits from an estimate and a half-width, by the name of the scale on which
#: the interval is symmetric. On the scale "decay" a positive decay ``a`` is transformed to ``log(-log a)``, a
#: negative one to ``atanh a``.
INTERVALS: dict[str, Callable[[FloatArray, FloatArray], Limits]] = {
    "linear": _linear,
    "log": _log,
    "atanh": _atanh,
    "decay": _decay,
}
