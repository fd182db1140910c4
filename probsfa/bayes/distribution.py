"""The factorial AR(1) model as a NumPyro distribution of a series, with factors integrated out."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, random
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from probsfa.bayes.tracing import kernel_hints_outside_loops
from probsfa.statespace.engine.likelihood import marginal_log_likelihood
from probsfa.statespace.engine.settings import broadcasting


class FactorialAR1(dist.Distribution):
    """Distribution of a series driven by independent AR(1) factors, which are integrated out exactly.

    The model of :class:`probsfa.ProbabilisticSFA`::

        z_k,1 ~ N(0, 1),   z_k,t = a_k z_k,t-1 + sqrt(1 - a_k^2) e_k,t
        x_t   = mu + C z_t + n_t,   n_t ~ N(0, diag(r))

    One event is a whole series (T, D). Parameters may have leading batch dimensions, which broadcast.

    Parameters
    ----------
    decay : Array (..., K)
        Autocorrelation of each factor over one step, inside (-1, 1).
    loadings : Array (..., D, K)
        Observation matrix.
    noise_variance : float or Array (..., D)
        Noise variance, positive.
    offset : float or Array (..., D) or (..., T, D), default=0.0
        Mean of the observations. With shape (..., T, D) each row has its own mean, such as covariates times
        coefficients.
    mask : bool Array (T, D) or (..., T, D), optional
        True where observed. Other values of a series are ignored, including NaN.
    n_steps : int, optional
        ``T``; required without a mask.
    gap_index : int Array (T,) or (..., T), optional
        For each row, the position in `gaps` of the time since the previous row; ``len(gaps)`` for the first
        row of a sequence. By default the rows are one sequence.
    gaps : Array (U,), optional
        The distinct times between rows, in steps; by default all are one step.
    validate_args : bool, optional
        As in other NumPyro distributions.

    Raises
    ------
    ValueError
        If shapes do not fit; if neither `mask` nor `n_steps` is given; if the shape of `offset` fits both the
        rows and a batch of series; or if a decay is negative and one of `gaps` is not an integer.

    Notes
    -----
    Gradients of `log_prob` are exact and take one run of the Kalman smoother (Fisher's identity); only
    reverse-mode differentiation is supported. The gradient with respect to `gaps` is NaN if a decay is not
    positive. The distribution can also be that of an unobserved (latent) site of NumPyro, in a model with
    another likelihood; it then must not have a mask of missing values. The argument of `log_prob` can depend
    on parameters, as in ``log_prob(X - U @ b)``. Small noise requires double precision: use the distribution
    inside ``jax.enable_x64(True)``.

    Examples
    --------
    >>> import jax
    >>> from probsfa.bayes import FactorialAR1
    >>> with jax.enable_x64(True):
    ...     series = FactorialAR1(jax.numpy.array([0.9]), jax.numpy.ones((3, 1)), 0.5, n_steps=100)
    ...     x = series.sample(jax.random.key(0))
    ...     print(x.shape, series.log_prob(x).shape)
    (100, 3) ()
    """

    arg_constraints = {
        "decay": constraints.independent(constraints.open_interval(-1.0, 1.0), 1),
        "loadings": constraints.real_matrix,
        "noise_variance": constraints.independent(constraints.positive, 1),
        "offset": constraints.real_vector,
    }
    support = constraints.real_matrix
    reparametrized_params = ["decay", "loadings", "noise_variance", "offset"]
    pytree_aux_fields = ("_offset_by_row",)
    pytree_data_fields = ("decay", "loadings", "noise_variance", "offset", "observed", "gap_index", "gaps")

    def __init__(
        self,
        decay: Any,
        loadings: Any,
        noise_variance: Any,
        offset: Any = 0.0,
        *,
        mask: Any = None,
        n_steps: int | None = None,
        gap_index: Any = None,
        gaps: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        dtype = jnp.result_type(float)
        self.decay = jnp.asarray(decay, dtype)
        self.loadings = jnp.asarray(loadings, dtype)
        if self.decay.ndim < 1 or self.loadings.ndim < 2 or self.loadings.shape[-1] != self.decay.shape[-1]:
            raise ValueError(
                "decay and loadings must have shapes (..., K) and (..., D, K); got "
                f"{self.decay.shape} and {self.loadings.shape}."
            )
        d = self.loadings.shape[-2]
        self.noise_variance = _per_feature("noise_variance", noise_variance, d, dtype)
        self.offset = _per_feature("offset", offset, d, dtype)
        if mask is None and n_steps is None:
            raise ValueError("n_steps and mask are None; pass the number of rows of a series, or a mask.")
        self.observed = jnp.ones((n_steps, d), bool) if mask is None else jnp.asarray(mask, bool)
        if (
            self.observed.ndim < 2
            or self.observed.shape[-1] != d
            or n_steps not in (None, self.observed.shape[-2])
        ):
            expected_shape = f"(..., {'T' if n_steps is None else n_steps}, {d})"
            raise ValueError(f"mask must have shape {expected_shape}; got {self.observed.shape}.")
        event_shape = self.observed.shape[-2:]
        if gap_index is None:
            gap_index = (jnp.arange(event_shape[0]) == 0).astype(jnp.int32)
        self.gap_index = jnp.asarray(gap_index)
        if self.gap_index.shape[-1:] != event_shape[:1]:
            raise ValueError(f"gap_index must have shape ({event_shape[0]},); got {self.gap_index.shape}.")
        self.gaps = jnp.ones(1, dtype) if gaps is None else jnp.asarray(gaps, dtype)
        if gaps is not None:
            _check_decay_between_steps(self.decay, self.gaps)
        batch_shape_without_offset = jnp.broadcast_shapes(
            self.decay.shape[:-1],
            self.loadings.shape[:-2],
            self.noise_variance.shape[:-1],
            self.observed.shape[:-2],
            self.gap_index.shape[:-1],
        )
        self._offset_by_row = _is_by_row(self.offset, event_shape, batch_shape_without_offset)
        batch_shape = jnp.broadcast_shapes(
            batch_shape_without_offset, self.offset.shape[: -2 if self._offset_by_row else -1]
        )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @property
    def _row_offset(self) -> Array:
        """Return the offset with an axis for rows: (..., T, D), or (..., 1, D) if equal for all rows."""
        return self.offset if self._offset_by_row else self.offset[..., None, :]

    @property
    @broadcasting()
    def mean(self) -> Array:
        """Mean of each value."""
        return jnp.broadcast_to(self._row_offset, self.batch_shape + self.event_shape)

    @property
    @broadcasting()
    def variance(self) -> Array:
        """Variance of each value."""
        variance = jnp.sum(self.loadings**2, axis=-1) + self.noise_variance
        return jnp.broadcast_to(variance[..., None, :], self.batch_shape + self.event_shape)

    @broadcasting()
    @validate_sample  # type: ignore[untyped-decorator]
    def log_prob(self, value: Array) -> Array:
        """Return the log-likelihood of the observed values of series (..., T, D), in nats.

        The result is the joint log density of each whole series; the one-step-ahead terms are
        ``ProbabilisticSFA.posterior(X).row_log_likelihoods``.
        """
        offset = self.offset
        if self._offset_by_row:
            value, offset = value - self.offset, jnp.zeros_like(self.offset, shape=self.event_shape[-1:])
        # NaN is replaced before any product of values, so that gradients are not NaN.
        values = jnp.where(self.observed, value, 0.0)
        mask = jnp.broadcast_to(self.observed, values.shape).astype(values.dtype)
        args = (self.decay, self.loadings, self.noise_variance, offset, values, mask, self.gap_index)
        log_likelihood_of_one = partial(marginal_log_likelihood, gaps=self.gaps)
        with kernel_hints_outside_loops():
            if values.ndim == 2 and not self.batch_shape:
                return log_likelihood_of_one(*args)
            return jnp.vectorize(log_likelihood_of_one, signature="(k),(d,k),(d),(d),(t,d),(t,d),(t)->()")(
                *args
            )

    @broadcasting()
    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw complete series (..., T, D), including values that `mask` marks as missing."""
        factor_key, noise_key = random.split(key)
        n_steps, d = self.event_shape
        shape = (*sample_shape, *self.batch_shape)
        factors = _draw_factors(factor_key, self._decay_by_row(), shape)
        signal = jnp.einsum("...tk,...dk->...td", factors, self.loadings)
        noise = jnp.sqrt(self.noise_variance)[..., None, :] * random.normal(
            noise_key, (*shape, n_steps, d), self.decay.dtype
        )
        return self._row_offset + signal + noise

    def _validate_sample(self, value: Array) -> Array:
        """Validate the observed values only."""
        return super()._validate_sample(jnp.where(self.observed, value, 0.0))

    def _decay_by_row(self) -> Array:
        """Return the decay from the previous row to each row: (..., T, K)."""
        decay_over_gap = self.decay[..., None, :] ** self.gaps[:, None]
        table = jnp.concatenate([decay_over_gap, jnp.zeros_like(decay_over_gap[..., :1, :])], axis=-2)
        batch = jnp.broadcast_shapes(table.shape[:-2], self.gap_index.shape[:-1])
        table = jnp.broadcast_to(table, (*batch, *table.shape[-2:]))
        index = jnp.broadcast_to(self.gap_index, (*batch, self.gap_index.shape[-1]))
        return jnp.take_along_axis(table, index[..., None], axis=-2)


def _per_feature(name: str, value: Any, n_features: int, dtype: Any) -> Array:
    array = jnp.asarray(value, dtype)
    if array.ndim == 0:
        return jnp.broadcast_to(array, (n_features,))
    if array.shape[-1] != n_features:
        raise ValueError(f"{name} must be a number or have shape (..., {n_features}); got {array.shape}.")
    return array


def _is_by_row(offset: Array, event_shape: tuple[int, ...], batch_shape: tuple[int, ...]) -> bool:
    """Return whether an offset has a mean for each row; `batch_shape` is that of the other arguments."""
    n_steps = event_shape[0]
    by_row = offset.ndim >= 2 and offset.shape[-2] == n_steps
    if by_row and batch_shape[-1:] == (n_steps,) and offset.ndim == len(batch_shape) + 1:
        full_shape = (*batch_shape, *event_shape)
        raise ValueError(
            f"offset of shape {offset.shape} is ambiguous: there are {n_steps} series and {n_steps} rows. "
            f"Broadcast it to shape {full_shape}: offset[..., None, :] if it has a mean for each series, "
            "offset[None] if it has a mean for each row."
        )
    return by_row


def _check_decay_between_steps(decay: Array, gaps: Array) -> None:
    """Raise a ValueError if a decay is negative and a gap is not an integer; skipped while JAX traces."""
    if isinstance(decay, jax.core.Tracer) or isinstance(gaps, jax.core.Tracer):
        return
    fractional_gaps = np.asarray(gaps)[np.asarray(gaps) != np.rint(gaps)]
    if len(fractional_gaps) and np.any(np.asarray(decay) < 0.0):
        raise ValueError(
            f"decay has the negative value {np.min(decay):.4g} and gaps has {fractional_gaps[0]:.4g}: a "
            "process with a negative decay is not defined between steps. Use decays in (0, 1), or integer "
            "gaps."
        )


def _draw_factors(key: Array, decay_by_row: Array, shape: tuple[int, ...]) -> Array:
    """Return stationary AR(1) factors (..., T, K), simulated row by row."""
    shocks = random.normal(key, (*shape, *decay_by_row.shape[-2:]), decay_by_row.dtype)
    scaled = shocks * jnp.sqrt((1.0 - decay_by_row) * (1.0 + decay_by_row))
    decays = jnp.broadcast_to(decay_by_row, scaled.shape)

    def step(state: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        decay, shock = row
        state = decay * state + shock
        return state, state

    by_time = (jnp.moveaxis(decays, -2, 0), jnp.moveaxis(scaled, -2, 0))
    return jnp.moveaxis(jax.lax.scan(step, jnp.zeros_like(by_time[0][0]), by_time)[1], 0, -2)
