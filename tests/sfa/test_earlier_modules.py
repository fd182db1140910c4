"""Files of models that were saved when their classes were in other modules."""

import importlib

import numpy as np
import pytest

import probsfa
from probsfa import GraphSFAClassifier, _moved, graphs


@pytest.mark.parametrize("earlier", _moved._HOMES)
def test_files_that_name_an_earlier_module_load(earlier):
    """Each class of a merged module is where the table of moves has it."""
    module = importlib.import_module(_moved.present_home(f"probsfa.{earlier}"))
    assert any(
        isinstance(found, type) and found.__module__ == module.__name__ for found in vars(module).values()
    )


def test_a_model_of_an_earlier_module_loads(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = GraphSFAClassifier(1, graph=graphs.SlidingWindow(3)).fit(X, np.arange(30) // 10)
    expected = model.predict(X)
    earlier = {"probsfa.sfa.supervised.classifier": "probsfa.sfa.classifier"}
    for cls in (GraphSFAClassifier, type(model.classifier_)):
        monkeypatch.setattr(cls, "__module__", earlier[cls.__module__])
    model.save(tmp_path / "model.npz")
    monkeypatch.undo()
    np.testing.assert_array_equal(probsfa.load(tmp_path / "model.npz").predict(X), expected)
