"""Observation noise: structure and estimation of its variances, and heavy tails."""

from probsfa.statespace.noise.gaussian import STRUCTURES, NoiseVariances
from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.noise.tails import HeavyTails

__all__ = ["STRUCTURES", "TAILS", "HeavyTails", "NoiseVariances", "StudentNoise"]

#: Noise with heavy tails, with initial shape, by the value of the option `robust`.
TAILS: dict[str, HeavyTails] = {"cell": StudentNoise(), "row": StudentNoise(by_row=True)}
