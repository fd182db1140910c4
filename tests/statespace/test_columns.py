"""Moments of columns with holes: NumPy's own over all rows, however the rows are cut into parts."""

import numpy as np
import pytest

from probsfa._validation import Sequences
from probsfa.statespace.columns import column_moments, merge_columns, standardisation, units


def test_moments_of_parts_add_up_to_those_of_all_rows(rng):
    X = rng.standard_normal((60, 3)) * [1.0, 1e-6, 1e6] + [0.0, 1.0, 1e8]
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:20, 1] = np.nan
    parts = [column_moments(Sequences(x, (len(x),))) for x in np.split(X, [20, 25])]
    merged = merge_columns(parts)
    assert merged.lengths == (20, 5, 35)
    np.testing.assert_array_equal(merged.counts, np.sum(~np.isnan(X), axis=0))
    np.testing.assert_allclose(merged.means, np.nanmean(X, axis=0), rtol=1e-12)
    np.testing.assert_allclose(merged.stds, np.nanstd(X, axis=0), rtol=1e-8)


def test_units_of_an_array_are_those_of_its_moments(rng):
    X = np.where(rng.random((50, 2)) < 0.2, np.nan, rng.standard_normal((50, 2)) + 3.0)
    moments = column_moments(Sequences(X, (50,)))
    for by_feature in (True, False):
        one = standardisation(X, by_feature=by_feature)
        other = units(moments.means, moments.stds, by_feature=by_feature)
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_constant_column_has_a_unit_of_one_and_constants_alone_have_none():
    shift, scale = standardisation(np.array([[1.0, 0.1], [3.0, 0.1]]), by_feature=True)
    np.testing.assert_allclose(shift, [2.0, 0.1])
    np.testing.assert_array_equal(scale, [1.0, 1.0])
    with pytest.raises(ValueError, match="constant"):
        standardisation(np.full((5, 2), 0.1), by_feature=False)
