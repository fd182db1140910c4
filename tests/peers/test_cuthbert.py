"""Properties that cuthbert's tests of linear Gaussian models check, for both packages, and their agreement.

The sequential and parallel Kalman filters and smoothers of cuthbert use square roots of covariances, so both
packages agree up to rounding. Its tests draw random models that change at every row. Here the models are
factorial AR(1) models, and only gaps in time and missing values change from row to row.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.posterior import draw_factors, filter_rows, log_likelihood, simulate
from probsfa.statespace.filtering import FilterState, run_filter
from probsfa.statespace.prediction import propagate
from tests.oracles import statespace as oracle
from tests.peers import adapters
from tests.statespace.support import scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT, mc_tolerance

REASON = "cuthbert, of the peers extra, is not installed"
cuthbert = pytest.importorskip("cuthbert", reason=REASON)
kalman = pytest.importorskip("cuthbert.gaussian.kalman", reason=REASON)
steps = pytest.importorskip("cuthbertlib.kalman", reason=REASON)
sampling = pytest.importorskip("cuthbertlib.kalman.sampling", reason=REASON)
log_densities = pytest.importorskip("cuthbertlib.stats.multivariate_normal", reason=REASON)

predict = adapters.compiled(steps.predict)
filter_update = adapters.compiled(steps.filter_update)
smoother_update = adapters.compiled(steps.smoother_update)
log_density = adapters.compiled(log_densities.logpdf)

D, K = 3, 3
SEEDS = [0, 42, 99, 123, 456]
KINDS = ["complete", "incomplete", "uneven times, incomplete"]
# Columns and rows.
SIZES = [*((D, 25, kind) for kind in KINDS), (1, 25, "complete"), (1, 25, "incomplete"), (D, 1, "complete")]
N_DRAWS = 20_000


@pytest.fixture(autouse=True)
def double_precision():
    """Set JAX to double precision, as cuthbert uses the precision of JAX."""
    with jax.enable_x64(True):
        yield


def make_case(seed, n_columns, n_rows, kind="complete"):
    """Return model, data of one sequence, and times."""
    rng = np.random.default_rng(seed)
    model = oracle.random_model(rng, n_columns, K)
    model = model._replace(decay=rng.uniform(0.05, 0.99, K))
    times = None
    if "uneven" in kind:
        # The same gaps in all cases, so that functions are compiled once.
        gaps = rng.permutation(np.tile([0.25, 0.5, 1.0, 3.5], 6))[: n_rows - 1]
        if n_rows == 5:
            gaps = rng.permutation([0.25, 0.5, 1.0, 3.5])
        times = np.concatenate([[7.0], 7.0 + np.cumsum(gaps)])
    data = oracle.simulate(rng, model, [n_rows], None if times is None else [times])[0]
    if "incomplete" in kind:
        data[rng.random(data.shape) < 0.3] = np.nan
    return model, data, times


def gaussian(seed):
    """Return mean, covariance and its Cholesky factor of K correlated variables."""
    rng = np.random.default_rng(seed + 1000)
    root = np.tril(rng.uniform(0.1, 1.0, (K, K)))
    return rng.standard_normal(K), root @ root.T, root


# -------------------------------------------------------------------------------------- single steps


@pytest.mark.parametrize("seed", SEEDS)
def test_predict(seed):
    model, _, _ = make_case(seed, D, 1)
    mean, covariance, root = gaussian(seed)
    a = np.diag(model.decay)
    expected = a @ mean, a @ covariance @ a + np.eye(K) - a @ a
    means, covariances = propagate(to_parameters(model), mean, covariance, 1)
    assert scaled_error(means[0], expected[0]) < EXACT
    assert scaled_error(covariances[0], expected[1]) < EXACT
    innovations = np.sqrt(np.eye(K) - a @ a)
    peer_mean, peer_root = predict(mean, root, a, np.zeros(K), innovations)
    assert scaled_error(peer_mean, expected[0]) < EXACT
    assert scaled_error(adapters.squares(peer_root), expected[1]) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [False, True])
def test_update(seed, missing):
    """A complete or incomplete row updates any Gaussian state; a decay of one leaves it unchanged."""
    model, data, _ = make_case(seed, D, 1)
    if missing:
        data[0, 0] = np.nan
    mean, covariance, root = gaussian(seed)
    observed = ~np.isnan(data[0])
    C, R = model.loadings[observed], np.diag(model.noise[observed])
    S = C @ covariance @ C.T + R
    gain = np.linalg.solve(S, C @ covariance).T
    residual = (data[0] - model.offset)[observed] - C @ mean
    expected = mean + gain @ residual, covariance - gain @ S @ gain.T
    density = multivariate_normal(cov=S).logpdf(residual)

    panel = to_panel([data])
    ours = filter_rows(to_parameters(model), panel, mean, covariance, Transition(np.ones((1, K))))
    assert scaled_error(ours.means[0], expected[0]) < EXACT
    assert scaled_error(ours.covariances[0], expected[1]) < EXACT
    assert scaled_error(ours.log_likelihoods[0], density) < EXACT

    noise_root = np.diag(np.sqrt(model.noise))
    (peer_mean, peer_root), peer_density = filter_update(
        mean, root, model.loadings, model.offset, noise_root, data[0]
    )
    assert scaled_error(peer_mean, expected[0]) < EXACT
    assert scaled_error(adapters.squares(peer_root), expected[1]) < EXACT
    assert scaled_error(peer_density, density) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_smoother_update(seed):
    """One backward step from the Gaussian of the later state, here the first step of two rows."""
    model, data, _ = make_case(seed, D, 2)
    ours = adapters.ours(model, data)
    a = np.diag(model.decay)
    mean, covariance = ours.filtered_means[0], ours.filtered_covariances[0]
    (peer_mean, peer_root), gain = smoother_update(
        mean,
        np.linalg.cholesky(covariance),
        ours.means[1],
        np.linalg.cholesky(ours.covariances[1]),
        a,
        np.zeros(K),
        np.sqrt(np.eye(K) - a @ a),
    )
    predicted = a @ covariance @ a + np.eye(K) - a @ a
    back = covariance @ a @ np.linalg.inv(predicted)
    assert scaled_error(gain, back) < EXACT
    smoothed = mean + back @ (ours.means[1] - a @ mean)
    narrowed = covariance + back @ (ours.covariances[1] - predicted) @ back.T
    for one_mean, one_covariance in (
        (ours.means[0], ours.covariances[0]),
        (peer_mean, adapters.squares(peer_root)),
    ):
        assert scaled_error(one_mean, smoothed) < EXACT
        assert scaled_error(one_covariance, narrowed) < EXACT
    # The covariance of successive states has the earlier state in the rows in cuthbert, the later one here.
    assert scaled_error(ours.lag_one[0], (back @ ours.covariances[1]).T) < EXACT
    assert scaled_error(gain @ ours.covariances[1], ours.lag_one[0].T) < EXACT


# ---------------------------------------------------------------------------- filter and smoother


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_columns", "n_rows", "kind"), SIZES)
def test_filter_and_smoother_of_the_peer(seed, n_columns, n_rows, kind):
    """Filtered and smoothed moments, lag-one covariances and log-likelihoods equal the oracle's."""
    case = make_case(seed, n_columns, n_rows, kind)
    ours, expected = adapters.ours(*case), adapters.dense(*case)
    adapters.assert_same(ours, expected, EXACT)
    adapters.assert_same(adapters.cuthbert(*case), ours, EXACT)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_parallel_filter_and_smoother_of_the_peer(seed, kind):
    case = make_case(seed, D, 5, kind)
    parallel = adapters.cuthbert(*case, parallel=True)
    adapters.assert_same(parallel, adapters.ours(*case), EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods_of_single_rows(kind):
    """Log-likelihoods of cuthbert are cumulative and start at zero; those here belong to single rows."""
    model, data, times = make_case(42, D, 25, kind)
    ours = run_filter(to_parameters(model), adapters.sequence_of(data, times), None)
    (_, _, cumulative), _ = adapters.cuthbert_passes(
        np.zeros(K), np.eye(K), adapters.cuthbert_inputs(model, data, times)
    )
    assert len(cumulative) == len(data) + 1 and cumulative[0] == 0.0
    assert scaled_error(ours.row_log_likelihoods, np.diff(cumulative)) < EXACT


def test_state_before_the_first_row():
    """The first state of cuthbert is one transition before the first row, and is smoothed like the others."""
    model, data, _ = make_case(42, D, 25)
    inputs = adapters.cuthbert_inputs(model, data)
    (filtered, roots, _), (means, smoothed_roots, _) = adapters.cuthbert_passes(
        np.zeros(K), np.eye(K), inputs
    )
    assert len(filtered) == len(means) == len(data) + 1
    assert np.all(filtered[0] == 0) and scaled_error(adapters.squares(roots[0]), np.eye(K)) < EXACT
    # Here this is an empty row.
    empty = np.full((1, D), np.nan)
    ours = adapters.ours(model, np.vstack([empty, data]))
    assert scaled_error(ours.means, means) < EXACT
    assert scaled_error(ours.covariances, adapters.squares(smoothed_roots)) < EXACT
    # As the model is stationary, the first transition can also be independent of that state.
    independent = (inputs[0].at[0].set(0.0), inputs[1], inputs[2].at[0].set(jnp.eye(K)), *inputs[3:])
    (again, _, _), _ = adapters.cuthbert_passes(np.full(K, 7.0), 3.0 * np.eye(K), independent)
    assert scaled_error(again[1:], filtered[1:]) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_filters_continue_from_a_state(seed):
    model, data, _ = make_case(seed, D, 25)
    params = to_parameters(model)
    mean, covariance, root = gaussian(seed)
    ours = run_filter(params, adapters.sequence_of(data), FilterState(mean, covariance))
    (filtered, roots, cumulative), _ = adapters.cuthbert_passes(
        mean, root, adapters.cuthbert_inputs(model, data)
    )
    assert scaled_error(ours.means, filtered[1:]) < EXACT
    assert scaled_error(ours.covariances, adapters.squares(roots[1:])) < EXACT
    assert scaled_error(ours.log_likelihood, cumulative[-1]) < EXACT
    first = run_filter(params, adapters.sequence_of(data[:10]), FilterState(mean, covariance))
    second = run_filter(params, adapters.sequence_of(data[10:]), first.state)
    assert scaled_error(np.vstack([first.means, second.means]), ours.means) < EXACT
    assert scaled_error(first.log_likelihood + second.log_likelihood, ours.log_likelihood) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_covariance_of_successive_states(seed):
    """The joint covariance of successive states is positive; the conditional one is that of the filter."""
    model, data, times = make_case(seed, D, 25, "incomplete")
    ours = adapters.ours(model, data, times)
    joint = np.block(
        [[ours.covariances[1:], ours.lag_one], [ours.lag_one.swapaxes(1, 2), ours.covariances[:-1]]]
    )
    assert np.linalg.eigvalsh(joint).min() > 0
    full = oracle.joint_posterior(model, [data]).full
    for t in range(len(data) - 1):
        expected = full[t : t + 2, :, t : t + 2][::-1, :, ::-1].reshape(2 * K, 2 * K)
        assert scaled_error(joint[t], expected) < EXACT
    # The conditional covariance of the earlier state given the later one follows from the filter.
    a = np.diag(model.decay)
    filtered = ours.filtered_covariances[:-1]
    smoother_gain = filtered @ a @ np.linalg.inv(a @ filtered @ a + np.eye(K) - a @ a)
    conditional_covariance = ours.covariances[:-1] - smoother_gain @ ours.lag_one
    assert scaled_error(conditional_covariance, filtered - smoother_gain @ a @ filtered) < EXACT


# ------------------------------------------------------------------------- densities, draws, factors


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [[], [1], [0, 1], [0, 1, 2]])
def test_density_of_a_row_with_missing_values(seed, missing):
    """The log density is that of the observed values; without any it is zero."""
    rng = np.random.default_rng(seed)
    model = oracle.random_model(rng, D, K)
    row = oracle.simulate(rng, model, [1])[0]
    row[0, missing] = np.nan
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    observed = ~np.isnan(row[0])
    expected = 0.0
    if observed.any():
        marginal = multivariate_normal(model.offset[observed], covariance[np.ix_(observed, observed)])
        expected = marginal.logpdf(row[0, observed])
    assert scaled_error(log_likelihood(to_parameters(model), to_panel([row])), expected) < EXACT
    peer = log_density(row[0], model.offset, np.linalg.cholesky(covariance))
    assert scaled_error(float(peer), expected) < EXACT


def draws_of(source, model, data):
    """Return draws of all states, of shape (draws, rows, factors), from either package."""
    params = to_parameters(model)
    if source == "ours":
        return draw_factors(params, to_panel([data]), N_DRAWS, np.random.default_rng(5))
    inputs = adapters.cuthbert_inputs(model, data)
    (means, roots, _), _ = adapters.cuthbert_passes(np.zeros(K), np.eye(K), inputs)

    def draw(key, means, roots):
        elements = sampling.sqrt_associative_params(key, means, roots, *inputs[:3], (N_DRAWS,))

        def back(later, earlier):
            joined = sampling.sampling_operator(later, earlier)
            return joined, joined.sample

        last = jax.tree.map(lambda x: x[-1], elements)
        before = jax.tree.map(lambda x: x[:-1], elements)
        return jax.lax.scan(back, last, before, reverse=True)[1]

    draws = adapters.compiled(draw)(jax.random.key(5), means, roots)
    # The last state has no successor; the state of cuthbert before the first row is left out.
    last = means[-1] + np.random.default_rng(6).standard_normal((N_DRAWS, K)) @ roots[-1].T
    return np.concatenate([np.asarray(draws)[1:], last[None]]).swapaxes(0, 1)


@pytest.mark.parametrize("source", ["ours", "peer"])
def test_draws_have_the_moments_of_the_posterior(source):
    model, data, _ = make_case(42, D, 25, "incomplete")
    draws = draws_of(source, model, data)
    assert draws.shape == (N_DRAWS, len(data), K)
    expected = adapters.dense(model, data)
    std = np.sqrt(np.diagonal(expected.covariances, axis1=1, axis2=2))
    errors = np.abs(draws.mean(axis=0) - expected.means) / std
    assert np.max(errors) < mc_tolerance(1, N_DRAWS)
    residuals = draws - draws.mean(axis=0)
    covariances = np.einsum("nti,ntj->tij", residuals, residuals) / (N_DRAWS - 1)
    # The variance of a sample covariance is (s_ii s_jj + s_ij^2) / n, at most twice the first term.
    bound = mc_tolerance(2, N_DRAWS) * std[:, :, None] * std[:, None, :]
    assert np.all(np.abs(covariances - expected.covariances) < bound)


def test_simulated_series_have_the_requested_shapes():
    params = to_parameters(make_case(0, D, 1)[0])
    one, again, other = (simulate(params, 5, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert one[0].shape == (5, D) and one[1].shape == (5, K)
    assert np.array_equal(one[0], again[0]) and not np.allclose(one[0], other[0])


@pytest.mark.parametrize("kind", ["complete", "incomplete"])
def test_factors_of_separate_columns_are_independent(kind):
    """If each column loads one factor, factors are independent given the data, and cuthbert is exact."""
    model, data, _ = make_case(7, D, 25, kind)
    model = model._replace(loadings=np.diag(np.diag(model.loadings)))
    ours = adapters.ours(model, data)
    off_diagonal = ~np.eye(K, dtype=bool)
    assert np.max(np.abs(ours.covariances[:, off_diagonal])) < EXACT

    # Each block of cuthbert is one factor, and every row updates all blocks.
    builder = cuthbert.factorial.gaussian.build_factorializer(lambda inputs: jnp.arange(K))
    filter_ = adapters.cuthbert_filter(jnp.zeros((K, 1)), jnp.ones((K, 1, 1)))
    inputs = adapters.cuthbert_inputs(model, data)
    first = builder.factorialize_init_state(filter_.init_prepare())

    def factorial_filter(inputs):
        return cuthbert.factorial.filter(filter_, builder, inputs, first, output_factorial=True)

    states = adapters.compiled(factorial_filter)(inputs)
    assert scaled_error(np.asarray(states.mean)[1:, :, 0], ours.filtered_means) < EXACT
    variances = adapters.squares(np.asarray(states.chol_cov))[1:, :, 0, 0]
    assert scaled_error(variances, np.diagonal(ours.filtered_covariances, axis1=1, axis2=2)) < EXACT

    alone = 0.0
    for k in range(K):
        one = oracle.Model(model.decay[[k]], model.loadings[[k]][:, [k]], model.noise[[k]], model.offset[[k]])
        alone += oracle.kalman_loop(one, [data[:, [k]]]).row_log_likelihoods.sum()
    assert scaled_error(ours.log_likelihood, alone) < EXACT
