"""Extensions of slow feature analysis, and methods for comparison."""

from probsfa.extensions.autoencoder import Autoencoder as Autoencoder
from probsfa.extensions.autoencoder import LinearAutoencoder as LinearAutoencoder
from probsfa.extensions.bilinear import BilinearSFA as BilinearSFA
from probsfa.extensions.emissions import EmissionSFA as EmissionSFA
from probsfa.extensions.experts import ProductOfExpertsSFA as ProductOfExpertsSFA
from probsfa.extensions.principal_curve import PrincipalCurve as PrincipalCurve
