"""Change detection in two satellite images, with pairs of pixels as training graph.

Two Landsat images of Taizhou, 2000 and 2003, 400 x 400 pixels in six bands; some pixels are marked as changed
or unchanged by hand. Every pixel is two vertices joined by one edge. The slow features of this graph are
unchanged in most pixels for any illumination; pixels with different features have changed. Its score is the
sum of squared differences of the features, each divided by its mean over the pixels.

Iteratively reweighted: under the hypothesis of no change the score is about chi-squared, so that its tail
probability is the weight of the pixel's edge and vertices in the next iteration, and changed pixels have
small weights.

    python benchmarks/accuracy/change_detection.py --data FOLDER
"""

import platform
import sys
from pathlib import Path

import numpy as np
import scipy.sparse
import scipy.stats
import sklearn
from PIL import Image
from sklearn.metrics import roc_auc_score

import probsfa
from probsfa.graphs import from_sparse
from probsfa.sfa import GraphSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

SHAPE = (6, 400, 400)


def main() -> None:
    """Print areas under the curve."""
    arguments = read_options(
        __doc__,
        data="landsat_taizhou",
        rounds=(20, "rounds of reweighting"),
        quick=(False, "three rounds"),
    )
    folder = arguments.data / "landsat_taizhou"
    before, after = (read_bands(folder / name) for name in ("2000TM", "2003TM"))
    changed, unchanged = (read_mask(folder / name) for name in ("change.bmp", "unchanged.bmp"))
    marked = changed | unchanged

    print(
        f"probsfa {probsfa.__version__}, Python {platform.python_version()}, numpy {np.__version__}, ", end=""
    )
    print(f"scikit-learn {sklearn.__version__}, {platform.machine()}")
    print(f"{changed.sum()} pixels changed, {unchanged.sum()} unchanged; area under the ROC curve\n")
    print("round   AUC     delta values")
    weights = np.ones(len(before), dtype=np.float64)
    for step in range((3 if arguments.quick else arguments.rounds) + 1):
        score, deltas = change_score(before, after, weights)
        area = roc_auc_score(changed[marked], score[marked])
        note = " plain SFA" if step == 0 else ""
        print(f"{step:5}   {area:.4f}  {np.array2string(deltas, precision=3)}{note}", flush=True)
        moved, weights = weights, scipy.stats.chi2.sf(score, before.shape[1])
        if np.abs(weights - moved).max() < 1e-3:
            break


def change_score(before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how much every pixel changed, in squared standard deviations, and the delta values."""
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
    """Return which pixels are marked, shape (160000,)."""
    return (np.array(Image.open(path).convert("L")) > 0).ravel()


if __name__ == "__main__":
    main()
