"""Figures 1 to 10 of Ravikumar's notes on representation learning, with numbers.

The notes do not include their data. Here figure 1 uses two circles, figure 10 an arc with noise, and figure 5
an oblique cloud. The digits of scikit-learn (8 x 8 pixels, values from 0 to 16) replace the zip codes of
figures 2, 4 and 6 to 9 (16 x 16 pixels). The bandwidths of the notes depend on the units of their data;
therefore figure 2 is computed for several bandwidths.

For each figure, numbers test the claim of its caption or text: one zero eigenvalue for each connected
component, eigenvectors that oscillate along each circle, digits that two eigenvectors separate or not
depending on the bandwidth, the risk of principal subspaces (theorem 7), curves that become straight with
regularisation, and autoencoders. (Example 2 of the notes has a 0 for the last diagonal entry of its
Laplacian, which must be 1, and calls the eigenvalues those of W.)

    python benchmarks/papers/ravikumar.py [--quick]
    python benchmarks/papers/ravikumar.py --picture docs/figures/ravikumar.png
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from probsfa.extensions import Autoencoder, LinearAutoencoder, PrincipalCurve
from probsfa.sfa import LaplacianEigenmaps

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.digit_components import figures_5_to_9, residual
from common.options import read_options
from common.panels import Panel, draw
from common.tables import Table
from common.two_circles import figure_1

REGULARIZATIONS = (1e-4, 1e-3, 1e-2, 1e-1)
BANDWIDTHS = (4.0, 6.0, 10.0, 16.0, 40.0)


def figure_2(quick: bool) -> tuple[bool, list[Panel]]:
    """Print the separation of the digits 1, 2 and 3 by two eigenvectors, for several bandwidths."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (1, 2, 3))], y[np.isin(y, (1, 2, 3))]
    print("figure 2: digits 1, 2 and 3, Gaussian weights; three means on the second and third eigenvector")
    scores, coordinates = [], []
    for h in BANDWIDTHS:
        embedding = LaplacianEigenmaps(2, affinity="rbf", gamma=1 / (2 * h**2)).fit_transform(X)
        scaled = embedding / embedding.std(axis=0)
        labels = KMeans(3, n_init=3 if quick else 10, random_state=0).fit_predict(scaled)
        scores.append(adjusted_rand_score(y, labels))
        coordinates.append(scaled)
    table = Table("h", *(f"{h:.0f}" for h in BANDWIDTHS))
    table.add("adjusted Rand index", *(f"{score:.3f}" for score in scores))
    best, worst = int(np.argmax(scores)), int(np.argmin(scores))
    panels = [
        Panel(
            f"2: digits 1, 2, 3, h = {BANDWIDTHS[i]:.0f}",
            lambda ax, i=i: ax.scatter(*coordinates[i].T, c=y, s=4, cmap="viridis"),
        )
        for i in (best, worst)
    ]
    return scores[best] > 0.8 and scores[best] > scores[worst] + 0.3, panels


def figure_3() -> tuple[bool, list[Panel]]:
    """Print eigenvalues of the graph of example 2, and eigenvectors that are not those of the components."""
    W = np.zeros((5, 5))
    for i, j in ((0, 1), (2, 3), (3, 4)):
        W[i, j] = W[j, i] = 1.0
    model = LaplacianEigenmaps(
        4, affinity="precomputed", normalization="unnormalized", eigen_solver="dense"
    ).fit(W)
    eigenvalues = np.concatenate([[0.0], model.eigenvalues_])
    said = np.array([[0, 0, -0.71, 0, 0.71], [-0.71, 0.71, 0, 0, 0], [0, 0, -0.41, 0.82, -0.41]])
    ours = model.embedding_[:, 1:].T
    ours = ours / np.linalg.norm(ours, axis=1, keepdims=True)
    off = max(min(np.abs(v - w).max(), np.abs(v + w).max()) for v, w in zip(ours, said, strict=True))
    components = model.n_connected_components_
    print("figure 3: the graph of example 2, two components")
    print(
        "  eigenvalues (notes: 0, 0, 1, 2, 3)   ",
        np.array2string(eigenvalues, precision=3, suppress_small=True),
    )
    print(f"  largest difference from the eigenvectors of the notes, of two digits   {off:.4f}")
    panels = [Panel("3: eigenvectors of a graph", lambda ax: ax.plot(np.arange(1, 6), ours.T, "o-"))]
    return bool(
        np.allclose(eigenvalues, [0, 0, 1, 2, 3], atol=1e-10) and off < 0.006 and components == 2
    ), panels


def figure_4() -> tuple[bool, list[Panel]]:
    """Draw the similarity graph of the digits 1 and 2 in two dimensions."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (1, 2))], y[np.isin(y, (1, 2))]
    model = LaplacianEigenmaps(2).fit(X)
    rows, columns = model.affinity_matrix_.nonzero()
    same = float(np.mean(y[rows] == y[columns]))
    right = float(cross_val_score(KNeighborsClassifier(5), model.embedding_, y, cv=5).mean())
    print("figure 4: digits 1 and 2, graph of nearest neighbours, in two dimensions")
    print(f"  part of the edges that join equal digits   {same:.3f}")
    print(f"  digits classified correctly by five nearest neighbours in the two coordinates   {right:.3f}")
    panels = [
        Panel("4: digits 1 and 2", lambda ax: ax.scatter(*model.embedding_.T, c=y, s=4, cmap="coolwarm"))
    ]
    return same > 0.95 and right > 0.95, panels


def figure_10(quick: bool) -> tuple[bool, list[Panel]]:
    """Print results for principal curves by weight of the smoothness penalty, and for autoencoders."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal((200, 2))
    curves = [PrincipalCurve(regularization=weight, max_iter=2000).fit(X) for weight in REGULARIZATIONS]
    errors = [-curve.score(X) for curve in curves]
    lengths = [curve.length_ for curve in curves]
    print("figure 10: principal curves through half a circle (length 3.14) in noise")
    table = Table("regularisation", *(f"{weight:g}" for weight in REGULARIZATIONS))
    table.add("mean squared distance", *(f"{error:.4f}" for error in errors))
    table.add("length of the curve", *(f"{length:.3f}" for length in lengths))
    linear = LinearAutoencoder(1, random_state=0).fit(X)
    network = Autoencoder(
        1, hidden=8, penalty=1e-3, max_iter=20_000, n_init=1 if quick else 5, random_state=0
    ).fit(X)
    of_component, of_linear, of_network = residual(PCA(1).fit(X), X), -linear.score(X), -network.score(X)
    rows = {"principal component": of_component, "linear autoencoder": of_linear, "autoencoder": of_network}
    print("section 3.2: reconstructions by one coordinate")
    table = Table("", "mean squared distance")
    for name, error in rows.items():
        table.add(name, f"{error:.4f}")

    def draw(ax: Any) -> None:
        ax.plot(*X.T, ".", ms=2, color="0.7")
        for curve, weight in zip(curves, REGULARIZATIONS, strict=True):
            along = np.sort(curve.transform(X), axis=0)
            ax.plot(*curve.inverse_transform(along).T, label=f"{weight:g}")
        ax.legend(fontsize=6)

    holds = all(np.diff(errors) > 0) and all(np.diff(lengths) < 0)
    same = abs(of_linear - of_component) < 1e-6
    return bool(holds and same and of_network < of_component), [Panel("10: principal curves", draw)]


def main() -> int:
    """Print the numbers; return 1 if a claim of the notes does not hold."""
    warnings.filterwarnings("ignore", "The graph has .* connected components")  # expected
    options = read_options(
        __doc__,
        quick=(False, "fewer starts"),
        picture={"metavar": "PATH", "help": "draw the figures into this file"},
    )

    results = [
        figure_1(),
        figure_2(options.quick),
        figure_3(),
        figure_4(),
        figures_5_to_9(),
        figure_10(options.quick),
    ]
    if options.picture:
        draw([panel for _, panels in results for panel in panels], options.picture)
    holds = all(result for result, _ in results)
    print("all that the notes say holds:", holds)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
