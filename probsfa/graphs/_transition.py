"""Transition graph: discrete states are similar where one often follows the other."""

from typing import Any

import numpy as np
import scipy.sparse

from probsfa._validation import check_count, check_lengths
from probsfa.graphs._group import GroupGraph
from probsfa.graphs._labels import check_classes

__all__ = ["transition"]


def transition(states: Any, lag: int = 1, lengths: Any = None) -> GroupGraph:
    """Return the graph of the transition probabilities of a sequence of discrete states.

    Every moment in time is a vertex of weight 1. The edge of two moments in the states s and s' weighs
    ``p(s, s') / (p(s) p(s'))``, where p(s) is the fraction of time spent in s and p(s, s') the fraction of
    steps from s to s' or back. Laplacian eigenmaps of these weights are slow feature analysis of functions
    of the state: on any such function, A and B are the moments of :class:`probsfa.SFA` exactly.

    Parameters
    ----------
    states : array-like (N,)
        State at every moment, numbers or strings.
    lag : int, default=1
        Moments from the first to the second state of a step.
    lengths : array-like of int, optional
        Moments of every sequence. No step leads from one sequence to the next.

    Raises
    ------
    ValueError
        If there is no step at all.

    See Also
    --------
    temporal : The same steps, for features that are no states.

    Notes
    -----
    Sprekeler (2011), Neural Computation 23:3287, eq. 4.3. p(s, s') is made symmetric because the objective,
    eq. 4.1, does not see the direction of a step.

    Examples
    --------
    >>> transition(["a", "b", "b", "b"]).to_sparse().toarray()[0].round(3)
    array([0.   , 0.889, 0.889, 0.889])
    """
    state_numbers = check_classes(states)
    n, lag = len(state_numbers), check_count("lag", lag)
    sizes = check_lengths(lengths, n)
    sequence = np.repeat(np.arange(len(sizes)), sizes)
    joined = sequence[lag:] == sequence[:-lag]
    if not joined.any():
        raise ValueError(
            f"No sequence has two states {lag} apart (lag={lag}); the longest has {max(sizes)}. Give longer "
            "sequences or a smaller lag."
        )
    before, after = state_numbers[:-lag][joined], state_numbers[lag:][joined]
    n_states = int(state_numbers.max()) + 1
    steps = np.full(len(before), 0.5 / len(before), dtype=np.float64)
    forth = scipy.sparse.csr_array((steps, (before, after)), shape=(n_states, n_states))
    rarity = scipy.sparse.diags_array(n / np.bincount(state_numbers))
    return GroupGraph(state_numbers, (rarity @ (forth + forth.T) @ rarity).tocsr(), np.ones(n_states))
