"""Exact inference: the compiled engine, and three algorithms in JAX.

Each module imports only from modules above it in this list::

    moments, compiler, settings     results, without JAX; compiler options and settings of JAX
    idiosyncratic                   AR(1) noise of many columns, by conjugate gradients; without JAX
    dynamics                        Transition, from one state to the next; without JAX
    stateless                       models without latent processes; without JAX
    problem, batched, statistics    algorithms in JAX: inputs and interface; small matrices; sums
    recursions                      square-root filter row by row: the reference
    segmented                       segments in parallel, for samplers on CPUs
    scan                            very many segments, joined by a parallel scan, for accelerators
    leave_one_out                   leave-one-out predictions, in JAX
    sweep                           inference over a panel chunk by chunk, with any of these
    core/                           the compiled engine, without JAX
    posterior                       moments, likelihoods and draws of a panel, by the selected algorithm
    likelihood                      the log-likelihood as a JAX function, for samplers

Inference for given parameters is called through ``posterior``. It calls ``core``, or ``sweep`` if the
compiled engine is not installed.
"""
