"""A whole fit: coordinates around the maximum a posteriori, draws in them, one labelling for all draws."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._interrupts import interrupts_kept
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.batches import constrain
from probsfa.bayes.coordinates.chart import choose_chart
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import in_data_units, posterior_mean
from probsfa.bayes.fitted import FittedPosterior, Inferred, Units
from probsfa.bayes.packing import LEAST_NOISE, pack, start_values
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors
from probsfa.bayes.relabelling.labelling import Labelling, merges
from probsfa.bayes.relabelling.ordering import canonical_order, relabelled, reordered
from probsfa.bayes.sampling import nuts, variational
from probsfa.bayes.sampling.laplace import LaplaceApproximation, approximate_by_laplace
from probsfa.bayes.start import maximum_likelihood_start
from probsfa.statespace.parameters import rescale

#: Opens a bar for so many iterations of a kind; it has ``update(n)``, as those of tqdm.
ProgressBar = Callable[[int, str], AbstractContextManager[Any]]


class ModelSettings(NamedTuple):
    """Settings of the model: see the parameters of :class:`probsfa.BayesianSFA`."""

    n_components: int
    noise: str | float | ArrayLike
    priors: Priors | None
    hierarchical: bool
    standardize: bool


class InferenceSettings(NamedTuple):
    """Settings of the inference: see the parameters of :class:`probsfa.BayesianSFA`."""

    method: str
    n_draws: int
    n_chains: int
    sampler: nuts.SamplerSettings
    chain_method: str
    n_steps_svi: int


class InferenceProblem(NamedTuple):
    """A posterior density, what it is conditioned on, and coordinates in which it is nearly round.

    Attributes
    ----------
    target : Target
        The posterior density.
    data : TargetData
        What it is conditioned on.
    laplace : LaplaceApproximation
        Its maximum and its curvature there.
    labelling : Labelling
        Which latent is which at the maximum.
    """

    target: Target
    data: TargetData
    laplace: LaplaceApproximation
    labelling: Labelling


@interrupts_kept()
def fit_posterior(
    sequences: Sequences,
    time_index: NDArray[Any],
    model: ModelSettings,
    inference: InferenceSettings,
    rng: np.random.Generator,
    progress: ProgressBar,
) -> FittedPosterior:
    """Draw from the posterior of the parameters.

    Parameters
    ----------
    sequences : Sequences
        Checked data.
    time_index : ndarray (T,)
        The user's own times of all rows, for ArviZ.
    model : ModelSettings
        The model.
    inference : InferenceSettings
        How to draw.
    rng : Generator
        Source of all randomness.
    progress : callable
        Opens a bar of progress.

    Returns
    -------
    FittedPosterior
        After an interrupt from the keyboard, with the draws so far.
    """
    problem, units = make_problem(sequences, model)
    infer = _run_nuts if inference.method == "nuts" else _run_svi
    inferred = infer(problem, inference, rng, progress)
    target, data, laplace, labelling = problem
    relabelling = labelling.relabel(inferred.vectors.reshape(-1, target.size))
    raw = in_data_units(constrain(target, data, inferred.vectors), units.shift, units.scale)
    draws = relabelled(raw, relabelling)
    order, signs = canonical_order(draws, units.scale)
    top = in_data_units(constrain(target, data, laplace.centre[None, None]), units.shift, units.scale)
    return FittedPosterior(
        method=inference.method,
        draws=reordered(draws, order, signs),
        raw_draws=raw,
        maximum=posterior_mean(reordered(top, order, signs)),
        relabelling=relabelling,
        inferred=inferred,
        units=units,
        target=target,
        data=data,
        sequences=sequences,
        time_index=time_index,
        seed=int(rng.integers(2**31)),
    )


def make_problem(sequences: Sequences, model: ModelSettings) -> tuple[InferenceProblem, Units]:
    """Find the maximum a posteriori, and coordinates around it.

    Parameters
    ----------
    sequences : Sequences
        Checked data.
    model : ModelSettings
        The model.

    Returns
    -------
    problem : InferenceProblem
    units : Units
        Units of the values in it.
    """
    params, units = maximum_likelihood_start(sequences, model.n_components, model.noise)
    variances = units.scale**2
    if not model.standardize:
        units = units._replace(shift=np.zeros_like(units.shift), scale=np.ones_like(units.scale))
    inner = rescale(params, -units.shift / units.scale, 1.0 / units.scale)
    series = pack(units.standardized(sequences), model.hierarchical)
    learned = isinstance(model.noise, str)
    target = Target(
        model.n_components,
        sequences.n_features,
        str(model.noise) if learned else "fixed",
        DEFAULT_PRIORS if model.priors is None else model.priors,
        len(sequences.lengths) if model.hierarchical else None,
    )
    values = start_values(inner, target)
    least = LEAST_NOISE * variances / units.scale**2
    known = None
    if not learned:
        known = np.maximum(np.asarray(model.noise, dtype=np.float64) / units.scale**2, least)
    data = TargetData(series, known, least_noise=least)
    data = data._replace(chart=choose_chart(target, values, data))
    vector = target.to_vector(values)
    laplace = approximate_by_laplace(target, data, vector)
    if merges(target, data.chart.rotation, laplace):
        data = data._replace(chart=data.chart._replace(rotation=None))
        laplace = approximate_by_laplace(target, data, vector)
    labelling = Labelling(target, laplace, data.chart.rotation)
    data = data._replace(symmetry_reference=labelling.symmetry_reference)
    return InferenceProblem(target, data, laplace, labelling), units


def _run_nuts(
    problem: InferenceProblem, settings: InferenceSettings, rng: np.random.Generator, progress: ProgressBar
) -> Inferred:
    target, data, laplace, labelling = problem
    total = (settings.sampler.n_warmup + settings.n_draws) * settings.n_chains
    with progress(total, "draws") as bar:
        chains = nuts.sample_chains(
            target,
            data,
            laplace,
            settings=settings.sampler,
            n_draws=settings.n_draws,
            n_chains=settings.n_chains,
            chain_method=settings.chain_method,
            seed=int(rng.integers(2**31)),
            fold=labelling.fold,
            report=bar.update,
        )
    if chains.vectors.shape[1]:
        return Inferred(chains.vectors, chains.stats, chains.interrupted)
    # Interrupted before the first draw: what is known by then is Laplace's approximation.
    vectors = laplace.apply(rng.standard_normal((1, settings.n_draws, target.size)))
    return Inferred(vectors, {}, chains.interrupted)


def _run_svi(
    problem: InferenceProblem, settings: InferenceSettings, rng: np.random.Generator, progress: ProgressBar
) -> Inferred:
    target, data, laplace, _ = problem
    with progress(settings.n_steps_svi, "steps") as bar:
        fitted = variational.fit_guide(
            target,
            data,
            laplace,
            n_steps=settings.n_steps_svi,
            seed=int(rng.integers(2**31)),
            report=bar.update,
        )
    drawn = variational.draw_from_guide(
        target, data, fitted.guide, laplace, settings.n_draws * settings.n_chains, rng
    )
    return Inferred(drawn.vectors[None], {}, fitted.interrupted, fitted.elbo, drawn.pareto_k)
