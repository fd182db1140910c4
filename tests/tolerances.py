"""The numbers of all tests, keyed by what is claimed."""

EXACT = 1e-10  # the same mathematics by two routes
STREAM = 1e-12  # the same sums in another order: chunks, blocks, merges
SPECTRAL = 1e-7  # eigenproblems, where conditioning enters
OPTIM = 1e-4  # stationary points of an optimiser
FLOAT32 = 1e-4


def mc_tolerance(variance: float, n: float, k: float = 6.0) -> float:
    """Return k standard errors of a mean of n independent draws; exceeded about twice in 1e9 at k=6."""
    return float(k * (variance / n) ** 0.5)


def small_noise_tolerance(noise: float) -> float:
    """Return what rounding may do to a posterior of unit signals in noise of that variance, at least EXACT.

    An observation enters with the weight 1 / noise, so one rounding of it moves the answer by eps / noise;
    64 of them leave room for sizes and sums, and nothing for a method that loses digits.
    """
    return max(EXACT, 64 * 2.2e-16 / noise)
