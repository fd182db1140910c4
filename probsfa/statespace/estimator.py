"""Probabilistic slow feature analysis as a scikit-learn estimator, thin over this room's functions."""

import copy
import numbers
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa import _storage
from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_input, like_rows
from probsfa._optional_attributes import set_where_asked
from probsfa._random import generator
from probsfa._times import TimeAxis
from probsfa._timescales import timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.statespace import persistence, streaming
from probsfa.statespace.counts import counts_sentence
from probsfa.statespace.covariates import Ahead, Regression, check_identified, names_of, with_exog
from probsfa.statespace.criterion import bayesian_criterion
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
from probsfa.statespace.progress import Progress
from probsfa.statespace.default_model import fit_default_model
from probsfa.statespace.student import FEWEST_DEGREES
from probsfa.statespace.student_model import with_noise
from probsfa.statespace.timeline import (
    check_steps_of_limit,
    describe_index,
    in_model_time,
    make_horizon,
    refuse_uneven,
    times_of_stream,
)
from probsfa.statespace.transforms import make_transforms

__all__ = ["ProbabilisticSFA", "load"]


@lists_in_lists_out
class ProbabilisticSFA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Slow feature analysis of noisy series with holes: a factorial AR(1) state-space model.

    A few independent latents, each an AR(1) process of unit variance with a time scale of its own, are seen
    through a linear map under noise (Turner & Sahani 2007). Missing cells need no filling in: each observed
    cell counts, and each missing one gets a mean and a standard deviation. Without noise, the model is slow
    feature analysis.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of latents; may exceed the number of features. None takes what serves to fill holes: one for
        each feature that varies, up to 32 and to what data and time allow, learned from evenly spread
        stretches where there are very many cells; `status_` says what was taken. For a few slow features,
        give their number.
    rhythms : int or list, default=0
        Damped oscillators beside the other latents, for what comes again day by day or wave by wave: how many
        to look for in the data, or the periods to start from. These are numbers, in rows or in the unit of
        `times`, or where rows have dates durations such as ``"24h"`` or ``"1D"``. A period that is given ends
        between 0.8 and 1.25 of it. Each keeps its phase for as long as the data say. Not with ``noise=0.0``.
    smooth : int or list, default=0
        Smooth latents, whose paths have a derivative (Matern-3/2), for motion and all that is sampled faster
        than it turns: how many, or the time scales to start from, as in `rhythms`. With `rhythms` or
        `smooth`, `n_components` may be 0. Not with ``noise=0.0``.
    noise : {"auto", "diagonal", "isotropic", "ar1"}, float or array-like (D,), default="auto"
        Observation noise: a variance for each feature, one for all, or known variances in squared data
        units, the same for all features or one for each. With ``"ar1"`` each feature has, beside white noise
        of its own variance, noise with memory: an AR(1) process that it alone sees; see Notes. ``"auto"`` is
        ``"diagonal"``, unless nobody says how many latents either: where cells are then few for as many as
        features and straight lines nearly as good, it may be ``"ar1"``, as `status_` says. A known
        variance below 1e-12 of that of the data is held there, and `status_` says so. With ``0.0`` the fit is
        slow feature analysis itself, in closed form; it is fitted to complete rows, with `n_components` at
        most the rank of the data, and then fills missing cells of any.
    solver : {"auto", "lbfgs", "em"}, default="auto"
        How to climb the likelihood: by quasi-Newton steps on the exact score, which is also "auto", or by
        plain expectation maximisation.
    max_iter : int, default=200
        Most posterior evaluations. With `rhythms` or `smooth`, as many each for the model without them, which
        is fitted first, and with them.
    tol : float or "auto", default="auto"
        Expected gain of log-likelihood, in nats, below which a further step is not worth taking. ``"auto"``
        is a small part of the half nat for each free parameter by which the maximum exceeds the likelihood
        of the truth on average: ``2e-5 P**2`` for few parameters ``P``, half a nat for 160 or more. What is
        left moves fills by a small part of their standard deviation, and by other parts on machines with
        other numbers of cores; for digits that stay, give ``1e-4``. Where `n_components` is None and more
        than 50,000 cells are observed, ``1e-4`` for each cell, or more than 1,000 parameters are free,
        ``1e-3`` for each of them, whichever is more: less does not show in what is filled.
    noise_floor : float or "auto", default="auto"
        Smallest noise variance, as a fraction of each feature's variance; ``"auto"`` is 1e-9. Set it where a
        latent follows one feature alone (a Heywood case) and intervals are too narrow; `status_` says so.
    n_init : int, default=1
        Number of climbs, of which the best is taken. The first begins at slow feature analysis, the others
        at random places, the same each time. More than one is of use where there are more latents than the
        data show and many cells are missing: there are several maxima then. `rhythms` and `smooth` latents
        begin where the first climb ended.
    noise_prior : {"weak"} or None, default="weak"
        Prior of the noise variances that are learned, in units of each feature's variance. ``"weak"`` takes
        all sizes to be equally likely on a logarithmic scale down to 1e-4, and less in proportion below: it
        costs no more than a nat for each factor of e, so that it decides where the likelihood does not, which
        is flat where a latent follows one feature alone. Estimates are then those of the largest posterior
        density; None is maximum likelihood.
    transforms : None, "auto", str, tuple, mapping or sequence, default=None
        Scales in which columns are modelled, for amounts that are never negative, percentages, and what is
        skewed: ``"log"``, ``"log1p"``, ``"sqrt"``, ``"box-cox"``, ``"yeo-johnson"`` (the last two with a
        power by likelihood), bounds such as ``(0, 100)`` or ``(0, None)``, or None. A kind for all columns, a
        sequence with one for each, or a mapping from names or numbers of columns to theirs. ``"auto"`` takes
        for each column what its likelihood clearly asks for, and None where in doubt; `status_` says what.
        See Notes.
    robust : bool or {"cell", "row"}, default=False
        Student-t noise, for data with outliers: each cell (``True`` or ``"cell"``), or each row as a whole
        (``"row"``), has a weight of its own that is small where it is far from what the others say. The
        degrees of freedom are learned; `noise_variance_` is the squared scale, and the variance is larger by
        ``nu / (nu - 2)``. A lower bound of the likelihood is maximised, and stands wherever a log-likelihood
        does; degrees of freedom and scales of single cells are those under which cells are most probable
        given all others, as the bound would have them too large. `outlier_scores` ranks the cells. With
        ``noise="ar1"`` each feature has an AR(1) process beside its Student-t noise. Not with ``noise=0.0``,
        nor with `fit_stream`.
    fixed : dict or None, default=None
        Parameters that are held while the rest is learned, in data units: ``"decays"`` (K,), ``"loadings"``
        (D, K + 2 R + 2 M), ``"noise"`` (D,), the variances of white noise, and ``"periods"`` (R,), as in
        `rhythms`. NaN stands where a parameter is learned; loadings may also be booleans, true where they are
        learned and false where they are zero. Needs `n_components`. See Notes.
    init : Parameters, estimator or None, default=None
        Where the fit starts: parameters in data units, a fitted model of this package that has such, or a
        fitted `SFA` or `GraphSFA`. None tries several starts and is the best choice where nothing is known. A
        climb from one place is shorter and may end lower.
    random_state : int, Generator or None, default=None
        Default source of randomness of `sample` and `sample_posterior`; fitting uses none.
    verbose : bool, default=False
        Show progress on standard error, and after `fit` how the engine works through these data, and why.

    Attributes
    ----------
    params_ : Parameters
        Decay, loadings, noise variance and offset, in data units.
    decay_ : ndarray (K,)
        Correlation of each latent with itself one unit of time later, slowest first.
    timescales_ : ndarray (K,)
        ``-time_unit_ / log(decay_)``; NaN where the decay is not positive.
    time_unit_ : float
        Unit of time of `decay_`: one row; or the median time between rows if times were given or an uneven
        index told them, in their unit, which is a second for dates and durations.
    time_unit_seconds_ : float or None
        The same in seconds, where `times` or the index of a frame were dates or durations; None where that is
        not known.
    rhythm_periods_ : ndarray (R,)
        Periods of the rhythms in the unit of `timescales_`, longest first.
    rhythm_decays_ : ndarray (R,)
        What is left of each rhythm's phase one unit of time later.
    rhythm_amplitudes_ : ndarray (D, R)
        Root mean square of each rhythm's amplitude in each feature, in data units; its standard deviation
        there is smaller by the root of two.
    rhythm_phases_ : ndarray (D, R)
        By how much each feature follows the one of the largest amplitude, relative to its standard deviation,
        in radians in (-pi, pi]: half a period is pi.
    exog_coef_ : ndarray (D, P)
        With `exog`: change of each column for one unit of each covariate; `mean_` is then where these are 0.
    exog_names_ : ndarray (P,)
        With `exog`: what the covariates are called.
    transforms_ : dict
        With `transforms`: the map of each column, or None, by the name of the column or its number.
    smooth_timescales_ : ndarray (M,)
        Time scales of the smooth latents in the unit of `timescales_`, longest first: their correlation over
        ``t`` is ``(1 + sqrt(3) t / timescale) exp(-sqrt(3) t / timescale)``.
    noise_decay_ : ndarray (D,)
        With ``noise="ar1"``, correlation over one unit of time of the noise with memory of each feature.
    memory_timescales_ : ndarray (D,)
        Its time scale, in the unit of `timescales_`; NaN where the decay is not positive.
    memory_scale_ : ndarray (D,)
        Its standard deviation, in data units.
    memory_share_ : ndarray (D,)
        Part of each feature's variance, as the model has it, that is noise with memory.
    loadings_ : ndarray (D, K + 2 R + 2 M)
        How each latent shows in each feature, in data units per standard deviation of the latent; of a rhythm
        its two states, of a smooth latent the value and the velocity, which none sees.
    noise_variance_ : ndarray (D,)
        Variance of white observation noise, in squared data units.
    mean_ : ndarray (D,)
        Mean of each feature.
    degrees_of_freedom_ : float
        Degrees of freedom of Student-t noise, from 2.1 to 1000, which is as good as normal; with `robust`
        alone.
    log_likelihood_ : float
        Log-likelihood of the training data, in nats, without the prior of the noise.
    history_ : ndarray (n_iter_,)
        Log-likelihood after each accepted step; never falls. With `robust` that of the last climb, at degrees
        of freedom that are held. With a prior, its log density is part of it, up
        to the constant with which it ends at `log_likelihood_`.
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

    *States.* The columns of `transform`, of `loadings_` and of all other moments of the latents are, in this
    order, the AR(1) latents; two states of each rhythm, ``rhythm0_cos`` and ``rhythm0_sin``, of which the
    second follows the first by a quarter of a period; and of each smooth latent its value ``smooth0`` and
    its velocity ``smooth0_velocity``, in units of its standard deviation. `get_feature_names_out` has these
    names.

    *Noise with memory.* With ``noise="ar1"`` what a feature does alone is no latent's business: latents are
    what features share. `transform` and all moments are of latents only; holes, forecasts and predictions
    carry the memory on. The model of white noise is fitted first, with as many evaluations, and its
    likelihood is the least that is reached. The engine has ``K + D`` states in the place of ``K``: a row
    costs some ``20 (K + D)**3`` operations where cells are missing, and hardly any where the series is
    complete and covariances are soon steady. Where that is much, as for 3,000 rows of 60 features, the
    noise is integrated out instead: means are the same, standard deviations have a Monte Carlo part, and
    log-likelihoods are estimates, as `status_` says. Fits with `rhythms`, `smooth`, `robust` or `fixed`, and
    `filter`, `diagnose`, `news` and `standard_errors`, have the states at any size.

    *Columns in their own scale.* With `transforms` the model is of ``T(x)``, column by column. What is in
    data units without them is so with them: fills and forecasts are means of the data, never outside the
    range of a column, `quantile` gives their medians and the ends of intervals, draws are mapped back, and
    log-likelihoods hold the Jacobian, so that they compare with those without transforms. Parameters (those
    that are given as `noise` and `init`, too), contributions, news and standard errors are those of ``T(x)``.
    Values on a bound are taken to be a margin off it; :mod:`probsfa.statespace.transforms` has all maps and
    says how large that is.

    *Covariates.* With ``exog=U`` the model is ``x_t = mu + B u_t + C z_t + n_t``, and ``B`` is learned by
    maximum likelihood with all else. The model without covariates is fitted, too, with as many evaluations,
    and `status_` says what they gain. All verbs then need covariates for the rows that they are given, and
    those that look ahead for the rows that follow, too: after those of `X`, or by the labels of a frame, so
    that one long frame serves all. They must be complete, and no combination of each other and the constant.
    :mod:`probsfa.statespace.covariates` makes them of dates.

    *Parameters that are held.* With `fixed` the rest is learned by maximum likelihood under them. Latents
    are then in the places that `fixed` gives them, slowest first or not, and those with loadings that are
    held, other than zeros, keep their signs and phases. `bic` counts what is learned, and `standard_errors`
    has NaN for what is held. Loadings that are zero say which columns a latent is seen in.

    *Times.* Where no `times` are given, a frame of pandas tells them by its index, if that holds dates (with
    or without a time zone), periods or durations; `status_` says so. Rows that are one step of the clock or
    of the calendar apart (hours, months, business days) are evenly sampled, and time scales are in these
    steps. All other indexes, those with rows left out among them, are read as `times`, and time scales are in
    seconds. An index of plain numbers is not read.

    A fitted model keeps its unit of time. Data with dates at another rate are converted, ``decay_ ** (dt /
    time_unit_)``, so that an hourly model serves six-minute data; where a decay is negative and the steps are
    no whole ones, they are refused, and so are dates for a model of plain numbers, and the other way round.
    Rows without times are taken as one `time_unit_` apart, with a warning if those of the fit were not.
    A column that does not vary tells no spread. Its missing cells are filled by the constant, with standard
    deviation zero, and `status_` says so. Where the noise is given, or one for all columns, that is its
    spread.

    See Also
    --------
    probsfa.SFA : The limit of no noise, for complete data.
    probsfa.BayesianSFA : The same model with a posterior for its parameters.
    probsfa.select_n_components : How many latents.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022.
    Harvey (1989), Forecasting, structural time series models and the Kalman filter, section 2.3 (rhythms).
    Hartikainen & Sarkka (2010), MLSP, doi:10.1109/MLSP.2010.5589113 (smooth latents).

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

    A rhythm of 24 rows, in both columns and a quarter of it later in the second:

    >>> t = np.arange(600)
    >>> noise = 0.3 * np.random.default_rng(0).standard_normal((600, 2))
    >>> X = np.stack([2.0 * np.sin(2 * np.pi * t / 24), -np.cos(2 * np.pi * t / 24)], axis=1) + noise
    >>> model = ProbabilisticSFA(n_components=0, rhythms=1).fit(X)
    >>> model.rhythm_periods_.round(1), (model.rhythm_phases_[:, 0] / np.pi).round(1)
    (array([24.]), array([0. , 0.5]))

    Noise that has memory, in each column its own:

    >>> truth = ProbabilisticSFA.from_parameters(
    ...     [0.98], [[1.0], [0.8], [-0.6]], 0.1, memory_decay=[0.3, 0.6, 0.8], memory_scale=0.8
    ... )
    >>> X, _ = truth.sample(2000, random_state=0)
    >>> model = ProbabilisticSFA(n_components=1, noise="ar1").fit(X)
    >>> model.noise_decay_.round(1)
    array([0.4, 0.6, 0.8])

    Two latents, of which each is seen by columns of its own, besides one that all share:

    >>> seen = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1]], dtype=bool)
    >>> X = make_slow_mixture(400, 4, decay=[0.98, 0.9, 0.7], noise_variance=0.3, random_state=0).data
    >>> fixed = {"loadings": seen, "decays": [0.98, np.nan, np.nan]}
    >>> model = ProbabilisticSFA(3, fixed=fixed).fit(X)
    >>> (model.loadings_ != 0.0).sum(axis=0), float(model.decay_[0])
    (array([4, 2, 2]), 0.98)

    Amounts that are never negative, and a covariate that is known for the rows to come, too:

    >>> rain = series.data[:200, :2] ** 2
    >>> rain[50:60, 0] = np.nan
    >>> wet = (np.arange(203) % 7 < 2).astype(float)
    >>> rain[wet[:200] > 0] += 3.0
    >>> model = ProbabilisticSFA(1, transforms="sqrt", tol=0.1).fit(rain, exog=wet[:200])
    >>> low, high = model.impute(rain, quantile=[0.05, 0.95], exog=wet[:200])
    >>> bool(low.min() >= 0.0), model.forecast(rain, 3, exog=wet).means.shape
    (True, (3, 2))
    """

    _model: FittedModel

    def __init__(
        self,
        n_components: int | None = None,
        *,
        rhythms: int | Sequence[Any] = 0,
        smooth: int | Sequence[Any] = 0,
        noise: str | float | ArrayLike = "auto",
        solver: str = "auto",
        max_iter: int = 200,
        tol: float | str = "auto",
        noise_floor: float | str = "auto",
        n_init: int = 1,
        noise_prior: str | None = "weak",
        transforms: Any = None,
        robust: bool | str = False,
        fixed: Mapping[str, Any] | None = None,
        init: Any = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.rhythms = rhythms
        self.smooth = smooth
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
        """Find the parameters that maximise the likelihood.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence, for uneven sampling: numbers in any unit,
            dates, or durations. Decays are then those of Ornstein-Uhlenbeck processes, hence positive. By
            default those that the index of a frame of pandas tells; see Notes.
        exog : array-like or frame (T, P), or list of them, optional
            Covariates, known for every row, of which each column is a linear function beside the latents; a
            list has one for each sequence. A frame of pandas beside a frame is taken by its index and may
            have more rows. See Notes.

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
        UserWarning
            If a column holds zeros and ones or counts, for which :class:`probsfa.EmissionSFA` is.
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
        """Fit to columns in their own scale, with covariates."""
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
        """Fit to a series too long for memory, read block by block from where it lies.

        The result is that of `fit`: each chunk of rows hands the exact distribution of its last state to the
        next. Only starts are sought on stretches of the series. Memory does not grow with the number of rows,
        but for four bytes a row and, up to 1.5 GiB, what a forward pass leaves for the backward one.

        Parameters
        ----------
        X : array-like (T, D)
            Rows in order of time, NaN or under a mask where missing: anything that has a shape and gives rows
            for a slice, such as `numpy.memmap`, a dataset of an HDF5 or Zarr file, a variable of a netCDF
            file, or a frame, whose index is used as in `fit`.
        lengths : array-like of int, optional
            Cuts the rows into consecutive sequences.
        times : array-like (T,), optional
            Times of the rows, as in `fit`; eight bytes a row.
        exog : None
            Covariates are for `fit`.

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
        UserWarning
            If the index of a frame tells that rows are not evenly spaced, as which they are taken.

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
        streaming.check_source(X)
        seconds, axis = times_of_stream(X, lengths, times)
        options = options.with_times(axis)
        model = self._maximise(streaming.InBlocks(self, X, lengths, seconds), options)
        set_fitted(self, replace(model, fitted=with_times(model.fitted, axis, model.fitted.time_unit)))
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
        """Make a fitted model of given parameters; nothing is fitted.

        Parameters
        ----------
        decay : array-like (K,)
            Correlation of each latent with itself one unit of time later, inside (-1, 1).
        loadings : array-like (D, K)
            How each latent shows in each feature, in data units per standard deviation of the latent.
        noise_variance : float or array-like (D,)
            Observation noise variance, positive, in squared data units.
        offset : float or array-like (D,), default=0.0
            Mean of each feature.
        memory_decay, memory_scale : float or array-like (D,), optional
            Correlation over one unit of time, and standard deviation in data units, of the part of each
            feature's noise that has a memory; the model is then one of ``noise="ar1"``.
        degrees_of_freedom : float, optional
            Of Student-t noise, 2.1 or more, with the option `robust`.
        time_unit : str or timedelta or None, default=None
            How long the unit of time of the decays is, such as ``"1h"``, for data with dates; None for rows.
        feature_names : array-like of str (D,), optional
            What the columns are called.
        **options
            Parameters of the estimator, for later fits; `n_components` is K.

        Returns
        -------
        ProbabilisticSFA
            With all verbs. Latents come slowest first, with the signs that a fit gives them;
            ``log_likelihood_`` is NaN, as there are no training data.

        Raises
        ------
        ValueError
            If a shape does not fit, or a value is not finite or out of its range.

        See Also
        --------
        probsfa.statespace.make_parameters : Checks parameters.

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
        """What is asked for; as many latents as a start has, where nobody says how many."""
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
                data, options, lambda rows, asked, size, init: fitted(InMemory(rows), asked, size, init)
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
        self.__dict__.pop("degrees_of_freedom_", None)  # of a fit before
        if fitted.degrees_of_freedom is not None:
            self.degrees_of_freedom_ = fitted.degrees_of_freedom

    def _take_over_pairs(self, fitted: MaximumLikelihood) -> None:
        """Take over what rhythms, smooth latents and memory have, where asked for, and nothing else."""
        params, latents = fitted.params, fitted.options
        of_rhythms = {
            "rhythm_periods_": params.rhythm_periods * fitted.time_unit,
            "rhythm_decays_": params.rhythm_decay,
            "rhythm_amplitudes_": np.sqrt(2.0) * np.abs(params.rhythm_vectors),
            "rhythm_phases_": np.angle(params.rhythm_vectors),
        }
        of_smooth = {"smooth_timescales_": params.smooth_timescales * fitted.time_unit}
        of_memory = {
            "noise_decay_": params.memory_decay,
            "memory_timescales_": timescales_from_decay(params.memory_decay, fitted.time_unit),
            "memory_scale_": params.memory_scale,
            "memory_share_": params.memory_share if params.has_memory else params.memory_scale,
        }
        set_where_asked(
            self,
            [
                (latents.rhythms, of_rhythms),
                (latents.smooth, of_smooth),
                (latents.has_memory, of_memory),
            ],
        )

    def _take_over_maps(self, model: FittedModel) -> None:
        """Take over the scales of the columns and the effects of covariates, where there are any."""
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
        """Return the posterior means of the latents, given all rows of each sequence.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing. They are inferred together: a row alone tells less.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
            Posterior means, slowest first. With ``noise=0.0`` the latents of complete rows, by themselves;
            `posterior` has those of rows with missing cells too.
        """
        check_is_fitted(self)
        sequences = self._check(X, lengths, times, exog, complete=self._model.fitted.options.noise_free)
        return sequences.restore(self._model.factor_means(sequences))

    def posterior(
        self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Posterior | list[Posterior]:
        """Return the distribution of the latents given all rows of each sequence.

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
        """Return the distribution of each latent state given the rows up to its own.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        state : FilterState, optional
            ``state`` of the result for the rows before, to go on with one sequence.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        FilterResult, or list of FilterResult
            Causal means and covariances, log-likelihoods of the rows, and the state from which to go on. An
            array cut by `lengths` gives a list. With `robust` the weights of a row are found from it and the
            rows before, which are not judged again: an approximation, whose log-likelihoods are lower bounds.

        Raises
        ------
        ValueError
            If a state comes with several sequences, or does not fit the model or the times.
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
        """Fill missing cells with their posterior means, or with quantiles.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations too.
        quantile : float or sequence of float, optional
            Fill with the quantile of this probability in the place of the mean: 0.5 for medians; 0.05 and
            0.95 for the ends of intervals of 90 %, as ``quantile=[0.05, 0.95]``.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        filled : like X, or list of them
            Observed cells as they were, missing ones filled. Frames come back as frames, lists as lists. With
            several quantiles a list with one for each.
        std : like X
            With `return_std`: standard deviation of each filled cell (of the value that would have been
            observed, noise included); zero for observed ones.

        Warns
        -----
        UserWarning
            If observed cells, left out one at a time, are found no better than by linear interpolation: the
            model is then no better at filling single cells either.
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
        """Fill with one quantile or with several."""
        if return_std:
            raise ValueError("give either quantile or return_std, not both.")
        several = not isinstance(quantile, numbers.Real)
        filled = [
            like_input(X, sequences, fill_quantile(self._model, sequences, check_probability(one)))
            for one in (quantile if several else [quantile])
        ]
        return filled if several else filled[0]

    def outlier_scores(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Say of each observed cell how improbable it is given all others.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing: those of the fit, or others.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        scores : like X
            Distance of each cell from what all other cells say of it, in standard deviations of what they
            predict; NaN where a cell is missing, or its noise is below 1e-13 of its variance. With `robust`
            the others count by their weights, and the standard deviation is that of cells that are no
            outliers: 4 and more are rare among such. Frames come back as frames, lists as lists.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).

        See Also
        --------
        diagnose : Whether the noise has heavy tails, and what else does not fit.

        Notes
        -----
        Without `robust` outliers widen the noise and bend the latents that they are judged by, and several in
        one row, or many, excuse each other.

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
        """Say what each latent contributes to each cell.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.

        Returns
        -------
        ndarray (T, D, K), or list of ndarrays (T_i, D, K)
            Posterior mean of each latent times its loading, in data units (with `transforms` in those of the
            transformed columns); with covariates the effects of these, too, as the last P of them. With
            `mean_` they add up to the posterior mean of each cell without its noise, which is what missing
            cells are filled with. With ``noise=0.0`` those of the latents that are reported. With
            ``noise="ar1"`` there is one more after the latents, ``(T, D, K + 1)``: what of the noise with
            memory of its own column is in each cell.

        See Also
        --------
        news : What each new cell does to a forecast.

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
        """Say which new cell moved the prediction of another one, and by how much.

        Parameters
        ----------
        X_old : array-like (T_old, D)
            Rows as they were known, NaN where missing: one `time_unit_` apart, or a frame with dates.
        X_new : array-like (T_new, D)
            The same rows and those that follow, with cells that have come in or were revised. With dates,
            rows may have come in between, too.
        target : tuple
            Row and column of what is predicted. The row is a number or a date, in the future if it is beyond
            the last one; the column goes by its number or its name. It must be missing.
        exog : array-like or frame, optional
            Covariates of the rows of `X_new` and of those that follow, up to the target's.

        Returns
        -------
        News
            ``before`` and ``after``, and the impact of each cell, which sum up to the difference; ``table``
            has the largest first.

        Raises
        ------
        ValueError
            If rows or cells are missing that were known, or the target is known.

        See Also
        --------
        contributions : What each latent has to do with a cell.

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
        news, dates = self._model.news(old, new, (row, int(column))), dates_of(X_new)
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
        """Forecast what follows each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`; the rows from which to forecast.
        exog : array-like or frame (T + H, P), or list of them, optional
            Covariates of the rows, and then of the steps; or a frame whose index has both.
        n_steps : int, optional
            Number of steps, each of one `time_unit_`.
        fh : array-like (H,), optional
            Forecasting horizon, in the place of `n_steps`, rising: numbers of steps ahead of the last row,
            fractions of one `time_unit_` as well; durations ahead of it; or the dates to forecast, where the
            rows have dates. Uneven steps are as exact as even ones.

        Returns
        -------
        Forecast, or list of Forecast
            Means and standard deviations of observations (H, D) and latents (H, K). With `robust` the noise
            has the variance of Student's t, which is more than its quantiles say: for intervals take those of
            draws by ``sample_posterior(X, of="cells", n_steps=...)``. An array cut by `lengths` gives a list.
            Frames give frames, whose index goes on from that of `X`: dates from dates, by their
            calendar, and row numbers from row numbers; where it cannot, it counts the steps ahead.

        Raises
        ------
        ValueError
            If not exactly one of `n_steps` and `fh` is given, `fh` does not rise or cannot be compared with
            the times of the rows, or a step is a fraction and a decay is negative.

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
        horizon = make_horizon(
            X, sequences, times, self._model.fitted.axis, self.time_unit_, n_steps=n_steps, fh=fh
        )
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
        """Draw a series from the model.

        Parameters
        ----------
        n_steps : int, default=1
            Number of rows, one `time_unit_` apart.
        exog : array-like (n_steps, P), optional
            Covariates of the rows, where the model has such.
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
        """Draw courses of the latents, or missing cells and what follows, from their joint distribution.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.
        n_draws : int, default=1
            Number of draws.
        of : {"latents", "cells"}, default="latents"
            What to draw. ``"cells"`` gives series without holes: observed cells as they were, missing ones
            with their noise, all of a draw together, so that sums, largest values and times below a threshold
            of a draw are draws of these.
        n_steps : int, default=0
            Rows that follow each sequence, each one `time_unit_` after the one before, drawn with the rest.
        random_state : int, Generator or None
            Source of randomness; the estimator's by default.

        Returns
        -------
        ndarray (n_draws, T + n_steps, K), or list of ndarrays (n_draws, T_i + n_steps, K)
            With ``of="cells"`` D in the place of K.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
        >>> X[40:60, 0] = np.nan
        >>> model = ProbabilisticSFA(1).fit(X)
        >>> draws = model.sample_posterior(X, 200, of="cells", n_steps=5, random_state=0)
        >>> largest = draws[:, 40:60, 0].max(axis=1)  # of the hole, 200 draws
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

        ``-2 log L + P log N``, with ``P`` free parameters and ``N`` rows in which anything is observed. With
        ``noise=0.0`` the likelihood is that of the square model, whatever `n_components` is, and so is ``P``.
        """
        sequences = self._check_observed(X, lengths, times, exog)
        n_observed = int(np.count_nonzero(sequences.mask.any(axis=1)))
        return bayesian_criterion(self._model.log_likelihood(sequences), self._model.n_parameters, n_observed)

    def diagnose(
        self, X: Any, *, block: int = 24, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Diagnostics:
        """Say whether the model fits data, column by column, and what to try where it does not.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing: those of the fit, or others.
        block : int, default=24
            Rows of the blocks that are hidden to see how well intervals hold in longer holes.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        Diagnostics
            Predictions one row ahead and their standardised errors, like `X`; autocorrelations, tails,
            rhythms and drifts of these errors, and how often intervals hold, by column and kind of hole;
            ``advice``, sentences that say what to try. ``print`` shows a table, ``plot()`` a picture.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).

        See Also
        --------
        filter : Predictions alone, which can be resumed.
        probsfa.select_n_components : How many latents.

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
            The data the model was fitted to.

        Returns
        -------
        StandardErrors
            With the shapes and units of the parameters (and with covariates ``exog_coef``), and intervals by
            ``interval(name, level)``: those of time scales are on the logarithmic scale. Costs two posterior
            evaluations for each free parameter, and three for each coefficient of a covariate.

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
        """Return an interval of the time scale of a latent by profile likelihood.

        All other parameters are fitted again for each time scale that is tried, on the exact likelihood. The
        interval is as skewed as the likelihood, and may reach to infinity where the series is too short to
        tell a slow latent from a drift. Where two latents have nearly the same time scale, another one may
        take the place of this one, and the interval covers both. Coefficients of covariates are held.

        Parameters
        ----------
        X, lengths, times, exog
            The data the model was fitted to.
        component : int, default=0
            Which latent; they come slowest first.
        level : float, default=0.95
            Probability to cover.

        Returns
        -------
        TimescaleProfile
            ``lower``, ``upper``, and the profile itself. Costs two posterior evaluations for each free
            parameter, as `standard_errors` does, and some hundred more: about as much as a fit.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``), or the latent no positive decay.

        See Also
        --------
        standard_errors : Intervals of all parameters, from the curvature at the maximum alone.

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that :func:`probsfa.load` reads; no pickle.

        Parameters
        ----------
        path : path-like
            File to write; what is there is replaced in one piece.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        persistence.write(path, self._model, self.get_params(deep=False), names)

    # ------------------------------------------------------------------ plumbing

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are parameters."""
        return hasattr(self, "params_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
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
            The name of the class with a number for AR(1) latents, and those of the states of rhythms and
            smooth latents; see Notes.
        """
        names = super().get_feature_names_out(input_features)
        pairs = self.params_.latents.names
        return names if not pairs else np.append(names[: -len(pairs)], np.array(pairs, dtype=object))

    def __sklearn_clone__(self) -> Self:
        """An unfitted estimator with the same parameters and the same start, which is kept as it is."""
        params = self.get_params(deep=False)
        init = params.pop("init")
        made = type(self)(**{name: clone(value, safe=False) for name, value in params.items()}, init=init)
        for name in ("_sklearn_output_config", "_metadata_request"):
            if hasattr(self, name):
                setattr(made, name, copy.deepcopy(getattr(self, name)))
        return made

    @property
    def _advice_on_missing(self) -> str:
        """What the message on a missing value recommends: noise=0.0 alone does not support them."""
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
        """Check data for a verb; covariates follow `later` where rows ahead need them, too."""
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
        """Check data by which the model is judged: something must be observed."""
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
        """Rows with their covariates and those of rows that follow, if the model has any."""
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
            horizon = make_horizon(
                X, sequences, times, model.fitted.axis, self.time_unit_, n_steps=n_steps, fh=None
            )
            ahead = [Ahead(n_steps, each.index) for each in horizon]
        return with_exog(sequences, X, exog, regression.names, ahead)

    def _generator(self, random_state: Seed) -> np.random.Generator:
        return generator(self.random_state if random_state is None else random_state)


def followed_by_empty_rows(
    sequences: Sequences, n_steps: int, unit: float, ahead: Sequence[FloatArray] | None = None
) -> Sequences:
    """Sequences with rows after each in which nothing is observed, one unit of time apart.

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
    """Make an estimator a fitted one, wherever its model was fitted; warn if it is not at a maximum."""
    estimator._take_over(model)
    if not estimator.converged_:
        warnings.warn(estimator.status_, ConvergenceWarning, stacklevel=3)


def with_times(fitted: MaximumLikelihood, axis: TimeAxis, time_unit: float) -> MaximumLikelihood:
    """The outcome of a fit, which knows what the times of its data were counted in."""
    status = fitted.status + describe_index(axis, time_unit)
    return replace(fitted, time_unit=time_unit, status=status, axis=axis)


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
        If it is not a model of this package, is broken, or of a later version of the format. Sizes are
        checked before anything is unpacked.
    """
    model, options, names = persistence.read(path)
    _storage.check_parameters(path, options, ProbabilisticSFA().get_params())
    estimator = ProbabilisticSFA(**options)
    try:
        FitOptions.of(estimator).check()
        if estimator.random_state is not None:
            check_count("random_state", estimator.random_state, minimum=0)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{os.fspath(path)} has a parameter that is none: {str(error).rstrip('.')}."
        ) from None
    estimator.n_features_in_ = model.fitted.params.n_features
    if names is not None:
        estimator.feature_names_in_ = names
    estimator._take_over(model)
    return estimator
