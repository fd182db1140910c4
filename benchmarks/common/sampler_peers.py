"""The factorial AR(1) model in pymc-extras, and in dynamax with the sampler of blackjax."""

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Run(NamedTuple):
    """Result of a sampler.

    Attributes
    ----------
    draws : dict of ndarray (C, N, ...)
        ``timescale``, ``loadings``, ``noise`` (variances) and ``offset``.
    gradient : float
        Milliseconds of a gradient of the log density.
    n_steps : float
        Mean number of leapfrog steps of a draw.
    seconds : float
        Processor time of the whole run: compilation, warm-up and draws.
    """

    draws: dict[str, np.ndarray]
    gradient: float
    n_steps: float
    seconds: float


def milliseconds(function) -> float:
    """Return the shortest time of a call, of at least five calls in two seconds."""
    function()
    times = []
    began = time.perf_counter()
    while len(times) < 5 or time.perf_counter() < began + 2.0:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def start_vector(draws: dict[str, np.ndarray]) -> np.ndarray:
    """Return the unconstrained vector of parameters: log time scales, loadings, log noise sd, offset."""
    parts = (
        np.log(draws["timescale"]),
        draws["loadings"].ravel(),
        0.5 * np.log(draws["noise"]),
        draws["offset"],
    )
    return np.concatenate(parts)


def dynamax_density(X: np.ndarray, k: int, parallel: bool):
    """Return the log density of an unconstrained vector, by the filter of dynamax."""
    from dynamax.linear_gaussian_ssm.inference import lgssm_filter, make_lgssm_params
    from dynamax.linear_gaussian_ssm.parallel_inference import lgssm_filter as parallel_filter

    d = X.shape[1]
    run = parallel_filter if parallel else lgssm_filter
    normal = jax.scipy.stats.norm.logpdf

    def log_density(vector):
        log_timescale, loadings = vector[:k], vector[k : k + d * k].reshape(d, k)
        log_std, offset = vector[k + d * k : k + d * k + d], vector[k + d * k + d :]
        decay = jnp.exp(-jnp.exp(-log_timescale))
        # Full covariances are faster than diagonal ones in dynamax 1.0.
        params = make_lgssm_params(
            jnp.zeros(k),
            jnp.eye(k),
            jnp.diag(decay),
            jnp.diag(1.0 - decay**2),
            loadings,
            jnp.diag(jnp.exp(2.0 * log_std)),
            emissions_bias=offset,
        )
        prior = jnp.sum(normal(log_timescale, 2.3, 1.5)) + jnp.sum(normal(log_std, -1.0, 1.0))
        prior += jnp.sum(normal(loadings)) + jnp.sum(normal(offset))
        return run(params, jnp.asarray(X)).marginal_loglik + prior

    return log_density


def dynamax_blackjax(X: np.ndarray, k: int, start: np.ndarray, *, warmup: int, draws: int, parallel: bool):
    """Sample by NUTS of blackjax with window adaptation of step size and dense mass matrix, two chains."""
    import blackjax

    d = X.shape[1]
    with jax.enable_x64(True):
        log_density = dynamax_density(X, k, parallel)
        slope = jax.jit(jax.value_and_grad(log_density))
        gradient = milliseconds(lambda: jax.block_until_ready(slope(jnp.asarray(start))))
        if not draws:
            return Run({}, gradient, np.nan, np.nan)

        def chain(key):
            warm_key, key = jax.random.split(key)
            adapt = blackjax.window_adaptation(blackjax.nuts, log_density, is_mass_matrix_diagonal=False)
            (state, parameters), _ = adapt.run(warm_key, jnp.asarray(start), num_steps=warmup)
            step = blackjax.nuts(log_density, **parameters).step

            def one(state, key):
                state, info = step(key, state)
                return state, (state.position, info.num_integration_steps)

            return jax.lax.scan(one, state, jax.random.split(key, draws))[1]

        began = time.process_time()
        outputs = [jax.jit(chain)(jax.random.key(seed)) for seed in range(2)]
        vectors, n_steps = (np.stack([np.asarray(out[i]) for out in outputs]) for i in range(2))
        seconds = time.process_time() - began
    found = {
        "timescale": np.exp(vectors[..., :k]),
        "loadings": vectors[..., k : k + d * k].reshape(*vectors.shape[:2], d, k),
        "noise": np.exp(2.0 * vectors[..., k + d * k : k + d * k + d]),
        "offset": vectors[..., k + d * k + d :],
    }
    return Run(found, gradient, float(n_steps.mean()), seconds)


def pymc_model(X: np.ndarray, k: int, filter_type: str):
    """Return the model in pymc-extras."""
    import pymc as pm
    import pytensor.tensor as pt
    from pymc_extras.statespace.core import PyMCStateSpace
    from pymc_extras.statespace.core.properties import Parameter

    d = X.shape[1]
    shapes = {"decay": (k,), "loadings": (d, k), "noise": (d,), "offset": (d,)}

    class Factorial(PyMCStateSpace):
        """Independent AR(1) factors of unit variance."""

        def set_parameters(self):
            return tuple(Parameter(name, shape) for name, shape in shapes.items())

        def make_symbolic_graph(self):
            decay, loadings, noise, offset = (
                self.make_and_register_variable(name, shape=shape) for name, shape in shapes.items()
            )
            self.ssm["transition"] = pt.diag(decay)
            self.ssm["selection"] = pt.eye(k)
            self.ssm["state_cov"] = pt.diag(1.0 - decay**2)
            self.ssm["design"] = loadings
            self.ssm["obs_cov"] = pt.diag(noise)
            self.ssm["obs_intercept"] = offset
            self.ssm["initial_state"] = pt.zeros(k)
            self.ssm["initial_state_cov"] = pt.eye(k)

    space = Factorial(k_endog=d, k_states=k, k_posdef=k, filter_type=filter_type, verbose=False)
    with pm.Model() as model:
        timescale = pm.LogNormal("timescale", 2.3, 1.5, shape=k)
        pm.Deterministic("decay", pt.exp(-1.0 / timescale))
        pm.Normal("loadings", 0.0, 1.0, shape=(d, k))
        pm.Deterministic("noise", pm.LogNormal("noise_std", -1.0, 1.0, shape=d) ** 2)
        pm.Normal("offset", 0.0, 1.0, shape=d)
        space.build_statespace_graph(X)
    return model


def pymc_extras(X: np.ndarray, k: int, start: dict, *, warmup: int, draws: int, filter_type: str) -> Run:
    """Sample by NUTS of PyMC with a filter of pymc-extras, compiled by numba, two chains."""
    import pymc as pm

    model = pymc_model(X, k, filter_type)
    function = model.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
    function.set_extra_values({})
    vector = start_vector(start)
    gradient = milliseconds(lambda: function(vector))
    if not draws:
        return Run({}, gradient, np.nan, np.nan)
    initial = {name: start[name] for name in ("timescale", "loadings", "offset")}
    began = time.process_time()
    with model:
        trace = pm.sample(
            draws=draws,
            tune=warmup,
            chains=2,
            cores=1,
            initvals={**initial, "noise_std": np.sqrt(start["noise"])},
            init="jitter+adapt_diag_grad",
            progressbar=False,
            random_seed=0,
            compute_convergence_checks=False,
            compile_kwargs={"mode": "NUMBA"},
        )
    seconds = time.process_time() - began
    found = {name: trace.posterior[name].to_numpy() for name in ("timescale", "loadings", "noise", "offset")}
    return Run(found, gradient, float(trace.sample_stats["n_steps"].mean()), seconds)
