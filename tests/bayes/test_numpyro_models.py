"""The models in docs/numpyro_models.md run, and have the densities of joint Gaussians."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density

from probsfa.bayes import factorial_ar1_model
from tests.oracles import statespace as oracle
from tests.tolerances import EXACT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "numpyro_models.md"
SWITCH = 'jax.config.update("jax_enable_x64", True)'  # would also change all other tests


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def run_page(draw=None):
    """Run the code of the page, with `draw` in place of its function; return its global names."""
    first, *models = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert SWITCH in first and len(models) == 5
    names = {}
    exec(first.replace(SWITCH, ""), names)
    if draw is not None:
        names["draw"] = draw
    for code in models:
        exec(code, names)
    return names


@pytest.fixture(scope="module")
def calls():
    """Return the models of the page and their data, by name of the model."""
    made = {}

    def record(model, *data):
        made[model.__name__] = (model, data)

    with jax.enable_x64(True):
        run_page(record)
    return made


def density_of_series(call, values):
    """Return the log density of the series given values of the other sites."""
    model, data = call

    def density(values):
        _, trace = log_density(model, data, {}, values)
        return trace["x"]["fn"].log_prob(trace["x"]["value"])

    return np.asarray(
        jax.jit(density)(values)
    )  # one program; otherwise each operation would be compiled separately


def test_groups_have_the_densities_of_joint_gaussians(rng, calls):
    values = {
        "mean": 1.5,
        "std": 0.4,
        "loadings": rng.uniform(0.5, 1.0, (2, 1)),
        "noise_std": np.array([0.4, 0.6]),
        "deviation": rng.standard_normal(3),
    }
    (X,) = calls["groups"][1]
    assert np.isnan(X).any()
    found = density_of_series(calls["groups"], values)
    decays = np.exp(-1.0 / np.exp(1.5 + 0.4 * values["deviation"]))
    for density, decay, x in zip(found, decays, X, strict=True):
        model = oracle.Model(np.array([decay]), values["loadings"], values["noise_std"] ** 2, np.zeros(2))
        assert density == pytest.approx(oracle.log_likelihood(model, [x]), rel=EXACT)


def test_covariates_change_the_means_of_the_rows(rng, calls):
    values = {
        "coefficients": rng.standard_normal((2, 2)),
        "timescale": np.array([5.0]),
        "loadings": rng.uniform(0.5, 1.0, (2, 1)),
        "noise_std": np.array([0.4, 0.6]),
    }
    X, U = calls["regression"][1]
    model = oracle.Model(np.exp([-0.2]), values["loadings"], values["noise_std"] ** 2, np.zeros(2))
    wanted = oracle.log_likelihood(model, [X - U @ values["coefficients"]])
    assert density_of_series(calls["regression"], values) == pytest.approx(wanted, rel=EXACT)


def test_tables_share_the_first_factor_only(rng, calls):
    loadings = {
        name: rng.uniform(0.5, 1.0, (2, 1)) for name in ("shared_x", "specific_x", "shared_y", "specific_y")
    }
    values = {"timescale": np.array([9.0, 3.0, 2.0]), "noise_std": np.full(4, 0.5), **loadings}
    X, Y = calls["tables"][1]
    matrix = np.zeros((4, 3))
    matrix[:2, [0, 1]] = np.hstack([loadings["shared_x"], loadings["specific_x"]])
    matrix[2:, [0, 2]] = np.hstack([loadings["shared_y"], loadings["specific_y"]])
    model = oracle.Model(np.exp(-1.0 / values["timescale"]), matrix, np.full(4, 0.25), np.zeros(4))
    wanted = oracle.log_likelihood(model, [np.hstack([X, Y])])
    assert density_of_series(calls["tables"], values) == pytest.approx(wanted, rel=EXACT)


def test_coordinates_do_not_change_the_density_of_the_series(rng, calls):
    values = {"factorial_ar1_coordinates": rng.standard_normal(7)}
    model, data = calls["measured_noise"]

    def sites(values):
        _, trace = log_density(model, data, {}, values)
        series = trace["observations"]["fn"]
        return series.log_prob(data[0]), series.decay, series.loadings, series.noise_variance, series.offset

    found, *parameters = map(np.asarray, jax.jit(sites)(values))
    wanted = oracle.log_likelihood(oracle.Model(*parameters), [data[0]])
    assert found == pytest.approx(wanted, rel=EXACT)


def test_the_old_name_of_the_minimum_variance_warns(rng):
    X = rng.standard_normal((6, 2))
    values = {
        "timescale": np.array([3.0]),
        "loadings": np.ones((2, 1)),
        "noise_std": np.full(2, 0.1),
        "offset": np.zeros(2),
    }

    def density(**options):
        return float(log_density(factorial_ar1_model, (X, 1), options, values)[0])

    with pytest.warns(FutureWarning, match="least_noise is now min_noise_variance.*version 2.0"):
        old = density(least_noise=0.5)
    assert old == density(min_noise_variance=0.5) != density()


@pytest.mark.exhaustive
def test_posteriors_of_the_page_contain_the_simulated_parameters():
    names = run_page()
    by_group, effect = names["samples_by_group"], names["effect"]
    logs = np.log(np.asarray(by_group["timescale"]))
    assert np.all(np.abs(logs.mean(axis=0) - np.log(names["timescales"])) < 4.0 * logs.std(axis=0))
    coefficients = np.asarray(names["samples_with_covariates"]["coefficients"])
    assert np.all(np.abs(coefficients.mean(axis=0) - effect) < 4.0 * coefficients.std(axis=0))
    assert np.all(coefficients[:, 1].std(axis=0) < 0.5)
    for name in ("shared_x", "shared_y"):
        assert np.all(np.quantile(names["samples_of_tables"][name], 0.05, axis=0) > 0.1)
    std = np.asarray(names["samples_with_measured_noise"]["noise_std"])
    assert np.all(np.abs(std.mean(axis=0) - 0.5) < 4.0 * std.std(axis=0))
    rates = np.asarray(names["samples_of_counts"]["log_rate"])
    assert np.corrcoef(rates.mean(axis=0).ravel(), np.log1p(names["N"]).ravel())[0, 1] > 0.7
    assert np.median(rates.std(axis=0)) > 0.2
