"""A complete fit: coordinates around the maximum a posteriori, sampling, and relabelling."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from probsfa._threads import lost_interrupts_raised
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.convergence import convergence_diagnostics, have_converged
from probsfa.bayes.coordinates.batches import constrain
from probsfa.bayes.coordinates.chart import choose_chart
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import Draws, StructuralDraws, posterior_mean
from probsfa.bayes.fitted import FittedPosterior, InferenceResult, Units
from probsfa.bayes.kinds import Kinds
from probsfa.bayes.modes import Modes, find_modes, find_modes_of_cycles
from probsfa.bayes.packing import MIN_NOISE, pack, start_values
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors
from probsfa.bayes.relabelling.labelling import Labelling, references_of_modes, reliable_frame
from probsfa.bayes.relabelling.matching import Relabelling, relabel
from probsfa.bayes.relabelling.ordering import aligned_with, canonical_order, relabelled, reordered
from probsfa.bayes.sampling import nuts, variational
from probsfa.bayes.sampling.gibbs import RobustProblem, sample_by_gibbs
from probsfa.bayes.sampling.laplace import LaplaceApproximation, approximate_by_laplace
from probsfa.bayes.start import Start, maximum_likelihood_start
from probsfa.statespace.learning.options import FitOptions, ProcessOptions
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace, rescale

#: Returns a progress bar as a context manager, from the number of iterations and the name of their unit. The
#: bar has the method ``update(n)``, as in tqdm.
ProgressBar = Callable[[int, str], AbstractContextManager[Any]]


class ModelSettings(NamedTuple):
    """Settings of the model: see the parameters of :class:`probsfa.BayesianSFA`."""

    n_components: int
    noise: str | float | ArrayLike
    priors: Priors | None
    hierarchical: bool
    standardize: bool
    robust: bool = False
    rhythms: int = 0
    smooth: int = 0
    smoothness: float = 1.5
    trend: int | str = 0

    @property
    def kinds(self) -> Kinds | None:
        """Processes other than AR(1) factors, including AR(1) noise; None if the model has no others."""
        ar_noise = isinstance(self.noise, str) and self.noise == "ar1"
        options = FitOptions(0, processes=ProcessOptions.of(self))
        return Kinds(options.state_layout, ar_noise) if options.n_other_processes or ar_noise else None


class InferenceSettings(NamedTuple):
    """Settings of the inference: see the parameters of :class:`probsfa.BayesianSFA`."""

    method: str
    n_draws: int
    max_draws: int
    n_chains: int
    sampler: nuts.SamplerSettings
    chain_method: str
    n_steps_svi: int


class InferenceProblem(NamedTuple):
    """A posterior density, its data, and coordinates in which it is nearly standard normal.

    Attributes
    ----------
    target : Target
        The posterior density.
    data : TargetData
        Data of the posterior density.
    laplace : LaplaceApproximation
        Maximum of the density, and its curvature there, which define the coordinates.
    labelling : Labelling
        Labels of the factors at the maximum.
    modes : list of LaplaceApproximation
        Known modes of the density; the first is `laplace`.
    """

    target: Target
    data: TargetData
    laplace: LaplaceApproximation
    labelling: Labelling
    modes: list[LaplaceApproximation]


@lost_interrupts_raised()
def fit_posterior(
    sequences: Sequences,
    time_index: NDArray[Any],
    model: ModelSettings,
    inference: InferenceSettings,
    rng: np.random.Generator,
    progress: ProgressBar,
    exog_names: tuple[str, ...] = (),
) -> FittedPosterior:
    """Draw from the posterior of the parameters.

    Parameters
    ----------
    sequences : Sequences
        Checked data, with covariates if the model has any.
    time_index : ndarray (T,)
        Times of all rows in the user's format, for ArviZ.
    model : ModelSettings
        The model.
    inference : InferenceSettings
        Settings of the inference.
    rng : Generator
        Generator of all random numbers.
    progress : callable
        Returns a progress bar, see `ProgressBar`.
    exog_names : tuple of str
        Names of the covariates.

    Returns
    -------
    FittedPosterior
        After a keyboard interrupt, the draws so far.
    """
    if model.robust:
        return _fit_robust(sequences, time_index, model, inference, rng, progress)
    problem, units = make_problem(sequences, model)
    infer = _run_nuts if inference.method == "nuts" else _run_svi
    inferred, relabelling, centre = infer(problem, inference, rng, progress)
    target, data = problem.target, problem.data
    draws_in_data_units = units.in_data_units(constrain(target, data, inferred.vectors))
    mode_in_data_units = units.in_data_units(constrain(target, data, centre[None, None]))
    draws = relabelled(draws_in_data_units, relabelling)
    if isinstance(draws, StructuralDraws):
        draws = aligned_with(draws, mode_in_data_units.loadings[0, 0])
    order, signs = canonical_order(draws, units.scale)
    return FittedPosterior(
        method=inference.method,
        draws=reordered(draws, order, signs),
        raw_draws=draws_in_data_units,
        maximum=posterior_mean(reordered(mode_in_data_units, order, signs)),
        relabelling=relabelling,
        inferred=inferred,
        units=units,
        target=target,
        data=data,
        sequences=sequences,
        time_index=time_index,
        seed=int(rng.integers(2**31)),
        exog_names=exog_names,
    )


def _fit_robust(
    sequences: Sequences,
    time_index: NDArray[Any],
    model: ModelSettings,
    inference: InferenceSettings,
    rng: np.random.Generator,
    progress: ProgressBar,
) -> FittedPosterior:
    """Sample a model with Student-t noise by Gibbs sampling.

    Draws are relabelled to match the start, the maximum of a lower bound of the likelihood.
    """
    start, units, scaled_params, scaled_sequences, target, site_values = _prepare(sequences, model)
    series, panel = pack(scaled_sequences, False), make_panel(scaled_sequences)
    chain_start = scaled_params.replace(
        decay=np.exp(-1.0 / np.asarray(site_values["timescale"])),
        noise_variance=np.maximum(scaled_params.noise_variance, MIN_NOISE),
    )
    problem = RobustProblem(panel, target.priors, target.noise, chain_start, start.degrees)
    total = (inference.sampler.n_warmup + inference.n_draws) * inference.n_chains
    with progress(total, "draws") as bar:
        chains = sample_by_gibbs(
            problem,
            n_warmup=inference.sampler.n_warmup,
            n_draws=inference.n_draws,
            n_chains=inference.n_chains,
            rng=rng,
            report=bar.update,
        )
    draw_shape = chains.degrees.shape
    scaled_draws = Draws(chains.decay, chains.loadings, chains.noise_variance, chains.offset)
    draws_in_data_units = units.in_data_units(scaled_draws)
    # In units of the innovations, loadings and time scales are nearly independent a posteriori.
    innovation_loadings = scaled_draws.loadings * np.sqrt(1.0 - scaled_draws.decay[..., None, :] ** 2)
    # In double precision a decay may round to zero or one.
    decays = np.clip(scaled_draws.decay, np.finfo(np.float64).tiny, 1.0 - np.finfo(np.float64).epsneg)
    log_timescales = np.log(-1.0 / np.log(decays))
    k = model.n_components
    relabelling = relabel(
        log_timescales.reshape(-1, k),
        innovation_loadings.reshape(-1, sequences.n_features, k),
        np.log(np.asarray(site_values["timescale"])),
        chain_start.loadings * np.sqrt(1.0 - chain_start.decay**2),
    )
    draws = relabelled(draws_in_data_units, relabelling)
    order, signs = canonical_order(draws, units.scale)
    start_arrays = (
        start.params.decay,
        start.params.loadings,
        start.params.noise_variance,
        start.params.offset,
    )
    mode_in_data_units = Draws(*(part[None, None] for part in start_arrays))
    return FittedPosterior(
        method=inference.method,
        draws=reordered(draws, order, signs),
        raw_draws=draws_in_data_units,
        maximum=posterior_mean(reordered(mode_in_data_units, order, signs)),
        relabelling=relabelling,
        inferred=InferenceResult(
            np.zeros((*draw_shape, 0)), {"log_density_given_latents": chains.log_density}, chains.interrupted
        ),
        units=units,
        target=target,
        data=TargetData(series, None if target.noise.n_free else chain_start.noise_variance),
        sequences=sequences,
        time_index=time_index,
        seed=int(rng.integers(2**31)),
        degrees=chains.degrees,
    )


class _Prepared(NamedTuple):
    """The maximum of the likelihood, and the posterior density in units of the model.

    Attributes
    ----------
    start : Start
        The maximum in data units.
    units : Units
        Units of the model.
    scaled_params : StateSpace
        The maximum in units of the model.
    scaled_sequences : Sequences
        The data in units of the model.
    target : Target
        The posterior density.
    site_values : dict
        Values of the sites of the model at the maximum.
    """

    start: Start
    units: Units
    scaled_params: StateSpace
    scaled_sequences: Sequences
    target: Target
    site_values: dict[str, Any]


def _prepare(sequences: Sequences, model: ModelSettings) -> _Prepared:
    """Maximize the likelihood, and set up the model in the units of its priors."""
    start = maximum_likelihood_start(
        sequences,
        model.n_components,
        model.noise,
        robust=model.robust,
        processes=ProcessOptions.of(model),
    )
    units = start.units
    if not model.standardize:
        units = Units(
            np.zeros_like(units.shift),
            np.ones_like(units.scale),
            units.time_unit,
            np.zeros_like(units.exog_shift),
            np.ones_like(units.exog_scale),
        )
    scaled_params = rescale(start.params, -units.shift / units.scale, 1.0 / units.scale)
    target = Target(
        model.n_components,
        NoiseVariances.of_option(model.noise, sequences.n_features),
        DEFAULT_PRIORS if model.priors is None else model.priors,
        len(sequences.lengths) if model.hierarchical else None,
        model.kinds,
        units.exog_scale.size,
    )
    site_values = start_values(scaled_params, target)
    if start.coefficients is not None:
        site_values["exog_coef"] = start.coefficients * units.exog_scale / units.scale[:, None]
        site_values["offset"] = scaled_params.offset + start.coefficients @ units.exog_shift / units.scale
    return _Prepared(start, units, scaled_params, units.standardized(sequences), target, site_values)


def make_problem(
    sequences: Sequences, model: ModelSettings, *, rotate: bool = True
) -> tuple[InferenceProblem, Units]:
    """Find the maximum a posteriori and coordinates around it.

    Parameters
    ----------
    sequences : Sequences
        Checked data.
    model : ModelSettings
        The model.
    rotate : bool, default=True
        Whether rotations of the factors may be coordinates. The density must then be invariant under
        permutations and sign changes of the factors.

    Returns
    -------
    problem : InferenceProblem
    units : Units
        Units of the model.
    """
    start, units, _, scaled_sequences, target, site_values = _prepare(sequences, model)
    series = pack(scaled_sequences, model.hierarchical)
    min_noise = MIN_NOISE * start.units.scale**2 / units.scale**2
    known_noise = None
    if not isinstance(model.noise, str):
        known_noise = np.maximum(np.asarray(model.noise, dtype=np.float64) / units.scale**2, min_noise)
    phases = site_values["cycle_loadings"] if model.rhythms else None
    data = TargetData(series, known_noise, min_noise_variance=min_noise, phase_reference=phases)
    chart = choose_chart(target, site_values, data)
    data = data._replace(chart=chart if rotate else chart._replace(rotation=None))
    vector = target.to_vector(site_values)
    laplace = approximate_by_laplace(target, data, vector)
    # Posterior standard deviations depend on the frame. Therefore the frame is tested again after each
    # removal of factors.
    while (frame := reliable_frame(target, data.chart.rotation, laplace)) is not data.chart.rotation:
        data = data._replace(chart=data.chart._replace(rotation=frame))
        laplace = approximate_by_laplace(target, data, vector)
    labelling = Labelling(target, laplace, data.chart.rotation)
    modes = [laplace]
    if model.rhythms:
        modes, data = find_modes_of_cycles(target, data, laplace, labelling)
        labelling = Labelling(target, modes[0], data.chart.rotation)
    data = data._replace(symmetry_reference=labelling.symmetry_reference)
    return InferenceProblem(target, data, modes[0], labelling, modes), units


class _Outcome(NamedTuple):
    """Draws, their relabelling, and the mode reported as the maximum a posteriori, as a vector (P,)."""

    inferred: InferenceResult
    relabelling: Relabelling
    centre: FloatArray


def _run_nuts(
    problem: InferenceProblem, settings: InferenceSettings, rng: np.random.Generator, progress: ProgressBar
) -> _Outcome:
    target, data, laplace, labelling, modes = problem
    total = (settings.sampler.n_warmup + settings.n_draws) * settings.n_chains
    with progress(total, "draws") as bar:
        chains = nuts.sample_chains(
            target,
            data,
            modes,
            settings=settings.sampler,
            n_draws=settings.n_draws,
            n_chains=settings.n_chains,
            chain_method=settings.chain_method,
            seed=int(rng.integers(2**31)),
            fold=labelling.fold,
            report=bar.update,
            max_draws=settings.max_draws,
            have_converged=partial(_have_converged, problem),
        )
    vectors, stats = chains.vectors, chains.stats
    if not vectors.shape[1]:
        # Interrupted before the first draw: draw from Laplace's approximation.
        vectors, stats = laplace.apply(rng.standard_normal((1, settings.n_draws, target.size))), {}
    relabelling = labelling.relabel(vectors.reshape(-1, target.size))
    return _Outcome(InferenceResult(vectors, stats, chains.interrupted), relabelling, laplace.centre)


def _have_converged(problem: InferenceProblem, vectors: FloatArray) -> bool:
    """Return whether draws (C, N, P) of the unconstrained parameters have converged, after relabelling."""
    draws = constrain(problem.target, problem.data, vectors)
    relabelling = problem.labelling.relabel(vectors.reshape(-1, problem.target.size))
    draws = relabelled(draws, relabelling)
    if isinstance(draws, StructuralDraws):
        centre = constrain(problem.target, problem.data, problem.laplace.centre)
        draws = aligned_with(draws, centre.loadings)
    return have_converged(convergence_diagnostics(draws))


def _run_svi(
    problem: InferenceProblem, settings: InferenceSettings, rng: np.random.Generator, progress: ProgressBar
) -> _Outcome:
    target, data, laplace, labelling, known_modes = problem
    modes_found, interrupted = Modes(known_modes, False)
    if target.kinds is None:
        modes_found, interrupted = find_modes(target, data, laplace, labelling, rng)
    frame = data.chart.rotation
    labellings = {id(mode_found): Labelling(target, mode_found, frame) for mode_found in modes_found}
    data = data._replace(symmetry_reference=references_of_modes(list(labellings.values())))
    fits: list[tuple[LaplaceApproximation, variational.GuideFit]] = []
    with progress(settings.n_steps_svi * len(modes_found), "steps") as bar:
        for mode_found in modes_found:
            fit = variational.fit_guide(
                target,
                data,
                mode_found,
                n_steps=settings.n_steps_svi,
                seed=int(rng.integers(2**31)),
                report=bar.update,
            )
            interrupted |= fit.interrupted
            # An interrupted fit may have fewer steps than the others, and is used only if it is the first.
            if not fits or not fit.interrupted:
                fits.append((mode_found, fit))
            if interrupted:
                break
    modes = variational.mix(fits)
    draws = variational.draw_from_guides(target, data, modes, settings.n_draws * settings.n_chains, rng)
    permutations, signs = np.empty((2, len(draws.vectors), target.n_components))
    for i, mode in enumerate(modes):
        is_of_mode = draws.modes == i
        if np.any(is_of_mode):
            permutations[is_of_mode], signs[is_of_mode] = labellings[id(mode.laplace)].relabel(
                draws.vectors[is_of_mode]
            )
    inferred = InferenceResult(
        draws.vectors[None],
        {},
        interrupted,
        logsumexp([fit.elbo for _, fit in fits], axis=0),
        draws.pareto_k,
        np.array([[np.mean(draws.modes == i), mode.bound] for i, mode in enumerate(modes)]),
    )
    best = min((mode.laplace for mode in modes), key=lambda mode_found: mode_found.potential)
    return _Outcome(inferred, Relabelling(permutations.astype(np.intp), signs), best.centre)
