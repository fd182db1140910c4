"""Tuned classifiers and regressions of scikit-learn, and those of this package."""

from typing import Any

import numpy as np
from common.scores import Scores, rmse
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR

from probsfa.expansions import Polynomial
from probsfa.sfa import (
    GraphSFAClassifier,
    GraphSFARegressor,
)

PENALTIES = np.logspace(-6, 3, 19)


Rows = tuple[np.ndarray, np.ndarray]


def classifiers(X: np.ndarray, folds: Any) -> dict[str, Any]:
    """Return classifiers of images, tuned on `folds`; those of this package tune themselves."""
    unit = 1 / X.var(axis=0).sum()
    grids: dict[str, tuple[Any, dict[str, Any]]] = {
        "SVC": (SVC(), {"C": [1, 10, 100], "gamma": [0.5 * unit, unit, 2 * unit]}),
        "k nearest neighbours": (KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 9]}),
        "PCA, k nearest neighbours": (
            make_pipeline(PCA(random_state=0), KNeighborsClassifier()),
            {"pca__n_components": [20, 40], "kneighborsclassifier__n_neighbors": [1, 3, 5]},
        ),
        "PCA, QDA": (
            make_pipeline(PCA(random_state=0), QuadraticDiscriminantAnalysis()),
            {
                "pca__n_components": [15, 25, 40],
                "quadraticdiscriminantanalysis__reg_param": [0.001, 0.01, 0.1, 0.3],
            },
        ),
        "LDA, shrunk": (
            LinearDiscriminantAnalysis(solver="eigen"),
            {"shrinkage": ["auto", 0.01, 0.1, 0.3]},
        ),
        "PCA, products, LDA shrunk": (
            make_pipeline(
                PCA(40, random_state=0), PolynomialFeatures(2), LinearDiscriminantAnalysis(solver="eigen")
            ),
            {"lineardiscriminantanalysis__shrinkage": [0.1, 0.3]},
        ),
    }
    ours: dict[str, Any] = {
        "probsfa, default": GraphSFAClassifier(),
        'probsfa, preset="images"': GraphSFAClassifier(preset="images"),
    }
    return {**ours, **{name: GridSearchCV(*grid, cv=folds) for name, grid in grids.items()}}


def regressions(scores: Scores, train: Rows, test: Rows) -> None:
    """Add the errors of all methods on one split; each method is tuned on the training rows."""
    folds = KFold(5, shuffle=True, random_state=0)
    counts = [6, 8, 10, 12]
    white = PCA(whiten=True, random_state=0)
    gaussian = ConstantKernel(10.0) * RBF(5.0, (0.1, 1e4)) + WhiteKernel(0.01, (1e-7, 10))
    grids: dict[str, tuple[Any, dict[str, Any]]] = {
        "probsfa, default": (GraphSFARegressor(), {}),
        "PLS": (PLSRegression(), {"n_components": [5, 8, 10, 12, 15, 20]}),
        "ridge": (make_pipeline(StandardScaler(), RidgeCV(PENALTIES)), {}),
        "PCA, products, least squares": (
            make_pipeline(white, PolynomialFeatures(2), LinearRegression()),
            {"pca__n_components": counts},
        ),
        "PCA, products, ridge": (
            make_pipeline(white, PolynomialFeatures(2), StandardScaler(), RidgeCV(PENALTIES)),
            {"pca__n_components": counts},
        ),
        "PCA, kernel ridge": (
            make_pipeline(white, KernelRidge(kernel="rbf")),
            {
                "pca__n_components": [8, 12],
                "kernelridge__alpha": [1e-6, 1e-4, 1e-2],
                "kernelridge__gamma": [1e-4, 1e-3, 1e-2],
            },
        ),
        "PCA, SVR": (
            make_pipeline(white, SVR(epsilon=0.1)),
            {"pca__n_components": [8, 12], "svr__C": [1e2, 1e3], "svr__gamma": [1e-3, 1e-2]},
        ),
        "PCA, Gaussian process": (
            make_pipeline(white, GaussianProcessRegressor(gaussian, normalize_y=True)),
            {"pca__n_components": [8, 12]},
        ),
        "probsfa": (
            GraphSFARegressor(),
            {
                "graph": ["mixed", "reordering"],
                "expansion": [make_pipeline(PCA(n, whiten=True), Polynomial(2)) for n in counts],
            },
        ),
    }
    for name, grid in grids.items():
        search = GridSearchCV(*grid, cv=folds, scoring="neg_mean_squared_error").fit(*train)
        predicted = search.predict(test[0]).ravel()
        scores.add(name, rmse(predicted, test[1]), (predicted - test[1]) ** 2)
