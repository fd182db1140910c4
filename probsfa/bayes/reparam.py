"""The coordinates of :class:`probsfa.BayesianSFA` for NumPyro models that contain the factorial model."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpy.typing import ArrayLike
from numpyro.distributions import biject_to
from numpyro.infer.reparam import Reparam

from probsfa._validation import Sequences
from probsfa.bayes.fitting import ModelSettings, make_problem
from probsfa.bayes.priors import Priors

#: Name of the site of the coordinates.
COORDINATES = "factorial_ar1_coordinates"


class FactorialAR1Reparam(Reparam):
    """Coordinates in which the posterior of :func:`factorial_ar1_model` is nearly standard normal.

    :meth:`reparam` returns a model with the same posterior, which NUTS samples in these coordinates. The
    coordinates are transforms of time scales, loadings, noise and offset, whitened by the curvature at the
    maximum a posteriori. The model may have further sites, further likelihood terms, and other priors than
    `priors`. The sampler is most efficient if they change the posterior little.

    Parameters
    ----------
    X : array-like (T, D) or (S, T, D)
        Evenly sampled observations, NaN where missing, as for :func:`factorial_ar1_model`.
    n_components : int, default=2
        Number of factors.
    priors : Priors, optional
        Priors of the model. By default ``Priors()``.
    noise : {"diagonal", "isotropic"} or array-like (D,), default="diagonal"
        A noise variance for each column, one for all, or known variances.

    See Also
    --------
    numpyro.infer.reparam.NeuTraReparam : Coordinates from a fitted guide, used in the same way.

    Notes
    -----
    All sites of :func:`factorial_ar1_model` are functions of one vector, the site
    ``factorial_ar1_coordinates``; draws contain their values as deterministic sites. The order and the signs
    of the factors are not determined, as in the original model; use :func:`relabel` after sampling.
    :class:`probsfa.BayesianSFA` also has coordinates for rotations of the factors. They are omitted here
    because they require that no term of the model distinguishes factors.

    Examples
    --------
    >>> import jax, numpy as np, numpyro
    >>> import numpyro.distributions as dist
    >>> from numpyro.infer import MCMC, NUTS
    >>> from probsfa.bayes import FactorialAR1Reparam, factorial_ar1_model
    >>> X = np.random.default_rng(0).standard_normal((30, 2))
    >>> def model(X):
    ...     factorial_ar1_model(X, n_components=1)
    ...     slope = numpyro.sample("slope", dist.Normal())  # further sites keep NumPyro's coordinates
    >>> with jax.enable_x64(True):
    ...     coordinates = FactorialAR1Reparam(X, n_components=1)
    ...     kernel = NUTS(coordinates.reparam(model))
    ...     mcmc = MCMC(kernel, num_warmup=20, num_samples=20, progress_bar=False)
    ...     mcmc.run(jax.random.key(0), X)
    >>> mcmc.get_samples()["loadings"].shape
    (20, 2, 1)
    """

    def __init__(
        self,
        X: Any,
        n_components: int = 2,
        priors: Priors | None = None,
        noise: str | ArrayLike = "diagonal",
    ) -> None:
        values = np.asarray(X, np.float64)
        *n_sequences, n_steps, n_features = values.shape
        sequences = Sequences(
            values.reshape(-1, n_features), (n_steps,) * (n_sequences[0] if n_sequences else 1)
        )
        settings = ModelSettings(n_components, noise, priors, bool(n_sequences), standardize=False)
        problem, _ = make_problem(sequences, settings, rotate=False)
        self._target, self._data, self._laplace = problem.target, problem.data, problem.laplace
        # Compiled, because NumPyro also runs the model outside of compiled programs.
        self._free_values = jax.jit(self._unravel)
        # Unconstrained values of the sites that the current run of a model has not reached.
        self._remaining: dict[str, Array] = {}

    def reparam(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """Return a model with the same posterior, sampled in these coordinates.

        Raises
        ------
        ValueError
            When the model runs, if it lacks a site of :func:`factorial_ar1_model`, or observes one; and
            without double precision.
        """
        return _Reparametrized(model, self)

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[None, Array]:
        """Return the value of a site, and add its log density; called by NumPyro."""
        if obs is not None:
            raise ValueError(f"The site {name} is observed; FactorialAR1Reparam requires that it is sampled.")
        if jnp.result_type(float) != jnp.float64:
            raise ValueError(
                "FactorialAR1Reparam requires double precision. Set jax_enable_x64 in jax.config, or run "
                "the model inside jax.enable_x64(True)."
            )
        log_density = jnp.zeros(())
        if name not in self._remaining:
            normal = dist.Normal(jnp.zeros(self._target.size), 1.0).to_event(1)
            u = numpyro.sample(COORDINATES, normal.mask(False))
            self._remaining, log_det = self._free_values(u)
            log_density += log_det
        transform, free = biject_to(fn.support), self._remaining.pop(name)
        value = transform(free)
        if jnp.shape(value) != fn.shape():
            raise ValueError(
                f"The site {name} has shape {fn.shape()}, but {jnp.shape(value)} in FactorialAR1Reparam. "
                "Pass the same X, n_components and noise to factorial_ar1_model and to FactorialAR1Reparam."
            )
        log_density += jnp.sum(fn.log_prob(value)) + jnp.sum(transform.log_abs_det_jacobian(free, value))
        numpyro.factor(f"{name}_log_density", log_density)
        return None, value

    def _unravel(self, u: Array) -> tuple[dict[str, Array], Array]:
        """Return unconstrained values of all sites at coordinates (P,), and the log |det| of the Jacobian."""
        vector = jnp.asarray(self._laplace.centre) + jnp.asarray(self._laplace.factor) @ u
        values, log_det = self._target.unravel(vector, self._data)
        return values, log_det + np.linalg.slogdet(self._laplace.factor)[1]

    def _of_site(self, site: Any) -> "FactorialAR1Reparam | None":
        return self if site["name"] in self._target.sites else None

    def _finish(self) -> tuple[str, ...]:
        """End the run of a model; return the names of the sites that it lacks."""
        names = tuple(self._remaining)
        self._remaining = {}
        return names


class _Reparametrized(numpyro.handlers.reparam):
    """A model in the coordinates of a FactorialAR1Reparam."""

    def __init__(self, model: Callable[..., Any], coordinates: FactorialAR1Reparam) -> None:
        super().__init__(model, config=coordinates._of_site)
        self._coordinates = coordinates

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        missing = self._coordinates._finish()
        if missing and error[0] is None:
            raise ValueError(
                f"The model lacks the sites {', '.join(missing)}. FactorialAR1Reparam requires all sites of "
                "factorial_ar1_model with its priors and noise."
            )
