"""Regularized sparse kernel slow feature analysis."""

from probsfa.sfa.kernel.estimator import KernelSFA as KernelSFA
from probsfa.sfa.kernel.estimator import RegularizationPath as RegularizationPath

__all__ = ["KernelSFA", "RegularizationPath"]
