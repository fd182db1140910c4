"""Transitions of processes for arrays of JAX are those for arrays of NumPy."""

import jax
import numpy as np
import pytest
from scipy.special import gammainc

from probsfa.statespace.engine.dynamics import block_transitions
from probsfa.statespace.processes import KINDS
from probsfa.statespace.processes.matern import _gammainc_3

GAPS = np.array([1e-3, 1.0, 2.5, 40.0])


@pytest.mark.parametrize("library", [np.asarray, jax.numpy.asarray])
def test_the_incomplete_gamma_function_is_accurate_for_small_numbers(library):
    x = np.geomspace(1e-6, 30.0, 50)
    with jax.enable_x64(True):
        np.testing.assert_allclose(_gammainc_3(library(x)), gammainc(3.0, x), rtol=1e-12)


def test_transitions_by_jax_are_those_by_numpy():
    processes = [kind.arbitrary(2) for kind in KINDS]
    with jax.enable_x64(True):
        traced = [type(one)(*map(jax.numpy.asarray, one.arrays().values())) for one in processes]
        found = jax.jit(lambda gaps: block_transitions(traced, gaps))(GAPS)
    expected = block_transitions(processes, GAPS)
    assert [group.matrix.shape[1:3] for group in expected] == [(2, 1), (6, 2), (2, 3)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one.matrix), other.matrix, rtol=1e-13, atol=1e-15)
        # Covariances are compared in units of standard deviations, which are between 1e-11 and 1.
        std = np.sqrt(np.diagonal(other.innovation, axis1=2, axis2=3))
        units = std[..., :, None] * std[..., None, :]
        np.testing.assert_allclose(np.asarray(one.innovation) / units, other.innovation / units, atol=1e-12)
