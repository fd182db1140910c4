"""Choosing a model: the truth found in drawn sets, and what is chosen on real records.

*Sets.* Five each of four kinds, 500 rows: two latents in six columns; three latents and a rhythm in eight;
three latents in eight, one column of which has heavy tails; two latents in six with a fifth of the cells
missing. The table has what `select_model` chooses for the first seed of the hidden cells, and how many
seeds choose the same. Its cost is counted in posterior evaluations times rows times products for a row, and
in processor seconds of programs that are compiled:

- ``work``: evaluations of the fits in its table and of the last one, in units of one `ProbabilisticSFA()`
  of the same data;
- ``all``: all evaluations, those of starts that are compared, of hidden cells and of further last fits
  among them, in the same units;
- ``seconds``: processor seconds of the least of all seeds, and ``of fit`` over those of one
  `ProbabilisticSFA()`.

With ``--others`` it has the number of smallest Bayesian information criterion, of fits with the right
number of rhythms, and what `select_n_components` chooses by the rule of two standard errors of the log
density and by its own.

*Records.* The bundled weather, ETT_h1 and the UCI air-quality record, of which a tenth of the observed cells
is hidden, one by one and in blocks of 24 rows: errors of these, in standard deviations, of the model that is
chosen without them, beside `ProbabilisticSFA()` and linear interpolation.

    python benchmarks/accuracy/selection.py [--sets N] [--seeds N] [--others] [--records NAME ...]
        [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA, select_model, select_n_components
from probsfa.datasets import hide_blocks, hide_cells
from probsfa.imputation import LinearInterpolation
from probsfa.statespace import growth
from probsfa.statespace.choice import search
from probsfa.statespace.learning.objective import CountedEStep
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import simulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import records
from common.options import read_options

KINDS = {"plain": (2, 6, 0), "rhythm": (3, 8, 1), "heavy tails": (3, 8, 0), "gaps": (2, 6, 0)}
SEEDS_OF_THE_REST = 2


def draw(kind, which, n_rows=500):
    """A series, its number of latents and of rhythms."""
    k, d, r = KINDS[kind]
    rng = np.random.default_rng([which, list(KINDS).index(kind)])
    timescales = np.array([60.0, 12.0, 4.0])[:k] * rng.uniform(0.7, 1.4, k)
    if k == 2:
        timescales[1] *= 0.4
    loadings = rng.standard_normal((d, k + 2 * r))
    period = rng.uniform(8.0, 30.0)
    params = Parameters(
        np.exp(-1.0 / timescales),
        loadings,
        rng.uniform(0.5, 2.0, d),
        rng.standard_normal(d),
        rhythm_decay=np.full(r, 0.997),
        rhythm_frequency=np.full(r, 2.0 * np.pi / period),
    )
    X = simulate(params, n_rows, rng)[0]
    if kind == "heavy tails":
        X[:, 0] += 2.0 * rng.standard_t(1.2, n_rows)
    if kind == "gaps":
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, k, r


def work(rows, states, evaluations, n_features):
    """Products of so many posteriors, about."""
    return rows * evaluations * states * (states * (states + n_features) + 400)


class Counted:
    """Counts products of posteriors: evaluations of fits, starts that are compared, hidden cells."""

    def __enter__(self):
        self.products, self.seconds = 0, time.process_time()
        self._before = CountedEStep.__call__, growth.expected_statistics, search.score
        evaluate, statistics, score = self._before

        def counted_evaluate(step, params, *arguments):
            self.add(step.panel.n_rows, params, 1)
            return evaluate(step, params, *arguments)

        def counted_statistics(params, panel, *arguments):
            self.add(panel.n_rows, params, 1)
            return statistics(params, panel, *arguments)

        def counted_score(model, sequences, part, *arguments):
            self.add(sequences.n_rows, model.fitted.params.state_space, int(part.max()))
            return score(model, sequences, part, *arguments)

        CountedEStep.__call__ = counted_evaluate
        growth.expected_statistics, search.score = counted_statistics, counted_score
        return self

    def add(self, n_rows, params, evaluations):
        """Count some posteriors."""
        self.products += work(n_rows, params.n_states, evaluations, params.n_features)

    def __exit__(self, *_):
        CountedEStep.__call__, growth.expected_statistics, search.score = self._before
        self.seconds = time.process_time() - self.seconds


def counted(function):
    """What a function returns, products of posteriors, and the processor seconds of a second call."""
    with Counted() as first:
        out = function()
    with Counted() as again:
        function()
    return out, first.products, again.seconds


def others(X, k, r):
    """Numbers of latents by other ways."""
    bic = [ProbabilisticSFA(j, rhythms=r).fit(X).bic(X) for j in range(1, k + 3)]
    numbers = [
        [
            select_n_components(X, range(1, k + 3), rhythms=r, rule=rule, random_state=seed).n_components
            for seed in range(2)
        ]
        for rule in ("two_standard_errors", "evidence")
    ]
    return f" {1 + int(np.argmin(bic)):6} {numbers[0]!s:>9} {numbers[1]!s:>12}"


def sets(n_sets, n_seeds, with_others):
    """Print the table of drawn sets."""
    heads = "      by BIC  two s.e.  select_n_components" if with_others else ""
    print(f"                 true     chosen    seeds   work    all  seconds  of fit{heads}")
    right = wrong_seeds = total = 0
    costs = []
    for kind in KINDS:
        for which in range(n_sets):
            X, k, r = draw(kind, which)
            truth = {"n_components": k, **({"rhythms": r} if r else {})}
            _, full, full_seconds = counted(lambda X=X: ProbabilisticSFA().fit(X))
            chosen, products, seconds = [], [], []
            for seed in range(n_seeds if which == 0 else SEEDS_OF_THE_REST):
                with Counted() as count:
                    chosen.append(select_model(X, random_state=seed))
                products.append(count.products)
                seconds.append(count.seconds)
            found = [each.options for each in chosen]
            table, best = chosen[0].table, chosen[0].best_estimator_
            in_table = sum(
                work(row.rows, row.n_states, row.n_evaluations + 5, X.shape[1]) for row in table.itertuples()
            ) + work(len(X), best.loadings_.shape[1], best.n_evaluations_, X.shape[1])
            costs.append((in_table / full, np.mean(products) / full))
            total += 1
            right += found[0] == truth
            same = sum(each == found[0] for each in found)
            wrong_seeds += same < len(found)
            n_rhythms = found[0].get("rhythms", 0)
            words = f"{found[0]['n_components']}" + (f" + {n_rhythms} rhythm" if n_rhythms else "")
            words += " + other" if set(found[0]) - {"n_components", "rhythms"} else ""
            true = f"{k} + {r}" if r else f"{k}"
            print(
                f"{kind:>12} {which} {true:>6} {words:>12}   {same:2} of {len(found):2} "
                + " ".join(f"{cost:6.2f}" for cost in costs[-1])
                + f"{min(seconds):9.1f}{min(seconds) / full_seconds:8.2f}"
                + (others(X, k, r) if with_others else ""),
                flush=True,
            )
    print(f"right: {right} of {total}; sets in which seeds differ: {wrong_seeds}")
    most = ", ".join(f"{most:.2f}" for most in np.max(costs, axis=0))
    print(f"largest work and all: {most}")


def real(name, X):
    """Print the rows of a record."""
    truth = X
    cells = hide_cells(truth, 0.05, random_state=1)
    blocks = hide_blocks(np.where(cells, np.nan, truth), 24, 0.05, random_state=1)
    seen = np.where(cells | blocks, np.nan, truth)
    spread = np.nanstd(truth, axis=0)

    def show(called, filled, seconds):
        errors = (filled - truth) / spread
        rmse = [np.sqrt(np.mean(errors[hidden] ** 2)) for hidden in (cells, blocks)]
        print(f"{name:>12}  {called:<52} {rmse[0]:7.3f} {rmse[1]:8.3f} {seconds:9.1f}", flush=True)

    begin = time.perf_counter()
    show("linear interpolation", LinearInterpolation().fill(seen).values, time.perf_counter() - begin)
    begin = time.perf_counter()
    default = ProbabilisticSFA().fit(seen)
    filled = default.impute(seen)
    show(f"ProbabilisticSFA(): {default.decay_.size} latents", filled, time.perf_counter() - begin)
    begin = time.perf_counter()
    chosen = select_model(seen)
    filled = chosen.best_estimator_.impute(seen)
    show(chosen.reason.partition(":")[0], filled, time.perf_counter() - begin)
    print(f"              {chosen.reason}")
    for attribute in ("rhythm_periods_",):
        if hasattr(chosen.best_estimator_, attribute):
            print(f"              {attribute} {getattr(chosen.best_estimator_, attribute).round(2).tolist()}")


def main():
    """Print both tables."""
    options = read_options(
        __doc__,
        data="etth1/, air_quality_uci/",
        sets=(5, "sets of each kind; 0 for none"),
        seeds=(10, "seeds of the first set of each kind"),
        others=(False, "other ways to choose a number, beside it"),
        records={"nargs": "*", "default": ["weather", "ETT", "air quality"]},
    )
    warnings.simplefilter("ignore")
    if options.sets:
        sets(options.sets, options.seeds, options.others)
    if options.records:
        print(f"\n{'':67} cells   blocks   seconds")
    found = records(options.data)
    for name in options.records:
        if found[name] is None:
            raise FileNotFoundError(f"{options.data} does not hold the record {name!r}")
        real(name, found[name])


if __name__ == "__main__":
    main()
