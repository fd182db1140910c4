"""Relabelling of posterior draws: permutations and sign changes of the factors."""
