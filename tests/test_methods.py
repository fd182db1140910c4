"""The public methods of the probabilistic estimators are implemented once, with the same results for all."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import probsfa
from probsfa.datasets import make_slow_mixture
from probsfa.extensions.bilinear.estimator import BilinearSFA
from probsfa.statespace.fitted_model import FittedModel, random_parts
from probsfa.statespace.methods import StateSpaceMethods, Unavailable
from probsfa.statespace.timeline import append_empty_rows
from tests.tolerances import EXACT

ESTIMATORS = ("ProbabilisticSFA", "BayesianSFA", "EmissionSFA", "BilinearSFA", "ProductOfExpertsSFA")
# Methods with arguments that only one model has; all other arguments are the same.
OWN_ARGUMENTS = {
    "EmissionSFA": {"posterior": {"level_and_scale"}, "filter": {"random_state"}},
    "BilinearSFA": {"get_feature_names_out": set()},
    "ProductOfExpertsSFA": {
        "impute": {"n_draws", "random_state"},
        "sample": {"n_moves", "expanded"},
        "log_likelihood": {"n_chains", "n_temperatures", "return_error", "random_state"},
    },
}
METHODS = [
    name for name, value in vars(StateSpaceMethods).items() if not name.startswith("_") and callable(value)
]
SVI = {"inference": "svi", "n_steps_svi": 5, "n_draws": 15, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    values = make_slow_mixture(60, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
    values[20:25, 1] = np.nan
    return values


@pytest.fixture(scope="module")
def bayesian(X):
    model = probsfa.BayesianSFA(1, n_predictive=30, verbose=False, **SVI)
    return model.fit(X)


@pytest.fixture(scope="module")
def bilinear(X):
    return BilinearSFA(1, n_gates=2, n_init=2, max_iter=200, random_state=0).fit(X)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_methods_are_those_of_the_base(name):
    cls = getattr(probsfa, name)
    own_arguments = OWN_ARGUMENTS.get(name, {})
    for method in METHODS:
        found = inspect.getattr_static(cls, method)
        if method in cls._unsupported:
            assert isinstance(found, Unavailable)
        elif method in own_arguments:
            ours, base = (inspect.signature(getattr(each, method)) for each in (cls, StateSpaceMethods))
            assert set(ours.parameters) - set(base.parameters) == own_arguments[method]
            assert [p for p in ours.parameters.values() if p.name not in own_arguments[method]] == list(
                base.parameters.values()
            )
        else:
            assert found is inspect.getattr_static(StateSpaceMethods, method), method
            assert inspect.getdoc(found)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_has_the_same_arguments(name):
    of_fit = inspect.signature(getattr(probsfa, name).fit).parameters
    assert list(of_fit) == ["self", "X", "y", "lengths", "times", "exog"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_method_that_is_left_out_names_what_to_use(name):
    cls = getattr(probsfa, name)
    assert set(cls._unsupported) <= set(METHODS)
    for method in cls._unsupported:
        assert not hasattr(cls, method) and not hasattr(cls(), method) and method not in dir(cls())
        with pytest.raises(
            AttributeError, match=f"{name} has no method '{method}': .*[Uu]se |.*Fit again|.*by"
        ):
            getattr(cls(), method)


def test_errors_of_unsupported_arguments_name_estimators_that_support_them(X, bilinear, bayesian):
    with pytest.raises(TypeError, match="BilinearSFA.*support.*'times'.*ProbabilisticSFA"):
        bilinear.transform(X, times=np.arange(60.0))
    with pytest.raises(TypeError, match="BilinearSFA.*support.*'exog'"):
        BilinearSFA(1).fit(X, exog=X)
    with pytest.raises(ValueError, match="fitted without exog"):
        bayesian.forecast(X, 2, exog=X)


def test_intervals_and_quantiles_are_those_of_the_predictions(X):
    model = probsfa.ProbabilisticSFA(1).fit(X)
    filled, std, lower, upper = model.impute(X, return_std=True, interval=0.8)
    np.testing.assert_allclose(upper - filled, 1.2815515655446004 * std, rtol=EXACT, atol=1e-12)
    for found, wanted in zip(model.impute(X, quantile=[0.1, 0.9]), (lower, upper), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=EXACT)
    ahead = model.forecast(X, 4, interval=0.8)
    np.testing.assert_allclose(ahead.upper - ahead.means, 1.2815515655446004 * ahead.std, rtol=EXACT)
    np.testing.assert_array_equal(model.forecast(X, 4, quantile=0.9), ahead.quantile(0.9))
    assert [each.shape for each in model.forecast(X, 4, quantile=[0.1, 0.5])] == [(4, 3)] * 2
    with pytest.raises(ValueError, match="quantile.*return_std.*interval"):
        model.impute(X, interval=0.9, quantile=0.5)
    with pytest.raises(ValueError, match="interval.*got 90"):
        model.forecast(X, 2, interval=90)


def test_scores_of_a_part_are_those_of_a_dense_gaussian(X):
    rng = np.random.default_rng(0)
    decay, loadings, noise = np.array([0.9, 0.4]), rng.standard_normal((3, 2)), np.array([0.2, 0.5, 0.3])
    model = probsfa.ProbabilisticSFA.from_parameters(decay, loadings, noise, 0.5)
    rows = X[10:30]
    sequences = model._check(rows, None, None)
    scores = FittedModel.outlier_scores(model._model, sequences)
    lags = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    covariance = sum(
        np.kron(a**lags, np.outer(c, c)) for a, c in zip(decay, loadings.T, strict=True)
    ) + np.diag(np.tile(noise, 20))
    hidden = np.zeros(rows.size, dtype=int)
    for part, _ in random_parts(sequences):
        hidden += part.ravel()
        known = np.flatnonzero(~part.ravel() & sequences.mask.ravel())
        predicted = np.flatnonzero(part.ravel())
        weights = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, predicted)])
        mean = 0.5 + weights.T @ (rows.ravel()[known] - 0.5)
        variance = np.diag(covariance)[predicted] - np.sum(
            weights * covariance[np.ix_(known, predicted)], axis=0
        )
        wanted = np.abs(rows.ravel()[predicted] - mean) / np.sqrt(variance)
        np.testing.assert_allclose(scores.ravel()[predicted], wanted, rtol=1e-9)
    np.testing.assert_array_equal(hidden.reshape(rows.shape), sequences.mask)
    np.testing.assert_array_equal(np.isnan(scores), ~sequences.mask)


def test_outliers_have_the_largest_scores(X, bilinear):
    odd = X.copy()
    odd[40, 2] += 15.0
    assert np.unravel_index(np.nanargmax(bilinear.outlier_scores(odd)), odd.shape) == (40, 2)


def test_scores_of_counts_and_levels():
    rng = np.random.default_rng(1)
    slow = np.convolve(rng.standard_normal(119), np.ones(20) / 4.5, "valid")
    counts = rng.poisson(np.exp(1.0 + 0.3 * slow))
    level = (rng.random(100) < 1.0 / (1.0 + np.exp(-6.0 * slow))).astype(float)
    values = np.column_stack([counts, level, slow + 0.1 * rng.standard_normal(100)])
    values[70, 0] = 60
    model = probsfa.EmissionSFA(1, emission=["poisson", "bernoulli", "gaussian"]).fit(values)
    scores = model.outlier_scores(values)
    assert np.argmax(scores[:, 0]) == 70 and np.all(scores >= 0.0)
    hidden, rest = random_parts(model._check(values, None, None))[0]
    rows = np.flatnonzero(hidden[:, 1])
    of_levels = model.level_probabilities(rest.values)[1]
    p = of_levels[rows, values[rows, 1].astype(int)]
    np.testing.assert_allclose(scores[rows, 1], norm.isf(0.5 * p), rtol=1e-6)


def test_bilinear_forecast_is_the_posterior_of_rows_that_follow(X, bilinear):
    sequences = bilinear._check(X, None, None)
    posterior = bilinear._model.posterior(append_empty_rows(sequences, 5, 1.0))
    ahead = bilinear.forecast(X, 5)
    np.testing.assert_allclose(ahead.latent_means[:, :1], posterior.means[-5:], atol=1e-6)
    np.testing.assert_allclose(ahead.latent_means[:, 1:], posterior.gate_probabilities[-5:], atol=1e-6)
    variances = posterior.covariances[-5:, 0, 0]
    np.testing.assert_allclose(ahead.latent_std[:, 0] ** 2, variances, atol=1e-6)
    filled = bilinear._model.impute(append_empty_rows(sequences, 5, 1.0))
    np.testing.assert_allclose(ahead.means, filled.values[-5:], atol=1e-6)
    np.testing.assert_allclose(ahead.std, filled.std[-5:], atol=1e-6)
    assert np.all((ahead.lower < ahead.means) & (ahead.means < ahead.upper))
    with pytest.raises(ValueError, match=r"fh.*got \[0\.5 1\. \]"):
        bilinear.forecast(X, fh=[0.5, 1.0])


def test_bilinear_lists_have_a_posterior_for_each_sequence(X, bilinear):
    parts = bilinear.posterior([X[:30], X[30:]])
    assert [len(each.means) for each in parts] == [30, 30]
    np.testing.assert_allclose(parts[0].lower_bound, bilinear.lower_bound(X[:30]), rtol=1e-9)


def test_bayesian_contributions_add_up_to_the_imputed_values(X, bayesian):
    parts = bayesian.contributions(X)
    whole = bayesian.mean_ + parts.sum(axis=2)
    missing = np.isnan(X)
    np.testing.assert_allclose(whole[missing], bayesian.impute(X)[missing], rtol=1e-9)


def test_bayesian_draws_of_values_have_the_moments_of_their_predictions(X, bayesian):
    filled, std = bayesian.impute(X, return_std=True)
    drawn = bayesian.sample_posterior(X, 2000, of="values", n_steps=2, random_state=0)
    assert drawn.shape == (2000, 62, 3)
    missing = np.isnan(X)
    error = drawn[:, :60].mean(axis=0)[missing] - filled[missing]
    assert np.all(np.abs(error) < 5.0 * std[missing] / np.sqrt(2000.0))
    np.testing.assert_allclose(drawn[:, :60].std(axis=0)[missing], std[missing], rtol=0.1)
    np.testing.assert_array_equal(drawn[:, :60][:, ~missing], np.broadcast_to(X[~missing], (2000, 175)))


def test_bayesian_diagnostics_are_those_at_the_posterior_means(X, bayesian):
    p = bayesian.params_
    model = probsfa.ProbabilisticSFA.from_parameters(p.decay, p.loadings, p.noise_variance, p.offset)
    np.testing.assert_allclose(bayesian.bic(X), model.bic(X), rtol=EXACT)
    np.testing.assert_allclose(bayesian.diagnose(X).innovations, model.diagnose(X).innovations, rtol=1e-9)
    old, new = X[:50], X.copy()
    new[-1, 0] = np.nan
    found, wanted = (each.news(old, new, (59, 0)) for each in (bayesian, model))
    np.testing.assert_allclose(found.impacts, wanted.impacts, rtol=1e-9)


def test_summary_has_estimates_and_standard_errors(X):
    frame = pd.DataFrame(X, columns=list("abc"), index=pd.date_range("2024", periods=60, freq="h"))
    model = probsfa.ProbabilisticSFA(1).fit(frame)
    errors = model.standard_errors(frame)
    table = model.summary(frame, level=0.9).to_frame()
    row = table.loc[("time scale", "factor 0")]
    lower, upper = errors.interval("timescales", 0.9)
    assert row["unit"] == "h"
    np.testing.assert_allclose(
        row[["estimate", "std_error", "lower", "upper"]].astype(float),
        [model.timescales_[0], errors.timescales[0], lower[0], upper[0]],
    )
    assert table.loc[("loading", "b, factor 0"), "std_error"] == errors.loadings[1, 0]
    assert table.loc[("noise variance", "c"), "unit"] == "data^2"
    alone = model.summary()
    assert np.isnan(alone.std_error).all() and len(alone.estimate) == len(table)
    assert "ProbabilisticSFA" in str(alone) and "97.5 %" in str(alone) and model.status_ in str(alone)
    with pytest.raises(ValueError, match="level.*got 95"):
        model.summary(level=95)


def test_summary_of_a_posterior_is_that_of_its_draws(bayesian, bilinear):
    table = bayesian.summary().to_frame()
    row = table.loc[("mean", "column 1")]
    draws = bayesian.draws_.offset[:, :, 1]
    wanted = [draws.mean(), draws.std(), *np.quantile(draws, [0.025, 0.975])]
    np.testing.assert_allclose(row[["estimate", "std_error", "lower", "upper"]].astype(float), wanted)
    of_gates = bilinear.summary().to_frame()
    assert ("loading", "column 0, gate 1, factor 0") in of_gates.index
    assert ("switching", "gate 1, off") in of_gates.index


def test_long_summaries_are_cut(X):
    model = probsfa.ProbabilisticSFA(5).fit(
        np.tile(X, (1, 5)) + np.random.default_rng(0).normal(size=(60, 15))
    )
    assert str(model.summary()).endswith("more rows; see to_frame().")


def test_old_names_warn_for_one_release(X):
    fitted = probsfa.ProbabilisticSFA(1).fit(X)
    with pytest.warns(FutureWarning, match="of='cells' is now of='values'"):
        drawn = fitted.sample_posterior(X, 2, of="cells", random_state=0)
    np.testing.assert_array_equal(drawn, fitted.sample_posterior(X, 2, of="values", random_state=0))
    with pytest.warns(FutureWarning, match="n_init is ignored.*version 2.0.*init="):
        probsfa.ProbabilisticSFA(1, n_init=5, max_iter=2, tol=10.0).fit(X)
    with pytest.warns(FutureWarning, match="verbose"):
        assert probsfa.BayesianSFA(progress_bar=False).verbose is False
    model = probsfa.EmissionSFA()
    model.mean_ = np.ones(2)
    with pytest.warns(FutureWarning, match="EmissionSFA.offset_ is now mean_"):
        np.testing.assert_array_equal(model.offset_, model.mean_)
    assert not hasattr(model, "df_") and not hasattr(model, "rhythm_decays_")
    vars(model)["df_"] = np.array([4.0])  # of a file of an earlier version
    np.testing.assert_array_equal(model.degrees_of_freedom_, [4.0])
