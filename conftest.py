"""Examples in docstrings of the package: equal Bayesian fits are computed once."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

_fitted: dict[tuple[str, bytes], Any] = {}


@pytest.fixture(autouse=True)
def equal_fits_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Store fits of BayesianSFA in examples: eight docstrings have the same fit, which takes two seconds."""
    if isinstance(request.node, pytest.DoctestItem) and "BayesianSFA(" in request.node.dtest.docstring:
        from probsfa import BayesianSFA

        fit = BayesianSFA.fit

        def fit_once(model: Any, X: Any) -> Any:
            key = repr(model), X.tobytes()
            if key not in _fitted:
                _fitted[key] = copy.deepcopy(vars(fit(model, X)))
            vars(model).update(copy.deepcopy(_fitted[key]))
            return model

        monkeypatch.setattr(BayesianSFA, "fit", fit_once)
    yield
