"""Extensions: spirals by principal curves; gates of the bilinear model; identity and position of an object.

Three tables. For the last one, ``--figure`` draws the object, its gate, and predictions of its position.

    python benchmarks/accuracy/extensions.py
    python benchmarks/accuracy/extensions.py --seeds 3 --only object
    python benchmarks/accuracy/extensions.py --only object --figure docs/figures/what_and_where.png
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.metrics import adjusted_rand_score

from probsfa.extensions import Autoencoder, BilinearSFA, PrincipalCurve
from probsfa.extensions.bilinear import BilinearParameters
from probsfa.extensions.bilinear.parameters import simulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.moving_object import SIDE, features_of, moving_object, score_features, states
from common.options import read_options
from common.tables import Table


def summary(values: list[float]) -> str:
    """Return the median and the worst tenth."""
    return f"{np.median(values):.3f} ({np.quantile(values, 0.1):.3f}, {np.quantile(values, 0.9):.3f})"


# ------------------------------------------------------------------ spirals


def spirals(seeds: int) -> None:
    """Print the distance of reconstructions from a spiral with noise."""
    print("\ndistance of the reconstructed rows from the true spiral of two turns, root mean square:")
    print("median (10 %, 90 % quantile); 400 rows")
    t = np.linspace(0.0, 4 * np.pi, 4000)
    true = np.column_stack([t * np.cos(t), t * np.sin(t)])
    table = Table("noise", "rows themselves", "PCA", "autoencoder", "principal curve", "length / true")
    for noise in (0.2, 0.4):
        texts: dict[str, list[float]] = {
            name: [] for name in ("rows", "PCA", "autoencoder", "curve", "length")
        }
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            s = 4 * np.pi * np.sqrt(rng.uniform(0.08, 1.0, 400))
            X = np.column_stack([s * np.cos(s), s * np.sin(s)]) + noise * rng.standard_normal((400, 2))
            models = {
                "autoencoder": Autoencoder(1, random_state=seed),
                "curve": PrincipalCurve(),
            }
            line = PCA(1).fit(X)
            points = {"rows": X, "PCA": line.inverse_transform(line.transform(X))}
            points |= {name: model.fit(X).reconstruct(X) for name, model in models.items()}
            for name, each in points.items():
                off = np.min(np.linalg.norm(each[:, None] - true, axis=2), axis=1)
                texts[name].append(float(np.sqrt(np.mean(off**2))))
            inside = (t > s.min()) & (t < s.max())
            length = np.linalg.norm(np.diff(true[inside], axis=0), axis=1).sum()
            texts["length"].append(models["curve"].length_ / length)
        table.add(noise, *(summary(values) for values in texts.values()))


# ------------------------------------------------------------------ data from the bilinear model


def gates(seeds: int) -> None:
    """Print the recovery of gates, and the difference of the bound to the best of twenty restarts."""
    print("\ngates of data from the model: 10 columns, 2 factors, noise variance 0.1, 600 rows")
    bound = "bound below that of n_init=20, nats per row"
    table = Table("chains", "adjusted Rand index", "of those >= 0.9", bound)
    for n_gates in (1, 2):
        rand, below = [], []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            switch = np.full(n_gates, 0.02)
            truth = BilinearParameters(
                np.array([0.98, 0.9]),
                switch,
                switch,
                rng.standard_normal((10, n_gates, 2)),
                np.full(10, 0.1),
                np.zeros(10),
            )
            X, _, what = simulate(truth, 600, rng)
            model = BilinearSFA(2, n_gates=n_gates, random_state=seed).fit(X)
            probabilities = model.posterior(X).gate_probabilities
            rand.append(adjusted_rand_score(states(what), states(probabilities)))
            many = BilinearSFA(2, n_gates=n_gates, n_init=20, random_state=1000 + seed).fit(X)
            below.append((many.lower_bound_ - model.lower_bound_) / len(X))
        share = sum(value >= 0.9 for value in rand)
        table.add(n_gates, summary(rand), f"{share} of {seeds}", summary(below))


# ------------------------------------------------------------------ a moving object


def what_and_where(seeds: int, figure: str | None) -> None:
    """Print scores of identity and position of the moving object."""
    print(f"\nmoving object: {SIDE**2} pixels, 1500 pictures; linear read-outs tested on the second half")
    positions = "position: R^2, same object", "R^2, other object"
    table = Table("features", "identity: balanced accuracy", *positions)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(seeds):
        pixels, position, identity = moving_object(seed)
        features = features_of(pixels, seed)
        if seed == 0 and figure:
            draw(figure, pixels, position, identity, features)
        for name, values in features.items():
            found.setdefault(name, []).append(score_features(values, position, identity))
    for name, rows in found.items():
        texts = [summary(list(column)) for column in zip(*rows, strict=True)]
        if name == "bilinear, what":
            texts[1:] = ["no position", "no position"]  # gates hardly vary while the object stays the same
        table.add(name, *texts)


def draw(
    path: str, pixels: np.ndarray, position: np.ndarray, identity: np.ndarray, features: dict[str, np.ndarray]
) -> None:
    """Draw the object, its identity and position, and the features of both methods."""
    from matplotlib.figure import Figure

    rows = slice(0, 500)
    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplots(5, 1, sharex=True)
    axes[0].imshow(pixels[rows].T, aspect="auto", cmap="gray", interpolation="nearest", origin="lower")
    axes[0].set_ylabel("pixel")
    axes[0].set_title("one of two striped objects moves (its pictures, one column each)")
    what = features["bilinear, what"][rows]
    switching = what[:, np.argmax(what.std(axis=0))]
    if np.corrcoef(switching, identity[rows])[0, 1] < 0:
        switching = 1 - switching
    axes[1].plot(identity[rows], color="0.7", lw=4, label="which object")
    axes[1].plot(switching, color="tab:red", lw=1, label='"what": probability of the gate')
    axes[1].set_ylabel("identity")
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    target = np.column_stack([np.cos(position), np.sin(position)])
    named = (("bilinear, where", '"where" of the bilinear model'), ("SFA, 6 features", "SFA"))
    for axis, (name, label) in zip(axes[2:4], named, strict=True):
        read = LinearRegression().fit(features[name][identity == 0], target[identity == 0])
        axis.plot(target[rows, 0], color="0.7", lw=4, label="cosine of the position")
        axis.plot(read.predict(features[name])[rows, 0], color="tab:blue", lw=1, label=f"read out of {label}")
        axis.set_ylabel("position")
        axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    axes[3].set_title("(both read-outs are learned from the first object alone)", fontsize="medium")
    axes[4].plot(features["SFA, 6 features"][rows, :2], lw=1, label=["SFA feature 0", "SFA feature 1"])
    axes[4].set_ylabel("feature")
    axes[4].set_xlabel("row")
    axes[4].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    for axis in axes[2:]:
        axis.fill_between(np.arange(500), 0, 1, where=identity[rows] == 1, color="tab:red", alpha=0.1,
                          transform=axis.get_xaxis_transform(), lw=0)  # fmt: skip
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        seeds=20,
        only={"choices": ("spirals", "gates", "object")},
        figure={"help": "where to draw the moving object"},
    )
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    if options.only in (None, "spirals"):
        spirals(options.seeds)
    if options.only in (None, "gates"):
        gates(options.seeds)
    if options.only in (None, "object"):
        what_and_where(options.seeds, options.figure)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
