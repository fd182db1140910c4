"""Exact inference over rows: the compiled engine, and its definition and two more algorithms in JAX.

From the bottom up, each file importing only from those above it in this list::

    symmetric, compiler, settings   packed symmetric matrices; options and settings of JAX
    dynamics                        Transition, from one state to the next; without JAX
    moments                         what is computed: moments, and sums of them; without JAX
    problem, batched, statistics    what algorithms of JAX are given; small matrices side by side; sums
    recursions                      row by row: the definition
    segmented                       in segments side by side, for samplers on CPUs
    scan                            in very many segments, joined all at once, for accelerators
    student, leave_one_out          Student-t filter, and values given all others, in JAX
    sweep                           a panel worked through chunk by chunk with any of these
    core/                           the compiled engine, without JAX
    choose                          which of them computes a posterior; use_strategy, to ask for one
    likelihood                      the log-likelihood as a JAX function, for samplers

A call goes from :mod:`probsfa.statespace.posterior` to ``choose``, and from there to ``core``, or to
``sweep`` where there is no compiled engine.
"""
