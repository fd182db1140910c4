"""Labels: checked, ordered, cut into groups; and the graphs that are built from them, by name."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d

from probsfa._validation import check_count
from probsfa.graphs._rows import check_unmasked
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["LABEL_GRAPHS", "check_classes", "check_labels", "from_labels", "label_groups"]

_Builder = TypeVar("_Builder", bound=Callable[..., TrainingGraph])
#: Builders of graphs that need nothing but labels, by name; :func:`from_labels` puts them here.
LABEL_GRAPHS: dict[str, Callable[[Any], TrainingGraph]] = {}


def from_labels(builder: _Builder) -> _Builder:
    """Let estimators know a builder of graphs from labels by its name."""
    LABEL_GRAPHS[builder.__name__] = builder
    return builder


def check_labels(y: Any) -> NDArray[np.float64]:
    """Return numeric labels (N,) as float64, or raise a ValueError naming y."""
    labels = column_or_1d(check_unmasked(y))
    labels = check_array(labels, ensure_2d=False, dtype=np.float64, input_name="y")
    if len(labels) < 2:
        raise ValueError(f"y has {len(labels)} label; a graph needs at least two samples.")
    return labels


def check_classes(y: Any) -> NDArray[np.intp]:
    """Return which of the sorted distinct labels every sample has, shape (N,); labels may be strings."""
    labels = column_or_1d(check_unmasked(y))
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity; every sample needs a class.")
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def label_groups(y: Any, n_groups: int | None, *, name: str = "n_groups") -> NDArray[np.intp]:
    """Discretise labels: the number of the group of every sample, shape (N,), lower labels first.

    Labels that take no more than `n_groups` values are their own groups. Others are sorted and cut into
    groups whose sizes differ by one at most. By default there are ``sqrt(N)`` groups and at most 50, the
    number used in section 6.2 of the paper. `name` is what errors call the number of groups.
    """
    labels = check_labels(y)
    wanted = default_groups(len(labels)) if n_groups is None else check_count(name, n_groups, minimum=2)
    distinct, groups = np.unique(labels, return_inverse=True)
    if len(distinct) < 2:
        raise ValueError(f"y has only one value, {distinct[0]}; a graph of labels needs at least two.")
    if len(distinct) <= wanted:
        return groups.astype(np.intp)
    rank = np.empty(len(labels), dtype=np.intp)
    rank[np.argsort(labels, kind="stable")] = np.arange(len(labels))
    return rank * wanted // len(labels)


def default_groups(n: int) -> int:
    """Return the default number of groups for n samples."""
    return min(50, max(2, round(n**0.5)))
