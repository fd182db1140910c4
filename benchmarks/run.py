"""List the benchmarks, run one of them by its name, or write the pages of results.

    python benchmarks/run.py                            list all programs, a line each
    python benchmarks/run.py sfa_speed --quick          run one program; further arguments are passed to it
    python benchmarks/run.py --record sfa_speed         the same, and store its output in results/
    python benchmarks/run.py --pages                    write the pages RESULTS*.md from the files in results/

A program is a file in speed/, accuracy/ or papers/, and can also be run by its path. Each stored run is a
file in results/: a header with its command, date, commit and machine, then comments and its output.
``--record`` replaces the file of the program, with its comments, and writes the pages; a run with other
options has a ``--label``.
"""

import argparse
import ast
import datetime
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
#: Pages of results, and the folders of their runs.
PAGES = {
    "RESULTS.md": "results",
    "RESULTS_BAYES.md": "results/bayes",
    "RESULTS_DETERMINISTIC.md": "results/deterministic",
}
GROUPS = {
    "speed": "computing times and memory",
    "accuracy": "accuracy",
    "papers": "figures and tables of the papers",
}


def main() -> None:
    """List the programs, run one, or write the pages of results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="store the output in results/")
    parser.add_argument("--label", help="name of a run that is stored beside others of the program")
    parser.add_argument("--pages", action="store_true", help="write the pages of results from results/")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a program; without one, all are listed")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the program's own")
    options = parser.parse_args()
    if options.pages:
        write_pages()
        return
    if options.name is None:
        print(listing())
        return
    path = programs().get(options.name)
    if path is None:
        parser.error(f"there is no program {options.name!r}; without a name, all are listed")
    command = [str(path.relative_to(FOLDER.parent)), *options.arguments]
    printed = run([str(path), *options.arguments])
    if options.record:
        store(options.name, f"python {' '.join(command)}", printed, options.label)
        write_pages()


def programs() -> dict[str, Path]:
    """Return the path of every program by its name, group after group."""
    named: dict[str, Path] = {}
    for group in GROUPS:
        for path in sorted((FOLDER / group).glob("*.py")):
            if path.stem in named:
                raise ValueError(f"two programs have one name: {named[path.stem]} and {path}")
            named[path.stem] = path
    return named


def listing() -> str:
    """Name every program with the first line of its docstring."""
    named = programs()
    width = max(map(len, named))
    lines = []
    for group, question in GROUPS.items():
        lines += ["", f"{group}/  {question}"]
        lines += [
            f"  {name:<{width}}  {summary(path)}" for name, path in named.items() if path.parent.name == group
        ]
    return "\n".join(lines[1:])


def summary(path: Path) -> str:
    """Return the first line of a program's docstring, without running the program."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    if not docstring:
        raise ValueError(f"{path} does not say what it is for: it has no docstring")
    return docstring.partition("\n")[0]


def run(command: list[str]) -> str:
    """Run a program in a process of its own, pass on what it prints, and return that."""
    lines = []
    with subprocess.Popen(
        [sys.executable, "-u", *command], stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        sys.exit(process.returncode)
    return "".join(lines)


def store(name: str, command: str, printed: str, label: str | None = None) -> Path:
    """Write the file of a run, or replace it, and return its path."""
    stem = name if label is None else f"{name}-{label}"
    stored = [FOLDER / folder / f"{stem}.md" for folder in PAGES.values()]
    path = next((path for path in stored if path.exists()), stored[0])
    title = read_run(path)[0].get("title") if path.exists() else None
    header = {
        "title": title,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "commit": _commit(),
        "machine": _machine(),
    }
    lines = [f"{key}: {value}" for key, value in header.items() if value]
    path.write_text("\n".join([*lines, "", printed.strip(), ""]), "utf-8")
    return path


def read_run(path: Path) -> tuple[dict[str, str], str]:
    """Return the header of a stored run, and the comments and the output below it."""
    header, _, text = path.read_text("utf-8").partition("\n\n")
    return dict(line.split(": ", 1) for line in header.splitlines()), text.strip()


def page_of(folder: Path) -> str:
    """Return a page of results: ``about.md`` of the folder, then its runs in the order of their names."""
    parts = [
        "<!-- Written by `python benchmarks/run.py --pages` from the files in benchmarks/results. -->",
        (folder / "about.md").read_text("utf-8").strip(),
    ]
    section = None
    runs = [path for path in folder.glob("*.md") if path.name != "about.md"]
    for path in sorted(runs, key=lambda path: path.stem.split("-")):
        header, text = read_run(path)
        name = path.stem.partition("-")[0]
        if name != section:
            section = name
            parts.append(f"## {header.get('title', name)}")
        commit = f"commit {header['commit']}" if "commit" in header else None
        facts = [header.get("date"), commit, header.get("machine")]
        if "command" in header:
            parts.append(", ".join([f"`{header['command']}`", *filter(None, facts)]) + ".")
        parts.append(text)
    return "\n\n".join(parts) + "\n"


def write_pages() -> None:
    """Write the pages of results from the stored runs."""
    for page, folder in PAGES.items():
        (FOLDER / page).write_text(page_of(FOLDER / folder), "utf-8")


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _machine() -> str:
    from common.side_by_side import machine  # NumPy is imported only for this

    return machine()


if __name__ == "__main__":
    main()
