"""What of a fitted model goes into a file, and back."""

import dataclasses
import numbers
import os
from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from probsfa import _storage
from probsfa._times import TimeAxis, seconds_of
from probsfa.statespace.covariates import Regression
from probsfa.statespace.fitted_model import MaximumLikelihoodModel
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from probsfa.statespace.learning.options import FitOptions, as_fixed, as_latents, as_noise, is_number
from probsfa.statespace.mapped import MappedModel
from probsfa.statespace.noise_free import NoiseFreeModel, SquareModel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.student import MOST_DEGREES
from probsfa.statespace.student_model import with_noise
from probsfa.statespace.transforms import Transforms, as_asked, as_plain, from_plain

__all__ = ["read", "write"]

_KIND = "ProbabilisticSFA"


def write(
    path: str | os.PathLike[str],
    model: MaximumLikelihoodModel,
    options: dict[str, Any],
    feature_names: Any = None,
) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    path : path-like
        File to write; what is there is replaced in one piece.
    model : MaximumLikelihoodModel
        The model.
    options : dict
        Parameters of its estimator.
    feature_names : array-like of str, optional
        Names of the features.
    """
    fitted = model.fitted
    if not (options["random_state"] is None or isinstance(options["random_state"], numbers.Integral)):
        options = {**options, "random_state": None}
    options = {
        **options,
        "noise": as_noise(options["noise"]),
        **{name: _plain(as_latents(name, options[name])) for name in ("rhythms", "smooth")},
        "init": None,  # where a fit started is no part of what it is
        "transforms": as_plain(options["transforms"]),
        "fixed": _plain_fixed(options.get("fixed")),
    }
    scalars = {
        "options": options,
        # A parameter that was set after the fit is the estimator's, not the model's.
        "fitted_with": dataclasses.asdict(fitted.options),
        "time_unit": fitted.time_unit,
        "time_axis": fitted.axis._asdict(),
        "log_likelihood": None if np.isnan(fitted.log_likelihood) else fitted.log_likelihood,
        "n_iter": fitted.n_iter,
        "n_evaluations": fitted.n_evaluations,
        "converged": fitted.converged,
        "status": fitted.status,
        "interrupted": fitted.interrupted,
        "degrees_of_freedom": fitted.degrees_of_freedom,
    }
    if isinstance(model, MappedModel):
        scalars["maps"] = [None if one is None else one.plain for one in model.transforms.by_column]
        if model.regression is not None:
            scalars["exog_names"] = list(model.regression.names)
    arrays = {
        **fitted.params.to_arrays(),
        "history": fitted.history,
        "shift": fitted.shift,
        "scale": fitted.scale,
        **{f"limit_{name}": value for name, value in model.arrays_to_save().items()},
    }
    if isinstance(model, MappedModel) and model.regression is not None:
        arrays["exog_coef"] = model.regression.coefficients
    if fitted.constant is not None:
        arrays["constant"] = fitted.constant.astype(np.uint8)
    if feature_names is not None:
        arrays["feature_names"] = np.asarray(feature_names, dtype=str)
    _storage.write(path, _KIND, scalars, arrays)


def _plain(latents: int | tuple[Any, ...]) -> int | tuple[float | str, ...]:
    """Periods or time scales as numbers and texts."""
    if not isinstance(latents, tuple):
        return latents
    return tuple(one if isinstance(one, str) or is_number(one) else f"{seconds_of(one)} s" for one in latents)


def _plain_fixed(fixed: Any) -> dict[str, Any] | None:
    """What is held as numbers and texts, None where it is learned."""
    held = as_fixed(fixed)
    if held is None or "periods" not in held:
        return held
    periods = [
        one if one is None or isinstance(one, str) or is_number(one) else f"{seconds_of(one)} s"
        for one in held["periods"]
    ]
    return {**held, "periods": periods}


def _saved(values: Mapping[str, Any], names: Iterable[str], defaults: Container[str]) -> dict[str, Any]:
    """The values of those names; a file that is older than a field with a default need not have it."""
    return {name: values[name] for name in names if name in values or name not in defaults}


def _option_names() -> tuple[list[str], list[str]]:
    """Names of the options of a fit, and of those with a default."""
    options = dataclasses.fields(FitOptions)
    defaulted = [option.name for option in options if option.default is not dataclasses.MISSING]
    return [option.name for option in options], defaulted


def read(path: str | os.PathLike[str]) -> tuple[MaximumLikelihoodModel, dict[str, Any], Any]:
    """Read what :func:`write` wrote; errors as of :func:`probsfa._storage.read`.

    Returns
    -------
    model : MaximumLikelihoodModel
        The model.
    options : dict
        Parameters of its estimator.
    feature_names : ndarray of object, or None
        Names of the features, if they have any.
    """
    scalars, arrays = _storage.read(path, _KIND)
    with _storage.usable(path):
        return _assemble(scalars, arrays)


def _assemble(
    scalars: dict[str, Any], arrays: dict[str, Any]
) -> tuple[MaximumLikelihoodModel, dict[str, Any], Any]:
    """A model from what a file holds; a KeyError, TypeError or ValueError says what is wrong with it."""
    options = scalars["options"]
    _check_scalars(scalars)
    arrays = _check_arrays(arrays)
    if isinstance(options["noise"], list):
        options["noise"] = np.array(options["noise"])
    if isinstance(options.get("fixed"), dict):
        options["fixed"] = {
            name: value if name == "periods" else np.array(value, dtype=np.float64)
            for name, value in options["fixed"].items()
        }
    if "transforms" in options:
        options["transforms"] = as_asked(options["transforms"])
    fitted_with = scalars.get("fitted_with", options)
    fitted = MaximumLikelihood(
        params=Parameters.from_arrays(arrays),
        shift=arrays["shift"],
        scale=arrays["scale"],
        time_unit=scalars["time_unit"],
        log_likelihood=np.nan if scalars["log_likelihood"] is None else scalars["log_likelihood"],
        history=arrays["history"],
        n_evaluations=scalars["n_evaluations"],
        converged=scalars["converged"],
        status=scalars["status"],
        options=FitOptions(**_saved(fitted_with, *_option_names())),
        axis=TimeAxis(**scalars.get("time_axis", {"kind": "unknown"})),
        degrees_of_freedom=scalars.get("degrees_of_freedom"),
        # Files of earlier versions say so in the status alone.
        interrupted=scalars.get("interrupted", scalars["status"].startswith(STATUS_SENTENCES["interrupted"])),
    )
    fitted.options.check()
    if fitted.options.has_memory != fitted.params.has_memory:
        raise ValueError("noise='ar1' and the memory of the noise must come together")
    if "constant" in arrays:
        fitted = dataclasses.replace(fitted, constant=arrays["constant"] > 0)
    model: MaximumLikelihoodModel = with_noise(fitted)
    if "limit_decay" in arrays:
        square = SquareModel(*(arrays[f"limit_{name}"] for name in SquareModel._fields))
        model = NoiseFreeModel(fitted, square)
    elif np.any(fitted.params.noise_variance <= 0.0):
        raise ValueError("noise_variance must be positive")
    if "maps" in scalars:
        maps = scalars["maps"]
        if not isinstance(maps, list) or len(maps) != fitted.params.n_features:
            raise ValueError("maps must be one for each feature")
        regression = None
        if "exog_coef" in arrays:
            regression = Regression(arrays["exog_coef"], tuple(scalars["exog_names"]))
            if regression.coefficients.shape[1] != len(regression.names):
                raise ValueError("exog_names must be a name for each coefficient")
        model = MappedModel(model, Transforms(tuple(from_plain(one) for one in maps)), regression)
    names = arrays["feature_names"].astype(object) if "feature_names" in arrays else None
    return model, options, names


def _check_scalars(scalars: dict[str, Any]) -> None:
    """Raise a ValueError for numbers and texts that are none, a KeyError for those that are missing."""
    for name in ("options", "fitted_with"):
        if not isinstance(scalars.get(name, {}), dict):
            raise ValueError(f"{name} must be parameters by name")
    for name in ("time_unit", "log_likelihood"):
        value = scalars[name]
        # Parameters that were given, not fitted, have a log-likelihood of nothing: None.
        given = name == "log_likelihood" and value is None and scalars["n_evaluations"] == 0
        if not (given or (is_number(value) and np.isfinite(value))):
            raise ValueError(f"{name} must be a finite number, got {value!r:.80}")
    if scalars["time_unit"] <= 0.0:
        raise ValueError(f"time_unit must be positive, got {scalars['time_unit']!r}")
    degrees = scalars.get("degrees_of_freedom")
    robust = bool(scalars.get("fitted_with", scalars["options"]).get("robust", False))
    if robust != (degrees is not None):
        raise ValueError("degrees_of_freedom must be there where noise is robust, and only there")
    if robust and not (is_number(degrees) and 2.0 < degrees <= 1.01 * MOST_DEGREES):
        raise ValueError(f"degrees_of_freedom must be above 2, and finite, got {degrees!r:.80}")
    count = scalars["n_evaluations"]
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"n_evaluations must be a count, got {count!r:.80}")
    if not isinstance(scalars["converged"], bool) or not isinstance(scalars["status"], str):
        raise ValueError("converged must be true or false, and status a sentence")
    if not isinstance(scalars.get("interrupted", False), bool):
        raise ValueError("interrupted must be true or false")


# Letters stand for numbers of features, latents, latents of the square model, and anything.
_SHAPES = {
    "decay": "K",
    "loadings": "DK",
    "noise_variance": "D",
    "offset": "D",
    "shift": "D",
    "scale": "D",
    "history": "*",
}
# Of rhythms and smooth latents, and of the noise's memory, where there are any.
_SHAPES_OF_PAIRS = {"rhythm_decay": "Q", "rhythm_frequency": "Q", "smooth_rate": "M"}
_SHAPES_OF_MEMORY = {"memory_decay": "D", "memory_scale": "D"}
_SHAPES_OF_LIMIT = {"limit_decay": "R", "limit_components": "RD", "limit_loadings": "DR", "limit_mean": "D"}


def _check_arrays(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays as float64, once their shapes fit each other and their values are finite and in range."""
    pairs = {name: letter for name, letter in _SHAPES_OF_PAIRS.items() if name in arrays}
    if pairs:  # the states, of which two-state latents have their share
        pairs["loadings"] = "DS"
    expected = {
        **_SHAPES,
        **pairs,
        **(_SHAPES_OF_MEMORY if any(name in arrays for name in _SHAPES_OF_MEMORY) else {}),
        **({"exog_coef": "DP"} if "exog_coef" in arrays else {}),
        **(_SHAPES_OF_LIMIT if any(name in arrays for name in _SHAPES_OF_LIMIT) else {}),
    }
    checked, sizes = dict(arrays), dict[str, int]()
    for name, letters in expected.items():
        array = arrays[name]
        if array.dtype.kind not in "fiu" or array.ndim != len(letters):
            raise ValueError(
                f"{name} must hold numbers in {len(letters)} dimensions, got shape {array.shape}"
            )
        for letter, size in zip(letters, array.shape, strict=True):
            if letter != "*" and (
                (size == 0 and not (pairs and letter == "K")) or sizes.setdefault(letter, size) != size
            ):
                raise ValueError(f"{name} has the shape {array.shape}, which does not fit the other arrays")
        checked[name] = array.astype(np.float64)
        if not np.isfinite(checked[name]).all():
            raise ValueError(f"{name} holds what is no finite number")
        if name.endswith("decay") and np.any(np.abs(checked[name]) >= 1.0):
            raise ValueError(f"{name} must lie between -1 and 1")
    if pairs:
        _check_pairs(checked, sizes)
    if "memory_scale" in arrays and np.any(checked["memory_scale"] < 0.0):
        raise ValueError("memory_scale must not be negative")
    if np.any(checked["scale"] <= 0.0) or np.any(checked["noise_variance"] < 0.0):
        raise ValueError("scale must be positive, and noise_variance must not be negative")
    if sizes.get("R", sizes["K"]) < sizes["K"]:
        raise ValueError("the limit has fewer latents than the model")
    constant = arrays.get("constant")
    if constant is not None and (constant.dtype.kind != "u" or constant.shape != (sizes["D"],)):
        raise ValueError("constant must tell of each feature whether it is")
    names = arrays.get("feature_names")
    if names is not None and (names.dtype.kind != "U" or names.shape != (sizes["D"],)):
        raise ValueError("feature_names must be a name for each feature")
    return checked


def _check_pairs(arrays: dict[str, Any], sizes: dict[str, int]) -> None:
    """Raise a KeyError or a ValueError unless rhythms and smooth latents fit the loadings."""
    if "Q" in sizes and (np.any(arrays["rhythm_decay"] <= 0.0) or np.any(arrays["rhythm_frequency"] <= 0.0)):
        raise ValueError("rhythm_decay and rhythm_frequency must be positive")
    if "M" in sizes and np.any(arrays["smooth_rate"] <= 0.0):
        raise ValueError("smooth_rate must be positive")
    if sizes["S"] != sizes["K"] + 2 * sizes.get("Q", 0) + 2 * sizes.get("M", 0):
        raise ValueError("loadings must have a column for each state")
