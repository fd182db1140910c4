"""Columns that hold events or counts, of which Gaussian noise is no good description."""

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences

__all__ = ["counts_sentence", "looks_counted"]

# Cells that say what a column holds: fewer may be whole numbers by chance or by rounding.
_FEWEST_CELLS = 50
# A column of so many different values, or of this share of zeros, is counted and not measured.
_MOST_VALUES, _SHARE_OF_ZEROS = 20, 0.25


def looks_counted(column: FloatArray) -> bool:
    """Whether a column (N,), NaN where missing, holds zeros and ones or counts.

    Whole numbers from zero up, of which few differ or many are zero. A constant column holds nothing.
    """
    cells = column[~np.isnan(column)]
    for part in (cells[:_FEWEST_CELLS], cells):  # numbers that were measured show it at once
        if len(part) < _FEWEST_CELLS or np.any(part < 0.0) or np.any(part != np.rint(part)):
            return False
    different = len(np.unique(cells))
    return different > 1 and (different <= _MOST_VALUES or np.mean(cells == 0.0) >= _SHARE_OF_ZEROS)


def counts_sentence(sequences: Sequences) -> str:
    """A sentence that names such columns and what fits them; nothing where there are none."""
    names = sequences.feature_names
    counted = [d for d in range(sequences.n_features) if looks_counted(sequences.values[:, d])]
    if not counted:
        return ""
    called = [f"{d}" if names is None else repr(names[d]) for d in counted]
    more = f" and {len(called) - 5} more" if len(called) > 5 else ""
    column, hold, them = ("Column", "holds", "it") if len(called) == 1 else ("Columns", "hold", "them")
    return (
        f"{column} {', '.join(called[:5])}{more} {hold} events or counts (whole numbers from zero up), which "
        f"Gaussian noise describes badly: EmissionSFA has distributions for {them}."
    )
