"""The eigenproblem of regularised sparse kernel SFA, whitened once and solved for any regularisation.

Boehmer et al. (2011), algorithm 1: fulfil zero mean and unit variance first (eqs. 9-11), then minimise
slowness plus ``lambda`` times the norm among what is left (eq. 12). Only the second step depends on
``lambda``, so a path of them costs one small eigenproblem each.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from probsfa._typing import FloatArray
from probsfa.graphs.moments import Moments
from probsfa.graphs.training_graph import GraphMoments
from probsfa.linalg import RankError, canonical_signs, whiten
from probsfa.sfa.kernel_moments import center_support

__all__ = ["KernelProblem", "KernelSolution", "check_rank", "pose", "solve"]

# Eigenvalues of a covariance of independent errors reach (1 + sqrt(m / n))^2 <= 4 times their variance.
_SPREAD_OF_ROUNDING = 4.0


class KernelProblem(NamedTuple):
    """Slowness and norm in white coordinates of the centred kernel functions.

    Attributes
    ----------
    mean : ndarray (m,)
        Mean of every kernel function over the rows.
    basis : ndarray (m, r)
        ``(g(x) - mean) @ basis`` is white; every column sums to zero (eq. 14).
    slowness : ndarray (r, r)
        Second moment of the differences of the white coordinates.
    norm : ndarray (r, r)
        Inner products of the white coordinates in the space of the kernel.
    loadings : ndarray (m, r)
        Covariances of kernel functions and white coordinates, for the signs.
    scales : ndarray (m,)
        Standard deviations of the kernel functions.
    n_rounded : int
        Directions above the tolerance of the rank that were left out all the same, because rounding of the
        kernel values alone gives them as much variance as they have.
    """

    mean: FloatArray
    basis: FloatArray
    slowness: FloatArray
    norm: FloatArray
    loadings: FloatArray
    scales: FloatArray
    n_rounded: int


class KernelSolution(NamedTuple):
    """Outputs for one regularisation.

    Attributes
    ----------
    coefficients : ndarray (m, K)
        ``y(x) = (g(x) - mean) @ coefficients``.
    delta_values : ndarray (K,)
        Mean squared change over the training rows, at unit variance.
    norms : ndarray (K,)
        Squared norms in the space of the kernel.
    """

    coefficients: FloatArray
    delta_values: FloatArray
    norms: FloatArray


def pose(moments: Moments | GraphMoments, gram: FloatArray, rank_tol: float | None = None) -> KernelProblem:
    """Centre and whiten.

    Parameters
    ----------
    moments : Moments or GraphMoments
        Of the m kernel functions over the training rows.
    gram : ndarray (m, m)
        Kernel between the support vectors, ``Kbar``.
    rank_tol : float, optional
        As in :func:`probsfa.linalg.whiten`; it decides which eigenvalues of ``K K'`` count as zero.

    Notes
    -----
    Kernel values are rounded at their last digit, whatever they vary by: where a wide Gaussian lies within
    1e-12 of one, four digits of the functions are left. Errors of variance ``s^2`` in every function have
    the variance ``s^2 |w|^2`` in the white coordinate ``w``, so coordinates where that comes near one are
    rounding and nothing else, and are left out.
    """
    covariance = moments.covariance
    floor = float(moments.variance_floor.max())
    white = whiten(center_support(covariance), rank_tol=rank_tol, variance_floor=floor)
    rounding = _SPREAD_OF_ROUNDING * floor * np.sum(white.matrix**2, axis=0)
    kept = white.matrix[:, rounding < 1]
    basis = kept - kept.mean(axis=0)
    return KernelProblem(
        mean=moments.mean,
        basis=basis,
        slowness=basis.T @ (moments.difference_moment @ basis),
        norm=basis.T @ (gram @ basis),
        loadings=covariance @ basis,
        scales=np.sqrt(np.maximum(np.diagonal(covariance), 0.0)),
        n_rounded=white.rank - kept.shape[1],
    )


def solve(problem: KernelProblem, n_components: int, regularization: float = 0.0) -> KernelSolution:
    """Minimise slowness plus `regularization` times the norm.

    Parameters
    ----------
    problem : KernelProblem
        From :func:`pose`.
    n_components : int
        How many outputs, in ascending order of what is minimised.
    regularization : float, default=0.0
        ``lambda``, at least 0.

    Raises
    ------
    RankError
        If the kernel functions span fewer dimensions.
    """
    check_rank(problem, n_components)
    rank = problem.basis.shape[1]
    objective = problem.slowness
    if regularization > 0:
        objective = objective + regularization * problem.norm
    last = None if n_components == rank else (0, n_components - 1)
    _, rotation = scipy.linalg.eigh((objective + objective.T) / 2, subset_by_index=last)
    rotation = rotation * canonical_signs(problem.loadings @ rotation, problem.scales)
    return KernelSolution(
        coefficients=problem.basis @ rotation,
        delta_values=np.maximum(np.sum(rotation * (problem.slowness @ rotation), axis=0), 0.0),
        norms=np.sum(rotation * (problem.norm @ rotation), axis=0),
    )


def check_rank(problem: KernelProblem, n_components: int) -> None:
    """Raise a RankError if the kernel functions span fewer dimensions than that."""
    m, rank = problem.basis.shape
    if n_components > rank:
        remedy = "Use more support vectors, another kernel, or a lower rank_tol."
        if problem.n_rounded or not rank:
            hidden = f"{problem.n_rounded} more" if problem.n_rounded else "any that there are"
            remedy = (
                f"Rounding of the kernel values hides {hidden}: bring X to a scale that fits the kernel, and "
                "subtract its mean."
            )
        raise RankError(
            f"n_components={n_components} is more than the {rank} dimensions in which the kernel functions "
            f"of {m} support vectors vary over X. {remedy}"
        )
