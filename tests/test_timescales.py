"""Time scales agree with their definition."""

import numpy as np

from probsfa._times import timescales_from_decay
from tests.tolerances import EXACT


def test_correlations_fall_to_one_over_e_in_a_time_scale():
    decay = np.array([[0.99, 0.5], [0.1, 1e-9]])
    scales = timescales_from_decay(decay, 60.0)
    np.testing.assert_allclose(decay ** (scales / 60.0), np.exp(-1.0), rtol=EXACT)


def test_decays_that_are_not_positive_have_none():
    assert np.all(np.isnan(timescales_from_decay(np.array([0.0, -0.5, -1.0]))))
