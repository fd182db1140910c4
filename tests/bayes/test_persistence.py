"""Saving and loading of posteriors without pickle, and filters that continue from a state."""

import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import probsfa
from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes import Priors, persistence
from probsfa.bayes.draws import parameters_of_draw, thinned_indices
from probsfa.datasets import hide_values, make_slow_mixture
from probsfa.statespace.filtering import run_filter
from tests.sampling import parametrize
from tests.saved import cases
from tests.tolerances import EXACT

FAST = {"inference": "svi", "n_steps_svi": 3, "n_draws": 20, "n_chains": 2, "verbose": False}


def fit(X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at = {name: options.pop(name) for name in ("lengths", "times") if name in options}
        return BayesianSFA(1, **{**FAST, "random_state": 0, "n_predictive": 15, **options}).fit(X, **at)


@pytest.fixture(scope="module")
def data():
    X = np.asarray(make_slow_mixture(40, 3, decay=[0.9], noise_variance=0.2, random_state=0).data)
    return np.where(hide_values(X, 0.1, random_state=0), np.nan, X)


@pytest.fixture(scope="module")
def model(data):
    return fit(pd.DataFrame(data, columns=["wind", "rain", "sun"]))


def reload(model, folder):
    model.save(folder / "model.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return probsfa.load(folder / "model.npz")


def same(one, other, X, **at):
    for name in ("decay_", "loadings_", "noise_variance_", "mean_", "timescales_", "elbo_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.status_, one.converged_, one.relabelling_) == (
        other.status_,
        other.converged_,
        other.relabelling_,
    )
    assert one.time_unit_ == other.time_unit_
    np.testing.assert_array_equal(one.transform(X, **at), other.transform(X, **at))
    for a, b in zip(
        one.impute(X, return_std=True, interval=0.9, **at),
        other.impute(X, return_std=True, interval=0.9, **at),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert one.log_likelihood(X, **at) == other.log_likelihood(X, **at)
    np.testing.assert_array_equal(one.sample(5, random_state=1)[0], other.sample(5, random_state=1)[0])


def test_a_loaded_posterior_is_the_saved_one(model, data, tmp_path):
    loaded = reload(model, tmp_path)
    frame = pd.DataFrame(data, columns=["wind", "rain", "sun"])
    assert type(loaded) is BayesianSFA and loaded.get_params() == model.get_params()
    assert list(loaded.feature_names_in_) == ["wind", "rain", "sun"] and loaded.n_features_in_ == 3
    same(loaded, model, frame)
    one, other = loaded.to_datatree(), model.to_datatree()
    assert set(one.children) == set(other.children)
    for group in one.children:
        for name, values in other[group].data_vars.items():
            np.testing.assert_allclose(one[group][name].values, values.values, err_msg=f"{group} {name}")


def test_files_of_posteriors_contain_no_python_objects(model, tmp_path):
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert {file[name].dtype.kind for name in file.files} <= set("fiuU")


@parametrize(
    "options",
    [
        {"times": pd.date_range("2020", periods=40, freq="2h").to_numpy()},
        {"noise": [0.2, 0.2, 0.2]},
        {"hierarchical": True, "lengths": [15, 25]},
        {"priors": Priors(timescale=dist.LogNormal(2.0, 1.0), noise_std=dist.HalfNormal(1.0))},
        {"priors": Priors(shrinkage=0.3), "standardize": False},
    ],
    quick=2,
)
def test_posteriors_of_every_kind_are_restored(data, tmp_path, options):
    fitted = fit(data, **options)
    loaded = reload(fitted, tmp_path)
    same(loaded, fitted, data, **{k: v for k, v in options.items() if k in ("lengths", "times")})
    np.testing.assert_array_equal(loaded.fitted_.time_index, fitted.fitted_.time_index)
    if "priors" in options:
        assert type(loaded.priors.timescale) is type(options["priors"].timescale)
        assert loaded.priors.shrinkage == options["priors"].shrinkage
        x = np.array([0.5, 2.0])
        for one, other in ((loaded.priors.timescale, fitted.priors.timescale),):
            np.testing.assert_array_equal(one.log_prob(x), other.log_prob(x))


@pytest.mark.parametrize(
    ("name", "groups"), [("diagonal", (0, 1, 2)), ("isotropic", (0, 0, 0)), ("fixed", (-1, -1, -1))]
)
def test_names_of_noise_in_files_of_earlier_versions_are_read(name, groups):
    assert persistence._noise({"noise_kind": name}, 3).groups == groups


@pytest.mark.parametrize(
    "prior",
    [dist.Normal(0.5, 2.0), dist.LogNormal(np.array([1.0, 3.0]), 1.0), dist.InverseGamma(2.0, 0.5), 0.3],
)
def test_priors_are_rebuilt_from_names_and_numbers(prior):
    again = persistence._rebuild(json.loads(json.dumps(persistence._describe(prior))))
    assert type(again) is type(prior)
    if isinstance(prior, dist.Distribution):
        np.testing.assert_allclose(again.log_prob(0.7), prior.log_prob(0.7), rtol=1e-6)
    else:
        assert again == prior


def test_a_prior_without_a_named_distribution_cannot_be_saved(data, tmp_path):
    fitted = fit(data, priors=Priors(offset=dist.Normal(0.0, 1.0).expand([3])))
    with pytest.raises(ValueError, match="prior"):
        fitted.save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()


def test_a_file_with_the_old_name_of_the_minimum_variance_is_read():
    path = Path(cases.__file__).parent / "version1" / "bayesian.npz"
    with np.load(path) as file:
        expected = file["least_noise"]
    loaded = probsfa.load(path)
    np.testing.assert_array_equal(loaded.fitted_.data.min_noise_variance, expected)
    state = loaded._to_arrays()
    assert "least_noise" not in state
    np.testing.assert_array_equal(state["min_noise_variance"], expected)


def test_a_damaged_file_of_a_posterior_raises(tmp_path):
    """A file of version 1 has no checksum."""
    whole = Path(cases.__file__).parent / "version1" / "bayesian.npz"
    content = whole.read_bytes()
    with np.load(whole) as file:
        arrays = dict(file)
    broken = {
        "cut": content[: len(content) // 2],
        "missing": {name: x for name, x in arrays.items() if name != "draws_decay"},
        "not finite": {**arrays, "draws_loadings": arrays["draws_loadings"] * np.nan},
        "shape": {**arrays, "shift": np.zeros(5)},
        "range": {**arrays, "draws_decay": arrays["draws_decay"] + 1.0},
        "order": {**arrays, "permutations": arrays["permutations"] + 1},
    }
    for name, case in broken.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(case) if isinstance(case, bytes) else np.savez(path, **case)
        with pytest.raises(ValueError, match=f"{name}.npz .*(broken|no usable model).*\\.$"):
            probsfa.load(path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("x", "y")
    with pytest.raises(ValueError, match="not a model"):
        probsfa.load(tmp_path / "other.zip")


# ------------------------------------------------------------------ filters


def test_a_filter_averages_the_filters_of_the_draws(model, data):
    frame = pd.DataFrame(data, columns=["wind", "rain", "sun"])
    result = model.filter(frame)
    draws = model.draws_
    chains, chosen = range(len(draws.decay)), thinned_indices(draws, 15)
    params = [parameters_of_draw(draws, chain, draw, 1)[0] for chain in chains for draw in chosen]
    parts = [run_filter(one, Sequences(data, (40,)), None) for one in params]
    means = np.array([part.means for part in parts])
    np.testing.assert_allclose(result.means, means.mean(axis=0), atol=EXACT)
    spread = np.mean([part.covariances for part in parts], axis=0)[:, 0, 0] + means[:, :, 0].var(axis=0)
    np.testing.assert_allclose(result.covariances[:, 0, 0], spread, atol=EXACT)
    assert result.log_likelihood == pytest.approx(model.log_likelihood(frame), abs=1e-8)
    np.testing.assert_allclose(result.means.iloc[-1], model.transform(frame).iloc[-1], atol=1e-8)
    np.testing.assert_allclose(
        result.row_log_likelihoods, model.posterior(frame).row_log_likelihoods, atol=1e-8
    )


@pytest.mark.parametrize("timed", [False, True])
def test_a_filter_of_a_posterior_continues_from_its_state(data, timed):
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 2.0, 40)) if timed else None
    model = fit(data, **({"times": times} if timed else {}))

    def part(rows, state=None):
        return model.filter(data[rows], state, times=None if times is None else times[rows])

    whole, first = part(slice(None)), part(slice(0, 17))
    second = part(slice(17, None), first.state)
    np.testing.assert_allclose(np.concatenate([first.means, second.means]), whole.means, atol=EXACT)
    np.testing.assert_allclose(second.std, whole.std[17:], atol=EXACT)
    np.testing.assert_allclose(second.row_log_likelihoods, whole.row_log_likelihoods[17:], atol=1e-8)


def test_filters_of_several_sequences_are_a_list(model, data):
    frame = pd.DataFrame(data, columns=["wind", "rain", "sun"])
    cut, listed = model.filter(frame, lengths=[25, 15]), model.filter([frame[:25], frame[25:]])
    for one, other in zip(cut, listed, strict=True):
        np.testing.assert_array_equal(one.means, other.means)
    with pytest.raises(ValueError, match="state continues one sequence"):
        model.filter(frame, cut[0].state, lengths=[25, 15])
    few = cut[0].state._replace(means=cut[0].state.means[:3])
    with pytest.raises(ValueError, match="state.*3"):
        model.filter(frame, few)


def test_a_loaded_posterior_has_its_unit_of_time(tmp_path):
    """Dates of the training data are hourly, those of new data half-hourly."""
    x = make_slow_mixture(40, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    frame = pd.DataFrame(x, index=pd.date_range("2024-01-01", periods=40, freq="h"), columns=list("abc"))
    model = fit(frame)
    model.save(tmp_path / "model")
    loaded = probsfa.load(tmp_path / "model")
    assert loaded.time_unit_seconds_ == model.time_unit_seconds_ == 3600.0
    finer = frame.set_axis(pd.date_range("2024-01-01", periods=40, freq="30min"))
    np.testing.assert_array_equal(loaded.transform(finer), model.transform(finer))
    assert not np.allclose(loaded.transform(finer), loaded.transform(frame))
