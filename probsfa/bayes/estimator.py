"""Bayesian slow feature analysis as a scikit-learn estimator, thin over this room's functions."""

import sys
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_input, like_rows
from probsfa._random import generator
from probsfa._saving import Saved
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.bayes import inference_data, persistence
from probsfa.bayes.diagnostics import FitReport, relabelling_sentence, report
from probsfa.bayes.draws import posterior_mean, timescales
from probsfa.bayes.filtering import BayesianFilterResult, BayesianFilterState, filter_sequences
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.fitting import InferenceSettings, ModelSettings, fit_posterior
from probsfa.bayes.predictive import (
    BayesianForecast,
    beside_interpolation,
    draw_latent_paths,
    draw_series,
    log_predictive_density,
    outlier_scores,
    predict_ahead,
    predict_latents,
    predict_missing,
)
from probsfa.bayes.priors import Priors
from probsfa.bayes.sampling.nuts import SamplerSettings
from probsfa.bayes.settings import (
    central_interval,
    check_settings,
    default_n_components,
    refuse,
)
from probsfa.statespace.posterior import Posterior
from probsfa.statespace.timeline import describe_index, in_model_time, make_horizon

__all__ = ["BayesianForecast", "BayesianSFA"]


@lists_in_lists_out
class BayesianSFA(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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
    progress_bar : bool, default=True
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
    >>> model = BayesianSFA(1, inference="svi", progress_bar=False, random_state=0).fit(X)
    >>> model.draws_.loadings.shape, model.transform(X).shape
    ((1, 4000, 3, 1), (100, 1))
    """

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
        progress_bar: bool = True,
        random_state: Seed = None,
        **unsupported: Any,
    ) -> None:
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
        self.progress_bar = progress_bar
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    def fit(
        self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, **unsupported: Any
    ) -> Self:
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
        **unsupported
            Arguments of other estimators, such as `exog`: a TypeError that says what to use instead.

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
        refuse("BayesianSFA.fit", unsupported)
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
            chosen = f"{outcome.status} n_components=None took {n_components} latents."
            outcome = outcome._replace(status=chosen)
        self._set_fitted(fitted, outcome)
        if not outcome.converged:
            warnings.warn(outcome.status, ConvergenceWarning, stacklevel=2)
        for doubt in outcome.doubts:
            warnings.warn(doubt, UserWarning, stacklevel=2)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> Any:
        """Fit, and return the posterior means of the latents of the same rows.

        Parameters
        ----------
        X, y, lengths, times
            As in `fit`.

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
            As from ``fit(X, ...).transform(X, ...)``, with the same `lengths` and `times`.

        See Also
        --------
        fit, transform : The two steps.
        """
        return self.fit(X, y, lengths=lengths, times=times).transform(X, lengths=lengths, times=times)

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

    # ---------------------------------------------------------------- inference

    def transform(self, X: Any, *, lengths: Any = None, times: Any = None) -> Any:
        """Return the posterior means of the latents, parameters averaged over their posterior.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing. New rows are read with the parameters' posterior as it
            is; they do not change it.
        lengths, times : optional
            As in `fit`.

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
        """
        sequences = self._check(X, lengths, times)
        return sequences.restore(predict_latents(self.fitted_, sequences, self.n_predictive).means)

    def posterior(self, X: Any, *, lengths: Any = None, times: Any = None) -> Posterior | list[Posterior]:
        """Return the distribution of the latents given all rows of each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`.

        Returns
        -------
        Posterior, or list of Posterior
            Means (T, K), covariances (T, K, K) and lag-one covariances (T - 1, K, K) of the mixture over the
            draws, and the log densities of the rows given those before.
        """
        sequences = self._check(X, lengths, times)
        whole = predict_latents(self.fitted_, sequences, self.n_predictive)
        return whole.split(sequences.slices) if sequences.is_list else whole

    def impute(
        self,
        X: Any,
        return_std: bool = False,
        *,
        interval: float | None = None,
        lengths: Any = None,
        times: Any = None,
    ) -> Any:
        """Fill missing cells with their posterior means.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations too.
        interval : float, optional
            Probability of a central interval, to return its ends too.
        lengths, times : optional
            As in `fit`.

        Returns
        -------
        filled : like X
            Observed cells as they were, missing ones filled.
        std : like X
            With `return_std`: standard deviation of each filled cell, noise and uncertain parameters
            included; zero for observed ones.
        lower, upper : like X
            With `interval`: its ends, quantiles of the mixture over the draws; the values of observed cells.

        Warns
        -----
        UserWarning
            If observed cells, left out one at a time, are found no better than by linear interpolation.
        """
        ends = () if interval is None else central_interval(interval)
        sequences = self._check(X, lengths, times)
        cells = predict_missing(self.fitted_, sequences, self.n_predictive)
        comparison = beside_interpolation(self.fitted_, sequences)
        if comparison is not None and comparison.sentence:
            warnings.warn(comparison.sentence, UserWarning, stacklevel=2)
        observed = sequences.values
        out = [like_input(X, sequences, _with_missing(observed, observed, cells.mean))]
        if return_std:
            zeros = np.zeros_like(observed)
            out.append(like_input(X, sequences, _with_missing(zeros, observed, cells.std)))
        for p in ends:
            out.append(like_input(X, sequences, _with_missing(observed, observed, cells.quantile(p))))
        return out[0] if len(out) == 1 else tuple(out)

    def filter(
        self, X: Any, state: BayesianFilterState | None = None, *, lengths: Any = None, times: Any = None
    ) -> BayesianFilterResult | list[BayesianFilterResult]:
        """Return the distribution of each latent state given the rows up to its own.

        The posterior of the parameters stays as it is; the rows tell the latents alone.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        state : BayesianFilterState, optional
            ``state`` of the result for the rows before, to go on with one sequence.
        lengths, times : optional
            As in `fit`.

        Returns
        -------
        BayesianFilterResult, or list of BayesianFilterResult
            Causal means and covariances, log densities of the rows, and the state from which to go on. An
            array cut by `lengths` gives a list.

        Raises
        ------
        ValueError
            If a state comes with several sequences, or does not fit the model or the times.
        """
        sequences = self._check(X, lengths, times)
        results = filter_sequences(self.fitted_, sequences, self.n_predictive, state)
        return results if sequences.is_list or lengths is not None else results[0]

    def forecast(
        self,
        X: Any,
        n_steps: int | None = None,
        *,
        fh: Any = None,
        interval: float = 0.9,
        lengths: Any = None,
        times: Any = None,
    ) -> BayesianForecast | list[BayesianForecast]:
        """Forecast what follows each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`; the rows from which to forecast.
        n_steps : int, optional
            Number of steps, each of one `time_unit_`.
        fh : array-like (H,), optional
            Forecasting horizon, in the place of `n_steps`, rising: numbers of steps ahead of the last row,
            fractions of one `time_unit_` as well; durations ahead of it; or the dates to forecast, where the
            rows have dates. Uneven steps are as exact as even ones.
        interval : float, default=0.9
            Probability of the interval from ``lower`` to ``upper``.

        Returns
        -------
        BayesianForecast, or list of BayesianForecast
            An array cut by `lengths` gives a list, and frames give frames, as from
            :meth:`probsfa.ProbabilisticSFA.forecast`.

        Raises
        ------
        ValueError
            If not exactly one of `n_steps` and `fh` is given, or `fh` does not rise or cannot be compared
            with the times of the rows.
        """
        check_is_fitted(self)
        if n_steps is not None:
            check_count("n_steps", n_steps)
        ends = central_interval(interval)
        sequences = self._check(X, lengths, times)
        axis = self.fitted_.sequences.axis
        horizon = make_horizon(X, sequences, axis, self.time_unit_, n_steps=n_steps, fh=fh)
        steps = [each.steps for each in horizon]
        mixed = predict_ahead(self.fitted_, sequences, self.n_predictive, steps, ends)
        frames = X if sequences.is_list else [X] * len(mixed)
        latents = self.get_feature_names_out()
        out = [
            BayesianForecast(
                **{
                    name: like_rows(
                        frame, values, index=each.index, columns=latents if "latent" in name else None
                    )
                    for name, values in one._asdict().items()
                }
            )
            for frame, one, each in zip(frames, mixed, horizon, strict=True)
        ]
        return out if sequences.is_list or lengths is not None else out[0]

    def sample(self, n_steps: int = 1, *, random_state: Seed = None) -> tuple[FloatArray, FloatArray]:
        """Draw a series from the posterior predictive: parameters from their posterior, then a new series.

        Parameters
        ----------
        n_steps : int, default=1
            Number of rows, one `time_unit_` apart.
        random_state : int, Generator or None
            Source of randomness; the estimator's by default.

        Returns
        -------
        X : ndarray (n_steps, D)
            Observations.
        latents : ndarray (n_steps, K)
            The latents behind them.
        """
        check_is_fitted(self)
        check_count("n_steps", n_steps)
        rng = generator(self.random_state if random_state is None else random_state)
        return draw_series(self.fitted_, n_steps, rng)

    def sample_posterior(
        self, X: Any, n_draws: int = 1, *, lengths: Any = None, times: Any = None, random_state: Seed = None
    ) -> FloatArray | list[FloatArray]:
        """Draw courses of the latents given the data, each with other parameters of the posterior.

        Parameters
        ----------
        X, lengths, times
            As in `transform`.
        n_draws : int, default=1
            Number of draws.
        random_state : int, Generator or None
            Source of randomness; the estimator's by default.

        Returns
        -------
        ndarray (n_draws, T, K), or list of ndarrays (n_draws, T_i, K)
        """
        check_count("n_draws", n_draws)
        sequences = self._check(X, lengths, times)
        rng = generator(self.random_state if random_state is None else random_state)
        paths = draw_latent_paths(self.fitted_, sequences, n_draws, rng)
        return [paths[:, s] for s in sequences.slices] if sequences.is_list else paths

    def outlier_scores(self, X: Any, *, lengths: Any = None, times: Any = None) -> Any:
        """Say how far each observed cell is from what all others say.

        Parameters
        ----------
        X, lengths, times
            As in `transform`.

        Returns
        -------
        like X
            Distances in standard deviations of what is predicted, with noise of weight one; NaN where a cell
            is missing. Without `robust` outliers bend what they are judged by.

        See Also
        --------
        probsfa.ProbabilisticSFA.outlier_scores : The same at parameters of maximum likelihood.

        Examples
        --------
        >>> from probsfa import BayesianSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
        >>> X[40, 1] += 30.0
        >>> model = BayesianSFA(1, inference="svi", progress_bar=False, random_state=0).fit(X)
        >>> int(model.outlier_scores(X)[:, 1].argmax())
        40
        """
        sequences = self._check(X, lengths, times)
        return like_input(X, sequences, outlier_scores(self.fitted_, sequences, self.n_predictive))

    # -------------------------------------------------------------------- scores

    def log_likelihood(self, X: Any, *, lengths: Any = None, times: Any = None) -> float:
        """Return the log predictive density of all rows, in nats. Parameters as in `transform`.

        The likelihood, not its logarithm, is averaged over the draws; with `robust` lower bounds of it.
        """
        sequences = self._check(X, lengths, times)
        return log_predictive_density(self.fitted_, sequences, self.n_predictive)

    def score(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> float:
        """Return the log predictive density per row, in nats. Parameters as in `transform`."""
        sequences = self._check(X, lengths, times)
        return log_predictive_density(self.fitted_, sequences, self.n_predictive) / sequences.n_rows

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

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.params_.n_states

    def _check(self, X: Any, lengths: Any, times: Any) -> Sequences:
        check_is_fitted(self)
        axis = self.fitted_.sequences.axis
        sequences = check_sequences(
            self, X, reset=False, allow_nan=True, lengths=lengths, times=times, index="use", axis=axis
        )
        sequences = in_model_time(sequences, axis, self.time_unit_)
        n = self.fitted_.target.n_sequences
        if n is not None and len(sequences.lengths) != n:
            raise ValueError(
                f"A hierarchical model knows the noise of the {n} sequences it was fitted to; X has "
                f"{len(sequences.lengths)}. Give those sequences, in the same order."
            )
        return sequences

    def _bar(self, total: int, unit: str) -> Any:
        return tqdm(total=total, desc="fit", unit=unit, file=sys.stderr, disable=not self.progress_bar)


def _with_missing(values: FloatArray, observed: FloatArray, cells: FloatArray) -> FloatArray:
    """Values (T, D) with others in the cells that are NaN where observed, row by row."""
    out = values.copy()
    out[np.isnan(observed)] = cells
    return out
