"""The example of the README runs as printed and has the printed output."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WHICH = (ROOT / "docs" / "choosing_an_estimator.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+\.?\d*")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_example_runs_as_printed(tmp_path):
    [example] = blocks("python")
    printed = blocks("text")[-1]
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "slow_features.png").stat().st_size > 10_000
    # The maximum found by the optimizer differs between processors in the third digit. Errors and coverage
    # are therefore compared within a tenth, and the example prints nothing that a fit selects.
    assert NUMBER.sub("#", done.stdout).split() == NUMBER.sub("#", printed).split()
    found, said = ([float(n) for n in NUMBER.findall(text)] for text in (done.stdout, printed))
    assert found == pytest.approx(said, rel=0.1, abs=0.02)


def run_code_of(page, folder):
    """Run all Python blocks of a page as one program."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    script = folder / "page.py"
    script.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)))
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive  # another fit, as in the README
def test_quick_start_runs_as_printed(tmp_path):
    run_code_of("quickstart.md", tmp_path)


def test_code_of_the_page_on_pipelines_runs(tmp_path):
    run_code_of("pipelines.md", tmp_path)


def test_the_two_commands_are_there():
    assert "    pip install . && probsfa demo\n" in README
    assert "    pip install '.[test]' && pytest\n" in README


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "NOTATION.md", "CHANGELOG.md", "LICENSES.md"]
)
def test_links_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_commands_and_options_that_the_readme_names_exist():
    from probsfa.cli._parser import make_parser

    for line in re.findall(r"^    probsfa (.*)$", README, flags=re.MULTILINE):
        assert make_parser().parse_args(line.split()).command == line.split()[0]


def test_names_in_the_table_of_both_models_exist():
    import probsfa

    table = re.search(r"\| `SFA` \| `ProbabilisticSFA` \|(.*?)\n\n", WHICH, flags=re.DOTALL).group(1)
    for row in table.strip().splitlines()[1:]:
        _, _, classic, probabilistic, _ = row.split("|")
        for cell, estimator in ((classic, probsfa.SFA), (probabilistic, probsfa.ProbabilisticSFA)):
            for name in re.findall(r"`([a-z_]+)(?=[`(=])", cell):
                known = {*dir(estimator), *estimator().get_params(), *probsfa.__all__, "times"}
                assert name in known, f"{estimator.__name__}.{name}"
