"""Generated pages of the site: reference, tutorials, copies of documents of the repository.

    python docs/pages.py

writes them into docs/api, docs/gallery, docs/tutorials and docs/project, which git ignores; ``conf.py`` does
this before each build. This module does not import Sphinx, so that tests can read the pages without it.
"""

import base64
import importlib
import importlib.util
import inspect
import json
import os.path
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

#: Documents of the repository, and their pages.
DOCUMENTS = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "NOTATION.md": "project/notation.md",
    "RELEASING.md": "project/releasing.md",
    "LICENSES.md": "project/licenses.md",
    "benchmarks/RESULTS.md": "project/results.md",
    "benchmarks/RESULTS_BAYES.md": "project/results_bayes.md",
    "benchmarks/RESULTS_DETERMINISTIC.md": "project/results_deterministic.md",
}

#: Other targets of links, and their pages.
PLACES = {"tutorials": "tutorials/index.md", "tutorials/README.md": "tutorials/index.md"}

#: Titles of the modules in the reference, grouped by task, in this order; others follow.
TITLES = {
    "probsfa.statespace": "The probabilistic model: dynamic factors, Kalman smoother, missing data",
    "probsfa.bayes": "The Bayesian model: posterior intervals of parameters",
    "probsfa.extensions": "Count data, bilinear models, products of experts, principal curves",
    "probsfa.imputation": "Imputation of missing values, and methods compared",
    "probsfa.adapters": "Transformer and forecaster with the methods of sktime",
    "probsfa.monitoring": "Process monitoring and anomaly detection",
    "probsfa.sfa": "Slow feature analysis, graphs, eigenmaps, kernels",
    "probsfa.graphs": "Training graphs",
    "probsfa.expansions": "Nonlinear expansions",
    "probsfa.model_selection": "Cross-validation of trajectories",
    "probsfa.metrics": "Scores",
    "probsfa.plots": "Figures",
    "probsfa.datasets": "Bundled and simulated data",
    "probsfa.distributed": "Large data: fits on a Dask cluster",
    "probsfa": "Saving models, compilation cache",
}

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


class Name(NamedTuple):
    """A public name."""

    module_name: str  # name of the module that documents it, such as "probsfa.sfa"
    name: str
    value: Any

    @property
    def page(self) -> str:
        """Page that documents it, the same for ``serial`` and ``Serial``: some file systems ignore case."""
        return f"api/{self.module_name}.{self.name.lower()}"

    @property
    def summary(self) -> str:
        """First sentence of its docstring."""
        text = inspect.getdoc(self.value) or ""
        return " ".join(text.partition("\n\n")[0].split())


# -----------------------------------------------------------------------------
# The reference


def exported() -> dict[str, str]:
    """Return the public names of ``probsfa`` itself and the modules that they come from."""
    lines = (ROOT / "probsfa" / "__init__.pyi").read_text("utf-8").splitlines()
    return {line.split()[3]: line.split()[1] for line in lines if line.startswith("from ")}


def public_modules() -> list[str]:
    """Return the names of the public modules, those of ``TITLES`` first."""
    homes = exported()
    public = {f"probsfa.{name}" for name, home in homes.items() if home == "probsfa"}
    public |= {home for home in homes.values() if not home.rpartition(".")[2].startswith("_")}
    return [module_name for module_name in TITLES if module_name in public] + sorted(public - set(TITLES))


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module: its ``__all__``, or the names that it imports from the package."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed, key=str.lower)
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith("probsfa")
    ]
    return sorted(own, key=str.lower)


def public_names() -> list[Name]:
    """Return every public name once, with the module that documents it."""
    names: list[Name] = []
    seen: dict[int, Name] = {}
    package = importlib.import_module("probsfa")
    private = [name for name, home in exported().items() if home.rpartition(".")[2].startswith("_")]
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in sorted(private) if module is package else names_of(module):
            entry = Name(module_name, name, getattr(module, name))
            if seen.setdefault(id(entry.value), entry) is entry:
                names.append(entry)
    return names


def methods_of(value: type) -> list[str]:
    """Return the public methods and properties of a class that are defined in this package."""
    found = []
    for name, attribute in inspect.getmembers(value):
        member = getattr(attribute, "fget", attribute)
        if name.startswith("_") or not callable(member) or inspect.isclass(member):
            continue
        ours = str(getattr(inspect.unwrap(member), "__module__", "")).startswith("probsfa")
        if ours and inspect.getdoc(attribute):
            found.append(name)
    return found


def directive(entry: Name) -> str:
    """Return the Sphinx directive that documents a name."""
    if inspect.isclass(entry.value):
        members = ", ".join(methods_of(entry.value))
        return f".. autoclass:: {entry.name}\n" + (f"   :members: {members}\n" if members else "")
    if inspect.isroutine(entry.value) or hasattr(entry.value, "__wrapped__"):
        return f".. autofunction:: {entry.name}\n"
    return f".. autodata:: {entry.name}\n"


def api_pages() -> dict[str, str]:
    """Return the pages of the reference by their paths under docs."""
    names = public_names()
    pages: dict[str, str] = {}
    for page in dict.fromkeys(entry.page for entry in names):
        here = [entry for entry in names if entry.page == page]
        title = ", ".join(dict.fromkeys(entry.name for entry in here))
        parts = [title, "=" * len(title), "", f".. currentmodule:: {here[0].module_name}", ""]
        pages[f"{page}.rst"] = "\n".join([*parts, *map(directive, here)])
    for module_name in public_modules():
        here = [entry for entry in names if entry.module_name == module_name]
        pages[f"api/{module_name}.rst"] = module_page(module_name, here)
    pages["api/index.rst"] = index_page(names)
    return pages


def title_of(module_name: str) -> str:
    """Return the title of a module: its entry in ``TITLES``, or the first line of its docstring."""
    words = inspect.getdoc(importlib.import_module(module_name)) or ""
    return TITLES.get(module_name) or words.partition("\n")[0].rstrip(".")


def module_page(module_name: str, names: list[Name]) -> str:
    """Return the page of a module: its description, and a line for each name."""
    title = f"``{module_name}``"
    about = (
        "" if module_name == "probsfa" else f".. automodule:: {module_name}\n   :no-members:\n   :no-index:\n"
    )
    anchor = f".. py:module:: {module_name}\n" if module_name != "probsfa" else ".. py:module:: probsfa\n"
    listing = [".. list-table::", "   :widths: 35 65", ""]
    for entry in names:
        role = "class" if inspect.isclass(entry.value) else "func"
        listing += [f"   * - :py:{role}:`~{module_name}.{entry.name}`", f"     - {entry.summary}"]
    pages = dict.fromkeys(f"/{entry.page}" for entry in names)
    tree = [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages)]
    parts = [
        title,
        "=" * len(title),
        "",
        anchor,
        title_of(module_name) + "." if module_name == "probsfa" else "",
        "",
        about,
        *listing,
        "",
        *tree,
        "",
    ]
    return "\n".join(parts)


def index_page(names: list[Name]) -> str:
    """Return the first page of the reference: the modules, and the names of ``probsfa`` itself."""
    parts = ["Reference", "=========", ""]
    parts += ["Every public name, with its parameters and a tested example.", ""]
    parts += [".. list-table::", "   :widths: 35 65", ""]
    for module_name in public_modules():
        parts += [
            f"   * - :py:mod:`{module_name}`",
            f"     - {title_of(module_name)}",
        ]
    parts += ["", "Names in ``probsfa`` itself", "-" * 27, ""]
    parts += ["The most important names can be imported from the package: ``from probsfa import SFA``.", ""]
    parts += [".. list-table::", "   :widths: 35 65", ""]
    homes = exported()
    package = importlib.import_module("probsfa")
    by_value = {id(entry.value): entry for entry in names}
    for name in sorted((name for name, home in homes.items() if home != "probsfa"), key=str.lower):
        entry = by_value[id(getattr(package, name))]
        role = "class" if inspect.isclass(entry.value) else "func"
        parts += [f"   * - :py:{role}:`~{entry.module_name}.{entry.name}`", f"     - {entry.summary}"]
    parts += [
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   /api/{module_name}" for module_name in public_modules()),
        "",
    ]
    return "\n".join(parts)


# -----------------------------------------------------------------------------
# Documents of the repository


def with_site_links(text: str, source: str, page: str) -> str:
    """Return a document whose links refer to pages of the site.

    Parameters
    ----------
    text : str
        The document.
    source, page : str
        Paths of the document and of its page, relative to the root of the repository.

    Returns
    -------
    str
        Links to documents of the site refer to their pages. Links to other files, such as programs, are
        replaced by their text.
    """

    def lead(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, hash_sign, anchor = target.partition("#")
        whole = os.path.normpath(os.path.join(os.path.dirname(source), path)).replace(os.sep, "/")
        known = {**DOCUMENTS, **PLACES}
        place = f"docs/{known[whole]}" if whole in known else whole
        if whole.startswith("tutorials/") and whole.endswith(".ipynb"):
            place = f"docs/{whole}"
        if not place.startswith("docs/"):
            return words
        relative = os.path.relpath(place, os.path.dirname(page)).replace(os.sep, "/")
        return f"{image}[{words}]({relative}{hash_sign}{anchor})"

    return _LINK.sub(lead, text)


def toctrees(text: str) -> list[str]:
    """Return the entries of the toctrees of a page of Markdown."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def complete_guide(guide: str) -> str:
    """Return the guide; pages in none of its toctrees are added to a last one."""
    pages = {path.stem: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
    named = {"index", *(entry for text in pages.values() for entry in toctrees(text))}
    rest = [stem for stem in pages if stem not in named]
    return re.sub(r"^```\s*\Z", "\n".join([*rest, "```", ""]), guide, flags=re.MULTILINE)


def documents() -> dict[str, str]:
    """Return the pages of documents of the repository."""
    return {
        page: with_site_links((ROOT / source).read_text("utf-8"), source, f"docs/{page}")
        for source, page in DOCUMENTS.items()
    }


def message_page() -> dict[str, str]:
    """Return the page of all errors and warnings, generated by ``messages.py``."""
    return {"project/messages.md": load_script("messages").page()}


def gallery_pages() -> dict[str, str | bytes]:
    """Return the gallery and its figures, generated by ``gallery.py``."""
    made: dict[str, str | bytes] = load_script("gallery").pages()
    return made


def load_script(name: str) -> ModuleType:
    """Import a module of this folder by its path, because the folder is not on the path of the tests."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # required by annotations of named tuples
    spec.loader.exec_module(module)
    return module


# -----------------------------------------------------------------------------
# Tutorials


def notebooks() -> list[Path]:
    """Return the notebooks, in the order of their numbers."""
    return sorted((ROOT / "tutorials").glob("*.ipynb"))


#: Prefixes of notebooks that are listed as advanced.
ADVANCED = ("10_", "11_")
_CARD = 240  # characters on a card of the gallery


def words_of(notebook: dict[str, Any]) -> tuple[str, str]:
    """Return the title of a notebook and the first paragraph below it."""
    text = "\n\n".join(
        "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"
    )
    title = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    if title is None:
        raise ValueError("a notebook has no title: a line that begins with '# '")
    paragraphs = [part.strip() for part in text[title.end() :].split("\n\n")]
    first = next((part for part in paragraphs if part and not part.startswith(("#", "|", "-", "$", "`"))), "")
    sentences = re.split(r"(?<=[.?!*])\s+(?=[A-Z*`_])", " ".join(first.split()))
    whole = [sentence for sentence in sentences if sentence.rstrip("*_").endswith((".", "?", "!"))]
    # As many of the first sentences as fit on a card, at least one.
    fitting = [i for i in range(2, len(whole) + 1) if len(" ".join(whole[:i])) <= _CARD]
    words = " ".join(whole[: max(fitting, default=1)])
    return title[1].strip(), words or " ".join(first.split())


def picture_of(notebook: dict[str, Any]) -> bytes | None:
    """Return the first figure among the outputs of a notebook."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            png = output.get("data", {}).get("image/png")
            if png is not None:
                return base64.b64decode("".join(png))
    return None


def tutorial_pages() -> dict[str, str | bytes]:
    """Return the notebooks with links to the site, their figures, and their index."""
    pages: dict[str, str | bytes] = {}
    cards: dict[bool, list[str]] = {False: [], True: []}  # keys: whether notebooks are advanced
    entries = []
    for path in notebooks():
        notebook = json.loads(path.read_text("utf-8"))
        title, first = words_of(notebook)
        picture = picture_of(notebook)
        if picture is not None:
            pages[f"tutorials/pictures/{path.stem}.png"] = picture
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                text = with_site_links(
                    "".join(cell["source"]), f"tutorials/{path.name}", f"docs/tutorials/{path.name}"
                )
                cell["source"] = text.splitlines(keepends=True)
        pages[f"tutorials/{path.name}"] = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        first = with_site_links(first, f"tutorials/{path.name}", "docs/tutorials/index.md")
        image = f":img-top: pictures/{path.stem}.png\n" if picture is not None else ""
        cards[path.name.startswith(ADVANCED)].append(
            f":::{{grid-item-card}} {title}\n:link: {path.stem}\n:link-type: doc\n{image}\n{first}\n:::\n"
        )
        entries.append(path.stem)
    text = [
        "# Tutorials",
        "",
        "Notebooks with their outputs, executed by the tests. They need only the package.",
    ]
    for advanced, here in cards.items():
        if here:
            text += ["", "## Advanced"] if advanced else []
            text += ["", "::::{grid} 1 2 2 3", ":gutter: 3", "", *here, "::::"]
    if entries:
        text += [
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *entries,
            "```",
        ]
    pages["tutorials/index.md"] = "\n".join([*text, ""])
    return pages


# -----------------------------------------------------------------------------


def write() -> None:
    """Write the generated pages, and delete old ones that are no longer generated."""
    makers: tuple[Callable[[], dict[str, Any]], ...] = (
        api_pages,
        documents,
        message_page,
        gallery_pages,
        tutorial_pages,
    )
    made = {DOCS / path: content for maker in makers for path, content in maker().items()}
    for folder in ("api", "gallery", "project", "tutorials"):
        for path in (DOCS / folder).rglob("*"):
            if path.is_file() and path not in made:
                path.unlink()
    for path, content in made.items():
        data = content.encode() if isinstance(content, str) else content
        if not path.exists() or path.read_bytes() != data:  # otherwise Sphinx would read it again
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


if __name__ == "__main__":
    write()
