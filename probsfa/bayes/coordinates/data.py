"""Data of a posterior density, and references of its coordinates."""

from typing import Any, NamedTuple

from probsfa.bayes.coordinates.offset_scale import OffsetScale
from probsfa.bayes.coordinates.rotation import RotationFrame
from probsfa.bayes.coordinates.symmetry import SymmetryReference
from probsfa.bayes.model import Series


class Chart(NamedTuple):
    """References of the coordinates; None for parts that are sampled without these transformations.

    Attributes
    ----------
    rotation : RotationFrame or None
        Reference of the rotations of factors.
    offset_scale : OffsetScale or None
        Scale of the offset.
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
        Reference of the weight that selects one of the equivalent modes; None for the whole posterior.
    chart : Chart
        Coordinates.
    min_noise_variance : Array (D,) or None
        Lower bounds of the noise variances.
    phase_reference : Array (D, 2 R) or None
        Loadings that determine the phases of cycles, if there are cycles.
    """

    series: Series
    known_noise: Any = None
    symmetry_reference: SymmetryReference | None = None
    chart: Chart = Chart()
    min_noise_variance: Any = None
    phase_reference: Any = None
