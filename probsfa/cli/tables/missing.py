"""Which cells mean that nothing was observed."""

import re
from collections.abc import Iterable

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["Missing", "split_codes"]

_NOT_A_VALUE = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Missing:
    """Which texts and numbers mean that a cell is missing.

    Parameters
    ----------
    codes : iterable of str, default=()
        Texts that mean missing, beside an empty cell, NA, NaN, N/A, null and None. A code that is a number
        also stands for its other spellings: "-200" for "-200.0".
    """

    def __init__(self, codes: Iterable[str] = ()) -> None:
        codes = [code.strip() for code in codes]
        self.texts = _NOT_A_VALUE | {code.lower() for code in codes}
        plain = (code.replace(",", ".") for code in codes)
        self.numbers = frozenset(float(code) for code in plain if _NUMBER.fullmatch(code))

    def matches(self, text: str) -> bool:
        """Whether a cell's text means that it is missing."""
        return text.lower() in self.texts

    def without_codes(self, values: FloatArray) -> FloatArray:
        """Make NaN of the numbers that mean that a cell is missing, in place."""
        for code in self.numbers:
            values[values == code] = np.nan
        return values


def split_codes(given: Iterable[str], decimal: str = ".") -> list[str]:
    """Split what was given to ``--missing-code`` into codes.

    Parameters
    ----------
    given : iterable of str
        One code or several, separated by commas; by semicolons where numbers have a decimal comma.
    decimal : {".", ","}, default="."
        The decimal mark.

    Examples
    --------
    >>> split_codes(["-999,-99.9", "?"])
    ['-999', '-99.9', '?']
    >>> split_codes(["-99,9; bad"], decimal=",")
    ['-99,9', 'bad']
    """
    mark = ";" if decimal == "," else ","
    return [code.strip() for text in given for code in (text.split(mark) if text.strip() else [text])]
