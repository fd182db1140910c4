"""Shared code of classification and regression by slow features: input, features, candidate settings."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.expansions import Polynomial
from probsfa.graphs._named import GraphBuilder, in_time
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.linalg import RankError, blocks_of, canonical_axes, check_rank_tol, default_rank_tol
from probsfa.sfa._shrinkage import check_shrinkage, labels_of_rows
from probsfa.sfa.graph import GraphSFA, truncate_components
from probsfa.sfa.supervised.choice import Basis, Choice, canonical_order, whole_blocks

__all__ = [
    "PrincipalProducts",
    "SlowFeatureStep",
    "check_labelled",
    "concatenate_for_score",
    "flat_images",
    "image_shape",
]

# ---- images as rows

# An array in a list is probably an image if its shorter side has at least 4 entries, and its longer side at
# most twice as many.
_MIN_IMAGE_SIDE, _MAX_IMAGE_RATIO = 4, 2


def flat_images(X: Any) -> Any:
    """Return images (N, H, W) or (N, H, W, C), or a list of them, as rows (N, H W C); other X unchanged."""
    if isinstance(X, list) and X and all(_is_images(x) for x in X):
        return [x.reshape(len(x), -1) for x in X]
    return X.reshape(len(X), -1) if _is_images(X) else X


def image_shape(X: Any) -> tuple[int, ...] | None:
    """Return (H, W, C) of images or of a list of images; None for other data.

    Raises
    ------
    ValueError
        If the images in a list have different shapes.
    """
    pieces = X if isinstance(X, list) else [X]
    shapes = {(*x.shape[1:], 1)[:3] for x in pieces if _is_images(x)}
    if len(shapes) > 1:
        raise ValueError(
            f"X has images of different shapes, {sorted(shapes)}; all images must have the same shape."
        )
    return shapes.pop() if shapes else None


def _is_images(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim in (3, 4) and X.shape[0] > 0


def _labelled_array_shape(X: Any, y: Any) -> tuple[int, ...] | None:
    """Return the common shape of the arrays in a list, with one label for each array; None for other data.

    The arrays must be two-dimensional.
    """
    if not isinstance(X, list) or not X or not hasattr(y, "__len__") or len(y) != len(X):
        return None
    if any(np.ndim(label) for label in y):
        return None
    shapes = {np.shape(x) for x in X}
    shape = shapes.pop()
    return shape if not shapes and len(shape) == 2 else None


def _warn_of_list_of_images(X: Any, y: Any) -> None:
    """Warn if X is a list of sequences that are probably images."""
    shape = _labelled_array_shape(X, y)
    if shape is None or min(shape) < _MIN_IMAGE_SIDE or max(shape) > _MAX_IMAGE_RATIO * min(shape):
        return
    warnings.warn(
        f"X is a list of {len(X)} arrays of shape {shape} with one label each: they are treated as sequences "
        f"of {shape[0]} rows, and every row is a sample. If they are images, use np.stack(X) with "
        'preset="images". If they are sequences, use a label for each row to avoid this warning: '
        "[np.full(len(x), label) for x, label in zip(X, y)].",
        stacklevel=5,
    )


# ---- products of principal components: quadratic functions of many columns


_EQUALITY_TOL = 1e-9  # relative; smaller differences of standard deviations are rounding errors


class PrincipalProducts(TransformerMixin, BaseEstimator):
    """Leading principal components and their products.

    Parameters
    ----------
    n_components : int, default=40
        Maximum number of components. The number is smaller if the rank is lower, or if it would include only
        some of several components of equal variance.
    standardize : bool, default=False
        Whether the columns are scaled to unit variance first.
    whiten : bool, default=False
        Whether every component is scaled to unit variance; otherwise all components are divided by the
        standard deviation of the first.
    """

    standardize = False  # defaults for saved files of earlier versions, which lack these parameters
    whiten = False

    def __init__(self, n_components: int = 40, standardize: bool = False, whiten: bool = False) -> None:
        self.n_components = n_components
        self.standardize = standardize
        self.whiten = whiten

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Fit the components to rows (N, D)."""
        self.mean_ = X[0] + (X - X[0]).mean(axis=0)
        centred = X - self.mean_
        scales = np.ones(X.shape[1], dtype=np.float64)
        if self.standardize:
            std = centred.std(axis=0)
            floor = np.sqrt(default_rank_tol(1)) * np.abs(self.mean_)
            scales = np.where(std > floor, std, np.inf)
        ones = np.ones(X.shape[1], dtype=np.float64)
        _, d, Vt = np.linalg.svd(centred / scales, full_matrices=False)
        rank = int(np.sum(d**2 > default_rank_tol(X.shape[1]) * d[0] ** 2)) if d[0] > 0 else 0
        # The order of components of equal variance depends on rounding errors. All or none of them are
        # therefore used.
        is_distinct = np.append(-np.diff(d[:rank]) > _EQUALITY_TOL * d[0], True) if rank else np.array([True])
        ends = np.flatnonzero(is_distinct) + 1
        K = int(max(ends[ends <= max(self.n_components, ends[0])]))
        for block in blocks_of(is_distinct[:K]):
            Vt[block] = canonical_axes(Vt[block].T, ones).T @ Vt[block]
        units = d[:K] / np.sqrt(len(X)) if rank else np.ones(K, dtype=np.float64)
        if not self.whiten:
            units = units[:1]
        self.components_ = Vt[:K] / units[:, None] / scales
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Return the components and products of rows, (N, K + K (K + 1) / 2)."""
        Y = (X - self.mean_) @ self.components_.T
        return Polynomial(2).expand(Y)


# ---- base class of the supervised estimators


_PRESETS = ("images",)
# Candidate shrinkage intensities, from nearly no shrinkage to strong shrinkage for few samples.
_INTENSITIES = (0.01, 0.1, 0.3)  # in addition to 0 and the estimate of Ledoit & Wolf
_IDENTITY_INTENSITIES = (0.02, 0.1, 0.3, 0.6, 0.9)
_WHITENING_INTENSITIES = (0.0, 0.01, 0.1)
_MAX_COMPONENTS = 64  # with n_components="auto"


class SlowFeatureStep:
    """Slow features with a final step: base class of :class:`GraphSFAClassifier` and GraphSFARegressor."""

    graph: Any
    expansion: Any
    rank_tol: float | None
    shrinkage: Any
    shrinkage_target: str
    preset: str | None
    n_components: Any
    cv: int
    gsfa_: GraphSFA
    # Numbers of whitened principal components; with products, n components give n (n + 3) / 2 functions.
    _few_components: tuple[int, ...] = (3, 6, 12)

    def _check_parameters(self) -> None:
        if self.n_components is not None and self.n_components != "auto":
            if isinstance(self.n_components, str):
                raise ValueError(
                    f'n_components must be a positive integer, None or "auto"; got {self.n_components!r}.'
                )
            check_count("n_components", self.n_components)
        check_count("cv", self.cv, minimum=2)
        check_rank_tol(self.rank_tol)
        target = "diagonal" if self.shrinkage_target == "auto" else self.shrinkage_target
        check_shrinkage(self.shrinkage, target)
        if isinstance(self.expansion, str) and self.expansion != "auto":
            raise ValueError(f'expansion must be "auto", None or a transformer; got {self.expansion!r}.')
        if self.preset is None:
            return
        check_option("preset", self.preset, _PRESETS)
        if self.expansion is not None and self.expansion != "auto":
            raise ValueError('preset="images" sets the expansion; use expansion="auto", or no preset.')

    def _check_rows(self, X: Any, y: Any) -> tuple[Sequences, NDArray[Any]]:
        """Return the samples and their labels."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        images = self._rows(X, y)
        sequences = check_sequences(self, images, reset=True, allow_nan=False, min_rows=2)
        return sequences, labels_of_rows(y, sequences.lengths)

    def _rows(self, X: Any, y: Any = None) -> Any:
        """Return images as rows, and in training store their shape; return other data unchanged."""
        shape = image_shape(X)
        if self.preset != "images":
            if shape is not None and not isinstance(X, list):
                raise ValueError(
                    f"X has the shape {X.shape}; expected rows (n_samples, n_features). For images use "
                    'preset="images", or X.reshape(len(X), -1); for sequences of rows use list(X).'
                )
            if y is not None:
                _warn_of_list_of_images(X, y)
            return X
        if y is not None:
            member_shape = _labelled_array_shape(X, y)
            if member_shape is not None:
                raise ValueError(
                    f"X is a list of {len(X)} arrays of shape {member_shape} with one label each, which may "
                    "be images or sequences of rows. Pass images as one array: np.stack(X)."
                )
            self._image_shape = shape
        training_shape = getattr(self, "_image_shape", None)
        if shape is not None and training_shape is not None and shape != training_shape:
            raise ValueError(
                f"X has images of shape {shape}; the training images had the shape {training_shape}."
            )
        return flat_images(X)

    def _order(self, sequences: Sequences, targets: NDArray[Any]) -> NDArray[np.intp]:
        """Return a canonical order of the samples, or the order of the rows if the graph may depend on it.

        Folds and the centres of kernels are selected by position; a canonical order makes them independent of
        the input order. Temporal graphs, TrainingGraphs and functions of (X, y) may depend on the order of
        the rows.
        """
        has_known_graph = self.graph is None or isinstance(self.graph, (str, GraphBuilder))
        if len(sequences.lengths) > 1 or not has_known_graph or in_time(self.graph):
            return np.arange(sequences.n_rows)
        return canonical_order(sequences.values, targets)

    def _graph_parameter(self) -> Any:
        """Return the parameter `graph` of GraphSFA."""
        return self.graph

    def _bases(self) -> list[Basis]:
        """Return the first candidates of expansions and shrinkage intensities."""
        is_fixed_graph, graph = isinstance(self.graph, TrainingGraph), self._graph_parameter()
        if self.preset == "images":
            return [
                Basis(
                    PrincipalProducts(),
                    "identity",
                    ["auto"] if is_fixed_graph else _IDENTITY_INTENSITIES,
                    graph,
                )
            ]
        expansion = None if self._is_expansion_automatic else self.expansion
        target = "diagonal" if self.shrinkage_target == "auto" else self.shrinkage_target
        if self.shrinkage is None:
            return [Basis(expansion, target, [0.0], graph)]
        if not isinstance(self.shrinkage, str):
            candidates: list[float | str] = [float(self.shrinkage)]
        elif is_fixed_graph:
            # The graph includes the held-out samples, so that cross-validation would select no shrinkage.
            candidates = ["auto"]
        else:
            candidates = [0.0, *_INTENSITIES, "auto"]
        bases = [Basis(expansion, target, candidates, graph)]
        if self.shrinkage_target == "auto" and not is_fixed_graph:
            bases.append(
                Basis(
                    expansion, "identity", _IDENTITY_INTENSITIES if len(candidates) > 1 else candidates, graph
                )
            )
        return bases

    def _larger_bases(self, best: Basis, n_samples: int) -> list[Basis]:
        """Return bases of quadratic functions.

        Columns are standardized if the target of the best basis so far is "diagonal". Bases without shrinkage
        to the identity require two samples for each function.
        """
        if (
            not self._is_expansion_automatic
            or isinstance(self.graph, TrainingGraph)
            or self.shrinkage is None
        ):
            return []
        standardize = best.target == "diagonal"
        is_automatic = isinstance(self.shrinkage, str)
        bases = [
            Basis(
                PrincipalProducts(n, standardize, whiten=True),
                "diagonal",
                _WHITENING_INTENSITIES if is_automatic else [self.shrinkage],
                best.graph,
            )
            for n in self._few_components
            if n_samples >= n * (n + 3)
        ]
        bases.append(
            Basis(
                PrincipalProducts(standardize=standardize),
                "identity",
                _IDENTITY_INTENSITIES if is_automatic else [self.shrinkage],
                best.graph,
            )
        )
        return bases

    @property
    def _is_expansion_automatic(self) -> bool:
        return self.preset is None and isinstance(self.expansion, str)

    def _max_n_components(self, X: FloatArray) -> int:
        """Return the maximum number of features to try."""
        expanded = self.preset is not None or self.expansion is not None
        return _MAX_COMPONENTS if expanded else min(X.shape[1], _MAX_COMPONENTS)

    def _fit_features(
        self, sequences: Sequences, labels: Any, choice: Choice, *, automatic: bool
    ) -> FloatArray:
        """Fit `gsfa_`; return the features of the samples, fewer if the rank is lower.

        An automatic number of features is reduced if it splits a block of equal delta values. The warning of
        too few rows is suppressed if cross-validation selected the shrinkage.
        """
        n_components, basis = choice.n_components, choice.basis
        options = {
            "graph": basis.graph,
            "expansion": basis.expansion,
            "rank_tol": self.rank_tol,
            "shrinkage": basis.shrinkage[0],
            "shrinkage_target": basis.target,
        }
        X, lengths = sequences.values, sequences.lengths
        # One output more shows whether the last block of equal delta values is complete.
        n_computed = n_components + 1 if automatic else n_components
        with warnings.catch_warnings():
            if self.shrinkage == "auto" and not np.isnan(choice.loss):
                warnings.filterwarnings("ignore", r"The \d+ rows have rank \d+")
            try:
                self.gsfa_ = GraphSFA(n_computed, **options).fit(X, labels, lengths=lengths)
            except RankError:
                if self.n_components is not None and self.n_components != "auto":
                    raise
                if not in_time(basis.graph):  # the first fit issued its warnings
                    warnings.simplefilter("ignore")
                self.gsfa_ = GraphSFA(None, **options).fit(X, labels, lengths=lengths)
        if automatic:
            truncate_components(self.gsfa_, whole_blocks(self.gsfa_.delta_values_, n_components))
        del self.gsfa_.graph_  # features of new samples do not depend on it
        return self._features(X)

    def _features(self, X: FloatArray) -> FloatArray:
        """Return the slow features of rows as an array, independent of scikit-learn's ``set_output``."""
        return np.asarray(self.gsfa_.transform(X))

    def _on_features(self, X: Any, function: Callable[[FloatArray], Any]) -> Any:
        """Return a function of the slow features of new rows, in the format of the input."""
        check_is_fitted(self)
        sequences = check_sequences(self, self._rows(X), reset=False, allow_nan=False)
        return sequences.restore(function(self._features(sequences.values)))


def concatenate_for_score(pieces: Any, labels: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return predictions and labels of all rows, each in one array, for a score."""
    if not isinstance(pieces, list):
        return np.asarray(pieces), np.asarray(labels)
    return np.concatenate(pieces), labels_of_rows(labels, [len(piece) for piece in pieces])


def check_labelled(labels: NDArray[Any]) -> None:
    """Raise a ValueError that names the first sample without a label, if there is one."""
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([_is_missing(label) for label in labels.ravel()]).reshape(labels.shape)
    else:
        return
    if missing.any():
        rows = missing.reshape(len(missing), -1).any(axis=1)
        raise ValueError(
            f"Input y contains NaN: y[{int(np.argmax(rows))}] is missing ({int(rows.sum())} of {len(rows)} "
            "labels are missing). Remove such rows. To use them, fit GraphSFA with "
            "graph=graphs.SemiSupervised(...)."
        )


def _is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN or pandas.NA."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and bool(np.isnan(label))
