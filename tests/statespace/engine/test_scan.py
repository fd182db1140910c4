"""Segments joined by an associative scan, the algorithm for accelerators, on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.statespace import use_strategy
from probsfa.statespace.engine import batched, compiler, scan, segmented
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.likelihood import marginal_log_likelihood
from probsfa.statespace.engine.posterior import smooth, strategy_for_sampling
from probsfa.statespace.engine.scan import ParallelScan
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT, small_noise_tolerance


def assert_same(found, wanted, tolerance=EXACT):
    for name, one, other in zip(wanted._fields, found, wanted, strict=True):
        assert scaled_error(one, other) < tolerance, name


@parametrize("size", [(3, 2), (2, 3)], ids=["wide", "more factors than features"])
@parametrize("noise", [1e-4, 1e-8, 1e3], quick=[])
def test_any_noise_against_decimals(rng, noise, size):
    """The scan adds no errors to those of rounding ``C' x / r``."""
    model = oracle.random_model(rng, *size)._replace(noise=np.full(size[0], noise))
    data = mask_values(rng, oracle.simulate(rng, model, [40, 26]), "scattered")
    with use_strategy("scan"):
        found = smooth(to_parameters(model), to_panel(data))
    wanted, tolerance = oracle.exact_posterior(model, data, digits=45), small_noise_tolerance(noise)
    assert scaled_error(found.means, wanted.means) < tolerance
    assert scaled_error(found.covariances, wanted.covariances) < tolerance
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < tolerance
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < tolerance


def assert_scan_equals_recursions(rng, n_components, derive):
    """Compare results of ``derive(likelihood, parameters)`` by the associative scan and by recursions."""
    n_rows = 101  # a prime number: each row is a segment
    model = oracle.random_model(rng, 4, n_components)
    panel = to_panel(mask_values(rng, oracle.simulate(rng, model, [n_rows]), "scattered"), pad=False)
    with jax.enable_x64(True):
        data = tuple(map(jnp.asarray, (panel.values, panel.mask, panel.gap_index)))
        params = tuple(map(jnp.asarray, model))

        def results():
            return jax.tree.leaves(derive(lambda *p: marginal_log_likelihood(*p, *data), params))

        with use_strategy("scan"):
            assert strategy_for_sampling(n_rows, n_components) == ParallelScan(n_rows)
            found = results()
        with use_strategy("recursions"):
            wanted = results()
    for one, other in zip(found, wanted, strict=True):
        assert scaled_error(one, other) < EXACT


@pytest.mark.exhaustive
def test_score_for_several_parameter_sets_at_once(rng):
    def derive(value, params):
        sets = tuple(jnp.stack([p * (1.0 - 0.1 * i) for i in range(4)]) for p in params)
        return jax.jit(jax.vmap(jax.value_and_grad(value, argnums=(0, 1, 2, 3))))(*sets)

    assert_scan_equals_recursions(rng, 2, derive)


@pytest.mark.exhaustive
def test_curvature(rng):
    def derive(value, params):
        return jax.jit(jax.hessian(lambda decay: value(decay, *params[1:])))(params[0])

    assert_scan_equals_recursions(rng, 1, derive)


@parametrize("n", [1, 2, 3, 8, 100], quick=[3, 8])
def test_scan_combines_each_element_with_all_earlier_ones(rng, n):
    with jax.enable_x64(True):
        matrices = rng.standard_normal((3, 3, n)) / np.sqrt(3.0)
        found = scan.scan(
            lambda first, second: (batched.times(second[0], first[0]),), (jnp.asarray(matrices),)
        )[0]
        wanted = np.eye(3)
        for i in range(n):
            wanted = matrices[:, :, i] @ wanted
            np.testing.assert_allclose(found[:, :, i], wanted, rtol=EXACT, atol=1e-14)


def random_rows(rng, n_rows, n, n_segments):
    roots = rng.standard_normal((n_rows, n, n, n_segments))
    return segmented.SegmentRows(
        jnp.asarray(np.einsum("lijs,lkjs->liks", roots, roots)),
        jnp.asarray(rng.standard_normal((n_rows, n, n_segments))),
        Transition(jnp.asarray(rng.uniform(-0.9, 0.9, (n_rows, n, n_segments)))),
    )


@parametrize("n", [1, 3, 10], quick=[3])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_combined_summaries_are_those_of_all_rows_in_any_order(rng, monkeypatch, n, platform):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    with jax.enable_x64(True), compiler.without_kernel_hints():
        # New functions, which JAX compiles for this platform; without jit, each operation would be compiled.
        combine = jax.jit(lambda *parts: scan.combine_segments(*parts))
        summarize = jax.jit(lambda rows: segmented.summarize(rows))
        parts = [summarize(random_rows(rng, 2, n, 4)) for _ in range(3)]
        left, right = combine(combine(*parts[:2]), parts[2]), combine(parts[0], combine(*parts[1:]))
        assert_same(left, right)
        rows = random_rows(rng, 5, n, 4)
        halves = [
            summarize(jax.tree.map(lambda x, p=p: np.asarray(x)[p], rows)) for p in (slice(2), slice(2, 5))
        ]
        assert_same(combine(*halves), summarize(rows))


def test_number_of_segments_divides_the_rows():
    with use_strategy("scan"):
        for n_rows in [65, 101, 4096, 10_240, 65_521, 65_536, 163_840]:
            assert n_rows % strategy_for_sampling(n_rows, 5).n_segments == 0


def test_accelerators_use_the_parallel_scan(monkeypatch):
    assert not isinstance(strategy_for_sampling(65_536, 5), ParallelScan)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert isinstance(strategy_for_sampling(65_536, 5), ParallelScan)
    with jax.default_device("cpu"):
        assert not isinstance(strategy_for_sampling(65_536, 5), ParallelScan)


@pytest.mark.exhaustive
def test_programs_for_accelerators_set_no_compiler_options(rng, monkeypatch):
    model = oracle.random_model(rng, 3, 2)
    data = oracle.simulate(rng, model, [70])
    params, panel = to_parameters(model), to_panel(data)
    with use_strategy("scan"):
        wanted = smooth(params, panel)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        # The program for accelerators can also be compiled for the CPU.
        assert_same(smooth(params, panel), wanted)
    with jax.enable_x64(True):
        arrays = tuple(map(jnp.asarray, (*model, panel.values, panel.mask, panel.gap_index)))
        text = jax.jit(jax.value_and_grad(marginal_log_likelihood)).lower(*arrays).as_text()
    assert "stablehlo.while" in text
    assert "inlineable" not in text
    assert "xla_cpu_small_call" not in text
