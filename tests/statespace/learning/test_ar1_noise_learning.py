"""Estimation with AR(1) noise: score, information, Whittle's likelihood, M-step and complete fits."""

import numpy as np
import pytest
import scipy.stats
from scipy.signal import lfilter

from probsfa import ProbabilisticSFA, select_n_components
from probsfa.statespace.engine.posterior import expected_statistics, log_likelihood
from probsfa.statespace.learning import em
from probsfa.statespace.learning.budget import default_size, max_components
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    from_vector,
    information_frequencies,
    score,
    to_vector,
)
from probsfa.statespace.learning.fisher_metric import AR1NoiseMetric, CompleteData
from probsfa.statespace.learning.objective import AR1NoiseWhittleObjective, periodogram
from probsfa.statespace.learning.standard_errors import observed_information
from probsfa.statespace.learning.starts import ar1_noise_signs
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import StateSpace, make_parameters
from tests.oracles import ar1_noise as oracle
from tests.oracles.statespace import numerical_hessian
from tests.sampling import parametrize
from tests.statespace.engine.test_ar1_noise_states import make_data, make_model
from tests.statespace.support import scaled_error, to_panel


def in_coordinates(params, even, noise="diagonal"):
    """Return coordinates, state-space parameters and vector of a model."""
    states = params.state_space
    coordinates = Coordinates(
        params.state_layout, getattr(NoiseVariances, noise)(params.n_features), even
    ).with_ar1_noise
    return coordinates, states, to_vector(coordinates, states)


@parametrize("rhythm", [False, True], quick=[True])
@parametrize("even", [True, False], quick=[False])
def test_score_is_the_derivative_of_the_joint_gaussian(rng, rhythm, even):
    params = make_model(rng, 1, rhythm=rhythm)
    data, times, panel = make_data(rng, params, even=even)
    coordinates, states, at = in_coordinates(params, even)
    assert coordinates.size == len(at) == coordinates.n_free + rhythm
    back = from_vector(coordinates, at, states).without_ar1_noise_states()
    for one, other in zip(back.to_arrays().values(), params.to_arrays().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    gradient = score(coordinates, states, panel.gaps, expected_statistics(states, panel))
    step = 1e-5
    for i in range(coordinates.size):
        moved = [
            from_vector(coordinates, at + s * step * np.eye(coordinates.size)[i], states) for s in (1.0, -1.0)
        ]
        up, down = (oracle.log_likelihood(each.without_ar1_noise_states(), data, times) for each in moved)
        assert abs(gradient[i] - (up - down) / (2.0 * step)) < 2e-6 * max(1.0, abs(gradient[i])), i


def spectral_matrix(params, omega):
    """Return ``S(w)`` from the closed forms of the spectra."""

    def spectrum(a):
        return (1.0 - a**2) / abs(1.0 - a * np.exp(-1j * omega)) ** 2

    factors = [spectrum(a) for a in params.decay]
    for rho, w in zip(params.rhythm_decay, params.rhythm_frequency, strict=True):
        both = [(1.0 - rho**2) / abs(1.0 - rho * np.exp(1j * (s * w - omega))) ** 2 for s in (1.0, -1.0)]
        factors += [0.5 * sum(both)] * 2
    ar1_spectra = [s**2 * spectrum(b) for s, b in zip(params.noise_scale, params.noise_decay, strict=True)]
    noise = np.diag(np.array(ar1_spectra) + params.noise_variance)
    return params.loadings @ np.diag(factors) @ params.loadings.T + noise


@pytest.mark.parametrize("noise", ["diagonal", "isotropic"])
@parametrize("even", [True, False])
def test_information_is_that_of_whittles_formula(rng, noise, even):
    params = make_model(rng, 2, rhythm=True, n_features=3)
    params = params.replace(noise_scale=np.array([0.7, 1.1, 0.5]))
    if noise == "isotropic":
        params = params.replace(noise_variance=np.full(3, 0.3))
    coordinates, states, at = in_coordinates(params, even, noise)
    omega, weights = information_frequencies(states)
    n = 70.0
    wanted = np.zeros((coordinates.size, coordinates.size))
    for w, weight in zip(omega, weights, strict=True):
        inverse = np.linalg.inv(spectral_matrix(params, w))
        derivatives = []
        for i in range(coordinates.size):
            moved = [
                from_vector(coordinates, at + s * np.eye(coordinates.size)[i], states) for s in (1e-5, -1e-5)
            ]
            up, down = (spectral_matrix(each.without_ar1_noise_states(), w) for each in moved)
            derivatives.append(inverse @ (up - down) / 2e-5)
        wanted += 0.5 * n * weight * np.array([[np.trace(x @ y) for y in derivatives] for x in derivatives])
    offset = coordinates.slices[3]
    wanted[offset, offset] = n * np.linalg.inv(spectral_matrix(params, 0.0))
    complete = CompleteData(np.full(3, n), n * np.eye(coordinates.n_states), n)
    metric = AR1NoiseMetric(coordinates, states, complete)
    dense = metric.to_dense()
    ar1_noise = coordinates.ar1_noise_states
    dense[ar1_noise, ar1_noise] -= np.eye(3)  # added, because decays of weak AR(1) noise are not identified
    assert scaled_error(dense, wanted) < 1e-6
    step = metric.solve(at, np.ones(coordinates.size, dtype=bool), 0.1)
    assert scaled_error(metric.to_dense(0.1) @ step, at) < 1e-8


def test_whittles_likelihood_is_that_of_its_definition(rng):
    params = make_model(rng, 2, rhythm=True, n_features=3)
    sequences = [rng.standard_normal((40, 3)), rng.standard_normal((27, 3))]
    data = periodogram(sequences)
    coordinates, states, at = in_coordinates(params, True)
    objective = AR1NoiseWhittleObjective(coordinates, data, states, 1000)
    evaluation = objective(at)
    wanted = 0.0
    for band, (omega, weight) in enumerate(zip(data.frequencies, data.weights, strict=True)):
        rows = data.rows[data.band == band]
        matrix = spectral_matrix(params, omega)
        wanted -= 0.5 * weight * np.linalg.slogdet(matrix)[1]
        wanted -= 0.5 * np.sum(rows * np.linalg.solve(matrix, rows.T).T)
    assert abs(evaluation.value - wanted) < 1e-10 * abs(wanted)
    for i in range(coordinates.size):
        up, down = (objective(at + s * np.eye(coordinates.size)[i]).value for s in (1e-5, -1e-5))
        assert abs(evaluation.gradient[i] - (up - down) / 2e-5) < 1e-5 * max(1.0, abs(evaluation.gradient[i]))


def test_the_m_step_regresses_each_column_on_factors_and_its_own_ar1_noise(rng):
    params = make_model(rng, 1, rhythm=True).state_space
    _, _, panel = make_data(rng, params.without_ar1_noise_states(), even=False)
    coordinates, _, _ = in_coordinates(params.without_ar1_noise_states(), False)
    noise = Noise(NoiseVariances.diagonal(2), np.full(2, 1e-6))
    stats = expected_statistics(params, panel)
    moved = em.maximize(params, stats, noise, panel.gaps, coordinates.has_loading)
    for d in range(2):
        which = [0, 1 + d, 3, 4, 5]  # factor, AR(1) noise, cycle, constant
        second = stats.latent_moments[d][np.ix_(which, which)]
        old = np.append(params.loadings[d], params.offset[d])[which]
        first = stats.residual_moments[d, which] + second @ old
        wanted = np.linalg.solve(second, first)
        np.testing.assert_allclose(np.append(moved.loadings[d], moved.offset[d])[which], wanted, rtol=1e-9)
        assert moved.loadings[d, 2 - d] == 0.0
    before = stats.log_likelihood
    for _ in range(3):
        params = em.maximize(params, stats, noise, panel.gaps, coordinates.has_loading)
        stats = expected_statistics(params, panel)
        assert stats.log_likelihood > before
        before = stats.log_likelihood


def test_observed_information_is_the_second_derivative_of_the_joint_gaussian(rng):
    params = make_model(rng, 1).replace(noise_scale=np.array([0.8, 1.2]))
    data, times, panel = make_data(rng, params, even=False)
    coordinates, states, at = in_coordinates(params, False)
    information = observed_information(coordinates, states, panel, np.ones(coordinates.size, dtype=bool))

    def value(vector):
        return oracle.log_likelihood(
            from_vector(coordinates, vector, states).without_ar1_noise_states(), data, times
        )

    indices = [
        *range(coordinates.ar1_noise_states.start, coordinates.ar1_noise_states.stop),
        coordinates.slices[1].start + 1,
    ]
    step = 2e-3 * np.eye(coordinates.size)
    for i in indices:
        second = (value(at + step[i]) - 2.0 * value(at) + value(at - step[i])) / 2e-3**2
        assert abs(information[i, i] + second) < 1e-3 * max(1.0, abs(second))


def draw(seed, n_rows=400, noise_scale=(0.8, 1.0, 0.6, 0.9)):
    """Draw a series with one slow factor and AR(1) noise."""
    d = len(noise_scale)
    truth = StateSpace(
        np.array([0.98]),
        np.array([1.0, -0.8, 0.6, 1.2])[:d, None],
        np.full(d, 0.1),
        np.zeros(d),
        noise_decay=np.array([0.5, 0.7, 0.8, 0.6])[:d],
        noise_scale=np.array(noise_scale),
    )
    model = ProbabilisticSFA.from_parameters(**truth.to_arrays())
    return truth, model.sample(n_rows, random_state=seed)[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize("solver", ["lbfgs", "em"])
def test_the_likelihood_is_never_below_that_of_white_noise(solver):
    _, x = draw(0, 150, (0.8, 0.6, 0.7))
    x[40:60, 0] = np.nan
    options = {"solver": solver, "tol": 0.1, "noise_prior": None, "max_iter": 60}
    white = ProbabilisticSFA(1, **options).fit(x)
    model = ProbabilisticSFA(1, noise="ar1", **options).fit(x)
    assert model.log_likelihood_ > white.log_likelihood_ + 1.0
    assert np.all(np.diff(model.history_) > -1e-8)
    np.testing.assert_allclose(model.log_likelihood(x), model.log_likelihood_, rtol=1e-9)


def test_ar1_noise_is_fitted_to_white_noise(rng):
    """For white noise, decays of AR(1) noise are not identified; the fit converges to finite parameters."""
    series = ProbabilisticSFA.from_parameters([0.95], [[1.0], [0.8], [-0.6]], 0.3).sample(300, random_state=3)
    white = ProbabilisticSFA(1, noise_prior=None).fit(series[0])
    model = ProbabilisticSFA(1, noise="ar1", noise_prior=None).fit(series[0])
    assert model.converged_ and np.isfinite(model.loadings_).all()
    # Six additional parameters increase the log-likelihood by three nats on average.
    assert -1e-6 <= model.log_likelihood_ - white.log_likelihood_ < 15.0


def test_scaling_columns_scales_the_fit():
    _, x = draw(1, 150, (0.8, 0.6, 0.7))
    scale, shift = np.array([1e-3, 1.0, 1e4]), np.array([1.0, -2.0, 1e5])
    one, other = (ProbabilisticSFA(1, noise="ar1", tol=1e-3).fit(data) for data in (x, x * scale + shift))
    np.testing.assert_allclose(other.noise_scale_, one.noise_scale_ * scale, rtol=1e-3)
    np.testing.assert_allclose(other.noise_decay_, one.noise_decay_, rtol=1e-3)
    np.testing.assert_allclose(other.noise_share_, one.noise_share_, rtol=2e-3)
    log_jacobian = len(x) * np.sum(np.log(scale))
    assert other.log_likelihood_ == pytest.approx(one.log_likelihood_ - log_jacobian, abs=1e-3)


@pytest.mark.exhaustive
def test_negative_decays_of_noise_are_estimated():
    truth = ProbabilisticSFA.from_parameters(
        [0.98], [[1.0], [0.8], [-0.6]], 0.1, noise_decay=[-0.7, 0.6, -0.5], noise_scale=0.8
    )
    x, _ = truth.sample(800, random_state=0)
    model = ProbabilisticSFA(1, noise="ar1").fit(x)
    assert model.log_likelihood_ > truth.log_likelihood(x)
    np.testing.assert_allclose(model.noise_decay_, [-0.7, 0.6, -0.5], atol=0.2)


@pytest.mark.exhaustive
def test_uneven_times_and_a_cycle_are_fitted_with_ar1_noise(rng):
    _, x = draw(2, 160, (0.8, 0.6))
    times = np.cumsum(rng.choice([0.5, 1.0, 2.0], len(x)))
    x = x + 2.0 * np.sin(2.0 * np.pi * times / 12.0)[:, None]
    model = ProbabilisticSFA(1, rhythms=[12.0], noise="ar1", tol=1.0, max_iter=40).fit(x, times=times)
    assert model.rhythm_periods_[0] == pytest.approx(12.0, rel=0.05)
    assert np.all((model.noise_decay_ > 0.0) & (model.noise_decay_ < 1.0))
    assert model.loadings_.shape == (2, 3) and model.noise_timescales_.shape == (2,)


@pytest.mark.exhaustive
def test_decays_of_the_noise_are_recovered():
    """The mean of the estimates over twenty series is the true decay, within its standard error."""
    decays, scales = [], []
    for seed in range(20):
        truth, x = draw(seed, 1500)
        model = ProbabilisticSFA(1, noise="ar1").fit(x)
        decays.append(model.noise_decay_)
        scales.append(model.noise_scale_)
    for estimates, wanted in ((decays, truth.noise_decay), (scales, truth.noise_scale)):
        error = np.std(estimates, axis=0) / np.sqrt(20)
        assert np.all(np.abs(np.mean(estimates, axis=0) - wanted) < 3.5 * error + 0.01)
        assert np.all(np.std(estimates, axis=0) < 0.12)


def test_standard_errors_of_ar1_noise_are_the_numerical_ones():
    """Compare with second differences of the log-likelihood; intervals of decays use the scale of atanh."""
    truth = ProbabilisticSFA.from_parameters(
        [0.95], [[1.5], [-1.0], [1.0]], 0.3, noise_decay=[0.8, 0.7, 0.75], noise_scale=[0.9, 1.0, 0.8]
    )
    x, _ = truth.sample(300, random_state=0)
    model = ProbabilisticSFA(1, noise="ar1", noise_prior=None, tol=1e-6).fit(x)
    p, panel = model.params_, to_panel([x])
    vector = np.concatenate(
        [np.arctanh(p.noise_decay), p.noise_scale, np.log(p.noise_variance), p.loadings[:, 0],
         np.arctanh(p.decay), p.offset]
    )  # fmt: skip

    def value(v):
        b, s, r, c, a, mu = np.split(v, [3, 6, 9, 12, 13])
        at = make_parameters(np.tanh(a), c[:, None], np.exp(r), mu, noise_decay=np.tanh(b), noise_scale=s)
        return log_likelihood(at.state_space, panel)

    numerical_errors = np.sqrt(np.diag(np.linalg.inv(-numerical_hessian(value, vector))))
    errors = model.standard_errors(x)
    np.testing.assert_allclose(errors.noise_decay, (1.0 - p.noise_decay**2) * numerical_errors[:3], rtol=0.02)
    np.testing.assert_allclose(errors.noise_scale, numerical_errors[3:6], rtol=0.02)
    half_width = scipy.stats.norm.isf(0.05) * numerical_errors[:3]
    for end, sign in zip(errors.interval("noise_decay", 0.9), (-1.0, 1.0), strict=True):
        np.testing.assert_allclose(end, np.tanh(vector[:3] + sign * half_width), atol=3e-3)


@pytest.mark.nightly
def test_standard_errors_are_the_scatter_of_estimates():
    estimates, errors = [], []
    for seed in range(20):
        _, x = draw(seed, 1000)
        model = ProbabilisticSFA(1, noise="ar1", tol=1e-3).fit(x)
        estimates.append(model.noise_decay_)
        errors.append(model.standard_errors(x).noise_decay)
    ratio = np.std(estimates, axis=0, ddof=1) / np.sqrt(np.mean(np.square(errors), axis=0))
    assert np.all((ratio > 0.6) & (ratio < 1.6))


def test_fewer_factors_are_used_with_ar1_noise():
    varying = np.ones(52, dtype=bool)
    assert max_components(9000, np.full(52, 9000), varying) == 32
    assert max_components(9000, np.full(52, 9000), varying, ar1_noise=True) == 16
    size = default_size(np.ones((50_000, 18), dtype=bool), (50_000,), varying[:18], ar1_noise=True)
    assert size.n_components == 16 and size.segments is not None


@pytest.mark.exhaustive
def test_numbers_of_factors_are_compared_under_ar1_noise():
    _, x = draw(4, 150, (0.8, 0.6, 0.7))
    selection = select_n_components(x, [1, 2], noise="ar1", block=5, max_iter=20)
    assert selection.n_components in (1, 2) and selection.best_estimator_.noise == "ar1"
    assert np.isfinite(selection.table.score[-2:]).all()


def test_a_fit_with_ar1_noise_starts_from_a_fit_with_white_noise():
    _, x = draw(5, 150, (0.8, 0.6, 0.7))
    white = ProbabilisticSFA(1).fit(x)
    model = ProbabilisticSFA(1, noise="ar1", init=white).fit(x)
    again = ProbabilisticSFA(1, noise="ar1", init=model).fit(x)
    assert model.log_likelihood_ > white.log_likelihood_
    assert again.log_likelihood_ >= model.log_likelihood_ - 0.1
    with pytest.raises(ValueError, match="noise='ar1'"):
        ProbabilisticSFA(1, init=model).fit(x)


def test_noise_that_alternates_starts_with_negative_decays(rng):
    """Only for columns with much noise: with little noise, residuals of white noise alternate too."""
    white, alternating = rng.standard_normal(400), lfilter([1.0], [1.0, 0.6], rng.standard_normal(400))
    residuals = np.column_stack([white, alternating, alternating, -0.5 * alternating])
    params = StateSpace(np.array([0.9]), np.ones((4, 1)), np.array([0.5, 0.5, 0.01, 0.5]), np.zeros(4))
    signs = ar1_noise_signs(params, [residuals[:100], residuals[100:]])
    np.testing.assert_array_equal(signs, [1.0, -1.0, 1.0, -1.0])
