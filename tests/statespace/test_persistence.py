"""Saving and loading: loaded models are equal; files are never unpickled or partially written."""

import json
import os
import stat
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import probsfa
from probsfa import ProbabilisticSFA, _saving
from probsfa.statespace import persistence
from probsfa.statespace.learning.maximum_likelihood import FitStatus
from probsfa.statespace.student_model import model_of_fit


def test_a_loaded_model_is_the_saved_one(series, tmp_path):
    _, data, fitted = series
    fitted.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert loaded.get_params() == fitted.get_params()
    assert type(loaded) is ProbabilisticSFA
    for name in ("decay_", "loadings_", "noise_variance_", "mean_", "timescales_", "history_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fitted, name))
    for name in ("log_likelihood_", "n_iter_", "n_evaluations_", "converged_", "status_", "time_unit_"):
        assert getattr(loaded, name) == getattr(fitted, name), name
    assert loaded.n_features_in_ == 5
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
    np.testing.assert_array_equal(loaded.impute(data), fitted.impute(data))
    np.testing.assert_array_equal(loaded.forecast(data, 2).std, fitted.forecast(data, 2).std)
    one, other = loaded.standard_errors(data), fitted.standard_errors(data)
    np.testing.assert_array_equal(one.loadings, other.loadings)


def test_names_and_times_are_restored(series, tmp_path):
    data = pd.DataFrame(series[1], columns=["wind", "rain", "sun", "snow", "größe"])
    fitted = ProbabilisticSFA(1).fit(data, times=np.arange(100) * 60.0)
    fitted.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert list(loaded.feature_names_in_) == list(data.columns)
    assert loaded.time_unit_ == 60.0
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(data[data.columns[::-1]])


def test_the_limit_is_restored(tmp_path):
    x = np.cumsum(np.random.default_rng(0).standard_normal((60, 4)), axis=0)
    fitted = ProbabilisticSFA(2, noise=0.0).fit(x)
    fitted.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(x), fitted.transform(x))
    np.testing.assert_array_equal(loaded.forecast(x, 3).means, fitted.forecast(x, 3).means)
    assert loaded.log_likelihood(x) == fitted.log_likelihood(x)
    assert loaded.status_ == fitted.status_ and loaded.converged_


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": np.int64(1)},
        {"max_iter": np.int32(150)},
        {"tol": np.float32(1e-3)},
        {"noise": np.float64(0.3)},
        {"noise": np.float32(0.5)},
        {"random_state": np.int64(3)},
        {"random_state": np.random.default_rng(3)},
        {"verbose": np.bool_(False)},
    ],
)
def test_options_of_any_number_type_are_saved(series, tmp_path, options):
    _, data, _ = series
    fitted = ProbabilisticSFA(**{"n_components": 1, **options}).fit(data)
    fitted.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_unconverged_model_is_reported_after_loading(series, tmp_path):
    fitted = ProbabilisticSFA(2, max_iter=3).fit(series[1])
    fitted.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert not loaded.converged_ and loaded.status_ == fitted.status_


@pytest.mark.parametrize("interrupted", [False, True])
def test_whether_a_fit_was_interrupted_is_restored(series, tmp_path, interrupted):
    """In files of earlier versions, only the first sentence of the status reports an interruption."""
    ended = "Interrupted: the best parameters so far are kept." if interrupted else "Converged."
    model = replace(
        series[2]._model.fitted, interrupted=interrupted, status=FitStatus.of("any", f"{ended} And more.")
    )
    state = persistence.to_arrays(model_of_fit(model), series[2].get_params())
    assert persistence.from_arrays(dict(state))[0].fitted.interrupted is interrupted
    del state["interrupted"]
    assert persistence.from_arrays(dict(state))[0].fitted.interrupted is interrupted
    with pytest.raises(ValueError, match="interrupted.*got 'no'"):
        persistence.from_arrays({**state, "interrupted": "no"})


def test_files_with_old_names_of_ar1_noise_are_read():
    fitted = ProbabilisticSFA.from_parameters([0.9], [[1.0], [0.5]], 0.1, noise_decay=0.5, noise_scale=2.0)
    state = persistence.to_arrays(fitted._model, fitted.get_params())
    assert not any(name.startswith("memory") for name in state)
    for name in ("decay", "scale"):
        state[f"memory_{name}"] = state.pop(f"noise_{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params = persistence.from_arrays(state)[0].fitted.params
    np.testing.assert_array_equal(params.noise_decay, [0.5, 0.5])
    np.testing.assert_array_equal(params.noise_scale, [2.0, 2.0])
    state["memory_scale"] = -state["memory_scale"]
    with pytest.raises(ValueError, match="noise_scale must not be negative"):
        persistence.from_arrays(state)


def test_files_contain_no_python_objects(series, tmp_path):
    series[2].save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        for name in file.files:
            assert file[name].dtype.kind in "fiuU", name
        header = json.loads(str(file["header"]))
    assert header["format"] == "probsfa" and header["version"] == _saving.VERSION


def test_the_name_is_used_as_given(series, tmp_path):
    series[2].save(str(tmp_path / "a model"))
    assert os.listdir(tmp_path) == ["a model"]
    assert probsfa.load(tmp_path / "a model").n_components == 2


def test_a_saved_file_has_the_usual_permissions(series, tmp_path):
    """Saved files have the permissions of the umask, like any file that the user writes."""
    (tmp_path / "plain").write_text("")
    series[2].save(tmp_path / "model.npz")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "model.npz")]
    assert modes[0] == modes[1]


def test_a_failed_save_leaves_the_old_file(series, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    series[2].save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        series[2].save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.npz"]


def written(path, **changes):
    header = {"format": "probsfa", "version": 2, "kind": "estimator", **changes}
    np.savez(path, header=np.array(json.dumps(header)), decay=np.zeros(1))
    return path


def dumped(path, save, array):
    with path.open("wb") as file:
        save(file, array)


def other_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", "y")


def test_files_that_are_not_models_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        probsfa.load(tmp_path / "nothing.npz")
    bad = {
        "text": lambda p: p.write_text("a,b\n1,2\n"),
        "empty": lambda p: p.write_bytes(b""),
        "one array": lambda p: dumped(p, np.save, np.zeros(3)),
        "other arrays": lambda p: dumped(p, np.savez, np.zeros(3)),
        "pickle": lambda p: dumped(p, np.save, np.array([{}], dtype=object)),
        "other zip": other_zip,
    }
    for name, write in bad.items():
        path = tmp_path / name
        write(path)
        with pytest.raises(ValueError, match="saved by probsfa"):
            probsfa.load(path)


def test_files_of_another_kind_or_a_later_version_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'SFA'"):
        probsfa.load(written(tmp_path / "kind.npz", kind="SFA"))
    with pytest.raises(ValueError, match=r"version 3.*newer"):
        probsfa.load(written(tmp_path / "later.npz", version=3))
    with pytest.raises(ValueError, match="saved by probsfa"):
        probsfa.load(written(tmp_path / "other.npz", format="other"))


def test_a_truncated_file_is_refused(series, tmp_path):
    path = tmp_path / "model.npz"
    series[2].save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="saved by probsfa"):
        probsfa.load(path)


def test_a_parameter_set_after_the_fit_does_not_change_the_saved_model(tmp_path, series):
    _, data, fitted = series
    model = ProbabilisticSFA(**fitted.get_params()).fit(data)
    expected = model.bic(data)
    model.set_params(noise="isotropic").save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert loaded.noise == "isotropic"
    assert loaded.bic(data) == model.bic(data) == expected


def test_a_file_older_than_an_option_with_a_default_is_read(tmp_path, series):
    """Options that are missing in a file of an earlier version have their defaults."""
    state = series[2]._to_arrays()
    del state["fitted_with"]["noise_floor"], state["options"]["noise_floor"]
    loaded = ProbabilisticSFA._from_arrays(state)
    assert loaded.noise_floor == "auto"
    np.testing.assert_array_equal(loaded.transform(series[1]), series[2].transform(series[1]))
    state["options"]["n_init"] = state["fitted_with"]["n_init"] = 3  # an option of earlier versions
    assert ProbabilisticSFA._from_arrays(state).n_init == "deprecated"
    del state["fitted_with"]["n_components"]
    with pytest.raises(TypeError, match="'n_components'"):
        ProbabilisticSFA._from_arrays(state)
