"""The compiled engine: exact inference on a CPU, without JAX.

``segments.c`` works on segments of rows side by side by precisions, ``recursions.c`` row after row by square
roots of covariances. ``module.cpp`` is their Python module ``_probsfa_core``, of which ``kernels`` holds what
is used. ``passes`` works through a panel chunk by chunk with either; ``algorithm`` chooses between them.
"""
