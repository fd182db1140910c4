"""Transforms of columns: maps, moments, and all methods in data units."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import boxcox_llf, lognorm, norm, yeojohnson_llf

import probsfa
from probsfa import ProbabilisticSFA
from probsfa.statespace.filtering import gains, row_errors
from probsfa.statespace.transformed_model import TransformedModel
from probsfa.statespace.transforms import (
    Bounds,
    BoxCox,
    Log,
    Log1p,
    Sqrt,
    Transforms,
    YeoJohnson,
    argument_from_json,
    argument_to_json,
    transform_from_list,
)
from tests.oracles import statespace as oracle

MAPS = [
    Log(),
    Log1p(),
    Sqrt(1e-3),
    BoxCox(0.3),
    BoxCox(1.0),
    YeoJohnson(0.6),
    YeoJohnson(1.4),
    Bounds(0.0, 100.0, 0.1),
    Bounds(0.0, None, 0.1),
    Bounds(None, 5.0, 0.1),
]


def values_inside(one):
    """Return values in the domain that are farther from the bounds than the margins."""
    low, high = (0.2, 4.5) if not isinstance(one, YeoJohnson) else (-3.0, 4.5)
    return np.linspace(low, high, 23)


@pytest.mark.parametrize("one", MAPS, ids=str)
def test_the_slope_is_the_numerical_derivative(one):
    x, h = values_inside(one), 1e-6
    slope = (one.forward(x + h) - one.forward(x - h)) / (2.0 * h)
    np.testing.assert_allclose(np.exp(one.log_slope(x)), slope, rtol=1e-7)


@pytest.mark.parametrize("one", MAPS, ids=str)
def test_the_inverse_inverts_the_transform(one):
    np.testing.assert_allclose(
        one.inverse(one.forward(values_inside(one))), values_inside(one), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("one", MAPS, ids=str)
@pytest.mark.parametrize(("mean", "std"), [(0.7, 0.3), (-0.5, 1.0), (2.0, 2.0), (0.1, 1e-4)])
def test_moments_are_integrals(one, mean, std):
    edges = {mean + z * std for z in (-9, -4, -1, 0, 1, 4, 9, 14)}
    edges = sorted(edges | ({one.kink} if mean - 9 * std < one.kink < mean + 9 * std else set()))

    def integral(power, about):
        def integrand(y):
            return (float(one.inverse(np.array(y))) - about) ** power * norm.pdf(y, mean, std)

        pieces = zip(edges[:-1], edges[1:], strict=True)
        return sum(quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12)[0] for a, b in pieces)

    centre = integral(1, 0.0)
    moments = one.moments(np.array([mean]), np.array([std]))
    np.testing.assert_allclose(moments[0], [centre], rtol=1e-8)
    np.testing.assert_allclose(moments[1], [np.sqrt(integral(2, centre))], rtol=1e-6)


def test_the_mean_of_a_clipped_square_has_its_closed_form():
    mean, std = np.array([-0.5, 0.3, 2.0]), np.array([1.0, 0.5, 0.1])
    ratio = mean / std
    expected = (mean**2 + std**2) * norm.cdf(ratio) + mean * std * norm.pdf(ratio)
    np.testing.assert_allclose(Sqrt(1e-3).moments(mean, std)[0], expected, rtol=1e-10)


def test_the_mean_of_a_clipped_exponential_has_its_closed_form():
    mean, std = np.array([-0.5, 0.3, 2.0]), np.array([1.0, 0.5, 0.1])
    expected = np.exp(mean + 0.5 * std**2) * norm.cdf(mean / std + std) - norm.cdf(mean / std)
    np.testing.assert_allclose(Log1p().moments(mean, std)[0], expected, rtol=1e-10)


def test_moments_with_zero_standard_deviation():
    for one in MAPS:
        moments = one.moments(np.array([0.4]), np.zeros(1))
        np.testing.assert_allclose(moments[0], one.inverse(np.array([0.4])), rtol=1e-14)
        assert moments[1] == 0.0


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(MAPS),
    st.lists(st.floats(-50.0, 150.0), min_size=2, max_size=6),
)
def test_maps_increase_and_are_inverted_within_their_margins(one, values):
    x = np.sort(np.array(values))
    x = x[~one.is_outside(x)]
    y = one.forward(x)
    assert np.isfinite(y).all() and np.isfinite(one.log_slope(x)).all()
    assert np.all(np.diff(y) >= 0.0)
    back = one.inverse(y)
    margin = getattr(one, "margin", 0.0)
    assert np.all(np.abs(back - x) <= margin + 1e-9 * (1.0 + np.abs(x)))
    assert not one.is_outside(one.inverse(np.linspace(-30.0, 30.0, 9)))[1:-1].any() or isinstance(one, BoxCox)


def test_powers_maximize_the_likelihood(rng):
    x = (2.0 + 0.4 * rng.standard_normal((200, 2))) ** 2
    x[:, 1] -= 4.0
    model = ProbabilisticSFA(1, transforms=["box-cox", "yeo-johnson"], tol=10.0).fit(x)
    for j, llf in ((0, boxcox_llf), (1, yeojohnson_llf)):
        power = model.transforms_[j].power
        assert llf(power, x[:, j]) >= max(llf(power + step, x[:, j]) for step in (-1e-3, 1e-3))


# ------------------------------------------------------------------------------------------- models


@pytest.fixture(scope="module")
def amounts():
    """Columns with missing values (log-normal, between 0 and 10, normal), and the model fitted to them."""
    rng = np.random.default_rng(5)
    model = oracle.Model(np.array([0.9, 0.5]), rng.standard_normal((3, 2)), np.full(3, 0.1), np.zeros(3))
    [y] = oracle.simulate(rng, model, [120])
    x = np.column_stack([np.exp(y[:, 0]), 10.0 / (1.0 + np.exp(-y[:, 1])), y[:, 2]])
    x[rng.random(x.shape) < 0.2] = np.nan
    frame = pd.DataFrame(x, columns=["rain", "share", "level"])
    fitted = ProbabilisticSFA(2, transforms={"rain": "log", "share": (0, 10)}, tol=1e-3).fit(frame)
    return frame, fitted


def inner_model(fitted):
    return oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_)


def test_the_log_likelihood_is_that_of_the_data(amounts):
    frame, fitted = amounts
    x = frame.to_numpy()
    y = np.column_stack([np.log(x[:, 0]), np.log(x[:, 1] / (10.0 - x[:, 1])), x[:, 2]])
    slopes = -np.nansum(np.log(x[:, 0])) + np.nansum(np.log(10.0 / (x[:, 1] * (10.0 - x[:, 1]))))
    expected = oracle.log_likelihood(inner_model(fitted), [y]) + slopes
    np.testing.assert_allclose(fitted.log_likelihood(frame), expected, rtol=1e-10)
    np.testing.assert_allclose(fitted.log_likelihood_, expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.posterior(frame).log_likelihood, expected, rtol=1e-10)
    np.testing.assert_allclose(fitted.filter(frame).log_likelihood, expected, rtol=1e-10)
    np.testing.assert_allclose(fitted.score(frame), expected / len(frame), rtol=1e-10)


def test_the_density_of_a_value_is_the_log_normal_one(rng):
    x = np.exp(rng.standard_normal((40, 1)))
    fitted = ProbabilisticSFA(1, transforms="log", tol=10.0).fit(x)
    one = fitted.params_
    std = np.sqrt(one.loadings[0, 0] ** 2 + one.noise_variance[0])
    expected = lognorm.logpdf(x[:1, 0], s=std, scale=np.exp(one.offset[0]))
    np.testing.assert_allclose(fitted.log_likelihood(x[:1]), expected, rtol=1e-12)


def test_imputed_values_are_moments_and_quantiles_of_draws(amounts):
    frame, fitted = amounts
    filled, std = fitted.impute(frame, return_std=True)
    low, median, high = fitted.impute(frame, quantile=[0.05, 0.5, 0.95])
    draws = fitted.sample_posterior(frame, 20_000, of="values", random_state=0)
    missing = frame.isna().to_numpy()
    error = 5.0 * draws.std(axis=0)[missing] / np.sqrt(20_000)
    assert np.all(np.abs(draws.mean(axis=0) - filled.to_numpy())[missing] < error + 1e-12)
    np.testing.assert_allclose(draws.std(axis=0)[missing], std.to_numpy()[missing], rtol=0.15)
    for probability, one in ((0.05, low), (0.5, median), (0.95, high)):
        below = (draws < one.to_numpy()).mean(axis=0)[missing]
        np.testing.assert_allclose(below, probability, atol=0.012)
    assert np.all(filled.to_numpy()[~missing] == frame.to_numpy()[~missing])
    assert np.all(std.to_numpy()[~missing] == 0.0)
    assert filled["rain"].min() > 0.0 and filled["share"].between(0.0, 10.0).all()


def test_quantiles_without_transforms_are_those_of_the_normal_distribution(series):
    _, data, fitted = series
    filled, std = fitted.impute(data, return_std=True)
    np.testing.assert_allclose(fitted.impute(data, quantile=0.9), filled + norm.ppf(0.9) * std, rtol=1e-12)
    forecast = fitted.forecast(data, 2)
    np.testing.assert_allclose(
        forecast.quantile(0.9), forecast.means + norm.ppf(0.9) * forecast.std, rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"quantile.*got 1\.0"):
        fitted.impute(data, quantile=1.0)
    with pytest.raises(ValueError, match="quantile.*return_std"):
        fitted.impute(data, True, quantile=0.5)


def test_forecasts_are_in_data_units(amounts):
    frame, fitted = amounts
    forecast = fitted.forecast(frame, 3)
    assert list(forecast.means.columns) == list(frame.columns)
    assert list(forecast.means.index) == [120, 121, 122]
    draws = fitted.sample_posterior(frame, 20_000, of="values", n_steps=3, random_state=1)[:, 120:]
    error = 5.0 * draws.std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(draws.mean(axis=0) - forecast.means.to_numpy()) < error)
    high = forecast.quantile(0.95)
    assert list(high.index) == [120, 121, 122] and high["share"].max() < 10.0
    np.testing.assert_allclose((draws < high.to_numpy()).mean(axis=0), 0.95, atol=0.012)
    assert (forecast.quantile(0.001)["rain"] > 0.0).all()


def test_predictions_one_row_ahead_are_in_data_units(amounts):
    frame, fitted = amounts
    result = fitted.filter(frame)
    y = np.column_stack(
        [np.log(frame["rain"]), np.log(frame["share"] / (10.0 - frame["share"])), frame["level"]]
    )
    plain = ProbabilisticSFA.from_parameters(**fitted.params_.to_arrays()).filter(y)
    means, std = plain.predictions[:, 0], plain.prediction_std[:, 0]
    np.testing.assert_allclose(result.predictions["rain"], np.exp(means + 0.5 * std**2), rtol=1e-9)
    np.testing.assert_allclose(result.quantile(0.5)["rain"], np.exp(means), rtol=1e-9)
    np.testing.assert_allclose(result.innovations, plain.innovations, rtol=1e-8)
    np.testing.assert_allclose(row_errors(result).distances, row_errors(plain).distances, rtol=1e-8)
    np.testing.assert_allclose(gains(result), gains(plain), rtol=1e-8)
    resumed = fitted.filter(frame[60:], fitted.filter(frame[:60]).state)
    np.testing.assert_allclose(resumed.predictions, result.predictions[60:], rtol=1e-8)
    diagnostics = fitted.diagnose(frame)
    np.testing.assert_allclose(diagnostics.predictions, result.predictions, rtol=1e-8)
    np.testing.assert_allclose(diagnostics.innovations, result.innovations, rtol=1e-8)


def test_samples_and_lists_are_in_data_units(amounts):
    frame, fitted = amounts
    drawn, factors = fitted.sample(500, random_state=0)
    assert drawn[:, 0].min() > 0.0 and drawn[:, 1].min() > 0.0 and drawn[:, 1].max() < 10.0
    assert factors.shape == (500, 2)
    pieces = [frame[:50], frame[50:]]
    filled = fitted.impute(pieces)
    assert [one.shape for one in filled] == [(50, 3), (70, 3)]
    assert fitted.log_likelihood(pieces) == pytest.approx(
        sum(fitted.log_likelihood(piece) for piece in pieces), rel=1e-10
    )


def test_a_saved_model_keeps_its_transforms(amounts, tmp_path):
    frame, fitted = amounts
    fitted.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    assert again.transforms_ == fitted.transforms_ and again.transforms == fitted.transforms
    pd.testing.assert_frame_equal(again.impute(frame), fitted.impute(frame))
    assert again.log_likelihood_ == fitted.log_likelihood_


@pytest.mark.parametrize(
    "argument",
    [
        None,
        "auto",
        ["log", None],
        {"a": (0, 100), 3: "sqrt"},
        [(0.0, None), (0.0, 1.0)],
        Sqrt(0.5),
        [None, None],
    ],
)
def test_options_are_restored_from_files(argument):
    assert argument_from_json(argument_to_json(argument)) == argument


@pytest.mark.parametrize(
    "broken", [["sqrt"], ["sqrt", -1.0], ["box-cox", 3.0], ["none"], 5, ["bounds", 1.0, 0.0, 0.1], ["log", 1]]
)
def test_invalid_saved_transforms_are_refused(broken):
    with pytest.raises(ValueError, match="transforms"):
        transform_from_list(broken)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("log", 0.0, r"\bX\b.*0.*row 7, column 1 \('b'\).*0"),
        ("box-cox", -1.0, r"\bX\b.*-1.*row 7, column 1 \('b'\).*0"),
        ("sqrt", -0.5, r"\bX\b.*-0.5.*row 7, column 1 \('b'\).*0"),
        ("log1p", -0.5, r"\bX\b.*-0.5.*row 7, column 1 \('b'\).*0"),
        ((0, 100), 100.5, r"\bX\b.*100.5.*row 7, column 1 \('b'\).*0.*100"),
        ((None, 5), 6.0, r"\bX\b.*6.*row 7, column 1 \('b'\).*5"),
    ],
)
def test_values_outside_the_domain_are_refused(kind, value, message):
    frame = pd.DataFrame({"a": np.arange(1.0, 31.0), "b": np.linspace(1.0, 4.0, 30)})
    fitted = None
    if kind == (0, 100):
        fitted = ProbabilisticSFA(1, transforms={"b": kind}, tol=10.0).fit(frame)
    frame.loc[7, "b"] = value
    with pytest.raises(ValueError, match=message):
        ProbabilisticSFA(1, transforms={"b": kind}).fit(frame)
    if fitted is not None:
        with pytest.raises(ValueError, match=message):
            fitted.transform(frame)


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time")  # many values are on the bound
@pytest.mark.parametrize("kind", ["sqrt", "log1p", (0, 100), (0, None)])
def test_values_on_a_bound_are_accepted(kind, rng):
    model = oracle.Model(
        np.array([0.9]), np.array([[20.0], [25.0]]), np.array([4.0, 4.0]), np.array([20.0, 25.0])
    )
    x = np.clip(oracle.simulate(rng, model, [120])[0], 0.0, 100.0)
    x[:, 1] = 100.0 - x[:, 1] if kind == (0, 100) else x[:, 1]
    x[40:50, 0] = np.nan
    model = ProbabilisticSFA(1, transforms=kind, tol=0.1).fit(x)
    assert np.isfinite(model.log_likelihood_)
    filled, std = model.impute(x, return_std=True)
    assert filled.min() >= 0.0 and np.isfinite(std).all() and std[45, 0] > 0.0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("cube", "None"),
        (["log"], "1.*X.*2"),
        ({"c": "log"}, "column 'c'.*X"),
        ({5: "log"}, "column 5"),
        ([(1, 0), None], "upper bound"),
        ((0, "log"), "None"),
        (3.0, "float"),
    ],
)
def test_invalid_kinds_are_refused(argument, message):
    frame = pd.DataFrame({"a": np.arange(1.0, 31.0), "b": np.linspace(1.0, 4.0, 30)})
    with pytest.raises(ValueError, match=message):
        ProbabilisticSFA(1, transforms=argument).fit(frame)


def test_auto_selects_a_clearly_better_transform_and_reports_it(rng):
    model = oracle.Model(np.array([0.9]), np.array([[2.0], [2.0], [2.0]]), np.full(3, 0.3), np.zeros(3))
    [y] = oracle.simulate(rng, model, [400])
    frame = pd.DataFrame({"rain": (y[:, 0] + 3.0) ** 2, "plain": y[:, 1], "huge": np.exp(1.5 * y[:, 2])})
    fitted = ProbabilisticSFA(1, transforms="auto", tol=0.1).fit(frame)
    assert isinstance(fitted.transforms_["rain"], Sqrt)
    assert fitted.transforms_["plain"] is None
    assert isinstance(fitted.transforms_["huge"], Log)
    assert "transforms='auto' selected 'sqrt' for 'rain', 'log' for 'huge'." in fitted.status_


def test_auto_leaves_gaussian_columns_as_they_are(rng):
    model = oracle.random_model(rng, 3, 2)
    [x] = oracle.simulate(rng, model, [200])
    fitted = ProbabilisticSFA(2, transforms="auto", tol=0.1).fit(x + 20.0)
    plain = ProbabilisticSFA(2, tol=0.1).fit(x + 20.0)
    assert set(fitted.transforms_.values()) == {None}
    np.testing.assert_array_equal(fitted.loadings_, plain.loadings_)
    assert fitted.log_likelihood_ == plain.log_likelihood_
    assert "selected no transform" in fitted.status_


def test_no_noise_and_transforms(rng):
    x = np.exp(oracle.simulate(rng, oracle.random_model(rng, 2, 2), [150])[0])
    fitted = ProbabilisticSFA(2, noise=0.0, transforms="log").fit(x)
    plain = ProbabilisticSFA(2, noise=0.0).fit(np.log(x))
    np.testing.assert_allclose(fitted.transform(x), plain.transform(np.log(x)), rtol=1e-12)
    np.testing.assert_allclose(fitted.log_likelihood_, plain.log_likelihood_ - np.log(x).sum(), rtol=1e-12)
    x[3, 0] = np.nan
    assert fitted.impute(x)[3, 0] > 0.0


def test_unsupported_fits_name_the_remedy(rng):
    model = ProbabilisticSFA(1, transforms="sqrt")
    x = rng.random((50, 2))
    with pytest.raises(ValueError, match="fit_stream.*support"):
        model.fit_stream(x)
    with pytest.raises(ValueError, match="from_parameters.*support"):
        ProbabilisticSFA.from_parameters([0.5], [[1.0]], 0.1, transforms="sqrt")


def test_a_cluster_does_not_support_transforms(rng):
    dask_array = pytest.importorskip("dask.array", reason="Dask, of the dask extra, is not installed")
    x = dask_array.from_array(rng.random((50, 2)), chunks=(25, 2))
    with pytest.raises(ValueError, match="transforms are not supported"):
        probsfa.distributed.fit(ProbabilisticSFA(1, transforms="sqrt"), x)


def test_news_and_contributions_are_in_units_of_transformed_columns(amounts):
    frame, fitted = amounts
    old = frame[:119]
    new = frame.copy()
    new.iloc[118:] = [[1.0, 5.0, 0.3], [1.5, 6.0, np.nan]]
    news = fitted.news(old.assign(level=old["level"].where(old.index < 118)), new, target=(119, "level"))
    np.testing.assert_allclose(news.impacts.sum(), news.after - news.before, rtol=1e-9)
    parts = fitted.contributions(frame)
    row = int(np.flatnonzero(frame["rain"].isna())[0])
    median = fitted.impute(frame, quantile=0.5)["rain"].iloc[row]
    np.testing.assert_allclose(parts[row, 0].sum() + fitted.mean_[0], np.log(median), rtol=1e-9)


def test_a_model_without_transforms_equals_its_inner_model(series):
    _, data, fitted = series
    none = TransformedModel(fitted._model, Transforms((None,) * 5))
    sequences = fitted._check(data, None, None)
    np.testing.assert_array_equal(none.impute(sequences).values, fitted._model.impute(sequences).values)
    assert none.log_likelihood(sequences) == fitted._model.log_likelihood(sequences)
