"""Stochastic variational inference with a Gaussian of full covariance, in whitened coordinates.

The guide is ``u = m + L e``. It starts at Laplace's approximation, ``m = 0`` and ``L = I``, which is close
already, and descends the Kullback-Leibler divergence by natural gradients (Salimbeni, Eleftheriadis &
Hensman 2018) of the path-derivative estimator (Roeder, Wu & Duvenaud 2017), whose noise vanishes where the
guide fits.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa.bayes.laplace import Whitening
from probsfa.bayes.target import Data, Target

FloatArray = NDArray[np.float64]

#: Steps of one compiled stretch.
STRETCH = 25
# Share of the steps at the end whose guides are averaged.
_AVERAGED = 0.5


class Guide(NamedTuple):
    """A Gaussian in whitened coordinates: ``mean`` (P,) and lower triangular ``root`` (P, P)."""

    mean: FloatArray
    root: FloatArray


class Fitted(NamedTuple):
    """Outcome of a variational fit.

    Attributes
    ----------
    guide : Guide
        Averaged over the last steps.
    elbo : ndarray (S,)
        Estimates of the evidence lower bound, one for each step.
    interrupted : bool
        Whether an interrupt cut it short.
    """

    guide: Guide
    elbo: FloatArray
    interrupted: bool


@partial(jax.jit, static_argnames=("target", "n_particles"))
def _descend(
    target: Target,
    data: Data,
    centre: Array,
    factor: Array,
    guide: tuple[Array, Array],
    rates: Array,
    key: Array,
    n_particles: int,
) -> tuple[tuple[Array, Array], Array, tuple[Array, Array]]:
    size = centre.shape[0]

    def potential(u: Array) -> Array:
        return target.potential(centre + factor @ u, data)

    batch = jax.vmap(jax.value_and_grad(potential))

    def step(
        state: tuple[Array, Array], now: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        mean, root = state
        rate, key = now
        half = jax.random.normal(key, (n_particles // 2, size))
        normals = jnp.concatenate([half, -half])
        values, slopes = batch(mean + normals @ root.T)
        # In the guide's own coordinates the exact slope would be e: what is left tells how the guide errs.
        excess = slopes @ root - normals
        excess = jnp.where(jnp.isfinite(excess), excess, 0.0)
        by_mean = jnp.mean(excess, axis=0)
        by_root = excess.T @ normals / n_particles
        by_root = 0.5 * (by_root + by_root.T)
        # Natural gradient, no longer than a step that keeps the root positive.
        length = jnp.sqrt(jnp.sum(by_mean**2) + jnp.sum(by_root**2))
        rate = rate / jnp.maximum(1.0, rate * length)
        change = jnp.tril(by_root, -1) + 0.5 * jnp.diag(jnp.diag(by_root))
        entropy = 0.5 * size * (1.0 + jnp.log(2.0 * jnp.pi)) + jnp.sum(jnp.log(jnp.abs(jnp.diag(root))))
        elbo = entropy - jnp.mean(values)
        state = (mean - rate * root @ by_mean, root - rate * root @ change)
        return state, (elbo, *state)

    keys = jax.random.split(key, STRETCH)
    guide, (elbo, means, roots) = jax.lax.scan(step, guide, (rates, keys))
    return guide, elbo, (jnp.mean(means, axis=0), jnp.mean(roots, axis=0))


def fit_guide(
    target: Target,
    data: Data,
    whitening: Whitening,
    *,
    n_steps: int,
    n_particles: int = 16,
    seed: int,
    report: Callable[[int], None] | None = None,
) -> Fitted:
    """Fit the guide.

    Parameters
    ----------
    target : Target
        The posterior.
    data : Data
        What it is conditioned on.
    whitening : Whitening
        Coordinates of the guide.
    n_steps : int
        Steps; rounded up to a multiple of 25.
    n_particles : int
        Gradients for each step, in pairs of opposite ones.
    seed : int
        Source of all randomness.
    report : callable, optional
        Called with the number of steps since the last call.

    Returns
    -------
    Fitted
    """
    n_stretches = -(-n_steps // STRETCH)
    # Long steps first, then ever shorter ones, whose average settles (Polyak & Juditsky 1992).
    rates = 0.5 / (1.0 + np.arange(n_stretches * STRETCH) / STRETCH) ** 0.7
    averages: list[tuple[FloatArray, FloatArray]] = []
    elbos: list[FloatArray] = []
    interrupted = False
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, data)
        centre, factor = jnp.asarray(whitening.centre), jnp.asarray(whitening.factor)
        guide = (jnp.zeros(target.size), jnp.eye(target.size))
        keys = jax.random.split(jax.random.key(seed), n_stretches)
        try:
            for i, key in enumerate(keys):
                now = jnp.asarray(rates[i * STRETCH : (i + 1) * STRETCH])
                guide, elbo, mean = _descend(target, data, centre, factor, guide, now, key, n_particles)
                elbos.append(np.asarray(elbo))
                averages.append((np.asarray(mean[0]), np.asarray(mean[1])))
                if report is not None:
                    report(STRETCH)
        except KeyboardInterrupt:
            interrupted = True
    if not averages:
        return Fitted(Guide(np.zeros(target.size), np.eye(target.size)), np.zeros(0), interrupted)
    last = averages[-max(1, int(_AVERAGED * len(averages))) :]
    guide_found = Guide(*(np.mean(parts, axis=0) for parts in zip(*last, strict=True)))
    return Fitted(guide_found, np.concatenate(elbos), interrupted)


def draw(guide: Guide, whitening: Whitening, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Vectors (n_draws, P) from the guide."""
    normals = rng.standard_normal((n_draws, len(guide.mean)))
    return whitening.apply(guide.mean + normals @ guide.root.T)
