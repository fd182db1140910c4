"""Options of the programs: one parser, whose help is the docstring of the program."""

import argparse
import os
from pathlib import Path
from typing import Any

__all__ = ["read_options"]


def read_options(docstring: str | None, *, data: str | None = None, **options: Any) -> argparse.Namespace:
    """Read the options of a program from its command line.

    Parameters
    ----------
    docstring : str
        The help.
    data : str, optional
        Folders that the program reads; it then has ``--data``, the folder that contains them.
    **options
        A default by the name of each option, or a pair of a default and its help. The type is that of the
        default; False is a flag, and a list several values. Other options are a dict of arguments of
        ``add_argument``, where ``positional=True`` makes an argument without dashes.
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
