"""A whole fit against statsmodels' DynamicFactorMQ and dynamax's EM: D = 20, K = 3 or as asked, T = 5,000.

The clock of a peer stops where its parameters reach our optimum less 1e-4 nats per step, in the
log-likelihood of the same model: for statsmodels ``mod.loglike(params)``, for dynamax the value its EM
reports. Where a peer does not get there, because it stops rising or the budget is spent, the table says how
far it came.

* Ours is ``ProbabilisticSFA(K).fit(X)`` from the raw array: starts, climb, attributes, to its own tolerance.
* statsmodels maximises the same likelihood. It has no mean, so it is given the series less the mean that our
  fit found, and can reach the same optimum. EM with ``em_initialization=False`` (otherwise its likelihood is
  another model's) from its own principal components: as it comes, and with its filter collapsed, its fastest.
* dynamax fits full matrices F, Q and R: 200 parameters more, with which it passes our optimum in any case.
  So it runs twice, from the start of statsmodels: held to our model (its smoother with the noise as a
  vector, its EM, and an M-step with diagonal matrices), and as it comes, to the best it reaches itself less
  1e-4 nats per step. It has no path for gaps.

Seconds are of the processor, all threads together, so that other work on the machine counts little; our
fits are timed before and after the peers. Compilation is not counted (everything runs once before), and
neither is, for statsmodels, the evaluation that tells when to stop. A peer has as many seconds as
``--budget`` says, or as many of our fits as ``--fits`` says if that is longer.

    python benchmarks/speed/full_fit_peers.py
    python benchmarks/speed/full_fit_peers.py --quick
    python benchmarks/speed/full_fit_peers.py --components 12 --rows 2000 --fits 40
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from probsfa import ProbabilisticSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import Timing, duration, setting, table, timed
from common.smoothers import draw_problem

PER_STEP = 1e-4  # nats of log-likelihood per time step that count as having arrived
STATSMODELS_ITERATIONS, DYNAMAX_ITERATIONS = 5, 25  # of EM between two looks at the log-likelihood
STALLED = 1e-7  # nats per step and iteration: less than this is no rise


class Ascent(NamedTuple):
    """How a peer climbed: seconds and iterations it took, and the highest log-likelihood it had."""

    seconds: float
    n_iterations: int
    best: float


def follow(step: Callable[[], tuple[float, list[float]]], target: float, n: int, budget: float) -> Ascent:
    """Take steps until the log-likelihood arrives, stops rising, or the budget is spent.

    A step returns its seconds and the log-likelihoods that its iterations reached. Without a finite target,
    it is the best value in the end, less what counts as having arrived.
    """
    seconds: list[float] = []
    values: list[float] = []
    while sum(seconds) < budget:
        spent, reached = step()
        seconds += [spent / len(reached)] * len(reached)
        values += reached
        rise = max(values) - max(values[: -len(reached)], default=-np.inf)
        if max(values) >= target or rise < STALLED * n * len(reached):
            break
    target = target if np.isfinite(target) else max(values) - PER_STEP * n
    arrived = np.flatnonzero(np.asarray(values) >= target)
    n_iterations = int(arrived[0]) + 1 if arrived.size else len(values)
    return Ascent(sum(seconds[:n_iterations]), n_iterations, max(values))


def factor_model(X: np.ndarray, n_factors: int, *, collapsed: bool) -> Any:
    """Return the model of statsmodels that is ours, for centred data."""
    from statsmodels.tsa.statespace.dynamic_factor_mq import DynamicFactorMQ

    model = DynamicFactorMQ(X, factors=n_factors, factor_orders=1, idiosyncratic_ar1=False, standardize=False)
    if collapsed:
        model.ssm.filter_univariate = False
        model.ssm.filter_collapsed = True
    return model


def by_statsmodels(X: np.ndarray, n_factors: int, target: float, budget: float, *, collapsed: bool) -> Ascent:
    """Run statsmodels' EM."""
    model = factor_model(X, n_factors, collapsed=collapsed)
    options = {"tolerance": -1.0, "em_initialization": False, "disp": 0, "return_params": True}
    params = model.start_params
    n = STATSMODELS_ITERATIONS

    def step() -> tuple[float, list[float]]:
        nonlocal params
        seconds, params = timed(lambda: model.fit_em(params, maxiter=n, **options), time.process_time)
        # What the iterations before the last one reached is not known: they count as the last.
        return seconds, [-np.inf] * (n - 1) + [float(model.loglike(params))]

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return follow(step, target, len(X), budget)


def by_dynamax(X: np.ndarray, n_factors: int, target: float, budget: float, *, held: bool) -> Ascent:
    """Run dynamax's EM from the start of statsmodels."""
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    class Held(LinearGaussianSSM):
        """Diagonal F, Q and R, and the stationary start."""

        def m_step(self, params: Any, props: Any, batch_stats: Any, m_step_state: Any) -> Any:
            _, (before, across, after, n), (zz, zy, yy, T) = jax.tree.map(
                lambda x: x.sum(axis=0), batch_stats
            )
            before, across, after = map(jnp.diag, (before, across, after))
            decay = across / before
            spread = (after - decay * across) / n
            loadings = jnp.linalg.solve(zz, zy).T
            noise = (jnp.diag(yy) - jnp.sum(loadings * zy.T, axis=1)) / T
            initial = params.initial._replace(cov=jnp.diag(spread / (1.0 - decay**2)))
            dynamics = params.dynamics._replace(weights=jnp.diag(decay), cov=jnp.diag(spread))
            emissions = params.emissions._replace(weights=loadings, cov=noise)
            return params._replace(initial=initial, dynamics=dynamics, emissions=emissions), m_step_state

    D, K = X.shape[1], n_factors
    start = factor_model(X, K, collapsed=True).start_params
    a, chol = start[D * K : D * K + K], start[D * K + K : D * K + 2 * K]
    noise = start[D * K + 2 * K :]
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = Held if held else LinearGaussianSSM
        model = kind(K, D, has_dynamics_bias=False, has_emissions_bias=False)
        params, props = model.initialize(
            initial_mean=np.zeros(K),
            initial_covariance=np.diag(chol**2 / (1.0 - a**2)),
            dynamics_weights=np.diag(a),
            dynamics_covariance=np.diag(chol**2),
            emission_weights=start[: D * K].reshape(D, K),
            emission_covariance=noise if held else np.diag(noise),
        )
        params = jax.tree.map(jnp.asarray, params)
        run = jax.jit(
            lambda params: model.fit_em(params, props, X, num_iters=DYNAMAX_ITERATIONS, verbose=False)
        )
        jax.block_until_ready(run(params))

        def step() -> tuple[float, list[float]]:
            nonlocal params
            seconds, (params, values) = timed(lambda: jax.block_until_ready(run(params)), time.process_time)
            return seconds, np.asarray(values).tolist()

        return follow(step, target, len(X), budget)


def compare(missing: float, options: argparse.Namespace) -> str:
    """Return the table of all contestants on one series."""
    K = options.components
    X = draw_problem(options.rows, 20, K, missing).X
    n = len(X)

    def fit() -> ProbabilisticSFA:
        return ProbabilisticSFA(K).fit(X)

    first, model = timed(fit, time.process_time)
    fits = [timed(fit, time.process_time)[0] for _ in range(options.repeats)]
    budget = max(options.budget, options.fits * min(fits))
    optimum = model.log_likelihood_
    target = optimum - PER_STEP * n
    centred = X - model.mean_
    peers: dict[str, Callable[[], Ascent]] = {
        "statsmodels": lambda: by_statsmodels(centred, K, target, budget, collapsed=False),
        "statsmodels, collapsed": lambda: by_statsmodels(centred, K, target, budget, collapsed=True),
    }
    if missing == 0.0:
        peers["dynamax, held to our model"] = lambda: by_dynamax(centred, K, target, budget, held=True)
        peers["dynamax, its larger model"] = lambda: by_dynamax(centred, K, np.inf, budget, held=False)
    courses = {name: run() for name, run in peers.items()}
    ours = Timing.of([*fits, *(timed(fit, time.process_time)[0] for _ in range(options.repeats))])
    rows = [("probsfa", str(ours), "1.0", f"{model.n_evaluations_} posteriors", f"{optimum / n:.5f}")]
    for name, course in courses.items():
        arrived = course.best >= target
        short = "" if arrived else f", short by {(optimum - course.best) / n:.1e}"
        rows.append(
            (
                name,
                duration(course.seconds) + ("" if arrived else ", did not arrive"),
                ("" if arrived else "more than ") + f"{course.seconds / ours.median:.1f}",
                f"{course.n_iterations} iterations",
                f"{course.best / n:.5f}{short}",
            )
        )
    header = ("", "median (shortest to longest)", "times ours", "effort", "log-likelihood per step")
    return (
        table(header, rows)
        + f"\n\nOur first fit in the process, compilation included, took {duration(first)}."
    )


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        rows=5_000,
        components=3,
        repeats=7,
        budget=(120.0, "seconds for one peer on one series"),
        fits=(0.0, "the same in fits of ours"),
        quick=(False, "1,000 rows, 3 repeats, 10 s a peer"),
    )
    if options.quick:
        options.rows, options.repeats, options.budget = 1_000, 3, 10.0
    print(setting("numpy", "jax", "dynamax", "statsmodels"))
    for missing in (0.0, 0.2):
        print(
            f"\nT = {options.rows:,}, D = 20, K = {options.components}, {missing:.0%} of the cells missing:\n"
        )
        print(compare(missing, options), flush=True)


if __name__ == "__main__":
    main()
