"""Every kind of input of the documentation is read as documented."""

import argparse
import re

import numpy as np
import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli._parser import make_parser, parse
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import read_input
from tests.cli.tables import page
from tests.cli.tables.cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_kind_of_input(case, tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    args = parse(["impute", str(path), "--dry-run", *case.options])
    if case.error:
        with pytest.raises(CommandError) as error:
            read_input(args, Screen())
        assert case.error in str(error.value)
        assert "\n" not in str(error.value)
        return
    series = read_input(args, Screen())
    output = capsys.readouterr().err
    assert tuple(series.names) == case.data
    assert tuple(series.table.names[j] for j in series.column_roles.time) == case.time
    assert series.row_times.step == case.step
    if case.times is None:
        assert series.row_times.times is None
    else:
        np.testing.assert_allclose(series.row_times.times, case.times)
    for message in case.messages:
        assert message in output
    for name, values in case.values.items():
        np.testing.assert_array_equal(series.values[:, series.names.index(name)], values)


def test_the_table_of_the_documentation_is_up_to_date():
    assert page.current() == page.generated(), "run python -m tests.cli.tables.page"


def test_options_that_the_documentation_names_exist():
    text = page.PAGE.read_text(encoding="utf-8")
    known = {option for action in _options() for option in action.option_strings}
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
        assert option in known, option


def _options():
    [commands] = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return [action for parser in commands.choices.values() for action in parser._actions]
