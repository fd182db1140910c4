"""Observation noise: the structure of its variances, how they are learned, and Student-t noise."""

from probsfa.statespace.noise.gaussian import STRUCTURES, NoiseVariances
from probsfa.statespace.noise.student import StudentNoise

__all__ = ["STRUCTURES", "NoiseVariances", "StudentNoise"]
