"""Deterministic slow feature analysis."""

from probsfa.sfa.linear import SFA as SFA
