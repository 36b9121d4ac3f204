"""`python -m claimbook` is the command `claimbook`."""

import sys

from .cli import main

sys.exit(main())
