"""Compiled programs are kept in a folder where that is asked for, and nowhere else."""

import os
import subprocess
import sys

import pytest

FIT = """
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
probsfa.ProbabilisticSFA(1, max_iter=2).fit(X)
print(len(hits))
"""

# Workers of joblib, which scikit-learn uses for n_jobs, are started anew; they enable nothing themselves.
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


def run(*arguments, script=FIT, **environment):
    # Without what the tests tell JAX: these processes keep programs only where they ask for it.
    given = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
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
    assert first == str(folder) and int(hits) == 0
    assert any(folder.iterdir())
    _, hits = run(str(folder))
    assert int(hits) > 0


@pytest.mark.exhaustive
def test_the_default_folder_is_the_users_and_only_where_asked_for(tmp_path):
    assert run(XDG_CACHE_HOME=str(tmp_path)) == ["0"]
    assert list(tmp_path.iterdir()) == []
    folder, _ = run("", XDG_CACHE_HOME=str(tmp_path))
    assert folder == str(tmp_path / "probsfa") and any((tmp_path / "probsfa").iterdir())


@pytest.mark.exhaustive
def test_workers_that_are_started_afterwards_share_the_programs(tmp_path):
    assert run(script=IN_A_WORKER) == ["0"]
    (hits,) = run(str(tmp_path), script=IN_A_WORKER)
    assert int(hits) > 0
