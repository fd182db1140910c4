"""Expansion that clips values to the range of the training data."""

from typing import Any

import numpy as np

from probsfa.expansions._base import Expansion, FloatArray, check_positive

__all__ = ["Clip"]


class Clip(Expansion):
    """Clip every column to the limits of the training data.

    Clipping prevents polynomials from diverging on unseen data (Sprekeler 2011, section 5.3, after Franzius,
    Sprekeler & Wiskott 2007). In a hierarchy of cubic polynomials, each layer would otherwise cube an output
    that is slightly outside its training range.

    Parameters
    ----------
    limits : "range" or float, default="range"
        "range": from the smallest to the largest training value, which does not change the training data. A
        number c: from the mean minus c to the mean plus c standard deviations.

    Attributes
    ----------
    low_, high_ : ndarray (D,)
        The limits.

    Examples
    --------
    >>> clip = Clip().fit([[0.0], [1.0]])
    >>> print(clip.transform([[-5.0], [0.5], [7.0]]).ravel())
    [0.  0.5 1. ]
    """

    def __init__(self, limits: float | str = "range") -> None:
        self.limits = limits

    def expand(self, values: FloatArray) -> FloatArray:
        """Clip the last axis: (..., D) to (..., D)."""
        return np.clip(values, self.low_, self.high_)

    def _learn(self, values: FloatArray) -> None:
        limits: Any = self.limits
        if isinstance(limits, str):
            if limits != "range":
                raise ValueError(f'limits must be "range" or a positive number; got {limits!r}.')
            self.low_, self.high_ = values.min(axis=0), values.max(axis=0)
            return
        half_range = check_positive("limits", limits) * values.std(axis=0)
        mean = values.mean(axis=0)
        self.low_, self.high_ = mean - half_range, mean + half_range

    def _names_out(self, names: list[str]) -> list[str]:
        return names
