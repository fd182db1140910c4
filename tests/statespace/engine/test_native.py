"""The compiled library gives what the joint Gaussian and the plain recursions say."""

import runpy
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from probsfa.statespace import ProbabilisticSFA, use_strategy
from probsfa.statespace.engine import information_form
from probsfa.statespace.engine import plan as planning
from probsfa.statespace.engine.native import build, library, route
from probsfa.statespace.engine.native.packing import pack
from probsfa.statespace.engine.native.route import NativeSegments
from probsfa.statespace.panel import Units, lazy_panel, pack_rows
from probsfa.statespace.posterior import (
    expected_statistics,
    log_likelihood,
    plan_for,
    smooth,
)
from probsfa.statespace.streaming import stream
from tests.oracles import statespace as oracle
from tests.statespace.engine.precise_models import as_precise, at_the_limit, many_latents, precise
from tests.statespace.support import (
    HOLES,
    needs_library,
    punch,
    scaled_error,
    to_panel,
    to_parameters,
    uneven_times,
)
from tests.tolerances import EXACT


def assert_same(found, wanted):
    for name, one, other in zip(wanted._fields, found, wanted, strict=True):
        assert scaled_error(one, other) < EXACT, name


def answers(params, panel):
    """All that the route is asked for."""
    return smooth(params, panel), expected_statistics(params, panel), log_likelihood(params, panel)


def posterior_of(model, data):
    with use_strategy("native"):
        return smooth(to_parameters(model), to_panel(data))


def assert_is_what_recursions_say(params, panel):
    with use_strategy("native"):
        found = answers(params, panel)
    with use_strategy("recursions"):
        wanted = answers(params, panel)
    assert_same(found[0], wanted[0])
    assert_same(found[1], wanted[1])
    assert scaled_error(found[2], wanted[2]) < EXACT


def assert_is_the_joint_gaussian(model, data, times=None):
    params, panel = to_parameters(model), to_panel(data, times)
    wanted = oracle.joint_posterior(model, data, times)
    with use_strategy("native"):
        found, sums, value = answers(params, panel)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    for each in (found.log_likelihood, sums.log_likelihood, value):
        assert scaled_error(each, wanted.log_likelihood) < EXACT
    for name, expected in oracle.expected_sums(model, data, panel.gaps, times).items():
        assert scaled_error(getattr(sums, name), expected) < EXACT, name


@needs_library
@pytest.mark.parametrize("n_components", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13])
@pytest.mark.parametrize("holes", list(HOLES))
def test_moments_and_sums_are_those_of_the_joint_gaussian(rng, n_components, holes):
    model = many_latents(rng, 3, n_components)
    assert_is_the_joint_gaussian(model, punch(rng, oracle.simulate(rng, model, [17, 1, 12]), holes))


@needs_library
@pytest.mark.parametrize("n_components", [32, 33, 70, 160])
def test_many_latents(rng, n_components):
    model = many_latents(rng, 40, n_components)
    data = punch(rng, oracle.simulate(rng, model, [30]), "scattered")
    assert_is_what_recursions_say(to_parameters(model), to_panel(data))


@needs_library
@pytest.mark.parametrize("lengths", [[2], [3], [4], [5], [97], [96, 1, 95, 4]])
def test_any_number_of_rows_is_cut_into_segments(rng, lengths):
    model = many_latents(rng, 5, 2)
    assert_is_the_joint_gaussian(model, punch(rng, oracle.simulate(rng, model, lengths), "scattered"))


@needs_library
@pytest.mark.parametrize("lengths", [[97], [96, 1, 95, 4], [230]])
def test_groups_of_segments_for_two_threads(rng, monkeypatch, lengths):
    monkeypatch.setattr(route, "n_cores", lambda: 2)
    monkeypatch.setattr(route, "_LEAST_WORK", 0)
    model = many_latents(rng, 5, 3)
    assert_is_the_joint_gaussian(model, punch(rng, oracle.simulate(rng, model, lengths), "scattered"))


@needs_library
@pytest.mark.parametrize("n_features", [2, 31, 32, 33, 70])
def test_any_number_of_columns(rng, n_features):
    """They are taken in blocks; rows in a row of the same gaps share their precision."""
    model = many_latents(rng, n_features, 3)
    data = [x.copy() for x in oracle.simulate(rng, model, [40, 25])]
    for x in data:
        x[rng.random(x.shape) < 0.05] = np.nan
        x[10:15, ::2] = np.nan
        x[15:18, 1:] = np.nan
    assert_is_the_joint_gaussian(model, data)


@needs_library
def test_a_single_row(rng):
    model = many_latents(rng, 5, 2)
    data = oracle.simulate(rng, model, [1])
    found, wanted = (f(model, data) for f in (posterior_of, oracle.joint_posterior))
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < EXACT
    assert found.lag_one_covariances.shape == (0, 2, 2)


@needs_library
@pytest.mark.parametrize("few_gaps", [0, 64])
@pytest.mark.parametrize("n_features", [1, 2, 40])
def test_uneven_times(rng, n_features, few_gaps, monkeypatch):
    """Steps that differ from lane to lane, and more columns than a block of them."""
    monkeypatch.setattr(route, "_FEW_GAPS", few_gaps)
    model = many_latents(rng, n_features, 5)
    model = model._replace(decay=np.abs(model.decay))
    lengths = [16, 1, 11]
    times = uneven_times(rng, lengths)
    data = punch(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    assert_is_the_joint_gaussian(model, data, times)


@needs_library
def test_latents_without_memory(rng):
    """A decay of zero, which nothing may be divided by."""
    model = oracle.random_model(rng, 2, 4)._replace(decay=np.array([0.9, 0.0, -0.3, 1e-300]))
    assert_is_the_joint_gaussian(model, oracle.simulate(rng, model, [14, 6]))


@needs_library
def test_the_log_density_of_each_row_is_that_of_the_textbook(rng):
    model = many_latents(rng)
    data = punch(rng, oracle.simulate(rng, model, [30, 10]), "scattered")
    with use_strategy("native"):
        found = smooth(to_parameters(model), to_panel(data)).row_log_likelihoods
    assert scaled_error(found, oracle.kalman_loop(model, data).row_log_likelihoods) < EXACT


@needs_library
@pytest.mark.parametrize("n_components", [6, 10, 32])
@pytest.mark.parametrize("slowest", [0.5, 0.9995])
@pytest.mark.parametrize("holes", ["scattered", "empty rows"])
def test_segments_may_forget_their_left_border_or_remember_it(rng, n_components, slowest, holes):
    """Rows of a segment that know nothing of the state before it are filtered once, the others twice."""
    model = many_latents(rng, 5, n_components, slowest)
    model = model._replace(decay=np.linspace(slowest, 0.1, n_components))
    data = punch(rng, oracle.simulate(rng, model, [250, 3, 130]), holes)
    assert_is_what_recursions_say(to_parameters(model), to_panel(data))


@needs_library
@pytest.mark.parametrize("sampling", ["even", "uneven"])
@pytest.mark.parametrize("kept_bytes", [0, 2**30])
def test_chunks_are_handed_on_exactly(rng, monkeypatch, kept_bytes, sampling):
    """Also where there is no memory for the forward pass, which is made again then."""
    monkeypatch.setattr(route, "_CHUNK_BYTES", 0)
    monkeypatch.setattr(route, "_FEWEST_CHUNK_ROWS", 32)
    monkeypatch.setattr(route, "_LONG_CHUNK_ROWS", 0)
    model = many_latents(rng, 4, 3)
    model = model._replace(decay=np.array([0.999, 0.9, 0.2]))
    lengths = [75, 2, 90]
    times = uneven_times(rng, lengths) if sampling == "uneven" else None
    data = punch(rng, oracle.simulate(rng, model, lengths, times), "scattered")
    params, panel = to_parameters(model), to_panel(data, times)
    native = NativeSegments(kept_bytes)
    wanted = oracle.joint_posterior(model, data, times)
    found = native.moments(params, panel)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    assert scaled_error(np.sum(found.row_log_likelihoods), wanted.log_likelihood) < EXACT
    sums = native.expected_statistics(params, panel)
    for name, expected in oracle.expected_sums(model, data, panel.gaps, times).items():
        assert scaled_error(getattr(sums, name), expected) < EXACT, name
    shown = {}
    value = native.visit_moments(params, panel, lambda part, *moments: shown.update({part.start: moments}))
    assert scaled_error(value, wanted.log_likelihood) < EXACT
    assert len(shown) == -(-167 // 32)
    means, covariances = (np.concatenate(x) for x in zip(*(shown[i] for i in sorted(shown)), strict=True))
    np.testing.assert_array_equal(means, found.means)
    np.testing.assert_array_equal(covariances, found.covariances)


@needs_library
def test_a_second_thread_changes_nothing_but_rounding(rng, monkeypatch):
    model = many_latents(rng, 5, 3)
    data = punch(rng, oracle.simulate(rng, model, [400]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    monkeypatch.setattr(route, "n_cores", lambda: 1)
    alone = answers(params, panel)
    started = []
    monkeypatch.setattr(route, "n_cores", lambda: 2)
    monkeypatch.setattr(route, "_LEAST_WORK", 0)
    both = route.on_two_threads
    monkeypatch.setattr(route, "on_two_threads", lambda *work: (started.append(work), both(*work))[1])
    found = answers(params, panel)
    assert started
    assert_same(found[0], alone[0])
    assert_same(found[1], alone[1])


@needs_library
def test_callers_in_several_threads_do_not_share_memory(rng):
    models = [many_latents(rng, 4, k) for k in (2, 5, 9)] * 4
    data = [punch(rng, oracle.simulate(rng, model, [300]), "scattered") for model in models]
    cases = [(to_parameters(model), to_panel(each)) for model, each in zip(models, data, strict=True)]
    native = NativeSegments()
    alone = [native.expected_statistics(*case) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda case: native.expected_statistics(*case), cases))
    for one, other in zip(found, alone, strict=True):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)


@needs_library
def test_weights_of_cells(rng):
    model = many_latents(rng, 6, 4)
    data = punch(rng, oracle.simulate(rng, model, [50]), "scattered")
    panel = to_panel(data)
    weighted = panel.weighted(panel.mask * rng.uniform(0.2, 3.0, panel.mask.shape))
    assert_is_what_recursions_say(to_parameters(model), weighted)


@needs_library
def test_memories_of_the_noise_are_states_too(rng):
    model = many_latents(rng, 5, 2)
    params = to_parameters(model)._replace(
        memory_decay=rng.uniform(0.1, 0.9, 5), memory_scale=rng.uniform(0.2, 1.0, 5)
    )
    panel = to_panel(punch(rng, oracle.simulate(rng, model, [80, 40]), "scattered"))
    assert_is_what_recursions_say(params, panel)


@needs_library
def test_rows_that_are_read_when_they_are_asked_for(rng):
    X = punch(rng, [rng.standard_normal((300, 4))], "scattered")[0]
    params = to_parameters(many_latents(rng, 4, 3))
    lazy = lazy_panel(lambda rows: X[rows], 4, (100, 200))
    with use_strategy("native"):
        found = expected_statistics(params, lazy)
    assert_same(found, expected_statistics(params, to_panel([X[:100], X[100:]])))


@needs_library
@pytest.mark.parametrize("kept_bytes", [0, 2**17, 2**30])
def test_rows_that_are_read_do_not_stay_in_memory(rng, monkeypatch, tmp_path, kept_bytes):
    """Neither all their values at once, however much of the forward pass is kept, nor in one large chunk."""
    monkeypatch.setattr(route, "_READ_BYTES", 2**17)
    model = many_latents(rng, 40, 1)
    X = np.memmap(tmp_path / "rows", np.float64, "w+", shape=(20_000, 40))
    X[:] = rng.standard_normal(X.shape)
    params, units = to_parameters(model), (rng.standard_normal(40), rng.uniform(0.5, 2.0, 40))
    native = NativeSegments(kept_bytes)
    native.expected_statistics(params, stream(X, (len(X),), *units))  # makes what is kept from call to call
    lazy = stream(X, (len(X),), *units)
    tracemalloc.start()
    try:
        found = native.expected_statistics(params, lazy)
        assert tracemalloc.get_traced_memory()[1] < X.nbytes / 4
    finally:
        tracemalloc.stop()
    assert_same(found, native.expected_statistics(params, to_panel([(X - units[0]) / units[1]])))


@needs_library
@pytest.mark.parametrize(
    "kind",
    [
        "rows",
        "memmap",
        "float32",
        "columns first",
        "masked",
        "integers",
        "every other row",
        "no rows",
        "not aligned",
    ],
)
def test_rows_are_packed_as_without_the_library(rng, tmp_path, kind):
    X = punch(rng, [10.0 * rng.standard_normal((1500, 7))], "scattered")[0]
    masked = np.ma.array(np.where(np.isnan(X), -999.0, X), mask=np.isnan(X))
    block = {
        "rows": X[::-1].copy(),
        "memmap": np.memmap(tmp_path / "rows", np.float64, "w+", shape=X.shape),
        "float32": X.astype(np.float32),
        "columns first": np.asfortranarray(X),
        "masked": masked,
        "integers": np.rint(np.nan_to_num(X)).astype(int),
        "every other row": np.repeat(X, 2, axis=0)[::2],
        "no rows": X[:0],
        "not aligned": np.frombuffer(b"abc" + X.tobytes(), np.uint8)[3:].view(np.float64).reshape(X.shape),
    }[kind]
    if kind == "memmap":
        block[:] = X
    units = Units(rng.standard_normal(7), rng.uniform(0.5, 2.0, 7))
    for given in (units, None):
        for one, other in zip(pack(block, given), pack_rows(block, given), strict=True):
            np.testing.assert_array_equal(one, other)
    if kind in ("memmap", "masked"):
        values, mask = pack(block, units)
        wanted = np.where(np.isnan(X), 0.0, (X - units.shift) / units.scale)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(mask, ~np.isnan(X))


@needs_library
def test_rows_of_another_width_than_their_units_are_refused(rng):
    with pytest.raises(ValueError, match="broadcast"):
        pack(rng.standard_normal((5, 9)), Units(np.zeros(7), np.ones(7)))


@needs_library
def test_rows_that_are_read_have_weights(rng, monkeypatch):
    monkeypatch.setattr(route, "_READ_BYTES", 0)
    monkeypatch.setattr(route, "_FEWEST_READ_ROWS", 32)
    model = many_latents(rng, 4, 3)
    X = punch(rng, oracle.simulate(rng, model, [200]), "scattered")[0]
    weights = np.where(np.isnan(X), 0.0, rng.uniform(0.2, 3.0, X.shape))
    lazy = lazy_panel(lambda rows: X[rows], 4, (200,))._replace(weights=weights)
    params, native = to_parameters(model), NativeSegments()
    wanted = native.expected_statistics(params, to_panel([X]).weighted(np.pad(weights, ((0, 8), (0, 0)))))
    assert_same(native.expected_statistics(params, lazy), wanted)


@needs_library
def test_parameters_of_single_precision(rng):
    model = many_latents(rng, 4, 3)
    panel = to_panel(punch(rng, oracle.simulate(rng, model, [60]), "scattered"))
    names = ("decay", "loadings", "noise_variance", "offset")
    params = to_parameters(model)
    short = params._replace(**{name: getattr(params, name).astype(np.float32) for name in names})
    exact = short._replace(**{name: getattr(short, name).astype(np.float64) for name in names})
    with use_strategy("native"):
        assert_same(expected_statistics(short, panel), expected_statistics(exact, panel))


@needs_library
@pytest.mark.parametrize("limit", ["noise", "time scale"])
def test_digits_are_left_at_the_least_noise_and_the_slowest_latent_for_which_it_is_chosen(rng, limit):
    n_features, n_components, n_rows = 4, 9, 8
    model = many_latents(rng, n_features, n_components, 0.9)
    data = oracle.simulate(rng, model, [n_rows])
    panel = to_panel(data)
    model = at_the_limit(model, panel, limit)
    params = to_parameters(model)
    assert isinstance(plan_for(params, panel).route, NativeSegments)
    found, wanted = smooth(params, panel), oracle.exact_posterior(model, data)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < EXACT


@needs_library
@pytest.mark.parametrize("seed", range(3))
def test_few_latents_in_as_many_columns_keep_digits_at_the_least_noise(seed):
    rng = np.random.default_rng(seed)
    model = many_latents(rng, 8, 8, 0.999)
    model = as_precise(model, information_form.MOST_PRECISION_OF_FEW)
    data = punch(rng, oracle.simulate(rng, model, [24]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    assert isinstance(plan_for(params, panel).route, NativeSegments)
    assert_is_what_recursions_say(params, panel)


@needs_library
@pytest.mark.parametrize("seed", range(4))
def test_sums_keep_seven_digits_at_the_least_noise_for_steps(seed):
    model, data = precise(seed, route.MOST_PRECISION_OF_STEPS)
    params, panel = to_parameters(model), to_panel(data)
    assert not isinstance(plan_for(params, panel).route, NativeSegments)
    assert isinstance(plan_for(params, panel, for_steps=True).route, NativeSegments)
    with use_strategy("recursions"):
        wanted = expected_statistics(params, panel)
    with use_strategy("native"):
        found = expected_statistics(params, panel)
    assert scaled_error(found.log_likelihood, wanted.log_likelihood) < 1e-10
    for ours, theirs in zip(found, wanted, strict=True):
        assert scaled_error(ours, theirs) < 1e-7


@needs_library
@pytest.mark.parametrize("n_components", [2, 9])
@pytest.mark.parametrize(
    ("name", "wrong"),
    [("noise_variance", np.nan), ("noise_variance", -1e-3), ("decay", np.nan), ("offset", np.inf)],
)
def test_what_has_gone_wrong_is_seen(rng, n_components, name, wrong):
    """Parameters that are none must not come out as numbers: a climb would believe them."""
    params = to_parameters(many_latents(rng, 4, n_components))
    params = params._replace(**{name: np.full_like(getattr(params, name), wrong)})
    panel = to_panel([rng.standard_normal((30, 4))])
    with use_strategy("native"), np.errstate(all="ignore"):
        assert np.isnan(log_likelihood(params, panel))
        assert np.isnan(expected_statistics(params, panel).log_likelihood)


@needs_library
def test_it_is_chosen_where_it_suits(rng, monkeypatch):
    model = many_latents(rng, 12, 12)
    panel = to_panel(punch(rng, [np.zeros((100, 12))], "scattered"))
    chosen = plan_for(to_parameters(model), panel)
    assert chosen.route == NativeSegments()
    assert "compiled library" in chosen.reason

    def is_chosen(model, panel=panel, **beside):
        params = to_parameters(model)._replace(**beside)
        return isinstance(plan_for(params, panel).route, NativeSegments)

    for changed in (
        model._replace(noise=np.full(12, 1e-8)),
        model._replace(noise=np.full(12, np.nan)),
        model._replace(loadings=1e200 * model.loadings),
        model._replace(decay=np.ones(12)),
        model._replace(decay=np.full(12, 1.0 - 1e-8)),
        many_latents(rng, 12, 161),
    ):
        assert not is_chosen(changed)
    assert not is_chosen(model, panel.weighted(1e8 * panel.mask))
    smooth_latent = model._replace(loadings=rng.standard_normal((12, 14)))
    assert is_chosen(smooth_latent, smooth_rate=np.array([0.2]))
    assert not is_chosen(smooth_latent, smooth_rate=np.array([1e-3]))
    for asked in ({"chunk_rows": 50}, {"two_filter": True}, {"n_segments": 4}):
        with use_strategy(**asked):
            assert not is_chosen(model)
    with use_strategy(cached_bytes=0):
        assert is_chosen(model)
    monkeypatch.setenv(library.SWITCH, "0")
    assert not is_chosen(model)
    monkeypatch.delenv(library.SWITCH)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not is_chosen(model)


def test_asked_for_where_it_cannot_be(rng, monkeypatch):
    panel = to_panel([np.zeros((10, 4))])
    with (
        use_strategy("native"),
        pytest.raises(ValueError, match="up to 160 states; .* has 161"),
    ):
        smooth(to_parameters(many_latents(rng, 4, 161)), panel)
    monkeypatch.setattr(planning.native, "serves", lambda: False)
    monkeypatch.setattr(planning.native, "suits", lambda params: False)
    with use_strategy("native"), pytest.raises(ValueError, match="the library is not"):
        smooth(to_parameters(many_latents(rng, 4, 2)), panel)
    with pytest.raises(ValueError, match="excludes"), use_strategy("native", two_filter=True):
        pass


@needs_library
def test_fits_with_the_library_and_without_agree(rng, monkeypatch):
    model = oracle.random_model(rng, 5, 2)
    X = punch(rng, oracle.simulate(rng, model, [200]), "scattered")[0]
    with_library = ProbabilisticSFA(2).fit(X)
    monkeypatch.setenv(library.SWITCH, "0")
    without = ProbabilisticSFA(2).fit(X)
    assert with_library.log_likelihood_ == pytest.approx(without.log_likelihood_, abs=0.01)
    np.testing.assert_allclose(with_library.log_likelihood(X), with_library.log_likelihood_, rtol=EXACT)


@pytest.fixture
def elsewhere(tmp_path):
    """The module that compiles, for a copy of the sources."""
    for name in (*build.SOURCES, "build.py"):
        shutil.copy(build.FOLDER / name, tmp_path)
    return runpy.run_path(str(tmp_path / "build.py"))


def test_a_library_is_left_out_where_it_cannot_be_compiled(elsewhere, monkeypatch, tmp_path):
    made = elsewhere["LIBRARY"]
    assert made.parent == tmp_path
    made.write_bytes(b"of yesterday")
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    assert "no-such-compiler failed" in elsewhere["build"]()
    assert not made.exists()
    monkeypatch.setenv("CC", "false")
    assert "false failed" in elsewhere["build"]()
    monkeypatch.delenv("CC")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert elsewhere["build"]() == "there is no C compiler"


def test_a_library_of_other_sources_is_not_used(elsewhere, monkeypatch, tmp_path):
    assert elsewhere["sources_hash"]() == build.sources_hash()
    (tmp_path / "segments.c").write_text("int changed;\n")
    assert elsewhere["sources_hash"]() != build.sources_hash()
    for path in (tmp_path / "missing.so", tmp_path / "segments.c"):
        monkeypatch.setattr(library, "LIBRARY", Path(path))
        assert library._library.__wrapped__() is None
    monkeypatch.setattr(library, "LIBRARY", build.LIBRARY)
    monkeypatch.setattr(library, "sources_hash", lambda: "others")
    assert library._library.__wrapped__() is None
