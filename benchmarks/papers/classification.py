"""Digits without their labels: spectral clustering, compared with the ten digits.

All 1,797 handwritten digits of scikit-learn; normalised mutual information of clusters and labels, for five
seeds. Classification and regression from labels are in benchmarks/accuracy/supervised_peers.py.

    python benchmarks/papers/classification.py
"""

import platform
import sys
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

import probsfa
from probsfa.sfa import SpectralClustering

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options


def main() -> None:
    """Print the table."""
    read_options(
        __doc__,
        quick=(False, "the same: it takes seconds"),
    )
    print(
        f"probsfa {probsfa.__version__}, Python {platform.python_version()}, numpy {np.__version__}, ", end=""
    )
    print(f"scikit-learn {sklearn.__version__}, {platform.machine()}")
    clusters()


def clusters() -> None:
    """Print the agreement of spectral clusters with the digits."""
    X, y = load_digits(return_X_y=True)
    labellings = [SpectralClustering(10, random_state=seed).fit_predict(X) for seed in range(5)]
    nmi = [normalized_mutual_info_score(y, labels) for labels in labellings]
    print("\nclusters: normalised mutual information of five seeds, " + " ".join(f"{v:.4f}" for v in nmi))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "The .* rows have rank")
    main()
