"""The compiled engine: exact inference on a CPU, without JAX.

``segments.c`` is an information filter over segments of rows in parallel, ``recursions.c`` a square-root
filter row by row. ``module.cpp`` defines their Python module ``_probsfa_core``, which ``kernels`` loads.
``passes`` processes the chunks of a panel with one of the filters; ``algorithm`` selects it.
"""
