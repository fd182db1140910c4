"""Parameters at many vectors, computed in batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.bayes import Priors
from probsfa.bayes.coordinates.batches import BATCH_SIZE, constrain, factor_coordinates, in_blocks
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.model import as_series
from probsfa.statespace.noise import NoiseVariances
from tests.tolerances import EXACT


@pytest.mark.parametrize("n", [1, BATCH_SIZE - 1, BATCH_SIZE, 2 * BATCH_SIZE + 3])
def test_each_vector_is_computed_once(rng, n):
    vectors, shapes = rng.standard_normal((n, 3)), set()

    def program(block):
        shapes.add(block.shape)
        return 2.0 * block, jnp.sum(block, axis=1)

    doubled, sums = in_blocks(program, vectors)
    np.testing.assert_allclose(doubled, 2.0 * vectors, rtol=1e-6)
    np.testing.assert_allclose(sums, vectors.sum(axis=1), rtol=1e-5, atol=1e-6)
    assert shapes == {(BATCH_SIZE, 3)}


def test_constrain_is_the_inverse_of_to_vector(rng):
    values = {
        "timescale": np.array([4.0, 20.0]),
        "loadings": rng.standard_normal((3, 2)),
        "noise_std": rng.uniform(0.2, 1.0, 3),
        "offset": rng.standard_normal(3),
    }
    target = Target(2, NoiseVariances.diagonal(3), Priors())
    vector = target.to_vector(values)
    with jax.enable_x64(True):
        data = TargetData(as_series(rng.standard_normal((20, 3))))
    draws = constrain(target, data, np.tile(vector, (2, 5, 1)))
    expected = (
        np.exp(-1.0 / values["timescale"]),
        values["loadings"],
        values["noise_std"] ** 2,
        values["offset"],
    )
    assert draws.exog_coef.size == 0
    for name, wanted in zip(("decay", "loadings", "noise_variance", "offset"), expected, strict=True):
        got = getattr(draws, name)
        assert got.shape == (2, 5, *wanted.shape), name
        np.testing.assert_allclose(got[1, 3], wanted, rtol=EXACT)
    timescales, loadings = factor_coordinates(target, None, vector[None])
    np.testing.assert_array_equal(timescales[0], vector[target.slices["timescale"]])
    np.testing.assert_array_equal(loadings[0].ravel(), vector[target.slices["loadings"]])
