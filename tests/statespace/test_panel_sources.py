"""Row sources: arrays, and objects that read rows on demand."""

import numpy as np

from probsfa.statespace.panel import RowSource, resident_bytes


class Reader:
    shape = (4, 2)

    def __getitem__(self, rows):
        return np.ones((4, 2))[rows]


def test_arrays_and_readers_are_row_sources():
    assert isinstance(np.ones((4, 2)), RowSource) and isinstance(Reader(), RowSource)
    assert not isinstance([1.0], RowSource)


def test_only_arrays_in_memory_have_resident_bytes(tmp_path):
    assert resident_bytes(np.ones((4, 2))) == 64
    assert resident_bytes(Reader()) is None
    assert resident_bytes(np.memmap(tmp_path / "rows", np.float64, "w+", shape=(4, 2))) is None
