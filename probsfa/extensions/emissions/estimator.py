"""Estimator of slow factors of counts, binary, categorical and heavy-tailed data."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa._random import generator
from probsfa._saving import Saveable
from probsfa._times import describe_index, timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import check_count, check_sequences
from probsfa.extensions.emissions.columns import read_emission, read_link
from probsfa.extensions.emissions.model import EmissionFit, EmissionModel, fit_model
from probsfa.statespace.learning.options import FitOptions, ProcessOptions, is_number
from probsfa.statespace.methods import StateSpaceMethods
from probsfa.statespace.progress import Progress
from probsfa.statespace.quantities import Quantity

__all__ = ["EmissionSFA"]

# Maximum number of factors for n_components=None.
_MAX_FACTORS = 5
# Maximum number of posterior evaluations of the initial Gaussian model.
_MAX_START_EVALUATIONS = 40

_LEVEL_AND_SCALE_WARNING = (
    "EmissionSFA.posterior(level_and_scale=...) has no effect: covariances are at the fitted parameters. "
    "Use factor_interval(X), which includes their uncertainty. The argument will be removed in version 2.0."
)


class EmissionSFA(Saveable, StateSpaceMethods):
    """Slow feature analysis of counts, events, categories and heavy-tailed data, with missing values.

    A dynamic factor model for non-Gaussian values: each value has the distribution ``x ~ p(. | eta)`` with
    the predictor ``eta = mu + C z``, where ``z`` are the factors of :class:`probsfa.ProbabilisticSFA` and
    ``p`` is a family for each column (Turner & Sahani 2007, section 5; Poisson as in Macke et al. 2011).

    Parameters
    ----------
    n_components : int or None, default=None
        Number of factors; None is one for each column, up to 5.
    emission : str, list or dict, default="auto"
        Distribution of the values: one name for all columns, or a list with one name for each column. A dict
        maps names or numbers of columns to names of distributions; other columns have ``"auto"``.

        - ``"bernoulli"``: zeros and ones, or booleans, with odds ``exp(eta)``;
        - ``"poisson"``: counts with the mean ``exp(eta)``;
        - ``"negative_binomial"``: counts with the mean ``exp(eta)`` and the variance ``mean + mean^2 /
          size``;
        - ``"categorical"``: levels, coded as any numbers; ordered levels need codes in the same order;
        - ``"gaussian"``: numbers with Gaussian noise;
        - ``"student_t"``: numbers with heavy-tailed noise;
        - ``"auto"``: "bernoulli" for zeros and ones, "negative_binomial" for other nonnegative integers,
          "gaussian" for all other values.
    link : {"monotone", "quadratic"}, list, dict or None, default=None
        Learned nonlinear function ``Phi`` from the predictor to the mean of "gaussian" columns: ``x ~
        N(Phi(eta), r)`` (Turner & Sahani 2007, eq. 28). A list or dict has one name for each column, like
        `emission`; "identity" is no link.
    rhythms, smooth : int or list, default=0
        Numbers of stochastic cycles and of smooth factors, or lists of their initial periods and time scales;
        see :class:`probsfa.ProbabilisticSFA`.
    max_iter : int, default=200
        Maximum number of evaluations of the bound.
    tol : float or "auto", default="auto"
        The fit stops if the next step is expected to gain less than `tol` nats. ``"auto"`` is
        ``min(1e-4 P**2, 0.03 P)`` for ``P`` parameters of dynamics, loadings and means.
    random_state : int, Generator or None, default=None
        Seed of `sample`, of `sample_posterior`, and of the residuals of `filter`.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    emissions_ : tuple of str
        The emission of each column.
    decay_ : ndarray (K,)
        Autocorrelation of each factor at one unit of time, slowest first.
    timescales_ : ndarray (K,)
        ``-time_unit_ / log(decay_)``; NaN if the decay is not positive.
    loadings_ : ndarray (E, S)
        Effect of each state on each of the ``E`` predictors: in data units for "gaussian" and "student_t", in
        log-odds or logarithms of the mean otherwise. A "categorical" column with ``L`` levels has ``L - 1``
        predictors, each other column has one.
    mean_ : ndarray (E,)
        Mean of each predictor.
    links_ : tuple of str
        The link of each column. The predictor of a column with a link is the argument of the link, and not in
        data units.
    predictor_columns_ : ndarray of int (E,)
        Index of the column of each predictor.
    levels_ : dict
        Maps the index of each categorical column to its sorted levels.
    noise_variance_ : ndarray (D,)
        Variance of Gaussian noise, or squared scale of Student-t noise; NaN for other columns.
    degrees_of_freedom_ : ndarray (D,)
        Degrees of freedom of Student-t noise; NaN for other columns.
    size_ : ndarray (D,)
        Size of negative binomial distributions; NaN for other columns.
    time_unit_ : float
        Time step of `decay_`: one row, or the median step of `times`.
    time_unit_seconds_ : float or None
        `time_unit_` in seconds, for dates and durations.
    lower_bound_ : float
        Lower bound of the log-likelihood of the training data, in nats.
    history_ : ndarray (n_iter_,)
        Objective (bound plus log priors, up to a constant) after each accepted step; never decreases.
    n_iter_, n_evaluations_ : int
        Numbers of accepted steps and of evaluations of the bound.
    converged_ : bool
        Whether the fit reached a maximum.
    status_ : str
        How the fit ended, and what to try.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The posterior of the factors is the Gaussian variational approximation with the highest lower bound of the
    log-likelihood. Each value is replaced by a Gaussian pseudo-observation; pseudo-observations and
    parameters are updated alternately by steps that never lower the bound (Khan & Lin 2017). If all columns
    are Gaussian, the bound equals the log-likelihood. With Student-t noise, standard deviations of the
    factors are somewhat too small.

    Weak priors regularize parameters that the data do not determine, such as the odds of a column of ones:
    see :doc:`/emissions`.

    See Also
    --------
    probsfa.ProbabilisticSFA : Gaussian noise, with diagnostics and standard errors.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022, section 5.
    Khan & Lin (2017), Conjugate-computation variational inference, AISTATS, arXiv:1703.04265.
    Macke et al. (2011), Empirical models of spiking in neural populations, NeurIPS 24.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa import EmissionSFA
    >>> rng = np.random.default_rng(0)
    >>> slow = np.convolve(rng.standard_normal(340), np.ones(40) / 6.0, "valid")
    >>> counts = rng.poisson(np.exp(0.5 + np.outer(slow, [0.8, -0.6, 0.5, 0.7]))).astype(float)
    >>> counts[100:120, 0] = np.nan
    >>> model = EmissionSFA(1, emission="poisson").fit(counts)
    >>> latent = model.transform(counts)[:, 0]
    >>> bool(abs(np.corrcoef(latent, slow[: len(latent)])[0, 1]) > 0.9)
    True
    >>> filled, low, high = model.impute(counts, interval=0.9)
    >>> bool(np.all(high == np.rint(high))), filled.shape
    (True, (301, 4))
    """

    _model: EmissionModel
    _unsupported: ClassVar[Mapping[str, str]] = {
        "contributions": "values are not sums over factors, except on the scale of the predictors. Use "
        "transform(X) and loadings_.",
        "news": "predictions are not linear in new observations. Use ProbabilisticSFA.",
        "diagnose": "use the quantile residuals of filter(X).residuals, which are independent and standard "
        "normal if the model is right.",
        "standard_errors": "the curvature of the lower bound is not that of the likelihood. Use a parametric "
        "bootstrap: fit to series of sample().",
        "profile_timescale": "the lower bound is not the likelihood. Use ProbabilisticSFA or BayesianSFA.",
    }
    _quantities = (Quantity("size_", "size", "", ("column",)),)
    _renamed_attributes: ClassVar[Mapping[str, str]] = {
        "rhythm_decays_": "rhythm_decay_",
        "offset_": "mean_",
        "df_": "degrees_of_freedom_",
    }
    _unsupported_arguments: ClassVar[Mapping[str, str]] = {
        "exog": "Use ProbabilisticSFA, which has covariates."
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        emission: Any = "auto",
        link: Any = None,
        rhythms: int | Sequence[Any] = 0,
        smooth: int | Sequence[Any] = 0,
        max_iter: int = 200,
        tol: float | str = "auto",
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.emission = emission
        self.link = link
        self.rhythms = rhythms
        self.smooth = smooth
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Fit the parameters by maximizing a lower bound of the likelihood.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, as for :class:`probsfa.ProbabilisticSFA`.
        exog : None
            Not supported; use :class:`probsfa.ProbabilisticSFA`.

        Returns
        -------
        EmissionSFA
            The fitted estimator. After an interrupt from the keyboard it has the best parameters so far, and
            `status_` reports it.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid, or a value is not valid for the emission of its column.

        Warns
        -----
        ConvergenceWarning
            If the fit stopped before a maximum of the objective; `status_` has the reason.
        """
        self._refuse_arguments(exog=exog)
        self._check_parameters()
        sequences = check_sequences(
            self, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
        )
        names = getattr(self, "feature_names_in_", None)
        requested = read_emission(self.emission, sequences.n_features, names)
        links = read_link(self.link, sequences.n_features, names)
        n_components = self.n_components
        if n_components is None:
            n_components = min(sequences.n_features, _MAX_FACTORS)
        options = FitOptions(
            n_components,
            processes=ProcessOptions.of(self),
            max_iter=min(self.max_iter, _MAX_START_EVALUATIONS),
        ).check()
        if n_components == 0 and not options.n_other_processes:
            raise ValueError(
                "n_components=0 needs a stochastic cycle or a smooth factor: rhythms= or smooth=."
            )
        with Progress(self.max_iter) if self.verbose else nullcontext() as report:
            fit = fit_model(
                sequences,
                requested,
                options.with_times(sequences.axis),
                links=links,
                is_shared_link=self.link is None or isinstance(self.link, str),
                tol=self.tol,
                max_iter=self.max_iter,
                report=report,
            )
        status = fit.status
        if self.n_components is None:
            status = f"{status} n_components=None selected {n_components} latent factors."
        status += describe_index(sequences.axis, fit.model.time_unit)
        self._set_fitted(fit._replace(status=status))
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=2)
        return self

    def _check_parameters(self) -> None:
        check_count("max_iter", self.max_iter)
        if self.n_components is not None:
            check_count("n_components", self.n_components, minimum=0)
        if self.tol != "auto" and not (is_number(self.tol) and self.tol > 0.0):
            raise ValueError(f"tol must be 'auto' or a positive number of nats; got {self.tol!r}.")

    def _set_fitted(self, fit: EmissionFit) -> None:
        model = self._model = fit.model
        columns, params = model.columns, model.params
        units = [
            (0.0, 1.0) if column.link != "identity" else (column.shift, column.scale) for column in columns
        ]
        n_model_columns = [column.n_model_columns for column in columns]
        shift, scale = np.repeat(np.array(units), n_model_columns, axis=0).T
        self.links_ = tuple(column.link for column in columns)
        self.emissions_ = tuple(column.emission for column in columns)
        self.decay_ = params.decay
        self.loadings_ = params.loadings * scale[:, None]
        self.mean_ = shift + scale * params.offset
        self.predictor_columns_ = np.repeat(np.arange(len(columns)), n_model_columns)
        self.levels_ = {d: column.levels for d, column in enumerate(columns) if len(column.levels)}
        self.time_unit_ = model.time_unit
        self.time_unit_seconds_ = model.time_axis.seconds(model.time_unit)
        self.timescales_ = timescales_from_decay(params.decay, model.time_unit)
        self.noise_variance_, self.degrees_of_freedom_, self.size_ = model.shape_parameters()
        self._rhythms_and_smooth(params)
        self.lower_bound_, self.history_ = fit.lower_bound, fit.history
        self.n_iter_, self.n_evaluations_ = len(fit.history), fit.n_evaluations
        self.converged_, self.status_ = fit.converged, fit.status

    def _rhythms_and_smooth(self, params: Any) -> None:
        """Set the attributes of stochastic cycles and smooth processes, if the model has any."""
        unit = self._model.time_unit
        cycle_attributes = {
            "rhythm_periods_": params.rhythm_periods * unit,
            "rhythm_decay_": params.rhythm_decay,
        }
        smooth_attributes = {"smooth_timescales_": params.smooth_timescales * unit}
        self._set_optional(
            [(len(params.rhythm_decay), cycle_attributes), (len(params.smooth_rate), smooth_attributes)]
        )

    # ---------------------------------------------------------------- inference

    def posterior(
        self, X: Any, *, level_and_scale: Any = None, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Any:
        """Return the Gaussian distribution of the latent factors given all rows of each sequence.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.
        level_and_scale : deprecated
            Without effect. Use :meth:`factor_interval`, which includes the uncertainty of the parameters.

        Returns
        -------
        Posterior, or list of Posterior
            Means (T, K), covariances (T, K, K), lag-one covariances (T - 1, K, K), and lower bounds of the
            log-likelihoods of the rows. For a DataFrame, means and standard deviations are DataFrames with
            its index.
        """
        if level_and_scale is not None:
            warnings.warn(_LEVEL_AND_SCALE_WARNING, FutureWarning, stacklevel=2)
        return super().posterior(X, lengths=lengths, times=times, exog=exog)

    def filter(
        self,
        X: Any,
        state: Any = None,
        *,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
        random_state: Seed = None,
    ) -> Any:
        """Return filtered distributions of the latent factors, and one-step predictions of each row.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        state : FilterState, optional
            ``state`` of the result of earlier rows, to continue one sequence.
        lengths, times, exog : optional
            As in `fit`.
        random_state : int, Generator or None
            Seed of the random residuals of discrete values. None is `random_state` of the estimator, or 0 if
            that is None, too.

        Returns
        -------
        EmissionFilter, or list of EmissionFilter
            Filtered means and covariances, lower bounds of the log-likelihoods of the rows, predictions,
            quantile residuals, and the state for later rows. The result is a list if `X` is a list or
            `lengths` is given. For a DataFrame, means, predictions and residuals are DataFrames with its
            index.

        Raises
        ------
        ValueError
            If `state` is given for several sequences, or does not fit the model or the times.

        See Also
        --------
        posterior : Distribution of the factors given all rows.

        Notes
        -----
        The Gaussian of each row has the highest lower bound of the log-likelihood of this row, given the
        Gaussian of the previous row. The sum of these bounds differs from ``lower_bound(X)``, which is
        computed from all rows together.
        """
        sequences = self._check(X, lengths, times, exog)
        seed = self.random_state if random_state is None else random_state
        rng = generator(0 if seed is None else seed)
        results = self._like_input(self._model.filter(sequences, state, rng), X, sequences)
        return results if sequences.is_list or lengths is not None else results[0]

    def level_probabilities(self, X: Any, *, lengths: Any = None, times: Any = None) -> Any:
        """Return probabilities of the levels of binary and categorical columns, given all rows.

        Parameters
        ----------
        X, lengths, times
            As in `transform`.

        Returns
        -------
        dict of ndarray (T, L), or list of dicts
            Keys are the names of the columns, or their numbers. Values are the probabilities of zero and one
            for "bernoulli" columns, and of the levels in increasing order (`levels_`) for "categorical"
            columns. In rows with an observed value they are the probabilities of a new value.

        Raises
        ------
        ValueError
            If there is no such column.
        """
        sequences = self._check(X, lengths, times)
        if not {"bernoulli", "categorical"} & set(self.emissions_):
            raise ValueError(
                "No column has emission='bernoulli' or emission='categorical', which level_probabilities "
                "requires: columns with other emissions have no levels."
            )
        names = getattr(self, "feature_names_in_", None)
        probabilities = {
            (d if names is None else names[d]): p for d, p in self._model.probabilities(sequences).items()
        }
        if not sequences.is_list:
            return probabilities
        return [{name: p[s] for name, p in probabilities.items()} for s in sequences.slices]

    def column_mean(self, column: Any, predictor: Any) -> FloatArray:
        """Return the mean of a column at given values of its linear predictor ``eta``.

        Parameters
        ----------
        column : str or int
            Name or number of a column that is not categorical.
        predictor : array-like
            Linear predictor: an element of ``mu + C z``, on the scale of the attribute `mean_`.

        Returns
        -------
        ndarray, of the shape of `predictor`
            Mean in data units; for binary columns, the probability of a one.

        Raises
        ------
        ValueError
            If there is no such column, or the column is categorical and so has several linear predictors.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        known_columns = range(self.n_features_in_) if names is None else [*range(self.n_features_in_), *names]
        if column not in known_columns:
            raise ValueError(f"column must be the name or the number of a column of X; got {column!r}.")
        column_index = column if isinstance(column, (int, np.integer)) else list(names).index(column)  # type: ignore[arg-type]
        if self.emissions_[column_index] == "categorical":
            raise ValueError(
                f"column {column!r} has emission='categorical' and several linear predictors; column_mean "
                "requires a column with one. Use level_probabilities."
            )
        return self._model.column_mean(int(column_index), np.asarray(predictor, dtype=np.float64))

    # ------------------------------------------------------------------ scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "_model")
