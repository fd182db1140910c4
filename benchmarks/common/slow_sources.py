"""Series with known slow sources: simulated ones, and two spoken words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from probsfa.expansions import Polynomial


class Problem(NamedTuple):
    """Rows, their slow sources (None if there are none), an expansion for SFA, and test rows."""

    rows: Any
    slow: np.ndarray | None
    expansion: Any
    test: Any = None  # rows of `slow`, if they are not the training rows


def waves(n: int, fast: int) -> Problem:
    """Return a sine of one period, plus the square of a fast cosine."""
    t = np.linspace(0, 2 * np.pi, n)
    rows = np.column_stack([np.sin(t) + np.cos(fast * t) ** 2, np.cos(fast * t)])
    return Problem(rows, np.sin(t), Polynomial(2))


def two_periods() -> Problem:
    """Return products of a wave of period 100 and a wave of period 23."""
    t = np.arange(400)
    slow, fast = np.sin(2 * np.pi * t / 100), np.sin(2 * np.pi * t / 23 + 1)
    return Problem(np.column_stack([slow + fast**2, fast, slow * fast]), slow, Polynomial(2))


def angle_behind_products() -> Problem:
    """Return a rotation whose radius is a slow sine; the source is the square of this sine."""
    t = np.linspace(0, 4 * np.pi, 400)
    rows = np.column_stack([np.sin(t) * np.cos(17 * t), np.sin(t) * np.sin(17 * t)])
    return Problem(rows, np.sin(t) ** 2, Polynomial(2))


def latent_behind_square() -> Problem:
    """Return an AR(1) process plus the square of white noise."""
    rng = np.random.default_rng(0)
    latent = np.zeros(400)
    for i in range(1, 400):
        latent[i] = 0.98 * latent[i - 1] + 0.2 * rng.standard_normal()
    fast, other = rng.standard_normal((2, 400))
    return Problem(np.column_stack([fast, fast**2 + latent, other]), latent, Polynomial(2))


def angle_in_noise() -> Problem:
    """Return a random walk on a circle with noise; the source is its cosine."""
    rng = np.random.default_rng(0)
    angle = np.cumsum(rng.standard_normal(400)) / 8
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return Problem(circle + 0.2 * rng.standard_normal((400, 2)), circle, None)


def turning_object(seed: int, n_views: int = 72, size: int = 16, n_blobs: int = 12) -> Problem:
    """Return images of opaque blobs that rotate once about the vertical axis."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n_blobs, 3)) * [0.5, 0.4, 0.5]
    brightness, width = rng.uniform(0.3, 1, n_blobs), rng.uniform(0.1, 0.25, n_blobs)
    row, column = np.meshgrid(*2 * [np.linspace(-1.5, 1.5, size)], indexing="ij")
    angles = 2 * np.pi * np.arange(n_views) / n_views
    images = []
    for angle in angles:
        x = np.cos(angle) * points[:, 0] + np.sin(angle) * points[:, 2]
        depth = -np.sin(angle) * points[:, 0] + np.cos(angle) * points[:, 2]
        image = np.zeros((size, size))
        for i in np.argsort(depth):
            cover = np.exp(-((column - x[i]) ** 2 + (row - points[i, 1]) ** 2) / (2 * width[i] ** 2))
            image = image * (1 - cover) + brightness[i] * cover
        images.append(image.ravel())
    rows = np.array(images)
    rows = (rows - rows.mean(axis=0)) / rows.std()
    return Problem(rows, np.column_stack([np.cos(angles), np.sin(angles)]), PCA(6))


def noise(walk: bool) -> Problem:
    """Return white noise of five columns, or one series of a random walk in ten dimensions."""
    rng = np.random.default_rng(0)
    if walk:
        return Problem(np.cumsum(rng.standard_normal((300, 10)), axis=0), None, Polynomial(2))
    return Problem(rng.standard_normal((300, 5)), None, Polynomial(2))


def speech(folder: Path) -> Problem:
    """Return short-time spectra of two spoken words; the source is the word, also in other recordings."""
    stored = np.load(folder / "fsdd_subset" / "fsdd_subset.npz")
    name = sorted(set(stored["speaker"].tolist()))[0]

    def read(takes: range) -> tuple[list[np.ndarray], np.ndarray]:
        words, labels = [], []
        for digit in (3, 7):
            for take in takes:
                chosen = (stored["speaker"] == name) & (stored["digit"] == digit) & (stored["index"] == take)
                (at,) = np.flatnonzero(chosen)
                signal = stored["signal"][stored["offset"][at] : stored["offset"][at + 1]] / 32768.0
                starts = np.arange(0, len(signal) - 256, 80)
                spectra = np.abs(np.fft.rfft(signal[starts[:, None] + np.arange(256)] * np.hanning(256)))
                words.append(np.log(spectra[:, 1:65] + 1e-3))
                labels.append(np.full(len(starts), float(digit == 7)))
        return words, np.concatenate(labels)

    (train, _), (test, word) = read(range(4)), read(range(4, 8))
    rows = np.concatenate(train)
    mean, scale = rows.mean(axis=0), rows.std()
    train, test = ([(w - mean) / scale for w in words] for words in (train, test))
    return Problem(train, word, PCA(10), test)


def problems(folder: Path) -> dict[str, Callable[[], Problem]]:
    """Return functions that make each problem, by its name."""
    named: dict[str, Callable[[], Problem]] = {
        "textbook, 400 rows": lambda: waves(400, 11),
        "textbook, 1,000 rows": lambda: waves(1000, 11),
        "two periods": two_periods,
        "angle behind products": angle_behind_products,
        "latent behind a square": latent_behind_square,
        "angle in noise": angle_in_noise,
        "turning object 0": lambda: turning_object(0),
        "turning object 1": lambda: turning_object(1),
        "turning object 2": lambda: turning_object(2),
        "white noise": lambda: noise(walk=False),
        "random walk, 10 columns": lambda: noise(walk=True),
    }
    if (folder / "fsdd_subset" / "fsdd_subset.npz").exists():
        named["speech, two words"] = lambda: speech(folder)
    return named
