"""Relabelling of unconstrained draws to match a maximum of the posterior, if the priors are symmetric."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.batches import factor_coordinates
from probsfa.bayes.coordinates.rotation import (
    MAX_TIMESCALE_ERROR,
    RotationFrame,
    align,
    may_merge,
    restricted,
)
from probsfa.bayes.coordinates.symmetry import RELATIVE_WIDTH, SymmetryReference
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.relabelling.matching import Relabelling, relabel
from probsfa.bayes.sampling.laplace import LaplaceApproximation


class Labelling:
    """Labelling of the factors at a maximum of the posterior density, used as reference for draws.

    Parameters
    ----------
    target : Target
        The posterior.
    laplace : LaplaceApproximation
        The maximum, and posterior standard deviations.
    frame : RotationFrame or None
        Frame of rotations in the coordinates of the target.
    """

    def __init__(self, target: Target, laplace: LaplaceApproximation, frame: RotationFrame | None) -> None:
        self._target, self._frame = target, frame
        self._timescale, self._loadings = (target.slices[name] for name in ("timescale", "loadings"))
        timescale, loadings = self._factor_coordinates(laplace.centre[None])
        std = np.maximum(laplace.std, 1e-300)
        # Near the reference of the frame, rotated coordinates equal time scales and loadings to first order;
        # therefore the standard deviations are equal.
        widths = std[self._timescale], std[self._loadings].reshape(loadings[0].shape)
        self._reference = SymmetryReference(timescale[0], loadings[0], *widths)

    @property
    def symmetry_reference(self) -> SymmetryReference | None:
        """Return the reference of the weight that selects this labelling; None if no weight is needed.

        No weight is needed if the priors are not symmetric in the signs of the factors, or if all equivalent
        modes have the same coordinates.
        """
        n_rotated = 0 if self._frame is None else len(self._frame.members)
        if not self._target.symmetry.signs or n_rotated == self._target.n_components:
            return None
        reference = self._reference
        return reference._replace(
            timescale_width=RELATIVE_WIDTH * reference.timescale_width,
            loadings_width=RELATIVE_WIDTH * reference.loadings_width,
        )

    def to_vector(self, values: dict[str, Any]) -> FloatArray:
        """Return the coordinates (P,) of values of all sites."""
        vector = self._target.to_vector(values)
        if self._frame is not None:
            loadings = vector[self._loadings].reshape(-1, self._target.n_components)
            timescale, loadings = align(self._frame, vector[self._timescale], loadings)
            vector[self._timescale], vector[self._loadings] = timescale, loadings.ravel()
        return vector

    def _factor_coordinates(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the unconstrained time scales (N, K) and loadings (N, D, K) at vectors (N, P)."""
        return factor_coordinates(self._target, self._frame, vectors)

    def relabel(self, vectors: FloatArray) -> Relabelling:
        """Return the relabelling of draws (N, P)."""
        n, k = len(vectors), self._target.n_components
        unchanged = Relabelling(np.tile(np.arange(k), (n, 1)), np.ones((n, k)))
        if not self._target.symmetry.signs:
            return unchanged
        timescales, loadings = self._factor_coordinates(vectors)
        if self._target.symmetry.order:
            return relabel(timescales, loadings, *self._reference)
        weighted_reference = self._reference.loadings / self._reference.loadings_width**2
        projections = np.einsum("ndk,dk->nk", loadings, weighted_reference)
        return unchanged._replace(signs=np.where(projections < 0.0, -1.0, 1.0))

    def fold(self, vectors: FloatArray) -> FloatArray:
        """Return vectors (..., P) in the labelling of the maximum, with positive coordinates of the noise."""
        flat = vectors.reshape(-1, vectors.shape[-1]).copy()
        if self._target.has_signed_noise_std:
            noise = self._target.slices["noise_std"]
            flat[:, noise] = np.abs(flat[:, noise])
        relabelling = self.relabel(flat)
        timescales, loadings = self._factor_coordinates(flat)
        timescales, loadings = relabelling.apply(timescales, signed=False), relabelling.apply(loadings)
        if self._frame is not None:
            pairs = [align(self._frame, *pair) for pair in zip(timescales, loadings, strict=True)]
            timescales, loadings = map(np.array, zip(*pairs, strict=True))
        flat[:, self._timescale] = timescales
        flat[:, self._loadings] = loadings.reshape(len(flat), -1)
        return flat.reshape(vectors.shape)


def references_of_modes(labellings: Sequence[Labelling]) -> SymmetryReference | None:
    """Return the references of the weight of several modes, stacked; None if no weight is needed."""
    references = [
        reference for reference in (labelling.symmetry_reference for labelling in labellings) if reference
    ]
    if len(references) <= 1:
        return references[0] if references else None
    return SymmetryReference(*(np.stack(parts) for parts in zip(*references, strict=True)))


def reliable_frame(
    target: Target, frame: RotationFrame | None, laplace: LaplaceApproximation
) -> RotationFrame | None:
    """Return the frame without the factors whose time scales are uncertain near the maximum.

    Draws of such factors would reach the spike of the density at equal time scales (see `choose_frame`). The
    result is None if fewer than two factors remain, or if the maximum itself may be in the spike.
    """
    if frame is None:
        return None
    members, errors = np.asarray(frame.members), laplace.std[target.slices["timescale"]]
    is_precise = errors[members] <= MAX_TIMESCALE_ERROR
    coordinate = factor_coordinates(target, frame, laplace.centre[None])[0][0]
    if np.sum(is_precise) < 2 or may_merge(members[is_precise], coordinate, errors):
        return None
    return frame if np.all(is_precise) else restricted(frame, is_precise)
