"""Extensions of slow feature analysis, and what it is compared with, in the contract of this package.

Models beyond the linear Gaussian one, and methods that represent rows by a few coordinates without regard to
time:

========================  ==============================================================================
``emissions/``            ``EmissionSFA``: counts, zeros and ones, categories, and noise with heavy tails
``bilinear/``             ``BilinearSFA``: binary "what" chains gate continuous "where" latents
``experts/``              ``ProductOfExpertsSFA``: expanded rows held to the rows that can be
``principal_curve``       ``PrincipalCurve``: curves and surfaces through the middle of the rows
``autoencoder``           ``LinearAutoencoder``, ``Autoencoder``: an encoder learned with its decoder
``principal_components``  ``PCA``, with the number of components that leaves a given part of the risk
========================  ==============================================================================

Names are looked up when they are first used: those that need no JAX do not load it.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probsfa.extensions.autoencoder import Autoencoder as Autoencoder
    from probsfa.extensions.autoencoder import LinearAutoencoder as LinearAutoencoder
    from probsfa.extensions.bilinear import BilinearSFA as BilinearSFA
    from probsfa.extensions.emissions import EmissionSFA as EmissionSFA
    from probsfa.extensions.experts import ProductOfExpertsSFA as ProductOfExpertsSFA
    from probsfa.extensions.principal_components import PCA as PCA
    from probsfa.extensions.principal_curve import PrincipalCurve as PrincipalCurve

_HOMES = {
    "Autoencoder": "autoencoder",
    "BilinearSFA": "bilinear",
    "EmissionSFA": "emissions",
    "LinearAutoencoder": "autoencoder",
    "PCA": "principal_components",
    "PrincipalCurve": "principal_curve",
    "ProductOfExpertsSFA": "experts",
}

__all__ = [
    "PCA",
    "Autoencoder",
    "BilinearSFA",
    "EmissionSFA",
    "LinearAutoencoder",
    "PrincipalCurve",
    "ProductOfExpertsSFA",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'probsfa.extensions' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"probsfa.extensions.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
