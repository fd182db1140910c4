"""The posterior density as a function of one unconstrained vector.

The vector holds the unconstrained value of each site, with exceptions.

Loadings are in units of the innovations, ``C_dk sqrt(1 - a_k^2)``: how far a slow latent strays is known
from few of its swings, how fast it moves from all rows. So scaled, loadings and time scales are nearly
independent and nearly normal.

Standard deviations of the noise are magnitudes, ``|v|`` with any real ``v``, where the prior allows zero: the
posterior of a noise that may be nothing is flat there, and its logarithm has a tail that takes a sampler long
to explore.

Rotations of the latents are coordinates of their own, and the offset is in units of its uncertainty, where
the data come with a :class:`Chart` (:mod:`.rotation`, :mod:`.offset_scale`).
"""

import functools
from collections.abc import Callable
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

from probsfa.bayes.coordinates.offset_scale import LONGEST, Level, make_level, place
from probsfa.bayes.coordinates.rotation import Frame, choose_frame, turn
from probsfa.bayes.coordinates.symmetry import Anchor, log_weight
from probsfa.bayes.model import OBSERVATIONS, Series, factorial_ar1_model
from probsfa.bayes.priors import Priors

FloatArray = NDArray[np.float64]


#: Vectors that small programs take at once.
BLOCK = 64


class Chart(NamedTuple):
    """References of the coordinates of rotations and of the offset; None where these are plain."""

    frame: Frame | None = None
    level: Level | None = None


class Data(NamedTuple):
    """What changes from fit to fit while the compiled programs stay.

    The series, known noise (D,), which of the posterior's mirror images is wanted, if only one is, and what
    the coordinates refer to.
    """

    series: Series
    known_noise: Any = None
    anchor: Anchor | None = None
    chart: Chart = Chart()


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

    def unravel(self, vector: Array, data: Data) -> tuple[dict[str, Array], Array]:
        """The unconstrained value of each site, and the log determinant of the map to them."""
        out = {name: vector[part].reshape(self.sites[name].free_shape) for name, part in self.slices.items()}
        log_det = jnp.zeros(())
        if data.chart.frame is not None:
            out["timescale"], out["loadings"], log_det = turn(
                data.chart.frame, out["timescale"], out["loadings"]
            )
        if self.by_innovation:
            timescale = biject_to(self.sites["timescale"].support)(out["timescale"])
            innovation = -jnp.expm1(-2.0 / timescale)
            out["loadings"] = out["loadings"] / jnp.sqrt(innovation)
            log_det -= 0.5 * self.n_features * jnp.sum(jnp.log(innovation))
        if self.by_magnitude:
            out["noise_std"] = jnp.log(jnp.abs(out["noise_std"]))
            log_det -= jnp.sum(out["noise_std"])
        if data.chart.level is not None:
            values = {name: biject_to(self.sites[name].support)(free) for name, free in out.items()}
            decay, noise = jnp.exp(-1.0 / values["timescale"]), self._noise(values, data)
            out["offset"], more = place(data.chart.level, out["offset"], decay, values["loadings"], noise)
            log_det += more
        return out, log_det

    def _noise(self, values: dict[str, Any], data: Data) -> Any:
        """Noise variances (D,) from values of the sites."""
        if self.noise == "fixed":
            noise = data.known_noise
        elif "noise_std" in self.sites:
            noise = values["noise_std"] ** 2
        else:
            noise = values["noise_variance"]
        return noise + 0.0 * values["loadings"][:, 0]

    def chart(self, values: dict[str, Any], data: Data) -> Chart:
        """Chart that refers to values of all sites, as far as the model has one."""
        if not self.by_innovation:
            return Chart()
        loadings, timescale = (np.asarray(values[name]) for name in ("loadings", "timescale"))
        noise = np.asarray(data.known_noise if self.noise == "fixed" else values["noise_variance"])
        noise = np.broadcast_to(noise, (self.n_features,))
        mask = np.asarray(data.series.mask)
        frame = None
        if self.symmetry.order and self.symmetry.signs:
            vector = self.to_vector(values)
            coordinate, scaled = (vector[self.slices[name]] for name in ("timescale", "loadings"))
            scaled = scaled.reshape(loadings.shape)
            n_rows = int(np.sum(np.any(mask, axis=-1)))
            frame = choose_frame(timescale, coordinate, loadings, scaled, noise, n_rows)
        if self.n_sequences is not None or not _is_real(self.sites["offset"].support):
            return Chart(frame)
        seen = np.flatnonzero(np.any(mask, axis=1))
        if np.max(timescale) > LONGEST * len(seen):
            return Chart(frame)
        # Rows after the last are padding, each a sequence of its own.
        index = np.asarray(data.series.gap_index)[: 1 + np.max(seen, initial=0)]
        n_sequences = np.sum(index == len(data.series.gaps))
        with jax.enable_x64(True):
            level = make_level(
                np.sum(mask, axis=0, dtype=np.float64),
                max(float(len(seen)), 1.0),
                float(n_sequences),
                np.broadcast_to(_precision(self.priors.offset), (self.n_features,)),
                np.exp(-1.0 / timescale),
                loadings,
                noise,
            )
        return Chart(frame, level)

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
        free, log_det = self.unravel(vector, data)
        energy = potential_energy(self.model, (data,), {}, free) - log_det
        if data.anchor is None:
            return energy
        return energy - self.log_weight(vector, data.anchor, data.chart.frame)

    def log_weight(self, vector: Array, anchor: Anchor, frame: Frame | None) -> Array:
        """Logarithm of the weight that chooses one of the posterior's mirror images."""
        timescale, loadings = self.latents(vector, frame)
        members = () if frame is None else frame.members
        return log_weight(anchor, timescale, loadings, self.symmetry.order, members)

    def latents(self, vector: Array, frame: Frame | None) -> tuple[Array, Array]:
        """Coordinates of the time scales (K,) and of the loadings (D, K), whatever the chart."""
        timescale = vector[self.slices["timescale"]]
        loadings = vector[self.slices["loadings"]].reshape(-1, self.n_components)
        return (timescale, loadings) if frame is None else turn(frame, timescale, loadings)[:2]

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
        free = self.unravel(vector, data)[0]
        values = {name: biject_to(site.support)(free[name]) for name, site in self.sites.items()}
        fixed = numpyro.handlers.substitute(self.model, data=values)
        with numpyro.handlers.block():
            law = numpyro.handlers.trace(fixed).get_trace(data)[OBSERVATIONS]["fn"]
        while not hasattr(law, "decay"):  # inside a plate
            law = law.base_dist
        return law.decay, law.loadings, law.noise_variance, law.offset


def _precision(prior: Any) -> FloatArray:
    """Inverse variance of a prior; zero where it has none."""
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        try:
            variance = np.asarray(prior.variance, np.float64)
        except NotImplementedError:
            return np.zeros(())
    known = np.isfinite(variance) & (variance > 0.0)
    return np.where(known, 1.0 / np.where(known, variance, 1.0), 0.0)


def _is_real(support: Any) -> bool:
    base = getattr(support, "base_constraint", support)
    return base is constraints.real


def in_blocks(program: Callable[[Array], tuple[Array, ...]], vectors: FloatArray) -> list[FloatArray]:
    """What a program gives for each of some vectors (N, P), not compiled again for another number of them."""
    filled = np.concatenate([vectors, np.repeat(vectors[-1:], -len(vectors) % BLOCK, axis=0)])
    blocks = filled.reshape(-1, BLOCK, vectors.shape[1])
    parts = [[np.asarray(x) for x in program(jnp.asarray(block))] for block in blocks]
    return [np.concatenate(x)[: len(vectors)] for x in zip(*parts, strict=True)]


@functools.partial(jax.jit, static_argnames="target")
def _constrain_all(target: Target, data: Data, vectors: Array) -> tuple[Array, ...]:
    return jax.vmap(target.constrain, in_axes=(0, None))(vectors, data)


def constrain(target: Target, data: Data, vectors: FloatArray) -> Draws:
    """Parameters at vectors (..., P)."""
    # Parameters do not depend on the rows: one row keeps the program small.
    one = Data(jax.tree.map(np.asarray, _first_row(data.series)), data.known_noise, chart=data.chart)
    with jax.enable_x64(True):
        program = functools.partial(_constrain_all, target, one)
        flat = in_blocks(program, vectors.reshape(-1, target.size))
    return Draws(*(x.reshape(*vectors.shape[:-1], *x.shape[1:]) for x in flat))


def _first_row(series: Series) -> Series:
    return Series(series.values[..., :1, :], series.mask[..., :1, :], series.gap_index[..., :1], series.gaps)


@functools.partial(jax.jit, static_argnames="target")
def _all_latents(target: Target, frame: Frame | None, vectors: Array) -> tuple[Array, Array]:
    return jax.vmap(target.latents, in_axes=(0, None))(vectors, frame)


def latents(target: Target, frame: Frame | None, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coordinates of the time scales (N, K) and of the loadings (N, D, K) at vectors (N, P)."""
    with jax.enable_x64(True):
        timescales, loadings = in_blocks(functools.partial(_all_latents, target, frame), vectors)
    return timescales, loadings
