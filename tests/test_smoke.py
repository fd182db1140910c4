"""The installed package works: public names, the compiled engine at every instruction set, the main methods.

These tests are run for each wheel after its installation, without the sources of the package. They require
only NumPy, SciPy, scikit-learn and pandas. Tests of results that JAX computes are skipped without JAX, which
has no wheel for some systems.
"""

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import probsfa
from probsfa.statespace.engine.core import kernels
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, needs_core, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT

JAX = importlib.util.find_spec("jax") is not None
needs_jax = pytest.mark.skipif(not JAX, reason="JAX is not installed")
WITH_JAX = {"bayes", "distributed", "extensions", "plots", "BayesianSFA", "EmissionSFA", "BilinearSFA"}
WITH_JAX |= {"Autoencoder", "PrincipalCurve", "ProductOfExpertsSFA"}
LEVELS = ["avx512", "avx2", "portable"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_jax if name in WITH_JAX else ()) for name in probsfa.__all__]
)
def test_every_public_name_is_there(name):
    assert getattr(probsfa, name) is not None


@pytest.mark.skipif("PROBSFA_WHEEL" not in os.environ, reason="only where a wheel was installed")
def test_the_wheel_is_installed_with_its_engine():
    assert importlib.metadata.version("probsfa") == probsfa.__version__
    assert not Path(probsfa.__file__).is_relative_to(Path(__file__).parents[1])
    module = importlib.util.find_spec("_probsfa_core").origin
    assert sys.version_info < (3, 12) or sys.platform == "win32" or ".abi3." in module


def wanted_levels():
    """Return the instruction sets of this processor as reported by Linux."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    wanted = ["avx512"] if {"avx512f", "avx512vl", "avx512dq", "avx2", "fma"} <= flags else []
    return [*wanted, *(["avx2"] if {"avx2", "fma"} <= flags else []), "portable"]


@needs_core
def test_the_engine_finds_the_instruction_sets_of_the_processor():
    found = kernels.kernels().levels()
    assert found == [level for level in LEVELS if level in found] and found[-1] == "portable"
    assert kernels.kernels().level() in found
    if (
        sys.platform == "linux" and platform.machine() == "x86_64" and len(found) > 1
    ):  # otherwise built without it
        assert found == wanted_levels()


@needs_core
@pytest.mark.parametrize("n_components", [1, 3, 5, 7])
@pytest.mark.parametrize("kind", ["segments", "recursions"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_engine_computes_the_joint_gaussian_at_every_level(rng, level, kind, n_components):
    from probsfa.statespace.engine.core.algorithm import Core
    from probsfa.statespace.engine.core.passes import Recursions, Segments

    module = kernels.kernels()
    if level not in module.levels():
        pytest.skip(f"this processor or build has no kernels for {level}")
    model = oracle.random_model(rng, 4, n_components)
    model = model._replace(decay=np.linspace(0.97, 0.1, n_components))
    data = mask_values(rng, oracle.simulate(rng, model, [21, 8]), "scattered")
    before = module.level()
    module.use_level(level)
    try:
        core = Core(chunk_type=Segments if kind == "segments" else Recursions)
        found = core.moments(to_parameters(model), to_panel(data))
    finally:
        module.use_level(before)
    wanted = oracle.joint_posterior(model, data)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.row_log_likelihoods.sum(), wanted.log_likelihood) < EXACT


@pytest.fixture(scope="module")
def series():
    """Return rows of four columns with two slow common factors, a tenth of the values missing."""
    rng = np.random.default_rng(0)
    t = np.arange(240)
    factors = np.column_stack([np.sin(t / 20), np.cos(t / 7)])
    X = factors @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((240, 4))
    hidden = rng.random(X.shape) < 0.1
    return X, np.where(hidden, np.nan, X), hidden


@pytest.fixture(scope="module")
def model(series):
    if not kernels.available() and not JAX:
        pytest.skip("neither the compiled engine nor JAX is installed")
    return probsfa.ProbabilisticSFA(2).fit(series[1])


def test_imputation_is_close_to_what_was_hidden(series, model):
    X, incomplete, hidden = series
    filled, std = model.impute(incomplete, return_std=True)
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])
    assert np.sqrt(np.mean((filled - X)[hidden] ** 2)) < 0.2
    assert np.all(std[hidden] > 0)


def test_posterior_filter_forecast_and_draws(series, model):
    incomplete = series[1]
    assert model.posterior(incomplete).means.shape == (240, 2)
    assert model.filter(incomplete).means.shape == (240, 2)
    assert np.isfinite(model.log_likelihood(incomplete))
    assert np.asarray(model.sample_posterior(incomplete, random_state=0)).shape[-2:] == (240, 2)
    model.forecast(incomplete, 3)


def test_a_saved_model_is_loaded(series, model, tmp_path):
    probsfa.save(model, tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(series[1]), model.transform(series[1]))


@pytest.mark.parametrize("name", ["SFA", "GraphSFA", "KernelSFA", "LaplacianEigenmaps"])
def test_deterministic_estimators(series, name):
    options = {"graph": "temporal"} if name == "GraphSFA" else {}
    assert getattr(probsfa, name)(n_components=2, **options).fit_transform(series[0]).shape == (240, 2)


def test_bundled_data():
    assert probsfa.datasets.load_nyc_weather().data.shape[1] == 18


def test_the_command(series, tmp_path):
    table = tmp_path / "incomplete.csv"
    np.savetxt(table, series[1], delimiter=",", header="a,b,c,d", comments="", fmt="%.4f")
    table.write_text(table.read_text().replace("nan", ""))
    command = [sys.executable, "-m", "probsfa", "impute", str(table), "-o", str(tmp_path / "filled.csv")]
    subprocess.run([*command, "--n-components", "2", "--quiet"], check=True)
    assert not np.isnan(np.genfromtxt(tmp_path / "filled.csv", delimiter=",", skip_header=1)).any()
