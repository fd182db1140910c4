"""BayesianSFA works in any order of imports."""

import subprocess
import sys

from tests.sampling import parametrize

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import {first}
import numpy as np
from probsfa import BayesianSFA
X = np.random.default_rng(0).standard_normal((30, 2))
print(BayesianSFA(1, inference="svi", n_steps_svi=25, verbose=False, random_state=0).fit(X).status_)
"""


@parametrize("first", ["arviz", "numpyro", "numpy"], quick=[])
def test_order_of_imports_does_not_matter(first):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "draws from a Gaussian approximation" in done.stdout
