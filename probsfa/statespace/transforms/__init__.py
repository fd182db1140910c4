"""Columns in their own scale: amounts that are never negative, percentages, and what is skewed.

A model of Gaussian columns fills rain below zero and humidity above 100. A column may be taken in a scale of
its own instead, ``y = T(x)`` with an increasing ``T``, in which it is closer to Gaussian and knows no bounds.
The log-likelihood of the data is that of ``y`` plus ``log T'(x)`` for each observed cell. A Gaussian of ``y``
comes back as a distribution of ``x`` whose quantiles are those of ``y``, mapped, and whose mean and standard
deviation are integrals.

==================  ======================================================  =================================
kind                ``y``                                                   ``x``
==================  ======================================================  =================================
``"log"``           ``log x``                                               above 0
``"log1p"``         ``log(1 + x)``                                          0 or above
``"sqrt"``          ``sqrt x``                                              0 or above
``"box-cox"``       ``(x^p - 1) / p``, Box & Cox (1964)                     above 0
``"yeo-johnson"``   the same of ``1 + x``, and mirrored of ``1 - x``        any; Yeo & Johnson (2000)
``(a, b)``          ``log((x - a) / (b - x))``                              from a to b
``(a, None)``       ``log(x - a)``                                          a or above
``(None, b)``       ``-log(b - x)``                                         b or below
==================  ======================================================  =================================

Values on a bound have no finite ``y`` in the last three, and no finite slope in ``"sqrt"``: those that are
closer to it than a margin are taken to be as far from it as the margin. That is half the distance of the
closest training value that is off the bound, but a thousandth of the range at least, and a hundredth at most
(of the median distance, where there is one bound, a thousandth and a twentieth). What comes back below the
range of ``"log1p"``, ``"sqrt"`` and ``"box-cox"`` is zero.
"""

from probsfa.statespace.transforms.asked import make_transforms
from probsfa.statespace.transforms.columns import Transforms
from probsfa.statespace.transforms.maps import Bounds, BoxCox, Log, Log1p, Sqrt, Transform, YeoJohnson
from probsfa.statespace.transforms.plain import as_asked, as_plain, from_plain

__all__ = [
    "Bounds",
    "BoxCox",
    "Log",
    "Log1p",
    "Sqrt",
    "Transform",
    "Transforms",
    "YeoJohnson",
    "as_asked",
    "as_plain",
    "from_plain",
    "make_transforms",
]
