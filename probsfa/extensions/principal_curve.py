"""Principal curves and surfaces as an estimator."""

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from probsfa._frames import lists_in_lists_out
from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_option
from probsfa.expansions._base import check_positive
from probsfa.extensions._kernel_manifold import KernelManifold, landmark_grid, project, solve_coefficients
from probsfa.extensions._reconstruction import Reconstruction
from probsfa.extensions._status import status_sentence
from probsfa.linalg import canonical_signs
from probsfa.sfa import LaplacianEigenmaps

__all__ = ["PrincipalCurve"]

_INITS = ("auto", "pca", "eigenmap")
# Rows that a start by eigenmaps looks at; the others begin where their nearest neighbour among these does.
_MOST_ROWS_OF_START = 2000
_ROUNDS_OF_START = 30
_NEWTON_STEPS = 3  # of a round, which begins where the one before ended
_FINE = 4001  # points at which the arc length is tabulated


@lists_in_lists_out
class PrincipalCurve(Reconstruction):
    """A smooth curve, or surface, through the middle of the rows.

    The function ``f`` from ``[0, 1]^k`` to the space of the rows that minimises the mean squared distance
    of a row from the nearest point ``f(z)``, plus a penalty of its norm in the space of a Gaussian kernel.

    Parameters
    ----------
    n_components : int, default=1
        Dimension ``k``: 1 for a curve, 2 for a surface.
    n_landmarks : int, optional
        Number ``M`` of points on a regular grid on which the kernels are centred; by default 50 for a curve
        and 100 for a surface.
    bandwidth : float, default=0.1
        Width ``h`` of the kernel ``exp(-|z - u|^2 / (2 h^2))``, as a part of the length of the curve: the
        smaller, the more turns it can take.
    regularization : float, default=1e-3
        Weight ``lambda`` of half the squared norm of ``f``. The larger, the straighter is the curve.
    coordinate : {"auto", "arc_length", "latent"}, default="auto"
        What ``transform`` gives: the length of the curve from the first training row on it, in units of the
        data, which is "auto" for curves, or ``z`` in ``[0, 1]^k``, which is "auto" for surfaces.
    init : {"auto", "pca", "eigenmap"} or array-like (N, k), default="auto"
        Where the rows are at the start: by the ranks of their principal components, of coordinates in which
        nearest neighbours are close, which unrolls spirals, or as given, in [0, 1]. "auto" climbs from the
        first two and keeps the better.
    max_iter : int, default=300
        Most rounds of projection and closed-form update.
    tol : float, default=1e-4
        Relative fall of the objective in a round at which to stop.

    Attributes
    ----------
    landmarks_ : ndarray (M, k)
        Centres ``z_j`` of the kernels.
    coefficients_ : ndarray (M, D)
        ``alpha_j`` with ``f(z) = mean_ + sum_j alpha_j K(z_j, z)``.
    coordinates_ : ndarray (N, k)
        Coordinates ``z`` of the training rows.
    mean_ : ndarray (D,)
        Mean of the training rows.
    length_ : float
        Length of the curve from the first training row on it to the last; NaN for surfaces.
    objective_ : float
        Mean squared distance with the penalty.
    history_ : ndarray (n_iter_,)
        The objective after each round; never rises.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether the last round lowered the objective by less than `tol`.
    status_ : str
        How the fit ended, in a sentence.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    PCA : Straight lines and planes.
    Autoencoder : An encoder in the place of the projection.
    probsfa.LaplacianEigenmaps : Coordinates without a curve.

    Notes
    -----
    Distances are those of the columns as they are; scale columns of different units first. The objective has
    several minima; a start that orders the rows rightly matters more than anything else. The curve begins
    where the coordinate that it goes on with correlates positively with the column that it is most
    correlated with.

    References
    ----------
    Ravikumar, P. Representation Learning, lecture notes of 10716: Advanced Machine Learning, section 3.1.
    Smola, Mika, Schoelkopf & Williamson (2001), Regularized principal manifolds, Journal of Machine Learning
    Research 1:179.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.extensions import PrincipalCurve
    >>> angle = np.linspace(0.0, np.pi, 200)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X = circle + 0.05 * np.random.default_rng(0).standard_normal((200, 2))
    >>> curve = PrincipalCurve(regularization=0.003).fit(X)
    >>> bool(abs(curve.length_ - np.pi) < 0.2), curve.transform(X).shape
    (True, (200, 1))
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_landmarks: int | None = None,
        bandwidth: float = 0.1,
        regularization: float = 1e-3,
        coordinate: str = "auto",
        init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
    ) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.coordinate = coordinate
        self.init = init
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the curve by projection and closed-form update in turn.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Complete rows.
        y : ignored

        Returns
        -------
        PrincipalCurve
            The fitted estimator. Interrupted, it has the best curve so far.

        Raises
        ------
        ValueError
            If a parameter is out of its range, or `X` is constant or not complete.

        Warns
        -----
        ConvergenceWarning
            If the fit was interrupted or took `max_iter` rounds.
        """
        k = self._check_parameters()
        values, mean = self._check_training_rows(X)
        centred = values - mean
        default = 50 if k == 1 else 100
        count = (
            default if self.n_landmarks is None else check_count("n_landmarks", self.n_landmarks, minimum=2)
        )
        landmarks = landmark_grid(count, k)
        best: _Descent | None = None
        starts = self._starts(centred, k)
        # The starts run a short way each, and the best of them on to the end.
        rounds = self.max_iter if len(starts) == 1 else min(_ROUNDS_OF_START, self.max_iter)
        for start in starts:
            descent = _descend(self, centred, start, landmarks, rounds, [])
            if best is None or descent.history[-1] < best.history[-1]:
                best = descent
            if descent.status == "interrupted":
                best = best._replace(status="interrupted")
                break
        assert best is not None
        if best.status == "max_iter" and rounds < self.max_iter:
            best = _descend(self, centred, best.coordinates, landmarks, self.max_iter - rounds, best.history)
        self.mean_ = mean
        self._set_fitted(values, landmarks, best)
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=2)
        return self

    def _check_parameters(self) -> int:
        k = check_count("n_components", self.n_components)
        if k > 2:
            raise ValueError(f"n_components must be 1, for a curve, or 2, for a surface; got {k}.")
        check_positive("bandwidth", self.bandwidth)
        check_positive("regularization", self.regularization)
        check_option("coordinate", self.coordinate, ("auto", "arc_length", "latent"))
        if self.coordinate == "arc_length" and k > 1:
            raise ValueError("coordinate='arc_length' is for curves; a surface has no arc length.")
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)
        return k

    def _starts(self, centred: FloatArray, k: int) -> list[FloatArray]:
        """Coordinates (N, k) from which to descend."""
        if not isinstance(self.init, str):
            given = np.asarray(self.init, dtype=np.float64)
            if given.shape != (len(centred), k) or not np.all((given >= 0.0) & (given <= 1.0)):
                raise ValueError(
                    f"init must have shape ({len(centred)}, {k}) and numbers from 0 to 1, or be one of "
                    f"{', '.join(map(repr, _INITS))}; got an array of shape {given.shape}."
                )
            return [given]
        check_option("init", self.init, _INITS)
        starts = []
        if self.init in ("auto", "pca"):
            starts.append(_ranks(_principal_coordinates(centred, k)))
        if self.init in ("auto", "eigenmap"):
            embedded = _eigenmap_coordinates(centred, k)
            if embedded is not None:
                starts.append(_ranks(embedded))
        return starts if starts else [_ranks(_principal_coordinates(centred, k))]

    def _set_fitted(self, values: FloatArray, landmarks: FloatArray, best: "_Descent") -> None:
        coordinates = best.coordinates
        scales = values.std(axis=0)
        covariances = (values - self.mean_).T @ (coordinates - coordinates.mean(axis=0)) / len(values)
        backwards = canonical_signs(covariances, scales) < 0.0
        self.coordinates_ = np.where(backwards, 1.0 - coordinates, coordinates)
        # The grid is its own mirror image.
        shape = (round(len(landmarks) ** (1.0 / landmarks.shape[1])),) * landmarks.shape[1]
        coefficients = best.manifold.coefficients.reshape(*shape, -1)
        coefficients = np.flip(coefficients, axis=tuple(np.flatnonzero(backwards).tolist()))
        self.landmarks_ = landmarks
        self.coefficients_ = np.ascontiguousarray(coefficients).reshape(len(landmarks), -1)
        self.bandwidth_ = float(self.bandwidth)
        self.is_curve_length_ = self.coordinate == "arc_length" or (
            self.coordinate == "auto" and landmarks.shape[1] == 1
        )
        self.length_ = np.nan
        if landmarks.shape[1] == 1:
            last = self.coordinates_.max()
            self.length_ = float(np.interp(last, np.linspace(0.0, 1.0, _FINE), self._lengths()))
        self.history_ = np.array(best.history)
        self.objective_ = best.history[-1]
        self.n_iter_ = len(best.history)
        self.converged_ = best.status == "converged"
        self.status_ = status_sentence(
            best.status,
            self.n_iter_,
            self.max_iter,
            unfinished="; the objective was still falling",
            best="this is the best curve",
        )

    @property
    def _manifold(self) -> KernelManifold:
        return KernelManifold(self.landmarks_, self.bandwidth_, self.coefficients_)

    def _lengths(self) -> FloatArray:
        """Length of the curve from the first training row on it, at equally spaced ``z``."""
        z = np.linspace(0.0, 1.0, _FINE)
        steps = np.linalg.norm(np.diff(self._manifold(z[:, None]), axis=0), axis=1)
        lengths = np.append(0.0, np.cumsum(steps))
        return np.asarray(lengths - np.interp(self.coordinates_.min(), z, lengths))

    def _encode(self, values: FloatArray) -> FloatArray:
        coordinates = project(self._manifold, values - self.mean_)
        if self.is_curve_length_:
            coordinates = np.interp(coordinates, np.linspace(0.0, 1.0, _FINE), self._lengths())
        return coordinates

    def _decode(self, codes: FloatArray) -> FloatArray:
        if self.is_curve_length_:
            lengths = self._lengths()
            rising = np.append(True, np.diff(lengths) > 0.0)
            codes = np.interp(codes, lengths[rising], np.linspace(0.0, 1.0, _FINE)[rising])
        return self.mean_ + self._manifold(np.clip(codes, 0.0, 1.0))

    @property
    def _n_features_out(self) -> int:
        return int(self.landmarks_.shape[1])


class _Descent(NamedTuple):
    """Where alternating projection and update ended."""

    manifold: KernelManifold
    coordinates: FloatArray
    history: list[float]
    status: str


@one_blas_thread()  # the products are small: threads would only wait for each other
def _descend(
    options: PrincipalCurve,
    X: FloatArray,
    coordinates: FloatArray,
    landmarks: FloatArray,
    rounds: int,
    before: list[float],
) -> _Descent:
    """Lower the objective in turn over the curve and over the coordinates of the rows."""
    history = list(before)
    status = "max_iter"
    bandwidth, regularization = float(options.bandwidth), float(options.regularization)
    manifold = solve_coefficients(X, coordinates, landmarks, bandwidth, regularization)
    try:
        for _ in range(rounds):
            projected = project(manifold, X, coordinates, _NEWTON_STEPS)
            updated = solve_coefficients(X, projected, landmarks, bandwidth, regularization)
            objective = updated.objective(X, projected, regularization)
            if history and objective >= history[-1]:  # rounding is all that is left
                status = "converged"
                break
            manifold, coordinates = updated, projected
            history.append(objective)
            if len(history) > 1 and history[-2] - objective <= options.tol * history[-2]:
                status = "converged"
                break
    except KeyboardInterrupt:
        status = "interrupted"
    if not history:
        history.append(manifold.objective(X, coordinates, regularization))
    return _Descent(manifold, coordinates, history, status)


def _principal_coordinates(centred: FloatArray, k: int) -> FloatArray:
    """Scores (N, k) on the first principal components; zero where there are fewer."""
    directions = np.linalg.svd(centred, full_matrices=False)[2][:k]
    scores = np.zeros((len(centred), k))
    scores[:, : len(directions)] = centred @ directions.T
    return scores


def _eigenmap_coordinates(centred: FloatArray, k: int) -> FloatArray | None:
    """Coordinates (N, k) in which nearest neighbours are close; None where the rows fall apart."""
    chosen = np.unique(np.linspace(0, len(centred) - 1, _MOST_ROWS_OF_START).astype(int))
    rows = centred[chosen]
    if len(rows) <= k + 2:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a graph in several parts
            embedded = LaplacianEigenmaps(k).fit(rows).embedding_
    except (UserWarning, ValueError):
        return None
    if len(rows) == len(centred):
        return np.asarray(embedded)
    size = np.sum(rows**2, axis=1)
    nearest = np.concatenate(
        [
            np.argmin(size - 2.0 * part @ rows.T, axis=1)
            for part in np.array_split(centred, -(-len(centred) // 1000))
        ]
    )
    return np.asarray(embedded[nearest])


def _ranks(scores: FloatArray) -> FloatArray:
    """Ranks of the rows in each column, from 0 to 1."""
    ranks = np.argsort(np.argsort(scores, axis=0, kind="stable"), axis=0)
    return np.asarray(ranks / max(len(scores) - 1, 1), dtype=np.float64)
