"""The gallery: a figure and about ten lines of code for each of the main estimators.

The code of an example is printed on the page, and executed to draw the figure. Figures are written to
docs/gallery, which git ignores, and are drawn again only after a change of the code.
"""

import hashlib
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DOCS = Path(__file__).resolve().parent


class Example(NamedTuple):
    """An example of the gallery."""

    name: str  # of the file
    title: str
    text: str  # a sentence below the title
    code: str  # assigns the axes of the figure to `axes`

    @property
    def picture(self) -> str:
        """Path of the figure under docs; it depends on the code, so that an old figure is not used."""
        return f"gallery/{self.name}-{hashlib.sha256(self.code.encode()).hexdigest()[:12]}.png"


EXAMPLES = (
    Example(
        "sfa",
        "Slow feature analysis",
        "{py:class}`~probsfa.sfa.SFA` extracts the slowest outputs of a mixture. Here the mixture is "
        "nonlinear, and a quadratic expansion inverts it.",
        """import numpy as np
from probsfa import SFA, plots
from probsfa.expansions import Polynomial

t = np.linspace(0, 4 * np.pi, 1000)
slow, fast = np.sin(t), np.cos(11 * t)
X = np.column_stack([slow + fast**2, fast])
sfa = SFA(2, expansion=Polynomial(2)).fit(X)
axes = plots.plot_slow_features(sfa.transform(X), times=t)
""",
    ),
    Example(
        "imputation",
        "Missing values with prediction intervals",
        "{py:class}`~probsfa.statespace.ProbabilisticSFA` imputes missing values by a Kalman smoother. Two "
        "days of one temperature are hidden.",
        """from probsfa import ProbabilisticSFA, plots
from probsfa.datasets import load_nyc_weather

weather = load_nyc_weather().data["2013-03-01":"2013-03-14"]
observed = weather.copy()
observed.loc["2013-03-08":"2013-03-09", "temp_EWR"] = float("nan")
model = ProbabilisticSFA(4, noise="ar1").fit(observed)
filled, std = model.impute(observed, return_std=True)
before, after, std, truth = (table["temp_EWR"] for table in (observed, filled, std, weather))
axes = plots.plot_imputation(before, after, std=std, truth=truth, times=weather.index)
axes.set_ylabel("temperature at Newark (F)")
""",
    ),
    Example(
        "factors",
        "Latent factors with credible bands",
        "Posterior means and standard deviations of the slowest factors, with 30 % of the values missing.",
        """from probsfa import ProbabilisticSFA, plots
from probsfa.datasets import make_slow_mixture

mixture = make_slow_mixture(
    400, 8, timescales=[100.0, 20.0], noise_variance=1.0, missing_fraction=0.3, random_state=0
)
posterior = ProbabilisticSFA(2).fit(mixture.data).posterior(mixture.data)
axes = plots.plot_slow_features(posterior.means, posterior.std)
""",
    ),
    Example(
        "monitoring",
        "Process monitoring",
        "{py:class}`~probsfa.monitoring.ProcessMonitor` draws control charts. Limits are learned from normal "
        "rows; the last 100 rows have a fault in one column.",
        """from probsfa.datasets import make_slow_mixture
from probsfa.monitoring import ProcessMonitor

X = make_slow_mixture(1200, 5, timescales=[50.0, 10.0, 2.0], random_state=0).data
normal, new = X[:800], X[800:].copy()
new[300:, 2] += 3.0
monitor = ProcessMonitor().fit(normal)
axes = monitor.plot(new)
""",
    ),
    Example(
        "classes",
        "Features that separate classes",
        "{py:class}`~probsfa.sfa.GraphSFA` on a graph of the labels gives discriminants. The figure shows "
        "digits that were not used for training.",
        """from probsfa import GraphSFA, plots
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

X, y = load_digits(n_class=5, return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, random_state=0)
gsfa = GraphSFA(2, graph="clustered", shrinkage=0.3).fit(X, y)
axes = plots.plot_embedding(gsfa.transform(X_new), labels=y_new.astype(str))
""",
    ),
    Example(
        "clusters",
        "Spectral clustering",
        "{py:class}`~probsfa.sfa.SpectralClustering` finds clusters of any shape, and assigns new points.",
        """from probsfa import SpectralClustering, plots
from probsfa.datasets import make_half_moons

X = make_half_moons(600, noise=0.08, random_state=0).data
X_new = make_half_moons(600, noise=0.08, random_state=1).data
clusters = SpectralClustering(2, affinity="nearest_neighbors").fit(X).predict(X_new)
axes = plots.plot_embedding(X_new, labels=clusters.astype(str))
""",
    ),
    Example(
        "kernel",
        "Kernel slow feature analysis",
        "{py:class}`~probsfa.sfa.KernelSFA` finds a slow source of a nonlinear mixture without an explicit "
        "expansion.",
        """import numpy as np
from probsfa import KernelSFA, plots

t = np.linspace(0, 20 * np.pi, 1500)
slow, fast = np.sin(t / 4), np.sin(np.sqrt(7) * t)
X = np.column_stack([np.cos(3 * slow) + 0.3 * fast, np.sin(3 * slow) + 0.3 * fast**2])
features = KernelSFA(1, kernel="rbf", n_support=60, regularization=1e-3).fit_transform(X)
axes = plots.plot_slow_features(features, times=t)
""",
    ),
)


def draw(example: Example) -> bytes:
    """Run an example and return its figure as a PNG file."""
    namespace: dict[str, Any] = {}
    exec(compile(example.code, f"gallery: {example.name}", "exec"), namespace)
    file = io.BytesIO()
    np.ravel(namespace["axes"])[0].figure.savefig(file, format="png", dpi=80)
    return file.getvalue()


def pages() -> dict[str, str | bytes]:
    """Return the gallery and its figures; existing figures are not drawn again."""
    made: dict[str, str | bytes] = {}
    lines = ["# Gallery", "", "<!-- index: examples, gallery, figures -->", ""]
    lines += ["A figure and about ten lines of code for each of the main estimators. The"]
    lines += ["[tutorials](../tutorials/index.md) have longer examples, also of Bayesian models and counts."]
    lines += ["`axes[0].figure`, or `axes.figure` if there is one panel, shows the figure in a notebook.", ""]
    for example in EXAMPLES:
        path = DOCS / example.picture
        made[example.picture] = path.read_bytes() if path.exists() else draw(example)
        lines += [f"## {example.title}", "", example.text, "", f"![{example.title}]({path.name})", ""]
        lines += ["```python", example.code.rstrip(), "```", ""]
    made["gallery/index.md"] = "\n".join(lines)
    return made
