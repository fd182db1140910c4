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
from sklearn.metrics import roc_auc_score

import probsfa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.landsat import change_score, read_bands, read_mask
from common.options import read_options
from common.tables import Table


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
    table = Table("round", "AUC", "delta values")
    weights = np.ones(len(before), dtype=np.float64)
    for step in range((3 if arguments.quick else arguments.rounds) + 1):
        score, deltas = change_score(before, after, weights)
        area = roc_auc_score(changed[marked], score[marked])
        name = f"{step}, plain SFA" if step == 0 else step
        table.add(name, f"{area:.4f}", " ".join(f"{delta:.3f}" for delta in deltas))
        moved, weights = weights, scipy.stats.chi2.sf(score, before.shape[1])
        if np.abs(weights - moved).max() < 1e-3:
            break


if __name__ == "__main__":
    main()
