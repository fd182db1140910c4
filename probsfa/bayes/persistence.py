"""What of a posterior goes into a file, and back: arrays and plain text, no pickle.

A file holds the draws and how they came about, the training data, and the priors by name and numbers, so that
all verbs and the groups for ArviZ are there after loading. The coordinates of the sampler, which nothing else
needs, are not kept.
"""

import dataclasses
import numbers
import os
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpy.typing import NDArray

from probsfa import _storage
from probsfa._times import TimeAxis
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_lengths
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import AnyDraws, Draws, StructuralDraws
from probsfa.bayes.fitted import FittedPosterior, Inferred, Units
from probsfa.bayes.packing import pack
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.bayes.structural import Kinds
from probsfa.statespace.learning.options import as_noise, is_number
from probsfa.statespace.parameters import Parameters

__all__ = ["KIND", "read", "write"]

KIND = "BayesianSFA"
# Arrays of draws that models with other processes than AR(1) factors have besides.
_MORE = ("rhythm_decay", "rhythm_frequency", "smooth_rate", "memory_decay", "memory_scale")
_DATE = "datetime64"


def write(
    path: str | os.PathLike[str], fitted: FittedPosterior, options: dict[str, Any], feature_names: Any = None
) -> None:
    """Write a posterior to a file.

    Parameters
    ----------
    path : path-like
        File to write; what is there is replaced in one piece.
    fitted : FittedPosterior
        The fit.
    options : dict
        Parameters of its estimator.
    feature_names : array-like of str, optional
        Names of the features.

    Raises
    ------
    ValueError
        If a prior is not one of NumPyro's distributions by name.
    """
    if not (options["random_state"] is None or isinstance(options["random_state"], numbers.Integral)):
        options = {**options, "random_state": None}
    priors = options["priors"]
    options = {
        **options,
        "noise": as_noise(options["noise"]),
        "priors": None if priors is None else _describe_priors(priors),
    }
    index, used = np.asarray(fitted.time_index), fitted.target.priors
    scalars = {
        "options": options,
        "fitted_priors": None if used is DEFAULT_PRIORS else _describe_priors(used),
        "method": fitted.method,
        "noise_kind": fitted.target.noise,
        "hierarchical": fitted.hierarchical,
        "time_unit": fitted.units.time_unit,
        "time_index": str(index.dtype),
        "time_axis": fitted.sequences.axis._asdict(),
        "step": fitted.sequences.step,
        "seed": fitted.seed,
        "interrupted": fitted.inferred.interrupted,
        "pareto_k": None if fitted.inferred.pareto_k is None else float(fitted.inferred.pareto_k),
    }
    arrays: dict[str, NDArray[Any]] = {
        **{f"draws_{name}": x for name, x in fitted.draws._asdict().items()},
        **{f"raw_{name}": x for name, x in fitted.raw_draws._asdict().items()},
        **{f"maximum_{name}": x for name, x in fitted.maximum.to_arrays().items()},
        **{f"stats_{name}": _plain(np.asarray(x)) for name, x in fitted.inferred.sample_stats.items()},
        "permutations": fitted.relabelling.permutations,
        "signs": fitted.relabelling.signs,
        "shift": fitted.units.shift,
        "scale": fitted.units.scale,
        "values": fitted.sequences.values,
        "lengths": np.array(fitted.sequences.lengths),
        "time_index": index.astype(np.int64) if index.dtype.kind == "M" else index,
    }
    optional = {
        "times": fitted.sequences.times,
        "elbo": fitted.inferred.elbo,
        "modes": fitted.inferred.modes,
        "known_noise": fitted.data.known_noise,
        "degrees": fitted.degrees,
        "least_noise": fitted.data.least_noise,
        "feature_names": None if feature_names is None else np.asarray(feature_names, dtype=str),
    }
    arrays |= {name: np.asarray(x) for name, x in optional.items() if x is not None}
    _storage.write(path, KIND, scalars, arrays)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Truth values as numbers; a file holds numbers and text."""
    return array.astype(np.uint8) if array.dtype.kind == "b" else array


def read(path: str | os.PathLike[str]) -> tuple[FittedPosterior, dict[str, Any], Any]:
    """Read what :func:`write` wrote; errors as of :func:`probsfa._storage.read`.

    Returns
    -------
    fitted : FittedPosterior
        The fit.
    options : dict
        Parameters of its estimator.
    feature_names : ndarray of object, or None
        Names of the features, if they have any.
    """
    scalars, arrays = _storage.read(path, KIND)
    with _storage.usable(path):
        return _assemble(scalars, arrays)


def _assemble(
    scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[FittedPosterior, dict[str, Any], Any]:
    options = dict(scalars["options"])
    if isinstance(options["noise"], list):
        options["noise"] = np.array(options["noise"])
    options["priors"] = None if options["priors"] is None else _rebuild_priors(options["priors"])
    names = arrays.get("feature_names")
    values = _numbers(arrays, "values", 2)
    lengths = check_lengths(arrays["lengths"], len(values))
    d, hierarchical = values.shape[1], bool(scalars["hierarchical"])
    noise_shape = (len(lengths), d) if hierarchical else (d,)
    draws, raw = (_draws(arrays, prefix, d, noise_shape) for prefix in ("draws_", "raw_"))
    lead, k = draws.decay.shape[:2], draws.decay.shape[2]
    n_states = draws.loadings.shape[-1]
    more = {}
    if isinstance(draws, StructuralDraws):
        more = {
            name: _numbers(arrays, f"maximum_{name}", 1, getattr(draws, name).shape[2:])
            for name in _MORE
            if getattr(draws, name).shape[-1]
        }
    maximum = Parameters(
        _numbers(arrays, "maximum_decay", 1, (k,)),
        _numbers(arrays, "maximum_loadings", 2, (d, n_states)),
        _numbers(arrays, "maximum_noise_variance", 1, (d,)),
        _numbers(arrays, "maximum_offset", 1, (d,)),
        **more,
    )
    units = Units(
        _numbers(arrays, "shift", 1, (d,)), _numbers(arrays, "scale", 1, (d,)), scalars["time_unit"]
    )
    if not (is_number(units.time_unit) and np.isfinite(units.time_unit) and units.time_unit > 0.0):
        raise ValueError(f"time_unit must be positive, got {units.time_unit!r:.80}")
    if np.any(units.scale <= 0.0):
        raise ValueError("scale must be positive")
    times = _numbers(arrays, "times", 1, (len(values),)) if "times" in arrays else None
    feature_names = None if names is None else tuple(names.tolist())
    if names is not None and (names.dtype.kind != "U" or names.shape != (d,)):
        raise ValueError("feature_names must be a name for each feature")
    step, axis = scalars["step"], TimeAxis(**scalars["time_axis"])
    if step is not None and not (is_number(step) and np.isfinite(step) and step > 0.0):
        raise ValueError("the step between rows must be a positive number")
    sequences = Sequences(values, lengths, times, feature_names=feature_names, step=step, axis=axis)
    if scalars["method"] not in ("nuts", "svi") or not isinstance(scalars["seed"], int):
        raise ValueError("the method must be 'nuts' or 'svi', and the seed a number")
    fitted_priors = scalars["fitted_priors"]
    kinds = None
    if isinstance(draws, StructuralDraws):
        n_cycles, n_smooth = draws.rhythm_decay.shape[-1], draws.smooth_rate.shape[-1]
        kinds = Kinds(n_cycles, n_smooth, bool(draws.memory_decay.shape[-1]))
    target = Target(
        k,
        d,
        scalars["noise_kind"],
        DEFAULT_PRIORS if fitted_priors is None else _rebuild_priors(fitted_priors),
        len(lengths) if hierarchical else None,
        kinds,
    )
    known, least = (
        _numbers(arrays, name, 1, (d,)) if name in arrays else None for name in ("known_noise", "least_noise")
    )
    data = TargetData(pack(units.standardized(sequences), hierarchical), known, least_noise=least)
    count = int(np.prod(lead))
    inferred = Inferred(
        np.zeros((*lead, 0)),
        {name.removeprefix("stats_"): x for name, x in arrays.items() if name.startswith("stats_")},
        bool(scalars["interrupted"]),
        arrays.get("elbo"),
        scalars["pareto_k"],
        arrays.get("modes"),
    )
    if "diverging" in inferred.sample_stats:
        inferred.sample_stats["diverging"] = inferred.sample_stats["diverging"] > 0
    permutations = arrays["permutations"].astype(np.intp)
    if permutations.shape != (count, k) or np.any(np.sort(permutations, axis=1) != np.arange(k)):
        raise ValueError("permutations must be an order of the latents for each draw")
    relabelling = Relabelling(permutations, _numbers(arrays, "signs", 2, (count, k)))
    index, dtype = arrays["time_index"], np.dtype(scalars["time_index"])
    fitted = FittedPosterior(
        method=scalars["method"],
        draws=draws,
        raw_draws=raw,
        maximum=maximum,
        relabelling=relabelling,
        inferred=inferred,
        units=units,
        target=target,
        data=data,
        sequences=sequences,
        time_index=index.astype(dtype) if dtype.kind == "M" else index,
        seed=scalars["seed"],
        degrees=_degrees(arrays, lead) if "degrees" in arrays else None,
    )
    if (fitted.degrees is not None) != bool(options.get("robust", False)):
        raise ValueError("degrees must be there where noise is robust, and only there")
    return fitted, options, None if names is None else names.astype(object)


def _degrees(arrays: dict[str, NDArray[Any]], lead: tuple[int, ...]) -> FloatArray:
    """Degrees of freedom of the draws, in their range."""
    degrees = _numbers(arrays, "degrees", 2, lead)
    if np.any(degrees <= 2.0):
        raise ValueError("degrees must be above two")
    return degrees


def _draws(
    arrays: dict[str, NDArray[Any]], prefix: str, n_features: int, noise_shape: tuple[int, ...]
) -> AnyDraws:
    """Draws whose shapes fit each other, all of them finite and in range."""
    decay = _numbers(arrays, f"{prefix}decay", 3)
    lead, k = decay.shape[:2], decay.shape[2]
    structural = f"{prefix}rhythm_decay" in arrays
    more = [_numbers(arrays, f"{prefix}{name}", 3) for name in _MORE] if structural else []
    n_states = k + sum(2 * one.shape[2] for one in (more[0], more[2])) if structural else k
    every = (
        decay,
        _numbers(arrays, f"{prefix}loadings", 4, (*lead, n_features, n_states)),
        _numbers(arrays, f"{prefix}noise_variance", 2 + len(noise_shape), (*lead, *noise_shape)),
        _numbers(arrays, f"{prefix}offset", 3, (*lead, n_features)),
    )
    draws: AnyDraws = StructuralDraws(*every, *more) if structural else Draws(*every)
    if any(one.shape[:2] != lead for one in more):
        raise ValueError(f"the arrays {prefix}... must have one entry for each draw")
    if decay.size == 0 or np.any(np.abs(decay) >= 1.0) or np.any(draws.noise_variance <= 0.0):
        raise ValueError(f"{prefix}decay must lie between -1 and 1, and {prefix}noise_variance be positive")
    return draws


def _numbers(
    arrays: dict[str, NDArray[Any]], name: str, ndim: int, shape: tuple[int, ...] | None = None
) -> FloatArray:
    """An array of a file as floats; only the training data may have missing cells."""
    array = arrays[name]
    if array.dtype.kind not in "fiu" or array.ndim != ndim or shape not in (None, array.shape):
        raise ValueError(f"{name} has the shape {array.shape}, which does not fit the other arrays")
    bad = np.isinf(array) if name == "values" else ~np.isfinite(array)
    if bad.any():
        raise ValueError(f"{name} holds what is no finite number")
    return array.astype(np.float64)


# ------------------------------------------------------------------ priors


def _describe_priors(priors: Priors) -> dict[str, Any]:
    """Priors by name and numbers."""
    return {field.name: _describe(getattr(priors, field.name)) for field in dataclasses.fields(priors)}


def _describe(prior: Any) -> Any:
    """A distribution of NumPyro by its name and numbers; None and numbers as they are.

    Raises
    ------
    ValueError
        If it cannot be made again so.
    """
    if prior is None or is_number(prior):
        return prior
    name = type(prior).__name__
    described: dict[str, Any] = {"distribution": name}
    if getattr(dist, name, None) is type(prior) and hasattr(prior, "arg_constraints"):
        described["parameters"] = {
            parameter: np.asarray(getattr(prior, parameter)).tolist() for parameter in prior.arg_constraints
        }
        try:
            again = _rebuild(described)
            if type(again) is type(prior) and again.shape() == prior.shape():
                return described
        except (TypeError, ValueError):
            pass
    raise ValueError(
        f"A prior that is a {name} cannot be saved: distributions of NumPyro that are made of numbers by "
        "their name can, such as Normal or LogNormal."
    )


def _rebuild_priors(described: dict[str, Any]) -> Priors:
    known = {field.name for field in dataclasses.fields(Priors)}
    if not set(described) <= known:
        raise ValueError(f"priors of {sorted(set(described) - known)} are unknown to this release")
    return Priors(**{name: _rebuild(prior) for name, prior in described.items()})


def _rebuild(described: Any) -> Any:
    """What :func:`_describe` described."""
    if not isinstance(described, dict):
        return described
    kind = getattr(dist, str(described["distribution"]), None)
    if not (isinstance(kind, type) and issubclass(kind, dist.Distribution)):
        raise ValueError(f"a prior that is a {described['distribution']!r:.80} is unknown")
    numbers_of = {name: np.asarray(x, dtype=np.float64) for name, x in described["parameters"].items()}
    return kind(**{name: float(x) if x.ndim == 0 else x for name, x in numbers_of.items()})
