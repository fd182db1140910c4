"""Whittle's likelihood: the periodogram and its bands, value and gradient."""

import numpy as np
import pytest

from probsfa.statespace.learning.coordinates import Coordinates, to_vector
from probsfa.statespace.learning.objective import WhittleObjective, band_edges, periodogram
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout
from tests.oracles import statespace as oracle
from tests.statespace.support import scaled_error, to_parameters
from tests.tolerances import EXACT


@pytest.mark.parametrize("lengths", [(40,), (41,), (16, 3, 25), (2, 30), (500,)])
def test_periodogram_adds_up_to_the_power(rng, lengths):
    """By Parseval's theorem the sum over all bands is the second moment about the mean of each sequence."""
    data = [rng.standard_normal((n, 3)) for n in lengths]
    found = periodogram(data)
    used = [x for x in data if len(x) >= 3]
    wanted = sum((x - x.mean(0)).T @ (x - x.mean(0)) for x in used)
    assert scaled_error(found.rows.T @ found.rows, wanted) < EXACT
    assert found.weights.sum() == pytest.approx(sum(len(x) - 1 for x in used), rel=1e-12)
    assert np.all(np.diff(found.frequencies) > 0)
    assert 0 < found.frequencies[0] and found.frequencies[-1] <= np.pi * (1 + 1e-12)
    assert np.all(np.bincount(found.band) == np.diff(found.first, append=len(found.rows)))
    assert np.all(np.bincount(found.band) <= np.maximum(3, 2 * found.weights))


def test_bands_are_narrow_near_zero_and_few():
    edges = band_edges(100_000)
    assert np.all(np.diff(edges) > 0) and len(edges) < 150
    base = 2 * np.pi / 100_000
    np.testing.assert_allclose(np.diff(edges[:8]), base)


def test_single_frequencies_give_whittles_likelihood(rng):
    """In a short series each band has one frequency, and the value is that of the definition."""
    model = oracle.random_model(rng, 3, 2)
    x = oracle.simulate(rng, model, [16])[0]
    x = x - x.mean(axis=0)
    objective = WhittleObjective(
        Coordinates(StateLayout(2), NoiseVariances.diagonal(3), True),
        periodogram([x]),
        to_parameters(model),
        10,
    )
    found = objective(to_vector(objective.coordinates, to_parameters(model)))
    assert found.value == pytest.approx(oracle.whittle_log_likelihood(model, x), rel=EXACT)


@pytest.mark.parametrize("noise", ["diagonal", "isotropic", "known"])
@pytest.mark.parametrize("variance", [0.3, 1e-4])
def test_gradient_equals_finite_differences(rng, noise, variance):
    model = oracle.random_model(rng, 5, 3, variance)
    if noise == "isotropic":
        model = model._replace(noise=np.full(5, variance))
    data = [x - model.offset for x in oracle.simulate(rng, model, [60, 33])]
    objective = WhittleObjective(
        Coordinates(StateLayout(3), getattr(NoiseVariances, noise)(5), True),
        periodogram(data),
        to_parameters(model),
        10**6,
    )
    at = to_vector(objective.coordinates, to_parameters(model))
    # Steps are small relative to the standard deviation of the noise, the scale of the curvature.
    step = np.full(len(at), 1e-3)
    step[objective.coordinates.slices[1]] = 1e-3 * variance**0.5
    wanted = oracle.numerical_gradient(lambda v: objective(v).value, at, step)
    # The value does not depend on the offset.
    np.testing.assert_array_equal(objective(at).gradient[-5:], 0.0)
    assert scaled_error(objective(at).gradient, wanted) < 1e-7


def test_it_approaches_the_exact_likelihood(rng):
    """Differences between two models, divided by T, agree with the exact ones up to terms of order 1 / T."""
    model = oracle.random_model(rng, 2, 1)._replace(decay=np.array([0.5]), offset=np.zeros(2))
    other = model._replace(decay=np.array([0.8]), loadings=3.0 * model.loadings)
    x = oracle.simulate(rng, model, [300])[0]
    objective = WhittleObjective(
        Coordinates(StateLayout(1), NoiseVariances.diagonal(2), True),
        periodogram([x]),
        to_parameters(model),
        10,
    )
    one, two = (objective(to_vector(objective.coordinates, to_parameters(m))).value for m in (model, other))
    loops = [oracle.kalman_loop(m, [x]).row_log_likelihoods.sum() for m in (model, other)]
    assert one - two == pytest.approx(loops[0] - loops[1], abs=3.0)
    assert loops[0] - loops[1] > 10.0


def test_evaluations_are_counted(rng):
    model = oracle.random_model(rng, 3, 2)
    x = oracle.simulate(rng, model, [16])[0]
    objective = WhittleObjective(
        Coordinates(StateLayout(2), NoiseVariances.diagonal(3), True),
        periodogram([x]),
        to_parameters(model),
        2,
    )
    at = to_vector(objective.coordinates, to_parameters(model))
    assert not objective.exhausted
    objective(at), objective(at)
    assert objective.exhausted
