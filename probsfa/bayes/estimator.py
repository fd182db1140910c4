"""Bayesian slow feature analysis as a scikit-learn estimator, thin over this room's functions."""

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
from probsfa._saving import Saved
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
    INSTEAD,
    check_settings,
    default_n_components,
    refuse,
)
from probsfa.statespace.methods import StateSpaceMethods
from probsfa.statespace.timeline import describe_index

__all__ = ["BayesianForecast", "BayesianSFA"]

_PROGRESS_BAR = (
    "BayesianSFA(progress_bar=...) is now verbose=..., as in all estimators; the old name will be removed in "
    "the next minor version."
)


class BayesianSFA(Saved, StateSpaceMethods):
    """Slow feature analysis with a posterior for everything: time scales, loadings, noise, latents, holes.

    The model is that of :class:`probsfa.ProbabilisticSFA`, with priors on its parameters. The latents are
    integrated out exactly, so that only the parameters are sampled, in coordinates whitened by the curvature
    at the maximum a posteriori; what is said of latents and missing cells carries the uncertainty of the
    parameters.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of latents. None takes one for each feature that varies, up to what data and time allow, which
        with ``inference="nuts"`` is often two to five; `status_` says how many.
    noise : {"diagonal", "isotropic", "ar1"}, float or array-like (D,), default="diagonal"
        Observation noise: a variance for each feature, one for all, or known variances in squared data
        units, the same for all features or one for each. "ar1" adds autocorrelated noise to the white noise
        of each feature.
    priors : Priors or None, default=None
        Priors, in units of the sampling step and of each column's standard deviation; :class:`Priors` as it
        is by default.
    inference : {"nuts", "svi"}, default="nuts"
        The no-U-turn sampler; or a Gaussian approximation of full covariance, fitted by stochastic
        variational inference and corrected by importance weights, which takes seconds. The fit has four
        starts; where they lead to several modes, the approximation is a mixture, and `status_` says so.
    n_warmup, n_draws, n_chains : int, default=500, 1000, 4
        Iterations of each chain before its draws (rounded up to a multiple of 50, at least 100), its draws,
        and the number of chains. With ``"svi"`` there is one chain of ``n_draws * n_chains`` draws.
    chain_method : {"auto", "vectorized", "parallel", "sequential"}, default="auto"
        Chains side by side in one program, each in a thread of its own, or one after the other. ``"auto"``
        gives each a thread on CPUs, and takes one program on accelerators.
    target_accept : float, default=0.8
        Acceptance that the sampler's step is tuned to; raise it where there are divergences.
    max_tree_depth : int, default=10
        Longest trajectory of the sampler, as a power of two.
    n_steps_svi : int, default=100
        Steps of the variational fit of each mode, of 16 gradients each.
    hierarchical : bool, default=False
        Whether each sequence of a list has noise of its own; time scales, loadings and offset are shared.
    robust : bool, default=False
        Student-t noise, for data with outliers: each cell has a weight that is drawn with the rest, by Gibbs
        sampling in the place of the no-U-turn sampler, and so are the degrees of freedom.
        ``noise_variance`` is then the squared scale. Takes normal priors of loadings and offset, and neither
        ``inference="svi"`` nor `hierarchical`. See Notes.
    rhythms, smooth : int, default=0
        Numbers of stochastic cycles, and of smooth factors with the Matern-3/2 kernel, beside the AR(1)
        factors. See Notes.
    standardize : bool, default=True
        Whether priors are in units of each column; else they are in data units.
    n_predictive : int, default=200
        Draws, spread over the chains, of which predictions are mixed.
    verbose : bool, default=True
        Show progress on standard error.
    random_state : int, Generator or None, default=None
        Source of all randomness.
    **unsupported
        Parameters of other estimators, such as `exog`: a TypeError that says what to use instead.

    Attributes
    ----------
    fitted_ : FittedPosterior
        The record of the fit, which the verbs read.
    inference_data_ : arviz.InferenceData or xarray.DataTree
        Everything, for ArviZ; made when first asked for. See :meth:`to_datatree` for the groups.
    draws_ : Draws
        Relabelled posterior draws in data units: ``decay`` (chain, draw, K), ``loadings`` (chain, draw, D,
        K), ``noise_variance`` and ``offset`` (chain, draw, D).
    raw_draws_ : Draws
        The same as they were sampled.
    map_ : Parameters
        The maximum a posteriori, in the coordinates of the sampler.
    params_ : Parameters
        Posterior means, in data units.
    decay_, timescales_, loadings_, noise_variance_, mean_ : ndarray
        Posterior means, slowest first; the time scales are medians.
    time_unit_ : float
        Time step of `decay_`: 1.0, which is a row, or the median step of dates; the median step of `times`
        that are numbers.
    time_unit_seconds_ : float or None
        The same in seconds, where `times` or the index of a frame were dates or durations; None where that is
        not known.
    degrees_of_freedom_ : float
        With `robust` alone: posterior mean of the degrees of freedom; draws are in :meth:`to_datatree`.
    diagnostics_ : dict
        ``"rhat"`` (rank-normalized, of split chains), ``"ess"`` (effective sample size of the bulk) and
        ``"ess_tail"`` of all relabelled parameters, as in ArviZ, and ``"divergences"``. With ``"svi"`` the
        tail index ``"pareto_k"`` of the importance weights: above 0.7 the approximation is poor. It cannot
        measure modes that no start found. ``"mode_shares"`` and ``"mode_bounds"`` are the shares of the draws
        and the evidence lower bounds of the modes.
    relabelling_ : str
        What was done to bring the draws to one labelling.
    converged_ : bool
        Whether all R-hat are at most 1.01 and all effective sample sizes at least 400; with ``"svi"``,
        whether the tail index is at most 0.7.
    status_ : str
        How the fit ended, in a sentence, with what to try.
    elbo_ : ndarray
        With ``"svi"``: estimates of the evidence lower bound, one for each step.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.ProbabilisticSFA : The same model with parameters of maximum likelihood, in seconds.
    probsfa.bayes.Priors : The priors, and how to change them.
    probsfa.bayes.factorial_ar1_model : The model for NumPyro's own samplers.

    Notes
    -----
    The posterior is the same when latents are exchanged or change sign. The sampler's coordinates make one
    point of all these mirror images, and a straight line of a rotation of the latents
    (:mod:`.rotation`); latents that are hardly seen, or whose time scales may be equal, are
    sampled around one image (:mod:`.symmetry`). Each draw is then brought to the labelling closest
    to the maximum a posteriori. The offset is in units of its uncertainty, which grows with the time scales
    (:mod:`.offset_scale`). Decays are positive in this model: a latent has a time scale.

    Intervals of filled cells and forecasts are quantiles of the mixture over the draws.

    *Student-t noise.* With `robust` predictions mix over weights of the cells as well, which are drawn for
    the rows that are asked about. `filter` brings the weights of each row to a fixed point, as that of
    :class:`probsfa.ProbabilisticSFA`; `log_likelihood` and `score` are lower bounds; log densities of rows in
    `posterior` are NaN, and :meth:`to_datatree` leaves ``log_likelihood`` and ``prior_predictive`` out.

    *Cycles, smooth factors and AR(1) noise.* `rhythms`, `smooth` and ``noise="ar1"`` are those of
    :class:`probsfa.ProbabilisticSFA`; all processes are integrated out. `draws_` then has further arrays,
    named as in :class:`probsfa.statespace.Parameters`. Latents are the AR(1) factors, then two states of each
    cycle and of each smooth factor. Several cycles, or several smooth factors, are not relabelled: their
    periods or time scales should differ. `robust` and `hierarchical` are not supported with them, and SVI has
    one start.

    Models can be fitted in several threads at once, with the results of one after the other.

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

    _without: ClassVar[Mapping[str, str]] = {
        "lower_bound": "its likelihood is computed by log_likelihood, with robust=True its lower bound.",
        "standard_errors": "use the posterior standard deviations, of draws_ or in summary().",
        "profile_timescale": "use quantiles of the posterior, of draws_ or in summary().",
    }
    _without_arguments: ClassVar[Mapping[str, str]] = {"exog": INSTEAD["exog"]}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: str | float | ArrayLike = "diagonal",
        priors: Priors | None = None,
        inference: str = "nuts",
        n_warmup: int = 500,
        n_draws: int = 1000,
        n_chains: int = 4,
        chain_method: str = "auto",
        target_accept: float = 0.8,
        max_tree_depth: int = 10,
        n_steps_svi: int = 100,
        hierarchical: bool = False,
        robust: bool = False,
        rhythms: int = 0,
        smooth: int = 0,
        standardize: bool = True,
        n_predictive: int = 200,
        verbose: bool = True,
        random_state: Seed = None,
        **unsupported: Any,
    ) -> None:
        if "progress_bar" in unsupported:
            verbose = unsupported.pop("progress_bar")
            warnings.warn(_PROGRESS_BAR, FutureWarning, stacklevel=2)
        refuse("BayesianSFA", unsupported)
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
            Cuts one array into consecutive sequences.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence, for uneven sampling; by default those
            that the index of a frame of pandas tells, as for :class:`probsfa.ProbabilisticSFA`.
        exog : None
            Not supported; use :class:`probsfa.ProbabilisticSFA`.

        Returns
        -------
        BayesianSFA
            The fitted estimator. After an interrupt from the keyboard it has the draws so far, and
            `status_` says so.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.
        TypeError
            If an argument is not supported.

        Warns
        -----
        ConvergenceWarning
            If chains do not agree, draws are few, or the Gaussian approximation is poor; `status_` says what
            to try.
        UserWarning
            If two time scales are too close to tell which latent is which.
        """
        self._refuse_arguments(exog=exog)
        check_settings(self)
        sequences = check_sequences(
            self, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
        )
        if self.hierarchical and len(sequences.lengths) < 2:
            raise ValueError("hierarchical=True needs several sequences, as a list or by lengths; got one.")
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
            ),
            InferenceSettings(
                self.inference,
                self.n_draws,
                self.n_chains,
                SamplerSettings(self.n_warmup, self.target_accept, self.max_tree_depth),
                self.chain_method,
                self.n_steps_svi,
            ),
            generator(self.random_state),
            self._bar,
        )
        outcome = report(fitted)
        if self.n_components is None:
            chosen = f"{outcome.status} n_components=None selected {n_components} latent factors."
            outcome = outcome._replace(status=chosen)
        self._set_fitted(fitted, outcome)
        if not outcome.converged:
            warnings.warn(outcome.status, ConvergenceWarning, stacklevel=2)
        for doubt in outcome.doubts:
            warnings.warn(doubt, UserWarning, stacklevel=2)
        return self

    def _set_fitted(self, fitted: FittedPosterior, outcome: FitReport) -> None:
        """Set the fitted attributes."""
        self.fitted_ = fitted
        self.raw_draws_, self.draws_ = fitted.raw_draws, fitted.draws
        self.map_ = fitted.maximum
        self.params_ = posterior_mean(fitted.draws)
        self.decay_, self.loadings_ = self.params_.decay, self.params_.loadings
        self.noise_variance_, self.mean_ = self.params_.noise_variance, self.params_.offset
        self.time_unit_ = fitted.units.time_unit
        self.time_unit_seconds_ = fitted.sequences.axis.seconds(self.time_unit_)
        self.timescales_ = np.median(timescales(fitted.draws, self.time_unit_), axis=(0, 1))
        self.relabelling_ = relabelling_sentence(fitted.relabelling)
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
        """Everything for ArviZ, in the form that the installed version reads."""
        return inference_data.for_arviz(self.to_datatree())

    def to_datatree(self) -> Any:
        """Return everything as an ``xarray.DataTree``, with named dimensions and coordinates.

        Returns
        -------
        xarray.DataTree
            ``posterior``: relabelled draws of ``timescale``, ``decay``, ``loadings``, ``noise_std``,
            ``noise_variance`` and ``offset``, in data units; ``posterior_raw``: the same before
            relabelling; ``posterior_predictive``: ``observations`` and ``latents`` given the data, by a
            simulation smoother, for draws spread over the chains, and ``observed_values``, each value drawn
            given all others; ``log_likelihood``: for the same draws the log density of each row given the
            rows before it (``observations``), and of each value given all other values
            (``observed_values``); ``prior`` and ``prior_predictive``; ``sample_stats``; ``observed_data``,
            with the values that are not missing also in one row as ``observed_values``; ``constant_data``.
            Rows have the time index of the data, components run slowest first.

        Notes
        -----
        Leave-one-out cross-validation leaves out one value and keeps all others, later ones included. It
        needs the variable by value: ``arviz.loo(idata, var_name="observed_values")`` and
        ``arviz.plot_loo_pit(idata, y="observed_values")``. Latents are integrated out, so that the weights
        are those of the parameters alone (Buerkner, Gabry & Vehtari 2021). The log densities by row are those
        of one-step-ahead prediction: sums over later rows leave the future out, but their weights do not lead
        to a posterior without the row, because later rows depend on it.
        """
        check_is_fitted(self)
        if self._tree is None:
            self._tree = inference_data.build_tree(self.fitted_, self.n_predictive, self.status_)
        return self._tree

    # ------------------------------------------------------------------- storage

    def _to_arrays(self) -> dict[str, Any]:
        """Return the posterior as values for a file."""
        names = getattr(self, "feature_names_in_", None)
        return persistence.to_arrays(self.fitted_, self.get_params(deep=False), names)

    @classmethod
    def _from_arrays(cls, state: dict[str, Any]) -> Self:
        """Return the estimator of these values."""
        fitted, options = persistence.from_arrays(state)
        estimator = cls(**options)
        check_settings(estimator)
        estimator._set_fitted(fitted, report(fitted))
        estimator.n_features_in_ = fitted.target.n_features
        if "feature_names" in state:
            estimator.feature_names_in_ = np.asarray(state["feature_names"], dtype=object)
        return estimator

    # ------------------------------------------------------------------ plumbing

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are draws."""
        return hasattr(self, "draws_")

    def _bar(self, total: int, unit: str) -> Any:
        return tqdm(total=total, desc="fit", unit=unit, file=sys.stderr, disable=not self.verbose)
