"""Detection of numbers that are likely codes for missing values, and of single outliers."""

from collections.abc import Sequence

import numpy as np

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.roles import ColumnRoles
from probsfa.cli.tables.table import Table, split_codes

__all__ = ["check_codes", "likely_codes", "outlier_warnings"]

# Customary codes for missing values. Numbers of nines (such as 99, 999999 and 9999.99) and four powers of ten
# are codes with both signs. Other codes are -200, numbers of sevens or eights, and limits of 16-bit integers.
_CODES_OF_NINES = [10.0**n - 1.0 for n in range(2, 7)] + [
    round(10.0**n - 10.0**-m, m) for n, m in ((2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2), (2, 3), (3, 3))
]
_OTHER_CODES = [-200.0, -777.0, -7777.0, -888.0, -8888.0, -32768.0, 32767.0, 65535.0]
_COMMON_CODES = np.array(
    [*_OTHER_CODES, *(sign * code for code in (*_CODES_OF_NINES, 1e20, 1e30, 1e34, 1e36) for sign in (1, -1))]
)
# Share of the rows up to which a likely code for missing values causes a warning; above it, an error.
_MAX_RARE_SHARE = 0.01
# Minimum distance of an outlier from the nearest other value, in standard deviations of the other values.
_MIN_DEVIATIONS = 10.0
# Outliers are reported in columns with more than this number of values.
_MIN_VALUES = 10


def likely_codes(values: FloatArray) -> list[float]:
    """Return customary codes for missing values in a column (T,) that are unlikely to be values.

    Such a code differs from all other values by more than half of their range, or it is negative and no other
    value is negative.

    Examples
    --------
    >>> likely_codes(np.array([1.0, -999.0, 2.0, 1.5, -999.0]))
    [-999.0]
    >>> likely_codes(np.array([999.0, 1000.0, 1010.0, 1020.0]))
    []
    """
    distinct = np.unique(values[~np.isnan(values)])
    customary = np.isin(distinct, _COMMON_CODES)
    other_values = distinct[~customary]
    if len(other_values) < 2:
        return []
    low, high = other_values[0], other_values[-1]
    codes = distinct[customary]
    with np.errstate(over="ignore"):  # differences of large numbers overflow
        half_range = 0.5 * (high - low)
        return codes[
            (codes < low - half_range) | (codes > high + half_range) | ((codes < 0.0) & (low >= 0.0))
        ].tolist()


def check_codes(table: Table, column_roles: ColumnRoles, missing_code: Sequence[str]) -> list[str]:
    """Raise an error for frequent likely codes for missing values; return warnings for rare ones.

    ``--missing-code ''`` declares that all numbers are values.
    """
    if any(text.strip() == "" for text in missing_code):
        return []
    counts_by_code: dict[float, dict[str, int]] = {}
    for j, column in zip(column_roles.data, column_roles.values.T, strict=True):
        for code in likely_codes(column):
            counts_by_code.setdefault(code, {})[table.names[j]] = int(np.count_nonzero(column == code))
    shown = {
        code: f"{code:g} in " + ", ".join(f"{name!r} ({n} row{'s' * (n > 1)})" for name, n in counts.items())
        for code, counts in counts_by_code.items()
    }
    frequent = [
        code
        for code in counts_by_code
        if max(counts_by_code[code].values()) > _MAX_RARE_SHARE * len(column_roles.values)
    ]
    if frequent:
        codes = split_codes(missing_code, table.decimal)
        codes += [f"{code:g}".replace(".", table.decimal) for code in frequent]
        raise CommandError(
            f"{table.source}: likely codes for missing values: {'; '.join(shown[code] for code in frequent)}."
            f" Use --missing-code={(';' if table.decimal == ',' else ',').join(codes)} if they stand for "
            "missing values, or --missing-code='' if they are measured values."
        )
    return [
        f"{shown[code]} is far from all other values; if it stands for a missing value, use "
        f"--missing-code={code:g}"
        for code in counts_by_code
    ]


def outlier_warnings(table: Table, column_roles: ColumnRoles) -> list[str]:
    """Return warnings for minima and maxima far from all other values of their columns."""
    warnings = []
    for j, column in zip(column_roles.data, column_roles.values.T, strict=True):
        rows = np.flatnonzero(~np.isnan(column) & ~np.isin(column, likely_codes(column)))
        if len(rows) <= _MIN_VALUES:
            continue
        for row in (rows[np.argmin(column[rows])], rows[np.argmax(column[rows])]):
            other_values = column[rows[rows != row]]
            std, distance = float(np.std(other_values)), float(np.min(np.abs(other_values - column[row])))
            if distance > _MIN_DEVIATIONS * std > 0.0:
                warnings.append(
                    f"{table.where(int(row), j)}: {table.texts[j][row]} lies {distance / std:.3g} "
                    "standard deviations beyond all other values of the column; if it is an error, leave the "
                    "value empty."
                )
    return warnings
