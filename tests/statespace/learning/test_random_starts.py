"""Random initial values: reproducible, and never lower than the first fit."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.learning import fit, objective
from tests.oracles import statespace as oracle


def overcomplete(seed, n_rows=120, n_features=6):
    """Two factors and noise, half of the values missing."""
    rng = np.random.default_rng(seed)
    model = oracle.Model(
        np.array([0.97, 0.7]),
        rng.standard_normal((n_features, 2)),
        np.full(n_features, 0.25),
        np.zeros(n_features),
    )
    [x] = oracle.simulate(rng, model, [n_rows])
    x[rng.random(x.shape) < 0.5] = np.nan
    return x


def test_more_starting_points_are_never_worse_and_reproducible():
    x = overcomplete(0, 60, 3)
    one, three, again = (ProbabilisticSFA(2, n_init=n, tol=0.01).fit(x) for n in (1, 3, 3))
    assert three.log_likelihood_ >= one.log_likelihood_
    assert three.n_evaluations_ > one.n_evaluations_
    assert np.all(np.diff(three.history_) >= 0.0)
    np.testing.assert_array_equal(three.loadings_, again.loadings_)


@pytest.mark.exhaustive
def test_more_runs_with_cycles_and_smooth_factors():
    """Cycles are those of the first fit, and the result is not lower than the first fit."""
    x = overcomplete(0, 60, 3)
    for asked in ({"rhythms": [12.0]}, {"smooth": 1}):
        one, two = (ProbabilisticSFA(1, n_init=n, tol=0.01, **asked).fit(x) for n in (1, 2))
        assert two.log_likelihood_ >= one.log_likelihood_
        assert two.n_evaluations_ > one.n_evaluations_
        assert two.loadings_.shape == one.loadings_.shape


def test_an_interrupt_in_a_later_run_keeps_the_best(monkeypatch):
    x = overcomplete(0, 60, 3)
    first = ProbabilisticSFA(2, tol=0.01).fit(x)
    whole, drawn, begun = objective.expected_statistics, fit._Search.random_candidates, []

    def watched(*args):
        begun.append(True)
        return drawn(*args)

    def interrupted(params, panel, **options):
        if begun:
            begun.append(True)
        if len(begun) > 4:
            raise KeyboardInterrupt
        return whole(params, panel, **options)

    monkeypatch.setattr(fit._Search, "random_candidates", watched)
    monkeypatch.setattr(objective, "expected_statistics", interrupted)
    with pytest.warns(UserWarning, match="Interrupted"):
        later = ProbabilisticSFA(2, n_init=3, tol=0.01).fit(x)
    assert later.log_likelihood_ >= first.log_likelihood_


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [2, 4])
def test_more_runs_are_not_worse_with_too_many_factors(seed):
    """Fit five factors instead of two; runs stop up to about ten tolerances below the maximum."""
    x = overcomplete(seed)
    one, five = (ProbabilisticSFA(5, n_init=n, tol=1e-6).fit(x).log_likelihood_ for n in (1, 5))
    assert five >= one - 1e-4


@pytest.mark.parametrize("n_init", [0, -1, 1.5, None, True])
def test_n_init_is_validated(n_init, rng):
    with pytest.raises(ValueError, match="n_init must.*got"):
        ProbabilisticSFA(1, n_init=n_init).fit(rng.standard_normal((20, 2)))


def test_more_runs_are_never_worse_with_autocorrelated_noise():
    """The best fit with white noise may lead to a lower maximum with AR(1) noise."""
    X = make_slow_mixture(100, 5, decay=[0.95, 0.8], noise_variance=0.5, random_state=0).data
    one, four = (ProbabilisticSFA(3, noise="ar1", n_init=n).fit(X).log_likelihood_ for n in (1, 4))
    assert four >= one - 1e-6
