"""The expected statistics of one long series on several devices: each works on its own run of segments.

The passes inside segments need nothing from elsewhere. The summaries of every segment go to all devices,
which run through the borders each for itself; at the end of its rows a device asks the next one for the state
after them; and sums are added up.
"""

from dataclasses import dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from probsfa.statespace.engine import segmented
from probsfa.statespace.engine.dynamics import Gaussian, stationary
from probsfa.statespace.engine.moments import PanelMoments
from probsfa.statespace.engine.problem import Chunks, Model, Problem, Rows, following_index, make_model
from probsfa.statespace.engine.recursions import collapse, row_log_likelihoods
from probsfa.statespace.engine.statistics import Statistics, observation_statistics, transition_statistics
from probsfa.statespace.engine.strategy import Route
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

_AXIS = "segments"
Sums = tuple[Array, ...]


def _local_sums(
    model: Model, rows: Rows, *, n_devices: int, strategy: segmented.Segmented
) -> tuple[Array, Sums]:
    """Log-likelihood and sums over all rows, from the rows of one device."""
    with strategy.tracing():
        return jax.lax.psum(_sums(model, rows, n_devices, strategy), _AXIS)


def _sums(model: Model, rows: Rows, n_devices: int, strategy: segmented.Segmented) -> tuple[Array, Sums]:
    """Log-likelihood and sums over the rows of this device."""
    table, n_gaps, n_segments = model.transitions, model.n_gaps, strategy.n_segments
    here = jax.lax.axis_index(_AXIS)
    from_next = partial(jax.lax.ppermute, axis_name=_AXIS, perm=[(i + 1, i) for i in range(n_devices - 1)])
    after_index = jnp.where(here == n_devices - 1, n_gaps, from_next(rows.gap_index[0]))
    transitions, after_last = table.at(rows.gap_index), table.at(after_index)
    problem = Problem(rows.values, rows.weights, transitions, after_last, *model[1:])
    cut = segmented.cut(collapse(problem), problem.transitions, n_segments)
    segments = jax.lax.all_gather(segmented.summarize(cut), _AXIS, axis=-1, tiled=True)
    borders = strategy.join(segments, stationary(model.n_states, rows.values.dtype))
    ends = strategy.join_back(segments, borders)

    def own(states: Gaussian) -> Gaussian:
        """The states of this device's segments."""
        part = partial(jax.lax.dynamic_slice_in_dim, start_index=here * n_segments, slice_size=n_segments)
        return Gaussian(*(part(x, axis=-1) for x in states))

    filtered = segmented.filter_rows(cut, own(borders.left))
    steps = segmented.transitions_to_segments(problem.following, n_segments)
    smoothed = segmented.smooth_rows_for_sums(filtered, steps, own(ends))
    # Past the last device nothing follows, and what is received is zero.
    after = Gaussian(from_next(smoothed.first.mean[:, 0]), from_next(smoothed.first.covariance[:, :, 0]))
    moments = segmented.packed_in_order(smoothed, after, steps)
    sums = (
        *observation_statistics(rows.values, rows.weights, model.loadings, model.offset, moments),
        *transition_statistics(problem.following, following_index(rows, after_index), n_gaps, moments, after),
    )
    log_likelihood = jnp.sum(row_log_likelihoods(problem, *segmented.filtered_terms(filtered)))
    return log_likelihood, sums


@cache
def _program(devices: tuple[jax.Device, ...], strategy: segmented.Segmented) -> jax.stages.Wrapped:
    mesh = Mesh(np.array(devices), (_AXIS,))
    everywhere, by_rows = PartitionSpec(), PartitionSpec(_AXIS)
    return jax.jit(
        jax.shard_map(
            partial(_local_sums, n_devices=len(devices), strategy=strategy),
            mesh=mesh,
            in_specs=(everywhere, by_rows),
            out_specs=everywhere,
            check_vma=False,
        )
    )


@dataclass(frozen=True)
class Sharded:
    """Sums over rows spread over devices; everything else on one, by the route that serves there.

    Attributes
    ----------
    route : Route
        How the panel is worked through on one device.
    devices : tuple of jax.Device
        At least two, whose number divides the rows.
    segments : Segmented
        How each device works through its rows.
    """

    route: Route
    devices: tuple[jax.Device, ...]
    segments: segmented.Segmented

    def log_likelihood(self, params: Parameters, panel: Panel) -> float:
        """See :class:`.Route`."""
        return self.route.log_likelihood(params, panel)

    def moments(self, params: Parameters, panel: Panel) -> PanelMoments:
        """See :class:`.Route`."""
        return self.route.moments(params, panel)

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """See :class:`.Route`."""
        rows = Chunks.of(panel, panel.values.shape[0])[0]
        total, sums = _program(self.devices, self.segments)(make_model(params, panel), rows)
        return Statistics(float(total), *map(np.asarray, sums))
