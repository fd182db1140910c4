"""Any file is read or rejected with one message, and imputation changes only its missing values."""

import csv
import io
import json
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from probsfa.cli import main
from probsfa.cli._checks import check_arguments
from probsfa.cli._errors import CommandError
from probsfa.cli._parser import parse
from probsfa.cli._screen import Screen
from probsfa.cli.tables.content import read_content
from probsfa.cli.tables.input import read_input
from tests.cli.csv_files import csv_files, filling_files

# The same cases in every run.
FEW = settings(max_examples=100, derandomize=True, database=None, deadline=None)
MANY = settings(FEW, max_examples=2500, suppress_health_check=list(HealthCheck))
FEW_FITS = settings(FEW, max_examples=4, suppress_health_check=list(HealthCheck))
MANY_FITS = settings(MANY, max_examples=100)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "data.csv"


class Silence(Screen):
    """A screen without output."""

    def warn(self, text):
        assert len(text.splitlines()) == 1


def check_reading(file, path):
    path.write_bytes(file.data)
    args = parse(["impute", str(path), "--dry-run", "-q", *file.options])
    try:
        check_arguments(args)
        series = read_input(args, Silence(quiet=True))
    except CommandError as error:
        assert str(error).strip()
        assert len(str(error).splitlines()) == 1
        return
    assert series.values.shape == (len(series.table.rows), len(series.column_roles.data))
    assert np.all(np.isfinite(series.values) | np.isnan(series.values))
    assert sum(len(rows) for rows in series.row_times.sequences) == len(series.values)
    if series.row_times.times is not None:
        assert np.all(np.isfinite(series.row_times.times))
        assert all(np.all(np.diff(series.row_times.times[rows]) > 0) for rows in series.row_times.sequences)
    json.dumps(series.interpretation_as_dict(), allow_nan=False)
    assert series.interpretation_as_text()
    check_filling(series, file, path)


def records(text, table):
    """Return the values of all records, read by Python's csv module."""
    lines = io.StringIO(text, newline="")
    return list(csv.reader(lines, delimiter=table.delimiter, skipinitialspace=table.delimiter != " "))


def check_filling(series, file, path):
    """Put a number into every missing value, and compare the file value by value."""
    table = series.table
    assert b"".join(table.content.encoded(table.filled(lambda row: []))) == file.data
    missing = np.isnan(series.values)
    after = "".join(
        table.filled(lambda row: [(series.column_roles.data[i], "7") for i in np.flatnonzero(missing[row])])
    )
    # Lines in front of the table may contain any quotation marks.
    before, after = (
        records("".join(text.splitlines(keepends=True)[table.n_skipped :]), table)
        for text in (table.content.text, after)
    )
    if not table.n_skipped:
        expected = [list(record) for record in before]
        for row, i in np.argwhere(missing):
            record = expected[table.rows[row]]
            record[series.column_roles.data[i] :] = ["7", *record[series.column_roles.data[i] + 1 :]]
        assert [[value.strip() for value in r] for r in after] == [
            [value.strip() for value in r] for r in expected
        ]


@FEW
@given(file=csv_files())
def test_any_file_is_read_or_causes_one_error(file, path):
    check_reading(file, path)


@pytest.mark.nightly
@MANY
@given(file=csv_files())
def test_many_files_are_read_or_cause_one_error(file, path):
    check_reading(file, path)


def check_impute(file, path):
    """Impute the missing values of a file."""
    output = path.with_name("filled.csv")
    path.write_bytes(file.data)
    command = ["impute", str(path), "-o", str(output), *"--force -q -k 1 --max-iter 1".split(), *file.options]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = main(command)
    assert code in (0, 2)
    if code == 0:
        args = parse(["impute", str(path), "--dry-run", "-q", *file.options])
        series = read_input(args, Silence(quiet=True))
        table, missing = series.table, np.isnan(series.values)
        before, after = (records(read_content(p).text, table) for p in (path, output))
        for row, place in enumerate(table.rows):
            for i, j in enumerate(series.column_roles.data):
                if missing[row, i]:
                    assert np.isfinite(float(after[place][j].replace(table.decimal, ".")))
                else:
                    assert after[place][j] == before[place][j]
    output.unlink(missing_ok=True)


@FEW_FITS
@given(file=filling_files())
def test_a_file_is_imputed_or_causes_one_error(file, path):
    check_impute(file, path)


@pytest.mark.nightly
@MANY_FITS
@given(file=filling_files())
def test_many_files_are_imputed_or_cause_one_error(file, path):
    check_impute(file, path)
