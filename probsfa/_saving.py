"""Any estimator as arrays and plain text, and back: no pickle.

An estimator is its parameters and fitted attributes. These are numbers, text, arrays, sparse matrices, lists
of such, records of this package, and estimators of this package and of scikit-learn. Each becomes a node
of a tree that JSON can hold, with the arrays beside it (:mod:`probsfa._storage`). A fitted estimator with a
format of its own, such as :class:`probsfa.ProbabilisticSFA` within a pipeline, is the bytes of the file that
it would write. What is none of these, a function for example, is refused: it cannot be made again from a file
without running what the file says.

A file also holds what the estimator made of two rows. An estimator that makes anything else of them after
loading is damaged, or another than it was.
"""

import dataclasses
import hashlib
import importlib
import inspect
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from probsfa import _storage
from probsfa._moved import present_home

__all__ = ["KIND", "Saved", "load", "save"]

KIND = "estimator"

_PACKAGES = ("probsfa", "sklearn")
# Whose records are saved.
_ROOMS = ("probsfa.expansions", "probsfa.extensions", "probsfa.graphs", "probsfa.linalg", "probsfa.sfa")
_VERBS = ("transform", "predict")
_SAME = 1e-6  # relative; what another release of the libraries below may make of the same numbers


class Saved:
    """Mixin for estimators that can be saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted estimator to a file of arrays and plain text, without pickle.

        Parameters
        ----------
        path : path-like
            File to write; what is there is replaced in one piece.

        Raises
        ------
        ValueError
            If a parameter or a fitted attribute cannot be saved, as a function cannot.

        See Also
        --------
        probsfa.load : Reads it.
        """
        save(self, path)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator, or a pipeline of them, to a file of arrays and plain text.

    Parameters
    ----------
    estimator : scikit-learn estimator
        An estimator or expansion of this package, or one of scikit-learn that is made of numbers, such as a
        scaler or a pipeline. Those with a ``save`` of their own are saved by it.
    path : path-like
        File to write; what is there is replaced in one piece.

    Raises
    ------
    ValueError
        If a parameter or a fitted attribute cannot be saved, as a function cannot.

    See Also
    --------
    probsfa.load : Reads it.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import probsfa
    >>> from sklearn.pipeline import make_pipeline
    >>> from probsfa.expansions import DelayEmbedding
    >>> X = np.cumsum(np.random.default_rng(0).standard_normal((100, 2)), axis=0)
    >>> pipeline = make_pipeline(DelayEmbedding(3), probsfa.SFA(2)).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     probsfa.save(pipeline, path)
    ...     again = probsfa.load(path)
    >>> bool(np.array_equal(again.transform(X), pipeline.transform(X)))
    True
    """
    if _saves_itself(estimator):
        estimator.save(path)
        return
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(f"Estimators can be saved; this is a {type(estimator).__name__}.")
    check_is_fitted(estimator)
    writer = _Writer()
    tree = writer.encode(estimator, type(estimator).__name__)
    probe = _probe(estimator)
    scalars = {"estimator": type(estimator).__name__, "tree": tree, "sklearn": sklearn.__version__}
    if probe is not None:
        verb, rows, result = probe
        scalars["probe"] = {"verb": verb, "rows": writer.encode(rows, "rows")}
        scalars["probe"]["result"] = writer.encode(result, "result")
    scalars["digest"] = _digest(tree, writer.arrays)
    _storage.write(path, KIND, scalars, writer.arrays)


def _saves_itself(estimator: Any) -> bool:
    """Whether an estimator has a way of saving that is not the one of this module."""
    own = getattr(type(estimator), "save", None)
    return own is not None and own is not Saved.save


def load(path: str | os.PathLike[str]) -> Any:
    """Load what :func:`save` saved; errors as of :func:`probsfa._storage.read`."""
    scalars, arrays = _storage.read(path, KIND)
    if scalars.get("digest") != _digest(scalars.get("tree"), arrays):
        raise ValueError(f"{os.fspath(path)} holds no usable model: it was changed after it was saved.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = _decode(scalars["tree"], arrays)
            if not isinstance(estimator, BaseEstimator):
                raise ValueError(f"it holds a {type(estimator).__name__}, which is no estimator")
            check_is_fitted(estimator)
            same = "probe" not in scalars or _is_as_saved(estimator, scalars["probe"], arrays)
    # A file may say anything, and what it leads to in the libraries below raises as many kinds of errors.
    except Exception as error:
        said = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        said = " ".join(said.split()).rstrip(".")[:200]
        raise ValueError(f"{os.fspath(path)} holds no usable model: {said}.") from error
    if not same:
        raise ValueError(
            f"{os.fspath(path)} holds no usable model: it gives other results than when it was saved, so it "
            "is damaged, or was saved with other versions of the libraries (scikit-learn "
            f"{scalars.get('sklearn')!r:.20})."
        )
    return estimator


def _digest(tree: Any, arrays: dict[str, NDArray[Any]]) -> str:
    """Return a text that is another for any other tree or arrays."""
    seen = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        seen.update(f"{name} {array.dtype.str} {array.shape}".encode())
        seen.update(array.tobytes())
    return seen.hexdigest()


# ------------------------------------------------------------------ what it does to two rows


def _probe(estimator: Any) -> tuple[str, NDArray[np.float64], NDArray[Any]] | None:
    """Return a verb, two rows and what the estimator makes of them; None where it takes no such rows."""
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    for verb in _VERBS:
        for rows in (np.zeros((2, n_features)), np.ones((2, n_features))):
            rows[1] *= 0.5
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = np.asarray(getattr(estimator, verb)(rows))
            except Exception:  # rows of zeros are not for every estimator, nor is every verb
                continue
            if result.dtype.kind in "fiu" and np.isfinite(result).all():
                return verb, rows, result
    return None


def _is_as_saved(estimator: Any, probe: Any, arrays: dict[str, NDArray[Any]]) -> bool:
    """Whether the estimator makes of two rows what it made of them when it was saved."""
    verb, rows, expected = probe["verb"], _decode(probe["rows"], arrays), _decode(probe["result"], arrays)
    if verb not in _VERBS:
        raise ValueError(f"it asks for {verb!r:.40}")
    result = np.asarray(getattr(estimator, verb)(rows))
    if result.shape != expected.shape:
        return False
    scale = float(np.abs(expected).max(initial=0.0))
    return bool(np.allclose(result, expected, rtol=_SAME, atol=_SAME * scale))


# ------------------------------------------------------------------ to a tree and arrays


class _Writer:
    """Turns values into nodes and collects their arrays, each once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._known: dict[int, tuple[Any, str]] = {}  # the array itself is held, so that its id stays its own

    def encode(self, value: Any, where: str) -> Any:
        """Return the node of a value; `where` names it in messages."""
        if value is None or isinstance(value, (bool, int, float, str)) and type(value) in _PLAIN:
            return value
        if isinstance(value, np.generic):
            if value.dtype.kind not in "biufU":
                raise ValueError(f"{where} is a {value.dtype}, which cannot be saved.")
            return {"scalar": value.item(), "dtype": value.dtype.str}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if scipy.sparse.issparse(value):
            return self._sparse(value, where)
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # where draws begin is no part of what was fitted
        if isinstance(value, dict):
            pairs = [[self.encode(k, where), self.encode(v, f"{where}[{k!r:.40}]")] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, slice):
            return {"slice": [self.encode(part, where) for part in (value.start, value.stop, value.step)]}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if type(value) in (list, tuple, set, frozenset):
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return {type(value).__name__: items}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> Any:
        cls = type(value)
        home, name = cls.__module__, cls.__qualname__
        if home.split(".")[0] == "probsfa" and _saves_itself(value) and _is_fitted(value):
            return {"file": self._array(_bytes_of(value), where)["array"]}
        if isinstance(value, BaseEstimator) and home.split(".")[0] in _PACKAGES:
            state, kind = vars(value), "estimator"
        elif home.startswith(_ROOMS) and hasattr(cls, "_fields"):
            state, kind = value._asdict(), "record"
        elif home.startswith(_ROOMS) and dataclasses.is_dataclass(value):
            fields = [field.name for field in dataclasses.fields(value) if field.init]
            state, kind = {field: getattr(value, field) for field in fields}, "record"
        elif home.startswith(_ROOMS) and hasattr(value, "__dict__") and not callable(value):
            state, kind = vars(value), "object"
        else:
            what = f"a function ({name})" if callable(value) else f"a {name} of {home.split('.')[0]}"
            raise ValueError(
                f"{where} is {what}, which cannot be saved: numbers, text, arrays, lists of such, and "
                "estimators of probsfa and scikit-learn that are made of these can. Where it is a parameter, "
                "give it by its name, or set it to None after the fit."
            )
        members = {key: self.encode(item, f"{where}.{key}") for key, item in state.items()}
        return {kind: f"{home}:{name}", "state": members}

    def _array(self, value: NDArray[Any], where: str) -> Any:
        if id(value) in self._known:
            return {"array": self._known[id(value)][1], **_flags(value)}
        stored = value
        if value.dtype == object:
            if not all(isinstance(item, str) for item in value.ravel()):
                raise ValueError(f"{where} is an array of objects that are no text, which cannot be saved.")
            stored = value.astype(str)
        elif value.dtype.kind == "b":
            stored = value.astype(np.uint8)
        if stored.dtype.kind not in "fiuU" or stored.dtype.itemsize == 0 or stored.ndim > 5:
            raise ValueError(f"{where} is an array of {value.dtype}, which cannot be saved.")
        name = f"a{len(self.arrays)}"
        self.arrays[name] = np.asarray(stored)
        self._known[id(value)] = (value, name)
        return {"array": name, **_flags(value)}

    def _sparse(self, value: Any, where: str) -> Any:
        compressed = value if value.format in ("csr", "csc") else value.tocsr()
        return {
            "sparse": type(compressed).__name__,
            "shape": [int(n) for n in compressed.shape],
            "parts": [
                self._array(getattr(compressed, part), where) for part in ("data", "indices", "indptr")
            ],
        }


_PLAIN = (bool, int, float, str)


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _bytes_of(estimator: Any) -> NDArray[np.uint8]:
    """The file that an estimator writes by itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        estimator.save(path)
        return np.frombuffer(path.read_bytes(), dtype=np.uint8)


def _flags(value: NDArray[Any]) -> dict[str, Any]:
    flags: dict[str, Any] = {} if value.flags.writeable else {"read_only": True}
    if value.dtype.kind in "bO":
        flags["of"] = {"b": "bool", "O": "object"}[value.dtype.kind]
    return flags


# ------------------------------------------------------------------ from a tree and arrays

_SPARSE = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def _decode(node: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the value of a node; whatever is wrong with it raises."""
    if not isinstance(node, dict):
        if not (node is None or isinstance(node, _PLAIN)):
            raise ValueError(f"{node!r:.40} is no node of a model")
        return node
    kind = next(iter(node), None)
    if kind == "array":
        return _decode_array(node, arrays)
    if kind == "scalar":
        dtype = np.dtype(str(node["dtype"]))
        value = node["scalar"]
        if dtype.kind not in "biufU" or not isinstance(value, _PLAIN):
            raise ValueError(f"{node!r:.60} is no number")
        # Text of NumPy has a fixed length, which must not ask for more memory than the file has.
        if dtype.kind == "U" and not (isinstance(value, str) and dtype.itemsize <= 4 * len(value)):
            raise ValueError(f"{node!r:.60} is shorter than its type")
        return np.asarray(value, dtype=dtype)[()]
    if kind == "file":
        return _decode_file(arrays[node["file"]])
    if kind == "sparse":
        return _decode_sparse(node, arrays)
    if kind == "dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in node["dict"]}
    if kind == "slice":
        return slice(*(_decode(part, arrays) for part in node["slice"]))
    if kind == "range":
        return range(*node["range"])
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](_decode(item, arrays) for item in node[kind])
    if kind in ("estimator", "record", "object"):
        state = {str(key): _decode(item, arrays) for key, item in node["state"].items()}
        return _build(kind, str(node[kind]), state)
    raise ValueError(f"{kind!r:.40} is no kind of node")


def _decode_array(node: Any, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    array = arrays[node["array"]]
    of = node.get("of")
    if of is not None:
        array = array.astype({"bool": bool, "object": object}[of])
    if node.get("read_only"):
        array = array.copy() if of is None else array
        array.flags.writeable = False
    return array


def _decode_file(content: NDArray[Any]) -> Any:
    """The estimator that a file of its own holds."""
    # Who reads which file stands above this module.
    read = importlib.import_module("probsfa._models").load
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        path.write_bytes(np.asarray(content, dtype=np.uint8).tobytes())
        if _storage.kind_of(path) == KIND:  # these are written as trees, so that no file is within itself
            raise ValueError("it holds a file of a kind that is not held so")
        return read(path)


def _decode_sparse(node: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if node["sparse"] not in _SPARSE:
        raise ValueError(f"{node['sparse']!r:.40} is no kind of sparse matrix")
    parts = tuple(_decode_array(part, arrays) for part in node["parts"])
    matrix = getattr(scipy.sparse, node["sparse"])(parts, shape=tuple(node["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _build(kind: str, name: str, state: dict[str, Any]) -> Any:
    """Make an estimator, a record or another object of this package from its members."""
    cls = _class(kind, name)
    if kind == "record":
        return cls(**state)
    made = cls.__new__(cls)
    if kind == "estimator":
        defaults = inspect.signature(cls.__init__).parameters
        missing = set(cls._get_param_names()) - set(state)
        # A file may be older than a parameter with a default.
        state = {**{p: defaults[p].default for p in missing}, **state}
        if any(value is inspect.Parameter.empty for value in state.values()):
            raise ValueError(f"a {cls.__name__} lacks a parameter")
    for key in state:
        if callable(getattr(cls, key, None)):
            raise ValueError(f"{key!r:.40} is a method of {cls.__name__}")
    made.__dict__.update(state)
    return made


def _class(kind: str, name: str) -> Any:
    """Return the class of that name, if it is one that is saved so."""
    module, _, path = name.partition(":")
    module = present_home(module)
    homes = _PACKAGES if kind == "estimator" else _ROOMS
    if not any(module == home or module.startswith(f"{home}.") for home in homes):
        raise ValueError(f"{module!r:.60} is no module that models are saved from")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    fits = isinstance(found, type) and found.__module__ == module
    if fits and kind == "estimator":
        fits = issubclass(found, BaseEstimator)
    elif fits and kind == "record":
        fits = hasattr(found, "_fields") or dataclasses.is_dataclass(found)
    if not fits:
        raise ValueError(f"{name!r:.60} is no {kind}")
    return found
