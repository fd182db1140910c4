"""Compiled programs are stored in a folder on request only."""

import os
import subprocess
import sys

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
    # Without the settings of JAX in conftest.py, so that programs are cached on request only. Also without
    # the compiled engine, with which JAX would compile nothing.
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


@pytest.mark.skipif(os.name != "posix", reason="permissions are not bits on this system")
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
