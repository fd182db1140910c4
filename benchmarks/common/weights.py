"""Weights of principal components and of slow features."""

import numpy as np

import probsfa


def moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return A and B of the paper, for data of mean zero."""
    steps = np.diff(X, axis=0)
    return steps.T @ steps / len(steps), X.T @ X / len(X)


def principal_weights(B: np.ndarray) -> np.ndarray:
    """Return weights of sphered principal components, largest variance first: D^-1/2 U'."""
    sizes, axes = np.linalg.eigh(B)
    return (axes / np.sqrt(sizes)).T[::-1]


def slow_weights(X: np.ndarray) -> np.ndarray:
    """Return weights of slow feature analysis, slowest first."""
    return np.asarray(probsfa.SFA().fit(X).components_)


def angle(first: np.ndarray, second: np.ndarray) -> float:
    """Return the angle between two lines in degrees."""
    cosine = abs(first @ second) / np.linalg.norm(first) / np.linalg.norm(second)
    return float(np.degrees(np.arccos(min(cosine, 1.0))))
