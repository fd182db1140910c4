"""List the benchmarks, or run one of them by its name.

    python benchmarks/run.py                            what there is, a line each
    python benchmarks/run.py sfa_speed --quick          run one program; further arguments are passed to it
    python benchmarks/run.py --record sfa_speed         the same, and store its output in RESULTS.md

A program is a file in speed/, accuracy/ or papers/, and can also be run by its path. With ``--record`` its
section of RESULTS.md is replaced by the command, the date and the output; other sections are unchanged.
"""

import argparse
import ast
import datetime
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "RESULTS.md"
GROUPS = {
    "speed": "how long it takes, and how much memory",
    "accuracy": "how right the answers are",
    "papers": "figures and tables of the papers, made again",
}


def main() -> None:
    """List the programs, or run one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write the program's section of RESULTS.md")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a program; without one, all are listed")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the program's own")
    options = parser.parse_args()
    if options.name is None:
        print(listing())
        return
    path = programs().get(options.name)
    if path is None:
        parser.error(f"there is no program {options.name!r}; without a name, all are listed")
    command = [str(path.relative_to(FOLDER.parent)), *options.arguments]
    printed = run([str(path), *options.arguments])
    if options.record:
        text = f"`python {' '.join(command)}`, {datetime.date.today().isoformat()}\n\n{printed.strip()}\n"
        RESULTS.write_text(with_section(RESULTS.read_text("utf-8"), options.name, text), "utf-8")


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


def with_section(results: str, name: str, text: str) -> str:
    """Return the results with the section of a program replaced, or added at the end."""
    title, *sections = re.split(r"^(?=## )", results, flags=re.MULTILINE)
    texts = {section[3:].partition("\n")[0].strip(): section for section in sections}
    texts[name] = f"## {name}\n\n{text.strip()}\n"
    return "\n".join(part.rstrip() + "\n" for part in (title, *texts.values()))


if __name__ == "__main__":
    main()
