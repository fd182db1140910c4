"""A target with a known normal density."""

from dataclasses import dataclass

import numpy as np

from probsfa.bayes.coordinates.data import TargetData


@dataclass(frozen=True)
class GaussianTarget:
    """A target whose density of vectors (P,) is normal, multiplied by ``exp(log_evidence)``."""

    size: int
    log_evidence: float = 0.0

    def potential(self, vector, data):
        mean, precision = data.series
        deviation = vector - mean
        log_norm = 0.5 * (np.linalg.slogdet(self.precision())[1] - self.size * np.log(2.0 * np.pi))
        return 0.5 * deviation @ precision @ deviation - log_norm - self.log_evidence

    def difference_steps(self, vector):
        return np.full_like(vector, 1e-4)

    def precision(self):
        """Return a precision with standard deviations from 1e-3 to 10 and correlations."""
        rng = np.random.default_rng(self.size)
        stds = np.geomspace(1e-3, 10.0, self.size)
        rotation = np.linalg.qr(rng.standard_normal((self.size, self.size)))[0]
        root = (np.eye(self.size) + 0.3 * rotation) / stds
        return root.T @ root

    def mean(self):
        return np.arange(self.size, dtype=float) - 1.0

    def covariance(self):
        return np.linalg.inv(self.precision())

    def data(self):
        return TargetData((self.mean(), self.precision()))
