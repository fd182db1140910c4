"""Numbers that look like codes for missing."""

import numpy as np
import pytest

from probsfa.cli.tables.suspects import suspects

NAN = np.nan


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1.0, 2.0, 3.5, -200.0, -200.0], [-200.0]),
        ([1.0, 2.0, 3.5, 9999.0, 9999.0, NAN], [9999.0]),
        ([-200.0, 1.0, 2.0, 3.0, 999.0, -200.0, 999.0], [999.0]),  # further off than -200
        ([1.0, 2.0, 3.5, -200.0], [-200.0]),  # once, and a code by habit
        ([1.0, 2.0, 3.5, -201.0], []),  # once: a wild reading
        ([0.0, 0.0, 0.0, 500.0, 1000.0], []),  # zero is a value
        ([1000.0, 1000.0, 1010.0, 1020.0], []),  # within the range of the others
        ([-99.9, -99.9, 1.0, 2.0], [-99.9]),
        ([-98.7, -98.7, 1.0, 2.0], []),  # not whole
        ([-99.9, -30.0, 10.0, 40.0], [-99.9]),  # nearer than the others are wide
        ([99.0, 98.0, 97.0, 50.0], []),  # per cent
        ([999.0, 1000.0, 1010.0, 1020.0], []),  # hectopascal
        ([5.0, 5.0, NAN], []),
    ],
)
def test_suspects(values, codes):
    assert suspects(np.array(values)) == codes
