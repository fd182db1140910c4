"""Training of one stage: the moments of its nodes, their eigenproblems, and what the ranks allow."""

import numpy as np

from probsfa.linalg import RankError
from probsfa.sfa._expand import Expander
from probsfa.sfa.hierarchical.eigen import NodeSolution, solve_igsfa, solve_pca, solve_sfa
from probsfa.sfa.hierarchical.layers import Stage
from probsfa.sfa.hierarchical.node_moments import NodeMoments
from probsfa.sfa.hierarchical.nodes import NodeBank
from probsfa.sfa.hierarchical.passes import SlownessObjective, stage_moments
from probsfa.sfa.hierarchical.signals import Source
from probsfa.sfa.hierarchical.workers import Workers, slices

__all__ = ["train_stage"]


def train_stage(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers, *, top: bool
) -> NodeBank:
    """Return the trained nodes of a stage.

    Parameters
    ----------
    top : bool
        Whether its outputs are the outputs of the hierarchy. Then a rank below `n_components` is an error;
        elsewhere such a node has dead outputs, which stay zero.

    Raises
    ------
    RankError
        If no node of the stage varies, or a top node varies in fewer directions than it has outputs.
    """
    means, solutions = [], []
    expanders: list[Expander] = []
    for moments, fitted in stage_moments(stage, source, objective, workers):
        means.append(moments.mean)
        solutions.append(_solve(stage, moments, objective, workers))
        expanders += fitted
    solution = NodeSolution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))
    n_outputs = _n_outputs(stage, solution, top)
    bank = NodeBank(
        stage=stage,
        expanders=expanders or None,
        mean=np.concatenate(means),
        weights=np.ascontiguousarray(solution.weights[:, :, :n_outputs]),
        values=solution.values[:, :n_outputs],
        rank=solution.rank,
    )
    if isinstance(stage.clip, (int, float)):
        reach = float(stage.clip) * (
            np.sqrt(bank.values) if stage.method == "pca" else np.ones_like(bank.values)
        )
        bank = bank.clipped_at(-reach, reach)
    return bank


def _solve(
    stage: Stage, moments: NodeMoments, objective: SlownessObjective, workers: Workers
) -> NodeSolution:
    n_expanded = moments.mean.shape[1]
    K = n_expanded if stage.n_components is None else stage.n_components
    if K > n_expanded:
        raise RankError(
            f"{stage.name}.n_components is {K}, more than the {n_expanded} (expanded) inputs of a node."
        )
    A, B, floor = moments.change, moments.covariance, moments.variance_floor

    def task(nodes: slice) -> NodeSolution:
        if stage.method == "pca" or A is None:
            return solve_pca(B[nodes], K, variance_floor=floor[nodes])
        if stage.method == "igsfa":
            return solve_igsfa(
                A[nodes],
                B[nodes],
                K,
                stage.n_inputs,
                stage.delta_threshold,
                rank_tol=objective.rank_tol,
                variance_floor=floor[nodes],
            )
        return solve_sfa(A[nodes], B[nodes], K, rank_tol=objective.rank_tol, variance_floor=floor[nodes])

    solutions = workers.run(task, slices(len(B), 8 * n_expanded**2))
    return NodeSolution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))


def _n_outputs(stage: Stage, solution: NodeSolution, top: bool) -> int:
    """Return how many outputs every node has."""
    highest, lowest = int(solution.rank.max()), int(solution.rank.min())
    if highest == 0:
        raise RankError(
            f"Every input of every node of {stage.name} is constant, so there is nothing slow to find: the "
            "rank is 0."
        )
    if stage.n_components is None:
        return lowest if top and lowest > 0 else highest
    if top and lowest < stage.n_components:
        raise RankError(
            f"{stage.name}.n_components={stage.n_components} is more than the data hold: the (expanded) "
            f"inputs of its node {int(solution.rank.argmin())} have the numerical rank {lowest}."
        )
    return stage.n_components
