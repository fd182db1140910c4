"""Interface of a kind of latent process.

Each kind is a module of this package with a subclass of :class:`Process`, whose fields are arrays of
parameters with one entry for each process. A subclass must implement the transition over a time step, free
coordinates of the parameters, and initial values that replace an AR(1) factor. The base class computes the
M-step, the score and spectra numerically from the transition; a subclass may implement them in closed form.

Each process is a block of states that is independent of all others. Its states have unit variance and no
covariance at the start of a sequence; in a stationary process this holds at all times.
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

#: ``A`` and ``Q``, both (U, N, B, B), for ``U`` gaps.
Transitions = tuple[FloatArray, FloatArray]

# Step of central differences by a coordinate of order one: the cube root of the machine precision.
_DIFFERENCE_STEP = 6e-6
# In spectra, which only determine optimizer steps, eigenvalues of non-stationary processes are set to one
# minus this number. Most series have less than one period at frequencies below it.
_SHORT_OF_ONE = 3e-4


def closest_order(
    loadings: FloatArray, held: FloatArray, costs: FloatArray | float = 0.0
) -> NDArray[np.intp]:
    """Return the order (N,) of the processes for which loadings are closest to fixed ones up to signs.

    ``costs`` (N, N) is added to the distance for each position and process.
    """
    up, down = (
        np.nansum((sign * loadings[:, None, :] - held[:, :, None]) ** 2, axis=0) for sign in (1.0, -1.0)
    )
    return np.asarray(linear_sum_assignment(np.minimum(up, down) + costs)[1])


def closest_signs(loadings: FloatArray, held: FloatArray) -> FloatArray:
    """Return the signs (N,) for which loadings are closest to fixed ones."""
    return np.where(np.nansum(loadings * held, axis=0) < 0.0, -1.0, 1.0)


def block_score(innovation: Any, counts: Any, power: Any, moments: Any) -> tuple[Any, Any]:
    """Return derivatives of the expected log density of transitions by ``A`` and ``Q``, (U, P, B, B).

    They are ``Q^-1 M`` and ``(Q^-1 E Q^-1 - n Q^-1) / 2`` for ``n`` transitions (U,) over each gap, and sums
    ``E`` of ``E e e'`` and ``M`` of ``E e z'``, moments of the innovations. Arrays of NumPy or of JAX.
    """
    inverse = innovation.__array_namespace__().linalg.inv(innovation)
    return inverse @ moments, 0.5 * (inverse @ power @ inverse - counts[:, None, None, None] * inverse)


class BlockMoments(NamedTuple):
    """Moments of the transitions of one process over each gap, taken at a transition ``matrix`` (U, B, B).

    ``power``, ``moments`` and ``previous`` (U, B, B) are sums of ``E e e'``, ``E e z'`` and ``E z z'`` over
    ``counts`` (U,) transitions, where ``e = z' - A z`` are the innovations.
    """

    counts: FloatArray
    matrix: FloatArray
    power: FloatArray
    moments: FloatArray
    previous: FloatArray

    def expected(self, matrix: FloatArray, innovation: FloatArray) -> float:
        """Return the expected log density of the transitions under ``A`` and ``Q``, without constants."""
        change = matrix - self.matrix
        cross_products = self.moments @ change.swapaxes(1, 2)
        power = self.power - cross_products - cross_products.swapaxes(1, 2)
        power = power + change @ self.previous @ change.swapaxes(1, 2)
        # Scaled to unit innovations, which are orders of magnitude apart for slow processes.
        scale = np.sqrt(np.diagonal(innovation, axis1=1, axis2=2))
        scaled = innovation / (scale[:, :, None] * scale[:, None, :])
        log_det = np.linalg.slogdet(scaled)[1] + 2.0 * np.log(scale).sum(axis=1)
        within = np.einsum(
            "uij,uji->u", np.linalg.inv(scaled), power / (scale[:, :, None] * scale[:, None, :])
        )
        return -0.5 * float(self.counts @ log_det + within.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Process(ABC):
    """Processes of one kind; the fields of a subclass are arrays (N,), one number for each process.

    Class attributes describe the kind.

    Attributes
    ----------
    option : str
        Option of the estimators that requests processes of this kind. Its value is a number of processes, a
        list of their initial periods or time scales, or a string.
    accepts_count : bool
        Whether the value of the option may be a number of processes.
    times : str
        Name of the quantity in a list, such as "periods"; empty if the value may not be a list.
    named_value : str
        String value of the option that requests one process; empty if there is no such value.
    variant : mapping of str to object
        Name and value of another option that selects this kind among those with the same `option`. The value
        of the first such kind is the default.
    n_states : int
        Number of states of one process, ``B``.
    parts : tuple of str
        Suffixes of the names of the states, appended to the name of the process.
    seen : tuple of int
        Indices of the states of a process that have loadings.
    stationary : bool
        Whether the states have constant variance.
    from_periodogram : bool
        Whether initial values are computed from the periodogram; those of other kinds are computed from AR(1)
        factors.
    longest_steps : tuple of float
        Longest optimizer step in each coordinate.
    longest_loading_step : float
        Longest optimizer step in a loading, in standard deviations of a column. For non-stationary kinds,
        steps are also at most the largest loading at the start of the optimization.
    names : dict of str
        Names of the fields in files and in :class:`~probsfa.statespace.parameters.StateSpace`; in files all
        values are positive.
    label : str
        Prefix of the names of states.
    quantities : tuple of Quantity
        Names, units and interval scales of :meth:`attributes`.
    """

    option: ClassVar[str]
    accepts_count: ClassVar[bool] = True
    times: ClassVar[str] = ""
    named_value: ClassVar[str] = ""
    variant: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    n_states: ClassVar[int]
    parts: ClassVar[tuple[str, ...]] = ("",)
    seen: ClassVar[tuple[int, ...]] = (0,)
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
        """Return ``A`` and ``Q``, both (U, N, B, B), over gaps (U,).

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
        """Return `count` processes with arbitrary parameters, all different unless they are constants."""

    @classmethod
    def of_times(cls, times: FloatArray, *, evenly_sampled: bool) -> Self:
        """Return initial processes for the values of the option, in time steps; for kinds with `times`."""
        raise NotImplementedError

    def evenly_sampled(self) -> Self:
        """Return the processes with unique parameters for evenly sampled rows (without aliases)."""
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

    def chosen(self, index: Any) -> Self:
        """Return the processes at an index."""
        return replace(self, **{field: getattr(self, field)[index] for field in self.names})

    def joined(self, others: Self) -> Self:
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
        """Return the number of loadings of `count` processes that :meth:`canonical` fixes."""
        del count
        return 0

    def free_loadings(self, loadings: FloatArray) -> BoolArray:
        """Return which loadings (D, N, B), of the canonical form, are free."""
        return np.ones(loadings.shape, dtype=bool)

    def canonical(self, loadings: FloatArray, units: FloatArray) -> tuple[Self, FloatArray]:
        """Sort the processes; signs of their loadings (D, N, B) follow the convention of the package."""
        order = np.argsort(self.order, kind="stable")
        reordered = loadings[:, order]
        signs = canonical_signs(reordered[:, :, self.seen[0]], units)
        return self.chosen(order), reordered * signs[:, None]

    def closest(
        self, loadings: FloatArray, held: FloatArray, within: FloatArray | None = None
    ) -> tuple[Self, FloatArray]:
        """Permute processes and change signs so that loadings (D, N, B) are closest to fixed ones.

        ``held`` is NaN where a loading is free; ``within`` (2, N) are limits as of :meth:`maximized`.
        """
        del within
        first = self.seen[0]
        order = closest_order(loadings[:, :, first], held[:, :, first])
        reordered = loadings[:, order]
        signs = closest_signs(reordered[:, :, first], held[:, :, first])
        return self.chosen(order), reordered * signs[:, None]

    # ----------------------------------------------------------------------- estimation

    def slopes(self, gaps: FloatArray) -> list[Transitions]:
        """Return derivatives of ``A`` and ``Q``, both (U, N, B, B), by each coordinate."""
        free, found = self.to_free(), []
        for forward, backward in self._sides(free):
            upper, lower = (
                self.at(free + forward).transitions(gaps),
                self.at(free + backward).transitions(gaps),
            )
            matrix, innovation = (
                (x - y) / (2.0 * _DIFFERENCE_STEP) for x, y in zip(upper, lower, strict=True)
            )
            found.append((matrix, innovation))
        return found

    def _sides(self, free: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        for c in range(len(free)):
            step = np.zeros_like(free)
            step[c] = _DIFFERENCE_STEP
            yield step, -step

    def score(
        self, gaps: FloatArray, counts: FloatArray, power: FloatArray, moments: FloatArray
    ) -> FloatArray:
        """Return the derivative (C, N) of the expected log density of transitions.

        ``counts`` (U,) transitions over each gap, and sums of the moments of innovations, ``E e e'`` and
        ``E e z'``, both (U, N, B, B).
        """
        if not self.n_free():
            return np.zeros((0, len(self)))
        by_matrix, by_innovation = block_score(self.transitions(gaps)[1], counts, power, moments)
        return np.array(
            [
                np.sum(by_matrix * matrix + by_innovation * innovation, axis=(0, 2, 3))
                for matrix, innovation in self.slopes(gaps)
            ]
        )

    def maximized(self, data: list[BlockMoments], gaps: FloatArray, within: FloatArray | None = None) -> Self:
        # noqa: ARG002
        """M-step: return the processes that maximize the expected log density of the transitions of each.

        ``within`` (2, N) are limits of the frequency of each process, for kinds with a frequency.
        """
        if not self.n_free():
            return self
        free = self.to_free()
        best = np.column_stack(
            [self.chosen([j])._searched(free[:, j], one, gaps) for j, one in enumerate(data)]
        )
        return self.at(best)

    def _searched(self, here: FloatArray, data: BlockMoments, gaps: FloatArray) -> FloatArray:
        """Return the coordinates (C,) of this single process that maximize its expected log density."""
        if data.counts.sum() == 0.0:
            return here

        def loss(free: Any) -> float:
            matrix, innovation = self.at(np.atleast_1d(free)[:, None]).transitions(gaps)
            return -data.expected(matrix[:, 0], innovation[:, 0])

        if len(here) == 1:
            bracket = (float(here[0]) - 0.1, float(here[0]) + 0.1)
            end: Any = minimize_scalar(loss, bracket=bracket, options={"xtol": 1e-10})
        else:
            options: Any = {"xatol": 1e-9, "fatol": 1e-9}
            end = minimize(loss, here, method="Nelder-Mead", options=options)
        best = np.atleast_1d(end.x)
        return best if loss(best) <= loss(here) else here

    # ------------------------------------------------------------------------------------ spectra

    @property
    def peaks(self) -> tuple[FloatArray, FloatArray]:
        """Frequencies (N,) of the peaks of spectra, and their widths (N,): ``1 - a`` for AR(1)."""
        if not self.stationary:
            return np.zeros(len(self)), np.full(len(self), _SHORT_OF_ONE)
        (matrix,), _ = self.transitions(np.ones(1))
        largest = np.max(np.abs(np.linalg.eigvals(matrix)), axis=1)
        return np.zeros(len(self)), np.maximum(1.0 - largest, 0.0)

    def spectra(self, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return spectra (W, N, S) of the states with loadings, and their derivatives (W, N, S, C)."""
        free = self.to_free()
        slopes = [
            (self.at(free + upper)._spectrum(omega) - self.at(free + lower)._spectrum(omega))
            / (2.0 * _DIFFERENCE_STEP)
            for upper, lower in self._sides(free)
        ]
        values = self._spectrum(omega)
        return values, np.stack(slopes, axis=-1) if slopes else np.zeros((*values.shape, 0))

    def _spectrum(self, omega: FloatArray) -> FloatArray:
        """``|(e^(iw) - A)^-1 L|^2`` with ``Q = L L'``: a sum of squares, without cancellation.

        For a process that is not stationary it is large, but finite, at frequency zero.
        """
        (matrix,), (innovation,) = self.transitions(np.ones(1))
        if not self.stationary:
            matrix = (1.0 - _SHORT_OF_ONE) * matrix
        scale = np.sqrt(np.diagonal(innovation, axis1=1, axis2=2))
        root = scale[:, :, None] * np.linalg.cholesky(innovation / (scale[:, :, None] * scale[:, None, :]))
        rotated = np.exp(1j * omega)[:, None, None, None] * np.eye(self.n_states) - matrix
        power = np.sum(np.abs(np.linalg.solve(rotated, root.astype(np.complex128)[None])) ** 2, axis=3)
        return np.asarray(power[:, :, list(self.seen)])

    def damping(self, n_rows: float) -> FloatArray:
        """Return the information (C, N) of `n_rows` transitions with observed states on the coordinates."""
        if not self.n_free():
            return np.zeros((0, len(self)))
        inverse = np.linalg.inv(self.transitions(np.ones(1))[1][0])
        information = []
        for matrix, innovation in self.slopes(np.ones(1)):
            scaled = inverse @ innovation[0]
            by_matrix = np.einsum("nij,njk,nik->n", inverse, matrix[0], matrix[0])
            information.append(n_rows * (by_matrix + 0.5 * np.einsum("nij,nji->n", scaled, scaled)))
        return np.array(information)

    def curvature(self, gradient: FloatArray) -> FloatArray:
        """Return second-derivative terms (C, N) of the coordinates, proportional to the gradient by them."""
        return np.zeros_like(gradient)

    # --------------------------------------------------------------------------------- results

    def attributes(self, loadings: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """Return fitted attributes of an estimator, one for each of `quantities`, from loadings (D, N, B)."""
        del loadings, time_unit
        return ()

    def standard_errors(self, covariances: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """Return the standard errors (N,) of each of `quantities` that has an interval scale.

        They follow from the covariances (C, C, N) of the coordinates by the delta method. These quantities
        have one number for each process, which does not depend on loadings.
        """
        found = [np.zeros(len(self)) for one in self.quantities if one.scale]
        if not found or not self.n_free():
            return tuple(found)
        free, arbitrary = self.to_free(), np.zeros((1, len(self), self.n_states))
        slopes = []
        for sides in self._sides(free):
            up, down = (self.at(free + side).attributes(arbitrary, time_unit) for side in sides)
            pairs = zip(self.quantities, up, down, strict=True)
            slopes.append([(x - y) / (2.0 * _DIFFERENCE_STEP) for one, x, y in pairs if one.scale])
        return tuple(np.sqrt(np.einsum("cqn,cdn,dqn->qn", slopes, covariances, slopes)))
