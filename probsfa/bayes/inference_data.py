"""A fitted model as an ``xarray.DataTree`` with the groups of ArviZ, made by xarray alone.

ArviZ 1 reads such trees; for ArviZ 0.23, the last for Python 3.11, they become an ``InferenceData``.
"""

import importlib.metadata
import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro.infer import Predictive

from probsfa._timescales import timescales_from_decay
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.target import Draws
from probsfa.bayes.model import OBSERVATIONS
from probsfa.bayes.relabelling.draws import each_draw, in_data_units, spread_out
from probsfa.statespace.posterior import smooth
from probsfa.statespace.simulation import draw_latents

if TYPE_CHECKING:
    from probsfa.bayes.estimator import BayesianSFA

FloatArray = NDArray[np.float64]

# Most cells of a group of predicted series: 160 MB.
_MOST_CELLS = 20_000_000
_PRIOR_DRAWS = 200


def time_index(X: Any, found: Sequences, times: Any) -> NDArray[Any]:
    """The user's own times of all rows: the index of frames, the times given, or row numbers."""
    pieces = X if found.is_list else [X]
    if all(hasattr(x, "index") and hasattr(x, "columns") for x in pieces):
        return np.concatenate([_plain(x.index) for x in pieces])
    if times is not None:
        return np.concatenate([_plain(t) for t in (times if found.is_list else [times])])
    return np.concatenate([np.arange(n) for n in found.lengths])


def _plain(index: Any) -> NDArray[Any]:
    """Times without a time zone, in UTC where they had one."""
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert(None)
    if getattr(index, "nlevels", 1) > 1:
        return np.arange(len(index))
    return np.asarray(index)


def for_arviz(tree: Any) -> Any:
    """What the installed ArviZ works with: an ``InferenceData`` before version 1, the tree itself after."""
    if int(importlib.metadata.version("arviz").partition(".")[0]) >= 1:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz.InferenceData.from_datatree(tree)


def build(model: "BayesianSFA", rng: np.random.Generator) -> Any:
    """Make the tree of a fitted estimator; see :meth:`BayesianSFA.to_datatree`."""
    import xarray as xr

    maker = _Maker(model)
    groups = {
        "posterior": maker.parameters(model.draws_),
        "posterior_raw": maker.parameters(model.raw_draws_),
        **maker.given_the_data(rng),
        **maker.before_the_data(int(rng.integers(2**31))),
        **maker.data(),
    }
    if model.sample_stats_:
        stats = {name: (("chain", "draw"), values) for name, values in model.sample_stats_.items()}
        groups["sample_stats"] = maker.dataset(stats, model.draws_.decay.shape[:2])
    groups["posterior"].attrs["relabelling"] = model.relabelling_
    groups["posterior"].attrs["inference"] = model.inference
    groups["log_likelihood"].attrs["meaning"] = (
        "log density of each row given the rows before it and the parameters (one step ahead)"
    )
    attrs = {"created_by": "probsfa", "status": model.status_}
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **groups})


class _Maker:
    """Datasets with the names and coordinates of one model."""

    def __init__(self, model: "BayesianSFA") -> None:
        self._model = model
        self._found = found = model._training
        names = getattr(model, "feature_names_in_", None)
        self._coordinates = {
            "component": np.arange(model.n_components),
            "feature": np.arange(found.n_features) if names is None else np.asarray(names, dtype=str),
            "time": model._index,
            "sequence": np.arange(len(found.lengths)),
        }

    def dataset(self, variables: dict[str, Any], shape: tuple[int, ...] | None, draws: Any = None) -> Any:
        import xarray as xr

        used = {dim for dims, _ in variables.values() for dim in dims}
        coords = {dim: (dim, values) for dim, values in self._coordinates.items() if dim in used}
        if shape is not None:
            coords["chain"] = ("chain", np.arange(shape[0]))
            coords["draw"] = ("draw", np.arange(shape[1]) if draws is None else np.asarray(draws))
        return xr.Dataset(variables, coords)

    def parameters(self, draws: Draws) -> Any:
        """Time scales, decays, loadings, noise and offset of draws (C, N, ...), in data units."""
        lead = ("chain", "draw")
        by_noise = (*lead, "feature") if draws.noise_variance.ndim == 3 else (*lead, "sequence", "feature")
        variables = {
            "timescale": ((*lead, "component"), timescales_from_decay(draws.decay, self._model.time_unit_)),
            "decay": ((*lead, "component"), draws.decay),
            "loadings": ((*lead, "feature", "component"), draws.loadings),
            "noise_std": (by_noise, np.sqrt(draws.noise_variance)),
            "noise_variance": (by_noise, draws.noise_variance),
            "offset": ((*lead, "feature"), draws.offset),
        }
        return self.dataset(variables, draws.decay.shape[:2])

    def given_the_data(self, rng: np.random.Generator) -> dict[str, Any]:
        """Latents and observations by a simulation smoother, and one-step-ahead log densities."""
        model, found = self._model, self._found
        draws = model.draws_
        chains = draws.decay.shape[0]
        fits = max(chains, _MOST_CELLS // (found.n_rows * found.n_features))
        chosen = spread_out(draws, min(model.n_predictive, fits))
        panels, _ = model._panels(found)
        shape = (chains, len(chosen))
        # Filled draw by draw: no more is in memory than what is kept.
        latents = np.empty((*shape, found.n_rows, model.n_components))
        observed = np.empty((*shape, found.n_rows, found.n_features))
        logs = np.empty((*shape, found.n_rows))
        for i, draw in enumerate(each_draw(draws, len(panels), chosen)):
            at, begin = divmod(i, len(chosen)), 0
            for params, panel in zip(draw, panels, strict=True):
                rows = slice(begin, begin + panel.n_rows)
                z = draw_latents(params, panel, 1, rng)[0]
                noise = np.sqrt(params.noise_variance) * rng.standard_normal(
                    (panel.n_rows, params.n_features)
                )
                latents[(*at, rows)] = z
                observed[(*at, rows)] = params.offset + z @ params.loadings.T + noise
                logs[(*at, rows)] = smooth(params, panel).row_log_likelihoods
                begin = rows.stop
        lead = ("chain", "draw", "time")
        predicted = {OBSERVATIONS: ((*lead, "feature"), observed), "latents": ((*lead, "component"), latents)}
        return {
            "posterior_predictive": self.dataset(predicted, shape, chosen),
            "log_likelihood": self.dataset({OBSERVATIONS: (lead, logs)}, shape, chosen),
        }

    def before_the_data(self, seed: int) -> dict[str, Any]:
        """Draws of parameters and observations from the priors."""
        model, found, target = self._model, self._found, self._model._target
        n = max(10, min(_PRIOR_DRAWS, _MOST_CELLS // (found.n_rows * found.n_features)))
        with jax.enable_x64(True):
            drawn = Predictive(target.model, num_samples=n)(jax.random.key(seed), model._data, predict=True)
            drawn = {name: np.asarray(values) for name, values in drawn.items()}
        shape = (n, *model.draws_.noise_variance.shape[2:])
        noise = drawn.get("noise_variance", model._data.known_noise)
        draws = Draws(
            np.exp(-1.0 / drawn["timescale"]),
            drawn["loadings"],
            np.broadcast_to(noise, shape),
            drawn["offset"],
        )
        one_chain = Draws(*(x[None] for x in in_data_units(draws, model._shift, model._scale)))
        observed = model._shift + model._scale * self._by_row(drawn[OBSERVATIONS])
        lead = ("chain", "draw", "time", "feature")
        return {
            "prior": self.parameters(one_chain),
            "prior_predictive": self.dataset({OBSERVATIONS: (lead, observed[None])}, (1, n)),
        }

    def _by_row(self, observed: FloatArray) -> FloatArray:
        """Draws of padded observations as those of the rows that are data, (N, T, D)."""
        if observed.ndim == 3:
            return observed[:, : self._found.n_rows]
        pieces = [observed[:, i, :n] for i, n in enumerate(self._found.lengths)]
        return np.concatenate(pieces, axis=1)

    def data(self) -> dict[str, Any]:
        """What was observed, where, and in which sequence."""
        found = self._found
        which = np.repeat(np.arange(len(found.lengths)), found.lengths)
        cells = ("time", "feature")
        constant = {"observed": (cells, found.mask), "sequence_of_row": (("time",), which)}
        return {
            "observed_data": self.dataset({OBSERVATIONS: (cells, found.values)}, None),
            "constant_data": self.dataset(constant, None),
        }
