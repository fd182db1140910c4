"""Failures observed in other state-space packages; each test shows that this package is free of one.

Sources are measurements on pykalman 0.11.2, simdkalman 1.0.4, dynamax 1.0.3, statsmodels 0.15.0,
pymc-extras 0.10, ssm and sksfa 0.1.6, and the issues cited at each test.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from probsfa import SFA, ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace.engine.posterior import draw_factors, log_likelihood, smooth
from probsfa.statespace.learning.em import fit_em
from probsfa.statespace.learning.objective import STATUS_SENTENCES, CountedEStep
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import to_model
from tests.tolerances import EXACT, small_noise_tolerance

QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def panel_of(x):
    return make_panel(Sequences(x, (len(x),)))


def parameters_of(model):
    return StateSpace(*(np.asarray(part, dtype=float) for part in model))


def model_of(rng, decay, n_features, noise):
    return oracle.Model(
        np.array(decay),
        rng.standard_normal((n_features, len(decay))),
        np.full(n_features, noise),
        rng.standard_normal(n_features),
    )


def with_missing(rng, x, fraction=0.2):
    return np.where(rng.random(x.shape) < fraction, np.nan, x)


@pytest.fixture(scope="module")
def fitted():
    """A fit to 100 incomplete rows of five features: model, data, estimator."""
    rng = np.random.default_rng(2)
    model = model_of(rng, [0.97, 0.6], 5, 0.3)
    data = with_missing(rng, oracle.simulate(rng, model, [100])[0])
    return model, data, ProbabilisticSFA(2).fit(data)


# ------------------------------------------------ small noise, float32, jitter (dynamax, cuthbert)


@parametrize("noise", [1e-2, 1e-4, 1e-6, 1e-8], quick=[1e-8])
def test_log_likelihood_at_small_noise(noise):
    """At 1e-8, covariances in float32 gave NaN, square roots errors of -6184; jitter biases float64."""
    rng = np.random.default_rng(0)
    model = model_of(rng, [0.999, 0.9], 5, noise)
    x = oracle.simulate(rng, model, [500])[0]
    value = log_likelihood(parameters_of(model), panel_of(x))
    expected = oracle.exact_log_likelihood(model, x)
    assert value == pytest.approx(expected, rel=EXACT, abs=500 * small_noise_tolerance(noise))


def test_posterior_stays_positive_at_small_noise():
    """Cholesky factors were NaN during smoothing and drawing (dynamax issues 320 and 404)."""
    rng = np.random.default_rng(1)
    model = model_of(rng, [0.999, 0.9], 5, 1e-10)
    x = with_missing(rng, oracle.simulate(rng, model, [100])[0])
    posterior = smooth(parameters_of(model), panel_of(x))
    assert np.all(np.isfinite(posterior.std)) and np.linalg.eigvalsh(posterior.covariances).min() > 0
    draws = draw_factors(parameters_of(model), panel_of(x), 10, rng)
    assert np.all(np.isfinite(draws))


# ------------------------------------------------ slow EM at small noise (statsmodels, dynamax)


@QUIET
@parametrize("noise", [1e-1, 1e-3, 1e-4], quick=[1e-4])
def test_fits_at_small_noise_converge(noise):
    """EM was hundreds of nats below the maximum after 3,000 iterations at noise of at most 1e-3."""
    rng = np.random.default_rng(4)
    model = model_of(rng, [0.98, 0.7], 5, noise)
    x = oracle.simulate(rng, model, [500])[0]
    default = ProbabilisticSFA(2).fit(x)
    plain = ProbabilisticSFA(2, solver="em", max_iter=400).fit(x)
    assert default.converged_ and default.n_evaluations_ <= 150
    assert default.log_likelihood_ >= plain.log_likelihood_ - 1e-3
    truth = oracle.kalman_loop(model, [x]).row_log_likelihoods.sum()
    assert default.log_likelihood_ > truth


# ------------------------------------------------ missing entries (pykalman, dynamax, simdkalman)


def test_nan_is_a_missing_value(fitted):
    """One NaN changed every smoothed state to NaN without an error (dynamax, pykalman 58)."""
    _, data, estimator = fitted
    assert np.isnan(data).any()
    assert np.all(np.isfinite(estimator.transform(data)))
    assert np.isfinite(estimator.log_likelihood(data))
    assert all(np.all(np.isfinite(part)) for part in estimator.params_.to_arrays().values())


def test_other_values_of_an_incomplete_row_are_used(fitted):
    """Other values of an incomplete row are used (pykalman and simdkalman drop the row)."""
    _, data, estimator = fitted
    x = np.where(np.isnan(data), 0.5, data)
    one, row = x.copy(), x.copy()
    one[50, 2], row[50] = np.nan, np.nan
    std = [estimator.posterior(y).std[50] for y in (x, one, row)]
    assert np.all(std[0] < std[1]) and np.all(std[1] < std[2])
    assert np.any(std[1] < 0.5 * std[2])
    model = to_model(estimator.params_)
    expected = oracle.kalman_loop(model, [one])
    np.testing.assert_allclose(estimator.transform(one), expected.means, rtol=1e-8, atol=1e-10)


def test_an_empty_row_is_predicted(fitted):
    _, data, estimator = fitted
    empty = data.copy()
    empty[50] = np.nan
    filtered = estimator.filter(empty)
    np.testing.assert_allclose(filtered.means[50], estimator.decay_ * filtered.means[49], rtol=1e-12)
    assert filtered.row_log_likelihoods[50] == 0.0


def test_empty_first_and_last_rows(fitted):
    _, data, estimator = fitted
    x = data.copy()
    x[[0, 1, 98, 99]] = np.nan
    again = ProbabilisticSFA(2).fit(x)
    filled, std = again.impute(x, return_std=True)
    assert np.all(np.isfinite(filled)) and np.all(std[[0, 99]] > 0)
    expected, expected_std = oracle.complete_entries(to_model(again.params_), [x])
    np.testing.assert_allclose(filled, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(std, expected_std, rtol=1e-7, atol=1e-9)


def test_errors_name_an_empty_column():
    frame = pd.DataFrame({"wind": [1.0, 2.0, 0.5], "rain": [np.nan] * 3, "sun": [0.1, 0.4, 0.2]})
    with pytest.raises(ValueError, match="rain"):
        ProbabilisticSFA(1).fit(frame)


def test_starting_points_support_missing_values(fitted):
    """Initialization failed with NaN (statsmodels 6230); here every row and column is incomplete."""
    rng = np.random.default_rng(3)
    model, *_ = fitted
    x = oracle.simulate(rng, model, [100])[0]
    x[np.arange(100), np.arange(100) % 5] = np.nan
    model = ProbabilisticSFA(2).fit(x)
    assert model.converged_ and np.all(np.isfinite(model.loadings_))


def test_no_number_represents_missing_values(fitted):
    """A simulation smoother took -9999 as missing (pymc-extras 779); here it is a number."""
    _, data, estimator = fitted
    x = np.where(np.isnan(data), 0.0, data)
    coded, hidden = x.copy(), x.copy()
    coded[50, 2], hidden[50, 2] = -9999.0, np.nan
    draws = [estimator.sample_posterior(y, 5, random_state=0) for y in (coded, hidden)]
    assert np.abs(draws[0] - draws[1]).max() > 1.0
    assert np.all(np.isfinite(draws[1]))
    assert estimator.impute(coded)[50, 2] == -9999.0


def test_forecasts_use_no_artificial_observations(fitted):
    """dynamax forecasts by filtering zeros with variance 1e8; here means decay from the last state."""
    _, data, estimator = fitted
    ahead = estimator.forecast(data, 3)
    last = estimator.posterior(data)
    powers = estimator.decay_ ** np.arange(1, 4)[:, None]
    np.testing.assert_allclose(ahead.latent_means, powers * last.means[-1], rtol=1e-10)


# ------------------------------------------------ likelihoods and convergence


def test_likelihood_includes_its_constants():
    """The likelihood of simdkalman lacks the constants of the normal density."""
    model = oracle.Model(np.array([0.5]), np.array([[2.0]]), np.array([0.3]), np.array([1.0]))
    value = log_likelihood(parameters_of(model), panel_of(np.array([[4.0]])))
    assert value == pytest.approx(norm.logpdf(4.0, loc=1.0, scale=np.sqrt(4.3)), rel=1e-14)


def test_a_decreasing_likelihood_is_not_convergence(fitted):
    """A decrease below the tolerance was reported as convergence (methpipe 91)."""
    model, data, _ = fitted

    class DecreasingLikelihood(CountedEStep):
        def __call__(self, params):
            return super().__call__(params)._replace(log_likelihood=-100.0 * self.count)

    result = fit_em(
        DecreasingLikelihood(panel_of(data), 20),
        parameters_of(model),
        Noise(NoiseVariances.diagonal(5), np.full(5, 1e-6)),
        1e-3,
    )
    assert not STATUS_SENTENCES[result.status].startswith("Converged")
    assert result.log_likelihood == -100.0


@QUIET
def test_em_is_monotone(fitted):
    _, data, _ = fitted
    estimator = ProbabilisticSFA(2, solver="em", max_iter=60, tol=1e-4).fit(data)
    assert np.diff(estimator.history_).min() > -1e-8 and len(estimator.history_) > 20


def test_fits_have_a_convergence_criterion(fitted):
    """Fits had a fixed number of steps and no status (dynamax, ssm 30)."""
    _, data, estimator = fitted
    assert estimator.converged_ and "Converged" in estimator.status_
    with pytest.warns(UserWarning, match="max_iter"):
        short = ProbabilisticSFA(2, max_iter=2).fit(data)
    assert not short.converged_ and "Raise max_iter" in short.status_


# ------------------------------------------------ sizes at which others failed


@QUIET
@pytest.mark.exhaustive
def test_many_features_and_150_em_steps():
    """At D = 73, T = 1000, 150 EM iterations gave NaN (dynamax 355) and asymmetry (pykalman 47)."""
    rng = np.random.default_rng(5)
    x = oracle.simulate(rng, model_of(rng, [0.97, 0.8, 0.4], 73, 0.5), [1000])[0]
    fitted = ProbabilisticSFA(3, solver="em", max_iter=150, tol=1e-12).fit(x)
    assert all(np.all(np.isfinite(part)) for part in fitted.params_.to_arrays().values())
    assert np.all(np.diff(fitted.history_) >= -1e-8)
    covariances = fitted.posterior(x).covariances
    np.testing.assert_allclose(covariances, np.swapaxes(covariances, 1, 2), rtol=0, atol=1e-15)
    assert np.linalg.eigvalsh(covariances).min() > 0


def test_more_than_a_hundred_series():
    """Over 100 series were slow and gave indefinite covariances (statsmodels 6864)."""
    rng = np.random.default_rng(6)
    x = with_missing(rng, oracle.simulate(rng, model_of(rng, [0.95, 0.6], 120, 1.0), [100])[0])
    fitted = ProbabilisticSFA(2).fit(x)
    assert fitted.converged_ and np.all(fitted.noise_variance_ > 0)
    assert np.all(np.isfinite(fitted.impute(x)))


@QUIET
@parametrize("n_rows", [2, 3])
@parametrize("n_features", [1, 3], quick=[3])
def test_shortest_series(n_rows, n_features):
    x = np.random.default_rng(n_rows).standard_normal((n_rows, n_features))
    fitted = ProbabilisticSFA(1).fit(x)
    assert all(np.all(np.isfinite(part)) for part in fitted.params_.to_arrays().values())
    assert fitted.posterior(x[:1]).lag_one_covariances.shape == (0, 1, 1)
    assert np.all(np.isfinite(fitted.forecast(x, 2).std))


# ------------------------------------------------ units (deeptime, sksfa)


@parametrize("scale", [1e-4, (1e-3, 1, 1e3, 1, 1), (1e-6, 1, 1e6, 1, 1)], quick=[1e-4])
def test_scales_of_columns_do_not_matter(fitted, scale):
    """Data times 1e-4 raised ZeroRankError (deeptime); mixed scales gave wrong numbers (also sksfa)."""
    _, data, estimator = fitted
    found = ProbabilisticSFA(2).fit(data * scale)
    np.testing.assert_allclose(found.decay_, estimator.decay_, rtol=1e-5)
    np.testing.assert_allclose(found.transform(data * scale), estimator.transform(data), rtol=1e-4, atol=1e-5)


@parametrize("offset", [1e6, 1e8], quick=[1e8])
def test_offsets_do_not_matter(fitted, offset):
    """Uncentred sums lose all digits at an offset of 1e8 (MDP, tsdr)."""
    _, data, estimator = fitted
    found = ProbabilisticSFA(2).fit(data + offset)
    np.testing.assert_allclose(found.decay_, estimator.decay_, rtol=1e-4)
    np.testing.assert_allclose(found.transform(data + offset), estimator.transform(data), atol=1e-3)


def test_duplicated_columns_have_equal_loadings(fitted):
    """Others add random columns or raise (sksfa, MDP, tsdr); here equal columns have equal loadings."""
    rng = np.random.default_rng(7)
    x = np.cumsum(rng.standard_normal((100, 3)), axis=0)
    twice = np.column_stack([x, x[:, 0]])
    one, other = (ProbabilisticSFA(2).fit(twice) for _ in range(2))
    np.testing.assert_array_equal(one.loadings_, other.loadings_)
    np.testing.assert_allclose(one.loadings_[0], one.loadings_[3], rtol=1e-5)


# ------------------------------------------------ requests of users


def test_array_and_frame_give_the_same(fitted):
    """The attribute factors.smoothed of statsmodels fails if the data are an array."""
    _, data, estimator = fitted
    frame = pd.DataFrame(data, columns=list("abcde"))
    named = ProbabilisticSFA(2).fit(frame)
    shared = {name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")}
    assert shared <= set(vars(named))
    np.testing.assert_allclose(named.transform(frame), estimator.transform(data), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(named.posterior(frame).std, estimator.posterior(data).std, rtol=1e-8)


def test_sequences_are_not_concatenated(fitted):
    """ "Concatenation is definitely not the way to go here" (PyEMMA 1527): sequences share no transition."""
    _, data, _ = fitted
    shifted = [data[:50], data[50:]]
    apart = ProbabilisticSFA(2).fit(shifted)
    model = to_model(apart.params_)
    expected = sum(oracle.kalman_loop(model, [x]).row_log_likelihoods.sum() for x in shifted)
    assert apart.log_likelihood_ == pytest.approx(expected, rel=EXACT)
    swapped = ProbabilisticSFA(2).fit(shifted[::-1])
    assert swapped.log_likelihood_ == pytest.approx(apart.log_likelihood_, abs=1e-3)


def test_standard_errors_after_em(fitted):
    """After EM statsmodels has no standard errors (issue 7271; bse raises KeyError)."""
    _, data, _ = fitted
    errors = ProbabilisticSFA(2, solver="em", max_iter=2000, noise_floor=0.01).fit(data).standard_errors(data)
    assert np.all(errors.decay > 0) and np.all(np.isfinite(errors.loadings))


def test_transition_is_diagonal_and_stable(fitted):
    """Users asked for a diagonal stable transition (pykalman 80) and diagonal noise (dynamax 331)."""
    _, data, estimator = fitted
    assert estimator.decay_.shape == (2,) and np.all(np.abs(estimator.decay_) < 1)
    assert estimator.noise_variance_.shape == (5,)
    trend = ProbabilisticSFA(2).fit(np.outer(np.arange(100.0), np.ones(5)) + np.nan_to_num(data))
    assert np.all(np.abs(trend.decay_) < 1)


def test_forecasts_include_factors(fitted):
    """Users asked for forecasts of the factors (statsmodels 9197)."""
    _, data, estimator = fitted
    ahead = estimator.forecast(data, 4)
    assert ahead.latent_means.shape == ahead.latent_std.shape == (4, 2)
    assert np.all(np.diff(ahead.latent_std, axis=0) > 0)


def test_signs_and_order_are_determined(fitted):
    """Users asked for a rule of signs (statsmodels 4164) and reproducible results (sklearn-sfa 8)."""
    _, data, estimator = fitted
    flipped = ProbabilisticSFA(2).fit(-data)
    np.testing.assert_allclose(np.abs(flipped.loadings_), np.abs(estimator.loadings_), rtol=1e-6)
    np.testing.assert_allclose(flipped.loadings_, estimator.loadings_, rtol=1e-6)
    assert estimator.decay_[0] > estimator.decay_[1]


def test_removed_rows_with_known_times():
    """With 20 % of the rows removed, SFA overestimates delta; times of the rows correct this."""
    rng = np.random.default_rng(9)
    model = model_of(rng, [0.98, 0.5], 5, 0.05)
    x = oracle.simulate(rng, model, [500])[0]
    remaining = np.sort(rng.choice(500, 400, replace=False))
    full, part = ProbabilisticSFA(2).fit(x), ProbabilisticSFA(2).fit(x[remaining], times=remaining)
    errors = part.standard_errors(x[remaining], times=remaining)
    assert np.all(np.abs(part.decay_ - full.decay_) < 3 * errors.decay)
    assert np.all(np.abs(part.decay_ - model.decay) < 6 * errors.decay)
    naive = SFA(2).fit(x[remaining]).delta_values_ / SFA(2).fit(x).delta_values_
    assert naive[0] > 1.1


# ------------------------------------------------ statsmodels' DynamicFactorMQ at its own optimum

REASON = "statsmodels, of the test extra, is not installed"


def dynamic_factor(x):
    module = pytest.importorskip("statsmodels.tsa.statespace.dynamic_factor_mq", reason=REASON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.DynamicFactorMQ(
            x, factors=2, factor_orders=1, idiosyncratic_ar1=False, standardize=False
        )


@parametrize("em_initialization", [True, False], quick=0)
def test_log_likelihood_is_at_least_that_of_statsmodels(em_initialization):
    """EM of statsmodels ignores the stationary start and stops at the first decrease of the likelihood."""
    rng = np.random.default_rng(10)
    x = with_missing(rng, oracle.simulate(rng, model_of(rng, [0.95, 0.6], 4, 0.3), [120])[0])
    x[40:50] = np.nan
    x -= np.nanmean(x, axis=0)
    peer = dynamic_factor(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = peer.fit(maxiter=100, disp=False, em_initialization=em_initialization)
    found = ProbabilisticSFA(2, noise_floor=1e-9).fit(x)
    assert found.log_likelihood_ >= peer.loglike(result.params) - 1e-3
    # Loadings of unit-variance factors: times the standard deviation of the stationary factors.
    loadings, decay = np.reshape(result.params[:8], (4, 2)), result.params[8:10]
    scale = result.params[10:12] / np.sqrt(1 - decay**2)
    params = StateSpace(decay, loadings * scale, result.params[12:], np.zeros(4))
    assert log_likelihood(params, panel_of(x)) == pytest.approx(peer.loglike(result.params), rel=1e-9)
