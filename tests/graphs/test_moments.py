"""Second moments equal their definition for any blocks, chunks, missing rows and offsets."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probsfa.graphs import moments as module
from probsfa.graphs.moments import Moments, MomentStream, block_rows, temporal_moments
from tests.oracles import sfa as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT, STREAM


def split(X, lengths):
    return np.split(X, np.cumsum(lengths)[:-1])


def assert_same(found: Moments, expected: Moments, rtol=STREAM):
    assert (found.n_rows, found.n_differences, found.lag) == (
        expected.n_rows,
        expected.n_differences,
        expected.lag,
    )
    scale = np.sqrt(np.diag(expected.scatter))
    close(found.scatter, expected.scatter, np.outer(scale, scale), rtol)
    steps = np.sqrt(np.diag(expected.difference_scatter))
    close(found.difference_scatter, expected.difference_scatter, np.outer(steps, steps), rtol)
    close(found.mean, expected.mean, np.abs(expected.mean) + scale, rtol)


def close(a, b, scale, rtol):
    """Check that entries agree relative to their bound by the Cauchy-Schwarz inequality."""
    assert (np.abs(a - b) <= rtol * scale).all(), np.max(np.abs(a - b) / scale)


def with_gaps(rng, shape, share=0.1):
    X = rng.standard_normal(shape)
    X[rng.random(shape) < share] = np.nan
    return X


@pytest.fixture
def small_blocks(monkeypatch):
    """Use blocks of five rows, so that small data have many blocks."""
    monkeypatch.setattr(module, "_BLOCK_ROWS", (5, 5))


LENGTHS = [[60], [1, 20, 3, 1, 35], [2] * 30, [41, 19], [1] * 60]


@pytest.mark.parametrize("lag", [1, 2, 7, 40])
@parametrize("lengths", LENGTHS, quick=LENGTHS[:2])
@pytest.mark.parametrize("gaps", [False, True])
def test_equals_the_definition(rng, small_blocks, lag, lengths, gaps):
    X = with_gaps(rng, (60, 3)) if gaps else rng.standard_normal((60, 3))
    found = temporal_moments(X, lengths=lengths, lag=lag, skip_incomplete=gaps)
    n, mean, B, pairs, A = oracle.moments(split(X, lengths), lag)
    assert (found.n_rows, found.n_differences) == (n, pairs)
    np.testing.assert_allclose(found.mean, mean, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(found.covariance, B, rtol=EXACT, atol=EXACT)
    if pairs:
        np.testing.assert_allclose(found.difference_moment, A, rtol=EXACT, atol=EXACT)
    else:
        with pytest.raises(ValueError, match=f"rows {lag}"):
            found.difference_moment  # noqa: B018


@settings(max_examples=60, deadline=None)
@given(data=st.data(), lag=st.integers(1, 6), gaps=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_moments_of_chunks_of_any_size_equal_those_of_all_rows(data, lag, gaps, seed):
    rng = np.random.default_rng(seed)
    X = with_gaps(rng, (40, 2)) if gaps else rng.standard_normal((40, 2))
    cuts = sorted(data.draw(st.lists(st.integers(0, 40), max_size=8)))
    new = sorted(data.draw(st.sets(st.integers(1, 39), max_size=3)))  # where sequences begin
    lengths = np.diff([0, *new, 40]).tolist()
    stream = MomentStream.start(2, lag)
    for a, b in zip([0, *cuts], [*cuts, 40], strict=True):
        inside = [s for s in new if a < s < b]
        stream = stream.extend(
            X[a:b],
            lengths=np.diff([a, *inside, b]).tolist() if b > a else None,
            new_sequence=a in new and b > a,
            skip_incomplete=gaps,
        )
    whole = temporal_moments(X, lengths=lengths, lag=lag, skip_incomplete=gaps)
    assert_same(stream.moments, whole)


def test_extending_a_stream_does_not_change_it(rng):
    X = rng.standard_normal((20, 3))
    first = MomentStream.start(3).extend(X[:10])
    before = first.moments.scatter.copy(), first.tail.copy()
    first.extend(X[10:])
    np.testing.assert_array_equal(first.moments.scatter, before[0])
    np.testing.assert_array_equal(first.tail, before[1])


def test_the_tail_is_a_copy(rng):
    X = rng.standard_normal((20, 3))
    stream = MomentStream.start(3).extend(X)
    X[:] = 7.0
    assert not (stream.tail == 7.0).any() and not (stream.moments.origin == 7.0).any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30), st.integers(1, 3))
def test_merge_of_sequences_is_the_moments_of_both(seed, n, m, lag):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + m, 3)) * [1, 1e-6, 1e6]
    a, b = temporal_moments(X[:n], lag=lag), temporal_moments(X[n:], lag=lag)
    whole = temporal_moments(X, lengths=[n, m], lag=lag)
    assert_same(a.merge(b), whole)
    assert_same(b.merge(a), whole)


def test_empty_is_neutral(rng):
    m = temporal_moments(rng.standard_normal((9, 2)), lag=2)
    assert_same(Moments.empty(2, lag=2).merge(m), m, rtol=0)
    assert_same(m.merge(Moments.empty(2, lag=2)), m, rtol=0)
    with pytest.raises(ValueError, match="complete row"):
        Moments.empty(2).covariance  # noqa: B018


def test_merge_requires_equal_lags_and_numbers_of_columns():
    with pytest.raises(ValueError, match="2.*lag 1.*3.*lag 1"):
        Moments.empty(2).merge(Moments.empty(3))
    with pytest.raises(ValueError, match="lag 1 .* lag 2"):
        Moments.empty(2).merge(Moments.empty(2, lag=2))


@pytest.mark.parametrize("offset", [1e6, 1e8, -1e12])
def test_offsets_do_not_increase_rounding_errors(rng, small_blocks, offset):
    # integers, so that adding the offset rounds nothing and the truth is exact
    X = rng.integers(-1000, 1000, (200, 3)).astype(float)
    chunked = MomentStream.start(3)
    for a in range(0, 200, 17):
        chunked = chunked.extend(X[a : a + 17] + offset)
    plain = temporal_moments(X)
    for found in (chunked.moments, temporal_moments(X + offset)):
        scale = np.sqrt(np.diag(plain.scatter))
        close(found.scatter, plain.scatter, np.outer(scale, scale), STREAM)
        np.testing.assert_array_equal(found.difference_scatter, plain.difference_scatter)
    halves = temporal_moments(X[:90] + offset).merge(temporal_moments(X[90:] + offset))
    close(halves.scatter, plain.scatter, np.outer(scale, scale), STREAM)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.3, -3e-300])
def test_a_constant_column_has_exactly_no_variance(rng, small_blocks, value):
    X = rng.standard_normal((50, 2))
    X[:, 1] = value
    found = temporal_moments(X)
    assert not found.scatter[1].any() and not found.difference_scatter[1].any()
    assert found.mean[1] == value


def test_variance_floor_is_above_rounding_and_below_data():
    wobble = np.tile([[0.3], [0.1 + 0.2]], (50, 1))  # they differ by one unit in the last place
    found = temporal_moments(wobble)
    assert found.covariance[0, 0] <= found.variance_floor[0]
    real = temporal_moments(1e8 + np.arange(100.0)[:, None] * 1e-5)
    assert real.covariance[0, 0] > 1e3 * real.variance_floor[0]


def test_there_is_no_difference_across_a_missing_row(rng):
    X = rng.standard_normal((10, 2))
    X[4, 1] = np.nan
    found = temporal_moments(X, skip_incomplete=True)
    halves = temporal_moments(X[:4]).merge(temporal_moments(X[5:]))
    assert_same(found, halves)
    # at lag 2 the two neighbours of the gap are a pair
    assert temporal_moments(X, lag=2, skip_incomplete=True).n_differences == 8 - 2


def test_no_complete_row():
    found = temporal_moments(np.full((5, 2), np.nan), skip_incomplete=True)
    assert found.n_rows == found.n_differences == 0


def test_no_copy_of_the_input_is_made(rng):
    X = rng.standard_normal((200_000, 8))
    tracemalloc.start()
    temporal_moments(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2
    assert block_rows(8) == 8192 and block_rows(10_000) == 1024 and block_rows(0) == 8192
