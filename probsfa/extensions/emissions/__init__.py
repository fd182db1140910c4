"""Non-Gaussian observations: counts, binary and categorical values, and heavy-tailed noise.

The latent factors and the engine are those of :mod:`probsfa.statespace`. Only the likelihood of a value
differs: with the predictor ``eta``, which is linear in the factors ``z``, it is ::

    x_td ~ p(. | eta_td, shape_d),      eta_t = mu + C z_t

A Gaussian pseudo-observation of ``eta_td`` (a site) approximates the likelihood of each value.

Modules from the top down; each imports only from those below it:

================  ======================================================================================
``estimator``     ``EmissionSFA``: checks its input, calls the functions below, stores the result
``model``         a fitted model and its methods; the complete fit
``filtering``     filter: latent factors given the rows up to each row
``prediction``    from latent factors to values in data units: means, quantiles, probabilities, draws
``start``         starting point: the Gaussian model of transformed values, such as roots of counts
``learning``      maximization of the lower bound over parameters, with sites updated at each step
``columns``       encoding of user columns: valid values, units, levels as zeros and ones
``sites``         inference: the Gaussian posterior of the latent factors with the largest lower bound
``families``      expected log densities of values with their derivatives; moments, quantiles, draws
``links``         families with a learned nonlinear function of the predictor plus Gaussian noise
``family``        interface of families and links
``quadrature``    Gauss-Hermite quadrature
================  ======================================================================================
"""

from probsfa.extensions.emissions.estimator import EmissionSFA as EmissionSFA
from probsfa.extensions.emissions.filtering import EmissionFilter as EmissionFilter
from probsfa.extensions.emissions.prediction import EmissionForecast as EmissionForecast

__all__ = ["EmissionFilter", "EmissionForecast", "EmissionSFA"]
