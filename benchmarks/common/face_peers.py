"""Comparison for positions of faces."""

from typing import Any

import numpy as np
from common.faces import SIDE, load_faces, people_apart
from common.scores import Scores, rmse
from common.tuned_peers import PENALTIES
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from probsfa import graphs
from probsfa.sfa import (
    GraphSFARegressor,
    HierarchicalSFA,
    escalante_wiskott_layers,
)


def faces(options: Any) -> None:
    """Compare errors of the position of a face, with cluttered and with plain backgrounds."""
    pictures = load_faces(options.data)
    for clutter, words in ((1.0, "cluttered backgrounds"), (0.0, "plain backgrounds")):
        ending = f"in pixels, people never seen, {options.trials} draws"
        scores = Scores(f"faces, {words}: root mean square error {ending}", smaller=True)
        typical = Scores(f"faces, {words}: median of the absolute errors {ending}", smaller=True)

        def add(name: str, predicted: np.ndarray, truth: np.ndarray) -> None:
            scores.add(name, rmse(predicted, truth))  # noqa: B023 - used inside this round only
            typical.add(name, float(np.median(np.abs(predicted - truth))))  # noqa: B023

        for trial in range(options.trials):
            train, teach, test = people_apart(pictures, trial, 3000, clutter)
            for name, method in (("HGSFA", "sfa"), ("HiGSFA", "igsfa"), ("hierarchical PCA", "pca")):
                layers = escalante_wiskott_layers((SIDE, SIDE), method=method)
                model = HierarchicalSFA(layers, input_shape=(SIDE, SIDE), graph=graphs.mixed(train.x, 50))
                model.fit(train.pixels)
                Y = model.transform(teach.pixels)
                ours = "" if method == "pca" else "probsfa, "
                named = [Y[teach.person == p] for p in np.unique(teach.person)]
                labels = [teach.x[teach.person == p] for p in np.unique(teach.person)]
                step = GraphSFARegressor(graph="mixed").fit(named, labels)
                outside = model.transform(test.pixels)
                add(f"{ours}{name}, chosen step", step.predict(outside).ravel(), test.x)
                if method != "pca":
                    for n in (1, 10):
                        ridge = RidgeCV(PENALTIES).fit(Y[:, :n], teach.x)
                        add(f"{ours}{name}, ridge on {n} of 60", ridge.predict(outside[:, :n]), test.x)
            X = np.vstack([train.pixels, teach.pixels])
            x, person = np.concatenate([train.x, teach.x]), np.concatenate([train.person, teach.person])
            folds = list(GroupKFold(3).split(X, groups=person))
            Z = PCA(100, random_state=0).fit(X)
            inside, outside = Z.transform(X), Z.transform(test.pixels)
            unit = 1 / inside.var(axis=0).sum()
            for name, model, grid in (
                (
                    "PCA, ridge",
                    make_pipeline(PCA(), RidgeCV(PENALTIES)),
                    {"pca__n_components": [30, 60, 100]},
                ),
                ("PCA, SVR", SVR(epsilon=0.5), {"C": [10, 100], "gamma": [unit, 4 * unit]}),
                ("PCA, k nearest neighbours", KNeighborsRegressor(), {"n_neighbors": [3, 5, 9, 17]}),
            ):
                search = GridSearchCV(model, grid, cv=folds, scoring="neg_mean_squared_error").fit(inside, x)
                add(name, search.predict(outside), test.x)
            add("mean of the labels", np.full(len(test.x), x.mean()), test.x)
        scores.show()
        typical.show()
