"""ProbabilisticSFA: methods equal the oracles at the fitted parameters; conventions of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probsfa import ProbabilisticSFA
from tests.oracles import statespace as oracle
from tests.sampling import parametrize, parametrize_with_checks
from tests.statespace.support import mask_values, scaled_error, uneven_times
from tests.tolerances import EXACT, mc_tolerance

CUTS = (49, 2, 49)  # lengths of the sequences into which 100 rows are divided


def fitted_model(estimator):
    """Return the parameters of the estimator as a model of the oracle."""
    return oracle.Model(estimator.decay_, estimator.loadings_, estimator.noise_variance_, estimator.mean_)


def divide(x):
    return np.split(x, np.cumsum(CUTS)[:-1])


# ---------------------------------------------------------------- methods equal the oracles


def test_fitted_attributes_are_those_of_the_parameters(series):
    _, data, fitted = series
    assert fitted.loadings_.shape == (5, 2) and fitted.decay_.shape == (2,)
    assert fitted.noise_variance_.shape == fitted.mean_.shape == (5,)
    for one, other in zip(fitted.params_.to_arrays().values(), fitted_model(fitted)[:4], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(fitted.timescales_, -1 / np.log(fitted.decay_))
    assert fitted.converged_ and fitted.status_.startswith("Converged")
    assert np.all(np.diff(fitted.history_) >= 0) and fitted.n_iter_ == len(fitted.history_)
    assert fitted.history_[-1] == fitted.log_likelihood_
    assert np.all(np.diff(fitted.decay_) <= 0), "slowest first"


def test_log_likelihood_is_in_data_units(series):
    _, data, fitted = series
    expected = oracle.kalman_loop(fitted_model(fitted), [data]).row_log_likelihoods.sum()
    assert fitted.log_likelihood_ == pytest.approx(expected, rel=EXACT)
    assert fitted.log_likelihood(data) == pytest.approx(expected, rel=EXACT)
    assert fitted.score(data) == pytest.approx(expected / 100, rel=EXACT)


def test_bic_counts_free_parameters(series):
    _, data, fitted = series
    # two decays, ten loadings, five noise variances, five means; all rows have an observed value
    expected = -2 * fitted.log_likelihood_ + 22 * np.log(100)
    assert fitted.bic(data) == pytest.approx(expected, rel=EXACT)


def test_bic_without_noise_is_that_of_the_square_model(rng):
    """Likelihood and parameters are the same for any n_components: D decays, D x D weights, D means."""
    data = np.cumsum(rng.standard_normal((60, 4)), axis=0)
    values = [ProbabilisticSFA(k, noise=0.0).fit(data).bic(data) for k in (1, 2, 4)]
    fitted = ProbabilisticSFA(4, noise=0.0).fit(data)
    assert values[0] == pytest.approx(-2 * fitted.log_likelihood(data) + 24 * np.log(60), rel=EXACT)
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    copies = np.column_stack([data, data[:, 0]])  # four directions in five columns
    limit = ProbabilisticSFA(4, noise=0.0).fit(copies)
    assert limit.bic(copies) + 2 * limit.log_likelihood(copies) == pytest.approx(24 * np.log(60), rel=EXACT)


def test_transform_and_posterior(series):
    _, data, fitted = series
    expected = oracle.joint_posterior(fitted_model(fitted), [data])
    found = fitted.posterior(data)
    assert scaled_error(fitted.transform(data), expected.means) < EXACT
    assert scaled_error(found.means, expected.means) < EXACT
    assert scaled_error(found.covariances, expected.covariances) < EXACT
    assert scaled_error(found.lag_one_covariances, expected.lag_one) < EXACT
    np.testing.assert_allclose(found.std**2, np.diagonal(expected.covariances, axis1=1, axis2=2))
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=EXACT)


def test_impute(series):
    _, data, fitted = series
    filled, std = fitted.impute(data, return_std=True)
    expected, wanted_std = oracle.complete_entries(fitted_model(fitted), [data])
    assert scaled_error(filled, expected) < EXACT and scaled_error(std, wanted_std) < EXACT
    np.testing.assert_array_equal(filled[~np.isnan(data)], data[~np.isnan(data)])
    np.testing.assert_array_equal(fitted.impute(data), filled)


def test_forecast(series):
    _, data, fitted = series
    found = fitted.forecast(data, 7)
    factors, latent_std, means, std = oracle.forecast(fitted_model(fitted), data, 7)
    assert scaled_error(found.latent_means, factors) < EXACT
    assert scaled_error(found.latent_std, latent_std) < EXACT
    assert scaled_error(found.means, means) < EXACT and scaled_error(found.std, std) < EXACT


def test_filter_is_causal_and_resumes(series):
    _, data, fitted = series
    expected = oracle.kalman_loop(fitted_model(fitted), [data])
    found = fitted.filter(data)
    assert scaled_error(found.means, expected.filtered_means) < EXACT
    assert scaled_error(found.covariances, expected.filtered_covariances) < EXACT
    first = fitted.filter(data[:33])
    second = fitted.filter(data[33:], first.state)
    np.testing.assert_allclose(np.vstack([first.means, second.means]), found.means, rtol=1e-10, atol=1e-12)
    assert first.log_likelihood + second.log_likelihood == pytest.approx(fitted.log_likelihood_, rel=EXACT)
    assert scaled_error(second.means[-1], fitted.transform(data)[-1]) < EXACT


def test_sample_posterior(series):
    _, data, fitted = series
    draws = fitted.sample_posterior(data, 2000, random_state=3)
    posterior = fitted.posterior(data)
    assert draws.shape == (2000, 100, 2)
    assert np.max(np.abs(draws.mean(axis=0) - posterior.means) / posterior.std) < mc_tolerance(1.0, 2000)
    np.testing.assert_array_equal(draws[:1], fitted.sample_posterior(data, 2000, random_state=3)[:1])


def test_sample_draws_from_the_model(series):
    _, _, fitted = series
    x, z = fitted.sample(12, random_state=0)
    assert x.shape == (12, 5) and z.shape == (12, 2)
    again = fitted.sample(12, random_state=0)
    np.testing.assert_array_equal(x, again[0])
    residual = (x - fitted.mean_ - z @ fitted.loadings_.T) / np.sqrt(fitted.noise_variance_)
    assert abs((residual**2).mean() - 1.0) < mc_tolerance(2.0, residual.size)


@parametrize("seed_type", [int, np.random.default_rng, np.random.RandomState])
def test_random_state_of_the_estimator_is_the_default(series, seed_type):
    _, data, fitted = series
    one, other = (clone(fitted).set_params(random_state=seed_type(5)) for _ in range(2))
    for estimator in (one, other):
        estimator.__dict__.update({k: v for k, v in fitted.__dict__.items() if k != "random_state"})
    np.testing.assert_array_equal(one.sample(3)[0], other.sample(3)[0])
    np.testing.assert_array_equal(one.sample_posterior(data), other.sample_posterior(data))


# ---------------------------------------------------------------- shapes of the input


def test_list_is_lengths_is_independent_sequences(series):
    _, data, fitted = series
    pieces = divide(data)
    as_list, as_lengths = fitted.transform(pieces), fitted.transform(data, lengths=CUTS)
    assert [z.shape for z in as_list] == [(n, 2) for n in CUTS]
    np.testing.assert_array_equal(np.concatenate(as_list), as_lengths)
    expected = oracle.joint_posterior(fitted_model(fitted), pieces)
    assert scaled_error(as_lengths, expected.means) < EXACT
    assert fitted.log_likelihood(pieces) == pytest.approx(expected.log_likelihood, rel=EXACT)
    assert fitted.log_likelihood(data, lengths=CUTS) == pytest.approx(expected.log_likelihood, rel=EXACT)
    assert fitted.score(pieces) == pytest.approx(expected.log_likelihood / 100, rel=EXACT)


def test_every_method_returns_a_list_for_a_list(series):
    _, data, fitted = series
    pieces = divide(data)
    alone = [fitted.posterior(x) for x in pieces]
    for one, other in zip(fitted.posterior(pieces), alone, strict=True):
        for a, b in zip(one, other, strict=True):
            assert scaled_error(a, b) < EXACT
    for one, x in zip(fitted.impute(pieces), pieces, strict=True):
        assert scaled_error(one, fitted.impute(x)) < EXACT
    for one, x in zip(fitted.forecast(pieces, 3), pieces, strict=True):
        assert scaled_error(one.means, fitted.forecast(x, 3).means) < EXACT
    for one, x in zip(fitted.filter(pieces), pieces, strict=True):
        assert scaled_error(one.means, fitted.filter(x).means) < EXACT
    draws = fitted.sample_posterior(pieces, 4, random_state=0)
    assert [d.shape for d in draws] == [(4, n, 2) for n in CUTS]
    filled, std = fitted.impute(pieces, return_std=True)
    assert [s.shape for s in std] == [f.shape for f in filled] == [x.shape for x in pieces]


def test_fits_to_lists_and_lengths_agree(rng, series):
    _, data, _ = series
    one = ProbabilisticSFA(2).fit(divide(data))
    other = ProbabilisticSFA(2).fit(data, lengths=CUTS)
    np.testing.assert_array_equal(one.loadings_, other.loadings_)
    assert one.log_likelihood_ == pytest.approx(
        oracle.joint_posterior(fitted_model(one), divide(data)).log_likelihood, rel=EXACT
    )


def test_frames_keep_their_names_and_index(series):
    _, data, fitted = series
    index = pd.date_range("2020-01-01", periods=100, freq="h")
    frame = pd.DataFrame(data, index=index, columns=list("abcde"))
    named = ProbabilisticSFA(2).fit(frame)
    assert list(named.feature_names_in_) == list("abcde") and named.n_features_in_ == 5
    np.testing.assert_allclose(named.loadings_, fitted.loadings_, rtol=1e-9)
    assert named.log_likelihood_ == pytest.approx(fitted.log_likelihood_, rel=1e-12)
    filled, std = named.impute(frame, return_std=True)
    assert filled.index.equals(index) and list(filled.columns) == list("abcde")
    np.testing.assert_allclose(std, fitted.impute(data, return_std=True)[1], rtol=1e-9)
    assert list(named.get_feature_names_out()) == ["probabilisticsfa0", "probabilisticsfa1"]
    z = clone(named).set_output(transform="pandas").fit(frame).transform(frame)
    assert z.index.equals(index) and list(z.columns) == list(named.get_feature_names_out())
    with pytest.raises(ValueError, match="feature names"):
        named.transform(frame[list("edcba")])


def test_pandas_output_for_lists(series):
    _, data, _ = series
    frames = [pd.DataFrame(x, columns=list("abcde")) for x in divide(data)]
    out = ProbabilisticSFA(2).set_output(transform="pandas").fit(frames).transform(frames)
    assert [z.shape for z in out] == [(n, 2) for n in CUTS]
    assert all(isinstance(z, pd.DataFrame) for z in out)


def test_input_is_not_changed(series):
    _, data, fitted = series
    before = data.copy()
    fitted.impute(data), fitted.transform(data), ProbabilisticSFA(2, max_iter=200).fit(data)
    np.testing.assert_array_equal(data, before)


# ---------------------------------------------------------------- times


@pytest.fixture(scope="module")
def timed():
    rng = np.random.default_rng(5)
    model = oracle.Model(
        np.array([0.95, 0.5]), rng.standard_normal((5, 2)), np.full(5, 0.2), rng.standard_normal(5)
    )
    times = uneven_times(rng, [60, 40])
    data = mask_values(rng, oracle.simulate(rng, model, [60, 40], times), "scattered")
    return data, times, ProbabilisticSFA(2).fit(data, times=times)


def test_uneven_times_equal_the_joint_gaussian(timed):
    data, times, fitted = timed
    assert fitted.time_unit_ == np.median(np.concatenate([np.diff(t) for t in times]))
    units = [t / fitted.time_unit_ for t in times]
    expected = oracle.joint_posterior(fitted_model(fitted), data, units)
    assert np.all(fitted.decay_ > 0)
    assert fitted.log_likelihood_ == pytest.approx(expected.log_likelihood, rel=EXACT)
    assert scaled_error(np.concatenate(fitted.transform(data, times=times)), expected.means) < EXACT
    filled, std = fitted.impute(data, return_std=True, times=times)
    means, stds = oracle.complete_entries(fitted_model(fitted), data, units)
    assert scaled_error(np.concatenate(filled), means) < EXACT
    assert scaled_error(np.concatenate(std), stds) < EXACT


def test_the_fit_does_not_depend_on_the_unit_of_time(timed):
    """Times in another unit give the same fit, with time scales in this unit."""
    data, times, fitted = timed
    scaled = ProbabilisticSFA(2).fit(data, times=[4096.0 * t for t in times])
    np.testing.assert_array_equal(scaled.decay_, fitted.decay_)
    np.testing.assert_allclose(scaled.timescales_, 4096.0 * fitted.timescales_, rtol=1e-12)
    assert scaled.log_likelihood_ == fitted.log_likelihood_


def test_filter_resumes_with_times(timed):
    data, times, fitted = timed
    at_once = fitted.filter(data[0], times=times[0])
    first = fitted.filter(data[0][:20], times=times[0][:20])
    second = fitted.filter(data[0][20:], first.state, times=times[0][20:])
    np.testing.assert_allclose(np.vstack([first.means, second.means]), at_once.means, rtol=1e-10, atol=1e-12)


@parametrize("unit", [1.0, 3600.0, 0.1, 1e-3], quick=[3600.0])
def test_evenly_spaced_times_are_equivalent_to_no_times(series, unit):
    """For any time step, also if its multiples are rounded."""
    _, data, fitted = series
    found = ProbabilisticSFA(2).fit(data, times=unit * np.arange(100))
    np.testing.assert_allclose(found.decay_, fitted.decay_, rtol=1e-6)
    np.testing.assert_allclose(found.timescales_, unit * fitted.timescales_, rtol=1e-6)
    assert found.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(found.transform(data), found.transform(data, times=unit * np.arange(100)))


def test_dates_are_times(series):
    _, data, fitted = series
    found = ProbabilisticSFA(2).fit(data, times=pd.date_range("2020-01-01", periods=100, freq="h"))
    assert (found.time_unit_, found.time_unit_seconds_) == (1.0, 3600.0)
    np.testing.assert_allclose(found.decay_, fitted.decay_, rtol=1e-6)


def test_absent_rows_are_equivalent_to_empty_rows(series):
    """Rows that are omitted, with times of the other rows, are equivalent to rows without observations."""
    _, data, fitted = series
    kept = np.delete(np.arange(100), [10, 11, 12, 50, 80])
    incomplete = data.copy()
    incomplete[[10, 11, 12, 50, 80]] = np.nan
    assert fitted.log_likelihood(data[kept], times=kept) == pytest.approx(
        fitted.log_likelihood(incomplete), rel=EXACT
    )
    assert scaled_error(fitted.transform(data[kept], times=kept), fitted.transform(incomplete)[kept]) < EXACT


def test_negative_decays_reject_uneven_times(rng):
    """A negative decay has no real power over half a step; methods raise an error instead of NaN."""
    x = np.tile([1.0, -1.0], 50)[:, None] * (1 + 0.3 * rng.standard_normal((100, 1)))
    x = np.hstack([x, 0.3 * rng.standard_normal((100, 4)) + x])
    fitted = ProbabilisticSFA(1).fit(x)
    assert fitted.decay_[0] < 0
    with pytest.raises(ValueError, match="decay|times"):
        fitted.transform(x, times=np.cumsum(rng.uniform(0.5, 1.5, 100)))


# ---------------------------------------------------------------- invariances


def test_time_reversal_changes_nothing(series):
    _, data, fitted = series
    assert fitted.log_likelihood(data[::-1]) == pytest.approx(fitted.log_likelihood_, rel=EXACT)
    assert scaled_error(fitted.transform(data[::-1])[::-1], fitted.transform(data)) < EXACT


@parametrize("offset", [0.0, 1e4], quick=[1e4])
def test_the_fit_does_not_depend_on_the_units_of_columns(series, offset):
    """Column scales from 1e-8 to 1e8 only rescale the parameters."""
    _, data, fitted = series
    scale = 10.0 ** np.array([-8, -4, 0, 4, 8])
    found = ProbabilisticSFA(2).fit((data + offset) * scale)
    np.testing.assert_allclose(found.decay_, fitted.decay_, rtol=1e-5)
    np.testing.assert_allclose(found.loadings_, fitted.loadings_ * scale[:, None], rtol=1e-3, atol=0)
    np.testing.assert_allclose(found.noise_variance_, fitted.noise_variance_ * scale**2, rtol=1e-3)
    np.testing.assert_allclose(found.mean_, (fitted.mean_ + offset) * scale, rtol=1e-3)
    jacobian = (~np.isnan(data)).sum(axis=0) @ np.log(scale)
    assert found.log_likelihood_ == pytest.approx(fitted.log_likelihood_ - jacobian, abs=1e-4)


def test_offsets_of_1e8_lose_only_the_digits_that_data_lose(series):
    _, data, fitted = series
    found = ProbabilisticSFA(2).fit(data + 1e8)
    np.testing.assert_allclose(found.decay_, fitted.decay_, rtol=1e-4)
    np.testing.assert_allclose(found.mean_, fitted.mean_ + 1e8, atol=0.05)
    np.testing.assert_allclose(found.transform(data + 1e8), fitted.transform(data), atol=1e-3)


def test_columns_may_have_any_order(series):
    _, data, fitted = series
    order = np.array([3, 1, 4, 0, 2])
    found = ProbabilisticSFA(2).fit(data[:, order])
    assert found.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=2e-3)
    signs = np.sign(np.sum(found.loadings_ * fitted.loadings_[order], axis=0))
    np.testing.assert_allclose(found.loadings_ * signs, fitted.loadings_[order], atol=0.02)


def test_signs_of_loadings_follow_the_convention(series):
    """The column with the largest correlation with a factor has a positive loading."""
    _, data, fitted = series
    correlation = fitted.loadings_ / np.nanstd(data, axis=0)[:, None]
    largest = np.argmax(np.abs(correlation), axis=0)
    assert np.all(correlation[largest, [0, 1]] > 0)


def test_fitting_is_deterministic(series):
    _, data, fitted = series
    again = ProbabilisticSFA(2, random_state=99).fit(data)
    np.testing.assert_array_equal(again.loadings_, fitted.loadings_)
    assert again.log_likelihood_ == fitted.log_likelihood_


def test_a_second_fit_does_not_depend_on_the_first(series):
    _, data, fitted = series
    twice = ProbabilisticSFA(2).fit(data[:, :3] ** 2).fit(data)
    np.testing.assert_array_equal(twice.loadings_, fitted.loadings_)
    assert twice.n_features_in_ == 5


# ---------------------------------------------------------------- scikit-learn

EXPECTED = {
    "check_methods_subset_invariance": "rows are a time series: fewer rows have less information",
    "check_methods_sample_order_invariance": "rows are a time series: their order is what is modelled",
}


def expected_failures(estimator):
    """Return the checks that fail by design; none without noise, where each row determines its factors."""
    return {} if estimator.noise == 0.0 else EXPECTED


@parametrize_with_checks(
    [ProbabilisticSFA(n_components=1), ProbabilisticSFA(n_components=1, noise=0.0)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_clone_pickle_and_pipeline(series):
    _, data, fitted = series
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params() and not hasattr(fresh, "params_")
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.transform(data), fitted.transform(data))
    pipeline = make_pipeline(StandardScaler(), ProbabilisticSFA(2)).fit(data)
    np.testing.assert_allclose(pipeline[-1].decay_, fitted.decay_, rtol=1e-4)
    assert pipeline.transform(data).shape == (100, 2)


def test_fit_transform_passes_lengths_to_transform(series):
    """Sequences are separate in the fit and in the posterior."""
    _, data, _ = series
    expected = ProbabilisticSFA(2).fit(data, lengths=CUTS).transform(data, lengths=CUTS)
    np.testing.assert_array_equal(ProbabilisticSFA(2).fit_transform(data, lengths=CUTS), expected)
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), ProbabilisticSFA(2))
    np.testing.assert_array_equal(pipeline.fit_transform(data, probabilisticsfa__lengths=CUTS), expected)
    together = ProbabilisticSFA(2).fit(data, lengths=CUTS).transform(data)
    assert scaled_error(together, expected) > 1e-3, "the cuts make a difference"


def test_fit_transform_passes_times_to_transform(timed):
    data, times, fitted = timed
    for one, other in zip(
        ProbabilisticSFA(2).fit_transform(data, times=times),
        fitted.transform(data, times=times),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    rows, at = data[0], times[0]
    expected = ProbabilisticSFA(1).fit(rows, times=at).transform(rows, times=at)
    np.testing.assert_array_equal(ProbabilisticSFA(1).fit_transform(rows, times=at), expected)


def test_fit_transform_returns_frames_for_lists_with_times(timed):
    data, times, fitted = timed
    frames = ProbabilisticSFA(2).set_output(transform="pandas").fit_transform(data, times=times)
    assert all(isinstance(frame, pd.DataFrame) for frame in frames)
    for frame, expected in zip(frames, fitted.transform(data, times=times), strict=True):
        assert scaled_error(frame.to_numpy(), expected) < EXACT
    with pytest.raises(ValueError, match="times.*got a ndarray"):
        clone(fitted).set_output(transform="pandas").fit(data, times=times).transform(data, times=times[0])


def test_routed_lengths_and_times_reach_fit_and_transform(series, timed):
    _, data, _ = series
    rows, at = timed[0][0], timed[1][0]
    with sklearn.config_context(enable_metadata_routing=True):
        for name, X, value in (("lengths", data, CUTS), ("times", rows, at)):
            expected = ProbabilisticSFA(1).fit(X, **{name: value}).transform(X, **{name: value})
            model = ProbabilisticSFA(1).set_fit_request(**{name: True}).set_transform_request(**{name: True})
            pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), model)
            np.testing.assert_array_equal(pipeline.fit_transform(X, **{name: value}), expected)
            fitted = pipeline.fit(X, **{name: value})
            np.testing.assert_array_equal(fitted.transform(X, **{name: value}), expected)
            first = make_pipeline(model, StandardScaler())
            np.testing.assert_array_equal(
                first.fit_transform(X, **{name: value}), StandardScaler().fit_transform(expected)
            )


@pytest.mark.parametrize(
    "method",
    ["transform", "posterior", "impute", "filter", "sample_posterior", "score", "log_likelihood", "bic"],
)
def test_methods_before_fit(series, method):
    with pytest.raises(NotFittedError):
        getattr(ProbabilisticSFA(), method)(series[1])


@pytest.mark.parametrize(
    "call", [lambda m: m.sample(3), lambda m: m.save("nowhere"), lambda m: m.forecast([[1.0]], 1)]
)
def test_other_methods_before_fit(call):
    with pytest.raises(NotFittedError):
        call(ProbabilisticSFA())
