"""Products of experts: a linear state-space model of expanded rows, restricted to their manifold.

Expanded rows ``phi(y)``, such as ``(y, y^2)``, lie on a manifold. A linear Gaussian model of expanded rows
has most of its probability mass outside this manifold. Turner & Sahani (2007, section 5.3, eq. 29) therefore
multiply the linear Gaussian density (the global expert) by local experts, narrow densities of width ``beta``
around the manifold. The result is a density of series::

    p(y_1, ..., y_T) = N(phi(y_1), ..., phi(y_T); linear model with noise r + beta^2) / Z

Modules from the top down; each imports only modules below it:

=================  =====================================================================================
``estimator``      ``ProductOfExpertsSFA``: validates its input, calls the functions below, stores the
                   result
``sampled_model``  methods of a fitted model: moments over draws
``model``          a fitted model and draws from it
``linear_rows``    linear Gaussian model of the rows, the start of annealed importance sampling
``learning``       contrastive divergence, also with persistent chains
``sampling``       Hamiltonian Monte Carlo of values, and annealed importance sampling of ``Z``
``potential``      the global expert, the expansion with its derivatives, and the log density of free values
=================  =====================================================================================
"""

from probsfa.extensions.experts.estimator import ProductOfExpertsSFA as ProductOfExpertsSFA
from probsfa.extensions.experts.model import LatentMoments as LatentMoments

__all__ = ["LatentMoments", "ProductOfExpertsSFA"]
