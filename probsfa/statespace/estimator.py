"""Probabilistic slow feature analysis as a scikit-learn estimator, thin over this room's functions."""

import os
import sys
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_input
from probsfa._validation import Sequences, check_count, check_lengths, check_sequences, is_list_of_sequences
from probsfa.sfa import SFA
from probsfa.statespace import noise_free, persistence, streaming
from probsfa.statespace.checks import (
    check_fit_parameters,
    is_number,
    noise_kind,
    retimed,
    standardisation,
    time_unit_of,
    timescales_of,
    units,
)
from probsfa.statespace.filtering import FilterResult, FilterState, run_filter
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.fit import HEYWOOD_FLOOR, LEAST_NOISE, fit, is_heywood
from probsfa.statespace.learning.objective import STATUS_SENTENCES, EStep, FitResult, Noise
from probsfa.statespace.learning.standard_errors import StandardErrors, standard_errors
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import Parameters, canonical, rescale
from probsfa.statespace.posterior import Posterior, expected_statistics, log_likelihood, smooth
from probsfa.statespace.prediction import Forecast, fill, forecast, observation_moments
from probsfa.statespace.simulation import draw_latents, simulate

__all__ = ["ProbabilisticSFA", "load"]

FloatArray = NDArray[np.float64]
Seed = int | np.random.Generator | np.random.RandomState | None


@lists_in_lists_out
class ProbabilisticSFA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Slow feature analysis of noisy series with holes: a factorial AR(1) state-space model.

    A few independent latents, each an AR(1) process of unit variance with a time scale of its own, are seen
    through a linear map under noise (Turner & Sahani 2007). Missing cells need no filling in: each observed
    cell counts, and each missing one gets a mean and a standard deviation. Without noise, the model is slow
    feature analysis.

    Parameters
    ----------
    n_components : int, default=2
        Number of latents; may exceed the number of features.
    noise : {"diagonal", "isotropic"} or float, default="diagonal"
        Observation noise: a variance for each feature, one for all, or a known variance in squared data
        units. With ``0.0`` the fit is slow feature analysis itself, in closed form; it needs complete rows,
        and `n_components` at most the rank of the data.
    solver : {"auto", "lbfgs", "em"}, default="auto"
        How to climb the likelihood: quasi-Newton steps on the exact score, plain expectation maximisation,
        or the first where the number of parameters allows it.
    max_iter : int, default=200
        Most posterior evaluations.
    tol : float, default=1e-4
        Expected gain of log-likelihood, in nats, below which a further step is not worth taking.
    noise_floor : float or "auto", default="auto"
        Smallest noise variance, as a fraction of each feature's variance. It keeps a latent from explaining
        one feature without any noise (a Heywood case), which makes intervals too narrow. ``"auto"`` allows
        1e-9, but goes on with 1e-3 where single features fall below 1e-4 while most do not.
    random_state : int, Generator or None, default=None
        Default source of randomness of `sample` and `sample_posterior`; fitting uses none.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    params_ : Parameters
        Decay, loadings, noise variance and offset, in data units.
    decay_ : ndarray (K,)
        Correlation of each latent with itself one unit of time later, slowest first.
    timescales_ : ndarray (K,)
        ``-time_unit_ / log(decay_)``; NaN where the decay is not positive.
    time_unit_ : float
        Unit of time of `decay_`: one row, or the median time between rows if times were given.
    loadings_ : ndarray (D, K)
        How each latent shows in each feature, in data units per standard deviation of the latent.
    noise_variance_ : ndarray (D,)
        Observation noise variance, in squared data units.
    mean_ : ndarray (D,)
        Mean of each feature.
    log_likelihood_ : float
        Log-likelihood of the training data, in nats.
    history_ : ndarray (n_iter_,)
        Log-likelihood after each accepted step; never falls.
    n_iter_ : int
        Number of accepted steps.
    n_evaluations_ : int
        Number of posterior evaluations.
    converged_ : bool
        Whether the fit ended at a maximum.
    status_ : str
        How the fit ended, in a sentence, with what to try.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Latents come slowest first; the largest correlation of a latent with a feature is positive. The fit starts
    from slow feature analysis of the interpolated data and from its lagged covariances, refined in the
    frequency domain.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> series = make_slow_mixture(500, 5, decay=[0.98, 0.7], noise_variance=0.3, random_state=0)
    >>> X = series.data
    >>> X[200:230, 0] = np.nan
    >>> model = ProbabilisticSFA(n_components=2).fit(X)
    >>> filled, std = model.impute(X, return_std=True)
    >>> filled.shape, bool(np.isnan(filled).any()), bool(std[210, 0] > 0), float(std[0, 0])
    ((500, 5), False, True, 0.0)
    """

    _limit: noise_free.NoiseFree | None
    _shift: FloatArray
    _scale: FloatArray

    def __init__(
        self,
        n_components: int = 2,
        *,
        noise: str | float = "diagonal",
        solver: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
        noise_floor: float | str = "auto",
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.noise_floor = noise_floor
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> Self:
        """Find the parameters that maximise the likelihood.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence, for uneven sampling. Decays are then
            those of Ornstein-Uhlenbeck processes, hence positive.

        Returns
        -------
        ProbabilisticSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.

        Warns
        -----
        ConvergenceWarning
            If the fit stopped before a maximum; `status_` says how.
        """
        self._check_parameters()
        free_of_noise = is_number(self.noise) and self.noise == 0.0
        found = check_sequences(
            self, X, reset=True, allow_nan=not free_of_noise, lengths=lengths, times=times, min_rows=2
        )
        self.time_unit_ = time_unit_of(found)
        if free_of_noise:
            return self._fit_noise_free(found)
        shift, scale = standardisation(found.values, by_feature=self._noise_kind == "diagonal")
        self._scale, self._shift = scale, shift
        panel = make_panel(self._timed(found, (found.values - shift) / scale))
        return self._maximise(panel, panel.mask.sum(axis=0))

    def fit_stream(self, X: Any, *, lengths: Any = None) -> Self:
        """Fit to a series too long for memory, read block by block from where it lies.

        The result is that of `fit`: chunks hand the exact law of a state to each other. Starts alone are
        sought on stretches of the series. Memory does not grow with the number of rows, but for four bytes a
        row and, up to 1.5 GiB, what a forward pass leaves for the backward one.

        Parameters
        ----------
        X : array-like (T, D)
            Rows in order of time, NaN where missing: anything that has a shape and gives rows for a slice,
            such as `numpy.memmap` or a dataset of an HDF5 or Zarr file.
        lengths : array-like of int, optional
            Cuts the rows into consecutive sequences.

        Returns
        -------
        ProbabilisticSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> X = np.random.default_rng(0).standard_normal((500, 4)).cumsum(axis=0)
        >>> ProbabilisticSFA(n_components=1).fit_stream(X).loadings_.shape
        (4, 1)
        """
        self._check_parameters()
        if self._noise_kind == "fixed" and self.noise == 0.0:
            raise ValueError(
                "noise=0.0 is slow feature analysis itself; use SFA.partial_fit on blocks of rows."
            )
        shape = getattr(X, "shape", None)
        if shape is None or len(shape) != 2 or shape[0] < 2:
            raise ValueError(
                f"X must be two-dimensional with two rows or more, cut by slices; got shape {shape} "
                f"of {type(X).__name__}. For data in memory use fit."
            )
        cut = (int(shape[0]),) if lengths is None else check_lengths(lengths, int(shape[0]))
        columns = streaming.scan(X)
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = int(shape[1])
        self.time_unit_ = 1.0
        self._shift, self._scale = self._units(columns.means, columns.stds)
        panel = streaming.stream(X, cut, self._shift, self._scale)
        start = streaming.sample(X, cut, self._shift, self._scale)
        return self._maximise(start, columns.counts, lambda params: expected_statistics(params, panel))

    def _maximise(self, panel: Panel, counts: FloatArray, e_step: EStep | None = None) -> Self:
        """Climb the likelihood of standardised data with these numbers of observed cells in each feature.

        With `e_step`, which gives the expected statistics of all the data, the panel is a sample of them.
        """
        shift, scale = self._shift, self._scale
        known = float(self.noise) / scale**2 if self._noise_kind == "fixed" else None
        floor = np.full(scale.size, self._least_noise) if known is None else known
        with _Progress(self.verbose, self.max_iter) as report:
            result = fit(
                panel,
                self.n_components,
                Noise(self._noise_kind, floor),
                known,
                solver=self.solver,
                max_iter=self.max_iter,
                tol=self.tol,
                guarded=self.noise_floor == "auto",
                report=report,
                e_step=e_step,
            )
        self._limit = None
        params = canonical(rescale(result.params, shift, scale), np.where(scale > 0.0, scale, 1.0))
        # log p(x) = log p((x - shift) / scale) - log(scale) for each observed cell
        self._set_fit(params, result, float(counts @ np.log(scale)))
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=3)
        return self

    def _fit_noise_free(self, found: Sequences) -> Self:
        if found.times is not None:
            raise ValueError("noise=0.0 is the limit of even sampling; it takes no times.")
        x = found.values
        full = SFA().fit(x, lengths=found.lengths)
        if self.n_components > full.rank_:
            raise ValueError(
                f"n_components={self.n_components} exceeds the rank {full.rank_} of the data; without noise "
                "there are no more latents than directions in which the data vary."
            )
        self._limit = noise_free.noise_free(full.delta_values_, full.components_, full.loadings_, full.mean_)
        self._shift, self._scale = full.mean_, np.ones(found.n_features)
        value = float(np.sum(noise_free.row_log_likelihoods(self._limit, found)))
        params = self._limit.parameters(self.n_components)
        self._set_fit(params, FitResult(params, value, (value,), 0, "closed_form"), 0.0)
        return self

    def _set_fit(self, params: Parameters, result: FitResult, jacobian: float) -> None:
        self.params_ = params
        self.decay_, self.loadings_, self.noise_variance_, self.mean_ = params
        self.timescales_ = timescales_of(params.decay, self.time_unit_)
        self.log_likelihood_ = result.log_likelihood - jacobian
        self.history_ = np.asarray(result.history) - jacobian
        self.n_iter_ = max(len(result.history), 1)
        self.n_evaluations_ = result.n_evaluations
        self.converged_ = result.status in ("converged", "flat", "closed_form")
        self.status_ = STATUS_SENTENCES[result.status] + self._floor_sentence(params)

    def _floor_sentence(self, params: Parameters) -> str:
        if self._limit is not None or self._noise_kind == "fixed":
            return ""
        relative = params.noise_variance / self._scale**2
        at = np.flatnonzero(
            np.any(np.isclose(relative[:, None], [self._least_noise, HEYWOOD_FLOOR], rtol=1e-6), axis=1)
        )
        if self.noise_floor == "auto" and self._noise_kind == "diagonal" and is_heywood(relative):
            return (
                f" The noise variance of feature {int(np.argmin(relative))} is nearly zero while most "
                "are not (a Heywood case): intervals may be too narrow. Raise max_iter, or set noise_floor."
            )
        if at.size == 0:
            return ""
        listed = ", ".join(map(str, at[:5])) + (", ..." if at.size > 5 else "")
        return f" The noise variance of {at.size} of {relative.size} features is at its floor ({listed})."

    # ---------------------------------------------------------------- inference

    def transform(self, X: Any, *, lengths: Any = None, times: Any = None) -> Any:
        """Return the posterior means of the latents, given all rows of each sequence.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing. They are inferred together: a row alone tells less.
        lengths, times : optional
            As in `fit`.

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
            Posterior means, slowest first.
        """
        found = self._check(X, lengths, times)
        return found.restore(self._smooth(found).means)

    def posterior(self, X: Any, *, lengths: Any = None, times: Any = None) -> Posterior | list[Posterior]:
        """Return the law of the latents given all rows of each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`.

        Returns
        -------
        Posterior, or list of Posterior
            Means (T, K), covariances (T, K, K), lag-one covariances (T - 1, K, K), log-likelihood.
        """
        found = self._check(X, lengths, times)
        whole = self._smooth(found)
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

    def filter(
        self, X: Any, state: FilterState | None = None, *, times: Any = None
    ) -> FilterResult | list[FilterResult]:
        """Return the law of each latent state given the rows up to its own.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        state : FilterState, optional
            ``state`` of the result for the rows before, to go on with one sequence.
        times : optional
            As in `fit`.

        Returns
        -------
        FilterResult, or list of FilterResult
            Causal means and covariances, log-likelihoods of the rows, and the state from which to go on.

        Raises
        ------
        ValueError
            If a state comes with several sequences, or does not fit the model or the times.
        """
        found = self._check(X, None, times)
        if self._limit is not None:
            raise ValueError(
                "filter needs observation noise; without it (noise=0.0), transform is causal already."
            )
        if state is not None and found.is_list:
            raise ValueError("state goes on with one sequence; X is a list of them.")
        timed = self._timed(found, found.values)
        results = [
            run_filter(
                self.params_,
                Sequences(timed.values[s], (n,), None if timed.times is None else timed.times[s]),
                state,
            )
            for s, n in zip(found.slices, found.lengths, strict=True)
        ]
        return results if found.is_list else results[0]

    def impute(self, X: Any, return_std: bool = False, *, lengths: Any = None, times: Any = None) -> Any:
        """Fill missing cells with their posterior means.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations too.
        lengths, times : optional
            As in `fit`.

        Returns
        -------
        filled : like X
            Observed cells as they were, missing ones filled. Frames come back as frames, lists as lists.
        std : like X
            With `return_std`: standard deviation of each filled cell (of the value that would have been
            observed, noise included); zero for observed ones.
        """
        found = self._check(X, lengths, times)
        if self._limit is not None:
            filled, std = found.values.copy(), np.zeros_like(found.values)
        else:
            whole = self._smooth(found)
            filled, std = fill(
                found.values, *observation_moments(self.params_, whole.means, whole.covariances)
            )
        values = like_input(X, found, filled)
        return (values, like_input(X, found, std)) if return_std else values

    def forecast(
        self, X: Any, n_steps: int, *, lengths: Any = None, times: Any = None
    ) -> Forecast | list[Forecast]:
        """Forecast the steps that follow each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`; the rows from which to forecast.
        n_steps : int
            Number of steps, each of one `time_unit_`.

        Returns
        -------
        Forecast, or list of Forecast
            Means and standard deviations of observations (n_steps, D) and latents (n_steps, K). An array
            cut by `lengths` gives a list.
        """
        check_count("n_steps", n_steps)
        found = self._check(X, lengths, times)
        if self._limit is not None:
            ends = [
                noise_free.forecast_rows(self._limit, found.values[s.stop - 1], n_steps, self.n_components)
                for s in found.slices
            ]
        else:
            whole = self._smooth(found)
            ends = [
                forecast(self.params_, whole.means[s.stop - 1], whole.covariances[s.stop - 1], n_steps)
                for s in found.slices
            ]
        return ends if found.is_list or lengths is not None else ends[0]

    def sample(self, n_steps: int = 1, *, random_state: Seed = None) -> tuple[FloatArray, FloatArray]:
        """Draw a series from the model.

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
        params = self.params_ if self._limit is None else self._limit.parameters(self._limit.decay.shape[0])
        observations, latents = simulate(params, n_steps, self._rng(random_state))
        return observations, latents[:, : self.n_components]

    def sample_posterior(
        self, X: Any, n_draws: int = 1, *, lengths: Any = None, times: Any = None, random_state: Seed = None
    ) -> FloatArray | list[FloatArray]:
        """Draw courses of the latents from their joint law given the data.

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
        if self._limit is not None:
            drawn = np.repeat(self._smooth(found).means[None], n_draws, axis=0)
        else:
            drawn = draw_latents(self.params_, self._panel(found), n_draws, self._rng(random_state))
        return [drawn[:, s] for s in found.slices] if found.is_list else drawn

    # -------------------------------------------------------------------- scores

    def log_likelihood(self, X: Any, *, lengths: Any = None, times: Any = None) -> float:
        """Return the log-likelihood of all rows, in nats. Parameters as in `transform`."""
        found = self._check(X, lengths, times)
        if self._limit is not None:
            return float(np.sum(noise_free.row_log_likelihoods(self._limit, found)))
        return log_likelihood(self.params_, self._panel(found))

    def score(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> float:
        """Return the mean log-likelihood per row, in nats. Parameters as in `transform`."""
        n_rows = sum(map(len, X)) if is_list_of_sequences(X) else len(self._check(X, lengths, times).values)
        return self.log_likelihood(X, lengths=lengths, times=times) / n_rows

    def bic(self, X: Any, *, lengths: Any = None, times: Any = None) -> float:
        """Return the Bayesian information criterion, smaller is better. Parameters as in `transform`.

        ``-2 log L + P log N``, with ``P`` free parameters and ``N`` rows in which anything is observed. With
        ``noise=0.0`` the likelihood is that of the square model, whatever `n_components` is, and so is ``P``.
        """
        found = self._check(X, lengths, times)
        observed = int(np.count_nonzero(found.mask.any(axis=1)))
        n_parameters = self._layout(found).size if self._limit is None else self._limit.n_parameters
        return -2.0 * self.log_likelihood(X, lengths=lengths, times=times) + n_parameters * float(
            np.log(observed)
        )

    def standard_errors(self, X: Any, *, lengths: Any = None, times: Any = None) -> StandardErrors:
        """Return standard errors of the parameters from the observed information of the training data.

        Parameters
        ----------
        X, lengths, times
            The data the model was fitted to.

        Returns
        -------
        StandardErrors
            With the shapes and units of the parameters; costs two posterior evaluations for each free
            parameter.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).
        """
        found = self._check(X, lengths, times)
        if self._limit is not None:
            raise ValueError(
                "standard_errors needs observation noise; noise=0.0 is a limit of no uncertainty."
            )
        scale, shift = self._scale, self._shift
        inner = rescale(self.params_, -shift / scale, 1.0 / scale)
        panel = make_panel(self._timed(found, (found.values - shift) / scale))
        floors = (self._least_noise, HEYWOOD_FLOOR) if self.noise_floor == "auto" else (self._least_noise,)
        layout = self._layout(found)._replace(evenly_sampled=panel.evenly_sampled)
        return standard_errors(layout, inner, panel, floors, scale, self.time_unit_)

    # ------------------------------------------------------------------- storage

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that :func:`probsfa.load` reads; no pickle.

        Parameters
        ----------
        path : path-like
            File to write; what is there is replaced in one piece.
        """
        check_is_fitted(self)
        persistence.save(self, path)

    # ------------------------------------------------------------------ plumbing

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are parameters."""
        return hasattr(self, "params_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not (is_number(self.noise) and self.noise == 0.0)
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.decay_.shape[0])

    @property
    def _noise_kind(self) -> Any:
        return noise_kind(self.noise)

    @property
    def _least_noise(self) -> float:
        """Smallest noise variance allowed at first, as a fraction of each feature's variance."""
        return LEAST_NOISE if isinstance(self.noise_floor, str) else float(self.noise_floor)

    def _check_parameters(self) -> None:
        check_fit_parameters(
            self.n_components, self.noise, self.solver, self.max_iter, self.tol, self.noise_floor
        )

    def _units(self, shift: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shift and scale of each feature from their means and standard deviations."""
        return units(shift, std, by_feature=self._noise_kind == "diagonal")

    def _check(self, X: Any, lengths: Any, times: Any) -> Sequences:
        check_is_fitted(self)
        return check_sequences(
            self, X, reset=False, allow_nan=self._limit is None, lengths=lengths, times=times
        )

    def _timed(self, found: Sequences, values: FloatArray) -> Sequences:
        """The same rows with other values, and times in the model's unit."""
        return retimed(found, values, self.time_unit_)

    def _panel(self, found: Sequences) -> Panel:
        return make_panel(self._timed(found, found.values))

    def _smooth(self, found: Sequences) -> Posterior:
        if self._limit is not None:
            return noise_free.posterior(self._limit, found, self.n_components)
        return smooth(self.params_, self._panel(found))

    def _layout(self, found: Sequences) -> Coordinates:
        even = found.times is None
        return Coordinates(found.n_features, self.params_.n_components, self._noise_kind, even)

    def _rng(self, random_state: Seed) -> np.random.Generator:
        seed = self.random_state if random_state is None else random_state
        if isinstance(seed, np.random.RandomState):
            seed = seed.randint(2**31)
        return np.random.default_rng(seed)


def load(path: str | os.PathLike[str]) -> ProbabilisticSFA:
    """Load a model that :meth:`ProbabilisticSFA.save` wrote.

    Parameters
    ----------
    path : path-like
        File to read.

    Returns
    -------
    ProbabilisticSFA
        The fitted estimator.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a model of this package, or of a later version of the format.
    """
    model: ProbabilisticSFA = persistence.restore(ProbabilisticSFA, path)
    return model


class _Progress:
    """A bar that counts posterior evaluations, on standard error."""

    def __init__(self, shown: bool, total: int) -> None:
        self._bar = tqdm(total=total, desc="fit", unit="posterior", file=sys.stderr, disable=not shown)

    def __enter__(self) -> Any:
        return self._report

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def _report(self, count: int, best: float) -> None:
        self._bar.update(count - self._bar.n)
        self._bar.set_postfix_str(f"log-likelihood {best:.6g}", refresh=False)
