"""The workflows of .github are valid, name existing files, and run the commands of .ci/run."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
RUN = (ROOT / ".ci" / "run").read_text("utf-8")
PATHS = sorted(FOLDER.glob("workflows/*.yml"))
#: Programs of the runners, of the package, and of its extras.
PROGRAMS = {"bash", "python", "gh", "probsfa", "pytest", "ruff", "mypy", "lint-imports", "sphinx-build"}
PROGRAMS |= {"cibuildwheel", "twine"}

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the sources were unpacked without .github")


def read(path):
    # YAML 1.1 reads the key `on` as a boolean.
    return yaml.safe_load(re.sub(r"^on:", '"on":', path.read_text("utf-8"), flags=re.MULTILINE))


WORKFLOWS = {path.name: read(path) for path in PATHS}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]


def steps_of(workflow, job):
    return WORKFLOWS[workflow]["jobs"][job].get("steps", [])


def commands_of(workflow, job):
    return [step["run"] for step in steps_of(workflow, job) if "run" in step]


def test_all_workflows_are_there():
    assert set(WORKFLOWS) == {"tests.yml", "checks.yml", "docs.yml", "wheels.yml", "release.yml"}


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_workflows_are_well_formed(workflow):
    given = WORKFLOWS[workflow]
    assert set(given) <= {"name", "on", "permissions", "concurrency", "env", "jobs"}
    assert given["name"] == workflow.removesuffix(".yml") and given["on"]
    assert given["permissions"] == {"contents": "read"}  # jobs that need more permissions request them


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_jobs_are_well_formed(workflow, job):
    jobs = WORKFLOWS[workflow]["jobs"]
    given = jobs[job]
    for needed in [given.get("needs", [])] if isinstance(given.get("needs"), str) else given.get("needs", []):
        assert needed in jobs
    if "uses" in given:
        assert (ROOT / given["uses"]).is_file() and "workflow_call" in read(ROOT / given["uses"])["on"]
        return
    assert given["runs-on"] and 0 < given["timeout-minutes"] <= 360 and given["steps"]
    matrix = given.get("strategy", {}).get("matrix", {})
    keys = set(matrix) | {key for each in matrix.get("include", []) for key in each}
    assert set(re.findall(r"matrix\.([\w-]+)", str(given))) == keys - {"include"}
    for step in given["steps"]:
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d[\w.]*|release/v\d)", step["uses"])
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"] == {"persist-credentials": False}


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_commands_name_what_exists(workflow, job):
    for command in commands_of(workflow, job):
        assert "://" not in command
        assert "${{ github" not in command  # text of others must not be inserted into a command
        program, *arguments = shlex.split(re.sub(r"\$\{\{.*?\}\}", "x", command))
        assert program in PROGRAMS, command
        for argument in arguments:
            if re.fullmatch(r"\.?(ci|docs|tests|tutorials)(/[\w.]+)*|constraints\S*|\S+\.(py|txt)", argument):
                assert (ROOT / argument).exists() or argument.startswith("docs/_build"), command
        for extra in re.findall(r"\.\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= set(SETTINGS["project"]["optional-dependencies"]), command
        if program == "bash":
            subprocess.run(["bash", "-n", *arguments[:1]], cwd=ROOT, check=True)
    for constraints in re.findall(r"constraints\S*\.txt", str(WORKFLOWS[workflow]["jobs"][job])):
        assert (ROOT / constraints).is_file()


def test_the_checks_are_those_that_run_here():
    """The commands are identical, except for the folder of the site and the selection of tests."""
    words = " ".join(RUN.split())
    checks = [*commands_of("checks.yml", "lint"), *commands_of("checks.yml", "types")]
    checks += commands_of("docs.yml", "site")
    for command in checks:
        if not command.startswith(("python -m pip", "pytest")):
            assert command.replace("docs/_build/html", "").strip() in words, command
    assert 'pytest "${WHICH[@]}"' in words and "probsfa demo --quiet" in words


def test_oldest_and_newest_python_are_tested():
    listed = [c.rpartition(" ")[2] for c in SETTINGS["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    matrix = WORKFLOWS["tests.yml"]["jobs"]["quick"]["strategy"]["matrix"]["include"]
    assert {each["python"] for each in matrix} == {listed[0], listed[-1]}
    assert {each["versions"] for each in matrix} == {"pinned", "oldest", "newest"}
    built = [name.removesuffix("-*") for name in SETTINGS["tool"]["cibuildwheel"]["build"]]
    assert built == ["cp" + version.replace(".", "") for version in listed]


def test_wheels_are_built_for_every_system():
    job = WORKFLOWS["wheels.yml"]["jobs"]["wheels"]
    systems = {each["system"] for each in job["strategy"]["matrix"]["include"]}
    linux = {f"{kind}_{machine}" for kind in ("manylinux", "musllinux") for machine in ("x86_64", "aarch64")}
    assert systems == {*linux, "macosx_arm64", "macosx_x86_64", "win_amd64"}
    [build] = [step["env"]["CIBW_BUILD"] for step in job["steps"] if "cibuildwheel --" in step.get("run", "")]
    wanted = SETTINGS["tool"]["cibuildwheel"]["build"]
    assert build.replace("${{ matrix.system }}", "*").split() == wanted


def test_every_file_that_is_built_is_released():
    names = [
        step["with"]["name"].replace("${{ matrix.system }}", "x")
        for job in WORKFLOWS["wheels.yml"]["jobs"]
        for step in steps_of("wheels.yml", job)
        if step.get("uses", "").startswith("actions/upload-artifact")
    ]
    download = next(s for s in steps_of("release.yml", "upload") if "download-artifact" in s["uses"])
    assert len(names) == len(WORKFLOWS["wheels.yml"]["jobs"])
    assert all(re.fullmatch(download["with"]["pattern"].replace("*", ".*"), name) for name in names)
    upload = WORKFLOWS["release.yml"]["jobs"]["upload"]
    assert upload["permissions"] == {"id-token": "write"}  # trusted publishing; there is no secret
    assert not any("secrets." in path.read_text("utf-8") for path in PATHS)


@pytest.mark.parametrize("form", ["bug_report.yml", "feature_request.yml"])
def test_issue_forms_have_questions(form):
    given = read(FOLDER / "ISSUE_TEMPLATE" / form)
    assert given["name"] and given["description"]
    assert len({field["id"] for field in given["body"]}) == len(given["body"])
    assert all(field["attributes"]["label"] for field in given["body"])


def test_actions_are_kept_up_to_date():
    updates = read(FOLDER / "dependabot.yml")["updates"]
    assert [each["package-ecosystem"] for each in updates] == ["github-actions"]


# -----------------------------------------------------------------------------
# The tag of a release


@pytest.fixture
def tree(tmp_path):
    """Make a repository of the files that .ci/tag reads."""
    for path, text in {
        "probsfa/__init__.py": '__version__ = "1.2.0rc1"\n',
        "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0rc1\n",
        "conda/meta.yaml": '{% set version = "1.2.0rc1" %}\n',
        "CHANGELOG.md": "# Changelog\n\n## 1.2.0\n\n- New.\n\n### More\n\n- Old.\n\n## 1.1.0\n\n- Older.\n",
        ".ci/tag": (ROOT / ".ci" / "tag").read_text("utf-8"),
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def check_tag(tree, *arguments):
    command = [sys.executable, str(tree / ".ci" / "tag"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_tag_is_the_version_and_has_notes(tree):
    assert check_tag(tree, "v1.2.0rc1").stdout == ""
    assert check_tag(tree, "v1.2.0rc1", "--notes").stdout == "- New.\n\n### More\n\n- Old.\n"


@pytest.mark.parametrize("path", ["probsfa/__init__.py", "CITATION.cff", "conda/meta.yaml"])
def test_a_tag_of_another_version_is_refused(tree, path):
    text = (tree / path).read_text("utf-8")
    (tree / path).write_text(text.replace("1.2.0rc1", "1.3.0"), encoding="utf-8")
    done = check_tag(tree, "v1.2.0rc1")
    assert done.returncode == 1 and f"{path} has the version 1.3.0" in done.stderr


def test_a_tag_without_notes_is_refused(tree):
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## 1.1.0\n", encoding="utf-8")
    done = check_tag(tree, "v1.2.0rc1")
    assert done.returncode == 1 and "CHANGELOG.md" in done.stderr
