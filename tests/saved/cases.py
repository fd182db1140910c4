"""Fitted estimators of all kinds, to be saved and loaded.

    python -m tests.saved.cases FOLDER

saves the estimators and their results on the data to a folder. The other folders here were written by earlier
versions of the package. They are never changed, because every later version must load them.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import probsfa
from probsfa import (
    IGSFA,
    SFA,
    XSFA,
    BayesianSFA,
    BilinearSFA,
    DiffusionMap,
    EmissionSFA,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    HierarchicalSFA,
    KernelSFA,
    LaplacianEigenmaps,
    Layer,
    PrincipalCurve,
    ProbabilisticSFA,
    ProcessMonitor,
    ProductOfExpertsSFA,
    SpectralClustering,
)
from probsfa.bayes import Priors
from probsfa.expansions import (
    Clip,
    Concatenation,
    DelayEmbedding,
    FourierFeatures,
    Identity,
    Polynomial,
    Power,
    RadialBasis,
)
from probsfa.extensions import LinearAutoencoder
from probsfa.graphs import Serial, from_sparse, temporal
from probsfa.imputation import ProbabilisticImputer

N = 48

_t = np.arange(float(N))
X = np.column_stack(
    [
        np.sin(_t / 7) + 0.3 * np.cos(2.1 * _t**1.1),
        np.cos(_t / 9) + 0.5 * np.sin(_t / 7) + 0.2 * np.sin(1.7 * _t**1.2),
        np.sin(_t / 7) - np.cos(_t / 9) + 0.3 * np.sin(2.9 * _t**1.05),
    ]
)
GAPS = np.where((np.add.outer(np.arange(N), np.arange(3)) % 11) == 0, np.nan, X)
CLASSES, LABELS = np.repeat([0, 1, 2], N // 3), np.linspace(0.0, 1.0, N)
HOURS = pd.date_range("2024-01-01", periods=N, freq="h")
FRAME = pd.DataFrame(GAPS, columns=["wind", "rain", "sun"], index=HOURS)
UNEVEN = FRAME.drop(HOURS[20])
EXOG = np.column_stack([_t / N, np.cos(_t / 3)])
COUNTS = np.rint(np.exp(X)).astype(float)

_BAYES = {"inference": "svi", "n_steps_svi": 3, "n_draws": 6, "n_chains": 1, "verbose": False}
_PRIORS = Priors(timescale=dist.LogNormal(2.0, 1.0))

# Estimator, data and further arguments of fit.
CASES = {
    "sfa": (SFA(2), X, {}),
    "sfa_expansion": (SFA(2, expansion=Polynomial(2, whiten=True)), X, {}),
    "sfa_sklearn": (SFA(2, expansion=make_pipeline(StandardScaler(), PolynomialFeatures(2))), X, {}),
    "sfa_frame": (SFA(1), FRAME.interpolate().bfill(), {}),
    "graph_temporal": (GraphSFA(2, graph="temporal"), X, {}),
    "graph_clustered": (GraphSFA(2, graph="clustered", expansion=Polynomial(2)), X, {"y": CLASSES}),
    "graph_object": (GraphSFA(2, graph=temporal(N)), X, {}),
    "graph_builder": (GraphSFA(2, graph=Serial(4)), X, {"y": LABELS}),
    "graph_sparse": (GraphSFA(2, graph=from_sparse(np.ones((N, N)))), X, {}),
    "igsfa": (IGSFA(2, graph="clustered", expansion=Polynomial(2)), X, {"y": CLASSES}),
    "diffusion_map": (DiffusionMap(2), X, {}),
    "classifier": (GraphSFAClassifier(2), X, {"y": np.array(["low", "mid", "high"])[CLASSES]}),
    "regressor": (GraphSFARegressor(2), X, {"y": LABELS}),
    "hierarchical": (HierarchicalSFA([Layer(2, expansion=Polynomial(2))]), X, {}),
    "eigenmaps": (LaplacianEigenmaps(2, n_neighbors=8), X, {}),
    "spectral_clustering": (SpectralClustering(3, n_neighbors=8, random_state=0), X, {}),
    "kernel": (KernelSFA(2, n_support=12, regularization=1e-3), X, {}),
    "kernel_graph": (KernelSFA(2, graph="serial", n_support=12, regularization=1e-3), X, {"y": LABELS}),
    "xsfa": (XSFA(2, expansion=Polynomial(2), source_degree=2), X, {}),
    "clip": (Clip(), X, {}),
    "concatenation": (Concatenation([Identity(), Power(0.8)]), X, {}),
    "fourier": (FourierFeatures(random_state=np.random.RandomState(3)), X, {}),
    "radial_basis": (RadialBasis(5, random_state=0), X, {}),
    "pipeline": (make_pipeline(DelayEmbedding(2), PCA(3), SFA(1)), X, {}),
    "probabilistic": (ProbabilisticSFA(1, tol=1.0), GAPS, {}),
    "probabilistic_states": (
        ProbabilisticSFA(1, rhythms=["12h"], smooth=1, noise="ar1", max_iter=20),
        FRAME,
        {},
    ),
    "probabilistic_uneven": (ProbabilisticSFA(1, tol=1.0), UNEVEN, {}),
    "probabilistic_robust": (ProbabilisticSFA(1, robust="cell", tol=1.0), GAPS, {}),
    "probabilistic_mapped": (
        ProbabilisticSFA(1, transforms=[None, "yeo-johnson", (-9.0, 9.0)], tol=1.0),
        GAPS,
        {"exog": EXOG},
    ),
    "probabilistic_limit": (ProbabilisticSFA(2, noise=0.0), X, {}),
    "probabilistic_fixed": (
        ProbabilisticSFA(1, noise=[0.1, 0.2, 0.3], fixed={"decays": [0.9]}, tol=1.0),
        GAPS,
        {},
    ),
    "probabilistic_pipeline": (make_pipeline(StandardScaler(), ProbabilisticSFA(1, tol=1.0)), GAPS, {}),
    "imputer": (ProbabilisticImputer(ProbabilisticSFA(1, tol=1.0)), GAPS, {}),
    "monitor": (ProcessMonitor(SFA(2), n_slow=1), X, {}),
    "monitor_probabilistic": (ProcessMonitor(ProbabilisticSFA(1, tol=1.0), n_slow=1), X, {}),
    "bayesian": (BayesianSFA(1, random_state=0, **_BAYES), FRAME, {}),
    "bayesian_priors": (
        BayesianSFA(1, priors=_PRIORS, noise=[0.1, 0.2, 0.3], random_state=0, **_BAYES),
        GAPS,
        {},
    ),
    "bayesian_robust": (
        BayesianSFA(1, robust=True, n_warmup=3, n_draws=4, n_chains=1, verbose=False, random_state=0),
        GAPS,
        {},
    ),
    "emission": (EmissionSFA(1, emission="poisson", max_iter=5), COUNTS, {}),
    "bilinear": (BilinearSFA(1, n_gates=1, n_init=1, max_iter=5, random_state=0), X, {}),
    "experts": (ProductOfExpertsSFA(1, max_iter=3, random_state=0), X, {}),
    "curve": (PrincipalCurve(1), X, {}),
    "autoencoder": (LinearAutoencoder(1, max_iter=50, random_state=0), X, {}),
    "clusters": (make_pipeline(SFA(2), KMeans(2, n_init=1, random_state=0)), X, {}),
}
METHODS = ("transform", "predict", "impute")
NUMBERS = ("delta_values_", "decay_", "noise_variance_", "timescales_", "time_unit_")
TEXTS = ("labels_", "classes_", "status_", "feature_names_in_")


def results(estimator, data, given):
    """Return the results of an estimator on data, and some of its fitted attributes."""
    at = {name: given[name] for name in ("exog",) if name in given}
    results_by_name = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in METHODS:
            if hasattr(estimator, method):
                results_by_name[method] = np.asarray(getattr(estimator, method)(data, **at))
    for name in NUMBERS:
        if hasattr(estimator, name):
            results_by_name[name] = np.asarray(getattr(estimator, name))
    for name in TEXTS:
        if hasattr(estimator, name):
            results_by_name[name] = np.asarray(getattr(estimator, name), dtype=str)
    return results_by_name


def read_results(folder):
    """Return the results in a folder, by case and name."""
    out = {}
    with np.load(folder / "results.npz") as file:
        for key in file.files:
            case, _, name = key.partition("/")
            out.setdefault(case, {})[name] = file[key]
    return out


def main(folder):
    """Fit, save, and write the results."""
    folder.mkdir()
    flat = {}
    for case, (estimator, data, given) in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = estimator.fit(data, **given)
        probsfa.save(fitted, folder / f"{case}.npz")
        flat |= {f"{case}/{name}": x for name, x in results(fitted, data, given).items()}
    np.savez_compressed(folder / "results.npz", **flat)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
