"""The posterior density as a function of one unconstrained vector.

The vector holds the unconstrained value of each site, with two exceptions.

Loadings are in units of the innovations, ``C_dk sqrt(1 - a_k^2)``: how far a slow latent strays is known
from few of its swings, how fast it moves from all rows. So scaled, loadings and time scales are nearly
independent and nearly normal.

Standard deviations of the noise are magnitudes, ``|v|`` with any real ``v``, where the prior allows zero: the
posterior of a noise that may be nothing is flat there, and its logarithm has a tail that takes a sampler long
to explore.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpy.typing import NDArray
from numpyro.distributions import biject_to, constraints
from numpyro.infer.util import potential_energy

from probsfa.bayes.anchor import Anchor, log_weight
from probsfa.bayes.model import OBSERVATIONS, Series, factorial_ar1_model
from probsfa.bayes.priors import Priors

FloatArray = NDArray[np.float64]


class Data(NamedTuple):
    """What changes from fit to fit while the compiled programs stay.

    The series, known noise (D,), and which of the posterior's mirror images is wanted, if only one is.
    """

    series: Series
    known_noise: Any = None
    anchor: Anchor | None = None


class Draws(NamedTuple):
    """Parameters of many draws: ``decay`` (..., K), ``loadings`` (..., D, K), and the others (..., D).

    The noise of a hierarchical model has a further axis for the sequences, (..., S, D).
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray


class Symmetry(NamedTuple):
    """Whether the order and the signs of the latents are open."""

    order: bool
    signs: bool


class _Site(NamedTuple):
    support: Any
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]


@dataclass(frozen=True)
class Target:
    """The model of one kind of data; equal targets share their compiled programs.

    Attributes
    ----------
    n_components, n_features : int
        ``K`` and ``D``.
    noise : {"diagonal", "isotropic", "fixed"}
        Which noise variances there are to learn.
    priors : Priors
        Priors of the standardised data.
    n_sequences : int or None
        Number of sequences of a hierarchical model.
    """

    n_components: int
    n_features: int
    noise: str
    priors: Priors
    n_sequences: int | None = None

    def model(self, data: Data, predict: bool = False) -> Any:
        """The NumPyro model of the data."""
        noise = data.known_noise if self.noise == "fixed" else self.noise
        return factorial_ar1_model(data.series, self.n_components, self.priors, noise, predict=predict)

    @functools.cached_property
    def sites(self) -> dict[str, _Site]:
        """What is sampled, in the order of the vector."""
        rows = (1, self.n_features) if self.n_sequences is None else (self.n_sequences, 1, self.n_features)
        nothing = Series(np.zeros(rows), np.zeros(rows, bool), np.ones(rows[:-1], np.int32), np.ones(1))
        data = Data(nothing, np.ones(self.n_features))
        seeded = numpyro.handlers.seed(self.model, jax.random.key(0))
        with jax.enable_x64(True):
            trace = numpyro.handlers.trace(seeded).get_trace(data)
        found = {}
        for name, site in trace.items():
            if site["type"] == "sample" and not site["is_observed"]:
                support, shape = site["fn"].support, jnp.shape(site["value"])
                found[name] = _Site(support, shape, biject_to(support).inverse_shape(shape))
        return found

    @functools.cached_property
    def size(self) -> int:
        """Length of the vector, ``P``."""
        return sum(int(np.prod(site.free_shape)) for site in self.sites.values())

    def unravel(self, vector: Array) -> tuple[dict[str, Array], Array]:
        """The unconstrained value of each site, and the log determinant of the map to them."""
        out = {name: vector[part].reshape(self.sites[name].free_shape) for name, part in self.slices.items()}
        log_det = jnp.zeros(())
        if self.by_innovation:
            timescale = biject_to(self.sites["timescale"].support)(out["timescale"])
            innovation = -jnp.expm1(-2.0 / timescale)
            out["loadings"] = out["loadings"] / jnp.sqrt(innovation)
            log_det -= 0.5 * self.n_features * jnp.sum(jnp.log(innovation))
        if self.by_magnitude:
            out["noise_std"] = jnp.log(jnp.abs(out["noise_std"]))
            log_det -= jnp.sum(out["noise_std"])
        return out, log_det

    @functools.cached_property
    def by_magnitude(self) -> bool:
        """Whether the noise is given by a magnitude: where its prior has a finite density at zero."""
        site = self.sites.get("noise_std")
        if site is None or getattr(site.support, "base_constraint", site.support) is not constraints.positive:
            return False
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            near, nearer = (self.priors.noise_std.log_prob(jnp.asarray(x)) for x in (1e-6, 1e-9))
            return bool(np.all(np.abs(near - nearer) < 1e-3))

    @functools.cached_property
    def by_innovation(self) -> bool:
        """Whether loadings are in units of the innovations: where they may be any number."""
        return self.sites["loadings"].free_shape == (self.n_features, self.n_components) and _is_real(
            self.sites["loadings"].support
        )

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Where each site lies in the vector."""
        ends = np.cumsum([0, *(int(np.prod(site.free_shape)) for site in self.sites.values())]).tolist()
        return {name: slice(i, j) for name, i, j in zip(self.sites, ends[:-1], ends[1:], strict=True)}

    def to_vector(self, values: dict[str, Any]) -> FloatArray:
        """Vector of values of all sites; zero where a value is outside its support."""
        parts = []
        if self.by_innovation:
            innovation = -np.expm1(-2.0 / np.asarray(values["timescale"]))
            values = {**values, "loadings": values["loadings"] * np.sqrt(innovation)}
        with jax.enable_x64(True):
            for name, site in self.sites.items():
                value = jnp.asarray(np.broadcast_to(np.asarray(values[name], np.float64), site.shape))
                free = np.asarray(biject_to(site.support)._inverse(value), np.float64)
                free = np.where(np.isfinite(free), free, 0.0)
                parts.append(
                    np.exp(free).ravel() if name == "noise_std" and self.by_magnitude else free.ravel()
                )
        return np.concatenate(parts)

    def small(self, vector: FloatArray) -> FloatArray:
        """Changes of a vector (P,) that are small whatever the scale of the noise."""
        steps = np.full_like(vector, 1e-4)
        if self.by_magnitude:
            part = self.slices["noise_std"]
            steps[part] = 1e-2 * np.minimum(np.abs(vector[part]), 1e-2)
        return steps

    def potential(self, vector: Array, data: Data) -> Array:
        """Minus the log posterior density of a vector, up to a constant."""
        free, log_det = self.unravel(vector)
        energy = potential_energy(self.model, (data,), {}, free) - log_det
        if data.anchor is None:
            return energy
        loadings = vector[self.slices["loadings"]].reshape(-1, self.n_components)
        timescale = vector[self.slices["timescale"]]
        return energy - log_weight(data.anchor, timescale, loadings, self.symmetry.order)

    @functools.cached_property
    def symmetry(self) -> Symmetry:
        """Symmetries of the priors: all latents have one prior, and it is the same upside down."""
        shared = self.priors.timescale.shape() == ()
        if self.priors.shrinkage is not None:
            return Symmetry(shared, True)
        if self.priors.loadings.shape() != ():
            return Symmetry(False, False)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            points = jnp.array([0.1, 0.7, 2.3])
            upright, turned = (self.priors.loadings.log_prob(sign * points) for sign in (1.0, -1.0))
            signs = bool(np.allclose(upright, turned))
        return Symmetry(shared and signs, signs)

    def constrain(self, vector: Array, data: Data) -> tuple[Array, Array, Array, Array]:
        """Decay, loadings, noise variance and offset at a vector."""
        free = self.unravel(vector)[0]
        values = {name: biject_to(site.support)(free[name]) for name, site in self.sites.items()}
        fixed = numpyro.handlers.substitute(self.model, data=values)
        with numpyro.handlers.block():
            law = numpyro.handlers.trace(fixed).get_trace(data)[OBSERVATIONS]["fn"]
        while not hasattr(law, "decay"):  # inside a plate
            law = law.base_dist
        return law.decay, law.loadings, law.noise_variance, law.offset


def _is_real(support: Any) -> bool:
    base = getattr(support, "base_constraint", support)
    return base is constraints.real


@functools.partial(jax.jit, static_argnames="target")
def value_and_gradient(target: Target, data: Data, vector: Array) -> tuple[Array, Array]:
    """Potential and its gradient at a vector (P,)."""
    return jax.value_and_grad(target.potential)(vector, data)


@functools.partial(jax.jit, static_argnames="target")
def gradients(target: Target, data: Data, vectors: Array) -> Array:
    """Gradients of the potential at vectors (N, P)."""
    return jax.vmap(jax.grad(target.potential), in_axes=(0, None))(vectors, data)


@functools.partial(jax.jit, static_argnames="target")
def _constrain_all(target: Target, data: Data, vectors: Array) -> tuple[Array, ...]:
    return jax.vmap(target.constrain, in_axes=(0, None))(vectors, data)


def constrain(target: Target, data: Data, vectors: FloatArray) -> Draws:
    """Parameters at vectors (..., P)."""
    # Parameters do not depend on the rows: one row keeps the program small.
    one = Data(jax.tree.map(np.asarray, _first_row(data.series)), data.known_noise)
    with jax.enable_x64(True):
        flat = _constrain_all(target, one, jnp.asarray(vectors.reshape(-1, target.size)))
        return Draws(*(np.asarray(x).reshape(*vectors.shape[:-1], *x.shape[1:]) for x in flat))


def _first_row(series: Series) -> Series:
    return Series(series.values[..., :1, :], series.mask[..., :1, :], series.gap_index[..., :1], series.gaps)
