"""Two images of one landscape, and a score of the change of each pixel."""

from pathlib import Path

import numpy as np
import scipy.sparse
import scipy.stats
from PIL import Image

from probsfa.graphs import from_sparse
from probsfa.sfa import GraphSFA

SHAPE = (6, 400, 400)


def change_score(before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the change of every pixel, in squared standard deviations, and the delta values."""
    n = len(before)
    X = np.concatenate([standardise(before, weights), standardise(after, weights)])  # each image by itself
    pairs = scipy.sparse.diags_array([weights], offsets=[n], shape=(2 * n, 2 * n))
    gsfa = GraphSFA(graph=from_sparse(pairs, np.tile(weights, 2))).fit(X)
    difference = gsfa.transform(X[n:]) - gsfa.transform(X[:n])
    # over the edges the mean squared difference of a feature is its delta value
    return np.sum(difference**2 / gsfa.delta_values_, axis=1), gsfa.delta_values_


def standardise(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return columns of weighted mean zero and weighted variance one."""
    p = weights / weights.sum()
    centred = X - p @ X
    return centred / np.sqrt(p @ centred**2)


def read_bands(path: Path) -> np.ndarray:
    """Return an image as pixels (160000, 6)."""
    return np.fromfile(path, np.uint8).reshape(SHAPE[0], -1).T.astype(np.float64)


def read_mask(path: Path) -> np.ndarray:
    """Return a mask of the marked pixels, shape (160000,)."""
    return (np.array(Image.open(path).convert("L")) > 0).ravel()
