"""The `probsfa` command: from arguments to an exit code."""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from probsfa._compilation import keep_programs_of_commands
from probsfa.cli._parser import parse
from probsfa.cli._screen import Screen
from probsfa.cli._signals import Stopped, stopping

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str or None
        Arguments, without the name of the program; those of the process where not given.

    Returns
    -------
    int
        Exit code: 0; 2 for what the user can put right, which is said in one line; 130 when interrupted, 143
        when terminated; 141 when whoever read the output has gone.
    """
    args = parse(sys.argv[1:] if argv is None else argv)
    screen = Screen(args.quiet)
    keep_programs_of_commands()
    try:
        with stopping(), warnings.catch_warnings():
            # Without what was kept a program is compiled, as if there were no folder.
            warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
            warnings.showwarning = lambda message, *_, **__: screen.warn(str(message))
            importlib.import_module(f"probsfa.cli.{args.command}").run(args, screen)
            sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Stopped as stopped:
        screen.error(stopped.sentence)
        return stopped.exit_code
    except KeyboardInterrupt:
        screen.error("interrupted; nothing was written.")
        return 130
    except (ValueError, OSError, MemoryError) as error:
        screen.error(str(error) or "there is not enough memory.")
        return 2
    return 0
