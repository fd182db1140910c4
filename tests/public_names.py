"""The public names of the package, as docs/api_stability.md lists them.

    python -m tests.public_names

regenerates this list. Run it after adding a public name. A name may be removed only after a minor version
with a warning.
"""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api_stability.md"
BEGIN, END = "<!-- public names: begin -->\n", "<!-- public names: end -->\n"


def public_names() -> dict[str, list[str]]:
    """Return the names that each public module offers, those of ``probsfa`` first."""
    spec = importlib.util.spec_from_file_location("docs_pages", PAGE.parent / "pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    found = {"probsfa": sorted(importlib.import_module("probsfa").__all__, key=str.lower)}
    for module_name in pages.public_modules():
        if module_name != "probsfa":
            found[module_name] = pages.names_of(importlib.import_module(module_name))
    return found


def section(names: dict[str, list[str]]) -> str:
    """Return the list in Markdown."""
    code = {module: ", ".join(f"`{name}`" for name in listed) for module, listed in names.items()}
    rows = [f"| `{module}` | {listed} |" for module, listed in code.items()]
    return "\n".join(["| module | names |", "|---|---|", *rows, ""])


def listed(page: str) -> dict[str, list[str]]:
    """Return the names that a page lists."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", text, flags=re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def rewritten(page: str) -> str:
    """Return a page with an updated list."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + section(public_names()) + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
