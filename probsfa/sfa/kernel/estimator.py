"""Regularized sparse kernel slow feature analysis (RSK-SFA).

Boehmer, Gruenewaelder, Nickisch & Obermayer (2011, ECML PKDD, doi:10.1007/978-3-642-23780-5_25). Outputs are
``y(x) = A' (g(x) - <g>)`` with ``g(x) = [k(z_1, x), ..., k(z_m, x)]`` for support vectors ``z``. The kernel
functions are centred over the rows, and their mean over support vectors is subtracted (eqs. 9-10). The
outputs minimize (eq. 8)::

    (1/(n-1)) tr A' K D D' K' A + lambda tr A' Kbar A     under     (1/n) A' K K' A = 1

Here ``D`` takes differences in time and ``Kbar_ij = k(z_i, z_j)``. The second term is ``lambda`` times the
squared norms of the outputs in the reproducing kernel Hilbert space. There are no differences between
sequences, and the number of differences replaces ``n - 1``. On a training graph, moments with node and edge
weights are used (Escalante-B. & Wiskott 2013).
"""

import numbers
import sys
import time
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state

from probsfa._arrays import as_float_array
from probsfa._frames import lists_in_lists_out
from probsfa._row_transformer import InvertibleTransformer
from probsfa._typing import FloatArray
from probsfa._validation import (
    Sequences,
    check_count,
    check_option,
    check_sequences,
)
from probsfa.graphs._named import build_graph, is_slow_feature_analysis
from probsfa.graphs.training_graph import graph_moments
from probsfa.linalg import check_rank_tol
from probsfa.metrics import timescale
from probsfa.sfa._expand import split_into_folds, warn_of_overfitting
from probsfa.sfa._shrinkage import labels_of_rows
from probsfa.sfa.graph import GraphTransformer
from probsfa.sfa.kernel.held_out import (
    HeldOutPath,
    HeldOutSplit,
    graph_splits,
    held_out_path,
    temporal_splits,
)
from probsfa.sfa.kernel.problem import (
    KernelColumns,
    KernelFunctions,
    KernelProblem,
    KernelSolution,
    check_kernel,
    check_positive_semidefinite,
    check_rank,
    fold_border_differences,
    fold_moments,
    is_translation_invariant,
    kernel_block,
    kernel_moments,
    make_problem,
    merge_folds,
    rows_at_a_time,
    solve,
)
from probsfa.sfa.kernel.support import mp_kpca, mp_mah, online_mah, random_support

__all__ = ["KernelSFA", "PreImage", "RegularizationPath"]

# ---- inverse transform: kernel ridge regression from outputs to inputs, fitted to support vectors
#
# Bakir, Weston & Schoelkopf (2004), Learning to find pre-images, Advances in Neural Information Processing
# Systems 16: a regression from the outputs of known points to these points.


_RELATIVE_GAMMAS = (0.1, 1.0, 10.0)  # times 1 / number of outputs, which have unit variance
_RIDGE_PENALTIES = 10.0 ** np.arange(-10, 1)


class PreImage(NamedTuple):
    """A Gaussian kernel ridge regression.

    Attributes
    ----------
    outputs : ndarray (m, K)
        Outputs of known points.
    coefficients : ndarray (m, D)
        The regression is ``k(y, outputs) @ coefficients + mean``.
    mean : ndarray (D,)
        Mean of the points.
    gamma : float
        Inverse squared width of the kernel of outputs.
    ridge : float
        Penalty of the squared norm.
    """

    outputs: FloatArray
    coefficients: FloatArray
    mean: FloatArray
    gamma: float
    ridge: float

    @classmethod
    def fit(cls, outputs: FloatArray, points: FloatArray) -> "PreImage":
        """Fit the width and the ridge with the smallest leave-one-out error.

        Parameters
        ----------
        outputs : ndarray (m, K)
            Outputs of the points.
        points : ndarray (m, D)
            Known points.

        Notes
        -----
        With ``H = K (K + ridge)^-1``, the leave-one-out residual of point ``i`` is ``((1 - H) x)_i / (1 -
        H_ii)``. One eigendecomposition of ``K`` therefore suffices for all ridge penalties.
        """
        mean = points.mean(axis=0)
        centred = points - mean
        best = (np.inf, 0.0, 0.0, np.zeros_like(centred))
        for width in _RELATIVE_GAMMAS:
            gamma = width / outputs.shape[1]
            values, vectors = np.linalg.eigh(rbf_kernel(outputs, gamma=gamma))
            values = np.maximum(values, 0.0)
            rotated = vectors.T @ centred
            for ridge in _RIDGE_PENALTIES:
                # Since (K + ridge)^-1 = (1 - H) / ridge, the ridge cancels in the leave-one-out residual.
                inverse = 1.0 / (values + ridge)
                coefficients = vectors @ (inverse[:, None] * rotated)
                diagonal = vectors**2 @ inverse
                error = float(np.sum((coefficients / diagonal[:, None]) ** 2))
                if error < best[0]:
                    best = (error, gamma, float(ridge), coefficients)
        _, gamma, ridge, coefficients = best
        return cls(outputs, coefficients, mean, gamma, ridge)

    def __call__(self, Y: FloatArray) -> FloatArray:
        """Return the estimated inputs (T, D) of outputs (T, K)."""
        points: FloatArray = rbf_kernel(Y, self.outputs, gamma=self.gamma) @ self.coefficients + self.mean
        return points


# ---- regularized sparse kernel slow feature analysis (RSK-SFA)


IntArray = NDArray[np.intp]

_SELECTIONS = ("mp_mah", "online_mah", "mp_kpca", "random")
_PATH_DECADES = range(-16, 2)
_HELD_OUT_DECADES = range(-10, 2)
_DEFAULT_REGULARIZATION = 1e-3  # relative to the mean of k(z, z), if no rows can be held out
_N_FOLDS = 5
_N_PRE_IMAGE_POINTS = 1000
_MAX_SUPPORT = 500  # by default; the selection of the regularization then takes seconds
# A warning names a smaller regularization than the selected one if three conditions hold:
# - the mean delta value in training is at most half as large;
# - the mean delta value on held-out rows is at most twice as large;
# - the mean delta value on held-out rows is at most 0.2.
# Delta values on held-out rows are not distinguished up to a factor of two: if a slow change occurs only
# once, only one of five folds contains it.
_MAX_LOSS_RATIO, _MAX_SLOW_DELTA = 2.0, 0.2
# Time of the selection, relative to that of moments and whitening: 0.5 to 1.9 were measured for 1,000 to
# 20,000 rows and 200 to 1,000 support vectors.
_RELATIVE_SELECTION_TIME = 2.0
_REMEDY = (
    "Use fewer components, another kernel or gamma, a larger regularization, or more rows; "
    "regularization_path(X) has the delta values of each regularization on held-out rows."
)


class RegularizationPath(NamedTuple):
    """Slowness and variances of the outputs for increasing regularization.

    Attributes
    ----------
    regularizations : ndarray (P,)
        ``lambda``, ascending.
    delta_values : ndarray (P, K)
        Mean squared change of each output over the training rows.
    variances : ndarray (P, K)
        Variances of the outputs of ``transform`` on the training rows. In exact arithmetic they are one;
        deviations show numerical instability.
    chosen : float
        The smallest regularization at which all variances are one within the tolerance; NaN if there is none.
        ``regularization="auto"`` selects by the held-out delta values instead.
    held_out_delta_values : ndarray (P, K)
        Delta values on held-out rows; NaN if there are too few rows. Folds are as for the parameter
        `regularization` of :class:`KernelSFA`.
    """

    regularizations: FloatArray
    delta_values: FloatArray
    variances: FloatArray
    chosen: float
    held_out_delta_values: FloatArray


class _Prepared(NamedTuple):
    """The eigenproblem, before the selection of the regularization."""

    sequences: Sequences
    functions: KernelFunctions
    gram: FloatArray
    problem: KernelProblem
    splits: Iterable[HeldOutSplit]


@lists_in_lists_out
class KernelSFA(GraphTransformer, InvertibleTransformer):
    """Sparse, regularized slow feature analysis in the function space of a kernel.

    Parameters
    ----------
    n_components : int, default=2
        Number of outputs.
    kernel : str or callable, default="rbf"
        Any kernel of ``sklearn.metrics.pairwise.pairwise_kernels``. With ``"precomputed"`` X contains kernel
        values: (n, n) in ``fit``, (N, n) in ``transform``.
    gamma, degree, coef0
        Parameters of the kernel; ``gamma=None`` is ``1 / n_features``. The paper's Gaussian of width sigma is
        ``gamma = 1 / (2 sigma^2)``.
    kernel_params : dict, optional
        Parameters of a callable kernel.
    regularization : float or "auto", default="auto"
        ``lambda``, the weight of the squared norm. 0 is kernel SFA without regularization, which overfits if
        a large part of the rows are support vectors and the kernel is narrow. ``"auto"`` selects, among 0 and
        powers of ten times the mean of ``k(z, z)``, the smallest value whose mean delta value on held-out
        rows is within 2 % of the lowest; if no output is slower than noise, the largest value. Folds are
        consecutive rows; on a graph, every fifth row in label order. ``"auto"`` takes two to four times as
        long as a number; its time grows with the cube of the number of support vectors.
    n_support : int, optional
        Number of support vectors, or their maximum number with ``"online_mah"``. By default determined by
        `threshold`; without a threshold all rows are used, at most 500 (with ``"online_mah"`` all).
    selection : {"mp_mah", "online_mah", "mp_kpca", "random"}, default="mp_mah"
        Selection of support vectors:

        - "mp_mah": matching pursuit that adds the row with the largest approximation error; O(n m) memory;
        - "online_mah": one pass over the rows with a threshold of this error; O(m^2) memory;
        - "mp_kpca": matching pursuit that minimizes the sum of errors; O(n^2) memory;
        - "random": rows at random.

        Except for "online_mah", selections are nested.
    threshold : float, optional
        Squared approximation error, in units of the kernel, above which a row is added to the support
        vectors; required by ``"online_mah"`` unless all rows are support vectors.
    random_state : int, RandomState or None, default=None
        Seed of ``selection="random"``.
    support : array-like (m,) of int or (m, D), optional
        Fixed support vectors: indices of training rows, or points. `n_support`, `selection` and `threshold`
        are then not used.
    lag : int, default=1
        Lag of the differences, in rows.
    graph : TrainingGraph, str or callable, optional
        A training graph instead of time: a graph, its builder or its name, as in :class:`GraphSFA`. The
        kernel values between all rows and the support vectors are then stored in memory.
    verbose : bool, default=False
        Show the progress and the estimated time of ``regularization="auto"`` on standard error.
    rank_tol : float, optional
        Kernel functions are scaled to unit variance. Eigenvalues of their covariance are treated as zero if
        they are at most this fraction of the largest. Default :func:`probsfa.linalg.default_rank_tol`.

    Attributes
    ----------
    support_ : ndarray (m,) of int
        Training rows (all sequences in order) that are support vectors, in the order of selection; None if
        `support` contains points.
    support_vectors_ : ndarray (m, D)
        Support vectors; with a precomputed kernel, the (m, m) kernel values between them.
    origin_ : ndarray (D,)
        Offset subtracted from rows and support vectors before the kernel is computed, to reduce rounding
        errors: the mean of the training rows for "rbf", "laplacian" and "linear" kernels, otherwise zeros.
    coefficients_ : ndarray (m, K)
        ``y(x) = (k(x) - kernel_mean_) @ coefficients_``; every column sums to zero.
    kernel_mean_ : ndarray (m,)
        Means of the kernel functions over the training rows.
    delta_values_ : ndarray (K,)
        Mean squared change of each output over the training rows. Outputs are sorted by slowness plus
        penalty.
    held_out_delta_values_ : ndarray (K,) or None
        Delta values on held-out rows, with the selected regularization; None if `regularization` is a number
        or rows are too few.
    timescales_ : ndarray (K,)
        ``-lag / log(1 - delta/2)`` in rows, or in steps of the Markov chain on the graph.
    norms_ : ndarray (K,)
        Squared norm of every output in the space of the kernel.
    regularization_ : float
        The regularization used.
    rank_ : int
        Numerical rank of the centred kernel functions; at most m - 1.
    graph_ : TrainingGraph or None
        The graph of the training rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    SFA : Linear slow feature analysis, optionally of an expansion.
    GraphSFA : Linear slow feature analysis on a training graph.
    probsfa.expansions.FourierFeatures : A finite basis that approximates a Gaussian kernel.

    Notes
    -----
    The time is O(m^2 n) and the memory of the moments O(m^2). The sign of an output makes its largest
    correlation with a kernel function positive.

    Kernels must be symmetric and positive semidefinite, at least on combinations whose coefficients sum to
    zero; this is checked on the support vectors. Kernels other than "rbf", "laplacian" and "linear" depend on
    the mean of the rows: subtract a large mean first, because rounding errors can otherwise exceed the
    variation of the rows.

    ``inverse_transform`` returns approximate pre-images: a kernel ridge regression from outputs to inputs
    with a Gaussian kernel, learned from the first 1,000 support vectors (Bakir, Weston & Schoelkopf 2004,
    NIPS 16). Its width and ridge minimize the leave-one-out error.

    Examples
    --------
    Two fast products depend on a slow angle:

    >>> import numpy as np
    >>> t = np.linspace(0, 4 * np.pi, 400)
    >>> X = np.column_stack([np.sin(t) * np.cos(17 * t), np.sin(t) * np.sin(17 * t)])
    >>> model = KernelSFA(n_components=1, gamma=2.0, n_support=40, regularization=1e-6).fit(X)
    >>> y = model.transform(X)
    >>> len(model.support_), bool(abs(np.corrcoef(y[:, 0], np.sin(t) ** 2)[0, 1]) > 0.98)
    (40, True)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        regularization: float | str = "auto",
        n_support: int | None = None,
        selection: str = "mp_mah",
        threshold: float | None = None,
        random_state: Any = None,
        rank_tol: float | None = None,
        support: Any = None,
        lag: int = 1,
        graph: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.regularization = regularization
        self.n_support = n_support
        self.selection = selection
        self.threshold = threshold
        self.random_state = random_state
        self.rank_tol = rank_tol
        self.support = support
        self.lag = lag
        self.graph = graph
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Select support vectors and fit the slowest functions.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time; a list is several sequences, with no difference from one to the next.
        y : array-like (T,), or list of array-likes (T_i,), optional
            Labels, if `graph` is built from them; ignored otherwise.
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        KernelSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, the kernel is not symmetric and positive semidefinite, X contains
            no difference, or the kernel functions span fewer dimensions than `n_components`.

        Warns
        -----
        UserWarning
            In these cases:

            - Outputs are much faster on held-out rows than in training, or can fit any time series.
            - Held-out rows do not distinguish the selected regularization from a smaller one, whose outputs
              are much slower in training.
            - Rounding errors exceed the variation of kernel functions.
            - Fewer support vectors than `n_support` span all kernel functions.
        """
        # After an error or a keyboard interrupt the estimator is not fitted.
        self.__dict__.pop("coefficients_", None)
        self.__dict__.pop("_pre_image", None)
        started = time.perf_counter()
        prepared = self._prepare(X, y, lengths, hold_out=self.regularization == "auto")
        self._report(prepared, time.perf_counter() - started)
        problem, n_rows = prepared.problem, prepared.sequences.n_rows
        check_rank(problem, self.n_components)
        if self.regularization == "auto":
            selected, held_out = self._select_regularization(prepared)
        else:
            selected, held_out = float(self.regularization), None
        solution = solve(problem, self.n_components, selected)
        rank = problem.basis.shape[1]
        if held_out is not None:
            warn_of_overfitting(solution.delta_values, held_out, n_rows, _REMEDY, stacklevel=2)
        elif selected == 0 and 2 * rank > n_rows:
            warnings.warn(
                f"The kernel functions vary in {rank} directions over {n_rows} rows, so that outputs can "
                "fit nearly any time series. Use regularization='auto' or a number above 0, or fewer "
                "support vectors.",
                stacklevel=2,
            )
        if problem.n_rounded:
            warnings.warn(
                f"Rounding of the kernel values hides {problem.n_rounded} of {problem.n_rounded + rank} "
                "directions in which the kernel functions vary: the kernel is nearly constant over these "
                "rows. Rescale the rows (or set gamma), and subtract their mean.",
                stacklevel=2,
            )
        self.regularization_ = selected
        self.held_out_delta_values_ = held_out
        self.rank_ = rank
        self.kernel_mean_ = problem.mean
        self.delta_values_ = solution.delta_values
        self.timescales_ = timescale(solution.delta_values, lag=self.lag)
        self.norms_ = solution.norms
        if self.support_ is None:
            self.support_vectors_ = prepared.functions.support + self.origin_
        else:
            rows = prepared.sequences.values[self.support_]
            self.support_vectors_ = rows[:, self.support_] if self.kernel == "precomputed" else rows
        self.coefficients_ = solution.coefficients
        return self

    def _inputs(self, outputs: FloatArray) -> FloatArray:
        if self.kernel == "precomputed":
            raise ValueError(
                "inverse_transform requires inputs, which are not known with kernel='precomputed'."
            )
        if not hasattr(self, "_pre_image"):
            points = self.support_vectors_[:_N_PRE_IMAGE_POINTS]
            self._pre_image = PreImage.fit(self._outputs(points), points)
        return self._pre_image(outputs)

    def regularization_path(
        self,
        X: Any,
        y: Any = None,
        *,
        regularizations: ArrayLike | None = None,
        tolerance: float = 0.01,
        lengths: Any = None,
    ) -> RegularizationPath:
        """Compute outputs for increasing regularization, and find the smallest stable one (paper, section 5).

        Centring and whitening are done once; each regularization requires one eigenproblem. The estimator is
        not fitted; only `support_`, `origin_`, `graph_` and `n_features_in_` are set.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time.
        y : array-like (T,), or list of array-likes (T_i,), optional
            Labels, if `graph` is built from them.
        regularizations : array-like, optional
            Values of the regularization. By default 0 and powers of ten from 1e-16 to 10, times the mean of
            ``k(z, z)`` (the unit of squared norms).
        tolerance : float, default=0.01
            Maximum deviation of a variance from one.
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        RegularizationPath
            Delta values on training and held-out rows, and variances, along the path.
        """
        prepared = self._prepare(X, y, lengths, hold_out=True)
        if regularizations is None:
            values = _regularization_grid(prepared.gram, _PATH_DECADES)
        else:
            values = np.sort(np.asarray(regularizations, dtype=np.float64).ravel())
        if len(values) == 0 or not (np.isfinite(values).all() and values[0] >= 0):
            raise ValueError(f"regularizations must be finite and not negative; got {regularizations!r}.")
        if not (isinstance(tolerance, numbers.Real) and float(tolerance) > 0):
            raise ValueError(f"tolerance must be positive; got {tolerance!r}.")
        solutions = [solve(prepared.problem, self.n_components, float(value)) for value in values]
        variances = _variances(prepared.functions, prepared.problem, solutions)
        is_valid = (np.abs(variances - 1) <= tolerance).all(axis=1)
        held_out = self._held_out(prepared, values)
        return RegularizationPath(
            regularizations=values,
            delta_values=np.array([solution.delta_values for solution in solutions]),
            variances=variances,
            chosen=float(values[np.argmax(is_valid)]) if is_valid.any() else float("nan"),
            held_out_delta_values=np.full((len(values), self.n_components), np.nan)
            if held_out is None
            else held_out.delta_values,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether outputs can be computed."""
        return hasattr(self, "coefficients_")

    def __sklearn_tags__(self) -> Any:
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.coefficients_.shape[1])

    def _kernel_params(self) -> dict[str, Any]:
        if callable(self.kernel):
            return self.kernel_params or {}
        params = {"degree": self.degree, "coef0": self.coef0}
        return params if self.gamma is None else {**params, "gamma": self.gamma}

    def _outputs(self, values: FloatArray) -> FloatArray:
        """Return the outputs of validated rows, computed in blocks."""
        outputs = np.empty((len(values), self.coefficients_.shape[1]), dtype=np.float64)
        is_precomputed = self.kernel == "precomputed"
        points = self.support_vectors_ if is_precomputed else self.support_vectors_ - self.origin_
        step = rows_at_a_time(len(points))
        for start in range(0, len(values), step):
            rows = values[start : start + step]
            if is_precomputed:
                block = rows[:, self.support_]
            else:
                block = kernel_block(rows - self.origin_, points, self.kernel, self._kernel_params())
            outputs[start : start + step] = (block - self.kernel_mean_) @ self.coefficients_
        return outputs

    def _prepare(self, X: Any, y: Any, lengths: Any, *, hold_out: bool) -> _Prepared:
        """Validate the input, select the support vectors, and whiten."""
        self._check_parameters()
        is_temporal = is_slow_feature_analysis(self.graph)
        sequences = check_sequences(
            self,
            X,
            reset=True,
            allow_nan=False,
            lengths=lengths,
            min_rows=2,
            index="warn" if is_temporal else "ignore",
        )
        values = sequences.values
        if self.kernel == "precomputed" and sequences.n_rows != sequences.n_features:
            raise ValueError(
                "X must be square with kernel='precomputed': kernel values between all training rows; got "
                f"shape {values.shape}."
            )
        self.origin_ = np.zeros(sequences.n_features, dtype=np.float64)
        if is_translation_invariant(self.kernel):
            first = values[0]
            self.origin_ = first + (values - first).mean(axis=0)
            values = values - self.origin_
        kernel = KernelColumns(values, self.kernel, self._kernel_params())
        functions = KernelFunctions(kernel, self._support(kernel))
        self.support_ = functions.support if functions.are_rows else None
        gram = functions.gram()
        check_positive_semidefinite(gram, self.kernel)
        splits: Iterable[HeldOutSplit] = ()
        if is_temporal:
            self.graph_ = None
            if hold_out:
                folds = split_into_folds(sequences.lengths)
                parts = fold_moments(functions, sequences, folds, lag=self.lag)
                borders = fold_border_differences(functions, sequences, folds, lag=self.lag)
                moments = merge_folds(parts, borders)
                splits = temporal_splits(parts, borders, folds, functions.support)
            else:
                moments = kernel_moments(functions, sequences, lag=self.lag)
            problem = make_problem(moments, gram, self.rank_tol)
        else:
            labels = labels_of_rows(y, sequences.lengths)
            self.graph_ = build_graph(self.graph, sequences.values, labels, lengths=sequences.lengths)
            features = functions(slice(None))
            problem = make_problem(graph_moments(self.graph_, features), gram, self.rank_tol)
            if hold_out:
                splits = graph_splits(
                    self.graph, self.graph_, sequences.values, labels, features, functions.support, _N_FOLDS
                )
        return _Prepared(sequences, functions, gram, problem, splits)

    def _select_regularization(self, prepared: _Prepared) -> tuple[float, FloatArray | None]:
        """Return the regularization selected on held-out rows, and its delta values on held-out rows."""
        values = _regularization_grid(prepared.gram, _HELD_OUT_DECADES)
        path = self._held_out(prepared, values)
        if path is None:
            selected = _DEFAULT_REGULARIZATION * float(np.mean(np.diagonal(prepared.gram)))
            warnings.warn(
                f"The {prepared.sequences.n_rows} rows are too few to select the regularization on held-out "
                f"rows; regularization='auto' uses the default {selected:g}. Use more rows, or set "
                "regularization to a number.",
                stacklevel=3,
            )
            return selected, None
        index = path.choose(prepared.sequences.n_rows)
        self._warn_of_smaller_regularization(prepared.problem, values, path.delta_values.mean(axis=1), index)
        return float(values[index]), path.delta_values[index]

    def _warn_of_smaller_regularization(
        self, problem: KernelProblem, values: FloatArray, held_out: FloatArray, index: int
    ) -> None:
        """Warn if a regularization is equal on held-out rows, and its outputs are much slower in training."""
        alternatives = [
            int(i)
            for i in np.flatnonzero(
                held_out[:index] <= min(_MAX_LOSS_RATIO * held_out[index], _MAX_SLOW_DELTA)
            )
        ]
        training = {
            i: float(solve(problem, self.n_components, float(values[i])).delta_values.mean())
            for i in ([*alternatives, index] if alternatives else [])
        }
        slower = [i for i in alternatives if _MAX_LOSS_RATIO * training[i] <= training[index]]
        if slower:
            best = min(slower, key=lambda i: held_out[i])
            warnings.warn(
                f"regularization='auto' selected {values[index]:.2g}, with a mean delta value of "
                f"{training[index]:.2g} on training rows and {held_out[index]:.2g} on held-out rows. With "
                f"regularization={values[best]:.2g} they are {training[best]:.2g} and {held_out[best]:.2g}: "
                "these rows cannot distinguish the two. Compare the outputs of both, or use rows in which "
                "slow changes recur.",
                stacklevel=4,
            )

    def _report(self, prepared: _Prepared, seconds: float) -> None:
        """Write the time so far, and the estimated time of the selection of the regularization."""
        if not self.verbose:
            return
        n_rows, m = prepared.sequences.n_rows, prepared.functions.n_functions
        lines = [
            f"KernelSFA: {n_rows} rows, {m} support vectors; moments and whitening took {seconds:.1f} s."
        ]
        if self.regularization == "auto":
            lines.append(
                "KernelSFA: selecting the regularization on held-out rows, at most about "
                f"{_RELATIVE_SELECTION_TIME * seconds:.1f} s; "
                "a number as regularization, or a smaller n_support, is faster."
            )
        sys.stderr.write("\n".join([*lines, ""]))

    def _held_out(self, prepared: _Prepared, values: FloatArray) -> HeldOutPath | None:
        return held_out_path(prepared.splits, prepared.gram, self.n_components, values, self.rank_tol)

    def _support(self, kernel: KernelColumns) -> NDArray[Any]:
        """Return the support vectors: indices of rows, or points relative to the origin."""
        if self.support is None:
            return self._select_support(kernel)
        if self.n_support is not None or self.threshold is not None:
            raise ValueError("support sets the support vectors; n_support and threshold must be None.")
        support = np.asarray(self.support)
        if support.ndim == 1 and support.dtype.kind in "iu":
            if len(support) < 2 or support.min() < 0 or support.max() >= kernel.n_rows:
                raise ValueError(
                    f"support must be at least two indices of rows from 0 to {kernel.n_rows - 1}, or points; "
                    f"got {self.support!r:.80}."
                )
            if len(np.unique(support)) < len(support):
                raise ValueError("support contains a row twice.")
            return support.astype(np.intp)
        if self.kernel == "precomputed":
            raise ValueError(
                "support must be indices of rows with kernel='precomputed'; "
                "kernel values of other points are not known."
            )
        points = as_float_array(self.support, "support")
        if points.ndim != 2 or points.shape[1] != len(self.origin_) or len(points) < 2:
            raise ValueError(
                f"support must be indices of rows, or at least two points of {len(self.origin_)} columns; "
                f"got shape {points.shape}."
            )
        if not np.isfinite(points).all():
            raise ValueError("support contains values that are not finite.")
        return points - self.origin_

    def _select_support(self, kernel: KernelColumns) -> IntArray:
        n, m, threshold = kernel.n_rows, self.n_support, self.threshold
        if m is not None and m > n:
            raise ValueError(f"n_support={m} is more than the {n} rows of X.")
        if m is None and threshold is None:
            return self._default_support(kernel)
        if self.selection == "random":
            return random_support(n, n if m is None else m, check_random_state(self.random_state))
        if self.selection == "online_mah":
            support = online_mah(kernel, float(threshold or 0.0), m)
        else:
            pursue = mp_mah if self.selection == "mp_mah" else mp_kpca
            support = pursue(kernel, n if m is None else m, float(threshold or 0.0))
        if len(support) == 0:
            raise ValueError(
                "No support vector was selected, because no row has a positive approximation error above "
                f"threshold={threshold!r}. Before the first selection, the error of a row x is k(x, x). Use "
                "a kernel with positive k(x, x), or a lower threshold."
            )
        if m is not None and len(support) < m and threshold is None:
            warnings.warn(
                f"Only {len(support)} of n_support={m} support vectors were selected: their kernel "
                "functions span those of all rows, up to rounding.",
                stacklevel=4,
            )
        return support

    def _default_support(self, kernel: KernelColumns) -> IntArray:
        """Return all rows, or 500 selected rows if there are more."""
        n = kernel.n_rows
        if n <= _MAX_SUPPORT or self.selection == "online_mah":
            return np.arange(n)
        if self.selection == "random":
            return random_support(n, _MAX_SUPPORT, check_random_state(self.random_state))
        pivots = (mp_mah if self.selection == "mp_mah" else mp_kpca)(kernel, _MAX_SUPPORT, 0.0)
        # The kernel functions of the selected rows span those of all rows, up to rounding. One dimension is
        # lost when their mean is subtracted, so other rows are added.
        other_rows = np.setdiff1d(np.arange(n), pivots)
        additional = np.linspace(0, len(other_rows) - 1, _MAX_SUPPORT - len(pivots)).astype(np.intp)
        return np.concatenate([pivots, other_rows[additional]])

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
        check_count("lag", self.lag)
        if self.graph is not None and self.lag != 1:
            raise ValueError(
                f"lag={self.lag} is not supported on a graph, whose edges define the differences."
            )
        check_kernel(self.kernel)
        check_option("selection", self.selection, _SELECTIONS)
        check_rank_tol(self.rank_tol)
        if self.n_support is not None:
            check_count("n_support", self.n_support, minimum=2)
        for name in ("gamma", "threshold"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, numbers.Real) and 0 < float(value) < np.inf):
                raise ValueError(f"{name} must be a positive number or None; got {value!r}.")
        given = self.regularization
        if given != "auto" and not (isinstance(given, numbers.Real) and 0 <= float(given) < np.inf):
            raise ValueError(f"regularization must be a number of at least 0, or 'auto'; got {given!r}.")
        if self.selection == "random" and self.threshold is not None:
            raise ValueError("threshold is not supported by selection='random'. Use n_support.")
        if self.selection == "online_mah" and self.threshold is None and self.n_support is not None:
            raise ValueError(
                "selection='online_mah' requires a threshold: n_support alone would select the first rows. "
                "Use 'mp_mah' for a fixed number of support vectors."
            )


def _regularization_grid(gram: FloatArray, decades: Iterable[int]) -> FloatArray:
    """Return 0 and powers of ten, times the mean of ``k(z, z)`` (the unit of squared norms)."""
    scale = float(np.mean(np.diagonal(gram)))
    return np.array([0.0, *(scale * 10.0**k for k in decades)], dtype=np.float64)


def _variances(
    functions: KernelFunctions, problem: KernelProblem, solutions: list[KernelSolution]
) -> FloatArray:
    """Return the variances (P, K) of the outputs of each solution, computed from the rows."""
    coefficients = np.hstack([solution.coefficients for solution in solutions])
    sums, squares = np.zeros((2, coefficients.shape[1]), dtype=np.float64)
    step = rows_at_a_time(functions.n_functions)
    for start in range(0, functions.n_rows, step):
        block = functions(slice(start, min(start + step, functions.n_rows)))
        outputs = (block - problem.mean) @ coefficients
        sums += outputs.sum(axis=0)
        squares += np.sum(outputs**2, axis=0)
    variances = squares / functions.n_rows - (sums / functions.n_rows) ** 2
    return variances.reshape(len(solutions), -1)
