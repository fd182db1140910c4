"""Probabilistic fits of sequences on a cluster equal the fits in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from probsfa import ProbabilisticSFA
from probsfa._threads import n_cores
from probsfa._validation import Sequences
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import make_parameters
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.panel import make_panel
from tests.sampling import parametrize
from tests.tolerances import EXACT

dask = pytest.importorskip("dask", reason="needs probsfa[dask]")
da = pytest.importorskip("dask.array", reason="needs probsfa[dask]")
distributed = pytest.importorskip("probsfa.distributed")
_sequences = pytest.importorskip("probsfa.distributed._sequences")
whole_sequences = _sequences.whole_sequences

LENGTHS = (120, 40, 1, 150, 89)


@pytest.mark.parametrize(("n_rows", "n_parts"), [(500_000, 30), (10_000, 16), (10**8, 256)])
def test_short_sequences_of_an_array_are_combined_in_tasks(n_rows, n_parts):
    data = da.zeros((n_rows, 2), chunks=(n_rows, 2))
    lengths = (n_rows // 1000,) * 1000
    assert _sequences._n_parts(data) == n_parts
    groups = whole_sequences(ProbabilisticSFA(1), data, lengths=lengths, n_parts=n_parts)
    assert 0.8 * n_parts <= len(groups) <= n_parts


@pytest.fixture(autouse=True)
def in_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def test_tasks_use_one_thread(monkeypatch):
    """Tasks run in parallel, so that further threads would wait for each other."""
    seen = []
    monkeypatch.setattr(_sequences, "expected_statistics", lambda *args, **options: seen.append(n_cores()))
    _sequences._em_sums(None, None)
    assert seen == [1]


@pytest.fixture
def X(rng):
    series = make_slow_mixture(400, 5, decay=[0.97, 0.6], noise_variance=0.3, random_state=3)
    X = series.data * [1.0, 2.0, 0.1, 1.0, 1.0] + [0.0, 1e6, 0.0, 0.0, -3.0]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:120, 4] = np.nan  # a column that one sequence does not observe
    return X


def assert_same(found, expected):
    assert found.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-8)
    np.testing.assert_allclose(found.decay_, expected.decay_, rtol=1e-8)
    scale = np.abs(expected.loadings_).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found.loadings_ / scale, expected.loadings_ / scale, atol=1e-8)
    np.testing.assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-8)
    np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-8, atol=1e-8)
    assert found.n_features_in_ == expected.n_features_in_


@pytest.fixture
def in_memory(X):
    return ProbabilisticSFA(2).fit(X, lengths=LENGTHS)


def test_an_array_with_chunks_of_any_shape(X, in_memory):
    on_cluster = da.from_array(X, chunks=(37, 3))
    assert_same(distributed.fit(ProbabilisticSFA(2), on_cluster, lengths=LENGTHS), in_memory)


def test_a_list_of_sequences_some_to_a_task(X, in_memory, monkeypatch):
    monkeypatch.setattr("probsfa.distributed._sequences._MAX_PARTS", 3)
    pieces = np.split(X, np.cumsum(LENGTHS)[:-1])
    on_cluster = [dask.delayed(pieces[0]), da.from_array(pieces[1], chunks=(7, 2)), *pieces[2:]]
    assert_same(distributed.fit(ProbabilisticSFA(2), on_cluster), in_memory)


@parametrize("noise", ["isotropic", 0.05])
def test_isotropic_and_fixed_noise(X, noise):
    X = X - np.nanmean(X, axis=0)
    expected = ProbabilisticSFA(2, noise=noise).fit(X, lengths=LENGTHS)
    on_cluster = da.from_array(X, chunks=(100, 5))
    assert_same(distributed.fit(ProbabilisticSFA(2, noise=noise), on_cluster, lengths=LENGTHS), expected)


def test_initialization_from_a_sample_gives_the_same_optimum(X, monkeypatch):
    monkeypatch.setattr("probsfa.distributed._sequences._MAX_START_VALUES", 1500)
    found = distributed.fit(ProbabilisticSFA(2, tol=1e-4), da.from_array(X, chunks=(100, 5)), lengths=LENGTHS)
    assert found.converged_
    in_memory = ProbabilisticSFA(2, tol=1e-4).fit(X, lengths=LENGTHS)
    assert found.log_likelihood_ == pytest.approx(in_memory.log_likelihood_, abs=1e-3)


def test_statistics_are_summed_on_a_cluster(X):
    cluster = pytest.importorskip("distributed", reason="needs probsfa[dask]")
    from probsfa.distributed._sequences import DistributedPanel

    X = X - np.nanmean(X, axis=0)
    params = make_parameters([0.9, 0.4], np.linspace(-1, 1, 10).reshape(5, 2), np.linspace(0.1, 0.5, 5))
    expected = expected_statistics(params, make_panel(Sequences(X, LENGTHS)))
    with (
        cluster.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as local,
        cluster.Client(local),
        dask.config.set(scheduler=None),
    ):
        pieces = np.split(X, np.cumsum(LENGTHS)[:-1])
        panels = dask.persist(*(dask.delayed(make_panel)(Sequences(x, (len(x),))) for x in pieces))
        found = DistributedPanel(panels).expected_statistics(params)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=EXACT)


class TestMistakes:
    def test_a_column_without_observed_values_is_refused(self, X):
        X[:, 3] = np.nan
        with pytest.raises(ValueError, match="column 3"):
            distributed.fit(ProbabilisticSFA(2), da.from_array(X, chunks=(100, 5)))

    def test_sequences_of_one_row_are_refused(self, X):
        with pytest.raises(ValueError, match="two rows"):
            distributed.fit(ProbabilisticSFA(2), da.from_array(X), lengths=[1] * 400)

    def test_zero_noise_is_refused(self, X):
        with pytest.raises(ValueError, match=r"noise=0\.0 is equivalent to"):
            distributed.fit(ProbabilisticSFA(2, noise=0.0), da.from_array(X))

    def test_infinity_is_refused_with_its_part_and_position(self, X):
        X[130, 1] = np.inf
        with pytest.raises(ValueError, match=r"X\[120:160\].*infinity.*row 10, column 1"):
            distributed.fit(ProbabilisticSFA(2), da.from_array(X), lengths=LENGTHS)


def test_frames_with_dates_are_even_or_refused(rng):
    frame = pd.DataFrame(rng.standard_normal((60, 2)).cumsum(axis=0))
    hourly = frame.set_axis(pd.date_range("2024", periods=60, freq="h"))
    fits = [ProbabilisticSFA(1, max_iter=5), ProbabilisticSFA(1, max_iter=5)]
    with pytest.warns(ConvergenceWarning):
        in_memory = fits[0].fit([hourly[:20], hourly[20:]])
    with pytest.warns(ConvergenceWarning):
        found = distributed.fit(fits[1], [dask.delayed(hourly[:20]), dask.delayed(hourly[20:])])
    np.testing.assert_allclose(found.decay_, in_memory.decay_, rtol=1e-8)
    gap = hourly.drop(hourly.index[30:40])
    with pytest.raises(ValueError, match=r"X\[1\]"):
        distributed.fit(ProbabilisticSFA(1), [dask.delayed(gap[:20]), dask.delayed(gap[20:])])
