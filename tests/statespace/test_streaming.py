"""Series read block by block give the sums, and the fit, of series in memory."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace import posterior, streaming
from probsfa.statespace.engine import chunks
from probsfa.statespace.posterior import expected_statistics, log_likelihood
from tests.oracles import statespace as oracle
from tests.sampling import sparsely
from tests.statespace.support import punch, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT


@pytest.fixture
def series(rng):
    model = oracle.random_model(rng, 4, 2)
    data = punch(rng, oracle.simulate(rng, model, [150, 1, 250]), "scattered")
    return model, np.concatenate(data), (150, 1, 250)


@sparsely("kept", [0, 2**30])
def test_streamed_sums_are_those_in_memory(series, monkeypatch, kept):
    model, X, lengths = series
    params = to_parameters(model)
    parts = np.split(X, np.cumsum(lengths)[:-1])
    wanted = expected_statistics(params, to_panel(parts)), log_likelihood(params, to_panel(parts))
    monkeypatch.setattr(chunks, "chunk_rows", lambda n, k: 64)
    monkeypatch.setattr(posterior, "_KEPT_BYTES", kept)
    panel = streaming.stream(X, lengths, np.zeros(4), np.ones(4))
    found = expected_statistics(params, panel)
    for name, one, other in zip(found._fields, found, wanted[0], strict=True):
        assert scaled_error(one, other) < EXACT, name
    assert log_likelihood(params, panel) == pytest.approx(wanted[1], rel=EXACT)


def test_no_more_than_a_chunk_is_read_at_once(series, monkeypatch):
    model, X, lengths = series

    class Counted:
        shape = X.shape
        most = 0

        def __getitem__(self, rows):
            self.most = max(self.most, len(X[rows]))
            return X[rows]

    source = Counted()
    monkeypatch.setattr(chunks, "chunk_rows", lambda n, k: 64)
    expected_statistics(to_parameters(model), streaming.stream(source, lengths, np.zeros(4), np.ones(4)))
    assert source.most == 64


def test_scan_gives_the_moments_of_observed_cells(rng, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 16)
    X = rng.standard_normal((70, 3)) * [1.0, 1e-6, 1e6] + [0.0, 1.0, 1e8]
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:20, 1] = np.nan
    found = streaming.scan(X)
    np.testing.assert_array_equal(found.counts, np.sum(~np.isnan(X), axis=0))
    np.testing.assert_allclose(found.means, np.nanmean(X, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.stds, np.nanstd(X, axis=0), rtol=1e-8)


def test_sample_is_of_whole_stretches_inside_sequences(rng, monkeypatch):
    X = np.arange(400.0)[:, None] + np.array([0.0, 0.5])
    monkeypatch.setattr(streaming, "_START_CELLS", 160)
    panel = streaming.sample(X, (130, 270), np.zeros(2), np.ones(2))
    assert sum(panel.lengths) <= 80
    ends = np.cumsum(panel.lengths)
    for first, last in zip(ends - panel.lengths, ends - 1, strict=True):
        rows = panel.values[first : last + 1, 0]
        np.testing.assert_array_equal(np.diff(rows), 1.0)
        assert (rows[0] < 130) == (rows[-1] < 130)


def test_streamed_fit_is_the_fit(tmp_path, rng):
    model = oracle.random_model(rng, 4, 2)
    X = punch(rng, oracle.simulate(rng, model, [600]), "scattered")[0]
    file = np.memmap(tmp_path / "series", dtype=np.float64, mode="w+", shape=X.shape)
    file[:] = X
    streamed = ProbabilisticSFA(n_components=2).fit_stream(file)
    wanted = ProbabilisticSFA(n_components=2).fit(X)
    assert streamed.log_likelihood_ == pytest.approx(wanted.log_likelihood_, abs=1e-2)
    np.testing.assert_allclose(streamed.decay_, wanted.decay_, atol=1e-3)
    assert streamed.transform(X).shape == (600, 2)


def test_bad_sources_are_refused(rng):
    X = rng.standard_normal((50, 3))
    with pytest.raises(ValueError, match="use fit"):
        ProbabilisticSFA().fit_stream(X.tolist())
    with pytest.raises(ValueError, match="partial_fit"):
        ProbabilisticSFA(noise=0.0).fit_stream(X)
    infinite = X.copy()
    infinite[31, 2] = np.inf
    with pytest.raises(ValueError, match="row 31, column 2"):
        ProbabilisticSFA().fit_stream(infinite)
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1"):
        ProbabilisticSFA().fit_stream(empty)
    with pytest.raises(ValueError, match="lengths"):
        ProbabilisticSFA().fit_stream(X, lengths=[10, 10])
