"""`python -m plimsoll COMMAND ...`: the command line program."""

import sys

from plimsoll._command import main

sys.exit(main())
