"""Many latents in few columns: updates of rank D give what the other strategies give."""

from contextlib import ExitStack

import jax
import numpy as np
import pytest

from probsfa.statespace import use_strategy
from probsfa.statespace.engine import covariance_form
from probsfa.statespace.engine.covariance_form import CovarianceForm
from probsfa.statespace.engine.dynamics import transition_over
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.posterior import expected_statistics, log_likelihood, plan_for, smooth
from tests.oracles import statespace as oracle
from tests.sampling import sparsely
from tests.statespace.support import HOLES, punch, scaled_error, to_panel, to_parameters, uneven_times
from tests.tolerances import EXACT


@pytest.fixture
def use():
    """Use the strategy, or the plain recursions, until it is said again."""
    with ExitStack() as stack:

        def choose(few, **options):
            stack.close()
            stack.enter_context(use_strategy("covariance_form" if few else "recursions", **options))

        yield choose


def suits(model, panel):
    return plan_for(to_parameters(model), panel).strategy == CovarianceForm()


def largest_precision(model, panel):
    params = to_parameters(model)
    return covariance_form.largest_precision(params, transition_over(params, panel.gaps), panel.n_rows)


def many_latents(rng, n_features=3, n_components=12, slowest=0.99):
    decay = np.linspace(slowest, -0.5, n_components)
    loadings = rng.standard_normal((n_features, n_components))
    noise = rng.uniform(0.1, 0.5, n_features)
    return oracle.Model(decay, loadings, noise, rng.standard_normal(n_features))


def assert_same(found, wanted):
    for name, one, other in zip(wanted._fields, found, wanted, strict=True):
        assert scaled_error(one, other) < EXACT, name


def assert_is_the_joint_gaussian(model, data, times=None):
    params, panel = to_parameters(model), to_panel(data, times)
    found, wanted = smooth(params, panel), oracle.joint_posterior(model, data, times)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < EXACT
    assert scaled_error(log_likelihood(params, panel), wanted.log_likelihood) < EXACT
    sums = expected_statistics(params, panel)
    assert scaled_error(sums.log_likelihood, wanted.log_likelihood) < EXACT
    for name, value in oracle.expected_sums(model, data, panel.gaps, times).items():
        assert scaled_error(getattr(sums, name), value) < EXACT, name


@sparsely("n_components", [1, 5], shown=[5])
@sparsely("holes", list(HOLES), shown=["scattered", "everything"])
def test_moments_and_sums_are_those_of_the_joint_gaussian(rng, use, n_components, holes):
    model = oracle.random_model(rng, 2, n_components)
    use(True)
    assert_is_the_joint_gaussian(model, punch(rng, oracle.simulate(rng, model, [13, 1, 9]), holes))


BOTH_ENDS = {"chunk_rows": 8, "two_filter": True}


@sparsely(
    ("n_features", "ways"),
    [(1, {}), (6, {"chunk_rows": 8}), (1, BOTH_ENDS), (6, BOTH_ENDS)],
    shown=[(6, BOTH_ENDS)],
)
def test_at_uneven_times_in_chunks_and_from_both_ends(rng, use, n_features, ways):
    model = oracle.random_model(rng, n_features, 3)
    model = model._replace(decay=np.abs(model.decay))
    lengths = [16, 1, 11]
    times = uneven_times(rng, lengths)
    use(True, **ways)
    data = punch(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    assert_is_the_joint_gaussian(model, data, times)


def test_latents_without_memory(rng, use):
    """A decay of zero, which nothing may be divided by."""
    model = oracle.random_model(rng, 2, 4)._replace(decay=np.array([0.9, 0.0, -0.3, 1e-300]))
    use(True)
    assert_is_the_joint_gaussian(model, oracle.simulate(rng, model, [14, 6]))


def test_the_log_density_of_each_row_is_that_of_the_textbook(rng, use):
    model = many_latents(rng)
    data = punch(rng, oracle.simulate(rng, model, [30, 10]), "scattered")
    use(True)
    found = smooth(to_parameters(model), to_panel(data)).row_log_likelihoods
    assert scaled_error(found, oracle.kalman_loop(model, data).row_log_likelihoods) < EXACT


WAYS = {
    "at once": {},
    "chunks": {"chunk_rows": 32},
    "chunks made again": {"chunk_rows": 32, "cached_bytes": 0},
    "both ends": {"chunk_rows": 16, "two_filter": True},
}


@sparsely("way", list(WAYS), shown=0)
@sparsely("holes", ["none", "scattered", "empty rows"], shown=["scattered"])
def test_the_answer_is_that_of_the_other_strategies(rng, use, way, holes):
    model = many_latents(rng, 4, 16)
    data = punch(rng, oracle.simulate(rng, model, [90, 1, 53]), holes)
    params, panel = to_parameters(model), to_panel(data)
    use(False)
    wanted = smooth(params, panel), expected_statistics(params, panel), log_likelihood(params, panel)
    use(True, **WAYS[way])
    assert_same(smooth(params, panel), wanted[0])
    assert_same(expected_statistics(params, panel), wanted[1])
    assert scaled_error(log_likelihood(params, panel), wanted[2]) < EXACT


def test_it_is_chosen_where_it_suits(rng, no_library):
    model = many_latents(rng)
    panel = to_panel(oracle.simulate(rng, model, [40]))
    assert plan_for(to_parameters(model), panel).strategy == CovarianceForm()
    less = to_parameters(model._replace(noise=1e-9 * model.noise))
    assert plan_for(less, panel).strategy == Recursions()


def relative_variance_error(found, wanted):
    one, other = (np.diagonal(x, axis1=1, axis2=2) for x in (found, wanted))
    return float(np.max(np.abs(one - other) / other))


@sparsely("kind", ["dense", "one latent a column", "alike columns", "alike decays"], shown=["alike columns"])
@sparsely("slowest", [0.6, 1.0 - 1e-12], shown=[1.0 - 1e-12])
def test_the_smallest_variances_are_right_at_the_least_noise_for_which_it_is_chosen(rng, kind, slowest):
    n_features, n_components, n_rows = 4, 9, 7
    model = many_latents(rng, n_features, n_components, slowest)
    if kind == "one latent a column":
        model = model._replace(loadings=np.eye(n_features, n_components))
    if kind == "alike columns":
        model = model._replace(loadings=model.loadings[0] + 1e-3 * model.loadings)
    if kind == "alike decays":
        model = model._replace(decay=slowest - 1e-9 * np.arange(n_components))
    data = oracle.simulate(rng, model, [n_rows])
    panel = to_panel(punch(rng, data, "none"))
    # As little noise as there may be.
    precision = largest_precision(model, panel)
    model = model._replace(noise=1.01 * model.noise * precision / covariance_form.MOST_PRECISION)
    params = to_parameters(model)
    assert suits(model, panel)
    found, wanted = smooth(params, panel), oracle.exact_posterior(model, data)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < EXACT
    assert relative_variance_error(found.covariances, wanted.covariances) < EXACT


@pytest.mark.parametrize("slowest", [0.3, 0.95, 1.0 - 1e-9])
@pytest.mark.parametrize("noise", [1e-4, 1.0])
@pytest.mark.parametrize("holes", ["none", "scattered"])
def test_the_bound_on_the_precision_holds(rng, slowest, noise, holes):
    model = many_latents(rng, 2, 5, slowest)._replace(noise=np.array([noise, 2.0 * noise]))
    data = punch(rng, oracle.simulate(rng, model, [25]), holes)
    least = min(np.linalg.eigvalsh(x)[0] for x in oracle.joint_posterior(model, data).covariances)
    assert 1.0 / least <= largest_precision(model, to_panel(data)) * (1 + 1e-6)


def test_the_bound_is_reached():
    """One slow latent, seen in each of 50 rows: their number over the noise."""
    model = oracle.Model(np.array([1.0 - 1e-12]), np.ones((1, 1)), np.array([0.01]), np.zeros(1))
    bound = largest_precision(model, to_panel([np.zeros((50, 1))]))
    assert bound == pytest.approx(1.0 + 50 / 0.01, rel=1e-6)


def test_where_it_does_not_suit(rng, monkeypatch, no_library):
    model = many_latents(rng, 3, 12)
    panel = to_panel(oracle.simulate(rng, model, [50]))
    assert suits(model, panel)
    for changed in (
        model._replace(noise=np.full(3, 1e-8)),
        model._replace(noise=np.array([0.1, 0.0, 0.1])),
        model._replace(noise=np.full(3, np.nan)),
        model._replace(loadings=1e200 * model.loadings),
        model._replace(decay=np.ones(12)),
    ):
        assert not suits(changed, panel)
    for n_features, n_components in ((7, 12), (3, 8), (1, 1)):
        other = many_latents(rng, n_features, n_components)
        assert not suits(other, to_panel(oracle.simulate(rng, other, [20])))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not suits(model, panel)


def test_variances_are_positive_and_at_most_those_of_the_prior(rng, use):
    """Data never widen a distribution, and empty rows leave it what it was."""
    model = many_latents(rng, 5, 20)
    data = oracle.simulate(rng, model, [60])
    use(True)
    params = to_parameters(model)
    variances = smooth(params, to_panel(punch(rng, data, "scattered"))).std ** 2
    assert np.all((variances > 0.0) & (variances <= 1.0 + EXACT))
    prior = smooth(params, to_panel(punch(rng, data, "everything")))
    assert scaled_error(prior.covariances, np.broadcast_to(np.eye(20), (60, 20, 20))) < EXACT
    assert (
        scaled_error(prior.lag_one_covariances, np.broadcast_to(np.diag(model.decay), (59, 20, 20))) < EXACT
    )
    assert prior.log_likelihood == 0.0
