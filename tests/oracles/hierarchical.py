"""A layer of slow feature nodes by its definition, one node and one row at a time."""

import numpy as np
import scipy.linalg


def layer(images, field, stride, n_components, expand, edges, vertices):
    """Return outputs (N, H', W', K) of a layer for images (N, H, W, C), and the delta values of every node.

    `edges` is a list of (n, n', weight) in one direction, `vertices` a list of weights.
    """
    N, H, W, _ = images.shape
    tops = range(0, H - field[0] + 1, stride[0])
    lefts = range(0, W - field[1] + 1, stride[1])
    outputs = np.empty((N, len(tops), len(lefts), n_components))
    deltas = np.empty((len(tops), len(lefts), n_components))
    for i, top in enumerate(tops):
        for j, left in enumerate(lefts):
            rows = inputs(images, top, left, field, expand)
            y, deltas[i, j] = node(rows, n_components, edges, vertices)
            outputs[:, i, j] = y
    return outputs, deltas


def inputs(images, top, left, field, expand):
    """Return the expanded inputs of the node at one position, ordered by pixels and then by channels."""
    rows = []
    for image in images:
        pixels = []
        for down in range(field[0]):
            for right in range(field[1]):
                pixels.extend(image[top + down, left + right])
        rows.append(expand(pixels))
    return np.array(rows)


def node(rows, n_components, edges, vertices):
    """Return slow outputs (signs by the largest correlation with an input) and delta values of a node."""
    mean = sum(v * x for v, x in zip(vertices, rows, strict=True)) / sum(vertices)
    B = sum(v * np.outer(x - mean, x - mean) for v, x in zip(vertices, rows, strict=True)) / sum(vertices)
    A = sum(w * np.outer(rows[m] - rows[n], rows[m] - rows[n]) for n, m, w in edges)
    A = A / sum(w for _, _, w in edges)
    deltas, weights = scipy.linalg.eigh(A, B)
    for k in range(len(deltas)):
        correlation = B @ weights[:, k] / np.sqrt(np.diag(B))
        if correlation[np.argmax(np.abs(correlation))] < 0:
            weights[:, k] *= -1
    return (rows - mean) @ weights[:, :n_components], deltas[:n_components]


def chain(lengths, lag=1):
    """Return edges between successive rows of one or several sequences."""
    edges, start = [], 0
    for n in lengths:
        edges += [(t, t + lag, 1.0) for t in range(start, start + n - lag)]
        start += n
    return edges
