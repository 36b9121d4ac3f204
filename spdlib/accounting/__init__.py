"""What releases cost together, what was spent, and the document that leaves."""

from .account import BudgetAccountant as BudgetAccountant, spending as spending
from .composition import Composition as Composition, compose as compose
from .document import (Release as Release, ReleasedBall as ReleasedBall, document as document,
                       in_words as in_words, released_ball as released_ball)
