"""Regularised sparse kernel slow feature analysis (RSK-SFA).

Boehmer, Gruenewaelder, Nickisch & Obermayer (2011, ECML PKDD, doi:10.1007/978-3-642-23780-5_25). Outputs are
``y(x) = A' (g(x) - <g>)`` with ``g(x) = [k(z_1, x), ..., k(z_m, x)]`` for support vectors ``z``. With the
kernel functions centred over the rows and on each other (eqs. 9-10) they minimise (eq. 8)::

    (1/(n-1)) tr A' K D D' K' A + lambda tr A' Kbar A     under     (1/n) A' K K' A = 1

``D`` takes differences in time, ``Kbar_ij = k(z_i, z_j)``, and the second term is ``lambda`` times the
squared norms of the outputs in the space of the kernel. Several sequences give no differences across
their borders, and ``n - 1`` becomes the number of differences.
"""

import numbers
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.linalg import check_rank_tol
from probsfa.metrics import timescale
from probsfa.sfa.kernel_columns import KernelColumns, check_kernel, kernel_block, rows_at_a_time
from probsfa.sfa.kernel_moments import kernel_moments
from probsfa.sfa.kernel_problem import KernelProblem, KernelSolution, pose, solve
from probsfa.sfa.support import mp_kpca, mp_mah, online_mah, random_support

__all__ = ["KernelSFA", "RegularizationPath"]

IntArray = NDArray[np.intp]

_SELECTIONS = ("mp_mah", "online_mah", "mp_kpca", "random")
_PATH_DECADES = range(-16, 2)


class RegularizationPath(NamedTuple):
    """What a rising regularisation does to the outputs.

    Attributes
    ----------
    regularizations : ndarray (P,)
        ``lambda``, ascending.
    delta_values : ndarray (P, K)
        Mean squared change over the training rows.
    variances : ndarray (P, K)
        Variances of the outputs as they come out of ``transform`` on the training rows. In exact arithmetic
        they are one; a departure is numerical instability.
    chosen : float
        The smallest regularisation at which all variances are one within the tolerance, NaN if there is
        none.
    """

    regularizations: FloatArray
    delta_values: FloatArray
    variances: FloatArray
    chosen: float


@lists_in_lists_out
class KernelSFA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Slow feature analysis in the function space of a kernel, sparse and regularised.

    Parameters
    ----------
    n_components : int, default=2
        How many outputs.
    kernel : str or callable, default="rbf"
        Any kernel of ``sklearn.metrics.pairwise.pairwise_kernels``. With ``"precomputed"`` X holds kernel
        values: (n, n) in ``fit``, (N, n) in ``transform``.
    gamma, degree, coef0
        Parameters of the kernel, those it knows; ``gamma=None`` is ``1 / n_features``. The paper's Gaussian
        of width sigma is ``gamma = 1 / (2 sigma^2)``.
    kernel_params : dict, optional
        Parameters of a callable kernel.
    regularization : float or "auto", default=0.0
        ``lambda``, the weight of the squared norm. 0 is kernel SFA without regularisation, which over-fits
        where the support is a large part of the rows and the kernel narrow. ``"auto"`` takes the smallest at
        which the outputs have unit variance (see :meth:`regularization_path`); with the default `rank_tol`
        that is nearly always 0, because directions lost in rounding are left out already.
    n_support : int, optional
        Number of support vectors; a limit for ``"online_mah"``. By default all rows, or as many as
        `threshold` asks for.
    selection : {"mp_mah", "online_mah", "mp_kpca", "random"}, default="mp_mah"
        How support vectors are chosen: matching pursuit for the largest approximation error (nested, O(n m)
        memory), one pass over the rows with a threshold (O(m^2) memory), matching pursuit for the sum of
        errors (nested, O(n^2) memory), or at random (nested for one `random_state`).
    threshold : float, optional
        Squared approximation error, in units of the kernel, above which a row is (still) added to the
        support; ``"online_mah"`` needs it unless all rows are the support.
    random_state : int, RandomState or None, default=None
        For ``selection="random"``.
    rank_tol : float, optional
        Eigenvalues of the covariance of the kernel functions up to this fraction of the largest count as
        zero, after every function is scaled to unit variance. Default
        :func:`probsfa.linalg.default_rank_tol`.

    Attributes
    ----------
    support_ : ndarray (m,) of int
        Rows of the training data (all sequences in order) that are support vectors, in the order of
        selection.
    support_vectors_ : ndarray (m, D)
        These rows; (m, m) kernel values between them if the kernel is precomputed.
    coefficients_ : ndarray (m, K)
        ``y(x) = (k(x) - kernel_mean_) @ coefficients_``; every column sums to zero.
    kernel_mean_ : ndarray (m,)
        Means of the kernel functions over the training rows.
    delta_values_ : ndarray (K,)
        Mean squared change of each output over the training rows. The outputs are in the order of slowness
        plus penalty, which is that of slowness where ``regularization`` is 0.
    timescales_ : ndarray (K,)
        ``-1 / log(1 - delta/2)`` in rows.
    norms_ : ndarray (K,)
        Squared norm of every output in the space of the kernel.
    regularization_ : float
        The regularisation that was used.
    rank_ : int
        Dimensions in which the kernel functions vary; at most m - 1, because centring the functions on each
        other takes one.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    SFA : Linear, or on an expansion that is given.
    probsfa.expansions.FourierFeatures : A finite basis that approaches a Gaussian kernel.

    Notes
    -----
    O(m^2 n) time; the moments take O(m^2) memory however long the series are. The sign of an output makes its
    largest correlation with a kernel function of the support positive.

    Examples
    --------
    A slow angle is hidden in two fast products:

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
        regularization: float | str = 0.0,
        n_support: int | None = None,
        selection: str = "mp_mah",
        threshold: float | None = None,
        random_state: Any = None,
        rank_tol: float | None = None,
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

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Choose support vectors and find the slowest functions on them.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time; a list is several sequences, with no difference from one to the next.
        y : ignored
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.

        Returns
        -------
        KernelSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, X holds no difference, or the kernel functions span fewer
            dimensions than `n_components`.
        """
        # Whatever ends this early, an interrupt among it, leaves an estimator that is not fitted.
        self.__dict__.pop("coefficients_", None)
        sequences, kernel, problem = self._pose(X, lengths)
        chosen = self.regularization
        if chosen == "auto":
            path = self._path(kernel, problem, self._default_path(kernel), tolerance=0.01)
            chosen = path.chosen
            if np.isnan(chosen):
                chosen = path.regularizations[np.argmin(np.abs(path.variances - 1).max(axis=1))]
                warnings.warn(
                    f"No regularization keeps the variance of all outputs within 1 % of one; {chosen:g} "
                    "comes closest. Use fewer support vectors or another kernel.",
                    stacklevel=2,
                )
        solution = solve(problem, self.n_components, float(chosen))
        self.regularization_ = float(chosen)
        self.rank_ = problem.basis.shape[1]
        self.kernel_mean_ = problem.mean
        self.delta_values_ = solution.delta_values
        self.timescales_ = timescale(solution.delta_values)
        self.norms_ = solution.norms
        rows = sequences.values[self.support_]
        self.support_vectors_ = rows[:, self.support_] if self.kernel == "precomputed" else rows
        self.coefficients_ = solution.coefficients
        return self

    def transform(self, X: Any) -> Any:
        """Return the slow outputs.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows; each is mapped by itself. Kernel values with all training rows if the kernel is precomputed.

        Returns
        -------
        ndarray (T, K), or list of ndarrays (T_i, K)
            Outputs.
        """
        check_is_fitted(self)
        sequences = check_sequences(self, X, reset=False, allow_nan=False)
        outputs = np.empty((sequences.n_rows, self.coefficients_.shape[1]), dtype=np.float64)
        step = rows_at_a_time(len(self.support_))
        for start in range(0, sequences.n_rows, step):
            rows = sequences.values[start : start + step]
            if self.kernel == "precomputed":
                block = rows[:, self.support_]
            else:
                block = kernel_block(rows, self.support_vectors_, self.kernel, self._kernel_params())
            outputs[start : start + step] = (block - self.kernel_mean_) @ self.coefficients_
        return sequences.restore(outputs)

    def regularization_path(
        self,
        X: Any,
        y: Any = None,
        *,
        regularizations: ArrayLike | None = None,
        tolerance: float = 0.01,
        lengths: Any = None,
    ) -> RegularizationPath:
        """Raise the regularisation until the unit-variance constraint holds (the paper's section 5).

        Centring and whitening are done once; every regularisation costs one eigenproblem. The estimator
        itself is not fitted, except for its support.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time.
        y : ignored
        regularizations : array-like, optional
            Values to try. Default 0 and powers of ten from 1e-16 to 10 times the mean of ``k(z, z)``, the
            unit in which a squared norm is measured.
        tolerance : float, default=0.01
            How far from one a variance may be.
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.

        Returns
        -------
        RegularizationPath
            Delta values and variances along the path, and the regularisation to use.
        """
        _, kernel, problem = self._pose(X, lengths)
        if regularizations is None:
            values = self._default_path(kernel)
        else:
            values = np.sort(np.asarray(regularizations, dtype=np.float64).ravel())
        if len(values) == 0 or not (np.isfinite(values).all() and values[0] >= 0):
            raise ValueError(f"regularizations must be finite and not negative; got {regularizations!r}.")
        if not (isinstance(tolerance, numbers.Real) and float(tolerance) > 0):
            raise ValueError(f"tolerance must be positive; got {tolerance!r}.")
        return self._path(kernel, problem, values, float(tolerance))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether outputs can be computed."""
        return hasattr(self, "coefficients_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
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

    def _pose(self, X: Any, lengths: Any) -> tuple[Sequences, KernelColumns, KernelProblem]:
        """Check everything, choose the support, and whiten."""
        self._check_parameters()
        sequences = check_sequences(
            self, X, reset=True, allow_nan=False, lengths=lengths, min_rows=2, index="warn"
        )
        if self.kernel == "precomputed" and sequences.n_rows != sequences.n_features:
            raise ValueError(
                "X must be square with kernel='precomputed': kernel values between all training rows; got "
                f"shape {sequences.values.shape}."
            )
        kernel = KernelColumns(sequences.values, self.kernel, self._kernel_params())
        self.support_ = self._select(kernel)
        moments = kernel_moments(kernel, self.support_, sequences)
        gram = kernel.block(self.support_, self.support_)
        return sequences, kernel, pose(moments, gram, self.rank_tol)

    def _select(self, kernel: KernelColumns) -> IntArray:
        n, m, threshold = kernel.n_rows, self.n_support, self.threshold
        if m is not None and m > n:
            raise ValueError(f"n_support={m} is more than the {n} rows of X.")
        if m is None and threshold is None:
            return np.arange(n)
        if self.selection == "random":
            return random_support(n, n if m is None else m, check_random_state(self.random_state))
        if self.selection == "online_mah":
            support = online_mah(kernel, float(threshold or 0.0), m)
        else:
            pursue = mp_mah if self.selection == "mp_mah" else mp_kpca
            support = pursue(kernel, n if m is None else m, float(threshold or 0.0))
        if len(support) == 0:
            raise ValueError(
                f"No row has an approximation error above threshold={threshold!r} and zero, so no support "
                "vector was chosen: errors begin at the kernel's diagonal, which must be positive."
            )
        if m is not None and len(support) < m and threshold is None:
            warnings.warn(
                f"Only {len(support)} of n_support={m} support vectors were chosen: their kernel functions "
                "already span those of all rows, up to rounding.",
                stacklevel=4,
            )
        return support

    def _default_path(self, kernel: KernelColumns) -> FloatArray:
        rows = KernelColumns(kernel.values[self.support_], self.kernel, self._kernel_params())
        if self.kernel == "precomputed":
            scale = float(np.mean(kernel.diagonal()[self.support_]))
        else:
            scale = float(np.mean(rows.diagonal()))
        return np.array([0.0, *(scale * 10.0**k for k in _PATH_DECADES)], dtype=np.float64)

    def _path(
        self, kernel: KernelColumns, problem: KernelProblem, values: FloatArray, tolerance: float
    ) -> RegularizationPath:
        solutions = [solve(problem, self.n_components, float(value)) for value in values]
        variances = self._variances(kernel, problem, solutions)
        holds = (np.abs(variances - 1) <= tolerance).all(axis=1)
        return RegularizationPath(
            regularizations=values,
            delta_values=np.array([solution.delta_values for solution in solutions]),
            variances=variances,
            chosen=float(values[np.argmax(holds)]) if holds.any() else float("nan"),
        )

    def _variances(
        self, kernel: KernelColumns, problem: KernelProblem, solutions: list[KernelSolution]
    ) -> FloatArray:
        """Return the variances of the outputs of all solutions, measured row by row, (P, K)."""
        coefficients = np.hstack([solution.coefficients for solution in solutions])
        total, squares = np.zeros((2, coefficients.shape[1]), dtype=np.float64)
        step = rows_at_a_time(len(self.support_))
        for start in range(0, kernel.n_rows, step):
            block = kernel.block(slice(start, min(start + step, kernel.n_rows)), self.support_)
            outputs = (block - problem.mean) @ coefficients
            total += outputs.sum(axis=0)
            squares += np.sum(outputs**2, axis=0)
        variances = squares / kernel.n_rows - (total / kernel.n_rows) ** 2
        return variances.reshape(len(solutions), -1)

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
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
            raise ValueError(
                "threshold means nothing to selection='random'; leave it out and give n_support."
            )
        if self.selection == "online_mah" and self.threshold is None and self.n_support is not None:
            raise ValueError(
                "selection='online_mah' needs a threshold: n_support alone would take the first rows. Use "
                "'mp_mah' for a support of a given size."
            )
