"""Compiled programs are stored in a folder on request only."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from probsfa import _compilation

LIKELIHOOD = """
import sys, warnings
import numpy as np
import jax, probsfa
from jax import monitoring
hits = []
monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hits" in event else None)
if len(sys.argv) > 1:
    print(probsfa.enable_compilation_cache(*sys.argv[1:2] if sys.argv[1] else ()))
X = np.cumsum(np.random.default_rng(0).standard_normal((40, 2)), axis=0)
warnings.simplefilter("ignore")
probsfa.ProbabilisticSFA.from_parameters([0.9], [[1.0], [0.5]], [0.5, 0.5]).log_likelihood(X)
print(len(hits))
"""

# Workers of joblib, which scikit-learn uses for n_jobs, are new processes that do not enable the cache.
IN_A_WORKER = """
import sys, warnings
import numpy as np
import probsfa
from joblib import Parallel, delayed

def count_hits(X):
    from jax import monitoring
    hits = []
    monitoring.register_event_listener(lambda event, **_: hits.append("cache_hits" in event))
    fit(X)
    return sum(hits)

def fit(X):
    warnings.simplefilter("ignore")
    probsfa.ProbabilisticSFA(1, max_iter=2).fit(X)

if sys.argv[1:]:
    probsfa.enable_compilation_cache(sys.argv[1])
X = np.cumsum(np.random.default_rng(0).standard_normal((40, 2)), axis=0)
fit(X)
print(Parallel(n_jobs=2)(delayed(count_hits)(X) for _ in range(1))[0])
"""


def run(*arguments, script=LIKELIHOOD, **environment):
    # Without what the tests tell JAX: these processes keep programs only where they ask for it. Without the
    # compiled engine, too, which leaves no program to be compiled.
    given = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    given["PROBSFA_CORE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**given, **environment},
    )
    return done.stdout.split()


def test_programs_are_kept_between_processes(tmp_path):
    folder = tmp_path / "deep" / "programs"
    first, hits = run(str(folder))
    assert first == str(folder)
    assert any(folder.iterdir())
    _, again = run(str(folder))
    assert int(again) > int(hits)  # one process may compile equal programs twice


@pytest.mark.exhaustive
def test_the_default_folder_is_that_of_the_user_and_only_used_on_request(tmp_path):
    assert run(XDG_CACHE_HOME=str(tmp_path)) == ["0"]
    assert list(tmp_path.iterdir()) == []
    folder, _ = run("", XDG_CACHE_HOME=str(tmp_path))
    assert folder == str(tmp_path / "probsfa") and any((tmp_path / "probsfa").iterdir())


@pytest.mark.exhaustive
def test_workers_that_are_started_afterwards_share_the_programs(tmp_path):
    assert run(script=IN_A_WORKER) == ["0"]
    (hits,) = run(str(tmp_path), script=IN_A_WORKER)
    assert int(hits) > 0


# ---------------------------------------------------------------- what commands keep

KEEP = """
import os, sys
if sys.argv[1:]:
    import jax
from probsfa._compilation import enable_command_line_cache
folder = enable_command_line_cache()
print(folder, os.environ.get("JAX_COMPILATION_CACHE_DIR"), "jax" in sys.modules)
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions are no bits here")
def test_no_other_user_can_put_programs_into_the_folder(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    before = os.umask(0)
    try:
        _compilation._restrict_permissions(folder)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match=f"Run chmod 700 {folder}"):
        _compilation._restrict_permissions(folder)
    folder.chmod(0o700)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(PermissionError, match=f"{user}"):
        _compilation._restrict_permissions(folder)


def test_commands_keep_programs_for_each_kind_of_processor_without_loading_jax(tmp_path):
    folder, told, loaded = run(script=KEEP, XDG_CACHE_HOME=str(tmp_path))
    assert folder == told and loaded == "False"
    assert Path(folder).is_dir() and Path(folder).parent == tmp_path / "probsfa"
    assert Path(folder).name == f"commands-{_compilation._processor()}"


@pytest.mark.parametrize(
    "set_by_the_user",
    [{"JAX_COMPILATION_CACHE_DIR": "elsewhere"}, {"JAX_ENABLE_COMPILATION_CACHE": "false"}],
    ids=["folder", "off"],
)
def test_commands_leave_alone_what_is_set(tmp_path, set_by_the_user):
    folder, told, _ = run(script=KEEP, XDG_CACHE_HOME=str(tmp_path), **set_by_the_user)
    assert folder == "None" and told == set_by_the_user.get("JAX_COMPILATION_CACHE_DIR", "None")
    assert list(tmp_path.iterdir()) == []


def test_commands_leave_alone_a_process_that_uses_jax_already(tmp_path):
    assert run("jax", script=KEEP, XDG_CACHE_HOME=str(tmp_path)) == ["None", "None", "True"]


def test_commands_do_without_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    assert run(script=KEEP, XDG_CACHE_HOME=str(tmp_path / "file"))[:2] == ["None", "None"]


def test_kinds_of_processors_have_folders_of_their_own(monkeypatch):
    one = _compilation._processor()
    assert one == _compilation._processor()
    monkeypatch.setattr(_compilation.platform, "machine", lambda: "another")
    assert one != _compilation._processor()


def test_the_oldest_programs_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(_compilation, "_MAX_CACHE_BYTES", 1000)
    for age in range(10):
        path = tmp_path / f"program-{age}"
        path.write_bytes(bytes(100))
        os.utime(path, (1000.0 - age, 1000.0 - age))
    _compilation._delete_oldest(tmp_path)
    assert len(list(tmp_path.iterdir())) == 10, "as much as there may be"
    (tmp_path / "program-10").write_bytes(bytes(100))  # the newest
    _compilation._delete_oldest(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["program-0", "program-1", "program-10", "program-2", "program-3"]


COMMAND = """
import sys
from probsfa.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.exhaustive
def test_a_second_command_compiles_nothing_and_a_damaged_program_is_made_again(tmp_path):
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((40, 2)), axis=0)
    X[3, 1] = np.nan
    np.savetxt(tmp_path / "in.csv", X, delimiter=",", header="a,b", comments="")

    def impute(name):
        target = tmp_path / name
        run("impute", str(tmp_path / "in.csv"), "-o", str(target), "-k", "1", "-q", script=COMMAND,
            XDG_CACHE_HOME=str(tmp_path))  # fmt: skip
        return target.read_text()

    def programs():
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "probsfa").rglob("*") if path.is_file()}

    first = impute("first.csv")
    kept = programs()
    assert kept
    assert impute("second.csv") == first
    assert programs() == kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:50])
    assert impute("third.csv") == first
