"""Kinds of processes: attributes, standard errors and options."""

from dataclasses import dataclass

import numpy as np
import pytest

from probsfa.statespace.learning.options import ProcessOptions
from probsfa.statespace.noise import TAILS
from probsfa.statespace.parameters import QUANTITIES
from probsfa.statespace.processes import KINDS, Process
from probsfa.statespace.processes.matern import Matern32, Matern52
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.processes.trend import LocalLevel, LocalLinearTrend
from probsfa.statespace.quantities import INTERVALS, Quantity


@pytest.mark.parametrize("kind", KINDS)
def test_each_attribute_of_a_kind_is_a_quantity(kind):
    process = kind.arbitrary(2)
    loadings = np.ones((3, 2, kind.n_states))
    assert len(process.attributes(loadings, 1.0)) == len(kind.quantities)
    assert all(one == QUANTITIES[one.attribute] for one in kind.quantities)
    scaled = [one for one in kind.quantities if one.scale]
    errors = process.standard_errors(np.ones((kind.n_free(), kind.n_free(), 2)), 1.0)
    assert len(errors) == len(scaled) and all(one.scale in INTERVALS for one in scaled)


def test_names_of_standard_errors_are_unique():
    names = [one.name for one in QUANTITIES.values() if one.scale]
    assert len(names) == len(set(names))
    assert all(one.quantities for one in TAILS.values())


@dataclass(frozen=True, eq=False, repr=False)
class Mixed(Rhythm):
    """Cycles with an attribute that depends on both coordinates."""

    quantities = (Quantity("mixed_", scale="linear"), Quantity("rhythm_amplitudes_"))

    def attributes(self, loadings, time_unit):
        return time_unit * np.log(-np.log(self.decay)) * self.frequency, np.abs(loadings[:, :, 0])


def test_standard_errors_follow_from_covariances_of_coordinates(rng):
    """The delta method with the gradient of a product of the two coordinates."""
    process = Mixed(np.array([0.9, 0.5]), np.array([0.2, 1.0]))
    root = rng.standard_normal((2, 2, 2))
    covariances = np.einsum("cdn,edn->cen", root, root)
    free = process.to_free()
    for n, error in enumerate(Process.standard_errors(process, covariances, 3.0)[0]):
        gradient = 3.0 * free[::-1, n]
        assert error == pytest.approx(np.sqrt(gradient @ covariances[:, :, n] @ gradient), rel=1e-8)


def test_standard_errors_of_cycles_are_those_of_differences():
    process = Rhythm(np.array([0.9, 0.5]), np.array([0.6, 1.0]))
    covariances = np.array([[[0.04, 0.01], [0.0, 0.0]], [[0.0, 0.0], [0.01, 0.02]]])
    both = Process.standard_errors(process, covariances, 2.0), process.standard_errors(covariances, 2.0)
    for numerical, closed in zip(*both, strict=True):
        np.testing.assert_allclose(numerical, closed, rtol=1e-8)


def test_a_field_with_the_name_of_a_method_is_refused():
    with pytest.raises(TypeError, match="damping"):
        type("Damped", (Process,), {"names": {"damping": "own_damping"}})


@pytest.mark.parametrize(
    ("requested", "kinds"),
    [
        ({"rhythms": 2}, {Rhythm: 2}),
        ({"rhythms": [12, "24h"], "smooth": 1}, {Rhythm: 2, Matern32: 1}),
        ({"smooth": 3, "smoothness": 2.5}, {Matern52: 3}),
        ({"trend": 2}, {LocalLevel: 2}),
        ({"trend": "level"}, {LocalLevel: 1}),
        ({"trend": "linear"}, {LocalLinearTrend: 1}),
    ],
)
def test_options_request_processes(requested, kinds):
    options = ProcessOptions(**requested)
    options.check()
    assert {kind: n for kind, n in options.counts.items() if n} == kinds
    assert ProcessOptions(**options).counts == options.counts


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="rythms"):
        ProcessOptions(rythms=1)
