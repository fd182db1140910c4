"""A simulated object at changing positions, and scores of features for its identity and position."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline

from probsfa import SFA
from probsfa.expansions import Polynomial
from probsfa.extensions import BilinearSFA

SIDE = 7


def states(gates: np.ndarray) -> np.ndarray:
    """Return the joint state of the gates as an integer."""
    return (gates > 0.5) @ (2 ** np.arange(gates.shape[1]))


def moving_object(
    seed: int, n_rows: int = 1500, tilt: float = 45.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate images of one of two striped objects: pixels (T, 49), positions (T,) and identities (T,).

    An object is a round patch of 7 by 7 pixels with stripes that move with its position. The position, in
    radians of the phase of the stripes, is a random walk. The identity changes about every 100 images, and
    the position does not jump. The stripes of the second object are tilted. The standard deviation of the
    noise in every pixel is that of the object.
    """
    rng = np.random.default_rng(seed)
    position = np.cumsum(0.3 * rng.standard_normal(n_rows)) + rng.uniform(0, 2 * np.pi)
    identity = (np.cumsum(rng.uniform(size=n_rows) < 0.01) + rng.integers(2)) % 2
    across, down = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    patch = np.exp(-(across**2 + down**2)).ravel()
    angles = np.deg2rad([0.0, tilt])
    phases = np.stack([4.0 * (np.cos(a) * across + np.sin(a) * down).ravel() for a in angles])
    shapes = patch * np.cos(phases[identity] - position[:, None])
    pixels = shapes / shapes.std()
    return pixels + rng.standard_normal(pixels.shape), position, identity


def score_features(
    features: np.ndarray, position: np.ndarray, identity: np.ndarray
) -> tuple[float, float, float]:
    """Return accuracy of the identity, and R^2 of the position for the same and for the other object.

    Predictions are linear in the features, and learned from the first half of the rows. The first number is
    the balanced accuracy of the identity in the second half. The others are R^2 of cosine and sine of the
    position: learned from rows of one object, and tested on rows of the same or of the other object.
    """
    half = len(features) // 2
    first, second = np.arange(len(features)) < half, np.arange(len(features)) >= half
    reader = LogisticRegression(max_iter=1000).fit(features[first], identity[first])
    accuracy = balanced_accuracy_score(identity[second], reader.predict(features[second]))
    target = np.column_stack([np.cos(position), np.sin(position)])
    same, other = [], []
    for which in (0, 1):
        learned = LinearRegression().fit(*(part[first & (identity == which)] for part in (features, target)))
        for tested in (0, 1):
            rows = second & (identity == tested)
            score = learned.score(features[rows], target[rows])
            (same if tested == which else other).append(score)
    return float(accuracy), float(np.mean(same)), float(np.mean(other))


def features_of(pixels: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return features of three methods; those of the bilinear model are divided into what and where."""
    bilinear = BilinearSFA(2, n_gates=2, noise="isotropic", random_state=seed).fit(pixels)
    both = bilinear.transform(pixels)
    quadratic = make_pipeline(PCA(8), SFA(6, expansion=Polynomial(2)))
    return {
        "bilinear, where": both[:, :2],
        "bilinear, what": both[:, 2:],
        "SFA, 6 features": SFA(6).fit_transform(pixels),
        "quadratic SFA, 6 features": quadratic.fit_transform(pixels),
    }
