"""Potentials and gradients at many vectors, for any number of threads, with and without symmetry weight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.bayes import Priors
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.symmetry import SymmetryReference
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.model import as_series
from probsfa.bayes.sampling import evaluation
from probsfa.bayes.sampling.evaluation import PotentialEvaluator
from probsfa.statespace.noise import NoiseVariances
from tests.sampling import parametrize

K, D = 2, 3


@pytest.fixture
def problem(rng):
    """A target, and data with a symmetry reference."""
    X = rng.standard_normal((40, D)).cumsum(axis=0)
    X[rng.random(X.shape) < 0.2] = np.nan
    reference = SymmetryReference(
        np.array([1.0, 2.0]), rng.standard_normal((D, K)), np.ones(K), np.ones((D, K))
    )
    with jax.enable_x64(True):
        return Target(K, NoiseVariances.diagonal(D), Priors()), TargetData(
            as_series(X), symmetry_reference=reference
        )


@parametrize("n_threads", [1, 2, 5], quick=[2])
@parametrize("weighted", [True, False])
def test_values_are_those_of_the_density_and_its_gradient(problem, rng, monkeypatch, n_threads, weighted):
    monkeypatch.setattr(evaluation, "n_cores", lambda: n_threads)
    target, data = problem
    data = data if weighted else data._replace(symmetry_reference=None)
    vectors = 0.3 * rng.standard_normal((7, target.size))
    with PotentialEvaluator(target, data) as evaluate:
        values, gradients = evaluate.many(vectors)
        value, gradient = evaluate.one(vectors[3])
        assert evaluate.count == 8
        np.testing.assert_allclose(evaluate.values(vectors), values, rtol=1e-11)
        more = np.concatenate([vectors, vectors[:4]])
        np.testing.assert_allclose(evaluate.values(more), [*values, *values[:4]], rtol=1e-11)
    assert value == values[3] and np.array_equal(gradient, gradients[3])
    step = 1e-5
    with jax.enable_x64(True):
        potential = jax.jit(lambda x: target.potential(x, data))
        for vector, value, gradient in zip(vectors, values, gradients, strict=True):
            at = [float(potential(jnp.asarray(vector + move))) for move in step * np.eye(target.size)]
            back = [float(potential(jnp.asarray(vector - move))) for move in step * np.eye(target.size)]
            assert abs(value - float(potential(jnp.asarray(vector)))) < 1e-9 * abs(value)
            np.testing.assert_allclose(gradient, np.subtract(at, back) / (2.0 * step), rtol=1e-5, atol=1e-5)


def test_many_vectors_need_one_compiled_program(problem, rng):
    target, data = problem
    evaluation._value_and_gradient.clear_cache()
    with PotentialEvaluator(target, data) as evaluate:
        for n in (1, 4, 9):
            evaluate.many(rng.standard_normal((n, target.size)))
    assert evaluation._value_and_gradient._cache_size() == 1


def test_fused_kernels_are_used_outside_loops_only(problem, rng):
    target = problem[0]
    with jax.enable_x64(True):
        # The likelihood of this many rows is computed in segments.
        data = jax.tree.map(jnp.asarray, TargetData(as_series(rng.standard_normal((128, D)))))
        vector = jnp.zeros(target.size)
        ours = evaluation._value_and_gradient.lower(target, data, vector).as_text()

        def sampler(vector):
            return jax.lax.fori_loop(0, 2, lambda _, x: x - jax.grad(target.potential)(x, data), vector)

        inside = jax.jit(sampler).lower(vector).as_text()
    hint = 'xla_cpu_small_call = "true"'
    # With the hint inside a loop, the compiler of JAX 0.10 aborts the process.
    assert hint in ours
    assert hint not in inside or jax.__version_info__ >= (0, 11)


def test_an_interrupt_ends_the_threads(problem, rng, monkeypatch):
    target, data = problem
    monkeypatch.setattr(evaluation, "n_cores", lambda: 2)
    done, program = [], evaluation._value_and_gradient

    def interrupted(*args):
        done.append(1)
        if len(done) == 5:
            raise KeyboardInterrupt
        return program(*args)

    monkeypatch.setattr(evaluation, "_value_and_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt), PotentialEvaluator(target, data) as evaluate:
        evaluate.many(rng.standard_normal((2000, target.size)))
    assert len(done) < 1500
