"""Prediction of a position from features: classifiers of discretized positions, and a regression."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

N_CLASSES = 50


class Classes(NamedTuple):
    """Labels discretized into classes of equal size."""

    of: np.ndarray
    centers: np.ndarray

    @classmethod
    def cut(cls, x: np.ndarray) -> "Classes":
        """Divide N labels into 50 classes of N / 50."""
        of = np.empty(len(x), dtype=int)
        of[np.argsort(x)] = np.arange(len(x)) * N_CLASSES // len(x)
        return cls(of, np.array([x[of == k].mean() for k in range(N_CLASSES)]))


def nearest_centroid(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Predict the label of the class with the nearest mean."""
    classes = Classes.cut(x)
    return classes.centers[NearestCentroid().fit(Y, classes.of).predict(Z)]


def soft_gaussian(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Predict soft labels of a Gaussian classifier (equation 36)."""
    classes = Classes.cut(x)
    model = QuadraticDiscriminantAnalysis(reg_param=1e-3).fit(Y, classes.of)
    return model.predict_proba(Z) @ classes.centers


def support_vectors(C: float, width: float) -> Callable[..., np.ndarray]:
    """Predict by a one-versus-one support vector machine with a Gaussian kernel."""

    def predict(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
        classes = Classes.cut(x)
        model = make_pipeline(StandardScaler(), SVC(C=C, gamma=width / Y.shape[1])).fit(Y, classes.of)
        return classes.centers[model.predict(Z)]

    return predict


def linear(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Predict by linear regression."""
    return LinearRegression().fit(Y, x).predict(Z)
