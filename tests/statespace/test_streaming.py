"""Series that are read in blocks have the same statistics and fits as series in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from probsfa import ProbabilisticSFA
from probsfa.statespace import streaming
from probsfa.statespace.engine.core.algorithm import Core
from probsfa.statespace.engine.posterior import expected_statistics, log_likelihood
from probsfa.statespace.engine.sweep import Sweep
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, needs_core, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT


@pytest.fixture
def series(rng):
    model = oracle.random_model(rng, 4, 2)
    data = mask_values(rng, oracle.simulate(rng, model, [150, 1, 250]), "scattered")
    return model, np.concatenate(data), (150, 1, 250)


@pytest.mark.parametrize("algorithm", [Sweep(chunk_rows=64), pytest.param(Core(), marks=needs_core)])
def test_streamed_sums_are_those_in_memory(series, algorithm):
    model, X, lengths = series
    params = to_parameters(model)
    parts = np.split(X, np.cumsum(lengths)[:-1])
    expected = expected_statistics(params, to_panel(parts)), log_likelihood(params, to_panel(parts))
    panel = streaming.stream(X, lengths, np.zeros(4), np.ones(4))
    found = algorithm.expected_statistics(params, panel)
    for name, one, other in zip(found._fields, found, expected[0], strict=True):
        assert scaled_error(one, other) < EXACT, name
    assert algorithm.log_likelihood(params, panel) == pytest.approx(expected[1], rel=EXACT)


def test_at_most_one_chunk_is_read_at_a_time(series):
    model, X, lengths = series

    class Counted:
        shape = X.shape
        most = 0

        def __getitem__(self, rows):
            self.most = max(self.most, len(X[rows]))
            return X[rows]

    source = Counted()
    panel = streaming.stream(source, lengths, np.zeros(4), np.ones(4))
    Sweep(chunk_rows=64).expected_statistics(to_parameters(model), panel)
    assert source.most == 64


def test_scan_gives_the_moments_of_observed_values(rng, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 16)
    X = rng.standard_normal((70, 3)) * [1.0, 1e-6, 1e6] + [0.0, 1.0, 1e8]
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:20, 1] = np.nan
    found = streaming.scan(BaseEstimator(), X)
    np.testing.assert_array_equal(found.counts, np.sum(~np.isnan(X), axis=0))
    np.testing.assert_allclose(found.means, np.nanmean(X, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.stds, np.nanstd(X, axis=0), rtol=1e-8)


def test_sample_is_of_whole_segments_inside_sequences(rng, monkeypatch):
    X = np.arange(400.0)[:, None] + np.array([0.0, 0.5])
    monkeypatch.setattr(streaming, "_MAX_START_VALUES", 160)
    panel = streaming.sample(X, (130, 270), np.zeros(2), np.ones(2))
    assert sum(panel.lengths) <= 80
    ends = np.cumsum(panel.lengths)
    for first, last in zip(ends - panel.lengths, ends - 1, strict=True):
        rows = panel.values[first : last + 1, 0]
        np.testing.assert_array_equal(np.diff(rows), 1.0)
        assert (rows[0] < 130) == (rows[-1] < 130)


def test_streamed_fit_is_the_fit(tmp_path, rng):
    model = oracle.random_model(rng, 4, 2)
    X = mask_values(rng, oracle.simulate(rng, model, [600]), "scattered")[0]
    file = np.memmap(tmp_path / "series", dtype=np.float64, mode="w+", shape=X.shape)
    file[:] = X
    streamed = ProbabilisticSFA(n_components=2).fit_stream(file)
    expected = ProbabilisticSFA(n_components=2).fit(X)
    assert streamed.log_likelihood_ == pytest.approx(expected.log_likelihood_, abs=1e-2)
    np.testing.assert_allclose(streamed.decay_, expected.decay_, atol=1e-3)
    assert streamed.transform(X).shape == (600, 2)


class InBlocks:
    """Like a variable of a netCDF file: an object with a shape, whose slices are masked arrays."""

    def __init__(self, values, mask):
        self.shape = values.shape
        self._rows = np.ma.array(values, mask=mask, fill_value=-999.0)

    def __getitem__(self, rows):
        return self._rows[rows]


@pytest.fixture
def incomplete(rng):
    X = oracle.simulate(rng, oracle.random_model(rng, 3, 1), [90])[0]
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


@pytest.fixture
def blocks(monkeypatch):
    """Divide 90 rows into three blocks."""
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 32)


def test_masked_blocks_are_missing_and_not_their_fill_values(incomplete, blocks):
    source = InBlocks(np.where(np.isnan(incomplete), -999.0, incomplete), np.isnan(incomplete))
    expected = ProbabilisticSFA(1).fit_stream(incomplete)
    found = ProbabilisticSFA(1).fit_stream(source)
    np.testing.assert_array_equal(found.loadings_, expected.loadings_)
    assert found.log_likelihood_ == expected.log_likelihood_
    np.testing.assert_array_equal(found.mean_, expected.mean_)
    masked = np.ma.masked_invalid(incomplete)
    assert ProbabilisticSFA(1).fit_stream(masked).log_likelihood_ == expected.log_likelihood_


def test_a_variable_of_a_netcdf_file_is_read_with_its_missing_values(incomplete, blocks, tmp_path):
    pytest.importorskip("h5py")  # without it, h5netcdf can be imported but writes no file
    h5netcdf = pytest.importorskip("h5netcdf.legacyapi")
    with h5netcdf.Dataset(tmp_path / "series.nc", "w") as file:
        file.createDimension("time", len(incomplete))
        file.createDimension("feature", 3)
        file.createVariable("x", "f8", ("time", "feature"))[:] = incomplete
    with h5netcdf.Dataset(tmp_path / "series.nc", "r") as file:
        found = ProbabilisticSFA(1).fit_stream(file["x"])
    assert found.log_likelihood_ == ProbabilisticSFA(1).fit_stream(incomplete).log_likelihood_


def test_nullable_frames_are_streamed_under_their_names(incomplete, blocks):
    frame = pd.DataFrame(
        incomplete, columns=["wind", "rain", "sun"], index=np.linspace(5.0, 6.0, len(incomplete))
    )
    expected = ProbabilisticSFA(1).fit_stream(incomplete)
    assert not hasattr(expected, "feature_names_in_")
    for given in (frame, frame.convert_dtypes()):
        found = ProbabilisticSFA(1).fit_stream(given)
        assert list(found.feature_names_in_) == ["wind", "rain", "sun"] and found.n_features_in_ == 3
        assert found.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-12)
        with pytest.raises(ValueError, match="feature names"):
            found.transform(frame[["sun", "rain", "wind"]])
    again = found.fit_stream(incomplete)
    assert not hasattr(again, "feature_names_in_")


@pytest.mark.parametrize(
    ("convert", "reason"),
    [
        (lambda X: X.astype(str), "text"),
        (lambda X: X.astype("M8[s]"), "durations"),
        (lambda X: X * 1j, "Complex"),
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 200, "none", X.astype(object)), "text"),
    ],
)
def test_text_dates_and_complex_numbers_are_not_streamed(rng, blocks, convert, reason):
    with pytest.raises(ValueError, match=reason):
        ProbabilisticSFA(1).fit_stream(convert(rng.standard_normal((90, 3))))


def test_an_infinite_value_is_located_within_its_block(rng, blocks):
    X = rng.standard_normal((90, 3))
    X[70, 1] = np.inf
    with pytest.raises(ValueError, match=r"X\[64:90\].*infinity.*row 6, column 1"):
        ProbabilisticSFA(1).fit_stream(X)


def test_the_error_about_lazy_frames_suggests_collect():
    class LazyFrame:
        def collect(self):
            raise AssertionError("collecting is left to the caller")

    with pytest.raises(ValueError, match=r"LazyFrame.*X\.collect\(\).*file"):
        ProbabilisticSFA(1).fit_stream(LazyFrame())


def test_the_error_about_an_empty_streamed_column_contains_its_name(incomplete, blocks):
    incomplete[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"column 1 \('rain'\)"):
        ProbabilisticSFA(1).fit_stream(pd.DataFrame(incomplete, columns=["wind", "rain", "sun"]))


def test_streamed_sequences_of_one_row_have_no_time_scale(rng):
    with pytest.raises(ValueError, match="two rows"):
        ProbabilisticSFA(1).fit_stream(rng.standard_normal((3, 2)), lengths=[1, 1, 1])


def test_bad_sources_are_refused(rng):
    X = rng.standard_normal((50, 3))
    with pytest.raises(ValueError, match="use fit"):
        ProbabilisticSFA().fit_stream(X.tolist())
    with pytest.raises(ValueError, match=r"noise=0\.0.*partial_fit"):
        ProbabilisticSFA(noise=0.0).fit_stream(X)
    infinite = X.copy()
    infinite[31, 2] = np.inf
    with pytest.raises(ValueError, match="row 31, column 2"):
        ProbabilisticSFA().fit_stream(infinite)
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1"):
        ProbabilisticSFA().fit_stream(empty)
    with pytest.raises(ValueError, match="lengths must sum to"):
        ProbabilisticSFA().fit_stream(X, lengths=[10, 10])


def test_a_streamed_fit_to_times_is_the_fit(rng):
    times = np.concatenate([np.cumsum(rng.uniform(0.5, 3.0, 50)), np.cumsum(rng.uniform(0.5, 3.0, 40))])
    X = np.cumsum(rng.standard_normal((90, 3)), axis=0)
    X[rng.random(X.shape) < 0.1] = np.nan
    at = {"lengths": [50, 40], "times": times * 60.0}
    in_memory, streamed = ProbabilisticSFA(1).fit(X, **at), ProbabilisticSFA(1).fit_stream(X, **at)
    assert streamed.time_unit_ == in_memory.time_unit_
    np.testing.assert_allclose(streamed.log_likelihood_, in_memory.log_likelihood_, atol=1e-3)
    np.testing.assert_allclose(streamed.timescales_, in_memory.timescales_, rtol=1e-2)
    np.testing.assert_allclose(streamed.log_likelihood(X, **at), streamed.log_likelihood_, atol=1e-6)


def test_times_of_a_sample_are_those_of_its_segments(rng, monkeypatch):
    monkeypatch.setattr(streaming, "_MAX_START_VALUES", 64)
    X, times = rng.standard_normal((90, 2)), np.cumsum(rng.uniform(0.5, 3.0, 90))
    panel = streaming.sample(X, (90,), np.zeros(2), np.ones(2), times)
    first = 0
    for n in panel.lengths:
        row = int(np.flatnonzero(X[:, 0] == panel.values[first, 0])[0])
        gaps = panel.gaps[panel.gap_index[first + 1 : first + n]]
        np.testing.assert_allclose(gaps, np.diff(times[row : row + n]))
        first += n


@pytest.mark.parametrize("times", [np.arange(3.0), np.zeros(90), list("abc") * 30])
def test_times_of_a_stream_are_checked(rng, times):
    with pytest.raises(ValueError, match="times"):
        ProbabilisticSFA(1).fit_stream(rng.standard_normal((90, 2)), times=times)
