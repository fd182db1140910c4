"""Independent sequences in the rows of a table."""

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.table import Table

__all__ = ["Rows", "sequences_of"]

Rows = NDArray[np.intp]


def sequences_of(table: Table, group: int | None) -> tuple[Rows, ...]:
    """Return the numbers of the rows of each sequence, in the order of the file.

    Parameters
    ----------
    table : Table
        The file.
    group : int or None
        Number of the column that tells sequences apart; None for a single one.
    """
    if group is None:
        return (np.arange(len(table.rows)),)
    labels = table.texts(group)
    if "" in labels:
        raise CommandError(f"{table.where(labels.index(''), group)}: is empty; every row needs a group.")
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    return tuple(np.array(rows) for rows in members.values())
