"""Probabilistic slow feature analysis as a scikit-learn estimator."""

import copy
import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_input, like_rows
from probsfa._optional_attributes import set_where_asked
from probsfa._random import generator
from probsfa._saving import Saved
from probsfa._times import TimeAxis
from probsfa._timescales import timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.statespace import persistence, streaming
from probsfa.statespace.counts import counts_sentence
from probsfa.statespace.covariates import Ahead, Regression, check_identified, names_of, with_exog
from probsfa.statespace.criterion import bayesian_criterion
from probsfa.statespace.default_model import fit_default_model
from probsfa.statespace.diagnostics import Diagnostics
from probsfa.statespace.filtering import FilterResult, FilterState
from probsfa.statespace.learning.budget import Size
from probsfa.statespace.learning.maximum_likelihood import (
    InMemory,
    MaximumLikelihood,
    TrainingData,
    maximum_likelihood,
)
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.learning.profile import TimescaleProfile
from probsfa.statespace.learning.regression import maximum_likelihood_with
from probsfa.statespace.learning.standard_errors import StandardErrors
from probsfa.statespace.mapped import MappedModel, fill_quantile, mapped
from probsfa.statespace.models import FittedModel, LinearGaussianModel
from probsfa.statespace.news import News, dates_of, on_rows_of, row_of
from probsfa.statespace.noise_free import fit_noise_free
from probsfa.statespace.parameters import Parameters, canonical, make_parameters
from probsfa.statespace.posterior import Posterior
from probsfa.statespace.prediction import Forecast, check_probability
from probsfa.statespace.processes import KINDS
from probsfa.statespace.progress import Progress
from probsfa.statespace.student import FEWEST_DEGREES
from probsfa.statespace.student_model import with_noise
from probsfa.statespace.timeline import (
    check_steps_of_limit,
    describe_index,
    in_model_time,
    make_horizon,
    refuse_uneven,
)
from probsfa.statespace.transforms import make_transforms

__all__ = ["ProbabilisticSFA"]


@lists_in_lists_out
class ProbabilisticSFA(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Dynamic factor model with independent AR(1) factors: probabilistic slow feature analysis.

    Each latent factor is an AR(1) process of unit variance; columns are linear functions of the factors plus
    noise. A Kalman filter and smoother gives factors, missing values and forecasts with standard deviations.
    With ``noise=0.0`` it is slow feature analysis.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of AR(1) factors; may exceed the number of columns. None selects it, for imputation: with
        ``noise="auto"`` by the error of held-out values, else as many as columns, up to 32 (16 with
        ``noise="ar1"``) and as data and time allow. For a few slow features, give their number.
    rhythms : int or list, default=0
        Stochastic cycles (damped oscillators): how many to find, or their initial periods, in rows, in the
        unit of `times`, or for rows with dates as durations such as ``"24h"``. Not with ``noise=0.0``.
    smooth : int or list, default=0
        Smooth factors (Matern-3/2 Gaussian processes): how many, or their initial time scales. Not with
        ``noise=0.0``. With `rhythms` or `smooth`, `n_components` may be 0.
    noise : {"auto", "diagonal", "isotropic", "ar1"}, float or array-like (D,), default="auto"
        Observation noise: one variance for each column, one for all, or known variances in squared data
        units. ``"ar1"`` adds to each column an AR(1) process of its own (idiosyncratic component). ``"auto"``
        is ``"diagonal"``, or with ``n_components=None`` selected with the number of factors. ``0.0`` fits
        slow feature analysis in closed form, to complete rows.
    solver : {"auto", "lbfgs", "em"}, default="auto"
        Quasi-Newton method with the exact gradient ("auto" too), or EM algorithm.
    max_iter : int, default=200
        Maximum number of likelihood evaluations, for each of the models that are fitted.
    tol : float or "auto", default="auto"
        Smallest expected gain in nats for which a step is taken. ``"auto"`` leaves an error that is small
        relative to posterior standard deviations; use 1e-4 for digits that agree across machines.
    noise_floor : float or "auto", default="auto"
        Lower bound of noise variances, as a fraction of each column's variance; increase it where `status_`
        reports a Heywood case.
    n_init : int, default=1
        Number of optimization runs; the best is kept. Increase it for many factors and missing values.
    noise_prior : {"weak"} or None, default="weak"
        Prior that keeps noise variances away from zero; None is maximum likelihood.
    transforms : None, "auto", str, tuple, mapping or sequence, default=None
        Scale in which columns are modelled: ``"log"``, ``"log1p"``, ``"sqrt"``, ``"box-cox"``,
        ``"yeo-johnson"``, bounds such as ``(0, 100)``, or None; for all, for each, or a mapping. ``"auto"``
        selects by likelihood.
    robust : bool or {"auto", "cell", "row"}, default="auto"
        Student-t noise, for outliers, with a weight for each value (True, ``"cell"``) or each row. ``"auto"``
        is False; but if `n_components` and `noise` are selected, a few gross outliers are left out where
        held-out values are then predicted better.
    fixed : dict or None, default=None
        Known parameters, in data units: ``"decays"`` (K,), ``"loadings"`` (D, K + 2 R + 2 M), ``"noise"``
        (D,), ``"periods"`` (R,); NaN, or for loadings True, where one is learned.
    init : Parameters, estimator or None, default=None
        Initial parameters in data units, or a fitted model. None compares several starting points.
    random_state : int, Generator or None, default=None
        Random numbers of `sample` and `sample_posterior`.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    params_ : Parameters
        All parameters, in data units.
    decay_, timescales_ : ndarray (K,)
        Lag-one autocorrelation of each factor, slowest first, and ``-time_unit_ / log(decay_)``.
    time_unit_ : float
        Time step of `decay_`: 1.0, which is a row, or the median step of dates; the median step of numbers.
    time_unit_seconds_ : float or None
        The same in seconds, where rows have dates or durations.
    rhythm_periods_, rhythm_decays_ : ndarray (R,)
        Periods, longest first, in the unit of `timescales_`; damping in one `time_unit_`.
    rhythm_amplitudes_, rhythm_phases_ : ndarray (D, R)
        Root mean square amplitude by column, and phase lag in radians.
    smooth_timescales_ : ndarray (M,)
        Time scales of the smooth factors, longest first.
    exog_coef_, exog_names_ : ndarray (D, P), (P,)
        Regression coefficients and names of covariates.
    transforms_ : dict
        Transform of each column, or None.
    noise_decay_, memory_timescales_, memory_scale_, memory_share_ : ndarray (D,)
        AR(1) noise: autocorrelation, time scale, standard deviation, share of the variance.
    loadings_ : ndarray (D, K + 2 R + 2 M)
        Effect of each state on each column, in data units.
    noise_variance_, mean_ : ndarray (D,)
        Variance of white noise (with `robust` the squared scale), and mean.
    degrees_of_freedom_ : float
        Of Student-t noise, from 2.1 to 1000.
    calibration_ : Calibration
        Of a model that was selected: ``factors`` of standard deviations by the ``distances`` (rows) to the
        nearest observed value, and ``small_sample`` by column.
    log_likelihood_ : float
        Log-likelihood of the training data, in nats.
    history_ : ndarray (n_iter_,)
        Objective after each accepted step; never decreases.
    n_iter_, n_evaluations_ : int
        Numbers of accepted steps and of likelihood evaluations.
    converged_ : bool
        Whether the fit reached a maximum.
    status_ : str
        How the fit ended, what it selected, what to try.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Columns of `transform` are the AR(1) factors, then ``rhythm0_cos`` and ``rhythm0_sin`` for each cycle,
    then ``smooth0`` and ``smooth0_velocity`` for each smooth factor. Attributes of absent parts are not set.
    Details: :doc:`/fitting`, :doc:`/selection`, :doc:`/latents`, :doc:`/times`, :doc:`/covariates`,
    :doc:`/scales`, :doc:`/outliers`, :doc:`/limits`.

    See Also
    --------
    probsfa.SFA : Slow feature analysis, for complete data.
    probsfa.BayesianSFA : Posterior intervals of parameters.
    probsfa.select_model : Factors, cycles and noise by held-out values.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(500, 5, decay=[0.98, 0.7], noise_variance=0.3, random_state=0).data
    >>> X[200:230, 0] = np.nan
    >>> model = ProbabilisticSFA(n_components=2).fit(X)
    >>> filled, std = model.impute(X, return_std=True)
    >>> bool(np.isnan(filled).any()), bool(std[210, 0] > 0), float(std[0, 0])
    (False, True, 0.0)
    """

    _model: FittedModel

    def __init__(
        self,
        n_components: int | None = None,
        *,
        rhythms: int | Sequence[Any] = 0,
        smooth: int | Sequence[Any] = 0,
        smoothness: float = 1.5,
        trend: int | str = 0,
        noise: str | float | ArrayLike = "auto",
        solver: str = "auto",
        max_iter: int = 200,
        tol: float | str = "auto",
        noise_floor: float | str = "auto",
        n_init: int = 1,
        noise_prior: str | None = "weak",
        transforms: Any = None,
        robust: bool | str = "auto",
        fixed: Mapping[str, Any] | None = None,
        init: Any = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.rhythms = rhythms
        self.smooth = smooth
        self.smoothness = smoothness
        self.trend = trend
        self.noise = noise
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.noise_floor = noise_floor
        self.n_init = n_init
        self.noise_prior = noise_prior
        self.transforms = transforms
        self.robust = robust
        self.fixed = fixed
        self.init = init
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Estimate the parameters by maximum likelihood.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list contains several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence: numbers in any unit, dates, or durations.
            Factors are then Ornstein-Uhlenbeck processes, with positive decays. By default the index of a
            pandas DataFrame with dates.
        exog : array-like or frame (T, P), or list of them, optional
            Covariates, known for every row; one array for each sequence. A DataFrame is aligned with a
            DataFrame `X` by its index and may have more rows.

        Returns
        -------
        ProbabilisticSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid.

        Warns
        -----
        ConvergenceWarning
            If the fit stopped before a maximum; see `status_`.
        UserWarning
            If a column contains only zeros and ones, or counts; use :class:`probsfa.EmissionSFA` for these.
        """
        options = self._options()
        allow_nan = not options.noise_free
        sequences = check_sequences(
            self,
            X,
            reset=True,
            allow_nan=allow_nan,
            lengths=lengths,
            times=times,
            min_rows=2,
            index="use",
        )
        counted = "" if self.transforms is not None else counts_sentence(sequences)
        if counted:
            warnings.warn(counted, UserWarning, stacklevel=2)
        if self.transforms is not None or exog is not None:
            return self._fit_mapped(X, sequences, exog, options)
        if options.noise_free:
            limit = fit_noise_free(refuse_uneven(sequences), options)
            set_fitted(
                self, replace(limit, fitted=with_times(limit.fitted, sequences.axis, sequences.time_unit))
            )
            return self
        options = options.with_times(sequences.axis)
        model = self._maximise(InMemory(sequences), options)
        if options.n_components is None:
            model = model.beside_interpolation(sequences)
        model = model.with_gross_misfit(sequences)
        model = replace(model, fitted=with_times(model.fitted, sequences.axis, sequences.time_unit))
        set_fitted(self, model)
        return self

    def _fit_mapped(self, X: Any, sequences: Sequences, exog: Any, options: FitOptions) -> Self:
        """Fit to transformed columns, with covariates."""
        regression: Regression | None = None
        if exog is not None:
            if options.noise_free:
                raise ValueError(
                    "exog needs observation noise; noise=0.0 is the limit of slow features alone."
                )
            names = names_of(exog)
            sequences, _ = with_exog(sequences, X, exog, names)
            check_identified(sequences, names)
        transforms, sentence = make_transforms(self.transforms, sequences)
        rows = mapped(sequences, transforms)
        inner: FittedModel
        if options.noise_free:
            inner = fit_noise_free(refuse_uneven(rows), options)
        elif exog is not None:
            options = options.with_times(sequences.axis)
            with Progress(self.verbose, self.max_iter) as report:
                fitted, regression = maximum_likelihood_with(
                    replace(rows, exog=sequences.exog), names, options, init=self.init, report=report
                )
            inner = with_noise(fitted)
        else:
            options = options.with_times(sequences.axis)
            inner = self._maximise(InMemory(rows), options)
        # Log-likelihoods are those of the data.
        slopes, ended = float(np.sum(transforms.log_slopes(sequences.values))), inner.fitted
        model = MappedModel(inner, transforms, regression).with_fitted(
            replace(
                ended,
                log_likelihood=ended.log_likelihood + slopes,
                history=ended.history + slopes,
                status=ended.status + sentence,
            )
        )
        if options.n_components is None and not options.noise_free:
            model = model.beside_interpolation(sequences)
        model = model.with_gross_misfit(sequences)
        model = model.with_fitted(with_times(model.fitted, sequences.axis, sequences.time_unit))
        set_fitted(self, model)
        return self

    def fit_stream(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Fit to a series longer than memory, which is read block by block.

        The result is that of `fit`, because each block passes the exact distribution of its last state to the
        next. Only starting points are computed from segments of the series. Memory is four bytes a row, and
        up to 1.5 GiB for the forward pass.

        Parameters
        ----------
        X : array-like (T, D)
            Rows in order of time, NaN or masked where missing: any object with a shape whose slices are rows,
            such as `numpy.memmap`, a dataset of an HDF5 or Zarr file, a variable of a netCDF file, or a
            DataFrame, whose index is used as in `fit`.
        lengths : array-like of int, optional
            Lengths of consecutive sequences.
        times : array-like (T,), optional
            Times of the rows, as in `fit`; eight bytes a row.
        exog : None
            Not supported; use `fit`.

        Returns
        -------
        ProbabilisticSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> X = np.random.default_rng(0).standard_normal((500, 4)).cumsum(axis=0)
        >>> ProbabilisticSFA(n_components=1).fit_stream(X).loadings_.shape
        (4, 1)
        """
        options = self._options()
        if options.noise_free:
            raise ValueError(
                "noise=0.0 is slow feature analysis itself; use SFA.partial_fit on blocks of rows."
            )
        if exog is not None:
            raise ValueError("fit_stream reads rows as they lie and takes no exog; fit in memory.")
        if self.transforms is not None:
            raise ValueError(
                "fit_stream reads rows as they lie and takes no transforms; transform the columns before, or "
                "fit in memory."
            )
        data = streaming.InBlocks(self, X, lengths, times)
        model = self._maximise(data, options.with_times(data.axis))
        set_fitted(self, replace(model, fitted=with_times(model.fitted, data.axis, data.time_unit)))
        return self

    @classmethod
    def from_parameters(
        cls,
        decay: ArrayLike,
        loadings: ArrayLike,
        noise_variance: ArrayLike,
        offset: ArrayLike = 0.0,
        *,
        memory_decay: ArrayLike | None = None,
        memory_scale: ArrayLike | None = None,
        degrees_of_freedom: float | None = None,
        time_unit: Any = None,
        feature_names: Any = None,
        **options: Any,
    ) -> Self:
        """Return a fitted model with given parameters.

        Parameters
        ----------
        decay : array-like (K,)
            Lag-one autocorrelation of each factor, inside (-1, 1).
        loadings : array-like (D, K)
            Effect of each factor on each column, in data units.
        noise_variance : float or array-like (D,)
            Variance of white noise, positive, in squared data units.
        offset : float or array-like (D,), default=0.0
            Mean of each column.
        memory_decay, memory_scale : float or array-like (D,), optional
            Autocorrelation and standard deviation, in data units, of the AR(1) noise of each column; implies
            ``noise="ar1"``.
        degrees_of_freedom : float, optional
            Of Student-t noise, 2.1 or more; requires the option `robust`.
        time_unit : str or timedelta or None, default=None
            Duration of one time step, such as ``"1h"``, for data with dates; None for rows.
        feature_names : array-like of str (D,), optional
            Names of the columns.
        **options
            Parameters of the estimator, for later fits; `n_components` is K.

        Returns
        -------
        ProbabilisticSFA
            With all methods. Factors are sorted and have the signs of a fit; ``log_likelihood_`` is NaN.

        Raises
        ------
        ValueError
            If shapes do not agree, or a value is not finite or outside its range.

        See Also
        --------
        probsfa.statespace.make_parameters : Validate parameters.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> model = ProbabilisticSFA.from_parameters([0.9], [[1.0], [2.0]], 0.1)
        >>> X, latents = model.sample(50, random_state=0)
        >>> model.transform(X).shape, model.forecast(X, 3).means.shape
        ((50, 1), (3, 2))
        """
        params = make_parameters(
            decay, loadings, noise_variance, offset, memory_decay=memory_decay, memory_scale=memory_scale
        )
        if params.has_memory:
            options = {"noise": "ar1", **options}
        estimator = cls(params.n_components, **options)
        if estimator.transforms is not None:
            raise ValueError("from_parameters takes no transforms, which are learned from data; use fit.")
        checked = FitOptions.of(estimator).check().with_noise_named()
        if checked.has_memory != params.has_memory:
            raise ValueError("noise='ar1' takes memory_decay and memory_scale, and these take noise='ar1'.")
        if bool(checked.robust) != (degrees_of_freedom is not None):
            raise ValueError("robust and degrees_of_freedom, of Student-t noise, go together.")
        if degrees_of_freedom is not None and not (
            is_number(degrees_of_freedom) and FEWEST_DEGREES <= degrees_of_freedom < np.inf
        ):
            raise ValueError(
                f"degrees_of_freedom must be {FEWEST_DEGREES:g} or more, and finite; got "
                f"{degrees_of_freedom!r}."
            )
        scale = np.sqrt(np.sum(params.state_space.loadings**2, axis=1) + params.noise_variance)
        axis = TimeAxis()
        if time_unit is not None:
            import pandas as pd

            seconds = pd.Timedelta(time_unit).total_seconds()
            if not seconds > 0.0:
                raise ValueError(f"time_unit must be a positive duration; got {time_unit!r}.")
            axis = TimeAxis(kind="dates", unit=seconds)
        given = MaximumLikelihood(
            params=canonical(params, scale),
            shift=params.offset,
            scale=scale,
            time_unit=1.0,
            log_likelihood=np.nan,
            history=np.empty(0),
            n_evaluations=0,
            converged=True,
            status="The parameters were given; nothing was fitted.",
            options=checked,
            axis=axis,
            degrees_of_freedom=degrees_of_freedom,
        )
        estimator._take_over(with_noise(given))
        estimator.n_features_in_ = params.n_features
        if feature_names is not None:
            names = np.asarray(feature_names, dtype=object)
            if names.shape != (params.n_features,):
                raise ValueError(
                    f"feature_names must be {params.n_features} names, one for each feature; got shape "
                    f"{names.shape}."
                )
            estimator.feature_names_in_ = names
        return estimator

    def _options(self) -> FitOptions:
        """Return the options; by default as many factors as `init` has."""
        options = FitOptions.of(self).check()
        params = self.init if isinstance(self.init, Parameters) else getattr(self.init, "params_", None)
        if options.n_components is None and isinstance(params, Parameters):
            return replace(options, n_components=params.n_components)
        return options

    def _maximise(self, data: TrainingData, options: FitOptions) -> LinearGaussianModel:
        def fitted(
            data: TrainingData, asked: FitOptions, size: Size | None = None, init: Any = self.init
        ) -> LinearGaussianModel:
            with Progress(self.verbose, self.max_iter) as report:
                return with_noise(maximum_likelihood(data, asked, init=init, report=report, size=size))

        if options.leaves_noise_open and isinstance(data, InMemory):
            return fit_default_model(
                data,
                options,
                lambda rows, asked, size, init: fitted(InMemory(rows), asked, size, init),
                without_outliers=isinstance(self.robust, str) and self.robust == "auto",
            )
        return fitted(data, options)

    def _take_over(self, model: FittedModel) -> None:
        self._model, fitted = model, model.fitted
        self.params_ = fitted.params
        self.decay_, self.loadings_ = fitted.params.decay, fitted.params.loadings
        self.noise_variance_, self.mean_ = fitted.params.noise_variance, fitted.params.offset
        self.time_unit_ = fitted.time_unit
        self.time_unit_seconds_ = fitted.axis.seconds(fitted.time_unit)
        self.timescales_ = timescales_from_decay(fitted.params.decay, fitted.time_unit)
        self._take_over_pairs(fitted)
        self._take_over_maps(model)
        self.log_likelihood_, self.history_ = fitted.log_likelihood, fitted.history
        self.n_iter_, self.n_evaluations_ = fitted.n_iter, fitted.n_evaluations
        self.converged_, self.status_ = fitted.converged, fitted.status
        for name in ("degrees_of_freedom_", "calibration_"):
            self.__dict__.pop(name, None)  # of a fit before
        if fitted.calibration is not None:
            self.calibration_ = fitted.calibration
        if fitted.degrees_of_freedom is not None:
            self.degrees_of_freedom_ = fitted.degrees_of_freedom

    def _take_over_pairs(self, fitted: MaximumLikelihood) -> None:
        """Set the attributes of cycles, smooth factors and AR(1) noise that the model has."""
        params, latents = fitted.params, fitted.options
        of_processes = {
            name: value
            for one in params.processes
            for name, value in one.attributes(params.loadings_of(one), fitted.time_unit).items()
        }
        of_memory = {
            "noise_decay_": params.memory_decay,
            "memory_timescales_": timescales_from_decay(params.memory_decay, fitted.time_unit),
            "memory_scale_": params.memory_scale,
            "memory_share_": params.memory_share if params.has_memory else params.memory_scale,
        }
        known = {name: of_processes.get(name) for kind in KINDS for name in kind.attribute_names}
        have = [(name in of_processes, {name: value}) for name, value in known.items()]
        set_where_asked(self, [*have, (latents.has_memory, of_memory)])

    def _take_over_maps(self, model: FittedModel) -> None:
        """Set the attributes of transforms and covariates that the model has."""
        for name in ("transforms_", "exog_coef_", "exog_names_"):
            self.__dict__.pop(name, None)  # of a fit before
        if isinstance(model, MappedModel) and model.regression is not None:
            self.exog_coef_ = model.regression.coefficients
            self.exog_names_ = np.array(model.regression.names, dtype=object)
        if isinstance(model, MappedModel) and self.transforms is not None:
            maps = model.transforms.by_column
            names = getattr(self, "feature_names_in_", range(len(maps)))
            self.transforms_ = dict(zip(names, maps, strict=True))

    # ---------------------------------------------------------------- inference

    def transform(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Return the posterior means of the factors, given all rows of each sequence (Kalman smoother).

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
            Posterior means, slowest first. With ``noise=0.0`` rows must be complete; use `posterior` for rows
            with missing values.
        """
        check_is_fitted(self)
        sequences = self._check(X, lengths, times, exog, complete=self._model.fitted.options.noise_free)
        return sequences.restore(self._model.factor_means(sequences))

    def posterior(
        self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Posterior | list[Posterior]:
        """Return the distribution of the factors given all rows of each sequence (Kalman smoother).

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.

        Returns
        -------
        Posterior, or list of Posterior
            Means (T, K), covariances (T, K, K), lag-one covariances (T - 1, K, K), log-likelihood.
        """
        sequences = self._check(X, lengths, times, exog)
        whole = self._model.posterior(sequences)
        return whole.split(sequences.slices) if sequences.is_list else whole

    def filter(
        self,
        X: Any,
        state: FilterState | None = None,
        *,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> FilterResult | list[FilterResult]:
        """Return the distribution of the factors given the rows so far (Kalman filter).

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        state : FilterState, optional
            ``state`` of the result for earlier rows, to continue one sequence.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        FilterResult, or list of FilterResult
            Filtered means and covariances, log-likelihoods of the rows, one-step predictions, and the state
            from which to continue; a list if `lengths` is given. With `robust` the weights of a row depend on
            this row and the rows before; log-likelihoods are lower bounds.

        Raises
        ------
        ValueError
            If a state is given for several sequences, or does not match the model or the times.
        """
        sequences = self._check(X, lengths, times, exog)
        results = self._model.filter(sequences, state)
        return results if sequences.is_list or lengths is not None else results[0]

    def impute(
        self,
        X: Any,
        return_std: bool = False,
        *,
        quantile: float | Sequence[float] | None = None,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> Any:
        """Impute missing values by their posterior means, or by quantiles.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations too.
        quantile : float or sequence of float, optional
            Impute quantiles instead of means: 0.5 for medians, ``[0.05, 0.95]`` for 90 % intervals.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        filled : like X, or list of them
            Observed values unchanged, missing values imputed; of the type of `X`. With several quantiles a
            list with one for each.
        std : like X
            With `return_std`: standard deviation of each imputed value (prediction of the observation, noise
            included); zero for observed values.

        Warns
        -----
        UserWarning
            If the leave-one-out error of observed values is not smaller than that of linear interpolation.
        """
        sequences = self._check(X, lengths, times, exog)
        if quantile is not None:
            return self._impute_quantiles(X, sequences, quantile, return_std)
        filled, std, beside_interpolation = self._model.impute(sequences, with_std=return_std)
        if beside_interpolation is not None and beside_interpolation.sentence:
            warnings.warn(beside_interpolation.sentence, UserWarning, stacklevel=2)
        values = like_input(X, sequences, filled)
        return values if std is None or not return_std else (values, like_input(X, sequences, std))

    def _impute_quantiles(self, X: Any, sequences: Sequences, quantile: Any, return_std: bool) -> Any:
        """Impute one quantile or several."""
        if return_std:
            raise ValueError("give either quantile or return_std, not both.")
        several = not isinstance(quantile, numbers.Real)
        filled = [
            like_input(X, sequences, fill_quantile(self._model, sequences, check_probability(one)))
            for one in (quantile if several else [quantile])
        ]
        return filled if several else filled[0]

    def outlier_scores(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Return a score for each observed value that is large for outliers.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing: those of the fit, or others.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        scores : like X
            Absolute leave-one-out error of each value (given all others), in standard deviations of its
            prediction; NaN where a value is missing, or its noise is below 1e-13 of its variance. With
            `robust` the other values are weighted, and the standard deviation is that of regular values: 4
            and more are rare among these.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).

        See Also
        --------
        diagnose : Test for heavy tails and other misfit.

        Notes
        -----
        Without `robust`, outliers inflate the noise variances and distort the factors, and several outliers
        can mask each other.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(200, 4, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> X[50, 2] += 20.0
        >>> scores = ProbabilisticSFA(1, robust=True).fit(X).outlier_scores(X)
        >>> row, column = np.unravel_index(np.argmax(scores), scores.shape)
        >>> int(row), int(column), bool(np.sort(scores.ravel())[-2] < 5.0)
        (50, 2, True)
        """
        sequences = self._check(X, lengths, times, exog)
        return like_input(X, sequences, self._model.outlier_scores(sequences))

    def contributions(
        self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> FloatArray | list[FloatArray]:
        """Return the contribution of each factor to each value.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.

        Returns
        -------
        ndarray (T, D, K), or list of ndarrays (T_i, D, K)
            Posterior mean of each factor times its loading, in data units (with `transforms` of the
            transformed columns). With ``noise="ar1"`` a further entry is the AR(1) noise, ``(T, D, K + 1)``.
            With covariates the last P entries are their effects. The sum over the last axis plus `mean_` is
            the imputed value.

        See Also
        --------
        news : Effect of each new observation on a forecast.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9, 0.5], noise_variance=0.3, random_state=0).data
        >>> X[7, 1] = float("nan")
        >>> model = ProbabilisticSFA(2).fit(X)
        >>> parts = model.contributions(X)
        >>> parts.shape, bool(abs(parts[7, 1].sum() + model.mean_[1] - model.impute(X)[7, 1]) < 1e-9)
        ((100, 3, 2), True)
        """
        sequences = self._check(X, lengths, times, exog)
        restored: FloatArray | list[FloatArray] = sequences.restore(self._model.contributions(sequences))
        return restored

    def news(self, X_old: Any, X_new: Any, target: tuple[int, Any], *, exog: Any = None) -> News:
        """Attribute the revision of a prediction to new observations.

        Parameters
        ----------
        X_old : array-like (T_old, D)
            Earlier data, NaN where missing: rows one `time_unit_` apart, or a DataFrame with dates.
        X_new : array-like (T_new, D)
            The same rows and later ones, with new or revised values. With dates, new rows may lie between old
            ones.
        target : tuple
            Row and column of the predicted value, which must be missing. The row is a number or a date, also
            after the last row; the column is a number or a name.
        exog : array-like or frame, optional
            Covariates of the rows of `X_new` and of later rows up to the target.

        Returns
        -------
        News
            Predictions ``before`` and ``after``, and the impact of each new value; impacts add up to the
            difference. ``table`` lists the largest first.

        Raises
        ------
        ValueError
            If rows or values of `X_old` are missing in `X_new`, or the target is observed.

        See Also
        --------
        contributions : Contribution of each factor to each value.

        References
        ----------
        Banbura & Modugno (2014), Journal of Applied Econometrics 29:133, doi:10.1002/jae.2306.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
        >>> X[-1, 0] = float("nan")
        >>> model = ProbabilisticSFA(1).fit(X[:90])
        >>> news = model.news(X[:99], X, target=(99, 0))
        >>> news.table["column"].tolist(), bool(abs(news.impacts.sum() - (news.after - news.before)) < 1e-9)
        (['2', '1'], True)
        """
        old, new = (self._check(X, None, None, later=True) for X in (X_old, X_new))
        if any(len(each.lengths) > 1 for each in (old, new)):
            raise ValueError("X_old and X_new must each be one sequence.")
        old = on_rows_of(old, new, self.time_unit_)
        row, column = target
        row = row_of(row, X_new, new, self._model.fitted.axis, self.time_unit_)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and column in list(names):
            column = list(names).index(column)
        if not isinstance(column, numbers.Integral) or int(column) not in range(new.n_features):
            raise ValueError(f"target must name one of the {new.n_features} columns; got {target[1]!r}.")
        n_rows = max(new.n_rows, row + 1)
        new, ahead = self._with_exog(new, X_new, exog, n_steps=n_rows - new.n_rows)
        old = followed_by_empty_rows(old, n_rows - old.n_rows, self.time_unit_)
        new = followed_by_empty_rows(new, n_rows - new.n_rows, self.time_unit_, ahead)
        old = replace(old, exog=new.exog)
        if np.any(old.mask & ~new.mask):
            where = np.argwhere(old.mask & ~new.mask)[0]
            raise ValueError(f"X_new has no value in row {where[0]}, column {where[1]}, where X_old has one.")
        if new.mask[row, column]:
            raise ValueError(
                f"target is row {row}, column {column}, which is observed: nothing is predicted."
            )
        news, dates = self._model.news(old, new, (row, int(column))), dates_of(new)
        return news if dates is None else news._replace(times=dates[news.rows])

    def forecast(
        self,
        X: Any,
        n_steps: int | None = None,
        *,
        fh: Any = None,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> Forecast | list[Forecast]:
        """Forecast the rows after each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`; the rows from which to forecast.
        exog : array-like or frame (T + H, P), or list of them, optional
            Covariates of the rows and of the forecast steps; or a DataFrame whose index contains both.
        n_steps : int, optional
            Number of steps, each of one `time_unit_`.
        fh : array-like (H,), optional
            Forecasting horizon instead of `n_steps`, increasing: numbers of steps after the last row, also
            fractions; durations after the last row; or dates.

        Returns
        -------
        Forecast, or list of Forecast
            Means and standard deviations of observations (H, D) and factors (H, K); a list if `lengths` is
            given. With `robust`, use quantiles of ``sample_posterior(X, of="cells", n_steps=...)`` for
            prediction intervals. For DataFrames the moments are DataFrames, whose index continues that of
            `X`, or counts the steps ahead.

        Raises
        ------
        ValueError
            If not exactly one of `n_steps` and `fh` is given, `fh` does not increase or does not match the
            times of the rows, or a step is a fraction and a decay is negative.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from probsfa import ProbabilisticSFA
        >>> X = np.random.default_rng(0).standard_normal((60, 2)).cumsum(axis=0)
        >>> hourly = pd.DataFrame(X, columns=["a", "b"], index=pd.date_range("2024", periods=60, freq="h"))
        >>> model = ProbabilisticSFA(n_components=1).fit(hourly)
        >>> print(model.forecast(hourly, 2).means.index[-1])
        2024-01-03 13:00:00
        >>> model.forecast(hourly, fh=pd.to_timedelta(["20min", "5h"])).std.shape
        (2, 2)
        """
        check_is_fitted(self)
        if n_steps is not None:
            check_count("n_steps", n_steps)
        sequences = self._check(X, lengths, times, later=True)
        horizon = make_horizon(X, sequences, self._model.fitted.axis, self.time_unit_, n_steps=n_steps, fh=fh)
        steps = [each.steps for each in horizon]
        sequences, following = self._with_exog(
            sequences, X, exog, [Ahead(len(each.steps), each.index) for each in horizon]
        )
        if following and isinstance(self._model, MappedModel):
            forecasts = self._model.forecast(sequences, steps, following)
        else:
            forecasts = self._model.forecast(sequences, steps)
        frames = X if sequences.is_list else [X] * len(forecasts)
        latents = self.get_feature_names_out()
        forecasts = [
            one.with_moments(
                like_rows(frame, one.means, index=each.index),
                like_rows(frame, one.std, index=each.index),
                like_rows(frame, one.latent_means, index=each.index, columns=latents),
                like_rows(frame, one.latent_std, index=each.index, columns=latents),
            )
            for frame, one, each in zip(frames, forecasts, horizon, strict=True)
        ]
        return forecasts if sequences.is_list or lengths is not None else forecasts[0]

    def sample(
        self, n_steps: int = 1, *, exog: Any = None, random_state: Seed = None
    ) -> tuple[FloatArray, FloatArray]:
        """Simulate a series from the model.

        Parameters
        ----------
        n_steps : int, default=1
            Number of rows, one `time_unit_` apart.
        exog : array-like (n_steps, P), optional
            Covariates of the rows, if the model has any.
        random_state : int, Generator or None
            Random numbers; those of the estimator by default.

        Returns
        -------
        X : ndarray (n_steps, D)
            Observations.
        latents : ndarray (n_steps, K)
            Factors.
        """
        check_is_fitted(self)
        check_count("n_steps", n_steps)
        rows = Sequences(np.full((n_steps, self.params_.n_features), np.nan), (n_steps,))
        rows, _ = self._with_exog(rows, None, exog)
        if rows.exog is not None and isinstance(self._model, MappedModel):
            return self._model.sample(n_steps, self._generator(random_state), rows.exog)
        return self._model.sample(n_steps, self._generator(random_state))

    def sample_posterior(
        self,
        X: Any,
        n_draws: int = 1,
        *,
        of: str = "latents",
        n_steps: int = 0,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
        random_state: Seed = None,
    ) -> FloatArray | list[FloatArray]:
        """Draw factors, or missing and future values, from their joint posterior distribution.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.
        n_draws : int, default=1
            Number of draws.
        of : {"latents", "cells"}, default="latents"
            What to draw. ``"cells"`` returns complete series: observed values unchanged, missing values drawn
            jointly, noise included, so that sums, maxima and other functions of a draw are draws of these.
        n_steps : int, default=0
            Number of future rows after each sequence, one `time_unit_` apart.
        random_state : int, Generator or None
            Random numbers; those of the estimator by default.

        Returns
        -------
        ndarray (n_draws, T + n_steps, K), or list of ndarrays (n_draws, T_i + n_steps, K)
            With ``of="cells"``, D instead of K.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
        >>> X[40:60, 0] = np.nan
        >>> model = ProbabilisticSFA(1).fit(X)
        >>> draws = model.sample_posterior(X, 200, of="cells", n_steps=5, random_state=0)
        >>> largest = draws[:, 40:60, 0].max(axis=1)  # of the missing block, 200 draws
        >>> draws.shape, largest.shape
        ((200, 105, 3), (200,))
        """
        check_count("n_draws", n_draws)
        check_count("n_steps", n_steps, minimum=0)
        check_option("of", of, ("latents", "cells"))
        sequences = self._check(X, lengths, times, later=True)
        sequences, ahead = self._with_exog(sequences, X, exog, n_steps=n_steps, times=times)
        sequences = followed_by_empty_rows(sequences, n_steps, self.time_unit_, ahead)
        draw = self._model.draw_latents if of == "latents" else self._model.draw_cells
        drawn = draw(sequences, n_draws, self._generator(random_state))
        return [drawn[:, s] for s in sequences.slices] if sequences.is_list else drawn

    # -------------------------------------------------------------------- scores

    def log_likelihood(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> float:
        """Return the log-likelihood of all rows, in nats; with `robust` its lower bound.

        Parameters as in `transform`.
        """
        sequences = self._check(X, lengths, times, exog)
        return self._model.log_likelihood(sequences)

    def score(
        self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> float:
        """Return the mean log-likelihood per row, in nats. Parameters as in `transform`."""
        sequences = self._check(X, lengths, times, exog)
        return self._model.log_likelihood(sequences) / sequences.n_rows

    def bic(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> float:
        """Return the Bayesian information criterion, smaller is better. Parameters as in `transform`.

        ``-2 log L + P log N``, with ``P`` free parameters and ``N`` rows with at least one observed value.
        With ``noise=0.0``, ``L`` and ``P`` are those of the model with as many factors as columns.
        """
        sequences = self._check_observed(X, lengths, times, exog)
        n_observed = int(np.count_nonzero(sequences.mask.any(axis=1)))
        return bayesian_criterion(self._model.log_likelihood(sequences), self._model.n_parameters, n_observed)

    def diagnose(
        self, X: Any, *, block: int = 24, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Diagnostics:
        """Test the fit of the model by column, and suggest options.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing: those of the fit, or others.
        block : int, default=24
            Number of rows of the hidden blocks for which coverage is measured.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        Diagnostics
            One-step predictions and their standardized errors, like `X`; tests of these errors for
            autocorrelation, heavy tails, cycles and drifts; coverage of prediction intervals by column;
            ``advice``. ``print`` shows a table, ``plot()`` a figure.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).

        See Also
        --------
        filter : One-step predictions alone, which can be resumed.
        probsfa.select_model : Compare models.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(400, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> X[:, 1] += np.sin(2 * np.pi * np.arange(400) / 12)
        >>> for sentence in ProbabilisticSFA(1).fit(X).diagnose(X).advice:
        ...     print(sentence)
        Column 1 keeps a rhythm of 12 units of time that no latent carries: rhythms=[12].
        """
        check_count("block", block)
        sequences = self._check_observed(X, lengths, times, exog)
        found = self._model.diagnose(sequences, block)
        like = {
            name: like_input(X, sequences, getattr(found, name))
            for name in ("predictions", "prediction_std", "innovations")
        }
        return replace(found, **like)

    def standard_errors(
        self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> StandardErrors:
        """Return standard errors of the parameters from the observed information of the training data.

        Parameters
        ----------
        X, lengths, times, exog
            The training data.

        Returns
        -------
        StandardErrors
            With the shapes and units of the parameters (with covariates also ``exog_coef``); confidence
            intervals by ``interval(name, level)``, those of time scales on the logarithmic scale. Costs two
            likelihood evaluations for each free parameter, and three for each coefficient of a covariate.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).
        """
        sequences = self._check_observed(X, lengths, times, exog)
        return self._model.standard_errors(sequences)

    def profile_timescale(
        self,
        X: Any,
        component: int = 0,
        *,
        level: float = 0.95,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> TimescaleProfile:
        """Return a confidence interval of the time scale of a factor by profile likelihood.

        All other parameters are fitted again for each value of the time scale, except coefficients of
        covariates. The interval may be asymmetric, and unbounded if the series is too short to distinguish a
        slow factor from a drift. If two factors have nearly the same time scale, they can exchange their
        roles, and the interval covers both.

        Parameters
        ----------
        X, lengths, times, exog
            The training data.
        component : int, default=0
            Index of the factor, slowest first.
        level : float, default=0.95
            Nominal coverage.

        Returns
        -------
        TimescaleProfile
            ``lower``, ``upper``, and the profile. Costs about as much as a fit.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``), or the decay is not positive.

        See Also
        --------
        standard_errors : Intervals of all parameters, from the curvature at the maximum.

        References
        ----------
        Venzon & Moolgavkar (1988), Applied Statistics 37:87, doi:10.2307/2347496.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> profile = ProbabilisticSFA(1).fit(X).profile_timescale(X, level=0.9)
        >>> bool(profile.upper - profile.timescale > profile.timescale - profile.lower > 0)
        True
        """
        sequences = self._check_observed(X, lengths, times, exog)
        check_count("component", component, minimum=0)
        if component >= self.decay_.shape[0]:
            raise ValueError(f"component={component} is none of the {self.decay_.shape[0]} latents, 0 first.")
        return self._model.profile_timescale(sequences, component, level)

    # ------------------------------------------------------------------- storage

    def _to_arrays(self) -> dict[str, Any]:
        """Return the fitted model as values for a file."""
        names = getattr(self, "feature_names_in_", None)
        return persistence.to_arrays(self._model, self.get_params(deep=False), names)

    @classmethod
    def _from_arrays(cls, state: dict[str, Any]) -> Self:
        """Return the estimator of these values."""
        model, options = persistence.from_arrays(state)
        estimator = cls(**options)
        FitOptions.of(estimator).check()
        estimator.n_features_in_ = model.fitted.params.n_features
        if "feature_names" in state:
            estimator.feature_names_in_ = np.asarray(state["feature_names"], dtype=object)
        estimator._take_over(model)
        return estimator

    # ------------------------------------------------------------------ plumbing

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are parameters."""
        return hasattr(self, "params_")

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not (is_number(self.noise) and self.noise == 0.0)
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
            Class name and number for AR(1) factors; names of the states of cycles and smooth factors.
        """
        names = super().get_feature_names_out(input_features)
        pairs = self.params_.latents.names
        return names if not pairs else np.append(names[: -len(pairs)], np.array(pairs, dtype=object))

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters; `init` is not cloned."""
        params = self.get_params(deep=False)
        init = params.pop("init")
        made = type(self)(**{name: clone(value, safe=False) for name, value in params.items()}, init=init)
        for name in ("_sklearn_output_config", "_metadata_request"):
            if hasattr(self, name):
                setattr(made, name, copy.deepcopy(getattr(self, name)))
        return made

    @property
    def _advice_on_missing(self) -> str:
        """Advice of the error on missing values, which only noise=0.0 does not support."""
        if hasattr(self, "params_"):
            return "Fill them with impute first."
        return (
            "With noise=0.0 fit to complete rows, or let the model learn the noise (noise='diagonal'): then "
            "values may be missing."
        )

    @property
    def _n_features_out(self) -> int:
        return self.params_.n_states

    def _check(
        self,
        X: Any,
        lengths: Any,
        times: Any,
        exog: Any = None,
        *,
        complete: bool = False,
        later: bool = False,
    ) -> Sequences:
        """Validate data of a method; with `later` covariates are added by the caller."""
        check_is_fitted(self)
        allow_nan, fitted = self._model.takes_missing and not complete, self._model.fitted
        sequences = check_sequences(
            self,
            X,
            reset=False,
            allow_nan=allow_nan,
            lengths=lengths,
            times=times,
            index="use",
            axis=fitted.axis,
        )
        sequences = in_model_time(sequences, fitted.axis, fitted.time_unit)
        if fitted.options.noise_free:
            check_steps_of_limit(sequences, fitted.time_unit)
        return sequences if later else self._with_exog(sequences, X, exog)[0]

    def _check_observed(self, X: Any, lengths: Any, times: Any, exog: Any) -> Sequences:
        """Validate data of a diagnostic, which need at least one observed value."""
        sequences = self._check(X, lengths, times, exog)
        if not sequences.mask.any():
            raise ValueError(
                "X has nothing observed: every value is NaN, and nothing says how well the model does. Give "
                "rows with observed cells, such as those of the fit."
            )
        return sequences

    def _with_exog(
        self,
        sequences: Sequences,
        X: Any,
        exog: Any,
        ahead: list[Ahead] | None = None,
        *,
        n_steps: int = 0,
        times: Any = None,
    ) -> tuple[Sequences, list[FloatArray] | None]:
        """Add covariates of the rows and of later rows, if the model has any."""
        model = self._model
        regression = model.regression if isinstance(model, MappedModel) else None
        if regression is None:
            if exog is not None:
                raise ValueError("The model was fitted without exog, so that there are no effects of such.")
            return sequences, None
        if exog is None:
            names = ", ".join(map(repr, regression.names[:10]))
            raise ValueError(f"The model was fitted with exog, {names}; give exog= for these rows, too.")
        if n_steps:
            horizon = make_horizon(X, sequences, model.fitted.axis, self.time_unit_, n_steps=n_steps, fh=None)
            ahead = [Ahead(n_steps, each.index) for each in horizon]
        return with_exog(sequences, X, exog, regression.names, ahead)

    def _generator(self, random_state: Seed) -> np.random.Generator:
        return generator(self.random_state if random_state is None else random_state)


def followed_by_empty_rows(
    sequences: Sequences, n_steps: int, unit: float, ahead: Sequence[FloatArray] | None = None
) -> Sequences:
    """Append rows without observations to each sequence, one unit of time apart.

    Their covariates (n_steps, P) are `ahead`, for each sequence, where there are any.
    """
    if n_steps == 0:
        return sequences
    empty = np.full((n_steps, sequences.n_features), np.nan)
    values = np.concatenate([part for s in sequences.slices for part in (sequences.values[s], empty)])
    times = None
    if sequences.times is not None:
        later = unit * np.arange(1, n_steps + 1)
        pieces = [sequences.times[s] for s in sequences.slices]
        times = np.concatenate([part for piece in pieces for part in (piece, piece[-1] + later)])
    step = sequences.step if sequences.step == unit else None
    lengths = tuple(n + n_steps for n in sequences.lengths)
    exog = None
    if sequences.exog is not None and ahead is not None:
        rows = [sequences.exog[s] for s in sequences.slices]
        exog = np.concatenate([part for pair in zip(rows, ahead, strict=True) for part in pair])
    return replace(sequences, values=values, times=times, lengths=lengths, step=step, exog=exog)


def set_fitted(estimator: ProbabilisticSFA, model: FittedModel) -> None:
    """Set the fitted attributes of an estimator; warn if the fit did not converge."""
    estimator._take_over(model)
    if not estimator.converged_:
        warnings.warn(estimator.status_, ConvergenceWarning, stacklevel=3)


def with_times(fitted: MaximumLikelihood, axis: TimeAxis, time_unit: float) -> MaximumLikelihood:
    """Return the result of a fit with the unit of time of its data."""
    status = fitted.status + describe_index(axis, time_unit)
    return replace(fitted, time_unit=time_unit, status=status, axis=axis)
