"""Windows of spoken words."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RATE, WINDOW, STEP = 8000, 417, 8


WORDS = (3, 7)


class Speech(NamedTuple):
    """Windows of the training and test words."""

    train: list[np.ndarray]
    test: list[np.ndarray]


def load(folder: Path, large: bool, stride: int, level: bool) -> Speech:
    """Read the words, normalize their loudness by `level`, and cut every `stride`-th window."""
    stored = np.load(folder / "fsdd_subset" / "fsdd_subset.npz")
    signal, offset, digit = stored["signal"], stored["offset"], stored["digit"]
    speaker, index = stored["speaker"], stored["index"]
    names = sorted(set(speaker.tolist()))
    if large:
        train_set, test_set = (names[:4], range(8)), (names[4:5], range(8))
    else:
        train_set, test_set = (names[:1], range(4)), (names[:1], range(4, 8))

    def words(chosen: tuple[Any, range]) -> list[np.ndarray]:
        pieces = []
        for name in chosen[0]:
            for word in WORDS:
                for take in chosen[1]:
                    (at,) = np.flatnonzero((speaker == name) & (digit == word) & (index == take))
                    word_signal = signal[offset[at] : offset[at + 1]] / 32768
                    loudness = float(np.sqrt(np.mean(word_signal**2)))
                    pieces.append(windows(word_signal / (loudness if level else 1.0), stride))
        return [w for w in pieces if len(w) > 1]

    train, test = words(train_set), words(test_set)
    peak = max(np.abs(x).max() for x in train)
    deviations = [float(np.concatenate(part).std() / peak) for part in (train, test)]
    print(f"{'large' if large else 'small'} set: standard deviation of an amplitude in training "
          f"{deviations[0]:.4f}, in the test {deviations[1]:.4f}")  # fmt: skip
    return Speech([x / peak for x in train], [x / peak for x in test])


def windows(amplitudes: np.ndarray, stride: int) -> np.ndarray:
    """Cut one word into overlapping windows (rows)."""
    starts = np.arange(0, len(amplitudes) - WINDOW + 1, STEP * stride)
    return amplitudes[starts[:, None] + np.arange(WINDOW)]
