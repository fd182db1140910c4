"""Random models with few values, and errors of computed moments.

This command prints the largest errors of the default algorithm and of the reference over many models::

    python -m tests.statespace.engine.random_models --models 300
"""

import argparse
import sys
from contextlib import nullcontext
from typing import NamedTuple

import jax
import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace import use_strategy
from probsfa.statespace.engine.posterior import Filtering, Posterior, smooth
from probsfa.statespace.filtering import filter_all
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateLayout, StateSpace
from probsfa.statespace.processes.matern import Matern32, Matern52
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.processes.trend import LocalLevel, LocalLinearTrend
from tests.oracles import extended_precision as oracle

# Maximum error: of means in posterior standard deviations, of covariances relative to variances, in nats.
MAX_ERROR = 1e-6


class Case(NamedTuple):
    """A model, values (N, D) with NaN where missing, their times (N,), and the lengths of the sequences."""

    params: StateSpace
    values: np.ndarray
    times: np.ndarray
    lengths: tuple[int, ...]

    @property
    def sequence(self):
        """Sequence of each row."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def random_case(seed):
    """Return one to three processes and 4 to 12 rows, with noise variances and gaps of many sizes."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 5))
    n_ar, n_levels, n_rhythms, n_smooth, n_lines, n_smoother = rng.multinomial(
        int(rng.integers(1, 4)), [0.3, 0.1, 0.2, 0.2, 0.1, 0.1]
    )
    slow, fast = 1.0 - 10.0 ** rng.uniform(-6, -2, n_ar), rng.uniform(0.01, 0.99, n_ar)
    n_ar1_noise = n_features if rng.random() < 0.3 else 0
    processes = (
        LocalLevel.arbitrary(n_levels),
        Rhythm(1.0 - 10.0 ** rng.uniform(-4, -0.5, n_rhythms), rng.uniform(0.05, 2.0, n_rhythms)),
        Matern32.of_times(10.0 ** rng.uniform(0, np.log10(300.0), n_smooth)),
        LocalLinearTrend(10.0 ** rng.uniform(-2, 4, n_lines)),
        Matern52.of_times(10.0 ** rng.uniform(0, np.log10(300.0), n_smoother)),
    )
    state_layout = StateLayout(n_ar, {type(process): len(process) for process in processes})
    loadings = np.zeros((n_features, state_layout.n_states))  # no column measures a derivative
    loadings[:, state_layout.loaded_states] = rng.standard_normal((n_features, state_layout.n_loaded_states))
    noise = 10.0 ** rng.uniform(-12, 0.5, n_features)
    for process_type, own_states in state_layout.states.items():
        # Innovations of trends are 0.1 to 10 times those of other processes, and starts are up to 1e6.
        if not process_type.stationary:
            loadings[:, own_states] *= 10.0 ** rng.uniform(4, 6)
            noise = np.maximum(noise, 1e-6)  # smaller noise is below the last digit of values of 1e6
    params = StateSpace(
        np.where(rng.random(n_ar) < 0.3, slow, fast),
        loadings,
        noise,
        rng.standard_normal(n_features),
        processes,
        noise_decay=rng.uniform(0.1, 0.99, n_ar1_noise),
        noise_scale=rng.uniform(0.1, 2.0, n_ar1_noise),
    ).state_space
    n_rows = int(rng.integers(4, 13))
    cuts = np.sort(rng.choice(np.arange(1, n_rows), int(rng.integers(0, 3)), replace=False))
    lengths = tuple(int(n) for n in np.diff([0, *cuts, n_rows]))
    times = np.cumsum(10.0 ** rng.uniform(-5, 3, n_rows) if rng.random() < 0.75 else np.ones(n_rows))
    case = Case(params, np.empty((n_rows, n_features)), times, lengths)
    covariance = oracle.prior(params, times, case.sequence).astype(float)
    size = n_rows * params.n_states
    variances, directions = np.linalg.eigh(covariance.reshape(size, size))
    states = directions @ (np.sqrt(np.maximum(variances, 0.0)) * rng.standard_normal(size))
    case.values[:] = params.offset + states.reshape(n_rows, -1) @ params.loadings.T
    case.values[:] += np.sqrt(params.noise_variance) * rng.standard_normal(case.values.shape)
    case.values[rng.random(case.values.shape) < 0.2] = np.nan
    case.values[rng.random(n_rows) < 0.1] = np.nan
    return case


def close_rows(gap):
    """Return one AR(1) factor and one smooth process of time scale 240, with two rows at this distance."""
    rng = np.random.default_rng(0)
    params = StateSpace(
        np.array([0.9]),
        np.array([[1.0, 0.5, 0.0], [0.3, -1.0, 0.0], [-0.6, 0.8, 0.0]]),
        np.full(3, 0.1),
        np.zeros(3),
        smooth_rate=np.array([np.sqrt(3.0) / 240.0]),
    )
    return Case(params, rng.standard_normal((6, 3)), np.array([0.0, 1.0, 2.0, 2.0 + gap, 3.0, 4.0]), (6,))


def steady_rows(noise_variance):
    """Return seven AR(1) factors in one column, and sequences of one row, whose filter is steady at once."""
    rng = np.random.default_rng(0)
    params = StateSpace(
        np.linspace(0.1, 0.7, 7), rng.standard_normal((1, 7)), np.array([noise_variance]), np.zeros(1)
    )
    return Case(params, rng.standard_normal((6, 1)), np.arange(6.0), (1,) * 6)


def errors_of(case, wanted):
    """Return the largest errors of the selected algorithm, see :func:`errors`."""
    panel = make_panel(Sequences(case.values, case.lengths, times=case.times))
    return errors(wanted, smooth(case.params, panel), filter_all(case.params, panel)[0])


def unexplained_errors(case, wanted, found, max_error):
    """Return the errors of at least `max_error` that rounding of the values does not explain.

    Values of a trend may be 1e10 times the standard deviation of their noise. Then the exact posterior
    changes by more than `max_error` if each value is replaced by an adjacent double, up or down at random. An
    algorithm rounds a value several times: eight times the largest of four such changes is allowed.
    """
    too_large = {name: error for name, error in found.items() if not error < max_error}
    if not too_large:
        return {}
    rng, rounding_errors = np.random.default_rng(0), dict.fromkeys(found, 0.0)
    for _ in range(4):
        perturbed = np.nextafter(case.values, np.where(rng.random(case.values.shape) < 0.5, np.inf, -np.inf))
        posterior = oracle.posterior(case.params, perturbed, case.times, case.sequence)
        smoothed = Posterior(
            posterior.means, posterior.covariances, posterior.lag_one, posterior.row_log_likelihoods
        )
        filtered = Filtering(
            posterior.filtered_means, posterior.filtered_covariances, posterior.row_log_likelihoods
        )
        rounding_errors = {
            name: max(e, rounding_errors[name]) for name, e in errors(wanted, smoothed, filtered).items()
        }
    return {name: error for name, error in too_large.items() if not error < 8.0 * rounding_errors[name]}


def errors(wanted, smoothed, filtered):
    """Return the largest errors: of means in standard deviations, of covariances relative to their products.

    The error of a log-likelihood is in nats if its absolute value is at most 1e6 nats. Larger values have a
    last digit above 1e-10 nats; their error is divided by the value in millions of nats.
    """
    smoothed_std, filtered_std = (
        np.sqrt(np.diagonal(x, axis1=1, axis2=2)) for x in (wanted.covariances, wanted.filtered_covariances)
    )
    value = wanted.row_log_likelihoods.sum()
    unit = max(1.0, 1e-6 * abs(value))
    found = {
        "means": (smoothed.means - wanted.means) / smoothed_std,
        "covariances": (smoothed.covariances - wanted.covariances) / _products(smoothed_std, smoothed_std),
        "lag_one": (smoothed.lag_one_covariances - wanted.lag_one)
        / _products(smoothed_std[1:], smoothed_std[:-1]),
        "log_likelihood": (smoothed.row_log_likelihoods.sum() - value) / unit,
        "filtered_means": (filtered.means - wanted.filtered_means) / filtered_std,
        "filtered_covariances": (filtered.covariances - wanted.filtered_covariances)
        / _products(filtered_std, filtered_std),
        "filtered_log_likelihood": (filtered.log_likelihoods.sum() - value) / unit,
    }
    return {name: float(np.max(np.abs(error), initial=0.0)) for name, error in found.items()}


def _products(left, right):
    return left[:, :, None] * right[:, None, :]


def main():
    """Print the largest error of each quantity over all models, and the model that has it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--strategies", nargs="+", default=["default", "recursions"])
    options = parser.parse_args()
    largest_errors = {name: {} for name in options.strategies}
    exceeding = []
    for seed in range(options.models):
        case = random_case(seed)
        wanted = oracle.posterior(case.params, case.values, case.times, case.sequence)
        for name, largest in largest_errors.items():
            with nullcontext() if name == "default" else use_strategy(name):
                found = errors_of(case, wanted)
            if not all(error < MAX_ERROR for error in found.values()):  # also NaN
                exceeding.append((seed, name, found, unexplained_errors(case, wanted, found, MAX_ERROR)))
                continue
            for quantity, error in found.items():
                largest[quantity] = max(largest.get(quantity, (0.0, seed)), (error, seed))
        if seed % 25 == 24:
            jax.clear_caches()  # few models share a compiled program
    for name, largest in largest_errors.items():
        for quantity, (error, seed) in largest.items():
            sys.stdout.write(f"{name:12s} {quantity:24s} {error:.1e}  (model {seed})\n")
    for seed, name, found, unexplained in exceeding:
        shown = ", ".join(f"{quantity} {error:.1e}" for quantity, error in found.items())
        reason = f"not explained: {', '.join(unexplained)}" if unexplained else "by rounding of the values"
        sys.stdout.write(f"{name:12s} model {seed}, {reason}: {shown}\n")


if __name__ == "__main__":
    main()
