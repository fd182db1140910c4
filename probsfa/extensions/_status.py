"""Messages about the end of iterative fits."""

__all__ = ["status_sentence"]


def status_sentence(
    ending: str,
    n_iter: int,
    max_iter: int,
    *,
    criterion: str = "",
    unfinished: str,
    remedy: str = "a larger max_iter or tol",
    best: str,
) -> str:
    """Return a message about how a fit ended, with advice.

    Parameters
    ----------
    ending : {"converged", "max_iter", "interrupted"}
        The end of the fit.
    n_iter, max_iter : int
        Number of iterations, and maximum number.
    criterion : str, default=""
        Description of the convergence criterion, if any.
    unfinished : str
        Description of the unfinished state at `max_iter`.
    remedy : str
        Advice for a fit that stopped at `max_iter`.
    best : str
        Description of the result of an interrupted fit.

    Examples
    --------
    >>> status_sentence("max_iter", 5, 5, unfinished="; the bound was still rising", best="the best")
    'Stopped after max_iter=5 iterations; the bound was still rising. Use a larger max_iter or tol.'
    """
    sentences = {
        "converged": f"Converged in {n_iter} rounds{criterion}.",
        "max_iter": f"Stopped after max_iter={max_iter} iterations{unfinished}. Use {remedy}.",
        "interrupted": f"Interrupted after {n_iter} iterations; {best} so far.",
    }
    return sentences[ending]
