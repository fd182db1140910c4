"""What a posterior density is conditioned on, and what its coordinates refer to."""

from typing import Any, NamedTuple

from probsfa.bayes.coordinates.offset_scale import OffsetScale
from probsfa.bayes.coordinates.rotation import RotationFrame
from probsfa.bayes.coordinates.symmetry import SymmetryReference
from probsfa.bayes.model import Series


class Chart(NamedTuple):
    """References of the coordinates; None where the parameters themselves are the coordinates.

    Attributes
    ----------
    rotation : RotationFrame or None
        Reference of the rotations among latents.
    offset_scale : OffsetScale or None
        What the offset is in units of.
    """

    rotation: RotationFrame | None = None
    offset_scale: OffsetScale | None = None


class TargetData(NamedTuple):
    """What changes from fit to fit while the compiled programs stay.

    Attributes
    ----------
    series : Series
        The observations.
    known_noise : Array (D,) or None
        Noise variances, where they are known.
    symmetry_reference : SymmetryReference or None
        Which of the posterior's mirror images is wanted, if only one is.
    chart : Chart
        What the coordinates refer to.
    least_noise : Array (D,) or None
        Variances below which noise is too small to compute with.
    phase_reference : Array (D, 2 R) or None
        Loadings of the cycles whose phases are wanted, if there are cycles.
    """

    series: Series
    known_noise: Any = None
    symmetry_reference: SymmetryReference | None = None
    chart: Chart = Chart()
    least_noise: Any = None
    phase_reference: Any = None
