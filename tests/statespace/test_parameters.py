"""StateSpace and StateLayout: coordinates, canonical form, arrays by name, and pickles."""

import copy
import copyreg
import pickle
import warnings
from dataclasses import FrozenInstanceError

import jax
import numpy as np
import pytest

from probsfa.statespace import make_parameters
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, to_vector
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout, StateSpace, canonical, rescale, with_more_factors
from tests.oracles import statespace as oracle
from tests.statespace.support import to_parameters


@pytest.mark.parametrize("noise", ["diagonal", "isotropic", "known"])
def test_coordinates_are_counted_without_parameters(rng, noise):
    params = to_parameters(oracle.random_model(rng, 5, 3)._replace(noise=np.full(5, 0.3)))
    coordinates = Coordinates(StateLayout(3), getattr(NoiseVariances, noise)(5), True)
    assert params.state_layout == coordinates.state_layout and params.n_states == coordinates.n_states == 3
    vector = to_vector(coordinates, params)
    assert vector.shape == (coordinates.size,)
    dynamics, loadings, _, _ = coordinates.slices
    assert vector[dynamics].shape == (coordinates.state_layout.n_dynamics,)
    # Loadings that the canonical form fixes are not free.
    n_fixed = np.count_nonzero(~params.free_loadings)
    assert vector[loadings].shape == (params.free_loadings.size,)
    assert (
        coordinates.n_free
        == coordinates.size - n_fixed
        == 3 + 15 + {"diagonal": 5, "isotropic": 1, "known": 0}[noise] + 5
    )


def test_values_without_coordinates_are_those_of_the_template(rng):
    params, other = (to_parameters(oracle.random_model(rng, 5, 3)) for _ in range(2))
    coordinates = Coordinates(StateLayout(3), NoiseVariances.known(5), True)
    back = from_vector(coordinates, to_vector(coordinates, params), other)
    np.testing.assert_array_equal(back.noise_variance, other.noise_variance)
    for name in ("decay", "loadings", "offset"):
        np.testing.assert_allclose(getattr(back, name), getattr(params, name), rtol=1e-12)


def test_factors_are_added_to_existing_factors(rng):
    params, new = (to_parameters(oracle.random_model(rng, 4, k)) for k in (2, 3))
    both = with_more_factors(params, new)
    assert both.state_layout.without(params.state_layout) == new.state_layout == StateLayout(3)
    np.testing.assert_array_equal(both.decay, [*params.decay, *new.decay])
    np.testing.assert_array_equal(both.loadings, np.hstack([params.loadings, new.loadings]))
    np.testing.assert_array_equal(both.noise_variance, params.noise_variance)
    np.testing.assert_array_equal(both.offset, params.offset)


def test_canonical_parameters_are_an_equal_model(rng):
    """Covariances of observations at lags 0 to 2 are equal; decays are in descending order."""
    params = to_parameters(oracle.random_model(rng, 4, 3)).replace(decay=np.array([-0.3, 0.9, 0.5]))
    found = canonical(params, np.ones(4))
    np.testing.assert_array_equal(found.decay, [0.9, 0.5, -0.3])
    for lag in (0, 1, 2):
        one, other = (p.loadings * p.decay**lag @ p.loadings.T for p in (params, found))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    scale, shift = rng.uniform(0.1, 10.0, 4), rng.standard_normal(4)
    back = rescale(rescale(params, shift, scale), -shift / scale, 1.0 / scale)
    for one, other in zip(back.to_arrays().values(), params.to_arrays().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


NAMES = ("decay", "loadings", "noise_variance", "offset", "rhythm_decay", "rhythm_frequency", "smooth_rate")
NAMES += ("noise_decay", "noise_scale")


def with_every_part():
    """Return a model with an AR(1) factor, a stochastic cycle, a smooth factor, and AR(1) noise."""
    shapes = ((1,), (2, 5), (2,), (2,), (1,), (1,), (1,), (2,), (2,))
    arrays = (0.1 * (i + 1) + np.zeros(shape) for i, shape in enumerate(shapes))
    return StateSpace(**dict(zip(NAMES, arrays, strict=True)))


def assert_same(found, expected, factor=1.0):
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), factor * getattr(expected, name), rtol=1e-12)


def test_jax_keeps_every_array():
    params = with_every_part()
    with engine_settings():
        assert len(jax.tree.leaves(params)) == len(NAMES)
        assert_same(jax.jit(lambda q: q)(params), params)
        assert_same(jax.jit(lambda q: q.replace(offset=3.0 * q.offset))(params).replace(offset=0.4), params)
        slope = jax.grad(lambda q: sum((part**2).sum() for part in jax.tree.leaves(q)))(params)
        assert_same(slope, params, 2.0)
    assert_same(jax.tree.map(lambda array: 2.0 * array, params), params, 2.0)
    assert "rhythm_decay=None" in repr(jax.tree.map(lambda array: None, params))


def test_parameters_are_frozen_and_replaced():
    params = with_every_part()
    with pytest.raises(FrozenInstanceError):
        params.decay = np.zeros(1)
    other = params.replace(decay=np.array([0.7]))
    assert other.decay == 0.7 and params.decay == 0.1 and other.noise_scale is params.noise_scale
    with pytest.raises(TypeError, match="decays"):
        params.replace(decays=np.zeros(1))
    assert not any(
        hasattr(params, name) for name in ("_replace", "_asdict", "_make", "__len__", "__getitem__")
    )
    with pytest.warns(DeprecationWarning, match="attributes decay"):
        decay, _, _, offset = params
    assert decay is params.decay and offset is params.offset


def test_arrays_of_absent_processes_are_omitted():
    params = with_every_part()
    assert tuple(params.to_arrays()) == NAMES
    assert_same(StateSpace.from_arrays({**params.to_arrays(), "history": np.zeros(3)}), params)
    white = params.replace(**{name: np.zeros(0) for name in NAMES[4:]}, loadings=np.ones((2, 1)))
    assert tuple(white.to_arrays()) == NAMES[:4]
    assert_same(StateSpace.from_arrays(white.to_arrays()), white)
    with pytest.raises(ValueError, match="offset missing"):
        StateSpace.from_arrays({name: np.ones(1) for name in NAMES[:3]})


def test_parameters_can_be_pickled():
    params = with_every_part()
    for found in (pickle.loads(pickle.dumps(params)), copy.deepcopy(params)):
        assert_same(found, params)


def test_older_pickles_of_parameters_can_be_read():
    """`StateSpace` was a tuple: its pickles have four arrays for `__new__`, and others for `__setstate__`."""
    arrays = with_every_part().to_arrays()
    found = copyreg.__newobj__(StateSpace, *(arrays.pop(name) for name in NAMES[:4]))
    found.__setstate__(arrays)
    assert_same(found, with_every_part())


OLD_NAMES = {"memory_decay": "noise_decay", "memory_scale": "noise_scale"}


def test_pickles_with_old_names_of_ar1_noise_can_be_read():
    arrays = with_every_part().to_arrays()
    state = arrays | {old: arrays.pop(new) for old, new in OLD_NAMES.items()}
    found = StateSpace.__new__(StateSpace)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.__setstate__(state)
    assert_same(found, with_every_part())


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_old_names_of_ar1_noise_warn(old, new):
    params = with_every_part()
    message = f"{old} is now {new}.*version 2.0"
    with pytest.warns(FutureWarning, match=f"StateSpace.{message}") as record:
        assert getattr(params, old) is getattr(params, new)
    assert record[0].filename == __file__
    arrays = params.to_arrays()
    arrays[old] = arrays.pop(new)
    for make in (lambda: StateSpace(**arrays), lambda: StateSpace.from_arrays(arrays)):
        with pytest.warns(FutureWarning, match=message) as record:
            assert_same(make(), params)
        assert record[0].filename == __file__
    with pytest.warns(FutureWarning, match=message) as record:
        assert_same(params.replace(**{new: np.zeros(2)}).replace(**{old: arrays[old]}), params)
    assert record[0].filename == __file__
    with pytest.raises(TypeError, match=f"set {new} only"), pytest.warns(FutureWarning, match=message):
        params.replace(**{old: arrays[old], new: arrays[old]})


def test_old_arguments_of_make_parameters_warn():
    expected = make_parameters([0.9], [[1.0]], 0.1, noise_decay=0.5, noise_scale=2.0)
    with pytest.warns(FutureWarning) as record:
        found = make_parameters([0.9], [[1.0]], 0.1, memory_decay=0.5, memory_scale=2.0)
    assert [str(one.message).split(";")[0] for one in record] == [
        "memory_decay is now noise_decay", "memory_scale is now noise_scale"
    ]  # fmt: skip
    assert found.noise_decay == expected.noise_decay and found.noise_scale == expected.noise_scale
    with pytest.warns(FutureWarning, match="has_memory is now has_ar1_noise"):
        assert found.has_memory
    with pytest.warns(FutureWarning, match="latents is now state_layout"):
        assert found.latents == found.state_layout
    with pytest.warns(FutureWarning, match="memory_share is now noise_share"):
        assert found.memory_share == expected.noise_share


def test_a_description_names_every_process_and_the_noise():
    lines = with_every_part().describe().splitlines()
    assert lines[0] == "2 columns, 5 states"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "1 AR(1)", "1 Rhythm", "1 Matern32", "white noise", "AR(1) noise of each column"
    ]  # fmt: skip
    assert "rhythm_frequency 0.6" in lines[2]
