"""Maximum a posteriori, sampling and variational inference in whitened coordinates."""
