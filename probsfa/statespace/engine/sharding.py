"""The expected statistics of one long series on several devices: each works on its own run of segments.

The passes inside segments need nothing from elsewhere. The five summaries of every segment go to all devices,
which run through the borders each for itself; at the end of its rows a device asks the next one for the state
after them; and sums are added up.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from probsfa.statespace.engine import segmented
from probsfa.statespace.engine.inference import (
    Problem,
    filtered_rows,
    join,
    join_back,
    lanes_of,
    moments_of_lanes,
    row_log_likelihoods,
)
from probsfa.statespace.engine.recursions import Law, collapse, prior_law
from probsfa.statespace.engine.statistics import observation_statistics, transition_statistics

_AXIS = "segments"
Sums = tuple[Array, ...]


def _local_sums(
    table: Array,
    loadings: Array,
    noise_variance: Array,
    offset: Array,
    values: Array,
    mask: Array,
    gap_index: Array,
    *,
    n_devices: int,
    n_segments: int,
) -> tuple[Array, Sums]:
    """Log-likelihood and sums over all rows, from the rows of one device."""
    n_gaps = table.shape[0] - 1
    here = jax.lax.axis_index(_AXIS)
    from_next = partial(jax.lax.ppermute, axis_name=_AXIS, perm=[(i + 1, i) for i in range(n_devices - 1)])
    after_index = jnp.where(here == n_devices - 1, n_gaps, from_next(gap_index[0]))
    problem = Problem(values, mask, table[gap_index], table[after_index], loadings, noise_variance, offset)
    rows = lanes_of(collapse(values, mask, loadings, noise_variance, offset), problem.decays, n_segments)
    segments = jax.lax.all_gather(segmented.couple(rows), _AXIS, axis=-1, tiled=True)
    borders = join(segments, prior_law(table.shape[1], table.dtype))
    ends = join_back(segments, borders)

    def own(laws: segmented.LaneLaw) -> segmented.LaneLaw:
        """The laws of this device's segments."""
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=here * n_segments, slice_size=n_segments)
        return segmented.LaneLaw(*(cut(x, axis=-1) for x in laws))

    lanes = segmented.filter_rows(rows, own(borders.left))
    following = segmented.to_lanes(problem.following, n_segments)
    smoothed = segments.smooth_rows_for_sums(lanes, following, own(ends))
    # Past the last device nothing follows, and what is received is zero.
    after = Law(from_next(smoothed.first.mean[:, 0]), from_next(smoothed.first.covariance[:, :, 0]))
    moments = moments_of_lanes(smoothed, after)
    following_index = jnp.concatenate([gap_index[1:], after_index.astype(gap_index.dtype)[None]])
    sums = (
        *observation_statistics(values, mask, loadings, offset, moments),
        *transition_statistics(
            problem.following, following_index, n_gaps, moments, after.mean, jnp.diagonal(after.covariance)
        ),
    )
    log_likelihood = jnp.sum(row_log_likelihoods(problem, *filtered_rows(lanes)))
    return jax.lax.psum((log_likelihood, sums), _AXIS)


@cache
def _program(devices: tuple[jax.Device, ...], n_segments: int) -> jax.stages.Wrapped:
    mesh = Mesh(np.array(devices), (_AXIS,))
    everywhere, by_rows = PartitionSpec(), PartitionSpec(_AXIS)
    return jax.jit(
        jax.shard_map(
            partial(_local_sums, n_devices=len(devices), n_segments=n_segments),
            mesh=mesh,
            in_specs=(everywhere,) * 4 + (by_rows,) * 3,
            out_specs=everywhere,
            check_vma=False,
        )
    )


def sharded_sums(
    model: tuple[Array, ...], chunk: tuple[Array, ...], devices: tuple[jax.Device, ...], n_segments: int
) -> tuple[Array, Sums]:
    """Log-likelihood and sums of expected moments with the rows spread over devices.

    Parameters
    ----------
    model : tuple of Array
        Decay over each gap (U + 1, K), loadings, noise variance and offset.
    chunk : tuple of Array
        Values (T, D), mask (T, D) and gap index (T,); ``T`` a multiple of the number of all segments.
    devices : tuple of jax.Device
        At least two.
    n_segments : int
        Segments on each device.
    """
    return _program(devices, n_segments)(*model, *chunk)
