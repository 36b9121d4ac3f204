"""Books of verified claims: contests of candidates, and the verdicts that come out of them.

A chapter imports `claim`, `require` and `table` from here. `claimbook.ledger` reads what chapters
recorded; the command line, `claimbook`, checks a book, records it, builds its site, reruns its
chapters and plants faults.
"""

from .claims import Inconclusive, VerdictDiffers, claim, require
from .ledger import ClaimError
from .show import table

# The version of what a check decides. Recorded runs of the net are keyed on it and on no other part
# of the engine, so it changes with the contest and not with what is shown.
ENGINE = "1"

__all__ = ["ENGINE", "ClaimError", "Inconclusive", "VerdictDiffers", "claim", "require", "table"]
