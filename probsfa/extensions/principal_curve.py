"""Principal curves and surfaces as an estimator."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from probsfa._frames import lists_in_lists_out
from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_memory, check_option
from probsfa.expansions._base import check_positive
from probsfa.extensions._kernel_manifold import KernelManifold, landmark_grid, project, solve_coefficients
from probsfa.extensions._ordering import (
    MAX_ROWS,
    eigenmap_coordinates,
    principal_coordinates,
    ranks,
)
from probsfa.extensions._reconstruction import Reconstruction
from probsfa.extensions._status import status_sentence
from probsfa.linalg import canonical_signs

__all__ = ["PrincipalCurve"]

_INITS = ("auto", "pca", "eigenmap")
_SHORT_RUN_ITERATIONS = 30
# Candidate widths of the kernel: the smallest for tightly wound curves such as spirals, the largest for arcs
# and lines.
_BANDWIDTHS = (0.1, 0.2, 0.4)
_MIN_SELECTION_ROWS = 20  # minimum number of rows for the selection of a bandwidth
_NOISE_ITERATIONS = 30  # EM iterations for the noise variance
_NEWTON_ITERATIONS = 3  # Newton steps of the projection in each iteration
_N_TABLE_POINTS = 4001  # number of points in the table of arc lengths


@lists_in_lists_out
class PrincipalCurve(Reconstruction):
    """Principal curve or surface: a smooth curve through the middle of the rows.

    The curve is a function ``f`` from ``[0, 1]^k`` to the space of the rows. It minimizes the mean squared
    distance of a row from the nearest point ``f(z)``, plus a penalty. The penalty is the squared norm of
    ``f`` in the reproducing kernel Hilbert space of a Gaussian kernel.

    Parameters
    ----------
    n_components : int, default=1
        Dimension ``k``: 1 for a curve, 2 for a surface.
    n_landmarks : int, optional
        Approximate number ``M`` of kernels, with centres on a regular grid; by default 50 for a curve and 100
        for a surface.
    bandwidth : float or "auto", default="auto"
        Width ``h`` of the kernel ``exp(-|z - u|^2 / (2 h^2))``, in units of the coordinate ``z`` in [0, 1];
        smaller values allow more bends. "auto" chooses among 0.1, 0.2 and 0.4 for curves, by the likelihood
        of held-out rows; it is 0.1 for surfaces and for fewer than 20 rows.
    regularization : float, default=1e-3
        Weight ``lambda`` of half the squared norm of ``f``; larger values give straighter curves.
    coordinate : {"auto", "arc_length", "latent"}, default="auto"
        Output of ``transform``: "arc_length" is the arc length in units of the data, zero at the training row
        with the smallest ``z``; "latent" is ``z`` in ``[0, 1]^k``. "auto" is "arc_length" for curves and
        "latent" for surfaces.
    init : {"auto", "pca", "eigenmap"} or array-like (N, k), default="auto"
        Starting coordinates of the rows, in [0, 1]. "pca": ranks of the scores on the principal components.
        "eigenmap": ranks of the coordinates of a Laplacian eigenmap of nearest neighbours, which unfolds
        spirals; if its graph is not connected, "pca" is used. "auto" tries "pca" and "eigenmap" and selects
        the result with the smaller objective.
    max_iter : int, default=300
        Maximum number of iterations of projection and closed-form update.
    tol : float, default=1e-3
        The fit stops if the relative decrease of the objective in an iteration is smaller than `tol`.

    Attributes
    ----------
    landmarks_ : ndarray (M, k)
        Centres ``l_j`` of the kernels.
    coefficients_ : ndarray (M, D)
        ``alpha_j`` with ``f(z) = mean_ + sum_j alpha_j K(l_j, z)``.
    coordinates_ : ndarray (N, k)
        Coordinates ``z`` of the training rows.
    mean_ : ndarray (D,)
        Mean of the training rows.
    bandwidth_ : float
        The width of the kernel.
    length_ : float
        Length of the curve from the first to the last training row on it; NaN for surfaces.
    objective_ : float
        Mean squared distance plus penalty.
    history_ : ndarray (n_iter_,)
        The objective after each iteration; never increases.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the relative decrease of the objective in the last iteration was less than `tol`.
    status_ : str
        How the fit ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    sklearn.decomposition.PCA : Straight lines and planes.
    Autoencoder : A learned encoder instead of the projection.
    probsfa.LaplacianEigenmaps : Coordinates from a graph of neighbours.

    Notes
    -----
    The bandwidth is selected by twofold cross-validation on at most 2000 rows. The criterion is the
    likelihood of held-out rows under a mixture of equal Gaussians at the projections of the training rows.
    Distances of held-out rows from the curve are not suitable, because a curve that zigzags across noisy rows
    is close to all of them. The widest kernel whose likelihood is within a standard error of the best one is
    selected.

    Columns are not scaled; scale columns of different units first. The objective has several local minima, so
    that the result depends on the initial coordinates (`init`). The direction of a coordinate is chosen such
    that its largest absolute correlation with a column is positive.

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
    >>> semicircle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X = semicircle + 0.05 * np.random.default_rng(0).standard_normal((200, 2))
    >>> curve = PrincipalCurve().fit(X)
    >>> bool(abs(curve.length_ - np.pi) < 0.2), curve.transform(X).shape
    (True, (200, 1))
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_landmarks: int | None = None,
        bandwidth: float | str = "auto",
        regularization: float = 1e-3,
        coordinate: str = "auto",
        init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-3,
    ) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.coordinate = coordinate
        self.init = init
        self.max_iter = max_iter
        self.tol = tol

    def _learn(self, values: FloatArray, mean: FloatArray) -> None:
        """Fit the curve by alternating projection and closed-form update."""
        k = self.n_components
        centred = values - mean
        default = 50 if k == 1 else 100
        count = (
            default if self.n_landmarks is None else check_count("n_landmarks", self.n_landmarks, minimum=2)
        )
        check_memory(
            8.0 * count**2, f"n_landmarks={count:,} needs {{size}} for the kernel", "Use fewer landmarks."
        )
        landmarks = landmark_grid(count, k)
        starts = self._starts(centred, k, np.arange(len(centred)))
        settings, interrupted = self._settings(centred, landmarks)
        if interrupted:
            best = _minimize(settings._replace(max_iter=0), centred, starts[0], landmarks, [])
            best = best._replace(status="interrupted")
        else:
            best = _minimize_from_starts(starts, settings, centred, landmarks)
        self.mean_, self.bandwidth_ = mean, settings.bandwidth
        self._set_fitted(values, landmarks, best)

    def _check_parameters(self) -> None:
        k = check_count("n_components", self.n_components)
        if k > 2:
            raise ValueError(f"n_components must be 1, for a curve, or 2, for a surface; got {k}.")
        if self.bandwidth != "auto":
            check_positive("bandwidth", self.bandwidth)
        check_positive("regularization", self.regularization)
        check_option("coordinate", self.coordinate, ("auto", "arc_length", "latent"))
        if self.coordinate == "arc_length" and k > 1:
            raise ValueError("coordinate='arc_length' is for curves; a surface has no arc length.")
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)

    def _settings(self, centred: FloatArray, landmarks: FloatArray) -> "tuple[_Settings, bool]":
        """Return the settings, with the selected bandwidth, and whether the selection was interrupted."""
        settings = _Settings(0.0, float(self.regularization), self.max_iter, float(self.tol))
        if self.bandwidth != "auto":
            return settings._replace(bandwidth=float(self.bandwidth)), False
        selected = settings._replace(bandwidth=_BANDWIDTHS[0])
        if landmarks.shape[1] > 1 or len(centred) < _MIN_SELECTION_ROWS:
            return selected, False
        rows = np.unique(np.linspace(0, len(centred) - 1, MAX_ROWS).astype(int))
        halves = [(rows[i::2], rows[1 - i :: 2]) for i in range(2)]
        starts = [self._starts(centred, 1, train) for train, _ in halves]
        held_out_scores = []
        for bandwidth in _BANDWIDTHS:
            log_densities = []
            for (train, test), start in zip(halves, starts, strict=True):
                candidate = settings._replace(bandwidth=bandwidth)
                minimization = _minimize_from_starts(start, candidate, centred[train], landmarks)
                if minimization.status == "interrupted":
                    return selected, True
                points = minimization.manifold(minimization.coordinates)
                log_densities.append(_mixture_log_densities(points, centred[test]))
            held_out_scores.append(np.concatenate(log_densities))
        best = max(held_out_scores, key=np.sum)
        differences = [best - scores for scores in held_out_scores]
        is_within_one_error = [
            difference.mean() <= difference.std() / np.sqrt(len(difference)) for difference in differences
        ]
        largest_bandwidth = max(
            width
            for width, is_candidate in zip(_BANDWIDTHS, is_within_one_error, strict=True)
            if is_candidate
        )
        return settings._replace(bandwidth=largest_bandwidth), False

    def _starts(self, centred: FloatArray, k: int, rows: NDArray[np.intp]) -> list[FloatArray]:
        """Return one or two arrays (n, k) of starting coordinates for the rows with indices `rows` (n,)."""
        if not isinstance(self.init, str):
            coordinates = np.asarray(self.init, dtype=np.float64)
            if coordinates.shape != (len(centred), k) or not np.all(
                (coordinates >= 0.0) & (coordinates <= 1.0)
            ):
                raise ValueError(
                    f"init must have shape ({len(centred)}, {k}) and numbers from 0 to 1, or be one of "
                    f"{', '.join(map(repr, _INITS))}; got an array of shape {coordinates.shape}."
                )
            return [coordinates[rows]]
        check_option("init", self.init, _INITS)
        centred = centred[rows]
        starts = []
        if self.init in ("auto", "pca"):
            starts.append(ranks(principal_coordinates(centred, k)))
        if self.init in ("auto", "eigenmap"):
            embedded = eigenmap_coordinates(centred, k)
            if embedded is not None:
                starts.append(ranks(embedded))
        return starts if starts else [ranks(principal_coordinates(centred, k))]

    def _set_fitted(self, values: FloatArray, landmarks: FloatArray, best: "_Minimization") -> None:
        coordinates = best.coordinates
        scales = values.std(axis=0)
        covariances = (values - self.mean_).T @ (coordinates - coordinates.mean(axis=0)) / len(values)
        is_reversed = canonical_signs(covariances, scales) < 0.0
        self.coordinates_ = np.where(is_reversed, 1.0 - coordinates, coordinates)
        # Reversed coordinates correspond to reversed landmarks, because the grid is symmetric.
        shape = (round(len(landmarks) ** (1.0 / landmarks.shape[1])),) * landmarks.shape[1]
        coefficients = best.manifold.coefficients.reshape(*shape, -1)
        coefficients = np.flip(coefficients, axis=tuple(np.flatnonzero(is_reversed).tolist()))
        self.landmarks_ = landmarks
        self.coefficients_ = np.ascontiguousarray(coefficients).reshape(len(landmarks), -1)
        self.is_curve_length_ = self.coordinate == "arc_length" or (
            self.coordinate == "auto" and landmarks.shape[1] == 1
        )
        self.length_ = np.nan
        if landmarks.shape[1] == 1:
            last = self.coordinates_.max()
            self.length_ = float(np.interp(last, np.linspace(0.0, 1.0, _N_TABLE_POINTS), self._lengths()))
        self.history_ = np.array(best.history)
        self.objective_ = best.history[-1]
        self.n_iter_ = len(best.history)
        self.converged_ = best.status == "converged"
        self.status_ = status_sentence(
            best.status,
            self.n_iter_,
            self.max_iter,
            unfinished="; the objective was still decreasing",
            best="this is the best curve",
        )

    @property
    def _manifold(self) -> KernelManifold:
        return KernelManifold(self.landmarks_, self.bandwidth_, self.coefficients_)

    def _lengths(self) -> FloatArray:
        """Return arc lengths at equally spaced ``z``; zero at the training row with the smallest ``z``."""
        z = np.linspace(0.0, 1.0, _N_TABLE_POINTS)
        steps = np.linalg.norm(np.diff(self._manifold(z[:, None]), axis=0), axis=1)
        lengths = np.append(0.0, np.cumsum(steps))
        return np.asarray(lengths - np.interp(self.coordinates_.min(), z, lengths))

    def _outputs(self, values: FloatArray) -> FloatArray:
        coordinates = project(self._manifold, values - self.mean_)
        if self.is_curve_length_:
            coordinates = np.interp(coordinates, np.linspace(0.0, 1.0, _N_TABLE_POINTS), self._lengths())
        return coordinates

    def _inputs(self, codes: FloatArray) -> FloatArray:
        if self.is_curve_length_:
            lengths = self._lengths()
            is_increasing = np.append(True, np.diff(lengths) > 0.0)
            codes = np.interp(
                codes, lengths[is_increasing], np.linspace(0.0, 1.0, _N_TABLE_POINTS)[is_increasing]
            )
        return self.mean_ + self._manifold(np.clip(codes, 0.0, 1.0))

    @property
    def _n_features_out(self) -> int:
        return int(self.landmarks_.shape[1])


class _Settings(NamedTuple):
    """Settings of the minimization; see :class:`PrincipalCurve`."""

    bandwidth: float
    regularization: float
    max_iter: int
    tol: float


class _Minimization(NamedTuple):
    """Result of the minimization."""

    manifold: KernelManifold
    coordinates: FloatArray
    history: list[float]
    status: str


def _minimize_from_starts(
    starts: list[FloatArray], settings: _Settings, X: FloatArray, landmarks: FloatArray
) -> _Minimization:
    """Run a few iterations from each start, and continue the best run to convergence."""
    best: _Minimization | None = None
    n_iterations = settings.max_iter if len(starts) == 1 else min(_SHORT_RUN_ITERATIONS, settings.max_iter)
    for start in starts:
        minimization = _minimize(settings._replace(max_iter=n_iterations), X, start, landmarks, [])
        if best is None or minimization.history[-1] < best.history[-1]:
            best = minimization
        if minimization.status == "interrupted":
            return best._replace(status="interrupted")
    assert best is not None
    if best.status == "max_iter" and n_iterations < settings.max_iter:
        remaining_settings = settings._replace(max_iter=settings.max_iter - n_iterations)
        best = _minimize(remaining_settings, X, best.coordinates, landmarks, best.history)
    return best


@one_blas_thread()  # the matrices are too small for several threads
def _minimize(
    settings: _Settings,
    X: FloatArray,
    coordinates: FloatArray,
    landmarks: FloatArray,
    previous: list[float],
) -> _Minimization:
    """Minimize the objective alternately over the curve and over the coordinates of the rows."""
    history = list(previous)
    status = "max_iter"
    bandwidth, regularization = settings.bandwidth, settings.regularization
    manifold = solve_coefficients(X, coordinates, landmarks, bandwidth, regularization)
    try:
        for _ in range(settings.max_iter):
            projected = project(manifold, X, coordinates, _NEWTON_ITERATIONS)
            updated = solve_coefficients(X, projected, landmarks, bandwidth, regularization)
            objective = updated.objective(X, projected, regularization)
            if history and objective >= history[-1]:  # only rounding errors remain
                status = "converged"
                break
            manifold, coordinates = updated, projected
            history.append(objective)
            if len(history) > 1 and history[-2] - objective <= settings.tol * history[-2]:
                status = "converged"
                break
    except KeyboardInterrupt:
        status = "interrupted"
    if not history:
        history.append(manifold.objective(X, coordinates, regularization))
    return _Minimization(manifold, coordinates, history, status)


def _mixture_log_densities(points: FloatArray, rows: FloatArray) -> FloatArray:
    """Return log densities (n,) of rows (n, D) under a mixture of Gaussians of equal weight at points (m, D).

    The common variance of the Gaussians maximizes the likelihood, by EM.
    """
    squared = np.sum(rows**2, axis=1)[:, None] - 2.0 * rows @ points.T + np.sum(points**2, axis=1)
    squared = np.maximum(squared, 0.0)
    n_features = rows.shape[1]
    minimum = 1e-12 * float(np.mean(squared))
    variance = max(float(np.mean(squared.min(axis=1))) / n_features, minimum)
    for _ in range(_NOISE_ITERATIONS):
        weights = np.exp((squared.min(axis=1, keepdims=True) - squared) / (2.0 * variance))
        weights /= weights.sum(axis=1, keepdims=True)
        variance = max(float(np.sum(weights * squared)) / rows.size, minimum)
    logs = logsumexp(-squared / (2.0 * variance), axis=1) - np.log(len(points))
    return np.asarray(logs - 0.5 * n_features * np.log(2.0 * np.pi * variance))
