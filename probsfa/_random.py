"""Seeds, as scikit-learn takes them, to NumPy's generators."""

import numpy as np

from probsfa._typing import Seed

__all__ = ["generator"]


def generator(seed: Seed) -> np.random.Generator:
    """Return a source of randomness.

    Parameters
    ----------
    seed : int, Generator, RandomState or None
        A number gives the same generator each time; a generator is returned as it is; the older RandomState
        is asked for a seed; None is different each time.

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(seed, np.random.RandomState):
        seed = int(seed.randint(2**31))
    return np.random.default_rng(seed)
