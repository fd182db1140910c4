"""Run benchmarks by name, and keep what they print in RESULTS.md.

Each runs in a process of its own. Its section of RESULTS.md, with the command that made it, is replaced; the
others stay.

    python benchmarks/run.py sfa_speed full_fit_peers
    python benchmarks/run.py sfa_speed -- --quick
    python benchmarks/run.py all
"""

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "RESULTS.md"
# Those that print Markdown and stand side by side with peers.
SUITES = ("sfa_speed", "smoother_peers", "full_fit_peers")
TITLE = """# Results

What the programs in this folder print, each with the command that made it. `python benchmarks/run.py NAME...`
makes the sections anew (`pip install '.[bench]'` brings the peers); `--help` of each program says what is
measured and how.
"""


def main() -> None:
    """Run the programs and write their sections."""
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=[*SUITES, "all"], metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--dry", action="store_true", help="leave RESULTS.md as it is")
    options = parser.parse_args(sys.argv[1:split])
    for name in SUITES if "all" in options.names else options.names:
        text = run(name, sys.argv[split + 1 :])
        if not options.dry:
            RESULTS.write_text(with_section(read(), name, text), encoding="utf-8")


def run(name: str, arguments: list[str]) -> str:
    """Run a program, pass on what it prints, and return the text of its section."""
    command = [f"benchmarks/{name}.py", *arguments]
    lines = []
    process = subprocess.Popen(
        [sys.executable, *command], cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    for line in process.stdout or ():
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait() != 0:
        sys.exit(f"{command[0]} failed with exit code {process.returncode}; its section is left as it was.")
    today = datetime.date.today().isoformat()
    return f"`python {' '.join(command)}`, {today}\n\n{''.join(lines).strip()}\n"


def with_section(results: str, name: str, text: str) -> str:
    """Return the results with one section replaced, or added in the order of the names."""
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", results, flags=re.M | re.S))
    sections[name] = text
    order = sorted(sections, key=lambda key: SUITES.index(key) if key in SUITES else len(SUITES))
    return TITLE + "".join(f"\n## {key}\n\n{sections[key].strip()}\n" for key in order)


def read() -> str:
    """Return the results so far."""
    return RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""


if __name__ == "__main__":
    main()
