"""The notebooks have the cells of their sources and no outputs that depend on the machine.

All of them are executed by `python tutorials/build.py --check`; here only the first is, as a plain script.
"""

import ast
import copy
import importlib.util
import json
import os
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "tutorials"
SOURCES = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def load_builder():
    spec = importlib.util.spec_from_file_location("tutorials_build", FOLDER / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


builder = load_builder()


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def outputs_of(notebook):
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def test_numbers_of_tutorials_are_in_order():
    assert [int(path.stem[:2]) for path in SOURCES] == list(range(1, len(SOURCES) + 1))
    assert len(SOURCES) >= 6
    assert {path.stem for path in SOURCES} == {path.stem for path in FOLDER.glob("*.ipynb")}


def test_the_first_runs_as_a_plain_script(monkeypatch, capsys):
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    try:
        runpy.run_path(str(SOURCES[0]))
    finally:
        plt.close("all")
    assert capsys.readouterr().out


@each_source
def test_notebook_has_the_cells_of_its_source(source):
    assert builder.is_current(source), f"run `python tutorials/build.py {source.stem[:2]}`"


def test_a_notebook_that_differs_from_its_source_is_found(tmp_path):
    source = tmp_path / SOURCES[0].name
    source.write_text(SOURCES[0].read_text(encoding="utf-8"), encoding="utf-8")
    assert not builder.is_current(source)  # there is none
    notebook = read(SOURCES[0].with_suffix(".ipynb"))
    for change in ("nothing", "code", "text", "metadata"):
        other = copy.deepcopy(notebook)
        kind = {"code": "code", "text": "markdown"}.get(change)
        if kind:
            next(cell for cell in other["cells"] if cell["cell_type"] == kind)["source"][-1] += " "
        elif change == "metadata":
            other["cells"][0]["metadata"]["tags"] = ["hidden"]
        source.with_suffix(".ipynb").write_text(json.dumps(other), encoding="utf-8")
        assert builder.is_current(source) == (change == "nothing"), change


def test_values_of_the_percent_format(tmp_path):
    source = tmp_path / "07_example.py"
    source.write_text("# %% [markdown]\n# # Title\n#\n# * text\n\n# %%\nx = 1\n\n\ny = 2\n\n# %%\nprint(x)\n")
    text, first, second = builder.notebook_of(source)["cells"]
    assert (text["cell_type"], "".join(text["source"])) == ("markdown", "# Title\n\n* text")
    assert (first["cell_type"], "".join(first["source"])) == ("code", "x = 1\n\n\ny = 2")
    assert (second["id"], "".join(second["source"])) == ("07-02", "print(x)")
    for wrong in ("x = 1\n# %%\nx\n", "# %% [raw]\n# x\n"):
        source.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match="07_example.py"):
            builder.notebook_of(source)


@each_source
def test_outputs_do_not_depend_on_the_machine(source):
    notebook = read(source.with_suffix(".ipynb"))
    outputs = outputs_of(notebook)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    assert {output["name"] for output in outputs if output["output_type"] == "stream"} <= {"stdout"}
    assert all(cell.get("execution_count") is None for cell in notebook["cells"])
    printed = "".join(
        line
        for output in outputs
        for line in [*output.get("text", []), *output.get("data", {}).get("text/plain", [])]
    )
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp/|/home/|/usr/|it/s\]", printed)


def read_of_the_third():
    """Return the function of notebook 03 that reads a file."""
    [cell] = [
        "".join(cell["source"])
        for cell in builder.notebook_of(SOURCES[2])["cells"]
        if "def read(" in "".join(cell["source"])
    ]
    functions = [node for node in ast.parse(cell).body if isinstance(node, ast.FunctionDef)]
    namespace = {"np": np, "pd": pd}
    exec(compile(ast.Module(functions, []), "cell", "exec"), namespace)
    return namespace["read"]


@pytest.mark.filterwarnings("ignore:Could not infer format", "ignore:Parsing dates in")
@pytest.mark.parametrize(
    ("lines", "index"),
    [
        (["time,a,b", "2013-03-01 00:00,1.5,-999", "2013-03-01 01:00,2.5,4", "2013-03-01 02:00,3.5,5"], "1h"),
        (
            [
                "Date;Time;a;b",
                "12/03/2004;18:00;1,5;-200",
                "13/03/2004;18:00;2,5;4",
                "14/03/2004;18:00;3,5;5",
            ],
            "1D",
        ),
        (["a\tb\tc", "1.5\t-9999\t7", "2.5\t4\t7", "3.5\t5\t7"], None),
        (["who,a,b", "north,1.5,NA", "north,2.5,4", "south,3.5,5"], None),
    ],
    ids=["dates", "two columns, day first, decimal comma", "no time, a constant", "text that is no time"],
)
def test_any_table_is_read_by_changing_the_path(lines, index, tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines))
    data = read_of_the_third()(path)
    np.testing.assert_array_equal(data.to_numpy(), [[1.5, np.nan], [2.5, 4.0], [3.5, 5.0]])
    assert list(data.columns) == ["a", "b"]
    if index:
        assert (np.diff(data.index) == pd.Timedelta(index)).all()
    assert ("evenly spaced" in capsys.readouterr().out) == (index is None)
