# The one table of the public names and where they live. Type checkers read it as it stands, and __init__.py
# looks names up by it when they are first used: a new public name is one line here.

from probsfa import adapters as adapters
from probsfa import bayes as bayes
from probsfa import datasets as datasets
from probsfa import distributed as distributed
from probsfa import expansions as expansions
from probsfa import extensions as extensions
from probsfa import graphs as graphs
from probsfa import imputation as imputation
from probsfa import metrics as metrics
from probsfa import model_selection as model_selection
from probsfa import monitoring as monitoring
from probsfa import plots as plots
from probsfa._compilation import enable_compilation_cache as enable_compilation_cache
from probsfa._saving import load as load
from probsfa._saving import save as save
from probsfa.bayes import BayesianSFA as BayesianSFA
from probsfa.extensions import Autoencoder as Autoencoder
from probsfa.extensions import BilinearSFA as BilinearSFA
from probsfa.extensions import EmissionSFA as EmissionSFA
from probsfa.extensions import PrincipalCurve as PrincipalCurve
from probsfa.extensions import ProductOfExpertsSFA as ProductOfExpertsSFA
from probsfa.monitoring import ProcessMonitor as ProcessMonitor
from probsfa.sfa import IGSFA as IGSFA
from probsfa.sfa import SFA as SFA
from probsfa.sfa import XSFA as XSFA
from probsfa.sfa import DiffusionMap as DiffusionMap
from probsfa.sfa import GraphSFA as GraphSFA
from probsfa.sfa import GraphSFAClassifier as GraphSFAClassifier
from probsfa.sfa import GraphSFARegressor as GraphSFARegressor
from probsfa.sfa import HierarchicalSFA as HierarchicalSFA
from probsfa.sfa import KernelSFA as KernelSFA
from probsfa.sfa import LaplacianEigenmaps as LaplacianEigenmaps
from probsfa.sfa import Layer as Layer
from probsfa.sfa import SpectralClustering as SpectralClustering
from probsfa.statespace import ProbabilisticSFA as ProbabilisticSFA
from probsfa.statespace import select_model as select_model
from probsfa.statespace import select_n_components as select_n_components

__version__: str
