"""Parts of a release are consistent: versions, requirements, licences, the citation."""

import re
import tomllib
from pathlib import Path

import pytest

import probsfa
from tests import public_names

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]
CITATION = (ROOT / "CITATION.cff").read_text("utf-8")
RECIPE = (ROOT / "conda" / "meta.yaml").read_text("utf-8")
LICENSES = (ROOT / "LICENSES.md").read_text("utf-8")


def test_one_version_everywhere():
    assert re.search(r"^version: (\S+)$", CITATION, flags=re.MULTILINE)[1] == probsfa.__version__
    assert re.search(r'set version = "(\S+)"', RECIPE)[1] == probsfa.__version__


def test_citation_has_the_required_fields():
    """Required fields of Citation File Format 1.2.0, for the software and for each reference."""
    keys = re.findall(r"^([\w-]+):", CITATION, flags=re.MULTILINE)
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(keys)
    assert len(keys) == len(set(keys))
    references = re.split(r"^  - type:", CITATION.partition("\nreferences:\n")[2], flags=re.MULTILINE)[1:]
    assert references
    for reference in references:
        assert {"title", "authors"} <= set(re.findall(r"^    ([\w-]+):", reference, flags=re.MULTILINE))
    for doi in re.findall(r"doi: (\S+)", CITATION):
        assert re.fullmatch(r"10\.\d{4,}/\S+", doi)


def test_recipe_of_conda_has_the_requirements_of_the_package():
    """Names are those of conda-forge, where the library alone is a separate package."""
    run = re.search(r"^  run:\n((?:    - .*\n)+)", RECIPE, flags=re.MULTILINE)[1]
    required = dict(re.findall(r"- ([\w-]+) >=(\S+)", run))
    assert required.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    wanted = dict(re.fullmatch(r"([\w-]+)>=(\S+)", each).groups() for each in PROJECT["dependencies"])
    wanted["matplotlib-base"] = wanted.pop("matplotlib")
    assert required == wanted


def recipe(key):
    """Return the value of a key in the recipe of conda: a text, or the items of a list."""
    text, items = re.search(rf"^ +{key}: *(.*)\n((?: +- .*\n)*)", RECIPE, flags=re.MULTILINE).groups()
    return text.strip('"') or re.findall(r"- (.*)", items)


def test_recipe_of_conda_describes_the_same_package():
    assert recipe("name") == PROJECT["name"] and recipe("version") == "{{ version }}"
    assert recipe("summary") == PROJECT["description"]
    assert recipe("license") == PROJECT["license"]
    assert recipe("license_file") == PROJECT["license-files"]
    assert all((ROOT / path).is_file() for path in recipe("license_file"))
    assert recipe("entry_points") == [f"{name} = {to}" for name, to in PROJECT["scripts"].items()]


def test_recipe_of_conda_builds_with_what_the_package_is_built_with():
    needed = [each.replace(">=", " >=") for each in BUILD["requires"]]
    assert recipe("host") == [f"python {PROJECT['requires-python']}", "pip", *needed]


def test_recipe_of_conda_builds_the_compiled_engine():
    assert "noarch" not in RECIPE
    assert 'python -c "import _probsfa_core"' in recipe("commands")
    compilers = re.findall(r'compiler\("(\w+)"\)', RECIPE)
    assert compilers == ["c", "cxx"]
    assert 'stdlib("c")' in RECIPE


def test_wheels_of_the_stable_abi_are_built_with_it():
    """Otherwise the module name has the version of one Python, and other versions do not find it."""
    cmake = (ROOT / "CMakeLists.txt").read_text("utf-8")
    assert SETTINGS["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    assert " STABLE_ABI " in cmake and "${SKBUILD_SABI_COMPONENT}" in cmake
    assert f"cmake >={re.search(r'VERSION ([0-9.]+)', cmake)[1]}" in RECIPE


def oldest():
    """Return the oldest supported versions of the dependencies, by name."""
    extras = PROJECT["optional-dependencies"]
    required = [*PROJECT["dependencies"], *extras["test"], *extras["dask"]]
    pairs = [re.fullmatch(r"([\w-]+)(?:\[.*\])?>=(\S+)", each) for each in required]
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_oldest_versions_are_pinned_for_the_tests():
    lines = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert list(pinned) == sorted(pinned)
    same_release = {"distributed": "dask"}
    del pinned["pyparsing"]  # of matplotlib
    for name, version in pinned.items():
        required = oldest()[same_release.get(name, name)]
        assert (version + ".0").startswith(required + ".") or version == required, name
    assert set(pinned) - set(same_release) == set(oldest())


def bundled():
    """Return data files of the package."""
    code = {".py", ".pyi", ".md", ".typed", ".pyc", ".c", ".cpp", ".h", ".so"}
    return [
        path for path in sorted((ROOT / "probsfa").rglob("*")) if path.is_file() and path.suffix not in code
    ]


@pytest.mark.parametrize("path", bundled(), ids=lambda path: path.name)
def test_every_bundled_file_has_a_licence(path):
    [row] = [line for line in LICENSES.splitlines() if f"`{path.relative_to(ROOT).as_posix()}`" in line]
    identifier = row.split("|")[2].strip()
    assert identifier in {"CC0-1.0", "BSD-3-Clause", "MIT", "CC-BY-4.0"}


def test_the_package_is_typed_and_licensed():
    assert (ROOT / "probsfa" / "py.typed").exists()
    assert PROJECT["license"].split(" AND ")[0] == "MIT" and (ROOT / "LICENSE").read_text("utf-8").startswith(
        "MIT License"
    )


def test_supported_versions_of_python_are_those_of_the_classifiers():
    listed = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert listed[0] == PROJECT["requires-python"].removeprefix(">=")
    minors = [int(version.partition(".")[2]) for version in listed]
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_public_names_are_those_of_the_page_on_stability():
    """A removed name breaks programs; a new one must be added to the page."""
    page = public_names.PAGE.read_text("utf-8")
    frozen, found = public_names.listed(page), public_names.public_names()
    for module, names in frozen.items():
        gone = set(names) - set(found.get(module, ()))
        assert not gone, f"{module} no longer has {gone}, which docs/api_stability.md promises"
    assert found == frozen, "python -m tests.public_names adds new names to docs/api_stability.md"
    assert public_names.rewritten(page) == page
