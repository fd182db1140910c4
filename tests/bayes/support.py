"""What tests of several folders of this room share."""

import itertools

import numpy as np


def images(timescale, loadings):
    """All signed permutations of a draw."""
    k = len(timescale)
    for order in itertools.permutations(range(k)):
        for signs in itertools.product([1.0, -1.0], repeat=k):
            yield timescale[list(order)], loadings[:, list(order)] * np.array(signs)
