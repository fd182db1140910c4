"""Deterministic slow feature analysis."""

from probsfa.sfa.graph import GraphSFA as GraphSFA
from probsfa.sfa.hierarchical import HierarchicalSFA as HierarchicalSFA
from probsfa.sfa.hierarchical import Layer as Layer
from probsfa.sfa.hierarchical import cascade_layers as cascade_layers
from probsfa.sfa.hierarchical import escalante_wiskott_layers as escalante_wiskott_layers
from probsfa.sfa.igsfa import IGSFA as IGSFA
from probsfa.sfa.kernel.estimator import KernelSFA as KernelSFA
from probsfa.sfa.kernel.estimator import RegularizationPath as RegularizationPath
from probsfa.sfa.linear import SFA as SFA
from probsfa.sfa.spectral.clustering import SpectralClustering as SpectralClustering
from probsfa.sfa.spectral.clustering import eigengap as eigengap
from probsfa.sfa.spectral.diffusion import DiffusionMap as DiffusionMap
from probsfa.sfa.spectral.eigenmaps import LaplacianEigenmaps as LaplacianEigenmaps
from probsfa.sfa.supervised.classifier import GraphSFAClassifier as GraphSFAClassifier
from probsfa.sfa.supervised.regressor import GraphSFARegressor as GraphSFARegressor
from probsfa.sfa.xsfa import XSFA as XSFA
