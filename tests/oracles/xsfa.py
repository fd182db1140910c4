"""Extended slow feature analysis by the equations of Sprekeler, Zito & Wiskott (2014)."""

import itertools

import numpy as np


def monomials(X, degree):
    """Return all monomials of the columns up to a degree, without the constant."""
    columns = []
    for d in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(X.shape[1]), d):
            columns.append(np.prod([X[:, j] for j in chosen], axis=0))
    return np.column_stack(columns)


def sources(X, n_sources, degree, source_degree, least_variance, lengths, lag=1):
    """Return sources (T, n) and their delta values."""
    z = monomials((X - X.mean(axis=0)) / X.std(axis=0), degree)
    z = z - z.mean(axis=0)
    U, s, _ = np.linalg.svd(z / z.std(axis=0), full_matrices=False)
    z = U[:, s > 1e-6 * s[0]] * np.sqrt(len(z))
    outputs, deltas = [], []
    for _ in range(n_sources):
        residual = z
        if outputs:
            functions_of_outputs = monomials(np.column_stack(outputs), source_degree)
            functions_of_outputs = functions_of_outputs - functions_of_outputs.mean(axis=0)
            residual = z - functions_of_outputs @ np.linalg.lstsq(functions_of_outputs, z, rcond=1e-10)[0]
        values, V = np.linalg.eigh(residual.T @ residual / len(residual))
        retained = values > least_variance
        y = residual @ V[:, retained] / np.sqrt(values[retained])
        ends = np.cumsum(lengths)
        changes = [y[a + lag : b] - y[a : b - lag] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        dy = np.concatenate(changes)
        slowness, Q = np.linalg.eigh(dy.T @ dy / len(dy))
        outputs.append(y @ Q[:, 0])
        deltas.append(slowness[0])
    return np.column_stack(outputs), np.array(deltas)
