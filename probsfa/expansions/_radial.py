"""Gaussian radial basis functions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from probsfa._arrays import as_float_array
from probsfa._validation import check_count, check_memory
from probsfa.expansions._base import Expansion, FloatArray, check_positive

__all__ = ["RadialBasis"]


class RadialBasis(Expansion):
    """Gaussian radial basis functions ``exp(-gamma |x - c|^2)``.

    The functions are bounded and local, so that they are zero for outliers. In many dimensions many functions
    are needed (Sprekeler 2011, section 5.3).

    Parameters
    ----------
    n_centers : int, default=50
        Number of centres, at most the number of distinct rows.
    centers : {"kmeans", "sample"} or array-like (m, D), default="kmeans"
        Centres. "kmeans": centroids of k-means clusters of the rows. "sample": distinct rows drawn at random.
        An array: these points (`n_centers` is then not used). Distances are Euclidean, so that columns should
        be scaled.
    gamma : float or None, default=None
        Inverse squared width. The default is ``1 / (2 s^2)``, where ``s`` is the mean distance from a centre
        to the nearest other centre.
    include_input : bool, default=False
        Whether the inputs themselves come first, so that linear functions are not lost.
    random_state : int, RandomState instance or None, default=0
        Seed of "kmeans" and "sample".

    Attributes
    ----------
    centers_ : ndarray (m, D)
        The centres.
    gamma_ : float
        The inverse squared width used.

    See Also
    --------
    FourierFeatures : A basis that is not local.

    Examples
    --------
    >>> basis = RadialBasis(centers=[[0.0], [1.0]], gamma=1.0)
    >>> print(basis.fit_transform([[0.0], [30.0]]).round(3))
    [[1.    0.368]
     [0.    0.   ]]
    """

    def __init__(
        self,
        n_centers: int = 50,
        *,
        centers: Any = "kmeans",
        gamma: float | None = None,
        include_input: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_centers = n_centers
        self.centers = centers
        self.gamma = gamma
        self.include_input = include_input
        self.random_state = random_state

    def expand(self, values: FloatArray) -> FloatArray:
        """Expand the last axis: (..., D) to (..., m), or (..., D + m) with the inputs."""
        rows = values.reshape(-1, values.shape[-1])
        check_memory(
            8.0 * len(rows) * len(self.centers_),
            f"{len(self.centers_):,} functions of {len(rows):,} rows need {{size}}",
            "Use a smaller n_centers, or fewer rows at a time.",
        )
        basis_functions = np.exp(-self.gamma_ * cdist(rows, self.centers_, "sqeuclidean"))
        out = np.hstack([rows, basis_functions]) if self.include_input else basis_functions
        return out.reshape(*values.shape[:-1], out.shape[1])

    def _learn(self, values: FloatArray) -> None:
        if self.gamma is not None:
            check_positive("gamma", self.gamma)
        self.centers_ = self._place_centers(values)
        self.gamma_ = _default_gamma(self.centers_) if self.gamma is None else float(self.gamma)

    def _place_centers(self, values: FloatArray) -> FloatArray:
        if not isinstance(self.centers, str):
            return _check_centers(self.centers, values.shape[1])
        if self.centers not in ("kmeans", "sample"):
            raise ValueError(
                f'centers must be "kmeans", "sample" or an array (m, D) of centres; got {self.centers!r}.'
            )
        rng = check_random_state(self.random_state)
        distinct = np.unique(values, axis=0)
        m = min(check_count("n_centers", self.n_centers), len(distinct))
        check_memory(
            8.0 * m * m, f"The distances between {m:,} centres need {{size}}", "Use a smaller n_centers."
        )
        if self.centers == "sample":
            return distinct[np.sort(rng.choice(len(distinct), size=m, replace=False))]
        if m == len(distinct):
            return distinct
        from sklearn.cluster import KMeans  # slow to import

        kmeans = KMeans(n_clusters=m, n_init=1, random_state=rng).fit(values)
        return np.asarray(kmeans.cluster_centers_, dtype=np.float64)

    def _names_out(self, names: list[str]) -> list[str]:
        basis_functions = [f"radialbasis{j}" for j in range(len(self.centers_))]
        return [*names, *basis_functions] if self.include_input else basis_functions


def _check_centers(centers: ArrayLike, n_features: int) -> FloatArray:
    points = as_float_array(centers, "centers").copy()
    if points.ndim != 2 or points.shape[1] != n_features or len(points) == 0 or not np.isfinite(points).all():
        raise ValueError(
            f"centers must be finite, of shape (m, {n_features}), as wide as X; got shape {points.shape}."
        )
    return points


def _default_gamma(centers: FloatArray) -> float:
    if len(centers) < 2:
        return 1.0
    distances = cdist(centers, centers)
    np.fill_diagonal(distances, np.inf)
    return float(0.5 / distances.min(axis=1).mean() ** 2)
