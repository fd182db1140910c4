"""Laplacian eigenmaps, diffusion maps and spectral clustering."""
