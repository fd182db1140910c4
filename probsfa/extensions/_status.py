"""Messages about the end of iterative fits."""

__all__ = ["status_sentence"]


def status_sentence(
    status: str,
    n_iter: int,
    max_iter: int,
    *,
    criterion: str = "",
    unfinished: str,
    remedy: str = "a larger max_iter or tol",
    best: str,
) -> str:
    """Return a message about the end of a fit, with advice.

    Parameters
    ----------
    status : {"converged", "max_iter", "interrupted"}
        The end of the fit.
    n_iter, max_iter : int
        Number of iterations, and maximum number.
    criterion : str, default=""
        Text after the number of iterations of a converged fit, for example ": the gain is below tol".
    unfinished : str
        Text after the number of iterations of a fit that stopped at `max_iter`, including punctuation.
    remedy : str
        Advice for a fit that stopped at `max_iter`; it follows "Use".
    best : str
        The result of an interrupted fit, for example "these are the best parameters"; "so far" follows.

    Examples
    --------
    >>> status_sentence("max_iter", 5, 5, unfinished="; the bound was still rising", best="this is the best")
    'Stopped after max_iter=5 iterations; the bound was still rising. Use a larger max_iter or tol.'
    """
    sentences = {
        "converged": f"Converged in {n_iter} iterations{criterion}.",
        "max_iter": f"Stopped after max_iter={max_iter} iterations{unfinished}. Use {remedy}.",
        "interrupted": f"Interrupted after {n_iter} iterations; {best} so far.",
    }
    return sentences[status]
