"""Figure 2 of Turner & Sahani (2007): classic and probabilistic slow features with noise and missing rows.

The statistic D of the paper is the root mean square error of slow feature analysis minus that of the
probabilistic model, both for the slowest factor, divided by the root mean square of that factor. In the paper
D is 0.03 at low noise, 1.10 at high noise, and 1.4 in a missing block, in which slow features are
interpolated linearly; each is a single draw.

Settings here: three orthogonal loadings of norms 1, 8 and 8, decays 0.999, 0.99 and 0.5, T = 50,000, noise
variance 1e-4 (low) and 0.25 (high). At high noise the slowest factor is the weakest, so that the slowest
feature of slow feature analysis is the second factor. Missing: 49 blocks of 20 rows. The probabilistic model
is fitted to the same rows. Both features are centred, because the mean of a slow factor and the offset of the
data are not identified, and have the sign of the true factor. The paper does not report the length of its
series, weights, decays or noise, so that only the magnitude of D can be compared.

The figure has the panels of the paper, from a separate series: the observations on the left; on the right the
slowest factor (dashed), its slow feature (grey) and the posterior of the probabilistic model (mean and 90 %
interval).

    python benchmarks/papers/turner_sahani_figure2.py [--quick]
    python benchmarks/papers/turner_sahani_figure2.py --seeds 1 --picture
    docs/figures/turner_sahani_figure2.png
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import probsfa
from probsfa.datasets import make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

DECAY, NORMS = (0.999, 0.99, 0.5), np.array([1.0, 8.0, 8.0])
LOW, HIGH = 1e-4, 0.25
STRETCH = 20
REPORTED = (0.03, 1.10, 1.4)
# The figure has shorter series and a longer missing block, so that both are visible.
SHOWN, MISSING_BLOCK = slice(0, 600), slice(250, 320)


def rms(x: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(x**2)))


def aligned(feature: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the centred feature with the sign of the true factor."""
    centred = feature - feature.mean()
    return centred * np.sign(centred @ truth)


def statistic(X: np.ndarray, truth: np.ndarray, rows: np.ndarray) -> float:
    """Return D over some rows, for data that may have missing rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probabilistic = aligned(probsfa.ProbabilisticSFA(3).fit_transform(X)[:, 0], truth)
        classic = probsfa.SFA(1, missing="skip").fit_transform(X)[:, 0]
    is_complete = ~np.isnan(classic)
    classic = aligned(np.interp(np.arange(len(X)), np.flatnonzero(is_complete), classic[is_complete]), truth)
    return (rms((classic - truth)[rows]) - rms((probabilistic - truth)[rows])) / rms(truth)


def statistics(seed: int, n_steps: int) -> tuple[float, float, float]:
    """Return D for the three rows of the figure, for one seed."""
    loadings = np.linalg.qr(np.random.default_rng([seed, 1]).standard_normal((3, 3)))[0] * NORMS
    everywhere = np.ones(n_steps, dtype=bool)
    missing = np.zeros(n_steps, dtype=bool)
    for start in range(1_000, n_steps - STRETCH, 1_000):
        missing[start : start + STRETCH] = True
    statistics = []
    for noise, rows in ((LOW, everywhere), (HIGH, everywhere), (HIGH, missing)):
        series = make_slow_mixture(
            n_steps, decay=DECAY, loadings=loadings, noise_variance=noise, random_state=seed
        )
        truth = series.latents[:, 0] - series.latents[:, 0].mean()
        X = series.data.copy()
        if rows is missing:
            X[missing] = np.nan
        statistics.append(statistic(X, truth, rows))
    return statistics[0], statistics[1], statistics[2]


def draw(path: str, n_steps: int) -> None:
    """Write the figure of three series: low noise, high noise, high noise with missing rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    loadings = np.linalg.qr(np.random.default_rng([0, 1]).standard_normal((3, 3)))[0] * NORMS
    figure, axes = plt.subplots(3, 2, figsize=(12, 8), sharex=True, layout="constrained")
    rows = (
        ("A  low noise", LOW, False),
        ("B  high noise", HIGH, False),
        ("C  high noise, missing", HIGH, True),
    )
    for (left, right), (name, noise, has_missing) in zip(axes, rows, strict=True):
        series = make_slow_mixture(
            n_steps, decay=DECAY, loadings=loadings, noise_variance=noise, random_state=0
        )
        truth = series.latents[:, 0] - series.latents[:, 0].mean()
        X = series.data.copy()
        if has_missing:
            X[MISSING_BLOCK] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = probsfa.ProbabilisticSFA(3).fit(X)
            classic = probsfa.SFA(1, missing="skip").fit_transform(X)[:, 0]
        posterior = model.posterior(X)
        mean = aligned(posterior.means[:, 0], truth)
        is_complete = ~np.isnan(classic)
        classic = aligned(
            np.interp(np.arange(len(X)), np.flatnonzero(is_complete), classic[is_complete]), truth
        )
        t = np.arange(len(X))[SHOWN]
        left.plot(t, X[SHOWN], lw=0.7)
        left.set(title=f"{name}: observations")
        width = 1.645 * posterior.std[SHOWN, 0]
        right.plot(t, classic[SHOWN], color="0.6", lw=1, label="slow feature")
        right.fill_between(t, mean[SHOWN] - width, mean[SHOWN] + width, color="tab:blue", alpha=0.3)
        right.plot(t, mean[SHOWN], color="tab:blue", lw=1.2, label="posterior, 90 %")
        right.plot(t, truth[SHOWN], "k--", lw=1, label="slowest latent")
        right.set(title="slowest latent, slow feature, posterior")
    axes[0, 1].legend(loc="upper right", fontsize=8)
    for ax in axes[-1]:
        ax.set(xlabel="row")
    figure.savefig(path, dpi=90)
    print(f"picture: {path}")


def main() -> None:
    """Print the statistics."""
    args = read_options(
        __doc__,
        quick=(False, "two seeds"),
        seeds=20,
        n_steps=50_000,
        picture={"metavar": "PATH", "help": "write the picture"},
    )
    found = []
    table = Table("seed", "low noise", "high noise", "high noise, missing")
    for seed in range(2 if args.quick else args.seeds):
        found.append(statistics(seed, args.n_steps))
        table.add(seed, *(f"{value:.3f}" for value in found[-1]))
    for name, summary in (("mean", np.mean), ("min", np.min), ("max", np.max)):
        table.add(name, *(f"{value:.3f}" for value in summary(found, axis=0)))
    table.add("paper", *REPORTED)
    if args.picture:
        draw(args.picture, args.n_steps)


if __name__ == "__main__":
    main()
