"""The status of a fit: a text that consists of notes with codes."""

import copy
import pickle

import numpy as np
import pytest

from probsfa import ProbabilisticSFA, load
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.learning.maximum_likelihood import FitStatus


@pytest.fixture(scope="module")
def X():
    """Five columns, and one that is constant."""
    moving = make_slow_mixture(120, 5, decay=[0.98, 0.7], noise_variance=0.3, random_state=0).data
    return np.column_stack([moving, np.full(120, 7.0)])


def test_the_text_is_that_of_the_notes():
    """Notes without a text are left out, and copies keep the others."""
    status = FitStatus.of("a", " One. ").adding("b", "").adding("c", "Two.", n=2)
    assert status == "One. Two." and status.codes == ("a", "c") and status.notes[1].values == {"n": 2}
    for same in (pickle.loads(pickle.dumps(status)), copy.deepcopy(status)):
        assert same == status and same.notes == status.notes


def test_a_fit_has_codes_and_values(X, tmp_path):
    """Programs read codes and values; files keep them."""
    model = ProbabilisticSFA(2, max_iter=1)
    with pytest.warns(match="max_iter"):
        model.fit(X)
    assert model.status_.codes[0] == "max_iter"
    note = next(note for note in model.status_.notes if note.code == "constant_columns")
    assert note.values == {"columns": [5]} and note.text in model.status_
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.status_.notes == model.status_.notes


def test_few_values_for_each_parameter_are_reported():
    """Ten rows of six columns do not determine three factors; 200 rows do."""
    make = make_slow_mixture(200, 6, decay=[0.9, 0.5, 0.2], noise_variance=0.3, random_state=0).data
    short, long = (ProbabilisticSFA(3, tol=1.0).fit(make[:n]).status_ for n in (10, 200))
    assert "few_values" in short.codes and "few_values" not in long.codes
