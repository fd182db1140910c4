"""Options for reading a file, from end to end, with a stand-in for the estimator."""

import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from probsfa.cli import main

STATIONS = """\
time,site,a,b
2020-01-01,N,1,20
2020-01-02,N,,21
2020-01-01,S,10,190
2020-01-03,N,4,22
2020-01-02,S,20,
2020-01-03,S,30,250
"""
SHUFFLED = "time,a\n2020-01-03,3\n2020-01-01,1\n2020-01-02,\n2020-01-05,5\n"


@pytest.fixture
def written(tmp_path):
    """Write a file into the folder in which commands run."""

    def write(text, name="in.csv"):
        (tmp_path / name).write_text(text)
        return name

    return write


def test_dry_run_reports_the_roles_of_columns_and_writes_nothing(command, written, tmp_path, stand_in):
    written(STATIONS)
    for subcommand in ("impute", "fit", "compare"):
        result = command(subcommand, "in.csv", "--dry-run", "--group", "site")
        assert result.code == 0
        assert [line.split()[:3] for line in result.out.splitlines()[1:5]] == [
            ["time", "time", "dates"],
            ["site", "group", "--group"],
            ["a", "data", "1"],
            ["b", "data", "1"],
        ]
        assert "in.csv: 6 rows of 2 columns" in result.err
    assert stand_in.calls == []
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_dry_run_as_json(command, written):
    plan = json.loads(
        command("impute", written(STATIONS), "--dry-run", "--json", "--group", "site", "-q").out
    )
    assert plan["rows"] == 6
    assert [column["role"] for column in plan["columns"]] == ["time", "group", "data", "data"]
    assert [column["missing"] for column in plan["columns"]] == [None, None, 1, 1]
    assert plan["time"] == {
        "columns": ["time"],
        "read_as": "year-month-day",
        "evenly_spaced": True,
        "step": "1 d",
    }
    assert plan["sequences"] == [3, 3]
    assert plan["missing_cells"] == 2


def test_an_output_is_required_except_for_a_dry_run(command, written):
    result = command("impute", written(STATIONS))
    assert result.code == 2
    assert "-o/--output (or --dry-run)" in result.err


def test_results_as_json(command, written):
    written(STATIONS)
    fitted = json.loads(command("fit", "in.csv", "--group", "site", "-o", "m.npz", "--json", "-q").out)
    assert fitted["plan"]["file"] == "in.csv"
    assert fitted["model"]["timescales"] == [10.0, 5.0]
    assert fitted["model"]["step"] == "1 d"
    assert set(fitted["model"]["noise_std"]) == {"a", "b"}
    filled = json.loads(command("impute", "in.csv", "--group", "site", "-o", "o.csv", "--json", "-q").out)
    assert (filled["filled_cells"], filled["outputs"]) == (2, ["o.csv"])


def test_scores_as_json(command, written):
    rows = "\n".join(f"{(7 * i) % 5},{(3 * i) % 7}" for i in range(30))
    result = command("compare", written(f"a,b\n{rows}\n"), "--block", "3", "--json", "-q")
    ways = json.loads(result.out)["hidden"]
    assert len(ways) == 2
    assert ways[0]["scores"][0]["method"] == "mean"


def test_json_and_a_file_cannot_share_standard_output(command, written):
    result = command("impute", written(STATIONS), "-o", "-", "--json")
    assert result.code == 2
    assert "--json and an output of - both write to standard output" in result.err


def test_groups_are_independent_sequences(command, written, tmp_path, stand_in):
    assert command("impute", written(STATIONS), "--group", "site", "-o", "out.csv").code == 0
    [call] = stand_in.calls
    # In the order of the groups, as concatenated by the stand-in.
    np.testing.assert_array_equal(call.lengths, [3, 3])
    np.testing.assert_array_equal(call.X[:, 0], [1, np.nan, 4, 10, 20, 30])
    # Means of all observed values, in the rows that were empty.
    expected = STATIONS.replace("N,,21", "N,13.0000,21").replace("S,20,\n", "S,20,125.75\n")
    filled = (tmp_path / "out.csv").read_text()
    assert [line.split(",")[:2] for line in filled.splitlines()] == [
        line.split(",")[:2] for line in expected.splitlines()
    ]
    assert float(filled.splitlines()[2].split(",")[2]) == 13.0


def test_numeric_times_of_groups_are_passed_unchanged_to_the_model(command, written, stand_in):
    text = "t,site,a\n0,N,1\n2,N,\n4,N,3\n10,S,1\n14,S,2\n16,S,5\n"
    assert command("impute", written(text), "--group", "site", "-o", "out.csv").code == 0
    [call] = stand_in.calls
    np.testing.assert_array_equal(np.concatenate(call.times), [0, 2, 4, 10, 14, 16])


def test_compare_supports_groups(command, written, stand_in):
    rows = "".join(f"{i},{site},{(7 * i) % 5},{(3 * i) % 7}\n" for site in "NS" for i in range(30))
    result = command("compare", written("t,site,a,b\n" + rows), "--group", "site", "--block", "3")
    assert result.code == 0
    assert "group: site; 2 sequences" in result.err
    np.testing.assert_array_equal(stand_in.calls[0].lengths, [30, 30])


def test_errors_name_a_row_without_a_group(command, written):
    result = command("impute", written("t,site,a\n0,N,1\n1,,2\n"), "--group", "site", "--dry-run", "-q")
    assert result.code == 2
    assert "row 3, column 'site' is empty; every row requires a group" in result.err


def test_the_model_is_fitted_to_sorted_rows_and_the_file_keeps_its_order(
    command, written, tmp_path, stand_in
):
    assert command("impute", written(SHUFFLED), "-o", "out.csv").code == 2
    result = command("impute", "in.csv", "--sort", "-o", "out.csv", "--std", "std.csv", "--plot", "p.png")
    assert result.code == 0
    [call] = stand_in.calls
    np.testing.assert_array_equal(call.X[:, 0], [1, np.nan, 3, 5])
    assert call.times is None
    assert list(call.index[0].day) == [1, 2, 3, 5]
    assert (tmp_path / "out.csv").read_text() == SHUFFLED.replace("02,\n", "02,3.000\n")
    assert [line.split(",")[1] for line in (tmp_path / "std.csv").read_text().splitlines()[1:]] == [
        "0",
        "0",
        "1.633",
        "0",
    ]


def test_rows_with_equal_times_cannot_be_sorted(command, written):
    text = "time,a\n2020-01-03,3\n2020-01-01,1\n2020-01-03,2\n"
    result = command("impute", written(text), "--sort", "--dry-run", "-q")
    assert result.code == 2
    assert "row 4, column 'time': '2020-01-03' is also the time of row 2. Remove one of them" in result.err


def test_sorting_requires_times(command, written):
    result = command("impute", written("a,b\n3,1\n1,2\n"), "--sort", "--dry-run", "-q")
    assert result.code == 2
    assert "--sort requires times; name their columns with --time" in result.err


@pytest.mark.parametrize(
    "codes",
    [
        ["--missing-code", "-999,-99.9,?"],
        ["--missing-code=-999, -99.9", "--missing-code", "?"],
        ["--missing-code", "-999", "--missing-code", "-99.9", "--missing-code", "?"],
    ],
)
def test_several_missing_codes(command, written, tmp_path, codes):
    text = "a,b\n-999,1\n2,-99.9\n3,?\n4,5\n"
    assert command("impute", written(text), *codes, "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == "a,b\n3.0000,1\n2,3.000\n3,3.000\n4,5\n"


def test_missing_codes_with_a_decimal_comma(command, written, tmp_path):
    text = "a;b\n-99,9;1,5\n2,5;-1\n3,5;2,5\n"
    assert command("impute", written(text), "--missing-code", "-99,9;-1", "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == "a;b\n3,0000;1,5\n2,5;2,0000\n3,5;2,5\n"


def test_errors_name_a_model_that_cannot_be_opened(command, written, tmp_path):
    data = written("a,b\n1,\n2,3\n3,5\n")
    (tmp_path / "folder").mkdir()
    for path, message in (("no.npz", "there is no such file."), ("folder", "cannot be read (")):
        result = command("impute", data, "--model", path, "-o", "out.csv", "-q")
        assert result.code == 2 and f"probsfa: error: {path}: {message}" in result.err


def test_excluded_columns_are_unchanged(command, written, tmp_path, stand_in):
    text = "a,b,c\n1,,x1\n2,3,4\n3,5,\n"
    assert command("impute", written(text), "--exclude", "c", "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == text.replace("1,,x1", "1,4.000,x1")
    for options, message in [
        (("--columns", "c"), "named by both --columns and --exclude"),
        (("--time", "c"), "named by both --time and --exclude"),
        (("--exclude", "d"), "there is no column 'd'"),
        (("--group", "a", "--columns", "a"), "named by both --columns and --group"),
        (("--group", "c"), "named by both --group and --exclude"),
        (("--group", "a", "--time", "a"), "named by both --time and --group"),
        (("--columns", "a", "--time", "a"), "named by both --columns and --time"),
    ]:
        result = command("impute", "in.csv", "--exclude", "c", *options, "--dry-run", "-q")
        assert result.code == 2
        assert message in result.err


def test_a_name_may_contain_a_comma(command, written, stand_in):
    text = '"wind, east",b\n1,\n2,5\n3,4\n'
    result = command("impute", written(text), "--columns", "wind, east", "--columns", "b", "-o", "out.csv")
    assert result.code == 0
    assert list(stand_in.calls[0].model.feature_names_in_) == ["wind, east", "b"]


def test_thousands_separators(command, written, tmp_path):
    text = 'a,b\n"1,234",1\n,2\n"2,234.5",4\n'
    result = command("impute", written(text), "-o", "out.csv", "-q")
    assert result.code == 2
    assert "--thousands if they are numbers written in another way" in result.err
    assert command("impute", "in.csv", "--thousands", ",", "-o", "out.csv", "-q").code == 0
    assert (tmp_path / "out.csv").read_text() == text.replace("\n,2", "\n1734.2,2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--thousands", "ab"], "--thousands must be one character"),
        (["--thousands", "."], "--thousands and --decimal are both '.'"),
        (["--skip-rows", "-1"], "must be an integer of at least 0"),
        (["--skip-rows", "9"], "the file is empty after the rows of --skip-rows"),
        (["--epoch", "s"], "--epoch requires one column of numbers"),
        (["--date-format", "%Q"], "'%Q' is not a format"),
        (
            ["--time", "time", "--date-format", "%d.%m.%Y"],
            "not of the format '%d.%m.%Y': '2020-01-03', '2020-01-01'",
        ),
    ],
)
def test_invalid_options_are_one_error_message(command, written, options, message):
    result = command("impute", written(SHUFFLED), *options, "--dry-run", "-q")
    assert result.code == 2
    assert message in result.err


def test_skipped_rows_are_copied_to_the_output(command, written, tmp_path):
    text = "a logger, 2020;\n\na;b\n1;2\n;3\n4;6\n"
    assert command("impute", written(text), "--skip-rows", "2", "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == text.replace("\n;3", "\n2.500;3")


def test_standard_streams(command, monkeypatch):
    stdin = SimpleNamespace(buffer=io.BytesIO(b"a,b\n1,2\n,3\n5,6\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    result = command("impute", "-", "-o", "-")
    assert result.code == 0
    assert result.out == "a,b\n1,2\n3.000,3\n5,6\n"
    assert "standard input: 3 rows of 2 columns" in result.err


def test_a_model_on_standard_output_is_the_only_output(stand_in, written, tmp_path, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["fit", written(SHUFFLED), "--sort", "-o", "-", "-q"]) == 0
    out = capfdbinary.readouterr().out
    assert np.load(io.BytesIO(out))["mean"] == [3.0]


def test_scores_on_standard_output_are_the_only_output(command, written):
    rows = "\n".join(f"{(7 * i) % 5},{(3 * i) % 7}" for i in range(30))
    result = command("compare", written(f"a,b\n{rows}\n"), "--block", "3", "-o", "-")
    assert result.out.startswith("hidden,method,rmse")
    assert "coverage (90 %)" in result.err


def test_a_saved_model_selects_its_columns(command, written, tmp_path):
    written("t,a,id\n1,5,3\n2,,4\n3,6,9\n", "all.csv")
    assert command("fit", "all.csv", "--columns", "a,id", "-o", "model.npz").code == 0
    assert command("impute", "all.csv", "--model", "model.npz", "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == "t,a,id\n1,5,3\n2,5.5000,4\n3,6,9\n"


def test_imputed_values_that_are_not_finite_are_not_written(
    command, written, tmp_path, stand_in, monkeypatch
):
    def overflow(self, X, return_std=False, **others):
        values = np.where(np.isnan(X), np.nan, X)
        return values, np.zeros(X.shape)

    monkeypatch.setattr(stand_in, "impute", overflow)
    result = command("impute", written("a,b\n1,2\n,3\n5,6\n"), "-o", "out.csv", "-q")
    assert result.code == 2
    assert "row 3, column 'a': the imputed value is not finite, so that no file was written" in result.err
    assert not (tmp_path / "out.csv").exists()


def test_warnings_are_written_with_quiet_too(command, written):
    text = "a,b\n" + "".join(f"{i % 3},{1048 if i == 5 else -999 if i == 7 else i}\n" for i in range(130))
    result = command("impute", written(text), "--dry-run", "--json", "-q")
    notes = result.err.splitlines()
    assert "-999 in 'b' (1 row) is far from all other values" in notes[0]
    assert "row 7, column 'b': 1048 lies" in notes[1]
    assert len(json.loads(result.out)["warnings"]) == 2


def test_names_of_binary_tables_are_errors_for_outputs(command, written):
    written(STATIONS)
    for arguments in (["impute", "in.csv", "-o", "out.xlsx"], ["compare", "in.csv", "-o", "out.parquet"]):
        result = command(*arguments)
        assert result.code == 2
        assert "is not a CSV file name; use an extension .csv, .csv.gz or .zip" in result.err


@pytest.mark.parametrize("text", ["1234,567", "0,234"])
def test_commas_that_do_not_separate_thousands_are_decimal_marks(command, written, text):
    name = written(f"a;b\n{text};1\n{text};2\n")
    assert json.loads(command("impute", name, "--dry-run", "--json", "-q").out)["decimal"] == ","
