"""A posterior's potential and gradient at many vectors, by one compiled program on all cores.

What fits and samplers wait for most is their programs being compiled, so there is one, for one vector and
without the anchor, which is a small program of its own. A processor runs it as fast as one for many
vectors at once, because the likelihood has lanes already (:mod:`probsfa.statespace.lockstep`).
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa.bayes.anchor import Anchor
from probsfa.bayes.rotation import Frame
from probsfa.bayes.target import Data, Target, in_blocks
from probsfa.statespace.cores import n_cores

FloatArray = NDArray[np.float64]


@partial(jax.jit, static_argnames="target")
def _value_and_gradient(target: Target, data: Data, vector: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(target.potential)(vector, data)


@partial(jax.jit, static_argnames="target")
def _anchor_values_and_gradients(
    target: Target, anchor: Anchor, frame: Frame | None, vectors: Array
) -> tuple[Array, Array]:
    weigh = jax.vmap(jax.value_and_grad(target.log_weight), in_axes=(0, None, None))
    return weigh(vectors, anchor, frame)


class Evaluator:
    """Evaluations of a posterior's potential, counted; a context manager, which ends its threads.

    Parameters
    ----------
    target : Target
        The posterior.
    data : Data
        What it is conditioned on.

    Attributes
    ----------
    count : int
        Gradients taken so far.
    """

    def __init__(self, target: Target, data: Data) -> None:
        self.target, self.count = target, 0
        with jax.enable_x64(True):
            data = jax.tree.map(jnp.asarray, data)
        self._data, self._anchor = data._replace(anchor=None), data.anchor
        self._n_threads = n_cores() if jax.default_backend() == "cpu" else 1
        self._pool = ThreadPoolExecutor(self._n_threads)
        self._device = jax.config.jax_default_device  # type: ignore[attr-defined]
        self._compiled = self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped = True
        self._pool.shutdown()

    def one(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Potential and its gradient (P,) at a vector (P,)."""
        values, gradients = self.many(vector[None])
        return float(values[0]), gradients[0]

    def many(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Potentials (N,) and their gradients (N, P) at vectors (N, P)."""
        self.count += len(vectors)
        # Two threads that meet a new program would both compile it.
        first = 0 if self._compiled else 1
        done = self._in_turn(vectors[:first])
        self._compiled = True
        parts = [part for part in np.array_split(vectors[first:], self._n_threads) if len(part)]
        if len(parts) < 2:
            done += [pair for part in parts for pair in self._in_turn(part)]
        else:
            futures = [self._pool.submit(self._in_turn, part) for part in parts]
            try:
                done += [pair for future in futures for pair in future.result()]
            except BaseException:
                self._stopped = True
                raise
        values, gradients = (np.array(x) for x in zip(*done, strict=True))
        if self._anchor is not None:
            frame = self._data.chart.frame
            program = partial(_anchor_values_and_gradients, self.target, self._anchor, frame)
            with jax.enable_x64(True):
                by_anchor, slopes = in_blocks(program, vectors)
            values, gradients = values - by_anchor, gradients - slopes
        return values, gradients

    def _in_turn(self, vectors: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        done = []
        # Settings of JAX made in a `with` block are those of one thread.
        with jax.enable_x64(True), jax.default_device(self._device):
            for vector in vectors:
                if self._stopped:
                    break
                value, gradient = _value_and_gradient(self.target, self._data, jnp.asarray(vector))
                done.append((np.asarray(value), np.asarray(gradient)))
        return done
