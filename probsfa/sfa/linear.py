"""Slow feature analysis, linear or with an expansion, as a scikit-learn estimator.

The outputs are ``y = W (h(x) - mean)``, where ``h`` is the identity or an expansion. Each output ``y_j`` in
turn minimizes ``<(y_j(t+lag) - y_j(t))^2>``. Over the training rows, outputs have zero mean and unit variance
and are uncorrelated (Wiskott & Sejnowski 2002, Neural Computation 14:715, doi:10.1162/089976602317318938).
"""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from probsfa._arrays import ADVICE_ON_MISSING
from probsfa._frames import lists_in_lists_out
from probsfa._row_transformer import InvertibleTransformer
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.graphs.moments import MomentStream
from probsfa.linalg import RankError, check_rank_tol
from probsfa.sfa._expand import (
    Expander,
    check_overfitting,
    extend_stream,
    set_linear_attributes,
    transform_rows,
)

__all__ = ["SFA", "check_parameters", "set_fitted"]


@lists_in_lists_out
class SFA(InvertibleTransformer):
    """Slow feature analysis: the slowest decorrelated outputs of a time series.

    Parameters
    ----------
    n_components : int, optional
        Number of outputs, slowest first; by default the rank of the data.
    lag : int, default=1
        Lag of the differences, in rows.
    expansion : transformer, optional
        A scikit-learn transformer that maps rows independently, such as ``PolynomialFeatures(2,
        include_bias=False)``. The transformer is cloned and fitted to the complete training rows, and SFA is
        applied to its output. If the mean of a column is much larger than its standard deviation, polynomials
        are computed from standardized columns: they span the same functions with smaller rounding errors.
    missing : {"raise", "skip"}, default="raise"
        Treatment of missing values (NaN). ``"skip"`` omits incomplete rows, and uses only differences of two
        complete rows `lag` apart; ``transform`` returns rows of NaN for incomplete rows. If a time step has
        no row in the table, insert a row of NaN.
    rank_tol : float, optional
        Directions with less than this fraction of the largest variance are discarded, after scaling every
        column to unit variance. Default :func:`probsfa.linalg.default_rank_tol`, usually 1e-12.

    Attributes
    ----------
    delta_values_ : ndarray (K,)
        Mean squared change of each output over the training rows, ascending: 0 is constant, 2 is white noise.
    timescales_ : ndarray (K,)
        ``-lag / log(1 - delta/2)`` in rows; NaN if delta is 2 or more, because the autocorrelation is then
        not positive.
    components_ : ndarray (K, D)
        Directions; ``(x - mean_) @ components_.T`` are the outputs.
    loadings_ : ndarray (D, K)
        Covariances of inputs and unit-variance outputs. Divided by the standard deviations of the inputs,
        they are correlations.
    mean_ : ndarray (D,)
        Mean of the (expanded) training rows.
    rank_ : int
        Numerical rank of the (expanded) training rows.
    moments_ : probsfa.graphs.Moments
        The second moments from which all other attributes are computed.
    expansion_ : transformer or None
        The fitted expansion.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : Slowness along the edges of a training graph.
    KernelSFA : Slow functions of a kernel, regularized.
    HierarchicalSFA : Layers of nodes over receptive fields.
    probsfa.ProbabilisticSFA : The model with noise and missing values; SFA is its zero-noise limit.

    Notes
    -----
    The covariance is divided by T and the moment of differences by their number; differences are not centred,
    so that a drift counts as change. The sign makes the largest correlation of an output with an input
    positive. Constant or duplicated columns, and fewer rows than columns, reduce the rank. Results do not
    depend on units.

    Examples
    --------
    Two mixtures of a slow and a fast sine:

    >>> import numpy as np
    >>> t = np.linspace(0, 2 * np.pi, 500)
    >>> sources = np.column_stack([np.sin(2 * t), np.sin(31 * t)])
    >>> X = sources @ [[1.0, 0.5], [-0.7, 1.0]]
    >>> sfa = SFA(n_components=1).fit(X)
    >>> y = sfa.transform(X)
    >>> y.shape, bool(abs(np.corrcoef(y[:, 0], sources[:, 0])[0, 1]) > 0.9999)
    ((500, 1), True)
    """

    _finite_outputs = "allow-nan"
    # Expansion and moments of all rows so far; None before the first complete row.
    _batches: tuple[Expander, MomentStream] | None

    _advice_on_missing: ClassVar[str] = (
        f'SFA(missing="raise") does not support missing values. {ADVICE_ON_MISSING}'
    )

    def __init__(
        self,
        n_components: int | None = None,
        *,
        lag: int = 1,
        expansion: Any = None,
        missing: str = "raise",
        rank_tol: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.lag = lag
        self.expansion = expansion
        self.missing = missing
        self.rank_tol = rank_tol

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Fit the slowest directions.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time. A list contains several sequences; differences between rows are taken
            within each sequence.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        SFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing values and ``missing="raise"``, has no two rows `lag` apart in a sequence, has no
            variance, or has a lower rank than `n_components`.

        Warns
        -----
        UserWarning
            If there are so few rows that outputs can fit any time series. With an expansion, also if outputs
            are not slow on held-out rows. This is tested only if there are fewer rows than 20 times the rank
            of the expanded rows.
        """
        check_parameters(self)
        sequences = self._check(X, reset=True, lengths=lengths, min_rows=2, index="warn")
        expander = Expander.fit(self.expansion, sequences.values)
        stream = MomentStream.start(expander.n_features_out, self.lag)
        stream = extend_stream(stream, sequences, expander, skip_incomplete=self.missing == "skip")
        set_fitted(self, stream, expander, sequences.lengths)
        if not expander.is_identity:
            check_overfitting(
                sequences,
                expander,
                self.delta_values_[: self.n_components or 1],
                self.rank_,
                lag=self.lag,
                rank_tol=self.rank_tol,
                skip_incomplete=self.missing == "skip",
                remedy="Use a smaller expansion, fewer components, or more rows.",
                stacklevel=2,
            )
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, lengths: Any = None, new_sequence: bool | None = None
    ) -> Self:
        """Update the fit with the next rows.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            The next rows, any number of them.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        new_sequence : bool, optional
            Whether the first row begins a new sequence or continues the last one. By default a single array
            continues the last sequence; a list, or an array with `lengths`, begins a new one.

        Returns
        -------
        SFA
            The estimator, fitted to all rows so far. It is not fitted while the rows have no difference or a
            rank below `n_components`; ``transform`` then raises an error with the reason.

        Notes
        -----
        The result equals ``fit`` on all rows, up to rounding. An expansion is fitted to the first batch with
        complete rows and then fixed.
        """
        check_parameters(self)
        first = not hasattr(self, "_batches")
        sequences = self._check(
            X, reset=first, lengths=lengths, min_rows=1, require_observed=False, index="warn"
        )
        if new_sequence is None:
            new_sequence = sequences.is_list or lengths is not None
        if first:
            self._batches = None
        if self._batches is None:
            if np.isnan(sequences.values).any(axis=1).all():
                return self._unset_fitted("X has had no complete row so far")
            expander = Expander.fit(self.expansion, sequences.values)
            stream = MomentStream.start(expander.n_features_out, self.lag)
        else:
            expander, stream = self._batches
        if stream.moments.lag != self.lag:
            raise ValueError(
                f"lag={self.lag} differs from lag={stream.moments.lag} of the earlier calls of partial_fit. "
                "Restore lag, or use a new estimator."
            )
        skip = self.missing == "skip"
        stream = extend_stream(stream, sequences, expander, new_sequence=new_sequence, skip_incomplete=skip)
        self._batches = expander, stream
        if stream.moments.n_differences == 0:
            return self._unset_fitted(f"X has had no two complete rows {self.lag} apart so far")
        try:
            set_linear_attributes(self, stream.moments, expander, lag=self.lag)
        except RankError as error:
            return self._unset_fitted(str(error))
        return self

    def _outputs(self, values: FloatArray) -> FloatArray:
        return transform_rows(values, self._expander, self.mean_, self.components_)

    def _inputs(self, outputs: FloatArray) -> FloatArray:
        return self._expander.inverse(self.mean_ + outputs @ self.loadings_.T)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "skip"
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check(self, X: Any, **options: Any) -> Sequences:
        return check_sequences(self, X, allow_nan=self.missing == "skip", **options)

    @property
    def _expander(self) -> Expander:
        assert self._batches is not None  # the estimator is fitted
        return self._batches[0]

    def _check_fitted(self) -> None:
        if hasattr(self, "components_") and self._batches is not None:
            return
        reason = getattr(self, "_pending", "call fit or partial_fit first")
        raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: {reason.rstrip('.')}.")

    def _unset_fitted(self, reason: str) -> Self:
        """Delete the fitted attributes, because the rows so far do not determine the outputs."""
        self._pending = reason
        if hasattr(self, "components_"):
            del self.components_
        return self


def check_parameters(sfa: SFA) -> None:
    """Raise a ValueError if a parameter of an SFA is invalid."""
    if sfa.n_components is not None:
        check_count("n_components", sfa.n_components)
    check_count("lag", sfa.lag)
    check_option("missing", sfa.missing, ("raise", "skip"))
    check_rank_tol(sfa.rank_tol)


def set_fitted(sfa: SFA, stream: MomentStream, expander: Expander, lengths: Sequence[int]) -> None:
    """Set the fitted attributes of an SFA from moments.

    Parameters
    ----------
    sfa : SFA
        The estimator to set.
    stream : MomentStream
        Moments of all expanded training rows, and the last rows for ``partial_fit``.
    expander : Expander
        The fitted expansion, or the identity.
    lengths : sequence of int
        Training rows of every sequence.

    Raises
    ------
    ValueError
        If the rows have no difference or no variance, or a lower rank than `n_components`.
    """
    set_linear_attributes(sfa, stream.moments, expander, lag=sfa.lag)
    sfa._batches = expander, stream
    _warn_of_rows(lengths, sfa.lag, sfa.rank_, stream.moments.n_rows)


def _warn_of_rows(lengths: Sequence[int], lag: int, rank: int, n_rows: int) -> None:
    """Warn of short sequences, and of too few rows for the columns."""
    n_short = sum(n <= lag for n in lengths)
    if n_short:
        warnings.warn(
            f"{n_short} of {len(lengths)} sequences have at most lag={lag} rows: they contribute to the "
            f"covariance only, not to the differences.",
            stacklevel=4,
        )
    if rank >= n_rows - 1:
        warnings.warn(
            f"The {n_rows} rows have rank {rank}, so that outputs can fit any time series. Use fewer "
            "columns (or a smaller expansion) or more rows.",
            stacklevel=4,
        )
