"""Options of the benchmarks: one parser, whose help text is the docstring of the program."""

import argparse
import os
from pathlib import Path
from typing import Any

__all__ = ["read_options"]


def read_options(docstring: str | None, *, data: str | None = None, **options: Any) -> argparse.Namespace:
    """Parse the command line of a program.

    Parameters
    ----------
    docstring : str
        Help text.
    data : str, optional
        Folders that the program reads. The program then has the option ``--data``, the folder that contains
        them.
    **options
        The default of each option by its name, or a pair of default and help. The type is that of the
        default: False is a flag, a list means several values. An option can also be a dict of arguments of
        ``add_argument``; ``positional=True`` makes an argument without dashes.
    """
    parser = argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data is not None:
        options["data"] = {
            "type": Path,
            "default": Path(os.environ.get("PROBSFA_DATA", "data")),
            "metavar": "FOLDER",
            "help": f"folder that holds {data} (default: PROBSFA_DATA, or ./data)",
        }
    for name, given in options.items():
        if not isinstance(given, dict):
            default, text = given if isinstance(given, tuple) else (given, None)
            if default is False:
                given = {"action": "store_true", "help": text}
            elif isinstance(default, list):
                given = {"type": type(default[0]), "nargs": "+", "default": default, "help": text}
            else:
                given = {"type": type(default), "default": default, "help": text}
        arguments = {key: value for key, value in given.items() if key != "positional"}
        parser.add_argument(name if given.get("positional") else f"--{name.replace('_', '-')}", **arguments)
    return parser.parse_args()
