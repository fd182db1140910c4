"""Parameters at many vectors of unconstrained coordinates, by jitted functions with a fixed batch size."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.rotation import RotationFrame
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import AnyDraws, Draws, StructuralDraws
from probsfa.bayes.model import Series
from probsfa.statespace.engine.settings import engine_settings

#: Batch size of the jitted functions.
BATCH_SIZE = 64


def in_blocks(program: Callable[[Array], tuple[Array, ...]], vectors: FloatArray) -> list[FloatArray]:
    """Return the results of a program for each vector, computed in batches of equal size.

    Parameters
    ----------
    program : callable
        Returns a tuple of arrays (BATCH_SIZE, ...) for vectors (BATCH_SIZE, P).
    vectors : ndarray (N, P)

    Returns
    -------
    list of ndarray (N, ...)
    """
    filled = np.concatenate([vectors, np.repeat(vectors[-1:], -len(vectors) % BATCH_SIZE, axis=0)])
    blocks = filled.reshape(-1, BATCH_SIZE, vectors.shape[1])
    parts = [[np.asarray(x) for x in program(jnp.asarray(block))] for block in blocks]
    return [np.concatenate(x)[: len(vectors)] for x in zip(*parts, strict=True)]


@functools.partial(jax.jit, static_argnames="target")
def _constrain_all(target: Target, data: TargetData, vectors: Array) -> tuple[Array, ...]:
    return jax.vmap(target.constrain, in_axes=(0, None))(vectors, data)


def constrain(target: Target, data: TargetData, vectors: FloatArray) -> AnyDraws:
    """Return the parameters at vectors (..., P) of unconstrained coordinates."""
    # Parameters do not depend on the rows; one row is enough.
    row = jax.tree.map(np.asarray, _first_row(data.series))
    row_data = TargetData(row, data.known_noise, chart=data.chart, min_noise_variance=data.min_noise_variance)
    with engine_settings():
        program = functools.partial(_constrain_all, target, row_data)
        flat = in_blocks(program, vectors.reshape(-1, target.size))
    shaped = (x.reshape(*vectors.shape[:-1], *x.shape[1:]) for x in flat)
    return Draws(*shaped) if target.kinds is None else StructuralDraws(*shaped)


def _first_row(series: Series) -> Series:
    return Series(series.values[..., :1, :], series.mask[..., :1, :], series.gap_index[..., :1], series.gaps)


@functools.partial(jax.jit, static_argnames="target")
def _all_factor_coordinates(
    target: Target, frame: RotationFrame | None, vectors: Array
) -> tuple[Array, Array]:
    return jax.vmap(target.factor_coordinates, in_axes=(0, None))(vectors, frame)


def factor_coordinates(
    target: Target, frame: RotationFrame | None, vectors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the unconstrained time scales (N, K) and loadings (N, D, K) at vectors (N, P).

    `frame` is the frame of rotations of the vectors; None if they do not have rotated coordinates.
    """
    with engine_settings():
        timescales, loadings = in_blocks(functools.partial(_all_factor_coordinates, target, frame), vectors)
    return timescales, loadings
