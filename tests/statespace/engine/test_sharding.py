"""Several devices give the sums of one: a process of its own, for JAX counts its devices once."""

import os
import subprocess
import sys

import pytest

from tests.statespace.support import STRICT

PROGRAM = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np
import probsfa
from probsfa.statespace import posterior, use_strategy
from probsfa.statespace.engine.sharding import Sharded
from tests.oracles import statespace as oracle
from tests.statespace.support import punch, scaled_error, to_panel, to_parameters, uneven_times

rng = np.random.default_rng(5)
model = oracle.random_model(rng, 4, 3)
model = model._replace(decay=np.abs(model.decay))
lengths = [3000, 1, 1095]
times = uneven_times(rng, lengths) if sys.argv[2] == "uneven" else None
data = punch(rng, oracle.simulate(rng, model, lengths, times), "scattered")
params, panel = to_parameters(model), to_panel(data, times)
with use_strategy("recursions"):  # the oracle is the plain recursion on one device
    one = posterior.expected_statistics(params, panel)
with probsfa.on_devices(jax.devices()), use_strategy("segmented", n_segments=8):
    route = posterior.plan_for(params, panel).route
    assert isinstance(route, Sharded) and len(route.devices) == int(sys.argv[1]), route
    several = posterior.expected_statistics(params, panel)
for name, found, wanted in zip(one._fields, several, one, strict=True):
    assert scaled_error(found, wanted) < 1e-10, name
# Outside of the context all is as before.
assert not isinstance(posterior.plan_for(params, panel).route, Sharded)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("sampling", ["even", "uneven"])
@pytest.mark.parametrize("n_devices", [2, 4])
def test_several_devices_give_the_sums_of_one(n_devices, sampling):
    done = subprocess.run(
        [sys.executable, *STRICT, "-c", PROGRAM, str(n_devices), sampling],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
