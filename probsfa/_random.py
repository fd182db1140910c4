"""Conversion of seeds, as in scikit-learn, to generators of NumPy."""

import numpy as np

from probsfa._typing import Seed

__all__ = ["generator"]


def generator(seed: Seed) -> np.random.Generator:
    """Return a generator of random numbers.

    Parameters
    ----------
    seed : int, Generator, RandomState or None
        An integer gives the same generator in each call, None a different one. A Generator is returned
        unchanged. A RandomState draws a seed.

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(seed, np.random.RandomState):
        seed = int(seed.randint(2**31))
    return np.random.default_rng(seed)
