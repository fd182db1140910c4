"""The monitor: false alarm rate, detection and diagnosis of faults, and errors."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from probsfa import SFA, ProbabilisticSFA, ProcessMonitor, load
from probsfa.datasets import make_slow_mixture

MODELS = {"sfa": SFA(), "sfa, 2 features": SFA(2), "probabilistic": ProbabilisticSFA(2, tol=1.0)}


def normal_rows(seed, n_rows):
    """Return normal rows of a process with two slow factors and five sensors."""
    return make_slow_mixture(n_rows, 5, decay=[0.9, 0.6], noise_variance=0.3, random_state=seed).data


@pytest.fixture(scope="module")
def process():
    return normal_rows(0, 24_000)


@pytest.fixture(scope="module", params=MODELS)
def monitor(request, process):
    return ProcessMonitor(MODELS[request.param], alpha=0.05).fit(process[:1500])


def test_false_alarm_rate_is_nominal_in_new_normal_rows(monitor, process):
    assert 0.03 <= monitor.false_alarm_rate_ <= 0.05
    assert np.mean(monitor.predict(process[1500:6000])) == pytest.approx(0.05, abs=0.02)


def test_each_chart_has_the_nominal_rate_if_limits_are_not_joint(process):
    monitor = ProcessMonitor(SFA(2), alpha=0.05, joint=False).fit(process[:12_000])
    above = monitor.score_samples(process[12_000:]) > pd.Series(monitor.limits_)
    np.testing.assert_allclose(above.mean(), 0.05, atol=0.012)
    assert np.mean(monitor.predict(process[12_000:])) > 0.08


@pytest.mark.parametrize("column", [0, 3])
def test_a_step_in_one_column_is_detected_and_diagnosed(monitor, process, column):
    faulty = process[1500:2100].copy()
    faulty[300:, column] += 5.0 * process[:, column].std()
    alarms = monitor.predict(faulty)
    assert np.mean(alarms[:300]) < 0.12
    assert np.mean(alarms[300:]) > 0.8
    contributions = monitor.contributions(faulty)
    assert contributions.shape == faulty.shape
    first = contributions[300:][alarms[300:]].to_numpy().argmax(axis=1)
    assert np.mean(first == column) > 0.7


def test_a_window_detects_small_persistent_faults(process):
    faulty = process[1500:2500].copy()
    faulty[200:, 1] += 1.0 * process[:, 1].std()
    detection_rates, false_alarm_rates = {}, {}
    for window in (1, 30):
        monitor = ProcessMonitor(SFA(), alpha=0.05, window=window).fit(process[2500:13_000])
        alarms = monitor.predict(faulty)
        assert not alarms[: window - 1].any()
        detection_rates[window], false_alarm_rates[window] = (
            np.mean(alarms[260:]),
            np.mean(monitor.predict(process[13_000:])),
        )
        assert np.isnan(monitor.contributions(faulty, "T2").to_numpy()[: window - 1]).all()
    assert detection_rates[30] > detection_rates[1] + 0.2
    assert false_alarm_rates[30] == pytest.approx(0.05, abs=0.03)


def test_missing_values_are_allowed_with_the_probabilistic_model(process, rng):
    X = np.where(rng.random(process.shape) < 0.2, np.nan, process)
    X[1600] = np.nan
    monitor = ProcessMonitor(MODELS["probabilistic"], alpha=0.05).fit(X[:1500])
    new = X[1500:3500].copy()
    assert np.mean(monitor.predict(new)) == pytest.approx(0.05, abs=0.025)
    assert monitor.score_samples(new).iloc[100].isna().all()
    assert not monitor.predict(new)[100]
    new[1000:, 4] += 5.0 * process[:, 4].std()
    observed = ~np.isnan(new[1000:, 4])
    assert np.mean(monitor.predict(new)[1000:][observed]) > 0.7
    assert monitor.contributions(new, "residual").iloc[1000:].mean().idxmax() == 4
    with pytest.raises(ValueError, match=r"\bX\b.*NaN.*row 0.*ProbabilisticSFA\(n_components\)"):
        ProcessMonitor(SFA()).fit(X[1600:])


def test_incomplete_rows_have_no_statistic_if_sfa_skips_them(process, rng):
    X = process[:800].copy()
    X[100] = np.nan
    monitor = ProcessMonitor(SFA(missing="skip"), alpha=0.05).fit(X)
    assert monitor.score_samples(X).iloc[100].isna().all()
    assert not monitor.predict(X)[100]


def test_held_out_statistics_are_from_fits_to_the_other_rows(process):
    X = process[:200]
    monitor = ProcessMonitor(SFA(), alpha=0.1, n_folds=2).fit(X)
    for held_out, training in ((slice(0, 100), slice(100, 200)), (slice(100, 200), slice(0, 100))):
        features = SFA().fit(X[training]).transform(X[held_out])
        expected = np.sum(features[:, : monitor.n_slow_] ** 2, axis=1)
        np.testing.assert_allclose(monitor.held_out_["T2"].to_numpy()[held_out], expected)


def test_outputs_of_lists_frames_and_lengths(process):
    when = pd.date_range("2024", periods=300, freq="min")
    frame = pd.DataFrame(process[:300], index=when, columns=list("abcde"))
    by_frame = ProcessMonitor(SFA(), alpha=0.1).fit(frame)
    table = by_frame.score_samples(frame)
    assert table.index.equals(when)
    assert tuple(table.columns) == by_frame.statistics_
    contributions = by_frame.contributions(frame)
    assert list(contributions.columns) == list("abcde")
    assert contributions.index.equals(when)
    pieces = [process[:120], process[120:300]]
    of_list = ProcessMonitor(SFA(), alpha=0.1).fit(pieces)
    of_lengths = ProcessMonitor(SFA(), alpha=0.1).fit(process[:300], lengths=[120, 180])
    assert of_list.limits_ == of_lengths.limits_
    listed = of_list.score_samples(pieces)
    assert [len(part) for part in listed] == [120, 180]
    together = of_list.score_samples(process[:300], lengths=[120, 180])
    np.testing.assert_array_equal(np.concatenate(listed), together)
    assert [len(part) for part in of_list.predict(pieces)] == [120, 180]


def test_times_are_passed_to_the_model(process, rng):
    times = np.cumsum(rng.choice([1.0, 2.0], 600))
    model = ProbabilisticSFA(1, max_iter=5, tol=10.0)
    with pytest.warns(UserWarning):
        monitor = ProcessMonitor(model, alpha=0.1).fit(process[:600], times=times)
    new = np.arange(50.0) * 1.5
    direct = monitor.model_.filter(process[600:650], times=new)
    expected = direct.means[:, 0] ** 2 / (1.0 - direct.covariances[:, 0, 0])
    np.testing.assert_allclose(monitor.score_samples(process[600:650], times=new)["T2"], expected)


def test_long_windows_of_few_rows_cause_a_warning(process):
    with pytest.warns(UserWarning, match="independent averages over window=50 rows"):
        ProcessMonitor(SFA(), window=50).fit(process[:3000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ProcessMonitor(SFA(), window=5).fit(process[:3000])


def test_a_window_longer_than_all_segments_is_an_error(process):
    pieces = [process[i : i + 20] for i in range(0, 200, 20)]
    with pytest.raises(ValueError, match="window=30 leaves no row"):
        ProcessMonitor(SFA(), window=30).fit(pieces)


def test_invalid_models_and_arguments_are_errors(process):
    X = process[:100]
    for options, message in [
        ({"model": 3}, "model.*SFA.*ProbabilisticSFA"),
        ({"model": ProbabilisticSFA(1, robust=True)}, "robust=True or transforms"),
        ({"model": ProbabilisticSFA(1, transforms="log")}, "robust=True or transforms"),
        ({"model": ProbabilisticSFA(1, noise=0.0)}, "Use SFA"),
        ({"alpha": 0.0}, "alpha.*0.*1.*0.0"),
        ({"alpha": "x"}, "alpha.*0.*1.*'x'"),
        ({"window": 0}, "window"),
        ({"n_folds": 1}, "n_folds"),
        ({"n_slow": 9}, "n_slow=9.*5"),
        ({"n_folds": 60}, "120 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            ProcessMonitor(**options).fit(X)
    with pytest.raises(NotFittedError):
        ProcessMonitor().predict(X)
    monitor = ProcessMonitor(alpha=0.1).fit(X)
    with pytest.raises(ValueError, match="statistic.*got 'Q'"):
        monitor.contributions(X, "Q")
    with pytest.raises(ValueError, match="X.*features"):
        monitor.predict(X[:, :3])


def test_a_saved_monitor_raises_the_same_alarms(monitor, process, tmp_path):
    monitor.save(tmp_path / "monitor.npz")
    again = load(tmp_path / "monitor.npz")
    new = process[1500:1700].copy()
    new[100:, 2] += 5.0
    assert again.limits_ == monitor.limits_
    pd.testing.assert_frame_equal(again.held_out_, monitor.held_out_)
    pd.testing.assert_frame_equal(again.score_samples(new), monitor.score_samples(new))
    np.testing.assert_array_equal(again.predict(new), monitor.predict(new))
    pd.testing.assert_frame_equal(again.contributions(new), monitor.contributions(new))
    assert clone(again).get_params()["alpha"] == monitor.alpha


def test_a_saved_monitor_reads_dates_of_frames(process, tmp_path):
    when = pd.date_range("2024", periods=300, freq="min")
    frame = pd.DataFrame(process[:300], index=when, columns=list("abcde"))
    monitor = ProcessMonitor(ProbabilisticSFA(1, tol=10.0), alpha=0.1).fit(frame)
    monitor.save(tmp_path / "monitor.npz")
    again = load(tmp_path / "monitor.npz")
    table = again.score_samples(frame)
    pd.testing.assert_frame_equal(table, monitor.score_samples(frame))
    assert table.index.equals(when)
    assert again.feature_names_in_.tolist() == list("abcde")


def test_parameters_are_not_changed_by_fit(process):
    monitor = ProcessMonitor(SFA(3), alpha=0.1, n_slow=2, window=3, n_folds=4, joint=False)
    again = clone(monitor).fit(process[:200])
    assert again.get_params()["model__n_components"] == 3
    assert not hasattr(monitor.model, "components_")  # the given model is not fitted
    assert not hasattr(again.model, "components_")
    assert again.n_slow_ == 2
    assert again.statistics_ == ("T2", "T2 fast", "S2", "S2 fast", "residual")


def test_the_figure_shows_statistics_limits_and_alarms(monitor, process):
    X = process[1500:1700].copy()
    X[100:, 0] += 20.0
    truth = np.arange(200) >= 100
    axes = monitor.plot(X, truth=truth)
    table, alarms = monitor.score_samples(X), monitor.predict(X)
    marked = np.zeros(200, dtype=bool)
    for ax, name in zip(axes, monitor.statistics_, strict=True):
        line, above, limit = ax.get_lines()
        np.testing.assert_array_equal(line.get_ydata(), table[name])
        np.testing.assert_array_equal(limit.get_ydata(), monitor.limits_[name])
        marked[np.asarray(above.get_xdata(), dtype=int)] = True
        assert ax.get_ylabel() == name
    np.testing.assert_array_equal(marked, alarms)
    with pytest.raises(ValueError, match=r"truth.*got \(5,\)"):
        monitor.plot(X, truth=truth[:5])
    with pytest.raises(ValueError, match="limits"):
        from probsfa.plots.monitoring import plot_control_charts

        plot_control_charts(table, {})


def test_folds_with_other_charts_are_errors(rng):
    X = rng.standard_normal((200, 4)).cumsum(axis=0)
    X[:, 3] = np.where(np.arange(200) // 20 == 2, rng.standard_normal(200), 0.0)  # in one fold only
    with pytest.raises(ValueError, match="S2, S2 fast.*T2"):
        ProcessMonitor(SFA(), alpha=0.2, n_slow=3).fit(X)
    ProcessMonitor(SFA(2), alpha=0.2).fit(X)
