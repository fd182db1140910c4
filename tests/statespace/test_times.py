"""Times from an index, data at another rate than the fit's, and forecasts at any time ahead."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import probsfa
from probsfa import ProbabilisticSFA, select_n_components
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, scaled_error
from tests.tolerances import EXACT

HOURS = pd.date_range("2021-03-27 12:00", periods=60, freq="h", name="when")


def fitted_model(estimator):
    return oracle.Model(estimator.decay_, estimator.loadings_, estimator.noise_variance_, estimator.mean_)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(3)
    model = oracle.Model(np.array([0.9, 0.6]), rng.standard_normal((4, 2)), np.full(4, 0.2), np.zeros(4))
    return mask_values(rng, oracle.simulate(rng, model, [60]), "scattered")[0]


def as_frame(values, index):
    return pd.DataFrame(values[: len(index)], index=index, columns=list("abcd"))


def fit(X, **options):
    return ProbabilisticSFA(2, tol=1.0).fit(X, **options)


@pytest.fixture(scope="module")
def uneven():
    steps = np.random.default_rng(4).choice([1, 2, 5, 9], 60)
    return pd.DatetimeIndex(HOURS[0] + pd.to_timedelta(np.cumsum(steps), unit="h"), name="when")


@pytest.fixture(scope="module")
def hourly(values):
    return fit(as_frame(values, HOURS))


@pytest.fixture(scope="module")
def plain(values):
    return fit(values)


@pytest.fixture(scope="module")
def dated(values, uneven):
    return fit(as_frame(values, uneven))


# ---------------------------------------------------------------- the index is used


def test_an_uneven_index_is_times(values, uneven, dated):
    """The fit equals that with times=index exactly, and all methods use the index."""
    frame = as_frame(values, uneven)
    expected = fit(frame.reset_index(drop=True), times=uneven)
    for name in ("decay_", "loadings_", "timescales_", "time_unit_", "log_likelihood_", "time_unit_seconds_"):
        np.testing.assert_array_equal(getattr(dated, name), getattr(expected, name), err_msg=name)
    assert "index" not in expected.status_
    assert "index of X is used as times: rows are unevenly spaced" in dated.status_
    times = {"times": uneven.to_numpy()}
    assert dated.log_likelihood(frame) == pytest.approx(expected.log_likelihood_, rel=EXACT)
    np.testing.assert_array_equal(dated.impute(frame), expected.impute(frame.reset_index(drop=True), **times))
    expected = fit(values, times=uneven)
    assert dated.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(dated.transform(frame), dated.transform(frame, **times), rtol=1e-12)
    for method in (
        lambda X, **t: dated.posterior(X, **t).covariances,
        lambda X, **t: dated.filter(X, **t).means,
        lambda X, **t: dated.forecast(X, 2, **t).std,
        lambda X, **t: dated.bic(X, **t),
        lambda X, **t: dated.score(X, **t),
        lambda X, **t: dated.sample_posterior(X, 2, random_state=0, **t),
    ):
        np.testing.assert_allclose(method(frame), method(frame, **times), rtol=1e-10, atol=1e-12)


def test_an_uneven_index_equals_the_joint_gaussian(values, uneven, dated):
    units = [np.asarray((uneven - uneven[0]).total_seconds()) / dated.time_unit_seconds_]
    expected = oracle.joint_posterior(fitted_model(dated), [values], units)
    assert dated.log_likelihood_ == pytest.approx(expected.log_likelihood, rel=1e-9)
    assert scaled_error(dated.transform(as_frame(values, uneven)), expected.means) < 1e-7


EVEN = {
    "hours": pd.date_range(HOURS[0], periods=63, freq="h"),
    "clocks set forward": pd.date_range(HOURS[0], periods=63, freq="h")
    .tz_localize("UTC")
    .tz_convert("Europe/Berlin"),
    "local days": pd.date_range("2021-03-01", periods=63, freq="D", tz="Europe/Berlin"),
    "milliseconds": pd.date_range("2021-03-27", periods=63, freq="ms"),
    "months": pd.date_range("2001-01-31", periods=63, freq="ME"),
    "quarters": pd.period_range("2001Q1", periods=63, freq="Q"),
    "business days": pd.bdate_range("2021-01-04", periods=63),
    "the 15th": pd.DatetimeIndex([pd.Timestamp(2001 + i // 12, i % 12 + 1, 15) for i in range(63)]),
    "periods": pd.period_range("2021-01-01", periods=63, freq="15min"),
    "durations": pd.timedelta_range("0s", periods=63, freq="250ms"),
    "Python's dates": pd.Index([d.date() for d in pd.date_range("2021-01-01", periods=63)], dtype=object),
}


@pytest.mark.parametrize("name", EVEN)
def test_an_even_index_is_equivalent_to_no_index(values, plain, name):
    """The fit equals that without an index exactly, for steps of the clock or of the calendar."""
    frame = as_frame(values, EVEN[name][:60])
    expected = fit(frame.reset_index(drop=True))
    found = fit(frame)
    for each in ("decay_", "loadings_", "timescales_", "time_unit_", "log_likelihood_", "n_evaluations_"):
        np.testing.assert_array_equal(getattr(found, each), getattr(expected, each), err_msg=each)
    np.testing.assert_array_equal(found.impute(frame), expected.impute(frame.reset_index(drop=True)))
    assert "index of X is used as times: rows are evenly spaced" in found.status_
    assert expected.time_unit_seconds_ is None and found.time_unit_seconds_ > 0.0
    forecast_index = found.forecast(frame, 3).means.index
    assert [
        pd.Timestamp(x) if name == "Python's dates" else x for x in EVEN[name][60:]
    ] == forecast_index.tolist()


def test_steps_are_named_in_the_status(values):
    texts = {
        "months": "1 month apart",
        "quarters": "1 quarter apart",
        "business days": "1 business day apart",
    }
    texts |= {"hours": "1 h apart", "durations": "250 ms apart", "local days": "1 d apart"}
    for name, text in texts.items():
        assert text in fit(as_frame(values, EVEN[name][:60])).status_


def test_time_units_are_known_in_seconds(hourly, plain, dated, values):
    assert hourly.time_unit_ == 1.0 and hourly.time_unit_seconds_ == 3600.0
    np.testing.assert_array_equal(hourly.timescales_, -1.0 / np.log(hourly.decay_))
    assert dated.time_unit_ == 1.0 and dated.time_unit_seconds_ % 3600.0 == 0.0
    assert plain.time_unit_seconds_ is None
    assert fit(values, times=np.arange(60.0)).time_unit_seconds_ is None


def test_an_absent_row_does_not_change_the_unit_of_time_scales(values, hourly):
    """With an index or times=, and for periods that are given as numbers."""
    fewer = as_frame(values, HOURS).drop(HOURS[20])
    dropped, timed = fit(fewer), fit(fewer.to_numpy(), times=fewer.index)
    for model in (dropped, timed):
        assert (model.time_unit_, model.time_unit_seconds_) == (1.0, 3600.0)
        np.testing.assert_array_equal(model.timescales_, -1.0 / np.log(model.decay_))
        np.testing.assert_allclose(model.timescales_, hourly.timescales_, rtol=0.5)
        assert "time scales are in such steps (time_unit_)" in model.status_
    cycles = [ProbabilisticSFA(1, rhythms=[6.0], tol=1.0).fit(X) for X in (as_frame(values, HOURS), fewer)]
    np.testing.assert_allclose(cycles[0].rhythm_periods_, cycles[1].rhythm_periods_, rtol=0.1)


def test_rows_absent_from_an_index_are_missing_rows(values):
    kept = np.delete(np.arange(60), [10, 11, 30])
    incomplete = values.copy()
    incomplete[[10, 11, 30]] = np.nan
    model = ProbabilisticSFA(2, tol=1.0).fit(as_frame(values, HOURS))
    frame = as_frame(values, HOURS).iloc[kept]
    assert model.log_likelihood(frame) == pytest.approx(
        model.log_likelihood(as_frame(incomplete, HOURS)), rel=1e-9
    )
    assert "unevenly spaced, 1 h apart at the median" in fit(frame).status_


def test_explicit_times_have_priority_over_the_index(values, uneven):
    frame = as_frame(values, uneven)
    found = fit(frame, times=np.arange(60.0))
    assert found.time_unit_ == 1.0 and "index" not in found.status_
    np.testing.assert_allclose(found.decay_, fit(values).decay_, rtol=1e-9)


@pytest.mark.parametrize(
    "index", [pd.RangeIndex(60), pd.Index(np.arange(60) * 3), pd.Index(map(str, range(60)))]
)
def test_an_index_of_numbers_is_not_times(values, index):
    found = fit(as_frame(values, index))
    assert found.time_unit_ == 1.0 and "index" not in found.status_


@pytest.mark.parametrize(
    "index,why",
    [
        (pd.Index(np.arange(60) ** 1.5), "unevenly spaced"),
        (pd.Index(np.r_[0.0, 1.0, np.nan, 3.0:60.0]), "row 2.*times="),
        (pd.Index(np.r_[0.0:59.0, np.inf]), "row 59"),
        (pd.Index(pd.array([*range(59), None], dtype="Int64")), "row 59"),
        (pd.Index(HOURS.astype(str)), "'2021-03-27"),
        (pd.MultiIndex.from_product([["a"], HOURS]), "several levels"),
    ],
)
def test_an_index_that_seems_to_contain_times_causes_a_warning(values, index, why):
    with pytest.warns(UserWarning, match=why):
        fit(as_frame(values, index))


def test_the_warning_about_several_levels_has_code_that_reads_their_times(values):
    X = pd.DataFrame(values, index=pd.MultiIndex.from_arrays([HOURS, np.repeat(["a", "b"], 30)]))
    with pytest.warns(UserWarning, match="several levels") as warned:
        fit(X)
    series = eval(re.search(r"\[x\.droplevel.*?\)\]", str(warned[0].message))[0], {"X": X})
    assert [x.index.tolist() for x in series] == [HOURS[:30].tolist(), HOURS[30:].tolist()]


def test_each_frame_of_a_list_has_its_own_index(values, uneven):
    frame = as_frame(values, uneven)
    pieces = [frame.iloc[:40], frame.iloc[40:]]
    one = fit(pieces)
    other = fit([x.reset_index(drop=True) for x in pieces], times=[uneven[:40], uneven[40:]])
    assert one.log_likelihood_ == other.log_likelihood_ and one.time_unit_ == other.time_unit_
    cut = fit(frame, lengths=[40, 20])
    assert cut.log_likelihood_ == pytest.approx(one.log_likelihood_, rel=1e-9)
    forecasts = one.forecast(pieces, 2)
    assert [a.means.index[0] - x.index[-1] for a, x in zip(forecasts, pieces, strict=True)] == [
        pd.Timedelta(seconds=one.time_unit_seconds_)
    ] * 2
    with pytest.raises(ValueError, match=r"X\[0\].*X\[1\]"):
        fit([pieces[0], pieces[1].reset_index(drop=True)])


BAD = {
    "repeated": (
        HOURS[[*range(30), *range(29, 59)]],
        "X.index.*row 30.*ambiguous='infer'",
    ),
    "out of order": (HOURS[::-1], "X.index.*row 1.*reset_index"),
    "missing": (HOURS.where(np.arange(60) != 7), "X.index.*row 7.*NaT"),
    "missing periods": (
        pd.PeriodIndex([*pd.period_range("2021", periods=59, freq="D"), pd.NaT]),
        r"X.index must be finite",
    ),
    "repeated durations": (pd.to_timedelta([*range(59), 58], unit="s"), "row 59 .*repeats"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_index_is_refused(values, hourly, name):
    index, sentence = BAD[name]
    for method in (fit, hourly.impute):
        with pytest.raises(ValueError, match=sentence):
            method(as_frame(values, index))


def test_other_readers_of_frames_use_the_index(values, uneven):
    frame = as_frame(values, uneven)
    one = select_n_components(frame, [1], max_iter=20).table.score
    other = select_n_components(frame, [1], times=uneven, max_iter=20).table.score
    np.testing.assert_array_equal(one, other)
    without = select_n_components(values, [1], max_iter=20).table.score
    assert one.iloc[-1] != pytest.approx(without.iloc[-1], rel=1e-6)


def test_streams_read_the_index_as_fits_in_memory_do(values, uneven):
    def stream(index):
        return ProbabilisticSFA(2, tol=1.0).fit_stream(as_frame(values, index))

    found = stream(HOURS)
    assert found.time_unit_seconds_ == 3600.0 and "index of X is used" in found.status_
    six = as_frame(values, pd.date_range("2021", periods=60, freq="6min"))
    expected = oracle.log_likelihood(fitted_model(found), [values], [0.1 * np.arange(60)])
    assert found.log_likelihood(six) == pytest.approx(expected, rel=EXACT)
    streamed = stream(uneven)
    given = ProbabilisticSFA(2, tol=1.0).fit_stream(values, times=uneven)
    assert streamed.log_likelihood_ == pytest.approx(given.log_likelihood_, rel=1e-8)
    assert streamed.time_unit_ == given.time_unit_
    assert (
        streamed.time_unit_seconds_
        == ProbabilisticSFA(2, tol=1.0).fit(as_frame(values, uneven)).time_unit_seconds_
    )
    with pytest.raises(ValueError, match="X.index must increase"):
        stream(HOURS[::-1])


def test_the_zero_noise_limit_requires_even_steps(uneven):
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.standard_normal((60, 4)), axis=0)
    even = ProbabilisticSFA(2, noise=0.0).fit(as_frame(x, HOURS))
    np.testing.assert_allclose(even.decay_, ProbabilisticSFA(2, noise=0.0).fit(x).decay_, rtol=1e-12)
    assert even.time_unit_seconds_ == 3600.0 and "index of X is used" in even.status_
    assert np.isfinite(even.log_likelihood(as_frame(x, HOURS)))
    with pytest.raises(ValueError, match=r"\bX\b"):
        ProbabilisticSFA(2, noise=0.0).fit(as_frame(x, uneven))
    with pytest.raises(ValueError, match="one time_unit_"):
        even.log_likelihood(as_frame(x, HOURS[0] + (HOURS - HOURS[0]) / 10))


# ---------------------------------------------------------------- data that do not match the model


def test_an_hourly_model_applies_to_six_minute_data(values, hourly):
    """The unit of time is that of the fit: over a tenth of an hour, decays have the power 0.1."""
    index = pd.date_range("2021-05-01", periods=60, freq="6min")
    found = hourly.posterior(as_frame(values, index))
    expected = oracle.joint_posterior(fitted_model(hourly), [values], [0.1 * np.arange(60)])
    assert scaled_error(found.means, expected.means) < EXACT
    assert scaled_error(found.covariances, expected.covariances) < EXACT
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=EXACT)
    explicit = hourly.log_likelihood(as_frame(values, pd.RangeIndex(60)), times=index)
    assert explicit == pytest.approx(expected.log_likelihood, rel=1e-9)
    durations = as_frame(values, pd.timedelta_range(0, periods=60, freq="6min"))
    assert hourly.log_likelihood(durations) == pytest.approx(expected.log_likelihood, rel=EXACT)


def test_months_are_counted_by_the_calendar_of_the_fit(values):
    """Steps over a missing month and quarters are whole numbers of months, of any length in days."""
    months = pd.date_range("2001-01-01", periods=60, freq="MS")
    model = fit(as_frame(values, months))
    kept = np.delete(np.arange(60), [5, 6, 30])
    expected = oracle.log_likelihood(fitted_model(model), [values[kept]], [kept.astype(float)])
    assert model.log_likelihood(as_frame(values, months).iloc[kept]) == pytest.approx(expected, rel=EXACT)
    at_ends = as_frame(values, months + pd.offsets.MonthEnd()).iloc[kept]
    assert model.log_likelihood(at_ends) == pytest.approx(expected, rel=EXACT)
    quarters = as_frame(values, pd.period_range("2001Q1", periods=60, freq="Q"))
    expected = oracle.log_likelihood(fitted_model(model), [values], [3.0 * np.arange(60)])
    assert model.log_likelihood(quarters) == pytest.approx(expected, rel=EXACT)
    explicit = model.log_likelihood(as_frame(values, pd.RangeIndex(60)).iloc[kept], times=months[kept])
    assert explicit == pytest.approx(model.log_likelihood(as_frame(values, months).iloc[kept]), rel=1e-9)


@pytest.fixture(scope="module")
def alternating():
    rng = np.random.default_rng(0)
    model = oracle.Model(np.array([0.9, -0.8]), rng.standard_normal((4, 2)), np.full(4, 0.1), np.zeros(4))
    x = oracle.simulate(rng, model, [60])[0]
    found = fit(as_frame(x, HOURS))
    assert found.decay_.min() < 0.0
    return x, found


def test_negative_decays_refuse_steps_that_are_not_whole(alternating):
    x, model = alternating
    for steps in (
        pd.date_range("2021", periods=60, freq="6min"),
        HOURS[:1].append(HOURS[1:] + pd.Timedelta("5min")),
    ):
        with pytest.raises(ValueError, match="times.*negative"):
            model.impute(as_frame(x, steps))
    assert np.isfinite(model.log_likelihood(as_frame(x, pd.date_range("2021", periods=60, freq="2h"))))
    with pytest.raises(ValueError, match="times.*negative"):
        model.forecast(as_frame(x, HOURS), fh=[0.5])


def test_dates_and_numbers_do_not_mix(values, uneven, hourly, dated, plain):
    named = as_frame(values, pd.RangeIndex(60))
    for model in (hourly, dated):
        with pytest.raises(ValueError, match="to_timedelta"):
            model.impute(named, times=np.arange(60.0))
    numbers = fit(values, times=np.arange(60.0) ** 1.1)
    with pytest.raises(ValueError, match="plain numbers.*times"):
        numbers.impute(values, times=uneven)
    with pytest.raises(ValueError, match="index of X.*plain numbers"):
        numbers.impute(pd.DataFrame(values, index=uneven))
    with pytest.raises(ValueError, match="index of X.*without times"):
        plain.impute(pd.DataFrame(values, index=uneven))
    with pytest.raises(ValueError, match="times of X are.*without times"):
        plain.impute(values, times=uneven)
    even = pd.DataFrame(values, index=HOURS)
    np.testing.assert_allclose(plain.impute(even), plain.impute(values), rtol=1e-9)
    np.testing.assert_allclose(plain.impute(values, times=HOURS), plain.impute(values), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_without_times_cause_a_warning_after_an_uneven_fit(values, hourly, dated):
    with pytest.warns(UserWarning, match=r"X has no times.*time_unit_.*\d+"):
        dated.transform(values)
    numbers = fit(values, times=np.arange(60.0) ** 1.1)
    with pytest.warns(UserWarning, match="X has no times"):
        numbers.transform(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        even = fit(values, times=HOURS)
        even.transform(values)
        even.transform(as_frame(values, HOURS).to_numpy())


@pytest.mark.parametrize("name,gap", [("hours", 5), ("milliseconds", 0), ("months", 5), ("local days", 5)])
def test_filters_are_resumed_by_the_index(values, name, gap):
    """Filtering in parts equals filtering at once, also across missing rows and for months."""
    frame = as_frame(values, EVEN[name][:60])
    model = fit(frame)
    rows = frame.iloc[[*range(20), *range(20 + gap, 60)]]
    state, means = None, []
    for part in (rows.iloc[:10], rows.iloc[10:11], rows.iloc[11:20], rows.iloc[20:]):
        result = model.filter(part, state)
        state, means = result.state, [*means, result.means]
    np.testing.assert_allclose(np.vstack(means), model.filter(rows).means, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("which", ["hourly", "dated", "plain"])
def test_saved_models_have_their_unit_of_time(tmp_path, request, values, uneven, which):
    model = request.getfixturevalue(which)
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert loaded.time_unit_seconds_ == model.time_unit_seconds_ and loaded.status_ == model.status_
    frame = as_frame(values, pd.date_range("2021", periods=60, freq="6min"))
    frame = frame if which != "plain" else frame.set_axis(range(4), axis=1)
    assert loaded.log_likelihood(frame) == model.log_likelihood(frame)


def test_the_unit_of_time_of_models_of_earlier_versions_is_unknown(values, uneven, plain, tmp_path):
    """Their files do not contain the unit; even rows and explicit times are supported as before."""
    unknown = plain._model.fitted.axis._replace(kind="unknown")
    old = fit(values)
    object.__setattr__(old._model.fitted, "axis", unknown)
    even, odd = pd.DataFrame(values, index=HOURS), pd.DataFrame(values, index=uneven)
    np.testing.assert_allclose(old.impute(even), plain.impute(values), rtol=1e-9)
    np.testing.assert_allclose(
        old.impute(values, times=np.arange(60.0) * 2), plain.impute(values, times=np.arange(60.0) * 2)
    )
    with pytest.raises(ValueError, match="earlier version"):
        old.impute(odd)


# ---------------------------------------------------------------- forecasts


def test_forecasts_of_frames_are_frames(values, hourly):
    frame = as_frame(values, HOURS)
    out, bare = hourly.forecast(frame, 5), fit(as_frame(values, HOURS).to_numpy()).forecast(values, 5)
    expected = pd.date_range(HOURS[-1], periods=6, freq="h")[1:]
    for name in ("means", "std", "latent_means", "latent_std"):
        each = getattr(out, name)
        assert isinstance(each, pd.DataFrame) and each.index.equals(expected) and each.index.name == "when"
        assert isinstance(getattr(bare, name), np.ndarray)
    assert list(out.std.columns) == list("abcd")
    assert list(out.latent_means.columns) == list(hourly.get_feature_names_out())
    np.testing.assert_allclose(out.means, hourly.forecast(frame, fh=expected).means, rtol=1e-12)


def test_forecasts_at_uneven_times_equal_the_joint_gaussian(values, hourly):
    """The joint distribution includes rows without observations at the times of the forecast."""
    frame, steps = as_frame(values, HOURS), np.array([0.25, 1.0, 7.5])
    extended = [np.vstack([values, np.full((3, 4), np.nan)])]
    times = [np.concatenate([np.arange(60.0), 59.0 + steps])]
    means, stds = oracle.complete_entries(fitted_model(hourly), extended, times)
    horizons = (
        steps,
        pd.to_timedelta(steps, unit="h"),
        HOURS[-1] + pd.to_timedelta(steps, unit="h"),
        list((HOURS[-1] + pd.to_timedelta(steps, unit="h")).to_pydatetime()),
    )
    for fh in horizons:
        out = hourly.forecast(frame, fh=fh)
        assert scaled_error(out.means.to_numpy(), means[-3:]) < EXACT
        assert scaled_error(out.std.to_numpy(), stds[-3:]) < EXACT
        assert out.means.index.equals(pd.DatetimeIndex(horizons[2]))
    explicit = hourly.forecast(frame.reset_index(drop=True), fh=horizons[2], times=HOURS)
    assert scaled_error(explicit.means.to_numpy(), means[-3:]) < EXACT
    single = hourly.forecast(frame, fh=pd.Timedelta("15min"))
    assert scaled_error(single.std.to_numpy(), stds[-3:-2]) < EXACT


@pytest.mark.parametrize(
    "index,expected",
    [
        (pd.RangeIndex(60), [60, 61]),
        (pd.RangeIndex(10, 130, 2), [130, 132]),
        (pd.Index(np.arange(60) * 0.5), [30.0, 30.5]),
        (pd.Index(list("ab") * 30), [1, 2]),
    ],
)
def test_forecasts_continue_row_numbers(values, plain, index, expected):
    frame = pd.DataFrame(values, index=index)
    assert plain.forecast(frame, 2).means.index.tolist() == expected
    if expected == [60, 61]:
        assert isinstance(plain.forecast(frame, 2).means.index, pd.RangeIndex)
        assert plain.forecast(frame, fh=[0.5, 2]).means.index.tolist() == [59.5, 61.0]
        assert plain.forecast(frame, fh=range(2, 4)).means.index.tolist() == [61, 62]


def test_forecasts_continue_the_calendar(values):
    for name, last in (("months", "2006-02-28"), ("the 15th", "2006-02-15"), ("business days", "2021-03-30")):
        frame = as_frame(values, EVEN[name][:60])
        assert fit(frame).forecast(frame, 2).std.index[-1] == pd.Timestamp(last)
    quarters = as_frame(values, EVEN["quarters"][:60])
    model = fit(quarters)
    assert model.forecast(quarters, 2).std.index.tolist() == [pd.Period("2016Q1"), pd.Period("2016Q2")]
    # The duration of a single period is known.
    assert model.forecast(quarters.iloc[-1:], 2).std.index.tolist() == [
        pd.Period("2016Q1"),
        pd.Period("2016Q2"),
    ]
    later = model.forecast(quarters, fh=pd.PeriodIndex(["2016Q2"], freq="Q"))
    np.testing.assert_allclose(later.means, model.forecast(quarters, 2).means.iloc[1:], rtol=1e-12)
    other = as_frame(values, EVEN["months"][:60])
    assert model.forecast(other, 2).std.index.tolist() == [
        pd.Timestamp("2006-03-31"),
        pd.Timestamp("2006-06-30"),
    ]


def test_forecasts_support_dates_out_of_the_range_of_nanoseconds(values):
    days = np.datetime64("0500-03-01", "s") + np.arange(len(values)) * np.timedelta64(86_400, "s")
    old = pd.DataFrame(values, index=pd.DatetimeIndex(days))
    model = ProbabilisticSFA(1, tol=5.0).fit(old)
    forecast_index = model.forecast(old, fh=[1, 2.5]).means.index
    expected = days[-1] + np.array([86_400, 216_000]).astype("timedelta64[s]")
    np.testing.assert_array_equal(forecast_index.to_numpy(), expected)
    days = pd.date_range("2000", periods=len(old)).as_unit("ns").to_numpy()
    new = old.set_axis(pd.DatetimeIndex(days))
    far = model.forecast(new, fh=[1, 10**6]).means.index
    last = np.datetime64(new.index[-1].to_datetime64(), "s")
    np.testing.assert_array_equal(far.to_numpy(), last + np.array([1, 10**6]) * np.timedelta64(86_400, "s"))


def test_forecasts_of_other_tables(values):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(values, schema=list("abcd"), orient="row")
    model = fit(frame)
    out = model.forecast(frame, 3)
    assert out.means.columns == list("abcd") and out.latent_std.columns == list(model.get_feature_names_out())


@pytest.mark.parametrize(
    "given,sentence",
    [
        ({}, "n_steps.*fh"),
        ({"n_steps": 2, "fh": [1]}, "n_steps.*fh"),
        ({"fh": []}, r"\bfh\b"),
        ({"fh": [[1, 2]]}, r"\bfh\b"),
        ({"fh": [2, 1]}, r"\bfh\b"),
        ({"fh": [0, 1]}, r"\bfh\b"),
        ({"fh": [np.nan]}, r"\bfh\b"),
        ({"fh": ["2021-04-01"]}, r"\bfh\b"),
        ({"fh": HOURS[-1:]}, r"\bfh\b"),
        (
            {"fh": HOURS[[3, 2]]},
            r"\bfh\b.*times",
        ),
        ({"fh": pd.to_timedelta(["-1h"])}, r"\bfh\b"),
        ({"fh": pd.DatetimeIndex(["2022"], tz="UTC")}, "both"),
    ],
)
def test_horizons_are_checked(values, hourly, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        hourly.forecast(as_frame(values, HOURS), **given)


def test_horizons_of_dates_require_dates(values, hourly, plain):
    with pytest.raises(ValueError, match="fh.*duration"):
        plain.forecast(values, fh=HOURS + pd.Timedelta("9D"))
    with pytest.raises(ValueError, match="X.*no dates"):
        hourly.forecast(as_frame(values, pd.RangeIndex(60)), fh=HOURS + pd.Timedelta("9D"))


@pytest.mark.parametrize("option", ["rhythms", "smooth"])
def test_periods_and_time_scales_may_be_shorter_than_the_unit_of_times(rng, option):
    x, times = rng.standard_normal((40, 2)).cumsum(axis=0), 0.1 * np.arange(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ProbabilisticSFA(1, max_iter=1, **{option: [0.8]}).fit(x, times=times)
    assert 0.1 < (fitted.rhythm_periods_ if option == "rhythms" else fitted.smooth_timescales_)[0] < 8.0
    with pytest.raises(ValueError, match="positive numbers; got 0.0"):
        ProbabilisticSFA(1, **{option: [0.0]}).fit(x, times=times)


def test_new_rows_without_times_of_an_uneven_model_warn(rng):
    """The advice names only sources of times that the model uses."""
    x = np.cumsum(rng.standard_normal((60, 3)), axis=0)
    times = np.cumsum(rng.uniform(0.5, 2.0, 60))
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(times, unit="h")
    of_numbers, of_dates = (ProbabilisticSFA(1).fit(x, times=values) for values in (times, dates))
    with pytest.warns(UserWarning, match=r"^X has no times, .* Pass times= as in fit\.$"):
        of_numbers.transform(x)
    with pytest.warns(UserWarning, match=r"^The evenly spaced index of X is not used, .* as in fit\.$"):
        of_numbers.transform(pd.DataFrame(x, index=pd.date_range("2020-01-01", periods=60, freq="h")))
    with pytest.warns(UserWarning, match=r"^X has no times, .* or a DataFrame with a time index\.$"):
        of_dates.transform(x)
