"""The parameter `init`: initial parameters or models."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import probsfa
from probsfa import SFA, GraphSFA, ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.learning import objective


@pytest.fixture(scope="module")
def data():
    series = make_slow_mixture(100, 4, decay=[0.95, 0.6], noise_variance=0.3, random_state=1)
    return 3.0 + 2.0 * np.asarray(series.data)


@pytest.fixture(scope="module")
def fitted(data):
    return ProbabilisticSFA(2, tol=1e-5).fit(data)


@pytest.mark.parametrize("kind", ["parameters", "model"])
def test_a_fit_that_starts_at_the_maximum_stays_there(data, fitted, kind):
    init = fitted.params_ if kind == "parameters" else fitted
    again = ProbabilisticSFA(tol=1e-3, init=init).fit(data)
    assert again.history_[0] == pytest.approx(fitted.log_likelihood_, abs=1e-2)
    assert again.n_evaluations_ < 10 and len(again.decay_) == 2
    np.testing.assert_allclose(again.decay_, fitted.decay_, atol=1e-3)


@pytest.mark.parametrize("noise", ["diagonal", "isotropic", 0.5])
def test_slow_feature_analysis_is_a_start(data, noise, monkeypatch):
    evaluated, original = [], objective.expected_statistics

    def watched(params, panel, **options):
        evaluated.append(params)
        return original(params, panel, **options)

    monkeypatch.setattr(objective, "expected_statistics", watched)
    sfa = SFA(2).fit(data)
    model = ProbabilisticSFA(2, noise=noise, init=sfa).fit(data)
    scale = np.std(data, axis=0) if noise == "diagonal" else np.sqrt(np.mean(np.var(data, axis=0)))
    np.testing.assert_allclose(evaluated[0].decay, 1.0 - sfa.delta_values_ / 2.0, rtol=1e-9)
    np.testing.assert_allclose(evaluated[0].loadings, sfa.loadings_ / np.reshape(scale, (-1, 1)), rtol=1e-9)
    assert model.converged_
    best = ProbabilisticSFA(2, noise=noise).fit(data)
    assert model.log_likelihood_ > best.log_likelihood_ - 1.0


def test_other_models_of_slow_features_are_starts_too(data):
    graph = GraphSFA(2, graph="temporal").fit(data)
    assert ProbabilisticSFA(2, init=graph).fit(data).converged_


def test_clones_keep_init_and_files_omit_it(data, fitted, tmp_path):
    for init in (fitted.params_, fitted, SFA(2).fit(data)):
        assert clone(ProbabilisticSFA(2, init=init)).init is init
    model = ProbabilisticSFA(2, init=fitted).fit(data)
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert loaded.init is None
    np.testing.assert_array_equal(loaded.transform(data), model.transform(data))


@pytest.mark.parametrize("init", ["sfa", 3.0, SFA(2), StandardScaler().fit(np.eye(3))])
def test_invalid_init_is_refused(data, fitted, init):
    with pytest.raises(ValueError, match="init must.*got"):
        ProbabilisticSFA(2, init=init).fit(data)


def test_init_of_another_size_is_refused(data, fitted):
    with pytest.raises(ValueError, match="init has 2 factors"):
        ProbabilisticSFA(3, init=fitted).fit(data)
    with pytest.raises(ValueError, match="init has 2 factors"):
        ProbabilisticSFA(2, init=SFA(2).fit(data)).fit(data[:, :3])
    with pytest.raises(
        ValueError, match=r"init has 2 factors, \d+ columns; .* 2 factors, 1 Rhythm, \d+ columns"
    ):
        ProbabilisticSFA(2, rhythms=1, init=fitted).fit(data)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"decay": np.array([1.0, 0.5])}, "init.*decay=1"),
        ({"decay": np.array([0.5, np.nan])}, "init.*decay=nan"),
        (
            {"offset": np.array([0.0, np.inf, 0.0, 0.0])},
            "init.*offset=inf",
        ),
        (
            {"noise_variance": np.array([1.0, 1.0, -2.0, 1.0])},
            "init.*noise_variance=-2",
        ),
    ],
)
def test_init_with_invalid_parameters_is_refused(data, fitted, changed, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticSFA(2, init=fitted.params_.replace(**changed)).fit(data)


def test_robust_ar1_noise_starts_from_white_noise(data, fitted):
    """Initial scales of AR(1) noise are positive, because the score of a scale is zero at zero."""
    model = ProbabilisticSFA(2, noise="ar1", robust=True, init=fitted, tol=0.1).fit(data)
    assert np.any(model.noise_share_ > 0.01)
