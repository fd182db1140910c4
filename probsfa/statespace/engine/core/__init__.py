"""The compiled engine: exact inference on a CPU, without JAX.

``segments.c`` filters segments of rows in parallel in information form (precisions), ``recursions.c`` row by
row with square roots of covariances. ``module.cpp`` is their Python module ``_probsfa_core``, which
``kernels`` loads. ``passes`` processes a panel chunk by chunk with either; ``algorithm`` chooses between
them.
"""
