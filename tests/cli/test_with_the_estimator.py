"""The commands with the real estimator, on small series."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probsfa
from probsfa import SFA, ProcessMonitor
from probsfa.cli import main
from probsfa.datasets import make_slow_mixture

NOISE = 0.05
# The noise is a lower bound of the error; the uncertainty of the factors adds a little.
NEAR_THE_NOISE = 1.25 * np.sqrt(NOISE)


@pytest.fixture
def mixture(tmp_path, monkeypatch):
    """Write a CSV file of a mixture with missing values; return the true values."""
    drawn = make_slow_mixture(
        400,
        6,
        timescales=[80.0, 15.0],
        noise_variance=0.05,
        offset=100.0,
        missing_fraction=0.1,
        random_state=0,
    )
    index = pd.date_range("2024-01-01", periods=400, freq="10min", name="time")
    frame = pd.DataFrame(drawn.data, index=index, columns=list("abcdef"))
    frame.to_csv(tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    return drawn


def read(path):
    """Return the numbers of a file without header and times, read by Python's exact conversion."""
    rows = list(csv.reader(Path(path).read_text().splitlines()))[1:]
    return np.array([[float(cell) for cell in row[1:]] for row in rows])


def cells(path):
    return [cell for row in csv.reader(path.read_text().splitlines()) for cell in row]


def rms(errors):
    return np.sqrt(np.mean(errors**2))


def test_impute_has_calibrated_intervals(mixture, tmp_path):
    assert main(["impute", "data.csv", "-o", "filled.csv", "--std", "std.csv", "-k", "2", "-q"]) == 0
    filled, std = read("filled.csv"), read("std.csv")
    missing = ~mixture.mask
    np.testing.assert_array_equal(filled[~missing], mixture.data[~missing])
    assert np.all(std[~missing] == 0.0)
    scaled = (filled - mixture.complete)[missing] / std[missing]
    n = missing.sum()
    # A standard normal distribution: its second moment within six standard errors of one, estimation aside.
    assert abs(np.mean(scaled**2) - 1.0) < 6.0 * np.sqrt(2.0 / n) + 0.1
    assert rms((filled - mixture.complete)[missing]) < NEAR_THE_NOISE


def test_texts_of_observed_values_are_unchanged_by_impute(mixture, tmp_path):
    assert main(["impute", "data.csv", "-o", "filled.csv", "-k", "2", "-q"]) == 0
    before, after = (cells(tmp_path / name) for name in ("data.csv", "filled.csv"))
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == (~mixture.mask).sum()
    assert all(a == "" and np.isfinite(float(b)) for a, b in changed)


def test_models_saved_by_fit_can_be_loaded(mixture, tmp_path, capsys):
    assert main(["fit", "data.csv", "-o", "model.npz", "-k", "2", "-q"]) == 0
    model = probsfa.load(tmp_path / "model.npz")
    assert list(model.feature_names_in_) == list("abcdef")
    assert model.n_components == 2
    out = capsys.readouterr().out
    assert "time scale (steps of 10 min)" in out
    assert f"log-likelihood {model.log_likelihood_:.6g} nats" in out
    assert main(["impute", "data.csv", "--model", "model.npz", "-o", "filled.csv", "-q"]) == 0
    missing = ~mixture.mask
    expected = model.impute(pd.DataFrame(mixture.data, columns=list("abcdef"))).to_numpy()
    np.testing.assert_allclose(read("filled.csv")[missing], expected[missing], atol=1e-3)


def test_uneven_rows_are_used_at_their_times(mixture, tmp_path, capsys):
    frame = pd.read_csv("data.csv", index_col="time")
    keep = np.random.default_rng(1).random(len(frame)) < 0.7
    frame[keep].to_csv("uneven.csv")
    assert main(["impute", "uneven.csv", "-o", "filled.csv", "-k", "2"]) == 0
    assert "rows are unevenly spaced, the median step is 10 min" in capsys.readouterr().err
    filled, missing = read("filled.csv"), ~mixture.mask[keep]
    assert not np.isnan(filled).any()
    assert rms((filled - mixture.complete[keep])[missing]) < NEAR_THE_NOISE


def test_compare_ranks_the_true_model_first(mixture, tmp_path):
    assert main(["compare", "data.csv", "-k", "2", "-o", "table.csv", "-q"]) == 0
    table = pd.read_csv("table.csv")
    for _, group in table.groupby("hidden"):
        assert group.loc[group["rmse"].idxmin(), "method"] == "probabilistic SFA"
        covered = group.set_index("method").loc["probabilistic SFA", "coverage"]
        assert abs(covered - 0.9) < 6.0 * np.sqrt(0.09 / 216)
    assert len(table) == 10


def test_a_single_row_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("a,b\n1,2\n")
    assert main(["fit", "one.csv", "-o", "out.npz", "-q"]) == 2
    assert (
        capsys.readouterr().err == "probsfa: error: one.csv: has 1 row of data; at least two are required.\n"
    )
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.exhaustive
def test_the_demo_has_the_results_in_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "-o", "demo", "-q"]) == 0
    table = pd.read_csv("demo/comparison.csv").set_index(["hidden", "method"])
    single, blocks = (group.droplevel(0) for _, group in table.groupby(level=0, sort=False))
    best = "probabilistic SFA"
    for group in (single, blocks):
        assert 0.86 <= group.loc[best, "coverage"] <= 0.95
        assert group["rmse"].idxmin() == best
    assert blocks["mae"].idxmin() == best
    assert single.loc[best, "rmse"] < 0.265
    assert blocks.loc[best, "rmse"] < 0.36  # for this mask, the hardest of five; their mean is 0.33


def test_a_saved_model_keeps_its_unit_of_time(tmp_path, capsys):
    """An hourly model imputes six-minute data with steps of 0.1; plain numbers of hours are rejected."""
    fine = make_slow_mixture(800, 3, timescales=[300.0, 40.0], noise_variance=0.05, random_state=1).data
    dates = pd.date_range("2024-01-01", periods=800, freq="6min", name="time")
    frame = pd.DataFrame(fine, index=dates, columns=list("abc"))
    incomplete = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    frame.iloc[::10].to_csv(tmp_path / "hourly.csv")
    incomplete.to_csv(tmp_path / "fine.csv")
    incomplete.set_axis(pd.Index(0.1 * np.arange(800), name="time")).to_csv(tmp_path / "hours.csv")
    model = tmp_path / "model.npz"
    assert main(["fit", str(tmp_path / "hourly.csv"), "-o", str(model), "-k", "2"]) == 0
    assert "time scale (steps of 1 h)" in capsys.readouterr().out
    out = tmp_path / "filled.csv"
    assert main(["impute", str(tmp_path / "fine.csv"), "--model", str(model), "-o", str(out)]) == 0
    expected = probsfa.load(model).impute(incomplete)
    filled = pd.read_csv(out, index_col=0)
    np.testing.assert_allclose(filled, expected, atol=2e-3)
    capsys.readouterr()
    assert (
        main(["impute", str(tmp_path / "hours.csv"), "--model", str(model), "-o", str(out), "--force"]) == 2
    )
    assert "was fitted to rows with dates; " in capsys.readouterr().err


@pytest.mark.parametrize("estimator", [SFA(2), ProcessMonitor(SFA(), alpha=0.1)])
def test_a_saved_model_without_imputation_is_an_error(estimator, tmp_path, capsys, rng):
    X = rng.standard_normal((60, 3)).cumsum(axis=0)
    model, data, out = (tmp_path / name for name in ("model.npz", "data.csv", "filled.csv"))
    estimator.fit(X).save(model)
    pd.DataFrame(X, columns=list("abc")).mask(X > 1.0).to_csv(data, index=False)
    assert main(["impute", str(data), "--model", str(model), "-o", str(out)]) == 2
    assert f"has a {type(estimator).__name__}, which cannot impute missing values" in capsys.readouterr().err
    assert not out.exists()


def test_a_budget_selects_the_model_and_reports_the_selection(mixture, tmp_path, capsys):
    arguments = ["impute", "data.csv", "-o", "filled.csv", "--json"]
    assert main([*arguments, "--budget", "40"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["choice"]["compared_models"] >= 1
    assert report["choice"]["description"] in captured.err
    filled = read("filled.csv")
    assert rms((filled - mixture.complete)[~mixture.mask]) < NEAR_THE_NOISE
    assert main([*arguments, "--force", "-k", "2"]) == 0  # unchanged without it
    assert "choice" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--budget", "0"], "must be a positive number of seconds; got '0'"),
        (["--budget", "5", "-k", "2"], "--budget chooses a model; it cannot be given with"),
        (["--budget", "5", "--model", "m.npz"], "--budget chooses a model; it cannot be given with"),
    ],
)
def test_invalid_budgets_are_errors(mixture, capsys, extra, message):
    try:
        code = main(["impute", "data.csv", "-o", "filled.csv", *extra])
    except SystemExit as stop:
        code = stop.code
    assert code != 0 and message in capsys.readouterr().err
