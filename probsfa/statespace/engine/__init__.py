"""Exact inference: the compiled engine, and three algorithms in JAX.

Each module imports only from modules above it in this list::

    moments                         results of inference; without JAX
    compiler, settings              compiler options and settings of JAX
    idiosyncratic                   AR(1) noise of many columns, by conjugate gradients; without JAX
    dynamics                        Gaussian states and their transitions; without JAX
    stateless                       models without latent processes; without JAX
    problem                         inputs and interface of the algorithms in JAX
    batched                         batches of small matrices, in JAX
    statistics                      sums of expected moments, in JAX
    recursions                      algorithm in JAX: square-root filter row by row, the reference
    segmented                       algorithm in JAX: segments in parallel, for samplers on CPUs
    scan                            algorithm in JAX: segments joined by a parallel scan, for accelerators
    leave_one_out                   leave-one-out predictions, in JAX
    sweep                           inference over a panel chunk by chunk, with one of the algorithms in JAX
    core/                           the compiled engine, without JAX
    posterior                       moments, likelihoods and draws of a panel, by the selected algorithm
    likelihood                      the log-likelihood as a JAX function, for samplers

Inference for given parameters is called through ``posterior``. For a model with states, ``posterior`` calls
``core``, or ``sweep`` if the compiled engine is not installed or does not support the number of states.
"""
