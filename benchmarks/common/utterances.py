"""Classification of utterances by the sum of the scores of their frames."""

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from common.scores import Scores
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from probsfa.expansions import Polynomial
from probsfa.sfa import (
    GraphSFAClassifier,
)


def pick(X: list[np.ndarray], chosen: np.ndarray) -> list[np.ndarray]:
    """Return a selection of the utterances."""
    return [X[i] for i in chosen]


def spoken(
    model: Any, X: list[np.ndarray], y: np.ndarray, Z: list[np.ndarray], truth: np.ndarray
) -> tuple[float, float]:
    """Return the shares of utterances, and of frames, that are assigned to the correct speaker."""
    utterances, each = spoken_utterances(model, X, y, Z, truth)
    return float(np.mean(utterances)), float(np.mean(each))


def spoken_utterances(
    model: Any, X: list[np.ndarray], y: np.ndarray, Z: list[np.ndarray], truth: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which utterances, and which frames, are assigned to the correct speaker."""
    frames, lengths = np.concatenate(Z), [len(z) for z in Z]
    if isinstance(model, GraphSFAClassifier):
        fitted = clone(model).fit(X, y)
    else:
        fitted = clone(model).fit(np.concatenate(X), np.repeat(y, [len(x) for x in X]))
    if hasattr(fitted, "predict_proba"):
        scores = np.log(np.maximum(fitted.predict_proba(frames), 1e-9))
    else:
        scores = fitted.decision_function(frames)
    sums = np.add.reduceat(scores, np.cumsum([0, *lengths])[:-1], axis=0)
    each = fitted.classes_[scores.argmax(axis=1)] == np.repeat(truth, lengths)
    return fitted.classes_[sums.argmax(axis=1)] == truth, each


def vowels(options: Any) -> None:
    """Compare methods that recognize speakers by their vowels."""
    data = np.load(options.data / "japanese_vowels" / "japanese_vowels.npz")
    (X, y), (Z, truth) = (
        (
            np.split(data[f"{part}_X"].astype(float), np.cumsum(data[f"{part}_len"])[:-1]),
            data[f"{part}_y"],
        )
        for part in ("train", "test")
    )
    products = make_pipeline(StandardScaler(), Polynomial(2))
    scaled = StandardScaler()
    methods: dict[str, Iterable[Any]] = {
        "probsfa, default": [GraphSFAClassifier()],
        "probsfa": [
            *(GraphSFAClassifier(n, expansion=e) for n in (None, "auto") for e in (None, products)),
            *(GraphSFAClassifier(12, expansion=None, shrinkage=0.1, classifier=SVC(C=C)) for C in (1, 10)),
        ],
        "QDA": [QuadraticDiscriminantAnalysis(reg_param=r) for r in (0.0, 0.01, 0.03, 0.1, 0.3)],
        "LDA, shrunk": [LinearDiscriminantAnalysis(solver="eigen", shrinkage=s) for s in ("auto", 0.0, 0.1)],
        "k nearest neighbours": [make_pipeline(scaled, KNeighborsClassifier(k)) for k in (3, 5, 9, 17, 33)],
        "SVC": [make_pipeline(scaled, SVC(C=C, gamma=g / 12)) for C in (1, 10) for g in (0.3, 1.0)],
    }
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y))
    scores = Scores("vowels: share of the 370 utterances that is right")
    for name, candidates in methods.items():
        shares = [
            tuple(np.mean([spoken(m, pick(X, a), y[a], pick(X, b), y[b]) for a, b in folds], axis=0))
            for m in candidates
        ]
        print(f"  {name}: {shares}", file=sys.stderr)
        best = max(range(len(shares)), key=lambda i: shares[i])  # frames decide where utterances are equal
        right = spoken_utterances(list(candidates)[best], X, y, Z, truth)[0]
        scores.add(name, right.mean(), ~right)
    scores.show()
