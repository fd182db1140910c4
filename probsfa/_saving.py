"""Save and load fitted estimators as arrays and plain text, without pickle.

A file is a NumPy archive (``.npz``) of arrays and one JSON text, the header. The header contains the version
of the format and a tree of nodes. A node is a number, a text, the name of an array in the archive, a
collection, a record of this package, or an estimator of this package or scikit-learn. An estimator is stored
as its parameters and fitted attributes, or as the result of its method ``_to_arrays`` (:class:`Saveable`).
Functions raise an error, because loading them would run code from the file.

The header also has a checksum of tree and arrays, and outputs of the estimator for two rows, which are
compared after loading.

Version 1 of the format can also be read. In version 1, a :class:`probsfa.ProbabilisticSFA` or
:class:`probsfa.BayesianSFA` was a file of another kind; a pipeline contained the bytes of such a file.
"""

import hashlib
import inspect
import io
import json
import math
import os
import pkgutil
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from probsfa._files import replacing
from probsfa._times import seconds_of

__all__ = ["VERSION", "Saveable", "check_array_shapes", "load", "save"]

VERSION = 2

_PACKAGES = ("probsfa", "sklearn")
# Modules whose records are saved.
_RECORD_MODULES = tuple(f"probsfa.{name}" for name in ("expansions", "extensions", "graphs", "linalg", "sfa"))
_METHODS = ("transform", "predict")
_RELATIVE_TOLERANCE = 1e-6  # of outputs, which differ between releases of NumPy, SciPy and scikit-learn
_JSON_TYPES = (bool, int, float, str)
_COLLECTIONS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
# Attribute that the class of each kind of node must have; `__match_args__` are fields of named tuples and
# dataclasses.
_ATTRIBUTES = dict(
    estimator="_get_param_names", model="_from_arrays", record="__match_args__", object="__dict__"
)
_SPARSE_FORMATS = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
# Kinds of files of version 1 other than "estimator", and their classes.
_VERSION1 = {
    "ProbabilisticSFA": "probsfa.statespace.estimator:ProbabilisticSFA",
    "BayesianSFA": "probsfa.bayes.estimator:BayesianSFA",
}
# Names of attributes and fields in files of earlier versions, with their present names.
_RENAMED_MEMBERS: dict[str, dict[str, str]] = {
    "Column": {"n_cells": "n_model_columns"},
    "DiffusionMap": {"_shares": "_density_factors"},
    "GraphSFA": {"_seen": "_batches"},
    "GroupGraph": {"_flows_between": "_weights_between_groups"},
    "HierarchicalSFA": {"_arrangement": "_input_layout"},
    "PermutedGraph": {"_place": "_ranks"},
    "SFA": {"_seen": "_batches"},
    "SparseGraph": {"_between": "_edges_without_loops", "_between_degrees": "_degrees_without_loops"},
    "SparseWalk": {"_borders": "_row_starts"},
    "TemporalGraph": {"joined": "has_edge"},
    "TiedWindowGraph": {"_inside": "_within_weights", "_spread_weights": "_deviation_weights"},
}


class Saveable:
    """Mixin for estimators that can be saved.

    By default an estimator is restored from its parameters and fitted attributes. Other classes define two
    methods: ``_to_arrays()`` returns a dictionary of numbers, texts, arrays and collections; the class method
    ``_from_arrays(state)`` restores the estimator, or raises an error for invalid values.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted estimator to a file of arrays and plain text, without pickle.

        Parameters
        ----------
        path : path-like
            File to write; an existing file is replaced atomically.

        Raises
        ------
        ValueError
            If a parameter or a fitted attribute cannot be saved, for example a function.

        See Also
        --------
        probsfa.load : Load a saved estimator.
        """
        save(self, path)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator, or a pipeline of them, to a file of arrays and plain text.

    Parameters
    ----------
    estimator : scikit-learn estimator
        An estimator or expansion of this package, or an estimator of scikit-learn whose parameters and
        attributes are numbers, texts and arrays, such as a scaler or a pipeline.
    path : path-like
        File to write; an existing file is replaced atomically.

    Raises
    ------
    ValueError
        If a parameter or a fitted attribute cannot be saved, for example a function.

    See Also
    --------
    probsfa.load : Load it.

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
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(f"estimator must be a fitted estimator; got a {type(estimator).__name__}.")
    check_is_fitted(estimator)
    arrays = _Arrays()
    tree = arrays.encode(estimator, type(estimator).__name__)
    header = {"format": "probsfa", "version": VERSION, "kind": "estimator", "sklearn": sklearn.__version__}
    probe = None if "model" in tree else _probe(estimator)
    if probe is not None:
        header["probe"] = {name: arrays.encode(value, name) for name, value in probe.items()}
    header |= {"tree": tree, "digest": _digest(tree, arrays.by_name)}
    with replacing(path) as [draft], draft.open("wb") as file:
        np.savez_compressed(file, header=np.array(json.dumps(header)), **arrays.by_name)  # type: ignore[arg-type]


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator that was saved by its ``save``, or by :func:`probsfa.save`.

    Parameters
    ----------
    path : path-like
        File to read.

    Returns
    -------
    estimator
        The fitted estimator, of the class that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model of this package, is damaged, or has a later version of the format.

    Examples
    --------
    >>> import os, tempfile
    >>> import probsfa
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     probsfa.ProbabilisticSFA(1).fit(X).save(path)
    ...     type(probsfa.load(path)).__name__
    'ProbabilisticSFA'
    """
    with Path(path).open("rb") as stream:
        header, arrays = _read(stream, os.fstat(stream.fileno()).st_size, os.fspath(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _restore(header, arrays)
    except Exception as error:  # a damaged file can cause any error in the libraries
        reason = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        reason = " ".join(reason.split()).rstrip(".")[:300]
        raise ValueError(f"{os.fspath(path)} contains no usable model: {reason}.") from error


def _restore(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the estimator of a file."""
    if header["kind"] in _VERSION1:
        state = {**header, **arrays}
        if isinstance(header.get("time_index"), str) and np.dtype(header["time_index"]).kind == "M":
            state["time_index"] = arrays["time_index"].astype(header["time_index"])
        return _class("model", _VERSION1[header["kind"]])._from_arrays(state)
    if header.get("digest") != _digest(header.get("tree"), arrays):
        raise ValueError("it was changed after it was saved")
    estimator = _decode(header["tree"], arrays)
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(f"it contains a {type(estimator).__name__}, which is not an estimator")
    check_is_fitted(estimator)
    if "probe" in header and not _reproduces(estimator, header["probe"], arrays):
        raise ValueError(
            "its outputs differ from those when it was saved. It is damaged, or was saved with other "
            f"versions of the libraries (scikit-learn {header.get('sklearn')!r:.20})"
        )
    return estimator


def _digest(tree: Any, arrays: dict[str, NDArray[Any]]) -> str:
    """Return a checksum of a tree and arrays."""
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _probe(estimator: Any) -> dict[str, Any] | None:
    """Return a method, two rows and their outputs; None if the estimator rejects such rows."""
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    for method in _METHODS:
        for first in (0.0, 1.0):
            rows = np.outer((first, 0.5 * first), np.ones(n_features))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = np.asarray(getattr(estimator, method)(rows))
            except Exception:  # not every estimator accepts rows of zeros, or has both methods
                continue
            if result.dtype.kind in "fiu" and np.isfinite(result).all():
                return {"verb": method, "rows": rows, "result": result}
    return None


def _reproduces(estimator: Any, probe: Any, arrays: dict[str, NDArray[Any]]) -> bool:
    """Return whether the estimator has the saved outputs for two rows."""
    if probe["verb"] not in _METHODS:
        raise ValueError(f"its check of outputs uses the unsupported method {probe['verb']!r:.40}")
    result = np.asarray(getattr(estimator, probe["verb"])(_decode(probe["rows"], arrays)))
    expected = _decode(probe["result"], arrays)
    scale = float(np.abs(expected).max(initial=0.0))
    return result.shape == expected.shape and np.allclose(
        result, expected, rtol=_RELATIVE_TOLERANCE, atol=_RELATIVE_TOLERANCE * scale
    )


# ------------------------------------------------------------------ values to nodes, and back


class _Arrays:
    """Encoder of values as nodes, which collects each array once."""

    def __init__(self) -> None:
        self.by_name: dict[str, NDArray[Any]] = {}
        self._known: dict[int, tuple[Any, str]] = {}  # with the array, so that its id is not reused

    def encode(self, value: Any, location: str) -> Any:
        """Return the node of a value; `location` is the name of the value in messages."""
        if value is None or type(value) in _JSON_TYPES:
            return value
        if isinstance(value, timedelta | np.timedelta64):
            return f"{seconds_of(value)} s"
        if isinstance(value, np.generic):
            if value.dtype.kind not in "biufU":
                raise ValueError(f"{location} is a {value.dtype}, which cannot be saved.")
            return {"scalar": value.item(), "dtype": value.dtype.str}
        if isinstance(value, np.ndarray):
            return self._array(value, location)
        if scipy.sparse.issparse(value):
            matrix: Any = value
            matrix = matrix if matrix.format in ("csr", "csc") else matrix.tocsr()
            parts = [self._array(getattr(matrix, part), location) for part in ("data", "indices", "indptr")]
            return {"sparse": type(matrix).__name__, "shape": [int(n) for n in matrix.shape], "parts": parts}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # the state of a generator is not part of the fit
        if isinstance(value, dict):
            names = {key: f"{location}[{key!r:.40}]" for key in value}
            return {"dict": [[self.encode(k, location), self.encode(v, names[k])] for k, v in value.items()]}
        if isinstance(value, slice | range):
            parts = [self.encode(part, location) for part in (value.start, value.stop, value.step)]
            return {type(value).__name__: parts}
        if type(value) in _COLLECTIONS.values():
            items = [self.encode(item, f"{location}[{i}]") for i, item in enumerate(value)]
            return {type(value).__name__: items}
        return self._object(value, location)

    def _object(self, value: Any, location: str) -> Any:
        cls = type(value)
        has_records = _is_in(cls.__module__, _RECORD_MODULES)
        serializable_base = next((base for base in cls.__mro__ if "_to_arrays" in vars(base)), None)
        if serializable_base is not None and _is_fitted(value):
            cls, state, kind = serializable_base, value._to_arrays(), "model"
        elif isinstance(value, BaseEstimator) and _is_in(cls.__module__, _PACKAGES):
            state, kind = vars(value), "estimator"
        elif has_records and hasattr(cls, "__match_args__"):
            state, kind = {field: getattr(value, field) for field in cls.__match_args__}, "record"
        elif has_records and hasattr(value, "__dict__") and not callable(value):
            state, kind = vars(value), "object"
        else:
            package, name = cls.__module__.split(".")[0], cls.__qualname__
            description = f"a function ({name})" if callable(value) else f"a {name} of {package}"
            raise ValueError(
                f"{location} is {description}, which cannot be saved. Supported are numbers, text, arrays, "
                "lists of these, and estimators of probsfa and scikit-learn with such attributes. If it is a "
                "parameter, use its name, or set it to None after the fit."
            )
        members = {key: self.encode(item, f"{location}.{key}") for key, item in state.items()}
        return {kind: f"{cls.__module__}:{cls.__qualname__}", "state": members}

    def _array(self, value: NDArray[Any], location: str) -> Any:
        stored, kind = value, value.dtype.kind
        node: dict[str, Any] = {} if value.flags.writeable else {"read_only": True}
        if kind == "O" and all(isinstance(item, str) for item in value.ravel()):
            stored, node["of"] = value.astype(str), "object"
        elif kind == "b":
            stored, node["of"] = value.astype(np.uint8), "bool"
        elif kind == "M":
            stored, node["of"] = value.astype(np.int64), str(value.dtype)
        if stored.dtype.kind not in "fiuU" or stored.dtype.itemsize == 0 or stored.ndim > _MAX_DIMENSIONS:
            raise ValueError(f"{location} is an array of {value.dtype}, which cannot be saved.")
        if id(value) not in self._known:
            self._known[id(value)] = value, f"a{len(self.by_name)}"
            self.by_name[self._known[id(value)][1]] = np.asarray(stored)
        return {"array": self._known[id(value)][1], **node}


def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _decode(node: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the value of a node; an invalid node raises an error of any kind."""
    if node is None or isinstance(node, _JSON_TYPES):
        return node
    kind = next(iter(node), None) if isinstance(node, dict) else None
    if kind == "array":
        return _decode_array(node, arrays)
    if kind == "scalar":
        value, dtype = node["scalar"], np.dtype(str(node["dtype"]))
        # NumPy pads text to its dtype, which must not require more memory than the file.
        largest = max(4 * len(value) if isinstance(value, str) else 0, 16)
        if dtype.kind not in "biufU" or not isinstance(value, _JSON_TYPES) or dtype.itemsize > largest:
            raise ValueError(f"{node!r:.60} is not a number or text of its type")
        return np.asarray(value, dtype=dtype)[()]
    if kind == "file":  # of version 1
        content = arrays[node["file"]].astype(np.uint8).tobytes()
        header, inner_arrays = _read(io.BytesIO(content), len(content), "a model within it")
        if header["kind"] not in _VERSION1:  # files of version 2 contain no other files
            raise ValueError("it contains a model of an unexpected kind")
        return _restore(header, inner_arrays)
    if kind == "sparse":
        if node["sparse"] not in _SPARSE_FORMATS:
            raise ValueError(f"{node['sparse']!r:.40} is not a kind of sparse matrix")
        parts = tuple(_decode_array(part, arrays) for part in node["parts"])
        matrix = getattr(scipy.sparse, node["sparse"])(parts, shape=tuple(node["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if kind == "dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in node["dict"]}
    if kind in ("slice", "range"):
        return (slice if kind == "slice" else range)(*(_decode(part, arrays) for part in node[kind]))
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](_decode(item, arrays) for item in node[kind])
    if kind in ("model", "estimator", "record", "object"):
        cls = _class(kind, str(node[kind]))
        new_names = _RENAMED_MEMBERS.get(cls.__name__, {})
        state = {new_names.get(key, key): _decode(item, arrays) for key, item in node["state"].items()}
        return _build(kind, cls, state)
    raise ValueError(f"{node!r:.40} does not describe a value of a saved model")


def _decode_array(node: Any, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    array = arrays[node["array"]]
    if "of" in node:
        dtype = np.dtype(str(node["of"]))
        if dtype.kind not in "bOM":
            raise ValueError(f"{node['of']!r:.40} is not a type of saved arrays")
        array = array.astype(dtype)
    if node.get("read_only"):
        array = array.copy()
        array.flags.writeable = False
    return array


def _build(kind: str, cls: Any, state: dict[str, Any]) -> Any:
    """Return an estimator, a record or another object of this package with these members."""
    if kind == "model":
        return cls._from_arrays(state)
    if kind == "record":
        return cls(**state)
    instance = cls.__new__(cls)
    if kind == "estimator":
        defaults = inspect.signature(cls.__init__).parameters
        missing = set(cls._get_param_names()) - set(state)
        # Files of earlier versions lack new parameters, which have defaults.
        state = {**{name: defaults[name].default for name in missing}, **state}
        if any(value is inspect.Parameter.empty for value in state.values()):
            raise ValueError(f"a {cls.__name__} lacks a parameter")
    for key in state:
        if callable(getattr(cls, key, None)):
            raise ValueError(f"the attribute {key!r:.40} has the name of a method of {cls.__name__}")
    instance.__dict__.update(state)
    return instance


def _class(kind: str, name: str) -> Any:
    """Return the class "module:name"; raise an error for a class that is not saved as this kind.

    If the module of a class has changed, the class is searched in its package, such as ``probsfa.graphs``.
    """
    module, _, path = name.partition(":")
    packages = _RECORD_MODULES if kind in ("record", "object") else _PACKAGES
    if not _is_in(module, packages):
        raise ValueError(f"{module!r:.60} is not a module of saved models")
    candidate: Any = None
    for module_name in _module_names(module):
        try:
            candidate = pkgutil.resolve_name(f"{module_name}:{path}")
            break
        except (ImportError, AttributeError):
            continue
    fits = isinstance(candidate, type) and _is_in(candidate.__module__, packages)
    if not fits or not hasattr(candidate, _ATTRIBUTES[kind]):
        raise ValueError(f"{name!r:.60} is not a class that can be loaded (as {kind})")
    return candidate


def check_array_shapes(
    state: dict[str, Any],
    shapes: Mapping[str, Sequence[str]],
    optional: Iterable[str],
    positive: Iterable[str],
) -> dict[str, int]:
    """Validate the arrays of a saved estimator, and return their lengths.

    Numbers must be finite; "values" may also have NaN. "feature_names" must be text. Arrays whose names end
    with "decay" must lie between -1 and 1.

    Parameters
    ----------
    state : dict
        Arrays and other values by name.
    shapes : mapping of str to sequence of str
        A letter for each dimension of every array: equal letters for equal lengths, "*" for any length.
    optional : iterable of str
        Arrays that may be absent.
    positive : iterable of str
        Arrays whose values must be above zero.

    Returns
    -------
    sizes : dict of int
        Lengths by letter.

    Raises
    ------
    KeyError, ValueError
        If an array is absent, or has a wrong shape or value; the message names the array.
    """
    sizes: dict[str, int] = {}
    for name, letters in shapes.items():
        if name in optional and name not in state:
            continue
        array = np.asarray(state[name])
        if array.ndim != len(letters) or any(
            letter != "*" and sizes.setdefault(letter, n) != n
            for letter, n in zip(letters, array.shape, strict=True)
        ):
            raise ValueError(f"{name} has the shape {array.shape}, which does not fit the other arrays")
        is_text = name == "feature_names"
        if is_text != (array.dtype.kind in "OU"):
            raise ValueError(f"{name} must contain {'texts' if is_text else 'numbers'}")
        if not is_text and (np.isinf(array) if name == "values" else ~np.isfinite(array)).any():
            raise ValueError(f"{name} has a value that is not finite")
        if name.endswith("decay") and np.any(np.abs(array) >= 1.0):
            raise ValueError(f"{name} must lie between -1 and 1")
        if name in positive and not np.all(array > 0.0):
            raise ValueError(f"{name} must be positive, got {array.min()}")
    return sizes


def _module_names(module: str) -> Iterator[str]:
    """Yield a module, its package, and all modules of a package with saved records."""
    package = ".".join(module.split(".")[:2])
    yield module
    yield package
    if package in _RECORD_MODULES:
        folder = Path(__file__).parent / package.split(".")[1]
        yield from (submodule.name for submodule in pkgutil.walk_packages([str(folder)], f"{package}."))


# ------------------------------------------------------------------ the archive

# An archive is rejected if it has more than 1000 arrays, or if the arrays need more than 256 MiB and more
# than 100 times the size of the file. The arrays of a model need at most ten times the size of its file.
_MAX_BYTES, _MAX_RATIO, _MAX_MEMBERS = 2**28, 100, 1000
# Maximum sizes of the header of an array and of the JSON text, and maximum number of dimensions.
_MAX_HEADER, _MAX_TEXT, _MAX_DIMENSIONS = 2**16, 2**24, 5
_READERS: Any = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _read(stream: BinaryIO, size: int, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file.

    The directory of the archive and the header of each array are checked before data are unpacked, so that a
    damaged file cannot exhaust the memory.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total > max(_MAX_BYTES, _MAX_RATIO * size) or len(members) > _MAX_MEMBERS:
                raise ValueError(
                    f"{len(members)} arrays of {total} bytes in {size} bytes: impossible for a model"
                )
            arrays = {member.filename.removesuffix(".npy"): _unpack(archive, member) for member in members}
        if len(arrays) != len(members):
            raise ValueError("two arrays have one name")
        header = json.loads(str(arrays.pop("header")))
    # NumPy, zipfile, zlib and json raise many types of errors for arbitrary bytes.
    except Exception as error:
        raise ValueError(f"{name} is broken, or is not a model saved by probsfa ({error!s:.200}).") from error
    kind = header.get("kind") if isinstance(header, dict) and header.get("format") == "probsfa" else header
    if kind not in ("estimator", *_VERSION1):
        raise ValueError(f"{name} is not a model saved by probsfa; its kind is {kind!r:.80}.")
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(
            f"{name} is broken: its format version must be a positive integer; got {version!r:.80}."
        )
    if version > VERSION:
        raise ValueError(
            f"{name} has version {version} of the format; this release reads up to {VERSION}. Install a "
            "newer probsfa."
        )
    return header, arrays


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array after comparing its size with its header; ``zipfile`` verifies the checksum."""
    with archive.open(member) as packed:
        read_header = _READERS[np.lib.format.read_magic(packed)]
        shape, in_fortran_order, dtype = read_header(packed, max_header_size=_MAX_HEADER)
        n_bytes = math.prod(shape) * dtype.itemsize
        if dtype.kind not in "fiuU" or min(shape, default=0) < 0 or len(shape) > _MAX_DIMENSIONS:
            raise ValueError("an array contains neither numbers nor text, or has an invalid shape")
        if n_bytes != member.file_size - packed.tell() or (shape == () and n_bytes > _MAX_TEXT):
            raise ValueError("an array whose size differs from its header, or a text that is too long")
        data = np.frombuffer(packed.read(), dtype=dtype).copy()
        return data.reshape(shape, order="F" if in_fortran_order else "C")
