"""Covariates: maximum likelihood effects, standard errors, and all methods."""

import types
import warnings

import numpy as np
import pandas as pd
import pytest

import probsfa
from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace.covariates import calendar_terms, harmonics, trend
from probsfa.statespace.learning import regression
from probsfa.statespace.learning.maximum_likelihood import InMemory, make_problem
from probsfa.statespace.learning.objective import FitResult
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.learning.regression import least_squares
from probsfa.statespace.parameters import StateSpace
from tests.oracles import statespace as oracle
from tests.oracles import student
from tests.statespace.support import mask_values, to_panel, to_parameters, uneven_times


def covariance_of_observed(model, sequences, times=None):
    """Return the covariance of all observed values, and the flat mask of these values."""
    n = sum(len(x) for x in sequences)
    observed = ~np.isnan(np.concatenate(sequences)).ravel()
    P = oracle.latent_covariance(model, sequences, times)
    H = oracle.observation_matrix(model, n)[observed]
    return H @ P @ H.T + np.diag(np.tile(model.noise, n)[observed]), observed


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("pattern", ["none", "scattered", "empty rows"])
def test_least_squares_are_those_of_the_dense_covariance(rng, pattern, uneven):
    model = oracle.random_model(rng, 3, 2)
    lengths = [14, 9]
    times = uneven_times(rng, lengths) if uneven else None
    data = mask_values(rng, oracle.simulate(rng, model, lengths, times), pattern)
    rows = np.column_stack([np.ones(23), rng.standard_normal((23, 2))])
    S, observed = covariance_of_observed(model, data, times)
    design = np.kron(rows, np.eye(3))[
        observed
    ]  # coefficients of a regressor for all columns, one after the other
    x = (np.concatenate(data) - model.offset).ravel()[observed]
    weighted = np.linalg.solve(S, design)
    expected = np.linalg.solve(design.T @ weighted, weighted.T @ x)
    gain = 0.5 * x @ weighted @ expected

    panel = to_panel(data, times)
    padded = np.zeros((len(panel.values), 3))
    padded[:23] = rows
    solution = least_squares(to_parameters(model), panel, padded, 1e-24)
    np.testing.assert_allclose(solution.change.T.ravel(), expected, rtol=1e-10, atol=1e-10)
    assert solution.gain == pytest.approx(gain, rel=1e-10)


def test_least_squares_require_few_evaluations(rng):
    model = oracle.Model(np.array([0.99, 0.7]), rng.standard_normal((4, 2)), np.full(4, 0.1), np.zeros(4))
    data = mask_values(rng, oracle.simulate(rng, model, [300]), "scattered")
    panel = to_panel(data)
    rows = np.zeros((len(panel.values), 3))
    rows[:300] = np.column_stack([np.ones(300), np.linspace(-1, 1, 300), rng.standard_normal(300)])
    assert least_squares(to_parameters(model), panel, rows, 1e-3).n_evaluations <= 12


def test_least_squares_do_not_depend_on_the_preconditioner(rng, monkeypatch):
    model = oracle.random_model(rng, 4, 2)
    panel = to_panel(oracle.simulate(rng, model, [100]))
    rows = np.zeros((len(panel.values), 3))
    rows[:100] = np.column_stack([np.ones(100), rng.standard_normal((100, 2))])
    expected = least_squares(to_parameters(model), panel, rows, 1e-12)
    monkeypatch.setattr(regression, "_MAX_DENSE_SIZE", 1)
    by_blocks = least_squares(to_parameters(model), panel, rows, 1e-12)
    np.testing.assert_allclose(by_blocks.change, expected.change, atol=1e-6)


@pytest.fixture(scope="module")
def with_effects():
    """Two columns with missing values, a trend and an indicator as covariates, and the fitted model."""
    rng = np.random.default_rng(3)
    model = oracle.Model(
        np.array([0.8]), np.array([[1.0], [0.7]]), np.array([0.3, 0.2]), np.array([1.0, -1.0])
    )
    [x] = oracle.simulate(rng, model, [60])
    exog = np.column_stack([np.arange(60) / 10.0 + 5.0, (np.arange(60) % 7 == 3).astype(float)])
    coefficients = np.array([[0.5, 2.0], [-0.3, 1.0]])
    x = x + exog @ coefficients.T
    x[rng.random(x.shape) < 0.15] = np.nan
    fitted = ProbabilisticSFA(1, noise_prior=None, tol=1e-8).fit(x, exog=exog)
    return x, exog, fitted


def as_model(fitted):
    return oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_)


def test_the_log_likelihood_is_that_of_the_rows_less_effects(with_effects):
    x, exog, fitted = with_effects
    expected = oracle.log_likelihood(as_model(fitted), [x - exog @ fitted.exog_coef_.T])
    assert fitted.log_likelihood(x, exog=exog) == pytest.approx(expected, rel=1e-10)
    assert fitted.log_likelihood_ == pytest.approx(expected, rel=1e-9)
    assert fitted.score(x, exog=exog) == pytest.approx(expected / 60, rel=1e-10)
    assert fitted.filter(x, exog=exog).log_likelihood == pytest.approx(expected, rel=1e-10)
    n_rows = np.count_nonzero(~np.isnan(x).all(axis=1))
    penalty = (1 + 2 + 2 + 2 + 4) * np.log(n_rows)  # decay, loadings, noise, means, coefficients
    assert fitted.bic(x, exog=exog) == pytest.approx(-2 * expected + penalty, rel=1e-10)


def test_a_fit_maximizes_the_likelihood_over_all_parameters(with_effects):
    x, exog, fitted = with_effects
    S, observed = covariance_of_observed(as_model(fitted), [x])
    design = np.kron(np.column_stack([np.ones(60), exog]), np.eye(2))[observed]
    weighted = np.linalg.solve(S, design)
    best = np.linalg.solve(design.T @ weighted, weighted.T @ x.ravel()[observed]).reshape(3, 2)
    np.testing.assert_allclose(fitted.mean_, best[0], rtol=1e-4)
    np.testing.assert_allclose(fitted.exog_coef_.T, best[1:], rtol=1e-4)
    rest = ProbabilisticSFA(1, noise_prior=None, tol=1e-8).fit(x - exog @ fitted.exog_coef_.T)
    assert fitted.log_likelihood_ == pytest.approx(rest.log_likelihood_, abs=1e-5)
    assert np.all(np.diff(fitted.history_) >= 0.0)


def numerical_standard_errors(x, exog, fitted):
    """Return standard errors (11,) from numerical second derivatives of the dense log-likelihood."""
    start = np.concatenate(
        [
            np.arctanh(fitted.decay_),
            fitted.loadings_[:, 0],
            np.log(fitted.noise_variance_),
            fitted.mean_,
            fitted.exog_coef_.ravel(),
        ]
    )

    def log_likelihood(vector):
        model = oracle.Model(np.tanh(vector[:1]), vector[1:3, None], np.exp(vector[3:5]), vector[5:7])
        return oracle.log_likelihood(model, [x - exog @ vector[7:].reshape(2, 2).T])

    steps = 1e-3 * np.eye(11)
    information = np.empty((11, 11))
    for i in range(11):
        for j in range(i + 1):
            signs = [(a, b) for a in (1, -1) for b in (1, -1)]
            second = sum(a * b * log_likelihood(start + a * steps[i] + b * steps[j]) for a, b in signs)
            information[i, j] = information[j, i] = -second / 4e-6
    return np.sqrt(np.diag(np.linalg.inv(information)))


def test_standard_errors_are_those_of_numerical_second_derivatives(with_effects):
    x, exog, fitted = with_effects
    errors = numerical_standard_errors(x, exog, fitted)
    standard_errors = fitted.standard_errors(x, exog=exog)
    np.testing.assert_allclose(standard_errors.exog_coef.ravel(), errors[7:], rtol=2e-3)
    np.testing.assert_allclose(standard_errors.offset, errors[5:7], rtol=2e-3)
    np.testing.assert_allclose(standard_errors.loadings[:, 0], errors[1:3], rtol=2e-3)
    np.testing.assert_allclose(
        standard_errors.noise_variance, errors[3:5] * fitted.noise_variance_, rtol=2e-3
    )
    lower, upper = standard_errors.interval("exog_coef", 0.9)
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536 * standard_errors.exog_coef, rtol=1e-6)
    assert standard_errors.interval("timescales").lower[0] > 0.0


def test_the_error_of_a_mean_includes_that_of_the_coefficients(with_effects):
    """Both are correlated if a column is missing while a covariate is large."""
    x, exog = with_effects[0][:40].copy(), with_effects[1][:40]
    x[20:, 1] = np.nan
    fitted = ProbabilisticSFA(1, noise_prior=None, tol=1e-8).fit(x, exog=exog)
    errors = numerical_standard_errors(x, exog, fitted)
    np.testing.assert_allclose(fitted.standard_errors(x, exog=exog).offset, errors[5:7], rtol=2e-3)


def test_the_log_likelihood_is_that_of_statsmodels(with_effects, rng):
    """An AR(1) process under noise, with covariates: one column of SARIMAX."""
    sarimax = pytest.importorskip(
        "statsmodels.tsa.statespace.sarimax", reason="statsmodels, of the test extra, is not installed"
    )
    x, exog, fitted = with_effects
    one = ProbabilisticSFA(1, noise_prior=None, tol=1e-2).fit(x[:, :1], exog=exog)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = sarimax.SARIMAX(
            x[:, 0], exog=np.column_stack([np.ones(60), exog]), order=(1, 0, 0), measurement_error=True
        )
        peer.ssm.tolerance = 0
        variance = one.loadings_[0, 0] ** 2 * (1.0 - one.decay_[0] ** 2)
        expected = peer.loglike(
            np.concatenate([one.mean_, one.exog_coef_[0], one.decay_, one.noise_variance_, [variance]])
        )
    assert one.log_likelihood(x[:, :1], exog=exog) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("options", [{}, {"noise": "isotropic"}, {"solver": "em"}, {"noise": 0.3}])
def test_unrelated_covariates_never_lower_the_likelihood(rng, options):
    data = mask_values(rng, oracle.simulate(rng, oracle.random_model(rng, 3, 2), [80]), "scattered")[0]
    alone = ProbabilisticSFA(2, tol=0.1, **options).fit(data)
    exog = rng.standard_normal((80, 2))
    with_them = ProbabilisticSFA(2, tol=0.1, **options).fit(data, exog=exog)
    assert with_them.log_likelihood_ >= alone.log_likelihood_
    assert "Covariates raise the log-likelihood by" in with_them.status_
    [note] = [note for note in with_them.status_.notes if note.code == "covariates"]
    assert note.values["gain"] == pytest.approx(with_them.log_likelihood_ - alone.log_likelihood_, abs=1e-9)
    assert note.values["n_coefficients"] == 6
    assert with_them.n_evaluations_ < 6 * alone.n_evaluations_ + 60


def test_a_least_squares_step_is_used_if_the_joint_fit_is_worse(with_effects, monkeypatch):
    def lower(self, state):
        return state._replace(result=state.result._replace(log_likelihood=-np.inf))

    x, exog, _ = with_effects
    monkeypatch.setattr(regression._JointFit, "maximize_from", lower)
    options = dict(noise_prior=None, tol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stepped = ProbabilisticSFA(1, **options).fit(x, exog=exog)
    expected = oracle.log_likelihood(as_model(stepped), [x - exog @ stepped.exog_coef_.T])
    assert stepped.log_likelihood_ == pytest.approx(expected, rel=1e-8)
    assert expected > ProbabilisticSFA(1, **options).fit(x).log_likelihood_ + 1.0


def test_strong_effects_are_found(rng):
    model = oracle.Model(np.array([0.95, 0.5]), rng.standard_normal((4, 2)), np.full(4, 0.2), np.zeros(4))
    first, second = oracle.simulate(rng, model, [150, 100])
    exog = [rng.standard_normal((len(x), 2)).cumsum(axis=0) for x in (first, second)]
    truth = 20.0 * rng.standard_normal((4, 2))
    data = [x + u @ truth.T for x, u in zip((first, second), exog, strict=True)]
    fitted = ProbabilisticSFA(2, tol=0.01).fit(data, exog=exog)
    errors = fitted.standard_errors(data, exog=exog).exog_coef
    assert np.all(np.abs(fitted.exog_coef_ - truth) < 4.0 * errors)
    np.testing.assert_allclose(fitted.decay_, [0.95, 0.5], atol=0.15)


def test_effects_do_not_depend_on_units(with_effects):
    x, exog, fitted = with_effects
    scaled = ProbabilisticSFA(1, noise_prior=None, tol=1e-8).fit(
        1e3 * x - 7.0, exog=exog * [1e-4, 1e4] + [3, -9]
    )
    np.testing.assert_allclose(scaled.exog_coef_ * [1e-4, 1e4] / 1e3, fitted.exog_coef_, rtol=1e-4)
    np.testing.assert_allclose(scaled.decay_, fitted.decay_, rtol=1e-4)


# ------------------------------------------------------------------------------------------- methods


def test_methods_equal_those_for_the_rows_less_effects(with_effects):
    x, exog, fitted = with_effects
    plain = ProbabilisticSFA.from_parameters(**fitted.params_.to_arrays())
    effects = exog @ fitted.exog_coef_.T
    rest = x - effects
    np.testing.assert_allclose(fitted.transform(x, exog=exog), plain.transform(rest), rtol=1e-9)
    filled, std = fitted.impute(x, True, exog=exog)
    expected, expected_std = plain.impute(rest, True)
    np.testing.assert_allclose(filled, expected + effects, rtol=1e-9)
    np.testing.assert_allclose(std, expected_std, rtol=1e-9)
    quantile = fitted.impute(x, quantile=0.9, exog=exog)
    np.testing.assert_allclose(quantile, plain.impute(rest, quantile=0.9) + effects, rtol=1e-9)
    one, other = fitted.filter(x, exog=exog), plain.filter(rest)
    np.testing.assert_allclose(one.predictions, other.predictions + effects, rtol=1e-9)
    np.testing.assert_allclose(one.innovations, other.innovations, rtol=1e-7, atol=1e-9)
    diagnostics = fitted.diagnose(x, exog=exog)
    np.testing.assert_allclose(diagnostics.predictions, other.predictions + effects, rtol=1e-9)
    draws = fitted.sample_posterior(x, 3, of="values", exog=exog, random_state=0)
    np.testing.assert_allclose(
        draws, plain.sample_posterior(rest, 3, of="values", random_state=0) + effects, rtol=1e-9
    )
    parts = fitted.contributions(x, exog=exog)
    assert parts.shape == (60, 2, 3)
    missing = np.isnan(x)
    np.testing.assert_allclose((parts.sum(axis=2) + fitted.mean_)[missing], filled[missing], rtol=1e-9)


def test_forecasts_use_the_covariates_of_their_steps(with_effects):
    x, exog, fitted = with_effects
    plain = ProbabilisticSFA.from_parameters(**fitted.params_.to_arrays())
    following = np.array([[11.0, 1.0], [11.1, 0.0], [20.0, 0.0]])
    more = np.vstack([exog, following])
    effects = following @ fitted.exog_coef_.T
    expected = plain.forecast(x - exog @ fitted.exog_coef_.T, 3)
    forecast = fitted.forecast(x, 3, exog=more)
    np.testing.assert_allclose(forecast.means, expected.means + effects, rtol=1e-9)
    np.testing.assert_allclose(forecast.std, expected.std, rtol=1e-9)
    np.testing.assert_allclose(forecast.quantile(0.2), expected.quantile(0.2) + effects, rtol=1e-9)
    np.testing.assert_allclose(fitted.forecast([x], 3, exog=[more])[0].means, forecast.means, rtol=1e-12)
    draws = fitted.sample_posterior(x, 4000, of="values", n_steps=3, exog=more, random_state=0)[:, 60:]
    np.testing.assert_allclose(draws.mean(axis=0), forecast.means, atol=0.1)
    drawn, _ = fitted.sample(3, exog=following, random_state=0)
    np.testing.assert_allclose(drawn, plain.sample(3, random_state=0)[0] + effects, rtol=1e-9)
    news = fitted.news(x[:59], np.vstack([x[:59], [[1.0, np.nan]]]), target=(61, 1), exog=more[:62])
    assert news.impacts.sum() == pytest.approx(news.after - news.before, rel=1e-9)
    assert news.observed[-1] == pytest.approx(1.0, rel=1e-12)


def test_frames_are_selected_by_their_index(with_effects):
    x, exog, _ = with_effects
    index = pd.date_range("2024-01-01", periods=70, freq="D")
    frame = pd.DataFrame(x, columns=["a", "b"], index=index[:60])
    inputs = pd.DataFrame(np.vstack([exog, exog[:10]]), columns=["slope", "switch"], index=index)
    shuffled = inputs.sample(frac=1.0, random_state=0)[["switch", "slope"]]
    fitted = ProbabilisticSFA(1, tol=0.1).fit(frame, exog=inputs)
    assert fitted.exog_names_.tolist() == ["slope", "switch"]
    np.testing.assert_allclose(
        fitted.transform(frame, exog=shuffled), fitted.transform(frame, exog=exog), rtol=1e-12
    )
    forecast = fitted.forecast(frame, 5, exog=shuffled)
    assert list(forecast.means.index) == list(index[60:65])
    np.testing.assert_allclose(
        forecast.means, fitted.forecast(frame, 5, exog=inputs[:65].to_numpy()).means, rtol=1e-12
    )
    pieces = [frame[:30], frame[30:]]
    both = [fitted.log_likelihood(pieces, exog=one) for one in (inputs, [inputs[:30], inputs[30:60]])]
    assert both[0] == both[1]
    cut = fitted.log_likelihood(frame, lengths=[30, 30], exog=inputs)
    assert cut == pytest.approx(both[0], rel=1e-12)
    with pytest.raises(ValueError, match="exog has no row"):
        fitted.forecast(frame, 11, exog=inputs)
    with pytest.raises(ValueError, match="exog has no column"):
        fitted.transform(frame, exog=inputs[["switch"]])
    with pytest.raises(ValueError, match="exog.*twice"):
        fitted.transform(frame, exog=pd.concat([inputs, inputs[:1]]))


@pytest.mark.filterwarnings("ignore:Observed values left out:UserWarning")
def test_frames_of_covariates_for_several_sequences(rng):
    X, U = rng.standard_normal((40, 2)).cumsum(axis=0), rng.standard_normal((40, 1))
    X[10:13, 0] = np.nan
    named = pd.DataFrame(U, columns=["u"])
    model = ProbabilisticSFA(1, tol=1.0).fit(X, exog=named, lengths=[15, 25])
    expected = model.impute(X, exog=U, lengths=[15, 25])
    np.testing.assert_array_equal(model.impute(X, exog=named, lengths=[15, 25]), expected)
    np.testing.assert_array_equal(np.concatenate(model.impute([X[:15], X[15:]], exog=named)), expected)

    pieces = [pd.DataFrame(X[:15]), pd.DataFrame(X[15:])]  # rows numbered from 0 in each
    of_each = [named[:15], named[15:].reset_index(drop=True)]
    np.testing.assert_array_equal(np.concatenate(model.impute(pieces, exog=of_each)), expected)
    with pytest.raises(ValueError, match="15 of the row labels"):
        model.impute(pieces, exog=named)
    days = [piece.set_axis(pd.date_range("2024", periods=len(piece))) for piece in pieces]
    # The dates of the two sequences overlap.
    shared = pd.DataFrame({"u": U[:, 0]}, index=pd.date_range("2024", periods=40))
    again = ProbabilisticSFA(1, tol=1.0).fit(days, exog=shared)
    others = [U[:15], U[:25]]
    np.testing.assert_array_equal(again.impute(days, exog=shared)[1], again.impute(days, exog=others)[1])


def test_invalid_covariates_are_reported(with_effects):
    x, exog, fitted = with_effects
    model = ProbabilisticSFA(1)
    broken = exog.copy()
    broken[4, 1] = np.nan
    cases = [
        (broken, "exog.*row 4, column 'exog1'"),
        (np.column_stack([exog, np.full(60, 3.0)]), "column 'exog2'"),
        (np.column_stack([exog, exog.sum(axis=1)]), "linear combination"),
        (exog[:59], "exog.*60.*X.*59"),
        (np.vstack([exog, exog]), "exog.*60.*X.*120"),
        ([exog, exog], "exog.*2.*X.*1"),
    ]
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            model.fit(x, exog=wrong)
    switch = np.zeros(60)
    switch[np.flatnonzero(np.isnan(x[:, 0]))] = 1.0
    with pytest.raises(ValueError, match="column 'exog0'.*column 0.*X"):
        model.fit(x, exog=switch)
    with pytest.raises(ValueError, match=r"\bX\b.*column 1.*exog"):
        model.fit(np.column_stack([x[:, 0], 2.0 * exog[:, 0]]), exog=exog)
    with pytest.raises(ValueError, match="exog requires observation noise"):
        ProbabilisticSFA(1, noise=0.0).fit(np.nan_to_num(x), exog=exog)
    with pytest.raises(ValueError, match="fit_stream does not support exog"):
        model.fit_stream(x, exog=exog)
    with pytest.raises(ValueError, match="exog is required.*'exog0', 'exog1'"):
        fitted.transform(x)
    with pytest.raises(ValueError, match="exog.*got 60"):
        fitted.forecast(x, 2, exog=exog)
    with pytest.raises(ValueError, match="2 columns.*shape"):
        fitted.transform(x, exog=exog[:, :1])
    plain = ProbabilisticSFA.from_parameters(**fitted.params_.to_arrays())
    with pytest.raises(ValueError, match="exog"):
        plain.transform(x, exog=exog)


def test_a_saved_model_keeps_its_covariates(with_effects, tmp_path):
    x, exog, fitted = with_effects
    fitted.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.exog_coef_, fitted.exog_coef_)
    assert again.exog_names_.tolist() == ["exog0", "exog1"]
    np.testing.assert_array_equal(again.impute(x, exog=exog), fitted.impute(x, exog=exog))


def test_covariates_with_transforms(with_effects):
    x, exog, _ = with_effects
    y = np.exp(0.1 * x)
    fitted = ProbabilisticSFA(1, transforms="log", tol=0.01).fit(y, exog=exog)
    plain = ProbabilisticSFA(1, tol=0.01).fit(0.1 * x, exog=exog)
    np.testing.assert_allclose(fitted.exog_coef_, plain.exog_coef_, rtol=1e-6)
    assert fitted.log_likelihood_ == pytest.approx(plain.log_likelihood_ - np.nansum(0.1 * x), rel=1e-9)
    median = fitted.impute(y, quantile=0.5, exog=exog)
    np.testing.assert_allclose(median, np.exp(plain.impute(0.1 * x, exog=exog)), rtol=1e-6)
    errors = [one.standard_errors(data, exog=exog).exog_coef for one, data in ((fitted, y), (plain, 0.1 * x))]
    np.testing.assert_allclose(*errors, rtol=1e-5)


def data_with_trend(rng):
    data = mask_values(rng, oracle.simulate(rng, oracle.random_model(rng, 2, 1), [60]), "scattered")[0]
    exog = np.arange(60.0)[:, None]
    return data + exog * [0.1, -0.2], exog


def test_covariates_with_default_factors(rng):
    data, exog = data_with_trend(rng)
    chosen = ProbabilisticSFA(tol=0.1).fit(data, exog=exog)
    assert chosen.decay_.size == 2 and "Selected 2 latent factors" in chosen.status_
    together = ProbabilisticSFA(tol=0.1).fit_transform(data, exog=exog)
    np.testing.assert_allclose(together, chosen.transform(data, exog=exog), rtol=1e-12)


def test_covariates_at_uneven_times_and_with_init(rng):
    data, exog = data_with_trend(rng)
    uneven = np.cumsum(rng.choice([0.5, 1.0, 3.0], 60))
    fitted = ProbabilisticSFA(1, tol=0.1).fit(data, times=uneven, exog=exog)
    rest = oracle.log_likelihood(
        as_model(fitted), [data - exog @ fitted.exog_coef_.T], [uneven / fitted.time_unit_]
    )
    assert fitted.log_likelihood_ == pytest.approx(rest, rel=1e-9)
    again = ProbabilisticSFA(1, init=fitted, tol=0.1).fit(data, times=uneven, exog=exog)
    assert again.log_likelihood_ >= fitted.log_likelihood_ - 0.1
    with pytest.raises(ValueError, match="init"):
        ProbabilisticSFA(2, init=fitted).fit(data, times=uneven, exog=exog)


@pytest.mark.exhaustive
def test_covariates_with_cycles(rng):
    data, exog = data_with_trend(rng)
    data = data + 3.0 * np.sin(2 * np.pi * np.arange(60) / 12)[:, None]
    fitted = ProbabilisticSFA(1, rhythms=[12], tol=0.1).fit(data, exog=exog)
    np.testing.assert_allclose(fitted.exog_coef_[:, 0], [0.1, -0.2], atol=0.1)
    assert fitted.rhythm_periods_[0] == pytest.approx(12.0, rel=0.05)


# ------------------------------------------------------------------------------------------ calendars


def test_calendar_terms_are_those_of_the_clock():
    index = pd.date_range("2024-02-28", periods=24 * 40, freq="h", tz="Europe/Berlin")
    terms = calendar_terms(index, ["hour", "weekday", "weekend", "month"], holidays=["2024-03-29"])
    assert terms.shape == (960, 23 + 6 + 1 + 11 + 1)
    for stamp, row in zip(index[::37], terms.to_dict("records")[::37], strict=True):
        assert [row[f"hour_{h}"] for h in range(1, 24)] == [float(stamp.hour == h) for h in range(1, 24)]
        assert [row[f"weekday_{d}"] for d in range(1, 7)] == [
            float(stamp.weekday() == d) for d in range(1, 7)
        ]
        assert row["weekend"] == float(stamp.weekday() > 4)
        assert row["holiday"] == float((stamp.month, stamp.day) == (3, 29))
    with pytest.raises(ValueError, match="times must be dates"):
        calendar_terms([1.0, 2.0])
    with pytest.raises(ValueError, match="terms.*got 'minute'"):
        calendar_terms(index, ["minute"])


def test_trends_and_harmonics_continue_after_the_data():
    index = pd.date_range("2020-01-01", periods=100, freq="D")
    for make in (trend, lambda times: harmonics(times, "7D", 2)):
        all_terms = make(index)
        pd.testing.assert_frame_equal(all_terms[60:], make(index[60:]))
    assert trend(index)["trend"].iloc[0] == pytest.approx(20.0, abs=1e-3)
    waves = harmonics(np.arange(50.0), 10, 2)
    np.testing.assert_allclose(waves.to_numpy()[:, 2], np.cos(4 * np.pi * np.arange(50) / 10), atol=1e-12)
    months = pd.period_range("2024-01", periods=12, freq="M")
    assert calendar_terms(months, ["month"]).to_numpy().sum() == 11
    with pytest.raises(ValueError, match="period.*got 7"):
        harmonics(index, 7)
    with pytest.raises(ValueError, match="period.*got '7D'"):
        harmonics(np.arange(4.0), "7D")


def test_times_of_a_series_are_its_values_unless_its_index_has_dates():
    numbers, dates = pd.Series([10.0, 20.0, 40.0]), pd.date_range("2024-01-05", periods=3, freq="D")
    assert trend(numbers)["trend"].tolist() == [10.0, 20.0, 40.0]
    np.testing.assert_array_equal(harmonics(numbers, 7.0), harmonics(numbers.to_numpy(), 7.0))
    labelled = pd.Series(dates, index=[3, 5, 7])
    for make in (
        trend,
        lambda times: harmonics(times, "7D"),
        lambda times: calendar_terms(times, ["weekday"]),
    ):
        expected = make(dates)
        pd.testing.assert_frame_equal(make(labelled), expected.set_axis(labelled.index))
        pd.testing.assert_frame_equal(make(pd.Series([1.0, 2.0, 3.0], index=dates)), expected)


# ------------------------------------------------------------------------------------ Student-t noise


@pytest.fixture(scope="module")
def with_outliers():
    """Two columns with a trend and an indicator as covariates, in which one value in twelve is an outlier."""
    rng = np.random.default_rng(8)
    model = oracle.Model(
        np.array([0.8]), np.array([[1.0], [0.7]]), np.array([0.1, 0.05]), np.array([1.0, -1.0])
    )
    [clean] = oracle.simulate(rng, model, [90])
    exog = np.column_stack([np.linspace(-1.0, 1.0, 90), (np.arange(90) % 7 == 3).astype(float)])
    clean = clean + exog @ np.array([[0.5, 2.0], [-0.3, 1.0]]).T
    x = clean + np.where(rng.random(clean.shape) < 1 / 12, 15.0, 0.0)
    return clean, x, exog, ProbabilisticSFA(1, robust=True, tol=1e-3, max_iter=600).fit(x, exog=exog)


def test_outliers_hardly_change_robust_effects(with_outliers):
    clean, x, exog, fitted = with_outliers
    reference = ProbabilisticSFA(1).fit(clean, exog=exog).exog_coef_
    gaussian = ProbabilisticSFA(1).fit(x, exog=exog).exog_coef_
    error = np.abs(fitted.exog_coef_ - reference).max()
    assert error < 0.3 and error < 0.2 * np.abs(gaussian - reference).max()
    assert fitted.degrees_of_freedom_ < 4.0
    scores = fitted.outlier_scores(x, exog=exog)
    assert scores[x - clean > 1.0].min() > scores[x - clean < 1.0].max()


def test_robust_effects_are_least_squares_at_the_weights_of_the_values(with_outliers):
    _, x, exog, fitted = with_outliers
    model, nu = as_model(fitted), fitted.degrees_of_freedom_
    rest = x - exog @ fitted.exog_coef_.T
    weights = np.where(np.abs(rest - model.offset) > 6.0, 0.01, 1.0)
    for _ in range(200):  # alternating updates of q(z) and q(w) by their definitions
        posterior = student.weighted_posterior(model, rest, weights)
        for positions, a, b in student.best_gammas(model, rest, posterior, nu, False):
            weights[positions[0]] = a / b
    S = covariance_of_observed(model._replace(noise=np.zeros(2)), [x])[0]
    S += np.diag((model.noise / weights).ravel())
    design = np.kron(np.column_stack([np.ones(90), exog]), np.eye(2))
    weighted = np.linalg.solve(S, design)
    best = np.linalg.solve(design.T @ weighted, weighted.T @ x.ravel()).reshape(3, 2)
    np.testing.assert_allclose(fitted.mean_, best[0], atol=2e-3)
    np.testing.assert_allclose(fitted.exog_coef_.T, best[1:], atol=2e-3)


def test_the_bound_with_covariates_is_not_lower_and_never_decreases(with_outliers):
    _, x, exog, fitted = with_outliers
    assert (
        fitted.log_likelihood_
        >= ProbabilisticSFA(1, robust=True, tol=1e-3, max_iter=600).fit(x).log_likelihood_
    )
    assert np.all(np.diff(fitted.history_) >= 0.0)
    assert fitted.log_likelihood(x, exog=exog) == pytest.approx(fitted.log_likelihood_, abs=1e-3)


def test_methods_of_a_robust_model_with_covariates(with_outliers, tmp_path):
    _, x, exog, fitted = with_outliers
    incomplete = x.copy()
    incomplete[20:25, 0] = np.nan
    values, std = fitted.impute(incomplete, return_std=True, exog=exog)
    assert np.isfinite(values).all() and np.all(std[20:25, 0] > 0.0)
    assert fitted.forecast(x, 3, exog=np.vstack([exog, exog[:3]])).means.shape == (3, 2)
    with pytest.raises(ValueError, match="standard_errors"):
        fitted.standard_errors(x, exog=exog)
    fitted.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.impute(incomplete, exog=exog), values, rtol=1e-12)


@pytest.mark.parametrize(
    ("prior_gain", "last_gain", "max_iter", "n_rounds"),
    [
        (3.0, 4.0, 100, 5),
        (1.5, 4.0, 100, 1),
        (2.0, 4.0, 100, 1),  # no gain in the first round
        (3.0, np.inf, 100, 12),
        (3.0, np.inf, 1, 6),  # of two evaluations each: at least twelve are allowed after the first fit
    ],
)
def test_rounds_continue_while_the_posterior_density_increases(
    rng, monkeypatch, prior_gain, last_gain, max_iter, n_rounds
):
    """Each round lowers the likelihood by a nat; the prior density increases up to the round `last_gain`."""
    rows = Sequences(rng.standard_normal((30, 2)), (30,))
    problem = make_problem(InMemory(rows), FitOptions(1, max_iter=max_iter))
    joint = regression._JointFit(problem, rng.standard_normal((30, 1)), None)
    params = StateSpace(np.array([0.9]), np.ones((2, 1)), np.full(2, 0.5), np.zeros(2))
    rounds = []

    def maximize(at, b, noise, limit, degrees):
        rounds.append(limit)
        variance = np.full(2, float(len(rounds)))
        history = (-1.0, float(len(rounds)))
        return FitResult(at.replace(noise_variance=variance), -history[1], history, 1, "converged")

    prior = types.SimpleNamespace(log_prior=lambda variance: prior_gain * min(variance[0], last_gain))
    monkeypatch.setattr(FitOptions, "standardized_noise", lambda options, *_: prior)
    none = regression._Solution(np.zeros((2, 2)), 0.0, 1)
    monkeypatch.setattr(joint, "least_squares_at", lambda result, b: none)
    monkeypatch.setattr(joint, "_maximize", maximize)
    start = regression._FitState(FitResult(params, 0.0, (0.0,), 1, "converged"), np.zeros((2, 1)), 1)
    found = joint.maximize_from(start)
    assert len(rounds) == n_rounds
    assert found.result.history == tuple(range(n_rounds + 1)), "it never falls"
