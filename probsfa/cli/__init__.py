"""The `probsfa` command: `demo`, `impute`, `fit` and `compare`."""

from probsfa.cli._main import main as main

__all__ = ["main"]
