"""Principal components of digits (figures 5 to 9 of the notes)."""

import numpy as np
from common.panels import Panel
from common.tables import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA


def reconstructed(model: PCA, X: np.ndarray) -> np.ndarray:
    """Return the projections of rows onto the principal subspace."""
    return model.inverse_transform(model.transform(X))


def residual(model: PCA, X: np.ndarray) -> float:
    """Return the mean squared distance of rows from the principal subspace."""
    return float(np.mean(np.sum((X - reconstructed(model, X)) ** 2, axis=1)))


def figures_5_to_9() -> tuple[bool, list[Panel]]:
    """Print results on principal components: of a two-dimensional cloud, and of images of digits."""
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
    table = Table("components", *map(str, counts))
    table.add("R(m) / R(0) by eigenvalues", *(f"{risk[m] / risk[0]:.4f}" for m in counts))
    table.add("R(m) / R(0) of reconstructions", *(f"{v / risk[0]:.4f}" for v in measured))
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
