"""Draws of a target brought to the labelling of its maximum, as far as its priors leave latents alike."""

import numpy as np
from numpy.typing import NDArray

from probsfa.bayes.coordinates.rotation import Frame, may_merge, turn_back
from probsfa.bayes.coordinates.symmetry import WIDTH, Anchor
from probsfa.bayes.coordinates.target import Target, latents
from probsfa.bayes.relabelling.matching import Relabelling, relabel
from probsfa.bayes.sampling.laplace import Whitening

FloatArray = NDArray[np.float64]


class Labels:
    """The labelling of the maximum of a target's density, in order of time scales.

    Parameters
    ----------
    target : Target
    whitening : Whitening
        Gives the reference and its spread.
    frame : Frame or None
        Frame of the rotations in the target's coordinates.
    """

    def __init__(self, target: Target, whitening: Whitening, frame: Frame | None) -> None:
        self._target, self._frame = target, frame
        self._timescale, self._loadings = (target.slices[name] for name in ("timescale", "loadings"))
        timescale, loadings = self._read(whitening.centre[None])
        std = np.maximum(whitening.std, 1e-300)
        # Near the reference of the frame a change of the coordinates is one of the loadings.
        spread = std[self._timescale], std[self._loadings].reshape(loadings[0].shape)
        self._reference = Anchor(timescale[0], loadings[0], *spread)

    @property
    def anchor(self) -> Anchor | None:
        """What keeps a sampler near this labelling; None where it needs nothing.

        That is where the priors give every latent its name, and where all images are one point already.
        """
        folded = 0 if self._frame is None else len(self._frame.members)
        if not self._target.symmetry.signs or folded == self._target.n_components:
            return None
        reference = self._reference
        return reference._replace(
            timescale_width=WIDTH * reference.timescale_width, loadings_width=WIDTH * reference.loadings_width
        )

    def _read(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates of the time scales (N, K) and of the loadings (N, D, K), the latter not rotated."""
        return latents(self._target, self._frame, vectors)

    def find(self, vectors: FloatArray) -> Relabelling:
        """Relabelling of draws (N, P)."""
        n, k = len(vectors), self._target.n_components
        as_they_are = Relabelling(np.tile(np.arange(k), (n, 1)), np.ones((n, k)))
        if not self._target.symmetry.signs:
            return as_they_are
        timescales, loadings = self._read(vectors)
        if self._target.symmetry.order:
            return relabel(timescales, loadings, *self._reference)
        weighted = self._reference.loadings / self._reference.loadings_width**2
        upright = np.einsum("ndk,dk->nk", loadings, weighted)
        return as_they_are._replace(signs=np.where(upright < 0.0, -1.0, 1.0))

    def fold(self, vectors: FloatArray) -> FloatArray:
        """Vectors (..., P) in the labelling of the maximum, magnitudes positive."""
        flat = vectors.reshape(-1, vectors.shape[-1]).copy()
        if self._target.by_magnitude:
            noise = self._target.slices["noise_std"]
            flat[:, noise] = np.abs(flat[:, noise])
        found = self.find(flat)
        timescales, loadings = self._read(flat)
        timescales, loadings = found.latents(timescales, signed=False), found.latents(loadings)
        if self._frame is not None:
            pairs = [turn_back(self._frame, *one) for one in zip(timescales, loadings, strict=True)]
            timescales, loadings = map(np.array, zip(*pairs, strict=True))
        flat[:, self._timescale] = timescales
        flat[:, self._loadings] = loadings.reshape(len(flat), -1)
        return flat.reshape(vectors.shape)


def merges(target: Target, frame: Frame | None, whitening: Whitening) -> bool:
    """Whether latents of a frame may have one time scale by the posterior's law near its maximum.

    The maximum itself may then be in the spike of the density that is there (see `choose_frame`).
    """
    if frame is None:
        return False
    coordinate = latents(target, frame, whitening.centre[None])[0][0]
    return may_merge(np.asarray(frame.members), coordinate, whitening.std[target.slices["timescale"]])
