"""Detection of likely codes for missing values."""

import numpy as np
import pytest

from probsfa.cli.tables.outliers import likely_codes

NAN = np.nan


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1.0, 2.0, 3.5, -200.0, -200.0], [-200.0]),
        ([1.0, 2.0, 3.5, 9999.0, 9999.0, NAN], [9999.0]),
        ([-200.0, 1.0, 2.0, 3.0, 999.0, -200.0, 999.0], [-200.0, 999.0]),
        ([1.0, 2.0, 3.5, -200.0], [-200.0]),
        ([5.0, 1500.0, 300.0, -200.0], [-200.0]),  # near other values, but the only negative number
        ([-5.0, 1500.0, 300.0, -200.0], []),
        ([1.0, 2.0, 3.5, -201.0, -201.0], []),  # not customary
        ([-99.9, -99.9, 1.0, 2.0], [-99.9]),
        ([-99.9, -30.0, 10.0, 40.0], [-99.9]),
        ([99.0, 98.0, 97.0, 50.0], []),  # per cent
        ([999.0, 1000.0, 1010.0, 1020.0], []),  # hectopascal
        ([999.0, 999.0, NAN], []),
        ([1e20, 1.0, 2.0, 1e308, -1e308], []),
    ],
)
def test_likely_codes(values, codes):
    assert likely_codes(np.array(values)) == codes
