"""What releases cost together, what was spent, and the document that leaves."""

from .account import BudgetAccountant as BudgetAccountant
from .account import spending as spending
from .composition import Composition as Composition
from .composition import compose as compose
from .document import Release as Release
from .document import ReleasedBall as ReleasedBall
from .document import document as document
from .document import in_words as in_words
