"""How near the default regularisation of KernelSFA comes to the best, and what none at all would give.

Series of 300 rows are learned from, and the slowness of two outputs is measured on the next 300, for four
kinds of series and three widths of the Gaussian kernel, with every row a support vector. The best
regularisation is chosen on the test rows themselves among 0 and powers of ten, which no method can know.

    python benchmarks/accuracy/kernel_regularization.py
    python benchmarks/accuracy/kernel_regularization.py --seeds 1
"""

import argparse
import time
import warnings

import numpy as np

from probsfa.metrics import delta_value
from probsfa.sfa import KernelSFA

KINDS = ("angle in noise", "three waves in noise", "latent behind a square", "angle behind products", "noise")
GAMMAS = (0.1, 1.0, 20.0)
VALUES = (0.0, *(10.0**k for k in range(-10, 2)))
N = 300


def series(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of one series, to learn from and to test on."""
    t = np.arange(2 * N)
    if kind == "angle in noise":
        angle = np.cumsum(rng.standard_normal(2 * N)) / 8
        return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.2 * rng.standard_normal((2 * N, 2))
    if kind == "three waves in noise":
        waves = np.sin(2 * np.pi * t[:, None] / np.array([N / 2, N / 5, N / 9]) + np.arange(3))
        return waves @ rng.standard_normal((3, 3)) + 0.5 * rng.standard_normal((2 * N, 3))
    if kind == "latent behind a square":
        latent = np.zeros(2 * N)
        for i in range(1, 2 * N):
            latent[i] = 0.98 * latent[i - 1] + 0.2 * rng.standard_normal()
        fast, other = rng.standard_normal((2, 2 * N))
        return np.column_stack([fast, fast**2 + latent, other])
    if kind == "angle behind products":
        angle = np.linspace(0, 8 * np.pi, 2 * N)
        return np.column_stack([np.sin(angle) * np.cos(17 * angle), np.sin(angle) * np.sin(17 * angle)])
    return rng.standard_normal((2 * N, 10))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of over-fitting: it is counted below
    print("mean test slowness of two outputs, mean over seeds; ratio to the best is geometric")
    print("| series | gamma | none (0) | chosen by default | best | chosen / best | warns |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for kind in KINDS:
        for gamma in GAMMAS:
            rows, said = [], 0
            for seed in range(options.seeds):
                X = series(kind, np.random.default_rng(seed))

                def slowness(model: KernelSFA, X: np.ndarray = X) -> float:
                    return float(np.mean(delta_value(model.fit(X[:N]).transform(X[N:]))))

                given = [slowness(KernelSFA(2, gamma=gamma, regularization=value)) for value in VALUES]
                chosen = KernelSFA(2, gamma=gamma)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    rows.append((given[0], slowness(chosen), min(given)))
                said += any("on rows left out" in str(warning.message) for warning in caught)
            none, chosen_slowness, best = np.mean(rows, axis=0)
            ratio = [row[1] / row[2] for row in rows]
            if kind != "noise":
                ratios += ratio
            print(
                f"| {kind} | {gamma:g} | {none:.3f} | {chosen_slowness:.3f} | {best:.3f} "
                f"| {np.exp(np.mean(np.log(ratio))):.2f} | {said} of {options.seeds} |",
                flush=True,
            )
    print(f"all but noise: chosen / best {np.exp(np.mean(np.log(ratios))):.3f}, at most {max(ratios):.2f}")
    X = np.concatenate([series("three waves in noise", np.random.default_rng(seed)) for seed in range(2)])[
        :1000
    ]
    for value in (1e-3, "auto"):
        started = time.process_time()
        KernelSFA(2, regularization=value).fit(X)
        print(
            f"1,000 rows, regularization={value!r}: {time.process_time() - started:.1f} s of processor time"
        )


if __name__ == "__main__":
    main()
