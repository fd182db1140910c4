"""Convergence diagnostics of a fit, and messages about them."""

from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.bayes.convergence import (
    MAX_RHAT,
    MIN_ESS,
    convergence_diagnostics,
    have_converged,
    worst_measures,
)
from probsfa.bayes.draws import AnyDraws, timescales
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.relabelling.matching import close_pairs
from probsfa.bayes.sampling.importance import MAX_TAIL_INDEX

# Above this R-hat, the status reports that the chains disagree; below, it only advises a larger n_draws.
_MAX_RHAT_OF_SHORT_RUNS = 1.05


class FitReport(NamedTuple):
    """Diagnostics and messages of a fit.

    Attributes
    ----------
    diagnostics : dict
        ``"rhat"``, ``"ess"`` (bulk) and ``"ess_tail"`` of all parameters, ``"divergences"``; for a
        variational fit ``"pareto_k"``, ``"mode_shares"`` and ``"mode_bounds"``.
    converged : bool
        Whether the draws have converged.
    status : str
        How the fit ended, with advice.
    identifiability_warnings : tuple of str
        A warning for each pair of factors for which it is uncertain which factor is slower.
    """

    diagnostics: dict[str, Any]
    converged: bool
    status: str
    identifiability_warnings: tuple[str, ...]


def report(fitted: FittedPosterior) -> FitReport:
    """Return the diagnostics and messages of a fit."""
    inferred, draws = fitted.inferred, fitted.draws
    measured = convergence_diagnostics(draws, fitted.degrees)
    divergences = int(np.sum(inferred.sample_stats.get("diverging", 0)))
    diagnostics: dict[str, Any] = {**measured, "divergences": divergences}
    chains, n = draws.decay.shape[:2]
    if inferred.pareto_k is not None:
        diagnostics["pareto_k"] = inferred.pareto_k
        shares = np.ones(1) if inferred.modes is None else inferred.modes[:, 0]
        if inferred.modes is not None:
            diagnostics["mode_shares"], diagnostics["mode_bounds"] = inferred.modes.T
        converged = not inferred.interrupted and inferred.pareto_k <= MAX_TAIL_INDEX
        status = _svi_status(n, inferred.pareto_k, inferred.interrupted, shares)
    elif not inferred.sample_stats:
        converged = False
        status = (
            "Interrupted in the warm-up: the draws are those of Laplace's approximation at the "
            "maximum a posteriori, not of the sampler."
        )
    else:
        rhat, ess = worst_measures(measured)
        converged = have_converged(measured)
        interrupted = "Interrupted: the draws so far are kept. " if inferred.interrupted else ""
        advice = "" if converged else _advice(measured["rhat"], bool(_identifiability_warnings(draws)))
        status = (
            f"{interrupted}{n} draws of {chains} chains: R-hat at most {rhat:.3f}, effective sample "
            f"size at least {ess:.0f}, {divergences} divergences.{advice}"
        )
        if fitted.degrees is not None:
            status = status.replace(f", {divergences} divergences", "")
            status += f" Noise is Student-t with {np.mean(fitted.degrees):.3g} degrees of freedom on average."
    return FitReport(diagnostics, converged, status, _identifiability_warnings(draws))


def relabelling_sentence(fitted: FittedPosterior) -> str:
    """Return a message about the relabelling of the draws."""
    relabelling = fitted.relabelling
    reference = "maximum a posteriori" if fitted.degrees is None else "maximum of the likelihood"
    return (
        f"Each draw has the signed permutation of its factors closest to the {reference}: "
        f"{relabelling.n_permuted} of {len(relabelling.permutations)} draws were permuted, "
        f"{relabelling.n_flipped} had signs changed. Labels are ordered by median time scale."
    )


def _svi_status(n_draws: int, pareto_k: float, interrupted: bool, shares: FloatArray) -> str:
    if interrupted:
        return f"Interrupted: {n_draws} draws from the Gaussian approximation reached so far."
    modes_sentence = ""
    if len(shares) > 1:
        listing = ", ".join(f"{share:.2f}" for share in shares)
        modes_sentence = (
            f" The posterior has {len(shares)} modes, with shares {listing} of the draws, so that posterior "
            "means lie between modes. Compare the modes in draws_, or add a factor."
        )
    advice = ""
    if pareto_k > MAX_TAIL_INDEX:
        advice = f" Above {MAX_TAIL_INDEX} importance weights are unreliable: use inference='nuts'"
        advice += ", and compare its chains, which may stay in different modes." if len(shares) > 1 else "."
    kind = "a Gaussian approximation" if len(shares) == 1 else f"a mixture of {len(shares)} Gaussians"
    return (
        f"{n_draws} draws from {kind}, with importance weights (Pareto k {pareto_k:.2f})."
        f"{modes_sentence}{advice}"
    )


def _advice(rhat: dict[str, FloatArray], has_close_timescales: bool) -> str:
    """Return advice from the R-hat of each parameter and from the similarity of time scales."""
    worst = max(rhat, key=lambda name: float(np.nanmax(rhat[name], initial=1.0)))
    if float(np.nanmax(rhat[worst], initial=1.0)) > _MAX_RHAT_OF_SHORT_RUNS:
        disagreement = f" The chains disagree, most in {worst}."
        if has_close_timescales:
            return (
                f"{disagreement} Two factors have similar time scales: use a lower n_components, or "
                "another prior of the time scale for each factor."
            )
        return (
            f"{disagreement} Compare the chains in draws_. If each stays at different values, the "
            "posterior has several modes: use a narrower prior of time scales or noise, because longer "
            "chains do not help. Otherwise increase n_warmup and n_draws."
        )
    return f" Raise n_draws (required: {MIN_ESS:.0f} effective draws, R-hat at most {MAX_RHAT})."


def _identifiability_warnings(draws: AnyDraws) -> tuple[str, ...]:
    timescale_draws = timescales(draws)
    return tuple(
        f"Factors {i} and {j} have similar time scales: the second is slower with probability {slower:.2f}. "
        "Their loadings may be mixed; interpret both together, or use fewer components."
        for i, j, slower in close_pairs(timescale_draws.reshape(-1, timescale_draws.shape[-1]))
    )
