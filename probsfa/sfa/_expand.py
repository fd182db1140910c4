"""What an expansion needs around it: incomplete rows, sparse results, a check of what comes back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.graphs.moments import MomentStream, block_rows

__all__ = ["Expander", "extend_stream"]

_LEAST_SHARE = 1e-8  # leaves eight digits


@dataclass(frozen=True, eq=False)
class Expander:
    """A fitted expansion, or none, applied to rows of which some may be incomplete.

    Attributes
    ----------
    transformer : fitted transformer or None
        None is the identity.
    n_features_out : int
        Columns after the expansion.
    """

    transformer: Any
    n_features_out: int

    @classmethod
    def fit(cls, expansion: Any, values: FloatArray) -> "Expander":
        """Clone the expansion and fit it to the complete rows of `values` (N, D).

        Raises
        ------
        ValueError
            If the expansion is no transformer, or no row is complete.
        """
        if expansion is None:
            return cls(None, values.shape[1])
        if isinstance(expansion, type) or not (hasattr(expansion, "fit") and hasattr(expansion, "transform")):
            raise ValueError(
                "expansion must be None or a transformer with fit and transform, such as "
                f"probsfa.expansions.Polynomial(2); got {expansion!r:.80}."
            )
        complete = ~np.isnan(values).any(axis=1)
        if not complete.any():
            raise ValueError("X has no complete row to fit the expansion to.")
        rows = values if complete.all() else values[complete]
        transformer = _well_conditioned(clone(expansion), rows).fit(rows)
        first = int(np.argmax(complete))
        return cls(transformer, _apply(transformer, values[first : first + 1]).shape[1])

    @property
    def is_identity(self) -> bool:
        """Whether rows stay as they are."""
        return self.transformer is None

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return the expanded rows (N, n_features_out); incomplete rows become rows of NaN."""
        if self.transformer is None:
            return rows
        complete = ~np.isnan(rows).any(axis=1)
        if complete.all():
            return _apply(self.transformer, rows)
        expanded = np.full((len(rows), self.n_features_out), np.nan, dtype=np.float64)
        if complete.any():
            expanded[complete] = _apply(self.transformer, rows[complete])
        return expanded

    def inverse(self, rows: FloatArray) -> FloatArray:
        """Return the rows before the expansion.

        Raises
        ------
        ValueError
            If the expansion has no ``inverse_transform``.
        """
        if self.transformer is None:
            return rows
        if not hasattr(self.transformer, "inverse_transform"):
            raise ValueError(
                f"inverse_transform needs expansion=None or an expansion that has an inverse; "
                f"{type(self.transformer).__name__} has none."
            )
        return np.asarray(self.transformer.inverse_transform(rows), dtype=np.float64)


def _well_conditioned(expansion: Any, rows: FloatArray) -> Any:
    """Return polynomials of centred and scaled columns where those of the columns lose their digits.

    Together with the constant, which the mean of the outputs takes off, they are the same functions. At a
    mean of r standard deviations, monomials of degree g have a share of about ``r^(2 - 2g)`` of their
    variance that is no linear function of those of lower degree.
    """
    # These take long to load, and linear methods do not need them.
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    from probsfa.expansions import Polynomial

    # A range of degrees leaves out functions that centring needs.
    whole = isinstance(expansion, (Polynomial, PolynomialFeatures)) and isinstance(expansion.degree, int)
    if not whole:
        return expansion
    mean = rows[0] + (rows - rows[0]).mean(axis=0)
    spread = (rows - mean).std(axis=0)
    varying = spread > 0
    ratio = float(np.max(np.abs(mean[varying]) / spread[varying], initial=0.0))
    if ratio ** (2 * max(expansion.degree, 1) - 2) * _LEAST_SHARE < 1:
        return expansion
    return make_pipeline(StandardScaler(), expansion)


def extend_stream(
    stream: MomentStream,
    sequences: Sequences,
    expander: Expander,
    *,
    new_sequence: bool = True,
    skip_incomplete: bool = False,
) -> MomentStream:
    """Return the stream of moments after some sequences, expanded a block of rows at a time.

    Parameters
    ----------
    stream : MomentStream
        Moments of the expanded rows before these.
    sequences : Sequences
        Rows before the expansion.
    expander : Expander
        What to do with every row.
    new_sequence : bool, default=True
        Whether the first row begins a new sequence; otherwise it continues the open one.
    skip_incomplete : bool, default=False
        Leave out rows with a NaN, and differences with such a row.
    """
    ends = np.cumsum(sequences.lengths)
    size = sequences.n_rows if expander.is_identity else block_rows(expander.n_features_out)
    for start in range(0, sequences.n_rows, size):
        stop = min(start + size, sequences.n_rows)
        inside = ends[(ends > start) & (ends < stop)]
        stream = stream.extend(
            expander(sequences.values[start:stop]),
            lengths=np.diff([start, *inside, stop]).tolist(),
            new_sequence=new_sequence if start == 0 else bool((ends == start).any()),
            skip_incomplete=skip_incomplete,
        )
    return stream


def _apply(transformer: Any, rows: FloatArray) -> FloatArray:
    expanded = transformer.transform(rows)
    if hasattr(expanded, "toarray"):
        expanded = expanded.toarray()
    expanded = np.asarray(expanded, dtype=np.float64)
    if expanded.ndim != 2 or len(expanded) != len(rows):
        raise ValueError(
            f"expansion must map every row by itself: {type(transformer).__name__} made shape "
            f"{expanded.shape} of {rows.shape}."
        )
    if not np.isfinite(expanded).all():
        raise ValueError(
            f"expansion gave values that are not finite: {type(transformer).__name__} overflows on these "
            "data. Scale the columns first, for example by a pipeline of StandardScaler and the expansion."
        )
    return expanded
