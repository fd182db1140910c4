"""The Bayesian factorial AR(1) model: a NumPyro distribution, models and priors, and the estimator."""

from probsfa.bayes import _loading as _loading
from probsfa.bayes.distribution import FactorialAR1 as FactorialAR1
from probsfa.bayes.estimator import BayesianForecast as BayesianForecast
from probsfa.bayes.estimator import BayesianSFA as BayesianSFA
from probsfa.bayes.model import factorial_ar1_model as factorial_ar1_model
from probsfa.bayes.priors import Priors as Priors
from probsfa.bayes.priors import SharedScaleNormal as SharedScaleNormal
from probsfa.bayes.relabelling.matching import relabel as relabel

__all__ = [
    "BayesianForecast",
    "BayesianSFA",
    "FactorialAR1",
    "Priors",
    "SharedScaleNormal",
    "factorial_ar1_model",
    "relabel",
]
