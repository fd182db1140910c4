"""Figure 3 of Turner & Sahani (2007): a product of experts restricts expanded rows to a parabola.

One column whose absolute value is slow and whose sign is fast, 400 rows, expanded to ``(y, y^2)``. The table
has root mean square distances of the drawn second coordinates from the squares of the first, in standard
deviations of the squares in the data: for the linear model of expanded rows, which the paper calls the old
generative model, and for the product of experts, with decreasing width of its local experts; means over
seeds. It also has the share of drawn rows whose ``|y|`` is below half of the 1 % quantile of the data, where
there are no data.

The figure has contours of the linear model's density of one row with its draws, draws of the product at two
widths, and a drawn series next to the data.

    python benchmarks/papers/turner_sahani_figure3.py [--seeds N]
    python benchmarks/papers/turner_sahani_figure3.py --seeds 1 --picture
    docs/figures/turner_sahani_figure3.png
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.extensions import ProductOfExpertsSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

T, DECAY = 400, 0.95
WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)


def series(seed: int) -> np.ndarray:
    """Return a column (T, 1) with slow absolute value and fast sign, away from zero."""
    rng = np.random.default_rng(seed)
    slow = ProbabilisticSFA.from_parameters([DECAY], [[1.0]], 1e-6).sample(T, random_state=seed)[1][:, 0]
    return (np.exp(0.35 * slow) * rng.choice([-1.0, 1.0], T) + 0.15 * rng.standard_normal(T))[:, None]


def off_parabola(expanded: np.ndarray, y: np.ndarray) -> float:
    """Return the root mean square distance of the second coordinate from the square of the first."""
    return float(np.sqrt(np.mean((expanded[:, 1] - expanded[:, 0] ** 2) ** 2)) / np.std(y**2))


def in_the_middle(drawn: np.ndarray, y: np.ndarray) -> float:
    """Return the share of drawn rows near zero, where there are no data."""
    return float(np.mean(np.abs(drawn) < 0.5 * np.quantile(np.abs(y), 0.01)))


def product(y: np.ndarray, width: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows and expanded rows from a product of experts with this width."""
    model = ProductOfExpertsSFA(1, width=width, random_state=seed, tol=1e6).fit(y)
    drawn, _, expanded = model.sample(T, expanded=True, random_state=seed)
    return drawn, expanded


def distances(seeds: int) -> None:
    """Print the distances."""
    table = Table(f"model of (y, y^2), mean of {seeds} seeds", "off the parabola", "rows in the middle")
    rows: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        y = series(seed)
        both = np.hstack([y, y**2])
        plain = ProbabilisticSFA(1).fit(both).sample(T, random_state=seed)[0]
        rows.setdefault("linear", []).append((off_parabola(plain, y), in_the_middle(plain[:, :1], y)))
        for width in WIDTHS:
            drawn, expanded = product(y, width, seed)
            values = off_parabola(expanded, y), in_the_middle(drawn, y)
            rows.setdefault(f"product of experts, width {width:g}", []).append(values)
    for name, values in rows.items():
        off, middle = np.mean(values, axis=0)
        table.add(name, f"{off:.4f}", f"{100 * middle:.1f} %")


def draw(path: str) -> None:
    """Draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    y = series(0)
    both = np.hstack([y, y**2])
    linear = ProbabilisticSFA(1).fit(both)
    plain = linear.sample(T, random_state=0)[0]
    clouds = [("linear model of (y, y²)", plain)]
    for width in (0.3, 0.0):
        clouds.append((f"product of experts, width {width:g}", product(y, width, 0)[1]))
    last = clouds[-1][1]
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained")
    reach = 1.15 * np.max(np.abs(y))
    curve = np.linspace(-reach, reach, 200)
    for axis, (title, cloud) in zip(axes[0], clouds, strict=True):
        axis.plot(curve, curve**2, color="0.6", lw=1, zorder=0, label="y, y²")
        axis.plot(cloud[:, 0], cloud[:, 1], ".", ms=3, color="tab:blue", label="drawn")
        axis.set(
            title=title, xlabel="first coordinate", xlim=(-reach, reach), ylim=(-0.35 * reach**2, reach**2)
        )
    covariance = linear.loadings_ @ linear.loadings_.T + np.diag(linear.noise_variance_)
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    for size in (1.0, 2.0):
        ring = (
            linear.mean_
            + size * np.column_stack([np.cos(angle), np.sin(angle)]) * np.sqrt(values) @ vectors.T
        )
        axes[0, 0].plot(
            *ring.T, color="tab:orange", lw=1, label="1, 2 standard deviations" if size == 1.0 else None
        )
    axes[0, 0].set_ylabel("second coordinate")
    axes[0, 0].legend(fontsize="small", loc="upper center")
    for axis, title, rows in zip(
        axes[1],
        ("data", "drawn from the linear model", "drawn from the product"),
        (y, plain, last),
        strict=True,
    ):
        axis.plot(rows[:300, 0], lw=0.6, color="0.4")
        axis.set(title=title, xlabel="row", ylim=(-reach, reach))
    axes[1, 0].set_ylabel("y")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the table, or draw the figure."""
    options = read_options(
        __doc__,
        seeds=5,
        picture={"help": "where to draw the figure"},
    )
    warnings.simplefilter("ignore")
    if options.picture:
        draw(options.picture)
    distances(options.seeds)


if __name__ == "__main__":
    main()
