"""Information-preserving hierarchies: claims of Escalante-B. & Wiskott (2020), on other data.

The abstract of the paper (Machine Learning 109, 999-1037) claims that hierarchies of information-preserving
nodes are better than those of slow features alone: in the slowness of features, the accuracy of estimation
and the reconstruction of the input. Its images (the simulated view of a rat, faces in patches, MORPH-II)
could not be obtained. Here the position of Olivetti faces is estimated, as in
benchmarks/papers/faces_position.py: 3,000 images of 20 people are for the network, 1,500 of 12 others for a
ridge regression and a linear reconstruction of the pixels, and 750 of 8 others for the test.

Slowness is the delta value of the first output on the mixed graph of the positions in the test images.

    python benchmarks/papers/information_preservation.py --data FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge, RidgeCV

from probsfa import GraphSFA, graphs
from probsfa.sfa import HierarchicalSFA, escalante_wiskott_layers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.faces import SIDE, load_faces, people_apart, rmse
from common.options import read_options
from common.tables import Table

NETWORKS = {"slow features": "sfa", "information-preserving": "igsfa", "principal components": "pca"}


def main() -> None:
    """Print a table for each kind of background."""
    options = read_options(
        __doc__,
        data="olivetti_faces",
        trials=(5, "draws of people"),
    )
    pictures = load_faces(options.data)
    for clutter, words in ((1.0, "cluttered"), (0.0, "plain")):
        measured = {name: [] for name in NETWORKS}
        for trial in range(options.trials):
            train, teach, test = people_apart(pictures, trial, 3000, clutter)
            for name, method in NETWORKS.items():
                layers = escalante_wiskott_layers((SIDE, SIDE), method=method)
                model = HierarchicalSFA(layers, input_shape=(SIDE, SIDE), graph=graphs.mixed(train.x, 50))
                model.fit(train.pixels)
                taught, judged = model.transform(teach.pixels), model.transform(test.pixels)
                back = Ridge(1e-3).fit(taught, teach.pixels)
                left = np.mean((test.pixels - back.predict(judged)) ** 2)
                step = RidgeCV(np.logspace(-6, 3, 10)).fit(taught[:, :10], teach.x)
                measured[name].append(
                    (
                        delta_of_first(judged, test.x),
                        rmse(step.predict(judged[:, :10]), test.x),
                        1 - left / np.var(test.pixels, axis=0).mean(),
                    )
                )
        print(f"\n{words} backgrounds, mean and standard error over {options.trials} draws of people\n")
        table = Table("", "delta of the first", "error, pixels", "share of pixels kept")
        for name, rows in measured.items():
            figures = np.array(rows)
            mean, error = figures.mean(0), figures.std(0, ddof=1) / np.sqrt(len(rows))
            table.add(name, *(f"{m:.3f} +- {e:.3f}" for m, e in zip(mean, error, strict=True)))


def delta_of_first(Y: np.ndarray, x: np.ndarray) -> float:
    """Return the delta value of the first output on test images."""
    return float(GraphSFA(1, graph=graphs.mixed(x, 30)).fit(Y[:, :1]).delta_values_[0])


if __name__ == "__main__":
    main()
