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

Names are looked up when they are first used, in the modules that ``__init__.pyi`` gives: those that need no
JAX do not load it.
"""

import os

from probsfa._lazy import homes_in_stub, looked_up

_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = list(_HOMES)
__getattr__, __dir__ = looked_up(globals(), _HOMES)
