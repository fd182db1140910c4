"""Hiding values: only observed ones, the requested number, and the same ones for the same seed."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probsfa.datasets import hide_blocks, hide_values


@pytest.fixture
def incomplete():
    rng = np.random.default_rng(42)
    X = rng.standard_normal((400, 5))
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
def test_only_observed_values_are_hidden(hide, incomplete):
    hidden = hide(incomplete, random_state=0)
    assert hidden.dtype == bool
    assert hidden.shape == incomplete.shape
    assert not np.isnan(incomplete[hidden]).any()


@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
def test_masked_values_are_not_hidden(hide, incomplete):
    masked = np.ma.masked_invalid(incomplete)
    masked.data[masked.mask] = 999.0
    np.testing.assert_array_equal(hide(masked, random_state=0), hide(incomplete, random_state=0))
    frame = pd.DataFrame(incomplete).convert_dtypes()
    np.testing.assert_array_equal(hide(frame, random_state=0), hide(incomplete, random_state=0))


@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
@pytest.mark.parametrize(
    ("X", "match"),
    [
        (np.array([["1"]]), "X contains text"),
        (np.ones((1, 1), "M8[s]"), "X contains dates"),
        (np.array([[1j]]), "[Cc]omplex.*X"),
    ],
)
def test_values_that_are_not_numbers_are_errors(hide, X, match):
    with pytest.raises(ValueError, match=match):
        hide(X)


@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
def test_equal_seeds_hide_equal_values(hide, incomplete):
    first = hide(incomplete, random_state=3)
    np.testing.assert_array_equal(first, hide(incomplete, random_state=3))
    np.testing.assert_array_equal(first, hide(incomplete, random_state=np.random.default_rng(3)))
    assert np.any(first != hide(incomplete, random_state=4))


@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
def test_input_is_unchanged(hide, incomplete):
    before = incomplete.copy()
    hide(incomplete, random_state=0)
    np.testing.assert_array_equal(incomplete, before)


def test_values_are_hidden_independently():
    hidden = hide_values(np.zeros((20_000, 10)), 0.1, random_state=1)
    n = hidden.size
    six_sigma = 6.0 * np.sqrt(0.09 / n)
    assert abs(hidden.mean() - 0.1) < six_sigma
    # Adjacent values are hidden independently.
    both = (hidden[1:] & hidden[:-1]).mean()
    assert abs(both - 0.01) < 6.0 * np.sqrt(0.01 / n)


@settings(max_examples=25, deadline=None)
@given(
    n_rows=st.integers(1, 60),
    n_columns=st.integers(1, 4),
    length=st.integers(1, 60),
    fraction=st.floats(0.01, 0.9),
    seed=st.integers(0, 99),
)
def test_blocks_exceed_the_fraction_by_at_most_one_block(n_rows, n_columns, length, fraction, seed):
    length = min(length, n_rows)
    hidden = hide_blocks(np.zeros((n_rows, n_columns)), length, fraction, random_state=seed)
    expected = fraction * hidden.size
    assert expected <= hidden.sum() < expected + length
    # Every run of hidden values is at least one block long.
    padded = np.pad(hidden, ((1, 1), (0, 0)))
    for column in padded.T:
        edges = np.flatnonzero(np.diff(column.astype(int)))
        assert np.all(edges[1::2] - edges[::2] >= length)


def test_every_value_can_be_hidden_by_a_block():
    counts = sum(hide_blocks(np.zeros((30, 2)), 10, 0.5, random_state=seed) for seed in range(60))
    assert counts.all()


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, np.nan])
@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
def test_fraction_out_of_range(hide, fraction, incomplete):
    with pytest.raises(ValueError, match="fraction"):
        hide(incomplete, fraction=fraction)


@pytest.mark.parametrize("length", [0, 401, 2.5])
def test_length_out_of_range(length, incomplete):
    with pytest.raises(ValueError, match="length.*1.*400"):
        hide_blocks(incomplete, length)


@pytest.mark.parametrize("hide", [hide_values, hide_blocks])
def test_one_dimensional_series_are_errors(hide):
    with pytest.raises(ValueError, match="two dimensions"):
        hide(np.zeros(100))
