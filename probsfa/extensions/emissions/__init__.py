"""Cells that are not Gaussian: counts, zeros and ones, categories, and noise with heavy tails.

The latents are those of :mod:`probsfa.statespace`, and so is the engine. What is other is the likelihood of a
cell, of which a Gaussian site takes the place::

    x_td ~ p(. | eta_td, shape_d),      eta_t = mu + C z_t

Who calls whom, from the top; nothing calls upwards:

================  ======================================================================================
``estimator``     ``EmissionSFA``: checks its input, calls the functions below, keeps the result
``model``         a fitted model and its verbs; a whole fit
``filtering``     row by row, each given those before it
``prediction``    from the latents to the cells of users: means, quantiles, probabilities, draws
``start``         starting point: the Gaussian model of transformed values, such as roots of counts
``learning``      maximization of the lower bound over parameters, with sites updated at each step
``columns``       columns of users as cells: what they may hold, their units, levels as zeros and ones
``sites``         the Gaussian distribution of the latents with the highest lower bound
``families``      expected log densities of cells with their derivatives; moments, quantiles, draws
``links``         the same for numbers about a learned function of their predictor
``family``        what each of these must be able to say
``quadrature``    Gauss and Hermite's rule
================  ======================================================================================
"""

from probsfa.extensions.emissions.estimator import EmissionSFA as EmissionSFA
from probsfa.extensions.emissions.filtering import EmissionFilter as EmissionFilter
from probsfa.extensions.emissions.prediction import EmissionForecast as EmissionForecast

__all__ = ["EmissionFilter", "EmissionForecast", "EmissionSFA"]
