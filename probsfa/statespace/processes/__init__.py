"""Kinds of latent processes, one module each.

:data:`KINDS` lists the kinds of processes in addition to AR(1) factors, in the order of their states:
processes with few states first.
"""

from probsfa.statespace.processes.base import BlockMoments, Process
from probsfa.statespace.processes.matern import Matern32, Matern52
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.processes.trend import LocalLevel, LocalLinearTrend

__all__ = ["KINDS", "BlockMoments", "Process"]

KINDS: tuple[type[Process], ...] = (LocalLevel, Rhythm, Matern32, LocalLinearTrend, Matern52)
