"""Segments in the information form give what the joint Gaussian and the plain recursions say."""

from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.statespace import use_strategy
from probsfa.statespace.engine import information_form
from probsfa.statespace.engine.batched import inverse, solve
from probsfa.statespace.engine.compiler import one_kernel
from probsfa.statespace.engine.information_form import InformationForm
from probsfa.statespace.engine.plan import strategy_for_sampling
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.posterior import expected_statistics, log_likelihood, plan_for, smooth
from tests.oracles import statespace as oracle
from tests.sampling import sparsely
from tests.statespace.engine.precise_models import as_precise, at_the_limit, many_latents, precise
from tests.statespace.support import HOLES, punch, scaled_error, to_panel, to_parameters, uneven_times
from tests.tolerances import EXACT


@pytest.fixture
def use():
    """Use the strategy, or the plain recursions, until it is said again."""
    with ExitStack() as stack:

        def choose(strategy="information_form", **options):
            stack.close()
            stack.enter_context(use_strategy(strategy, **options))

        yield choose


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


@sparsely("n", [1, 4, 9, 13, 30], shown=[13])
def test_inverses_and_solutions_are_those_of_the_library(rng, n):
    roots = rng.standard_normal((3, n, n))
    squares, right = roots @ roots.transpose(0, 2, 1) + np.eye(n), rng.standard_normal((3, n))
    with jax.enable_x64(True):
        given = (jnp.asarray(np.moveaxis(x, 0, -1)) for x in (squares, right))
        run = jax.jit(one_kernel(lambda matrix, right: (*inverse(matrix), *solve(matrix, right))))
        found, pivots, solution, others = (np.moveaxis(np.asarray(x), -1, 0) for x in run(*given))
    np.testing.assert_allclose(found, np.linalg.inv(squares), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(solution, np.linalg.solve(squares, right[..., None])[..., 0], rtol=1e-9)
    for each in (pivots, others):
        np.testing.assert_allclose(np.log(each).sum(axis=1), np.linalg.slogdet(squares)[1], rtol=1e-10)


@sparsely("n_components", [1, 5, 13], shown=[13])
@sparsely("holes", list(HOLES), shown=["scattered"])
def test_moments_and_sums_are_those_of_the_joint_gaussian(rng, use, n_components, holes):
    model = many_latents(rng, 3, n_components)
    use(n_segments=4)
    assert_is_the_joint_gaussian(model, punch(rng, oracle.simulate(rng, model, [17, 1, 12]), holes))


BOTH_ENDS = {"chunk_rows": 16, "two_filter": True}


@sparsely(
    ("n_features", "ways"),
    [(2, {}), (12, {"chunk_rows": 16}), (2, BOTH_ENDS), (12, BOTH_ENDS)],
    shown=[(12, BOTH_ENDS)],
)
def test_at_uneven_times_in_chunks_and_from_both_ends(rng, use, n_features, ways):
    model = many_latents(rng, n_features, 5)
    model = model._replace(decay=np.abs(model.decay))
    lengths = [16, 1, 11]
    times = uneven_times(rng, lengths)
    use(n_segments=4, **ways)
    data = punch(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    assert_is_the_joint_gaussian(model, data, times)


def test_latents_without_memory(rng, use):
    """A decay of zero, which nothing may be divided by."""
    model = oracle.random_model(rng, 2, 4)._replace(decay=np.array([0.9, 0.0, -0.3, 1e-300]))
    use(n_segments=4)
    assert_is_the_joint_gaussian(model, oracle.simulate(rng, model, [14, 6]))


def test_the_log_density_of_each_row_is_that_of_the_textbook(rng, use):
    model = many_latents(rng)
    data = punch(rng, oracle.simulate(rng, model, [30, 10]), "scattered")
    use(n_segments=4)
    found = smooth(to_parameters(model), to_panel(data)).row_log_likelihoods
    assert scaled_error(found, oracle.kalman_loop(model, data).row_log_likelihoods) < EXACT


@sparsely("slowest", [0.5, 0.9995], shown=0)
@sparsely("holes", ["scattered", "empty rows"], shown=["scattered"])
def test_segments_may_forget_their_left_border_or_remember_it(rng, use, slowest, holes):
    """Rows of a segment that know nothing of the state before it are filtered once, the others twice."""
    model = many_latents(rng, 5, 10, slowest)
    model = model._replace(decay=np.linspace(slowest, 0.1, 10))
    data = punch(rng, oracle.simulate(rng, model, [250, 3, 130]), holes)
    params, panel = to_parameters(model), to_panel(data)
    use("recursions")
    wanted = smooth(params, panel), expected_statistics(params, panel), log_likelihood(params, panel)
    use(n_segments=4)
    assert_same(smooth(params, panel), wanted[0])
    assert_same(expected_statistics(params, panel), wanted[1])
    assert scaled_error(log_likelihood(params, panel), wanted[2]) < EXACT


def test_it_is_chosen_where_it_suits(rng, monkeypatch, no_library):
    model = many_latents(rng, 12, 12)
    panel = to_panel(punch(rng, [np.zeros((1000, 12))], "scattered"))
    chosen = plan_for(to_parameters(model), panel)
    assert chosen.strategy == InformationForm(16)
    assert "side by side" in chosen.reason
    for changed in (
        model._replace(noise=np.full(12, 1e-8)),
        model._replace(noise=np.full(12, np.nan)),
        model._replace(loadings=1e200 * model.loadings),
        model._replace(decay=np.ones(12)),
        model._replace(decay=np.full(12, 1.0 - 1e-8)),
    ):
        assert plan_for(to_parameters(changed), panel).strategy == Recursions()
    assert plan_for(to_parameters(model), panel.weighted(1e8 * panel.mask)).strategy == Recursions()
    short = to_panel(punch(rng, [np.zeros((900, 12))], "scattered"))
    assert plan_for(to_parameters(model), short).strategy == Recursions()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not isinstance(plan_for(to_parameters(model), panel).strategy, InformationForm)


@sparsely("limit", ["noise", "time scale"], shown=0)
def test_digits_are_left_at_the_least_noise_and_the_slowest_latent_for_which_it_is_chosen(rng, use, limit):
    n_features, n_components, n_rows = 4, 9, 8
    model = many_latents(rng, n_features, n_components, 0.9)
    data = oracle.simulate(rng, model, [n_rows])
    panel = to_panel(data)
    model = at_the_limit(model, panel, limit)
    params = to_parameters(model)
    assert 0.5 < information_form.largest_precision(params, panel) / information_form.MOST_PRECISION <= 1.0
    use(n_segments=2)
    found, wanted = smooth(params, panel), oracle.exact_posterior(model, data)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < EXACT


@pytest.mark.parametrize("seed", range(3))
def test_few_latents_in_as_many_columns_keep_digits_at_the_least_noise(seed, use):
    rng = np.random.default_rng(seed)
    n_rows = 24
    model = many_latents(rng, 8, 8, 0.999)
    model = as_precise(model, information_form.MOST_PRECISION_OF_FEW)
    data = punch(rng, oracle.simulate(rng, model, [n_rows]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    most = information_form.most_precision(params)
    assert 0.5 < information_form.largest_precision(params, panel) / most <= 1.0
    use("recursions")
    wanted = smooth(params, panel), expected_statistics(params, panel)
    use(n_segments=2)
    assert_same(smooth(params, panel), wanted[0])
    assert_same(expected_statistics(params, panel), wanted[1])


def test_steps_of_a_climb_may_lose_two_more_digits(no_library):
    model, data = precise(0, information_form.MOST_PRECISION_OF_STEPS)
    params, panel = to_parameters(model), to_panel(data)
    assert plan_for(params, panel).strategy == Recursions()
    assert plan_for(params, panel, for_steps=True).strategy == InformationForm(16)
    less = to_parameters(model._replace(noise=0.9 * model.noise))
    assert plan_for(less, panel, for_steps=True).strategy == Recursions()


@sparsely("seed", range(4), shown=0)
def test_sums_keep_eight_digits_at_the_least_noise_for_steps(seed, use):
    params, panel = (f(x) for f, x in zip((to_parameters, to_panel), precise(seed, 3e5), strict=True))
    assert information_form.MOST_PRECISION_OF_STEPS == 3e5
    use("recursions")
    wanted = expected_statistics(params, panel)
    use(n_segments=16)
    found = expected_statistics(params, panel)
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < 1e-11
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert scaled_error(ours, theirs) < 1e-8


def test_the_bound_on_the_precision_holds(rng):
    """What a row adds, and what is known of a state whose predecessor is."""
    model = many_latents(rng, 5, 6)
    params, panel = to_parameters(model), to_panel([np.zeros((30, 5))])
    row = model.loadings.T @ np.diag(1.0 / model.noise) @ model.loadings
    known = np.diag(1.0 / (1.0 - model.decay**2))
    wanted = np.linalg.eigvalsh(row)[-1] + np.linalg.eigvalsh(known)[-1]
    assert information_form.largest_precision(params, panel) == pytest.approx(wanted)
    assert information_form.largest_precision(params, panel) >= np.linalg.eigvalsh(row + known)[-1]


def test_samplers_do_not_take_it():
    with use_strategy("information_form"):
        assert strategy_for_sampling(10_240, 16) == Recursions()
