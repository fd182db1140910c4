"""How a fit in rounds ended, in a sentence."""

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
    """Say how a fit ended, and what to try.

    Parameters
    ----------
    ending : {"converged", "max_iter", "interrupted"}
        How it ended.
    n_iter, max_iter : int
        Rounds that were taken, and allowed.
    criterion : str, default=""
        What convergence means, where that is to be said.
    unfinished : str
        What was still to come after so many rounds.
    remedy : str
        What to give so that it comes.
    best : str
        What is kept of an interrupted fit.

    Examples
    --------
    >>> status_sentence("max_iter", 5, 5, unfinished="; the bound was still rising", best="the best")
    'Stopped after max_iter=5 rounds; the bound was still rising. Give a larger max_iter or tol.'
    """
    sentences = {
        "converged": f"Converged in {n_iter} rounds{criterion}.",
        "max_iter": f"Stopped after max_iter={max_iter} rounds{unfinished}. Give {remedy}.",
        "interrupted": f"Interrupted after {n_iter} rounds; {best} so far.",
    }
    return sentences[ending]
