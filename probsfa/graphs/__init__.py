"""Training graphs, and the second moments of the samples they join."""

from probsfa.graphs.moments import Moments as Moments
from probsfa.graphs.moments import MomentStream as MomentStream
from probsfa.graphs.moments import temporal_moments as temporal_moments
