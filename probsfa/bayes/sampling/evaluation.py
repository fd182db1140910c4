"""Potential (negative log density) and gradient of a posterior at many vectors, in parallel.

Compilation takes most of the time of short fits. Therefore there are only three compiled programs: the
potential with its gradient at one vector, the potential alone at one vector, and the symmetry weight at a
batch of vectors. On a CPU, a program for one vector is as fast for each vector as a program for many vectors,
because the likelihood is already vectorized over segments of time.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._threads import n_cores
from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.batches import in_blocks
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.rotation import RotationFrame
from probsfa.bayes.coordinates.symmetry import SymmetryReference
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.tracing import no_loop_around
from probsfa.statespace.engine.compiler import on_cpu
from probsfa.statespace.engine.settings import engine_settings

# These programs run in parallel threads; each program uses one thread.
_SINGLE_THREAD_OPTIONS = {"xla_cpu_multi_thread_eigen": False}


@partial(jax.jit, static_argnames="target", compiler_options=_SINGLE_THREAD_OPTIONS)
def _value_and_gradient(target: Target, data: TargetData, vector: Array) -> tuple[Array, Array]:
    with no_loop_around():
        return jax.value_and_grad(target.potential)(vector, data)


@partial(jax.jit, static_argnames="target", compiler_options=_SINGLE_THREAD_OPTIONS)
def _value(target: Target, data: TargetData, vector: Array) -> Array:
    with no_loop_around():
        return target.potential(vector, data)


@partial(jax.jit, static_argnames="target")
def _symmetry_weights_and_gradients(
    target: Target, reference: SymmetryReference, frame: RotationFrame | None, vectors: Array
) -> tuple[Array, Array]:
    weigh = jax.vmap(jax.value_and_grad(target.log_weight), in_axes=(0, None, None))
    return weigh(vectors, reference, frame)


class PotentialEvaluator:
    """Evaluation of the potential of a posterior in threads, which end with the ``with`` block.

    Parameters
    ----------
    target : Target
        The posterior.
    data : TargetData
        Data of the posterior density.

    Attributes
    ----------
    count : int
        Number of gradients so far.
    """

    def __init__(self, target: Target, data: TargetData) -> None:
        self.target, self.count = target, 0
        with engine_settings():
            data = jax.tree.map(jnp.asarray, data)
        self._data, self._reference = data._replace(symmetry_reference=None), data.symmetry_reference
        self._n_threads = n_cores() if on_cpu() else 1
        self._pool = ThreadPoolExecutor(self._n_threads)
        self._device = jax.config.jax_default_device  # type: ignore[attr-defined]
        self._compiled: set[Any] = set()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped = True
        self._pool.shutdown()

    def one(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the potential and its gradient (P,) at a vector (P,)."""
        values, gradients = self.many(vector[None])
        return float(values[0]), gradients[0]

    def many(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return potentials (N,) and their gradients (N, P) at vectors (N, P)."""
        self.count += len(vectors)
        outputs = self._on_all_cores(_value_and_gradient, vectors)
        values, gradients = (np.array(x) for x in zip(*outputs, strict=True))
        if self._reference is not None:
            log_weights, log_weight_gradients = self._log_symmetry_weights(vectors)
            values, gradients = values - log_weights, gradients - log_weight_gradients
        return values, gradients

    def values(self, vectors: FloatArray) -> FloatArray:
        """Return potentials (N,) at many vectors (N, P)."""
        values = np.array(self._on_all_cores(_value, vectors))
        return values if self._reference is None else values - self._log_symmetry_weights(vectors)[0]

    def _log_symmetry_weights(self, vectors: FloatArray) -> list[FloatArray]:
        """Return logarithms (N,) of the symmetry weight and their gradients (N, P)."""
        program = partial(
            _symmetry_weights_and_gradients, self.target, self._reference, self._data.chart.rotation
        )
        with engine_settings():
            return in_blocks(program, vectors)

    def _on_all_cores(self, program: Any, inputs: FloatArray) -> list[Any]:
        """Return the results of a program for all inputs, in their order."""
        # The first call compiles the program; two first calls in parallel would both compile it.
        first = 0 if program in self._compiled else 1
        outputs = self._sequentially(program, inputs[:first])
        self._compiled.add(program)
        parts = [part for part in np.array_split(inputs[first:], self._n_threads) if len(part)]
        if len(parts) < 2:
            return outputs + [out for part in parts for out in self._sequentially(program, part)]
        futures = [self._pool.submit(self._sequentially, program, part) for part in parts]
        try:
            return outputs + [out for future in futures for out in future.result()]
        except BaseException:
            self._stopped = True
            raise

    def _sequentially(self, program: Any, inputs: FloatArray) -> list[Any]:
        outputs = []
        # JAX settings of a `with` block apply to one thread.
        with engine_settings(), jax.default_device(self._device):
            for vector in inputs:
                if self._stopped:
                    break
                outputs.append(
                    jax.tree.map(np.asarray, program(self.target, self._data, jnp.asarray(vector)))
                )
        return outputs
