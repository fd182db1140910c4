"""The factorial AR(1) model for NumPyro in the coordinates of :class:`probsfa.BayesianSFA`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from probsfa._validation import Sequences
from probsfa.bayes.draws import Draws
from probsfa.bayes.fitting import ModelSettings, make_problem
from probsfa.bayes.priors import Priors


def whitened_model(
    X: ArrayLike, n_components: int = 2, priors: Priors | None = None, noise: Any = "diagonal"
) -> Callable[[], None]:
    """Return a NumPyro model with the posterior of :func:`factorial_ar1_model` in whitened coordinates.

    A vector ``u`` is sampled in place of time scales, loadings, noise and offset. Its posterior is close to
    standard normal: it is in units of the curvature at the maximum a posteriori, rotations of the factors are
    coordinates of their own, and one of the mirror images of the posterior is chosen. So samplers and guides
    of NumPyro need few steps, and NUTS needs no adaptation of its mass matrix.

    Parameters
    ----------
    X : array-like (T, D)
        One evenly sampled series, NaN where missing. Standardize it first: the default priors suppose so.
    n_components : int, default=2
        Number of factors.
    priors : Priors, optional
        By default :class:`Priors` as it is.
    noise : {"diagonal", "isotropic"}, float or array-like (D,), default="diagonal"
        A noise variance for each column, one for all, or known variances.

    Returns
    -------
    callable
        Model without arguments, with the site ``u`` (P,), and ``decay``, ``loadings``, ``noise_variance`` and
        ``offset`` as deterministic sites. Use it inside ``jax.enable_x64(True)``.

    See Also
    --------
    probsfa.BayesianSFA : NUTS in these coordinates, with diagnostics and predictions.

    Notes
    -----
    As of :class:`numpyro.infer.reparam.NeuTraReparam`, one vector stands for all sites: these coordinates are
    not those of single sites, for which NumPyro's other reparametrizations are.

    Examples
    --------
    >>> import jax
    >>> from numpyro.infer import MCMC, NUTS
    >>> from probsfa.bayes import whitened_model
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 2, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = whitened_model(X, 1)
    >>> with jax.enable_x64(True):
    ...     kernel = NUTS(model, adapt_mass_matrix=False)
    ...     mcmc = MCMC(kernel, num_warmup=20, num_samples=20, progress_bar=False)
    ...     mcmc.run(jax.random.key(0))
    >>> sorted(mcmc.get_samples())
    ['decay', 'loadings', 'noise_variance', 'offset', 'u']
    """
    values = np.asarray(X, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"X must be one series of shape (T, D); got {values.shape}.")
    settings = ModelSettings(n_components, noise, priors, hierarchical=False, standardize=False)
    (target, data, laplace, _), _ = make_problem(Sequences(values, (len(values),)), settings)

    def model() -> None:
        u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand((target.size,)).to_event(1))
        at = jax.tree.map(jnp.asarray, data)
        vector = jnp.asarray(laplace.centre) + jnp.asarray(laplace.factor) @ u
        # The sites of the inner model are not sites of this one.
        with numpyro.handlers.block():
            energy = target.potential(vector, at)
        # The density of u above is no prior, and is taken back.
        numpyro.factor("posterior", 0.5 * u @ u - energy)
        for name, value in zip(Draws._fields, target.constrain(vector, at), strict=True):
            numpyro.deterministic(name, value)

    return model
