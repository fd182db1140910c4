"""The site, without Sphinx: the reference has all public names, and links and toctrees have targets."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

import probsfa

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
HAND_WRITTEN = sorted(DOCS.glob("*.md"))
#: Documents of the repository that the site or hosts of repositories show.
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *HAND_WRITTEN, *sorted((ROOT / "benchmarks").glob("*.md"))]


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("docs_pages", DOCS / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference(pages):
    return pages.api_pages()


@pytest.fixture(scope="module")
def made(pages, reference):
    gallery = {"gallery/index.md": "# Gallery"}  # its examples are run in test_gallery.py
    return {**reference, **gallery, **pages.documents(), **pages.message_page(), **pages.tutorial_pages()}


def names_by_import():
    """Return every public name as a user would find it: those of ``__all__``, or imported by name."""
    import probsfa

    found = {("probsfa", name) for name in probsfa.__all__ if name != "__version__"}
    for module_name in [name for name in probsfa.__all__ if inspect.ismodule(getattr(probsfa, name))]:
        found |= {(f"probsfa.{module_name}", name) for name in public(getattr(probsfa, module_name))}
    for module_name in ("sfa", "statespace"):
        module = importlib.import_module(f"probsfa.{module_name}")
        found |= {(f"probsfa.{module_name}", name) for name in public(module)}
    return found


def public(module):
    if hasattr(module, "__all__"):
        return module.__all__
    source = Path(module.__file__).read_text("utf-8")
    return re.findall(r"^from probsfa\S* import (\w+) as \1$", source, flags=re.MULTILINE)


def documented(reference):
    """Return the names that the reference documents, with their pages."""
    found = {}
    for page, text in reference.items():
        module_name = re.search(r"^\.\. currentmodule:: (\S+)$", text, flags=re.MULTILINE)
        for name in re.findall(r"^\.\. auto(?:class|function|data):: (\S+)$", text, flags=re.MULTILINE):
            found.setdefault((module_name[1], name), []).append(page)
    return found


def test_every_public_name_is_documented_once(reference):
    found = documented(reference)
    assert all(len(places) == 1 for places in found.values())
    values = {}
    for module_name, name in found:
        value = getattr(sys.modules[module_name], name)
        assert id(value) not in values, f"{module_name}.{name} is {values[id(value)]} too"
        values[id(value)] = f"{module_name}.{name}"
    for module_name, name in names_by_import():
        value = getattr(sys.modules[module_name], name)
        if not inspect.ismodule(value):
            assert id(value) in values, f"{module_name}.{name} is in no page of the reference"


def test_methods_of_estimators_are_documented(reference):
    text = reference["api/probsfa.statespace.probabilisticsfa.rst"]
    members = re.search(r":members: (.*)", text)[1].split(", ")
    assert {"fit", "transform", "posterior", "impute", "forecast", "filter", "diagnose", "save"} <= set(
        members
    )
    assert "get_metadata_routing" not in members


def test_docstrings_of_classes_are_short():
    public = {name: getattr(probsfa, name) for name in probsfa.__all__}
    classes = {name: each for name, each in public.items() if inspect.isclass(each)}
    words = {name: len((inspect.getdoc(each) or "").split()) for name, each in classes.items()}
    assert "SFA" in words and not {name: count for name, count in words.items() if count > 900}


def test_underlines_of_docstrings_are_separate_lines():
    """Rewrapping a docstring can join a heading, its underline and the text, which stops the build."""
    joined = re.compile(r"^.*[A-Za-z] -{4,}(?: .*)?$", flags=re.MULTILINE)
    found = {path: joined.findall(path.read_text("utf-8")) for path in (ROOT / "probsfa").rglob("*.py")}
    assert not {path: lines for path, lines in found.items() if lines}


def toctrees(text):
    """Return the entries of the toctrees of a page, in Markdown or reStructuredText."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    blocks += re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)*)", text, flags=re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def test_every_page_is_reached_from_the_front_page(pages, made):
    texts = {path.name: path.read_text("utf-8") for path in HAND_WRITTEN}
    texts["guide.md"] = pages.complete_guide(texts["guide.md"])
    texts |= {path: text for path, text in made.items() if isinstance(text, str)}
    stems = {path.rpartition(".")[0]: path for path in texts}
    reached, waiting = set(), ["index"]
    while waiting:
        stem = waiting.pop()
        assert stem in stems, f"a toctree names {stem}, which is no page"
        if stem not in reached:
            reached.add(stem)
            folder = stem.rpartition("/")[0]
            for entry in toctrees(texts[stems[stem]]):
                waiting.append(
                    entry.lstrip("/") if entry.startswith("/") or not folder else f"{folder}/{entry}"
                )
    missing = sorted(set(stems) - reached)
    assert not missing, f"in no toctree: {missing}"


def anchors(text):
    """Return the anchors of the headings of a Markdown page, and its explicit anchors."""
    slugs = [
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        for heading in re.findall(r"^#{1,4} (.+)$", text, flags=re.MULTILINE)
    ]
    return {*slugs, *re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE)}


def links(text):
    """Return the targets of links to files on a page, without those in code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", re.sub(r"`[^`\n]*`", "", text), flags=re.MULTILINE)
    return [target for target in re.findall(r"\]\(([^()\s]+)\)", text) if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_documents_lead_somewhere(document, made):
    folder = document.parent.relative_to(ROOT).as_posix()
    for target in links(document.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        page = place.relative_to(DOCS).as_posix() if place.is_relative_to(DOCS) else None
        stem = next((name for name in made if page and name.rpartition(".")[0] == page), None)
        text = made.get(page) or made.get(stem)  # of generated pages
        assert text is not None or place.exists(), f"{folder}/{document.name}: {target}"
        if anchor and (text is not None or place.suffix == ".md"):
            text = text if text is not None else place.read_text("utf-8")
            assert anchor in anchors(text), f"{folder}/{document.name}: {target}"


def test_links_of_made_pages_lead_to_pages(made):
    here = {path.name for path in HAND_WRITTEN} | {f"figures/{p.name}" for p in (DOCS / "figures").iterdir()}
    for page, text in made.items():
        if page.endswith(".md"):
            for target in links(text):
                path = target.partition("#")[0]
                place = (
                    (Path("/") / Path(page).parent / path).resolve().relative_to("/").as_posix()
                    if path
                    else page
                )
                assert place in here or place in made, f"{page}: {target}"


def test_links_to_files_outside_the_site_become_text(pages):
    text = (
        "[a program](../benchmarks/run.py), [results](../benchmarks/RESULTS.md#rhythms), [web](https://x.org)"
    )
    converted = pages.with_site_links(text, "docs/diagnostics.md", "docs/diagnostics.md")
    assert converted == "a program, [results](project/results.md#rhythms), [web](https://x.org)"
    assert pages.with_site_links("![p](../docs/figures/a.png)", "benchmarks/R.md", "docs/project/r.md") == (
        "![p](../figures/a.png)"
    )


# -----------------------------------------------------------------------------
# The evidence

EVIDENCE = (DOCS / "reproduction.md").read_text("utf-8")
HEADER = ["item", "what", "code", "shown by", "here"]


def rows():
    """Return the entries of every row of the evidence."""
    lines = [line for line in EVIDENCE.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "item" and set(row[0]) != {"-"}]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_evidence_names_what_exists_and_shows_it_or_reports_why_not(row):
    assert len(row) == 5 and all(row)
    item, _, code, shown, here = row
    program = r"`(python benchmarks|benchmarks|tests)/\S+\.py"
    assert "not reproduced, because" in shown or re.search(program, shown), item
    assert code == "none" or re.findall(r"`probsfa/\S+\.py`", code), item
    for file, function in re.findall(
        r"`(?:python )?((?:benchmarks|tests|probsfa)/[\w/]+\.py)(?:::(\w+))?", code + shown
    ):
        assert (ROOT / file).is_file(), file
        if function:
            assert f"def {function}(" in (ROOT / file).read_text("utf-8"), function


def test_evidence_covers_every_figure_and_table_of_the_five_sources():
    sections = dict(re.findall(r"^## (\w+).*?\n(.*?)(?=^## |\Z)", EVIDENCE, flags=re.MULTILINE | re.DOTALL))
    wanted = {
        "Turner": ["Figure 1", "Figure 2, row A", "Figure 2, row B", "Figure 2, row C", "Figure 3"],
        "Escalante": ["Figure 1, left", "Figure 1, right", *(f"Figure {i}" for i in (2, 3, 4, 5, 6, 7)),
                      "Figures 8 and 9", "Figure 10", "Figure 11", "Table 1", "Table 2", "traffic signs"],
        "Böhmer": ["Figure 1a", "Figure 1b", "Figure 1c", "Figure 2a", "Figure 2b", "Figure 2c"],
        "Sprekeler": ["Figure 1"],
        "Ravikumar": [*(f"Figure {i}" for i in (1, 2, 3, 4, 5)), "Figures 6 to 9", "Figure 10"],
    }  # fmt: skip
    for source, items in wanted.items():
        for item in items:
            assert re.search(rf"^\| [^|]*{item}\b", sections[source], flags=re.MULTILINE), (source, item)


@pytest.mark.parametrize(
    "program", sorted((ROOT / "benchmarks" / "papers").glob("*.py")), ids=lambda path: path.stem
)
def test_every_program_of_the_papers_is_in_the_evidence(program):
    assert f"benchmarks/papers/{program.name}" in EVIDENCE


def test_commands_of_the_evidence_are_those_of_recorded_results():
    recorded = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("RESULTS*.md"))
    commands = re.findall(r"`python benchmarks/[^`]*`", EVIDENCE)
    assert "`python benchmarks/papers/turner_sahani_figure3.py --seeds 3`" in commands
    for command in commands:
        assert command in recorded, command


def test_figures_of_the_evidence_are_those_of_recorded_results():
    """Numbers with three decimals or more in the last column are on a page of results."""
    recorded = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("RESULTS*.md"))
    known = [float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", recorded)]
    for item, *_, here in rows():
        for number in re.findall(r"(?<![\w.])\d+\.\d{3,}", re.sub(r"\([^()]*\.md[^()]*\)", "", here)):
            digits = len(number.partition(".")[2])
            assert any(f"{value:.{digits}f}" == number for value in known), (item, number)
