"""Every extension on small and unusual shapes: monotone objectives and finite results."""

import numpy as np
import pytest
from sklearn.base import clone

from probsfa import EmissionSFA
from probsfa.extensions import (
    Autoencoder,
    BilinearSFA,
    LinearAutoencoder,
    PrincipalCurve,
    ProductOfExpertsSFA,
)
from probsfa.extensions.experts import model as expert_model
from tests.sampling import parametrize

SHAPES = [(2, 1, 1), (3, 1, 3), (12, 2, 5), (4, 6, 2)]  # rows, columns, factors
KINDS = ["poisson", "bernoulli", "negative_binomial", "student_t", "categorical", "monotone", "quadratic"]

# Fits to few rows may stop at max_iter, or have more factors than the rows determine; both cause warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def emission_rows(rng, kind, n_rows, D):
    """Return rows of a kind, with missing values if there are enough rows."""
    X = {
        "bernoulli": lambda: rng.integers(0, 2, (n_rows, D)),
        "categorical": lambda: rng.integers(0, 3, (n_rows, D)),
        "poisson": lambda: rng.poisson(3.0, (n_rows, D)),
        "negative_binomial": lambda: rng.poisson(rng.gamma(1.0, 4.0, (n_rows, D))),
    }.get(kind, lambda: rng.standard_t(3.0, (n_rows, D)))()
    X = X.astype(float)
    X[0], X[1] = 0.0, 1.0
    if n_rows > 3:
        X[2] = np.nan
        X[3, 0] = np.nan
    return X


@parametrize("kind", KINDS, quick=["poisson", "monotone"])
@parametrize(("n_rows", "D", "K"), SHAPES, quick=2)
def test_bound_of_emissions_never_decreases(rng, kind, n_rows, D, K):
    X = emission_rows(rng, kind, n_rows, D)
    link = kind if kind in ("monotone", "quadratic") else None
    model = EmissionSFA(K, emission="gaussian" if link else kind, link=link, max_iter=4).fit(X)
    assert len(model.history_) and np.all(np.diff(model.history_) >= 0.0)
    assert np.all(np.isfinite(model.history_)) and np.all(np.isfinite(model.impute(X)))
    unknown = X.copy()
    unknown[:, 0] = np.nan  # a fitted model imputes a column without observations
    assert np.all(np.isfinite(model.transform(unknown))) and np.all(np.isfinite(model.impute(unknown)))


@parametrize(("n_rows", "D", "K"), SHAPES, quick=0)  # test_bilinear.py has one in the quick set
def test_bound_of_bilinear_models_never_decreases(rng, n_rows, D, K):
    X = rng.standard_normal((n_rows, D))
    if n_rows > 3:
        X[2] = np.nan
    model = BilinearSFA(K, n_gates=2, n_init=1, max_iter=12, random_state=0).fit(X)
    assert np.all(np.diff(model.history_) >= 0.0) and np.all(np.isfinite(model.history_))
    unknown = X.copy()
    unknown[:, 0] = np.nan
    assert np.all(np.isfinite(model.transform(unknown))) and np.all(np.isfinite(model.impute(unknown)))


@parametrize(("n_rows", "D", "K"), SHAPES, quick=1)
def test_products_of_experts_impute_columns_without_observations(rng, monkeypatch, n_rows, D, K):
    monkeypatch.setattr(expert_model, "_N_BURN_IN", 10)  # no distribution is checked
    X = rng.standard_normal((n_rows, D))
    model = ProductOfExpertsSFA(K, n_chains=2, n_moves=1, n_leaps=3, max_iter=3, random_state=0).fit(X)
    unknown = X.copy()
    unknown[:, 0] = np.nan
    assert np.all(np.isfinite(model.transform(unknown))) and np.all(
        np.isfinite(model.impute(unknown, n_draws=4))
    )


@pytest.mark.parametrize(("n_rows", "D", "K"), SHAPES)
@pytest.mark.parametrize(
    "estimator",
    [
        LinearAutoencoder(random_state=0),
        Autoencoder(hidden=3, max_iter=10, random_state=0),
        PrincipalCurve(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_reconstructions_are_finite_and_objectives_never_increase(rng, estimator, n_rows, D, K):
    X = rng.standard_normal((n_rows, D)) * rng.uniform(0.1, 10.0, D)
    max_components = min(K, D) if isinstance(estimator, LinearAutoencoder) else K
    model = clone(estimator).set_params(n_components=min(max_components, 2))
    if isinstance(estimator, PrincipalCurve):
        model.set_params(n_landmarks=9, max_iter=5)
    model.fit(X)
    assert np.all(np.isfinite(model.transform(X))) and np.all(np.isfinite(model.reconstruct(X)))
    if hasattr(model, "history_"):
        assert np.all(np.diff(model.history_) <= 1e-12 * np.abs(model.history_[0]))
