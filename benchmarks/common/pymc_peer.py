"""The model in pymc-extras, sampled by NumPyro."""

import time

import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

T, D, K = 200, 5, 2


def pymc_extras(X: np.ndarray, n_draws: int) -> float | None:
    """The Kalman filter of pymc-extras in its own fastest mode."""
    try:
        import pymc as pm
        import pytensor.tensor as pt
        from pymc_extras.statespace.core import PyMCStateSpace
    except ImportError as error:
        print(f"pymc-extras: {error}")
        return None

    class Factorial(PyMCStateSpace):
        """Two independent AR(1) latents of unit variance."""

        def __init__(self):
            super().__init__(k_endog=D, k_states=K, k_posdef=K, filter_type="standard", verbose=False)

        def make_symbolic_graph(self):
            decay = self.make_and_register_variable("decay", shape=(K,))
            loadings = self.make_and_register_variable("loadings", shape=(D, K))
            noise = self.make_and_register_variable("noise", shape=(D,))
            offset = self.make_and_register_variable("offset", shape=(D,))
            self.ssm["transition"] = pt.diag(decay)
            self.ssm["selection"] = pt.eye(K)
            self.ssm["state_cov"] = pt.diag(1.0 - decay**2)
            self.ssm["design"] = loadings
            self.ssm["obs_cov"] = pt.diag(noise)
            self.ssm["obs_intercept"] = offset
            self.ssm["initial_state"] = pt.zeros(K)
            self.ssm["initial_state_cov"] = pt.eye(K)

        @property
        def param_names(self):
            return ["decay", "loadings", "noise", "offset"]

        @property
        def state_names(self):
            return [f"z{k}" for k in range(K)]

        @property
        def shock_names(self):
            return [f"e{k}" for k in range(K)]

        @property
        def observed_states(self):
            return [f"x{d}" for d in range(D)]

        @property
        def param_info(self):
            return {
                "decay": {"shape": (K,), "dims": None, "constraints": None},
                "loadings": {"shape": (D, K), "dims": None, "constraints": None},
                "noise": {"shape": (D,), "dims": None, "constraints": None},
                "offset": {"shape": (D,), "dims": None, "constraints": None},
            }

    rates = []
    for mode, sampler in (("JAX", "numpyro"), (None, "pymc")):
        try:
            space = Factorial()
            with pm.Model() as model:
                timescale = pm.LogNormal("timescale", 2.3, 1.5, shape=K)
                pm.Deterministic("decay", pt.exp(-1.0 / timescale))
                pm.Normal("loadings", 0.0, 1.0, shape=(D, K))
                std = pm.LogNormal("noise_std", -1.0, 1.0, shape=D)
                pm.Deterministic("noise", std**2)
                pm.Normal("offset", 0.0, 1.0, shape=D)
                space.build_statespace_graph(X, mode=mode)
            with model:
                began = time.perf_counter()
                trace = pm.sample(
                    draws=n_draws,
                    tune=n_draws,
                    chains=2,
                    cores=2,
                    nuts_sampler=sampler,
                    progressbar=False,
                    random_seed=0,
                    compute_convergence_checks=False,
                )
                seconds = time.perf_counter() - began
            post = trace.posterior
            draws = invariants(*(post[n].to_numpy() for n in ("timescale", "loadings", "noise", "offset")))
            rates.append(report(f"pymc-extras ({sampler}, whole run)", draws, seconds))
        except Exception as error:  # a peer's failure is a result too
            print(f"pymc-extras ({sampler}): {type(error).__name__}: {str(error)[:200]}", flush=True)
    return max(rates, default=None)


def invariants(timescale, loadings, noise, offset) -> np.ndarray:
    """What has no label and no sign, (chain, draw, P)."""
    product = np.einsum("cndk,cnek->cnde", loadings, loadings)
    rows, columns = np.tril_indices(product.shape[-1])
    parts = [np.sort(np.log(timescale), axis=-1), product[..., rows, columns], noise, offset]
    return np.concatenate(parts, axis=-1)


def report(name: str, draws: np.ndarray, seconds: float) -> float:
    """Print and return the smallest number of effective samples per second."""
    ess = effective_sample_size(draws)
    rhat = split_gelman_rubin(draws).max()
    rate = float(ess.min() / seconds)
    print(
        f"{name:<34} {draws.shape[0]} x {draws.shape[1]} draws, {seconds:7.1f} s, R-hat {rhat:.3f}, "
        f"ESS {ess.min():7.1f} (median {np.median(ess):.0f}), {rate:9.3f} per second",
        flush=True,
    )
    return rate
