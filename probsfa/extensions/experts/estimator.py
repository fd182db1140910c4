"""The product of experts as a scikit-learn estimator."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa._random import generator
from probsfa._saving import Saveable
from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.expansions import Polynomial
from probsfa.expansions._base import check_positive
from probsfa.extensions.experts.learning import Data, Learned, Settings, learn
from probsfa.extensions.experts.linear_rows import LinearRows
from probsfa.extensions.experts.model import ExpertModel
from probsfa.extensions.experts.potential import Features
from probsfa.extensions.experts.sampled_model import N_DRAWS, SampledModel
from probsfa.extensions.experts.sampling import Columns
from probsfa.sfa._expand import Expander
from probsfa.statespace.learning.maximum_likelihood import InMemory, maximum_likelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.methods import StateSpaceMethods
from probsfa.statespace.parameters import StateSpace, canonical
from probsfa.statespace.progress import Progress

__all__ = ["ProductOfExpertsSFA"]

# Maximum number of likelihood evaluations for the initial linear model of expanded rows.
_MAX_START_EVALUATIONS = 60
# Largest initial decay.
_MAX_DECAY = 0.9999
# The density can be normalized only if the expansion is unbounded. At _FAR_DISTANCE standard deviations from
# the mean of the rows, a standardized output must have an absolute value of at least _MIN_FAR_VALUE.
_FAR_DISTANCE, _MIN_FAR_VALUE = 1e4, 1e2


class ProductOfExpertsSFA(Saveable, StateSpaceMethods):
    """Product-of-experts model for slow features of nonlinear expansions.

    Slow feature analysis of an expansion such as ``(y, y^2)`` ignores that expanded rows lie on a manifold.
    In this model, local experts restrict a linear Gaussian model of the expanded rows to the manifold (Turner
    & Sahani 2007, section 5.3). The result is a density of the rows, for simulation, imputation and
    likelihoods. ::

        p(y_1, ..., y_T) = N(phi(y_1), ..., phi(y_T)) / Z

    with the density ``N`` of a linear model of independent AR(1) factors with noise.

    Parameters
    ----------
    n_components : int, default=2
        Number of factors, ``K``. With too few factors, a fast factor that loads on many outputs may replace a
        slow one, because it explains more variance.
    expansion : transformer, optional
        ``phi``, which maps each row separately and must be unbounded. By default
        ``expansions.Polynomial(2)``; for a bounded expansion use ``Concatenation([Identity(), ...])``.
    width : float, default=0.0
        Width ``beta`` of the local experts, in standard deviations of the expanded columns: the typical
        distance of expanded rows from the manifold. With zero, all expanded rows lie on the manifold.
    observation_noise : float, default=0.0
        Standard deviation of additional observation noise of the rows, in standard deviations of the columns.
    n_chains : int, default=4
        Number of Markov chains for the gradient.
    n_moves : int, default=2
        Number of moves of each chain in a learning step.
    n_leaps : int, default=8
        Number of leapfrog steps in a move.
    persistent : bool, default=True
        Whether chains continue from the previous learning step (persistent contrastive divergence); after
        they have mixed, they estimate the gradient of the likelihood without bias. Otherwise they start at
        the data in each step (contrastive divergence).
    learning_rate : float, default=0.03
        Initial size of the steps of Adam in each parameter. The parameters are ``atanh`` of the decays,
        loadings, logarithms of noise variances, and offsets, for standardized outputs of the expansion.
    max_iter : int, default=300
        Number of learning steps.
    tol : float, default=0.3
        The fit has converged if the mean of each parameter over the last quarter of the steps differs by at
        most `tol` from its mean over the third quarter.
    noise_floor : float, default=0.01
        Smallest noise variance, relative to the variance of the expanded columns.
    random_state : int, Generator or None, default=None
        Seed of the fit, and default seed of methods that draw.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    decay_ : ndarray (K,)
        Lag-one autocorrelation of each factor under the global expert, slowest first.
    timescales_ : ndarray (K,)
        ``-1 / log(decay_)`` in rows; NaN if the decay is not positive.
    loadings_ : ndarray (E, K)
        Effect of each factor on each output of the expansion, in units of the output.
    noise_variance_ : ndarray (E,)
        Noise variance of each output under the global expert, without the part ``beta^2`` of the local
        experts.
    mean_ : ndarray (E,)
        Mean of each output under the global expert.
    expansion_ : transformer
        The fitted expansion.
    history_ : ndarray (n_iter_,)
        Log density of the data minus that of samples, in nats per row, at each step; about zero after
        convergence.
    acceptance_ : float
        Acceptance rate of recent moves.
    drift_ : float
        Largest difference of a parameter's means over the third and the last quarter of the steps, which is
        compared with `tol`.
    n_iter_ : int
        Number of learning steps.
    converged_ : bool
        Whether `drift_` is at most `tol`.
    status_ : str
        How the fit ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.SFA : Slow features of expansions, without noise.
    probsfa.ProbabilisticSFA : The model without an expansion, exact and faster.
    probsfa.EmissionSFA : Functions from factors to rows, instead of from rows to factors.

    Notes
    -----
    The expanded rows are integrated out in closed form: local experts of width ``beta`` add ``beta^2`` to the
    noise of the linear model. The rows are sampled by Hamiltonian Monte Carlo. `log_likelihood` estimates the
    normalizer ``Z`` by annealed importance sampling. Without an expansion (``expansions.Identity()``) the
    model is that of :class:`probsfa.ProbabilisticSFA`.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022, section 5.3, eq. 29
    and figure 3.
    Hinton (2002), Neural Computation 14:1771.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.extensions import ProductOfExpertsSFA
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(200)
    >>> fast = rng.standard_normal(200)
    >>> y = np.column_stack([np.sin(t / 15.0) + fast**2, fast])
    >>> model = ProductOfExpertsSFA(2, max_iter=50, tol=1.0, random_state=0).fit(y)
    >>> bool(abs(np.corrcoef(model.transform(y)[:, 0], np.sin(t / 15.0))[0, 1]) > 0.9)
    True
    >>> drawn, factors = model.sample(20, n_moves=50)
    >>> drawn.shape, factors.shape
    ((20, 2), (20, 2))
    """

    _unsupported: ClassVar[Mapping[str, str]] = {
        "factor_interval": "uncertainty of its parameters is not estimated. Use posterior(X).std, which "
        "treats the fitted parameters as known.",
        "filter": "its rows are sampled jointly. Use ProbabilisticSFA.",
        "forecast": "use means and quantiles of sample_posterior(X, n_draws, of='values', n_steps=...).",
        "contributions": "rows are not linear functions of the factors. Use ProbabilisticSFA.",
        "news": "predictions are not linear in new observations. Use ProbabilisticSFA.",
        "outlier_scores": "each score would require separate samples. Use ProbabilisticSFA, or compare "
        "masked values with impute(X, return_std=True).",
        "diagnose": "it has no one-step predictions. Use ProbabilisticSFA.diagnose.",
        "standard_errors": "parameters are learned from samples. Use a parametric bootstrap: fit to series "
        "of sample().",
        "profile_timescale": "its likelihood is estimated by sampling. Use ProbabilisticSFA or BayesianSFA.",
        "bic": "its likelihood is estimated by sampling, with an error of about one nat. Compare "
        "log_likelihood(X, return_error=True) of held-out rows.",
        "lower_bound": "its likelihood is estimated by log_likelihood.",
    }
    _renamed_attributes: ClassVar[Mapping[str, str]] = {"offset_": "mean_"}
    # Only log_potential does not support missing values.
    _advice_on_missing: ClassVar[str] = (
        "log_potential requires complete rows. Impute missing values with impute first."
    )
    _unsupported_arguments: ClassVar[Mapping[str, str]] = {
        "times": "Rows must be evenly spaced. Use ProbabilisticSFA for uneven times.",
        "exog": "Use ProbabilisticSFA, which has covariates.",
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        expansion: Any = None,
        width: float = 0.0,
        observation_noise: float = 0.0,
        n_chains: int = 4,
        n_moves: int = 2,
        n_leaps: int = 8,
        persistent: bool = True,
        learning_rate: float = 0.03,
        max_iter: int = 300,
        tol: float = 0.3,
        noise_floor: float = 0.01,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.expansion = expansion
        self.width = width
        self.observation_noise = observation_noise
        self.n_chains = n_chains
        self.n_moves = n_moves
        self.n_leaps = n_leaps
        self.persistent = persistent
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.noise_floor = noise_floor
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Fit the parameters of the global expert by contrastive divergence.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times, exog : None
            Not supported; use :class:`probsfa.ProbabilisticSFA`.

        Returns
        -------
        ProductOfExpertsSFA
            The fitted estimator. After a keyboard interrupt it has the parameters so far.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; if no row is complete; if the expansion is bounded.

        Warns
        -----
        ConvergenceWarning
            If the fit was interrupted, or `drift_` is more than `tol`.
        """
        self._refuse_arguments(times=times, exog=exog)
        self._check_parameters()
        sequences = check_sequences(
            self, X, reset=True, allow_nan=True, lengths=lengths, min_rows=2, index="warn"
        )
        rng = generator(self.random_state)
        values = sequences.values
        columns = Columns.of(values, sequences.lengths)
        expander = Expander.fit(Polynomial(2) if self.expansion is None else self.expansion, values)
        complete = np.asarray(sequences.mask.all(axis=1))
        features = Features.of(expander.transformer, values[complete])
        _check_growth(features, columns, rng)
        noise = float(self.observation_noise) * np.sqrt(columns.variance)
        data = Data(values, sequences.mask, sequences.lengths, columns, noise)
        settings = Settings(
            self.n_chains,
            self.n_moves,
            self.n_leaps,
            bool(self.persistent),
            float(self.learning_rate),
            self.max_iter,
            float(self.width) ** 2 + float(self.noise_floor),
        )
        start, interrupted = self._fit_start(sequences, features, complete)
        linear, is_linear_interrupted = self._fit_linear_rows(sequences, noise, columns)
        interrupted = interrupted or is_linear_interrupted
        if interrupted:
            settings = settings._replace(max_iter=0)
        with (
            Progress(self.max_iter, unit="step", value="contrast")
            if self.verbose
            else nullcontext() as report
        ):
            learned = learn(features, data, start, settings, rng, report)
        self._set_fitted(
            learned._replace(interrupted=interrupted or learned.interrupted), features, columns, linear
        )
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=2)
        return self

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_chains", "n_moves", "n_leaps", "max_iter"):
            check_count(name, getattr(self, name))
        for name in ("learning_rate", "tol", "noise_floor"):
            check_positive(name, getattr(self, name))
        for name in ("width", "observation_noise"):
            if getattr(self, name) != 0.0:
                check_positive(name, getattr(self, name))

    def _fit_start(
        self, sequences: Sequences, features: Features, complete: NDArray[np.bool_]
    ) -> tuple[StateSpace, bool]:
        """Fit the linear model of expanded rows; return it, and whether the fit was interrupted."""
        expanded = np.full((sequences.n_rows, len(features.scale)), np.nan)
        expanded[complete] = features(sequences.values[complete])
        options = FitOptions(self.n_components, max_iter=_MAX_START_EVALUATIONS)
        linear = maximum_likelihood(
            InMemory(replace(sequences, values=expanded, feature_names=None)), options
        )
        params = linear.params.replace(decay=np.clip(linear.params.decay, -_MAX_DECAY, _MAX_DECAY))
        return params, linear.interrupted

    def _fit_linear_rows(
        self, sequences: Sequences, noise: FloatArray, columns: Columns
    ) -> tuple[LinearRows, bool]:
        """Fit the linear model of the rows; return it, and whether the fit was interrupted."""
        options = FitOptions(min(self.n_components, sequences.n_features), max_iter=_MAX_START_EVALUATIONS)
        fit = maximum_likelihood(InMemory(sequences), options)
        decay = np.clip(fit.params.decay, -_MAX_DECAY, _MAX_DECAY)
        minimum = float(self.noise_floor) * columns.variance
        noise_variance = np.maximum(fit.params.noise_variance - noise**2, minimum)
        return LinearRows(decay, fit.params.loadings, noise_variance, fit.params.offset), fit.interrupted

    def _set_fitted(self, learned: Learned, features: Features, columns: Columns, linear: LinearRows) -> None:
        params = canonical(learned.params, np.ones(len(features.scale)))
        width = float(self.width)
        self.expansion_ = features.transformer
        self.decay_ = params.decay
        self.timescales_ = timescales_from_decay(params.decay)
        self.loadings_ = params.loadings * features.scale[:, None]
        self.noise_variance_ = (params.noise_variance - width**2) * features.scale**2
        self.mean_ = features.shift + features.scale * params.offset
        self._fitted = ExpertModel(
            features._replace(transformer=None),
            params.decay,
            params.loadings,
            params.noise_variance,
            params.offset,
            columns,
            float(self.observation_noise) * np.sqrt(columns.variance),
            width,
            learned.step,
            self.n_leaps,
            linear,
        )
        self.history_ = learned.contrast
        self.acceptance_, self.drift_ = learned.acceptance, learned.drift
        self.n_iter_ = len(learned.contrast)
        self.converged_ = not learned.interrupted and self.drift_ <= self.tol
        if learned.interrupted:
            self.status_ = f"Interrupted after {self.n_iter_} steps; these are the parameters so far."
        elif self.converged_:
            self.status_ = (
                f"Converged in {self.n_iter_} steps: mean parameters of the last two quarters differ by at "
                f"most {self.drift_:.2g}."
            )
        else:
            self.status_ = (
                f"Stopped after max_iter={self.max_iter} steps: mean parameters of the last two quarters "
                f"differ by {self.drift_:.2g}. Increase max_iter, or tol if the result is accurate enough."
            )

    @property
    def _experts(self) -> ExpertModel:
        return self._fitted._replace(features=self._fitted.features._replace(transformer=self.expansion_))

    @property
    def _model(self) -> SampledModel:
        return SampledModel(self._experts, lambda: self._reproducible_generator(None))

    # Methods with additional arguments; the others are those of all probabilistic estimators.

    def impute(
        self,
        X: Any,
        return_std: bool = False,
        *,
        interval: float | None = None,
        quantile: float | Sequence[float] | None = None,
        n_draws: int = N_DRAWS,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
        random_state: Seed = None,
    ) -> Any:
        """Impute missing values by means or quantiles of draws given all observed values.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations as well.
        interval : float, optional
            Probability of central prediction intervals, such as 0.9; their limits are returned as well.
        quantile : float or sequence of float, optional
            Impute quantiles instead of means.
        n_draws : int, default=200
            Number of draws.
        lengths, times, exog : optional
            As in `fit`.
        random_state : int, Generator or None
            Seed of the draws; None is `random_state` of the estimator, or 0 if that is None, too.

        Returns
        -------
        filled, std, lower, upper : like X
            As from :meth:`probsfa.ProbabilisticSFA.impute`.
        """
        check_count("n_draws", n_draws, minimum=2)
        sequences = self._check(X, lengths, times, exog)
        rng = self._reproducible_generator(random_state)
        model = SampledModel(self._experts, lambda: rng, n_draws)
        return self._imputed(X, sequences, model, return_std, interval, quantile)

    def sample(
        self,
        n_steps: int = 1,
        *,
        n_moves: int = 500,
        expanded: bool = False,
        exog: Any = None,
        random_state: Seed = None,
    ) -> tuple[FloatArray, ...]:
        """Simulate a series from the model.

        Parameters
        ----------
        n_steps : int, default=1
            Number of rows.
        n_moves : int, default=500
            Number of moves of the Markov chain that samples the rows. Its start is a draw in which columns
            are independent AR(1) processes.
        expanded : bool, default=False
            Whether to return also the expanded rows.
        exog : None
            Not supported.
        random_state : int, Generator or None
            Seed of the draws; None is `random_state` of the estimator.

        Returns
        -------
        X : ndarray (n_steps, D)
            Rows.
        factors : ndarray (n_steps, K)
            Factors drawn from their posterior given the rows.
        expanded : ndarray (n_steps, E)
            Only with `expanded`: draws of the expanded rows. They differ from the expansion of `X` by noise
            with the standard deviation `width`.
        """
        check_is_fitted(self)
        self._refuse_arguments(exog=exog)
        check_count("n_steps", n_steps)
        check_count("n_moves", n_moves)
        rng, experts = self._generator(random_state), self._experts
        draws = experts.draw_series(n_steps, n_moves, rng)
        rows = draws.rows[0] + experts.noise * rng.standard_normal(draws.rows[0].shape)
        if not expanded:
            return rows, draws.factors[0]
        return rows, draws.factors[0], experts.expanded(draws, rng)[0]

    # -------------------------------------------------------------------- scores

    def log_potential(self, X: Any, *, lengths: Any = None) -> float:
        """Return the log density of complete rows without the normalizer, in nats.

        The normalizer is the same for all series of one length. The value can therefore compare such series
        under one model: its differences are exactly those of the log-likelihood.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Complete rows in order of time.
        lengths : array-like of int, optional
            As in `fit`.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If a value is missing.
        """
        check_is_fitted(self)
        sequences = check_sequences(self, X, reset=False, allow_nan=False, lengths=lengths, index="warn")
        return self._experts.log_potential(sequences.values, sequences.lengths)

    def log_likelihood(
        self,
        X: Any,
        *,
        n_chains: int = 8,
        n_temperatures: int | None = None,
        return_error: bool = False,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
        random_state: Seed = None,
    ) -> Any:
        """Return an estimate of the log-likelihood of the observed values, in nats.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        n_chains : int, default=8
            Number of chains of annealed importance sampling, in each direction.
        n_temperatures : int, optional
            Number of densities between the linear Gaussian model of the rows and this model. By default 50,
            doubled up to 400 until each of the two integrals (see Notes) has an error of at most 0.5 nats.
        return_error : bool, default=False
            Whether to return also the standard error. The standard error includes the variance of the chains
            and the difference of the two directions, which is large for too few temperatures.
        lengths, times, exog : optional
            As in `fit`.
        random_state : int, Generator or None
            Seed of the chains; None is `random_state` of the estimator, or 0 if that is None, too.

        Returns
        -------
        log_likelihood : float
        error : float
            Standard error in nats; only with `return_error`.

        Notes
        -----
        The normalizer and the integral over missing values are estimated by annealed importance sampling.
        Chains run from the linear model to this model and back, and Bennett's acceptance ratio combines the
        two directions. In expectation the first direction underestimates the logarithm of the integral. The
        second direction overestimates it if the chains have mixed at this model.
        """
        check_count("n_chains", n_chains, minimum=2)
        if n_temperatures is not None:
            check_count("n_temperatures", n_temperatures)
        sequences = self._check(X, lengths, times, exog)
        result = self._experts.log_likelihood(
            sequences.values,
            sequences.lengths,
            n_chains,
            n_temperatures,
            self._reproducible_generator(random_state),
        )
        return (result.value, result.error) if return_error else result.value

    # ------------------------------------------------------------------ scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "_fitted")

    def _reproducible_generator(self, random_state: Seed) -> np.random.Generator:
        """Return a random generator with a fixed seed by default."""
        seed = self.random_state if random_state is None else random_state
        return generator(0 if seed is None else seed)


def _check_growth(features: Features, columns: Columns, rng: np.random.Generator) -> None:
    """Raise a ValueError for a bounded expansion, whose density cannot be normalized."""
    directions = rng.standard_normal((64, len(columns.mean)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        far_features = features(columns.mean + _FAR_DISTANCE * np.sqrt(columns.variance) * directions)
        largest_feature = np.max(np.abs(far_features), axis=1)
    if np.any(largest_feature < _MIN_FAR_VALUE):
        raise ValueError(
            f"expansion must be unbounded; {type(features.transformer).__name__} is bounded, so that "
            "distant rows would be as probable as those of X. Add the rows themselves: "
            "expansions.Concatenation([expansions.Identity(), ...])."
        )
