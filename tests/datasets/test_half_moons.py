"""The half-moons agree with their formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probsfa.datasets import make_half_moons
from tests.tolerances import EXACT, mc_tolerance


def test_points_without_noise_are_on_half_circles(seed):
    moons = make_half_moons(101, noise=0.0, random_state=seed)
    assert_array_equal(np.bincount(moons.target), [51, 50])
    for A, sign in ((0, 1.0), (1, -1.0)):
        x, y = moons.data[moons.target == A].T - np.array([[A - 0.5], [-sign / 4]])
        assert_allclose(x**2 + y**2, 1.0, rtol=EXACT)
        assert (sign * y >= 0).all()
        assert_allclose(x, np.cos(moons.angle[moons.target == A]), atol=EXACT)


def test_the_noise_changes_the_radius(seed):
    moons = make_half_moons(20_000, random_state=seed)
    center = np.column_stack([moons.target - 0.5, np.where(moons.target == 0, -0.25, 0.25)])
    radius = np.linalg.norm(moons.data - center, axis=1)
    assert abs(radius.mean() - 1) < mc_tolerance(0.01, 20_000)
    assert abs(radius.var() - 0.01) < mc_tolerance(2 * 0.01**2, 20_000)


def test_equal_seeds_give_equal_points():
    assert_array_equal(make_half_moons(10, random_state=3).data, make_half_moons(10, random_state=3).data)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"n_samples": 1}, "n_samples"), ({"n_samples": 2.5}, "n_samples"), ({"noise": -1.0}, "noise")],
)
def test_errors_name_invalid_arguments(settings, words):
    with pytest.raises(ValueError, match=words):
        make_half_moons(**settings)
