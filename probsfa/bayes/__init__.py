"""The Bayesian factorial AR(1) model: a NumPyro distribution, models and priors, and the estimator.

The model is that of :mod:`probsfa.statespace`, with priors on its parameters::

    z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t      a_k = exp(-1 / timescale_k)
    x_t = mu + C z_t + n_t,   n_t ~ N(0, diag(r))
    timescale, C, sqrt(r), mu ~ priors                                  in units of the standardized data

The latent factors are integrated out, so that only the parameters are sampled. For each draw of the
parameters the posterior of the factors is exact, and predictions are mixtures over draws.

Modules from the top down; each imports only modules below it:

========================  ==============================================================================
``estimator``             ``BayesianSFA``: validates its input, calls the functions below, stores the result
``reparam``               the coordinates of the sampler, for NumPyro models that users write
``fitted_model``          the posterior of a fit as a model with the methods of all estimators
``inference_data``        a fit as a tree for ArviZ
``diagnostics``           measures of a fit and messages for users; ``convergence``:
                          R-hat and effective sample sizes of chains
``predictive``            factors, missing values, forecasts and draws from a fit; ``filtering``: factors
                          given the rows up to the current one
``persistence``           saving and loading of a fit
``mixtures``              mean, covariance and quantiles of mixtures over draws; ``weights`` of values
``conditional``           observations minus the effects of covariates, for each draw
``fitting``               a complete fit, in the order of the lines below; ``fitted``: its result
``start``                 the maximum of the likelihood; ``modes``: further maxima of the posterior density
``relabelling/``          one labelling for all draws: ``matching`` of one draw to a reference, the
                          ``labelling`` of a maximum, canonical ``ordering``
``sampling/``             ``laplace``: maximum a posteriori and its curvature; ``nuts`` and ``variational``
                          sample in coordinates whitened by it, the latter around each of the ``modes``;
                          ``gibbs`` under Student-t noise; ``importance`` weights;
                          ``evaluation`` of the density on all cores
``coordinates/``          ``target``: the log density as a function of the unconstrained parameters. The
                          ``chart`` of the data: ``rotation`` of factors, ``offset_scale``. ``symmetry``:
                          selection of one of the equivalent modes. ``batches``: parameters at many vectors
``packing``, ``draws``    data in the format of the model; draws of its parameters
``model``                 the NumPyro model: ``priors``, and ``distribution`` of a series given parameters
``structural``            the NumPyro model with other processes and AR(1) noise; ``kinds``: the sites of
                          each kind of process
``tracing``               a lock and a workaround for tracing NumPyro's programs
========================  ==============================================================================
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
