"""The `probsfa` command: from arguments to an exit code."""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Sequence

from probsfa.cli._checks import check_arguments
from probsfa.cli._errors import CommandError
from probsfa.cli._parser import make_parser, parse
from probsfa.cli._screen import Screen
from probsfa.cli._signals import Stopped, raise_stopped_on_signals

__all__ = ["main"]

# Parameters in messages of the package, and the corresponding options.
_OPTIONS = {"n_components": "-k", "max_iter": "--max-iter", "random_state": "--seed"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str or None
        Arguments without the name of the program; by default the arguments of the process.

    Returns
    -------
    int
        Exit code: 0 after success, 2 after an error that the user can correct, 130 after an interrupt, 143
        after termination, 141 after a broken pipe.
    """
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        make_parser().print_help()
        return 0
    args = parse(argv)
    screen = Screen(args.quiet)
    try:
        with raise_stopped_on_signals(), warnings.catch_warnings():
            check_arguments(args)
            warnings.showwarning = lambda message, *_, **__: screen.warn(str(message))
            _run(args, screen)
            sys.stdout.flush()
    except BrokenPipeError:
        # This prevents a second error when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Stopped as stopped:
        screen.error(stopped.message)
        return stopped.exit_code
    except KeyboardInterrupt:
        screen.error("interrupted; no file was written.")
        return 130
    except (CommandError, OSError) as error:
        screen.error(str(error))
        return 2
    except MemoryError:
        screen.error("there is not enough memory.")
        return 2
    except ValueError as error:  # messages of the model have names of parameters
        screen.error(re.sub("|".join(_OPTIONS), lambda name: _OPTIONS[name[0]], str(error)))
        return 2
    return 0


def _run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the selected command. Only its module is imported, because commands use different libraries."""
    if args.command == "compare":
        from probsfa.cli.compare import run
    elif args.command == "demo":
        from probsfa.cli.demo import run
    elif args.command == "fit":
        from probsfa.cli.fit import run
    else:
        from probsfa.cli.impute import run
    run(args, screen)
