"""Products of experts: a slow linear model of expanded rows, held to the rows that can be.

Expanded rows ``phi(y)``, such as ``(y, y^2)``, lie on a manifold, and the linear Gaussian model of them puts
most of its mass elsewhere. Turner & Sahani (2007, section 5.3, eq. 29) multiply its density by local experts
that hold the expanded rows to the manifold, up to a width ``beta``. What that leaves is a density of series::

    p(y_1, ..., y_T) = N(phi(y_1), ..., phi(y_T); linear model with noise r + beta^2) / Z

Who calls whom, from the top; nothing calls upwards:

==============  ========================================================================================
``estimator``   ``ProductOfExpertsSFA``: checks its input, calls the functions below, keeps the result
``model``       a fitted model and what is drawn from it
``learning``    contrastive divergence, and the same with chains that go on
``sampling``    Hamiltonian Monte Carlo of cells, and annealed importance sampling of ``Z``
``potential``   the global expert, the expansion with its derivatives, and the log density of some cells
==============  ========================================================================================
"""

from probsfa.extensions.experts.estimator import ProductOfExpertsSFA as ProductOfExpertsSFA
from probsfa.extensions.experts.model import LatentMoments as LatentMoments

__all__ = ["LatentMoments", "ProductOfExpertsSFA"]
