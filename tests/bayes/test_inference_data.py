"""Results for ArviZ: groups, names, coordinates, and log densities of rows and values."""

import arviz
import numpy as np
import pytest
from scipy.stats import kstest

from tests.oracles import statespace as oracle

ARVIZ_1 = not arviz.__version__.startswith("0.")
GROUPS = {
    "posterior",
    "posterior_raw",
    "posterior_predictive",
    "prior",
    "prior_predictive",
    "sample_stats",
    "log_likelihood",
    "observed_data",
    "constant_data",
}


@pytest.fixture(scope="module")
def tree(sampled):
    return sampled.to_datatree()


def test_the_tree_has_all_groups_and_is_made_once(sampled, tree):
    assert set(tree.children) == GROUPS
    assert sampled.to_datatree() is tree


def test_names_and_coordinates_are_those_of_the_data(tree, frame):
    posterior = tree["posterior"].to_dataset()
    assert posterior["loadings"].dims == ("chain", "draw", "feature", "component")
    assert posterior["feature"].to_numpy().tolist() == ["a", "b", "c"]
    observed = tree["observed_data"]["observations"]
    times = frame[0].index.tz_convert(None).to_numpy()
    assert np.array_equal(observed["time"].to_numpy(), times)
    np.testing.assert_array_equal(observed.to_numpy(), frame[0].to_numpy())
    np.testing.assert_array_equal(tree["constant_data"]["observed"], frame[0].notna())


def test_draws_are_those_of_the_model(sampled, tree):
    np.testing.assert_array_equal(tree["posterior"]["decay"], sampled.draws_.decay)
    np.testing.assert_array_equal(tree["posterior_raw"]["offset"], sampled.raw_draws_.offset)
    np.testing.assert_allclose(tree["posterior"]["timescale"], -1.0 / np.log(sampled.draws_.decay))
    np.testing.assert_allclose(tree["posterior"]["noise_std"] ** 2, sampled.draws_.noise_variance)
    assert tree["posterior"].attrs["relabelling"] == sampled.relabelling_


def test_log_likelihood_is_that_of_each_row_given_the_rows_before(sampled, tree, frame):
    logs = tree["log_likelihood"]["observations"]
    assert logs.dims == ("chain", "draw", "time")
    chain, draw = 2, int(logs["draw"][3])
    model = oracle.Model(*(x[chain, draw] for x in sampled.draws_[:4]))
    wanted = oracle.kalman_loop(model, [frame[0].to_numpy()]).row_log_likelihoods
    np.testing.assert_allclose(logs.sel(chain=chain, draw=draw), wanted, atol=1e-8)


def test_log_likelihood_by_value_is_that_of_each_value_given_all_others(sampled, tree, frame):
    logs = tree["log_likelihood"]["observed_values"]
    X = frame[0].to_numpy()
    mask = ~np.isnan(X)
    assert logs.dims == ("chain", "draw", "value") and logs.shape[-1] == mask.sum()
    assert tree["observed_data"]["observed_values"].to_numpy().tolist() == X[mask].tolist()
    assert set(logs["value_feature"].to_numpy()) == {"a", "b", "c"}
    chain, draw = 1, int(logs["draw"][2])
    model = oracle.Model(*(x[chain, draw] for x in sampled.draws_[:4]))
    whole = oracle.kalman_loop(model, [X]).row_log_likelihoods.sum()
    left_out = []
    for at in np.argwhere(mask)[::40]:
        without = X.copy()
        without[tuple(at)] = np.nan
        left_out.append(whole - oracle.kalman_loop(model, [without]).row_log_likelihoods.sum())
    np.testing.assert_allclose(logs.sel(chain=chain, draw=draw)[::40], left_out, atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_leave_one_out_of_arviz_is_calibrated_on_data_of_the_model(sampled):
    idata = sampled.inference_data_
    found = arviz.loo(idata, var_name="observed_values", pointwise=True)
    assert np.mean(found.pareto_k < 0.7) > 0.9  # few draws
    if ARVIZ_1:
        pit = arviz.loo_pit(idata, var_names=["observed_values"])["observed_values"]
    else:
        pit = arviz.loo_pit(idata, y="observed_values")
    pit = np.asarray(pit)
    assert kstest(pit, "uniform").pvalue > 1e-3


@pytest.mark.filterwarnings("ignore")
def test_arviz_plots_the_calibration_of_values_left_out(sampled):
    idata = sampled.inference_data_
    if ARVIZ_1:
        assert arviz.plot_loo_pit(idata, var_names=["observed_values"]) is not None
    else:
        assert arviz.plot_loo_pit(idata, y="observed_values", backend="matplotlib") is not None


def test_predictive_observations_are_factors_times_loadings_plus_noise(sampled, tree):
    group = tree["posterior_predictive"]
    draws = group["observations"]["draw"].to_numpy()
    loadings, offset = (tree["posterior"][name].sel(draw=draws).to_numpy() for name in ("loadings", "offset"))
    signal = np.einsum("cntk,cndk->cntd", group["latents"].to_numpy(), loadings) + offset[:, :, None]
    rest = (group["observations"].to_numpy() - signal) / tree["posterior"]["noise_std"].sel(
        draw=draws
    ).to_numpy()[:, :, None]
    assert abs(rest.std() - 1.0) < 0.02 and abs(rest.mean()) < 0.02


def test_prior_is_in_data_units_and_steps(tree, frame):
    assert 4.0 < np.median(tree["prior"]["timescale"]) < 25.0
    ratio = tree["prior_predictive"]["observations"].to_numpy().std() / np.nanstd(frame[0].to_numpy())
    assert 0.5 < ratio < 4.0


@pytest.mark.filterwarnings("ignore")
def test_the_installed_arviz_summarises_it(sampled):
    table = arviz.summary(sampled.inference_data_, var_names=["timescale", "loadings"])
    assert len(table) == 4 and any("loadings" in str(name) for name in table.index)
    ess = float(table["ess_bulk"].iloc[0])
    assert ess == pytest.approx(float(sampled.diagnostics_["ess"]["decay"][0]), abs=1.0)  # ArviZ rounds
