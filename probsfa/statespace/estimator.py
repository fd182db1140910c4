"""Probabilistic slow feature analysis as a scikit-learn estimator."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from probsfa._renamed import renamed_arguments
from probsfa._saving import Saveable
from probsfa._times import TimeAxis, describe_index
from probsfa._typing import Seed
from probsfa._validation import Sequences, check_sequences
from probsfa.statespace import persistence, streaming
from probsfa.statespace.columns import counts_message
from probsfa.statespace.covariates import Regression, check_identified, covariate_names, with_exog
from probsfa.statespace.default_model import fit_default_model
from probsfa.statespace.learning.budget import Size
from probsfa.statespace.learning.maximum_likelihood import (
    InMemory,
    MaximumLikelihood,
    TrainingData,
    maximum_likelihood,
)
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.learning.regression import maximum_likelihood_with_covariates
from probsfa.statespace.methods import StateSpaceMethods
from probsfa.statespace.models import LinearGaussianModel, MaximumLikelihoodModel
from probsfa.statespace.noise_free import fit_noise_free
from probsfa.statespace.parameters import (
    QUANTITIES,
    RENAMED_ARRAYS,
    StateSpace,
    fitted_attributes,
    make_parameters,
)
from probsfa.statespace.progress import Progress
from probsfa.statespace.student_model import model_from_parameters, model_of_fit
from probsfa.statespace.timeline import require_even_times
from probsfa.statespace.transformed_model import TransformedModel, transformed_rows
from probsfa.statespace.transforms import make_transforms

__all__ = ["ProbabilisticSFA"]


class ProbabilisticSFA(Saveable, StateSpaceMethods):
    """Dynamic factor model with independent AR(1) factors: probabilistic slow feature analysis.

    Each column is a linear combination of AR(1) factors, plus noise. A Kalman filter and smoother compute
    factors, missing values and forecasts, with standard deviations.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of AR(1) factors. With None, their number and `noise` are selected by held-out values
        (:doc:`/selection`). If `noise` or ``robust=True`` is set, None is one factor for each column, at most
        64 (16 with AR(1) noise).
    rhythms : int or list, default=0
        Number of stochastic cycles (damped oscillators), for periodic data; or a list of initial periods, in
        units of `times` (rows) or as durations such as ``"24h"``.
    smooth : int or list, default=0
        Number of smooth factors (Gaussian processes with a Matern kernel), or a list of initial time scales.
    smoothness : {1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel: one derivative with 1.5, two with 2.5.
    trend : int or {"level", "linear"}, default=0
        Number of random walks (``"level"`` is 1), or ``"linear"`` for a local linear trend. With `rhythms`,
        `smooth` or `trend`, `n_components` may be 0.
    noise : {"auto", "diagonal", "isotropic", "ar1"}, float or array-like (D,), default="auto"
        Observation noise: one variance for each column (``"diagonal"``) or for all columns (``"isotropic"``),
        or known variances. ``"ar1"`` adds an AR(1) process to each column. ``"auto"`` is ``"diagonal"`` if
        `n_components` or ``robust=True`` is set, otherwise selected. ``0.0`` is slow feature analysis.
    robust : bool or {"auto", "cell", "row"}, default="auto"
        Student-t noise, for outliers: a weight for each value (True, ``"cell"``) or row (``"row"``).
        ``"auto"`` is False if `n_components` or `noise` is set; otherwise gross outliers are left out if
        this improves predictions of held-out values.
    transforms : None, "auto", str, tuple, mapping or sequence, default=None
        Transform of all columns, of each column (sequence), or by column name (mapping): ``"log"``,
        ``"log1p"``, ``"sqrt"``, ``"box-cox"``, ``"yeo-johnson"``, or bounds such as ``(0, 100)``. ``"auto"``
        selects by likelihood.
    verbose : bool, default=False
        Show progress on standard error.

    Other Parameters
    ----------------
    solver : {"auto", "lbfgs", "em"}, default="auto"
        Quasi-Newton method ("auto", "lbfgs"), or EM algorithm.
    max_iter : int, default=200
        Maximum number of likelihood evaluations of a fit.
    tol : float or "auto", default="auto"
        Expected gain of a step, in nats, below which a fit stops; with 1e-4 results are reproducible across
        machines.
    noise_floor : float or "auto", default="auto"
        Lower bound of noise variances, as a fraction of each column's variance; ``"auto"`` is 1e-9, larger
        for rounded values and for AR(1) noise.
    n_init : deprecated
        Ignored, and removed in version 2.0.
    noise_prior : {"weak"} or None, default="weak"
        Prior against noise variances of zero (Heywood cases); None is unpenalized maximum likelihood.
    fixed : dict or None, default=None
        Known parameters, in data units: ``"decays"`` (K,), ``"loadings"`` (D, S), ``"noise"`` (D,),
        ``"periods"`` (R,). NaN marks entries to estimate. In boolean loadings, True marks entries to
        estimate and False entries that are zero.
    init : StateSpace, estimator or None, default=None
        Initial parameters, or a fitted model.
    random_state : int, Generator or None, default=None
        Random numbers of `sample` and `sample_posterior`.

    Attributes
    ----------
    params_ : StateSpace
        All parameters, in data units.
    decay_, timescales_ : ndarray (K,)
        Lag-one autocorrelation of each factor, slowest first, and ``-time_unit_ / log(decay_)``.
    time_unit_ : float
        Time step of `decay_`: one row, or the median step of `times`.
    time_unit_seconds_ : float or None
        `time_unit_` in seconds, for dates and durations.
    rhythm_periods_, rhythm_decay_ : ndarray (R,)
        Periods, longest first, and decays of the amplitude in one `time_unit_`.
    rhythm_amplitudes_, rhythm_phases_ : ndarray (D, R)
        Root mean square amplitudes, and phase lags in radians.
    trend_steps_, trend_slope_steps_ : ndarray (D, N)
        Standard deviations of steps of trends and of slopes.
    smooth_timescales_ : ndarray (M,)
        Time scales of the smooth factors, longest first.
    exog_coef_, exog_names_ : ndarray (D, P), (P,)
        Regression coefficients and names of covariates.
    transforms_ : dict
        Transform of each column, or None.
    noise_decay_, noise_timescales_, noise_scale_, noise_share_ : ndarray (D,)
        AR(1) noise: lag-one autocorrelation, time scale, standard deviation, share of the variance.
    loadings_ : ndarray (D, S)
        Effects of the S states (:doc:`/factors`) on the columns, in data units.
    noise_variance_, mean_ : ndarray (D,)
        Variance of white noise (with `robust` the squared scale), and mean.
    degrees_of_freedom_ : float
        Degrees of freedom of Student-t noise, from 2.1 to 1000.
    calibration_ : Calibration
        Multipliers of predictive standard deviations of a selected model.
    log_likelihood_ : float
        Log-likelihood of the training data, in nats.
    history_ : ndarray (n_iter_,)
        Objective (log-likelihood and prior) after each step.
    n_iter_, n_evaluations_ : int
        Numbers of accepted steps and of likelihood evaluations.
    converged_ : bool
        Whether the fit reached a maximum.
    status_ : FitStatus
        Convergence, selected options and warnings, as text and codes.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Columns of `transform` are the AR(1) factors, then the states of other processes, in the order of
    `get_feature_names_out`: for example ``rhythm0_cos`` and ``rhythm0_sin`` of a cycle. Attributes of
    absent processes are not set. Details: :doc:`/fitting`, :doc:`/factors`, :doc:`/times`,
    :doc:`/covariates`, :doc:`/transforms`, :doc:`/outliers`, :doc:`/limits`.

    See Also
    --------
    probsfa.SFA : Slow feature analysis, for complete data.
    probsfa.BayesianSFA : Credible intervals of parameters.
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

    _model: MaximumLikelihoodModel
    _unsupported: ClassVar[Mapping[str, str]] = {
        "lower_bound": "use log_likelihood, which with robust= returns a lower bound.",
    }
    _renamed_attributes: ClassVar[Mapping[str, str]] = {
        "rhythm_decays_": "rhythm_decay_",
        "memory_timescales_": "noise_timescales_",
        "memory_scale_": "noise_scale_",
        "memory_share_": "noise_share_",
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        rhythms: int | Sequence[Any] = 0,
        smooth: int | Sequence[Any] = 0,
        smoothness: float = 1.5,
        trend: int | str = 0,
        noise: str | float | ArrayLike = "auto",
        robust: bool | str = "auto",
        transforms: Any = None,
        verbose: bool = False,
        solver: str = "auto",
        max_iter: int = 200,
        tol: float | str = "auto",
        noise_floor: float | str = "auto",
        n_init: int | str = "deprecated",
        noise_prior: str | None = "weak",
        fixed: Mapping[str, Any] | None = None,
        init: Any = None,
        random_state: Seed = None,
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
        """Estimate the parameters by maximum likelihood (penalized by `noise_prior`).

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing. A list contains several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence: numbers in any unit, dates, or durations.
            Default: the index of a pandas DataFrame, if it contains dates. With irregular times factors are
            Ornstein-Uhlenbeck processes, with positive decays.
        exog : array-like or DataFrame (T, P), or list of them, optional
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
            If the fit stopped before a maximum of the likelihood; see `status_`.
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
        message = "" if self.transforms is not None else counts_message(sequences)
        if message:
            warnings.warn(message, UserWarning, stacklevel=2)
        if self.transforms is not None or exog is not None:
            return self._fit_transformed(X, sequences, exog, options)
        if options.noise_free:
            limit = fit_noise_free(require_even_times(sequences), options)
            set_fitted(
                self, replace(limit, fitted=with_times(limit.fitted, sequences.axis, sequences.time_unit))
            )
            return self
        options = options.with_times(sequences.axis)
        model = self._fit_model(InMemory(sequences), options)
        if options.n_components is None:
            model = model.with_interpolation_check(sequences)
        model = model.with_misfit_check(sequences)
        model = replace(model, fitted=with_times(model.fitted, sequences.axis, sequences.time_unit))
        set_fitted(self, model)
        return self

    def _fit_transformed(self, X: Any, sequences: Sequences, exog: Any, options: FitOptions) -> Self:
        """Fit a model of transformed columns, or a model with covariates."""
        regression: Regression | None = None
        if exog is not None:
            if options.noise_free:
                raise ValueError(
                    "exog requires observation noise; noise=0.0 is the noise-free limit. Use "
                    "noise='diagonal'."
                )
            names = covariate_names(exog)
            sequences, _ = with_exog(sequences, X, exog, names)
            check_identified(sequences, names)
        transforms, sentence = make_transforms(self.transforms, sequences)
        rows = transformed_rows(sequences, transforms)
        inner: MaximumLikelihoodModel
        if options.noise_free:
            inner = fit_noise_free(require_even_times(rows), options)
        elif exog is not None:
            options = options.with_times(sequences.axis)
            with Progress(self.max_iter) if self.verbose else nullcontext() as report:
                fitted, regression = maximum_likelihood_with_covariates(
                    replace(rows, exog=sequences.exog), names, options, init=self.init, report=report
                )
            inner = model_of_fit(fitted)
        else:
            options = options.with_times(sequences.axis)
            inner = self._fit_model(InMemory(rows), options)
        # Log-likelihoods include the Jacobian of the transforms.
        log_jacobian = float(np.sum(transforms.log_slopes(sequences.values)))
        model = TransformedModel(inner, transforms, regression).with_fitted(
            replace(
                inner.fitted,
                log_likelihood=inner.fitted.log_likelihood + log_jacobian,
                history=inner.fitted.history + log_jacobian,
                status=inner.fitted.status.adding("transforms", sentence),
            )
        )
        if options.n_components is None and not options.noise_free:
            model = model.with_interpolation_check(sequences)
        model = model.with_misfit_check(sequences)
        model = model.with_fitted(with_times(model.fitted, sequences.axis, sequences.time_unit))
        set_fitted(self, model)
        return self

    def fit_stream(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Fit to a series that does not fit into memory, block by block.

        The result is that of `fit`, because each block starts from the exact distribution of the last state
        of the previous block. Initial parameters are computed from segments of the series. The fit needs four
        bytes of memory for each row, and up to 1.5 GiB for the forward pass.

        Parameters
        ----------
        X : array-like (T, D)
            Rows in order of time, NaN or masked where missing. Any object that has a shape and can be sliced
            by rows is supported: `numpy.memmap`, a dataset of an HDF5 or Zarr file, a variable of a netCDF
            file, or a DataFrame, whose index is used as in `fit`.
        lengths : array-like of int, optional
            Lengths of consecutive sequences.
        times : array-like (T,), optional
            Times of the rows, as in `fit`; they need eight bytes for each row.
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
                "noise=0.0 is equivalent to slow feature analysis; use SFA.partial_fit on blocks of rows."
            )
        if exog is not None:
            raise ValueError("fit_stream does not support exog. Use fit, with X in memory.")
        if self.transforms is not None:
            raise ValueError(
                "fit_stream does not support transforms. Transform X before the call, or use fit, with "
                "X in memory."
            )
        data = streaming.InBlocks(self, X, lengths, times)
        model = self._fit_model(data, options.with_times(data.axis))
        set_fitted(self, replace(model, fitted=with_times(model.fitted, data.axis, data.time_unit)))
        return self

    @classmethod
    @renamed_arguments(RENAMED_ARRAYS)
    def from_parameters(
        cls,
        decay: ArrayLike,
        loadings: ArrayLike,
        noise_variance: ArrayLike,
        offset: ArrayLike = 0.0,
        *,
        noise_decay: ArrayLike | None = None,
        noise_scale: ArrayLike | None = None,
        degrees_of_freedom: float | None = None,
        time_unit: Any = None,
        feature_names: Any = None,
        **options: Any,
    ) -> Self:
        """Return an estimator with given parameters, without a fit.

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
        noise_decay, noise_scale : float or array-like (D,), optional
            Lag-one autocorrelation and standard deviation, in data units, of the AR(1) noise of each column.
            Both imply ``noise="ar1"``.
        degrees_of_freedom : float, optional
            Degrees of freedom of Student-t noise, 2.1 or more; requires the option `robust`.
        time_unit : str or timedelta or None, default=None
            Duration of one time step, such as ``"1h"``, for data with dates; None for data without times.
        feature_names : array-like of str (D,), optional
            Names of the columns.
        **options
            Parameters of the estimator, used by later fits; `n_components` is K.

        Returns
        -------
        ProbabilisticSFA
            Fitted estimator. Factors are sorted by time scale, with the sign convention of `fit`;
            ``log_likelihood_`` is NaN.

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
        >>> X, factors = model.sample(50, random_state=0)
        >>> model.transform(X).shape, model.forecast(X, 3).means.shape
        ((50, 1), (3, 2))
        """
        params = make_parameters(
            decay, loadings, noise_variance, offset, noise_decay=noise_decay, noise_scale=noise_scale
        )
        if params.has_ar1_noise:
            options = {"noise": "ar1", **options}
        estimator = cls(params.n_components, **options)
        if estimator.transforms is not None:
            raise ValueError(
                "from_parameters does not support transforms, which are learned from data. Use fit."
            )
        checked = FitOptions.of(estimator).check().with_default_noise()
        if checked.has_ar1_noise != params.has_ar1_noise:
            raise ValueError("noise='ar1', noise_decay and noise_scale must be set together.")
        tails = checked.tails
        if (tails is None) != (degrees_of_freedom is None):
            raise ValueError("robust=True and degrees_of_freedom must be set together.")
        if tails is not None:
            minimum = tails.shapes[0]
            if not (is_number(degrees_of_freedom) and minimum <= degrees_of_freedom < np.inf):
                raise ValueError(
                    f"degrees_of_freedom must be {minimum:g} or more, and finite; got {degrees_of_freedom!r}."
                )
            tails = tails.with_shape(degrees_of_freedom)
        axis = TimeAxis()
        if time_unit is not None:
            import pandas as pd

            seconds = pd.Timedelta(time_unit).total_seconds()
            if not seconds > 0.0:
                raise ValueError(f"time_unit must be a positive duration; got {time_unit!r}.")
            axis = TimeAxis(kind="dates", unit=seconds)
        model = model_from_parameters(params, axis=axis, tails=tails, options=checked)
        estimator._set_fitted_attributes(model)
        estimator.n_features_in_ = params.n_features
        if feature_names is not None:
            names = np.asarray(feature_names, dtype=object)
            if names.shape != (params.n_features,):
                raise ValueError(
                    f"feature_names must be {params.n_features} names, one for each column; got shape "
                    f"{names.shape}."
                )
            estimator.feature_names_in_ = names
        return estimator

    def _options(self) -> FitOptions:
        """Return the validated options; `init` determines the number of factors if n_components=None."""
        options = FitOptions.of(self).check()
        params = self.init if isinstance(self.init, StateSpace) else getattr(self.init, "params_", None)
        if options.n_components is None and isinstance(params, StateSpace):
            return replace(options, n_components=params.n_components)
        return options

    def _fit_model(self, data: TrainingData, options: FitOptions) -> LinearGaussianModel:
        """Fit the model, or select a model if the options do not determine it."""

        def fit_one(
            data: TrainingData, options: FitOptions, size: Size | None = None, init: Any = self.init
        ) -> LinearGaussianModel:
            with Progress(self.max_iter) if self.verbose else nullcontext() as report:
                return model_of_fit(maximum_likelihood(data, options, init=init, report=report, size=size))

        if options.selects_noise and isinstance(data, InMemory):
            return fit_default_model(
                data,
                options,
                lambda rows, options, size, init: fit_one(InMemory(rows), options, size, init),
                without_outliers=isinstance(self.robust, str) and self.robust == "auto",
            )
        return fit_one(data, options)

    def _set_fitted_attributes(self, model: MaximumLikelihoodModel) -> None:
        self._model, fitted = model, model.fitted
        self.params_, self.time_unit_ = fitted.params, fitted.time_unit
        self.time_unit_seconds_ = fitted.axis.seconds(fitted.time_unit)
        values = fitted_attributes(fitted.params, fitted.time_unit)
        if fitted.tails is not None:
            values |= fitted.tails.attributes
        if isinstance(model, TransformedModel) and model.regression is not None:
            values["exog_coef_"] = model.regression.coefficients
        self._set_optional([(name in values, {name: values.get(name)}) for name in QUANTITIES])
        self._set_transform_attributes(model)
        self.log_likelihood_, self.history_ = fitted.log_likelihood, fitted.history
        self.n_iter_, self.n_evaluations_ = fitted.n_iter, fitted.n_evaluations
        self.converged_, self.status_ = fitted.converged, fitted.status
        self._set_optional([(fitted.calibration is not None, {"calibration_": fitted.calibration})])

    def _set_transform_attributes(self, model: MaximumLikelihoodModel) -> None:
        """Set or delete `transforms_` and `exog_names_`."""
        for name in ("transforms_", "exog_names_"):
            self.__dict__.pop(name, None)
        if isinstance(model, TransformedModel) and model.regression is not None:
            self.exog_names_ = np.array(model.regression.names, dtype=object)
        if isinstance(model, TransformedModel) and self.transforms is not None:
            by_column = model.transforms.by_column
            names = getattr(self, "feature_names_in_", range(len(by_column)))
            self.transforms_ = dict(zip(names, by_column, strict=True))

    # ------------------------------------------------------------------- storage

    def _to_arrays(self) -> dict[str, Any]:
        """Return the fitted model as values for a file."""
        names = getattr(self, "feature_names_in_", None)
        return persistence.to_arrays(self._model, self.get_params(deep=False), names)

    @classmethod
    def _from_arrays(cls, state: dict[str, Any]) -> Self:
        """Return the estimator from the values of a file."""
        model, options = persistence.from_arrays(state)
        estimator = cls(**options)
        FitOptions.of(estimator).check()
        estimator.n_features_in_ = model.fitted.params.n_features
        if "feature_names" in state:
            estimator.feature_names_in_ = np.asarray(state["feature_names"], dtype=object)
        estimator._set_fitted_attributes(model)
        return estimator

    # ------------------------------------------------------------------ scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator is fitted."""
        return hasattr(self, "params_")

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not (is_number(self.noise) and self.noise == 0.0)
        return tags

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters; `init` is not cloned."""
        params = self.get_params(deep=False)
        init = params.pop("init")
        copied = type(self)(**{name: clone(value, safe=False) for name, value in params.items()}, init=init)
        for name in ("_sklearn_output_config", "_metadata_request"):
            if hasattr(self, name):
                setattr(copied, name, copy.deepcopy(getattr(self, name)))
        return copied

    @property
    def _advice_on_missing(self) -> str:
        """Advice in the error about missing values, which noise=0.0 does not support."""
        if hasattr(self, "params_"):
            return (
                "With noise=0.0, this method requires complete rows. Impute missing values with impute first."
            )
        return (
            "noise=0.0 requires complete rows. Missing values are supported with learned noise "
            "(noise='diagonal')."
        )


def set_fitted(estimator: ProbabilisticSFA, model: MaximumLikelihoodModel) -> None:
    """Set the fitted attributes of an estimator; warn if the fit did not converge."""
    estimator._set_fitted_attributes(model)
    if not estimator.converged_:
        warnings.warn(estimator.status_, ConvergenceWarning, stacklevel=3)


def with_times(fitted: MaximumLikelihood, axis: TimeAxis, time_unit: float) -> MaximumLikelihood:
    """Return the result of a fit, with the time axis and the unit of time of its data."""
    status = fitted.status.adding("times", describe_index(axis, time_unit))
    return replace(fitted, time_unit=time_unit, status=status, axis=axis)
