"""Results in the type of the input: frames, tables, lists of them, arrays for all else."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from probsfa import ProbabilisticSFA
from probsfa._like_input import like_input
from probsfa._validation import check_sequences

NAMES = ["a", "b", "c"]


def polars_frame(values):
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(values, schema=NAMES)


def polars_frame_with_nulls(values):
    frame = polars_frame(values)
    return frame.fill_nan(None)


def arrow_table(values):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return arrow.table(dict(zip(NAMES, values.T, strict=True)))


def arrow_batch(values):
    return arrow_table(values).to_batches()[0]


def pandas_frame(values):
    return pd.DataFrame(values, columns=NAMES, index=range(3, 3 + len(values)))


MAKERS = [pandas_frame, polars_frame, polars_frame_with_nulls, arrow_table, arrow_batch]


def cells(frame):
    """Values of a frame or a table, column by column."""
    columns = frame.columns if hasattr(frame, "column_names") else [frame[name] for name in NAMES]
    return np.column_stack([np.asarray(column) for column in columns])


@pytest.fixture
def values(rng):
    X = np.cumsum(rng.standard_normal((30, 3)), axis=0)
    X[4, 1] = X[20:23, 0] = np.nan
    return X


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("n_rows", [1, 3, 30])  # as many rows as columns, too: which is which
def test_frames_and_tables_come_back_as_what_they_were(values, make, n_rows):
    X = make(values[:n_rows])
    sequences = check_sequences(BaseEstimator(), X, reset=True, allow_nan=True, require_observed=False)
    doubled = 2.0 * np.nan_to_num(values[:n_rows])
    out = like_input(X, sequences, doubled)
    assert type(out) is type(X)
    assert list(getattr(out, "column_names", out.columns)) == NAMES
    np.testing.assert_array_equal(cells(out), doubled)
    if isinstance(X, pd.DataFrame):
        assert out.index.equals(X.index)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_imputed_frames_and_tables_are_frames_and_tables(values, make):
    model = ProbabilisticSFA(1, max_iter=2).fit(values)
    wanted, wanted_std = model.impute(values, return_std=True)
    X = make(values)
    model = ProbabilisticSFA(1, max_iter=2).fit(X)
    filled, std = model.impute(X, return_std=True)
    assert type(filled) is type(std) is type(X)
    # Sums over columns that lie one after the other in memory round in another order.
    np.testing.assert_allclose(cells(filled), wanted, rtol=1e-9)
    np.testing.assert_allclose(cells(std), wanted_std, rtol=1e-9)
    both = model.impute([X, X])
    assert isinstance(both, list) and all(type(one) is type(X) for one in both)


def test_lists_and_arrays_give_arrays(values):
    rows = np.nan_to_num(values).tolist()
    sequences = check_sequences(BaseEstimator(), rows, reset=True, allow_nan=True)
    assert like_input(rows, sequences, values) is values
