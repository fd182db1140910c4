"""The limit on the threads of BLAS is shared by all threads, and removed when the last one leaves."""

import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from threadpoolctl import ThreadpoolController

from probsfa import SFA, GraphSFA, KernelSFA, LaplacianEigenmaps, ProbabilisticSFA, graphs
from probsfa import _threads as threads
from probsfa._threads import SecondThread, n_cores, on_two_threads, one_blas_thread, one_core

N_THREADS = 8


def libraries():
    return ThreadpoolController().select(user_api="blas").lib_controllers


def blas_threads():
    return [library.num_threads for library in libraries()]


def set_blas_threads(numbers):
    for library, number in zip(libraries(), numbers, strict=True):
        library.set_num_threads(number)
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


@pytest.fixture(autouse=True)
def two_blas_threads():
    """Set two threads for each library, also on one core, so that a limit to one is visible."""
    before = blas_threads()
    set_blas_threads([2] * len(before))
    yield
    assert blas_threads() == [2] * len(before)
    set_blas_threads(before)


def test_the_limit_holds_and_ends():
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}


def test_threads_that_overlap_do_not_leave_one_blas_thread_for_good():
    """The first thread to enter leaves first; the number found by the second is not restored."""
    second_is_in, first_is_out = threading.Event(), threading.Event()

    def second():
        with one_blas_thread():
            second_is_in.set()
            assert first_is_out.wait(10)
            return blas_threads()

    with ThreadPoolExecutor(1) as executor:
        with one_blas_thread():
            seen = executor.submit(second)
            assert second_is_in.wait(10)
        first_is_out.set()
        assert set(seen.result()) == {1}
    assert set(blas_threads()) == {2}


@pytest.mark.exhaustive
def test_eight_threads_that_enter_and_leave_in_random_order():
    seen = []

    def work(seed):
        rng = random.Random(seed)
        entered = []
        for _ in range(100):
            if entered and rng.random() < 0.5:
                entered.pop().__exit__(None, None, None)
            else:
                entered.append(one_blas_thread())
                entered[-1].__enter__()
            if entered:
                seen.append(set(blas_threads()))
        for limit in reversed(entered):
            limit.__exit__(None, None, None)

    with ThreadPoolExecutor(N_THREADS) as executor:
        list(executor.map(work, range(N_THREADS)))
    assert all(numbers == {1} for numbers in seen)
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_errors_and_interrupts_end_the_limit(error):
    with pytest.raises(error), one_blas_thread(), one_blas_thread():
        raise error
    assert set(blas_threads()) == {2}


class Library:
    """A library whose number of threads is a setting of the calling thread, or of the process."""

    internal_api = "openblas"

    def __init__(self, threading_layer):
        self.threading_layer = threading_layer
        self.numbers = threading.local() if threading_layer == "openmp" else type("Shared", (), {})()
        self.error = None

    @property
    def num_threads(self):
        return getattr(self.numbers, "n", 4)

    def set_num_threads(self, n):
        self.numbers.n = n
        if self.error is not None:
            error, self.error = self.error, None
            raise error


@pytest.fixture(params=["openmp", "pthreads"])
def library(request, monkeypatch):
    """A library of its own, which is the only one that is limited."""
    library = Library(request.param)
    controller = type("Controller", (), {"select": lambda self, **_: self, "lib_controllers": [library]})
    monkeypatch.setattr(threads, "ThreadpoolController", controller)
    monkeypatch.setattr(threads, "_blas_libraries", threads._blas_libraries.__wrapped__)
    return library


def test_numbers_of_threads_of_one_thread_or_of_the_process(library):
    def other():
        with one_blas_thread():
            entered.set()
            assert main_left.wait(10)
            inside = library.num_threads
        return inside, library.num_threads

    entered, main_left = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as executor:
        with one_blas_thread():
            numbers = executor.submit(other)
            assert entered.wait(10)
        main_left.set()
        assert numbers.result() == (1, 4)
    assert library.num_threads == 4


def test_an_interrupt_on_entering_leaves_no_limit(library):
    library.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        pass
    assert library.num_threads == 4
    with one_blas_thread():
        assert library.num_threads == 1
    assert library.num_threads == 4


@pytest.mark.parametrize(
    "estimator", [SFA(2), ProbabilisticSFA(2, max_iter=3), LaplacianEigenmaps(2, n_neighbors=5)]
)
@pytest.mark.filterwarnings("ignore:.*did not converge:UserWarning", "ignore:.*stopped:UserWarning")
def test_transform_on_threads_gives_the_serial_results(estimator, rng):
    X = np.cumsum(rng.standard_normal((120, 4)), axis=0)
    X += np.arange(4)
    fitted = estimator.fit(X)
    pieces = [X[start : start + 60] + 1e-3 for start in range(60)]
    serial = [fitted.transform(piece) for piece in pieces]
    with ThreadPoolExecutor(N_THREADS) as executor:
        for threaded, expected in zip(executor.map(fitted.transform, pieces), serial, strict=True):
            np.testing.assert_array_equal(threaded, expected)


@pytest.mark.filterwarnings("ignore:.*did not converge:UserWarning", "ignore:.*stopped:UserWarning")
def test_grid_search_on_threads_gives_the_serial_results(rng):
    X = np.cumsum(rng.standard_normal((150, 4)), axis=0)
    y = X @ [1.0, -1.0, 0.5, 0.0]
    pipeline = make_pipeline(ProbabilisticSFA(max_iter=3), Ridge())
    grid = {"probabilisticsfa__n_components": [1, 2], "ridge__alpha": [0.1, 1.0]}
    serial = GridSearchCV(pipeline, grid, cv=KFold(2), n_jobs=1).fit(X, y)
    with parallel_backend("threading", n_jobs=4):
        threaded = GridSearchCV(pipeline, grid, cv=KFold(2), n_jobs=4).fit(X, y)
    np.testing.assert_array_equal(
        threaded.cv_results_["mean_test_score"], serial.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(threaded.predict(X), serial.predict(X))


def test_cores_are_those_this_process_may_use():
    assert 1 <= n_cores() <= (os.cpu_count() or 1)
    before = n_cores()
    with one_core():
        assert n_cores() == 1
    assert n_cores() == before


def calls_on_fitted_models(rng):
    """Return calls by name, and their arguments: of all packages, on models that all threads share."""
    X = np.cumsum(rng.standard_normal((64, 4)), axis=0)
    incomplete = X.copy()
    incomplete[rng.random(X.shape) < 0.1] = np.nan
    graph = graphs.clustered(np.repeat([0, 1, 2, 3], 16))
    probabilistic = ProbabilisticSFA(2, max_iter=3).fit(incomplete)
    slow, kernel = SFA(2).fit(X), KernelSFA(2, regularization=1e-3).fit(X)
    labelled = GraphSFA(2, graph=graph).fit(X)
    eigenmaps = LaplacianEigenmaps(2, n_neighbors=5).fit(X)
    return incomplete, [
        ("ProbabilisticSFA.transform", probabilistic.transform, True),
        (
            "ProbabilisticSFA.posterior",
            lambda x: probabilistic.posterior(x).covariances,
            True,
        ),
        ("ProbabilisticSFA.impute", probabilistic.impute, True),
        ("ProbabilisticSFA.log_likelihood", probabilistic.log_likelihood, True),
        ("ProbabilisticSFA.filter", lambda x: probabilistic.filter(x).means, True),
        ("SFA.transform", slow.transform, False),
        ("KernelSFA.transform", kernel.transform, False),
        ("GraphSFA.transform", labelled.transform, False),
        ("LaplacianEigenmaps.transform", eigenmaps.transform, False),
        ("SFA.fit", lambda x: SFA(2).fit(x).transform(x), False),
        ("GraphSFA.fit", lambda x: GraphSFA(2, graph=graph).fit(x).transform(x), False),
    ]


@pytest.mark.filterwarnings("ignore:.*did not converge:UserWarning", "ignore:.*stopped:UserWarning")
@pytest.mark.filterwarnings("ignore:Observed values left out one at a time")
def test_eight_threads_of_a_hundred_mixed_calls_give_the_serial_results(rng):
    incomplete, calls = calls_on_fitted_models(rng)
    pieces = [incomplete + 1e-3 * i for i in range(4)]
    jobs = [(call, x if accepts_nan else np.nan_to_num(x)) for _, call, accepts_nan in calls for x in pieces]
    serial = [call(x) for call, x in jobs]

    def work(seed):
        found = []
        for index in random.Random(seed).choices(range(len(jobs)), k=100):
            call, x = jobs[index]
            found.append((index, call(x)))
        return found

    with ThreadPoolExecutor(N_THREADS) as executor:
        done = [one for found in executor.map(work, range(N_THREADS)) for one in found]
    assert len(done) == 100 * N_THREADS and {index for index, _ in done} == set(range(len(jobs)))
    for index, result in done:
        np.testing.assert_array_equal(result, serial[index], err_msg=calls[index // len(pieces)][0])
    assert set(blas_threads()) == {2}


def test_two_functions_run_in_parallel():
    meeting, met = threading.Barrier(2, timeout=60), []

    def meet():
        meeting.wait()
        met.append(threading.get_ident())

    on_two_threads(meet, meet)
    assert len(set(met)) == 2
    on_two_threads(meet, meet)
    assert len(set(met)) == 2  # the second thread is reused


def test_a_second_caller_runs_both_functions_itself():
    second_thread, inside, done = SecondThread(), threading.Event(), threading.Event()
    first = threading.Thread(target=lambda: second_thread.run_both(inside.set, lambda: done.wait(60)))
    first.start()
    assert inside.wait(60)
    ran = []
    second_thread.run_both(
        lambda: ran.append(threading.get_ident()), lambda: ran.append(threading.get_ident())
    )
    assert ran == [threading.get_ident()] * 2
    done.set()
    first.join()


@pytest.mark.parametrize("which", ["one", "other"])
def test_an_error_is_raised_after_both_have_ended(which):
    second_thread, ran = SecondThread(), []

    def fail():
        raise ArithmeticError

    def work():
        ran.append(None)

    with pytest.raises(ArithmeticError):
        second_thread.run_both(*((fail, work) if which == "one" else (work, fail)))
    assert len(ran) == 1
    second_thread.run_both(work, work)
    assert len(ran) == 3


def test_an_interrupt_waits_for_the_other_function(monkeypatch):
    second_thread, ended, waits = SecondThread(), [], []
    go = threading.Event()
    waiting = threads.wait

    def wait(futures):
        waits.append(None)
        if len(waits) == 1:
            go.set()
            raise KeyboardInterrupt
        return waiting(futures)

    def other():
        go.wait(60)
        ended.append(None)

    monkeypatch.setattr(threads, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        second_thread.run_both(lambda: None, other)
    assert ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_has_a_thread_of_its_own():
    # In a separate process without JAX, whose threads do not survive a fork.
    assert subprocess.run([sys.executable, "-c", FORKS], timeout=300).returncode == 0


FORKS = """
import os, threading
from probsfa._threads import on_two_threads
on_two_threads(lambda: None, lambda: None)
child = os.fork()
ran = []
if child == 0:
    threading.Timer(60, os._exit, [1]).start()
    on_two_threads(lambda: ran.append(1), lambda: ran.append(1))
    os._exit(0 if len(ran) == 2 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
