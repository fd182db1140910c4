"""What the user says about the columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Choices"]


@dataclass(frozen=True)
class Choices:
    """What the user says about the columns.

    Attributes
    ----------
    columns, exclude, time : list of str or None
        Names of the data columns, of columns to leave out, and of columns that tell the time.
    group : str or None
        Name of the column that tells independent sequences apart.
    dayfirst : bool or None
        Whether the day comes before the month in dates that end in the year.
    date_format, epoch : str or None
        The format of dates; the unit of numbers that count from 1970.
    sort, even : bool
        Whether to sort the rows by time; whether to take them as evenly spaced.
    """

    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    time: Sequence[str] | None = None
    group: str | None = None
    dayfirst: bool | None = None
    date_format: str | None = None
    epoch: str | None = None
    sort: bool = False
    even: bool = False
