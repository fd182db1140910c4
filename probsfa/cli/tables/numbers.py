"""Numbers as people write them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probsfa._typing import FloatArray
from probsfa.cli.tables.missing import Missing

__all__ = ["Style", "guess_decimal", "is_in_thousands", "is_with_comma"]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_IN_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?")
_SPACES = "[ \u00a0\u2009\u202f]"


@dataclass(frozen=True)
class Style:
    """How numbers are written.

    Attributes
    ----------
    decimal : {".", ","}
        The decimal mark.
    thousands : str
        What groups digits in threes; empty where nothing does. A space stands for those that do not break,
        too.
    """

    decimal: str = "."
    thousands: str = ""

    def plain(self, text: str) -> str:
        """Return a number's text as Python writes it: with a decimal point, digits ungrouped."""
        if self.thousands and (grouped := self._grouped.fullmatch(text)):
            text = re.sub(self._mark, "", grouped[1]) + text[grouped.end(1) :]
        return text if self.decimal == "." else text.replace(".", "?").replace(self.decimal, ".")

    def number(self, text: str) -> float | None:
        """Return the number that a text is, None for any other text.

        Examples
        --------
        >>> Style().number("1.5"), Style().number("1,5"), Style(",", ".").number("1.234,5")
        (1.5, None, 1234.5)
        """
        plain = text if self.decimal == "." and not self.thousands else self.plain(text)
        if not _NUMBER.fullmatch(plain):
            return None
        value = float(plain)
        return value if math.isfinite(value) else None

    def numbers(self, texts: Sequence[str], missing: Missing) -> tuple[FloatArray, list[int]]:
        """Return the numbers of some texts.

        Parameters
        ----------
        texts : sequence of str
            What is written.
        missing : Missing
            Which texts and numbers mean that nothing was observed.

        Returns
        -------
        values : ndarray (T,)
            NaN where missing, and where the text is no number.
        bad : list of int
            Which texts are neither missing nor numbers.
        """
        plainly, is_number = self == Style(), _NUMBER.fullmatch
        read, bad = [], []
        for i, text in enumerate(texts):
            plain = text if plainly else self.plain(text)
            value = float(plain) if is_number(plain) else math.inf
            if math.isinf(value):
                value = math.nan
                if not missing.matches(text):
                    bad.append(i)
            read.append(value)
        return missing.without_codes(np.array(read, dtype=np.float64)), bad

    @cached_property
    def _mark(self) -> str:
        return _SPACES if self.thousands == " " else re.escape(self.thousands)

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        return re.compile(
            rf"([+-]?[0-9]{{1,3}}(?:{self._mark}[0-9]{{3}})+)({re.escape(self.decimal)}[0-9]*)?"
        )


def is_with_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma."""
    return bool(_WITH_COMMA.fullmatch(text))


def is_in_thousands(text: str) -> bool:
    """Whether a text is a number whose digits commas may group in threes, such as "1,234"."""
    return bool(_IN_THOUSANDS.fullmatch(text))


def guess_decimal(with_comma: Sequence[str], with_point: Sequence[str]) -> str:
    """Return the decimal mark: a comma where numbers are written with one and none with a point.

    If all of them could be thousands ("1,234"), nothing is guessed; that is for the user to say.

    Parameters
    ----------
    with_comma, with_point : sequence of str
        Cells that hold a comma, and cells that hold a point.
    """
    commas = [text for text in with_comma if is_with_comma(text)]
    if not commas or all(map(is_in_thousands, commas)):
        return "."
    return "." if any(_NUMBER.fullmatch(text) for text in with_point) else ","
