"""The commands from end to end, with a stand-in for the estimator."""

import csv
import gzip
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import num2date

import probsfa
from probsfa import imputation
from probsfa.cli import _pictures, demo, main
from probsfa.cli._parser import parse

DATA = """\
time,temp,rain ,note
2020-01-01 00:00,1.50,-200,dry
2020-01-01 01:00,,3,wet
2020-01-01 02:00, 2.5e0,4.00,
2020-01-01 03:00,NA,5,"a, b"
"""


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(DATA)
    return path


@pytest.fixture
def weather_like(tmp_path):
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((80, 3)), axis=0).round(2)
    frame = pd.DataFrame(
        X, columns=["a", "b", "c"], index=pd.date_range("2020", periods=80, freq="h", name="time")
    )
    frame.iloc[10:14, 0] = np.nan
    path = tmp_path / "weather.csv"
    frame.to_csv(path)
    return path


IMPUTE = ("impute", "data.csv", "--columns", "temp,rain", "--missing-code", "-200")


def test_impute_replaces_missing_values_only(command, data, tmp_path):
    result = command(*IMPUTE, "-o", "filled.csv", "--std", "std.csv")
    assert result.code == 0
    assert result.out == ""
    # The means are 2 and 4, the standard deviations 0.5 and 0.8.
    assert (tmp_path / "filled.csv").read_text() == (
        DATA.replace("-200", "4.0000").replace("01:00,,", "01:00,2.0000,").replace("NA", "2.0000")
    )
    rows = list(csv.reader((tmp_path / "std.csv").read_text().splitlines(), skipinitialspace=True))
    assert rows[0] == ["time", "temp", "rain ", "note"]
    assert [row[1] for row in rows[1:]] == ["0", "0.5", "0", "0.5"]
    assert [row[2] for row in rows[1:]] == ["0.8165", "0", "0", "0"]
    assert [row[0] for row in rows[1:]] == [line.split(",")[0] for line in DATA.splitlines()[1:]]
    assert data.read_text() == DATA


def test_impute_reports_how_it_read_the_file(command, data):
    err = command(*IMPUTE, "-o", "filled.csv").err
    assert (
        "data.csv: 4 rows of 2 columns, 37.5 % of the values missing; rows are evenly spaced, 1 h apart"
        in err
    )
    assert "data: temp, rain\n" in err
    assert "time: time, read as year-month-day\n" in err
    assert "left out: note (text)\n" in err
    assert "model: 2 factors and white noise in each column, converged after 4 iterations\n" in err
    assert "3 missing values filled: filled.csv" in err


def test_quiet_suppresses_all_notes(command, data):
    result = command(*IMPUTE, "-o", "filled.csv", "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_impute_gz_and_decimal_comma(command, tmp_path):
    text = "t;a;b\r\n1;1,50;2\r\n2;;3\r\n3;2,5;\r\n"
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(text.encode()))
    result = command("impute", "in.csv.gz", "-o", "out.csv.gz", "--decimal", ",", "--std", "std.csv")
    assert result.code == 0
    filled = gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode()
    assert filled == text.replace("2;;3", "2;2,0000;3").replace("2,5;", "2,5;2,5000")
    assert (tmp_path / "std.csv").read_bytes().decode().splitlines()[2] == "2;0,5;0"


def test_semicolons_and_decimal_commas_are_inferred(command, tmp_path):
    text = "Zeit;a;b\r\n0,0;1,50;2\r\n0,5;;3\r\n1,0;2,5;\r\n"
    (tmp_path / "in.csv").write_bytes(text.encode())
    result = command("impute", "in.csv", "--time", "Zeit", "-o", "out.csv")
    assert result.code == 0
    assert "numbers are read with a decimal comma; use --decimal . for a decimal point" in result.err
    assert "rows are evenly spaced" in result.err
    filled = (tmp_path / "out.csv").read_bytes().decode()
    assert filled == text.replace("0,5;;3", "0,5;2,0000;3").replace("2,5;", "2,5;2,5000")
    result = command("impute", "in.csv", "-o", "out2.csv", "--decimal", ".")
    assert result.code == 2
    assert "--decimal" in result.err


def test_uneven_times_are_passed_to_the_estimator(command, tmp_path, stand_in):
    (tmp_path / "in.csv").write_text("t,a,b\n0,1,1\n1,2,\n4,3,3\n5,5,4\n")
    assert command("impute", "in.csv", "-o", "out.csv").code == 0
    np.testing.assert_array_equal(stand_in.calls[0].times, [0.0, 1.0, 4.0, 5.0])
    assert command("impute", "in.csv", "-o", "out.csv", "--even", "--force").code == 0
    assert stand_in.calls[1].times is None


def test_model_options_are_passed_to_the_estimator(command, data, stand_in):
    assert command(*IMPUTE, "-o", "f.csv", "-k", "1", "--max-iter", "9", "--seed", "4").code == 0
    model = stand_in.calls[0].model
    assert (model.n_components, model.max_iter, model.random_state) == (1, 9, 4)


@pytest.mark.parametrize("argv", [["demo"], ["compare", "x.csv"], ["fit", "x.csv", "-o", "m.npz"]])
def test_all_commands_that_fit_have_the_options_of_the_model(argv):
    args = parse([*argv, "-k", "1", "--max-iter", "9", "--seed", "4"])
    assert (args.n_components, args.max_iter, args.seed) == (1, 9, 4)


def test_impute_draws_a_figure_of_the_missing_blocks(command, data, tmp_path):
    assert command(*IMPUTE, "-o", "filled.csv", "--plot", "values.png").code == 0
    assert (tmp_path / "values.png").read_bytes()[:4] == b"\x89PNG"


def test_impute_without_missing_values(command, tmp_path, stand_in):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n3,5\n4,4\n")
    result = command("impute", "in.csv", "-o", "out.csv", "--plot", "p.svg", "--std", "s.csv", "-q")
    assert result.code == 0
    assert result.err == "probsfa: warning: no value is missing; the output is a copy of the file.\n"
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "in.csv").read_bytes()
    assert (tmp_path / "s.csv").read_text() == "a,b\n0,0\n0,0\n0,0\n"
    assert stand_in.calls == []


@pytest.mark.parametrize("subcommand", ["impute", "fit"])
@pytest.mark.parametrize(
    ("iterations", "options", "note"),
    [
        (
            200,
            (),
            "the fit stopped after 200 iterations (--max-iter) without convergence. Filled values are",
        ),
        (
            9,
            ("--max-iter", "9"),
            "the fit stopped after 9 iterations (--max-iter) without convergence. Fil",
        ),
        (
            900,
            ("--max-iter", "900"),
            "the fit stopped after 900 iterations (--max-iter) without convergence. Increase",
        ),
        (20, (), "the fit stopped before convergence."),
    ],
)
def test_a_fit_that_stopped_early_causes_one_note(
    command, data, stand_in, monkeypatch, subcommand, iterations, options, note
):
    fit = stand_in.fit

    def stop(self, X, y=None, **others):
        fit(self, X, y, **others)
        self.converged_, self.n_evaluations_ = False, iterations
        self.status_ = "Stopped: see tol, max_iter and the compiled engine."
        return self

    monkeypatch.setattr(stand_in, "fit", stop)
    result = command(subcommand, *IMPUTE[1:], "-o", "out", "-q", *options)
    assert result.code == 0
    assert result.err.startswith(f"probsfa: warning: {note}")
    assert result.err.count("\n") == 1
    assert not re.search("tol|max_iter|engine", result.err + result.out)


@pytest.mark.filterwarnings("always")
def test_a_warning_of_another_library_is_one_note(command, data, stand_in, monkeypatch):
    def fit(self, X, y=None, **others):
        warnings.warn("something is odd,\nlook at it", RuntimeWarning, stacklevel=1)
        return stand_in.fit_as_ever(self, X, y, **others)

    monkeypatch.setattr(stand_in, "fit_as_ever", stand_in.fit, raising=False)
    monkeypatch.setattr(stand_in, "fit", fit)
    result = command(*IMPUTE, "-o", "filled.csv", "-q")
    assert (result.code, result.err) == (0, "probsfa: warning: something is odd, look at it\n")


@pytest.mark.filterwarnings("always")
def test_warnings_about_parameters_in_python_are_not_shown(command, data, stand_in, monkeypatch):
    def fit(self, X, y=None, **others):
        warnings.warn("Use EmissionSFA(n_components=2) for counts.", UserWarning, stacklevel=1)
        return stand_in.fit_as_ever(self, X, y, **others)

    def impute(self, X, **others):
        warnings.warn("X is filled no better than by linear interpolation; see n_components.", stacklevel=1)
        return stand_in.impute_as_ever(self, X, **others)

    monkeypatch.setattr(stand_in, "fit_as_ever", stand_in.fit, raising=False)
    monkeypatch.setattr(stand_in, "impute_as_ever", stand_in.impute, raising=False)
    monkeypatch.setattr(stand_in, "fit", fit)
    monkeypatch.setattr(stand_in, "impute", impute)
    result = command(*IMPUTE, "-o", "filled.csv", "-q")
    assert result.err.startswith(
        "probsfa: warning: linear interpolation fills single missing values of this file"
    )
    assert result.err.count("\n") == 1 and "n_components" not in result.err


def test_a_frequent_code_for_missing_values_is_an_error(command, tmp_path, stand_in):
    (tmp_path / "in.csv").write_text("a,b\n1,-999\n3,5\n4,-999\n2,7\n")
    for subcommand in ("impute", "fit", "compare"):
        result = command(subcommand, "in.csv", "-o", "out.csv", "-q")
        assert result.code == 2
        assert (
            "likely codes for missing values: -999 in 'b' (2 rows). Use --missing-code=-999 if" in result.err
        )
    assert stand_in.calls == []
    assert command("impute", "in.csv", "-o", "out.csv", "--missing-code=-999").code == 0
    assert (tmp_path / "out.csv").read_text() == "a,b\n1,6.000\n3,5\n4,6.000\n2,7\n"
    result = command("impute", "in.csv", "-o", "same.csv", "--missing-code=", "-q")
    assert (result.code, result.err.count("-999")) == (0, 0)
    assert (tmp_path / "same.csv").read_text() == (tmp_path / "in.csv").read_text()


@pytest.mark.parametrize(("n_codes", "code"), [(2, 0), (3, 2)])
def test_a_code_is_frequent_above_one_percent_of_the_rows(command, tmp_path, stand_in, n_codes, code):
    rows = [f"{i % 7},{-999 if i < n_codes else i % 5}" for i in range(200)]
    (tmp_path / "in.csv").write_text("\n".join(["a,b", *rows, ""]))
    assert command("impute", "in.csv", "-o", "out.csv", "-q").code == code


def test_one_error_names_all_codes_and_their_columns(command, tmp_path):
    rows = [f"{-200 if i % 3 else i},{-200 if i % 4 else 2 * i},{9999 if i % 5 else i}" for i in range(60)]
    (tmp_path / "in.csv").write_text("\n".join(["a,b,c", *rows, ""]))
    err = command("impute", "in.csv", "-o", "out.csv", "--missing-code", "x").err
    assert "-200 in 'a' (40 rows), 'b' (45 rows); 9999 in 'c' (48 rows)" in err
    assert "Use --missing-code=x,-200,9999 if they stand for missing values" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "time,a\n2020-01-01,1\n2020-01-02,x\n",
            "in.csv: values that are not numbers: column 'a': 'x' (1, first in row 3)",
        ),
        ("a;b\n1;2\n3;x\n", "in.csv: values that are not numbers: column 'b': 'x' (1, first in row 3)"),
        ("a,b\n1,2\n3\n", "in.csv: row 3 has 1 values and row 1 has 2"),
        ("a,b\n1,\n3,\n", "in.csv: column 'b' has no values"),
        (
            "time,a\n2020-01-02,1\n2020-01-01,2\n",
            "in.csv: row 3, column 'time': '2020-01-01' is not later than",
        ),
        ("", "in.csv: the file is empty"),
        (None, "in.csv: there is no such file"),
    ],
)
@pytest.mark.parametrize("subcommand", ["impute", "fit", "compare"])
def test_an_invalid_file_is_one_error_message_and_changes_no_output(
    command, tmp_path, subcommand, content, message
):
    if content is not None:
        (tmp_path / "in.csv").write_text(content)
    (tmp_path / "out").write_text("old")
    result = command(subcommand, "in.csv", "-o", "out", "--force", "--quiet")
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"probsfa: error: {message}")
    assert result.err.count("\n") == 1
    assert (tmp_path / "out").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} <= {"in.csv", "out"}


@pytest.mark.parametrize("arguments", [["demo"], ["impute", "in.csv", "-o", "out.csv", "--plot", "out.png"]])
def test_a_figure_without_matplotlib_is_an_error_before_the_fit(tmp_path, arguments):
    (tmp_path / "in.csv").write_text("a,b\n1,\n2,3\n")
    code = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'matplotlib' else found(name)\n"
        "from probsfa.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    result = run_code(code, *arguments, folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.endswith(
        "error: the figure requires matplotlib; install it by `pip install matplotlib`.\n"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv"}


def test_a_wrong_delimiter_is_an_error(command, tmp_path):
    (tmp_path / "in.csv").write_text("a;b\n1;2\n3;4\n")
    result = command("impute", "in.csv", "-o", "out.csv", "--delimiter", ",", "-q")
    assert result.code == 2
    assert "column 'a;b': '1;2' (1, first in row 2), '3;4' (1, first in row 3)" in result.err
    assert "--delimiter" in result.err


@pytest.mark.parametrize("delimiter", ["ab", "", '"'])
def test_invalid_delimiters_are_errors(command, data, delimiter):
    result = command("impute", "data.csv", "-o", "out.csv", "--delimiter", delimiter)
    assert result.code == 2
    assert "--delimiter must be one character or 'tab'" in result.err


def test_tab_as_delimiter(command, tmp_path):
    (tmp_path / "in.tsv").write_text("a\tb\n1\t2\n\t4\n3\t3\n")
    assert command("impute", "in.tsv", "-o", "out.tsv", "--delimiter", "tab").code == 0
    assert (tmp_path / "out.tsv").read_text() == "a\tb\n1\t2\n2.000\t4\n3\t3\n"


def test_existing_outputs_are_errors_before_the_fit(command, data, tmp_path, stand_in):
    (tmp_path / "std.csv").write_text("old")
    result = command(*IMPUTE, "-o", "filled.csv", "--std", "std.csv")
    assert result.code == 2
    assert "std.csv: exists already; replace it with --force" in result.err
    assert stand_in.calls == []
    assert not (tmp_path / "filled.csv").exists()
    assert command(*IMPUTE, "-o", "filled.csv", "--std", "std.csv", "--force").code == 0
    assert (tmp_path / "std.csv").read_text() != "old"


def test_the_input_is_never_overwritten(command, data):
    result = command(*IMPUTE, "-o", "data.csv", "--force")
    assert result.code == 2
    assert "is the input file" in result.err
    assert data.read_text() == DATA


def test_unknown_figure_formats_are_errors_before_the_fit(command, data, stand_in):
    result = command(*IMPUTE, "-o", "filled.csv", "--plot", "p.xyz")
    assert result.code == 2
    assert "p.xyz: is not a figure file name" in result.err
    assert stand_in.calls == []


def test_an_error_of_the_estimator_is_one_error_message(command, data, stand_in, monkeypatch):
    def fail(self, X, y=None, **options):
        raise ValueError("n_components=9 is too many:\n  the rank is 2.")

    monkeypatch.setattr(stand_in, "fit", fail)
    result = command(*IMPUTE, "-o", "filled.csv", "-q")
    assert result.code == 2
    assert result.err == "probsfa: error: -k=9 is too many: the rank is 2.\n"


def test_an_interrupt_after_the_fit_ends_the_command(command, data, tmp_path, stand_in, monkeypatch):
    def interrupt(self, X, return_std=False, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(stand_in, "impute", interrupt)
    result = command(*IMPUTE, "-o", "filled.csv", "-q")
    assert result.code == 130
    assert result.err == "probsfa: error: interrupted; no file was written.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_fit_saves_a_model_that_impute_uses(command, weather_like, tmp_path, stand_in):
    result = command("fit", "weather.csv", "-o", "model.npz")
    assert result.code == 0
    assert (tmp_path / "model.npz").exists()
    assert command("impute", "weather.csv", "--model", "model.npz", "-o", "saved.csv").code == 0
    assert len(stand_in.calls) == 1
    assert command("impute", "weather.csv", "-o", "fresh.csv").code == 0
    assert (tmp_path / "saved.csv").read_bytes() == (tmp_path / "fresh.csv").read_bytes()


def test_fit_prints_a_summary(command, weather_like):
    lines = command("fit", "weather.csv", "-o", "model.npz", "-k", "2", "-q").out.splitlines()
    assert lines[0].split() == "factor time scale (steps of 1 h)".split()
    assert [line.split() for line in lines[1:3]] == [["1", "10"], ["2", "5"]]
    assert lines[5].split()[0] == "a"
    assert lines[5].split()[2:] == ["25", "%"]
    assert lines[-1] == "log-likelihood -1234.5 nats, -15.43 per row"


def test_a_model_of_other_columns_is_an_error(command, weather_like, tmp_path):
    assert command("fit", "weather.csv", "-o", "model.npz").code == 0
    result = command("impute", "weather.csv", "--model", "model.npz", "--columns", "b,a,c", "-o", "o.csv")
    assert result.code == 2
    assert "model.npz: was fitted to the columns a, b, c; weather.csv has b, a, c" in result.err
    result = command("impute", "weather.csv", "--model", "model.npz", "-k", "2", "-o", "o.csv")
    assert "--n-components and --max-iter cannot be given with --model" in result.err


def test_compare(command, weather_like, tmp_path):
    result = command(
        "compare", "weather.csv", "-o", "table.csv", "--block", "6", "--masks", "2", "--fraction", "0.2"
    )
    assert result.code == 0
    assert "20 % of the observed values hidden, single values" in result.out
    assert "20 % of the observed values hidden, in blocks of 6 rows" in result.out
    methods = ["mean", "linear interpolation", "IterativeImputer", "classic SFA", "probabilistic SFA"]
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table["method"]) == 2 * methods
    assert "probabilistic SFA" not in result.err  # the progress bar is for terminals
    # The stand-in imputes the mean.
    np.testing.assert_allclose(
        *(table.loc[table["method"] == m, "rmse"] for m in ("mean", "probabilistic SFA"))
    )


def test_a_block_longer_than_the_file_is_an_error(command, weather_like):
    result = command("compare", "weather.csv", "--block", "81", "-q")
    assert result.code == 2
    assert result.err == "probsfa: error: --block must be at most the number of rows, 80; got 81.\n"


def test_too_few_values_to_hide_are_one_error_message(command, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n3,\n,4\n")
    result = command("compare", "in.csv", "--block", "2", "-q")
    assert result.code == 2
    assert result.err == "probsfa: error: Too few observed values to hide some of them. Use more rows.\n"


@pytest.fixture
def short_weather(monkeypatch):
    """Reduce the data of the demo to ten days."""
    complete = probsfa.datasets.load_nyc_weather()
    short = type(complete)(data=complete.data[1000:1400], time=complete.time[1000:1400])
    monkeypatch.setattr(demo, "load_nyc_weather", lambda **options: short)
    return short.data


def test_demo(command, tmp_path, short_weather):
    result = command("demo")
    assert result.code == 0
    folder = tmp_path / "probsfa-demo"
    assert {path.name for path in folder.iterdir()} == {
        "demo.png",
        "nyc_weather_filled.csv",
        "comparison.csv",
    }
    assert "Written to probsfa-demo: demo.png, nyc_weather_filled.csv, comparison.csv" in result.out
    assert "hidden, in blocks of 24 rows" in result.out
    filled = pd.read_csv(folder / "nyc_weather_filled.csv", index_col="time", parse_dates=True)
    assert not filled.isna().to_numpy().any()
    observed = short_weather.notna().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy()[observed], short_weather.to_numpy()[observed])
    assert (folder / "demo.png").read_bytes()[:4] == b"\x89PNG"
    assert len(pd.read_csv(folder / "comparison.csv")) == 10


def test_a_second_demo_writes_to_another_folder(command, tmp_path, short_weather):
    (tmp_path / "probsfa-demo").mkdir()
    (tmp_path / "probsfa-demo-2").mkdir()
    assert "Written to probsfa-demo-3:" in command("demo").out
    assert list((tmp_path / "probsfa-demo").iterdir()) == []


def test_demo_replaces_only_with_force(command, tmp_path, short_weather):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "demo.png").write_text("old")
    result = command("demo", "--output", "mine")
    assert result.code == 2
    assert "demo.png: exists already" in result.err
    assert command("demo", "--output", "mine", "--force").code == 0
    assert (tmp_path / "mine" / "demo.png").read_bytes()[:4] == b"\x89PNG"
    assert not (tmp_path / "probsfa-demo").exists()
    assert command("demo", "--output", "new/deep", "-q").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["impute", "data.csv"], "-o/--output"),
        (["fit", "data.csv", "-o", "m.npz", "-k", "0"], "must be an integer of at least 1; got '0'"),
        (["fit", "data.csv", "-o", "m.npz", "-k", "x"], "must be an integer of at least 1; got 'x'"),
        (["compare", "data.csv", "--fraction", "1"], "must be above 0 and below 1; got '1'"),
        (["compare", "data.csv", "--masks", "0"], "must be an integer of at least 1; got '0'"),
        (["compare", "data.csv", "--block", "0"], "must be an integer of at least 1; got '0'"),
        (["frobnicate"], "invalid choice"),
    ],
)
def test_invalid_arguments(command, arguments, message):
    result = command(*arguments)
    assert result.code == 2
    assert message in result.err


def test_probsfa_alone_prints_help(command):
    result = command()
    assert (result.code, result.err) == (0, "")
    assert all(subcommand in result.out for subcommand in ("demo", "impute", "fit", "compare"))


def run_python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


def run_code(code, *arguments, folder):
    """Run code with arguments in a folder, with the package of these tests."""
    environment = {**os.environ, "PYTHONPATH": str(Path(probsfa.__file__).parents[1])}
    return run_python("-c", code, *arguments, cwd=folder, env=environment)


def test_version_and_help_import_no_large_library():
    code = (
        "import sys; from probsfa.cli import main\n"
        "try: main([sys.argv[1]])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert not {'numpy', 'pandas', 'jax', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    result = run_python("-c", code, "--version")
    assert (result.returncode, result.stdout) == (0, f"probsfa {probsfa.__version__}\n")
    result = run_python("-c", code, "--help")
    assert result.returncode == 0
    assert all(subcommand in result.stdout for subcommand in ("demo", "impute", "fit", "compare"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["impute", "missing.csv", "-o", "out.csv"], "missing.csv: there is no such file."),
        (["fit", "in.csv", "-o", "old.csv"], "old.csv: exists already; replace it with --force."),
        (["impute", "in.csv", "-o", "out.csv", "--model", "no.npz"], "no.npz: there is no such file."),
        (["compare", "in.csv", "-o", "none/out.csv"], "there is no folder"),
        (["impute", "in.csv", "-o", "out.csv", "--plot", "p.xyz"], "p.xyz: is not a figure file name"),
        (["impute", "in.csv", "-o", "out.csv", "--delimiter", "ab"], "--delimiter must be one character"),
        (["impute", "in.csv", "-o", "out.csv", "--budget", "5", "-k", "2"], "--budget chooses a model"),
        (["impute", "in.csv", "--dry-run", "--sort", "--even"], "--sort requires times"),
        (
            ["impute", "in.csv", "--dry-run", "--epoch", "s", "--date-format", "%Y"],
            "--date-format is for texts",
        ),
        (["impute", "in.xlsx", "-o", "out.csv"], "in.xlsx: is not a text file; save the table as CSV."),
        (["demo", "-o", "folder"], "demo.png: exists already; replace it with --force."),
    ],
)
def test_files_and_options_are_checked_before_any_library_is_imported(tmp_path, arguments, message):
    (tmp_path / "in.csv").write_text("a,b\n1,\n2,3\n")
    (tmp_path / "old.csv").write_text("old")
    (tmp_path / "in.xlsx").write_bytes(b"PK\x03\x04\x14\0\0\0")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "demo.png").write_text("old")
    code = (
        "import sys; from probsfa.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "assert not {'numpy', 'pandas', 'jax', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(code)"
    )
    result = run_code(code, *arguments, folder=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith("probsfa: error: ")
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_a_file_is_read_before_the_model_is_imported(tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,\n2,x\n3,4\n")
    code = (
        "import sys; from probsfa.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "assert not {'jax', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(code)"
    )
    result = run_python("-c", code, "impute", str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv"))
    assert (result.returncode, "values that are not numbers" in result.stderr) == (2, True)


def test_the_package_can_be_run_as_a_module():
    result = run_python("-m", "probsfa", "--version")
    assert result.stdout == f"probsfa {probsfa.__version__}\n"


def test_a_broken_pipe_has_its_exit_code():
    # In a separate process, because the command closes its standard output.
    code = (
        "import sys; from probsfa.cli import demo, main\n"
        "def leave(args, screen): raise BrokenPipeError\n"
        "demo.run = leave\n"
        "sys.exit(main(['demo']))"
    )
    result = run_python("-c", code)
    assert (result.returncode, result.stderr) == (141, "")


def test_main_uses_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["probsfa", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out == f"probsfa {probsfa.__version__}\n"


@pytest.mark.parametrize(
    ("missing", "block", "shown"),
    [
        ([0, 0, 1, 1, 0, 1], slice(2, 4), slice(0, 6)),
        ([1] * 5 + [0] * 200, slice(0, 5), slice(0, 65)),
        ([0] * 300 + [1] * 100 + [0] * 300, slice(300, 400), slice(200, 500)),
        ([0] * 300 + [1] * 2000, slice(300, 2300), slice(60, 780)),
        ([0] * 9, slice(0, 0), slice(0, 9)),
    ],
)
def test_rows_of_a_figure_of_missing_blocks(missing, block, shown):
    assert _pictures.longest_block(np.array(missing, dtype=bool)) == block
    assert _pictures.window(block, len(missing)) == shown


@pytest.mark.parametrize("n", [41, 60, 200])
def test_the_figure_of_the_demo_shows_the_segment_with_the_most_missing_values(rng, n):
    """Missing values near the ends of the segment do not count, except at the start of the data."""
    for missing in (rng.random(n) < 0.3, np.arange(n) < 20):
        counts = [np.count_nonzero(missing[start : start + 30]) for start in range(n - 29)]
        start = max(int(np.argmax(counts)) - 5, 0)
        assert _pictures._segment_with_most_missing(missing, 40) == slice(start, start + 40)


def test_the_figure_of_the_demo_shows_hidden_values_and_the_complete_series(rng):
    values, times = rng.standard_normal((1200, 2)), pd.date_range("2013", periods=1200, freq="h")
    hidden = values.copy()
    hidden[700:760, 1] = np.nan
    methods = (imputation.EstimatorImputation, imputation.LinearInterpolation)
    filled = {method.name: SimpleNamespace(values=values, std=None) for method in methods}
    model = SimpleNamespace(posterior=lambda x: SimpleNamespace(means=x[:, :1], std=np.ones((len(x), 1))))
    figure = _pictures.draw_demo(
        pd.DataFrame(values, times, ["other", "temp_LGA"]),
        SimpleNamespace(incomplete=hidden, filled=filled),
        model,
    )
    shown = [[np.datetime64(d.replace(tzinfo=None)) for d in num2date(ax.get_xlim())] for ax in figure.axes]
    assert times[0] <= shown[0][0] < times[700] and times[759] < shown[0][1] <= times[-1]
    assert shown[1][0] <= times[0] and times[-1] <= shown[1][1]
