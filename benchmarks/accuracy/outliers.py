"""Outliers: Student-t and Gaussian noise on simulated data, with artefact rows, and on real series.

Simulated data: T = 2,000, D = 10, K = 3, noise of variance 0.3, several seeds. Errors of 8 to 30 standard
deviations of the noise, with random signs, are added to 5 % of the values, or of the rows. The table has
errors of the signal ``mu + C E[z]`` (root mean square over values, in standard deviations of the noise),
which needs no alignment, and of the factors after matching of order and signs. "/ clean" is the ratio to
the error of the same model fitted to the same data without outliers. AUC is that of `outlier_scores` as a
detector of the outliers.

Tails: T = 1,500, D = 8, K = 3, Student-t noise with a weight for each value, of 3, 5 and 10 degrees of
freedom and squared scale 0.3; estimates of both.

AR(1) noise (``--only ar1``): T = 1,000, D = 8, K = 2, noise of each column AR(1) of decay 0.8 and variance
0.4, plus white noise of variance 0.1. A tenth of the values is hidden, and 5 % have errors of 8 to 30
standard deviations of the noise. The table has errors of factors and of hidden values, for `noise="ar1"` and
`robust`, alone and together.

Artefact rows: T = 15,000, D = 14, K = 4, with four rows in which all columns have errors of some thousand
standard deviations; and the same without errors.

Real data: 3,000 rows of the bundled weather and 4,000 of ETT_h1 (hourly, seven columns; Zhou et al. 2021),
unchanged and with artificial spikes in 1 % of the values (5 to 10 standard deviations of the column). 5 % of
the values, none of them a spike, are hidden and imputed. Errors are in standard deviations of the columns.

    python benchmarks/accuracy/outliers.py [--seeds N] [--only model|tails|ar1|rows|real] [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nyc_weather, make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.outlier_errors import DECAY, NOISE, errors, fit, latent_error
from common.tables import Table


def on_model_data(seeds: range) -> None:
    """Print the table for data simulated from the model."""
    kinds = {"gaussian": False, "cell": "cell", "row": "row"}
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        series = make_slow_mixture(2000, 10, decay=DECAY, noise_variance=NOISE, random_state=seed)
        clean = series.data
        size = rng.choice([-1.0, 1.0], clean.shape) * rng.uniform(8.0, 30.0, clean.shape) * np.sqrt(NOISE)
        single_values = rng.random(clean.shape) < 0.05
        rows = np.broadcast_to(rng.random((len(clean), 1)) < 0.05, clean.shape)
        for name, where in {
            "none": np.zeros_like(single_values),
            "values": single_values,
            "rows": rows,
        }.items():
            X = np.where(where, clean + size, clean)
            for noise, robust in kinds.items():
                model, seconds = fit(X, 3, robust)
                auc = np.nan
                if where.any():
                    auc = roc_auc_score(where.ravel(), model.outlier_scores(X).ravel())
                decays = np.sqrt(np.mean((model.decay_ - DECAY) ** 2))
                degrees = getattr(model, "degrees_of_freedom_", np.inf)
                figures = (*errors(model, X, series), auc, float(decays), seconds, degrees)
                found.setdefault((name, noise), []).append(figures)
    heads = "signal", "/ clean", "factors", "/ clean", "AUC", "decays", "seconds", "d.f."
    table = Table("outliers", "noise", *heads)
    for (name, noise), figures in found.items():
        signal, factors, auc, decays, seconds, degrees = np.median(figures, axis=0)
        before = np.array(found["none", noise])
        of_clean = np.median(np.array(figures)[:, :2] / before[:, :2], axis=0)
        ratios = [f"{value:.3f}" for value in (signal, of_clean[0], factors, of_clean[1])]
        cells = f"{auc:.4f}", f"{decays:.3f}", f"{seconds:.2f}", f"{degrees:.1f}"
        table.add(name, noise, *ratios, *cells)
    gaussian, cell = (np.array(found["none", noise])[:, 0] for noise in ("gaussian", "cell"))
    print(f"\nwithout outliers, signal of robust over gaussian: {np.median(cell / gaussian):.4f}")


def of_tails(seeds: range) -> None:
    """Print the table of estimated degrees of freedom and scales."""
    spread = "median (smallest to largest)"
    print()
    table = Table("true d.f.", f"estimated: {spread}", f"scale over true: {spread}", "seconds")
    for degrees in (3.0, 5.0, 10.0):
        figures = []
        for seed in seeds:
            series = make_slow_mixture(1500, 8, decay=DECAY, noise_variance=1e-9, random_state=seed)
            noise = np.sqrt(NOISE) * np.random.default_rng(seed).standard_t(degrees, series.data.shape)
            model, seconds = fit(series.data + noise, 3, "cell")
            scale = float(np.mean(model.noise_variance_)) / NOISE
            figures.append((model.degrees_of_freedom_, scale, seconds))
        (nu, scale, seconds), low, high = (f(figures, axis=0) for f in (np.median, np.min, np.max))
        of_degrees = f"{nu:.2f} ({low[0]:.2f} to {high[0]:.2f})"
        of_scale = f"{scale:.3f} ({low[1]:.3f} to {high[1]:.3f})"
        table.add(f"{degrees:.0f}", of_degrees, of_scale, f"{seconds:.2f}")


def with_ar1_noise(seeds: range) -> None:
    """Print the table for AR(1) noise and outliers."""
    kinds = {
        "AR(1)": {"noise": "ar1"},
        "Student-t": {"robust": True, "noise": "diagonal"},
        "both": {"robust": True, "noise": "ar1"},
    }
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = ProbabilisticSFA.from_parameters(
            [0.98, 0.9], rng.standard_normal((8, 2)), 0.1, noise_decay=0.8, noise_scale=np.sqrt(0.4)
        )
        clean, factors = truth.sample(1000, random_state=seed)
        hidden, off = rng.random(clean.shape) < 0.1, rng.random(clean.shape) < 0.05
        size = rng.choice([-1.0, 1.0], clean.shape) * rng.uniform(8.0, 30.0, clean.shape) * np.sqrt(0.5)
        for name, where in {"none": np.zeros_like(off), "values": off}.items():
            X = np.where(hidden, np.nan, np.where(where, clean + size, clean))
            for kind, options in kinds.items():
                start = time.perf_counter()
                model = ProbabilisticSFA(2, **options).fit(X)
                seconds = time.perf_counter() - start
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    imputed = np.sqrt(np.mean((model.impute(X) - clean)[hidden] ** 2))
                auc = np.nan
                if where.any():
                    auc = roc_auc_score(where[~hidden], model.outlier_scores(X)[~hidden])
                decay = np.mean(getattr(model, "noise_decay_", np.nan))
                figures = (latent_error(model.transform(X), factors), imputed, auc, decay, seconds)
                found.setdefault((name, kind), []).append(figures)
    print()
    table = Table("outliers", "noise", "factors", "imputed", "AUC", "noise decay", "seconds")
    for (name, kind), figures in found.items():
        error, imputed, auc, decay, seconds = np.median(figures, axis=0)
        cells = f"{error:.3f}", f"{imputed:.3f}", f"{auc:.4f}", f"{decay:.2f}", f"{seconds:.2f}"
        table.add(name, kind, *cells)


def with_artefact_rows() -> None:
    """Print the table for four artefact rows in 15,000."""
    series = make_slow_mixture(15_000, 14, decay=[0.99, 0.98, 0.9, 0.6], noise_variance=NOISE, random_state=1)
    rng = np.random.default_rng(0)
    X = series.data.copy()
    for row in (3000, 7000, 7001, 12_000):
        X[row] += 1000.0 * rng.standard_normal(14)
    print()
    table = Table("artefact rows", "noise", "signal", "factors", "seconds", "decays")
    for name, data in {"none": series.data, "four": X}.items():
        for robust in (False, "cell"):
            model, seconds = fit(data, 4, robust)
            signal, factors = errors(model, data, series)
            figures = f"{signal:.3f}", f"{factors:.3f}", f"{seconds:.2f}"
            table.add(name, robust or "gaussian", *figures, np.round(model.decay_, 3).tolist())


def on_real_data(folder: Path) -> None:
    """Print the table of errors of hidden values."""
    etth1 = pd.read_csv(folder / "etth1" / "ETTh1.csv").iloc[:4000, 1:].to_numpy()
    sets = {"weather": (load_nyc_weather().data.to_numpy()[:3000], 4), "ETT_h1": (etth1, 3)}
    print()
    table = Table("data", "spikes", "noise", "RMSE", "MAE", "seconds", "d.f.")
    for name, (data, k) in sets.items():
        rng = np.random.default_rng(0)
        std = np.nanstd(data, axis=0)
        hidden = (rng.random(data.shape) < 0.05) & ~np.isnan(data)
        where = (rng.random(data.shape) < 0.01) & ~hidden
        size = rng.choice([-1.0, 1.0], data.shape) * rng.uniform(5.0, 10.0, data.shape) * std
        for spikes in (False, True):
            X = np.where(where, data + size, data) if spikes else data
            X = np.where(hidden, np.nan, X)
            for robust in (False, "cell"):
                model, seconds = fit(X, k, robust)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    filled = model.impute(X)
                error = ((filled - data) / std)[hidden]
                degrees = getattr(model, "degrees_of_freedom_", np.inf)
                rmse, mae = np.sqrt(np.mean(error**2)), np.mean(np.abs(error))
                figures = f"{rmse:.4f}", f"{mae:.4f}", f"{seconds:.2f}", f"{degrees:.1f}"
                table.add(name, "1 %" if spikes else "none", robust or "gaussian", *figures)


def main() -> None:
    """Run the selected parts."""
    parts = ["model", "tails", "ar1", "rows", "real"]
    args = read_options(__doc__, data="etth1/", seeds=20, only={"choices": parts})
    of_seeds = {"model": on_model_data, "tails": of_tails, "ar1": with_ar1_noise}
    for part in parts if args.only is None else [args.only]:
        if part in of_seeds:
            of_seeds[part](range(args.seeds))
        elif part == "rows":
            with_artefact_rows()
        else:
            on_real_data(args.data)


if __name__ == "__main__":
    main()
