"""Interface of fitted models for the estimators: required and optional methods.

:class:`FittedModel` is the base of the four models of this package (with Gaussian noise, with Student-t
noise, without noise, and of transformed columns) and of the models of :class:`probsfa.BayesianSFA` and of
:mod:`probsfa.extensions`. The public methods, in :mod:`.methods`, validate data and call these.
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

__all__ = ["bayesian_criterion", "FittedModel", "computed_by", "parts_without"]

Model = TypeVar("Model", bound="FittedModel")


class FittedModel:
    """A fitted model, in the units of the data.

    Data are validated sequences with times in the unit of the model. Results are for all their rows, one
    sequence after the other, unless they are lists with one entry for each sequence. Results of most methods
    are documented at the method of the same name in :mod:`.methods`.

    Attributes
    ----------
    refusals : mapping of str to str
        Methods that the model does not support, and the message of the ValueError that they raise.
    takes_missing : bool
        Whether values may be missing.
    factors_of_complete_rows : bool
        Whether means of the factors alone need complete rows.
    takes_uneven : bool
        Whether rows may be more or less than one unit of time apart.
    n_sequences : int or None
        Number of sequences of all data; None if it is arbitrary.
    regression : Regression or None
        Coefficients of covariates; None for a model without covariates.
    time_unit : float
        Unit of time of the decays.
    time_axis : TimeAxis
        Type and unit of the times.
    """

    refusals: ClassVar[Mapping[str, str]] = {}
    takes_missing: ClassVar[bool] = True
    factors_of_complete_rows: ClassVar[bool] = False
    takes_uneven: ClassVar[bool] = True
    n_sequences: int | None = None
    regression: Regression | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Replace each method in `refusals` by one that raises the error."""
        super().__init_subclass__(**kwargs)
        for name, message in vars(cls).get("refusals", {}).items():
            setattr(cls, name, _refusing(name, message))

    @property
    def time_unit(self) -> float:
        """Unit of time of the decays: rows by default."""
        return 1.0

    @property
    def time_axis(self) -> TimeAxis:
        """Type and unit of the times: rows by default."""
        return TimeAxis()

    # Every model has these methods; types of results depend on the model.

    def posterior(self, sequences: Sequences) -> Any:
        """Return the distribution of the factors given all rows of each sequence."""
        raise NotImplementedError

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values; return their distributions, too, unless only means are needed."""
        raise NotImplementedError

    def forecast(
        self, sequences: Sequences, steps: Sequence[FloatArray], ahead: Sequence[FloatArray] | None = None
    ) -> list[Forecast]:
        """Return the distribution at times (H,) after each sequence, given its covariates (H, P)."""
        raise NotImplementedError

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Draw observations (n_steps, D), and factors."""
        raise NotImplementedError

    def draw_latents(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw factors (n_draws, N, K) from their joint distribution given the data."""
        raise NotImplementedError

    def draw_cells(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Return series (n_draws, N, D) with missing values drawn from their joint posterior distribution."""
        raise NotImplementedError

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood of all rows, in nats, or its lower bound."""
        raise NotImplementedError

    # Models that do not support one of these list it in `refusals`, or their estimator does not have the
    # method.

    def filter(self, sequences: Sequences, state: Any) -> list[Any]:
        """Return the distribution of the factors of each sequence given the rows so far."""
        raise NotImplementedError

    def contributions(self, sequences: Sequences) -> FloatArray:
        """Return contributions of each factor to each value (N, D, K); those of AR(1) noise are last."""
        raise NotImplementedError

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> Any:
        """Return the revision of the prediction of a value from old rows to new ones."""
        raise NotImplementedError

    def diagnose(self, sequences: Sequences, block: int) -> Any:
        """Test prediction errors, also in hidden blocks of `block` rows."""
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
        """States whose loadings are parameters in units of the data; one for all, or one for each."""
        return np.ones(1, dtype=bool)

    # Methods with a default implementation.

    def maximum_log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood at one set of parameters, for criteria such as BIC."""
        return self.log_likelihood(sequences)

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Return posterior means of the factors (N, K) given all rows of each sequence."""
        means: FloatArray = self.posterior(sequences).means
        return means

    def factor_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and standard deviations (N, K) that include estimated parameters."""
        full = self.posterior(sequences)
        return full.means, full.std

    def posteriors(self, sequences: Sequences) -> list[Any]:
        """Return the distribution of the factors of each sequence."""
        parts: list[Any] = self.posterior(sequences).split(sequences.slices)
        return parts

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return standardized errors (N, D) of observed values; a random tenth is left out at a time."""
        scores = np.full_like(sequences.values, np.nan)
        for hidden, rest in parts_without(sequences):
            filled = self.impute(rest)
            assert filled.std is not None
            with np.errstate(divide="ignore", invalid="ignore"):
                errors = np.abs(sequences.values - filled.values) / filled.std
            scores[hidden] = errors[hidden]
        return scores

    def parameter_errors(self, sequences: Sequences | None, level: float) -> dict[str, ParameterErrors]:
        """Return standard errors and intervals of parameters by fitted attribute, given the training data."""
        return {}

    def arrays_to_save(self) -> Mapping[str, NDArray[Any]]:
        """Return arrays that a file contains in addition to the parameters."""
        return {}


def parts_without(sequences: Sequences) -> list[tuple[NDArray[np.bool_], Sequences]]:
    """Return disjoint random parts of the observed values, each with the rows from which it is removed."""
    rows, columns = np.nonzero(sequences.mask)
    order = np.random.default_rng(0).permutation(len(rows))  # the same at each call
    found = []
    # Number of random parts of the observed values for scores; each part is predicted from the others.
    for part in np.array_split(order, min(10, len(order)) or 1):
        hidden = np.zeros(sequences.values.shape, dtype=bool)
        hidden[rows[part], columns[part]] = True
        found.append((hidden, replace(sequences, values=np.where(hidden, np.nan, sequences.values))))
    return found


def computed_by(
    other: Callable[[Any], Any], rows: Callable[[Any, Sequences], Sequences], *names: str
) -> Callable[[type[Model]], type[Model]]:
    """Return a class decorator: another model computes the methods with these names, from changed rows.

    Parameters
    ----------
    other : callable
        Returns the other model of a model.
    rows : callable
        Returns the rows for the other model, from those of the data.
    *names : str
        Names of methods whose first argument are rows, and whose results are not in units of the data.
    """

    def decorate(cls: type[Model]) -> type[Model]:
        for name in names:
            setattr(cls, name, _passing_on(name, other, rows))
        return cls

    return decorate


def _passing_on(
    name: str, other: Callable[[Any], Any], rows: Callable[[Any, Sequences], Sequences]
) -> Callable[..., Any]:
    def pass_on(self: Any, sequences: Sequences, *args: Any, **kwargs: Any) -> Any:
        return getattr(other(self), name)(rows(self, sequences), *args, **kwargs)

    pass_on.__name__ = name
    pass_on.__doc__ = getattr(FittedModel, name, FittedModel).__doc__
    return pass_on


def _refusing(name: str, message: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(message)

    refuse.__name__, refuse.__doc__ = name, f"Raise a ValueError: {message}"
    return refuse


def bayesian_criterion(log_likelihood: float, n_parameters: int, n_rows: int, *, share: float = 1.0) -> float:
    """Return the Bayesian information criterion; smaller is better (Schwarz 1978).

    ``P log N - 2 log L``, with ``N`` rows in which any value is observed. Rows are counted instead of values,
    because values of one row are correlated, while different rows are nearly independent.

    Parameters
    ----------
    log_likelihood : float
        Log-likelihood in nats, of the data in their own units.
    n_parameters : int
        Number of free parameters, ``P``.
    n_rows : int
        Number of rows in which any value is observed, ``N``.
    share : float, default=1.0
        Share of these rows in the likelihood. The log-likelihood is extrapolated to all rows, so that models
        fitted to parts of the rows can be compared.

    Returns
    -------
    float

    References
    ----------
    Schwarz (1978), Annals of Statistics 6:461, doi:10.1214/aos/1176344136.
    """
    return float(n_parameters * np.log(n_rows) - 2.0 * log_likelihood / share)
