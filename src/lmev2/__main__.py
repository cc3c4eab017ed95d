"""``python -m lmev2``: the small command line."""

import sys

from lmev2.cli import main

sys.exit(main())
