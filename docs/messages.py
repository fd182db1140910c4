"""The page of all messages: errors and warnings of the package, read from its source.

    python docs/messages.py

writes docs/project/messages.md, as ``pages.py`` does. It reads the syntax trees of all modules, so that the
page is complete. Texts in braces are replaced by values when a message is raised.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

#: Parts of the package, by prefixes of module paths; the first match is used.
PARTS = {
    "Command line": ("cli/",),
    "Input validation": ("_arrays", "_validation", "_times", "_like_input", "_frames"),
    "Saving and loading": ("_saving", "_storage", "_models", "statespace/persistence", "bayes/persistence"),
    "ProbabilisticSFA": ("statespace/",),
    "BayesianSFA": ("bayes/",),
    "SFA, graphs, kernels": ("sfa/", "graphs/", "expansions/", "linalg"),
    "Count data and other extensions": ("extensions/",),
    "Imputation, monitoring, plots, Dask": ("imputation/", "monitoring/", "plots/", "distributed/"),
    "Other": ("",),
}

#: Exceptions for users, and functions that issue a warning or a note of the command line.
RAISED = ("Error", "Warning", "Interrupt")
ISSUED = ("warn", "note", "warn_once")


class Message(NamedTuple):
    """A message and its place."""

    path: str  # of the module, in the package
    line: int
    kind: str  # of the exception; "warning"; "note" on the command line
    text: str


def text_of(node: ast.expr) -> str:
    """Return the text of a string expression, with braces around inserted values; "" otherwise."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            "{" + ast.unparse(part.value) + "}" if isinstance(part, ast.FormattedValue) else text_of(part)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return ""


def name_of(node: ast.expr) -> str:
    """Return the last name of a called function or class."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def messages() -> Iterator[Message]:
    """Yield all messages that are string expressions in a raise statement or a warning."""
    package = ROOT / "probsfa"
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name, text = name_of(node.func), " ".join(text_of(node.args[0]).split())
            if text.count(" ") >= 2 and (name.endswith(RAISED) or name in ISSUED):
                kind = name if name.endswith(RAISED) else {"note": name}.get(name, "warning")
                yield Message(path.relative_to(package).as_posix(), node.lineno, kind, text)


def part_of(message: Message) -> str:
    """Return the part of the package to which a message belongs."""
    return next(part for part, starts in PARTS.items() if message.path.startswith(starts))


def page() -> str:
    """Return the page: a table for each part."""
    found = list(messages())
    lines = [
        "# Messages",
        "",
        "<!-- index: error messages, warnings -->",
        "",
        f"All {len(found)} errors and warnings of the package, generated from its source. Names in braces",
        "are replaced by values.",
    ]
    for part in PARTS:
        here = [message for message in found if part_of(message) == part]
        if here:
            lines += ["", f"## {part}", "", "| message | kind | module |", "|---|---|---|"]
            lines += [
                f"| {_cell(message.text)} | {message.kind} | `{message.path}` |"
                for message in sorted(here, key=lambda message: (message.path, message.line))
            ]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    for mark in ("\\", "|", "<", "*", "_", "[", "]", "$", "`"):
        text = text.replace(mark, f"\\{mark}")
    return text


if __name__ == "__main__":
    (ROOT / "docs" / "project" / "messages.md").write_text(page(), encoding="utf-8")
