"""Diagnostics of draws by their definitions, and the messages about them."""

from types import SimpleNamespace

import numpy as np
import pytest

from probsfa.bayes.convergence import bulk_ess, rank_normalized_rhat, tail_ess
from probsfa.bayes.diagnostics import convergence_diagnostics, report
from probsfa.bayes.draws import Draws
from probsfa.bayes.fitted import InferenceResult


def make_draws(rng, chains=4, n=500, apart=0.0):
    """Return independent draws; the means of the offsets of adjacent chains differ by `apart`."""
    shape = (chains, n)
    return Draws(
        rng.uniform(0.85, 0.9, (*shape, 1)),
        1.0 + 0.1 * rng.standard_normal((*shape, 2, 1)),
        np.full((*shape, 2), 0.3),
        rng.standard_normal((*shape, 2)) + apart * np.arange(chains)[:, None, None],
    )


def fitted(draws, **outcome):
    outcome = {"sample_stats": {"diverging": np.zeros((4, 500), bool)}, "interrupted": False, **outcome}
    return SimpleNamespace(
        draws=draws, degrees=None, inferred=InferenceResult(np.empty((4, 500, 0)), **outcome)
    )


def test_each_entry_has_diagnostics_and_constant_entries_have_none(rng):
    draws = make_draws(rng, apart=0.2)
    out = convergence_diagnostics(draws)
    assert set(out) == {"rhat", "ess", "ess_tail"}
    for kind, measure in (("rhat", rank_normalized_rhat), ("ess", bulk_ess), ("ess_tail", tail_ess)):
        for i in range(2):
            assert out[kind]["offset"][i] == pytest.approx(measure(draws.offset[..., i : i + 1])[0])
            assert out[kind]["loadings"][i, 0] == pytest.approx(measure(draws.loadings[..., i, :])[0])
        assert np.isnan(out[kind]["noise_variance"]).all()
    assert np.isnan(convergence_diagnostics(make_draws(rng, n=3))["rhat"]["offset"]).all()


@pytest.mark.parametrize("wide", [False, True])
def test_heavy_tails_and_chains_of_different_widths_have_not_converged(rng, wide):
    """Cauchy draws around two centres, or normal draws with one wider chain."""
    draws = make_draws(rng)
    offset = rng.standard_cauchy((4, 500, 2)) + 1.5 * np.array([0.0, 0.0, 1.0, 1.0])[:, None, None]
    if wide:
        offset = draws.offset * np.array([1.0, 1.0, 1.0, 2.0])[:, None, None]
    judged = report(fitted(draws._replace(offset=offset)))
    assert not judged.converged and judged.diagnostics["rhat"]["offset"].max() > 1.03


def test_few_independent_draws_in_the_tails_have_not_converged(rng):
    """All signs are independent, but large draws are adjacent, in one block of each half of a chain."""
    draws, scale = make_draws(rng), np.ones((500, 1))
    scale[100:125] = scale[350:375] = 10.0
    judged = report(fitted(draws._replace(offset=scale * draws.offset)))
    ess, ess_tail, rhat = (judged.diagnostics[kind]["offset"] for kind in ("ess", "ess_tail", "rhat"))
    assert rhat.max() < 1.03 and ess.min() > 400.0 > ess_tail.max() and not judged.converged
    assert f"effective sample size at least {ess_tail.min():.0f}" in judged.status


def test_independent_draws_have_converged(rng):
    judged = report(fitted(make_draws(rng)))
    assert judged.converged and judged.identifiability_warnings == ()
    assert min(np.nanmin(x, initial=np.inf) for x in judged.diagnostics["ess"].values()) > 1000
    assert "500 draws of 4 chains" in judged.status and "Raise" not in judged.status


def test_status_names_chains_that_disagree_and_advises_more_draws(rng):
    assert "The chains disagree, most in offset" in report(fitted(make_draws(rng, apart=3.0))).status
    few = report(fitted(make_draws(rng, n=40)))
    assert not few.converged and "Raise n_draws" in few.status


def test_advice_about_chains_that_disagree_depends_on_the_time_scales(rng):
    """The advice is fewer factors if two have similar time scales, not for two modes of one factor."""
    draws = make_draws(rng, apart=3.0)
    of_modes = report(fitted(draws)).status
    assert "several modes" in of_modes and "n_components" not in of_modes
    twice = draws._replace(decay=rng.uniform(0.85, 0.9, (4, 500, 2)), loadings=np.tile(draws.loadings, 2))
    assert "lower n_components" in report(fitted(twice)).status


def test_divergences_and_interrupts_are_reported(rng):
    stats = {"diverging": np.arange(2000).reshape(4, 500) < 7}
    judged = report(fitted(make_draws(rng), sample_stats=stats, interrupted=True))
    assert judged.diagnostics["divergences"] == 7 and "7 divergences" in judged.status
    assert judged.status.startswith("Interrupted: the draws so far are kept.")
    assert "Laplace" in report(fitted(make_draws(rng), sample_stats={}, interrupted=True)).status


@pytest.mark.parametrize(
    ("pareto_k", "interrupted", "converged"), [(0.3, False, True), (0.9, False, False), (0.3, True, False)]
)
def test_convergence_of_a_variational_fit_depends_on_its_weights(rng, pareto_k, interrupted, converged):
    outcome = {"sample_stats": {}, "elbo": np.zeros(3), "pareto_k": pareto_k, "interrupted": interrupted}
    judged = report(fitted(make_draws(rng, 1, 100), **outcome))
    assert judged.converged == converged and judged.diagnostics["pareto_k"] == pareto_k
    assert ("use inference='nuts'" in judged.status) == (pareto_k > 0.7)


def test_status_lists_the_modes_of_a_variational_fit(rng):
    modes = np.array([[0.6, -10.0], [0.4, -10.5]])
    outcome = {"sample_stats": {}, "elbo": np.zeros(3), "pareto_k": 0.4, "modes": modes}
    judged = report(fitted(make_draws(rng, 1, 100), **outcome))
    assert judged.converged and "2 modes, with shares 0.60, 0.40" in judged.status
    np.testing.assert_array_equal(judged.diagnostics["mode_shares"], modes[:, 0])
    np.testing.assert_array_equal(judged.diagnostics["mode_bounds"], modes[:, 1])


def test_a_warning_names_factors_with_similar_time_scales(rng):
    draws = make_draws(rng)
    twice = draws._replace(decay=rng.uniform(0.85, 0.9, (4, 500, 2)), loadings=np.tile(draws.loadings, 2))
    (doubt,) = report(fitted(twice)).identifiability_warnings
    assert doubt.startswith("Factors 0 and 1 have similar time scales")
