"""Fits of distributed data equal the fits in memory, also across boundaries of chunks."""

import subprocess
import sys

import numpy as np
import pytest

from probsfa import SFA, GraphSFA, graphs
from probsfa.distributed._graph_moments import graph_moments as distributed_graph_moments
from probsfa.distributed._moments import temporal_moments as distributed_temporal_moments
from probsfa.expansions import Polynomial
from probsfa.graphs.training_graph import graph_moments
from tests.oracles import sfa as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT

dask = pytest.importorskip("dask", reason="needs probsfa[dask]")
da = pytest.importorskip("dask.array", reason="needs probsfa[dask]")
distributed = pytest.importorskip("probsfa.distributed")


@pytest.fixture(autouse=True)
def in_process():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def X(rng):
    return np.cumsum(rng.standard_normal((400, 4)), axis=0) + 1e5


def assert_same(found, expected):
    np.testing.assert_allclose(found.delta_values_, expected.delta_values_, rtol=EXACT)
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-8, atol=EXACT)
    np.testing.assert_allclose(found.mean_, expected.mean_, rtol=EXACT)
    assert found.rank_ == expected.rank_


@parametrize("chunk", [1, 3, 16, 60], quick=[1, 16])
@parametrize("lag", [1, 5, 20], quick=[1, 20])
@pytest.mark.parametrize("lengths", [None, [25, 2, 1, 32], [16, 16, 28]])
def test_moments_equal_the_definition(X, chunk, lag, lengths):
    X = X[:60]
    found = distributed_temporal_moments(da.from_array(X, chunks=(chunk, 2)), lengths=lengths, lag=lag)
    pieces = np.split(X, np.cumsum(lengths or [60])[:-1])
    n, mean, B, pairs, A = oracle.moments(pieces, lag)
    assert (found.n_rows, found.n_differences, found.lag) == (n, pairs, lag)
    np.testing.assert_allclose(found.mean, mean, rtol=EXACT)
    # With an offset, the definition has rounding errors.
    np.testing.assert_allclose(found.covariance, B, rtol=1e-8)
    np.testing.assert_allclose(found.difference_moment, A, rtol=1e-8, atol=1e-8 * np.abs(A).max())


def test_chunks_of_any_sizes_and_missing_rows(X):
    X[::17, 1] = np.nan
    on_cluster = da.from_array(X, chunks=((1, 200, 4, 195), (1, 3)))
    found = distributed.fit(SFA(missing="skip", lag=2), on_cluster, lengths=[150, 250])
    assert_same(found, SFA(missing="skip", lag=2).fit(X, lengths=[150, 250]))


def test_a_list_of_sequences(X):
    pieces = [X[:100], X[100:103], X[103:]]
    expected = SFA(n_components=2).fit(pieces)
    on_cluster = [dask.delayed(pieces[0].tolist()), da.from_array(pieces[1], chunks=(2, 4)), pieces[2]]
    assert_same(distributed.fit(SFA(n_components=2), on_cluster), expected)


@pytest.mark.parametrize("lag", [1, 9])
def test_a_fit_can_be_continued(X, lag):
    in_memory, later = SFA(lag=lag).fit(X[:250], lengths=[235, 15]), X[250:]
    on_cluster = distributed.fit(SFA(lag=lag), da.from_array(X[:250], chunks=(3, 4)), lengths=[235, 15])
    assert_same(on_cluster.partial_fit(later), in_memory.partial_fit(later))


def test_expansions_are_applied_on_the_workers(X):
    X = X[:, :2] - 1e5
    expected = SFA(n_components=3, expansion=Polynomial(2)).fit(X)
    assert_same(
        distributed.fit(SFA(n_components=3, expansion=Polynomial(2)), da.from_array(X, chunks=(37, 2))),
        expected,
    )


def graph_of(kind, X, y):
    if kind == "neighbours":
        return graphs.nearest_neighbors(X, 5)
    if kind == "time at lag 3":
        return graphs.temporal(len(X), lag=3)
    return graphs.union([graphs.temporal(len(X)), graphs.clustered(y)]) if kind == "union" else kind


@pytest.mark.parametrize(
    "kind", ["temporal", "clustered", "serial", "sliding_window", "neighbours", "time at lag 3", "union"]
)
def test_graphs(rng, X, kind):
    X = X - 1e5
    y = rng.integers(0, 5, len(X)) if kind in ("clustered", "union") else rng.standard_normal(len(X))
    expected = GraphSFA(graph=graph_of(kind, X, y)).fit(X, y)
    on_cluster = da.from_array(X, chunks=(129, 2))
    assert_same(distributed.fit(GraphSFA(graph=graph_of(kind, X, y)), on_cluster, da.from_array(y)), expected)


def test_graph_moments_by_panels_of_columns(rng, X, monkeypatch):
    monkeypatch.setattr("probsfa.distributed._graph_moments._BLOCK_SIZE", 400)  # one column at a time
    y = rng.integers(0, 3, len(X))
    graph = graphs.clustered(y)
    found = distributed_graph_moments(graph, [da.from_array(X[:50]), da.from_array(X[50:], chunks=(99, 4))])
    for a, b in zip(found, graph_moments(graph, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_temporal_graph_of_sequences(X):
    pieces = [X[:150], X[150:]]
    expected = GraphSFA(graph="temporal").fit(pieces)
    assert_same(distributed.fit(GraphSFA(graph="temporal"), [dask.delayed(x) for x in pieces]), expected)


def test_on_a_cluster(X):
    cluster = pytest.importorskip("distributed", reason="needs probsfa[dask]")
    with (
        cluster.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as local,
        cluster.Client(local) as client,
        dask.config.set(scheduler=None),
    ):
        on_cluster = distributed.fit(SFA(), da.from_array(X, chunks=(60, 4)))
        futures = client.scatter([X[:150], X[150:]])
        apart = distributed.fit(SFA(), futures)
    assert_same(on_cluster, SFA().fit(X))
    assert_same(apart, SFA().fit([X[:150], X[150:]]))


class TestMistakes:
    def test_a_bad_value_is_named_with_its_part(self, X):
        X[250, 2] = np.nan
        with pytest.raises(ValueError, match=r"X\[200:300\].*NaN.*row 50, column 2"):
            distributed.fit(SFA(), da.from_array(X, chunks=(100, 4)))
        with pytest.raises(ValueError, match=r"X\[1\].*NaN.*row 50, column 2. SFA"):
            distributed.fit(SFA(), [dask.delayed(X[:200]), dask.delayed(X[200:])])

    def test_unequal_columns(self, X):
        with pytest.raises(ValueError, match=r"X\[1\]: X.*3.*SFA.*4"):
            distributed.fit(SFA(), [dask.delayed(X), dask.delayed(X[:, :3])])

    def test_data_in_memory(self, X):
        with pytest.raises(ValueError, match=r"\bX\b.*dask.array"):
            distributed.fit(SFA(), X)
        with pytest.raises(ValueError, match="list without"):
            distributed.fit(SFA(), [])

    def test_unknown_chunks(self, X):
        on_cluster = da.from_array(X, chunks=(100, 4))
        with pytest.raises(ValueError, match=r"X.compute_chunk_sizes\(\)"):
            distributed.fit(SFA(), on_cluster[on_cluster[:, 0] > 0])

    def test_one_dimension(self, X):
        with pytest.raises(ValueError, match="X is 1-dimensional"):
            distributed.fit(SFA(), da.from_array(X[:, 0]))

    def test_lengths_of_a_list(self, X):
        with pytest.raises(ValueError, match="lengths cannot be given"):
            distributed.fit(SFA(), [dask.delayed(X)], lengths=[400])

    def test_graphs_that_need_the_rows_here(self, X):
        on_cluster = da.from_array(X)
        with pytest.raises(ValueError, match="graph='nearest_neighbors' is built from"):
            distributed.fit(GraphSFA(graph="nearest_neighbors"), on_cluster)
        with pytest.raises(ValueError, match="graph has 3 vertices"):
            distributed_graph_moments(graphs.temporal(3), on_cluster)
        with pytest.raises(ValueError, match=r"\bX\b"):
            distributed.fit(GraphSFA(graph="clustered"), [dask.delayed(X)], np.zeros(400))

    def test_other_estimators(self, X):
        from sklearn.decomposition import PCA

        with pytest.raises(TypeError, match="got PCA"):
            distributed.fit(PCA(), da.from_array(X))


def test_without_dask():
    code = (
        "import sys; sys.modules['dask'] = None\n"
        "import probsfa.distributed as d, numpy as np\n"
        "from probsfa import SFA\n"
        "try: d.fit(SFA(), [np.zeros((3, 2))])\n"
        "except ImportError as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'probsfa[dask]'" in found


def test_import_loads_neither_dask_nor_jax():
    code = "import sys, probsfa.distributed; print('dask' in sys.modules, 'jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["False", "False"]
