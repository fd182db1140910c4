"""Exact inference over rows: what a strategy is, the strategies, and which one serves.

From the bottom up, each file importing only from those above it in this list::

    symmetric, compiler     packed symmetric matrices; what the compiler is asked for, and the platform
    dynamics                Gaussian, a state's distribution; Transition, from one state to the next
    problem, moments        what a strategy is given, in chunks on the device; and what it gives
    statistics              sums of expected moments, of which learning is made
    batched                 linear algebra of many small matrices side by side
    strategy                what a strategy is, and what a route
    recursions              row by row: the definition
    segmented               in segments side by side, for few latents
    information_form        the same by precisions, for up to some dozen latents
    parallel_scan           in very many segments, joined all at once, for accelerators
    covariance_form         by updates of the rank of the columns, for many latents in few columns
    sweep                   a panel worked through chunk by chunk, by any of these
    steady_state            a complete series at even steps, where covariances soon stop changing
    two_filter, sharding    sums from both ends of the rows at once; spread over devices
    plan                    which of them serves, and why; use_strategy, which asks for one
    likelihood              the log-likelihood as a JAX function, for samplers

A call goes from :mod:`probsfa.statespace.posterior` to ``plan``, which gives a route, and from the route,
chunk by chunk, to a strategy.
"""
