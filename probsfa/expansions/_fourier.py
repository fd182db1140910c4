"""Random Fourier features: a finite basis whose inner products approach a Gaussian kernel."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from probsfa._validation import check_count, check_memory
from probsfa.expansions._base import Expansion, FloatArray, check_positive

__all__ = ["FourierFeatures"]


class FourierFeatures(Expansion):
    """Cosines and sines of random projections; their inner products estimate ``exp(-gamma |x - y|^2)``.

    Parameters
    ----------
    n_frequencies : int, default=50
        Number of random projections F; each gives a cosine and a sine.
    gamma : float or "scale", default="scale"
        Inverse squared width of the kernel; "scale" is ``1 / (D * variance of all values)``, as in
        scikit-learn's support vector machines.
    random_state : int, RandomState instance or None, default=0
        Seed of the frequencies.

    Attributes
    ----------
    frequencies_ : ndarray (D, F)
        Random frequencies, from the normal distribution with variance ``2 gamma``.
    gamma_ : float
        The inverse squared width used.

    See Also
    --------
    RadialBasis : Local functions around centres.
    probsfa.KernelSFA : Slow features with the exact kernel.

    References
    ----------
    Rahimi, A. & Recht, B. (2007). Random features for large-scale kernel machines. Advances in Neural
    Information Processing Systems 20.

    Examples
    --------
    >>> import numpy as np
    >>> Z = FourierFeatures(5000, gamma=0.5, random_state=0).fit_transform([[0.0, 0.0], [1.0, 0.0]])
    >>> bool(abs(Z[0] @ Z[1] - np.exp(-0.5)) < 0.03)
    True
    """

    def __init__(
        self, n_frequencies: int = 50, *, gamma: float | str = "scale", random_state: Any = 0
    ) -> None:
        self.n_frequencies = n_frequencies
        self.gamma = gamma
        self.random_state = random_state

    def n_outputs(self, n_features: int) -> float | None:
        """Return two columns for each frequency."""
        return 2.0 * check_count("n_frequencies", self.n_frequencies)

    def expand(self, values: FloatArray) -> FloatArray:
        """Expand the last axis: (..., D) to (..., 2 F)."""
        n_rows = values.size // values.shape[-1]
        # Five values for each row and frequency: the phase, and two copies of its cosine and sine.
        self._check_size(5 * n_rows, self.frequencies_.shape[1])
        phase = values @ self.frequencies_
        return np.concatenate([np.cos(phase), np.sin(phase)], axis=-1) / np.sqrt(phase.shape[-1])

    def _learn(self, values: FloatArray) -> None:
        n = check_count("n_frequencies", self.n_frequencies)
        self._check_size(2 * values.shape[1], n)  # random numbers and a scaled copy
        if isinstance(self.gamma, str):
            if self.gamma != "scale":
                raise ValueError(f'gamma must be a positive number or "scale"; got {self.gamma!r}.')
            variance = float(values.var())
            self.gamma_ = 1.0 / (values.shape[1] * variance) if variance > 0 else 1.0
        else:
            self.gamma_ = check_positive("gamma", self.gamma)
        rng = check_random_state(self.random_state)
        self.frequencies_ = rng.standard_normal((values.shape[1], n)) * np.sqrt(2 * self.gamma_)

    def _check_size(self, n_rows: int, n_frequencies: int) -> None:
        check_memory(
            8.0 * n_rows * n_frequencies,
            f"n_frequencies={n_frequencies} needs {{size}}",
            "Use fewer frequencies.",
        )

    def _names_out(self, names: list[str]) -> list[str]:
        n = self.frequencies_.shape[1]
        return [f"fouriercos{j}" for j in range(n)] + [f"fouriersin{j}" for j in range(n)]
