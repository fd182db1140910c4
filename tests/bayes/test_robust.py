"""Student-t noise in the Bayesian model: tests of invariance of the sampler, predictions by integration."""

import copy
import types
import warnings

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student_t
from sklearn.metrics import roc_auc_score

from probsfa import BayesianSFA, ProbabilisticSFA, load
from probsfa.bayes import Priors
from probsfa.bayes.draws import Draws
from probsfa.bayes.mixtures import mixture_posterior
from probsfa.bayes.sampling import gibbs
from probsfa.bayes.sampling.gibbs import RobustProblem, _Chain, slice_sample
from probsfa.bayes.weights import weighted_draws
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace
from tests.oracles import statespace as oracle
from tests.statespace.support import to_panel

FEW = dict(n_warmup=100, n_draws=60, n_chains=2, n_predictive=30, verbose=False, random_state=0)


def test_slice_samples_have_the_target_distribution():
    """Logarithms of two gamma variables with different shapes, sampled together."""
    rng, shape = np.random.default_rng(0), np.array([0.7, 6.0])
    x, drawn = np.zeros(2), []
    for _ in range(6000):
        x = slice_sample(lambda y: shape * y - np.exp(y), x, rng)
        drawn.append(np.exp(x))
    assert np.mean(drawn, axis=0) == pytest.approx(shape, rel=0.1)
    assert np.var(drawn, axis=0) == pytest.approx(shape, rel=0.2)


@pytest.mark.parametrize("noise", ["diagonal", pytest.param("isotropic", marks=pytest.mark.exhaustive)])
def test_sweeps_leave_the_joint_distribution_invariant(noise):
    """Parameters have their priors if data are drawn anew after each sweep (Geweke 2004)."""
    rng = np.random.default_rng(3)
    priors = Priors(
        timescale=dist.LogNormal(1.0, 0.6),
        loadings=dist.Normal(0.3, 0.8),
        noise_std=dist.LogNormal(-0.5, 0.4),
        offset=dist.Normal(0.5, 1.0),
        degrees_of_freedom=dist.Gamma(9.0, 1.5),
    )
    times = [np.array([0.0, 1.0, 2.5, 3.0, 5.0]), np.array([0.0, 0.5, 2.0])]
    x = [rng.standard_normal((len(one), 2)) for one in times]
    x[0][2, 1] = np.nan
    panel = to_panel(x, times)
    start = StateSpace(np.array([0.7, 0.4]), rng.standard_normal((2, 2)), np.full(2, 0.4), np.zeros(2))
    chain = _Chain(RobustProblem(panel, priors, NoiseVariances.of_option(noise, 2), start, 6.0), rng)
    n, found = panel.n_rows, []
    for i in range(1400):
        chain.sweep(adapt=i < 200)
        signal = chain.offset + chain.factors @ chain.loadings.T
        weights = np.where(chain.mask > 0.0, chain.weights[:n], 1.0)
        new = signal + np.sqrt(chain.scale / weights) * rng.standard_normal(signal.shape)
        chain.values[:] = chain.mask * new
        if i >= 200:
            # Parameters are transformed by the distribution functions of their priors, so that a few large
            # draws do not dominate the moments.
            standard = (
                (chain.log_timescale - 1.0) / 0.6,
                (np.log(chain.scale) + 1.0) / 0.8,
                (chain.loadings - 0.3) / 0.8,
                chain.offset - 0.5,
            )
            ranks = [norm.cdf(one) - 0.5 for one in standard]
            moments = [np.mean(rank**power) for rank in ranks for power in (1, 2)]
            found.append([*moments, np.log(chain.degrees), np.mean(chain.factors**2)])
    assert chain.values.base is panel.values
    assert chain.hamiltonian.n_accepted > 800
    degrees = rng.gamma(9.0, 1.0 / 1.5, 200_000)
    log_degrees = np.log(degrees[degrees > 2.1])
    wanted = [*4 * [0.0, 1.0 / 12.0], log_degrees.mean(), 1.0]
    # Means of batches are nearly independent.
    batches = np.mean(np.reshape(found, (30, 40, -1)), axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(30)
    assert np.all(np.abs(batches.mean(axis=0) - wanted) < 4.5 * error)
    assert np.all(error < [*4 * [0.03, 0.01], 0.15, 0.15])  # small enough to detect other distributions


def test_time_scales_are_drawn_for_fixed_factors_in_units_of_innovations(rng, monkeypatch):
    """The joint density of time scales, factors and loadings, times the Jacobian of the change of units."""
    priors = Priors(timescale=dist.LogNormal(1.0, 0.6), loadings=dist.Normal(0.3, 0.8))
    times = [np.array([0.0, 1.0, 2.5, 3.0, 5.0]), np.array([0.0, 0.5, 2.0])]
    x = [rng.standard_normal((len(one), 3)) for one in times]
    start = StateSpace(np.array([0.7, 0.4]), rng.standard_normal((3, 2)), np.full(3, 0.4), np.zeros(3))
    chain = _Chain(RobustProblem(to_panel(x, times), priors, NoiseVariances.diagonal(3), start, 6.0), rng)
    densities, z, current = [], rng.standard_normal((8, 2)), chain.log_timescale
    loadings = chain.loadings
    monkeypatch.setattr(gibbs, "slice_sample", lambda density, at, _: densities.append(density) or at)
    chain._draw_timescales(z)

    def log_density(log_timescale):
        decay, before = np.exp(-np.exp(-log_timescale)), np.exp(-np.exp(-current))
        size = np.sqrt((1.0 - decay**2) / (1.0 - before**2))
        covariance = oracle.latent_covariance(
            oracle.Model(decay, loadings, start.noise_variance, 0.0), x, times
        )
        of_factors = multivariate_normal.logpdf((z * size).ravel(), cov=covariance)
        of_loadings = norm.logpdf(loadings / size, 0.3, 0.8).sum()
        jacobian = (len(z) - len(loadings)) * np.log(size).sum()
        return norm.logpdf(log_timescale, 1.0, 0.6).sum() + of_factors + of_loadings + jacobian

    other = current + np.array([0.3, -0.4])
    found = np.sum(densities[0](other) - densities[0](current))
    assert found == pytest.approx(log_density(other) - log_density(current), abs=1e-3)


def test_factors_at_known_parameters_have_the_moments_of_numerical_integration():
    """Two rows of two columns with an outlier: moments by the trapezoidal rule over both states."""
    a, c, r, mu, nu = 0.8, np.array([1.0, 0.5]), np.array([0.3, 0.5]), np.array([0.2, 0.0]), 3.0
    x = np.array([[0.7, -0.4], [9.0, 0.5]])
    grid = np.linspace(-7.0, 7.0, 400)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    log_p = -0.5 * first**2 - 0.5 * (second - a * first) ** 2 / (1 - a**2)
    for row, z in zip(x, (first, second), strict=True):
        for d in range(2):
            log_p = log_p + student_t.logpdf(row[d] - mu[d] - c[d] * z, nu, scale=np.sqrt(r[d]))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    means = np.array([np.sum(p * first), np.sum(p * second)])
    variances = np.array([np.sum(p * first**2), np.sum(p * second**2)]) - means**2
    n = 1200

    def repeated(part):
        return np.broadcast_to(part, (1, n, *np.shape(part)))

    draws = Draws(repeated(np.array([a])), repeated(c[:, None]), repeated(r), repeated(mu))
    fitted = types.SimpleNamespace(draws=draws, degrees=np.full((1, n), nu), seed=1)
    drawn = weighted_draws(fitted, to_panel([x]), [(0, i) for i in range(n)])
    whole = mixture_posterior((one.params, one.panel) for one in drawn)
    np.testing.assert_allclose(whole.means[:, 0], means, atol=0.05)
    np.testing.assert_allclose(whole.covariances[:, 0, 0], variances, rtol=0.12)


@pytest.fixture(scope="module")
def recording():
    """A clean series, its factors, the series with outliers and missing values, their mask, and a fit."""
    rng = np.random.default_rng(1)
    truth = ProbabilisticSFA.from_parameters([0.95], rng.uniform(0.5, 1.5, (4, 1)), 0.1)
    clean, factors = truth.sample(200, random_state=0)
    off = rng.random(clean.shape) < 0.05
    size = rng.choice([-1.0, 1.0], clean.shape) * rng.uniform(8.0, 30.0, clean.shape) * np.sqrt(0.1)
    x = np.where(off, clean + size, clean)
    x[50:53, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = BayesianSFA(1, robust=True, **FEW).fit(x)
    return clean, factors, x, off, fitted


def test_outliers_are_found_and_hardly_move_the_posterior(recording):
    clean, factors, x, off, fitted = recording
    observed = ~np.isnan(x)
    scores = fitted.outlier_scores(x)
    assert np.array_equal(np.isnan(scores), ~observed)
    assert roc_auc_score(off[observed], scores[observed]) > 0.99
    assert abs(np.corrcoef(fitted.transform(x)[:, 0], factors[:, 0])[0, 1]) > 0.95
    assert 2.1 <= fitted.degrees_of_freedom_ < 3.0 and "Student-t" in fitted.status_
    assert "closest to the maximum of the likelihood" in fitted.relabelling_
    low, high = np.quantile(fitted.draws_.decay, [0.005, 0.995])
    assert low < 0.95 < high
    filled, lower, upper = fitted.impute(x, interval=0.95)
    assert np.all((lower < clean) & (clean < upper) | observed)
    # Standard deviations include the variance of outliers; quantiles reflect that most noise is small.
    _, std = fitted.impute(x, return_std=True)
    assert np.all((upper - lower)[~observed] < 3.0 * std[~observed])


def test_draws_of_the_same_posterior_agree_with_maximum_likelihood(recording):
    _, _, x, _, fitted = recording
    likeliest = ProbabilisticSFA(1, robust=True).fit(x)
    together = np.corrcoef(fitted.transform(x)[:, 0], likeliest.transform(x)[:, 0])[0, 1]
    assert abs(together) > 0.99
    assert fitted.log_likelihood(x) == pytest.approx(likeliest.log_likelihood(x), abs=15.0)


def test_all_methods_with_student_noise(recording, tmp_path):
    clean, _, x, _, fitted = recording
    posterior = fitted.posterior(x)
    assert posterior.means.shape == (200, 1) and np.isnan(posterior.row_log_likelihoods).all()
    np.testing.assert_array_equal(fitted.transform(x), posterior.means)
    filtered = fitted.filter(x[:80])
    with_outlier, masked = (
        np.where(np.arange(80)[:, None] == [70, -1, -1, -1], value, x[:80]) for value in (1e6, np.nan)
    )
    np.testing.assert_allclose(
        fitted.filter(with_outlier).means[70:], fitted.filter(masked).means[70:], atol=0.01
    )
    onward = fitted.filter(x[80:100], filtered.state)
    np.testing.assert_allclose(onward.means, fitted.filter(x[:100]).means[80:], atol=1e-9)
    ahead = fitted.forecast(x, 3)
    assert np.all((ahead.lower < ahead.means) & (ahead.means < ahead.upper))
    assert fitted.sample_posterior(x, 3, random_state=0).shape == (3, 200, 1)
    assert fitted.sample(5, random_state=0)[0].shape == (5, 4)
    tree = fitted.to_datatree()
    assert "log_likelihood" not in tree.children and "prior_predictive" not in tree.children
    np.testing.assert_array_equal(tree["posterior"].degrees_of_freedom, fitted.fitted_.degrees)
    fitted.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert back.degrees_of_freedom_ == fitted.degrees_of_freedom_ and back.status_ == fitted.status_
    np.testing.assert_array_equal(back.transform(x), fitted.transform(x))


def test_intervals_of_forecasts_are_quantiles_of_student_noise(recording):
    """At long horizons factors are standard normal; quantiles are those of simulated observations.

    With normal noise of the same variance, intervals would be 1.5 times as wide: most Student-t noise is
    small.
    """
    _, _, x, _, fitted = recording
    many = copy.deepcopy(fitted).set_params(n_predictive=120)
    ahead = many.forecast(x, 300, interval=0.5)
    draws, degrees = fitted.draws_, fitted.fitted_.degrees[..., None, None]
    rng, shape = np.random.default_rng(0), (*draws.offset.shape, 400)
    noise = np.sqrt(draws.noise_variance)[..., None] * rng.standard_t(degrees, shape)
    latent = rng.standard_normal((*shape[:2], 1, shape[3]))
    values = np.moveaxis(draws.offset[..., None] + draws.loadings * latent + noise, 2, 0).reshape(4, -1)
    for found, share in ((ahead.lower, 0.25), (ahead.upper, 0.75)):
        wanted = np.quantile(values, share, axis=1)
        np.testing.assert_allclose(found[-50:].mean(axis=0), wanted, rtol=0.08)


def test_known_and_isotropic_noise_are_accepted(recording):
    _, _, x, _, _ = recording
    options = {**FEW, "n_warmup": 30, "n_draws": 30, "n_chains": 1}
    for noise, spread in (("isotropic", False), (0.1, None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = BayesianSFA(1, robust=True, noise=noise, standardize=False, **options).fit(x[:80])
        scales = fitted.draws_.noise_variance
        assert np.ptp(scales, axis=-1).max() < 1e-9
        assert (np.ptp(scales) < 1e-12) == (spread is None)


def test_options_that_student_noise_does_not_support_raise(rng):
    x = rng.standard_normal((30, 2))
    for options, message in (
        ({"inference": "svi"}, "Use inference='nuts'"),
        ({"hierarchical": True}, "hierarchical"),
        ({"priors": Priors(shrinkage=0.3)}, "shrinkage"),
        ({"priors": Priors(offset=dist.Laplace(0.0, 1.0))}, "requires numpyro's Normal"),
        ({"robust": "row"}, "True or False"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianSFA(1, **{"robust": True, **options}).fit([x, x])


def test_the_largest_outlier_score_with_normal_noise_is_the_outlier(rng):
    x = rng.standard_normal((60, 3)).cumsum(axis=0)
    x[20, 1] += 50.0
    fitted = BayesianSFA(1, inference="svi", n_draws=20, n_chains=1, verbose=False, random_state=0).fit(x)
    scores = fitted.outlier_scores(x)
    assert np.unravel_index(np.argmax(scores), x.shape) == (20, 1)
    assert not hasattr(fitted, "degrees_of_freedom_")


@pytest.mark.parametrize("normal", [0.0, 1.5])
def test_a_factor_is_shifted_by_a_draw_of_its_conditional_distribution(rng, normal):
    """Mode and standard deviation are those of the joint density of factors and offsets along the shift."""
    times = [np.array([0.0, 1.0, 2.5, 3.0, 5.0]), np.array([0.0, 0.5, 2.0])]
    x = [rng.standard_normal((len(one), 3)) for one in times]
    priors = Priors(offset=dist.Normal(0.5, 1.3))
    start = StateSpace(np.array([0.4, 0.7]), rng.standard_normal((3, 2)), np.full(3, 0.4), rng.normal(size=3))
    chain = _Chain(RobustProblem(to_panel(x, times), priors, NoiseVariances.diagonal(3), start, 6.0), rng)
    z, offset = rng.standard_normal((8, 2)) + 1.0, chain.offset.copy()
    chain.rng = types.SimpleNamespace(standard_normal=lambda: normal)
    shifted = chain._draw_shifts(z)
    shift = shifted - z
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-12)
    np.testing.assert_allclose(chain.offset, offset - chain.loadings @ shift[0], atol=1e-12)
    decay = np.exp(-np.exp(-chain.log_timescale))
    model = oracle.Model(decay, chain.loadings, start.noise_variance, 0.0)
    covariance = oracle.latent_covariance(model, x, times)

    def log_density(delta):
        """Log density after another shift of the second factor, which is drawn last."""
        factors = shifted + delta * np.array([0.0, 1.0])
        prior = norm.logpdf(chain.offset - delta * chain.loadings[:, 1], 0.5, 1.3).sum()
        return multivariate_normal.logpdf(factors.ravel(), cov=covariance) + prior

    below, here, above = (log_density(delta) for delta in (-1.0, 0.0, 1.0))
    slope, precision = 0.5 * (above - below), 2.0 * here - above - below
    assert slope == pytest.approx(-normal * np.sqrt(precision), abs=1e-8)


@pytest.mark.parametrize("n_sweeps", [3, 6])
def test_an_interrupted_run_has_the_draws_so_far(rng, n_sweeps):
    start = StateSpace(np.array([0.7]), rng.standard_normal((3, 1)), np.full(3, 0.4), np.zeros(3))
    panel = to_panel([rng.standard_normal((8, 3))], [np.arange(8.0)])
    problem = RobustProblem(panel, Priors(), NoiseVariances.diagonal(3), start, 6.0)
    reported = []

    def report(n):
        reported.append(n)
        if len(reported) == n_sweeps:
            raise KeyboardInterrupt

    def run():
        return gibbs.sample_by_gibbs(problem, n_warmup=4, n_draws=9, n_chains=2, rng=rng, report=report)

    if n_sweeps < 4:
        with pytest.raises(KeyboardInterrupt):
            run()
        return
    chains = run()
    assert chains.interrupted
    assert chains.decay.shape == (2, 2, 1) and chains.loadings.shape == (2, 2, 3, 1)
    assert not np.array_equal(chains.decay[0], chains.decay[1])
