"""Two intertwined half-moons, as in Sprekeler (2011)."""

import numpy as np
from sklearn.utils import Bunch

from probsfa.datasets._masking import Seed

__all__ = ["make_half_moons"]


def make_half_moons(n_samples: int = 2000, *, noise: float = 0.1, random_state: Seed = None) -> Bunch:
    """Draw two intertwined half-moons (Sprekeler 2011, figure 1).

    With ``A`` 0 or 1 for the half-moon, ``xi ~ N(0, noise^2)`` and ``eta`` uniform on ``[0, pi]``::

        x = A - 1/2 + (1 + xi) cos(eta)
        y = (-1)^A (1 + xi) sin(eta) - (-1)^A / 4

    Parameters
    ----------
    n_samples : int, default=2000
        Total number of rows; if it is odd, the first half-moon has one more.
    noise : float, default=0.1
        Standard deviation of the radius, which has mean 1.
    random_state : int, numpy.random.Generator or None, default=None
        Seed, passed to :func:`numpy.random.default_rng`.

    Returns
    -------
    Bunch
        ``data`` (n_samples, 2) in the order of the half-moons, ``target`` (n_samples,) the half-moon of every
        row, ``angle`` (n_samples,) the ``eta`` of each row, and ``feature_names``.

    Raises
    ------
    ValueError
        If there is not at least one row for each half-moon, or the noise is negative.

    See Also
    --------
    make_slow_mixture : Simulated series, with missing values.

    References
    ----------
    Sprekeler, H. (2011). On the relation of slow feature analysis and Laplacian eigenmaps. Neural Computation
    23, 3287-3302. https://doi.org/10.1162/NECO_a_00214

    Examples
    --------
    >>> moons = make_half_moons(200, random_state=0)
    >>> moons.data.shape, moons.target.sum().item()
    ((200, 2), 100)
    """
    if int(n_samples) != n_samples or n_samples < 2:
        raise ValueError(f"n_samples must be an integer of at least 2, got {n_samples!r}.")
    if not 0.0 <= noise < np.inf:
        raise ValueError(f"noise must be a standard deviation of at least 0, got {noise!r}.")
    rng = np.random.default_rng(random_state)
    target = np.repeat([0, 1], [(n_samples + 1) // 2, n_samples // 2])
    side = 1.0 - 2.0 * target
    radius = 1.0 + noise * rng.standard_normal(target.size)
    angle = rng.uniform(0.0, np.pi, target.size)
    x = target - 0.5 + radius * np.cos(angle)
    y = side * radius * np.sin(angle) - side / 4.0
    return Bunch(data=np.column_stack([x, y]), target=target, angle=angle, feature_names=["x", "y"])
