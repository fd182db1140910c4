"""Delay embedding: each row together with previous rows of its sequence."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._saving import Saveable
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_memory, check_option, check_sequences

__all__ = ["DelayEmbedding"]


@lists_in_lists_out
class DelayEmbedding(Saveable, TransformerMixin, BaseEstimator):
    """Delay embedding: append previous rows of the sequence to each row.

    The state of a dynamical system can be reconstructed from the recent values of a few measurements, but in
    general not from one row (Takens 1981, doi:10.1007/BFb0091924). A delay embedding combines several
    rows. Use it in a pipeline before an estimator; the argument ``expansion=`` of estimators requires
    functions of one row.

    Parameters
    ----------
    n_delays : int, default=2
        Number of joined rows, including the current one.
    step : int, default=1
        Distance between joined rows, in rows.
    start : {"drop", "nan"}, default="drop"
        Treatment of the first ``(n_delays - 1) * step`` rows of each sequence, which lack previous rows.
        "drop" removes them, so that sequences are shorter; "nan" returns rows of NaN, for
        ``SFA(missing="skip")``.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.SFA : With `lag`, differences of rows that are several steps apart, without additional columns.

    Examples
    --------
    >>> embedding = DelayEmbedding(n_delays=3, step=2)
    >>> print(embedding.fit_transform([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]))
    [[4. 2. 0.]
     [5. 3. 1.]]
    >>> embedding.get_feature_names_out().tolist()
    ['x0', 'x0(t-2)', 'x0(t-4)']

    A column that is the sum of two sines; an embedding of four rows separates them. The slow
    features are the sine and the cosine of the slower one, of period 314:

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from probsfa import SFA
    >>> t = np.arange(2 * 314 + 3)
    >>> X = (np.sin(0.02 * t) + np.sin(0.7 * t))[:, None]
    >>> model = make_pipeline(DelayEmbedding(4), SFA(2)).fit(X)
    >>> print((2 * np.pi / np.sqrt(model[-1].delta_values_)).round())  # periods, in rows
    [315. 314.]
    """

    def __init__(self, n_delays: int = 2, *, step: int = 1, start: str = "drop") -> None:
        self.n_delays = n_delays
        self.step = step
        self.start = start

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Validate the rows and the parameters.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time; a list is several sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.

        Returns
        -------
        DelayEmbedding

        Raises
        ------
        ValueError
            If a parameter is out of range, X is not complete, or a sequence has too few rows.
        """
        self._check_parameters()
        self._check_lengths(check_sequences(self, X, reset=True, allow_nan=False, lengths=lengths))
        return self

    def transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return each row together with the previous rows of its sequence.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time; a list is several sequences.
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array; :meth:`embedded_lengths` returns the lengths of
            embedded sequences.

        Returns
        -------
        ndarray (T', n_delays * D), or list of such
            The current row, then the row `step` rows earlier, and so on. A sequence has ``T' = T - (n_delays
            - 1) * step`` rows, or T with ``start="nan"``.
        """
        check_is_fitted(self)
        self._check_parameters()
        sequences = check_sequences(self, X, reset=False, allow_nan=False, lengths=lengths)
        self._check_lengths(sequences)
        n_rows = sum(self.embedded_lengths(sequences.lengths))
        check_memory(
            8.0 * sequences.n_features * (n_rows * self.n_delays + self._n_incomplete_rows),
            f"n_delays={self.n_delays} and step={self.step} need {{size}} for {n_rows:,} rows",
            "Use fewer or shorter delays, or fewer rows at a time.",
        )
        parts: list[Any] = [self._embed(sequences.values[rows]) for rows in sequences.slices]
        config = getattr(self, "_sklearn_output_config", {})
        if config.get("transform", get_config()["transform_output"]) == "pandas":
            # Without an index, scikit-learn would use the index of X, which has more rows.
            indexes = self._indexes(X, sequences)
            parts = [part if i is None else _frame(part, i) for part, i in zip(parts, indexes, strict=True)]
        if sequences.is_list:
            return parts
        if len(parts) > 1 and not isinstance(parts[0], np.ndarray):
            import pandas as pd

            return pd.concat(parts)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def embedded_lengths(self, lengths: ArrayLike) -> list[int]:
        """Return the lengths of embedded sequences.

        Examples
        --------
        >>> DelayEmbedding(n_delays=3).embedded_lengths([10, 4])
        [8, 2]
        """
        self._check_parameters()
        lost = self._n_incomplete_rows if self.start == "drop" else 0
        return [int(n) - lost for n in np.asarray(lengths).ravel()]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the outputs: the name of the input and the delay in rows."""
        check_is_fitted(self)
        names = [str(name) for name in _check_feature_names_in(self, input_features)]
        delays = [j * self.step for j in range(self.n_delays)]
        delayed_names = [f"{name}(t-{delay})" if delay else name for delay in delays for name in names]
        return np.asarray(delayed_names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the transformer is fitted."""
        return hasattr(self, "n_features_in_")

    @property
    def _n_incomplete_rows(self) -> int:
        return (self.n_delays - 1) * self.step

    def _indexes(self, X: Any, sequences: Sequences) -> list[Any]:
        """Return the index of the remaining rows of each sequence; None if X has no index."""
        lost = self._n_incomplete_rows if self.start == "drop" else 0
        if sequences.is_list:
            return [x.index[lost:] if hasattr(x, "iloc") else None for x in X]
        if not hasattr(X, "iloc"):
            return [None] * len(sequences.lengths)
        return [X.index[rows][lost:] for rows in sequences.slices]

    def _embed(self, values: FloatArray) -> FloatArray:
        """Embed one sequence."""
        lost = self._n_incomplete_rows
        if self.start == "nan":
            values = np.concatenate([np.full((lost, values.shape[1]), np.nan), values])
        n = len(values) - lost
        delays = [lost - j * self.step for j in range(self.n_delays)]
        return np.concatenate([values[first : first + n] for first in delays], axis=1)

    def _check_parameters(self) -> None:
        check_count("n_delays", self.n_delays)
        check_count("step", self.step)
        check_option("start", self.start, ("drop", "nan"))

    def _check_lengths(self, sequences: Sequences) -> None:
        if self.start == "nan":
            return
        for i, n in enumerate(sequences.lengths):
            if n <= self._n_incomplete_rows:
                name = f"X[{i}]" if len(sequences.lengths) > 1 else "X"
                raise ValueError(
                    f"{name} has {n} rows; n_delays={self.n_delays} and step={self.step} require at least "
                    f"{self._n_incomplete_rows + 1} rows in each sequence. Use longer sequences or fewer "
                    "delays. If the embedding is the expansion of an estimator, use it as the step before "
                    "the estimator in a pipeline."
                )


def _frame(values: FloatArray, index: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(values, index=index)
