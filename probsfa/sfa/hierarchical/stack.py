"""Stages on top of one another: training from the bottom to the top, and the way of a chunk through them."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from probsfa.expansions._base import FloatArray
from probsfa.sfa.hierarchical.layers import Stage
from probsfa.sfa.hierarchical.nodes import NodeBank
from probsfa.sfa.hierarchical.passes import SlownessObjective
from probsfa.sfa.hierarchical.signals import MappedSource, Source, StoredSource
from probsfa.sfa.hierarchical.training import train_stage
from probsfa.sfa.hierarchical.workers import Workers

__all__ = ["default_chunk_rows", "outputs", "train_stages"]

_CHUNK_CELLS = 2**22  # 32 MiB of float64 for the widest signals of a chunk
_CHUNK_ROWS = (64, 4096)


def train_stages(
    stages: Sequence[Stage], source: Source, objective: SlownessObjective, workers: Workers, *, keep: bool
) -> list[NodeBank]:
    """Return the trained nodes of all stages.

    Parameters
    ----------
    stages : sequence of Stage
        From the bottom to the top.
    source : Source
        The input.
    objective : SlownessObjective
        What slowness means.
    keep : bool
        Whether the signals between two stages are held in memory, or computed from the input each time.
    """
    banks: list[NodeBank] = []
    for stage in stages:
        top = stage is stages[-1]
        bank = train_stage(stage, source, objective, workers, top=top)
        if keep and not top:
            source, bank = _store(source, bank, workers)
        else:
            if stage.clip == "range":
                bank = _learn_limits(bank, (bank.apply(chunk, workers) for chunk in source.chunks()))
            source = _above(source, bank, workers)
        banks.append(bank)
    return banks


def outputs(source: Source, banks: Sequence[NodeBank], workers: Workers) -> Iterator[FloatArray]:
    """Yield the outputs (rows, n_nodes * K) of the last of some stages, chunk by chunk."""
    for chunk in source.chunks():
        signals = chunk
        for bank in banks:
            signals = bank.apply(signals, workers)
        yield signals.transpose(1, 0, 2).reshape(signals.shape[1], -1)


def default_chunk_rows(stages: Sequence[Stage], n_columns: int) -> int:
    """Return how many rows to process together."""
    widest = max(n_columns, *(stage.n_nodes * stage.n_inputs for stage in stages))
    fewest, most = _CHUNK_ROWS
    return min(max(_CHUNK_CELLS // widest, fewest), most)


def _store(source: Source, bank: NodeBank, workers: Workers) -> tuple[Source, NodeBank]:
    """Return the outputs of trained nodes, held in memory; chunks held below are given up one by one."""
    if isinstance(source, StoredSource):
        held = source.held
        for i in range(len(held)):
            held[i] = bank.apply(held[i], workers)
    else:
        held = [bank.apply(chunk, workers) for chunk in source.chunks()]
    if bank.stage.clip == "range":
        bank = _learn_limits(bank, held)  # what is held lies within the limits already
    return StoredSource(held), bank


def _above(source: Source, bank: NodeBank, workers: Workers) -> Source:
    return MappedSource(source, lambda chunk: bank.apply(chunk, workers))


def _learn_limits(bank: NodeBank, signals: Iterable[FloatArray]) -> NodeBank:
    """Return the nodes with the smallest and largest of each of their outputs as limits."""
    low = np.full((bank.stage.n_nodes, bank.n_outputs), np.inf)
    high = -low
    for chunk in signals:
        np.minimum(low, chunk.min(axis=1), out=low)
        np.maximum(high, chunk.max(axis=1), out=high)
    return bank.clipped_at(low, high)
