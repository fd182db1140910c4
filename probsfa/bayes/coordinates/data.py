"""Data of a posterior density, and reference points of its coordinates."""

from typing import Any, NamedTuple

from probsfa.bayes.coordinates.offset_scale import OffsetScale
from probsfa.bayes.coordinates.rotation import RotationFrame
from probsfa.bayes.coordinates.symmetry import SymmetryReference
from probsfa.bayes.model import Series


class Chart(NamedTuple):
    """Reference points of two transformations of the coordinates; None for a transformation that is not used.

    Attributes
    ----------
    rotation : RotationFrame or None
        Reference point of the coordinates for rotations of factors.
    offset_scale : OffsetScale or None
        Reference point of the coordinates of the offset.
    """

    rotation: RotationFrame | None = None
    offset_scale: OffsetScale | None = None


class TargetData(NamedTuple):
    """Arguments of the compiled programs that differ between fits.

    Attributes
    ----------
    series : Series
        The observations.
    known_noise : Array (D,) or None
        Known noise variances.
    symmetry_reference : SymmetryReference or None
        Location of the mode that a weight selects among equivalent modes; None for the whole posterior.
    chart : Chart
        Reference points of the coordinates.
    min_noise_variance : Array (D,) or None
        Lower bounds of the noise variances.
    phase_reference : Array (D, 2 R) or None
        Loadings of the two states of each of R cycles, which determine the phases of the cycles.
    """

    series: Series
    known_noise: Any = None
    symmetry_reference: SymmetryReference | None = None
    chart: Chart = Chart()
    min_noise_variance: Any = None
    phase_reference: Any = None
