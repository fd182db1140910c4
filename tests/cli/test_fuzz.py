"""Whatever a file holds, it is read or refused in a sentence, and filling changes its holes alone."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from probsfa.cli import main
from probsfa.cli._errors import CommandError
from probsfa.cli._parser import parse
from probsfa.cli._screen import Screen
from probsfa.cli.tables.cells import cut
from probsfa.cli.tables.content import read_content
from probsfa.cli.tables.input import read_input
from tests.cli.csv_files import csv_files, filling_files
from tests.cli.tables.changes import changes

# The same cases in every run.
FEW = settings(max_examples=100, derandomize=True, database=None, deadline=None)
MANY = settings(FEW, max_examples=2500, suppress_health_check=list(HealthCheck))
FEW_FITS = settings(FEW, max_examples=4, suppress_health_check=list(HealthCheck))
MANY_FITS = settings(MANY, max_examples=100)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "data.csv"


class Silence(Screen):
    """A screen that shows nothing."""

    def warn(self, text):
        assert len(text.splitlines()) == 1


def check_reading(file, path):
    path.write_bytes(file.data)
    args = parse(["impute", str(path), "--dry-run", "-q", *file.options])
    try:
        series = read_input(args, Silence(quiet=True))
    except CommandError as error:
        assert str(error).strip()
        assert len(str(error).splitlines()) == 1
        return
    assert series.values.shape == (len(series.table.rows), len(series.plan.data))
    assert np.all(np.isfinite(series.values) | np.isnan(series.values))
    assert sum(len(rows) for rows in series.clock.sequences) == len(series.values)
    if series.clock.times is not None:
        assert np.all(np.isfinite(series.clock.times))
        assert all(np.all(np.diff(series.clock.times[rows]) > 0) for rows in series.clock.sequences)
    json.dumps(series.plan_as_dict(), allow_nan=False)
    assert series.plan_as_text()
    check_filling(series, file, path)


def check_filling(series, file, path):
    """Put a number into every hole, and compare the file cell by cell."""
    table = series.table
    assert b"".join(table.filled(changes({}))) == file.data
    holes = np.isnan(series.values)
    rows_of = {j: np.flatnonzero(holes[:, i]).tolist() for i, j in enumerate(series.plan.data)}
    texts = {j: dict.fromkeys(rows, "7") for j, rows in rows_of.items()}
    before = table.cells
    path.write_bytes(b"".join(table.filled(changes(texts))))
    after = cut(read_content(path), table.delimiter)
    np.testing.assert_array_equal(after.lines, before.lines)
    filled = {int(before.lines[table.rows[row]]) + j for j, new in texts.items() for row in new}
    for cell in range(len(before.starts)):
        text = after.raw(cell)
        assert text.strip().strip('"') == "7" if cell in filled else text == before.raw(cell)


@FEW
@given(file=csv_files())
def test_any_file_is_read_or_refused_in_a_sentence(file, path):
    check_reading(file, path)


@pytest.mark.nightly
@MANY
@given(file=csv_files())
def test_many_files_are_read_or_refused_in_a_sentence(file, path):
    check_reading(file, path)


def check_impute(file, path):
    """Fill the holes of a file for good."""
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
        after = cut(read_content(output), series.table.delimiter)
        before, holes = series.table.cells, np.isnan(series.values)
        for i, j in enumerate(series.plan.data):
            for row, line in enumerate(series.table.rows):
                cell = int(before.lines[line]) + j
                if holes[row, i]:
                    assert series.table.style.number(after.texts(np.array([cell]))[0]) is not None
                else:
                    assert after.raw(cell) == before.raw(cell)
    output.unlink(missing_ok=True)


@FEW_FITS
@given(file=filling_files())
def test_a_file_is_filled_with_numbers_or_refused(file, path):
    check_impute(file, path)


@pytest.mark.nightly
@MANY_FITS
@given(file=filling_files())
def test_many_files_are_filled_with_numbers_or_refused(file, path):
    check_impute(file, path)
