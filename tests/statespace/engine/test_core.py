"""The compiled engine: binding, chunks, threads, instruction sets, and selection of the algorithm."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from probsfa.statespace import ProbabilisticSFA, use_strategy
from probsfa.statespace.engine.core import kernels, passes
from probsfa.statespace.engine.core.algorithm import Core, largest_precision
from probsfa.statespace.engine.core.kernels import pack
from probsfa.statespace.engine.core.passes import Recursions, Segments
from probsfa.statespace.engine.posterior import choose, expected_statistics, log_likelihood, smooth
from probsfa.statespace.engine.sweep import Sweep
from probsfa.statespace.panel import Units, lazy_panel, pack_rows
from probsfa.statespace.streaming import stream
from tests.oracles import statespace as oracle
from tests.statespace.engine.algorithms import assert_is_the_joint_gaussian, assert_same
from tests.statespace.engine.block_models import (
    assert_is_the_joint_gaussian as assert_blocks_are_the_joint_gaussian,
)
from tests.statespace.engine.block_models import make_data, make_model
from tests.statespace.support import (
    mask_values,
    needs_core,
    scaled_error,
    to_panel,
    to_parameters,
    uneven_times,
)
from tests.tolerances import EXACT

pytestmark = needs_core
CHUNK_TYPES = pytest.mark.parametrize("chunk_type", [Segments, Recursions])


def model_of(rng, n_features=4, n_components=3, slowest=0.98):
    model = oracle.random_model(rng, n_features, n_components)
    return model._replace(decay=np.linspace(slowest, 0.1, n_components))


def make_case(rng, n_rows=60, n_features=4, n_components=3):
    model = model_of(rng, n_features, n_components)
    data = mask_values(rng, oracle.simulate(rng, model, [n_rows]), "scattered")
    return to_parameters(model), to_panel(data)


@CHUNK_TYPES
@pytest.mark.parametrize("max_stored_bytes", [0, 2**30])
@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_chunks_continue_each_other_exactly(rng, monkeypatch, chunk_type, max_stored_bytes, sampling):
    """Also if results of the forward pass do not fit into memory and are recomputed."""
    monkeypatch.setattr(chunk_type, "rows_of_chunk", classmethod(lambda cls, n_states, moments_by_chunk: 32))
    for name in ("_MAX_STORED_BYTES", "_MAX_STORED_BYTES_OF_CHUNKS"):
        monkeypatch.setattr(f"probsfa.statespace.engine.core.algorithm.{name}", max_stored_bytes)
    model = model_of(rng, slowest=0.999)
    lengths = [75, 2, 90]
    times = uneven_times(rng, lengths) if sampling == "uneven" else None
    data = mask_values(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    core = Core(chunk_type=chunk_type)
    assert_is_the_joint_gaussian(core, model, data, times)
    params, panel, visited = to_parameters(model), to_panel(data, times), {}
    value = core.visit_moments(params, panel, lambda part, *moments: visited.update({part.start: moments}))
    wanted = core.moments(params, panel)
    assert scaled_error(value, wanted.row_log_likelihoods.sum()) < EXACT
    means, covariances = (np.concatenate(x) for x in zip(*(visited[i] for i in sorted(visited)), strict=True))
    assert scaled_error(means, wanted.means) < EXACT
    assert scaled_error(covariances, wanted.covariances) < EXACT


@CHUNK_TYPES
@pytest.mark.parametrize("even", [True, False])
def test_sums_of_blocks_do_not_depend_on_chunks(rng, monkeypatch, chunk_type, even):
    """Lag-one covariances of blocks are not symmetric."""
    monkeypatch.setattr(chunk_type, "rows_of_chunk", classmethod(lambda cls, n_states, moments_by_chunk: 16))
    params = make_model(rng, "both")
    data, times, panel = make_data(rng, params, even=even)
    assert_blocks_are_the_joint_gaussian(params, data, times, panel, Core(chunk_type=chunk_type))


def test_draws_do_not_depend_on_chunks(rng, monkeypatch):
    params, panel = make_case(rng, 100)
    normals = rng.standard_normal((panel.values.shape[0], 2, 3))
    wanted = Core().draw(params, panel, normals)
    monkeypatch.setattr(Recursions, "rows_of_chunk", classmethod(lambda cls, n_states, moments_by_chunk: 32))
    assert scaled_error(Core().draw(params, panel, normals), wanted) < EXACT


@pytest.mark.parametrize("max_tabulated_gaps", [0, 64])
@pytest.mark.parametrize("lengths", [[97], [96, 1, 95, 4], [230]])
def test_groups_of_segments_for_two_threads(rng, monkeypatch, lengths, max_tabulated_gaps):
    monkeypatch.setattr(passes, "_MAX_TABULATED_GAPS", max_tabulated_gaps)
    monkeypatch.setattr(passes, "n_cores", lambda: 2)
    monkeypatch.setattr(passes, "_MIN_WORK_OF_THREAD", 0)
    model = model_of(rng, 5)
    times = uneven_times(rng, lengths)
    data = mask_values(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    assert_is_the_joint_gaussian(Core(chunk_type=Segments), model, data, times)


@CHUNK_TYPES
@pytest.mark.parametrize("size", [1e-150, 1e-160, 1e-320])
def test_loadings_whose_squares_underflow(rng, chunk_type, size):
    """The QR factorisation of a row with fewer values than factors has such residuals."""
    model = model_of(rng)
    loadings = model.loadings.copy()
    loadings[:, 1] = size
    data = mask_values(rng, oracle.simulate(rng, model, [30]), "scattered")
    assert_is_the_joint_gaussian(Core(chunk_type=chunk_type), model._replace(loadings=loadings), data)


@CHUNK_TYPES
def test_many_threads_equal_one_bit_for_bit(rng, chunk_type):
    cases = [make_case(rng, 300, n_components=k) for k in (2, 5, 9, 20)] * 4
    core = Core(chunk_type=chunk_type)
    sequential = [core.expected_statistics(*case) for case in cases]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda case: core.expected_statistics(*case), cases))
    for one, other in zip(found, sequential, strict=True):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)


@CHUNK_TYPES
@pytest.mark.parametrize("level", ["avx512", "avx2", "portable"])
def test_each_instruction_set(rng, chunk_type, level):
    module = kernels.kernels()
    if level not in module.levels():
        pytest.skip(f"this processor or build has no kernels for {level}")
    previous_level = module.level()
    module.use_level(level)
    try:
        for n_components in (2, 5, 9):
            model = model_of(rng, 4, n_components)
            data = mask_values(rng, oracle.simulate(rng, model, [40, 9]), "scattered")
            assert_is_the_joint_gaussian(Core(chunk_type=chunk_type), model, data)
    finally:
        module.use_level(previous_level)
    with pytest.raises(ValueError, match="sse9"):
        module.use_level("sse9")


def test_kernels_raise_for_invalid_arguments():
    module = kernels.kernels()
    with pytest.raises(ValueError, match="n_states, n_features and n_rows"):
        module.Segments(n_states=0, n_single=0, n_triples=0, n_features=1, n_rows=1, n_groups=1, n_gaps=1)
    with pytest.raises(ValueError, match="at most 160"):
        module.Segments(n_states=161, n_single=161, n_triples=0, n_features=1, n_rows=1, n_groups=1, n_gaps=1)
    kernel = module.Segments(
        n_states=2, n_single=2, n_triples=0, n_features=3, n_rows=5, n_groups=1, n_gaps=1
    )
    with pytest.raises(TypeError, match="values must be a"):
        kernel.values = np.zeros((5, 3), np.float32)
    with pytest.raises(TypeError, match="values must be a"):
        kernel.values = np.zeros((3, 5)).T
    with pytest.raises(ValueError, match="values.*14.*15"):
        kernel.values = np.zeros(14)
    with pytest.raises(ValueError, match=r"gap_index\[1\] = 2"):
        kernel.set_gaps(np.array([1, 2, 0, 0, 0], np.int32), np.zeros(5, np.int32))
    with pytest.raises(IndexError, match="group"):
        kernel.eliminate(0, 2)
    with pytest.raises(RuntimeError, match="not.* set"):
        kernel.eliminate(0, 1)
    rows = module.Rows(n_states=2, n_features=3, n_rows=5, n_gaps=1, bandwidth=0)
    with pytest.raises(RuntimeError, match="not.* set"):
        rows.filter(np.zeros(2), np.eye(2))


def test_rows_read_on_demand(rng):
    X = mask_values(rng, [rng.standard_normal((300, 4))], "scattered")[0]
    params = to_parameters(model_of(rng))
    lazy = lazy_panel(lambda rows: X[rows], 4, (100, 200))
    for chunk_type in (Segments, Recursions):
        found = Core(chunk_type=chunk_type).expected_statistics(params, lazy)
        assert_same(
            found, Core(chunk_type=chunk_type).expected_statistics(params, to_panel([X[:100], X[100:]]))
        )


@CHUNK_TYPES
def test_rows_read_on_demand_have_weights(rng, monkeypatch, chunk_type):
    monkeypatch.setattr(passes, "_READ_BYTES", 32 * 4 * 8)
    model = model_of(rng)
    X = mask_values(rng, oracle.simulate(rng, model, [200]), "scattered")[0]
    weights = np.where(np.isnan(X), 0.0, rng.uniform(0.2, 3.0, X.shape))
    lazy = lazy_panel(lambda rows: X[rows], 4, (200,))._replace(weights=weights)
    params, core = to_parameters(model), Core(chunk_type=chunk_type)
    wanted = core.expected_statistics(params, to_panel([X]).weighted(np.pad(weights, ((0, 8), (0, 0)))))
    assert_same(core.expected_statistics(params, lazy), wanted)


def test_rows_read_on_demand_are_not_stored(rng, monkeypatch, tmp_path):
    """Not all values are in memory at the same time."""
    monkeypatch.setattr(passes, "_READ_BYTES", 2**17)
    model = model_of(rng, 40, 1)
    X = np.memmap(tmp_path / "rows", np.float64, "w+", shape=(20_000, 40))
    X[:] = rng.standard_normal(X.shape)
    params, units = to_parameters(model), (rng.standard_normal(40), rng.uniform(0.5, 2.0, 40))
    core = Core(chunk_type=Segments)
    core.expected_statistics(params, stream(X, (len(X),), *units))  # allocates scratch memory for later calls
    lazy = stream(X, (len(X),), *units)
    tracemalloc.start()
    try:
        found = core.expected_statistics(params, lazy)
        assert tracemalloc.get_traced_memory()[1] < X.nbytes / 4
    finally:
        tracemalloc.stop()
    assert_same(found, core.expected_statistics(params, to_panel([(X - units[0]) / units[1]])))


@pytest.mark.parametrize(
    "layout", ["rows", "memmap", "float32", "columns first", "masked", "every other row"]
)
def test_rows_are_packed_as_without_the_kernels(rng, tmp_path, layout):
    X = mask_values(rng, [10.0 * rng.standard_normal((1500, 7))], "scattered")[0]
    block = {
        "rows": X[::-1].copy(),
        "memmap": np.memmap(tmp_path / "rows", np.float64, "w+", shape=X.shape),
        "float32": X.astype(np.float32),
        "columns first": np.asfortranarray(X),
        "masked": np.ma.array(np.where(np.isnan(X), -999.0, X), mask=np.isnan(X)),
        "every other row": np.repeat(X, 2, axis=0)[::2],
    }[layout]
    if layout == "memmap":
        block[:] = X
    for units in (Units(rng.standard_normal(7), rng.uniform(0.5, 2.0, 7)), None):
        for one, other in zip(pack(block, units), pack_rows(block, units), strict=True):
            np.testing.assert_array_equal(one, other)


def test_parameters_of_single_precision(rng):
    params, panel = make_case(rng)
    names = ("decay", "loadings", "noise_variance", "offset")
    single = params.replace(**{name: getattr(params, name).astype(np.float32) for name in names})
    double = single.replace(**{name: getattr(single, name).astype(np.float64) for name in names})
    for chunk_type in (Segments, Recursions):
        core = Core(chunk_type=chunk_type)
        assert_same(core.expected_statistics(single, panel), core.expected_statistics(double, panel), 1e-6)


@CHUNK_TYPES
@pytest.mark.parametrize("n_components", [2, 9])
@pytest.mark.parametrize(
    ("name", "wrong"),
    [("noise_variance", np.nan), ("noise_variance", -1e-3), ("decay", np.nan), ("offset", np.inf)],
)
def test_invalid_parameters_give_nan(rng, chunk_type, n_components, name, wrong):
    """Finite numbers would mislead an optimizer."""
    params, panel = make_case(rng, 30, n_components=n_components)
    params = params.replace(**{name: np.full_like(getattr(params, name), wrong)})
    with np.errstate(all="ignore"):
        assert np.isnan(Core(chunk_type=chunk_type).log_likelihood(params, panel))
        assert np.isnan(Core(chunk_type=chunk_type).expected_statistics(params, panel).log_likelihood)


def case_of_precision(seed, precision):
    """Return a model of nine factors whose filtered states have a given precision, and a panel."""
    rng = np.random.default_rng(seed)
    model = model_of(rng, 4, 9, 0.9)
    data = mask_values(rng, oracle.simulate(rng, model, [40]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    gram = params.loadings.T @ (params.loadings / params.noise_variance[:, None])
    scale = np.linalg.eigvalsh(gram)[-1] / precision
    return params.replace(noise_variance=params.noise_variance * scale), panel


@pytest.mark.parametrize("seed", range(3))
def test_segments_are_accurate_at_the_smallest_noise_for_which_they_are_used(seed):
    params, panel = case_of_precision(seed, 9e3)
    assert 9e3 < largest_precision(params, panel) < 1e4
    found, wanted = (
        Core(chunk_type=chunk_type).moments(params, panel) for chunk_type in (Segments, Recursions)
    )
    assert_same(found, wanted, 1e-9)
    params, panel = case_of_precision(seed, 1.9e6)
    found, wanted = (
        Core(chunk_type=chunk_type).expected_statistics(params, panel)
        for chunk_type in (Segments, Recursions)
    )
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < 1e-7
    assert_same(found, wanted, 1e-5)


def test_two_rows_closer_than_all_others_are_accurate(rng):
    """Segments would be inaccurate for the small innovation between these rows."""
    model, times = model_of(rng, slowest=0.9999), [np.array([0.0, 1.0, 2.0, 2.0 + 2e-6, 3.0, 4.0])]
    data = oracle.simulate(rng, model, [6], times)
    assert largest_precision(to_parameters(model), to_panel(data)) < 1e4  # without these two rows
    assert_is_the_joint_gaussian(Core(), model, data, times)


def test_the_compiled_engine_is_the_default_and_can_be_switched_off(rng, monkeypatch):
    params, panel = make_case(rng)
    assert choose(params) == Core()
    with use_strategy("recursions"):
        assert choose(params) == Sweep("recursions")
    monkeypatch.setenv(kernels.ENVIRONMENT_VARIABLE, "0")
    assert choose(params) == Sweep()
    with use_strategy("core"), pytest.raises(ValueError, match="strategy='core'"):
        smooth(params, panel)
    monkeypatch.delenv(kernels.ENVIRONMENT_VARIABLE)
    large = to_parameters(model_of(rng, 4, 161))
    assert choose(large) == Sweep()
    with use_strategy("core"), pytest.raises(ValueError, match="161"):
        smooth(large, panel)


def test_unknown_algorithms_raise():
    with pytest.raises(ValueError, match="'scan'; got 'lockstep'"), use_strategy("lockstep"):
        pass


@pytest.mark.parametrize("name", ["segmented", "scan"])
def test_numbers_of_segments_that_do_not_divide_the_rows_raise(rng, name):
    with pytest.raises(ValueError, match="7 segments"):
        Sweep(name, n_segments=7).moments(*make_case(rng, 40))


def test_fits_with_and_without_the_compiled_engine_have_the_same_likelihood(rng, monkeypatch):
    """At the same parameters, because two optimizers may stop at different points within the tolerance."""
    model = oracle.random_model(rng, 5, 2)
    X = mask_values(rng, oracle.simulate(rng, model, [200]), "scattered")[0]
    fitted = ProbabilisticSFA(2).fit(X)
    monkeypatch.setenv(kernels.ENVIRONMENT_VARIABLE, "0")
    assert fitted.log_likelihood(X) == pytest.approx(fitted.log_likelihood_, rel=EXACT)


def test_a_module_of_another_version_is_not_used(monkeypatch):
    monkeypatch.setattr(kernels, "_INTERFACE_VERSION", -1)
    assert kernels._module.__wrapped__() is None
    monkeypatch.setattr(kernels, "_module", lambda: None)
    assert not kernels.available()
    with pytest.raises(RuntimeError, match="compiler"):
        kernels.kernels()


def test_rows_in_the_steady_state_share_gains(rng):
    """A long complete series then requires little memory."""
    model = model_of(rng, slowest=0.9)
    params, panel = to_parameters(model), to_panel([rng.standard_normal((5000, 4))])
    panel_pass = passes.PanelPass(params, panel, Recursions, 2**30)
    list(panel_pass.forward())
    assert panel_pass.chunks[0].n_slots < 200
    assert Recursions.rows_of_chunk(100, False) >= 256


def test_the_default_is_accurate(rng):
    params, panel = make_case(rng)
    value = log_likelihood(params, panel)
    assert value == pytest.approx(Core(chunk_type=Recursions).log_likelihood(params, panel), rel=EXACT)
    assert expected_statistics(params, panel).log_likelihood == pytest.approx(value, rel=EXACT)
