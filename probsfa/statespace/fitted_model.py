"""Interface of fitted models for the estimators: required and optional methods.

Subclasses of :class:`FittedModel` are the models of this package (with Gaussian noise, with Student-t noise,
without noise, without outliers, and of transformed columns), and the models of :class:`probsfa.BayesianSFA`
and :mod:`probsfa.extensions`. The public methods, in :mod:`.methods`, validate data and call the methods of a
model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from probsfa._times import TimeAxis
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.covariates import Regression
from probsfa.statespace.prediction import Forecast, Imputation
from probsfa.statespace.summary import ParameterErrors

__all__ = ["FittedModel", "bayesian_criterion", "delegated_to", "random_parts"]

Model = TypeVar("Model", bound="FittedModel")


class FittedModel:
    """A fitted model, in the units of the data.

    Data are validated sequences with times in the unit of the model. Results are arrays for all rows, one
    sequence after the other, or lists with one entry for each sequence. Most methods are documented at the
    public method of the same name in :mod:`.methods`.

    Attributes
    ----------
    unsupported_methods : mapping of str to str
        Methods that the model does not support, and the message of the ValueError that they raise.
    supports_missing : bool
        Whether values may be missing.
    factors_need_complete_rows : bool
        Whether `factor_means` requires complete rows, although other methods support missing values.
    supports_irregular_times : bool
        Whether the time between rows may differ from one unit of time.
    n_sequences : int or None
        Number of sequences that data must have; None if it is arbitrary.
    regression : Regression or None
        Coefficients of covariates; None for a model without covariates.
    time_unit : float
        Unit of time of the decays.
    time_axis : TimeAxis
        Type and unit of the times.
    """

    unsupported_methods: ClassVar[Mapping[str, str]] = {}
    supports_missing: ClassVar[bool] = True
    factors_need_complete_rows: ClassVar[bool] = False
    supports_irregular_times: ClassVar[bool] = True
    n_sequences: int | None = None
    regression: Regression | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Replace each method in `unsupported_methods` by a method that raises the error."""
        super().__init_subclass__(**kwargs)
        for name, message in vars(cls).get("unsupported_methods", {}).items():
            setattr(cls, name, _raising_method(name, message))

    @property
    def time_unit(self) -> float:
        """Unit of time of the decays: rows by default."""
        return 1.0

    @property
    def time_axis(self) -> TimeAxis:
        """Type and unit of the times: rows by default."""
        return TimeAxis()

    # Every model supports these methods. The types of results depend on the model.

    def posterior(self, sequences: Sequences) -> Any:
        """Return the distribution of the factors given all rows of each sequence."""
        raise NotImplementedError

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values, with their distributions unless `with_std` is False."""
        raise NotImplementedError

    def forecast(
        self,
        sequences: Sequences,
        steps: Sequence[FloatArray],
        future_exog: Sequence[FloatArray] | None = None,
    ) -> list[Forecast]:
        """Return the distribution at times (H,) after each sequence.

        The covariates (H, P) of each sequence are those at these times.
        """
        raise NotImplementedError

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Draw observations (n_steps, D) and factors (n_steps, K)."""
        raise NotImplementedError

    def draw_factors(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw factors (n_draws, N, K) from their joint distribution given the data."""
        raise NotImplementedError

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Return series (n_draws, N, D) with missing values drawn from their joint posterior distribution."""
        raise NotImplementedError

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood of all rows, in nats, or its lower bound."""
        raise NotImplementedError

    # Models may lack these methods: they list them in `unsupported_methods`, or their estimators list them in
    # `_unsupported`.

    def filter(self, sequences: Sequences, state: Any) -> list[Any]:
        """Return the distribution of the factors in each row of each sequence, given the rows up to it."""
        raise NotImplementedError

    def contributions(self, sequences: Sequences) -> FloatArray:
        """Return contributions (N, D, K or K + 1) of factors, and of AR(1) noise, to each value."""
        raise NotImplementedError

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> Any:
        """Return the revision of the prediction of a value from old rows to new rows."""
        raise NotImplementedError

    def diagnose(self, sequences: Sequences, block: int) -> Any:
        """Test prediction errors, also in held-out blocks of `block` rows."""
        raise NotImplementedError

    def standard_errors(self, sequences: Sequences) -> Any:
        """Return standard errors of the parameters, given the training data."""
        raise NotImplementedError

    def profile_timescale(self, sequences: Sequences, component: int, level: float) -> Any:
        """Return the profile likelihood interval of the time scale of a factor, given the training data."""
        raise NotImplementedError

    @property
    def n_parameters(self) -> int:
        """Number of free parameters."""
        raise NotImplementedError

    @property
    def n_states(self) -> int:
        """Number of columns of `transform`."""
        raise NotImplementedError

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the last columns of `transform`: the states of stochastic cycles and smooth factors."""
        return ()

    @property
    def stationary_states(self) -> BoolArray:
        """Mask of the states that have a stationary variance, so that their loadings are in data units."""
        return np.ones(1, dtype=bool)

    # Methods with a default implementation.

    def maximum_log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood for BIC, at a point estimate of the parameters."""
        return self.log_likelihood(sequences)

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Return posterior means of the factors (N, K) given all rows of each sequence."""
        means: FloatArray = self.posterior(sequences).means
        return means

    def factor_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and standard deviations (N, K), with parameter uncertainty if supported."""
        posterior = self.posterior(sequences)
        return posterior.means, posterior.std

    def posteriors(self, sequences: Sequences) -> list[Any]:
        """Return the distribution of the factors of each sequence."""
        posteriors: list[Any] = self.posterior(sequences).split(sequences.slices)
        return posteriors

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return absolute standardized errors (N, D) of observed values.

        The values are predicted in ten random parts, each given the other parts.
        """
        scores = np.full_like(sequences.values, np.nan)
        for hidden, remaining in random_parts(sequences):
            filled = self.impute(remaining)
            assert filled.std is not None
            with np.errstate(divide="ignore", invalid="ignore"):
                errors = np.abs(sequences.values - filled.values) / filled.std
            scores[hidden] = errors[hidden]
        return scores

    def parameter_errors(self, sequences: Sequences | None, level: float) -> dict[str, ParameterErrors]:
        """Return standard errors and intervals of parameters, by the name of the fitted attribute.

        Models that compute them from the training data return an empty dictionary if `sequences` is None.
        """
        return {}

    def arrays_to_save(self) -> Mapping[str, NDArray[Any]]:
        """Return arrays that a file contains in addition to the parameters."""
        return {}


# Number of parts of the observed values for outlier scores; each part is predicted from the other parts.
_N_PARTS = 10


def random_parts(sequences: Sequences) -> list[tuple[NDArray[np.bool_], Sequences]]:
    """Split the observed values into disjoint random parts.

    Returns
    -------
    list of tuple
        For each part, a mask (N, D) of its values, and the rows in which they are missing.
    """
    rows, columns = np.nonzero(sequences.mask)
    order = np.random.default_rng(0).permutation(len(rows))  # the same parts in each call
    parts = []
    for part in np.array_split(order, min(_N_PARTS, len(order)) or 1):
        hidden = np.zeros(sequences.values.shape, dtype=bool)
        hidden[rows[part], columns[part]] = True
        parts.append((hidden, replace(sequences, values=np.where(hidden, np.nan, sequences.values))))
    return parts


def delegated_to(
    get_model: Callable[[Any], Any], get_rows: Callable[[Any, Sequences], Sequences], *names: str
) -> Callable[[type[Model]], type[Model]]:
    """Return a class decorator that adds methods which call the methods of another model.

    Parameters
    ----------
    get_model : callable
        Returns the other model, given an instance of the class.
    get_rows : callable
        Returns the rows for the other model, given the instance and the rows of the data.
    *names : str
        Names of the methods. Their first argument is the rows, and their results do not depend on data units.
    """

    def decorate(cls: type[Model]) -> type[Model]:
        for name in names:
            setattr(cls, name, _delegating_method(name, get_model, get_rows))
        return cls

    return decorate


def _delegating_method(
    name: str, get_model: Callable[[Any], Any], get_rows: Callable[[Any, Sequences], Sequences]
) -> Callable[..., Any]:
    def delegate(self: Any, sequences: Sequences, *args: Any, **kwargs: Any) -> Any:
        return getattr(get_model(self), name)(get_rows(self, sequences), *args, **kwargs)

    delegate.__name__ = name
    delegate.__doc__ = getattr(FittedModel, name, FittedModel).__doc__
    return delegate


def _raising_method(name: str, message: str) -> Callable[..., NoReturn]:
    def raise_error(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(message)

    raise_error.__name__, raise_error.__doc__ = name, f"Raise a ValueError: {message}"
    return raise_error


def bayesian_criterion(log_likelihood: float, n_parameters: int, n_rows: int, *, share: float = 1.0) -> float:
    """Return the Bayesian information criterion; smaller is better (Schwarz 1978).

    The criterion is ``P log N - 2 log L``, where ``N`` is the number of rows with an observed value. Rows are
    counted instead of values, because the values of one row are correlated.

    Parameters
    ----------
    log_likelihood : float
        Log-likelihood of the data in data units, in nats.
    n_parameters : int
        Number of free parameters, ``P``.
    n_rows : int
        Number of rows in which any value is observed, ``N``.
    share : float, default=1.0
        Share of these rows that the log-likelihood includes. It is extrapolated to all rows, so that models
        fitted to parts of the rows can be compared.

    Returns
    -------
    float

    References
    ----------
    Schwarz (1978), Annals of Statistics 6:461, doi:10.1214/aos/1176344136.
    """
    return float(n_parameters * np.log(n_rows) - 2.0 * log_likelihood / share)
