"""Questions of users, and the pages that the search of the site should find.

    sphinx-build -E -W docs docs/_build/html && python docs/search_questions.py docs/_build/html

runs the JavaScript of the site search with Node.js. The index of the search is complete only after a build of
all pages (``-E``). The program prints the three best pages for each question. The exit code is 1 if the
expected page is not among them. Further arguments are questions to ask instead.
"""

import json
import subprocess
import sys
from pathlib import Path

#: Questions, and pages of which one should be among the first three.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "missing values confidence interval": ("limits", "quickstart", "glossary", "imputer"),
    "kalman smoother python missing data": ("quickstart", "engine"),
    "impute csv file": ("command_line",),
    "how many factors": ("selection",),
    "forecast interval": ("quickstart", "times", "glossary"),
    "irregular time steps": ("times",),
    "outliers": ("outliers",),
    "count data": ("emissions",),
    "dynamic factor model": ("glossary", "comparison", "mathematics"),
    "GPFA": ("glossary", "factors", "emissions"),
    "TICA": ("glossary", "comparison"),
    "EM algorithm": ("fitting", "glossary"),
    "autocorrelated residuals": ("diagnostics", "factors"),
    "seasonality": ("factors", "covariates"),
    "exogenous variables": ("covariates",),
    "scikit-learn pipeline": ("pipelines", "imputer"),
    "save model": ("saving",),
    "anomaly detection": ("monitoring",),
    "credible interval": ("choosing_an_estimator", "glossary"),
    "nowcasting": ("times", "glossary", "tutorials/11_nowcast"),
    "spectral clustering": ("spectral",),
    "Heywood case": ("fitting", "glossary"),
    "negative rain": ("transforms",),
    "grid search": ("pipelines",),
    "polars": ("adapters",),
}

_NODE = """
const fs = require("fs"), vm = require("vm");
const [site, ...questions] = process.argv.slice(1);
const element = () => ({ appendChild: (child) => child, classList: { add() {} }, firstChild: null });
const context = vm.createContext({
  document: {
    getElementById: () => null, createElement: element, addEventListener() {}, querySelector: () => null,
    documentElement: { dataset: { content_root: "" } }, readyState: "loading",
  },
  localStorage: { setItem() {} }, location: { search: "" }, console, URLSearchParams,
  SPHINX_HIGHLIGHT_ENABLED: false, _: (text) => text, DOCUMENTATION_OPTIONS: {}, _ready() {},
});
context.window = context;
for (const file of ["language_data", "searchtools"]) {
  vm.runInContext(fs.readFileSync(`${site}/_static/${file}.js`, "utf-8"), context);
}
vm.runInContext("globalThis.search = Search", context);
vm.runInContext(fs.readFileSync(`${site}/searchindex.js`, "utf-8"), context);
for (const question of questions) {
  const found = context.search._performSearch(...context.search._parseQuery(question));
  const pages = [...new Set(found.reverse().map((result) => result[0]))];
  console.log(JSON.stringify(pages.slice(0, 3)));
}
"""


def search(site: Path, questions: list[str]) -> list[list[str]]:
    """Return the names of the first three pages for each question."""
    done = subprocess.run(
        ["node", "-e", _NODE, str(site), *questions], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"the search of {site} failed: {done.stderr.strip().splitlines()[-1:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(arguments: list[str]) -> int:
    """Print the first pages for each question, and return 1 if an expected page is missing."""
    if not arguments:
        sys.exit(__doc__)
    site, questions = Path(arguments[0]), arguments[1:] or list(QUESTIONS)
    missed = 0
    for question, pages in zip(questions, search(site, questions), strict=True):
        expected = QUESTIONS.get(question, ())
        found = not expected or bool(set(expected) & set(pages))
        missed += not found
        sys.stdout.write(f"{'' if found else 'MISSED '}{question}: {', '.join(pages)}\n")
    if not arguments[1:]:
        sys.stdout.write(
            f"{len(questions) - missed} of {len(questions)} questions lead to an expected page.\n"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
