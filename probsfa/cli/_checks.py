"""Checks of options and files before libraries are imported, so that errors are reported immediately."""

import argparse
import importlib.util
import os
from pathlib import Path

from probsfa.cli._errors import CommandError
from probsfa.cli._outputs import check_outputs, is_standard_stream
from probsfa.cli._parser import DEFAULT_MAX_ITER

__all__ = ["DEMO_FILES", "FIGURE_EXTENSIONS", "check_arguments"]

DEMO_FILES = ("demo.png", "nyc_weather_filled.csv", "comparison.csv")
# Formats of figures, by file extension.
FIGURE_EXTENSIONS = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".eps", ".ps")
_BINARY_TABLE_EXTENSIONS = (".xlsx", ".xls", ".ods", ".parquet", ".feather", ".pq")


def check_arguments(args: argparse.Namespace) -> None:
    """Raise an error for unreadable inputs, outputs that cannot be written, and incompatible options.

    Parameters
    ----------
    args : argparse.Namespace
        Arguments of a command.

    Raises
    ------
    CommandError
        If there is such a problem.
    """
    if args.command == "demo":
        _check_matplotlib()
        if args.output is not None and args.output.exists():
            check_outputs([args.output / name for name in DEMO_FILES], force=args.force)
        return
    if args.command == "impute":
        _check_model_options(args)
    _check_reading_options(args)
    inputs = [path for path in (args.data, getattr(args, "model", None)) if path is not None]
    for path in inputs:
        _check_input(path)
    tables = [path for path in (args.output, getattr(args, "std", None)) if path is not None]
    plot = getattr(args, "plot", None)
    check_outputs([*tables, plot] if plot is not None else tables, force=args.force, inputs=inputs)
    for path in tables:
        if args.command != "fit" and path.suffix.lower() in _BINARY_TABLE_EXTENSIONS:
            raise CommandError(f"{path}: is not a CSV file name; use an extension .csv, .csv.gz or .zip.")
    if plot is not None:
        if plot.suffix.lower() not in FIGURE_EXTENSIONS:
            raise CommandError(f"{plot}: is not a figure file name; use an extension .png, .pdf or .svg.")
        _check_matplotlib()


def _check_matplotlib() -> None:
    """Raise an error if matplotlib is not installed, before a fit that may take minutes."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("the figure requires matplotlib; install it by `pip install matplotlib`.")


def _check_input(path: Path) -> None:
    """Raise an error for an input that does not exist or cannot be read."""
    if is_standard_stream(path):
        return
    if not path.exists():
        raise CommandError(f"{path}: there is no such file.")
    if path.is_dir():
        raise CommandError(f"{path}: cannot be read (is a folder).")
    if not os.access(path, os.R_OK):
        raise CommandError(f"{path}: cannot be read (permission denied).")
    if path.suffix.lower() in _BINARY_TABLE_EXTENSIONS:
        with path.open("rb") as file:
            if b"\0" in file.read(4096):  # text tables are often also named .xls
                raise CommandError(f"{path}: is not a text file; save the table as CSV.")


def _check_model_options(args: argparse.Namespace) -> None:
    if args.model is not None and (args.n_components or args.max_iter != DEFAULT_MAX_ITER):
        raise CommandError(
            "--n-components and --max-iter cannot be given with --model, which is already fitted."
        )
    if args.budget is not None and (args.model is not None or args.n_components):
        raise CommandError("--budget chooses a model; it cannot be given with --model or --n-components.")


def _check_reading_options(args: argparse.Namespace) -> None:
    delimiter, thousands, decimal = args.delimiter, args.thousands, args.decimal
    if delimiter not in (None, "tab", "\\t") and (len(delimiter) != 1 or delimiter in '"\n\r'):
        raise CommandError(f"--delimiter must be one character or 'tab', got {delimiter!r}.")
    if delimiter is not None and delimiter == decimal:
        raise CommandError(f"--delimiter and --decimal are both {delimiter!r}.")
    if thousands is not None and (len(thousands) != 1 or thousands.isalnum() or thousands in '+-"\n\r'):
        raise CommandError(f"--thousands must be one character, such as ',' or ' ', got {thousands!r}.")
    if thousands is not None and thousands == (decimal or "."):
        raise CommandError(f"--thousands and --decimal are both {thousands!r}; use another --decimal.")
    if args.sort and args.even:
        raise CommandError("--sort requires times, which --even ignores; give one of the two options.")
    if args.date_format is not None and args.epoch is not None:
        raise CommandError("--date-format is for texts and --epoch for numbers; use one of them.")
