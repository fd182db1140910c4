"""Search for several modes of a posterior, and their shares."""

import contextlib
import warnings
from types import SimpleNamespace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes import fitting, modes
from probsfa.bayes.coordinates.batches import constrain
from probsfa.bayes.fitting import ModelSettings, make_problem
from probsfa.bayes.sampling.laplace import LaplaceApproximation
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import StateSpace
from probsfa.statespace.engine.posterior import simulate


def test_a_factor_of_one_of_two_columns_has_two_modes_of_equal_shares():
    """A column and its time reversal: the posterior is unchanged if the columns are exchanged.

    One factor explains one column or the other, with a posterior probability of one half each. A search that
    starts in one of the modes cannot find the other.
    """
    X = make_slow_mixture(60, 1, decay=[0.9], noise_variance=0.1, random_state=1).data
    model = BayesianSFA(1, inference="svi", verbose=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # pareto_k is near its limit
        model.fit(np.hstack([X, X[::-1]]))
    loadings = np.abs(model.draws_.loadings[0, :, :, 0])
    share = np.mean(loadings[:, 0] > loadings[:, 1])
    assert len(model.diagnostics_["mode_shares"]) == 2
    assert abs(share - 0.5) < 0.1
    np.testing.assert_allclose(model.diagnostics_["mode_shares"], 0.5, atol=0.1)
    assert abs(np.diff(model.diagnostics_["mode_bounds"])[0]) < 0.5
    assert "2 modes" in model.status_


def test_the_period_of_a_cycle_is_that_of_the_highest_mode():
    """The likelihood of these 40 rows is highest at a period of 5 rows.

    The posterior density of that mode is 9 nats below that of the highest mode, at a period of 14 to 18 rows.
    """
    params = StateSpace(
        np.array([0.88]),
        np.array([[1.4, 0.5, 0.2], [0.1, 0.6, -0.3], [-2.8, 0.7, 0.4]]),
        np.array([7.0, 0.04, 0.15]),
        np.zeros(3),
        rhythm_decay=np.array([0.95]),
        rhythm_frequency=np.array([2.0 * np.pi / 20.0]),
    )
    rng = np.random.default_rng(5)
    X = simulate(params, 40, rng)[0]
    X[rng.random(X.shape) < 0.2] = np.nan
    settings = ModelSettings(1, "diagonal", None, False, False, rhythms=1)
    target, data, laplace, _, modes = make_problem(Sequences(X, (40,)), settings)[0]
    centre = constrain(target, data, laplace.centre)
    assert modes[0] is laplace and laplace.potential < 126.0
    assert 14.0 < 2.0 * np.pi / centre.rhythm_frequency[0] < 18.0
    # The phase of the cycle is that of the mode.
    cosine, sine = centre.loadings[:, 1], centre.loadings[:, 2]
    reference = data.phase_reference[:, 0] + 1j * data.phase_reference[:, 1]
    assert abs(np.angle(np.sum((cosine + 1j * sine) * np.conj(reference)))) < 0.01


def test_starts_without_a_maximum_are_omitted(monkeypatch):
    first = SimpleNamespace(log_evidence=-3.0)
    monkeypatch.setattr(modes, "_starts", lambda *_: [{}, {}])
    monkeypatch.setattr(modes, "PotentialEvaluator", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(modes, "maximize_from", lambda *_: None)
    data = SimpleNamespace(_replace=lambda **_: None)
    found, interrupted = modes.find_modes(
        None, data, first, SimpleNamespace(to_vector=dict), np.random.default_rng(0)
    )
    assert found == [first] and not interrupted


def test_fits_in_rotated_coordinates_have_no_symmetry_weight(monkeypatch):
    """All equivalent modes have the same coordinates, so that a weight would change the posterior."""

    def laplace(target, data, vector):
        return LaplaceApproximation(vector, 0.01 * np.eye(len(vector)), 0.0, 0)

    monkeypatch.setattr(fitting, "approximate_by_laplace", laplace)
    X = make_slow_mixture(300, 4, decay=[0.95, 0.5], noise_variance=0.1, random_state=0).data
    problem, _ = make_problem(Sequences(X, (300,)), ModelSettings(2, "diagonal", None, False, False))
    assert sorted(problem.data.chart.rotation.members) == [0, 1]
    assert problem.data.symmetry_reference is None
