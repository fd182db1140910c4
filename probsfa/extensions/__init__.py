"""Extensions of slow feature analysis, and methods for comparison, with the API of this package.

Models beyond the linear Gaussian one, and methods of dimensionality reduction that ignore the order of rows:

===================  ==============================================================================
``emissions/``       ``EmissionSFA``: counts, binary and categorical values, heavy-tailed noise
``bilinear/``        ``BilinearSFA``: binary "what" chains gate continuous "where" factors
``experts/``         ``ProductOfExpertsSFA``: a density of expanded rows, restricted to a manifold
``principal_curve``  ``PrincipalCurve``: principal curves and surfaces
``autoencoder``      ``LinearAutoencoder``, ``Autoencoder``: encoder and decoder
===================  ==============================================================================

Names are imported at first use from the modules in ``__init__.pyi``; JAX is imported only if it is needed.
"""

import os

from probsfa._lazy import import_name, modules_in_stub

_MODULES = modules_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = list(_MODULES)
__getattr__, __dir__ = import_name(globals(), _MODULES)
