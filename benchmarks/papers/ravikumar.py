"""Figures 1 to 10 of Ravikumar's notes on representation learning, with numbers beside the pictures.

The notes do not give their data. Figure 1 is drawn from two circles, figure 10 from an arc in noise, figure 5
from an oblique cloud; for the zip codes of figures 2, 4 and 6 to 9 (16 x 16 pixels) stand the digits that
come with scikit-learn (8 x 8 pixels, values from 0 to 16). Their bandwidths are those of their units, so that
for figure 2 a row of bandwidths is tried.

Printed for each is what its caption or text says, as a number: eigenvalues that are zero for each connected
component, eigenvectors that oscillate along each circle, digits that two eigenvectors tell apart or not by
the bandwidth, the risk of principal subspaces (theorem 7), curves that straighten as they are regularised,
and autoencoders beside them. (Example 2 of the notes has a 0 for the last diagonal entry of its Laplacian,
which must be 1, and calls the eigenvalues those of W.)

    python benchmarks/papers/ravikumar.py [--quick]
    python benchmarks/papers/ravikumar.py --picture docs/figures/ravikumar.png
"""

import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from probsfa.extensions import Autoencoder, LinearAutoencoder, PrincipalCurve
from probsfa.sfa import LaplacianEigenmaps, SpectralClustering

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

REGULARIZATIONS = (1e-4, 1e-3, 1e-2, 1e-1)
BANDWIDTHS = (4.0, 6.0, 10.0, 16.0, 40.0)


class Panel(NamedTuple):
    """A picture: its title and a function that draws it."""

    title: str
    draw: Any


def circles(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points on two circles in noise, which circle each is on, and its angle."""
    circle = np.repeat([0, 1], n // 2)
    angle = rng.uniform(0.0, 2 * np.pi, n)
    radius = np.where(circle == 0, 10.0, 25.0) + 0.3 * rng.standard_normal(n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), circle, angle


def harmonic_share(values: np.ndarray, angle: np.ndarray) -> float:
    """Largest part of the variance of values that a single harmonic of the angle explains."""
    centred = values - values.mean()
    shares = []
    for order in range(1, 9):
        waves = np.column_stack([np.cos(order * angle), np.sin(order * angle), np.ones_like(angle)])
        rest = values - waves @ np.linalg.lstsq(waves, values, rcond=None)[0]
        shares.append(1.0 - np.sum(rest**2) / np.sum(centred**2))
    return float(max(shares))


def figure_1() -> tuple[bool, list[Panel]]:
    """Two circles: eigenvalues, clusters, and eigenvectors that are waves along each circle."""
    X, circle, angle = circles(np.random.default_rng(0), 600)
    options: dict[str, Any] = {"affinity": "rbf", "gamma": 1 / (2 * 3.0**2)}
    model = LaplacianEigenmaps(19, **options).fit(X)
    clusters = SpectralClustering(2, random_state=0, **options).fit_predict(X)
    rand = adjusted_rand_score(circle, clusters)
    # Each eigenvector lives on one of the circles, but for the first, which tells them apart.
    shares = []
    for y in model.embedding_[:, 1:6].T:
        mine = circle == np.argmax([np.sum(y[circle == k] ** 2) for k in (0, 1)])
        shares.append(harmonic_share(y[mine], angle[mine]))
    eigenvalues = np.concatenate([[0.0], model.eigenvalues_])
    print("figure 1: two circles, Gaussian weights, h = 3")
    print("  first six eigenvalues     ", np.array2string(eigenvalues[:6], precision=5, suppress_small=True))
    told = " ".join(f"{share:.3f}" for share in shares)
    print(f"  adjusted Rand index of two clusters with the circles   {rand:.3f}")
    print(f"  part of each of the next five eigenvectors that one harmonic of the angle explains   {told}")
    panels = [
        Panel("1: two circles", lambda ax: ax.scatter(*X.T, c=clusters, s=3, cmap="coolwarm")),
        Panel("1: eigenvalues", lambda ax: ax.plot(eigenvalues, "k.")),
        Panel(
            "1: 2nd and 4th eigenvector", lambda ax: ax.plot(angle, model.embedding_[:, [0, 2]], ".", ms=2)
        ),
    ]
    return bool(rand == 1.0 and eigenvalues[1] < 0.1 * eigenvalues[2] and min(shares) > 0.75), panels


def figure_2(quick: bool) -> tuple[bool, list[Panel]]:
    """Digits 1, 2 and 3: how well two eigenvectors tell them apart, by the bandwidth."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (1, 2, 3))], y[np.isin(y, (1, 2, 3))]
    print("figure 2: digits 1, 2 and 3, Gaussian weights; three means on the second and third eigenvector")
    print("  h                     " + " ".join(f"{h:6.0f}" for h in BANDWIDTHS))
    scores, coordinates = [], []
    for h in BANDWIDTHS:
        embedding = LaplacianEigenmaps(2, affinity="rbf", gamma=1 / (2 * h**2)).fit_transform(X)
        scaled = embedding / embedding.std(axis=0)
        labels = KMeans(3, n_init=3 if quick else 10, random_state=0).fit_predict(scaled)
        scores.append(adjusted_rand_score(y, labels))
        coordinates.append(scaled)
    print("  adjusted Rand index   " + " ".join(f"{score:6.3f}" for score in scores))
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
    """The graph of example 2: eigenvalues, and eigenvectors beyond those of the components."""
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
    """The similarity graph of the digits 1 and 2 in two dimensions."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (1, 2))], y[np.isin(y, (1, 2))]
    model = LaplacianEigenmaps(2).fit(X)
    rows, columns = model.affinity_matrix_.nonzero()
    same = float(np.mean(y[rows] == y[columns]))
    right = float(cross_val_score(KNeighborsClassifier(5), model.embedding_, y, cv=5).mean())
    print("figure 4: digits 1 and 2, graph of nearest neighbours, in two dimensions")
    print(f"  part of the edges that join equal digits   {same:.3f}")
    print(f"  digits told right by five neighbours in the two coordinates   {right:.3f}")
    panels = [
        Panel("4: digits 1 and 2", lambda ax: ax.scatter(*model.embedding_.T, c=y, s=4, cmap="coolwarm"))
    ]
    return same > 0.95 and right > 0.95, panels


def reconstructed(model: PCA, X: np.ndarray) -> np.ndarray:
    """Return the projections of rows onto the principal subspace."""
    return model.inverse_transform(model.transform(X))


def residual(model: PCA, X: np.ndarray) -> float:
    """Return the mean squared distance of rows from the principal subspace."""
    return float(np.mean(np.sum((X - reconstructed(model, X)) ** 2, axis=1)))


def figures_5_to_9() -> tuple[bool, list[Panel]]:
    """Principal components: a line through a cloud; digits, eigenvalues, eigenvectors, reconstructions."""
    rng = np.random.default_rng(0)
    cloud = rng.standard_normal((200, 2)) @ np.array([[2.0, 1.2], [0.0, 0.6]])
    line = PCA(1).fit(cloud)
    covariance = np.linalg.eigvalsh(np.cov(cloud.T, bias=True))
    left = residual(line, cloud)
    print("figure 5: first principal component of a cloud")
    print(f"  what it leaves, and the smaller eigenvalue (theorem 7)   {left:.6f}   {covariance[0]:.6f}")
    X, _ = load_digits(return_X_y=True)
    model = PCA(0.9).fit(X)
    counts = (1, 2, 5, 10, 20, 40)
    measured = [residual(PCA(m).fit(X), X) for m in counts]
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    risk = np.append(np.cumsum(eigenvalues[::-1])[::-1], 0.0)
    print("figures 6 to 9: 1,797 digits of 64 pixels")
    print("  components                     " + " ".join(f"{m:7d}" for m in counts))
    print("  R(m) / R(0) by eigenvalues     " + " ".join(f"{risk[m] / risk[0]:7.4f}" for m in counts))
    print("  R(m) / R(0) of reconstructions " + " ".join(f"{v / risk[0]:7.4f}" for v in measured))
    print(f"  components that leave 10 %: {model.n_components_}")
    exact = np.allclose(measured, [risk[m] for m in counts], rtol=1e-9)
    parts = [model.mean_, *model.components_[:5]]
    mosaic = np.hstack([((part - part.min()) / np.ptp(part)).reshape(8, 8) for part in parts])
    pairs = np.vstack([np.hstack([row.reshape(8, 8) for row in X[:6]]),
                       np.hstack([row.reshape(8, 8) for row in reconstructed(model, X[:6])])])  # fmt: skip
    scale = 2 * np.abs(cloud).max() * line.components_[0]
    panels = [
        Panel(
            "5: first principal component",
            lambda ax: (ax.plot(*cloud.T, ".", ms=3), ax.axline(line.mean_, line.mean_ + scale, color="red")),
        ),
        Panel("7: eigenvalues of digits", lambda ax: ax.plot(eigenvalues, "k.-", ms=3)),
        Panel("8: mean and eigenvectors", lambda ax: ax.imshow(mosaic, cmap="gray")),
        Panel("6, 9: digits, reconstructed", lambda ax: ax.imshow(pairs, cmap="gray_r")),
    ]
    return bool(exact and abs(left - covariance[0]) < 1e-9 and np.all(np.diff(measured) < 0)), panels


def figure_10(quick: bool) -> tuple[bool, list[Panel]]:
    """Principal curves by the weight of their smoothness; autoencoders beside them."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal((200, 2))
    curves = [PrincipalCurve(regularization=weight, max_iter=2000).fit(X) for weight in REGULARIZATIONS]
    errors = [-curve.score(X) for curve in curves]
    lengths = [curve.length_ for curve in curves]
    print("figure 10: principal curves through half a circle (length 3.14) in noise")
    print("  regularisation          " + " ".join(f"{weight:9.4g}" for weight in REGULARIZATIONS))
    print("  mean squared distance   " + " ".join(f"{error:9.4f}" for error in errors))
    print("  length of the curve     " + " ".join(f"{length:9.3f}" for length in lengths))
    linear = LinearAutoencoder(1, random_state=0).fit(X)
    network = Autoencoder(
        1, hidden=8, penalty=1e-3, max_iter=20_000, n_init=1 if quick else 5, random_state=0
    ).fit(X)
    of_component, of_linear, of_network = residual(PCA(1).fit(X), X), -linear.score(X), -network.score(X)
    rows = {"principal component": of_component, "linear autoencoder": of_linear, "autoencoder": of_network}
    print("section 3.2: mean squared distance of reconstructions by one coordinate")
    for name, error in rows.items():
        print(f"  {name:<22}  {error:9.4f}")

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
    """Print the numbers; return 1 where something that the notes say does not hold."""
    warnings.filterwarnings("ignore", "The graph has .* connected components")  # which is what is shown
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


def draw(panels: list[Panel], path: str) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, -(-len(panels) // 3), figsize=(13, 8), layout="constrained")
    for ax in axes.ravel():
        ax.set_axis_off()
    for ax, panel in zip(axes.ravel(), panels, strict=False):
        ax.set_axis_on()
        panel.draw(ax)
        ax.set(title=panel.title, xticks=[], yticks=[])
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    sys.exit(main())
