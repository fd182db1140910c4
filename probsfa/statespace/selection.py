"""Selection of the number of factors by held-out values.

Single values and blocks of rows are hidden, each candidate is fitted to the remaining values, and its
predictions of the hidden values are compared (:mod:`.held_out_values`). The comparison measures the accuracy
and calibration of `impute`, while the likelihood of the training data increases with every factor.

Candidates are fitted in ascending order; each fit starts from the previous one (:mod:`.growth`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._random import generator
from probsfa._typing import BoolArray, FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.datasets import hide_blocks, hide_cells
from probsfa.statespace.engine.posterior import observation_moments, smooth
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.fitted_model import bayesian_criterion
from probsfa.statespace.growth import enlarged
from probsfa.statespace.held_out_values import contenders, crps, standard_errors, units_of, weigh
from probsfa.statespace.learning.maximum_likelihood import (
    FitProblem,
    InMemory,
    check_lengths_for_timescales,
    make_problem,
    maximise,
)
from probsfa.statespace.learning.objective import FitResult
from probsfa.statespace.learning.options import FitOptions, ProcessOptions
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Selection(NamedTuple):
    """Held-out scores of numbers of factors, and the selected number.

    Errors and CRPS are in units of each column's standard deviation; "cells" are hidden single values,
    "blocks" hidden blocks of rows.

    Attributes
    ----------
    n_components : int
        Selected number of factors.
    candidates : ndarray of int of shape (M,)
        Numbers of factors, ascending.
    rmse_cells, rmse_blocks : ndarray of shape (M,)
        Root mean square errors.
    log_density_cells, log_density_blocks : ndarray of shape (M,)
        Mean log densities of hidden values, in nats per value.
    log_density : ndarray of shape (M,)
        The same over all hidden values.
    standard_error : ndarray of shape (M,)
        Standard error of the difference between `log_density` and that of the best candidate; zero for the
        best.
    n_evaluations : ndarray of int of shape (M,)
        Number of likelihood evaluations of each fit.
    converged : ndarray of bool of shape (M,)
        Whether each fit converged.
    rule : str
        Argument `rule` of the call.
    score : ndarray of shape (M,)
        Mean continuous ranked probability scores of hidden values, smaller is better; used with `bic` by the
        rule "evidence".
    score_error : ndarray of shape (M,)
        Standard error of the difference between `score` and that of the best candidate; zero for the best.
    bic : ndarray of shape (M,)
        Bayesian information criteria of the values that were not hidden, smaller is better.
    """

    n_components: int
    candidates: NDArray[np.int64]
    rmse_cells: FloatArray
    rmse_blocks: FloatArray
    log_density_cells: FloatArray
    log_density_blocks: FloatArray
    log_density: FloatArray
    standard_error: FloatArray
    n_evaluations: NDArray[np.int64]
    converged: BoolArray
    rule: str
    score: FloatArray
    score_error: FloatArray
    bic: FloatArray

    def plot(self, *, axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
        """Draw held-out scores and errors by number of factors, and the selected number.

        Parameters
        ----------
        axes : sequence of 2 matplotlib Axes, optional
            Axes for log densities and errors; a new figure by default.

        Returns
        -------
        list of matplotlib Axes
        """
        from probsfa.plots.series import plot_selection  # loads Matplotlib

        return plot_selection(self, axes=axes)


def select_n_components(
    X: Any,
    candidates: Iterable[int],
    *,
    fraction: float = 0.1,
    block: int = 24,
    rule: str = "evidence",
    rhythms: int | Sequence[Any] = 0,
    smooth: int | Sequence[Any] = 0,
    noise: str | float = "diagonal",
    max_iter: int = 200,
    tol: float = 1.0,
    lengths: Any = None,
    times: Any = None,
    random_state: Seed = None,
) -> Selection:
    """Select the number of factors of :class:`ProbabilisticSFA` by held-out values.

    Parameters
    ----------
    X : array-like (T, D), or list of array-likes (T_i, D)
        Rows in order of time, NaN where missing.
    candidates : iterable of int
        Numbers of factors to compare, in any order.
    fraction : float, default=0.1
        Share of the observed values that are held out: half as single values, half in blocks. Columns that
        would keep fewer than two values are not used.
    block : int, default=24
        Number of rows of a hidden block; at most a tenth of all rows.
    rule : {"evidence", "two_standard_errors", "best"}, default="evidence"
        ``"evidence"``: the smallest BIC among the numbers whose continuous ranked probability score of
        held-out values is within 2.5 standard errors of the best, or within 1 %. Standard errors are those of
        the difference of scores of two models for the same values. ``"two_standard_errors"``: the smallest
        number whose held-out log density is within two standard errors of the best; outliers can dominate it,
        and the number is then too small. ``"best"``: the highest held-out log density.
    rhythms, smooth : int or list, default=0
        As in `ProbabilisticSFA`, combined with each number of factors.
    noise : {"diagonal", "isotropic", "ar1"} or float, default="diagonal"
        As in `ProbabilisticSFA`; not 0.0.
    max_iter : int, default=200
        Maximum number of likelihood evaluations of each fit.
    tol : float, default=1.0
        As in `ProbabilisticSFA`; larger, because small gains in likelihood hardly change predictions.
    lengths, times : optional
        As in `ProbabilisticSFA.fit`.
    random_state : int, Generator, RandomState or None, default=None
        Random numbers that select the held-out values.

    Returns
    -------
    Selection
        Scores and the selected number; its method `plot` draws them.

    Raises
    ------
    ValueError
        If the data or a parameter is not valid, or no value can be held out.

    See Also
    --------
    select_model : Select cycles, smooth factors and noise too.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, section 7.10
    (one-standard-error rule).

    Examples
    --------
    >>> from probsfa import ProbabilisticSFA, select_n_components
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(400, 6, decay=[0.98, 0.7], noise_variance=0.2, random_state=0).data
    >>> selection = select_n_components(X, [1, 2, 3], random_state=0)
    >>> selection.n_components
    2
    >>> model = ProbabilisticSFA(selection.n_components).fit(X)
    """
    check_option("rule", rule, ("evidence", "two_standard_errors", "best"))
    ordered = _check_candidates(candidates)
    options = FitOptions(int(ordered[0]), noise=noise, max_iter=max_iter, tol=tol)
    options = replace(options, processes=ProcessOptions(rhythms=rhythms, smooth=smooth)).check()
    if options.noise_free:
        raise ValueError("noise must be positive: held-out values cannot be predicted without noise.")
    check_count("block", block)
    sequences = check_sequences(
        ProbabilisticSFA(),
        X,
        reset=True,
        allow_nan=True,
        lengths=lengths,
        times=times,
        min_rows=2,
        index="use",
    )
    check_lengths_for_timescales(sequences.lengths)
    options = options.with_times(sequences.axis)
    cells, blocks, groups = _hide(sequences.values, block, fraction, generator(random_state))
    observed = np.where(cells | blocks, np.nan, sequences.values)
    problem = make_problem(InMemory(replace(sequences, values=observed)), options)
    panel, learned = problem.observations.panel, problem.learned_noise
    truth = (sequences.values - problem.shift) / problem.scale

    problems = [problem._replace(options=replace(options, n_components=int(k))) for k in ordered]
    fits: list[FitResult] = []
    scores = []
    for with_k in problems:
        requested = with_k.options.latents
        start = None if not fits else enlarged(fits[-1].params, panel, requested, learned)
        fits.append(maximise(with_k, start=start))
        scores.append(_score(fits[-1].params, panel, truth, cells | blocks))
    errors, variances = (np.array(part) for part in zip(*scores, strict=True))
    hidden = cells | blocks
    spread = np.broadcast_to(units_of(truth), truth.shape)[hidden]
    ranked = crps(errors / spread, np.sqrt(variances) / spread)
    units = np.broadcast_to(np.nanstd(truth, axis=0), truth.shape)[hidden]
    units = np.where(units > 0.0, units, 1.0)
    densities = np.log(units) - 0.5 * (np.log(2.0 * np.pi * variances) + errors**2 / variances)
    errors = errors / units
    selected, standard_error = _choose(densities, groups[hidden], rule)
    likelihoods = np.array([each.log_likelihood for each in fits])
    bic = _criteria(sequences, problems, likelihoods - problem.log_volume)
    evidence = weigh(ranked, groups[hidden], bic)
    if rule == "evidence":
        selected = evidence.chosen
        close = contenders(evidence, bic)
        if len(close) > 1:
            again = _likelihoods_of_all_cells(sequences, problems, fits, close)
            criteria = _criteria(sequences, [problems[j] for j in close], again)
            selected = int(close[np.argmin(criteria)])
    single = cells[hidden]
    return Selection(
        n_components=int(ordered[selected]),
        candidates=ordered,
        rmse_cells=_mean(errors**2, single) ** 0.5,
        rmse_blocks=_mean(errors**2, ~single) ** 0.5,
        log_density_cells=_mean(densities, single),
        log_density_blocks=_mean(densities, ~single),
        log_density=densities.mean(axis=1),
        standard_error=standard_error,
        n_evaluations=np.array([each.n_evaluations for each in fits]),
        converged=np.array([each.converged for each in fits]),
        rule=rule,
        score=ranked.mean(axis=1),
        score_error=evidence.standard_error,
        bic=bic,
    )


def _criteria(sequences: Sequences, problems: list[FitProblem], log_likelihoods: FloatArray) -> FloatArray:
    """Return the Bayesian information criteria of fits."""
    n_rows = int(np.count_nonzero(sequences.mask.any(axis=1)))
    pairs = zip(problems, log_likelihoods, strict=True)
    return np.array([bayesian_criterion(value, each.layout.n_free, n_rows) for each, value in pairs])


def _likelihoods_of_all_cells(
    sequences: Sequences, problems: list[FitProblem], fits: list[FitResult], which: NDArray[np.intp]
) -> FloatArray:
    """Fit some candidates to all values from their previous fits; return log-likelihoods."""
    full = InMemory(sequences).standardised(problems[0].shift, problems[0].scale)
    again = [maximise(problems[j]._replace(observations=full), start=fits[j].params) for j in which]
    return np.array([result.log_likelihood for result in again])


def _check_candidates(candidates: Iterable[int]) -> NDArray[np.int64]:
    listing = list(candidates)
    if not listing:
        raise ValueError("candidates must contain at least one number of factors, got none.")
    for each in listing:
        check_count("candidates", each)
    return np.unique(np.array(listing, dtype=np.int64))


def _hide(
    values: FloatArray, block: int, fraction: float, rng: np.random.Generator
) -> tuple[BoolArray, BoolArray, NDArray[np.int64]]:
    """Return single hidden values, values hidden in blocks, and group numbers shared within a block."""
    length = max(1, min(block, len(values) // 10))
    blocks = hide_blocks(values, length, 0.5 * fraction, random_state=rng)
    cell_share = 0.5 * fraction / (1.0 - 0.5 * fraction)
    cells = hide_cells(np.where(blocks, np.nan, values), cell_share, random_state=rng)
    has_too_few = np.count_nonzero(~np.isnan(values) & ~blocks & ~cells, axis=0) < 2
    blocks[:, has_too_few], cells[:, has_too_few] = False, False
    if not blocks.any() or not cells.any():
        raise ValueError(
            f"X has too few observed values to hide a fraction of {fraction:g} of them; raise it."
        )
    rows = np.arange(len(values))[:, None] // length + np.zeros_like(blocks, dtype=np.int64)
    features = np.arange(values.shape[1])
    by_block = rows * len(features) + features
    own = by_block.max() + 1 + np.arange(values.size).reshape(values.shape)
    return cells, blocks, np.where(blocks, by_block, own)


def _score(
    params: StateSpace, panel: Panel, truth: FloatArray, hidden: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return errors and predicted variances of hidden values, in the order of ``truth[hidden]``."""
    posterior = smooth(params, panel)
    means, variances = observation_moments(params.state_space, posterior.means, posterior.covariances)
    return (means - truth)[hidden], variances[hidden]


def _mean(values: FloatArray, where: BoolArray) -> FloatArray:
    return np.asarray(values[:, where].mean(axis=1))


def _choose(densities: FloatArray, groups: NDArray[np.int64], rule: str) -> tuple[int, FloatArray]:
    """Return the index selected by log densities, and standard errors of the differences from the best."""
    means = densities.mean(axis=1)
    best = int(np.argmax(means))
    loss = densities[best] - densities
    error = standard_errors(loss, groups)
    is_close = np.flatnonzero(means[best] - means <= 2.0 * error)
    return (best if rule == "best" else int(is_close[0])), error
