"""A way around a fault of XLA's compiler for CPUs that comes with JAX 0.10, the last for Python 3.11."""

from contextlib import AbstractContextManager, nullcontext

import jax

from probsfa.statespace import lanes

_FAULTY = jax.__version_info__ < (0, 11)


def without_kernel_hints() -> AbstractContextManager[None]:
    """Trace the likelihood, to be run inside a loop, without asking for single kernels where that fails."""
    return lanes.without_kernel_hints() if _FAULTY else nullcontext()
