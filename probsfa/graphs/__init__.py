"""Training graphs, and the second moments of samples on them."""

from probsfa._lazy import deprecated as _deprecated
from probsfa.graphs._combined import union as union
from probsfa.graphs._exact_label import exact_label as exact_label
from probsfa.graphs._free_responses import FreeResponses as FreeResponses
from probsfa.graphs._free_responses import free_responses as free_responses
from probsfa.graphs._group import clustered as clustered
from probsfa.graphs._group import mixed as mixed
from probsfa.graphs._group import serial as serial
from probsfa.graphs._group import transition as transition
from probsfa.graphs._multi_label import multi_label as multi_label
from probsfa.graphs._multi_label import semi_supervised as semi_supervised
from probsfa.graphs._ordered import reordering as reordering
from probsfa.graphs._ordered import ring as ring
from probsfa.graphs._ordered import sliding_window as sliding_window
from probsfa.graphs._ordered import temporal as temporal
from probsfa.graphs._sparse import from_sparse as from_sparse
from probsfa.graphs._sparse import heat_kernel as heat_kernel
from probsfa.graphs._sparse import nearest_neighbors as nearest_neighbors
from probsfa.graphs.builders import Clustered as Clustered
from probsfa.graphs.builders import ExactLabel as ExactLabel
from probsfa.graphs.builders import FromSparse as FromSparse
from probsfa.graphs.builders import HeatKernel as HeatKernel
from probsfa.graphs.builders import Mixed as Mixed
from probsfa.graphs.builders import MultiLabel as MultiLabel
from probsfa.graphs.builders import NearestNeighbors as NearestNeighbors
from probsfa.graphs.builders import Reordering as Reordering
from probsfa.graphs.builders import Ring as Ring
from probsfa.graphs.builders import SemiSupervised as SemiSupervised
from probsfa.graphs.builders import Serial as Serial
from probsfa.graphs.builders import SlidingWindow as SlidingWindow
from probsfa.graphs.builders import Temporal as Temporal
from probsfa.graphs.builders import Transition as Transition
from probsfa.graphs.builders import Union as Union
from probsfa.graphs.moments import Moments as Moments
from probsfa.graphs.training_graph import GraphMoments as GraphMoments
from probsfa.graphs.training_graph import TrainingGraph as TrainingGraph

__getattr__ = _deprecated(
    __name__,
    {
        "GraphBuilder": (
            "probsfa.graphs.builders:GraphBuilder",
            "Any callable that returns a graph is accepted.",
        ),
        "MomentStream": ("probsfa.graphs.moments:MomentStream", "Use SFA.partial_fit."),
        "graph_moments": ("probsfa.graphs.training_graph:graph_moments", "Use GraphSFA.fit and moments_."),
        "temporal_moments": ("probsfa.graphs.moments:temporal_moments", "Use SFA.fit and moments_."),
    },
)
