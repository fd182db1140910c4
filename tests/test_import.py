"""Importing the package is fast, and every public name is available."""

import ast
import importlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

import probsfa
from probsfa.statespace.engine.core.kernels import available
from tests.statespace.support import needs_core

HEAVY = (
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "jax",
    "numpyro",
    "xarray",
    "arviz",
    "matplotlib",
    "tqdm",
    "dask",
)


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy():
    loaded = python("import sys, probsfa; print(*sorted({name.partition('.')[0] for name in sys.modules}))")
    assert not set(HEAVY) & set(loaded.split())


DEFAULT_PATH = """
import sys, warnings
import numpy as np
from probsfa import ProbabilisticSFA
warnings.simplefilter("ignore")
X = np.cumsum(np.random.default_rng(0).standard_normal((120, 3)), axis=0)
X[::7, 1] = np.nan
for options in ({}, {"n_components": 1, "noise": "ar1"}, {"n_components": 1, "robust": True}):
    model = ProbabilisticSFA(max_iter=5, **options).fit(X)
    model.impute(X, return_std=True), model.posterior(X), model.filter(X), model.forecast(X, 3)
    model.sample_posterior(X, random_state=0), model.score(X), model.outlier_scores(X)
print("jax" in sys.modules)
"""


@needs_core
def test_the_default_path_loads_no_jax():
    assert python(DEFAULT_PATH).strip() == "False"


MINIMAL = """
import sys
absent = {"jax", "numpyro", "matplotlib", "xarray", "arviz", "tqdm", "dask"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import probsfa
X = np.cumsum(np.random.default_rng(0).standard_normal((60, 3)), axis=0)
features = probsfa.SFA(2).fit_transform(X)
if WITH_CORE:
    X[5:9, 1] = np.nan
    filled = probsfa.ProbabilisticSFA().fit(X).impute(X)
    filled += probsfa.imputation.ProbabilisticImputer().fit_transform(X)
    print(bool(np.isfinite(features).all() and np.isfinite(filled).all()))
"""


def test_numpy_scipy_scikit_learn_and_pandas_are_enough():
    python(MINIMAL.replace("WITH_CORE", str(available())))


# Modules that are slow to import, and required by neither the first fit nor scikit-learn's base classes.
AVOIDABLE = (
    "jax",
    "matplotlib",
    "probsfa.graphs",
    "probsfa.sfa",
    "scipy.signal",
    "sklearn.cluster",
    "sklearn.linear_model",
    "sklearn.neighbors",
    "sklearn.pipeline",
    "statsmodels",
    "tqdm",
    "xarray",
)
FIRST_RESULT = """
import sys, warnings
import numpy as np
import sklearn.base, sklearn.utils.validation
before = set(sys.modules)
from probsfa import ProbabilisticSFA
warnings.simplefilter("ignore")
X = np.cumsum(np.random.default_rng(0).standard_normal((60, 3)), axis=0)
X[5:9, 1] = np.nan
ProbabilisticSFA(max_iter=5).fit(X).impute(X, return_std=True)
print(*(set(sys.modules) - before))
"""


@needs_core
def test_the_first_imputation_loads_only_what_it_needs():
    assert not set(AVOIDABLE) & set(python(FIRST_RESULT).split())


def seconds(code):
    begin = time.perf_counter()
    python(code)
    return time.perf_counter() - begin


@pytest.mark.nightly  # its result depends on the load of the machine
def test_import_is_fast():
    # The best of several runs, because other work on the machine adds time.
    empty = min(seconds("pass") for _ in range(5))
    loaded = min(seconds("import probsfa") for _ in range(5))
    assert loaded - empty < 0.2


def test_names_are_those_that_type_checkers_see():
    stub = ast.parse(Path(probsfa.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    # Without "as", an import in a stub is private.
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    declared = [node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)]
    assert sorted(probsfa.__all__) == sorted([*declared, *(a.name for node in imports for a in node.names)])
    for module, name in ((node.module, alias.name) for node in imports for alias in node.names):
        home = importlib.import_module(f"probsfa.{name}" if module == "probsfa" else module)
        assert getattr(probsfa, name) is (home if module == "probsfa" else getattr(home, name))


def test_public_names_are_listed():
    assert set(probsfa.__all__) <= set(dir(probsfa))


def test_public_names_are_the_objects_themselves():
    from probsfa.sfa import SFA
    from probsfa.statespace import ProbabilisticSFA

    assert probsfa.SFA is SFA
    assert probsfa.ProbabilisticSFA is ProbabilisticSFA
    assert python("import probsfa; print(probsfa.datasets.__name__)") == "probsfa.datasets\n"


def test_dir_lists_public_names_only():
    assert dir(probsfa) == sorted(probsfa.__all__)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *[
            ("statespace", name)
            for name in (
                "load",
                "Parameters",
                "Selection",
                "innovation_parameters",
                "make_innovation_parameters",
            )
        ],
        *[("imputation", name) for name in ("Errors", "Hiding", "Method", "Progress")],
        *[("imputation", name) for name in ("HiddenCells", "fit_quietly", "hide", "score")],
        ("datasets", "hide_cells"),
        *[("graphs", name) for name in ("GraphBuilder", "MomentStream", "graph_moments", "temporal_moments")],
        *[("distributed", name) for name in ("graph_moments", "temporal_moments")],
        *[
            ("plots", f"plot_{name}")
            for name in ("control_charts", "diagnostics", "model_selection", "selection")
        ],
        *[("expansions", "is_stateless"), ("bayes", "SharedScaleNormal")],
    ],
)
def test_names_that_were_public_warn(module, name):
    home = getattr(probsfa, module)
    assert name not in getattr(home, "__all__", vars(home))
    with pytest.warns(FutureWarning, match=f"probsfa.{module}.{name}.*version 2.0"):
        assert callable(getattr(home, name))


def test_unknown_name():
    with pytest.raises(AttributeError, match="'probsfa'.*'PFA'"):
        _ = probsfa.PFA
    with pytest.raises(ImportError, match="'PFA'"):
        from probsfa import PFA  # noqa: F401


# Public names, classes named in a saved file, and the compiled engine, which may be absent.
BY_STRING = {"_lazy.py", "_saving.py", "kernels.py"}


def test_no_module_is_imported_by_a_string():
    """The import contract is checked for import statements only."""
    named = ("import_module(", "__import__(", "resolve_name(")
    sources = Path(probsfa.__file__).parent.rglob("*.py")
    found = {path.name for path in sources if any(one in path.read_text(encoding="utf-8") for one in named)}
    assert found == BY_STRING


def test_version_is_that_of_the_installed_package():
    from importlib import metadata

    try:
        installed = metadata.version("probsfa")
    except metadata.PackageNotFoundError:
        pytest.skip("probsfa is not installed here, it is run from its source")
    assert probsfa.__version__ == installed
