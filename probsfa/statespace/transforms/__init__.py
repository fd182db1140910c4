"""Transforms of columns: positive amounts, percentages, and skewed values.

A Gaussian model can impute negative rain, or humidity above 100 %. With a transform, the model is fitted to
``y = T(x)`` with an increasing ``T``, whose distribution is closer to a Gaussian. The log-likelihood of the
data is that of ``y`` plus ``log T'(x)`` for each observed value. Quantiles of ``x`` are back-transformed
quantiles of ``y``; means and standard deviations are computed by numerical integration.

==================  ======================================================  =================================
kind                ``y``                                                   ``x``
==================  ======================================================  =================================
``"log"``           ``log x``                                               above 0
``"log1p"``         ``log(1 + x)``                                          0 or above
``"sqrt"``          ``sqrt x``                                              0 or above
``"box-cox"``       ``(x^p - 1) / p``, Box & Cox (1964)                     above 0
``"yeo-johnson"``   Box-Cox of ``1 + x``; for negative ``x``, minus         any; Yeo & Johnson (2000)
                    Box-Cox of ``1 - x`` with the power ``2 - p``
``(a, b)``          ``log((x - a) / (b - x))``                              from a to b
``(a, None)``       ``log(x - a)``                                          a or above
``(None, b)``       ``-log(b - x)``                                         b or below
==================  ======================================================  =================================

In the last three kinds ``y`` is infinite at a bound; in ``"sqrt"`` the slope of ``y`` is infinite at 0.
Values closer to the bound than a margin are therefore moved to the margin. The margin is half the smallest
nonzero distance of training values from the bound, within limits. With two bounds, the limits are 0.001 and
0.01 times the distance between the bounds. With one bound, they are 0.001 and 0.05 times the median nonzero
distance of training values from the bound. With ``"log1p"``, ``"sqrt"`` and ``"box-cox"``, a ``y`` below the
range of the transform is back-transformed to zero.
"""

from probsfa.statespace.transforms.argument import make_transforms
from probsfa.statespace.transforms.columns import Transforms
from probsfa.statespace.transforms.maps import Bounds, BoxCox, Log, Log1p, Sqrt, Transform, YeoJohnson
from probsfa.statespace.transforms.serialization import (
    argument_from_json,
    argument_to_json,
    transform_from_list,
)

__all__ = [
    "Bounds",
    "BoxCox",
    "Log",
    "Log1p",
    "Sqrt",
    "Transform",
    "Transforms",
    "YeoJohnson",
    "argument_from_json",
    "argument_to_json",
    "make_transforms",
    "transform_from_list",
]
