"""Support selection, compared with errors that are computed anew at each step."""

import numpy as np
import pytest

from probsfa.sfa.kernel import support
from probsfa.sfa.kernel.problem import KernelColumns
from probsfa.sfa.kernel.support import mp_kpca, mp_mah, online_mah, random_support
from tests.oracles import kernel_sfa as oracle
from tests.tolerances import EXACT


def columns(X, gamma=0.5):
    return KernelColumns(X, "rbf", {"gamma": gamma})


def walk(rng, n, d=3):
    """Rows of a random walk: neighbours in time are alike, as in a series."""
    return np.cumsum(rng.standard_normal((n, d)), axis=0) / 4


@pytest.mark.parametrize(("candidates", "block"), [(1024, 64), (10, 4), (1, 1), (25, 64)])
def test_mp_mah_equals_greedy_selection_for_all_block_sizes(rng, monkeypatch, candidates, block):
    monkeypatch.setattr(support, "_N_CANDIDATES", candidates)
    monkeypatch.setattr(support, "_PIVOT_BLOCK", block)
    X = walk(rng, 60)
    assert mp_mah(columns(X), 25).tolist() == oracle.mp_mah(oracle.gaussian(X, X, 0.5), 25)


def test_mp_kpca_minimizes_the_sum_of_errors(rng):
    X = walk(rng, 40)
    assert mp_kpca(columns(X), 15).tolist() == oracle.mp_kpca(oracle.gaussian(X, X, 0.5), 15)


@pytest.mark.parametrize("block", [256, 7, 1])
@pytest.mark.parametrize("threshold", [0.3, 0.03])
def test_online_mah_selects_rows_beyond_the_threshold(rng, monkeypatch, block, threshold):
    monkeypatch.setattr(support, "_ONLINE_BLOCK", block)
    X = walk(rng, 80)
    expected = oracle.online_mah(oracle.gaussian(X, X, 0.5), threshold)
    assert online_mah(columns(X), threshold).tolist() == expected
    assert online_mah(columns(X), threshold, 5).tolist() == expected[:5]


@pytest.mark.parametrize("select", [mp_mah, mp_kpca])
def test_selections_are_nested(rng, select):
    X = walk(rng, 300)
    largest = select(columns(X), 90)
    for size in (1, 30, 64, 65):
        assert select(columns(X), size).tolist() == largest[:size].tolist()
    assert len(set(largest.tolist())) == 90


@pytest.mark.parametrize("select", [mp_mah, mp_kpca])
def test_selection_stops_at_the_threshold(rng, select):
    X = walk(rng, 100)
    chosen = select(columns(X), 100, 0.05)
    K = oracle.gaussian(X, X, 0.5)
    assert oracle.errors(K, chosen).max() <= 0.05 < oracle.errors(K, chosen[:-1]).max()


@pytest.mark.parametrize("select", [mp_mah, mp_kpca])
def test_selection_stops_at_the_rank(rng, select):
    X = rng.standard_normal((50, 4))
    chosen = select(KernelColumns(np.repeat(X, 2, axis=0), "linear"), 30)
    assert len(chosen) == 4
    assert len(online_mah(KernelColumns(X, "linear"), 1e-9)) == 4


def test_the_first_of_equal_rows_is_selected(rng):
    X = np.repeat(walk(rng, 5), 3, axis=0)
    assert sorted(mp_mah(columns(X), 5)) == [0, 3, 6, 9, 12]


def test_mp_mah_computes_only_columns_it_needs(rng):
    X, calls = walk(rng, 200), []

    class Counted(KernelColumns):
        def block(self, rows, cols):
            calls.append(len(cols))
            return super().block(rows, cols)

    mp_mah(Counted(X, "rbf", {"gamma": 0.5}), 10)
    assert sum(calls) <= 2 * 10


def test_random_support_is_nested():
    large = random_support(100, 50, np.random.RandomState(3))
    assert random_support(100, 20, np.random.RandomState(3)).tolist() == large[:20].tolist()
    assert len(set(large.tolist())) == 50


@pytest.mark.parametrize("metric", ["linear", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"])
def test_diagonal_of_every_kernel(rng, metric):
    X = rng.standard_normal((70, 3))
    kernel = KernelColumns(X, metric)
    full = kernel.block(slice(None), np.arange(70))
    np.testing.assert_allclose(kernel.diagonal(), np.diagonal(full), atol=EXACT)
    precomputed = KernelColumns(full, "precomputed")
    np.testing.assert_array_equal(precomputed.diagonal(), np.diagonal(full))
    np.testing.assert_array_equal(precomputed.block(slice(3, 5), np.array([1, 7])), full[3:5][:, [1, 7]])
