"""The posterior density as a function of one vector of unconstrained parameters.

The vector contains the unconstrained values of the sites, as defined by NumPyro, with these exceptions.

Loadings are in units of the innovations, ``C_dk sqrt(1 - a_k^2)``: the variance of a slow factor is estimated
from few excursions, the variance of its innovations from all rows. Scaled in this way, loadings and time
scales are nearly independent and nearly normal.

The coordinate of a noise standard deviation ``s`` depends on its prior:

* If the prior density is positive at zero, ``s = |v|`` with a real coordinate ``v``. The posterior may be
  flat near zero; that of ``log s`` would then have a long tail, which is slow to sample.
* With a log-normal prior, whose density is zero at zero, ``s = q softplus(v / q)`` with a low quantile ``q``
  of the prior: ``v`` is nearly ``q log(s / q)`` far below ``q``, and ``s`` far above. With ``log s``
  everywhere, the posterior of small noise would be ten times as wide on one side as on the other.
* With other priors, the coordinate is the unconstrained value of NumPyro, such as ``log s``.

With a chart, rotations of the factors are separate coordinates, and the offset is in units of its uncertainty
(:mod:`.chart`, :mod:`.rotation`, :mod:`.offset_scale`).
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import biject_to, constraints
from numpyro.infer.util import potential_energy

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.offset_scale import scaled_offset
from probsfa.bayes.coordinates.rotation import RotationFrame, diagonalize
from probsfa.bayes.coordinates.symmetry import SymmetryReference, log_phase_weight, log_weight
from probsfa.bayes.kinds import Kinds
from probsfa.bayes.model import OBSERVATIONS, NoiseModel, Series, factorial_ar1_model
from probsfa.bayes.priors import Priors
from probsfa.bayes.structural import structural_model
from probsfa.bayes.tracing import handlers_lock
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.noise import NoiseVariances


class Symmetry(NamedTuple):
    """Whether the order and the signs of the factors are undetermined."""

    order: bool
    signs: bool


class _Site(NamedTuple):
    support: Any
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]

    @classmethod
    def of(cls, prior: Any) -> "_Site":
        """Return the site of a prior: its support, and the shapes of its values and of their coordinates."""
        shape = prior.shape()
        return cls(prior.support, shape, biject_to(prior.support).inverse_shape(shape))


@dataclass(frozen=True)
class Target:
    """The posterior of a model, as a function of data; equal targets share their compiled programs.

    Attributes
    ----------
    n_components : int
        Number of AR(1) factors, ``K``.
    noise : NoiseVariances
        Which columns share a noise variance, and which variances are known.
    priors : Priors
        Priors, for data in units of the model.
    n_sequences : int or None
        Number of sequences of a hierarchical model.
    kinds : Kinds or None
        Processes in addition to AR(1) factors; None if there are no others.
    n_exog : int
        Number of covariates.
    """

    n_components: int
    noise: NoiseVariances
    priors: Priors
    n_sequences: int | None = None
    kinds: Kinds | None = None
    n_exog: int = 0

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return self.noise.n_features

    def noise_model(self, data: TargetData) -> NoiseModel:
        """Return the model of white noise, with known variances and lower bounds from the data."""
        return NoiseModel(self.noise, data.known_noise, data.min_noise_variance)

    def model(self, data: TargetData, predict: bool = False) -> Any:
        """Run the NumPyro model with the data."""
        noise = self.noise_model(data)
        if self.kinds is not None:
            return structural_model(data.series, self.n_components, self.kinds, self.priors, noise)
        return factorial_ar1_model(data.series, self.n_components, self.priors, noise, predict=predict)

    @functools.cached_property
    def sites(self) -> dict[str, _Site]:
        """The sampled sites, in the order of the vector."""
        rows = (1, self.n_features) if self.n_sequences is None else (self.n_sequences, 1, self.n_features)
        exog = np.zeros((*rows[:-1], self.n_exog)) if self.n_exog else None
        empty_series = Series(
            np.zeros(rows), np.zeros(rows, bool), np.ones(rows[:-1], np.int32), np.ones(1), exog
        )
        data = TargetData(empty_series, np.ones(self.n_features))
        priors = {}

        def record_priors(key: Array) -> None:
            trace = numpyro.handlers.trace(numpyro.handlers.seed(self.model, key)).get_trace(data)
            for name, site in trace.items():
                if site["type"] == "sample" and not site["is_observed"]:
                    priors[name] = site["fn"]

        with engine_settings():
            # Only traced: if the model were run, each of its operations would be compiled separately.
            with handlers_lock:
                jax.eval_shape(record_priors, jax.random.key(0))
            return {name: _Site.of(prior) for name, prior in priors.items()}

    @functools.cached_property
    def size(self) -> int:
        """Length of the vector, ``P``."""
        return sum(int(np.prod(site.free_shape)) for site in self.sites.values())

    def unravel(self, vector: Array, data: TargetData) -> tuple[dict[str, Array], Array]:
        """Return the unconstrained value of each site, and the log |det| of the Jacobian."""
        out = {name: vector[part].reshape(self.sites[name].free_shape) for name, part in self.slices.items()}
        log_det = jnp.zeros(())
        if data.chart.rotation is not None:
            out["timescale"], out["loadings"], log_det = diagonalize(
                data.chart.rotation, out["timescale"], out["loadings"]
            )
        if self.has_innovation_units:
            timescale = biject_to(self.sites["timescale"].support)(out["timescale"])
            innovation = -jnp.expm1(-2.0 / timescale)
            out["loadings"] = out["loadings"] / jnp.sqrt(innovation)
            log_det -= 0.5 * self.n_features * jnp.sum(jnp.log(innovation))
        if self.has_signed_noise_std:
            out["noise_std"] = jnp.log(jnp.abs(out["noise_std"]))
            log_det -= jnp.sum(out["noise_std"])
        elif self.softplus_scale is not None:
            transformed = out["noise_std"] / self.softplus_scale
            out["noise_std"] = jnp.log(self.softplus_scale) + jnp.log(jax.nn.softplus(transformed))
            # The derivative of log s with respect to v is logistic(v / q) / s, because the logistic function
            # is the derivative of softplus.
            log_det += jnp.sum(jax.nn.log_sigmoid(transformed) - out["noise_std"])
        if data.chart.offset_scale is not None:
            values = {name: biject_to(self.sites[name].support)(free) for name, free in out.items()}
            decay, noise = jnp.exp(-1.0 / values["timescale"]), self._noise(values, data)
            out["offset"], log_det_of_offset = scaled_offset(
                data.chart.offset_scale, out["offset"], decay, values["loadings"], noise
            )
            log_det += log_det_of_offset
        return out, log_det

    def _noise(self, values: dict[str, Any], data: TargetData) -> Any:
        """Return noise variances (D,) from values of the sites."""
        noise = self.noise_model(data)
        if "noise_std" in self.sites:
            by_group = values["noise_std"] ** 2
        else:
            by_group = values.get("noise_variance", np.ones(0))
        return noise.restricted(noise.column_values(by_group))

    @functools.cached_property
    def has_signed_noise_std(self) -> bool:
        """Whether noise standard deviations are ``|v|``; true if the prior density at zero is positive."""
        site = self.sites.get("noise_std")
        if site is None or getattr(site.support, "base_constraint", site.support) is not constraints.positive:
            return False
        with engine_settings(), jax.ensure_compile_time_eval():
            log_density = jax.jit(self.priors.noise_std.log_prob)
            return bool(np.all(np.abs(log_density(1e-6) - log_density(1e-9)) < 1e-3))

    @functools.cached_property
    def softplus_scale(self) -> FloatArray | None:
        """The quantile ``q`` of a log-normal prior of the noise, 0.14 by default; None for other priors.

        On the logarithmic scale, ``q`` is one standard deviation below the median.
        """
        prior = self.priors.noise_std
        if "noise_std" not in self.sites or type(prior) is not dist.LogNormal:
            return None
        quantile = np.exp(np.asarray(prior.loc, np.float64) - np.asarray(prior.scale, np.float64))
        return np.broadcast_to(quantile, self.sites["noise_std"].free_shape)

    @functools.cached_property
    def has_innovation_units(self) -> bool:
        """Whether loadings are in units of the innovations; true if their support is the real line."""
        return self.sites["loadings"].free_shape == (self.n_features, self.n_components) and is_real(
            self.sites["loadings"].support
        )

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Positions of each site in the vector."""
        ends = np.cumsum([0, *(int(np.prod(site.free_shape)) for site in self.sites.values())]).tolist()
        return {name: slice(i, j) for name, i, j in zip(self.sites, ends[:-1], ends[1:], strict=True)}

    def to_vector(self, values: dict[str, Any]) -> FloatArray:
        """Return the vector of values of all sites; zero where a value is outside its support."""
        parts = []
        if self.has_innovation_units:
            innovation = -np.expm1(-2.0 / np.asarray(values["timescale"]))
            values = {**values, "loadings": values["loadings"] * np.sqrt(innovation)}
        with engine_settings():
            for name, site in self.sites.items():
                value = jnp.asarray(np.broadcast_to(np.asarray(values[name], np.float64), site.shape))
                free = np.asarray(biject_to(site.support)._inverse(value), np.float64)
                free = np.where(np.isfinite(free), free, 0.0)
                if name == "noise_std" and self.has_signed_noise_std:
                    free = np.exp(free)
                elif name == "noise_std" and self.softplus_scale is not None:
                    free = inverse_softplus(free, self.softplus_scale)
                parts.append(free.ravel())
        return np.concatenate(parts)

    def difference_steps(self, vector: FloatArray) -> FloatArray:
        """Return step sizes (P,) for finite differences of the gradient."""
        steps = np.full_like(vector, 1e-4)
        if self.has_signed_noise_std:
            part = self.slices["noise_std"]
            steps[part] = 1e-2 * np.minimum(np.abs(vector[part]), 1e-2)
        elif self.softplus_scale is not None:
            steps[self.slices["noise_std"]] *= self.softplus_scale.ravel()
        return steps

    def potential(self, vector: Array, data: TargetData) -> Array:
        """Return the negative log posterior density of a vector, up to a constant."""
        free, log_det = self.unravel(vector, data)
        with handlers_lock:
            energy = potential_energy(self.model, (data,), {}, free) - log_det
        if data.phase_reference is not None:
            energy -= log_phase_weight(data.phase_reference, free["cycle_loadings"])
        if data.symmetry_reference is None:
            return energy
        return energy - self.log_weight(vector, data.symmetry_reference, data.chart.rotation)

    def log_weight(self, vector: Array, reference: SymmetryReference, frame: RotationFrame | None) -> Array:
        """Return the logarithm of the weight that selects one of the equivalent modes of the posterior."""
        timescale, loadings = self.factor_coordinates(vector, frame)
        members = () if frame is None else frame.members
        return log_weight(reference, timescale, loadings, self.symmetry.order, members)

    def factor_coordinates(self, vector: Array, frame: RotationFrame | None) -> tuple[Array, Array]:
        """Return the unconstrained time scales (K,) and loadings (D, K) at a vector.

        `frame` is the frame of rotations of the vector; None if it does not have rotated coordinates.
        """
        timescale = vector[self.slices["timescale"]]
        loadings = vector[self.slices["loadings"]].reshape(-1, self.n_components)
        return (timescale, loadings) if frame is None else diagonalize(frame, timescale, loadings)[:2]

    @functools.cached_property
    def symmetry(self) -> Symmetry:
        """Whether permutations, and changes of sign, of the factors leave the priors unchanged."""
        shared = self.priors.timescale.shape() == ()
        if self.priors.shrinkage is not None:
            return Symmetry(shared, True)
        if self.priors.loadings.shape() != ():
            return Symmetry(False, False)
        with engine_settings(), jax.ensure_compile_time_eval():
            points, log_density = np.array([0.1, 0.7, 2.3]), jax.jit(self.priors.loadings.log_prob)
            signs = bool(np.allclose(log_density(points), log_density(-points)))
        return Symmetry(shared and signs, signs)

    def constrain(self, vector: Array, data: TargetData) -> tuple[Array, ...]:
        """Return the parameters at a vector, in the order of the fields of Draws or StructuralDraws."""
        free = self.unravel(vector, data)[0]
        values = {name: biject_to(site.support)(free[name]) for name, site in self.sites.items()}
        coefficients = values.pop("exog_coef", jnp.zeros((self.n_features, 0)))
        data = data._replace(series=data.series._replace(exog=None))
        fixed = numpyro.handlers.substitute(self.model, data=values)
        if self.kinds is not None:
            with handlers_lock, numpyro.handlers.block():
                return tuple(fixed(data)._replace(exog_coef=coefficients))
        with handlers_lock, numpyro.handlers.block():
            series = numpyro.handlers.trace(fixed).get_trace(data)[OBSERVATIONS]["fn"]
        while not hasattr(series, "decay"):  # inside a plate
            series = series.base_dist
        return series.decay, series.loadings, series.noise_variance, series.offset, coefficients


def inverse_softplus(log_std: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the coordinates ``v`` at which ``log_std = log(scale softplus(v / scale))``."""
    ratio = np.exp(log_std) / scale
    # log(exp(ratio) - 1) without cancellation at small ratios.
    return np.asarray(
        scale * np.where(ratio > 1e-8, ratio + np.log(-np.expm1(-ratio)), log_std - np.log(scale))
    )


def is_real(support: Any) -> bool:
    """Return whether each entry of a site has the real line as its support."""
    base = getattr(support, "base_constraint", support)
    return base is constraints.real
