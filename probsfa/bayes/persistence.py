"""Conversion of the posterior of a :class:`probsfa.BayesianSFA` to values for a file, and back.

The values are the draws and their diagnostics, the training data, and the priors by name and numbers. They
restore all methods and the groups for ArviZ. The coordinates of the sampler are not saved, because no method
uses them. The values have the same meaning as in version 1 of the file format (:mod:`probsfa._saving`); some
have new names.
"""

import dataclasses
from contextlib import suppress
from typing import Any

import numpy as np
import numpyro.distributions as dist

from probsfa._renamed import with_new_names
from probsfa._saving import check_array_shapes
from probsfa._times import TimeAxis
from probsfa._validation import Sequences, check_lengths
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import AnyDraws, Draws, StructuralDraws
from probsfa.bayes.fitted import FittedPosterior, InferenceResult, Units
from probsfa.bayes.kinds import Kinds
from probsfa.bayes.packing import pack
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.statespace.learning.options import is_number
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import RENAMED_ARRAYS, StateSpace
from probsfa.statespace.processes import KINDS

__all__ = ["from_arrays", "to_arrays"]

# Sizes in shapes (:func:`probsfa._saving.check_array_shapes`): chains C, draws of each chain N, all draws L,
# columns D, columns with AR(1) noise E, factors K, states S, rows T, sequences G, covariates P. A name in
# place of a letter is the number of processes of this kind.
_SHAPES_OF_DRAWS = dict(decay="CNK", loadings="CNDS", noise_variance="CND", offset="CND")
_SHAPES_OF_KINDS = {name: kind.__name__ for kind in KINDS for name in kind.names.values()} | dict(
    noise_decay="E", noise_scale="E"
)
_REQUIRED = {
    f"{kind}_{name}": shape for kind in ("draws", "raw") for name, shape in _SHAPES_OF_DRAWS.items()
} | dict(
    **{"maximum_decay": "K", "maximum_loadings": "DS", "maximum_noise_variance": "D", "maximum_offset": "D"},
    **{"permutations": "LK", "signs": "LK", "shift": "D", "scale": "D", "values": "TD"},
)
_OPTIONAL = dict(
    **dict(
        times="T", known_noise="D", noise_groups="D", min_noise_variance="D", degrees="CN", feature_names="D"
    ),
    **dict(draws_exog_coef="CNDP", raw_exog_coef="CNDP", exog="TP"),
    **dict(exog_shift="P", exog_scale="P"),
) | {
    f"{part}_{name}": (*lead, size)
    for name, size in _SHAPES_OF_KINDS.items()
    for part, lead in (("draws", "CN"), ("raw", "CN"), ("maximum", ""))
}
_POSITIVE = ("scale", "exog_scale", "draws_noise_variance", "raw_noise_variance", "degrees")

# From the names of values in files of earlier versions to their present names.
_RENAMED = {
    f"{part}_{old}": f"{part}_{new}"
    for part in ("draws", "raw", "maximum")
    for old, new in RENAMED_ARRAYS.items()
} | {"least_noise": "min_noise_variance"}

_COVARIATE_ARRAYS = ("exog_coef", "exog_shift", "exog_scale")

# Attributes of the result that exist only for some inference methods.
_RUN_ATTRIBUTES = tuple(
    name
    for name in InferenceResult._fields
    if name not in ("vectors", "sample_stats", "interrupted", "pareto_k")
)


def to_arrays(fitted: FittedPosterior, options: dict[str, Any], feature_names: Any = None) -> dict[str, Any]:
    """Return a posterior as numbers, texts, arrays and collections of them.

    Parameters
    ----------
    fitted : FittedPosterior
        The fit.
    options : dict
        Parameters of its estimator.
    feature_names : array-like of str, optional
        Names of the columns.

    Raises
    ------
    ValueError
        If a prior cannot be rebuilt from the name of a NumPyro distribution and numbers.
    """
    sequences, inferred, priors_used = fitted.sequences, fitted.inferred, fitted.target.priors
    priors = options["priors"]
    state = {
        "options": {**options, "priors": None if priors is None else _describe_priors(priors)},
        "fitted_priors": None if priors_used is DEFAULT_PRIORS else _describe_priors(priors_used),
        "method": fitted.method,
        "noise_groups": np.array(fitted.target.noise.groups),
        "hierarchical": fitted.hierarchical,
        "seed": fitted.seed,
        "interrupted": inferred.interrupted,
        "pareto_k": inferred.pareto_k,
        **{f"draws_{name}": x for name, x in fitted.draws._asdict().items()},
        **{f"raw_{name}": x for name, x in fitted.raw_draws._asdict().items()},
        **{f"maximum_{name}": x for name, x in fitted.maximum.to_arrays().items()},
        **{f"stats_{name}": np.asarray(x) for name, x in inferred.sample_stats.items()},
        **fitted.relabelling._asdict(),
        **fitted.units._asdict(),
        "values": sequences.values,
        "lengths": np.array(sequences.lengths),
        "step": sequences.step,
        "time_axis": sequences.axis._asdict(),
        "time_index": np.asarray(fitted.time_index),
    }
    optional = {
        "times": sequences.times,
        **{name: getattr(inferred, name) for name in _RUN_ATTRIBUTES},
        "known_noise": fitted.data.known_noise,
        "degrees": fitted.degrees,
        "min_noise_variance": fitted.data.min_noise_variance,
        "feature_names": feature_names,
    }
    if fitted.exog_names:
        optional["exog"], state["exog_names"] = sequences.exog, list(fitted.exog_names)
    else:
        state = {name: x for name, x in state.items() if not name.endswith(_COVARIATE_ARRAYS)}
    return state | {name: np.asarray(x) for name, x in optional.items() if x is not None}


def from_arrays(state: dict[str, Any]) -> tuple[FittedPosterior, dict[str, Any]]:
    """Return the posterior and the parameters of its estimator from the values of :func:`to_arrays`.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the values do not describe a posterior.
    """
    state = with_new_names(state, _RENAMED)
    options = dict(state["options"])
    if "progress_bar" in options:  # the name in files of earlier versions
        options["verbose"] = options.pop("progress_bar")
    if isinstance(options["noise"], list):
        options["noise"] = np.array(options["noise"])
    options["priors"] = None if options["priors"] is None else _rebuild_priors(options["priors"])
    sizes = _check(state)
    lengths = check_lengths(np.asarray(state["lengths"]).astype(np.int64), sizes["T"])
    names = state.get("feature_names")
    units = Units(**{name: state[name] for name in Units._fields if name in state})
    exog_names = tuple(state.get("exog_names", ()))
    if len(exog_names) != sizes.get("P", 0):
        raise ValueError(f"exog_names must contain {sizes.get('P', 0)} names, got {len(exog_names)}")
    sequences = Sequences(
        state["values"],
        lengths,
        state.get("times"),
        feature_names=None if names is None else tuple(np.asarray(names).tolist()),
        step=state["step"],
        axis=TimeAxis(**state["time_axis"]),
        exog=state["exog"] if exog_names else None,
    )
    priors, hierarchical = state["fitted_priors"], bool(state["hierarchical"])
    target = Target(
        sizes["K"],
        _noise(state, sizes["D"]),
        DEFAULT_PRIORS if priors is None else _rebuild_priors(priors),
        len(lengths) if hierarchical else None,
        _kinds(state),
        len(exog_names),
    )
    packed = pack(units.standardized(sequences), hierarchical)
    stats = {name.removeprefix("stats_"): x for name, x in state.items() if name.startswith("stats_")}
    if "diverging" in stats:
        stats["diverging"] = stats["diverging"] > 0
    fitted = FittedPosterior(
        method=state["method"],
        draws=_draws(state, "draws"),
        raw_draws=_draws(state, "raw"),
        maximum=StateSpace.from_arrays(
            {name.removeprefix("maximum_"): x for name, x in state.items() if name.startswith("maximum_")}
        ),
        relabelling=Relabelling(state["permutations"].astype(np.intp), state["signs"]),
        inferred=InferenceResult(
            vectors=np.zeros((sizes["C"], sizes["N"], 0)),
            sample_stats=stats,
            interrupted=bool(state["interrupted"]),
            pareto_k=state["pareto_k"],
            **{name: state.get(name) for name in _RUN_ATTRIBUTES},
        ),
        units=units,
        target=target,
        data=TargetData(packed, state.get("known_noise"), min_noise_variance=state.get("min_noise_variance")),
        sequences=sequences,
        time_index=state["time_index"],
        seed=state["seed"],
        degrees=state.get("degrees"),
        exog_names=exog_names,
    )
    return fitted, options


def _draws(state: dict[str, Any], part: str) -> AnyDraws:
    prefix = f"{part}_"
    kind = StructuralDraws if f"{part}_rhythm_decay" in state else Draws
    arrays = {name: state[prefix + name] for name in kind._fields if prefix + name in state}
    # Files of earlier versions do not have the arrays of later kinds of processes.
    lead, d = arrays["decay"].shape[:2], arrays["loadings"].shape[2]
    empty_arrays = {
        name: np.zeros((*lead, d, 0) if name == "exog_coef" else (*lead, 0)) for name in kind._fields
    }
    return kind(**empty_arrays | arrays)


def _noise(state: dict[str, Any], n_features: int) -> NoiseVariances:
    """Return which columns share a noise variance, and which variances are known."""
    if "noise_kind" in state:  # the name in files of earlier versions, "fixed" for known variances
        kind = state["noise_kind"]
        return NoiseVariances.of_option(None if kind == "fixed" else kind, n_features)
    groups = np.asarray(state["noise_groups"]).astype(int)
    if not np.array_equal(np.unique(groups[groups != -1]), np.arange(1 + np.max(groups, initial=-1))):
        raise ValueError("noise_groups must be the numbers 0, 1, ... of groups, or -1 for known noise")
    return NoiseVariances(tuple(groups.tolist()))


def _kinds(state: dict[str, Any]) -> Kinds | None:
    """Return the processes of the model other than AR(1) factors, or None."""
    draws = _draws(state, "draws")
    if isinstance(draws, Draws):
        return None
    return Kinds(draws.other_processes, bool(draws.noise_decay.shape[-1]))


def _check(state: dict[str, Any]) -> dict[str, int]:
    """Return the lengths of the arrays; errors name the value with a wrong shape or range."""
    if state["method"] not in ("nuts", "svi") or not isinstance(state["seed"], int | np.integer):
        raise ValueError("method must be 'nuts' or 'svi', and seed an integer")
    if not 0.0 < state["time_unit"] < np.inf:
        raise ValueError(f"time_unit must be positive and finite, got {state['time_unit']}")
    shapes = _REQUIRED | _OPTIONAL
    if state["hierarchical"]:
        shapes |= dict(draws_noise_variance="CNGD", raw_noise_variance="CNGD")
    sizes = check_array_shapes(state, shapes, _OPTIONAL, _POSITIVE)
    orders = np.sort(state["permutations"], axis=1)
    if sizes["L"] != sizes["C"] * sizes["N"] or np.any(orders != np.arange(sizes["K"])):
        raise ValueError("permutations must have a permutation of the factors for each draw")
    if ("degrees" in state) != bool(state["options"].get("robust", False)):
        raise ValueError("degrees must be present if robust is True, and absent otherwise")
    return sizes


# ------------------------------------------------------------------ priors


def _describe_priors(priors: Priors) -> dict[str, Any]:
    """Return priors as names and numbers."""
    return {field.name: _describe(getattr(priors, field.name)) for field in dataclasses.fields(priors)}


def _describe(prior: Any) -> Any:
    """Return a distribution of NumPyro as its name and numbers; None and numbers unchanged."""
    if prior is None or is_number(prior):
        return prior
    name, parameters = type(prior).__name__, getattr(prior, "arg_constraints", {})
    described = {
        "distribution": name,
        "parameters": {parameter: np.asarray(getattr(prior, parameter)).tolist() for parameter in parameters},
    }
    with suppress(KeyError, TypeError, ValueError):
        rebuilt = _rebuild(described)
        if type(rebuilt) is type(prior) and rebuilt.shape() == prior.shape():
            return described
    raise ValueError(
        f"A prior of type {name} cannot be saved. Use a distribution of NumPyro with numeric parameters, "
        "such as Normal or LogNormal."
    )


def _rebuild_priors(described: dict[str, Any]) -> Priors:
    known_fields = {field.name for field in dataclasses.fields(Priors)}
    if not set(described) <= known_fields:
        raise ValueError(f"priors of {sorted(set(described) - known_fields)} are unknown to this release")
    return Priors(**{name: _rebuild(prior) for name, prior in described.items()})


def _rebuild(described: Any) -> Any:
    """Return the distribution of a name and numbers: the inverse of :func:`_describe`."""
    if not isinstance(described, dict):
        return described
    kind = getattr(dist, str(described["distribution"]), None)
    if not (isinstance(kind, type) and issubclass(kind, dist.Distribution)):
        raise ValueError(f"a prior of type {described['distribution']!r:.80} is unknown")
    numbers_of = {name: np.asarray(x, dtype=np.float64) for name, x in described["parameters"].items()}
    return kind(**{name: float(x) if x.ndim == 0 else x for name, x in numbers_of.items()})
