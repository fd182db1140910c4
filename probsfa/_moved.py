"""Modules that saved models name by an earlier path."""

__all__ = ["present_home"]

_HOMES = {
    "graphs._builder": "graphs._named",
    "graphs._centred_rows": "graphs.moments",
    "graphs._graph_moments": "graphs.training_graph",
    "graphs._permuted": "graphs._combined",
    "graphs._sample_weights": "graphs._combined",
    "graphs._subset": "graphs._combined",
    "graphs._temporal": "graphs._ordered",
    "graphs._ties": "graphs._window",
    "graphs._union": "graphs._combined",
    "graphs._walk": "graphs.training_graph",
    "sfa._choice": "sfa.supervised.choice",
    "sfa._gaussian": "sfa.supervised.classifier",
    "sfa._image_expansion": "sfa.supervised.common",
    "sfa._regression_steps": "sfa.supervised.regressor",
    "sfa._supervised": "sfa.supervised.common",
    "sfa.affinity": "sfa.spectral.affinity",
    "sfa.classifier": "sfa.supervised.classifier",
    "sfa.diffusion": "sfa.spectral.diffusion",
    "sfa.edges": "sfa.spectral.edges",
    "sfa.eigenmaps": "sfa.spectral.eigenmaps",
    "sfa.hierarchical.eigen": "sfa.hierarchical.nodes",
    "sfa.hierarchical.node_moments": "sfa.hierarchical.nodes",
    "sfa.hierarchical.passes": "sfa.hierarchical.stack",
    "sfa.hierarchical.signals": "sfa.hierarchical.stack",
    "sfa.hierarchical.workers": "sfa.hierarchical.nodes",
    "sfa.kernel": "sfa.kernel.estimator",
    "sfa.kernel_columns": "sfa.kernel.problem",
    "sfa.kernel_held_out": "sfa.kernel.held_out",
    "sfa.kernel_moments": "sfa.kernel.problem",
    "sfa.kernel_preimage": "sfa.kernel.estimator",
    "sfa.kernel_problem": "sfa.kernel.problem",
    "sfa.landmarks": "sfa.spectral.affinity",
    "sfa.laplacian": "sfa.spectral.laplacian",
    "sfa.regressor": "sfa.supervised.regressor",
    "sfa.spectral_clustering": "sfa.spectral.clustering",
}


def present_home(module: str) -> str:
    """Return the module that has the classes of an earlier module, or the same name.

    Examples
    --------
    >>> present_home("probsfa.graphs._serial"), present_home("probsfa.sfa.linear")
    ('probsfa.graphs._serial', 'probsfa.sfa.linear')
    """
    package, _, path = module.partition(".")
    return f"{package}.{_HOMES.get(path, path)}"
