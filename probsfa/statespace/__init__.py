"""The dynamic factor model with AR(1) factors: exact inference, learning, prediction, and the estimator.

The model of Turner & Sahani (2007), with unit stationary variances::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t        a_k in (-1, 1)
    x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

Each module imports only modules that are listed below it (the import contract in ``pyproject.toml``)::

    model_choice                       select_model: number of factors, cycles, smooth factors and noise
    choice/                            candidates of a selection, their fits, and time budget
    estimator                          ProbabilisticSFA: input validation, parameters, scikit-learn API
    methods                            public methods of all probabilistic estimators
    persistence, streaming, progress   files; series that are read in blocks; progress bar
    transformed_model                  a fitted model with transforms and covariates
    default_model                      selection of the model if no options are set
    comparison, residual_structure     comparison of models by held-out values; evidence for cycles
    student_model, outlier_model       fitted models with Student-t noise, and without gross outliers
    noise_free, models                 fitted models in the zero-noise limit, and with Gaussian noise
    noise_free_likelihood              likelihood in the zero-noise limit, with and without edge terms
    fitted_model                       interface of fitted models
    factor_uncertainty                 variances of factors that include parameter uncertainty
    growth                             initial parameters of larger models from smaller ones
    learning/                          maximum likelihood: initial parameters, objectives, optimizers
    diagnostics, advice                tests of the residuals; suggested options
    news, smooth_alternatives          attribution of revisions; smooth factors in place of AR(1) factors
    prediction_errors                  errors of values, rows and blocks that are left out
    filtering                          Kalman filter, and one-step prediction errors
    noise_free_posterior               posterior in the zero-noise limit with missing values
    prediction, summary, timeline      forecasts and imputation; table of parameters; times of forecasts
    whiteness, student                 residual tests; weights of values under Student-t noise
    idiosyncratic_posterior            posterior if AR(1) noise of many columns is integrated out
    engine/                            exact inference for all rows
    innovations, leave_one_out         parameters in the form of the paper; leave-one-out errors
    panel, parameters, columns         observations as arrays; parameters of a model; statistics of columns
    transforms, covariates             transforms of columns; exogenous variables
    processes, noise                   kinds of latent processes; noise distributions
    calibration, quantities            calibration of intervals; names and units of fitted attributes
    held_out_values, gross_outliers    held-out values for the comparison of models; outliers

:mod:`probsfa.bayes` uses the engine directly: the likelihood as a function that JAX can differentiate
(:mod:`probsfa.statespace.engine.likelihood`).
"""

from probsfa._lazy import deprecated
from probsfa.statespace.covariates import calendar_terms as calendar_terms
from probsfa.statespace.covariates import harmonics as harmonics
from probsfa.statespace.covariates import trend as trend
from probsfa.statespace.diagnostics import Diagnostics as Diagnostics
from probsfa.statespace.engine.posterior import Posterior as Posterior
from probsfa.statespace.engine.posterior import use_strategy as use_strategy
from probsfa.statespace.estimator import ProbabilisticSFA as ProbabilisticSFA
from probsfa.statespace.filtering import FilterResult as FilterResult
from probsfa.statespace.filtering import FilterState as FilterState
from probsfa.statespace.innovations import InnovationParameters as InnovationParameters
from probsfa.statespace.learning.standard_errors import StandardErrors as StandardErrors
from probsfa.statespace.learning.standard_errors import TimescaleProfile as TimescaleProfile
from probsfa.statespace.model_choice import ModelSelection as ModelSelection
from probsfa.statespace.model_choice import select_model as select_model
from probsfa.statespace.model_choice import select_n_components as select_n_components
from probsfa.statespace.news import News as News
from probsfa.statespace.noise_free_likelihood import NoiseFreeLogLikelihood as NoiseFreeLogLikelihood
from probsfa.statespace.noise_free_likelihood import noise_free_log_likelihood as noise_free_log_likelihood
from probsfa.statespace.noise_free_likelihood import (
    noise_free_maximum_likelihood as noise_free_maximum_likelihood,
)
from probsfa.statespace.parameters import StateSpace as StateSpace
from probsfa.statespace.parameters import make_parameters as make_parameters
from probsfa.statespace.prediction import Forecast as Forecast
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
    "Posterior",
    "ProbabilisticSFA",
    "StandardErrors",
    "StateSpace",
    "Summary",
    "TimescaleProfile",
    "calendar_terms",
    "harmonics",
    "make_parameters",
    "noise_free_log_likelihood",
    "noise_free_maximum_likelihood",
    "select_model",
    "select_n_components",
    "trend",
    "use_strategy",
]

_INTERNAL = "It is internal. noise_free_log_likelihood validates parameters."
__getattr__ = deprecated(
    __name__,
    {
        "load": ("probsfa:load", "Use probsfa.load."),
        "Selection": (
            "probsfa.statespace.model_choice:ModelSelection",
            "Use probsfa.statespace.ModelSelection.",
        ),
        "Parameters": ("probsfa.statespace.parameters:StateSpace", "Use probsfa.statespace.StateSpace."),
        "innovation_parameters": ("probsfa.statespace.innovations:innovation_parameters", _INTERNAL),
        "make_innovation_parameters": (
            "probsfa.statespace.innovations:make_innovation_parameters",
            _INTERNAL,
        ),
    },
)
