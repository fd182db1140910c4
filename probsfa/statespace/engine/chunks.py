"""Rows of a panel as the compiled programs take them: in chunks, on the device, ready for the next time."""

import math
import threading
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa.statespace.engine import two_filter
from probsfa.statespace.engine.batched import on_cpu
from probsfa.statespace.engine.cache import Key, keep
from probsfa.statespace.engine.inference import MOST_LANE_COMPONENTS
from probsfa.statespace.panel import Panel, decay_over, padded_length
from probsfa.statespace.parameters import Parameters

# Rows are worked through in chunks whose matrices (K x K for each row) take about so many bytes: few enough
# to stay in the cache and to bound memory, many enough to be worth a call.
CHUNK_BYTES = 32 * 2**20
# The plain strategy holds several such arrays at once. When they were larger than this, a quarter of the time
# went into pages of fresh memory.
_PLAIN_CHUNK_BYTES = 8 * 2**20
# An accelerator has no such cache, and each of its programs should have enough to do.
_ACCELERATOR_CHUNK_BYTES = 256 * 2**20
_MOST_CHUNK_ROWS = 65_536
_FEWEST_CHUNK_ROWS = 64
# Data up to this size are held ready for the next evaluation.
_CACHED_BYTES = 512 * 2**20


class Chunk(NamedTuple):
    """Rows as the compiled programs take them; ``gap_index`` says which gap leads to each row."""

    values: Array
    mask: Array
    gap_index: Array


class Model(NamedTuple):
    """Parameters as the compiled programs take them; ``table`` (U + 1, K) has the decay over each gap."""

    table: Array
    loadings: Array
    noise_variance: Array
    offset: Array


def make_model(params: Parameters, panel: Panel) -> Model:
    """Parameters with the decays over the gaps of a panel."""
    table = np.vstack([decay_over(params.decay, panel.gaps), np.zeros((1, params.n_components))])
    return Model(*map(jnp.asarray, (table, params.loadings, params.noise_variance, params.offset)))


def chunk_rows(n_rows: int, n_components: int) -> int:
    """Rows of each chunk of a panel with ``n_rows``; chunks are equally long, so one program serves all."""
    if not on_cpu():
        size = _ACCELERATOR_CHUNK_BYTES
    else:
        size = CHUNK_BYTES if n_components <= MOST_LANE_COMPONENTS else _PLAIN_CHUNK_BYTES
    most = int(np.clip(size // (8 * n_components**2), _FEWEST_CHUNK_ROWS, _MOST_CHUNK_ROWS))
    n_chunks = -(-n_rows // most)
    # Lockstep cuts chunks into segments, and so needs lengths that have many divisors.
    if n_chunks == 1 or (n_components > MOST_LANE_COMPONENTS and n_rows % n_chunks == 0):
        return n_rows // n_chunks
    return padded_length(-(-n_rows // n_chunks))


_ready: dict[Key, dict[int, Chunk]] = {}
# A source that rows are read from need not bear two readers at once.
_reading = threading.Lock()


def _held(panel: Panel, *how: int) -> dict[int, Chunk] | None:
    """Where the chunks of a panel, cut in some way, stay as long as its values live; None if very large."""
    if panel.values.nbytes + panel.mask.nbytes > _CACHED_BYTES:
        return None
    return keep(_ready, panel, dict, *how)


def chunks_of(panel: Panel, n_components: int) -> "Chunks":
    """The chunks of a panel."""
    rows = chunk_rows(panel.values.shape[0], n_components)
    return Chunks(panel, rows, math.ceil(panel.values.shape[0] / rows), _held(panel, rows))


def chunks_of_halves(panel: Panel, n_components: int) -> tuple["Chunks", "Chunks"]:
    """The chunks of the first rows of a panel, and those of the others in reverse order."""
    n_steps = panel.values.shape[0]
    rows = chunk_rows(math.ceil(n_steps / 2), n_components)
    n_chunks = math.ceil(n_steps / rows)
    n_first = math.ceil(n_chunks / 2)
    n_second = n_chunks - n_first
    second = two_filter.backwards(panel, n_first * rows, n_second * rows)
    return (
        Chunks(panel, rows, n_first, _held(panel, rows)),
        Chunks(second, rows, n_second, _held(panel, rows, n_first)),
    )


class Chunks:
    """Chunks of a panel, equally long; the last may be filled up with rows in which nothing is observed."""

    def __init__(self, panel: Panel, rows: int, count: int, held: dict[int, Chunk] | None) -> None:
        self.panel = panel
        self.rows = rows
        self.count = count
        self.held = held

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, k: int) -> Chunk:
        if self.held is None:
            return self.convert(k)
        if k not in self.held:
            self.held[k] = self.convert(k)
        return self.held[k]

    def convert(self, k: int) -> Chunk:
        """Chunk ``k`` as device arrays."""
        part = slice(k * self.rows, (k + 1) * self.rows)
        panel = self.panel
        index = panel.gap_index[part]
        missing = self.rows - index.shape[0]
        with _reading:
            seen, values = (np.pad(rows[part], ((0, missing), (0, 0))) for rows in (panel.mask, panel.values))
        return Chunk(
            jnp.asarray(values),
            jnp.asarray(seen),
            jnp.asarray(np.pad(index, (0, missing), constant_values=panel.gaps.shape[0])),
        )

    def after_index(self, k: int) -> int:
        """Which gap leads from the last row of chunk ``k`` to the row after it."""
        start = (k + 1) * self.rows
        if start >= self.panel.gap_index.shape[0]:
            return self.panel.gaps.shape[0]
        return int(self.panel.gap_index[start])
