"""Bayesian slow feature analysis as a scikit-learn estimator."""

import sys
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from probsfa._random import generator
from probsfa._renamed import warn_of_old_name
from probsfa._saving import Saveable
from probsfa._times import describe_index
from probsfa._typing import Seed
from probsfa._validation import check_sequences
from probsfa.bayes import inference_data, persistence
from probsfa.bayes.diagnostics import FitReport, relabelling_sentence, report
from probsfa.bayes.draws import posterior_mean, timescales
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.fitted_model import BayesianModel
from probsfa.bayes.fitting import InferenceSettings, ModelSettings, fit_posterior
from probsfa.bayes.predictive import (
    BayesianForecast,
)
from probsfa.bayes.priors import Priors
from probsfa.bayes.sampling.nuts import SamplerSettings
from probsfa.bayes.settings import (
    check_covariates,
    check_settings,
    default_n_components,
    raise_not_supported,
)
from probsfa.statespace.covariates import covariate_names, with_exog
from probsfa.statespace.methods import StateSpaceMethods

__all__ = ["BayesianForecast", "BayesianSFA"]

# Draws of each chain with n_draws="auto": before the first test of convergence, and at most. On 100 rows with
# a superfluous factor R-hat was up to 1.011 after 1000 draws.
_N_DRAWS, _MAX_DRAWS = 1000, 4000


class BayesianSFA(Saveable, StateSpaceMethods):
    """Bayesian dynamic factor model: posterior of time scales, loadings, noise, factors and missing values.

    The model is that of :class:`probsfa.ProbabilisticSFA` with priors on the parameters. Factors and missing
    values are integrated out exactly, and the parameters are sampled by NUTS or approximated by variational
    inference. Predictions include the uncertainty of the parameters.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of AR(1) factors. None selects a number from the size of the data; `status_` reports it.
    noise : {"diagonal", "isotropic", "ar1"}, float or array-like (D,), default="diagonal"
        Observation noise: one variance for each column, one variance for all columns, or known variances in
        squared data units. ``"ar1"`` adds AR(1) noise to each column.
    priors : Priors or None, default=None
        Priors, in units of the sampling step and of the standard deviation of each column and covariate.
    inference : {"nuts", "svi"}, default="nuts"
        No-U-Turn sampler; or variational inference, which takes seconds, by a Gaussian with full covariance,
        corrected by importance weights. If its four starts end in different modes, the result is a mixture.
    n_warmup, n_chains : int, default=500, 4
        Warm-up iterations of each chain (for NUTS rounded up to a multiple of 75, at least 150), and number
        of chains.
    n_draws : int or "auto", default="auto"
        Draws of each chain. ``"auto"`` is 1000, and NUTS continues chains that have not converged up to 4000
        draws. ``"svi"`` gives one chain of ``n_draws * n_chains`` draws.
    chain_method : {"auto", "vectorized", "parallel", "sequential"}, default="auto"
        How chains run. ``"auto"`` is ``"parallel"`` (threads) on CPUs and ``"vectorized"`` on accelerators.
    target_accept : float, default=0.8
        Target acceptance probability of NUTS; increase it after divergences.
    max_tree_depth : int, default=10
        Logarithm, to the base 2, of the maximum number of leapfrog steps of a NUTS trajectory.
    n_steps_svi : int, default=100
        Number of variational steps from each start.
    hierarchical : bool, default=False
        Whether each sequence of a list has its own noise variances; all other parameters are shared.
    robust : bool, default=False
        Student-t noise with a weight for each value. Gibbs sampling replaces NUTS. Requires normal priors of
        loadings and offset, ``inference="nuts"`` and ``hierarchical=False``.
    rhythms, smooth : int, default=0
        Numbers of stochastic cycles and of smooth factors, in addition to the AR(1) factors.
    smoothness : {1.5, 2.5}, default=1.5
        Smooth factors are Matern-3/2 or Matern-5/2 processes.
    trend : {0, "level", "linear"}, default=0
        A random walk, or a local linear trend, with a diffuse start.
    standardize : bool, default=True
        Whether priors are in units of the standard deviation of each column, instead of data units.
    n_predictive : int, default=200
        Number of draws over which predictions are averaged.
    verbose : bool, default=True
        Show progress on standard error.
    random_state : int, Generator or None, default=None
        Seed or generator of random numbers.
    **unsupported
        Parameters of other estimators raise a TypeError with the alternative.

    Attributes
    ----------
    draws_, raw_draws_ : Draws
        Posterior draws in data units, relabelled and as sampled: ``decay`` (chain, draw, K), ``loadings``
        (chain, draw, D, K), ``noise_variance`` and ``offset`` (chain, draw, D), ``exog_coef`` (chain, draw,
        D, P), and parameters of other processes, named as in :class:`probsfa.statespace.StateSpace`.
    params_, map_ : StateSpace
        Posterior means, and the maximum of the posterior density of the unconstrained parameters; with
        `robust`, the maximum of a lower bound of the likelihood.
    decay_, timescales_, loadings_, noise_variance_, mean_ : ndarray
        Posterior means (of time scales: medians), slowest factor first.
    exog_coef_, exog_names_ : ndarray (D, P), (P,)
        With `exog`: posterior means of regression coefficients, and names of covariates.
    degrees_of_freedom_ : float
        Posterior mean, with `robust`.
    time_unit_, time_unit_seconds_ : float
        Time step of `decay_`: one row, or the median step of `times`; the same in seconds, if known.
    inference_data_ : arviz.InferenceData or xarray.DataTree
        Results for ArviZ, made on first access; see :meth:`to_datatree`.
    diagnostics_ : dict
        ``"rhat"``, ``"ess"`` (bulk) and ``"ess_tail"`` of all parameters, as in ArviZ; ``"divergences"``.
        With ``"svi"`` the tail index ``"pareto_k"`` of the importance weights, above 0.7 for a poor
        approximation; and ``"mode_shares"`` (shares of draws) and ``"mode_bounds"`` (ELBO) of the modes.
    converged_, status_ : bool, str
        Whether R-hat is at most 1.01 and effective sample sizes at least 400 (with ``"svi"``: the tail index
        at most 0.7); how the fit ended and what to try.
    elbo_ : ndarray
        Evidence lower bound (ELBO) at each step, with ``"svi"``.
    sample_stats_ : dict of ndarray (chain, draw)
        Statistics of NUTS for each draw, such as ``"diverging"`` and ``"n_steps"``; with `robust` only
        ``"log_density_given_latents"``; empty with ``"svi"``.
    relabelling_ : str
        How draws were relabelled.
    fitted_ : FittedPosterior
        Draws, training data and units of the fit, for internal use.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.ProbabilisticSFA : The same model by maximum likelihood.
    probsfa.bayes.Priors : The priors.
    probsfa.bayes.factorial_ar1_model : The NumPyro model.

    Notes
    -----
    The posterior does not change if factors are permuted or change sign. Draws are therefore relabelled to be
    closest to `map_`. Several cycles or smooth factors are not permuted. Decays are positive. Columns of
    `transform` are the AR(1) factors, then the states of other processes.

    With `robust`, `log_likelihood` and `score` are lower bounds, `filter` is approximate, and log densities
    of rows in `posterior` are NaN. `robust` and `hierarchical` cannot be combined with ``noise="ar1"``,
    `rhythms`, `smooth` or `trend`.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022.
    Hoffman & Gelman (2014), Journal of Machine Learning Research 15:1593.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> model.draws_.loadings.shape, model.transform(X).shape
    ((1, 4000, 3, 1), (100, 1))
    """

    _unsupported: ClassVar[Mapping[str, str]] = {
        "lower_bound": "use log_likelihood, which with robust=True returns a lower bound.",
        "standard_errors": "use the posterior standard deviations of draws_ or summary().",
        "profile_timescale": "use posterior quantiles of draws_ or summary().",
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: str | float | ArrayLike = "diagonal",
        priors: Priors | None = None,
        inference: str = "nuts",
        n_warmup: int = 500,
        n_draws: int | str = "auto",
        n_chains: int = 4,
        chain_method: str = "auto",
        target_accept: float = 0.8,
        max_tree_depth: int = 10,
        n_steps_svi: int = 100,
        hierarchical: bool = False,
        robust: bool = False,
        rhythms: int = 0,
        smooth: int = 0,
        smoothness: float = 1.5,
        trend: int | str = 0,
        standardize: bool = True,
        n_predictive: int = 200,
        verbose: bool = True,
        random_state: Seed = None,
        **unsupported: Any,
    ) -> None:
        if "progress_bar" in unsupported:
            verbose = unsupported.pop("progress_bar")
            warn_of_old_name("BayesianSFA(progress_bar=...)", "verbose=..., as in all estimators")
        raise_not_supported("BayesianSFA", unsupported)
        self.n_components = n_components
        self.noise = noise
        self.priors = priors
        self.inference = inference
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.chain_method = chain_method
        self.target_accept = target_accept
        self.max_tree_depth = max_tree_depth
        self.n_steps_svi = n_steps_svi
        self.hierarchical = hierarchical
        self.robust = robust
        self.rhythms = rhythms
        self.smooth = smooth
        self.smoothness = smoothness
        self.trend = trend
        self.standardize = standardize
        self.n_predictive = n_predictive
        self.verbose = verbose
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Draw from the posterior of the parameters.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence, for uneven sampling; by default those of
            the index of a pandas DataFrame, as for :class:`probsfa.ProbabilisticSFA`.
        exog : array-like or DataFrame (T, P), or list of them, optional
            Covariates of the rows, without missing values; a DataFrame may have further rows. Their
            coefficients are sampled with the other parameters. Not supported with `robust`.

        Returns
        -------
        BayesianSFA
            The fitted estimator. After an interrupt from the keyboard it has the draws so far, and `status_`
            reports it.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.

        Warns
        -----
        ConvergenceWarning
            If chains do not agree, draws are few, or the Gaussian approximation is poor; `status_` reports
            what to try.
        UserWarning
            If two time scales are too close to distinguish the factors.
        """
        check_settings(self)
        sequences = check_sequences(
            self, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
        )
        if self.hierarchical and len(sequences.lengths) < 2:
            raise ValueError(
                "hierarchical=True requires several sequences, as a list or by lengths; got one."
            )
        exog_names: tuple[str, ...] = ()
        if exog is not None:
            exog_names = covariate_names(exog)
            sequences, _ = with_exog(sequences, X, exog, exog_names)
            check_covariates(self, sequences, exog_names)
        n_components = self.n_components
        if n_components is None:
            n_components = default_n_components(sequences, self.inference)
        fitted = fit_posterior(
            sequences,
            inference_data.time_index(X, sequences, times),
            ModelSettings(
                n_components,
                self.noise,
                self.priors,
                self.hierarchical,
                self.standardize,
                bool(self.robust),
                int(self.rhythms),
                int(self.smooth),
                float(self.smoothness),
                self.trend,
            ),
            InferenceSettings(
                self.inference,
                *((_N_DRAWS, _MAX_DRAWS) if isinstance(self.n_draws, str) else (self.n_draws, self.n_draws)),
                self.n_chains,
                SamplerSettings(self.n_warmup, self.target_accept, self.max_tree_depth),
                self.chain_method,
                self.n_steps_svi,
            ),
            generator(self.random_state),
            self._progress_bar,
            exog_names,
        )
        outcome = report(fitted)
        if self.n_components is None:
            status = f"{outcome.status} n_components=None selected {n_components} latent factors."
            outcome = outcome._replace(status=status)
        self._set_fitted(fitted, outcome)
        if not outcome.converged:
            warnings.warn(outcome.status, ConvergenceWarning, stacklevel=2)
        for warning in outcome.identifiability_warnings:
            warnings.warn(warning, UserWarning, stacklevel=2)
        return self

    def _set_fitted(self, fitted: FittedPosterior, outcome: FitReport) -> None:
        """Set the fitted attributes."""
        self.fitted_ = fitted
        self.raw_draws_, self.draws_ = fitted.raw_draws, fitted.draws
        self.map_ = fitted.maximum
        self.params_ = posterior_mean(fitted.draws)
        self.decay_, self.loadings_ = self.params_.decay, self.params_.loadings
        self.noise_variance_, self.mean_ = self.params_.noise_variance, self.params_.offset
        for name in ("exog_coef_", "exog_names_"):
            self.__dict__.pop(name, None)
        if fitted.exog_names:
            self.exog_coef_ = np.mean(fitted.draws.exog_coef, axis=(0, 1))
            self.exog_names_ = np.array(fitted.exog_names, dtype=object)
        self.time_unit_ = fitted.units.time_unit
        self.time_unit_seconds_ = fitted.sequences.axis.seconds(self.time_unit_)
        self.timescales_ = np.median(timescales(fitted.draws, self.time_unit_), axis=(0, 1))
        self.relabelling_ = relabelling_sentence(fitted)
        self.sample_stats_ = fitted.inferred.sample_stats
        self.__dict__.pop("elbo_", None)
        if fitted.inferred.elbo is not None:
            self.elbo_ = fitted.inferred.elbo
        self.__dict__.pop("degrees_of_freedom_", None)
        if fitted.degrees is not None:
            self.degrees_of_freedom_ = float(np.mean(fitted.degrees))
        self.diagnostics_, self.converged_ = outcome.diagnostics, outcome.converged
        self.status_ = outcome.status + describe_index(fitted.sequences.axis, self.time_unit_)
        self._tree: Any = None

    @property
    def _model(self) -> BayesianModel:
        return BayesianModel(self.fitted_, self.n_predictive)

    # --------------------------------------------------------------------- ArviZ

    @property
    def inference_data_(self) -> Any:
        """Results for ArviZ, in the format of the installed version."""
        return inference_data.for_arviz(self.to_datatree())

    def to_datatree(self) -> Any:
        """Return all results as an ``xarray.DataTree``, with named dimensions and coordinates.

        Returns
        -------
        xarray.DataTree
            - ``posterior``: relabelled draws in data units: ``timescale``, ``decay``, ``loadings``,
              ``noise_std``, ``noise_variance``, ``offset``, ``exog_coef``, and the parameters of cycles,
              smooth factors and trends; ``posterior_raw``: the same before relabelling;
            - ``posterior_predictive``: ``observations`` and ``latents``, drawn given the data;
              ``observed_values``, where each value is drawn given all others;
            - ``log_likelihood``: the log density of each row given the rows before it (``observations``),
              and of each value given all other values (``observed_values``);
            - ``prior``, ``prior_predictive``, ``sample_stats``, ``observed_data``, ``constant_data``.

            Rows have the time index of the data, and factors are ordered from the slowest. Some models lack
            groups:

            ========================================  =======================================================
            with                                      groups and variables that are absent
            ========================================  =======================================================
            ``inference="svi"``                       ``sample_stats``
            ``robust=True``                           ``log_likelihood``, ``prior_predictive``,
                                                      ``observed_values``
            other processes or ``noise="ar1"``        ``prior``, ``prior_predictive``
            ========================================  =======================================================

        Notes
        -----
        Leave-one-out cross-validation requires the log density of each value given all others (Buerkner,
        Gabry & Vehtari 2021). It is in ``observed_values``: ``arviz.loo(idata, var_name="observed_values")``,
        and ``arviz.plot_loo_pit(idata, y="observed_values")`` or, from ArviZ 1 on,
        ``arviz.plot_loo_pit(idata, var_names=["observed_values"])``. ``observations`` has log densities of
        one-step predictions instead.
        """
        check_is_fitted(self)
        if self._tree is None:
            self._tree = inference_data.build_tree(self.fitted_, self.n_predictive, self.status_)
        return self._tree

    # ------------------------------------------------------------------- storage

    def _to_arrays(self) -> dict[str, Any]:
        """Return the fit as numbers, texts and arrays for a file."""
        names = getattr(self, "feature_names_in_", None)
        return persistence.to_arrays(self.fitted_, self.get_params(deep=False), names)

    @classmethod
    def _from_arrays(cls, state: dict[str, Any]) -> Self:
        """Return the estimator from the values of :meth:`_to_arrays`."""
        fitted, options = persistence.from_arrays(state)
        estimator = cls(**options)
        check_settings(estimator)
        estimator._set_fitted(fitted, report(fitted))
        estimator.n_features_in_ = fitted.target.n_features
        if "feature_names" in state:
            estimator.feature_names_in_ = np.asarray(state["feature_names"], dtype=object)
        return estimator

    # ------------------------------------------------------------------ scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are draws."""
        return hasattr(self, "draws_")

    def _progress_bar(self, total: int, unit: str) -> Any:
        return tqdm(total=total, desc="fit", unit=unit, file=sys.stderr, disable=not self.verbose)
