"""Nonlinear blind source separation by extended slow feature analysis (xSFA).

Sprekeler, Zito & Wiskott (2014), JMLR 15:921; see Sprekeler (2011), section 5.6. If a series is an invertible
function of statistically independent sources, its slowest function is a monotonic function of the slowest
source. Further slow functions depend on this source and on others. Sources are therefore extracted one after
the other:

1. expand the series, ``z = h(x)``, and whiten;
2. regress ``z`` on an expansion ``n(s_1, ..., s_i)`` of the extracted sources, and subtract the regression;
3. discard directions with little remaining variance;
4. the slowest remaining direction is the next source.
"""

import math
import numbers
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg

from probsfa._frames import lists_in_lists_out
from probsfa._row_transformer import RowTransformer
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.expansions import Polynomial
from probsfa.graphs.moments import MomentStream, block_rows
from probsfa.linalg import RankError, canonical_signs, check_rank_tol, whiten
from probsfa.metrics import timescale
from probsfa.sfa._expand import Expander, check_overfitting, extend_stream

__all__ = ["XSFA"]

_MAX_DEGREE = 7  # as in the paper
_MAX_MONOMIALS = 500
_ROWS_PER_MONOMIAL = 4


class Extraction(NamedTuple):
    """The map from expanded rows and earlier sources to one source.

    Attributes
    ----------
    readout : ndarray (E,)
        Weights of the E centred columns of the expanded rows, ``h(x) - mean``.
    removal : ndarray (M,)
        Weights of the M centred monomials of earlier sources, ``n - source_mean``; this term is subtracted.
    source_mean : ndarray (M,)
        Means of the monomials of earlier sources.
    low, high : float
        Range of the source over the training rows.
    """

    readout: FloatArray
    removal: FloatArray
    source_mean: FloatArray
    low: float = -np.inf
    high: float = np.inf


@lists_in_lists_out
class XSFA(RowTransformer):
    """Nonlinear blind source separation: extract sources successively, slowest first.

    Parameters
    ----------
    n_components : int, default=2
        Number of sources.
    expansion : transformer, optional
        A scikit-learn transformer that maps rows independently and whose span should contain the inverse of
        the mixture. The transformer is cloned and fitted to the standardized rows. The default is
        ``Polynomial`` of the highest degree, at most 7, that has at most 500 monomials and at least four rows
        for each monomial.
    source_degree : int, default=7
        Degree of the polynomials of earlier sources that are removed before the next source is extracted.
    least_variance : float, default=1e-3
        Directions of the whitened expansion are discarded if the removal reduces their variance from 1 to
        this value or less, because the remaining variance is due to errors of the removal.
    lag : int, default=1
        Lag of the differences, in rows.
    rank_tol : float, optional
        Directions of the expansion with less than this fraction of the largest variance are discarded, after
        scaling every column to unit variance. Default as in :class:`SFA`.

    Attributes
    ----------
    delta_values_ : ndarray (K,)
        Mean squared change of each source over the training rows, in the order of extraction.
    timescales_ : ndarray (K,)
        ``-lag / log(1 - delta/2)`` in rows.
    n_directions_ : ndarray (K,) of int
        Number of directions of the expansion from which each source was extracted.
    rank_ : int
        Rank of the expanded rows.
    mean_, scale_ : ndarray (D,)
        Means and standard deviations of the columns; the scale of a constant column is 1.
    expansion_ : transformer
        The fitted expansion.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    SFA : All outputs at once; they are mixtures of functions of the slowest sources.

    Notes
    -----
    A source is identified up to an invertible function: the slowest such function is returned. The time
    scales of the sources should differ, but not too much: powers of the slowest source above `source_degree`
    are not removed, and should be faster than the next source. The sign makes the largest correlation with a
    column positive.

    Sources of new rows are clipped to their range over the training rows, because polynomials are unbounded
    outside of it.

    Examples
    --------
    Two sources mixed to a spiral (Harmeling et al. 2003):

    >>> import numpy as np
    >>> t = np.arange(4000)
    >>> s = np.column_stack([np.sin(0.011 * t), np.sin(0.0261803 * t + 1)])
    >>> radius, angle = s[:, 1] + 3 * s[:, 0] + 6, np.pi * s[:, 0]
    >>> X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    >>> found = XSFA(2).fit_transform(X)
    >>> correlations = np.abs(np.corrcoef(s.T, found.T)[:2, 2:])
    >>> bool((np.diag(correlations) > 0.95).all())
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        expansion: Any = None,
        source_degree: int = 7,
        least_variance: float = 1e-3,
        lag: int = 1,
        rank_tol: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.expansion = expansion
        self.source_degree = source_degree
        self.least_variance = least_variance
        self.lag = lag
        self.rank_tol = rank_tol

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Fit the sources.

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
        XSFA
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, if X has missing values, if no sequence has two rows, or if no
            variance remains before all sources are extracted.

        Warns
        -----
        UserWarning
            If the rank of the expanded rows is as large as their number, so that any source can be fitted.
            Also if the first source is not slow on held-out rows. This is tested only if there are fewer rows
            than 20 times the rank of the expanded rows.
        """
        self.__dict__.pop("extractions_", None)  # after an error the estimator is not fitted
        self._check_parameters()
        sequences = check_sequences(
            self, X, reset=True, allow_nan=False, lengths=lengths, min_rows=2, index="warn"
        )
        values = sequences.values
        first = values[0]
        self.mean_ = first + (values - first).mean(axis=0)
        std = (values - self.mean_).std(axis=0)
        self.scale_ = np.where(std > 0, std, 1.0)
        scaled = (values - self.mean_) / self.scale_
        default = Polynomial(_default_degree(scaled.shape[1], len(scaled)))
        expander = Expander.fit(default if self.expansion is None else self.expansion, scaled)
        moments = self._moments(scaled, sequences, expander)
        white = whiten(moments.covariance, rank_tol=self.rank_tol, variance_floor=moments.variance_floor)
        if white.rank == 0:
            raise RankError("Every column of X is constant: the rank is 0. Remove constant columns.")
        if white.rank >= len(scaled) - 1:
            warnings.warn(
                f"The {len(scaled)} rows have rank {white.rank} after the expansion, so that outputs can "
                "fit any time series. Use a smaller expansion or more rows.",
                stacklevel=2,
            )
        self.expansion_ = expander.transformer
        self.expansion_mean_ = moments.mean
        self.rank_ = white.rank
        extractions: list[Extraction] = []
        deltas, directions = [], []
        sources = np.zeros((len(scaled), 0), dtype=np.float64)
        for _ in range(self.n_components):
            extraction, delta, n_directions = self._extract(
                scaled, sources, sequences, expander, white.matrix
            )
            source = self._source(scaled, sources, extraction)
            loadings = scaled.T @ source / len(source)
            sign = canonical_signs(loadings[:, None], np.where(std > 0, 1.0, 0.0))[0]
            source *= sign
            extraction = extraction._replace(
                readout=sign * extraction.readout,
                removal=sign * extraction.removal,
                low=float(source.min()),
                high=float(source.max()),
            )
            sources = np.column_stack([sources, source])
            extractions.append(extraction)
            deltas.append(delta)
            directions.append(n_directions)
        self.delta_values_ = np.array(deltas)
        self.timescales_ = timescale(self.delta_values_, lag=self.lag)
        self.n_directions_ = np.array(directions)
        check_overfitting(
            Sequences(scaled, sequences.lengths),
            expander,
            self.delta_values_[:1],
            self.rank_,
            lag=self.lag,
            rank_tol=self.rank_tol,
            remedy="Use a smaller expansion, such as Polynomial(2), or more rows.",
            stacklevel=2,
        )
        self.extractions_ = extractions
        return self

    def _outputs(self, values: FloatArray) -> FloatArray:
        scaled = (values - self.mean_) / self.scale_
        sources = np.zeros((len(scaled), 0), dtype=np.float64)
        for extraction in self.extractions_:
            sources = np.column_stack([sources, self._source(scaled, sources, extraction)])
        return sources

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "extractions_")

    @property
    def _n_features_out(self) -> int:
        return len(self.extractions_)

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
        check_count("source_degree", self.source_degree)
        check_count("lag", self.lag)
        check_rank_tol(self.rank_tol)
        least_variance = self.least_variance
        is_number = isinstance(least_variance, numbers.Real) and not isinstance(least_variance, bool)
        if not (is_number and 0 <= float(least_variance) < 1):
            raise ValueError(
                f"least_variance must be a number from 0 to less than 1; got {least_variance!r}."
            )

    def _moments(self, scaled: FloatArray, sequences: Sequences, expander: Expander) -> Any:
        """Return the moments of the expanded rows."""
        stream = MomentStream.start(expander.n_features_out, self.lag)
        return extend_stream(stream, Sequences(scaled, sequences.lengths), expander).moments

    def _extract(
        self,
        scaled: FloatArray,
        sources: FloatArray,
        sequences: Sequences,
        expander: Expander,
        W: FloatArray,
    ) -> tuple[Extraction, float, int]:
        """Return the next source, its delta value and the number of remaining directions.

        The residual of the regression of ``z``, the whitened expansion of the rows, on ``n``, the expansion
        of the sources, is ``r = z - G' n``. Moments of r follow from the joint moments of z and n.
        """
        rank = W.shape[1]
        n_powers = self._powers(sources[:1]).shape[1]
        combined = _ExpansionWithSources(expander, W, self.expansion_mean_, scaled.shape[1], self)
        rows_and_sources = np.hstack([scaled, sources])
        moments = self._moments(rows_and_sources, sequences, Expander(combined, rank + n_powers))
        B, A = moments.covariance, moments.difference_moment
        G = np.zeros((n_powers, rank), dtype=np.float64)
        if n_powers:
            floor = moments.variance_floor[rank:]
            V = whiten(B[rank:, rank:], rank_tol=self.rank_tol, variance_floor=floor).matrix
            G = V @ (V.T @ B[rank:, :rank])
        complement = np.vstack([np.eye(rank), -G])
        variances, U = scipy.linalg.eigh(complement.T @ B @ complement)
        retained = variances > max(self.least_variance, rank * np.finfo(np.float64).eps)
        if not retained.any():
            raise ValueError(
                f"n_components={self.n_components} sources cannot be extracted: no variance remains in the "
                f"{rank} directions of the expansion after polynomials of {sources.shape[1]} sources are "
                f"removed. Use a larger expansion, a lower source_degree, or fewer sources."
            )
        white = complement @ (U[:, retained] / np.sqrt(variances[retained]))
        inner = white.T @ A @ white
        delta, rotation = scipy.linalg.eigh((inner + inner.T) / 2, subset_by_index=(0, 0))
        weights = white @ rotation[:, 0]
        extraction = Extraction(W @ weights[:rank], -weights[rank:], moments.mean[rank:])
        return extraction, max(float(delta[0]), 0.0), int(retained.sum())

    def _powers(self, sources: FloatArray) -> FloatArray:
        """Return the monomials of the sources; an array without columns if there is no source."""
        if sources.shape[1] == 0:
            return np.zeros((len(sources), 0), dtype=np.float64)
        return Polynomial(self.source_degree).expand(sources)

    def _source(self, scaled: FloatArray, sources: FloatArray, extraction: Extraction) -> FloatArray:
        """Return one source from scaled rows and earlier sources, computed in blocks of rows."""
        expander = Expander(self.expansion_, len(self.expansion_mean_))
        source = np.empty(len(scaled), dtype=np.float64)
        size = block_rows(len(self.expansion_mean_))
        for start in range(0, len(scaled), size):
            rows = slice(start, start + size)
            source[rows] = (expander(scaled[rows]) - self.expansion_mean_) @ extraction.readout
            source[rows] -= (self._powers(sources[rows]) - extraction.source_mean) @ extraction.removal
        return np.clip(source, extraction.low, extraction.high, out=source)


class _ExpansionWithSources:
    """Whitened expansion of rows, concatenated with monomials of sources."""

    def __init__(
        self, expander: Expander, W: FloatArray, mean: FloatArray, n_features: int, xsfa: XSFA
    ) -> None:
        self.expander, self.W, self.mean, self.n_features, self.xsfa = expander, W, mean, n_features, xsfa

    def transform(self, joined: FloatArray) -> FloatArray:
        """Return the concatenated expansions of rows."""
        white = (self.expander(joined[:, : self.n_features]) - self.mean) @ self.W
        return np.hstack([white, self.xsfa._powers(joined[:, self.n_features :])])


def _default_degree(n_features: int, n_rows: int) -> int:
    """Return the highest degree of polynomials within the bounds, at least 1."""
    maximum = min(_MAX_MONOMIALS, n_rows // _ROWS_PER_MONOMIAL)
    degree = 1
    while degree < _MAX_DEGREE and math.comb(n_features + degree + 1, degree + 1) - 1 <= maximum:
        degree += 1
    return degree
