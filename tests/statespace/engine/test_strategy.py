"""Every strategy gives the same answer: row by row, in segments, in chunks, cached or made again."""

from contextlib import ExitStack, nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.statespace import use_strategy
from probsfa.statespace.engine import compiler, sweep
from probsfa.statespace.engine import plan as planning
from probsfa.statespace.engine.dynamics import Gaussian, Transition, stationary
from probsfa.statespace.engine.information_form import InformationForm
from probsfa.statespace.engine.likelihood import marginal_log_likelihood
from probsfa.statespace.engine.plan import strategy_for_sampling
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.engine.segmented import Segmented
from probsfa.statespace.engine.steady_state import SteadyState
from probsfa.statespace.engine.two_filter import TwoFilter
from probsfa.statespace.posterior import (
    draw_states,
    expected_statistics,
    log_likelihood,
    plan_for,
    smooth,
)
from tests.oracles import statespace as oracle
from tests.sampling import sparsely
from tests.statespace.support import punch, scaled_error, to_panel, to_parameters, uneven_times
from tests.tolerances import small_noise_tolerance

# Strategies differ by rounding alone; small noise makes the problem itself worse conditioned.
SAME = 1e-10


@pytest.fixture
def strategy():
    """Set how the engine works until it is set again: row by row, if nothing is said."""
    with ExitStack() as stack:

        def choose(name="recursions", **options):
            stack.close()
            stack.enter_context(use_strategy(name, **options))

        yield choose


def assert_same(found, wanted):
    for name, one, other in zip(wanted._fields, found, wanted, strict=True):
        assert scaled_error(one, other) < SAME, name


WAYS = {
    "segments": {"name": "segmented", "n_segments": 8},
    "chunks": {"chunk_rows": 32},
    "chunks made again": {"chunk_rows": 32, "cached_bytes": 0},
    "segments in chunks": {"name": "segmented", "n_segments": 8, "chunk_rows": 64},
}


@sparsely("way", list(WAYS), shown=["chunks"])
@sparsely("n_components", [1, 4], shown=[4])
@sparsely("holes", ["none", "scattered", "empty rows", "everything"], shown=["scattered"])
def test_strategies_agree(rng, strategy, way, n_components, holes):
    model = oracle.random_model(rng, 5, n_components)
    data = punch(rng, oracle.simulate(rng, model, [90, 1, 53]), holes)
    params, panel = to_parameters(model), to_panel(data)
    strategy()
    wanted = smooth(params, panel), expected_statistics(params, panel), log_likelihood(params, panel)
    strategy(**WAYS[way])
    assert_same(smooth(params, panel), wanted[0])
    assert_same(expected_statistics(params, panel), wanted[1])
    assert scaled_error(log_likelihood(params, panel), wanted[2]) < SAME


@sparsely("way", list(WAYS), shown=0)
def test_strategies_agree_at_uneven_times(rng, strategy, way):
    model = oracle.random_model(rng, 4, 3)
    model = model._replace(decay=np.abs(model.decay))
    lengths = [70, 50]
    times = uneven_times(rng, lengths)
    data = punch(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    params, panel = to_parameters(model), to_panel(data, times)
    strategy()
    wanted = smooth(params, panel), expected_statistics(params, panel)
    strategy(**WAYS[way])
    assert_same(smooth(params, panel), wanted[0])
    assert_same(expected_statistics(params, panel), wanted[1])


@sparsely("n", [1, 3], shown=[3])
@sparsely("length", [1, 8], shown=0)
def test_moments_for_sums_are_those_in_full(rng, n, length):
    n_segments, d = 8, 4
    n_rows = n_segments * length
    # Loops of one step cannot be asked for as single kernels; on CPUs segments are never that short.
    hints = compiler.without_kernel_hints() if length == 1 else nullcontext()
    with jax.enable_x64(True), hints:
        a, C, noise, offset = map(jnp.asarray, oracle.random_model(rng, d, n))
        decays = jnp.tile(a, (n_rows, 1)).at[0].set(0.0)
        mask = jnp.asarray((rng.random((n_rows, d)) < 0.7).astype(float))
        values = mask * jnp.asarray(rng.standard_normal((n_rows, d)))
        problem = Problem(values, mask, Transition(decays), Transition(a), C, noise, offset)
        root = rng.standard_normal((n, n))
        after = Gaussian(jnp.asarray(rng.standard_normal(n)), jnp.asarray(0.1 * root @ root.T))
        for strategy in (Recursions(), Segmented(n_segments)):
            result = strategy.forward(problem, stationary(n, values.dtype))[0]
            full = strategy.moments(problem, result, after)
            found = strategy.packed_moments(problem, result, after)
            upper = np.triu_indices(n)
            wanted = {
                "means": full.means,
                "covariances": full.covariances[:, *upper],
                "lag_one": np.diagonal(full.lag_one, axis1=1, axis2=2),
            }
            for name, other in wanted.items():
                one = getattr(found, name).T
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12, err_msg=name)
            variances = problem.following.as_batch().covariance_terms(found.covariances).T
            wanted = np.diagonal(full.covariances, axis1=1, axis2=2)
            np.testing.assert_allclose(variances, wanted, rtol=1e-10, atol=1e-12)


def test_segments_equal_the_joint_gaussian(rng, strategy):
    model = oracle.random_model(rng, 4, 3)
    data = punch(rng, oracle.simulate(rng, model, [41, 23]), "scattered")
    strategy("segmented", n_segments=8)
    found, wanted = smooth(to_parameters(model), to_panel(data)), oracle.joint_posterior(model, data)
    assert scaled_error(found.means, wanted.means) < SAME
    assert scaled_error(found.covariances, wanted.covariances) < SAME
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < SAME
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < SAME


@sparsely("noise", [1e-8, 1e-4, 1e2])
@sparsely("slowest", [0.5, 1.0 - 1e-6], shown=[1.0 - 1e-6])
def test_strategies_agree_at_any_noise_and_time_scale(rng, strategy, noise, slowest):
    model = oracle.random_model(rng, 4, 3)
    data = punch(rng, oracle.simulate(rng, model._replace(noise=np.full(4, noise)), [128]), "scattered")
    model = model._replace(noise=np.full(4, noise), decay=np.array([slowest, 0.3, -0.4]))
    params, panel = to_parameters(model), to_panel(data)
    strategy()
    plain = smooth(params, panel)
    strategy("segmented", n_segments=8)
    together = smooth(params, panel)
    tolerance = small_noise_tolerance(noise)
    assert scaled_error(together.means, plain.means) < tolerance
    assert scaled_error(together.log_likelihood, plain.log_likelihood) < tolerance


@sparsely("cached_bytes", [2**40, 0])
def test_draws_in_chunks_are_those_at_once(rng, strategy, cached_bytes):
    model = oracle.random_model(rng, 4, 3)
    params, panel = (
        to_parameters(model),
        to_panel(punch(rng, oracle.simulate(rng, model, [100]), "scattered")),
    )
    normals = rng.standard_normal((panel.values.shape[0], 2, 3))
    strategy()
    wanted = draw_states(params, panel, normals)
    strategy(chunk_rows=32, cached_bytes=cached_bytes)
    assert scaled_error(draw_states(params, panel, normals), wanted) < SAME


def test_segments_divide_the_rows_and_are_not_used_for_large_matrices():
    for n_rows in [1, 16, 100, 4096, 10_240, 65_536]:
        for n_components in [1, 5, 8, 20]:
            chosen = strategy_for_sampling(n_rows, n_components)
            assert chosen == Recursions() or n_rows % chosen.n_segments == 0
    assert isinstance(strategy_for_sampling(10_240, 8), Segmented)
    assert strategy_for_sampling(10_240, 9) == Recursions()


def test_programs_for_one_fit_take_segments_where_there_are_more_rows(rng, no_library):
    """Samplers run a program so often that its compilation is soon repaid."""
    model = oracle.random_model(rng, 3, 3)
    chosen = [
        plan_for(to_parameters(model), to_panel(punch(rng, [np.zeros((n, 3))], "scattered"))).strategy
        for n in (1024, 4096)
    ]
    assert chosen == [Recursions(), InformationForm(16)]
    assert strategy_for_sampling(1024, 3) == Segmented(64)


def test_a_plan_says_why(rng, no_library):
    model = oracle.random_model(rng, 4, 2)
    complete = [rng.standard_normal((3000, 4))]
    params, panel = to_parameters(model), to_panel(complete)
    with jax.enable_x64(True):
        assert "steady" in plan_for(params, panel).reason
        assert "too few" in plan_for(params, to_panel(punch(rng, [complete[0][:50]], "scattered"))).reason
        long = to_panel(punch(rng, [rng.standard_normal((4096, 4))], "scattered"))
        assert "side by side" in plan_for(params, long).reason
        with use_strategy("recursions"):
            assert plan_for(params, long).reason == "it is asked for"


def test_what_is_asked_for_is_used_though_nothing_is_missing(rng, no_library):
    """The steady state would serve, and has neither chunks nor segments nor two sides."""
    params = to_parameters(oracle.random_model(rng, 4, 2))
    panel = to_panel([rng.standard_normal((2048, 4))])
    assert isinstance(plan_for(params, panel).route, SteadyState)
    with use_strategy(two_filter=True):
        assert isinstance(plan_for(params, panel).route, TwoFilter)
    with use_strategy(chunk_rows=64):
        assert plan_for(params, panel).route.chunk_rows == 64
        with use_strategy("segmented", n_segments=4):  # adds to what is asked for outside
            route = plan_for(params, panel).route
            assert (route.strategy, route.chunk_rows) == (Segmented(4), 64)


@sparsely("name", ["recursions", "segmented", "parallel_scan", "covariance_form"], shown=["segmented"])
@sparsely("chunk_rows", [None, 512])
def test_any_strategy_goes_from_both_ends(rng, name, chunk_rows):
    model = oracle.random_model(rng, 3, 2)
    params = to_parameters(model)
    panel = to_panel(punch(rng, oracle.simulate(rng, model, [200]), "scattered"))
    with use_strategy("recursions"):
        wanted = expected_statistics(params, panel)
    with use_strategy(name, two_filter=True, chunk_rows=chunk_rows):
        assert_same(expected_statistics(params, panel), wanted)


def test_samplers_never_take_what_depends_on_parameters():
    for name in ("covariance_form", "steady_state"):
        with use_strategy(name):
            assert strategy_for_sampling(10_240, 2) == Segmented(64)
    with use_strategy("recursions"):
        assert strategy_for_sampling(10_240, 2) == Recursions()


def test_what_cannot_be_used_is_refused(rng, no_library):
    params = to_parameters(oracle.random_model(rng, 3, 2))
    panel = to_panel(punch(rng, [np.zeros((40, 3))], "scattered"))
    with pytest.raises(ValueError, match="strategy must be one of 'recursions'"):
        with use_strategy("lockstep"):
            pass
    with use_strategy("steady_state"), pytest.raises(ValueError, match="one complete series"):
        smooth(params, panel)
    for name in ("segmented", "parallel_scan"):
        with use_strategy(name, n_segments=7), pytest.raises(ValueError, match="7 segments divide"):
            smooth(params, panel)
    for wrong in ({"n_segments": 0}, {"chunk_rows": -5}, {"cached_bytes": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            with use_strategy(**wrong):
                pass
    with pytest.raises(ValueError, match="excludes"):
        with use_strategy("steady_state", two_filter=True):
            pass
    assert plan_for(params, panel).strategy == Recursions()


def test_chunks_bound_memory_and_are_equally_long():
    for n_rows in [100, 9_216, 20_480, 1_000_000]:
        for n_components in [1, 5, 18, 90, 128]:
            rows = planning.chunk_rows(n_rows, n_components)
            assert rows <= n_rows
            assert rows * n_components**2 * 8 <= 1.25 * planning._CHUNK_BYTES or rows <= 288
            assert -(-n_rows // rows) * rows - n_rows < rows


def test_new_lengths_compile_few_programs(rng):
    """Lengths are rounded to few, and chunks to one: a program is traced for each of those alone."""
    model = oracle.random_model(rng, 3, 2)
    params = to_parameters(model)
    before = sweep._statistics_program._cache_size()
    for n_steps in range(200, 225):
        expected_statistics(params, to_panel(oracle.simulate(rng, model, [n_steps])))
    assert sweep._statistics_program._cache_size() - before <= 3


def test_sequences_of_any_lengths_share_a_program(rng):
    model = oracle.random_model(rng, 3, 2)
    params = to_parameters(model)
    expected_statistics(params, to_panel(oracle.simulate(rng, model, [120])))
    before = sweep._statistics_program._cache_size()
    for lengths in ([60, 60], [1, 119], [40, 40, 40], [5] * 24):
        expected_statistics(params, to_panel(oracle.simulate(rng, model, lengths)))
    assert sweep._statistics_program._cache_size() == before


def _arrays(rng, n_steps, holes="scattered"):
    model = oracle.random_model(rng, 4, 2)
    panel = to_panel(punch(rng, oracle.simulate(rng, model, [n_steps]), holes))
    params = to_parameters(model)
    return tuple(params), (panel.values, panel.mask, panel.gap_index)


@sparsely("n_steps", [40, 400])
def test_likelihood_for_jax_is_the_likelihood(rng, n_steps):
    model = oracle.random_model(rng, 4, 2)
    data = punch(rng, oracle.simulate(rng, model, [n_steps]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    with jax.enable_x64(True):
        found = marginal_log_likelihood(*params, panel.values, panel.mask, jnp.asarray(panel.gap_index))
    assert scaled_error(float(found), log_likelihood(params, panel)) < SAME


@sparsely("n_steps", [40, 400])
def test_gradient_of_the_likelihood_is_that_of_finite_differences(rng, n_steps):
    params, data = _arrays(rng, n_steps)
    with jax.enable_x64(True):
        data = tuple(map(jnp.asarray, data))
        params = tuple(map(jnp.asarray, params))
        value = jax.jit(lambda *p: marginal_log_likelihood(*p, *data))
        gradient = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*params)
        for k, part in enumerate(params):
            direction = jnp.asarray(rng.standard_normal(part.shape))
            step = 1e-6
            ahead = value(*(p + step * direction if i == k else p for i, p in enumerate(params)))
            behind = value(*(p - step * direction if i == k else p for i, p in enumerate(params)))
            slope = float(jnp.sum(gradient[k] * direction))
            assert abs(float(ahead - behind) / (2 * step) - slope) < 1e-5 * max(1.0, abs(slope))


@sparsely("n_steps", [24, 256])
def test_gradient_is_differentiable_again(rng, n_steps):
    params, data = _arrays(rng, n_steps)
    with jax.enable_x64(True):
        params, data = tuple(map(jnp.asarray, params)), tuple(map(jnp.asarray, data))

        def value(decay):
            return marginal_log_likelihood(decay, *params[1:], *data)

        hessian = jax.jit(jax.hessian(value))(params[0])
        gradient = jax.jit(jax.grad(value))
        step = 1e-5
        for k in range(2):
            shift = jnp.zeros(2).at[k].set(step)
            slope = (gradient(params[0] + shift) - gradient(params[0] - shift)) / (2 * step)
            np.testing.assert_allclose(
                hessian[k], slope, rtol=1e-4, atol=1e-4 * float(jnp.abs(hessian).max())
            )


@sparsely("n_steps", [40, 400])
def test_several_parameter_sets_at_once(rng, n_steps):
    params, data = _arrays(rng, n_steps)
    with jax.enable_x64(True):
        params, data = tuple(map(jnp.asarray, params)), tuple(map(jnp.asarray, data))
        both = jax.jit(
            jax.value_and_grad(lambda *p: marginal_log_likelihood(*p, *data), argnums=(0, 1, 2, 3))
        )
        sets = tuple(jnp.stack([p * (1.0 - 0.1 * i) for i in range(4)]) for p in params)
        values, gradients = jax.jit(jax.vmap(both))(*sets)
        for i in range(4):
            value, gradient = both(*(p[i] for p in sets))
            assert scaled_error(float(values[i]), float(value)) < SAME
            for found, wanted in zip(gradients, gradient, strict=True):
                assert scaled_error(np.asarray(found[i]), np.asarray(wanted)) < SAME
