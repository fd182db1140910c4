"""Spectral clustering of two circles (figure 1 of the notes)."""

from typing import Any

import numpy as np
from common.panels import Panel
from sklearn.metrics import adjusted_rand_score

from probsfa.sfa import LaplacianEigenmaps, SpectralClustering


def circles(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points on two circles with noise, the number of the circle of each point, and its angle."""
    circle = np.repeat([0, 1], n // 2)
    angle = rng.uniform(0.0, 2 * np.pi, n)
    radius = np.where(circle == 0, 10.0, 25.0) + 0.3 * rng.standard_normal(n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), circle, angle


def harmonic_share(values: np.ndarray, angle: np.ndarray) -> float:
    """Return the largest share of the variance of values that a single harmonic of the angle explains."""
    centred = values - values.mean()
    shares = []
    for order in range(1, 9):
        waves = np.column_stack([np.cos(order * angle), np.sin(order * angle), np.ones_like(angle)])
        rest = values - waves @ np.linalg.lstsq(waves, values, rcond=None)[0]
        shares.append(1.0 - np.sum(rest**2) / np.sum(centred**2))
    return float(max(shares))


def figure_1() -> tuple[bool, list[Panel]]:
    """Print results for two circles: eigenvalues, clusters, and eigenvectors (waves on each circle)."""
    X, circle, angle = circles(np.random.default_rng(0), 600)
    options: dict[str, Any] = {"affinity": "rbf", "gamma": 1 / (2 * 3.0**2)}
    model = LaplacianEigenmaps(19, **options).fit(X)
    clusters = SpectralClustering(2, random_state=0, **options).fit_predict(X)
    rand = adjusted_rand_score(circle, clusters)
    # Each eigenvector is nonzero on one circle only, except the first, which separates them.
    shares = []
    for y in model.embedding_[:, 1:6].T:
        mine = circle == np.argmax([np.sum(y[circle == k] ** 2) for k in (0, 1)])
        shares.append(harmonic_share(y[mine], angle[mine]))
    eigenvalues = np.concatenate([[0.0], model.eigenvalues_])
    print("figure 1: two circles, Gaussian weights, h = 3")
    print("  first six eigenvalues     ", np.array2string(eigenvalues[:6], precision=5, suppress_small=True))
    explained = " ".join(f"{share:.3f}" for share in shares)
    print(f"  adjusted Rand index of two clusters with the circles   {rand:.3f}")
    print(
        f"  part of each of the next five eigenvectors that one harmonic of the angle explains   {explained}"
    )
    panels = [
        Panel("1: two circles", lambda ax: ax.scatter(*X.T, c=clusters, s=3, cmap="coolwarm")),
        Panel("1: eigenvalues", lambda ax: ax.plot(eigenvalues, "k.")),
        Panel(
            "1: 2nd and 4th eigenvector", lambda ax: ax.plot(angle, model.embedding_[:, [0, 2]], ".", ms=2)
        ),
    ]
    return bool(rand == 1.0 and eigenvalues[1] < 0.1 * eigenvalues[2] and min(shares) > 0.75), panels
