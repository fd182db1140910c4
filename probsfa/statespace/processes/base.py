"""Interface of a kind of latent process.

Each kind is a module of this package with a subclass of :class:`Process`. The fields of the subclass are
arrays of parameters with one entry for each process. A subclass must implement the transition over a time
step, free coordinates (unconstrained parameters for the optimizer), and initial values that replace an AR(1)
factor. The base class computes the M-step, the score and spectra numerically from the transition; a subclass
may implement them in closed form.

Processes are independent of each other. At the start of a sequence, the states of a process are uncorrelated
and have unit variance. For stationary processes this is true at all times.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, minimize, minimize_scalar

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.quantities import Quantity

__all__ = ["BlockMoments", "Process", "Transitions", "block_score", "closest_order", "closest_signs"]

#: Transition matrices ``A`` and innovation covariances ``Q``, both (U, N, B, B), over ``U`` gaps.
Transitions = tuple[FloatArray, FloatArray]

# Step of central differences for coordinates of order one: the cube root of the machine precision.
_DIFFERENCE_STEP = 6e-6
# For spectra, transition matrices of non-stationary processes are multiplied by one minus this number, so
# that spectra are finite. This changes spectra at frequencies below 3e-4 radians per row. Most series contain
# less than one period of these frequencies, and spectra determine only optimizer steps.
_EIGENVALUE_MARGIN = 3e-4


def closest_order(
    loadings: FloatArray, fixed: FloatArray, costs: FloatArray | float = 0.0
) -> NDArray[np.intp]:
    """Return the order (N,) of processes with the smallest distance of loadings from fixed loadings.

    Signs of loadings are ignored.

    Parameters
    ----------
    loadings : ndarray of shape (D, N)
        Loadings on the processes.
    fixed : ndarray of shape (D, N)
        Fixed loadings, NaN where free.
    costs : float or ndarray of shape (N, N), default=0.0
        Added to the squared distance of fixed loadings (rows) from loadings (columns).
    """
    unchanged, negated = (
        np.nansum((sign * loadings[:, None, :] - fixed[:, :, None]) ** 2, axis=0) for sign in (1.0, -1.0)
    )
    return np.asarray(linear_sum_assignment(np.minimum(unchanged, negated) + costs)[1])


def closest_signs(loadings: FloatArray, fixed: FloatArray) -> FloatArray:
    """Return the signs (N,) with the smallest distance of loadings (D, N) from fixed loadings (NaN: free)."""
    return np.where(np.nansum(loadings * fixed, axis=0) < 0.0, -1.0, 1.0)


def block_score(innovation: Any, counts: Any, power: Any, moments: Any) -> tuple[Any, Any]:
    """Return derivatives (U, N, B, B) of the expected log density with respect to ``A`` and ``Q``.

    Parameters
    ----------
    innovation : array of shape (U, N, B, B)
        Covariances ``Q`` of the innovations ``e`` over ``U`` gaps. Arrays may be of NumPy or of JAX.
    counts : array of shape (U,)
        Number of transitions over each gap.
    power, moments : array of shape (U, N, B, B)
        Sums of ``E[e e']`` and of ``E[e z']``, where ``z`` is the state before the transition and ``'`` is
        the transpose.
    """
    inverse = innovation.__array_namespace__().linalg.inv(innovation)
    return inverse @ moments, 0.5 * (inverse @ power @ inverse - counts[:, None, None, None] * inverse)


class BlockMoments(NamedTuple):
    """Moments of the transitions of one process, for each of ``U`` gaps.

    The innovation of a transition from state ``z`` to state ``y`` is ``e = y - A z``, with the transition
    matrix ``A`` of the current parameters.

    Attributes
    ----------
    counts : ndarray of shape (U,)
        Number of transitions.
    matrix : ndarray of shape (U, B, B)
        ``A``.
    power, moments, previous : ndarray of shape (U, B, B)
        Sums of ``E[e e']``, ``E[e z']`` and ``E[z z']``, where ``'`` is the transpose.
    """

    counts: FloatArray
    matrix: FloatArray
    power: FloatArray
    moments: FloatArray
    previous: FloatArray

    def expected(self, matrix: FloatArray, innovation: FloatArray) -> float:
        """Return the expected log density for other matrices ``A`` and ``Q`` (U, B, B), without constants."""
        change = matrix - self.matrix
        cross_products = self.moments @ change.swapaxes(1, 2)
        power = self.power - cross_products - cross_products.swapaxes(1, 2)
        power = power + change @ self.previous @ change.swapaxes(1, 2)
        # States are scaled to innovations of unit variance, because their variances differ by orders of
        # magnitude for slow processes.
        scale = np.sqrt(np.diagonal(innovation, axis1=1, axis2=2))
        scale_products = scale[:, :, None] * scale[:, None, :]
        scaled = innovation / scale_products
        log_det = np.linalg.slogdet(scaled)[1] + 2.0 * np.log(scale).sum(axis=1)
        squared_norms = np.einsum("uij,uji->u", np.linalg.inv(scaled), power / scale_products)
        return -0.5 * float(self.counts @ log_det + squared_norms.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Process(ABC):
    """Processes of one kind; the fields of a subclass are arrays (N,) with one entry for each process.

    Class attributes describe the kind.

    Attributes
    ----------
    option : str
        Option of estimators for processes of this kind. Its value is a number of processes, a list of their
        initial periods or time scales, or a string.
    accepts_count : bool
        Whether the value of the option may be a number of processes.
    times : str
        Name of the quantity in a list, such as "periods"; empty if the value may not be a list.
    named_value : str
        String value of the option for one process; empty if there is no such value.
    variant : mapping of str to object
        Name and value of a second option that selects this kind if several kinds have the same `option`. The
        first kind is the default.
    n_states : int
        Number of states of one process, ``B``.
    parts : tuple of str
        Suffixes of the names of the states, appended to the name of the process.
    loaded_states : tuple of int
        Indices of the states of a process that have loadings.
    stationary : bool
        Whether the states have constant variance.
    from_periodogram : bool
        Whether initial values are computed from the periodogram, not from AR(1) factors.
    longest_steps : tuple of float
        Longest optimizer step in each coordinate.
    longest_loading_step : float
        Longest optimizer step in a loading, in standard deviations of a column. For non-stationary kinds, the
        largest initial loading is a second limit.
    names : dict of str
        Names of the fields in files and in :class:`~probsfa.statespace.parameters.StateSpace`. All values in
        files are positive.
    label : str
        Prefix of the names of states.
    quantities : tuple of Quantity
        Names and units of :meth:`attributes`, and scales of their confidence intervals.
    """

    option: ClassVar[str]
    accepts_count: ClassVar[bool] = True
    times: ClassVar[str] = ""
    named_value: ClassVar[str] = ""
    variant: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    n_states: ClassVar[int]
    parts: ClassVar[tuple[str, ...]] = ("",)
    loaded_states: ClassVar[tuple[int, ...]] = (0,)
    stationary: ClassVar[bool] = True
    from_periodogram: ClassVar[bool] = False
    longest_steps: ClassVar[tuple[float, ...]] = ()
    longest_loading_step: ClassVar[float] = 1.0
    names: ClassVar[dict[str, str]]
    label: ClassVar[str]
    quantities: ClassVar[tuple[Quantity, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raise a TypeError if a field of the kind has the name of a method or property of this class."""
        super().__init_subclass__(**kwargs)
        taken = [name for name in cls.names if name in vars(Process)] if hasattr(cls, "names") else []
        if taken:
            raise TypeError(f"{cls.__name__} has the field {taken[0]!r}, the name of a method of Process.")

    # ------------------------------------------------------------------------- abstract methods

    @abstractmethod
    def transitions(self, gaps: FloatArray) -> Transitions:
        """Return transition matrices and innovation covariances, both (U, N, B, B), over gaps (U,).

        Parameters may be arrays of NumPy or of JAX.
        """

    @abstractmethod
    def to_free(self) -> FloatArray:
        """Return the free coordinates (C, N) of the parameters."""

    @abstractmethod
    def at(self, free: FloatArray) -> Self:
        """Return the processes at coordinates (C, N)."""

    @classmethod
    @abstractmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """Return initial processes that replace AR(1) factors, with multipliers (N,) for their loadings.

        If there are several candidates, the likelihood selects one.
        """

    @property
    @abstractmethod
    def order(self) -> FloatArray:
        """Sort keys (N,) of the processes, in ascending order."""

    @classmethod
    @abstractmethod
    def arbitrary(cls, count: int) -> Self:
        """Return `count` processes with arbitrary parameters, different from each other if possible."""

    @classmethod
    def of_times(cls, times: FloatArray, *, evenly_sampled: bool) -> Self:
        """Return processes with given periods or time scales, in time steps; for kinds with `times`."""
        raise NotImplementedError

    def evenly_sampled(self) -> Self:
        """Return the same processes with unique parameters for evenly sampled rows (frequencies below pi)."""
        return self

    # --------------------------------------------------------------------------- arrays of parameters

    def __len__(self) -> int:
        return len(next(iter(self.arrays().values())))

    def __repr__(self) -> str:
        inside = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
        return f"{type(self).__name__}({inside})"

    @classmethod
    def n_free(cls) -> int:
        """Number of coordinates of one process, ``C``."""
        return len(cls.longest_steps)

    def arrays(self) -> dict[str, FloatArray]:
        """Return the arrays of parameters by their names in files."""
        return {name: getattr(self, field) for field, name in self.names.items()}

    def replace(self, **changes: FloatArray) -> Self:
        """Return the processes with some arrays changed, by names in files."""
        return replace(
            self, **{field: changes[name] for field, name in self.names.items() if name in changes}
        )

    def select(self, index: Any) -> Self:
        """Return some of the processes, by an index of their arrays."""
        return replace(self, **{field: getattr(self, field)[index] for field in self.names})

    def concatenate(self, others: Self) -> Self:
        """Concatenate these processes and others."""
        return replace(
            self, **{field: np.append(getattr(self, field), getattr(others, field)) for field in self.names}
        )

    @classmethod
    def labels(cls, count: int) -> Iterator[str]:
        """Yield the names of the states of `count` processes."""
        for j in range(count):
            for part in cls.parts:
                yield f"{cls.label}{j}{part}"

    # ------------------------------------------------------------------------------- order and sign

    @classmethod
    def n_rotated(cls, count: int) -> int:
        """Return the number of angles by which the states of `count` processes can be rotated.

        Rotations do not change the likelihood; :meth:`canonical` selects one.
        """
        del count
        return 0

    def free_loadings(self, loadings: FloatArray) -> BoolArray:
        """Return a mask of free loadings (D, N, B) in canonical form."""
        return np.ones(loadings.shape, dtype=bool)

    def canonical(self, loadings: FloatArray, units: FloatArray) -> tuple[Self, FloatArray]:
        """Sort processes by `order`, and apply the sign convention of the package to loadings (D, N, B)."""
        order = np.argsort(self.order, kind="stable")
        reordered = loadings[:, order]
        signs = canonical_signs(reordered[:, :, self.loaded_states[0]], units)
        return self.select(order), reordered * signs[:, None]

    def closest(
        self, loadings: FloatArray, fixed: FloatArray, bounds: FloatArray | None = None
    ) -> tuple[Self, FloatArray]:
        """Permute processes and change signs so that loadings (D, N, B) are closest to fixed ones.

        ``fixed`` is NaN where a loading is free; for ``bounds`` (2, N) see :meth:`maximized`.
        """
        del bounds
        first = self.loaded_states[0]
        order = closest_order(loadings[:, :, first], fixed[:, :, first])
        reordered = loadings[:, order]
        signs = closest_signs(reordered[:, :, first], fixed[:, :, first])
        return self.select(order), reordered * signs[:, None]

    # ----------------------------------------------------------------------- estimation

    def transition_derivatives(self, gaps: FloatArray) -> list[Transitions]:
        """Return derivatives of ``A`` and ``Q``, both (U, N, B, B), with respect to each coordinate."""
        free, derivatives = self.to_free(), []
        for forward, backward in self._difference_steps(free):
            after, before = (self.at(free + step).transitions(gaps) for step in (forward, backward))
            matrix, innovation = (
                (x - y) / (2.0 * _DIFFERENCE_STEP) for x, y in zip(after, before, strict=True)
            )
            derivatives.append((matrix, innovation))
        return derivatives

    def _difference_steps(self, free: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield both steps of the central differences for each coordinate."""
        for c in range(len(free)):
            step = np.zeros_like(free)
            step[c] = _DIFFERENCE_STEP
            yield step, -step

    def score(
        self, gaps: FloatArray, counts: FloatArray, power: FloatArray, moments: FloatArray
    ) -> FloatArray:
        """Return the derivative (C, N) of the expected log density with respect to the coordinates.

        Parameters are those of :func:`block_score`, and the gaps (U,).
        """
        if not self.n_free():
            return np.zeros((0, len(self)))
        by_matrix, by_innovation = block_score(self.transitions(gaps)[1], counts, power, moments)
        return np.array(
            [
                np.sum(by_matrix * matrix + by_innovation * innovation, axis=(0, 2, 3))
                for matrix, innovation in self.transition_derivatives(gaps)
            ]
        )

    def maximized(self, data: list[BlockMoments], gaps: FloatArray, bounds: FloatArray | None = None) -> Self:
        # noqa: ARG002
        """M-step: return the processes that maximize the expected log density of their transitions.

        Parameters
        ----------
        data : list of BlockMoments
            Moments of the transitions of each process.
        gaps : ndarray of shape (U,)
            Times between successive rows.
        bounds : ndarray of shape (2, N), optional
            Lower and upper bound of the frequency of each process, for kinds with a frequency.
        """
        if not self.n_free():
            return self
        free = self.to_free()
        best = np.column_stack(
            [self.select([j])._search(free[:, j], moments, gaps) for j, moments in enumerate(data)]
        )
        return self.at(best)

    def _search(self, start: FloatArray, data: BlockMoments, gaps: FloatArray) -> FloatArray:
        """Return the coordinates (C,) of this single process that maximize its expected log density."""
        if data.counts.sum() == 0.0:
            return start

        def loss(free: Any) -> float:
            matrix, innovation = self.at(np.atleast_1d(free)[:, None]).transitions(gaps)
            return -data.expected(matrix[:, 0], innovation[:, 0])

        if len(start) == 1:
            bracket = (float(start[0]) - 0.1, float(start[0]) + 0.1)
            minimum: Any = minimize_scalar(loss, bracket=bracket, options={"xtol": 1e-10})
        else:
            options: Any = {"xatol": 1e-9, "fatol": 1e-9}
            minimum = minimize(loss, start, method="Nelder-Mead", options=options)
        best = np.atleast_1d(minimum.x)
        return best if loss(best) <= loss(start) else start

    # ------------------------------------------------------------------------------------ spectra

    @property
    def peaks(self) -> tuple[FloatArray, FloatArray]:
        """Frequencies (N,) and widths (N,) of the peaks of the spectra.

        The width is one minus the largest absolute eigenvalue of the transition matrix of one time step.
        """
        if not self.stationary:
            return np.zeros(len(self)), np.full(len(self), _EIGENVALUE_MARGIN)
        (matrix,), _ = self.transitions(np.ones(1))
        largest = np.max(np.abs(np.linalg.eigvals(matrix)), axis=1)
        return np.zeros(len(self)), np.maximum(1.0 - largest, 0.0)

    def spectra(self, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return spectra (W, N, S) of the ``S`` states with loadings, and derivatives (W, N, S, C).

        ``omega`` are frequencies (W,) in radians per time step. Derivatives are with respect to the
        coordinates.
        """
        free = self.to_free()
        derivatives = [
            (self.at(free + upper)._spectrum(omega) - self.at(free + lower)._spectrum(omega))
            / (2.0 * _DIFFERENCE_STEP)
            for upper, lower in self._difference_steps(free)
        ]
        values = self._spectrum(omega)
        return values, np.stack(derivatives, axis=-1) if derivatives else np.zeros((*values.shape, 0))

    def _spectrum(self, omega: FloatArray) -> FloatArray:
        """Return the spectra (W, N, S) of the states with loadings.

        Spectra are row sums of ``|(e^(iw) - A)^-1 L|^2`` with ``Q = L L'``, without cancellation. For
        non-stationary processes, the spectrum at frequency zero is large but finite.
        """
        (matrix,), (innovation,) = self.transitions(np.ones(1))
        if not self.stationary:
            matrix = (1.0 - _EIGENVALUE_MARGIN) * matrix
        scale = np.sqrt(np.diagonal(innovation, axis1=1, axis2=2))
        root = scale[:, :, None] * np.linalg.cholesky(innovation / (scale[:, :, None] * scale[:, None, :]))
        resolvent = np.exp(1j * omega)[:, None, None, None] * np.eye(self.n_states) - matrix
        spectra = np.sum(np.abs(np.linalg.solve(resolvent, root.astype(np.complex128)[None])) ** 2, axis=3)
        return np.asarray(spectra[:, :, list(self.loaded_states)])

    def damping(self, n_rows: float) -> FloatArray:
        """Return the Fisher information (C, N) in `n_rows` observed transitions about each coordinate."""
        if not self.n_free():
            return np.zeros((0, len(self)))
        inverse = np.linalg.inv(self.transitions(np.ones(1))[1][0])
        information = []
        for matrix, innovation in self.transition_derivatives(np.ones(1)):
            scaled = inverse @ innovation[0]
            by_matrix = np.einsum("nij,njk,nik->n", inverse, matrix[0], matrix[0])
            information.append(n_rows * (by_matrix + 0.5 * np.einsum("nij,nji->n", scaled, scaled)))
        return np.array(information)

    def curvature(self, gradient: FloatArray) -> FloatArray:
        """Return the part (C, N) of the curvature that is proportional to the gradient (C, N).

        The curvature is minus the second derivative of the log-likelihood. It has this part because
        parameters are nonlinear functions of the coordinates. Negative values are replaced by zero. By
        default all values are zero.
        """
        return np.zeros_like(gradient)

    # --------------------------------------------------------------------------------- results

    def attributes(self, loadings: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """Return the fitted attributes in `quantities` from loadings (D, N, B)."""
        del loadings, time_unit
        return ()

    def standard_errors(self, covariances: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """Return standard errors (N,) of the `quantities` with intervals, by the delta method.

        `covariances` (C, C, N) are covariances of the coordinates. Quantities with intervals have one number
        for each process and do not depend on loadings.
        """
        zeros = [np.zeros(len(self)) for quantity in self.quantities if quantity.scale]
        if not zeros or not self.n_free():
            return tuple(zeros)
        free, loadings = self.to_free(), np.zeros((1, len(self), self.n_states))
        derivatives = []
        for steps in self._difference_steps(free):
            after, before = (self.at(free + step).attributes(loadings, time_unit) for step in steps)
            triples = zip(self.quantities, after, before, strict=True)
            derivatives.append(
                [(x - y) / (2.0 * _DIFFERENCE_STEP) for quantity, x, y in triples if quantity.scale]
            )
        return tuple(np.sqrt(np.einsum("cqn,cdn,dqn->qn", derivatives, covariances, derivatives)))
