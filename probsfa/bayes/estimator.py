"""Bayesian slow feature analysis as a scikit-learn estimator, thin over this room's functions."""

import sys
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_input
from probsfa._random import generator
from probsfa._timescales import timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.bayes import inference_data
from probsfa.bayes.coordinates.target import Data, Draws, Target, constrain
from probsfa.bayes.packing import pack, panels_of, start_values
from probsfa.bayes.predictive import Cells, make_cells, mixed_cells, mixed_posterior
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors
from probsfa.bayes.relabelling.draws import (
    canonical_order,
    diagnose,
    each_draw,
    in_data_units,
    relabelled,
    reordered,
    spread_out,
    typical,
)
from probsfa.bayes.relabelling.labels import Labels, merges
from probsfa.bayes.relabelling.matching import close_pairs
from probsfa.bayes.sampling import nuts, variational
from probsfa.bayes.sampling.importance import UNRELIABLE
from probsfa.bayes.sampling.laplace import Whitening, find_whitening
from probsfa.statespace.learning.maximum_likelihood import InMemory, MaximumLikelihood, maximum_likelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters, rescale
from probsfa.statespace.posterior import Posterior, smooth
from probsfa.statespace.prediction import Forecast, forecast
from probsfa.statespace.simulation import draw_latents, simulate

__all__ = ["BayesianForecast", "BayesianSFA"]


_RHAT, _ESS = 1.01, 400.0


class BayesianForecast(NamedTuple):
    """Law of the steps after the last row, ``H`` of them, the parameters as uncertain as they are.

    Attributes
    ----------
    means, std : ndarray of shape (H, D)
        Means and standard deviations of the observations, their noise included.
    latent_means, latent_std : ndarray of shape (H, K)
        Means and standard deviations of the latents.
    lower, upper : ndarray of shape (H, D)
        Ends of the central interval of the observations, of the probability asked for.
    """

    means: FloatArray
    std: FloatArray
    latent_means: FloatArray
    latent_std: FloatArray
    lower: FloatArray
    upper: FloatArray


@lists_in_lists_out
class BayesianSFA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Slow feature analysis with a posterior for everything: time scales, loadings, noise, latents, holes.

    The model is that of :class:`probsfa.ProbabilisticSFA`, with priors on its parameters. The latents are
    integrated out exactly, so that only the parameters are sampled, in coordinates whitened by the curvature
    at the maximum a posteriori; what is said of latents and missing cells carries the uncertainty of the
    parameters.

    Parameters
    ----------
    n_components : int, default=2
        Number of latents.
    noise : {"diagonal", "isotropic"} or float, default="diagonal"
        Observation noise: a variance for each feature, one for all, or a known variance in squared data
        units.
    priors : Priors, optional
        Priors, in units of the sampling step and of each column's standard deviation.
    inference : {"nuts", "svi"}, default="nuts"
        The no-U-turn sampler; or a Gaussian approximation of full covariance, fitted by stochastic
        variational inference and corrected by importance weights, which takes seconds.
    n_warmup, n_draws, n_chains : int, default=500, 500, 4
        Iterations of each chain before its draws (rounded up to a multiple of 50, at least 100), its draws,
        and the number of chains. With ``"svi"`` there is one chain of ``n_draws * n_chains`` draws.
    chain_method : {"vectorized", "parallel", "sequential"}, default="vectorized"
        Chains side by side in one program, each in a thread of its own, or one after the other.
    target_accept : float, default=0.8
        Acceptance that the sampler's step is tuned to; raise it where there are divergences.
    max_tree_depth : int, default=10
        Longest trajectory of the sampler, as a power of two.
    n_steps_svi : int, default=100
        Steps of the variational fit, of 16 gradients each.
    hierarchical : bool, default=False
        Whether each sequence of a list has noise of its own; time scales, loadings and offset are shared.
    standardize : bool, default=True
        Whether priors are in units of each column; else they are in data units.
    n_predictive : int, default=200
        Draws, spread over the chains, of which predictions are mixed.
    progress_bar : bool, default=True
        Show progress on standard error.
    random_state : int, Generator or None, default=None
        Source of all randomness.

    Attributes
    ----------
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
        One row, or the median time between rows if times were given; the unit of `decay_`.
    diagnostics_ : dict
        ``"rhat"`` and ``"ess"`` of all relabelled parameters, and ``"divergences"``. With ``"svi"`` the tail
        index ``"pareto_k"`` of the importance weights: above 0.7 the approximation is poor.
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

    Notes
    -----
    The posterior is the same when latents are exchanged or change sign. The sampler's coordinates make one
    point of all these mirror images, and a straight line of a rotation of the latents
    (:mod:`.rotation`); latents that are hardly seen, or whose time scales may be equal, are
    sampled around one image (:mod:`.symmetry`). Each draw is then brought to the labelling closest
    to the maximum a posteriori. The offset is in units of its uncertainty, which grows with the time scales
    (:mod:`.offset_scale`). Decays are positive in this model: a latent has a time scale.

    Intervals of filled cells and forecasts are quantiles of the mixture over the draws.

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
    ((1, 2000, 3, 1), (100, 1))
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        noise: str | float = "diagonal",
        priors: Priors | None = None,
        inference: str = "nuts",
        n_warmup: int = 500,
        n_draws: int = 500,
        n_chains: int = 4,
        chain_method: str = "vectorized",
        target_accept: float = 0.8,
        max_tree_depth: int = 10,
        n_steps_svi: int = 100,
        hierarchical: bool = False,
        standardize: bool = True,
        n_predictive: int = 200,
        progress_bar: bool = True,
        random_state: Seed = None,
    ) -> None:
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
        self.standardize = standardize
        self.n_predictive = n_predictive
        self.progress_bar = progress_bar
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> Self:
        """Draw from the posterior of the parameters.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence, for uneven sampling.

        Returns
        -------
        BayesianSFA
            The fitted estimator. After an interrupt from the keyboard it has the draws so far, and
            `status_` says so.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.

        Warns
        -----
        ConvergenceWarning
            If chains do not agree, draws are few, or the Gaussian approximation is poor; `status_` says what
            to try.
        UserWarning
            If two time scales are too close to tell which latent is which.
        """
        self._check_parameters()
        found = check_sequences(self, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2)
        if self.hierarchical and len(found.lengths) < 2:
            raise ValueError("hierarchical=True needs several sequences, as a list or by lengths; got one.")
        rng = generator(self.random_state)
        start = self._start(found)
        self.time_unit_ = start.time_unit
        self._shift, self._scale = start.shift, start.scale
        if not self.standardize:
            self._shift, self._scale = np.zeros_like(self._shift), np.ones_like(self._scale)
        inner = rescale(start.params, -self._shift / self._scale, 1.0 / self._scale)
        series, known = (
            pack(found.standardised(self._shift, self._scale).retimed(self.time_unit_), self.hierarchical),
            None,
        )
        if not isinstance(self.noise, str):
            known = float(self.noise) / self._scale**2
        target = Target(
            self.n_components,
            found.n_features,
            self.noise if isinstance(self.noise, str) else "fixed",
            DEFAULT_PRIORS if self.priors is None else self.priors,
            len(found.lengths) if self.hierarchical else None,
        )
        values = start_values(inner, target)
        data = Data(series, known)
        data = data._replace(chart=target.chart(values, data))
        vector = target.to_vector(values)
        whitening = find_whitening(target, data, vector)
        if merges(target, data.chart.frame, whitening):
            data = data._replace(chart=data.chart._replace(frame=None))
            whitening = find_whitening(target, data, vector)
        labels = Labels(target, whitening, data.chart.frame)
        data = data._replace(anchor=labels.anchor)
        infer = self._run_nuts if self.inference == "nuts" else self._run_svi
        vectors = infer(target, data, whitening, labels, rng)
        self._target, self._data = target, data
        self._set_draws(target, data, whitening, labels, vectors)
        self._remember(X, found, lengths, times, rng)
        self._report()
        return self

    def _start(self, found: Sequences) -> MaximumLikelihood:
        """The maximum of the likelihood, near which that of the posterior is; it need not have converged."""
        options = FitOptions(self.n_components, noise=self.noise, max_iter=100, tol=1e-2)
        start = maximum_likelihood(InMemory(found), options)
        if start.interrupted:
            raise KeyboardInterrupt
        return start

    def _run_nuts(
        self, target: Target, data: Data, whitening: Whitening, labels: Labels, rng: np.random.Generator
    ) -> FloatArray:
        total = (self.n_warmup + self.n_draws) * self.n_chains
        with self._bar(total, "draws") as bar:
            chains = nuts.sample(
                target,
                data,
                whitening,
                settings=nuts.Settings(self.n_warmup, self.target_accept, self.max_tree_depth),
                n_draws=self.n_draws,
                n_chains=self.n_chains,
                chain_method=self.chain_method,
                seed=int(rng.integers(2**31)),
                fold=labels.fold,
                report=bar.update,
            )
        self.sample_stats_, self._interrupted = chains.stats, chains.interrupted
        if chains.vectors.shape[1]:
            return chains.vectors
        # Interrupted before the first draw: what is known by then is Laplace's approximation.
        self.sample_stats_ = {}
        return whitening.apply(rng.standard_normal((1, self.n_draws, target.size)))

    def _run_svi(
        self, target: Target, data: Data, whitening: Whitening, labels: Labels, rng: np.random.Generator
    ) -> FloatArray:
        with self._bar(self.n_steps_svi, "steps") as bar:
            fitted = variational.fit_guide(
                target,
                data,
                whitening,
                n_steps=self.n_steps_svi,
                seed=int(rng.integers(2**31)),
                report=bar.update,
            )
        self.elbo_, self._interrupted = fitted.elbo, fitted.interrupted
        self.sample_stats_ = {}
        drawn = variational.draw(target, data, fitted.guide, whitening, self.n_draws * self.n_chains, rng)
        self._pareto_k = drawn.pareto_k
        return drawn.vectors[None]

    def _set_draws(
        self, target: Target, data: Data, whitening: Whitening, labels: Labels, vectors: FloatArray
    ) -> None:
        found = labels.find(vectors.reshape(-1, target.size))
        raw = in_data_units(constrain(target, data, vectors), self._shift, self._scale)
        draws = relabelled(raw, found)
        order, signs = canonical_order(draws, self._scale)
        self.raw_draws_, self.draws_ = raw, reordered(draws, order, signs)
        top = in_data_units(constrain(target, data, whitening.centre[None, None]), self._shift, self._scale)
        self.map_ = typical(reordered(top, order, signs))
        self.params_ = typical(self.draws_)
        self.decay_, self.loadings_, self.noise_variance_, self.mean_ = self.params_
        self.timescales_ = np.median(timescales(self.draws_, self.time_unit_), axis=(0, 1))
        n = len(found.permutations)
        self.relabelling_ = (
            "Each draw has the signed permutation of its latents closest to the maximum a posteriori: "
            f"{found.n_permuted} of {n} draws were permuted, {found.n_flipped} had signs changed. "
            "Labels are ordered by median time scale."
        )

    def _remember(self, X: Any, found: Sequences, lengths: Any, times: Any, rng: np.random.Generator) -> None:
        """Keep what `inference_data_` is made of when it is asked for."""
        self._training, self._index = found, inference_data.time_index(X, found, times)
        self._seed = int(rng.integers(2**31))
        self._tree = None

    def _report(self) -> None:
        """Diagnostics, status and warnings."""
        found = diagnose(self.draws_)
        divergences = int(np.sum(self.sample_stats_.get("diverging", 0)))
        self.diagnostics_ = {**found, "divergences": divergences}
        chains, n = self.draws_.decay.shape[:2]
        if self.inference == "svi":
            self.diagnostics_["pareto_k"] = self._pareto_k
            self.converged_ = not self._interrupted and self._pareto_k <= UNRELIABLE
            self.status_ = _about_svi(n, self._pareto_k, self._interrupted)
        elif not self.sample_stats_:
            self.converged_ = False
            self.status_ = (
                "Interrupted in the warm-up: the draws are those of Laplace's approximation at the "
                "maximum a posteriori, not of the sampler."
            )
        else:
            rhat = max(float(np.nanmax(x, initial=1.0)) for x in found["rhat"].values())
            ess = min(float(np.nanmin(x, initial=np.inf)) for x in found["ess"].values())
            self.converged_ = rhat <= _RHAT and ess >= _ESS
            interrupted = "Interrupted: the draws so far are kept. " if self._interrupted else ""
            advice = "" if self.converged_ else _advice(rhat, ess)
            self.status_ = (
                f"{interrupted}{n} draws of {chains} chains: R-hat at most {rhat:.3f}, effective sample "
                f"size at least {ess:.0f}, {divergences} divergences.{advice}"
            )
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=3)
        for i, j, slower in close_pairs(timescales(self.draws_).reshape(chains * n, -1)):
            warnings.warn(
                f"Latents {i} and {j} have time scales too close to tell apart: the second is the slower one "
                f"with probability {slower:.2f}. Their loadings may be mixed with each other; look at the "
                "two together, or use fewer components.",
                UserWarning,
                stacklevel=3,
            )

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
        found = self._check(X, lengths, times)
        return found.restore(self._mixed(found).means)

    def posterior(self, X: Any, *, lengths: Any = None, times: Any = None) -> Posterior | list[Posterior]:
        """Return the law of the latents given all rows of each sequence: its mean and its covariances.

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
        found = self._check(X, lengths, times)
        whole = self._mixed(found)
        if not found.is_list:
            return whole
        return [
            Posterior(
                whole.means[s],
                whole.covariances[s],
                whole.lag_one_covariances[s.start : s.stop - 1],
                whole.row_log_likelihoods[s],
            )
            for s in found.slices
        ]

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
        X : array-like or DataFrame (T, D), or list of them
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
        """
        ends = _tails(interval)
        found = self._check(X, lengths, times)
        cells = self._missing(found)
        missing = np.isnan(found.values)
        out = [like_input(X, found, _into(found.values, missing, cells.mean))]
        if return_std:
            out.append(like_input(X, found, _into(np.zeros_like(found.values), missing, cells.std)))
        out += [like_input(X, found, _into(found.values, missing, cells.quantile(p))) for p in ends]
        return out[0] if len(out) == 1 else tuple(out)

    def forecast(
        self, X: Any, n_steps: int, *, interval: float = 0.9, lengths: Any = None, times: Any = None
    ) -> BayesianForecast | list[BayesianForecast]:
        """Forecast the steps that follow each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`; the rows from which to forecast.
        n_steps : int
            Number of steps, each of one `time_unit_`.
        interval : float, default=0.9
            Probability of the interval from ``lower`` to ``upper``.

        Returns
        -------
        BayesianForecast, or list of BayesianForecast
            An array cut by `lengths` gives a list.
        """
        check_count("n_steps", n_steps)
        ends = _tails(interval)
        found = self._check(X, lengths, times)
        panels, rows = self._panels(found)
        futures: list[list[Forecast]] = [[] for _ in found.lengths]
        for draw in self._each(len(panels)):
            for params, panel, here in zip(draw, panels, rows, strict=True):
                one = smooth(params, panel)
                for i, last in here:
                    futures[i].append(forecast(params, one.means[last], one.covariances[last], n_steps))
        out = [_mix(many, ends) for many in futures]
        return out if found.is_list or lengths is not None else out[0]

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
        chains, n = self.draws_.decay.shape[:2]
        chain, draw = int(rng.integers(chains)), int(rng.integers(n))
        one = Parameters(*(x[chain, draw] for x in self.draws_))
        if one.noise_variance.ndim == 2:
            one = one._replace(noise_variance=one.noise_variance[int(rng.integers(len(one.noise_variance)))])
        return simulate(one, n_steps, rng)

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
        found = self._check(X, lengths, times)
        rng = generator(self.random_state if random_state is None else random_state)
        panels, _ = self._panels(found)
        chains, n = self.draws_.decay.shape[:2]
        picked = np.unravel_index(rng.integers(chains * n, size=n_draws), (chains, n))
        drawn = []
        for chain, draw in zip(*picked, strict=True):
            one = Draws(*(x[chain : chain + 1] for x in self.draws_))
            (here,) = each_draw(one, len(panels), np.array([draw]))
            parts = [draw_latents(p, panel, 1, rng)[0] for p, panel in zip(here, panels, strict=True)]
            drawn.append(np.concatenate(parts))
        stacked = np.array(drawn)
        return [stacked[:, s] for s in found.slices] if found.is_list else stacked

    # -------------------------------------------------------------------- scores

    def log_likelihood(self, X: Any, *, lengths: Any = None, times: Any = None) -> float:
        """Return the log predictive density of all rows, in nats. Parameters as in `transform`.

        The likelihood, not its logarithm, is averaged over the draws.
        """
        found = self._check(X, lengths, times)
        return self._mixed(found).log_likelihood

    def score(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> float:
        """Return the log predictive density per row, in nats. Parameters as in `transform`."""
        found = self._check(X, lengths, times)
        return self._mixed(found).log_likelihood / found.n_rows

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
            simulation smoother, for draws spread over the chains; ``log_likelihood``: for the same draws the
            log density of each row given the rows before it, one step ahead, so that sums over later rows
            leave the future out; ``prior`` and ``prior_predictive``; ``sample_stats``; ``observed_data``;
            ``constant_data``. Rows have the time index of the data, components run slowest first.
        """
        check_is_fitted(self)
        if self._tree is None:
            self._tree = inference_data.build(self, np.random.default_rng(self._seed))
        return self._tree

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
        return int(self.decay_.shape[0])

    def _check_parameters(self) -> None:
        if not isinstance(self.noise, str) and not (np.isreal(self.noise) and float(self.noise) > 0.0):
            raise ValueError(
                f"noise must be 'diagonal', 'isotropic' or a positive variance; got {self.noise!r}. "
                "The limit of no noise is ProbabilisticSFA(noise=0.0)."
            )
        if isinstance(self.noise, str):
            check_option("noise", self.noise, ("diagonal", "isotropic"))
        check_option("inference", self.inference, ("nuts", "svi"))
        check_option("chain_method", self.chain_method, nuts.CHAIN_METHODS)
        for name in ("n_components", "n_draws", "n_chains", "n_warmup", "max_tree_depth", "n_steps_svi"):
            check_count(name, getattr(self, name))
        check_count("n_predictive", self.n_predictive)
        if not 0.0 < self.target_accept < 1.0:
            raise ValueError(f"target_accept must lie between 0 and 1; got {self.target_accept!r}.")
        if self.priors is not None and not isinstance(self.priors, Priors):
            raise ValueError(f"priors must be probsfa.bayes.Priors; got {type(self.priors).__name__}.")

    def _check(self, X: Any, lengths: Any, times: Any) -> Sequences:
        check_is_fitted(self)
        found = check_sequences(self, X, reset=False, allow_nan=True, lengths=lengths, times=times)
        n = self.draws_.noise_variance.shape[2]
        if self.hierarchical and len(found.lengths) != n:
            raise ValueError(
                f"A hierarchical model knows the noise of the {n} sequences it was fitted to; X has "
                f"{len(found.lengths)}. Give those sequences, in the same order."
            )
        return found

    def _panels(self, found: Sequences) -> tuple[list[Panel], list[list[tuple[int, int]]]]:
        return panels_of(found.retimed(self.time_unit_), self.hierarchical)

    def _each(self, n_panels: int) -> Any:
        return each_draw(self.draws_, n_panels, spread_out(self.draws_, self.n_predictive))

    def _mixed(self, found: Sequences) -> Posterior:
        """Law of the latents of all rows, sequences one after the other."""
        panels, _ = self._panels(found)
        parts = mixed_posterior(self._each(len(panels)), panels)
        if len(parts) == 1:
            return parts[0]
        k = parts[0].means.shape[1]
        lags = [part for one in parts for part in (one.lag_one_covariances, np.zeros((1, k, k)))][:-1]
        return Posterior(
            np.concatenate([one.means for one in parts]),
            np.concatenate([one.covariances for one in parts]),
            np.concatenate(lags),
            np.concatenate([one.row_log_likelihoods for one in parts]),
        )

    def _missing(self, found: Sequences) -> Cells:
        """Law of the missing cells, row by row."""
        panels, _ = self._panels(found)
        missing = np.isnan(found.values)
        cuts = np.cumsum([panel.n_rows for panel in panels])[:-1]
        parts = mixed_cells(self._each(len(panels)), panels, np.split(missing, cuts))
        return Cells(
            np.concatenate([one.mean for one in parts]),
            np.concatenate([one.std for one in parts]),
            np.concatenate([one.means for one in parts], axis=1),
            np.concatenate([one.stds for one in parts], axis=1),
        )

    def _bar(self, total: int, unit: str) -> Any:
        return tqdm(total=total, desc="fit", unit=unit, file=sys.stderr, disable=not self.progress_bar)


def timescales(draws: Draws, time_unit: float = 1.0) -> FloatArray:
    """Time scales of draws."""
    return timescales_from_decay(draws.decay, time_unit)


def _about_svi(n_draws: int, pareto_k: float, interrupted: bool) -> str:
    if interrupted:
        return f"Interrupted: {n_draws} draws from the Gaussian approximation of the steps so far."
    advice = (
        ""
        if pareto_k <= UNRELIABLE
        else f" Above {UNRELIABLE} the weights do not mend it: use inference='nuts'."
    )
    return (
        f"{n_draws} draws from a Gaussian approximation in whitened coordinates, by importance weights of "
        f"tail index {pareto_k:.2f}.{advice}"
    )


def _advice(rhat: float, ess: float) -> str:
    if rhat > 1.05:
        return (
            " The chains do not agree: look at raw_draws_; two latents may have the same time scale, or "
            "n_components may be too large."
        )
    return f" Raise n_draws: {_ESS:.0f} effective draws and an R-hat of {_RHAT} are wanted."


def _tails(interval: float | None) -> tuple[float, ...]:
    if interval is None:
        return ()
    if not 0.0 < interval < 1.0:
        raise ValueError(f"interval must be a probability above 0 and below 1; got {interval!r}.")
    return 0.5 - interval / 2.0, 0.5 + interval / 2.0


def _into(values: FloatArray, missing: NDArray[np.bool_], cells: FloatArray) -> FloatArray:
    out = values.copy()
    out[missing] = cells
    return out


def _mix(many: list[Forecast], ends: tuple[float, ...]) -> BayesianForecast:
    seen = make_cells(np.array([one.means for one in many]), np.array([one.std for one in many]))
    hidden = make_cells(
        np.array([one.latent_means for one in many]), np.array([one.latent_std for one in many])
    )
    lower, upper = (seen.quantile(p) for p in ends)
    return BayesianForecast(seen.mean, seen.std, hidden.mean, hidden.std, lower, upper)
