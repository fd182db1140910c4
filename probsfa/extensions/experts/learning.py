"""Learning of a product of experts by contrastive divergence.

The normalizer ``Z`` of the density of rows is unknown, but the derivative of the log-likelihood is a
difference of two terms::

    d log p(y) / d theta = d log N(phi(y)) / d theta - E[d log N(phi(y)) / d theta under the model]

Hamiltonian Monte Carlo chains estimate the second term. Contrastive divergence (Hinton 2002) starts the
chains at the data in each step and needs few moves. Persistent chains (Tieleman 2008) continue from the
previous step, and estimate the derivative without bias once they have mixed. For missing values and values
observed with noise, the first term is a mean, too, over separate chains given the observations.

The optimizer is Adam (Kingma & Ba 2015) with a decreasing learning rate. The result is the mean of the
parameters over the second half of the steps (Polyak & Juditsky 1992).

References
----------
Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022, section 5.3.
Hinton (2002), Neural Computation 14:1771. Tieleman (2008), ICML. Kingma & Ba (2015), arXiv:1412.6980.
Polyak & Juditsky (1992), SIAM Journal on Control and Optimization 30:838.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.extensions.experts.potential import Features, GlobalExpert, ValueDensity
from probsfa.extensions.experts.sampling import Columns, Reference, State, Stepsize, move
from probsfa.statespace.parameters import StateSpace

__all__ = ["Data", "Learned", "Settings", "from_vector", "learn", "to_vector"]

# Parameters of Adam: decay rates of the mean and of the mean square of the gradient, and the constant in the
# denominator.
_MEAN_DECAY, _SQUARE_DECAY, _ADAM_EPSILON = 0.9, 0.99, 1e-8
# Learning rate of the last step, relative to the first.
_FINAL_LEARNING_RATE = 0.1
# Maximum of atanh(decay); the decay is then 0.99998.
_MAX_ATANH_DECAY = 6.0
# Maximum logarithm of a noise variance; expanded rows have unit variance.
_MAX_LOG_NOISE = 4.0

#: Called with the number of steps and the contrast: log density of the data minus that of samples, per row.
Report = Callable[[int, float], None]


class Data(NamedTuple):
    """Training rows.

    Attributes
    ----------
    values : ndarray (N, D)
        Rows, NaN where missing.
    mask : ndarray of bool (N, D)
        Whether values are observed.
    lengths : tuple of int
        Length of each sequence.
    columns : Columns
        The Gaussian reference of the columns.
    noise : ndarray (D,)
        Standard deviations of observation noise; zeros for rows observed without noise.
    """

    values: FloatArray
    mask: BoolArray
    lengths: tuple[int, ...]
    columns: Columns
    noise: FloatArray

    @property
    def is_sampled(self) -> BoolArray:
        """Mask (N, D) of values that are missing or observed with noise."""
        return ~self.mask if not self.noise.any() else np.ones_like(self.mask)

    @property
    def observation_precision(self) -> FloatArray | None:
        """Precisions (N, D) of noisy observations, zero where missing; None without noise."""
        return self.mask / self.noise**2 if self.noise.any() else None

    def given_observations(self, features: Features, expert: GlobalExpert) -> tuple[ValueDensity, Reference]:
        """Return the density of sampled values given the observations, and a Gaussian reference for it."""
        parts = self.values, self.is_sampled, self.observation_precision
        return ValueDensity(features, expert, *parts), Reference(self.columns, self.lengths, *parts)

    def without_observations(
        self, features: Features, expert: GlobalExpert
    ) -> tuple[ValueDensity, Reference]:
        """Return the density of the same number of unobserved rows, and a Gaussian reference for it."""
        is_free = np.ones(self.values.shape, dtype=bool)
        zeros = np.zeros(self.values.shape)
        return ValueDensity(features, expert, zeros, is_free), Reference(
            self.columns, self.lengths, zeros, is_free
        )


class Settings(NamedTuple):
    """Settings of learning; see :class:`probsfa.extensions.ProductOfExpertsSFA`."""

    n_chains: int
    n_moves: int
    n_leaps: int
    persistent: bool
    learning_rate: float
    max_iter: int
    min_noise_variance: float


class Learned(NamedTuple):
    """Result of learning.

    Attributes
    ----------
    params : StateSpace
        Parameters of the global expert; its noise includes the width of the local experts.
    contrast : ndarray (n,)
        Log density of the data minus that of the samples, in nats per row, at each step.
    drift : float
        Largest difference of a parameter between the means over the third and the last quarter of the steps.
    acceptance : float
        Acceptance rate of recent moves of the samples.
    step : float
        Leapfrog step size of the moves of the chains.
    interrupted : bool
        Whether a keyboard interrupt ended the fit.
    """

    params: StateSpace
    contrast: FloatArray
    drift: float
    acceptance: float
    step: float
    interrupted: bool


def to_vector(params: StateSpace) -> FloatArray:
    """Return the vector ``(atanh a, C, log r, mu)`` of parameters."""
    log_noise = np.log(params.noise_variance)
    return np.concatenate([np.arctanh(params.decay), params.loadings.ravel(), log_noise, params.offset])


def from_vector(vector: FloatArray, n_components: int) -> StateSpace:
    """Return the parameters of a vector, the inverse of `to_vector`."""
    k = n_components
    e = (len(vector) - k) // (k + 2)
    loadings = vector[k : k + e * k].reshape(e, k)
    return StateSpace(np.tanh(vector[:k]), loadings, np.exp(vector[k + e * k : -e]), vector[-e:])


def learn(
    features: Features,
    data: Data,
    start: StateSpace,
    settings: Settings,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Learned:
    """Maximize the likelihood of a product of experts from initial parameters.

    Parameters
    ----------
    features : Features
        The expansion.
    data : Data
        Training data.
    start : StateSpace
        Parameters of the global expert.
    settings : Settings
        Settings of learning.
    rng : Generator
        Random number generator.
    report : callable, optional
        Called with the number of steps and the contrast.

    Returns
    -------
    Learned
    """
    k, e = start.n_components, start.n_features
    lower, upper = np.full((2, k * (e + 1) + 2 * e), np.array([[-np.inf], [np.inf]]))
    lower[:k], upper[:k] = -_MAX_ATANH_DECAY, _MAX_ATANH_DECAY
    log_noise_slice = slice(k * (e + 1), k * (e + 1) + e)
    lower[log_noise_slice], upper[log_noise_slice] = np.log(settings.min_noise_variance), _MAX_LOG_NOISE
    vector = np.clip(to_vector(start), lower, upper)
    vectors, contrast = [vector], []
    chains = _Chains(features, data, from_vector(vector, k), settings, rng)
    mean, square = np.zeros_like(vector), np.zeros_like(vector)
    interrupted = False
    try:
        for i in range(settings.max_iter):
            gradient, mean_difference = chains.contrast(from_vector(vector, k))
            mean += (1.0 - _MEAN_DECAY) * (gradient - mean)
            square += (1.0 - _SQUARE_DECAY) * (gradient**2 - square)
            direction = mean / (1.0 - _MEAN_DECAY ** (i + 1))
            direction /= np.sqrt(square / (1.0 - _SQUARE_DECAY ** (i + 1))) + _ADAM_EPSILON
            rate = settings.learning_rate * (1.0 - (1.0 - _FINAL_LEARNING_RATE) * i / settings.max_iter)
            vector = np.clip(vector + rate * direction, lower, upper)
            vectors.append(vector)
            contrast.append(mean_difference)
            if report is not None:
                report(i + 1, mean_difference)
    except KeyboardInterrupt:
        interrupted = True
    quarters = np.array_split(np.array(vectors), 4)
    drift = 0.0
    if all(len(quarter) for quarter in quarters[2:]):
        drift = float(np.max(np.abs(quarters[3].mean(axis=0) - quarters[2].mean(axis=0))))
    averaged = np.mean(vectors[len(vectors) // 2 :], axis=0)
    return Learned(
        from_vector(averaged, k),
        np.array(contrast),
        drift,
        chains.step.acceptance,
        chains.step.size,
        interrupted,
    )


class _Chains:
    """Markov chains that estimate the two terms of the gradient."""

    def __init__(
        self, features: Features, data: Data, params: StateSpace, settings: Settings, rng: np.random.Generator
    ) -> None:
        self._features, self._data, self._settings, self._rng = features, data, settings, rng
        expert = GlobalExpert(params, data.lengths)
        self._conditional, self._conditional_reference = data.given_observations(features, expert)
        self._joint, self._joint_reference = data.without_observations(features, expert)
        self._sampled_values = np.repeat(self._conditional_reference.mean, settings.n_chains, axis=1)
        self._samples = self._joint.free_values(self._conditional.rows(self._sampled_values))
        self.step, self._conditional_step = Stepsize(), Stepsize()

    def contrast(self, params: StateSpace) -> tuple[FloatArray, float]:
        """Return the derivative of the log-likelihood and the contrast, both per row."""
        settings, expert = self._settings, GlobalExpert(params, self._data.lengths)
        if self._sampled_values.size:
            self._sampled_values = self._run_moves(
                self._conditional.at(expert),
                self._sampled_values,
                self._conditional_reference,
                self._conditional_step,
            )
            rows = self._conditional.rows(self._sampled_values)
        else:
            rows = self._conditional.rows(self._sampled_values[:, :1])
        data_evaluation = expert.evaluate(self._features(rows))
        if not settings.persistent:
            copies = settings.n_chains // len(rows)
            self._samples = self._joint.free_values(np.repeat(rows, copies, axis=0))
        self._samples = self._run_moves(
            self._joint.at(expert), self._samples, self._joint_reference, self.step
        )
        sample_evaluation = expert.evaluate(self._features(self._joint.rows(self._samples)))
        gradient = expert.parameter_gradient(data_evaluation) - expert.parameter_gradient(sample_evaluation)
        mean_difference = float(np.mean(data_evaluation.log_density) - np.mean(sample_evaluation.log_density))
        n_rows = len(self._data.values)
        return gradient / n_rows, mean_difference / n_rows

    def _run_moves(
        self, density: ValueDensity, free_values: FloatArray, reference: Reference, step: Stepsize
    ) -> FloatArray:
        state = State.at(density, free_values)
        for _ in range(self._settings.n_moves):
            state, acceptance = move(density, state, reference, step.size, self._settings.n_leaps, self._rng)
            step.adapt(acceptance)
        return state.free_values
