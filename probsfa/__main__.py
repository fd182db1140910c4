"""`python -m probsfa`, the same as the `probsfa` command."""

import sys

from probsfa.cli import main

if __name__ == "__main__":
    sys.exit(main())
