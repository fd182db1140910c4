"""Moments of columns with missing values equal those of NumPy, for any division of the rows into parts."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace import columns
from probsfa.statespace.columns import column_moments, merge_columns


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


def test_moments_of_many_rows_are_computed_in_blocks(rng, monkeypatch):
    X = np.where(rng.random((50, 2)) < 0.2, np.nan, rng.standard_normal((50, 2)) + 3.0)
    X[:20, 1] = np.nan
    monkeypatch.setattr(columns, "_BLOCK_ROWS", 7)
    moments = column_moments(Sequences(X, (30, 20)))
    assert moments.lengths == (30, 20)
    np.testing.assert_allclose(moments.means, np.nanmean(X, axis=0), rtol=1e-13)
    np.testing.assert_allclose(moments.stds, np.nanstd(X, axis=0), rtol=1e-13)


def test_units_are_means_and_standard_deviations(rng):
    X = np.where(rng.random((50, 2)) < 0.2, np.nan, [1.0, 5.0] * rng.standard_normal((50, 2)) + 3.0)
    moments = column_moments(Sequences(X, (50,)))
    shift, scale = moments.units(by_feature=True)
    np.testing.assert_allclose(shift, np.nanmean(X, axis=0), rtol=1e-13)
    np.testing.assert_allclose(scale, np.nanstd(X, axis=0), rtol=1e-13)
    _, one = moments.units(by_feature=False)
    np.testing.assert_allclose(one, np.sqrt(np.mean(np.nanvar(X, axis=0))) * np.ones(2), rtol=1e-13)


def test_a_constant_column_has_scale_one_and_constants_alone_raise_an_error():
    moments = column_moments(Sequences(np.array([[1.0, 0.1], [3.0, 0.1]]), (2,)))
    np.testing.assert_array_equal(moments.constant, [False, True])
    shift, scale = moments.units(by_feature=True)
    np.testing.assert_allclose(shift, [2.0, 0.1])
    np.testing.assert_array_equal(scale, [1.0, 1.0])
    with pytest.raises(ValueError, match="X.*constant"):
        column_moments(Sequences(np.full((5, 2), 0.1), (5,))).units(by_feature=False)


def test_negative_imputed_values_of_nonnegative_columns_are_found():
    observed = np.array([[1.0, -1.0, np.nan], [np.nan, np.nan, np.nan], [0.0, 2.0, np.nan]])
    imputed = np.array([[1.0, -1.0, -3.0], [-0.06, -0.5, -3.0], [0.0, 2.0, -3.0]])
    expected = np.zeros((3, 3), dtype=bool)
    expected[1, 0] = True
    np.testing.assert_array_equal(columns.unexpectedly_negative(observed, imputed), expected)
    # The standard deviation of the first column is 0.5.
    imputed[1, 0], expected[1, 0] = -0.04, False
    np.testing.assert_array_equal(columns.unexpectedly_negative(observed, imputed), expected)


@pytest.mark.filterwarnings("ignore:Observed values")
def test_impute_warns_of_negative_values_unless_a_transform_prevents_them():
    level = np.sin(np.arange(120) / 9.0) + 0.05 * np.random.default_rng(0).standard_normal(120)
    X = np.column_stack([np.maximum(level, 0.0), level, level + 1.0]) + [0.01, 0.0, 0.0]
    X[30:55, 0] = np.nan
    with pytest.warns(UserWarning, match="column 0"):
        ProbabilisticSFA(1).fit(X).impute(X)
    filled = ProbabilisticSFA(1, transforms=[(0.0, None), None, None]).fit(X).impute(X)
    assert filled.min(axis=0)[0] > 0.0
