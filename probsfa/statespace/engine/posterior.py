"""Posterior moments, log-likelihood and expected statistics of validated data, by the selected algorithm.

The algorithm is the compiled engine, or JAX if the compiled engine is not available. Arguments and results
are NumPy arrays. Parameters with AR(1) noise of columns are converted to :attr:`.StateSpace.state_space`, so
that moments include the noise states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from probsfa._like_input import like_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.core.algorithm import Core, supports
from probsfa.statespace.engine.core.kernels import MAX_STATES, warn_if_missing
from probsfa.statespace.engine.dynamics import Transition, simulate_factors
from probsfa.statespace.engine.moments import Filtering, Statistics
from probsfa.statespace.engine.stateless import Stateless
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "Filtering",
    "Posterior",
    "check_finite",
    "choose",
    "draw_states",
    "expected_statistics",
    "filter_rows",
    "leave_one_out_distributions",
    "log_likelihood",
    "observation_moments",
    "smooth",
    "strategy_for_sampling",
    "use_strategy",
    "visit_moments",
]

if TYPE_CHECKING:
    from probsfa.statespace.engine.problem import Strategy
    from probsfa.statespace.engine.sweep import Sweep

# Minimum noise variance of a column for leave-one-out moments, relative to the variance explained by the
# states.
_MIN_NOISE_SHARE = 1e-13

#: The algorithms, by name.
StrategyName = Literal["core", "recursions", "segmented", "scan"]
_selected: ContextVar[StrategyName | None] = ContextVar("engine_strategy", default=None)


@contextmanager
def use_strategy(strategy: StrategyName) -> Iterator[None]:
    """Compute posteriors with a given algorithm, for tests and measurements.

    Parameters
    ----------
    strategy : {"core", "recursions", "segmented", "scan"}
        "core" is the compiled engine, the default if it is installed and supports the number of states. The
        others use JAX: "recursions" row by row, "segmented" for segments of rows in parallel, and "scan" for
        very many segments that are joined by a parallel scan, on accelerators.

    Raises
    ------
    ValueError
        If the name is not valid. Computations inside the context raise a ValueError if the algorithm requires
        the compiled engine and it is not available, or if it requires segments of equal length and the number
        of rows is not a multiple of the number of segments.

    Notes
    -----
    The choice applies to the current thread. Likelihoods inside JAX programs, as in
    :class:`probsfa.BayesianSFA`, never use the compiled engine. JAX programs that are already compiled keep
    their algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.statespace import use_strategy
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=0)
    >>> model = ProbabilisticSFA(n_components=1).fit(X)
    >>> with use_strategy("recursions"):
    ...     value = model.log_likelihood(X)
    >>> bool(np.isclose(value, model.log_likelihood_, rtol=1e-10))
    True
    """
    if strategy not in get_args(StrategyName):
        names = ", ".join(map(repr, get_args(StrategyName)))
        raise ValueError(f"strategy must be one of {names}; got {strategy!r}.")
    token = _selected.set(strategy)
    try:
        yield
    finally:
        _selected.reset(token)


def choose(params: StateSpace, *, for_steps: bool = False) -> Core | Stateless | Sweep:
    """Return the algorithm for a model without AR(1) noise of columns; ``for_steps`` as in :class:`.Core`.

    Raises
    ------
    ValueError
        If the algorithm of :func:`~probsfa.statespace.use_strategy` does not support the model.
    """
    if params.n_states == 0:
        return Stateless()
    name = _selected.get()
    if name in (None, "core"):
        if supports(params):
            return Core(for_steps)
        if name == "core":
            raise ValueError(
                "strategy='core' requires the compiled engine (installed if there is a C compiler), and at "
                f"most {MAX_STATES} states; this model has {params.n_states}."
            )
        if params.n_states <= MAX_STATES:
            warn_if_missing()
    # Imported only if needed: importing JAX takes longer than most computations of the compiled engine.
    from probsfa.statespace.engine.sweep import Sweep

    return Sweep(name)


def strategy_for_sampling(n_rows: int, n_states: int) -> Strategy:
    """Return the algorithm for a likelihood of `n_rows` rows that is traced into a JAX program."""
    from probsfa.statespace.engine.sweep import jax_strategy, sampling_strategy

    name = _selected.get()
    if name in (None, "core"):
        return sampling_strategy(n_rows, n_states)
    return jax_strategy(n_rows, name)


# ---- moments, sums and likelihoods of a panel


class Posterior(NamedTuple):
    """Distribution of the factors given all observations (Kalman smoother).

    Attributes
    ----------
    means : ndarray or DataFrame of shape (T, K)
        Posterior means; a DataFrame if the data are a DataFrame.
    covariances : ndarray of shape (T, K, K)
        Posterior covariances of the factors at each row.
    lag_one_covariances : ndarray of shape (T - 1, K, K)
        ``lag_one_covariances[t]`` is the covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given all earlier rows, in nats; zero for rows without observations.
    """

    means: Any
    covariances: FloatArray
    lag_one_covariances: FloatArray
    row_log_likelihoods: FloatArray

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the observations, in nats."""
        return float(np.sum(self.row_log_likelihoods))

    @property
    def std(self) -> Any:
        """Posterior standard deviations, shape (T, K); a DataFrame if the means are a DataFrame."""
        return like_array(self.means, np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2)))

    def of(self, states: NDArray[np.intp]) -> Posterior:
        """Return the distribution of some of the states."""
        block = (slice(None), states[:, None], states)
        return self._replace(
            means=self.means[:, states],
            covariances=self.covariances[block],
            lag_one_covariances=self.lag_one_covariances[block],
        )

    def split(self, parts: Iterable[slice]) -> list[Posterior]:
        """Return the distributions of segments of the rows, such as the sequences of a list."""
        return [
            Posterior(
                self.means[s],
                self.covariances[s],
                self.lag_one_covariances[s.start : s.stop - 1],
                self.row_log_likelihoods[s],
            )
            for s in parts
        ]


def smooth(params: StateSpace, panel: Panel) -> Posterior:
    """Compute posterior moments of the latent states and the log-likelihood.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.

    Returns
    -------
    Posterior
        Moments for the ``n_rows`` rows of the panel, one sequence after the other.
    """
    states = params.state_space
    return Posterior(*choose(states).moments(states, panel))


def visit_moments(
    params: StateSpace,
    panel: Panel,
    visit: Callable[[slice, FloatArray, FloatArray], None],
    *,
    for_steps: bool = False,
) -> float:
    """Call a function with posterior means (n, K) and covariances (n, K, K) of each chunk, the last first.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.
    visit : callable
        Called with the rows of a chunk, their means and their covariances. The engine does not keep these
        arrays, so that the moments of all rows are never in memory together.
    for_steps : bool, default=False
        Whether moments are used for optimizer steps only, for which five digits suffice.

    Returns
    -------
    float
        Log-likelihood of the observations, in nats.
    """
    states = params.state_space
    return choose(states, for_steps=for_steps).visit_moments(states, panel, visit)


def log_likelihood(params: StateSpace, panel: Panel) -> float:
    """Return the log-likelihood of the observations in nats, by the forward pass alone."""
    states = params.state_space
    return choose(states).log_likelihood(states, panel)


def expected_statistics(params: StateSpace, panel: Panel, *, for_steps: bool = False) -> Statistics:
    """Compute the expected sufficient statistics for EM and the score, and the log-likelihood.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.
    for_steps : bool, default=False
        Whether the statistics are used for optimizer steps only, for which five digits suffice.
    """
    states = params.state_space
    return choose(states, for_steps=for_steps).expected_statistics(states, panel)


def filter_rows(
    params: StateSpace,
    panel: Panel,
    mean: FloatArray,
    covariance: FloatArray,
    first_transition: Transition | None = None,
) -> Filtering:
    """Compute filtered distributions of the states, given the distribution of the state before the first row.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.
    mean : ndarray of shape (K,)
        Mean of the state before the first row.
    covariance : ndarray of shape (K, K)
        Covariance of the state before the first row.
    first_transition : Transition, optional
        Transition (1, K) from that state to the first row. By default the first row starts a sequence.

    Returns
    -------
    Filtering
    """
    states = params.state_space
    return choose(states).filter(states, panel, mean, covariance, first_transition)


def leave_one_out_distributions(params: StateSpace, panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of each value given all other values; accurate also for near-zero noise.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.

    Returns
    -------
    means, variances : ndarray of shape (T, D)
        Moments of values, including the noise. They are NaN for missing values, and in columns in which
        rounding errors dominate, because the noise variance is below 1e-13 of the variance explained by the
        states.
    """
    states = params.state_space
    smoothing_errors, precisions = choose(states).leave_one_out(states, panel)
    resolved = states.noise_variance > _MIN_NOISE_SHARE * np.sum(states.loadings**2, axis=1)
    observed = (np.asarray(panel.mask[: panel.n_rows]) > 0.0) & resolved
    with np.errstate(divide="ignore", invalid="ignore"):
        means = panel.values[: panel.n_rows] - smoothing_errors / precisions
        return np.where(observed, means, np.nan), np.where(observed, 1.0 / precisions, np.nan)


def draw_states(params: StateSpace, panel: Panel, normals: FloatArray) -> FloatArray:
    """Transform standard normal variables to draws of the states from their joint posterior.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.
    normals : ndarray of shape (T, n_draws, K)
        Independent standard normal variables for the ``T`` rows of the panel, which include padding.

    Returns
    -------
    ndarray of shape (n_draws, N, K)
        Draws for the ``N`` rows without padding.
    """
    states = params.state_space
    return choose(states).draw(states, panel, normals)


# ---- simulation from the model, and simulation smoother


def simulate(params: StateSpace, n_steps: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw a series from the model.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    n_steps : int
        Length of the series.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    observations : ndarray of shape (n_steps, D)
        The series.
    factors : ndarray of shape (n_steps, K)
        The factors.
    """
    factors = simulate_factors(params, n_steps, rng)
    noise = rng.standard_normal((n_steps, params.n_features)) * np.sqrt(params.noise_variance)
    return params.offset + factors @ params.loadings.T + noise, factors


def draw_factors(params: StateSpace, panel: Panel, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Draw factors from their joint posterior given the observations (simulation smoother).

    The algorithm is forward filtering, backward sampling (Fruehwirth-Schnatter 1994).

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.
    n_draws : int
        Number of draws.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_draws, N, K)
    """
    # No random numbers are drawn for padded rows, so that draws do not depend on the padding.
    normals = np.zeros((panel.values.shape[0], n_draws, params.n_states))
    normals[: panel.n_rows] = rng.standard_normal((panel.n_rows, n_draws, params.n_states))
    return draw_states(params, panel, normals)


def check_finite(sequences: Sequences, params: StateSpace, *results: FloatArray | float) -> None:
    """Raise a ValueError if a result is not finite; the message names the value farthest from the model.

    Parameters
    ----------
    sequences : Sequences
        The data, in the units of the parameters.
    params : StateSpace
        Parameters of the model.
    *results : ndarray or float
        Results of inference.
    """
    # If the sum is finite, all terms are finite. Unlike a test of all terms, a sum requires no additional
    # memory.
    if all(np.isfinite(np.sum(result)) or np.isfinite(result).all() for result in results):
        return
    deviation = np.abs(sequences.values - params.offset)
    with np.errstate(all="ignore"):
        std = np.sqrt(np.sum(params.loadings**2, axis=1) + params.noise_variance)
        far = np.nan_to_num(deviation / std, nan=-1.0, posinf=np.finfo(np.float64).max)
    row, column = np.unravel_index(int(np.argmax(far)), far.shape)
    names = sequences.feature_names
    name_clause = "" if names is None else f" ({names[column]!r})"
    raise ValueError(
        f"X has values too far from this model for double precision: row {row}, column "
        f"{column}{name_clause} is {sequences.values[row, column]:.3g}, {far[row, column]:.2g} standard "
        "deviations from the mean of the model. Check this value, or fit the model to data in these units."
    )


def observation_moments(
    params: StateSpace, means: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D) of new observations, noise included, from moments of the states."""
    n_steps, k = means.shape
    outer_products = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(
        params.n_features, k * k
    )
    explained = covariances.reshape(n_steps, k * k) @ outer_products.T
    return params.offset + means @ params.loadings.T, np.maximum(explained, 0.0) + params.noise_variance
