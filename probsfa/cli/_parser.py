"""Options of the `probsfa` command. The module imports no other library, so that help is printed quickly."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from probsfa import __version__

__all__ = ["make_parser", "parse"]

# More iterations do not improve the accuracy of imputed values.
DEFAULT_MAX_ITER = 200

DESCRIPTION = (
    "Fill missing values of multivariate time series, and estimate their latent factors, with uncertainty."
)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse arguments, and raise an error for combinations that are not valid.

    Parameters
    ----------
    argv : sequence of str
        Arguments, without the name of the program.

    Returns
    -------
    argparse.Namespace
    """
    parser = make_parser()
    args = parser.parse_args(_join_missing_codes(argv))
    if args.command == "demo":
        return args
    if not args.dry_run and args.command != "compare" and args.output is None:
        parser.error("the following arguments are required: -o/--output (or --dry-run)")
    if args.json and any(str(output) == "-" for output in (args.output, getattr(args, "std", None))):
        parser.error("--json and an output of - both write to standard output; use a file for one of them")
    return args


def _join_missing_codes(argv: Sequence[str]) -> list[str]:
    """Join "--missing-code -999,-99.9" to one argument, because argparse would treat -999 as an option."""
    attached: list[str] = []
    for text in argv:
        if attached and attached[-1] == "--missing-code" and re.match(r"-[\d.]", text):
            attached[-1] += f"={text}"
        else:
            attached.append(text)
    return attached


def make_parser() -> argparse.ArgumentParser:
    """Return the parser. Its result has an attribute `command`: the name of the command and its module."""
    parser = argparse.ArgumentParser(prog="probsfa", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"probsfa {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    _add_demo(commands)
    _add_impute(commands)
    _add_fit(commands)
    _add_compare(commands)
    for command in commands.choices.values():
        command.add_argument("-q", "--quiet", action="store_true", help="only results, warnings and errors")
    return parser


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "demo",
        help="fill hidden values of bundled weather data, and compare with other methods",
        description="Hide observed values of a year of hourly weather at three airports: single values and, "
        "in the same table, blocks of 24 hours. Fill them by several methods. Write a figure, the table of "
        "errors and the filled table to a folder.",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder to write into (default: a new probsfa-demo)"
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    _add_masks(parser)
    _add_model_options(parser)


def _add_impute(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "impute",
        help="fill the missing values of a CSV file",
        description="Fill the missing values of a CSV file with the posterior means of probabilistic slow "
        "feature analysis. All other values keep their text, to the last character.",
    )
    _add_data_options(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILLED.csv", help="the filled file; - is standard output"
    )
    parser.add_argument(
        "--std",
        type=Path,
        metavar="STD.csv",
        help="standard deviations of the filled values, 0 for observed ones",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="P.png",
        help="a figure of the longest missing blocks (.png, .pdf, .svg)",
    )
    parser.add_argument(
        "--model", type=Path, metavar="MODEL.npz", help="use a model that 'probsfa fit' has saved"
    )
    parser.add_argument(
        "--budget",
        type=_seconds,
        metavar="SECONDS",
        help="select the model by errors of hidden values, within this time",
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    _add_model_options(parser)


def _add_fit(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "fit",
        help="fit a model to a CSV file and save it",
        description="Fit probabilistic slow feature analysis to a CSV file, save the model and print its "
        "time scales and noise. 'probsfa impute --model' uses the saved model.",
    )
    _add_data_options(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="MODEL.npz", help="the saved model; - is standard output"
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    _add_model_options(parser)


def _add_compare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare",
        help="compare methods of imputation on hidden values of a CSV file",
        description="Hide observed values of a CSV file, as single values and in blocks of rows, and fill "
        "them by several methods. Errors are in units of each column's standard deviation.",
    )
    _add_data_options(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="TABLE.csv",
        help="write the table as a CSV file too; - is standard output",
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument(
        "--block",
        type=_positive_integer,
        default=24,
        metavar="ROWS",
        help="rows of a hidden block (default: 24)",
    )
    _add_masks(parser)
    _add_model_options(parser)


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA.csv",
        help="delimited text, plain or compressed by gzip or zip; rows are time steps; - is standard input",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="report how the file is read, column by column; nothing is fitted or written",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="write results, and how the file was read, as JSON to standard output",
    )
    group = parser.add_argument_group("reading the file")
    group.add_argument(
        "--missing-code",
        action="append",
        default=[],
        metavar="CODE",
        help="number or text that means missing, such as -200; separate several by commas (semicolons if "
        "commas are decimal marks) or repeat the option; empty values, NA, NaN and null are always "
        "missing; '' if no number means missing, although some look like codes",
    )
    group.add_argument(
        "--columns",
        action="append",
        metavar="A,B,...",
        help="columns of data; other columns are copied unchanged",
    )
    group.add_argument("--exclude", action="append", metavar="A,B,...", help="columns that are not data")
    group.add_argument(
        "--time",
        action="append",
        metavar="A,B,...",
        help="columns that together contain the time of a row, such as date,hour; '' if no column contains "
        "times",
    )
    group.add_argument(
        "--group",
        metavar="COLUMN",
        help="column with the name of the sequence of each row, such as a station; sequences are "
        "independent, and one model is fitted to all of them",
    )
    group.add_argument(
        "--date-format", metavar="FORMAT", help="how times are written, such as '%%d.%%m.%%y %%H:%%M'"
    )
    group.add_argument(
        "--dayfirst",
        action=argparse.BooleanOptionalAction,
        help="whether the day is before the month in dates such as 01/02/2020 (default: the order with which "
        "times increase from row to row)",
    )
    group.add_argument(
        "--epoch",
        choices=["s", "ms", "us", "ns", "min", "h", "d"],
        help="times are numbers in this unit since 1970-01-01",
    )
    group.add_argument(
        "--sort", action="store_true", help="sort the rows by time; the output has the order of the file"
    )
    group.add_argument(
        "--even", action="store_true", help="treat the rows as evenly spaced, and ignore the times"
    )
    group.add_argument(
        "--delimiter", metavar="CHAR", help="character between values, 'tab' for a tab (default: inferred)"
    )
    group.add_argument("--decimal", choices=[".", ","], help="decimal mark (default: inferred)")
    group.add_argument(
        "--thousands",
        metavar="CHAR",
        help="character between groups of three digits, such as , in 1,234 (default: none)",
    )
    group.add_argument(
        "--skip-rows",
        type=_nonnegative_integer,
        default=0,
        metavar="N",
        help="lines in front of the table (default: 0)",
    )
    group.add_argument(
        "--header",
        default="auto",
        choices=["auto", "yes", "no"],
        help="whether row 1 has the names (auto: yes, unless row 1 has only numbers and dates)",
    )


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fitting the model")
    group.add_argument(
        "-k",
        "--n-components",
        type=_positive_integer,
        metavar="K",
        help="number of factors (default: selected by errors of hidden values)",
    )
    group.add_argument(
        "--max-iter",
        type=_positive_integer,
        default=DEFAULT_MAX_ITER,
        metavar="N",
        help=f"maximum number of iterations of the fit (default: {DEFAULT_MAX_ITER})",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")


def _add_masks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fraction",
        type=_fraction,
        default=0.1,
        help="share of the observed values to hide as single values, and the same share in blocks (default: "
        "0.1)",
    )
    parser.add_argument(
        "--masks",
        type=_positive_integer,
        default=1,
        metavar="N",
        help="average over N random choices of hidden values (default: 1)",
    )


def _positive_integer(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1; got {text!r}")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds; got {text!r}")
    return value


def _nonnegative_integer(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0; got {text!r}")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"must be above 0 and below 1; got {text!r}")
    return value
