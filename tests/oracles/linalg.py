"""Eigenproblems of slow features by explicit inverses and loops."""

import numpy as np


def generalized_eigenvalues(A, B):
    """Return eigenvalues of A w = delta B w for a regular B from the product B^-1 A."""
    return np.sort(np.linalg.eigvals(np.linalg.solve(B, A)).real)


def sign_rule(loadings, scales):
    """Return +1 or -1 per column from its correlations, compared one by one."""
    signs = []
    for k in range(loadings.shape[1]):
        correlations = [loadings[i, k] / scales[i] if scales[i] > 0 else 0.0 for i in range(len(scales))]
        largest = max(abs(c) for c in correlations)
        first = next(c for c in correlations if abs(c) >= largest * (1 - 1e-8))
        signs.append(-1.0 if first < 0 else 1.0)
    return np.array(signs)
