"""Images of faces at random positions, from the Olivetti faces."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

SIDE, ACROSS, DOWN = 64, 22.5, 10.0


FACE_SIDES = (20.0, 40.0)  # pixels from edge to edge of the Olivetti picture after scaling


class Images(NamedTuple):
    """Images, and the positions and sizes of their faces."""

    pixels: np.ndarray  # (N, 64 * 64)
    x: np.ndarray  # (N,) pixels right of the middle
    person: np.ndarray  # (N,)


def paste(
    faces: np.ndarray, people: np.ndarray, n: int, rng: np.random.Generator, clutter: float = 1.0
) -> Images:
    """Draw n images of these people from `faces` (40, 10, 64, 64) in [0, 1]."""
    person = people[rng.integers(len(people), size=n)]
    picture = rng.integers(faces.shape[1], size=n)
    x, y = rng.uniform(-ACROSS, ACROSS, n), rng.uniform(-DOWN, DOWN, n)
    side = rng.uniform(*FACE_SIDES, n)
    grid = np.arange(SIDE) - (SIDE - 1) / 2
    out = np.empty((n, SIDE, SIDE))
    for i in range(n):
        v, u = (grid - y[i]) / side[i], (grid - x[i]) / side[i]  # -1/2 to 1/2 inside the face
        places = np.meshgrid(v * SIDE + (SIDE - 1) / 2, u * SIDE + (SIDE - 1) / 2, indexing="ij")
        face = map_coordinates(faces[person[i], picture[i]], places, order=1, mode="nearest")
        inside = 1 / (1 + np.exp(np.clip((np.hypot(v[:, None] / 0.48, u / 0.38) - 1) * 12, -30, 30)))
        back = gaussian_filter(rng.standard_normal((SIDE, SIDE)), rng.uniform(1.5, 6.0), mode="wrap")
        back = rng.uniform(0.2, 0.8) + clutter * rng.uniform(0.05, 0.25) * back / back.std()
        out[i] = inside * face + (1 - inside) * back
    return Images(out.reshape(n, -1), x, person)


def people_apart(
    faces: np.ndarray, trial: int, n_train: int, clutter: float
) -> tuple[Images, Images, Images]:
    """Draw three sets of images of different persons: for the network, the supervised step and the test."""
    rng = np.random.default_rng(trial)
    people = rng.permutation(40)
    train = paste(faces, people[:20], n_train, rng, clutter)
    teach = paste(faces, people[20:32], n_train // 2, rng, clutter)
    test = paste(faces, people[32:], n_train // 4, rng, clutter)
    return train, teach, test


def load_faces(folder: Path) -> np.ndarray:
    """Return faces (people, pictures, 64, 64) in [0, 1], slightly blurred before they are scaled down."""
    faces = np.load(folder / "olivetti_faces" / "olivetti.npz")["faces"].reshape(40, 10, SIDE, SIDE)
    return gaussian_filter(faces / 255.0, (0, 0, 0.8, 0.8))


def rmse(predicted: np.ndarray, x: np.ndarray) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((predicted - x) ** 2)))
