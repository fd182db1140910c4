"""Interface of noise with heavy tails: Gaussian noise whose precision differs between values, or rows.

Each value has a weight ``w_td``, or all values of a row share one weight ``w_t``. The distribution ``p(w)``
of the weights has one parameter, the shape:

    x_td = mu_d + C_d z_t + n_td,   n_td ~ N(0, r_d / w_td),   w ~ p(w).

Each kind of noise is a subclass of :class:`HeavyTails` in its own module, with an entry in
:data:`probsfa.statespace.noise.TAILS`. All other modules use this interface. The compiled engine filters rows
with Student-t noise only; for other kinds, :mod:`probsfa.statespace.student` has a slower filter.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.quantities import Quantity

__all__ = ["HeavyTails", "LeftOut"]


class LeftOut(NamedTuple):
    """Leave-one-out predictions of some values.

    Attributes
    ----------
    errors : ndarray of shape (M,)
        Each value minus the mean of its noise-free part ``mu + C z``, given the other values.
    explained : ndarray of shape (M,)
        Variance of each noise-free part, given the other values.
    columns : ndarray of int of shape (M,)
        Column of each value.
    """

    errors: FloatArray
    explained: FloatArray
    columns: NDArray[np.intp]


class HeavyTails(ABC):
    """Distribution of noise as a mixture of Gaussians, with a random weight for each value. Immutable.

    Many methods have two arguments (N, D). ``squared_residuals`` are the expectations
    ``E[(x - mu - C z)^2] / r``, zero where a value is missing. ``mask`` is one where a value is observed.

    Attributes
    ----------
    by_row : bool
        Whether all values of a row share one weight; otherwise each value has its own.
    shapes : tuple of float
        Limits of the shape; noise is nearly normal at the upper limit.
    n_parameters : int
        Number of estimated parameters: one, the shape.
    quantities : tuple of Quantity
        Descriptions of the fitted parameters, the shape first.
    """

    by_row: bool
    shapes: ClassVar[tuple[float, float]]
    n_parameters: ClassVar[int] = 1
    quantities: ClassVar[tuple[Quantity, ...]]

    @property
    @abstractmethod
    def shape(self) -> float:
        """Parameter of the distribution of weights; larger values have lighter tails."""

    @abstractmethod
    def with_shape(self, shape: float) -> Self:
        """Return the noise with another shape."""

    @property
    def attributes(self) -> dict[str, float]:
        """Fitted attributes of estimators by name: the shape."""
        return {self.quantities[0].attribute: self.shape}

    @property
    @abstractmethod
    def sentence(self) -> str:
        """Sentence on the noise, a part of `status_` of a fitted estimator."""

    @property
    def is_normal(self) -> bool:
        """Whether the shape is at its upper limit, where noise is nearly normal."""
        return self.shape >= 0.99 * self.shapes[1]

    @property
    @abstractmethod
    def variance(self) -> float:
        """Marginal variance of the noise, in units of ``r``."""

    @property
    @abstractmethod
    def location_variance(self) -> float:
        """Return the variance, in units of ``r``, of Gaussian noise with the same Fisher information.

        The information is that of a value about its location.
        """

    def shared(self, values: FloatArray) -> FloatArray:
        """Return sums over values with the same weight: (N, 1) for weights of rows, otherwise (N, D)."""
        return values.sum(axis=1, keepdims=True) if self.by_row else values

    @abstractmethod
    def expected_weights(self, squared_residuals: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``E[w]`` of all values (N, D), including missing values."""

    @abstractmethod
    def expected_variances(self, squared_residuals: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``E[1 / w]`` of every value (N, D): the variance of its noise, in units of ``r``."""

    @abstractmethod
    def log_density(self, squared_residuals: FloatArray, mask: FloatArray) -> FloatArray:
        """Return the log density of rows (N,) without ``-n/2 log(2 pi r)``, in nats."""

    @abstractmethod
    def at_best_shape(self, squared_residuals: FloatArray, mask: FloatArray) -> Self:
        """Return the noise with the shape that maximizes the log density, within its limits."""

    @abstractmethod
    def left_out_density(
        self, left_out: LeftOut, squared_scales: FloatArray
    ) -> tuple[float, FloatArray, float]:
        """Return the log density of errors, and derivatives with respect to ``log r`` and the log shape."""

    @abstractmethod
    def scores(self, errors: FloatArray, explained: FloatArray, squared_scale: FloatArray) -> FloatArray:
        """Return normal scores ``Phi^-1(F(e))`` (N, D) of errors ``e`` with the distribution function ``F``.

        An error is the sum of a normal variable with variances `explained` (N, D), and of this noise with
        squared scales ``r`` (`squared_scale`, (D,) or (N, D)).
        """

    @abstractmethod
    def scores_in_rows(
        self,
        errors: FloatArray,
        explained: FloatArray,
        squared_scale: FloatArray,
        squared_residuals: FloatArray,
        mask: FloatArray,
    ) -> FloatArray:
        """Return leave-one-out normal scores; shared weights are inferred from other values of the row."""

    @abstractmethod
    def draw(
        self,
        shape: tuple[int, ...],
        squared_scale: FloatArray,
        rng: np.random.Generator,
        squared_residuals: FloatArray | None = None,
        mask: FloatArray | None = None,
    ) -> FloatArray:
        """Draw noise of new values (..., N, D), conditional on observed values of the same rows if given."""
