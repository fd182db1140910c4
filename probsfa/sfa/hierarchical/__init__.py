"""Hierarchies: layers of slow feature nodes over receptive fields."""

from probsfa.sfa.hierarchical.estimator import HierarchicalSFA as HierarchicalSFA
from probsfa.sfa.hierarchical.layers import Layer as Layer
from probsfa.sfa.hierarchical.layers import cascade_layers as cascade_layers
from probsfa.sfa.hierarchical.layers import escalante_wiskott_layers as escalante_wiskott_layers

__all__ = ["HierarchicalSFA", "Layer", "cascade_layers", "escalante_wiskott_layers"]
