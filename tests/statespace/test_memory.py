"""Imputation in blocks of rows: its results, and its use of memory."""

import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import models
from tests.statespace.support import uneven_times
from tests.tolerances import EXACT


@pytest.fixture
def data():
    return make_slow_mixture(
        400, 4, decay=[0.95, 0.7], noise_variance=0.3, missing_fraction=0.2, random_state=0
    ).data


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("cuts", [None, [150, 1, 249]])
def test_imputation_in_blocks_equals_imputation_at_once(data, rng, monkeypatch, timed, cuts):
    given = {"lengths": cuts}
    if timed:
        given["times"] = np.concatenate(uneven_times(rng, cuts or [400]))
    model = ProbabilisticSFA(2, tol=10.0).fit(data, **given)
    expected = model.impute(data, return_std=True, **given)
    monkeypatch.setattr(models, "_MAX_STORED_BYTES", 0)
    values, std = model.impute(data, return_std=True, **given)
    np.testing.assert_allclose(values, expected[0], rtol=EXACT, atol=1e-12)
    np.testing.assert_allclose(std, expected[1], rtol=EXACT, atol=1e-12)
    np.testing.assert_array_equal(model.impute(data, **given), values)


def resident_bytes():
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_imputation_of_a_large_array_needs_four_times_its_memory():
    """The array, the result, and temporary blocks, whose memory the allocator may not return."""
    small = make_slow_mixture(2_000, 10, decay=[0.95, 0.7], noise_variance=0.3, random_state=0).data
    model = ProbabilisticSFA(10, tol=1e3).fit(small)
    data = np.tile(small, (1_000, 1))
    data[::7, 3] = np.nan
    assert data.nbytes == 160_000_000
    model.impute(data[:20_000])  # compile before the measurement
    peak, done = [resident_bytes()], threading.Event()
    before = peak[0] - data.nbytes

    def watch():
        while not done.is_set():
            peak[0] = max(peak[0], resident_bytes())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        filled = model.impute(data)
    finally:
        done.set()
        watcher.join()
    assert not np.isnan(filled).any()
    assert peak[0] - before < 4.0 * data.nbytes
