"""Settings of the site: ``sphinx-build -W -b html docs docs/_build``."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import pages  # noqa: E402

import probsfa  # noqa: E402

project = "probsfa"
author = "The probsfa developers"
copyright = "The probsfa developers"  # noqa: A001
version = release = probsfa.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Pages
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks contain their outputs, which the checks reproduce
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"

# The reference
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings contain it
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
python_maximum_signature_line_length = 88
add_module_names = False

# Appearance
html_theme = "furo"
html_title = f"probsfa {release}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"

# Names of other packages, and types of parameters, which have no page.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|scipy|sklearn|jax|numpyro|pandas|matplotlib|xarray|arviz|dask|ndarray|np|pd)\b.*"),
]


class _Targets:
    """Places in the reference, by all names that a docstring may use."""

    def __init__(self) -> None:
        self.full: dict[str, str] = {}
        for entry in pages.public_names():
            target = f"{entry.module_name}.{entry.name}"
            # The name alone, in the package, and in the module that defines it.
            names = {
                entry.name,
                f"probsfa.{entry.name}",
                f"{getattr(entry.value, '__module__', '')}.{entry.name}",
            }
            for name in names:
                self.full.setdefault(name, target)

    def find(self, target: str) -> list[str]:
        """Return the places that a name may refer to, including methods and attributes."""
        head, dot, tail = target.partition(".") if not target.startswith("probsfa.") else (target, "", "")
        found = []
        if target.startswith("probsfa."):
            parts = target.split(".")
            for i in range(len(parts), 1, -1):
                known = self.full.get(".".join(parts[:i]))
                if known:
                    found.append(".".join([known, *parts[i:]]))
        elif head in self.full:
            found.append(f"{self.full[head]}{dot}{tail}")
        return found


def resolve_by_any_name(
    app: Sphinx, env: BuildEnvironment, node: nodes.Element, contnode: nodes.Node
) -> nodes.Node | None:
    """Resolve references such as ``SFA`` and ``probsfa.SFA.fit``."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    for target in app.probsfa_targets.find(node["reftarget"].strip()):  # type: ignore[attr-defined]
        for role in (node["reftype"], "obj"):
            made = domain.resolve_xref(env, node["refdoc"], app.builder, role, target, node, contnode)
            if made is not None:
                return made
        # Attributes are documented inside their class.
        owner = target.rpartition(".")[0]
        made = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", owner, node, contnode)
        if made is not None:
            return made
    return None


def _index_directive(comment: "re.Match[str]") -> str:
    """Return main index entries ("!"), which the search shows before matches in the text."""
    entries = [f"! {entry.strip()}" for entry in comment[1].split(",")]
    return f"```{{index}} {', '.join(entries)}\n```"


def replace_links(app: Sphinx, docname: str, content: list[str]) -> None:
    """Replace links to documents of the repository by links to their pages."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md" and path.parent == DOCS:
        here = f"docs/{path.name}"
        text = pages.complete_guide(content[0]) if docname == "guide" else content[0]
        # Index entries are comments in the sources, because hosts of repositories would show directives.
        text = re.sub(r"^<!-- index: (.+) -->$", _index_directive, text, flags=re.MULTILINE)
        content[0] = pages.with_site_links(text, here, here)


#: Commands that docutils does not support, and their replacements.
_COMMANDS = {"dots": "ldots", "tfrac": "frac", "dfrac": "frac", "bm": "boldsymbol"}


def write_mathml(translator: Any, node: nodes.Element, as_block: bool) -> None:
    """Write a formula as MathML, which browsers draw without scripts or downloaded fonts."""
    text = node.astext()
    for command, known in _COMMANDS.items():
        text = re.sub(rf"\\{command}(?![A-Za-z])", rf"\\{known}", text)
    try:
        formula = tex2mathml(text, as_block=as_block)
    except MathError as error:
        raise SphinxError(f"{node.source}:{node.line}: no formula: {error}: {text}") from error
    label = f'<span class="eqno">({node["number"]})</span>' if as_block and node.get("number") else ""
    translator.body.append(f'<div class="math">{label}{formula}</div>' if as_block else formula)
    raise nodes.SkipNode


def quote_underscores(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Quote names of fitted attributes, such as n_iter_, which Sphinx would read as links."""
    for i, line in enumerate(lines):
        if re.match(r"\s*\*\*\w+\*\*\s*:", line):  # a parameter or attribute and its type
            parts = line.split("`")  # text between backticks is unchanged
            parts[::2] = [re.sub(r"(\w)_(?=[\s,;:.)\]]|$)", r"\1\\_", part) for part in parts[::2]]
            lines[i] = "`".join(parts)


def setup(app: Sphinx) -> None:
    """Write the generated pages, and connect the functions of this file to Sphinx."""
    pages.write()
    app.probsfa_targets = _Targets()  # type: ignore[attr-defined]
    app.connect("missing-reference", resolve_by_any_name)
    app.connect("source-read", replace_links)
    app.connect("autodoc-process-docstring", quote_underscores, priority=900)  # after numpydoc
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda self, node: write_mathml(self, node, as_block=False), None),
        block_renderers=(lambda self, node: write_mathml(self, node, as_block=True), None),
    )


html_math_renderer = "mathml"
