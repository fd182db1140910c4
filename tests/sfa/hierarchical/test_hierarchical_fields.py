"""Receptive fields: the input positions of every node."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from probsfa.sfa.hierarchical.layers import receptive_fields


@pytest.mark.parametrize(
    ("grid", "field", "stride"),
    [((6,), 2, None), ((7,), 3, 2), ((6, 4), (2, 4), None), ((5, 7), (3, 3), (2, 1)), ((4, 4), 1, 1)],
)
def test_fields_equal_sliding_windows_of_a_grid_of_indices(grid, field, stride):
    positions, nodes = receptive_fields(grid, field, stride, "layers[0]")
    indices = np.arange(np.prod(grid)).reshape(grid)
    shape = np.broadcast_to(field, len(grid))
    steps = shape if stride is None else np.broadcast_to(stride, len(grid))
    windows = np.lib.stride_tricks.sliding_window_view(indices, tuple(shape))
    windows = windows[tuple(slice(None, None, s) for s in steps)]
    assert nodes == windows.shape[: len(grid)]
    assert_array_equal(positions, windows.reshape(np.prod(nodes), -1))


def test_without_a_field_one_node_has_all_positions():
    positions, nodes = receptive_fields((2, 3), None, None, "layers[0]")
    assert_array_equal(positions, [range(6)])
    assert nodes == (1, 1)


@pytest.mark.parametrize("grid", [(9,), (8, 5)])
def test_fields_cover_every_position(grid):
    for field in range(1, min(grid) + 1):
        for stride in range(1, field + 1):
            if all((n - field) % stride == 0 for n in grid):
                positions, _ = receptive_fields(grid, field, stride, "layers[0]")
                assert_array_equal(np.unique(positions), np.arange(np.prod(grid)))


@pytest.mark.parametrize(
    ("field", "stride", "message"),
    [
        (4, None, r"layers\[1\].*4.*4.*2.*6.*0"),
        (7, None, r"layers\[1\].field.*7.*0.*6"),
        (2, 3, r"layers\[1\].stride.*3.*0.*2"),
        ((2, 2), None, r"layers\[1\].field.*1"),
        (0, None, r"layers\[1\].field"),
        (2, 1.0, r"layers\[1\].stride"),
        (True, None, r"layers\[1\].field must be"),
    ],
)
def test_invalid_fields_and_strides_are_refused(field, stride, message):
    with pytest.raises(ValueError, match=message):
        receptive_fields((6,), field, stride, "layers[1]")
