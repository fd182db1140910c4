"""Columns of events or counts, for which Gaussian noise is not appropriate."""

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences

__all__ = ["counts_sentence", "looks_counted"]

# Minimum number of values: fewer may be integers by chance or by rounding.
_FEWEST_CELLS = 50
# A column of integers is treated as counts if it has at most this many different values, or at least this
# share of zeros.
_MOST_VALUES, _SHARE_OF_ZEROS = 20, 0.25


def looks_counted(column: FloatArray) -> bool:
    """Return whether a column (N,), NaN where missing, has binary values or counts.

    These are nonnegative integers with few different values or many zeros. A constant column is not counted.
    """
    cells = column[~np.isnan(column)]
    for part in (cells[:_FEWEST_CELLS], cells):  # measured values are usually recognized by the first ones
        if len(part) < _FEWEST_CELLS or np.any(part < 0.0) or np.any(part != np.rint(part)):
            return False
    different = len(np.unique(cells))
    return different > 1 and (different <= _MOST_VALUES or np.mean(cells == 0.0) >= _SHARE_OF_ZEROS)


def counts_sentence(sequences: Sequences) -> str:
    """Return a warning that names columns of counts and a suitable model; an empty string without these."""
    names = sequences.feature_names
    counted = [d for d in range(sequences.n_features) if looks_counted(sequences.values[:, d])]
    if not counted:
        return ""
    called = [f"{d}" if names is None else repr(names[d]) for d in counted]
    more = f" and {len(called) - 5} more" if len(called) > 5 else ""
    column, hold, them = ("Column", "holds", "it") if len(called) == 1 else ("Columns", "hold", "them")
    return (
        f"{column} {', '.join(called[:5])}{more} {hold} events or counts (nonnegative integers), for which "
        f"Gaussian noise is not appropriate. Use EmissionSFA, which has distributions for {them}."
    )
