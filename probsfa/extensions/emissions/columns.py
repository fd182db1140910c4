"""Encoding of the columns of X as model columns: family, valid values and units.

A column is encoded as one model column, which is standardized if its family has a scale. A categorical column
of ``L`` levels is encoded as ``L - 1`` binary columns (sequential logits; Tutz 1991), so that the algorithm
for binary columns also fits categorical columns. Column ``j`` is one for level ``j``, zero for higher levels,
and missing for lower levels. Sequential logits can represent any probabilities of the levels and use their
order.

References
----------
Tutz (1991), Sequential models in categorical regression, Computational Statistics & Data Analysis 11:275.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.links import LINKS
from probsfa.extensions.emissions.sites import Block

__all__ = [
    "EMISSIONS",
    "Column",
    "encode",
    "family_blocks",
    "make_columns",
    "read_emission",
    "read_link",
    "with_links",
]

#: Valid emissions; "auto" selects one from the values of the column.
EMISSIONS = ("auto", *(name for name in FAMILIES if name not in LINKS), "categorical")

# Maximum number of levels of a categorical column.
_MAX_LEVELS = 100
# Maximum count; double precision does not represent all larger integers.
_MAX_COUNT = 2.0**53


class Column(NamedTuple):
    """Encoding of a column of X.

    Attributes
    ----------
    emission : str
        One of :data:`EMISSIONS` except "auto".
    first, n_model_columns : int
        First model column, and number of model columns.
    shift, scale : float
        ``shift + scale * value`` converts a model value to data units.
    levels : ndarray (L,)
        Levels of a categorical column, the lowest first; else empty.
    link : str, default="identity"
        Link of the mean of a Gaussian column: "identity", or one of :data:`LINKS`.
    """

    emission: str
    first: int
    n_model_columns: int
    shift: float
    scale: float
    levels: FloatArray
    link: str = "identity"

    @property
    def model_columns(self) -> slice:
        """Slice of the model columns that encode this column."""
        return slice(self.first, self.first + self.n_model_columns)

    @property
    def family(self) -> str:
        """Family of the model columns that encode this column."""
        if self.emission == "categorical":
            return "bernoulli"
        return self.emission if self.link == "identity" else self.link


def read_emission(emission: Any, n_features: int, names: Any) -> list[str]:
    """Return the emission of each column, which may be "auto".

    Parameters
    ----------
    emission : str, sequence of str or mapping
        One for all columns, a sequence with one for each column, or a mapping from names or numbers of
        columns, with "auto" for the others.
    n_features : int
        Number of columns.
    names : array-like of str or None
        Names of the columns.

    Raises
    ------
    ValueError
        If an emission or a column is not valid.
    """
    requested = _by_column("emission", emission, "auto", n_features, names)
    for value in requested:
        if not isinstance(value, str) or value not in EMISSIONS:
            raise ValueError(f"emission must be one of {', '.join(map(repr, EMISSIONS))}; got {value!r}.")
    return requested


def read_link(link: Any, n_features: int, names: Any) -> list[str]:
    """Return the link of each column, "identity" by default.

    Parameters
    ----------
    link : str, sequence of str, mapping or None
        One for all Gaussian columns, a sequence with one for each column, or a mapping from names or numbers
        of columns, with "identity" for the others.
    n_features : int
        Number of columns.
    names : array-like of str or None
        Names of the columns.

    Raises
    ------
    ValueError
        If a link or a column is not valid.
    """
    requested = _by_column("link", "identity" if link is None else link, "identity", n_features, names)
    known_links = ("identity", *LINKS)
    for value in requested:
        if not isinstance(value, str) or value not in known_links:
            raise ValueError(f"link must be one of {', '.join(map(repr, known_links))}; got {value!r}.")
    return requested


def with_links(columns: Sequence[Column], links: Sequence[str], *, is_shared: bool) -> tuple[Column, ...]:
    """Return columns with links.

    With `is_shared`, all entries of `links` are equal; the link is used for Gaussian columns only.

    Raises
    ------
    ValueError
        If a column with a link is not Gaussian; with `is_shared`, if no column is Gaussian.
    """
    linked = []
    for d, (column, link) in enumerate(zip(columns, links, strict=True)):
        is_gaussian = column.emission == "gaussian"
        if link != "identity" and not is_gaussian and not is_shared:
            raise ValueError(
                f"link={link!r} requires emission='gaussian', but column {d} has {column.emission!r}."
            )
        linked.append(column._replace(link=link) if is_gaussian else column)
    if is_shared and links and links[0] != "identity" and all(column.link == "identity" for column in linked):
        raise ValueError(f"link={links[0]!r} requires emission='gaussian', but no column has this emission.")
    return tuple(linked)


def _by_column(kind: str, option: Any, default: str, n_features: int, names: Any) -> list[Any]:
    """Return one option per column from a string, a list, or a mapping; omitted columns have `default`."""
    if isinstance(option, str):
        return [option] * n_features
    if isinstance(option, Mapping):
        requested = [default] * n_features
        known_names = [] if names is None else list(names)
        for key, value in option.items():
            if key in known_names:
                requested[known_names.index(key)] = value
            elif isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < n_features:
                requested[int(key)] = value
            else:
                raise ValueError(f"{kind} names column {key!r}, which X does not have.")
        return requested
    if isinstance(option, (Sequence, np.ndarray)):
        if len(option) != n_features:
            raise ValueError(f"{kind} has {len(option)} entries, and X has {n_features} columns.")
        return list(option)
    raise ValueError(
        f"{kind} must be a name, a list with one name for each column, or a mapping from "
        f"columns; got {option!r}."
    )


def _auto(values: FloatArray) -> str:
    """Return "bernoulli" for zeros and ones, "negative_binomial" for other counts, else "gaussian"."""
    if np.any(values < 0.0) or np.any(values != np.rint(values)):
        return "gaussian"
    return "bernoulli" if np.all(values <= 1.0) else "negative_binomial"


def make_columns(sequences: Sequences, requested: Sequence[str]) -> tuple[Column, ...]:
    """Return the encoding of each column from emissions and data; :func:`encode` validates the values."""
    columns: list[Column] = []
    first = 0
    for d, emission in enumerate(requested):
        values = sequences.values[:, d]
        values = values[~np.isnan(values)]
        emission = _auto(values) if emission == "auto" else emission
        shift, scale, levels, n_model_columns = 0.0, 1.0, np.zeros(0), 1
        if emission == "categorical":
            levels = np.unique(values)
            if len(levels) > _MAX_LEVELS:
                raise ValueError(
                    f"X has {len(levels)} different values in column {_column_label(sequences, d)}; "
                    f"emission='categorical' supports at most {_MAX_LEVELS}."
                )
            if len(levels) < 2:
                raise ValueError(
                    f"X has a single value in column {_column_label(sequences, d)}; emission='categorical' "
                    "requires at least two levels. Remove the column."
                )
            n_model_columns = len(levels) - 1
        elif FAMILIES[emission].has_scale:
            shift, scale = _units(values, emission)
        columns.append(Column(emission, first, n_model_columns, shift, scale, levels))
        first += n_model_columns
    return tuple(columns)


def _units(values: FloatArray, emission: str) -> tuple[float, float]:
    """Return shift and scale that standardize a column; those of Student-t columns are robust."""
    shift = float(np.mean(values))
    scale = float(np.std(values))
    if emission == "student_t":
        shift = float(np.median(values))
        iqr_scale = float(np.subtract(*np.percentile(values, [75, 25]))) / 1.349
        scale = iqr_scale if iqr_scale > 0.0 else scale
    return shift, scale if scale > 8.0 * np.finfo(np.float64).eps * abs(shift) else 1.0


def _column_label(sequences: Sequences, d: int) -> str:
    names = sequences.feature_names
    return f"{d}" if names is None else f"{d} ({names[d]!r})"


def _raise_for_values(sequences: Sequences, d: int, is_invalid: Any, emission: str, expected: str) -> None:
    """Raise a ValueError that names the first invalid value, if there is one."""
    if not np.any(is_invalid):
        return
    row = int(np.argmax(is_invalid))
    value = sequences.values[row, d]
    location = f"row {row}"
    if sequences.is_list:
        sequence_index = int(np.searchsorted(np.cumsum(sequences.lengths), row, side="right"))
        location = f"row {row - sequences.slices[sequence_index].start} of X[{sequence_index}]"
    raise ValueError(
        f"X has {value:g} in column {_column_label(sequences, d)}, {location}, and emission={emission!r} "
        "requires "
        f"{expected}."
    )


def encode(sequences: Sequences, columns: Sequence[Column]) -> Sequences:
    """Return encoded rows in the units of the model, NaN where missing.

    Raises
    ------
    ValueError
        If a value is not valid for the emission of its column; the message names the value and the emission.
    """
    values = np.full((sequences.n_rows, sum(column.n_model_columns for column in columns)), np.nan)
    for d, column in enumerate(columns):
        column_values = sequences.values[:, d]
        observed = ~np.isnan(column_values)
        if column.emission == "bernoulli":
            _raise_for_values(
                sequences,
                d,
                observed & (column_values != 0.0) & (column_values != 1.0),
                column.emission,
                "zeros and ones only",
            )
        elif column.emission in ("poisson", "negative_binomial"):
            is_invalid = observed & ~(
                (column_values >= 0.0)
                & (column_values == np.rint(column_values))
                & (column_values <= _MAX_COUNT)
            )
            _raise_for_values(sequences, d, is_invalid, column.emission, "nonnegative integers")
        if column.emission == "categorical":
            is_invalid = observed & ~np.isin(column_values, column.levels)
            _raise_for_values(sequences, d, is_invalid, column.emission, "the levels of the fit")
            for j in range(column.n_model_columns):
                is_observed_level = observed & ~np.isin(column_values, column.levels[:j])
                is_equal = (column_values == column.levels[j]).astype(np.float64)
                values[:, column.first + j] = np.where(is_observed_level, is_equal, np.nan)
        else:
            values[:, column.first] = (column_values - column.shift) / column.scale
    return replace(sequences, values=values, feature_names=None)


def family_blocks(columns: Sequence[Column]) -> tuple[Block, ...]:
    """Return the model columns of each family, in the order of :data:`FAMILIES`."""
    families = np.concatenate([[column.family] * column.n_model_columns for column in columns])
    return tuple(
        Block(family, np.flatnonzero(families == name))
        for name, family in FAMILIES.items()
        if np.any(families == name)
    )
