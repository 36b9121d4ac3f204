"""Notes each function of spdlib that this process calls in the file SPDLIB_FOOTPRINT, once.

Python imports it at its start from a folder on PYTHONPATH: `net.py` puts this one there. A line is
the name of a module and that of the function or method; what is defined inside counts as that.
"""

import os
import sys
import threading
from pathlib import PurePath

seen = set()
notes = open(os.environ["SPDLIB_FOOTPRINT"], "a", encoding="utf-8")  # noqa: SIM115


def note(frame, event, argument):
    code = frame.f_code
    if code not in seen:
        seen.add(code)
        path = PurePath(code.co_filename)
        if path.parent.name == "spdlib":
            print(path.stem, code.co_qualname.partition(".<locals>")[0], file=notes, flush=True)


threading.settrace(note)
sys.settrace(note)
