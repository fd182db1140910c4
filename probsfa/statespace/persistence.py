"""Conversion of a fitted model of :class:`probsfa.ProbabilisticSFA` to values for a file, and back.

The same code reads both versions of the file format (:mod:`probsfa._saving`). The meanings of the values are
the same, and old names of arrays are replaced by their new names.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from probsfa._renamed import with_new_names
from probsfa._saving import check_array_shapes
from probsfa._times import TimeAxis
from probsfa.statespace.calibration import Calibration
from probsfa.statespace.covariates import Regression
from probsfa.statespace.learning.maximum_likelihood import FitStatus, MaximumLikelihood, Note
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from probsfa.statespace.learning.options import FitOptions, as_noise
from probsfa.statespace.models import MaximumLikelihoodModel
from probsfa.statespace.noise import HeavyTails
from probsfa.statespace.noise_free import NoiseFreeModel, SquareModel
from probsfa.statespace.parameters import RENAMED_ARRAYS, StateSpace
from probsfa.statespace.processes import KINDS
from probsfa.statespace.student_model import model_of_fit
from probsfa.statespace.transformed_model import TransformedModel
from probsfa.statespace.transforms import (
    Transforms,
    argument_from_json,
    argument_to_json,
    transform_from_list,
)

__all__ = ["from_arrays", "to_arrays"]

# Saved fields of a fit, in addition to parameters, options and time axis.
_NUMBERS = ("time_unit", "log_likelihood", "n_evaluations", "converged", "status", "interrupted")
_FIT_ARRAYS = ("shift", "scale", "history", *_NUMBERS)
# Shapes of required arrays, with a letter for each dimension: D columns, K factors, S states, "*" for any
# length (:func:`probsfa._saving.check_array_shapes`).
_REQUIRED = dict(decay="K", loadings="DS", noise_variance="D", offset="D", shift="D", scale="D", history="*")
# Arrays of each kind of process have the same size.
_SHAPES_OF_KINDS = {name: (kind.__name__,) for kind in KINDS for name in kind.names.values()}
_SHAPES_OF_LIMIT = dict(limit_decay="R", limit_components="RD", limit_loadings="DR", limit_mean="D")
_SHAPES_OF_CALIBRATION = dict(
    calibration_distances="B", calibration_factors="B", calibration_small_sample="D"
)
_OPTIONAL: dict[str, Sequence[str]] = {
    **_SHAPES_OF_KINDS,
    **dict(noise_decay="D", noise_scale="D", exog_coef="DP", constant="D", feature_names="D"),
    **_SHAPES_OF_LIMIT,
    **_SHAPES_OF_CALIBRATION,
    **dict(outlier_spread="D", observed_once="D", n_values="D", lengths="*"),
}
_POSITIVE = ("scale", *_SHAPES_OF_KINDS, *_SHAPES_OF_CALIBRATION)


def to_arrays(
    model: MaximumLikelihoodModel, options: dict[str, Any], feature_names: Any = None
) -> dict[str, Any]:
    """Return the values of a fitted model: numbers, texts, arrays, and lists and dictionaries of these.

    Parameters
    ----------
    model : MaximumLikelihoodModel
        The fitted model.
    options : dict
        Parameters of the estimator.
    feature_names : array-like of str, optional
        Names of the columns.
    """
    fitted = model.fitted
    state = {
        # Parameters of the estimator may have been set after the fit; "fitted_with" has the parameters of the
        # fit.
        "options": {
            **options,
            "noise": as_noise(options["noise"]),
            "init": None,
            "transforms": argument_to_json(options["transforms"]),
        },
        "fitted_with": fitted.options.as_dict,
        "time_axis": fitted.axis._asdict(),
        **{name: _plain(getattr(fitted, name)) for name in _FIT_ARRAYS},
        "degrees_of_freedom": None if fitted.tails is None else _plain(fitted.tails.shape),
        "status": str(fitted.status),
        "status_notes": [[note.code, note.text, json.dumps(note.values)] for note in fitted.status.notes],
        **fitted.params.to_arrays(),
        **{f"limit_{name}": value for name, value in model.arrays_to_save().items()},
    }
    if isinstance(model, TransformedModel):
        state["maps"] = [None if one is None else one.as_list for one in model.transforms.by_column]
        if model.regression is not None:
            state["exog_coef"] = model.regression.coefficients
            state["exog_names"] = list(model.regression.names)
    optional = {
        "constant": fitted.constant,
        "feature_names": feature_names,
        "outlier_spread": fitted.outlier_spread,
        "observed_once": fitted.observed_once,
        "n_values": fitted.n_values,
        "lengths": fitted.lengths,
    }
    if fitted.calibration is not None:
        state |= {f"calibration_{name}": value for name, value in fitted.calibration._asdict().items()}
    return state | {name: np.asarray(value) for name, value in optional.items() if value is not None}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def from_arrays(state: dict[str, Any]) -> tuple[MaximumLikelihoodModel, dict[str, Any]]:
    """Return the model and the parameters of its estimator from the values of :func:`to_arrays`.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the values do not define a valid model.
    """
    state = with_new_names(state, RENAMED_ARRAYS)
    _check(state)
    options = {name: value for name, value in state["options"].items() if name != "n_init"}  # deprecated
    if isinstance(options["noise"], list):
        options["noise"] = np.array(options["noise"])
    options["transforms"] = argument_from_json(options.get("transforms"))
    options_of_fit = FitOptions.from_dict(state["fitted_with"]).check()
    fitted = MaximumLikelihood(
        params=StateSpace.from_arrays(state),
        options=options_of_fit,
        tails=_tails(options_of_fit, state["degrees_of_freedom"]),
        axis=TimeAxis(**state.get("time_axis", {"kind": "unknown"})),
        constant=state["constant"] > 0 if "constant" in state else None,
        calibration=_calibration(state),
        outlier_spread=state.get("outlier_spread"),
        observed_once=state["observed_once"] > 0 if "observed_once" in state else None,
        n_values=state.get("n_values"),
        lengths=state.get("lengths"),
        status=_status(state),
        **{name: state[name] for name in _FIT_ARRAYS if name != "status"},
    )
    params = fitted.params
    if params.state_layout.n_states != params.n_states:
        raise ValueError(f"loadings has {params.n_states} columns, which does not fit the other arrays")
    if fitted.options.has_ar1_noise != params.has_ar1_noise:
        raise ValueError("noise='ar1' and the parameters of AR(1) noise must be present together")
    model = model_of_fit(fitted)
    if any(name.startswith("limit_") for name in state):
        model = NoiseFreeModel(fitted, SquareModel(*(state[f"limit_{name}"] for name in SquareModel._fields)))
    elif np.any(params.noise_variance <= 0.0):
        raise ValueError("noise_variance must be positive")
    if "maps" in state:
        if len(state["maps"]) != params.n_features:
            raise ValueError("maps must have one entry for each column")
        regression = None
        if "exog_coef" in state:
            regression = Regression(state["exog_coef"], tuple(state["exog_names"]))
        transforms = Transforms(tuple(transform_from_list(one) for one in state["maps"]))
        return TransformedModel(model, transforms, regression), options
    return model, options


def _status(state: dict[str, Any]) -> FitStatus:
    """Return the status; if a file has only its text, the status consists of one note with this text."""
    notes = state.get("status_notes")
    if notes is None:
        return FitStatus.of("saved", state["status"])
    status = FitStatus([Note(str(code), str(text), json.loads(values)) for code, text, values in notes])
    if status != state["status"]:
        raise ValueError("status must be the text of status_notes")
    return status


def _tails(options: FitOptions, shape: Any) -> HeavyTails | None:
    """Return the noise with the saved shape parameter, `degrees_of_freedom` in files; None if Gaussian."""
    tails = options.tails
    if tails is None:
        return None
    minimum, maximum = tails.shapes
    if not minimum <= 1.01 * shape <= 1.01**2 * maximum:
        raise ValueError(f"degrees_of_freedom must be {minimum:g} to {maximum:g}, got {shape!r:.80}")
    return tails.with_shape(shape)


def _calibration(state: dict[str, Any]) -> Calibration | None:
    if "calibration_factors" not in state:
        return None
    calibration = Calibration(*(state[f"calibration_{name}"] for name in Calibration._fields))
    if calibration.distances[0] < 1.0 or np.any(np.diff(calibration.distances) <= 0.0):
        raise ValueError("calibration_distances must increase and begin at 1 or above")
    return calibration


def _check(state: dict[str, Any]) -> None:
    """Validate types, shapes and ranges of values; add values that are missing in older files."""
    for name in ("options", "fitted_with"):
        if not isinstance(state.setdefault(name, state["options"]), dict):
            raise ValueError(f"{name} must be a dictionary of parameters")
    if state["log_likelihood"] is None:  # models of from_parameters, in files of version 1
        state["log_likelihood"] = np.nan
    state.setdefault("interrupted", str(state["status"]).startswith(STATUS_SENTENCES["interrupted"]))
    state.setdefault("degrees_of_freedom", None)
    types = dict(zip(_NUMBERS, ((int, float), (int, float), (int,), (bool,), (str,), (bool,)), strict=True))
    for name, types_of_value in types.items():
        if type(state[name]) not in types_of_value:
            raise ValueError(f"{name} must be of type {types_of_value[-1].__name__}, got {state[name]!r:.80}")
    is_fit = state["n_evaluations"] > 0
    if not 0.0 < state["time_unit"] < np.inf or state["n_evaluations"] < 0:
        raise ValueError("time_unit must be positive and finite, and n_evaluations not negative")
    if is_fit and not np.isfinite(state["log_likelihood"]):
        raise ValueError(f"log_likelihood must be finite, got {state['log_likelihood']}")
    check_array_shapes(state, _REQUIRED | _OPTIONAL, _OPTIONAL, _POSITIVE)
    for name in ("noise_variance", "noise_scale"):
        if np.any(state.get(name, 0.0) < 0.0):
            raise ValueError(f"{name} must not be negative")
    if bool(state["fitted_with"].get("robust", False)) != (state["degrees_of_freedom"] is not None):
        raise ValueError("degrees_of_freedom and robust=True must be present together")
