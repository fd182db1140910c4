"""Training graphs, and the second moments of the samples they join."""

from probsfa.graphs._clustered import clustered as clustered
from probsfa.graphs._graph_moments import GraphMoments as GraphMoments
from probsfa.graphs._graph_moments import graph_moments as graph_moments
from probsfa.graphs._heat_kernel import heat_kernel as heat_kernel
from probsfa.graphs._mixed import mixed as mixed
from probsfa.graphs._nearest_neighbors import nearest_neighbors as nearest_neighbors
from probsfa.graphs._reordering import reordering as reordering
from probsfa.graphs._ring import ring as ring
from probsfa.graphs._serial import serial as serial
from probsfa.graphs._sliding_window import sliding_window as sliding_window
from probsfa.graphs._sparse import from_sparse as from_sparse
from probsfa.graphs._temporal import temporal as temporal
from probsfa.graphs._transition import transition as transition
from probsfa.graphs._union import union as union
from probsfa.graphs.moments import Moments as Moments
from probsfa.graphs.moments import MomentStream as MomentStream
from probsfa.graphs.moments import temporal_moments as temporal_moments
from probsfa.graphs.training_graph import TrainingGraph as TrainingGraph
