"""Files of models that were saved when their classes were in other modules."""

import numpy as np

import probsfa
from probsfa import GraphSFAClassifier, graphs


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
