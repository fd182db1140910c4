"""The search for neighbours, by tree and without, against all distances."""

import numpy as np
import pytest

from probsfa.graphs._sparse import neighbor_edges


def distances(rows, points):
    return np.sqrt(((rows[:, None] - points) ** 2).sum(axis=2))


@pytest.mark.parametrize("n_features", [1, 3, 15, 16, 40])
@pytest.mark.parametrize("count", [1, 4, 29])
def test_neighbours_of_points_are_the_closest_others(rng, n_features, count):
    points = rng.standard_normal((30, n_features))
    far = distances(points, points)
    np.fill_diagonal(far, np.inf)
    expected = far <= np.sort(far, axis=1)[:, count - 1 : count]
    found = neighbor_edges(points, count)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.indices.dtype == np.int32


@pytest.mark.parametrize("n_features", [2, 20])
def test_equal_points_are_never_their_own_neighbours(n_features):
    # With more equal points than requested neighbours, the search may omit the point itself.
    points = np.zeros((40, n_features))
    points[30:] = 1.0
    found = neighbor_edges(points, 5).toarray()
    assert not found.diagonal().any()
    np.testing.assert_array_equal(found.sum(axis=1), 5)
    assert not found[:30, 30:].any() and not found[30:, :30].any()
