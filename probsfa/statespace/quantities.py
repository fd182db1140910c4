"""Names and units of the fitted attributes of estimators, and scales of their confidence intervals.

Each kind of process and of noise has a tuple of :class:`Quantity`. All of them are in
:data:`probsfa.statespace.parameters.QUANTITIES`. They define the fitted attributes, the standard errors and
the table of `summary`.
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
        Name in the table of `summary`; if it is empty, the quantity is not in the table.
    unit : {"", "time", "data", "data^2"}
        Unit of the values; "time" is the unit of time of the data.
    axes : tuple of str
        Meaning of each axis of the array.
    scale : str
        Scale of confidence intervals, a key of :data:`INTERVALS`; if it is empty, there is no standard error.
    error : str
        Name of the standard error; by default the name of the attribute without the underscore.
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
    transformed, half_width = np.arctanh(estimate), half_width / ((1.0 - estimate) * (1.0 + estimate))
    return np.tanh(transformed - half_width), np.tanh(transformed + half_width)


def _decay(estimate: FloatArray, half_width: FloatArray) -> Limits:
    is_positive = estimate > 0.0
    decay = np.where(is_positive, estimate, np.nan)
    lowest_rate, highest_rate = _log(-np.log(decay), half_width / decay)
    lower, upper = _atanh(estimate, half_width)
    return (
        np.where(is_positive, np.exp(-highest_rate), lower),
        np.where(is_positive, np.exp(-lowest_rate), upper),
    )


#: Functions that return the limits of an interval from an estimate and a half-width on the linear scale. A
#: key names the scale on which the interval is symmetric; the delta method converts the half-width to this
#: scale. The scale "decay" is ``log(-log a)`` for a positive decay ``a``, and ``atanh a`` for a negative
#: decay.
INTERVALS: dict[str, Callable[[FloatArray, FloatArray], Limits]] = {
    "linear": _linear,
    "log": _log,
    "atanh": _atanh,
    "decay": _decay,
}
