"""A fitted model as an ``xarray.DataTree`` with the groups of ArviZ.

Only xarray is required. ArviZ 1 uses such trees; for ArviZ 0.23, the last for Python 3.11, they are converted
to an ``InferenceData``.
"""

import importlib.metadata
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro.infer import Predictive
from scipy.stats import norm

from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.conditional import mixture_draw_indices, panels_given_draws
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.diagnostics import relabelling_sentence
from probsfa.bayes.draws import (
    AnyDraws,
    Draws,
    StructuralDraws,
    thinned_indices,
    timescales,
)
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.kinds import SITES, site_values
from probsfa.bayes.model import OBSERVATIONS
from probsfa.bayes.packing import panels_of
from probsfa.bayes.tracing import handlers_lock
from probsfa.bayes.weights import weighted_draws
from probsfa.statespace.engine.posterior import draw_factors, leave_one_out_distributions, smooth
from probsfa.statespace.engine.settings import engine_settings

#: Name of a variable in two groups, with an entry for each observed value: the log density of the value given
#: all other values, and a draw of the value given all others.
OBSERVED_VALUES = "observed_values"
# Maximum number of predicted values in a group of the tree (160 MB).
_MAX_VALUES = 20_000_000
_N_PRIOR_DRAWS = 200


def time_index(X: Any, sequences: Sequences, times: Any) -> NDArray[Any]:
    """Return the times of all rows in the user's format: the index of DataFrames, `times`, or row numbers."""
    pieces = X if sequences.is_list else [X]
    if all(hasattr(x, "index") and hasattr(x, "columns") for x in pieces):
        return np.concatenate([_without_time_zone(x.index) for x in pieces])
    if times is not None:
        return np.concatenate([_without_time_zone(t) for t in (times if sequences.is_list else [times])])
    return np.concatenate([np.arange(n) for n in sequences.lengths])


def _without_time_zone(index: Any) -> NDArray[Any]:
    """Return times without a time zone, converted to UTC; row numbers in place of a MultiIndex."""
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert(None)
    if getattr(index, "nlevels", 1) > 1:
        return np.arange(len(index))
    return np.asarray(index)


def for_arviz(tree: Any) -> Any:
    """Return the format of the installed ArviZ: an ``InferenceData`` before version 1, else the tree."""
    if int(importlib.metadata.version("arviz").partition(".")[0]) >= 1:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz.InferenceData.from_datatree(tree)


def build_tree(fitted: FittedPosterior, n_predictive: int, status: str) -> Any:
    """Return the tree of a fit; see :meth:`probsfa.BayesianSFA.to_datatree`.

    Parameters
    ----------
    fitted : FittedPosterior
        The fit.
    n_predictive : int
        Number of draws for predictions.
    status : str
        How the fit ended.

    Returns
    -------
    xarray.DataTree
    """
    import xarray as xr

    rng, builder = np.random.default_rng(fitted.seed), _TreeBuilder(fitted, n_predictive)
    groups = {
        "posterior": builder.parameters(fitted.draws),
        "posterior_raw": builder.parameters(fitted.raw_draws),
        **builder.posterior_groups(rng),
        **builder.prior_groups(int(rng.integers(2**31))),
        **builder.data_groups(),
    }
    if fitted.inferred.sample_stats:
        stats = {name: (("chain", "draw"), values) for name, values in fitted.inferred.sample_stats.items()}
        groups["sample_stats"] = builder.dataset(stats, fitted.draws.decay.shape[:2])
    groups["posterior"].attrs["relabelling"] = relabelling_sentence(fitted)
    groups["posterior"].attrs["inference"] = fitted.method
    if fitted.degrees is None:
        logs = groups["log_likelihood"]
        logs[OBSERVATIONS].attrs["meaning"] = (
            "log density of each row given the rows before it and the parameters (one step ahead)"
        )
        logs[OBSERVED_VALUES].attrs["meaning"] = (
            "log density of each observed value given all other values and the parameters (leave one out)"
        )
    else:
        draw_dims = ("chain", "draw")
        groups["posterior"] = groups["posterior"].assign(degrees_of_freedom=(draw_dims, fitted.degrees))
    attrs = {"created_by": "probsfa", "status": status}
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **groups})


@partial(jax.jit, static_argnames=("target", "n_draws"))
def draw_from_priors(target: Target, data: TargetData, key: jax.Array, n_draws: int) -> dict[str, jax.Array]:
    """Return prior draws (n_draws, ...) of all sites of the model, including observations."""
    with handlers_lock:
        return Predictive(target.model, num_samples=n_draws)(key, data, predict=True)


def _predicted_variables(observed: FloatArray, factors: FloatArray) -> dict[str, Any]:
    """Return draws (C, N, T, ...) of observations and factors as variables of a dataset."""
    row_dims = ("chain", "draw", "time")
    return {
        OBSERVATIONS: ((*row_dims, "feature"), observed),
        "latents": ((*row_dims, "component"), factors),
    }


class _TreeBuilder:
    """Builder of datasets with the names and coordinates of one fit."""

    def __init__(self, fitted: FittedPosterior, n_predictive: int) -> None:
        self._fitted, self._n_predictive = fitted, n_predictive
        self._sequences = sequences = fitted.sequences
        names = sequences.feature_names
        self._coordinates = {
            "component": np.arange(fitted.target.n_components),
            "feature": np.arange(sequences.n_features) if names is None else np.asarray(names, dtype=str),
            "time": fitted.time_index,
            "sequence": np.arange(len(sequences.lengths)),
            "covariate": np.array(fitted.exog_names, dtype=str),
        }
        rows, features = np.nonzero(sequences.mask)
        self._value_coordinates = {
            "value_time": ("value", self._coordinates["time"][rows]),
            "value_feature": ("value", self._coordinates["feature"][features]),
        }

    def dataset(self, variables: dict[str, Any], shape: tuple[int, ...] | None, draws: Any = None) -> Any:
        import xarray as xr

        used_dims = {dim for dims, _ in variables.values() for dim in dims}
        coords = {dim: (dim, values) for dim, values in self._coordinates.items() if dim in used_dims}
        coords.update(self._value_coordinates if "value" in used_dims else {})
        if shape is not None:
            coords["chain"] = ("chain", np.arange(shape[0]))
            coords["draw"] = ("draw", np.arange(shape[1]) if draws is None else np.asarray(draws))
        return xr.Dataset(variables, coords)

    def parameters(self, draws: AnyDraws) -> Any:
        """Return time scales, decays, loadings, noise and offset of draws (C, N, ...), in data units."""
        draw_dims = ("chain", "draw")
        noise_dims = (
            (*draw_dims, "feature") if draws.noise_variance.ndim == 3 else (*draw_dims, "sequence", "feature")
        )
        variables = {
            "timescale": ((*draw_dims, "component"), timescales(draws, self._fitted.units.time_unit)),
            "decay": ((*draw_dims, "component"), draws.decay),
            "loadings": ((*draw_dims, "feature", "component"), draws.loadings[..., : draws.decay.shape[-1]]),
            "noise_std": (noise_dims, np.sqrt(draws.noise_variance)),
            "noise_variance": (noise_dims, draws.noise_variance),
            "offset": ((*draw_dims, "feature"), draws.offset),
        }
        if self._fitted.exog_names:
            variables["exog_coef"] = ((*draw_dims, "feature", "covariate"), draws.exog_coef)
        if isinstance(draws, StructuralDraws):
            variables |= self._other_process_parameters(draws)
        return self.dataset(variables, draws.decay.shape[:2])

    def _other_process_parameters(self, draws: StructuralDraws) -> dict[str, Any]:
        """Return the parameters of cycles, smooth factors, trends and AR(1) noise.

        Times are in the unit of the data.
        """
        draw_dims, unit = ("chain", "draw"), self._fitted.units.time_unit
        arrays, first = draws._asdict(), draws.decay.shape[-1]
        values = site_values(arrays, draws.loadings, first)
        variables: dict[str, Any] = {}
        for kind in draws.other_processes.counts:
            sites = SITES[kind]
            for name in sites.priors:
                scale = unit if name in sites.times else 1.0
                variables[name] = ((*draw_dims, sites.dimension), values[name] * scale)
            states = sites.dimension if len(kind.loaded_states) == 1 else f"{sites.dimension}_state"
            variables[sites.loadings] = ((*draw_dims, "feature", states), values[sites.loadings])
        if draws.noise_scale.shape[-1]:
            variables["ar_noise_timescale"] = (
                (*draw_dims, "feature"),
                timescales_from_decay(draws.noise_decay, unit),
            )
            variables["ar_noise_std"] = ((*draw_dims, "feature"), draws.noise_scale)
        return variables

    def posterior_groups(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return draws of factors and observations given the data, and log densities of rows and values.

        The log density of a value is conditional on all other values, with factors integrated out. Pareto
        smoothed importance sampling can therefore approximate the posterior without the value (Buerkner,
        Gabry & Vehtari 2021, Computational Statistics 36:1243).
        """
        sequences, draws = self._sequences, self._fitted.draws
        chains, k = len(draws.decay), self._fitted.maximum.state_space.n_states
        max_draws = max(chains, _MAX_VALUES // (sequences.n_rows * sequences.n_features))
        n_draws = min(self._n_predictive, max_draws)
        selected, pairs = thinned_indices(draws, n_draws), mixture_draw_indices(self._fitted, n_draws)
        shape = (chains, len(selected))
        # Draws are computed one by one, so that intermediate results need little memory.
        factors = np.empty((*shape, sequences.n_rows, k))
        observed = np.empty((*shape, sequences.n_rows, sequences.n_features))
        logs = np.empty((*shape, sequences.n_rows))
        left_out_values, value_logs = np.empty_like(observed), np.empty_like(observed)
        if self._fitted.degrees is not None:
            [panel], _ = panels_of(self._fitted.units.with_time_unit(sequences), False)
            for i, weighted in enumerate(weighted_draws(self._fitted, panel, pairs)):
                draw_index, params = divmod(i, len(selected)), weighted.params
                factors[draw_index] = draw_factors(params, weighted.panel, 1, rng)[0]
                noise = rng.standard_t(weighted.degrees, observed[draw_index].shape)
                signal = params.offset + factors[draw_index] @ params.loadings.T
                observed[draw_index] = signal + np.sqrt(params.noise_variance) * noise
            return {
                "posterior_predictive": self.dataset(_predicted_variables(observed, factors), shape, selected)
            }
        for i, parts in enumerate(panels_given_draws(self._fitted, sequences, pairs)):
            draw_index, start = divmod(i, len(selected)), 0
            for params, panel, effects in parts:
                rows = slice(start, start + panel.n_rows)
                z = draw_factors(params, panel, 1, rng)[0]
                noise = np.sqrt(params.noise_variance) * rng.standard_normal(
                    (panel.n_rows, params.n_features)
                )
                factors[(*draw_index, rows)] = z
                observed[(*draw_index, rows)] = params.offset + effects + z @ params.loadings.T + noise
                logs[(*draw_index, rows)] = smooth(params, panel).row_log_likelihoods
                means, variances = leave_one_out_distributions(params, panel)
                stds = np.sqrt(variances)
                left_out_values[(*draw_index, rows)] = (
                    means + effects + stds * rng.standard_normal(means.shape)
                )
                value_logs[(*draw_index, rows)] = norm.logpdf(panel.values[: panel.n_rows], means, stds)
                start = rows.stop
        factors = factors[..., : draws.decay.shape[-1]]
        value_dims = ("chain", "draw", "value")
        predicted = {
            **_predicted_variables(observed, factors),
            OBSERVED_VALUES: (value_dims, left_out_values[..., sequences.mask]),
        }
        densities = {
            OBSERVATIONS: (("chain", "draw", "time"), logs),
            OBSERVED_VALUES: (value_dims, value_logs[..., sequences.mask]),
        }
        return {
            "posterior_predictive": self.dataset(predicted, shape, selected),
            "log_likelihood": self.dataset(densities, shape, selected),
        }

    def prior_groups(self, seed: int) -> dict[str, Any]:
        """Return draws of parameters and observations from the priors."""
        fitted, sequences = self._fitted, self._sequences
        if fitted.target.kinds is not None:
            return {}
        n = max(10, min(_N_PRIOR_DRAWS, _MAX_VALUES // (sequences.n_rows * sequences.n_features)))
        with engine_settings():
            data = jax.tree.map(jnp.asarray, fitted.data)
            drawn = draw_from_priors(fitted.target, data, jax.random.key(seed), n)
            drawn = {name: np.asarray(values) for name, values in drawn.items()}
        shape = (n, *fitted.draws.noise_variance.shape[2:])
        noise = drawn.get("noise_variance", fitted.data.known_noise)
        if np.shape(noise)[-1:] not in ((), shape[-1:]):
            noise = fitted.target.noise_model(fitted.data).column_values(noise)
        draws = Draws(
            np.exp(-1.0 / drawn["timescale"]),
            drawn["loadings"],
            np.broadcast_to(noise, shape),
            drawn["offset"],
            drawn.get("exog_coef", np.zeros((n, shape[-1], 0))),
        )
        shift, scale = fitted.units.shift, fitted.units.scale
        one_chain = Draws(*(x[None] for x in fitted.units.in_data_units(draws)))
        if fitted.degrees is not None:  # the model draws observations with normal noise, not Student-t
            return {"prior": self.parameters(one_chain)}
        observed = shift + scale * self._by_row(drawn[OBSERVATIONS])
        dims = ("chain", "draw", "time", "feature")
        return {
            "prior": self.parameters(one_chain),
            "prior_predictive": self.dataset({OBSERVATIONS: (dims, observed[None])}, (1, n)),
        }

    def _by_row(self, observed: FloatArray) -> FloatArray:
        """Return draws of padded observations without the padding, (N, T, D)."""
        if observed.ndim == 3:
            return observed[:, : self._sequences.n_rows]
        pieces = [observed[:, i, :n] for i, n in enumerate(self._sequences.lengths)]
        return np.concatenate(pieces, axis=1)

    def data_groups(self) -> dict[str, Any]:
        """Return the observations, their mask, and the sequence of each row."""
        sequences = self._sequences
        index = np.repeat(np.arange(len(sequences.lengths)), sequences.lengths)
        dims = ("time", "feature")
        constant = {"observed": (dims, sequences.mask), "sequence_of_row": (("time",), index)}
        observed: dict[str, Any] = {OBSERVATIONS: (dims, sequences.values)}
        if self._fitted.degrees is None:
            observed[OBSERVED_VALUES] = (("value",), sequences.values[sequences.mask])
        return {
            "observed_data": self.dataset(observed, None),
            "constant_data": self.dataset(constant, None),
        }
