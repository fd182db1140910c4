"""The compiled engine: exact inference on a CPU, without JAX.

``segments.c`` is an information filter over segments of rows in parallel, ``recursions.c`` a square-root
filter row by row. ``module.cpp`` is their Python module ``_probsfa_core``, which ``kernels`` loads.
``passes`` processes the chunks of a panel with either of them; ``algorithm`` selects one.
"""
