"""Properties that dynamax's tests of linear Gaussian models check, for both packages, and their agreement.

dynamax adds 1e-9 to the diagonal of every matrix before it solves a system. Its results are therefore
compared with a tolerance of 1e-7; results of this package agree with definitions up to rounding.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace.engine.posterior import (
    draw_factors,
    expected_statistics,
    log_likelihood,
    observation_moments,
    simulate,
)
from probsfa.statespace.filtering import run_filter
from probsfa.statespace.learning.em import maximize
from probsfa.statespace.learning.objective import Noise
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.prediction import forecast
from tests.oracles import statespace as oracle
from tests.peers import adapters
from tests.statespace.support import scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT, mc_tolerance

REASON = "dynamax, of the peers extra, is not installed"
pytest.importorskip("dynamax", reason=REASON)
lgssm = pytest.importorskip("dynamax.linear_gaussian_ssm", reason=REASON)
lgssm_inference = pytest.importorskip("dynamax.linear_gaussian_ssm.inference", reason=REASON)
lgssm_information = pytest.importorskip("dynamax.linear_gaussian_ssm.info_inference", reason=REASON)

PEER = 1e-7  # dynamax's jitter of 1e-9, amplified by solves
N_ROWS, D, K = 12, 5, 3
FORMS = ["serial", "parallel", "information"]
N_DRAWS = 4000


@pytest.fixture(autouse=True)
def double_precision():
    """Set JAX to double precision, as dynamax uses the precision of JAX."""
    with jax.enable_x64(True):
        yield


def make_case(name):
    """Return model, data of one sequence, and times; equal shapes avoid further compilations."""
    rng = np.random.default_rng(3)
    model = oracle.random_model(rng, D, K)
    times = None
    if "uneven" in name:
        model = model._replace(decay=np.abs(model.decay))
        times = np.cumsum(rng.choice([0.25, 0.5, 1.0, 3.5], N_ROWS))
    data = oracle.simulate(rng, model, [N_ROWS], None if times is None else [times])[0]
    if "incomplete" in name:
        data[rng.random(data.shape) < 0.3] = np.nan
        data[5] = np.nan
    return model, data, times


CASES = {
    name: make_case(name) for name in ["complete", "incomplete", "uneven times", "uneven times, incomplete"]
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def complete():
    """Model and complete data at even times."""
    return CASES["complete"][:2]


# -------------------------------------------------------------------------------- filter and smoother


def test_filter_and_smoother_against_the_joint_gaussian(case):
    adapters.assert_same(adapters.ours(*case), adapters.dense(*case), EXACT)


@pytest.mark.parametrize("form", FORMS)
def test_filter_and_smoother_of_the_peer(case, form):
    """Filtered and smoothed moments, cross-covariances and the log-likelihood agree."""
    peer = adapters.dynamax(*adapters.dynamax_moving(*case), form=form)
    adapters.assert_same(peer, adapters.ours(*case), PEER)


def test_static_parameters_equal_parameters_of_each_row(complete):
    model, data = complete
    peer = adapters.dynamax(adapters.dynamax_static(model), jnp.asarray(data))
    adapters.assert_same(peer, adapters.dynamax(*adapters.dynamax_moving(model, data)), 1e-12)
    adapters.assert_same(peer, adapters.ours(model, data), PEER)


def test_smoother_against_the_block_tridiagonal_precision(case):
    """The precision of all states contains the gap before row t in the transition to row t."""
    model, data, times = case
    over = adapters.transitions(model, N_ROWS, times)[1:]
    observed = ~np.isnan(data)
    blocks = np.zeros((N_ROWS, K, N_ROWS, K))
    linear = np.zeros((N_ROWS, K))
    for t in range(N_ROWS):
        weighted = (model.loadings * (observed[t] / model.noise)[:, None]).T
        blocks[t, :, t] = weighted @ model.loadings
        linear[t] = weighted @ np.where(observed[t], data[t] - model.offset, 0.0)
    blocks[0, :, 0] += np.eye(K)
    for t, a in enumerate(over):
        innovation = 1 / (1 - a**2)
        blocks[t, :, t] += np.diag(a**2 * innovation)
        blocks[t + 1, :, t + 1] += np.diag(innovation)
        blocks[t + 1, :, t] = blocks[t, :, t + 1] = -np.diag(a * innovation)
    covariance = np.linalg.inv(blocks.reshape(N_ROWS * K, -1))
    means = (covariance @ linear.ravel()).reshape(N_ROWS, K)
    covariance = covariance.reshape(N_ROWS, K, N_ROWS, K)
    rows = np.arange(N_ROWS)
    expected = means, covariance[rows, :, rows], covariance[rows[1:], :, rows[:-1]]

    ours = adapters.ours(model, data, times)
    for one, other in zip((ours.means, ours.covariances, ours.lag_one), expected, strict=True):
        assert scaled_error(one, other) < EXACT

    _, peer_means, second, cross = adapters.compiled(lgssm_information.block_tridiag_mvn_expectations)(
        jnp.asarray(blocks[rows, :, rows]), jnp.asarray(blocks[rows[1:], :, rows[:-1]]), jnp.asarray(linear)
    )
    assert scaled_error(peer_means, means) < PEER
    assert scaled_error(second - means[:, :, None] * means[:, None], expected[1]) < PEER
    # Here, unlike in the smoother of dynamax, the later state is in the rows.
    assert scaled_error(cross - means[1:, :, None] * means[:-1, None], expected[2]) < PEER


@pytest.mark.parametrize("level", [100.0, 1e6])
def test_far_from_zero(complete, level):
    """States far from zero once made the parallel smoother of dynamax fail; here only offsets are large."""
    model, data = complete
    far = model._replace(offset=model.offset + level)
    ours = adapters.ours(far, data + level)
    # Adding the level rounds the data to the last digit of the level.
    rounding = max(EXACT, 64 * np.finfo(float).eps * level)
    adapters.assert_same(ours, adapters.ours(model, data), rounding)
    peer = adapters.dynamax(*adapters.dynamax_moving(far, data + level), form="parallel")
    adapters.assert_same(peer, ours, PEER)


@pytest.mark.parametrize("n_rows", [1, 3])
def test_one_factor_by_hand(n_rows):
    """Decay 1/2, gaps of one and two, unit noise: gains 1/2, 7/15 and 29/59, innovations 4, 3 and 22/5."""
    model = oracle.Model(np.array([0.5]), np.eye(1), np.ones(1), np.zeros(1))
    data, times = np.array([[4.0], [4.0], [5.0]])[:n_rows], np.array([10.0, 11.0, 13.0])[:n_rows]
    filtered = np.array([2, 12 / 5, 163 / 59])[:n_rows]
    variances = np.array([1 / 2, 7 / 15, 29 / 59])[:n_rows]
    # Backward gains a P / (a^2 P + 1 - a^2).
    gains = [1 / 2 * 1 / 2 / (7 / 8), 1 / 4 * 7 / 15 / (29 / 30)][: n_rows - 1]
    means, covariances = filtered.copy(), variances.copy()
    for t in reversed(range(n_rows - 1)):
        a, predicted = (1 / 2, 7 / 8) if t == 0 else (1 / 4, 29 / 30)
        means[t] += gains[t] * (means[t + 1] - a * filtered[t])
        covariances[t] += gains[t] ** 2 * (covariances[t + 1] - predicted)
    innovation_variances = np.array([2, 15 / 8, 59 / 30])[:n_rows]
    distances = np.array([8, 24 / 5, 2904 / 295])[:n_rows]
    expected = adapters.Inference(
        filtered[:, None],
        variances[:, None, None],
        means[:, None],
        covariances[:, None, None],
        (np.array(gains) * covariances[1:])[:, None, None],
        -0.5 * float(np.sum(np.log(2 * np.pi * innovation_variances) + distances)),
    )
    adapters.assert_same(adapters.ours(model, data, times), expected, EXACT)
    for unused in (0.5, np.nan):  # arrays of dynamax have one element more than transitions
        peer = adapters.dynamax(*adapters.dynamax_moving(model, data, times, unused))
        adapters.assert_same(peer, expected, PEER)


def test_filter_is_bayesian_regression():
    """Filtering a constant state with one row of a design matrix per step is Bayesian regression.

    Loadings are constant in time here, so each step observes a different one of n columns.
    """
    rng = np.random.default_rng(8)
    n = 21
    design = np.column_stack([np.ones(n), np.arange(n)])
    response = design @ [-5.0, 0.6] + rng.standard_normal(n)
    prior = 10.0
    expected = []
    for t in range(1, n + 1):
        precision = np.eye(2) / prior + design[:t].T @ design[:t]
        expected.append((np.linalg.solve(precision, design[:t].T @ response[:t]), np.linalg.inv(precision)))
    means, covariances = map(np.array, zip(*expected, strict=True))

    constant_states = oracle.Model(np.full(2, 1 - 1e-15), np.sqrt(prior) * design, np.ones(n), np.zeros(n))
    one_value_per_row = np.where(np.eye(n, dtype=bool), response, np.nan)
    ours = run_filter(to_parameters(constant_states), adapters.sequence_of(one_value_per_row), None)
    assert scaled_error(np.sqrt(prior) * ours.means, means) < 1e-9
    assert scaled_error(prior * ours.covariances, covariances) < 1e-9

    params = lgssm_inference.make_lgssm_params(
        initial_mean=jnp.zeros(2),
        initial_cov=prior * jnp.eye(2),
        dynamics_weights=jnp.eye(2),
        dynamics_cov=jnp.zeros((2, 2)),
        emissions_weights=jnp.asarray(design[:, None, :]),
        emissions_cov=jnp.eye(1),
    )
    peer = adapters.compiled(lgssm_inference.lgssm_filter)(params, jnp.asarray(response[:, None]))
    assert scaled_error(peer.filtered_means, means) < 1e-6
    assert scaled_error(peer.filtered_covariances, covariances) < 1e-6
    assert peer.marginal_loglik == pytest.approx(ours.log_likelihood, rel=1e-7)


def test_dynamax_does_not_support_missing_values(complete):
    model, data = complete
    data = data.copy()
    data[3, 1] = np.nan
    assert np.isfinite(adapters.ours(model, data).log_likelihood)
    peer = adapters.dynamax(adapters.dynamax_static(model), jnp.asarray(data))
    assert np.isnan(peer.log_likelihood) and np.isnan(peer.means).all()


def test_wrong_lengths_are_errors(complete):
    model, data = complete
    estimator = ProbabilisticSFA(K)
    with pytest.raises(ValueError, match="times"):
        estimator.fit(data, times=np.arange(N_ROWS - 1.0))
    with pytest.raises(ValueError, match="lengths"):
        estimator.fit(data, lengths=[N_ROWS - 1])
    params, emissions, _ = adapters.dynamax_moving(model, data)
    short = params._replace(dynamics=params.dynamics._replace(cov=params.dynamics.cov[:-1]))
    with pytest.raises(AssertionError):
        adapters.dynamax(short, emissions)


# ----------------------------------------------------------------------------------- draws and series


def draws_of(source, model, data):
    if source == "ours":
        rng = np.random.default_rng(1)
        return draw_factors(to_parameters(model), to_panel([data]), N_DRAWS, rng)
    params, emissions, _ = adapters.dynamax_moving(model, data)
    draw = adapters.compiled(jax.vmap(lgssm_inference.lgssm_posterior_sample, in_axes=(0, None, None)))
    return np.asarray(draw(jax.random.split(jax.random.PRNGKey(1), N_DRAWS), params, emissions))


@pytest.mark.parametrize("source", ["ours", "peer"])
def test_draws_have_the_moments_of_the_posterior(source):
    """Means agree within six standard errors, and so does the whitened covariance between all rows."""
    model, data, _ = CASES["incomplete"]
    draws = draws_of(source, model, data)
    assert draws.shape == (N_DRAWS, N_ROWS, K)
    posterior = adapters.ours(model, data)
    variances = np.diagonal(posterior.covariances, axis1=1, axis2=2)
    errors = np.abs(draws.mean(axis=0) - posterior.means) / np.sqrt(variances)
    assert np.max(errors) < mc_tolerance(1, N_DRAWS)
    joint = oracle.joint_posterior(model, [data]).full.reshape(N_ROWS * K, -1)
    residuals = (draws - posterior.means).reshape(N_DRAWS, -1)
    whitened = np.linalg.solve(np.linalg.cholesky(joint), residuals.T)
    excess = np.cov(whitened) - np.eye(len(whitened))
    # The variance of a sample variance is 2 / n, that of a covariance of independent numbers 1 / n.
    assert np.max(np.abs(np.diag(excess))) < mc_tolerance(2, N_DRAWS)
    assert np.max(np.abs(excess - np.diag(np.diag(excess)))) < mc_tolerance(1, N_DRAWS)


def test_simulated_series_have_the_moments_of_the_model(complete):
    """This package returns (observations, factors), dynamax (states, emissions)."""
    model, _ = complete
    observations, factors = simulate(to_parameters(model), 4000, np.random.default_rng(0))
    sample = adapters.compiled(lambda *given: lgssm_inference.lgssm_joint_sample(*given, 4000))
    states, emissions = sample(adapters.dynamax_static(model), jax.random.PRNGKey(0))
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    for x, z in ((observations, factors), (np.asarray(emissions), np.asarray(states))):
        assert x.shape == (4000, D) and z.shape == (4000, K)
        # Successive rows are correlated: effective number for the slowest factor, 1 - a^2 over 1 + a^2.
        slow = (1 - model.decay**2) / (1 + model.decay**2)
        products = np.mean(z[1:] * z[:-1], axis=0)
        assert np.all(np.abs(np.var(z, axis=0) - 1) < mc_tolerance(1, 4000) * np.sqrt(2 / slow))
        assert np.all(np.abs(products - model.decay) < mc_tolerance(1, 4000) * np.sqrt(2 / slow))
        scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        error = np.abs(np.cov(x, rowvar=False) - covariance) / scale
        assert np.max(error) < mc_tolerance(1, 4000) * np.sqrt(2 / slow.min())


# ------------------------------------------------------------------------- forecasts and predictions


@cache
def forecast_of_peer():
    """Return the compiled forecast of dynamax for three steps, one factor and one column."""
    return adapters.compiled(lambda *given: lgssm.LinearGaussianSSM(1, 1).forecast(*given, 3))


@pytest.mark.filterwarnings("ignore:Emission covariance has shape:UserWarning")
@pytest.mark.parametrize("n_steps", [1, 3])
def test_forecast_by_hand(n_steps):
    """4.88 observed in unit noise: mean 2.44, variance 1/2; each step gives a m and a^2 P + 1 - a^2."""
    model = oracle.Model(np.array([0.5]), np.eye(1), np.ones(1), np.zeros(1))
    data = np.array([[4.88]])
    means = np.array([1.22, 0.61, 0.305])[:n_steps, None]
    variances = np.array([0.875, 0.96875, 0.9921875])[:n_steps, None]
    params = to_parameters(model)
    state = run_filter(params, adapters.sequence_of(data), None).state
    ours = forecast(params, state.mean, state.covariance, n_steps)
    expected = means, np.sqrt(variances + 1), means, np.sqrt(variances)
    for one, other in zip((ours.means, ours.std, ours.latent_means, ours.latent_std), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=EXACT)
    peer = forecast_of_peer()(adapters.dynamax_static(model), jnp.asarray(data))
    latent_means, latent_covariances, peer_means, peer_covariances = (x[:n_steps] for x in peer)
    # dynamax forecasts by filtering observations of variance 1e8, which change results slightly.
    np.testing.assert_allclose(latent_means, means, rtol=1e-6)
    np.testing.assert_allclose(latent_covariances[:, 0], variances, rtol=1e-6)
    np.testing.assert_allclose(peer_means, means, rtol=1e-6)
    np.testing.assert_allclose(peer_covariances[:, 0], variances + 1, rtol=1e-6)


def test_observations_predicted_at_the_rows_of_the_data(complete):
    model, data = complete
    posterior = adapters.ours(model, data)
    means, variances = observation_moments(to_parameters(model), posterior.means, posterior.covariances)
    peer = lgssm.LinearGaussianSSM(K, D)
    predict = adapters.compiled(peer.posterior_predictive)
    peer_means, peer_std = predict(adapters.dynamax_static(model), jnp.asarray(data))
    assert scaled_error(peer_means, means) < PEER
    assert scaled_error(peer_std, np.sqrt(variances)) < PEER


# -------------------------------------------------------------------------------------------- learning


@cache
def em_of_peer():
    """Return the compiled E-step and M-step of dynamax for the statistics of one sequence."""
    peer = lgssm.LinearGaussianSSM(K, D, has_dynamics_bias=False)
    start, properties = peer.initialize(jax.random.PRNGKey(0))

    def m_step(statistics):
        batch = jax.tree.map(lambda x: jnp.asarray(x)[None], statistics)
        return peer.m_step(start, properties, batch, None)[0]

    return adapters.compiled(peer.e_step), adapters.compiled(m_step)


def test_expected_statistics(complete):
    """Statistics here are sums of residuals at the current parameters, in dynamax raw second moments."""
    model, data = complete
    ours = expected_statistics(to_parameters(model), to_panel([data]))
    e_step, _ = em_of_peer()
    (_, dynamics, observations), value = e_step(adapters.dynamax_static(model), jnp.asarray(data))
    assert value == pytest.approx(ours.log_likelihood, rel=PEER)
    previous, cross, current, n_transitions = map(np.asarray, dynamics)
    np.testing.assert_allclose(ours.transitions, [n_transitions])
    np.testing.assert_allclose(ours.previous_power[0], np.diag(previous), rtol=PEER)
    a = model.decay
    moments = np.diag(cross) - a * np.diag(previous)
    np.testing.assert_allclose(ours.innovation_moments[0], moments, atol=PEER * np.max(previous))
    power = np.diag(current) - 2 * a * np.diag(cross) + a**2 * np.diag(previous)
    np.testing.assert_allclose(ours.innovation_power[0], power, atol=PEER * np.max(current))
    latent, crossed, raw, n_rows = map(np.asarray, observations)
    assert np.all(ours.counts == n_rows)
    for one in (ours.total_moments, *ours.latent_moments):
        assert scaled_error(one, latent) < PEER
    weights = np.column_stack([model.loadings, model.offset])
    assert scaled_error(ours.residual_moments, crossed.T - weights @ latent) < PEER * len(data)
    power = np.diag(raw - weights @ crossed - crossed.T @ weights.T + weights @ latent @ weights.T)
    assert scaled_error(ours.residual_power, power) < PEER * len(data)


def test_loadings_offset_and_noise_of_an_m_step(complete):
    """Both solve the same regression; the diagonal of dynamax's full noise covariance is compared."""
    model, data = complete
    params, panel = to_parameters(model), to_panel([data])
    noise = Noise(NoiseVariances.diagonal(D), np.zeros(D))
    ours = maximize(params, expected_statistics(params, panel), noise, np.ones(1))
    e_step, m_step = em_of_peer()
    statistics, _ = e_step(adapters.dynamax_static(model), jnp.asarray(data))
    updated = m_step(statistics)
    assert scaled_error(ours.loadings, updated.emissions.weights) < PEER
    assert scaled_error(ours.offset, updated.emissions.bias) < PEER
    assert scaled_error(ours.noise_variance, np.diag(updated.emissions.cov)) < PEER
    # Decays are not compared: factors keep unit variance here; dynamax estimates F, Q and the start.
    n = float(N_ROWS - 1)
    previous, cross, current, _ = map(np.asarray, statistics[1])
    sides = np.diag(previous) + np.diag(current)
    a = ours.decay
    slope = n * a**3 - np.diag(cross) * a**2 + (sides - n) * a - np.diag(cross)
    assert np.max(np.abs(slope)) < PEER * n


@pytest.fixture(scope="module")
def longer():
    """A hundred rows of five columns, two factors."""
    rng = np.random.default_rng(4)
    model = oracle.random_model(rng, D, 2)
    return model, oracle.simulate(rng, model, [100])[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_never_decrease_the_likelihood(longer):
    model, data = longer
    em = ProbabilisticSFA(2, solver="em", max_iter=12).fit(data)
    steps = ProbabilisticSFA(2, solver="lbfgs").fit(data)
    for fitted in (em, steps):
        assert len(fitted.history_) >= 3 and np.all(np.diff(fitted.history_) >= 0)
        assert fitted.log_likelihood_ == pytest.approx(fitted.log_likelihood(data), rel=1e-9)
    assert steps.log_likelihood_ >= em.log_likelihood_ - 1e-3
    assert steps.log_likelihood_ > log_likelihood(to_parameters(model), to_panel([data]))


def test_em_of_the_peer_starts_from_the_same_likelihood(complete):
    model, data = complete
    e_step, m_step = em_of_peer()
    params, values = adapters.dynamax_static(model), []
    for _ in range(4):
        statistics, value = e_step(params, jnp.asarray(data))
        values.append(float(value))
        params = m_step(statistics)
    assert np.all(np.diff(values) > 0)
    assert values[0] == pytest.approx(log_likelihood(to_parameters(model), to_panel([data])), rel=PEER)


def test_known_parameters_are_unchanged(longer):
    """Both solvers accept a known noise; EM of dynamax cannot fix single parameters."""
    _, data = longer
    for solver in ("em", "lbfgs"):
        fitted = ProbabilisticSFA(2, noise=0.25, solver=solver, max_iter=400, tol=1e-2).fit(data)
        np.testing.assert_allclose(fitted.noise_variance_, 0.25, rtol=EXACT)
    peer = lgssm.LinearGaussianSSM(2, 3)
    params, properties = peer.initialize(jax.random.PRNGKey(0))
    properties.emissions.cov.trainable = False
    with pytest.raises(NotImplementedError):
        peer.m_step(params, properties, None, None)


def test_log_likelihoods_of_sequences_are_added(case):
    """A list of sequences equals a batch: no transition joins successive sequences."""
    model, data, times = case
    pieces = [data, data[::-1]]
    when = None if times is None else [times, times]
    together = log_likelihood(to_parameters(model), to_panel(pieces, when))
    alone = [adapters.dynamax(*adapters.dynamax_moving(model, x, times)).log_likelihood for x in pieces]
    assert together == pytest.approx(sum(alone), rel=PEER)
