"""Slow feature analysis, classic and probabilistic.

The few slow things behind a multivariate time series: in one eigenproblem where the series is clean and
complete (:class:`SFA`), and with honest error bars where it is noisy and has holes
(:class:`ProbabilisticSFA`, and :class:`BayesianSFA` where its parameters are uncertain too).

Importing this package loads none of the numerical libraries it stands on: a name is looked up when it is
first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probsfa import bayes as bayes
    from probsfa import datasets as datasets
    from probsfa import distributed as distributed
    from probsfa import expansions as expansions
    from probsfa import graphs as graphs
    from probsfa import imputation as imputation
    from probsfa import metrics as metrics
    from probsfa import plots as plots
    from probsfa._compilation import enable_compilation_cache as enable_compilation_cache
    from probsfa.bayes import BayesianSFA as BayesianSFA
    from probsfa.sfa import SFA as SFA
    from probsfa.sfa import GraphSFA as GraphSFA
    from probsfa.sfa import GraphSFAClassifier as GraphSFAClassifier
    from probsfa.sfa import GraphSFARegressor as GraphSFARegressor
    from probsfa.sfa import HierarchicalSFA as HierarchicalSFA
    from probsfa.sfa import KernelSFA as KernelSFA
    from probsfa.sfa import LaplacianEigenmaps as LaplacianEigenmaps
    from probsfa.sfa import Layer as Layer
    from probsfa.sfa import SpectralClustering as SpectralClustering
    from probsfa.statespace import ProbabilisticSFA as ProbabilisticSFA
    from probsfa.statespace import load as load
    from probsfa.statespace import on_devices as on_devices
    from probsfa.statespace import select_n_components as select_n_components

__version__ = "0.1.0"

_SUBMODULES = frozenset(
    {"bayes", "datasets", "distributed", "expansions", "graphs", "imputation", "metrics", "plots"}
)
_HOMES = {
    "SFA": "probsfa.sfa",
    "GraphSFA": "probsfa.sfa",
    "GraphSFAClassifier": "probsfa.sfa",
    "GraphSFARegressor": "probsfa.sfa",
    "HierarchicalSFA": "probsfa.sfa",
    "KernelSFA": "probsfa.sfa",
    "LaplacianEigenmaps": "probsfa.sfa",
    "Layer": "probsfa.sfa",
    "SpectralClustering": "probsfa.sfa",
    "ProbabilisticSFA": "probsfa.statespace",
    "BayesianSFA": "probsfa.bayes",
    "enable_compilation_cache": "probsfa._compilation",
    "load": "probsfa.statespace",
    "on_devices": "probsfa.statespace",
    "select_n_components": "probsfa.statespace",
}

__all__ = [
    "SFA",
    "GraphSFA",
    "GraphSFAClassifier",
    "GraphSFARegressor",
    "HierarchicalSFA",
    "KernelSFA",
    "LaplacianEigenmaps",
    "Layer",
    "SpectralClustering",
    "ProbabilisticSFA",
    "BayesianSFA",
    "__version__",
    "bayes",
    "datasets",
    "distributed",
    "enable_compilation_cache",
    "expansions",
    "graphs",
    "imputation",
    "load",
    "on_devices",
    "metrics",
    "plots",
    "select_n_components",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"probsfa.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'probsfa' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # found once, then as cheap as any other name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
