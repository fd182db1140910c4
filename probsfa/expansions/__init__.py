"""Nonlinear expansions: transformers whose outputs are the basis functions of a linear method.

Expansions are scikit-learn transformers with ``get_feature_names_out``. An expansion that does not need
``fit`` is *stateless*. The method ``expand`` maps the last axis of an array of any shape, so that a hierarchy
expands all nodes in one call. :class:`DelayEmbedding` combines several rows; use it before an estimator, not
as its expansion.
"""

from probsfa._lazy import deprecated as _deprecated
from probsfa.expansions._base import Expansion as Expansion
from probsfa.expansions._clip import Clip as Clip
from probsfa.expansions._combine import Concatenation as Concatenation
from probsfa.expansions._combine import Identity as Identity
from probsfa.expansions._delay import DelayEmbedding as DelayEmbedding
from probsfa.expansions._fourier import FourierFeatures as FourierFeatures
from probsfa.expansions._polynomial import Polynomial as Polynomial
from probsfa.expansions._power import Power as Power
from probsfa.expansions._radial import RadialBasis as RadialBasis

__all__ = [
    "Clip",
    "Concatenation",
    "DelayEmbedding",
    "Expansion",
    "FourierFeatures",
    "Identity",
    "Polynomial",
    "Power",
    "RadialBasis",
]

__getattr__ = _deprecated(
    __name__,
    {
        "is_stateless": (
            "probsfa.expansions._base:is_stateless",
            "Use Expansion.stateless.",
        )
    },
)
