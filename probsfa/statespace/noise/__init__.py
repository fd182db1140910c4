"""Observation noise: the structure of its variances, how they are learned, and Student-t noise."""

from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.noise.variances import STRUCTURES, NoiseVariances

__all__ = ["STRUCTURES", "NoiseVariances", "StudentNoise"]
