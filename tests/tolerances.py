"""Tolerances of all tests, by kind of comparison."""

EXACT = 1e-10  # the same mathematics by two algorithms
STREAM = 1e-12  # the same sums in another order: chunks, blocks, merges
SPECTRAL = 1e-7  # eigenproblems, which depend on the condition number
OPTIM = 1e-4  # stationary points of an optimizer
FLOAT32 = 1e-4


def mc_tolerance(variance: float, n: float, k: float = 6.0) -> float:
    """Return k standard errors of a mean of n independent draws; with k=6, errors exceed it twice in 1e9."""
    return float(k * (variance / n) ** 0.5)


def small_noise_tolerance(noise: float) -> float:
    """Return the effect of rounding on a posterior of unit signals with this noise variance, at least EXACT.

    The weight of an observation is 1 / noise, so that one rounding error changes the result by eps / noise.
    64 times this value allows for sums of several values, but not for a method that loses digits.
    """
    return max(EXACT, 64 * 2.2e-16 / noise)
