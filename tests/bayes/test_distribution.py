"""The distribution has the density of a dense joint Gaussian, and works in NumPyro's samplers and guides."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoLaplaceApproximation, AutoNormal
from scipy.stats import kstest, multivariate_normal, norm

from probsfa.bayes import FactorialAR1, factorial_ar1_model
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import MISSING_PATTERNS, mask_values
from tests.tolerances import EXACT, mc_tolerance


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def positive_model(rng, d, k, noise=0.3):
    model = oracle.random_model(rng, d, k, noise)
    return model._replace(decay=np.abs(model.decay))


def distribution_of(model, mask, **options):
    return FactorialAR1(*model, mask=mask, **options)


#: Log density of values as one compiled program; otherwise each operation would be compiled separately.
log_prob_of = jax.jit(lambda series, x: series.log_prob(x))


@parametrize("pattern", MISSING_PATTERNS, quick=["scattered", "everything"])
@parametrize("shape", [(1, 1, 1), (2, 3, 2), (9, 4, 2), (7, 2, 3)], quick=[(9, 4, 2)])
def test_log_prob_is_that_of_the_joint_gaussian(rng, shape, pattern):
    t, d, k = shape
    model = oracle.random_model(rng, d, k)
    (x,) = mask_values(rng, oracle.simulate(rng, model, [t]), pattern)
    if np.isnan(x).all():
        wanted = 0.0
    else:
        wanted = oracle.log_likelihood(model, [x])
    log_prob = log_prob_of(distribution_of(model, ~np.isnan(x)), x)
    assert abs(float(log_prob) - wanted) < EXACT * max(1.0, abs(wanted))


def test_several_sequences_and_uneven_gaps(rng):
    model = positive_model(rng, 3, 2)
    times = [np.array([0.0, 0.5, 2.5, 3.0, 3.5]), np.array([1.0, 3.0, 3.5])]
    xs = oracle.simulate(rng, model, [5, 3], times)
    gaps, index = np.array([0.5, 2.0]), np.array([2, 0, 1, 0, 0, 2, 1, 0])
    x = np.concatenate(xs)
    log_prob = log_prob_of(distribution_of(model, np.isfinite(x), gap_index=index, gaps=gaps), x)
    wanted = oracle.log_likelihood(model, xs, times)
    assert abs(float(log_prob) - wanted) < EXACT * abs(wanted)


@parametrize("pattern", ["none", "scattered", "empty rows"], quick=["scattered"])
def test_gradient_is_that_of_finite_differences_of_the_joint_gaussian(rng, pattern):
    model = positive_model(rng, 3, 2)
    (x,) = mask_values(rng, oracle.simulate(rng, model, [8]), pattern)
    mask = ~np.isnan(x)
    slopes = jax.jit(jax.grad(lambda parts: distribution_of(parts, mask).log_prob(x)))(
        oracle.Model(*map(jnp.asarray, model))
    )
    for name, slope in zip(model._fields, slopes, strict=True):
        for at in np.ndindex(np.shape(slope)):
            ends = []
            for sign in (1.0, -1.0):
                moved = np.array(getattr(model, name))
                moved[at] += sign * 1e-5
                ends.append(oracle.log_likelihood(model._replace(**{name: moved}), [x]))
            wanted = (ends[0] - ends[1]) / 2e-5
            assert abs(float(slope[at]) - wanted) < 1e-6 * max(1.0, abs(wanted))


def test_gradient_with_respect_to_series_and_row_offsets_is_that_of_the_joint_gaussian(rng):
    model = positive_model(rng, 3, 2)
    (x,) = mask_values(rng, oracle.simulate(rng, model, [8]), "scattered")
    mask = ~np.isnan(x)
    rows = rng.standard_normal(x.shape)

    def log_prob(value, offset):
        return distribution_of(model._replace(offset=offset), mask).log_prob(value)

    by_value, by_offset = jax.jit(jax.grad(log_prob, argnums=(0, 1)))(x, rows)
    zero = model._replace(offset=np.zeros(3))
    for at in np.ndindex(x.shape):
        shift = np.zeros(x.shape)
        shift[at] = 1e-5
        ends = [oracle.log_likelihood(zero, [x + sign * shift - rows]) for sign in (1.0, -1.0)]
        wanted = (ends[0] - ends[1]) / 2e-5 if mask[at] else 0.0
        assert abs(float(by_value[at]) - wanted) < 1e-6 * max(1.0, abs(wanted))
        assert float(by_offset[at]) == -float(by_value[at])


def test_gradients_with_uneven_gaps_are_those_of_finite_differences_of_the_joint_gaussian(rng):
    model = positive_model(rng, 3, 2)
    index, gaps = np.array([2, 0, 1, 0, 0, 2, 1, 0]), np.array([0.5, 2.0])
    (x,) = mask_values(rng, oracle.simulate(rng, model, [8]), "scattered")

    def wanted_at(gaps, model=model):
        times = (
            np.concatenate([[0.0], np.cumsum(gaps[index[1:5]])]),
            np.append(0.0, np.cumsum(gaps[index[6:]])),
        )
        return oracle.log_likelihood(model, [x[:5], x[5:]], list(times))

    def log_prob(parts, gaps):
        return distribution_of(parts, ~np.isnan(x), gap_index=index, gaps=gaps).log_prob(x)

    parts = oracle.Model(*map(jnp.asarray, model))
    value, (slopes, slope) = jax.jit(jax.value_and_grad(log_prob, argnums=(0, 1)))(parts, gaps)
    assert abs(float(value) - wanted_at(gaps)) < EXACT * abs(value)
    for u in range(2):
        step = 1e-5 * np.eye(2)[u]
        wanted = (wanted_at(gaps + step) - wanted_at(gaps - step)) / 2e-5
        assert abs(float(slope[u]) - wanted) < 1e-6 * max(1.0, abs(wanted))
    for name, of_part in zip(model._fields, slopes, strict=True):
        for at in np.ndindex(np.shape(of_part)):
            ends = []
            for sign in (1.0, -1.0):
                moved = np.array(getattr(model, name))
                moved[at] += sign * 1e-5
                ends.append(wanted_at(gaps, model._replace(**{name: moved})))
            wanted = (ends[0] - ends[1]) / 2e-5
            assert abs(float(of_part[at]) - wanted) < 1e-6 * max(1.0, abs(wanted)), (name, at)


def test_gradients_of_a_batch_are_those_of_its_series(rng):
    models = [positive_model(rng, 3, 2) for _ in range(4)]
    stacked = oracle.Model(*(jnp.stack([jnp.asarray(m[i]) for m in models]) for i in range(4)))
    xs = np.stack([oracle.simulate(rng, m, [9])[0] for m in models])
    masks, gaps, index = rng.random(xs.shape) < 0.8, np.array([0.5, 2.0]), np.array([2, *8 * [0, 1]])[:9]

    def log_prob(model, mask, x, gaps):
        return jnp.sum(distribution_of(model, mask, gap_index=index, gaps=gaps).log_prob(x))

    slope = jax.jit(jax.grad(log_prob, argnums=(0, 2, 3)))
    by_model, by_value, by_gaps = slope(stacked, masks, xs, gaps)
    single = [slope(m, mask, x, gaps) for m, mask, x in zip(models, masks, xs, strict=True)]
    for i, (of_model, of_value, _) in enumerate(single):
        for found, wanted in zip((*by_model, by_value), (*of_model, of_value), strict=True):
            np.testing.assert_allclose(found[i], wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_gaps, sum(g for _, _, g in single), rtol=1e-9)


def test_gradient_with_respect_to_gaps_is_nan_for_negative_decays():
    series = {"loadings": np.ones((2, 1)), "noise_variance": 0.5, "n_steps": 3, "gap_index": [1, 0, 0]}
    slope = jax.grad(lambda gaps: FactorialAR1([-0.5], **series, gaps=gaps).log_prob(np.ones((3, 2))))
    assert np.isnan(jax.jit(slope)(np.array([2.0])))


@pytest.fixture
def below_normal_observations(rng):
    """Return a model with a latent series, parameters and covariance of the series, and the observations."""
    model = positive_model(rng, 2, 1)._replace(offset=np.array([1.0, -1.0]))
    (x,) = oracle.simulate(rng, model, [6])
    y = x + 0.7 * rng.standard_normal(x.shape)

    def below():
        latent = numpyro.sample("x", FactorialAR1(*model, n_steps=6))
        numpyro.sample("y", dist.Normal(latent, 0.7).to_event(2), obs=y)

    H, P = oracle.observation_matrix(model, 6), oracle.latent_covariance(model, [np.zeros((6, 2))])
    return below, model, H @ P @ H.T + np.diag(np.tile(model.noise, 6)), y


def test_a_latent_series_has_the_density_of_the_joint_gaussian(below_normal_observations, rng):
    below, model, prior, y = below_normal_observations
    density = jax.jit(lambda x: numpyro.infer.util.log_density(below, (), {}, {"x": x})[0])
    for x in rng.standard_normal((3, 6, 2)):
        wanted = multivariate_normal.logpdf(x.ravel(), np.tile(model.offset, 6), prior)
        assert float(density(x)) == pytest.approx(wanted + np.sum(norm.logpdf(y, x, 0.7)), rel=EXACT)
    assert dist.transforms.biject_to(FactorialAR1(*model, n_steps=6).support)(y) is y


@pytest.mark.exhaustive  # the density is that of the test above
def test_a_latent_series_has_the_posterior_of_the_joint_gaussian(below_normal_observations):
    below, model, prior, y = below_normal_observations
    mcmc = MCMC(NUTS(below), num_warmup=300, num_samples=3000, progress_bar=False)
    mcmc.run(jax.random.key(0))
    drawn = np.asarray(mcmc.get_samples()["x"]).reshape(3000, -1)
    covariance = np.linalg.inv(np.linalg.inv(prior) + np.eye(12) / 0.49)
    mean = np.tile(model.offset, 6)
    mean = mean + covariance @ (y.ravel() - mean) / 0.49
    std = np.sqrt(np.diag(covariance))
    assert abs(np.mean(drawn.std(axis=0) / std) - 1.0) < 0.02
    np.testing.assert_allclose((drawn.mean(axis=0) - mean) / std, 0.0, atol=mc_tolerance(1.0, 1500))


def test_offsets_of_rows_are_their_means(rng):
    model = positive_model(rng, 3, 1)
    rows = rng.standard_normal((2, 5, 3))
    moving = distribution_of(model._replace(offset=rows), None, n_steps=5)
    assert moving.batch_shape == (2,) and moving.event_shape == (5, 3)
    np.testing.assert_array_equal(moving.mean, rows)
    still = distribution_of(model._replace(offset=np.zeros(3)), None, n_steps=5)
    drawn = jax.jit(lambda key: moving.sample(key, (4,)))(jax.random.key(0))
    assert drawn.shape == (4, 2, 5, 3)
    found, wanted = log_prob_of(moving, drawn), log_prob_of(still, drawn - rows)
    np.testing.assert_allclose(found, wanted, rtol=EXACT)
    with pytest.raises(ValueError, match=r"offset.*\(5, 3\).*\(5, 5, 3\)"):
        FactorialAR1(np.full((5, 1), 0.5), np.ones((3, 1)), 1.0, np.zeros((5, 3)), n_steps=5)


def test_negative_decays_require_integer_gaps():
    series = {"loadings": np.ones((2, 1)), "noise_variance": 1.0, "n_steps": 3, "gap_index": [1, 0, 0]}
    with pytest.raises(ValueError, match="decay has the negative"):
        FactorialAR1([-0.5], **series, gaps=[0.5])
    assert np.isfinite(FactorialAR1([-0.5], **series, gaps=[2.0]).log_prob(np.ones((3, 2))))


@parametrize("noise", [1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e3], quick=[1e-8])
def test_no_nan_from_tiny_to_huge_noise(rng, noise):
    model = positive_model(rng, 4, 2, noise)
    (x,) = mask_values(rng, oracle.simulate(rng, model, [50]), "scattered")

    def log_prob(parts):
        return distribution_of(parts, ~np.isnan(x)).log_prob(x)

    value, slopes = jax.jit(jax.value_and_grad(log_prob))(oracle.Model(*map(jnp.asarray, model)))
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(s)) for s in slopes)


@pytest.mark.exhaustive  # second derivatives of the likelihood: tests/statespace/engine/test_likelihood.py
def test_second_derivatives_are_those_of_differences(rng):
    model = positive_model(rng, 3, 1)
    (x,) = oracle.simulate(rng, model, [10])
    flat, unravel = jax.flatten_util.ravel_pytree(oracle.Model(*map(jnp.asarray, model)))

    def log_prob(vector):
        return distribution_of(unravel(vector), np.isfinite(x)).log_prob(x)

    hessian, slope = jax.jit(jax.hessian(log_prob))(flat), jax.jit(jax.grad(log_prob))
    steps = 1e-5 * np.eye(len(flat))
    wanted = np.array([(slope(flat + s) - slope(flat - s)) / 2e-5 for s in steps])
    np.testing.assert_allclose(hessian, wanted, rtol=1e-5, atol=1e-4)


def test_nan_in_missing_values_changes_neither_density_nor_gradient(rng):
    model = positive_model(rng, 3, 2)
    (x,) = oracle.simulate(rng, model, [10])
    mask = rng.random(x.shape) < 0.7

    def log_prob(loadings, values):
        return distribution_of(model._replace(loadings=loadings), mask, validate_args=True).log_prob(values)

    slope = jax.jit(jax.value_and_grad(log_prob))
    both = [slope(model.loadings, np.where(mask, x, v)) for v in (np.nan, 7.0)]
    assert np.array_equal(both[0][0], both[1][0])
    assert np.array_equal(both[0][1], both[1][1])


def test_batches_by_broadcasting_vmap_and_jit_agree(rng):
    models = [positive_model(rng, 3, 2) for _ in range(4)]
    stacked = oracle.Model(*(jnp.stack([jnp.asarray(m[i]) for m in models]) for i in range(4)))
    xs = np.stack([oracle.simulate(rng, m, [9])[0] for m in models])
    masks = rng.random(xs.shape) < 0.8
    each = zip(models, masks, xs, strict=True)
    one_by_one = [log_prob_of(distribution_of(m, mask), x) for m, mask, x in each]
    batch = distribution_of(stacked, masks)
    assert batch.batch_shape == (4,) and batch.event_shape == (9, 3)
    mapped = jax.jit(jax.vmap(lambda m, mask, x: distribution_of(m, mask).log_prob(x)))(stacked, masks, xs)
    np.testing.assert_allclose(mapped, one_by_one, rtol=EXACT)
    # The distribution itself is a pytree, which jit and vmap accept and return.
    distributions = jax.jit(jax.vmap(distribution_of))(stacked, masks)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(lambda series, x: series.log_prob(x)))(distributions, xs), one_by_one, rtol=EXACT
    )
    np.testing.assert_allclose(log_prob_of(batch, xs), one_by_one, rtol=EXACT)


@pytest.mark.parametrize("name", ["decay", "loadings", "noise_variance", "offset"])
def test_a_batch_of_one_parameter_is_a_batch_of_series(rng, name):
    parts = dict(
        decay=np.array([0.9, 0.5]), loadings=rng.standard_normal((3, 2)), noise_variance=np.full(3, 0.2)
    )
    parts["offset"] = np.zeros(3)
    parts[name] = np.stack([parts[name]] * 4)
    series = FactorialAR1(**parts, n_steps=9)
    assert series.batch_shape == (4,) and series.event_shape == (9, 3)
    assert series.mean.shape == series.variance.shape == (4, 9, 3)


def test_samples_have_the_moments_of_the_model(rng):
    model = positive_model(rng, 2, 2)
    series = FactorialAR1(*model, n_steps=3)
    drawn = np.asarray(series.sample(jax.random.key(1), (20_000,))).reshape(20_000, -1)
    H, P = oracle.observation_matrix(model, 3), oracle.latent_covariance(model, [np.zeros((3, 2))])
    wanted = H @ P @ H.T + np.diag(np.tile(model.noise, 3))
    spread = mc_tolerance(2.0 * float(np.max(np.diag(wanted))) ** 2, 20_000)
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=spread)
    np.testing.assert_allclose(
        drawn.mean(0), np.tile(model.offset, 3), atol=mc_tolerance(np.max(wanted), 2e4)
    )
    np.testing.assert_allclose(series.variance.ravel(), np.diag(wanted), rtol=EXACT)
    np.testing.assert_allclose(series.mean.ravel(), np.tile(model.offset, 3), rtol=EXACT)


def test_samples_restart_where_a_sequence_starts(rng):
    series = FactorialAR1([0.99], np.ones((1, 1)), 1e-6, n_steps=2, gap_index=[1, 1])
    drawn = np.asarray(series.sample(jax.random.key(0), (4000,)))[:, :, 0]
    assert abs(np.corrcoef(drawn.T)[0, 1]) < mc_tolerance(1.0, 4000)


def test_log_prob_is_the_mean_density_over_simulated_factors(rng):
    # Mean, over factors drawn from their prior, of the density of the observations given the factors.
    model = positive_model(rng, 2, 1, noise=2.0)
    (x,) = oracle.simulate(rng, model, [2])
    zs = np.array([z for z in rng.standard_normal((200_000, 2))])
    zs[:, 1] = model.decay * zs[:, 0] + np.sqrt(1 - model.decay**2) * zs[:, 1]
    means = model.offset + zs[:, :, None] * model.loadings[:, 0]
    each = np.prod(
        np.exp(-0.5 * (x - means) ** 2 / model.noise) / np.sqrt(2 * np.pi * model.noise), axis=(1, 2)
    )
    log_prob = np.exp(float(log_prob_of(FactorialAR1(*model, n_steps=2), x)))
    assert abs(log_prob - each.mean()) < mc_tolerance(each.var(), len(each))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "n_steps.*mask"),
        ({"n_steps": 4, "mask": np.ones((3, 2), bool)}, "mask"),
        ({"n_steps": 4, "gap_index": [1, 0]}, "gap_index"),
        ({"n_steps": 4, "offset": np.zeros(3)}, "offset"),
    ],
)
def test_bad_shapes(options, message):
    with pytest.raises(ValueError, match=message):
        FactorialAR1([0.5], np.ones((2, 1)), 1.0, **options)


def test_loadings_of_another_number_of_factors_than_decay_raise():
    with pytest.raises(ValueError, match=r"decay.*got \(2,\) and \(2, 1\)"):
        FactorialAR1([0.5, 0.4], np.ones((2, 1)), 1.0, n_steps=3)


def test_values_out_of_range_raise_with_validate_args():
    with pytest.raises(ValueError, match="decay"):
        FactorialAR1(jnp.array([1.5]), jnp.ones((2, 1)), 1.0, n_steps=3, validate_args=True)


def small_data(rng, t=30):
    model = positive_model(rng, 3, 1)
    (x,) = mask_values(rng, oracle.simulate(rng, model, [t]), "scattered")
    return (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)


@parametrize("method", ["sequential", "vectorized", "parallel"], quick=0)
@pytest.mark.filterwarnings("ignore:There are not enough devices")
def test_numpyro_samples_the_model_by_all_chain_methods(rng, method):
    x = small_data(rng)
    mcmc = MCMC(
        NUTS(factorial_ar1_model, max_tree_depth=4),
        num_warmup=20,
        num_samples=10,
        num_chains=2,
        chain_method=method,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), x, 1)
    assert mcmc.get_samples()["loadings"].shape == (20, 3, 1)
    assert all(np.all(np.isfinite(v)) for v in mcmc.get_samples().values())


@parametrize("guide", [AutoLaplaceApproximation, AutoNormal], quick=0)
def test_numpyro_fits_guides_to_the_model(rng, guide):
    x = small_data(rng)
    auto = guide(factorial_ar1_model)
    svi = SVI(factorial_ar1_model, auto, numpyro.optim.Adam(0.02), Trace_ELBO())
    log_prob = svi.run(jax.random.key(0), 200, x, 1, progress_bar=False)
    assert np.all(np.isfinite(log_prob.losses))
    assert np.mean(log_prob.losses[-20:]) < np.mean(log_prob.losses[:20])
    drawn = auto.sample_posterior(jax.random.key(1), log_prob.params, x, 1, sample_shape=(5,))
    assert drawn["loadings"].shape == (5, 3, 1)


def test_the_log_density_of_a_plate_is_the_sum_over_sequences(rng):
    model = positive_model(rng, 3, 1)
    xs = np.stack(oracle.simulate(rng, model, [6, 6]))
    noises = rng.uniform(0.2, 1.0, (2, 3))

    def plated():
        with numpyro.plate("sequence", 2):
            numpyro.sample(
                "x", FactorialAR1(model.decay, model.loadings, noises, model.offset, n_steps=6), obs=xs
            )

    value = jax.jit(lambda: numpyro.infer.util.log_density(plated, (), {}, {})[0])()
    wanted = sum(oracle.log_likelihood(model._replace(noise=r), [x]) for r, x in zip(noises, xs, strict=True))
    assert abs(float(value) - wanted) < EXACT * abs(wanted)


def test_prior_predictive_draws_from_the_priors(rng):
    drawn = Predictive(factorial_ar1_model, num_samples=400)(
        jax.random.key(0), np.zeros((5, 2)), 1, predict=True
    )
    assert drawn["observations"].shape == (400, 5, 2)
    logs = (np.log(np.asarray(drawn["timescale"][:, 0])) - 2.3) / 1.5
    assert kstest(logs, "norm").pvalue > 1e-4
    np.testing.assert_allclose(drawn["decay"], np.exp(-1.0 / drawn["timescale"]), rtol=EXACT)


def test_single_precision_of_the_user_is_kept():
    with jax.enable_x64(False):
        series = FactorialAR1(jnp.array([0.9]), jnp.ones((2, 1)), 0.5, n_steps=20)
        density = jax.eval_shape(lambda key: series.log_prob(series.sample(key)), jax.random.key(0))
        assert density.dtype == jnp.float32


def test_import_does_not_change_the_configuration():
    assert isinstance(dist.Normal(0.0, 1.0), dist.Distribution)
    with jax.enable_x64(False):
        assert jnp.zeros(1).dtype == jnp.float32


@pytest.mark.exhaustive
def test_the_distribution_works_if_the_user_forbids_rank_promotion(rng):
    decay = jnp.array([[0.9, 0.5], [0.8, 0.3]])
    mask = jnp.asarray(rng.random((2, 7, 3)) > 0.2)

    def results():
        batch = FactorialAR1(decay, jnp.ones((3, 2)), 0.5, jnp.arange(3.0), mask=mask, validate_args=True)
        x = batch.sample(jax.random.key(0), (4,))
        slope = jax.grad(lambda a: FactorialAR1(a, jnp.ones((3, 2)), 0.5, mask=mask[0]).log_prob(x[0, 0]))
        return x, batch.log_prob(x), batch.mean, batch.variance, slope(decay[0])

    with jax.numpy_rank_promotion("raise"):
        found = results()
    for one, other in zip(found, results(), strict=True):
        np.testing.assert_array_equal(one, other)
