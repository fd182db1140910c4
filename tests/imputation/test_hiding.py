"""Patterns of hidden values, and the remaining series."""

import numpy as np
import pandas as pd
import pytest

from probsfa.datasets import hide_blocks, hide_values, make_slow_mixture
from probsfa.imputation import HiddenBlocks, HiddenValues
from probsfa.imputation.hiding import without_hidden

NAN = np.nan


def test_columns_keep_at_least_two_observed_values():
    X = np.array([[1.0, 5.0], [2.0, NAN], [3.0, NAN], [4.0, 6.0]])
    hidden = np.array([[True, True], [False, False], [False, False], [False, False]])
    expected = [[NAN, 5.0], [2.0, NAN], [3.0, NAN], [4.0, 6.0]]
    np.testing.assert_array_equal(without_hidden(X, hidden), expected)
    np.testing.assert_array_equal(without_hidden(pd.DataFrame(X).convert_dtypes(), hidden), expected)
    np.testing.assert_array_equal(without_hidden(np.ma.masked_invalid(X), hidden), expected)
    assert not np.isnan(X[0]).any()


@pytest.mark.parametrize(
    ("pattern", "name", "function"),
    [
        (
            HiddenValues(0.2),
            "20 % of the observed values hidden, single values",
            lambda X, seed: hide_values(X, 0.2, random_state=seed),
        ),
        (
            HiddenBlocks(10, 0.2),
            "20 % of the observed values hidden, in blocks of 10 rows",
            lambda X, seed: hide_blocks(X, 10, 0.2, random_state=seed),
        ),
    ],
)
def test_patterns_agree_with_the_functions_of_datasets(pattern, name, function):
    X = make_slow_mixture(200, 4, missing_fraction=0.1, random_state=0).data
    assert pattern.name == name
    np.testing.assert_array_equal(pattern.choose(X, 3), function(X, 3))
    assert 0.1 < pattern.choose(X, 3).sum() / (~np.isnan(X)).sum() < 0.3


def test_a_block_longer_than_the_series_is_an_error():
    with pytest.raises(ValueError, match="length.*1.*9"):
        HiddenBlocks(10).choose(np.ones((9, 2)), 0)
