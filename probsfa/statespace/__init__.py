"""The factorial AR(1) state-space model: exact inference, learning, prediction, and its estimator.

The model of Turner & Sahani (2007), with unit stationary variances::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t        a_k in (-1, 1)
    x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

Who calls whom, from the top down; nothing imports upwards::

    selection, model_choice            how many latents, and which
    choice/                            candidates, rounds of fits and a budget of time, for these
    estimator                          ProbabilisticSFA: checks its input, keeps its parameters, calls these
    methods                            the public methods of all probabilistic estimators
    growth, hidden_cells               larger models from smaller ones; what hidden cells say of models
    persistence, streaming, progress   files; series that are read block by block; a bar
    mapped                             a fitted model about columns in their own scale, with covariates
    student_model                      the same with Student-t noise
    models, noise_free                 a fitted model and its methods, with noise and in the limit of none
    fitted_model                       the methods that fitted models have in common
    learning/                          maximum likelihood: starts, objectives, climbs, standard errors
    diagnostics                        whether a model fits, by the tests of whiteness
    filtering, prediction, simulation  what these methods compute, as functions
    summary                            the table of the parameters
    noise_free_gaps                    the limit of no noise, where cells are missing
    noise_free_likelihood              the likelihood of that limit, with its edge terms and without
    student, suspects                  weights of cells under Student-t noise; outliers of Gaussian fits
    posterior                          asks the engine, for all of these
    engine/                            exact inference over rows, by the strategy that serves
    innovations                        the parameters as the paper writes them, and the way there and back
    panel, parameters, columns         packed observations; decays, loadings, noise, offset; units of columns
    transforms, covariates             scales of columns; known inputs
    neighbours                         cells beside those that are nearest in time

Samplers alone go to the engine directly, by the likelihood as a function that JAX can differentiate
(:mod:`probsfa.statespace.engine.likelihood`).
"""

from probsfa.statespace.covariates import calendar_terms as calendar_terms
from probsfa.statespace.covariates import harmonics as harmonics
from probsfa.statespace.covariates import trend as trend
from probsfa.statespace.diagnostics import Diagnostics as Diagnostics
from probsfa.statespace.engine.choose import use_strategy as use_strategy
from probsfa.statespace.estimator import ProbabilisticSFA as ProbabilisticSFA
from probsfa.statespace.estimator import load as load
from probsfa.statespace.filtering import FilterResult as FilterResult
from probsfa.statespace.filtering import FilterState as FilterState
from probsfa.statespace.innovations import InnovationParameters as InnovationParameters
from probsfa.statespace.innovations import innovation_parameters as innovation_parameters
from probsfa.statespace.innovations import make_innovation_parameters as make_innovation_parameters
from probsfa.statespace.learning.profile import TimescaleProfile as TimescaleProfile
from probsfa.statespace.learning.standard_errors import StandardErrors as StandardErrors
from probsfa.statespace.model_choice import ModelSelection as ModelSelection
from probsfa.statespace.model_choice import select_model as select_model
from probsfa.statespace.news import News as News
from probsfa.statespace.noise_free_likelihood import NoiseFreeLogLikelihood as NoiseFreeLogLikelihood
from probsfa.statespace.noise_free_likelihood import noise_free_log_likelihood as noise_free_log_likelihood
from probsfa.statespace.noise_free_likelihood import (
    noise_free_maximum_likelihood as noise_free_maximum_likelihood,
)
from probsfa.statespace.parameters import Parameters as Parameters
from probsfa.statespace.parameters import make_parameters as make_parameters
from probsfa.statespace.posterior import Posterior as Posterior
from probsfa.statespace.prediction import Forecast as Forecast
from probsfa.statespace.selection import Selection as Selection
from probsfa.statespace.selection import select_n_components as select_n_components
from probsfa.statespace.summary import Summary as Summary

__all__ = [
    "Diagnostics",
    "FilterResult",
    "FilterState",
    "Forecast",
    "InnovationParameters",
    "ModelSelection",
    "News",
    "NoiseFreeLogLikelihood",
    "Parameters",
    "Posterior",
    "ProbabilisticSFA",
    "Selection",
    "StandardErrors",
    "Summary",
    "TimescaleProfile",
    "calendar_terms",
    "harmonics",
    "innovation_parameters",
    "load",
    "make_innovation_parameters",
    "make_parameters",
    "noise_free_log_likelihood",
    "noise_free_maximum_likelihood",
    "select_model",
    "select_n_components",
    "trend",
    "use_strategy",
]
