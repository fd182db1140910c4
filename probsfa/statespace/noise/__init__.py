"""Observation noise: the structure of its variances, how they are learned, and noise with heavy tails."""

from probsfa.statespace.noise.gaussian import STRUCTURES, NoiseVariances
from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.noise.tails import HeavyTails

__all__ = ["STRUCTURES", "TAILS", "HeavyTails", "NoiseVariances", "StudentNoise"]

#: Noise with heavy tails by the value of the option `robust`, with the shape from which fits start.
TAILS: dict[str, HeavyTails] = {"cell": StudentNoise(), "row": StudentNoise(by_row=True)}
