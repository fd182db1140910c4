"""Regression by slow features: graph-based slow feature analysis with soft labels on top."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from probsfa._saving import Saved
from probsfa.graphs._labels import check_labels, label_groups
from probsfa.sfa._supervised import fit_classifier, fit_slow_features, on_slow_features, rows_and_labels

__all__ = ["GraphSFARegressor"]

_DEFAULT_COMPONENTS = 5  # section 6.2.4 of the paper: soft labels were best with four or five features


class GraphSFARegressor(Saved, RegressorMixin, BaseEstimator):
    """Estimate a number from slow features on a training graph of the labels.

    The labels are cut into groups, a classifier on the slow features gives the probabilities of the groups,
    and the estimate is the mean of their labels under them.

    Parameters
    ----------
    n_components : int, optional
        How many slow features the classifier gets. Default 5, or the rank of the data where that is lower.
    graph : TrainingGraph, str or callable, default="serial"
        As in :class:`GraphSFA`.
    expansion : transformer, optional
        As in :class:`GraphSFA`.
    n_labels : int, optional
        How many groups the labels are cut into, of sizes that differ by one at most; labels that take no
        more values are their own groups. Default ``sqrt(N)``, at most 50. The groups of the graph are
        chosen apart: ``graph=lambda X, y: graphs.serial(y, n_groups=20)``.
    rank_tol : float, optional
        As in :class:`GraphSFA`.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        What gives the probabilities; it is cloned. By default a Gaussian is fitted to each group, or
        Gaussians of equal covariance where a group has no more samples than there are features.

    Attributes
    ----------
    label_values_ : ndarray (L,)
        Mean label of every group.
    gsfa_ : GraphSFA
        Gives the slow features.
    classifier_ : scikit-learn classifier
        Fitted to the slow features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : The features without the regression.
    GraphSFAClassifier : For labels that are classes.

    Notes
    -----
    Escalante-B. & Wiskott (2013), JMLR 14:3683, section 5.5 and eq. 36: the best estimate under squared
    loss. Estimates lie between the mean labels of the first and the last group.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.linspace(-1, 1, 400)
    >>> X = np.column_stack([np.sin(2 * y), np.cos(3 * y)])
    >>> estimate = GraphSFARegressor(2).fit(X, y).predict(X)
    >>> bool(np.sqrt(np.mean((estimate - y) ** 2)) < 0.05)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        graph: Any = "serial",
        expansion: Any = None,
        n_labels: int | None = None,
        rank_tol: float | None = None,
        classifier: Any = None,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.expansion = expansion
        self.n_labels = n_labels
        self.rank_tol = rank_tol
        self.classifier = classifier

    def fit(self, X: Any, y: Any) -> Self:
        """Find the slow features and fit the classifier of label groups to them.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples.
        y : array-like (N,), or list of array-likes (N_i,)
            Numbers, not all the same.

        Returns
        -------
        GraphSFARegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing cells, y does not fit or is constant, or :class:`GraphSFA` raises it.
        """
        sequences, given = rows_and_labels(self, X, y)
        labels = check_labels(given)
        groups = label_groups(labels, self.n_labels, name="n_labels")
        self.gsfa_ = fit_slow_features(self, sequences.values, labels, default=_DEFAULT_COMPONENTS)
        self.label_values_ = np.bincount(groups, weights=labels) / np.bincount(groups)
        self.classifier_ = fit_classifier(self.classifier, self.gsfa_.transform(sequences.values), groups)
        return self

    def predict(self, X: Any) -> Any:
        """Return the soft label of every sample, shape (N,), or a list of such for a list of sequences."""
        return on_slow_features(
            self, X, lambda features: self.classifier_.predict_proba(features) @ self.label_values_
        )
