"""`probsfa compare`: ways to fill holes, compared on the user's data."""

import argparse

from probsfa._files import replacing
from probsfa.cli._comparison import compare_methods, hiders
from probsfa.cli._methods import default_methods, make_model
from probsfa.cli._outputs import check_outputs
from probsfa.cli._report import scores_as_csv, scores_as_text
from probsfa.cli._screen import Screen
from probsfa.cli.tables.input import read_input
from probsfa.cli.tables.table import write_text

__all__ = ["run"]


def run(args: argparse.Namespace, screen: Screen) -> None:
    """Run the command."""
    outputs = [] if args.output is None else [args.output]
    check_outputs(outputs, force=args.force, inputs=[args.data])
    found = read_input(args, screen)
    comparisons = compare_methods(
        found.values,
        found.clock,
        default_methods(make_model(args, len(found.names))),
        hiders(len(found.values), fraction=args.fraction, block=args.block),
        range(args.seed, args.seed + args.masks),
        screen,
    )
    screen.result(scores_as_text(comparisons))
    with replacing(*outputs) as drafts:
        for draft in drafts:
            write_text(draft, scores_as_csv(comparisons), "utf-8")
