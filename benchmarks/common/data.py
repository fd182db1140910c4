"""Where programs look for data beyond the bundled sets."""

import argparse
import os
from pathlib import Path


def add_data_option(parser: argparse.ArgumentParser, holds: str) -> None:
    """Give a parser the option ``--data``; ``holds`` names the folders that must lie in that one."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("PROBSFA_DATA", "data")),
        metavar="FOLDER",
        help=f"folder that holds {holds} (default: what PROBSFA_DATA says, else ./data)",
    )
