"""`probsfa demo`: imputation of the bundled weather data."""

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa._files import replacing
from probsfa.cli._checks import DEMO_FILES
from probsfa.cli._model import make_estimator
from probsfa.cli._pictures import draw_demo, save_picture
from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.cli._screen import Screen
from probsfa.cli.compare import compare_on
from probsfa.cli.tables.content import write_content
from probsfa.datasets import load_nyc_weather
from probsfa.imputation import EstimatorImputation

__all__ = ["run"]

BLOCK_ROWS = 24
_DEFAULT_FOLDER = "probsfa-demo"


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    folder = args.output if args.output is not None else _new_folder()
    outputs = [folder / name for name in DEMO_FILES]
    weather = load_nyc_weather(drop_impossible=True)
    X = weather.data.to_numpy()
    estimator = make_estimator(args)
    screen.note(
        f"hourly weather of 2013 at three airports: {X.shape[0]} rows of {X.shape[1]} columns, "
        f"{100.0 * np.isnan(X).mean():.1f} % of the values missing"
    )
    screen.note("one impossible reading, a wind of 1048 miles per hour, is treated as missing")
    screen.note(
        "single values and blocks are hidden at the same time; each method is fitted to the remaining values"
    )
    comparisons = compare_on(X, estimator, args, screen, block=BLOCK_ROWS, at_once=True)
    screen.result(scores_as_text(comparisons))

    block_comparison = comparisons[-1]
    model = block_comparison.filled[EstimatorImputation.name].model
    figure = draw_demo(weather.data, block_comparison, model)
    # The fit did not use the hidden values, but the imputation of the missing values does.
    imputed = pd.DataFrame(np.round(model.impute(X), 4), weather.data.index, weather.data.columns)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(*outputs) as [figure_path, imputed_path, scores_path]:
        save_picture(figure, figure_path)
        write_content(imputed_path, [weather.data.fillna(imputed).to_csv(lineterminator="\n").encode()])
        write_content(scores_path, [scores_as_csv(comparisons).encode()])
    screen.result(f"Written to {folder}: {', '.join(DEMO_FILES)}")


def _new_folder() -> Path:
    """Return the default folder, with a number after its name if it exists."""
    names = itertools.chain([_DEFAULT_FOLDER], (f"{_DEFAULT_FOLDER}-{n}" for n in itertools.count(2)))
    return next(path for path in map(Path, names) if not path.exists())
