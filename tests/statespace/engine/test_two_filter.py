"""The sums from both ends of the rows at once are those from one end."""

import _thread
import itertools
import threading
import time

import jax
import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace import streaming, use_strategy
from probsfa.statespace.engine import plan as planning
from probsfa.statespace.engine import two_filter
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.posterior import expected_statistics, log_likelihood, plan_for
from tests.oracles import statespace as oracle
from tests.sampling import sparsely
from tests.statespace.support import punch, scaled_error, to_panel, to_parameters, uneven_times
from tests.tolerances import EXACT, small_noise_tolerance

CHUNK_ROWS = 16
LENGTHS = {
    "one": [150],
    "several": [61, 1, 88],
    # Of 160 rows, ten chunks, the second half begins at row 80.
    "border where the sides meet": [80, 80],
    "border next to it": [79, 1, 80],
    "padding alone on one side": [20, 5],
}


@pytest.fixture
def sums():
    """Expected statistics from both ends or from one, in short chunks."""

    def compute(params, panel, *, both, chunk_rows=CHUNK_ROWS, cached_bytes=2**40):
        with use_strategy("recursions", two_filter=both, chunk_rows=chunk_rows, cached_bytes=cached_bytes):
            return expected_statistics(params, panel)

    return compute


def assert_same(found, wanted, tolerance=EXACT):
    for name, one, other in zip(wanted._fields, found, wanted, strict=True):
        assert scaled_error(one, other) < tolerance, name


@sparsely("lengths", list(LENGTHS), shown=["several"])
@sparsely("holes", ["none", "scattered", "empty rows", "everything"], shown=["scattered"])
@sparsely("even", [True, False], shown=[False])
def test_sums_are_those_from_one_end(rng, sums, lengths, holes, even):
    model = oracle.random_model(rng, 4, 3)
    if not even:
        model = model._replace(decay=np.abs(model.decay))
    rows = LENGTHS[lengths]
    times = None if even else uneven_times(rng, rows)
    data = punch(rng, oracle.simulate(rng, model, rows, times), holes)
    params = to_parameters(model)
    panel = to_panel(data, times)
    if lengths == "padding alone on one side":
        panel = padded_to(panel, 64)
    assert_same(sums(params, panel, both=True), sums(params, panel, both=False))


def padded_to(panel, n_steps):
    """The panel with empty rows at its end."""
    more = n_steps - len(panel.values)
    empty = np.zeros((more, panel.values.shape[1]))
    index = np.full(more, len(panel.gaps), dtype=panel.gap_index.dtype)
    return panel._replace(
        values=np.vstack([panel.values, empty]),
        mask=np.vstack([panel.mask, empty]),
        gap_index=np.concatenate([panel.gap_index, index]),
    )


@sparsely("even", [True, False], shown=[False])
@sparsely("rows", [[13, 1, 12], [16, 10], [26]])
def test_sums_are_those_of_the_joint_gaussian(rng, sums, rows, even):
    model = oracle.random_model(rng, 4, 3)._replace(decay=np.array([0.97, 0.7, 0.2]))
    times = None if even else uneven_times(rng, rows)
    data = punch(rng, oracle.simulate(rng, model, rows, times), "scattered")
    data[0][2] = np.nan
    panel = to_panel(data, times)
    found = sums(to_parameters(model), panel, both=True, chunk_rows=8)
    assert found.log_likelihood == pytest.approx(oracle.log_likelihood(model, data, times), rel=EXACT)
    for name, value in oracle.expected_sums(model, data, panel.gaps, times).items():
        assert scaled_error(getattr(found, name), value) < EXACT, name


@sparsely("noise", [1e-8, 1e-4, 1.0, 1e2])
@sparsely("decay", [[1.0 - 1e-6, 0.3, -0.4], [1.0 - 1e-6, 0.0, 1e-8], [0.99, -0.999, 0.5]])
def test_sums_agree_at_any_noise_and_time_scale(rng, sums, noise, decay):
    model = oracle.random_model(rng, 4, 3)._replace(decay=np.array(decay), noise=np.full(4, noise))
    data = punch(rng, oracle.simulate(rng, model, [150]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    one, both = (sums(params, panel, both=both) for both in (False, True))
    assert_same(both, one, small_noise_tolerance(noise))
    assert both.log_likelihood == pytest.approx(one.log_likelihood, rel=small_noise_tolerance(noise))


@pytest.mark.exhaustive
def test_many_latents_and_more_latents_than_columns(rng, sums):
    model = oracle.Model(
        np.linspace(0.99, -0.5, 12), rng.standard_normal((7, 12)), np.full(7, 0.1), rng.standard_normal(7)
    )
    data = punch(rng, oracle.simulate(rng, model, [100, 37]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    assert_same(sums(params, panel, both=True), sums(params, panel, both=False))


@pytest.mark.exhaustive
def test_sums_do_not_depend_on_chunks_and_are_the_same_each_time(rng, sums):
    model = oracle.random_model(rng, 4, 3)
    params = to_parameters(model)
    panel = to_panel(punch(rng, oracle.simulate(rng, model, [100, 60]), "scattered"))
    first = sums(params, panel, both=True)
    for way in ({"chunk_rows": 48}, {"chunk_rows": 80}, {"cached_bytes": 0}):
        assert_same(sums(params, panel, both=True, **way), first)
    for one, other in zip(sums(params, panel, both=True), first, strict=True):
        np.testing.assert_array_equal(one, other)


def test_new_parameters_and_new_data_are_not_mistaken_for_old(rng, sums):
    """What is held ready of a panel is of that panel."""
    model = oracle.random_model(rng, 4, 3)
    for _ in range(3):
        panel = to_panel(oracle.simulate(rng, model, [100]))
        for scale in (1.0, 2.0):
            params = to_parameters(model._replace(loadings=scale * model.loadings))
            assert_same(sums(params, panel, both=True), sums(params, panel, both=False))
        del panel


def test_streamed_rows_from_both_ends(rng, sums):
    """No more than a chunk is read at once, and never by two threads together."""
    model = oracle.random_model(rng, 4, 2)
    lengths = (70, 1, 79)
    data = punch(rng, oracle.simulate(rng, model, lengths), "scattered")
    X = np.concatenate(data)

    class Source:
        shape = X.shape
        readers, most = 0, 0

        def __getitem__(self, rows):
            self.readers += 1
            assert self.readers == 1
            time.sleep(1e-4)
            self.most = max(self.most, len(X[rows]))
            self.readers -= 1
            return X[rows]

    source = Source()
    panel = streaming.stream(source, lengths, np.zeros(4), np.ones(4))
    params = to_parameters(model)
    assert_same(sums(params, panel, both=True, cached_bytes=0), sums(params, to_panel(data), both=False))
    assert source.most == CHUNK_ROWS


def test_the_two_sides_together_are_the_definition(rng):
    """Where both sides saw one number each, the joint density can be written down."""
    decay, noise, seen = 0.9, 0.5, (1.3, -0.4)
    prior = np.array([[1.0, decay], [decay, 1.0]])
    both = prior + noise * np.eye(2)
    ends = [
        two_filter.End(np.array([x / (1 + noise)]), np.array([[np.sqrt(noise / (1 + noise))]])) for x in seen
    ]
    mean = prior @ np.linalg.solve(both, seen)
    covariance = prior - prior @ np.linalg.solve(both, prior)
    together = -0.5 * (np.linalg.slogdet(both)[1] + seen @ np.linalg.solve(both, seen))
    apart = -0.5 * sum(np.log(1 + noise) + x**2 / (1 + noise) for x in seen)
    for side in (0, 1):
        found = two_filter.combine(ends[side], ends[1 - side], Transition(np.array([decay])))
        assert found.mean[0] == pytest.approx(mean[side], rel=EXACT)
        assert found.covariance[0, 0] == pytest.approx(covariance[side, side], rel=EXACT)
        assert found.log_ratio == pytest.approx(together - apart, rel=EXACT)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_on_one_side_ends_both(failing, error):
    before, seen = threading.active_count(), []

    def fails():
        yield
        raise error("at the second item")

    goes_on = map(seen.append, itertools.count())
    sides = (fails(), goes_on) if failing == 0 else (goes_on, fails())
    with pytest.raises(error, match="second item"):
        two_filter.run_both(*sides)
    stopped = len(seen)
    assert threading.active_count() == before
    time.sleep(0.02)
    assert len(seen) == stopped


def test_an_interrupt_from_outside_ends_both():
    before = threading.active_count()

    def slow():
        while True:
            time.sleep(1e-3)
            yield

    def interrupting():
        for _ in itertools.islice(slow(), 5):
            yield
        _thread.interrupt_main()
        yield from slow()

    with pytest.raises(KeyboardInterrupt):
        two_filter.run_both(slow(), interrupting())
    assert threading.active_count() == before


def test_a_source_that_fails_is_told(rng, sums, monkeypatch):
    """Reading happens in both threads; the error of either comes out as it is."""
    model = oracle.random_model(rng, 4, 2)
    X = oracle.simulate(rng, model, [150])[0]

    class Broken:
        shape = X.shape

        def __getitem__(self, rows):
            if rows.stop > 140:
                raise OSError("the disk is gone")
            return X[rows]

    panel = streaming.stream(Broken(), (150,), np.zeros(4), np.ones(4))
    with pytest.raises(OSError, match="the disk is gone"):
        sums(to_parameters(model), panel, both=True)


def test_both_sides_are_worked_in_double_precision():
    """JAX's settings are those of one thread."""
    kinds = []

    def note():
        kinds.append(jax.numpy.ones(1).dtype)
        yield

    with jax.enable_x64(True):
        two_filter.run_both(note(), note())
    assert kinds == [np.float64, np.float64]


def test_a_second_thread_is_used_where_it_pays(rng, monkeypatch, no_library):
    def pays(n_rows, n_components):
        decay, loadings = np.linspace(0.9, 0.1, n_components), rng.standard_normal((3, n_components))
        model = oracle.Model(decay, loadings, np.ones(3), np.zeros(3))
        panel = to_panel(punch(rng, [np.zeros((n_rows, 3))], "scattered"))
        return isinstance(plan_for(to_parameters(model), panel).route, two_filter.TwoFilter)

    monkeypatch.setattr(planning, "n_cores", lambda: 2)
    assert pays(20_448, 20)
    assert not pays(20_448, 8)
    assert not pays(16, 12)
    monkeypatch.setattr(planning, "n_cores", lambda: 1)
    assert not pays(20_448, 20)


@pytest.mark.exhaustive
def test_a_fit_is_the_same_from_both_ends(rng):
    model = oracle.random_model(rng, 5, 2)
    X = punch(rng, oracle.simulate(rng, model, [200]), "scattered")[0]
    fits = []
    for both in (False, True):
        with use_strategy(two_filter=both):
            fits.append(ProbabilisticSFA(2).fit(X))
    assert fits[1].log_likelihood_ == pytest.approx(fits[0].log_likelihood_, rel=EXACT)
    assert fits[1].log_likelihood_ == pytest.approx(fits[1].log_likelihood(X), rel=EXACT)


def test_the_log_likelihood_is_that_of_the_forward_pass(rng, sums):
    model = oracle.random_model(rng, 4, 3)
    params, panel = to_parameters(model), to_panel(oracle.simulate(rng, model, [150]))
    found = sums(params, panel, both=True).log_likelihood
    assert found == pytest.approx(log_likelihood(params, panel), rel=EXACT)
