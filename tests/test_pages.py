"""The Python code of pages of the site runs as it is printed."""

import re
from pathlib import Path

import pytest

from tests.statespace.support import needs_core

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: Libraries that a block of code requires in addition to those of the tests.
OPTIONAL = ("polars", "xarray")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text("utf-8"), flags=re.M | re.S)


def runnable(code):
    """Whether all libraries that a block imports are installed."""
    for name in OPTIONAL:
        if re.search(rf"^import {name}\b", code, flags=re.M):
            try:
                __import__(name)
            except ImportError:
                return False
    return True


@needs_core  # without the compiled engine each model is compiled first
@pytest.mark.parametrize("page", ["imputer.md", "adapters.md"])
@pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")
def test_code_of_a_page_runs(page, capsys):
    namespace = {}
    for code in filter(runnable, blocks(page)):
        exec(compile(code, f"docs/{page}", "exec"), namespace)
        printed = capsys.readouterr().out.splitlines()
        expected = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.M)
        assert printed == expected
