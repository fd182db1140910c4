"""Kernel SFA of windows of words: moments, and slowness by regularization."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from common.speech import Speech

from probsfa._validation import Sequences
from probsfa.metrics import delta_value
from probsfa.sfa import SFA
from probsfa.sfa.kernel.problem import (
    KernelColumns,
    KernelFunctions,
    kernel_block,
    kernel_moments,
    make_problem,
    solve,
)

LAMBDAS = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1)


RULES = {"zeros only (1e-15)": 1e-15, "default": None}


class Trained(NamedTuple):
    """Result for one regularization, over all outputs."""

    test_slowness: float
    train_slowness: float
    variances: np.ndarray  # of the training outputs
    test_deviation: float  # of the test outputs, root mean square; those of training have one
    n_outputs: int


def prepare(speech: Speech, gamma: float) -> tuple[KernelColumns, Sequences]:
    """Return the kernel of the training windows, and where words begin."""
    rows = np.concatenate(speech.train)
    sequences = Sequences(rows, tuple(len(x) for x in speech.train))
    return KernelColumns(rows, "rbf", {"gamma": gamma}), sequences


def evaluate(
    speech: Speech,
    kernel: KernelColumns,
    sequences: Sequences,
    support: np.ndarray,
    lambdas: tuple[float, ...],
    rules: Iterable[float | None],
    n_outputs: int,
) -> list[list[Trained]]:
    """Fit with each rank rule and regularization, and measure on the test words."""
    functions = KernelFunctions(kernel, support)
    moments, among = kernel_moments(functions, sequences), functions.gram()
    Z, lengths = kernel.values[support], [len(x) for x in speech.test]
    test = kernel_block(np.concatenate(speech.test), Z, kernel.metric, kernel.params)
    train = kernel.block(slice(None), support)
    results = []
    for rank_tol in rules:
        problem = make_problem(moments, among, rank_tol)
        count = min(n_outputs, problem.basis.shape[1])
        row = []
        for value in lambdas:
            A = solve(problem, count, value).coefficients
            y, y_train = (test - problem.mean) @ A, (train - problem.mean) @ A
            slowness = np.mean(delta_value(y, lengths=lengths))
            own = np.mean(delta_value(y_train, lengths=sequences.lengths))
            deviation = float(np.sqrt(y.var(axis=0).mean()))
            row.append(Trained(float(slowness), float(own), y_train.var(axis=0), deviation, count))
        results.append(row)
    return results


def linear_slowness(speech: Speech, counts: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Return mean slowness and standard deviation on test words of linear SFA, by number of outputs."""
    y = np.concatenate(SFA(max(counts)).fit(speech.train).transform(speech.test))
    deltas = delta_value(y, lengths=[len(x) for x in speech.test])
    return {n: (float(np.mean(deltas[:n])), float(np.sqrt(y[:, :n].var(axis=0).mean()))) for n in counts}
