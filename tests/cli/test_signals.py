"""Signals end a command at once, with the exit code that shells expect and unchanged files."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from probsfa.cli import main
from probsfa.cli._signals import GRACE_SECONDS, Stopped, raise_stopped_on_signals
from tests.sampling import parametrize

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

DATA = "t,a,b\n" + "".join(f"{i},{i % 3},{'' if i == 5 else i % 4}\n" for i in range(12))

# The command in a separate process; the fit of the stand-in runs the code `{fit}`.
COMMAND = """
import sys, time, types
from tests.stand_in import StandIn
from probsfa.cli import main

def goes_on(self, X, y=None, **others):
    print("fitting", flush=True)
    {fit}

fit_of_old = StandIn.fit
StandIn.fit = goes_on
# Avoids the import of JAX.
sys.modules["probsfa.statespace"] = types.SimpleNamespace(ProbabilisticSFA=StandIn)
tolerance = types.SimpleNamespace(imputation_tolerance=lambda n_cells: "auto")
sys.modules["probsfa.statespace.learning.options"] = tolerance
sys.exit(main(sys.argv[1:]))
"""
SLEEPS = "time.sleep(60)"
KEEPS = """
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
    return fit_of_old(self, X, y)
"""
SWALLOWS = """
    while True:
        try: time.sleep(1)
        except BaseException: pass
"""
WRITES = """
    from probsfa._files import replacing
    with replacing("other.csv") as [draft]:
        draft.write_text("half")
        while True:
            try: time.sleep(1)
            except BaseException: pass
"""


def stop(folder, subcommand, number, fit, *options):
    """Send a signal to a command during its fit; return exit code, output, and seconds."""
    code = COMMAND.format(fit=fit)
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    with subprocess.Popen(
        [sys.executable, "-c", code, subcommand, "data.csv", "-o", "out", "--force", "-q", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            message = process.stdout.readline()
            start = time.monotonic()
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            seconds = time.monotonic() - start
        finally:
            process.kill()
    assert message == "fitting\n", err
    return process.returncode, err, seconds


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    (tmp_path / "out").write_text("old")
    return tmp_path


@parametrize(
    ("subcommand", "number", "fit", "message"),
    [
        ("fit", signal.SIGINT, KEEPS, "interrupted"),
        ("impute", signal.SIGTERM, WRITES, "terminated"),
        ("impute", signal.SIGINT, SLEEPS, "interrupted"),
        ("fit", signal.SIGTERM, SLEEPS, "terminated"),
        ("impute", signal.SIGINT, SWALLOWS, "interrupted"),
    ],
    quick=1,
    ids=["Ctrl-C kept by the estimator", "SIGTERM while writing", "Ctrl-C", "SIGTERM", "Ctrl-C swallowed"],
)
def test_a_signal_leaves_files_unchanged(folder, subcommand, number, fit, message):
    code, err, seconds = stop(folder, subcommand, number, fit)
    assert code == 128 + number
    assert err.strip() == f"probsfa: error: {message}; no file was written."
    assert (folder / "out").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv", "out"]
    assert seconds < GRACE_SECONDS + 10.0


def test_an_interrupted_fit_ends_the_command(command, tmp_path, stand_in, monkeypatch):
    (tmp_path / "data.csv").write_text(DATA)
    (tmp_path / "out").write_text("old")
    fit = stand_in.fit

    def interrupted(self, X, y=None, **others):
        fit(self, X, y, **others)
        self.converged_, self.status_ = False, "Interrupted: the best parameters so far are kept."
        return self

    monkeypatch.setattr(stand_in, "fit", interrupted)
    for subcommand in ("impute", "fit"):
        result = command(subcommand, "data.csv", "-o", "out", "--force", "-q")
        assert (result.code, result.err) == (130, "probsfa: error: interrupted; no file was written.\n")
        assert (tmp_path / "out").read_text() == "old"


def test_handlers_are_restored():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Stopped) as stopped, raise_stopped_on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert (stopped.value.exit_code, stopped.value.message) == (143, "terminated; no file was written.")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_signals_are_not_handled_in_other_threads(tmp_path, stand_in):
    (tmp_path / "data.csv").write_text(DATA)
    codes = []
    arguments = ["impute", str(tmp_path / "data.csv"), "-o", str(tmp_path / "out.csv"), "-q"]
    thread = threading.Thread(target=lambda: codes.append(main(arguments)))
    thread.start()
    thread.join()
    assert codes == [0]
