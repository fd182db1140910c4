"""The Bayesian factorial AR(1) model: a NumPyro distribution, models and priors, and the estimator.

The model is that of :mod:`probsfa.statespace`, with priors on its parameters::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t      a_k = exp(-1 / timescale_k)
    x_t = mu + C z_t + n_t,   n_t ~ N(0, diag(r))
    timescale, C, sqrt(r), mu ~ priors                                  in units of the standardized data

The latent factors are integrated out, so that only the parameters are sampled. For each draw of the
parameters the posterior of the factors is exact, and predictions are mixtures over draws.

Modules from the top down; each imports only modules below it:

==================  ====================================================================================
``estimator``       ``BayesianSFA``: validates its input, calls the functions below, stores the result
``fitted_model``    predictions of a fit, with the methods that all models of the package have
``inference_data``  results of a fit for ArviZ
``diagnostics``     convergence diagnostics of a fit, and messages for users
``predictive``      factors, missing values, forecasts and draws from a fit
``filtering``       factors given the rows up to the current one
``persistence``     saving and loading of a fit
``reparam``         the coordinates of the sampler, for NumPyro models that users write
``settings``        validation of the parameters of the estimator
``fitting``         a complete fit: start, coordinates, sampling, relabelling
``mixtures``        mean, covariance and quantiles of mixtures over draws
``weights``         draws of the weights of values under Student-t noise
``conditional``     observations minus the effects of covariates, for each draw
``convergence``     R-hat and effective sample sizes of chains
``modes``           further maxima of the posterior density
``start``           the maximum of the likelihood
``fitted``          the result of a fit
``relabelling/``    one labelling of the factors for all draws
``sampling/``       maximum a posteriori (``laplace``), NUTS, variational inference, Gibbs sampling
``packing``         data as arrays of the model, and parameters as values of its sites
``coordinates/``    the log density as a function of one vector of unconstrained parameters (``target``)
``structural``      the NumPyro model with other processes and AR(1) noise
``draws``           posterior draws of the parameters
``kinds``           the sites of each kind of process
``model``           the NumPyro model of AR(1) factors and white noise
``distribution``    the distribution of a series given the parameters
``priors``          prior distributions of the parameters
``tracing``         a lock and a workaround for tracing NumPyro's programs
``_loading``        import of NumPyro before its submodules
==================  ====================================================================================
"""

from probsfa._lazy import deprecated as _deprecated
from probsfa.bayes import _loading as _loading
from probsfa.bayes.distribution import FactorialAR1 as FactorialAR1
from probsfa.bayes.estimator import BayesianSFA as BayesianSFA
from probsfa.bayes.filtering import BayesianFilterResult as BayesianFilterResult
from probsfa.bayes.filtering import BayesianFilterState as BayesianFilterState
from probsfa.bayes.model import factorial_ar1_model as factorial_ar1_model
from probsfa.bayes.predictive import BayesianForecast as BayesianForecast
from probsfa.bayes.priors import Priors as Priors
from probsfa.bayes.relabelling.matching import relabel as relabel
from probsfa.bayes.reparam import FactorialAR1Reparam as FactorialAR1Reparam

__all__ = [
    "BayesianFilterResult",
    "BayesianFilterState",
    "BayesianForecast",
    "BayesianSFA",
    "FactorialAR1",
    "FactorialAR1Reparam",
    "Priors",
    "factorial_ar1_model",
    "relabel",
]

__getattr__ = _deprecated(
    __name__,
    {
        "SharedScaleNormal": (
            "probsfa.bayes.priors:SharedScaleNormal",
            "Use the parameter shrinkage of Priors.",
        )
    },
)
