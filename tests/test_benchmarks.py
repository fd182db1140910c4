"""Every benchmark has a description and starts; pages of results name existing commands and figures."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"
PAGES = sorted(FOLDER.glob("RESULTS*.md"))


def module_of(path):
    """Import a program by its path, under a unique name."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = module_of(FOLDER / "run.py")
PROGRAMS = run.programs()


@pytest.fixture
def help_of(monkeypatch, capsys):
    """Return a function that returns the help of a program, in this process, because imports are slow."""

    def ask(path):
        monkeypatch.setattr(sys, "path", list(sys.path))  # as programs do, to import benchmarks/common
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        with pytest.raises(SystemExit) as ended:
            module_of(path).main()
        assert ended.value.code == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_starts_and_its_help_is_its_docstring(name, help_of):
    path = PROGRAMS[name]
    text = help_of(path)
    assert run.summary(path) in text
    # Commands of the docstring have the path of the program and options that exist.
    commands = re.findall(r"^    python (\S+) *(.*)$", text, flags=re.MULTILINE)
    assert commands
    usage = text.partition("\n\n")[0]
    for file, options in commands:
        assert ROOT / file == path
        assert set(re.findall(r"--[a-z-]+", options)) <= set(re.findall(r"--[a-z-]+", usage))


def test_claims_of_turner_and_sahani_hold(monkeypatch, capsys):
    """Claims on geometry, frequencies and the scale of weights, on the short series of ``--quick``."""
    monkeypatch.setattr(sys, "argv", ["turner_sahani_figure1.py", "--quick"])
    assert module_of(PROGRAMS["turner_sahani_figure1"]).main() == 0
    assert "all that is exact holds: True" in capsys.readouterr().out
    assert module_of(PROGRAMS["turner_sahani_weights"]).small_decays()


def test_claims_of_figure_3_of_escalante_and_wiskott_hold(monkeypatch, capsys):
    """Features are the slowest possible, and so are those of noise, on the short series of ``--quick``."""
    monkeypatch.setattr(sys, "argv", ["slowest_features.py", "--quick"])
    assert module_of(PROGRAMS["slowest_features"]).main() == 0
    assert "only in training: True" in capsys.readouterr().out


@pytest.mark.exhaustive  # takes ten seconds; claims on each estimator have separate tests
def test_claims_of_the_notes_on_representation_learning_hold(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ravikumar.py", "--quick"])
    assert module_of(PROGRAMS["ravikumar"]).main() == 0
    assert "all that the notes say holds: True" in capsys.readouterr().out


def test_every_file_is_a_program_or_shared():
    files = {path for path in FOLDER.rglob("*.py") if path.parent.name != "common"}
    assert files == {FOLDER / "run.py", *PROGRAMS.values()}


def test_list_names_every_program_with_its_first_line():
    lines = [line.strip() for line in run.listing().splitlines()]
    for name, path in PROGRAMS.items():
        [line] = [line for line in lines if line.split()[:1] == [name]]
        assert line.partition(" ")[2].strip() == run.summary(path)


def test_two_programs_with_one_name_are_refused(tmp_path, monkeypatch):
    for group in run.GROUPS:
        (tmp_path / group).mkdir()
        (tmp_path / group / "same.py").write_text('"""One."""\n')
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"one name: .*same\.py"):
        run.programs()


def test_run_by_name_from_any_folder(tmp_path):
    # sfa_speed imports benchmarks/common, which must be found if the program is run by its path.
    command = [sys.executable, str(FOLDER / "run.py"), "sfa_speed", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: sfa_speed.py")


def test_run_names_an_unknown_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "sfa_sped"])
    with pytest.raises(SystemExit) as ended:
        run.main()
    assert ended.value.code == 2
    assert "'sfa_sped'" in capsys.readouterr().err


def test_record_replaces_the_file_of_a_run_and_its_page_shows_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # as for a program, whose folder Python adds
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "PAGES", {"PAGE.md": "runs", "OTHER.md": "runs/other"})
    (tmp_path / "runs" / "other").mkdir(parents=True)
    for folder in ("runs", "runs/other"):
        (tmp_path / folder / "about.md").write_text("# Results\n")
    (tmp_path / "runs" / "other" / "two.md").write_text("title: Second\ncommand: python two.py\n\nold\n")
    for name, label, printed in [("one", None, "1"), ("two", None, "new\n"), ("one", "long", "3: 4\n\n5")]:
        run.store(name, f"python {name}.py", printed, label)
    run.write_pages()
    page, other = ((tmp_path / name).read_text() for name in run.PAGES)
    assert page.count("## one") == 1 and page.index("\n1\n") < page.index("\n3: 4\n\n5\n")
    assert "## Second\n\n`python two.py`, 20" in other and "\nnew\n" in other and "old" not in other
    header, text = run.read_run(tmp_path / "runs" / "one-long.md")
    assert header["command"] == "python one.py" and "cores" in header["machine"] and text == "3: 4\n\n5"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_pages_of_results_are_those_of_the_stored_runs(page):
    assert page.read_text("utf-8") == run.page_of(FOLDER / run.PAGES[page.name])


def test_stored_runs_are_of_programs():
    for path in (FOLDER / "results").glob("*.md"):
        if path.name != "about.md":
            header, text = run.read_run(path)
            program = f"benchmarks/{PROGRAMS[path.stem.partition('-')[0]].relative_to(FOLDER).as_posix()}"
            assert program in header["command"].split(), path
            assert text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_in_results_can_be_given(page, help_of):
    text = page.read_text("utf-8")
    commands = re.findall(r"`[^`]*python (benchmarks/[^ `]+\.py)([^`]*)`", text)
    assert commands
    for file, options in commands:
        if file != "benchmarks/run.py":
            assert ROOT / file in PROGRAMS.values(), file
            known = help_of(ROOT / file).partition("\n\n")[0]
            assert set(re.findall(r"--[a-z-]+", options)) <= set(re.findall(r"--[a-z-]+", known)), file


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_and_tests_in_results_exist(page):
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (FOLDER / target).exists(), target
    for test in re.findall(r"`((?:\w+/)*test_\w+\.py)`", text):
        assert (ROOT / "tests" / test).exists(), test


@pytest.fixture
def program(monkeypatch):
    """Return a function that imports a program by its name."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # as programs do, to import benchmarks/common
    return lambda name: module_of(PROGRAMS[name])


@pytest.fixture
def shared(monkeypatch):
    """Return a function that imports a module of benchmarks/common by its name."""
    monkeypatch.syspath_prepend(FOLDER)
    return lambda name: importlib.import_module(f"common.{name}")


def test_tsibench_hides_what_the_protocol_states(shared):
    tsibench = shared("window_records")
    record = tsibench.Record(np.zeros((0, 7)), slice(0), slice(0), 48, 36, 6)
    windows = [np.zeros((48, 7))] * 40
    hidden = tsibench.held_out_values(windows, record, seed=0)
    shares = [np.mean(each) for each in hidden]
    np.testing.assert_allclose(shares[:3], (0.1, 0.5, 0.9), atol=0.02)
    for window in hidden[3]:  # runs of 36 rows in some columns, at most half of the values
        columns = window.any(axis=0)
        assert columns.sum() == 5
        assert all(
            np.flatnonzero(c)[-1] - np.flatnonzero(c)[0] == 35 == c.sum() - 1 for c in window[:, columns].T
        )
    for window in hidden[4]:  # no single values: blocks of 6 x 6, which may overlap
        assert window.mean() >= 0.5
        blocks = np.lib.stride_tricks.sliding_window_view(window, (6, 6)).all(axis=(2, 3))
        covered = np.zeros_like(window)
        for row, column in np.argwhere(blocks):
            covered[row : row + 6, column : column + 6] = True
        assert np.array_equal(covered, window)
    again = tsibench.held_out_values(windows, record, seed=0)
    assert all(
        np.array_equal(a, b)
        for one, two in zip(hidden, again, strict=True)
        for a, b in zip(one, two, strict=True)
    )


def test_tsibench_scores_hidden_values_in_standard_deviations(shared):
    tsibench = shared("window_records")
    window = np.array([[1.0, 10.0], [2.0, np.nan], [3.0, 30.0]])
    hidden = np.array([[True, False], [False, True], [False, True]])
    seen = []

    def fill(windows):
        seen.extend(windows)
        return [np.array([[2.0, 10.0], [2.0, 0.0], [3.0, 10.0]])], [np.full((3, 2), 5.0)]

    row, by_column = tsibench.score(fill, [window], [hidden], np.array([2.0, 10.0]))
    assert np.isnan(seen[0][hidden]).all() and np.array_equal(seen[0][~hidden], window[~hidden])
    # Errors of 0.5 and -2; the third hidden value is unknown. Only the first is inside its interval.
    np.testing.assert_allclose(row[[0, 1, 3]], (1.25, 2.125, 0.5))
    np.testing.assert_allclose(by_column, (0.25, 4.0))


def test_em_of_the_benchmark_of_learning_rises(program, rng):
    X = np.cumsum(rng.standard_normal((60, 4)), axis=0)
    em = program("learning").em_from_slow_features
    (few, n_few), (more, n_more) = em(X, 3), em(X, 10)
    assert (n_few, n_more) == (3, 10) and more > few


def test_nowcast_uses_a_quarter_in_its_own_months_only(shared):
    nowcast = shared("nowcast_methods")
    june = nowcast.load_nowcast().june
    spread = nowcast.in_their_months(june)
    quarterly = nowcast.are_quarterly(june)
    assert list(june.columns[quarterly]) == ["GDPC1", "ULCNFB", "A261RX1Q020SBEA"]
    pd.testing.assert_frame_equal(spread.loc[:, ~quarterly], june.loc[:, ~quarterly])
    for name in june.columns[quarterly]:
        for month, value in spread[name].items():
            end = month + pd.offsets.QuarterEnd(0)
            of_quarter = june.loc[pd.Timestamp(end.year, end.month, 1), name]
            assert value == of_quarter or (np.isnan(value) and np.isnan(of_quarter))
