"""Figure 1 of Turner & Sahani (2007), the geometry of PCA and SFA, and its footnote 2 on frequencies.

Data: two columns, an oblique mixture of a slow and a fast factor (decays 0.95 and 0.1), of which the fast one
has the larger variance. The panels are those of the paper: A data and differences; B their covariance
ellipses, with the principal axes of the data (black) and the directions of the slow features (red); C sphered
data, whose differences (dashed) still have principal axes; D the rotation R to these axes; E weights, on the
ellipse w' B w = 1.

Claims of the paper are tested by numbers: W A = Omega^2 W B (eq. 3), W = R B^-1/2 with R orthogonal (eq. 4),
R from the differences of the sphered data, other units, and eq. 5: an eigenvalue is the mean squared
frequency of its feature, weighted by spectral power.

Corrections to the paper: the rows of B^-1/2 (R = I) are principal directions only for the root D^-1/2 U' of
an eigendecomposition U D U', which its figure calls B^-T/2, not for the symmetric root. The ellipse of the
data is x' B^-1 x = 1; x' B x = 1 is the ellipse of the weights. Eq. 5 holds for the frequencies of a
derivative. For differences of rows, w^2 becomes 4 sin(w/2)^2, and the discrete Fourier transform includes the
difference from the last row to the first. With both changes eq. 5 is exact; without them it is accurate only
if all power is at low frequencies. (In the footnote, w' A w' should read w' A w.)

    python benchmarks/papers/turner_sahani_figure1.py [--quick]
    python benchmarks/papers/turner_sahani_figure1.py --picture docs/figures/turner_sahani_figure1.png
"""

import sys
from pathlib import Path

import numpy as np

import probsfa
from probsfa.datasets import make_slow_mixture
from probsfa.metrics import align_components

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table
from common.weights import angle, moments, principal_weights, slow_weights

DECAY, LOADINGS = (0.95, 0.1), np.array([[1.0, 1.5], [-0.4, 1.0]])
EXACT = 1e-9


def mean_squared_frequencies(y: np.ndarray) -> tuple[float, float]:
    """Return means of w^2 (eq. 5) and of 4 sin(w/2)^2 over the spectral power of a feature."""
    power = np.abs(np.fft.fft(y)) ** 2
    w = 2 * np.pi * np.fft.fftfreq(len(y))
    power /= power.sum()
    return float(w**2 @ power), float(4 * np.sin(w / 2) ** 2 @ power)


def geometry(X: np.ndarray, latents: np.ndarray) -> bool:
    """Print the claims of sections 2 and 3; return True if the exact ones hold."""
    A, B = moments(X)
    W, P = slow_weights(X), principal_weights(B)
    delta = np.diag(W @ A @ W.T)
    sizes, axes = np.linalg.eigh(B)
    root = axes / np.sqrt(sizes) @ axes.T
    R = W @ np.linalg.inv(root)
    Q = W @ np.linalg.inv(P)
    errors = {
        "eq. 3: W A = Omega^2 W B": W @ A - delta[:, None] * (W @ B),
        "eq. 2, panel E: rows of W orthonormal in B": W @ B @ W.T - np.eye(2),
        "eq. 4: R = W B^1/2 is orthogonal, for the symmetric root": R @ R.T - np.eye(2),
        "eq. 4: R (B^-1/2 A B^-1/2) = Omega^2 R": R @ root @ A @ root - delta[:, None] * R,
        "panel C to D: a rotation too for sphered principal components": Q @ Q.T - np.eye(2),
    }
    table = Table("identities of sections 2 and 3", "largest error")
    for name, error in errors.items():
        table.add(name, f"{np.max(np.abs(error)):.1e}")
    print("R = I, 'rows are parallel to the eigenvectors of B': largest angle in degrees")
    print(f"  root D^-1/2 U' {max(map(angle, P, axes.T[::-1])):6.2f}")
    print(f"  symmetric root {max(angle(row, axes.T[np.argmax(np.abs(axes.T @ row))]) for row in root):6.2f}")

    print("correlation with the slow latent, and of features with themselves after column 1 times 10")
    units = np.array([10.0, 1.0])
    stays = {}
    for name, weights in (("PCA", lambda X: principal_weights(moments(X)[1])), ("SFA", slow_weights)):
        y, other = X @ weights(X).T, X * units @ weights(X * units).T
        stays[name] = align_components(other, y).correlations
        truth = abs(np.corrcoef(y[:, 0], latents[:, 0])[0, 1])
        print(f"  {name}, first feature: {truth:.3f} ; after rescaling {np.round(stays[name], 6)}")
    exact = max(float(np.max(np.abs(error))) for error in errors.values()) < EXACT
    return exact and bool(np.all(1 - stays["SFA"] < EXACT)) and bool(np.min(stays["PCA"]) < 0.999)


def frequencies(X: np.ndarray) -> bool:
    """Print eq. 5 for features of noise and for sinusoids; return True if the exact form holds."""
    print("eq. 5, footnote 2: eigenvalue and mean squared frequency of its feature")
    table = Table("", "eigenvalue", "w^2", "4 sin(w/2)^2", "with the last difference")
    n = len(X)
    t = np.arange(n)
    tones = [
        (cycles, np.sqrt(2) * np.sin(2 * np.pi * cycles * t / n)) for cycles in (n // 400, n // 20, n // 4)
    ]
    mixture = [("slow feature", X @ slow_weights(X)[0]), ("fast feature", X @ slow_weights(X)[1])]
    holds = True
    for name, y in [*mixture, *((f"sinusoid, w = {2 * np.pi * c / n:.4f}", y) for c, y in tones)]:
        eigenvalue = probsfa.SFA().fit(y[:, None]).delta_values_[0]
        continuous, discrete = mean_squared_frequencies(y)
        closed = eigenvalue * (n - 1) / n + (y[0] - y[-1]) ** 2 / n / np.mean(y**2)
        table.add(name, *(f"{value:.6f}" for value in (eigenvalue, continuous, discrete, closed)))
        holds &= abs(closed - discrete) < EXACT
    return holds


def ellipse(M: np.ndarray) -> np.ndarray:
    """Return points (2, 200) with x' M x = 1."""
    turn = np.linspace(0, 2 * np.pi, 200)
    return np.linalg.solve(np.linalg.cholesky(M).T, np.array([np.cos(turn), np.sin(turn)]))


def draw(X: np.ndarray, path: str) -> None:
    """Write the figure: PCA on the left, SFA on the right, panels A to E from the top."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    A, B = moments(X)
    P, W = principal_weights(B), slow_weights(X)
    black, red, blue, green = "black", "tab:red", "tab:blue", "tab:green"
    figure, axes = plt.subplots(2, 5, figsize=(16, 6.5), layout="constrained")

    def lines(ax: "plt.Axes", vectors: np.ndarray, color: str) -> None:
        for vector in vectors:
            ax.plot(*np.outer(vector, [-1, 1]), color=color, lw=1.5)

    def covariance(ax: "plt.Axes", M: np.ndarray, style: str, color: str) -> None:
        ax.plot(*ellipse(np.linalg.inv(M)), style, color=color)

    steps = np.diff(X, axis=0)
    for column, name in enumerate(("PCA", "SFA")):
        a, b, c, d, e = axes[column]
        a.plot(*X.T, ".", ms=2, color=blue, label="data")
        if column:
            a.plot(*steps.T, ".", ms=2, color=green, label="differences")
        a.legend(loc="upper left", fontsize=8)
        a.set_title(f"{name}:  A  data")
        covariance(b, B, "-", blue)
        lines(b, np.linalg.inv(P).T, black)
        sphered = P @ A @ P.T
        for ax in (c, d):
            covariance(ax, np.eye(2), "-", blue)
        lines(c, np.eye(2), black)
        e.plot(*ellipse(B), color=blue)
        lines(e, P, black)
        if column:
            covariance(b, A, "--", green)
            lines(b, np.linalg.inv(W).T, red)
            covariance(c, sphered, "--", green)
            lines(c, W @ np.linalg.inv(P), red)
            covariance(d, W @ A @ W.T, "--", green)
            lines(d, np.eye(2), red)
            lines(e, W, red)
        else:
            lines(d, np.eye(2), black)
        b.set_title("B  covariances, data space")
        c.set_title("C  sphered")
        d.set_title("D  after the rotation R" if column else "D  R = I")
        e.set_title("E  weights, on w' B w = 1")
        for ax in (a, b, c, d, e):
            ax.set_aspect("equal", "datalim")
    figure.savefig(path, dpi=90)
    print(f"picture: {path}")


def main() -> int:
    """Print the claims; return 1 if an exact one does not hold."""
    args = read_options(
        __doc__,
        quick=(False, "2,000 rows"),
        n_steps=20_000,
        picture={"metavar": "PATH", "help": "write the picture, of the first 1,000 rows"},
    )
    n = 2_000 if args.quick else args.n_steps
    series = make_slow_mixture(n, decay=DECAY, loadings=LOADINGS, noise_variance=0.0, random_state=0)
    X = series.data - series.data.mean(axis=0)
    print(f"T = {n:,}, D = 2, decays {DECAY}")
    holds = geometry(X, series.latents)
    holds &= frequencies(X)
    print("all that is exact holds:", holds)
    if args.picture:
        draw(X[:1000] - X[:1000].mean(axis=0), args.picture)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
